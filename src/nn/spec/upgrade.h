/* Brings nets and solvers of older releases of Caffe into today's form.
 *
 * Works on messages, for text files and binary models alike. Nets went through three forms: V0
 * (`layers { layer { type: "conv" } }`), V1 (`layers { type: CONVOLUTION }`), and today's (`layer {
 * type: "Convolution" }`). */
#ifndef POSEIDON_SPEC_UPGRADE_H
#define POSEIDON_SPEC_UPGRADE_H

#include "spec/caffe.pb-c.h"
#include "spec/text.h"

/* Upgrades a net, in this order: V0 to V1, data settings to transform_param, V1 to today's form,
 * net-level inputs to an Input layer, BatchNorm's parameters kept from learning, ceil_mode to
 * round_mode. A net without old parts stays unchanged. doc: the document that holds the net; new
 * layers get the line numbers of the old ones, and its notices tell what was done. Fails on a net
 * that mixes forms or has an unknown type; such a net can only be freed afterwards. */
int upgrade_net(Caffe__NetParameter *net, struct text_doc *doc);

/* Copies upgrade_net's notice on a net-level input that was left out for lack of a size, without a
 * newline. Leaves `out` unchanged if no such input was left out. doc may be NULL. */
void upgrade_find_left_out(const struct text_doc *doc, const char *input, char *out, size_t bytes);

/* Upgrades solver_type to type, then all nets inside the solver. */
int upgrade_solver(Caffe__SolverParameter *solver, struct text_doc *doc);

#endif
