/* What a net puts out, as plain numbers: all elements of all outputs in order. Not collective. */
#ifndef POSEIDON_REPORT_OUTPUTS_H
#define POSEIDON_REPORT_OUTPUTS_H

#include "net/net.h"
#include "util/json.h"
#include "util/log.h"

/* How many numbers that is. */
size_t outputs_count(const struct net *net);

/* Copies them out of the net's blobs; values: outputs_count(net) of them. */
int outputs_read(const struct net *net, double *values);

/* What ranks and grains give of their parts of a batch, so that the means over these, taken number
 * by number, become the outputs of all samples by outputs_join: an accuracy with an ignore_label is
 * multiplied by how many labels count there, and those numbers stand behind all outputs. */
size_t outputs_count_parts(const struct net *net);
int outputs_read_part(struct net *net, double *values);
void outputs_join(const struct net *net, double *values);

/* The output that number k of them is of. */
const struct net_output *outputs_at(const struct net *net, size_t k);

/* Caffe's lines: "    Train net output #0: loss = 2.3 (* 1 = 2.3 loss)". which: "Train", "Test";
 * NULL: as its tool `test` has them, "loss = 2.3 (* 1 = 2.3 loss)". */
void outputs_log(struct log *log, const char *which, const struct net *net, const double *values);

/* A JSON object with the outputs by name: a number each, or an array where an output has several
 * elements. values NULL: an empty object. */
void outputs_put_json(struct json *json, const char *key, const struct net *net,
                      const double *values);

#endif
