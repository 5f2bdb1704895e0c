/* The engine's own Winograd code against sums in double, at shapes with every remainder; and that
 * neither threads, nor the memory lent, nor what is kept, nor the width of vectors change a bit. */
#include "tests/engine/winograd_widths.h"
#include "tests/engine/draw.h"
#include "tests/suite.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CODES = 5, PASSES = 3, FORWARD = 0, DATA = 1, WEIGHTS = 2 };

static const size_t plenty = (size_t)1 << 30;

/* Those that this processor runs and that round once where a multiplication and an addition meet:
 * their bits are the same. */
static int codes_alike(const struct winograd_code *found[MOST_CODES])
{
    int n = 0;

#if defined(__x86_64__) && defined(__GNUC__)
    bool once = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");

    if (once)
        found[n++] = &winograd_avx2;
    if (__builtin_cpu_supports("avx512f"))
        found[n++] = &winograd_avx512;
#elif defined(__FP_FAST_FMAF)
    bool once = true;
#else
    bool once = false;
#endif
    if (once) {
        found[n++] = &winograd_wide;
        found[n++] = &winograd_narrow;
    }
#if defined(__FP_FAST_FMAF)
    found[n++] = &winograd_base;
#endif
    return n;
}

/* All that this processor runs. */
static int codes(const struct winograd_code *found[MOST_CODES])
{
    int n = codes_alike(found);

#if !defined(__FP_FAST_FMAF)
    found[n++] = &winograd_base;
#endif
    return n;
}

/* A convolution: channels of a group. */
struct conv {
    int n, groups, c, o, h, w, window, pad[2];
};

static const struct conv cases[] = {
    {1, 1, 16, 16, 1, 1, 3, {1, 1}},   /* one pixel */
    {1, 1, 16, 16, 4, 4, 3, {1, 1}},   /* one tile, whole */
    {1, 1, 16, 16, 5, 8, 3, {1, 1}},   /* four, two of them of one row */
    {1, 1, 16, 16, 4, 8, 3, {1, 1}},   /* two */
    {2, 1, 16, 16, 1, 3, 3, {2, 2}},   /* less than a window, amid pad 2 */
    {2, 1, 16, 32, 5, 9, 3, {0, 2}},   /* a pad of each size */
    {2, 2, 32, 16, 13, 7, 3, {1, 1}},  /* groups */
    {1, 1, 16, 48, 3, 11, 3, {2, 2}},  /* pad 2 of a window of 3; three blocks of outputs */
    {5, 1, 16, 16, 29, 31, 3, {1, 1}}, /* two groups of tiles */
    {2, 1, 320, 32, 6, 9, 3, {1, 1}},  /* more channels than go at a time */
    {2, 1, 48, 16, 11, 6, 5, {2, 2}},  {1, 3, 16, 16, 7, 5, 5, {4, 0}},
    {1, 1, 16, 16, 1, 1, 5, {2, 2}},   {9, 1, 16, 32, 12, 13, 5, {2, 1}},
    {3, 1, 24, 40, 13, 13, 3, {1, 1}}, /* odd numbers of blocks: of 8 alone */
    {3, 2, 8, 24, 10, 7, 5, {2, 2}},   {2, 1, 8, 8, 6, 6, 3, {1, 1}},
    {5, 1, 20, 50, 12, 12, 5, {0, 0}}, /* channels that do not fill blocks */
    {2, 1, 1, 33, 9, 8, 3, {1, 1}},    {1, 1, 39, 3, 7, 10, 3, {0, 1}},
    {2, 1, 330, 17, 5, 5, 5, {2, 2}},
};

enum { CASES = sizeof cases / sizeof *cases };

/* Plain tensors of a case; y, dx, dw, db: what was found. */
struct tensors {
    struct conv c;
    int oh, ow;
    size_t nx, ny, nw, nb;
    float *x, *w, *b, *dy, *y, *dx, *dw, *db;
};

static float *fill(size_t n, uint32_t which)
{
    return draw_values(n, 31, which);
}

