/* One of an inner product's three matrix products, and the ways to compute it.
 *
 * c = a b: forward, y = x w' + bias; the bottom's gradient, dx = dy w; the weights' gradient,
 * dw = dy' x (of transposed weights x' dy). All are plain memory, row after row. */
#ifndef POSEIDON_ENGINE_CPU_PRODUCT_H
#define POSEIDON_ENGINE_CPU_PRODUCT_H

#include "engine/cpu/cpu_internal.h"

enum product_pass { PRODUCT_FORWARD, PRODUCT_DATA, PRODUCT_WEIGHTS, PRODUCT_PASSES };

enum product_way {
    PRODUCT_SGEMM,  /* oneDNN's sgemm */
    PRODUCT_MATMUL, /* oneDNN's matmul, where that is another code */
    PRODUCT_STREAM, /* stream.c */
    PRODUCT_WAYS,
    PRODUCT_BY_SHAPE = PRODUCT_WAYS /* the one that is fastest for the shape */
};

/* What the product is; filled by the caller. */
struct product_args {
    enum product_pass pass;
    struct op_product size;
    bool transpose, bias; /* as inner_product_args has them; bias: of PRODUCT_FORWARD alone */
};

struct product {
    struct cpu_engine *engine;
    struct product_args args;
    int64_t m, n, k; /* c is m x n, and k is summed over */
    bool trans_a, trans_b;
    enum product_way way;
    struct cpu_primitive matmul; /* empty where the way is another */
};

/* By that way, or by sgemm where the processor, the library or the product has it not. Set-up only.
 * Freed by the owner, and not moved before. */
int product_create(struct cpu_engine *engine, struct owner *owner, const struct product_args *args,
                   enum product_way way, struct product *out);

/* The same of two operands in bfloat16, for product_run_rounded alone; the caller has room for
 * both.
 */
int product_create_rounded(struct cpu_engine *engine, struct owner *owner,
                           const struct product_args *args, struct product *out);
int product_run_rounded(struct product *p, const void *a, const void *b, const float *bias,
                        bool add, float *c);

/* a, b and c as above. add: to what c holds, which is sgemm's work whatever the way; not of
 * PRODUCT_FORWARD. bias: NULL where there is none. */
int product_run(struct product *product, const float *a, const float *b, const float *bias,
                bool add, float *c);

/* "matmul", ... */
const char *product_way_name(enum product_way way);

#endif
