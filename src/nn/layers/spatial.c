/* Fields of convolution and pooling that hold a value per spatial axis. By Caffe's rule a file
 * gives one value for all axes, one for each, or values for height and width by name. */
#include "layers/layers_internal.h"

#include "spec/field.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <string.h>

static const struct spatial_field absent[] = {
    [SPATIAL_KERNEL] = {"kernel_size", "kernel_h", "kernel_w", .absent = -1, .least = 1},
    [SPATIAL_STRIDE] = {"stride", "stride_h", "stride_w", .absent = 1, .least = 1},
    [SPATIAL_PAD] = {"pad", "pad_h", "pad_w", .absent = 0, .least = 0},
    [SPATIAL_DILATION] = {"dilation", "dilation_h", "dilation_w", .absent = 1, .least = 1},
};

/* Returns the field's *n values; NULL if the message has no such field or the field is not set. */
static const uint32_t *values_of(const ProtobufCMessage *p, const char *name, size_t *n)
{
    const ProtobufCFieldDescriptor *field = message_find_field(p->descriptor, name);

    *n = field ? field_count(p, field) : 0;
    return *n > 0 ? field_at(p, field, 0) : NULL;
}

struct spatial_field spatial_of(const ProtobufCMessage *p, enum spatial_kind kind)
{
    struct spatial_field field = absent[kind];
    size_t nh, nw;
    const uint32_t *h = values_of(p, field.name_h, &nh), *w = values_of(p, field.name_w, &nw);

    field.value = values_of(p, field.name, &field.n);
    field.has_h = h != NULL;
    field.has_w = w != NULL;
    field.h = h ? *h : 0;
    field.w = w ? *w : 0;
    return field;
}

/* Returns the value for spatial axis i, unchecked. Height and width by name are axes 0 and 1. */
static int64_t spatial_at(const struct spatial_field *field, int i)
{
    if (field->has_h || field->has_w)
        return i > 0 ? field->w : field->h;
    if (field->n == 0)
        return field->absent;
    return field->value[field->n > 1 && (size_t)i < field->n ? i : 0];
}

const char *layer_spatial_name(int naxes, int i)
{
    static const char *const names[] = {"depth", "height", "width"};

    return naxes == 1 ? "length" : names[OP_SPATIAL - naxes + i];
}

/* Returns "depth, height, width", or the last of these for fewer axes. */
static const char *spatial_names(int naxes)
{
    static const char *const names[] = {"length", "height, width", "depth, height, width"};

    return names[naxes - 1];
}

const char *layer_spatial_text(const int *values, int naxes, char buffer[SPATIAL_TEXT_BYTES])
{
    buffer[0] = '\0';
    for (int i = 0; i < naxes; i++)
        buffer_printf(buffer, SPATIAL_TEXT_BYTES, "%s%d", i > 0 ? " x " : "", values[i]);
    return buffer;
}

const struct layer *layer_maker(const struct layer *layer, int bottom)
{
    for (const struct layer *from = layer - layer->index; from < layer; from++)
        for (int t = 0; t < from->ntops; t++)
            if (from->tops[t] == layer->bottoms[bottom])
                return from;
    return NULL;
}

/* Returns the smallest input of the net, along spatial axis i, for which the layer's top is not
 * empty; 0: not known. */
static int least_input(const struct layer *layer, int i)
{
    const int64_t most = 1 << 14;
    int64_t need = 1, in;

    for (; layer && !layer->i->is_data; layer = layer_maker(layer, 0)) {
        const struct shape *bottom = &layer->bottoms[0]->value.shape;

        if (!layer->i->along && (layer->tops[0]->value.shape.naxes != bottom->naxes ||
                                 layer->tops[0]->value.shape.dim[2 + i] != bottom->dim[2 + i]))
            return 0;
        for (in = 1; layer->i->along && in < most && layer->i->along(layer, i, in) < need;)
            in++;
        if (layer->i->along)
            need = in;
    }
    return layer && need < most ? (int)need : 0;
}

