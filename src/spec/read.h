/* Reads Caffe's net and solver files of any age into today's form. */
#ifndef POSEIDON_SPEC_READ_H
#define POSEIDON_SPEC_READ_H

#include "spec/caffe.pb-c.h"
#include "spec/override.h"
#include "spec/text.h"

#include <stdbool.h>

/* Reads a net, from a text or out of a binary model (.caffemodel), and upgrades it;
 * text_notices(*out) says what was old. The net is (Caffe__NetParameter *)text_root(*out); spec_net
 * is the same with the cast. check_type and drop_idle as for text_read_file_of. */
int spec_read_net_of(const char *path, text_check_type *check_type, bool drop_idle,
                     struct text_doc **out);
Caffe__NetParameter *spec_net(const struct text_doc *doc);

/* Fails where a layer lacks the settings that make it one: some writers of binary models keep
 * names, types and weights alone. */
int spec_check_settings(const struct text_doc *doc);

/* Completes snapshot_prefix for the solver of that file: unset, it is the path without its
 * extension, as in Caffe; a folder, that name inside the folder. */
int spec_complete_prefix(Caffe__SolverParameter *solver, const char *path);

/* Reads a solver, upgrades it and the nets inside it, and completes its snapshot_prefix.
 * overrides: what the command line says instead of the file's fields. */
int spec_read_solver_with(const char *path, const struct spec_overrides *overrides,
                          struct text_doc **out);
Caffe__SolverParameter *spec_solver(const struct text_doc *doc);

/* Whether the file is a solver and not a net, by the names of the fields on its outermost level:
 * those that only one of the two has are counted, and of unknown ones none. Text that cannot be
 * scanned counts as far as it goes. Fails when the file cannot be read. */
int spec_is_solver(const char *path, bool *is);

/* For a text that could not be read as a solver, or as a net: where it is the other of the two,
 * says so instead of the message that is set, which would list its fields as unknown. Returns -1.
 */
int spec_kind_error(const char *path, bool wants_solver);

/* Finds a file that a spec names: the path as it is (relative to the current folder) if it exists,
 * else the same path beside the spec's file, relative_to_file (may be NULL). The caller frees *out.
 * If neither path exists, the message has both, or the current folder if they are one. */
int spec_find_file(const char *path, const char *relative_to_file, char **out);

#endif
