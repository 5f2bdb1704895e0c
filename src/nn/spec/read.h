/* Reads Caffe's net and solver files of any age into today's form. */
#ifndef POSEIDON_SPEC_READ_H
#define POSEIDON_SPEC_READ_H

#include "spec/caffe.pb-c.h"
#include "spec/override.h"
#include "spec/text.h"

#include <stdbool.h>

/* Reads and upgrades a net from a text or a binary model (.caffemodel); text_notices(*out) tells
 * what was old. spec_net(*out) returns the net. check_type and drop_idle: see text_read_file_of. */
int spec_read_net_of(const char *path, text_check_type *check_type, bool drop_idle,
                     struct text_doc **out);
Caffe__NetParameter *spec_net(const struct text_doc *doc);

/* Fails if a layer lacks its required settings: some writers of binary models keep only names,
 * types and weights. */
int spec_check_settings(const struct text_doc *doc);

/* Completes the solver's snapshot_prefix: if unset, to `path` without its extension, as in Caffe;
 * if a folder, to the name of `path` without its extension inside the folder. */
int spec_complete_prefix(Caffe__SolverParameter *solver, const char *path);

/* Reads a solver, applies `overrides`, upgrades it with its nets, completes snapshot_prefix. */
int spec_read_solver_with(const char *path, const struct spec_overrides *overrides,
                          struct text_doc **out);
Caffe__SolverParameter *spec_solver(const struct text_doc *doc);

/* Decides if a file is a solver, not a net. Counts the outermost field names that only one of the
 * two messages has, as far as the text can be scanned. Fails if the file cannot be read. */
int spec_is_solver(const char *path, bool *solver);

/* Called after a text could not be read as a solver, or as a net. If the text is of the opposite
 * kind, replaces the error, which would list unknown fields. Returns -1. */
int spec_kind_error(const char *path, bool wants_solver);

/* Finds a file named in a spec: `path` as it is (relative to the current folder) if it exists, else
 * beside the spec's file, relative_to_file (may be NULL). The caller frees *out. If neither path
 * exists, the message has both, or the current folder if they are equal. */
int spec_find_file(const char *path, const char *relative_to_file, char **out);

#endif
