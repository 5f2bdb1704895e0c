/* Convolutions of large windows amid padding, for which oneDNN has no code of its own on AVX2, by
 * the definition in double: forward takes a copy of the bottom there that has its padding. */
#include "tests/engine/winograd_case.h"
#include "tests/engine/draw.h"
#include "tests/suite.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>

/* window x window, over channels 3 to 16 */
struct first {
    int64_t n, h, w;
    int window, stride, pad[2];
    bool propagates;
};

static const struct first firsts[] = {
    {2, 35, 31, 11, 4, {2, 2}, false},
    {1, 16, 40, 11, 4, {5, 3}, true},
    {3, 12, 11, 11, 1, {0, 2}, false},
    {2, 30, 30, 11, 4, {0, 0}, false},
};
enum { FIRSTS = sizeof firsts / sizeof *firsts, C = 3, O = 16 };

struct values {
    int64_t oh, ow;
    size_t nx, nw, ny;
    float *x, *w, *b, *dy, *y, *dx, *dw, *db;
    double *sums; /* of y, dx, dw, db, one behind the other */
};

static float *draw(size_t n, uint32_t which)
{
    return draw_values(n, 11, which);
}

static void values_make(const struct first *f, struct values *v)
{
    v->oh = (f->h + 2 * f->pad[0] - f->window) / f->stride + 1;
    v->ow = (f->w + 2 * f->pad[1] - f->window) / f->stride + 1;
    v->nx = (size_t)(f->n * C * f->h * f->w);
    v->nw = (size_t)(O * C * f->window * f->window);
    v->ny = (size_t)(f->n * O * v->oh * v->ow);
    v->x = draw(v->nx, 0), v->w = draw(v->nw, 1), v->b = draw(O, 2), v->dy = draw(v->ny, 3);
    v->y = draw(v->ny, 4), v->dx = draw(v->nx, 5), v->dw = draw(v->nw, 6), v->db = draw(O, 7);
    v->sums = calloc(v->ny + v->nx + v->nw + O, sizeof *v->sums);
    ck_assert_ptr_nonnull(v->sums);
}

static void values_free(struct values *v)
{
    free(v->x), free(v->w), free(v->b), free(v->dy);
    free(v->y), free(v->dx), free(v->dw), free(v->db);
    free(v->sums);
}

/* Adds every product to the sums that it belongs to. */
static void define(const struct first *f, struct values *v)
{
    double *y = v->sums, *dx = y + v->ny, *dw = dx + v->nx, *db = dw + v->nw;
    int64_t taps = (int64_t)C * f->window * f->window;

    for (int64_t to = 0; to < (int64_t)v->ny; to++) {
        int64_t column = to % v->ow, row = to / v->ow % v->oh, o = to / v->ow / v->oh % O,
                n = to / v->ow / v->oh / O;
        y[to] += (double)v->b[o];
        db[o] += (double)v->dy[to];
        for (int64_t tap = 0; tap < taps; tap++) {
            int64_t c = tap / f->window / f->window;
            int64_t i = row * f->stride - f->pad[0] + tap / f->window % f->window,
                    j = column * f->stride - f->pad[1] + tap % f->window;
            int64_t at = ((n * C + c) * f->h + i) * f->w + j, weight = o * taps + tap;
            if (i < 0 || i >= f->h || j < 0 || j >= f->w)
                continue;
            y[to] += (double)v->x[at] * (double)v->w[weight];
            dx[at] += (double)v->dy[to] * (double)v->w[weight];
            dw[weight] += (double)v->x[at] * (double)v->dy[to];
        }
    }
}

/* Forward and backward on two threads; whether the top is in blocks. */
static bool run(const struct first *f, struct values *v)
{
    const struct engine_options options = {.threads = 2};
    struct engine engine;
    struct rig rig;
    bool blocks;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, OP_CONV);
    rig.args.u.conv = (struct conv_args){.kernel = {f->window, f->window},
                                         .stride = {f->stride, f->stride},
                                         .pad = {f->pad[0], f->pad[1]},
                                         .dilation = {1, 1},
                                         .group = 1,
                                         .bias = true};
    rig_bottom(&rig, 4, (int64_t[]){f->n, C, f->h, f->w});
    rig_top(&rig, 4, (int64_t[]){f->n, O, v->oh, v->ow});
    rig_param(&rig, 4, (int64_t[]){O, C, f->window, f->window});
    rig_param(&rig, 1, (int64_t[]){O});
    rig.propagate[0] = f->propagates;
    ck_assert_msg(rig_create(&rig) == 0, "%s", error_text());
    ck_assert(rig_param_write(&rig, 0, v->w) == 0 && rig_param_write(&rig, 1, v->b) == 0);
    for (int pass = 0; pass < 2; pass++) /* what one leaves in shared memory is no matter */
        ck_assert(rig_write(&rig, &rig.bottom[0].value, v->x) == 0 && rig_forward(&rig) == 0 &&
                  rig_read(&rig, &rig.tops[0]->value, v->y) == 0 &&
                  rig_write(&rig, &rig.tops[0]->grad, v->dy) == 0 && rig_backward(&rig) == 0 &&
                  rig_read(&rig, &rig.bottom[0].grad, v->dx) == 0 &&
                  rig_param_read_grad(&rig, 0, v->dw) == 0 &&
                  rig_param_read_grad(&rig, 1, v->db) == 0);
    blocks = rig.tops[0]->value.layout != NULL;
    rig_finish(&rig);
    engine_close(&engine);
    return blocks;
}

START_TEST(passes_are_those_of_the_definition)
{
    const struct first *f = &firsts[_i % FIRSTS];
    struct values v;
    bool blocks;

    if (_i >= FIRSTS)
        winograd_case_be("AVX2");
    values_make(f, &v);
    define(f, &v);
    blocks = run(f, &v);
    winograd_case_check("top", v.y, v.sums, v.ny);
    if (f->propagates)
        winograd_case_check("bottom's gradient", v.dx, v.sums + v.ny, v.nx);
    winograd_case_check("weights' gradient", v.dw, v.sums + v.ny + v.nx, v.nw);
    winograd_case_check("biases' gradient", v.db, v.sums + v.ny + v.nx + v.nw, O);
    if (winograd_case_has_avx2())
        ck_assert_msg(blocks, "the top of case %d is plain", _i);
    values_free(&v);
}
END_TEST

SUITE("padded convolution")
{
    TCase *tcase = suite_case(suite, "padded convolution");

    tcase_add_loop_test(tcase, passes_are_those_of_the_definition, 0, 2 * FIRSTS);
}
