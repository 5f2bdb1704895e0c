/* One of an inner product's three matrix products, and the ways to compute it.
 *
 * Each is c = a b in plain row-major memory: forward, y = x w' + bias; the bottom's gradient, dx =
 * dy w; the weights' gradient, dw = dy' x (x' dy for transposed weights). */
#ifndef POSEIDON_ENGINE_CPU_PRODUCT_H
#define POSEIDON_ENGINE_CPU_PRODUCT_H

#include "engine/cpu/cpu_internal.h"

enum product_pass { PRODUCT_FORWARD, PRODUCT_DATA, PRODUCT_WEIGHTS, PRODUCT_PASSES };

enum product_way {
    PRODUCT_SGEMM,  /* oneDNN's sgemm */
    PRODUCT_MATMUL, /* oneDNN's matmul, where its code is not sgemm's */
    PRODUCT_STREAM, /* stream.c */
    PRODUCT_WAYS,
    PRODUCT_BY_SHAPE = PRODUCT_WAYS /* the fastest way for the shape */
};

/* Description of a product, filled by the caller. */
struct product_args {
    enum product_pass pass;
    struct op_product size;
    bool transpose, bias; /* see inner_product_args; bias: for PRODUCT_FORWARD alone */
    bool half;            /* c is bfloat16; for product_create_rounded alone */
};

struct product {
    struct cpu_engine *engine;
    struct product_args args;
    int64_t m, n, k; /* c is m x n; k is the length of the inner sum */
    bool trans_a, trans_b;
    enum product_way way;
    bool rounds;                 /* matmul's operands are bfloat16 */
    struct cpu_primitive matmul; /* empty unless way is PRODUCT_MATMUL */
    struct cpu_primitive adds;   /* matmul of bfloat16 that adds to c; for PRODUCT_WEIGHTS */
};

/* Creates a product that `way` computes, or sgemm where processor, library or product rule out
 * `way`. Set-up only. The owner frees it through a pointer to *out, so *out must not move. */
int product_create(struct cpu_engine *engine, struct owner *owner, const struct product_args *args,
                   enum product_way way, struct product *out);

/* Creates a product of two bfloat16 operands, for product_run_rounded alone, without adding. The
 * caller provides memory for both operands. */
int product_create_rounded(struct cpu_engine *engine, struct owner *owner,
                           const struct product_args *args, struct product *out);
int product_run_rounded(struct product *p, const void *a, const void *b, const float *bias,
                        bool add, void *c);

/* Computes c = a b. add: adds to c; a product of floats then uses sgemm; not for PRODUCT_FORWARD.
 * bias: NULL: none. */
int product_run(struct product *product, const float *a, const float *b, const float *bias,
                bool add, float *c);

/* Returns the way's name, such as "matmul". */
const char *product_way_name(enum product_way way);

#endif