static void tensors_make(struct tensors *t, const struct conv *c)
{
    *t = (struct tensors){.c = *c,
                          .oh = c->h + 2 * c->pad[0] - c->window + 1,
                          .ow = c->w + 2 * c->pad[1] - c->window + 1};
    t->nx = (size_t)(c->n * c->groups * c->c) * (size_t)(c->h * c->w);
    t->ny = (size_t)(c->n * c->groups * c->o) * (size_t)(t->oh * t->ow);
    t->nw = (size_t)(c->groups * c->o) * (size_t)(c->c * c->window * c->window);
    t->nb = (size_t)(c->groups * c->o);
    t->x = fill(t->nx, 0), t->w = fill(t->nw, 1), t->b = fill(t->nb, 2), t->dy = fill(t->ny, 3);
    t->y = fill(t->ny, 4), t->dx = fill(t->nx, 5), t->dw = fill(t->nw, 6), t->db = fill(t->nb, 7);
}

static void tensors_free(struct tensors *t)
{
    free(t->x), free(t->w), free(t->b), free(t->dy);
    free(t->y), free(t->dx), free(t->dw), free(t->db);
}

static float *lend(size_t bytes)
{
    float *out = aligned_alloc(64, (bytes + 63) / 64 * 64);

    ck_assert_ptr_nonnull(out);
    memset(out, 0xff, (bytes + 63) / 64 * 64); /* NaN, wherever more is read than was written */
    return out;
}

/* A tensor in blocks of channels, zeros behind the last of them. It starts at no round address. */
struct blocks {
    int images, channels, pixels, lanes;
    float *data;
};

static struct blocks blocks_lend(int images, int channels, int pixels, int lanes)
{
    size_t n = (size_t)images * (size_t)((channels + lanes - 1) / lanes * lanes) * (size_t)pixels;

    return (struct blocks){images, channels, pixels, lanes,
                           (float *)lend((n + 1) * sizeof(float)) + 1};
}

static void blocks_free(struct blocks *b)
{
    free(b->data - 1);
}

/* Copies from plain, or back; then there have to be zeros behind the last channel, or NaN where the
 * first one is not finite, either. */
static void blocks_copy(const struct blocks *b, float *plain, bool back)
{
    int padded = (b->channels + b->lanes - 1) / b->lanes * b->lanes;

    for (int n = 0; n < b->images; n++)
        for (int c = 0; c < padded; c++)
            for (int i = 0; i < b->pixels; i++) {
                size_t plane = (size_t)n * (size_t)padded + (size_t)c;
                float *at =
                    b->data +
                    (plane / (size_t)b->lanes * (size_t)b->pixels + (size_t)i) * (size_t)b->lanes +
                    plane % (size_t)b->lanes;
                float *to =
                    plain + ((size_t)n * (size_t)b->channels + (size_t)c) * (size_t)b->pixels + i;
                if (c >= b->channels && back)
                    ck_assert(*at == 0 || (isnan(*at) && !isfinite(to[-(ptrdiff_t)c * b->pixels])));
                else if (c >= b->channels)
                    *at = 0;
                else if (back)
                    *to = *at;
                else
                    *at = *to;
            }
}

static struct winograd_shape shape_of(const struct tensors *t, int pass)
{
    const struct conv *c = &t->c;
    struct winograd_shape s = {.images = c->n,
                               .groups = c->groups,
                               .in = c->c,
                               .out = c->o,
                               .height = c->h,
                               .width = c->w,
                               .window = c->window,
                               .pad = {c->pad[0], c->pad[1]},
                               .weights = pass == WEIGHTS};

    if (pass == DATA) {
        s.in = c->o, s.out = c->c, s.height = t->oh, s.width = t->ow, s.turned = true;
        s.pad[0] = c->window - 1 - c->pad[0], s.pad[1] = c->window - 1 - c->pad[1];
    }
    return s;
}

/* Runs it with the weights' points kept from a run before: the weights themselves are not looked at
 * any more. */
static void run_again(const struct winograd *plan, struct winograd_data data)
{
    data.points = lend(winograd_points_bytes(plan));
    winograd_run(plan, &data);
    memset(data.scratch, 0xff, winograd_bytes(plan, true));
    data.pointed = true;
    data.weights = NULL;
    winograd_run(plan, &data);
    free(data.points);
}

