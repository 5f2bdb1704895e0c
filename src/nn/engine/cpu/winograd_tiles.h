/* Transforms tiles of 6x6 pixels to points and back, LANES channels of a block at a time; a part of
 * winograd_body.h.
 *
 * A transform goes over columns, then over rows. A multiplication and the addition that follows are
 * rounded once, in vectors of every width. */
#include "engine/cpu/winograd.h"

#if defined(__clang__)
#pragma clang fp contract(fast)
#elif defined(__GNUC__)
#pragma GCC optimize("O3", "fp-contract=fast") /* -O2 leaves the transforms' loops as they are */
#endif

enum { POINTS = WINOGRAD_POINTS, SIDE = WINOGRAD_SIDE };

typedef float vec __attribute__((vector_size(LANES * sizeof(float)), may_alias));
typedef int32_t mask __attribute__((vector_size(LANES * sizeof(float))));
/* A vec at any address. */
typedef float loose
    __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

#define INLINE static inline __attribute__((always_inline))

/* ---- one axis: points 0, PA, -PA, PB, -PB, infinity ---- */

#define PA 0.625
#define PB 1.5
static const float a1 = PA, a2 = PA * PA, a3 = PA * PA * PA, a4 = PA * PA * PA * PA;
static const float b1 = PB, b2 = PB * PB, b3 = PB * PB * PB, b4 = PB * PB * PB * PB;
static const float product_ab = PA * PA * PB * PB, sum_ab = PA * PA + PB * PB;
static const float g0 = 1 / (PA * PA * PB * PB), ga = 1 / (2 * PA * PA * (PA * PA - PB * PB)),
                   gb = 1 / (2 * PB * PB * (PB * PB - PA * PA));

/* Computes B' d: pixels to points. */
INLINE void image_axis(const vec d[SIDE], vec t[SIDE])
{
    vec even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
    vec even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];

    t[0] = (d[4] - sum_ab * d[2]) + product_ab * d[0];
    t[1] = even_a + a1 * odd_a;
    t[2] = even_a - a1 * odd_a;
    t[3] = even_b + b1 * odd_b;
    t[4] = even_b - b1 * odd_b;
    t[5] = (d[5] - sum_ab * d[3]) + product_ab * d[1];
}

/* Computes G g: n weights of a window, or n pixels of a gradient, to points. */
INLINE void factor_axis(const vec *g, int n, vec t[SIDE])
{
    vec even_a = ga * g[0], even_b = gb * g[0], odd_a = (ga * a1) * g[1], odd_b = (gb * b1) * g[1];

    if (n > 2) {
        even_a += (ga * a2) * g[2];
        even_b += (gb * b2) * g[2];
    }
    if (n > 3) {
        odd_a += (ga * a3) * g[3];
        odd_b += (gb * b3) * g[3];
    }
    if (n > 4) {
        even_a += (ga * a4) * g[4];
        even_b += (gb * b4) * g[4];
    }
    t[0] = g0 * g[0];
    t[1] = even_a + odd_a;
    t[2] = even_a - odd_a;
    t[3] = even_b + odd_b;
    t[4] = even_b - odd_b;
    t[5] = g[n - 1];
}

/* Computes A' m: points to n results, pixels or weights of a window. */
INLINE void result_axis(const vec m[SIDE], int n, vec *y)
{
    vec sum_a = m[1] + m[2], less_a = m[1] - m[2], sum_b = m[3] + m[4], less_b = m[3] - m[4];

    y[0] = m[0] + sum_a + sum_b;
    y[1] = b1 * less_b;
    y[1] += a1 * less_a;
    if (n > 2) {
        y[2] = b2 * sum_b;
        y[2] += a2 * sum_a;
    }
    if (n > 3) {
        y[3] = b3 * less_b;
        y[3] += a3 * less_a;
    }
    if (n > 4) {
        y[4] = b4 * sum_b;
        y[4] += a4 * sum_a;
    }
    y[n - 1] += m[5];
}

/* ---- tiles ---- */

/* Halves of a vector at any address: the upper bits of floats. */
typedef uint16_t narrow
    __attribute__((vector_size(LANES * sizeof(uint16_t)), aligned(sizeof(uint16_t)), may_alias));
typedef uint32_t wide __attribute__((vector_size(LANES * sizeof(uint32_t))));

/* Loads the vector whose first element is number `at` of a plane. */
INLINE void pixel_load(const void *plane, size_t at, bool half, vec *out)
{
    if (half)
        *out = (vec)(__builtin_convertvector(*(const narrow *)((const uint16_t *)plane + at), wide)
                     << 16);
    else
        *out = *(const loose *)((const float *)plane + at);
}

/* Stores it, rounded as bf16_of does. */
INLINE void pixel_store(void *plane, size_t at, bool half, const vec *value)
{
    if (!half) {
        *(loose *)((float *)plane + at) = *value;
        return;
    }
    wide bits = (wide)*value, rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    wide nan = (wide)(*value != *value);
    *(narrow *)((uint16_t *)plane + at) =
        __builtin_convertvector((nan & 0x7fc0) | (~nan & rounded), narrow);
}

