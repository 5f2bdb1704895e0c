/* Between the walk over a net (export.c) and what each operator becomes (operators.c). */
#ifndef POSEIDON_EXPORT_EXPORT_INTERNAL_H
#define POSEIDON_EXPORT_EXPORT_INTERNAL_H

#include "export/export.h"

/* A layer on its way into the graph. */
struct emission {
    struct onnx *graph;
    const struct net *net;
    const struct layer *layer;
    struct op_args args;
    const struct shape *in, *out; /* of bottom 0 and top 0; those that there are */
    const char *x;                /* the value of bottom 0 */
    const char **values;          /* of the net's blobs, by number; NULL: it has none */
};

/* The value that the blob has by now. */
const char *emission_value(const struct emission *e, const struct blob *blob);

/* What the value of a top is to be called. */
const char *emission_top_name(const struct emission *e, int top);

/* The value becomes that of a top, under its name. Returns 0. */
int emission_give(struct emission *e, int top, const char *value);

/* The same without a node: the top is another value. Returns 0. */
int emission_alias(struct emission *e, int top, const char *value);

/* A parameter, under "LAYER.NAME". */
const char *emission_param(const struct emission *e, int param, const char *name);

/* Puts the operator into the graph. Fails where ONNX cannot say it. */
int operator_emit(struct emission *e);

#endif