/* All three passes; false where the code cannot. */
static bool run_as(struct tensors *t, const struct winograd_code *code, size_t most, bool kept,
                   bool relu)
{
    const struct conv *c = &t->c;
    int lanes = code->block, in = c->groups * c->c, out = c->groups * c->o;
    struct blocks x, y, dx, dy;

    if (c->groups > 1 && (c->c % lanes || c->o % lanes))
        return false;
    x = blocks_lend(c->n, in, c->h * c->w, lanes), dx = blocks_lend(c->n, in, c->h * c->w, lanes);
    y = blocks_lend(c->n, out, t->oh * t->ow, lanes),
    dy = blocks_lend(c->n, out, t->oh * t->ow, lanes);
    blocks_copy(&x, t->x, false), blocks_copy(&dy, t->dy, false);
    for (int pass = 0; pass < PASSES; pass++) {
        const struct winograd_shape shape = shape_of(t, pass);
        struct winograd_data data[PASSES] = {
            {.x = x.data, .weights = t->w, .bias = t->b, .y = y.data, .relu = relu},
            {.x = dy.data, .weights = t->w, .y = dx.data},
            {.x = x.data, .dy = dy.data, .dweights = t->dw, .dbias = t->db}};
        struct winograd plan;
        ck_assert(winograd_plan_code(&shape, code, most, &plan));
        ck_assert_uint_le(winograd_bytes(&plan, false), most);
        bool keeps = kept && pass != WEIGHTS;
        data[pass].scratch = lend(winograd_bytes(&plan, keeps));
        if (keeps)
            run_again(&plan, data[pass]);
        else
            winograd_run(&plan, &data[pass]);
        free(data[pass].scratch);
    }
    blocks_copy(&y, t->y, true), blocks_copy(&dx, t->dx, true);
    blocks_free(&x), blocks_free(&dx), blocks_free(&y), blocks_free(&dy);
    return true;
}

static bool run(struct tensors *t, const struct winograd_code *code, size_t most)
{
    return run_as(t, code, most, false, false);
}

/* ---- definitions ---- */

/* Adds every product of the convolution to the sums that it belongs to. */
static void define(const struct tensors *t, double *y, double *dx, double *dw, double *db)
{
    const struct conv *c = &t->c;
    int k = c->window, in = c->groups * c->c, out = c->groups * c->o;

    for (int n = 0; n < c->n; n++)
        for (int o = 0; o < out; o++)
            for (int at = 0; at < t->oh * t->ow; at++) {
                int i = at / t->ow, j = at % t->ow, group = o / c->o;
                size_t to = ((size_t)n * out + o) * t->oh * t->ow + at;
                y[to] += (double)t->b[o];
                db[o] += (double)t->dy[to];
                for (int tap = 0; tap < c->c * k * k; tap++) {
                    int row = i + tap / k % k - c->pad[0], column = j + tap % k - c->pad[1];
                    size_t weight = (size_t)o * c->c * k * k + tap;
                    size_t pixel =
                        (((size_t)n * in + group * c->c + tap / k / k) * c->h + row) * c->w +
                        column;
                    if (row < 0 || row >= c->h || column < 0 || column >= c->w)
                        continue;
                    y[to] += (double)t->x[pixel] * (double)t->w[weight];
                    dx[pixel] += (double)t->dy[to] * (double)t->w[weight];
                    dw[weight] += (double)t->x[pixel] * (double)t->dy[to];
                }
            }
}

static void check(const char *what, const struct winograd_code *code, const float *found,
                  const double *expected, size_t n)
{
    double most = 0, off = 0;

    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs(expected[i]));
        off = fmax(off, isfinite(found[i]) ? fabs((double)found[i] - expected[i]) : INFINITY);
    }
    ck_assert_msg(off <= 1e-5 * most, "%d lanes, %s: %g off where values reach %g", code->lanes,
                  what, off, most);
}

