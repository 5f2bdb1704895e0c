/* What the files of the CPU engine's convolution share: by which code its passes go. */
#ifndef POSEIDON_ENGINE_CPU_CONV_H
#define POSEIDON_ENGINE_CPU_CONV_H

#include "engine/cpu/channel.h"
#include "engine/cpu/product.h"
#include "engine/cpu/winograd.h"

enum conv_pass { CONV_FORWARD, CONV_DATA, CONV_WEIGHTS, CONV_PASSES };

/* Most slices of the images (struct conv_plan). */
enum { CONV_SLICES = 8 };

/* Formats of activations. */
struct conv_formats {
    const struct cpu_format *src, *dst;
};

/* All passes by oneDNN's primitives, or all by our own Winograd. */
struct conv_plan {
    struct conv_formats formats[CONV_PASSES];
    bool own;
    struct winograd winograd[CONV_PASSES];   /* where own */
    dnnl_primitive_desc_t desc[CONV_PASSES]; /* else; NULL where a pass is not needed */
    /* Into how many slices a pass cuts the images, each computed by one thread; desc is of one
     * slice. 0: all images by one primitive and all threads. Each slice has a gradient of the
     * weights of its own, and a tree adds up these gradients: 1, 2, 4 or CONV_SLICES. */
    int slices[CONV_PASSES];
    bool products;      /* conv_product_takes says which passes */
    bool padded;        /* forward's primitive takes the bottom with its padding around it, plain */
    md_t plain_weights; /* as they travel */
};

/* Whether the op computes that pass at all. */
bool conv_needs(const struct cpu_op *op, enum conv_pass pass);
/* Whether its operands are bfloat16. */
bool conv_rounds(const struct cpu_op *op);
/* The bottom's shape with its padding around it. */
struct shape conv_padded_shape(const struct cpu_op *op);
/* What a primitive of oneDNN's wants of an argument, DNNL_ARG_...; borrowed. */
static inline const_md_t conv_desc_md(const_dnnl_primitive_desc_t desc, int arg)
{
    return dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg);
}

/* The plan of the best formats for the shape. To be destroyed in any case. */
int conv_plan_create(const struct cpu_op *op, struct conv_plan *out);
void conv_plan_destroy(struct conv_plan *plan);

/* conv_winograd.c: whether it goes by our own Winograd: where engine_options.convolution asks for
 * that and it can, or by the rule. Fills out->own, winograd and formats; nothing to destroy. */
bool conv_winograd_plan(const struct cpu_op *op, struct conv_plan *out);

/* conv_product.c: a window of one pixel, of which passes are matrix products of bfloat16. */
struct conv_product {
    struct cpu_op *op; /* of the convolution; NULL: no pass is */
    struct op_product size;
    struct product pass[CONV_PASSES];
    struct cpu_channels channels; /* of the top; where there are biases */
    double *sums;
};

/* Whether the convolution has such passes, by the formats of the plan; whether that pass is one. */
bool conv_product_fits(const struct cpu_op *op, const struct conv_plan *plan);
bool conv_product_takes(const struct conv_plan *plan, const struct cpu_op *op, enum conv_pass pass);
/* Adds a pass. Freed by the op's owner, and not moved before. */
int conv_product_create(struct cpu_op *op, enum conv_pass pass, struct conv_product *out);
/* The passes, on channels last. dy of the second: in bfloat16, as dy_rounded. The gradients of
 * weights and biases are made, not added. */
int conv_product_forward(struct conv_product *p, const float *x, const float *bias, float *y);
int conv_product_data(struct conv_product *p, const void *dy, float *dx);
int conv_product_weights(struct conv_product *p, const float *x, const float *dy,
                         const void *dy_rounded, float *weight, float *bias);

#endif
