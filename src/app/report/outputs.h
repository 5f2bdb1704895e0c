/* A net's outputs as plain numbers: all elements of all outputs in order. Not collective. */
#ifndef POSEIDON_REPORT_OUTPUTS_H
#define POSEIDON_REPORT_OUTPUTS_H

#include "net/net.h"
#include "util/json.h"
#include "util/log.h"

/* Returns the number of elements of all outputs. */
size_t outputs_count(const struct net *net);

/* Copies the outputs from the net's blobs. values: outputs_count(net) numbers. */
int outputs_read(const struct net *net, double *values);

/* Read a part of a batch's outputs, for ranks and grains, and join parts: outputs_join turns the
 * parts' means, taken number by number, into the outputs of all samples. So an accuracy with an
 * ignore_label is multiplied by the part's count of scored labels; the counts follow all outputs.
 */
size_t outputs_count_parts(const struct net *net);
int outputs_read_part(struct net *net, double *values);
void outputs_join(const struct net *net, double *values);

/* Returns the output that has number k. */
const struct net_output *outputs_at(const struct net *net, size_t k);

/* Logs Caffe's lines: "    Train net output #0: loss = 2.3 (* 1 = 2.3 loss)". which: "Train",
 * "Test"; NULL: lines of Caffe's tool `test`, "loss = 2.3 (* 1 = 2.3 loss)". */
void outputs_log(struct log *log, const char *which, const struct net *net, const double *values);

/* Writes a JSON object with the outputs by name: a number, or an array for an output of several
 * elements. values NULL: an empty object. */
void outputs_put_json(struct json *json, const char *key, const struct net *net,
                      const double *values);

#endif