START_TEST(sums_are_those_of_the_definition)
{
    const struct winograd_code *list[MOST_CODES];
    struct tensors t;
    double *sums;

    omp_set_num_threads(1);
    tensors_make(&t, &cases[_i]);
    sums = calloc(t.ny + t.nx + t.nw + t.nb, sizeof *sums);
    ck_assert_ptr_nonnull(sums);
    define(&t, sums, sums + t.ny, sums + t.ny + t.nx, sums + t.ny + t.nx + t.nw);
    for (int i = 0, n = codes(list); i < n; i++) {
        if (!run(&t, list[i], plenty))
            continue;
        check("top", list[i], t.y, sums, t.ny);
        check("bottom's gradient", list[i], t.dx, sums + t.ny, t.nx);
        check("weights' gradient", list[i], t.dw, sums + t.ny + t.nx, t.nw);
        check("biases' gradient", list[i], t.db, sums + t.ny + t.nx + t.nw, t.nb);
    }
    free(sums);
    tensors_free(&t);
}
END_TEST

static void assert_same_bits(const struct tensors *a, const struct tensors *b, const char *what)
{
    ck_assert_msg(memcmp(a->y, b->y, a->ny * sizeof(float)) == 0, "%s: other tops", what);
    ck_assert_msg(memcmp(a->dx, b->dx, a->nx * sizeof(float)) == 0, "%s: other bottom's", what);
    ck_assert_msg(memcmp(a->dw, b->dw, a->nw * sizeof(float)) == 0, "%s: other weights'", what);
    ck_assert_msg(memcmp(a->db, b->db, a->nb * sizeof(float)) == 0, "%s: other biases'", what);
}

START_TEST(bits_depend_on_the_shape_alone)
{
    const struct winograd_code *list[MOST_CODES];
    struct tensors first, t;
    int n = codes_alike(list);

    tensors_make(&first, &cases[_i]);
    tensors_make(&t, &cases[_i]);
    omp_set_num_threads(1);
    if (n > 0 && run(&first, list[0], plenty))
        for (int i = 0; i < 2 * n; i++) {
            omp_set_num_threads(i % 2 ? 2 + _i % 4 : 1); /* 5 do not divide 36 */
            if (run(&t, list[i / 2], plenty))
                assert_same_bits(&first, &t, i < 2 ? "other threads" : "another width");
        }
    tensors_free(&first);
    tensors_free(&t);
}
END_TEST

START_TEST(kept_points_change_no_bit)
{
    const struct winograd_code *list[MOST_CODES];
    struct tensors first, t;

    omp_set_num_threads(1);
    tensors_make(&first, &cases[_i]);
    tensors_make(&t, &cases[_i]);
    for (int i = 0, n = codes(list); i < n; i++)
        if (run(&first, list[i], plenty) && run_as(&t, list[i], plenty, true, false))
            assert_same_bits(&first, &t, "points kept");
    tensors_free(&first);
    tensors_free(&t);
}
END_TEST

/* Of all that came out, NaN and infinity among it; the bits of 0 and -0 as well. */
START_TEST(a_relu_cuts_what_is_negative)
{
    const struct winograd_code *list[MOST_CODES];
    struct tensors plain, cut;

    omp_set_num_threads(1);
    tensors_make(&plain, &cases[_i]);
    tensors_make(&cut, &cases[_i]);
    plain.x[0] = cut.x[0] = _i % 2 ? NAN : -INFINITY;
    plain.b[1] = cut.b[1] = -INFINITY;
    for (int i = 0, n = codes(list), lost = 0; i < n; i++) {
        if (!run(&plain, list[i], plenty) || !run_as(&cut, list[i], plenty, false, true))
            continue;
        for (size_t e = 0; e < plain.ny; e++) {
            float expected = plain.y[e] < 0 ? 0 : plain.y[e];
            lost += isnan(expected);
            ck_assert_msg(isnan(expected) ? isnan(cut.y[e])
                                          : memcmp(&expected, &cut.y[e], sizeof expected) == 0,
                          "%g of %g at %zu", (double)cut.y[e], (double)plain.y[e], e);
        }
        ck_assert_int_gt(lost, 0);
    }
    tensors_free(&plain);
    tensors_free(&cut);
}
END_TEST

/* The least memory that a shape takes, to the KiB. */
static size_t least(const struct winograd_shape *shape, const struct winograd_code *code)
{
    struct winograd plan;
    size_t bytes = 1024;

    while (!winograd_plan_code(shape, code, bytes, &plan))
        bytes += 1024;
    return bytes;
}