/* Loads n x n pixels at (y, x) of a plane; zeros outside the plane. */
INLINE void tile_load(const void *plane, bool half, int n, int h, int w, int y, int x,
                      vec d[SIDE][SIDE])
{
    bool whole = y >= 0 && x >= 0 && y + n <= h && x + n <= w;

    if (whole) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                pixel_load(plane, ((size_t)(y + i) * w + x + j) * BLOCK, half, &d[i][j]);
        return;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            bool in = y + i >= 0 && y + i < h && x + j >= 0 && x + j < w;
            d[i][j] = (vec){0};
            if (in)
                pixel_load(plane, ((size_t)(y + i) * w + x + j) * BLOCK, half, &d[i][j]);
        }
}

static void image_tile(const void *plane, bool half, int h, int w, int y, int x, float *to,
                       size_t point)
{
    vec d[SIDE][SIDE], t[SIDE][SIDE], column[SIDE], r[SIDE];

    if (half)
        tile_load(plane, true, SIDE, h, w, y, x, d);
    else
        tile_load(plane, false, SIDE, h, w, y, x, d);
#pragma GCC unroll 6
    for (int j = 0; j < SIDE; j++) {
        for (int i = 0; i < SIDE; i++)
            column[i] = d[i][j];
        image_axis(column, r);
        for (int i = 0; i < SIDE; i++)
            t[i][j] = r[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < SIDE; i++) {
        image_axis(t[i], r);
        for (int j = 0; j < SIDE; j++)
            *(vec *)(to + (size_t)(i * SIDE + j) * point) = r[j];
    }
}

INLINE void factor_tile(vec d[SIDE][SIDE], int n, float *to, size_t point)
{
    vec t[SIDE][SIDE], column[SIDE], r[SIDE];

#pragma GCC unroll 6
    for (int j = 0; j < n; j++) {
        for (int i = 0; i < n; i++)
            column[i] = d[i][j];
        factor_axis(column, n, r);
        for (int i = 0; i < SIDE; i++)
            t[i][j] = r[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < SIDE; i++) {
        factor_axis(t[i], n, r);
        for (int j = 0; j < SIDE; j++)
            *(vec *)(to + (size_t)(i * SIDE + j) * point) = r[j];
    }
}

INLINE void result_tile(const float *from, size_t point, int n, vec y[SIDE][SIDE])
{
    vec t[SIDE][SIDE], column[SIDE], r[SIDE];

#pragma GCC unroll 6
    for (int j = 0; j < SIDE; j++) {
        for (int i = 0; i < SIDE; i++)
            column[i] = *(const vec *)(from + (size_t)(i * SIDE + j) * point);
        result_axis(column, n, r);
        for (int i = 0; i < n; i++)
            t[i][j] = r[i];
    }
#pragma GCC unroll 6
    for (int i = 0; i < n; i++)
        result_axis(t[i], n, y[i]);
}

INLINE void gradient_tile_of(const void *plane, bool half, int n, int h, int w, int y, int x,
                             float *to, size_t point)
{
    vec d[SIDE][SIDE];

    tile_load(plane, half, n, h, w, y, x, d);
    factor_tile(d, n, to, point);
}

/* Sets values below `least` to 0; NaN stays. */
INLINE void cut(vec *x, float least)
{
    *x = (vec)((mask)*x & ~(mask)(*x < least));
}

INLINE void back_tile_of(const float *from, size_t point, int n, const float *bias, float least,
                         void *plane, bool half, int h, int w, int y, int x)
{
    vec r[SIDE][SIDE], add = {0};

    if (bias)
        add = *(const loose *)bias;
    result_tile(from, point, n, r);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            r[i][j] += add;
            cut(&r[i][j], least);
        }
    if (y + n <= h && x + n <= w) {
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                pixel_store(plane, ((size_t)(y + i) * w + x + j) * BLOCK, half, &r[i][j]);
        return;
    }
    for (int i = 0; i < n && y + i < h; i++)
        for (int j = 0; j < n && x + j < w; j++)
            pixel_store(plane, ((size_t)(y + i) * w + x + j) * BLOCK, half, &r[i][j]);
}

/* Call code with constants n (4 for windows of 3, 2 for 5) and half, so that all loops are
 * unrolled.
 */
static void gradient_tile(const void *plane, bool half, int n, int h, int w, int y, int x,
                          float *to, size_t point)
{
    if (n == 4 && half)
        gradient_tile_of(plane, true, 4, h, w, y, x, to, point);
    else if (n == 4)
        gradient_tile_of(plane, false, 4, h, w, y, x, to, point);
    else
        gradient_tile_of(plane, half, 2, h, w, y, x, to, point);
}

static void back_tile(const float *from, size_t point, int n, const float *bias, float least,
                      void *plane, bool half, int h, int w, int y, int x)
{
    if (n == 4 && half)
        back_tile_of(from, point, 4, bias, least, plane, true, h, w, y, x);
    else if (n == 4)
        back_tile_of(from, point, 4, bias, least, plane, false, h, w, y, x);
    else
        back_tile_of(from, point, 2, bias, least, plane, half, h, w, y, x);
}
