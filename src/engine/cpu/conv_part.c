/* A part of a convolution as a convolution of its own: one group, for algorithms of oneDNN that
 * know no groups, or some of the images, for those that take much memory for many.
 *
 * In formats with blocks of channels, the channels of a group lie together in every image where
 * they fill whole blocks. They are copied side by side for all images, for oneDNN wants tensors
 * without gaps: little beside 3 x 3 products of them. */
#include "engine/cpu/conv.h"

#include <string.h>

struct conv_part conv_part_of(const struct shape *shape, int count)
{
    return (struct conv_part){.images = shape->dim[0],
                              .floats = shape_elems(shape) / (size_t)shape->dim[0] / (size_t)count};
}

void conv_part_load(const struct conv_part *p, int count, int which, const float *whole, float *to)
{
#pragma omp parallel for
    for (int64_t n = 0; n < p->images; n++)
        memcpy(to + (size_t)n * p->floats, whole + (size_t)(n * count + which) * p->floats,
               p->floats * sizeof *to);
}

void conv_part_store(const struct conv_part *p, int count, int which, const float *part, float *to)
{
#pragma omp parallel for
    for (int64_t n = 0; n < p->images; n++)
        memcpy(to + (size_t)(n * count + which) * p->floats, part + (size_t)n * p->floats,
               p->floats * sizeof *to);
}

/* Whether every pass has its activations in one and the same format. */
static bool formats_agree(const struct conv_descs *d)
{
    const struct cpu_format *src = d->src_format;

    return src && d->dst_format == src &&
           (!d->backward_data || (d->data_src_format == src && d->data_dst_format == src)) &&
           (!d->backward_weights || (d->weights_src_format == src && d->weights_dst_format == src));
}

/* Whether that has whole blocks of one group's channels on both sides. */
static bool groups_are_whole(const struct cpu_op *op, const struct cpu_format *format)
{
    int64_t group = op->args.u.conv.group;

    return format->block && op->args.bottoms[0]->value.shape.dim[1] / group % format->block == 0 &&
           op->args.tops[0]->value.shape.dim[1] / group % format->block == 0;
}

/* The op with its sizes along that axis of bottom and top divided. */
static void part_make(const struct cpu_op *op, int axis, int count, struct conv_part_op *part)
{
    *part = (struct conv_part_op){.op = *op};
    part->bottom.value = op->args.bottoms[0]->value;
    part->top.value = op->args.tops[0]->value;
    part->bottom.value.shape.dim[axis] /= count;
    part->top.value.shape.dim[axis] /= count;
    part->bottoms[0] = &part->bottom;
    part->tops[0] = &part->top;
    part->op.args.bottoms = part->bottoms;
    part->op.args.tops = part->tops;
}

static void part_descs(const struct conv_part_op *part, const struct conv_descs *d,
                       struct conv_descs *out)
{
    if (conv_descs_create(&part->op, d->src_format->tag, out)) { /* then there is no choice */
        conv_descs_destroy(out);
        *out = (struct conv_descs){0};
    }
}

void conv_part_descs(const struct cpu_op *op, const struct conv_descs *d, struct conv_part_op *part,
                     struct conv_descs *out)
{
    *out = (struct conv_descs){0};
    if (!formats_agree(d) || !groups_are_whole(op, d->src_format))
        return;
    part_make(op, 1, op->args.u.conv.group, part);
    part->op.args.u.conv.group = 1;
    part_descs(part, d, out);
}

void conv_slice_descs(const struct cpu_op *op, const struct conv_descs *d, int slices,
                      struct conv_part_op *part, struct conv_descs *out)
{
    *out = (struct conv_descs){0};
    if (!formats_agree(d) || op->args.bottoms[0]->value.shape.dim[0] % slices != 0)
        return;
    part_make(op, 0, slices, part);
    part_descs(part, d, out);
}