START_TEST(little_memory_changes_no_bit)
{
    const struct winograd_code *list[MOST_CODES];
    static const struct conv c = {2, 1, 128, 144, 9, 7, 3, {1, 1}};
    struct tensors whole, t;

    omp_set_num_threads(1);
    tensors_make(&whole, &c);
    tensors_make(&t, &c);
    for (int i = 0, n = codes(list); i < n; i++) {
        size_t bytes = 0;
        struct winograd plan;
        for (int pass = 0; pass < PASSES; pass++) {
            const struct winograd_shape shape = shape_of(&t, pass);
            size_t need = least(&shape, list[i]);
            bytes = need > bytes ? need : bytes;
            ck_assert(winograd_plan_code(&shape, list[i], plenty, &plan));
            ck_assert_uint_lt(need, winograd_bytes(&plan, false));
        }
        ck_assert(run(&whole, list[i], plenty));
        ck_assert(run(&t, list[i], bytes));
        assert_same_bits(&whole, &t, "little memory");
        ck_assert(run_as(&t, list[i], bytes, true, false)); /* in several chunks */
        assert_same_bits(&whole, &t, "little memory, points kept");
    }
    tensors_free(&whole);
    tensors_free(&t);
}
END_TEST

START_TEST(what_does_not_fit_is_refused)
{
    const struct winograd_code *list[MOST_CODES];
    static const struct winograd_shape good = {2, 2, 16, 16, 9, 9, 3, {1, 1}, false, false, false};
    struct winograd_shape bad[] = {good, good, good, good, good, good, good};
    struct winograd plan;

    bad[0].in = 12; /* of a group */
    bad[1].out = 20;
    bad[2].window = 4;
    bad[3].pad[1] = 3;
    bad[4].pad[0] = -1;
    bad[5].images = 1 << 30;
    bad[6].height = 1, bad[6].pad[0] = 0;
    for (int i = 0, n = codes(list); i < n; i++) {
        ck_assert(winograd_plan_code(&good, list[i], plenty, &plan));
        ck_assert(!winograd_plan_code(&good, list[i], 1000, &plan));
        for (size_t b = 0; b < sizeof bad / sizeof *bad; b++)
            ck_assert_msg(!winograd_plan_code(&bad[b], list[i], plenty, &plan), "shape %zu", b);
    }
    ck_assert(!winograd_plan(&good, 0, plenty, &plan)); /* plain, or channels last */
    ck_assert(!winograd_plan(&good, 5, plenty, &plan));
    ck_assert(winograd_plan(&good, 8, plenty, &plan)); /* on every processor */
}
END_TEST

/* Sizes are counted in size_t: of two million channels at a billion tiles, too. */
START_TEST(channels_times_tiles_may_be_beyond_int)
{
    const struct winograd_code *list[MOST_CODES];
    const size_t in = 1 << 21, tiles = (size_t)(1 << 18) * 56 * 56 / 16, room = (size_t)1 << 46;
    struct winograd_shape s = {1 << 18, 1, (int)in, 16, 56, 56, 3, {1, 1}, false, false, false};
    struct winograd plan;

    ck_assert_uint_gt(tiles * in, INT_MAX);
    for (int i = 0, n = codes(list); i < n; i++) {
        ck_assert(winograd_plan_code(&s, list[i], room, &plan));
        ck_assert_uint_eq((size_t)plan.tiles, tiles);
        ck_assert_uint_ge(winograd_bytes(&plan, true),
                          36 * in * (size_t)plan.group * sizeof(float));
        ck_assert_uint_ge(winograd_points_bytes(&plan), 36 * in * 16 * sizeof(float));
        ck_assert_uint_lt(winograd_bytes(&plan, false), 36 * in * 256 * sizeof(float));
        s.images = 1 << 23;
        ck_assert(!winograd_plan_code(&s, list[i], room, &plan)); /* of tiles alone */
        s.images = 1 << 18;
    }
}
END_TEST

/* ---- what is not finite ---- */

