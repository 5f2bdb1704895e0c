/* Shapes, with checks for overflow, since every dimension may come from a file. */
#include "engine/tensor.h"

#include "util/error.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

size_t shape_elems(const struct shape *shape)
{
    return shape_count(shape, 0, shape->naxes);
}

size_t shape_count(const struct shape *shape, int from, int to)
{
    size_t count = 1;

    for (int i = from; i < to && i < shape->naxes; i++)
        count *= (size_t)shape->dim[i];
    return count;
}

bool shape_equal(const struct shape *a, const struct shape *b)
{
    if (a->naxes != b->naxes)
        return false;
    for (int i = 0; i < a->naxes; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

int shape_set(struct shape *shape, int naxes, const int64_t *dim, const char *what)
{
    int64_t count = 1;

    if (naxes < 0 || naxes > SHAPE_MAX_AXES)
        return error_set("%s has %d axes; at most %d are possible", what, naxes, SHAPE_MAX_AXES);
    shape->naxes = naxes;
    for (int i = 0; i < naxes; i++) {
        if (dim[i] < 0)
            return error_set("%s: axis %d has the negative size %" PRId64, what, i, dim[i]);
        if (dim[i] > 0 && count > INT32_MAX / dim[i])
            return error_set(
                "%s: blob size exceeds INT_MAX (%d elements): make it smaller, or split "
                "what it is made of into several layers",
                what, INT32_MAX);
        count *= dim[i];
        shape->dim[i] = dim[i];
    }
    return 0;
}

int shape_axis(const struct shape *shape, int axis, int *out)
{
    if (axis < -shape->naxes || axis >= shape->naxes)
        return error_set("axis %d is out of range for a blob of %s", axis,
                         units_count(shape->naxes, "axis").text);
    *out = axis < 0 ? axis + shape->naxes : axis;
    return 0;
}

/* Writes the axes with `between` between them. */
static struct shape_text put_axes(const struct shape *shape, const char *between)
{
    struct shape_text out = {""};

    for (int i = 0; i < shape->naxes; i++)
        buffer_printf(out.text, sizeof out.text, "%s%" PRId64, i > 0 ? between : "", shape->dim[i]);
    return out;
}

struct shape_text shape_text(const struct shape *shape)
{
    struct shape_text out = put_axes(shape, " ");
    size_t used = strlen(out.text);

    snprintf(out.text + used, sizeof out.text - used, used ? " (%zu)" : "(%zu)",
             shape_elems(shape));
    return out;
}

struct shape_text shape_product(const struct shape *shape)
{
    return put_axes(shape, " x ");
}

int64_t shape_dim(const struct shape *shape, int axis)
{
    return axis < shape->naxes ? shape->dim[axis] : 1;
}
