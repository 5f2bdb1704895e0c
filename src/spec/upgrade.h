/* Brings nets and solvers written for older releases of Caffe into today's form.
 *
 * Works on messages, so that text files and binary models share it. Nets went through three forms:
 * V0 (`layers { layer { type: "conv" } }`), V1 (`layers { type: CONVOLUTION }`), and today's
 * (`layer { type: "Convolution" }`). */
#ifndef POSEIDON_SPEC_UPGRADE_H
#define POSEIDON_SPEC_UPGRADE_H

#include "spec/caffe.pb-c.h"
#include "spec/text.h"

/* In turn: V0 to V1, data settings to transform_param, V1 to today's form, net-level inputs to an
 * Input layer, BatchNorm's parameters kept from learning, ceil_mode to round_mode. Nothing changes
 * where nothing is old. `doc` is the document that holds the net: new layers get
 * the line numbers of the old ones there, and remarks on what was done are added to its notices.
 * Fails on a net that mixes forms or has a type that nobody knows; the net is then only good for
 * freeing. */
int upgrade_net(Caffe__NetParameter *net, struct text_doc *doc);

/* Writes what upgrade_net said of a net-level input that it left out for want of a size, without a
 * newline; leaves `out` alone where it left none of that name out. doc may be NULL. */
void upgrade_find_left_out(const struct text_doc *doc, const char *input, char *out, size_t bytes);

/* solver_type to type; then all nets inside the solver. */
int upgrade_solver(Caffe__SolverParameter *solver, struct text_doc *doc);

#endif
