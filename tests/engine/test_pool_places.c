/* The places that max pooling keeps for backward, for images whose width, taken by 128, lets places
 * of a window share their last bits and for ones where it does not, against a loop over windows. */
#include "engine/engine.h"
#include "tests/engine/engine_rig.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGES = 2, CHANNELS = 16, PLANES = IMAGES * CHANNELS };

struct window_case {
    int height, width, kernel, stride, pad;
};

static const struct window_case cases[] = {
    /* rows of 128 pixels and its parts, or next to that */
    {9, 28, 3, 2, 0},
    {8, 112, 2, 2, 0},
    {7, 224, 3, 2, 1},
    {8, 128, 2, 2, 0},
    {6, 64, 3, 1, 1},
    {6, 64, 3, 2, 0},
    {5, 127, 3, 2, 0},
    {5, 129, 3, 2, 0},
    {128, 40, 3, 1, 1},
    {128, 40, 4, 2, 1},
    {3, 300, 3, 2, 1},
    {13, 13, 13, 1, 0},
    {12, 12, 11, 1, 0},
    {4, 43, 4, 2, 1},
    {1, 256, 1, 1, 0},
    /* 3x3 and 2x2 every second place: at all edges, and at nothing else */
    {16, 16, 3, 2, 0},
    {17, 17, 3, 2, 0},
    {18, 19, 3, 2, 1},
    {19, 18, 3, 2, 2},
    {20, 21, 2, 2, 1},
    {21, 20, 2, 2, 0},
    {3, 3, 3, 2, 0},
    {2, 2, 3, 2, 1},
    {1, 1, 3, 2, 1},
    {1, 1, 3, 2, 2},
    {2, 2, 2, 2, 0},
    {1, 1, 2, 2, 1},
    {3, 40, 2, 2, 1},
    {40, 3, 3, 2, 2},
};

struct data {
    struct window_case s;
    int oh, ow;
    float *x, *dy, *y, *dx, *expect_y, *expect_dx;
};

static int places(int size, int kernel, int stride, int pad)
{
    int n = (size + 2 * pad - kernel + stride - 1) / stride + 1;

    return pad && (n - 1) * stride >= size + pad ? n - 1 : n;
}

/* Many zeros, so that the first of equal ones has to win; NaN, which none is greater than; and
 * windows of which nothing is taken. */
static void data_make(struct data *d, const struct window_case *s)
{
    struct rng rng = rng_make(1, RNG_FILLER, 7, 0);
    size_t in = (size_t)(PLANES * s->height * s->width), out;

    *d = (struct data){.s = *s,
                       .oh = places(s->height, s->kernel, s->stride, s->pad),
                       .ow = places(s->width, s->kernel, s->stride, s->pad)};
    out = (size_t)(PLANES * d->oh * d->ow);
    d->x = calloc(in, sizeof(float)), d->dx = calloc(in, sizeof(float));
    d->expect_dx = calloc(in, sizeof(float)), d->expect_y = calloc(out, sizeof(float));
    d->y = calloc(out, sizeof(float)), d->dy = calloc(out, sizeof(float));
    ck_assert(d->x && d->dx && d->expect_dx && d->expect_y && d->y && d->dy);
    for (size_t i = 0; i < in; i++)
        d->x[i] = i % 31 == 7 ? NAN : fmaxf(rng_uniform(&rng, i) - 0.5F, 0);
    for (size_t i = 0; i < in / PLANES; i++)
        d->x[i] = -INFINITY; /* the first plane */
    for (size_t i = 0; i < out; i++)
        d->dy[i] = rng_uniform(&rng, in + i);
}

static void data_free(struct data *d)
{
    free(d->x), free(d->dy), free(d->y), free(d->dx), free(d->expect_y), free(d->expect_dx);
}

static void expect_window(struct data *d, int plane, int oh, int ow)
{
    const struct window_case *s = &d->s;
    int top = (plane * d->oh + oh) * d->ow + ow, at = -1;
    const float *x = d->x + plane * s->height * s->width;
    float best = -FLT_MAX;

    for (int h = oh * s->stride - s->pad; h < oh * s->stride - s->pad + s->kernel; h++)
        for (int w = ow * s->stride - s->pad; w < ow * s->stride - s->pad + s->kernel; w++)
            if (h >= 0 && h < s->height && w >= 0 && w < s->width && x[h * s->width + w] > best) {
                at = h * s->width + w;
                best = x[at];
            }
    d->expect_y[top] = best;
    if (at >= 0)
        d->expect_dx[plane * s->height * s->width + at] += d->dy[top];
}

static void run_case(struct data *d, bool plain)
{
    const struct engine_options options = {.threads = 2};
    const struct window_case *s = &d->s;
    struct engine engine;
    struct rig rig;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, OP_POOL);
    rig.args.u.pool = (struct pool_args){.method = POOL_MAX,
                                         .kernel = {s->kernel, s->kernel},
                                         .stride = {s->stride, s->stride},
                                         .pad = {s->pad, s->pad}};
    rig_bottom(&rig, 4, (int64_t[]){IMAGES, CHANNELS, s->height, s->width});
    rig_top(&rig, 4, (int64_t[]){IMAGES, CHANNELS, d->oh, d->ow});
    ck_assert_msg((plain || rig_lay_out(&rig, 0) == 0) && rig_create(&rig) == 0, "%s",
                  error_text());
    ck_assert(rig_write(&rig, &rig.bottom[0].value, d->x) == 0 && rig_forward(&rig) == 0 &&
              rig_read(&rig, &rig.tops[0]->value, d->y) == 0 &&
              rig_write(&rig, &rig.tops[0]->grad, d->dy) == 0 && rig_backward(&rig) == 0 &&
              rig_read(&rig, &rig.bottom[0].grad, d->dx) == 0);
    rig_finish(&rig);
    engine_close(&engine);
}

/* _i: a case in the layout of convolutions, then in the plain one. */
START_TEST(each_gradient_goes_where_its_maximum_was)
{
    struct data d;

    data_make(&d, &cases[_i / 2]);
    for (int plane = 0; plane < PLANES; plane++)
        for (int oh = 0; oh < d.oh; oh++)
            for (int ow = 0; ow < d.ow; ow++)
                expect_window(&d, plane, oh, ow);
    run_case(&d, _i % 2);
    for (int i = 0; i < PLANES * d.oh * d.ow; i++)
        ck_assert_msg(d.y[i] == d.expect_y[i], "top %d: %g, expected %g", i, (double)d.y[i],
                      (double)d.expect_y[i]);
    for (int i = 0; i < PLANES * d.s.height * d.s.width; i++)
        ck_assert_msg(d.dx[i] == d.expect_dx[i], "bottom %d: gradient %g, expected %g", i,
                      (double)d.dx[i], (double)d.expect_dx[i]);
    data_free(&d);
}
END_TEST

SUITE("pool_places")
{
    TCase *tcase = suite_case(suite, "pool_places");

    tcase_add_loop_test(tcase, each_gradient_goes_where_its_maximum_was, 0,
                        2 * (int)(sizeof cases / sizeof *cases));
}