/* found[i] is not finite wherever expected[i] is not; and finite where `here` says so. */
static void check_lost(const char *what, const float *found, const double *expected, size_t n,
                       size_t safe, size_t safe_end)
{
    int lost = 0;

    for (size_t i = 0; i < n; i++) {
        lost += !isfinite(expected[i]);
        ck_assert_msg(isfinite(expected[i]) || !isfinite(found[i]), "%s: %g at %zu, expected %g",
                      what, (double)found[i], i, expected[i]);
        ck_assert_msg(i < safe || i >= safe_end || isfinite(found[i]),
                      "%s: %g at %zu, which has none of it", what, (double)found[i], i);
    }
    ck_assert_int_gt(lost, 0);
}

/* A pixel of the second image's second group, in each place of a tile and at the edges. */
START_TEST(nan_and_infinity_stay_in_their_image_and_group)
{
    static const struct conv c = {2, 2, 16, 16, 7, 6, 3, {1, 1}};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    const struct winograd_code *list[MOST_CODES];

    omp_set_num_threads(1);
    for (int i = 0, n = codes(list); i < 42 * n; i++) {
        int pixel = i % 42;
        struct tensors t;
        double *sums;
        tensors_make(&t, &c);
        sums = calloc(t.ny + t.nx + t.nw + t.nb, sizeof *sums);
        ck_assert_ptr_nonnull(sums);
        t.x[((size_t)32 + 16 + 3) * 42 + pixel] = values[i % 3];
        define(&t, sums, sums + t.ny, sums + t.ny + t.nx, sums + t.ny + t.nx + t.nw);
        ck_assert(run(&t, list[i / 42], plenty));
        /* all but the last half of the second image */
        check_lost("top", t.y, sums, t.ny, 0, t.ny / 4 * 3);
        check_lost("weights' gradient", t.dw, sums + t.ny + t.nx, t.nw, 0, t.nw / 2);
        free(sums);
        tensors_free(&t);
    }
}
END_TEST

/* The same of a gradient, and of a weight, of a window of 5. */
START_TEST(lost_gradients_and_weights_are_lost)
{
    static const struct conv c = {2, 2, 16, 16, 5, 6, 5, {2, 2}};
    static const float values[] = {NAN, INFINITY, -INFINITY};
    const struct winograd_code *list[MOST_CODES];

    omp_set_num_threads(1);
    for (int i = 0, n = codes(list); i < 30 * n; i++) {
        int pixel = i % 30;
        struct tensors t;
        double *sums;
        tensors_make(&t, &c);
        sums = calloc(t.ny + t.nx + t.nw + t.nb, sizeof *sums);
        ck_assert_ptr_nonnull(sums);
        t.dy[((size_t)32 + 16 + 3) * 30 + pixel] = values[i % 3];
        t.w[t.nw / 2 + (size_t)(pixel % 25)] = values[i % 3];
        define(&t, sums, sums + t.ny, sums + t.ny + t.nx, sums + t.ny + t.nx + t.nw);
        ck_assert(run(&t, list[i / 30], plenty));
        check_lost("top", t.y, sums, t.ny, 0, t.ny / 4);
        check_lost("bottom's gradient", t.dx, sums + t.ny, t.nx, 0, t.nx / 4);
        check_lost("weights' gradient", t.dw, sums + t.ny + t.nx, t.nw, 0, t.nw / 2);
        check_lost("biases' gradient", t.db, sums + t.ny + t.nx + t.nw, t.nb, 0, t.nb / 2);
        free(sums);
        tensors_free(&t);
    }
}
END_TEST

SUITE("winograd code")
{
    TCase *tcase = suite_case(suite, "winograd code");

    tcase_add_loop_test(tcase, sums_are_those_of_the_definition, 0, CASES);
    tcase_add_loop_test(tcase, bits_depend_on_the_shape_alone, 0, CASES);
    tcase_add_loop_test(tcase, kept_points_change_no_bit, 0, CASES);
    tcase_add_loop_test(tcase, a_relu_cuts_what_is_negative, 0, CASES);
    tcase_add_test(tcase, little_memory_changes_no_bit);
    tcase_add_test(tcase, what_does_not_fit_is_refused);
    tcase_add_test(tcase, channels_times_tiles_may_be_beyond_int);
    tcase_add_test(tcase, nan_and_infinity_stay_in_their_image_and_group);
    tcase_add_test(tcase, lost_gradients_and_weights_are_lost);
}
