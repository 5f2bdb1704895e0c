/* The plan of a convolution, shared by conv*.c: which code computes each pass, in which formats. */
#ifndef POSEIDON_ENGINE_CPU_CONV_H
#define POSEIDON_ENGINE_CPU_CONV_H

#include "engine/cpu/channel.h"
#include "engine/cpu/product.h"
#include "engine/cpu/winograd.h"

enum conv_pass { CONV_FORWARD, CONV_DATA, CONV_WEIGHTS, CONV_PASSES };

/* Largest number of slices of the images (struct conv_plan). */
enum { CONV_SLICES = 8 };

/* Formats of a pass's bottom (src) and top (dst). */
struct conv_formats {
    const struct cpu_format *src, *dst;
};

/* Code of all passes: oneDNN's primitives, or our own Winograd. */
struct conv_plan {
    struct conv_formats formats[CONV_PASSES];
    bool by_winograd;
    struct winograd winograd[CONV_PASSES];   /* plans, if by_winograd */
    dnnl_primitive_desc_t desc[CONV_PASSES]; /* oneDNN's; NULL: no such pass */
    /* Number of slices into which a pass cuts the images. One thread computes a slice, and desc is
     * for one slice. 0: one primitive computes all images with all threads. Each slice makes its
     * own gradient of weights, and a tree adds up these gradients: 1, 2, 4 or CONV_SLICES. */
    int slices[CONV_PASSES];
    bool products;      /* matrix products compute some passes (conv_product_takes) */
    bool padded;        /* forward's primitive takes a plain copy of the bottom with its padding */
    md_t plain_weights; /* plain layout, in which weights travel */
};

/* Returns true if the op computes the pass. */
bool conv_needs(const struct cpu_op *op, enum conv_pass pass);
/* Returns true if the convolution multiplies bfloat16 operands. */
bool conv_rounds(const struct cpu_op *op);
/* Returns the bottom's shape including its padding. */
struct shape conv_padded_shape(const struct cpu_op *op);
/* Returns the layout that oneDNN's primitive wants for argument DNNL_ARG_...; borrowed. */
static inline const_md_t conv_desc_md(const_dnnl_primitive_desc_t desc, int arg)
{
    return dnnl_primitive_desc_query_md(desc, dnnl_query_exec_arg_md, arg);
}

/* Plans the fastest code and formats for the shape. Destroy *out in any case. */
int conv_plan_create(const struct cpu_op *op, struct conv_plan *out);
void conv_plan_destroy(struct conv_plan *plan);

/* Returns true if our own Winograd computes the convolution (conv_winograd.c): by the rule, or if
 * engine_options.convolution asks for it. Fills out->by_winograd, winograd, formats; nothing to
 * destroy. */
bool conv_winograd_plan(const struct cpu_op *op, struct conv_plan *out);

/* Passes of a convolution with a 1-pixel window as products of bfloat16 (conv_product.c). */
struct conv_product {
    struct cpu_op *op; /* the convolution; NULL: no pass is a product */
    struct op_product size;
    struct product pass[CONV_PASSES];
    struct cpu_channels channels; /* channels of the top, where there are biases */
    double *sums;
};

/* Return true if the plan's formats allow passes as products, and if `pass` is such a pass. */
bool conv_product_fits(const struct cpu_op *op, const struct conv_plan *plan);
bool conv_product_takes(const struct conv_plan *plan, const struct cpu_op *op, enum conv_pass pass);
/* Adds a pass. The op's owner frees it through a pointer to *out, so *out must not move. */
int conv_product_create(struct cpu_op *op, enum conv_pass pass, struct conv_product *out);
/* Compute the passes, with channels last; activations are bfloat16. Gradients of weights and biases
 * are written, not added. */
int conv_product_forward(struct conv_product *p, const void *x, const float *bias, void *y);
int conv_product_data(struct conv_product *p, const void *dy, void *dx);
int conv_product_weights(struct conv_product *p, const void *x, const void *dy, float *weight,
                         float *bias);

#endif
