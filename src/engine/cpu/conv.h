/* What the files of the CPU engine's convolution share: how oneDNN is asked for one. */
#ifndef POSEIDON_ENGINE_CPU_CONV_H
#define POSEIDON_ENGINE_CPU_CONV_H

#include "engine/cpu/cpu_internal.h"
#include "engine/cpu/winograd.h"

enum conv_pass { CONV_FORWARD, CONV_BACKWARD_DATA, CONV_BACKWARD_WEIGHTS, CONV_PASSES };

/* By which code; the numbers stand in the file of choices. */
enum conv_way {
    CONV_DIRECT,
    CONV_WINOGRAD, /* oneDNN's */
    CONV_OWN,      /* winograd.h */
    CONV_WAYS
};

/* What the three primitives are asked for, and what oneDNN makes of it. */
struct conv_descs {
    md_t src, weights, bias, dst; /* src, dst: of one tag; weights: any */
    md_t plain_weights;
    struct compat_window window;
    dnnl_primitive_desc_t forward, backward_data, backward_weights; /* NULL where not needed */
    bool for_own; /* in formats that are our own Winograd's alone: the shape decides */
    enum conv_way way[CONV_PASSES];
    struct winograd own[CONV_PASSES]; /* of passes that go that way */
    int parts[CONV_PASSES];           /* 1, or runs of the primitive, one for each group */
    int slices[CONV_PASSES]; /* 1, or runs of the primitive, each for as many of the images */
    md_t part_weights;       /* plain, of one group, where a pass has several parts; else NULL */
    /* formats that they chose */
    const struct cpu_format *src_format, *dst_format;           /* forward */
    const struct cpu_format *data_src_format, *data_dst_format; /* backward, data */
    const struct cpu_format *weights_src_format, *weights_dst_format;
};

/* The formats that suit the shape best, each pass by the algorithm that engine_options.convolution
 * says. d must be destroyed in any case. */
int conv_descs_choose(const struct cpu_op *op, struct conv_descs *d);
void conv_descs_destroy(struct conv_descs *d);
/* Direct, for activations of that tag. Fails where oneDNN has no such convolution or an unknown
 * format comes out. d must be destroyed in any case. */
int conv_descs_create(const struct cpu_op *op, dnnl_format_tag_t tag, struct conv_descs *d);

static inline const_md_t conv_desc_md(const_dnnl_primitive_desc_t desc, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(desc, what, 0);
}

/* conv_part.c: one group's part of a tensor, all images of it side by side. */
struct conv_part {
    int64_t images;
    size_t floats; /* of one image */
};

/* Of a tensor of that shape, whose channels fill whole blocks in each of `count` parts. */
struct conv_part conv_part_of(const struct shape *shape, int count);
/* Copies part `which` of `count` out of the tensor, or into it. */
void conv_part_load(const struct conv_part *p, int count, int which, const float *whole, float *to);
void conv_part_store(const struct conv_part *p, int count, int which, const float *part, float *to);

/* One group of an op, or some of its images, as an op of its own, for those who ask for primitives.
 * Do not move it. */
struct conv_part_op {
    struct cpu_op op;
    struct blob bottom, top;
    struct blob *bottoms[1], *tops[1];
};

/* out: the direct algorithm for one group of op, or for one of several equal slices of the images
 * of an op without groups, in the formats of d; all NULL where a group has no whole blocks, or a
 * slice no whole images. To be destroyed. */
void conv_part_descs(const struct cpu_op *op, const struct conv_descs *d, struct conv_part_op *part,
                     struct conv_descs *out);
void conv_slice_descs(const struct cpu_op *op, const struct conv_descs *d, int slices,
                      struct conv_part_op *part, struct conv_descs *out);

/* conv_winograd.c: replaces the direct algorithm by Winograd's, oneDNN's or our own, in passes
 * where that is wanted; the formats of activations stay. */
int conv_winograd_choose(const struct cpu_op *op, struct conv_descs *d);

#endif
