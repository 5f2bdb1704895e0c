/* One group of a convolution as a convolution of its own: for algorithms of oneDNN that know no
 * groups.
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

/* Whether every pass has whole blocks of one group's channels on both sides. */
static bool parts_are_whole(const struct cpu_op *op, const struct conv_descs *d)
{
    const struct cpu_format *src = d->src_format, *dst = d->dst_format;
    int64_t group = op->args.u.conv.group;

    if (!src || !dst || !src->block || !dst->block ||
        op->args.bottoms[0]->value.shape.dim[1] / group % src->block != 0 ||
        op->args.tops[0]->value.shape.dim[1] / group % dst->block != 0)
        return false;
    return (!d->backward_data || (d->data_src_format == src && d->data_dst_format == dst)) &&
           (!d->backward_weights || (d->weights_src_format == src && d->weights_dst_format == dst));
}

void conv_part_descs(const struct cpu_op *op, const struct conv_descs *d, struct conv_part_op *part,
                     struct conv_descs *out)
{
    int group = op->args.u.conv.group;

    *out = (struct conv_descs){0};
    if (!parts_are_whole(op, d) || d->src_format != d->dst_format)
        return;
    *part = (struct conv_part_op){.op = *op};
    part->bottom.value = op->args.bottoms[0]->value;
    part->top.value = op->args.tops[0]->value;
    part->bottom.value.shape.dim[1] /= group;
    part->top.value.shape.dim[1] /= group;
    part->bottoms[0] = &part->bottom;
    part->tops[0] = &part->top;
    part->op.args.bottoms = part->bottoms;
    part->op.args.tops = part->tops;
    part->op.args.u.conv.group = 1;
    if (conv_descs_create(&part->op, d->src_format->tag, out)) { /* then there is no choice */
        conv_descs_destroy(out);
        *out = (struct conv_descs){0};
    }
}
