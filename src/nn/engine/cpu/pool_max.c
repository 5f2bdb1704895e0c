/* MAX pooling by windows of constant size with a stride of 2.
 *
 * Nearly all windows are inside the image, and their loops have constant bounds: over channels
 * where channels are contiguous, else along the row. Windows at the edges are clipped. Of equal
 * values the first in reading order wins, NaN never wins, and gradients are added in the order of
 * the windows. So the bits are pool.c's. */
#include "engine/cpu/pool_max.h"

#include "engine/cpu/cpu_internal.h"
#include "engine/cpu/octet.h"

#include <float.h>
#include <string.h>

enum {
    STRIDE = 2,
    MOST = 3,   /* most pixels of a window's side */
    NONE = 255, /* no place: no value was above the least float */
};

typedef uint8_t bytes __attribute__((vector_size(OCTET), aligned(1), may_alias));
typedef int16_t shorts __attribute__((vector_size(OCTET * sizeof(int16_t))));

/* A plane, and its windows. */
struct plane {
    int side;                            /* pixels of a window's side */
    int64_t height, width, down, across; /* pixels; windows */
    int64_t up, left;                    /* padding above and to the left */
    int64_t block;
};

/* A half-open range [begin, end); for a window, its rows or columns inside the image. */
struct span {
    int64_t begin, end;
};

bool pool_max_fits(const struct op_windows *a, int64_t block)
{
    return a->size[0] == 1 && a->places[0] == 1 && a->pad[0] == 0 && a->stride[1] == STRIDE &&
           a->stride[2] == STRIDE && a->kernel[1] == a->kernel[2] && a->kernel[1] >= 2 &&
           a->kernel[1] <= MOST && (block == 1 || block >= OCTET);
}

static struct plane plane_of(const struct op_windows *a, int64_t block)
{
    return (struct plane){.side = a->kernel[1],
                          .height = a->size[1],
                          .width = a->size[2],
                          .down = a->places[1],
                          .across = a->places[2],
                          .up = a->pad[1],
                          .left = a->pad[2],
                          .block = block};
}

/* Clips a window that begins at `first` to an image of `size` pixels. */
INLINE struct span span_clip(int side, int64_t first, int64_t size)
{
    return (struct span){cpu_greatest(-first, 0), cpu_least(side, size - first)};
}

/* ---- forward ---- */

/* The greatest values so far, and their places in the window. */
struct maxima {
    floats best;
    ints at;
};

/* Takes values above the greatest so far. Calls come in reading order. */
INLINE void maxima_take(struct maxima *m, const floats *value, const ints *place)
{
    ints greater = *value > m->best;

    m->best = (floats)((greater & (ints)*value) | (~greater & (ints)m->best));
    m->at = (greater & *place) | (~greater & m->at);
}

INLINE void maxima_take_place(struct maxima *m, const floats *value, int place)
{
    ints all = (ints){0} + place;

    maxima_take(m, value, &all);
}

INLINE void maxima_start(struct maxima *m)
{
    m->best = (floats){0} - FLT_MAX;
    m->at = (ints){0} + NONE;
}

/* Stores maxima and places. The conversion to bytes has two steps: compilers have these. */
INLINE void maxima_store(const struct maxima *m, float *y, uint8_t *where)
{
    *(floats *)y = m->best;
    if (where)
        *(bytes *)where = __builtin_convertvector(__builtin_convertvector(m->at, shorts), bytes);
}

/* Finds the maxima of OCTET channels in a window whose first pixel is x. row, block: floats to the
 * next row and pixel. Each row has its own maxima until the end: rows are independent. */
INLINE void window_strip(int side, struct span rows, struct span columns, int64_t row,
                         int64_t block, const float *x, float *y, uint8_t *where)
{
    struct maxima all;

    maxima_start(&all);
#pragma GCC unroll 3
    for (int64_t r = rows.begin; r < rows.end; r++) {
        struct maxima line;
        maxima_start(&line);
#pragma GCC unroll 3
        for (int64_t c = columns.begin; c < columns.end; c++)
            maxima_take_place(&line, (const floats *)(x + r * row + c * block),
                              (int)(r * side + c));
        maxima_take(&all, &line.best, &line.at);
    }
    maxima_store(&all, y, where);
}