struct axes_hint layer_axes_hint(const struct layer *layer)
{
    const struct shape *shape = &layer->bottoms[0]->value.shape;
    const struct layer *from = layer_maker(layer, 0);
    struct axes_hint hint = {""};
    char sizes[SPATIAL_TEXT_BYTES];
    int least[OP_SPATIAL];
    bool known = true;

    for (int i = 0; i < shape->naxes - 2; i++) {
        least[i] = least_input(layer, i);
        known &= least[i] > 0;
    }
    while (from && strcmp(from->i->type, "Split") == 0)
        from = layer_maker(from, 0);
    if (!from || !from->i->is_data)
        snprintf(hint.text, sizeof hint.text,
                 known ? "; the net's input is too small for it: expected at least %s"
                       : "; the net's input is too small for it",
                 layer_spatial_text(least, shape->naxes - 2, sizes));
    else if (shape->naxes == 4 && (shape->dim[3] == 1 || shape->dim[3] == 3) && shape->dim[1] > 4 &&
             shape->dim[2] > 1)
        strcpy(hint.text, "; expected N,C,H,W: this looks like N,H,W,C");
    return hint;
}

int layer_expect_spatial(const struct layer *layer, int bottom)
{
    const struct blob *blob = layer->bottoms[bottom];

    if (blob->value.shape.naxes > 2 && blob->value.shape.naxes <= 2 + OP_SPATIAL)
        return 0;
    return error_set("expected a bottom of 3, 4 or 5 axes (N,C, and one to three spatial ones), "
                     "found '%s' of %d: %s",
                     blob->name, blob->value.shape.naxes, shape_text(&blob->value.shape).text);
}

static int spatial_check(const struct spatial_field *field, const int *values, int naxes)
{
    const int most = 1 << 24;
    char found[SPATIAL_TEXT_BYTES];

    for (int i = 0; i < naxes; i++)
        if (values[i] < field->least || values[i] > most)
            return error_set("%s must be at least %d and at most %d, but it is %s", field->name,
                             field->least, most, layer_spatial_text(values, naxes, found));
    return 0;
}

/* Reads values given by height and width. */
static int spatial_pair(const struct spatial_field *field, const struct blob *bottom, int naxes,
                        int out[OP_SPATIAL])
{
    if (naxes != 2)
        return error_set("%s and %s need a bottom of height and width alone, but '%s' has %s: give "
                         "%s once, or once for each axis",
                         field->name_h, field->name_w, bottom->name, spatial_names(naxes),
                         field->name);
    if (field->least > 0 && (!field->has_h || !field->has_w)) /* an absent pad is 0 */
        return error_set("%s is given without %s; both are needed",
                         field->has_h ? field->name_h : field->name_w,
                         field->has_h ? field->name_w : field->name_h);
    out[0] = (int)spatial_at(field, 0);
    out[1] = (int)spatial_at(field, 1);
    return 0;
}

static int spatial_missing(const struct spatial_field *field, int naxes)
{
    if (naxes == 2)
        return error_set("%s (or %s and %s) is missing", field->name, field->name_h, field->name_w);
    return error_set("%s is missing", field->name);
}

int layer_spatial(const struct spatial_field *field, const struct blob *bottom, int out[OP_SPATIAL])
{
    int naxes = bottom->value.shape.naxes - 2;

    if (field->n > 0 && (field->has_h || field->has_w))
        return error_set("give either %s or %s and %s, not both", field->name, field->name_h,
                         field->name_w);
    if (field->n > 1 && field->n != (size_t)naxes)
        return error_set("%s has %zu values; expected one%s, or one for each spatial axis of '%s' "
                         "(%s)",
                         field->name, field->n, naxes > 1 ? " for all" : "", bottom->name,
                         spatial_names(naxes));
    if (field->has_h || field->has_w) {
        if (spatial_pair(field, bottom, naxes, out))
            return -1;
    } else if (field->n == 0 && field->absent < 0) {
        return spatial_missing(field, naxes);
    } else {
        for (int i = 0; i < naxes; i++)
            out[i] = (int)spatial_at(field, i);
    }
    return spatial_check(field, out, naxes);
}
