/* What the files of the CPU engine's convolution share: how oneDNN is asked for one. */
#ifndef POSEIDON_ENGINE_CPU_CONV_H
#define POSEIDON_ENGINE_CPU_CONV_H

#include "engine/cpu/cpu_internal.h"

enum conv_pass { CONV_FORWARD, CONV_BACKWARD_DATA, CONV_BACKWARD_WEIGHTS, CONV_PASSES };

/* What the three primitives are asked for, and what oneDNN makes of it. */
struct conv_descs {
    md_t src, weights, bias, dst; /* src, dst: of one tag; weights: any */
    md_t plain_weights;
    struct compat_window window;
    dnnl_primitive_desc_t forward, backward_data, backward_weights; /* NULL where not needed */
    bool winograd[CONV_PASSES];
    /* formats that they chose */
    const struct cpu_format *src_format, *dst_format;           /* forward */
    const struct cpu_format *data_src_format, *data_dst_format; /* backward, data */
    const struct cpu_format *weights_src_format, *weights_dst_format;
};

/* The formats that suit the shape best, each pass by the algorithm that engine_options.convolution
 * says. d must be destroyed in any case. */
int conv_descs_choose(const struct cpu_op *op, struct conv_descs *d);
void conv_descs_destroy(struct conv_descs *d);

static inline const_md_t conv_desc_md(const_dnnl_primitive_desc_t desc, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(desc, what, 0);
}

/* conv_winograd.c: replaces the direct algorithm by Winograd's in passes where that is wanted; the
 * formats of activations stay. */
int conv_winograd_choose(const struct cpu_op *op, struct conv_descs *d);

#endif