/* Finds the maxima of OCTET windows side by side in one plain channel. */
INLINE void row_strip(int side, int64_t row, const float *x, float *y, uint8_t *where)
{
    struct maxima all;

    maxima_start(&all);
#pragma GCC unroll 3
    for (int r = 0; r < side; r++, x += row) {
        floats a = *(const floats *)x, b = *(const floats *)(x + OCTET);
        floats even = SHUFFLE(a, b, 0, 2, 4, 6, 8, 10, 12, 14);
        floats odd = SHUFFLE(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
        struct maxima line;
        maxima_start(&line);
        maxima_take_place(&line, &even, r * side);
        maxima_take_place(&line, &odd, r * side + 1);
        if (side == MOST) {
            floats last = *(const floats *)(x + OCTET + 1);
            last = SHUFFLE(even, last, 1, 2, 3, 4, 5, 6, 7, 15);
            maxima_take_place(&line, &last, r * side + 2);
        }
        maxima_take(&all, &line.best, &line.at);
    }
    maxima_store(&all, y, where);
}

INLINE void window_one(const struct plane *p, struct span rows, struct span columns, const float *x,
                       float *y, uint8_t *where)
{
    float best = -FLT_MAX;
    int at = NONE;

    for (int64_t r = rows.begin; r < rows.end; r++)
        for (int64_t c = columns.begin; c < columns.end; c++) {
            float value = x[r * p->width + c];
            at = value > best ? (int)(r * p->side + c) : at;
            best = value > best ? value : best;
        }
    *y = best;
    if (where)
        *where = (uint8_t)at;
}

/* Finds the maxima of the range `some` of a row of windows, which the image's edge may clip. x:
 * begin of the row's first window. y: maxima of the row's first window. The last strip of channels
 * overlaps the strip before where OCTET does not divide the channels. */
CPU_KERNEL static void edge_maxima(const struct plane *p, struct span some, struct span rows,
                                   const float *x, float *y, uint8_t *where)
{
    int64_t block = p->block;

    for (int64_t j = some.begin; j < some.end; j++) {
        struct span columns = span_clip(p->side, STRIDE * j - p->left, p->width);
        if (block == 1)
            window_one(p, rows, columns, x + STRIDE * j, y + j, where ? where + j : NULL);
        for (int64_t i = 0; block > 1 && i < block; i += OCTET) {
            int64_t b = cpu_least(i, block - OCTET), to = j * block + b;
            window_strip(p->side, rows, columns, p->width * block, block,
                         x + STRIDE * j * block + b, y + to, where ? where + to : NULL);
        }
    }
}

/* Finds the maxima of windows inside the image. */
INLINE void inner_maxima(const struct plane *p, int side, int64_t block, struct span some,
                         const float *x, float *y, uint8_t *where)
{
    const struct span all = {0, side};

    for (int64_t j = some.begin; j < some.end; j++)
        for (int64_t i = 0; i < block; i += OCTET) {
            int64_t b = cpu_least(i, block - OCTET), to = j * block + b;
            const float *from = x + STRIDE * j * block;
            for (int r = side; r < side + STRIDE; r++) /* read by the next row of windows */
                __builtin_prefetch(from + r * p->width * block + STRIDE * i);
            window_strip(side, all, all, p->width * block, block, from + b, y + to,
                         where ? where + to : NULL);
        }
}

/* Finds the maxima of a plain channel's inner windows; the last strip overlaps the strip before. */
INLINE void inner_row_maxima(const struct plane *p, int side, struct span some, const float *x,
                             float *y, uint8_t *where)
{
    for (int64_t i = some.begin; i < some.end; i += OCTET) {
        int64_t j = cpu_least(i, some.end - OCTET);
        row_strip(side, p->width, x + STRIDE * j, y + j, where ? where + j : NULL);
    }
}

INLINE void side_maxima(const struct plane *p, int side, struct span some, const float *x, float *y,
                        uint8_t *where)
{
    if (p->block == 1)
        inner_row_maxima(p, side, some, x, y, where);
    else if (p->block == OCTET)
        inner_maxima(p, side, OCTET, some, x, y, where);
    else
        inner_maxima(p, side, p->block, some, x, y, where);
}

CPU_KERNEL void pool_max_forward(const struct op_windows *a, int64_t block, const float *x,
                                 float *y, uint8_t *where)
{
    const struct plane p = plane_of(a, block);
    const int64_t row = p.across * block, room = p.width + p.left - p.side;
    const int64_t first = cpu_least((p.left + 1) / STRIDE, p.across);
    const int64_t last =
        room < 0 ? first : cpu_greatest(first, cpu_least(room / STRIDE + 1, p.across));
    const bool short_row = block == 1 && last - first < OCTET;

    for (int64_t h = 0; h < p.down; h++, y += row, where = where ? where + row : NULL) {
        struct span rows = span_clip(p.side, STRIDE * h - p.up, p.height);
        struct span inner = {first, last};
        const float *from = x + ((STRIDE * h - p.up) * p.width - p.left) * block;
        if (rows.begin > 0 || rows.end < p.side || short_row)
            inner = (struct span){0, 0};
        else if (p.side == MOST)
            side_maxima(&p, MOST, inner, from, y, where);
        else
            side_maxima(&p, 2, inner, from, y, where);
        if (inner.begin > 0)
            edge_maxima(&p, (struct span){0, inner.begin}, rows, from, y, where);
        if (inner.end < p.across)
            edge_maxima(&p, (struct span){inner.end, p.across}, rows, from, y, where);
    }
}

/* ---- backward ---- */

/* OCTET tops of a window: the places of their maxima, and their gradients. */
struct taken {
    ints at;
    floats dy;
};

INLINE void taken_load(struct taken *t, bool exists, const float *dy, const uint8_t *where)
{
    t->at = (ints){0} + NONE;
    t->dy = (floats){0};
    if (exists) {
        t->at = __builtin_convertvector(*(const bytes *)where, ints);
        t->dy = *(const floats *)dy;
    }
}

/* Adds the gradients of tops whose maximum is at `place`. */
INLINE void taken_add(const struct taken *t, int place, floats *sum)
{
    *sum += (floats)((t->at == place) & (ints)t->dy);
}

/* Stores two pixels of a row, of which w is the first, as far as they are in the image. */
INLINE void pixels_store(const struct plane *p, int64_t w, int64_t block, const floats pixel[2],
                         float *row)
{
    if (w >= 0 && w < p->width)
        *(floats *)(row + w * block) = pixel[0];
    if (w + 1 >= 0 && w + 1 < p->width)
        *(floats *)(row + (w + 1) * block) = pixel[1];
}

/* Computes the gradients of the padded rows 2i and 2i + 1 of OCTET channels, in squares of four
 * pixels. A pixel reads the windows over it in their order; no store depends on another store, and
 * a window's tops are read twice. */
INLINE void rows_gather(const struct plane *p, int side, int64_t block, int64_t i, const float *dy,
                        const uint8_t *where, float *dx)
{
    const int64_t top = i * p->across * block, above = top - p->across * block;
    const int64_t h = STRIDE * i - p->up;
    const bool upper = side == MOST && i > 0 && i <= p->down, lower = i < p->down;
    struct taken up_left, up_right, left, right;

    taken_load(&up_right, false, dy, where);
    taken_load(&right, false, dy, where);
    for (int64_t j = 0; STRIDE * j < p->width + p->left; j++) {
        const bool inside = j < p->across;
        floats even[2] = {{0}, {0}}, odd[2] = {{0}, {0}};
        up_left = up_right, left = right;
        taken_load(&right, lower && inside, dy + top + j * block, where + top + j * block);
        if (side == MOST) {
            taken_load(&up_right, upper && inside, dy + above + j * block,
                       where + above + j * block);
            taken_add(&up_left, 8, &even[0]);
            taken_add(&up_right, 6, &even[0]);
            taken_add(&up_right, 7, &even[1]);
            taken_add(&left, 2, &even[0]);
            taken_add(&left, 5, &odd[0]);
        }
        taken_add(&right, 0, &even[0]);
        taken_add(&right, 1, &even[1]);
        taken_add(&right, side, &odd[0]);
        taken_add(&right, side + 1, &odd[1]);
        if (h >= 0 && h < p->height)
            pixels_store(p, STRIDE * j - p->left, block, even, dx + h * p->width * block);
        if (h + 1 >= 0 && h + 1 < p->height)
            pixels_store(p, STRIDE * j - p->left, block, odd, dx + (h + 1) * p->width * block);
    }
}

INLINE void plane_gather_of(const struct plane *p, int side, int64_t block, const float *dy,
                            const uint8_t *where, float *dx)
{
    for (int64_t i = 0; STRIDE * i < p->height + p->up; i++)
        for (int64_t c = 0; c < block; c += OCTET) {
            int64_t b = cpu_least(c, block - OCTET);
            rows_gather(p, side, block, i, dy + b, where + b, dx + b);
        }
}

CPU_KERNEL static void plane_gather(const struct plane *p, const float *dy, const uint8_t *where,
                                    float *dx)
{
    if (p->side == MOST && p->block == OCTET)
        plane_gather_of(p, MOST, OCTET, dy, where, dx);
    else if (p->side == MOST)
        plane_gather_of(p, MOST, p->block, dy, where, dx);
    else
        plane_gather_of(p, 2, p->block, dy, where, dx);
}

/* Scatters the gradient of each top, in the plain layout. */
static void plane_scatter(const struct plane *p, const float *dy, const uint8_t *where, float *dx)
{
    int64_t offset[MOST * MOST];

    for (int i = 0; i < p->side * p->side; i++)
        offset[i] = i / p->side * p->width + i % p->side;
    memset(dx, 0, (size_t)(p->height * p->width) * sizeof *dx);
    for (int64_t h = 0; h < p->down; h++) {
        float *to = dx + (STRIDE * h - p->up) * p->width - p->left;
        for (int64_t w = 0; w < p->across; w++, dy++, where++)
            if (*where != NONE)
                to[STRIDE * w + offset[*where]] += *dy;
    }
}

void pool_max_backward(const struct op_windows *a, int64_t block, const float *dy,
                       const uint8_t *where, float *dx)
{
    const struct plane p = plane_of(a, block);

    (block == 1 ? plane_scatter : plane_gather)(&p, dy, where, dx);
}
