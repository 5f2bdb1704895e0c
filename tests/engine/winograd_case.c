/* See winograd_case.h. */
#include "tests/engine/winograd_case.h"

#include "tests/engine/draw.h"

#include "util/error.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = WINOGRAD_CASE_WINDOW };

static void draw(float *to, size_t n, uint32_t which)
{
    draw_into(to, n, 29, which);
}

size_t winograd_case_count(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (size_t)(a * b * c * d);
}

void winograd_case_make(struct winograd_case *d, const struct winograd_shape_case *s)
{
    *d = (struct winograd_case){.s = *s, .oh = s->h + 2 * s->pad - 2, .ow = s->w + 2 * s->pad - 2};
    size_t nx = winograd_case_count(s->n, s->c, s->h, s->w),
           nw = winograd_case_count(s->o, s->c / s->group, WINDOW, WINDOW),
           ny = winograd_case_count(s->n, s->o, d->oh, d->ow);
    size_t nb = (size_t)s->o;
    float **tensors[] = {&d->x, &d->w, &d->dy, &d->b, &d->y, &d->dx, &d->dw, &d->db};
    size_t sizes[] = {nx, nw, ny, nb, ny, nx, nw, nb};

    for (int i = 0; i < 8; i++) {
        *tensors[i] = malloc(sizes[i] * sizeof(float));
        ck_assert_ptr_nonnull(*tensors[i]);
        if (i < 4)
            draw(*tensors[i], sizes[i], (uint32_t)i);
    }
}

void winograd_case_free(struct winograd_case *d)
{
    free(d->x), free(d->w), free(d->dy), free(d->b);
    free(d->y), free(d->dx), free(d->dw), free(d->db);
}

void winograd_case_open(struct winograd_case *d, enum engine_convolution convolution)
{
    struct rig *rig = &d->rig;

    d->options.threads = d->threads ? d->threads : 2;
    d->options.convolution = convolution;
    ck_assert_msg(engine_open("cpu", &d->options, &d->engine) == 0, "%s", error_text());
    rig_start(rig, &d->engine, OP_CONV);
    rig->args.train = !d->test;
    rig->args.u.conv = (struct conv_args){.kernel = {WINDOW, WINDOW},
                                          .stride = {1, 1},
                                          .pad = {d->s.pad, d->s.pad},
                                          .dilation = {1, 1},
                                          .group = d->s.group,
                                          .bias = d->s.bias};
    rig->args.relu = d->relu;
    rig_bottom(rig, 4, (int64_t[]){d->s.n, d->s.c, d->s.h, d->s.w});
    rig_top(rig, 4, (int64_t[]){d->s.n, d->s.o, d->oh, d->ow});
    rig_param(rig, 4, (int64_t[]){d->s.o, d->s.c / d->s.group, WINDOW, WINDOW});
    if (d->s.bias)
        rig_param(rig, 1, (int64_t[]){d->s.o});
    ck_assert_msg(rig_lay_out(rig, 0) == 0 && rig_create(rig) == 0, "%s", error_text());
    engine_describe(&d->engine, rig->op, d->words);
    ck_assert_int_eq(rig_param_write(rig, 0, d->w), 0);
    ck_assert(!d->s.bias || rig_param_write(rig, 1, d->b) == 0);
}

void winograd_case_pass(struct winograd_case *d)
{
    struct rig *rig = &d->rig;

    ck_assert(rig_write(rig, &rig->bottom[0].value, d->x) == 0 && rig_forward(rig) == 0 &&
              rig_read(rig, &rig->tops[0]->value, d->y) == 0);
    if (d->test)
        return;
    ck_assert(rig_write(rig, &rig->tops[0]->grad, d->dy) == 0 && rig_backward(rig) == 0 &&
              rig_read(rig, &rig->bottom[0].grad, d->dx) == 0 &&
              rig_param_read_grad(rig, 0, d->dw) == 0 &&
              (!d->s.bias || rig_param_read_grad(rig, 1, d->db) == 0));
}

void winograd_case_close(struct winograd_case *d)
{
    rig_finish(&d->rig);
    engine_close(&d->engine);
}

bool winograd_case_run(struct winograd_case *d, enum engine_convolution convolution)
{
    winograd_case_open(d, convolution);
    winograd_case_pass(d);
    winograd_case_close(d);
    return strcmp(d->words, "Winograd") == 0;
}

void winograd_case_be(const char *isa)
{
    setenv("ONEDNN_MAX_CPU_ISA", isa, 1);
    setenv("DNNL_MAX_CPU_ISA", isa, 1);
}

bool winograd_case_has_avx2(void)
{
#if defined(__x86_64__) && defined(__GNUC__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

void winograd_case_check(const char *what, const float *found, const double *expected, size_t n)
{
    double most = 0, off = 0;

    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs(expected[i]));
        off = fmax(off, isfinite(found[i]) ? fabs((double)found[i] - expected[i]) : INFINITY);
    }
    ck_assert_msg(off <= 1e-5 * most, "%s: %g off where values reach %g", what, off, most);
}
