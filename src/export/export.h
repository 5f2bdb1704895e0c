/* A net as a file of ONNX: what the layers of its TEST phase compute, with its weights.
 *
 * Which operators of the engine there are, and how ONNX says each, stands in one table
 * (operators.c). Layers of data become inputs, and losses end: a softmax loss as a softmax. */
#ifndef POSEIDON_EXPORT_EXPORT_H
#define POSEIDON_EXPORT_EXPORT_H

#include "export/onnx.h"
#include "net/net.h"

struct export_options {
    bool preprocess;       /* inputs are pixels: what data layers do to them comes in front */
    bool fixed_batch;      /* inputs have the net's batch; else any where all layers allow it */
    const char *base_file; /* mean files that do not exist are tried beside this file */
};

/* Composes the graph of a TEST net whose parameters are there (net_hold). It borrows their values.
 * Fails at the first layer that ONNX cannot say, "FILE:LINE: layer 'NAME' (TYPE): ...". To be freed
 * in either case: onnx_free. */
int export_net(const struct net *net, const struct export_options *options, struct onnx *out);

#endif
