/* Convolutions by Winograd's algorithm against sums in double, with a bound that is derived.
 *
 * F(4x4, 3x3) with the points 0, +-a, +-b and infinity gives, for each tile, channel c and kernel
 * g, y = sum over c of A' [ (G g_c G') * (B' d_c B) ] A,    * element by element. Each of its sums
 * and products is rounded to u = 2^-24 of its size at most, so (Higham, Accuracy and Stability,
 * chapter 3) the error of an element is at most n u / (1 - n u) times sum over c of |A'| [ (|G|
 * |g_c| |G'|) * (|B'| |d_c| |B|) ] |A| where n counts the roundings on the longest way: two
 * transforms of weights (3 terms each) and of pixels (6), a product, the channels, two transforms
 * back (6), with the coefficients' own rounding once in each of the six. The test computes that
 * bound for each element from the data. Backward to the bottom is the same with kernels turned,
 * backward to the weights the same with the roles of A and B exchanged, and tiles summed as
 * channels are. Such a bound is far above what is found, so the errors must be small on their own
 * as well. */
#include "engine/engine.h"
#include "tests/engine/engine_rig.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

#include <math.h>
#include <oneapi/dnnl/dnnl_version.h>
#include <string.h>

enum { OUT = 4, IN = 6, K = 3 };

static const double point_a = 0.625, point_b = 1.5;

/* The transforms of the three kinds of tile, as absolute values. */
struct transforms {
    double a[OUT][IN], g[IN][K], b[IN][IN];
};

/* Coefficients of the product of (x - r) over the n roots; c[0] is the constant. */
static void polynomial(const double *roots, int n, double *c)
{
    memset(c, 0, (size_t)(n + 1) * sizeof *c);
    c[0] = 1;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k >= 0; k--)
            c[k] = (k > 0 ? c[k - 1] : 0) - roots[i] * c[k];
}

/* Toom-Cook: A' and G are Vandermonde matrices of the points, rows of G over the product of a
 * point's distances, rows of B' the coefficients of the product over the other points. */
static void transforms_make(struct transforms *t)
{
    const double points[IN - 1] = {0, point_a, -point_a, point_b, -point_b};
    double rest[IN], c[IN + 1];

    memset(t, 0, sizeof *t);
    for (int i = 0; i < IN - 1; i++) {
        double distance = 1;
        int n = 0;

        for (int k = 0; k < IN - 1; k++)
            if (k != i) {
                distance *= points[i] - points[k];
                rest[n++] = points[k];
            }
        for (int k = 0; k < OUT; k++)
            t->a[k][i] = fabs(pow(points[i], k));
        for (int k = 0; k < K; k++)
            t->g[i][k] = fabs(pow(points[i], k) / distance);
        polynomial(rest, n, c);
        for (int k = 0; k <= n; k++)
            t->b[i][k] = fabs(c[k]);
    }
    t->a[OUT - 1][IN - 1] = 1;
    t->g[IN - 1][K - 1] = 1;
    polynomial(points, IN - 1, c);
    for (int k = 0; k < IN; k++)
        t->b[IN - 1][k] = fabs(c[k]);
}

/* The signed forms would give the convolution itself; this checks that the absolute ones bound it:
 * |A'| (|G| 1 * |B'| 1) is at least 3, the sum of three products of ones. */
START_TEST(transforms_bound_a_sum_of_ones)
{
    struct transforms t;

    transforms_make(&t);
    for (int o = 0; o < OUT; o++) {
        double sum = 0;
        for (int i = 0; i < IN; i++) {
            double g = 0, b = 0;
            for (int k = 0; k < K; k++)
                g += t.g[i][k];
            for (int k = 0; k < IN; k++)
                b += t.b[i][k];
            sum += t.a[o][i] * g * b;
        }
        ck_assert_double_ge(sum, K);
    }
}
END_TEST

static void draw(float *to, size_t n, uint32_t which)
{
    struct rng rng = rng_make(29, RNG_DUMMY, which, 0);

    for (size_t i = 0; i < n; i++)
        to[i] = 2 * rng_uniform(&rng, i) - 1;
}

struct shape_case {
    int64_t n, c, o, h, w;
    int pad, group;
    bool bias;
};

enum { GROUPED = 6 };

static const struct shape_case cases[] = {
    {2, 16, 32, 14, 14, 1, 1, false}, {1, 64, 16, 13, 13, 1, 1, false},
    {3, 32, 48, 9, 21, 1, 1, true},   {2, 16, 16, 12, 12, 0, 1, false},
    {1, 32, 32, 7, 7, 1, 1, false},   {2, 48, 16, 28, 28, 1, 1, true},
    {2, 64, 32, 13, 13, 1, 2, false}, {3, 96, 48, 13, 9, 1, 3, true},
};

/* All tensors of a case, on the host. */
struct data {
    struct shape_case s;
    int64_t oh, ow;
    size_t workspace;            /* engine_options' */
    char words[ENGINE_OP_WORDS]; /* the engine's of the op */
    float *x, *w, *dy, *b, *y, *dx, *dw, *db;
};

static size_t count(int64_t a, int64_t b, int64_t c, int64_t d)
{
    return (size_t)(a * b * c * d);
}

static void data_make(struct data *d, const struct shape_case *s)
{
    *d = (struct data){.s = *s, .oh = s->h + 2 * s->pad - 2, .ow = s->w + 2 * s->pad - 2};
    size_t nx = count(s->n, s->c, s->h, s->w), nw = count(s->o, s->c / s->group, K, K),
           ny = count(s->n, s->o, d->oh, d->ow);
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

static void data_free(struct data *d)
{
    free(d->x), free(d->w), free(d->dy), free(d->b);
    free(d->y), free(d->dx), free(d->dw), free(d->db);
}

static float x_at(const struct data *d, int64_t n, int64_t c, int64_t h, int64_t w)
{
    bool inside = h >= 0 && h < d->s.h && w >= 0 && w < d->s.w;

    return inside ? d->x[((n * d->s.c + c) * d->s.h + h) * d->s.w + w] : 0;
}

static float dy_at(const struct data *d, int64_t n, int64_t o, int64_t h, int64_t w)
{
    bool inside = h >= 0 && h < d->oh && w >= 0 && w < d->ow;

    return inside ? d->dy[((n * d->s.o + o) * d->oh + h) * d->ow + w] : 0;
}

/* c: within o's group */
static float w_at(const struct data *d, int64_t o, int64_t c, int kh, int kw)
{
    return d->w[((o * (d->s.c / d->s.group) + c) * K + kh) * K + kw];
}

/* Runs the op on the engine, on its own memory; says whether Winograd did all three passes. */
static bool run_case(struct data *d, enum engine_convolution convolution, bool words_wanted)
{
    const struct engine_options options = {
        .threads = 2, .convolution = convolution, .workspace = d->workspace};
    struct engine engine;
    struct rig rig;
    bool all;

    ck_assert_msg(engine_open("cpu", &options, &engine) == 0, "%s", error_text());
    rig_start(&rig, &engine, OP_CONV);
    rig.args.u.conv = (struct conv_args){.kernel = {K, K},
                                         .stride = {1, 1},
                                         .pad = {d->s.pad, d->s.pad},
                                         .dilation = {1, 1},
                                         .group = d->s.group,
                                         .bias = d->s.bias};
    rig_bottom(&rig, 4, (int64_t[]){d->s.n, d->s.c, d->s.h, d->s.w});
    rig_top(&rig, 4, (int64_t[]){d->s.n, d->s.o, d->oh, d->ow});
    rig_param(&rig, 4, (int64_t[]){d->s.o, d->s.c / d->s.group, K, K});
    if (d->s.bias)
        rig_param(&rig, 1, (int64_t[]){d->s.o});
    ck_assert_msg(rig_lay_out(&rig, 0) == 0 && rig_create(&rig) == 0, "%s", error_text());
    engine_describe(&engine, rig.op, d->words);
    all = strcmp(d->words, "Winograd forward data weights") == 0;
    ck_assert(words_wanted || !d->words[0]);
    ck_assert(rig_write(&rig, &rig.bottom[0].value, d->x) == 0 &&
              rig_param_write(&rig, 0, d->w) == 0 &&
              (!d->s.bias || rig_param_write(&rig, 1, d->b) == 0) && rig_forward(&rig) == 0 &&
              rig_read(&rig, &rig.tops[0]->value, d->y) == 0 &&
              rig_write(&rig, &rig.tops[0]->grad, d->dy) == 0 && rig_backward(&rig) == 0 &&
              rig_read(&rig, &rig.bottom[0].grad, d->dx) == 0 &&
              rig_param_read_grad(&rig, 0, d->dw) == 0 &&
              (!d->s.bias || rig_param_read_grad(&rig, 1, d->db) == 0));
    rig_finish(&rig);
    engine_close(&engine);
    return all;
}

/* |L| |m| |R'|, for an m of rows x columns: l is p x rows, r is q x columns. */
static void sandwich(int p, int rows, const double *l, int q, int columns, const double *r,
                     const double *m, double *out)
{
    for (int i = 0; i < p; i++)
        for (int j = 0; j < q; j++) {
            double sum = 0;
            for (int a = 0; a < rows; a++)
                for (int b = 0; b < columns; b++)
                    sum += l[i * rows + a] * m[a * columns + b] * r[j * columns + b];
            out[i * q + j] = sum;
        }
}

static double roundings(double terms)
{
    double n = 2 * (K + IN + IN) + 6 + 1 + terms;

    return n * 0x1p-24 / (1 - n * 0x1p-24);
}

/* from: within the group of `to` */
typedef double (*kernel_at)(const struct data *d, int64_t to, int64_t from, int kh, int kw);
typedef double (*pixel_at)(const struct data *d, int64_t n, int64_t to, int64_t from, int64_t h,
                           int64_t w);

/* The first bottom channel of output o's group, and the first output of bottom channel c's. */
static int64_t first_bottom(const struct data *d, int64_t o)
{
    return o / (d->s.o / d->s.group) * (d->s.c / d->s.group);
}

static int64_t first_output(const struct data *d, int64_t c)
{
    return c / (d->s.c / d->s.group) * (d->s.o / d->s.group);
}

static double forward_kernel(const struct data *d, int64_t o, int64_t c, int kh, int kw)
{
    return (double)w_at(d, o, c, kh, kw);
}

static double forward_pixel(const struct data *d, int64_t n, int64_t o, int64_t c, int64_t h,
                            int64_t w)
{
    return (double)x_at(d, n, first_bottom(d, o) + c, h - d->s.pad, w - d->s.pad);
}

static double backward_kernel(const struct data *d, int64_t c, int64_t o, int kh, int kw)
{
    return (double)w_at(d, first_output(d, c) + o, c % (d->s.c / d->s.group), K - 1 - kh,
                        K - 1 - kw);
}

static double backward_pixel(const struct data *d, int64_t n, int64_t c, int64_t o, int64_t h,
                             int64_t w)
{
    return (double)dy_at(d, n, first_output(d, c) + o, h - (K - 1 - d->s.pad),
                         w - (K - 1 - d->s.pad));
}

/* One tile of one output plane: exact values and bounds, 4 x 4. */
static void tile_expect(const struct data *d, const struct transforms *t, int64_t n, int64_t to,
                        int64_t froms, int64_t h, int64_t w, kernel_at kernel, pixel_at pixel,
                        double exact[OUT][OUT], double bound[OUT][OUT])
{
    double all[IN][IN] = {{0}};

    memset(exact, 0, OUT * OUT * sizeof(double));
    for (int64_t c = 0; c < froms; c++) {
        double g[K][K], x[IN][IN], ag[K][K], ax[IN][IN], gg[IN][IN], xx[IN][IN];
        for (int i = 0; i < K * K; i++) {
            g[i / K][i % K] = kernel(d, to, c, i / K, i % K);
            ag[i / K][i % K] = fabs(g[i / K][i % K]);
        }
        for (int i = 0; i < IN * IN; i++) {
            x[i / IN][i % IN] = pixel(d, n, to, c, h + i / IN, w + i % IN);
            ax[i / IN][i % IN] = fabs(x[i / IN][i % IN]);
        }
        for (int i = 0; i < OUT * OUT; i++)
            for (int k = 0; k < K * K; k++)
                exact[i / OUT][i % OUT] += g[k / K][k % K] * x[i / OUT + k / K][i % OUT + k % K];
        sandwich(IN, K, &t->g[0][0], IN, K, &t->g[0][0], &ag[0][0], &gg[0][0]);
        sandwich(IN, IN, &t->b[0][0], IN, IN, &t->b[0][0], &ax[0][0], &xx[0][0]);
        for (int i = 0; i < IN * IN; i++)
            all[i / IN][i % IN] += gg[i / IN][i % IN] * xx[i / IN][i % IN];
    }
    sandwich(OUT, IN, &t->a[0][0], OUT, IN, &t->a[0][0], &all[0][0], &bound[0][0]);
    for (int i = 0; i < OUT * OUT; i++)
        bound[i / OUT][i % OUT] *= roundings((double)froms);
}

/* All of a result that is a convolution; the worst error over its bound. */
static double check_plane(const struct data *d, const float *found, int64_t tos, int64_t froms,
                          int64_t height, int64_t width, kernel_at kernel, pixel_at pixel,
                          double *largest)
{
    struct transforms t;
    double worst = 0, exact[OUT][OUT], bound[OUT][OUT];

    transforms_make(&t);
    for (int64_t n = 0; n < d->s.n; n++)
        for (int64_t to = 0; to < tos; to++)
            for (int64_t h = 0; h < height; h += OUT)
                for (int64_t w = 0; w < width; w += OUT) {
                    tile_expect(d, &t, n, to, froms, h, w, kernel, pixel, exact, bound);
                    for (int i = 0; i < OUT * OUT; i++) {
                        int64_t y = h + i / OUT, x = w + i % OUT;
                        if (y >= height || x >= width)
                            continue;
                        float value = found[((n * tos + to) * height + y) * width + x];
                        double error = fabs((double)value - exact[i / OUT][i % OUT]);
                        ck_assert_msg(error <= bound[i / OUT][i % OUT],
                                      "%g off, more than the bound %g", error,
                                      bound[i / OUT][i % OUT]);
                        worst = fmax(worst, error / bound[i / OUT][i % OUT]);
                        *largest = fmax(*largest, error);
                    }
                }
    return worst;
}

/* The gradient of weight (o, c): sums over all tiles of a 6x6 piece of x with a 4x4 piece of dy.
 * Its bound has the transforms the other way round: of dy by A (4 terms), back by G. */
static void check_weights(const struct data *d, double *largest)
{
    struct transforms t;
    double at[IN][OUT], gt[K][IN], tiles = 0;

    transforms_make(&t);
    for (int i = 0; i < IN; i++)
        for (int k = 0; k < OUT; k++)
            at[i][k] = t.a[k][i];
    for (int i = 0; i < IN; i++)
        for (int k = 0; k < K; k++)
            gt[k][i] = t.g[i][k];
    for (int64_t o = 0; o < d->s.o; o += 5)
        for (int64_t c = 0; c < d->s.c / d->s.group; c += 3) {
            double all[IN][IN] = {{0}}, exact[K][K] = {{0}}, bound[K][K];
            tiles = 0;
            for (int64_t n = 0; n < d->s.n; n++)
                for (int64_t h = 0; h < d->oh; h += OUT)
                    for (int64_t w = 0; w < d->ow; w += OUT, tiles++) {
                        double x[IN][IN], g[OUT][OUT], xx[IN][IN], gg[IN][IN];
                        for (int i = 0; i < IN * IN; i++)
                            x[i / IN][i % IN] = forward_pixel(d, n, o, c, h + i / IN, w + i % IN);
                        for (int i = 0; i < OUT * OUT; i++)
                            g[i / OUT][i % OUT] = (double)dy_at(d, n, o, h + i / OUT, w + i % OUT);
                        for (int k = 0; k < K * K; k++)
                            for (int i = 0; i < OUT * OUT; i++)
                                exact[k / K][k % K] +=
                                    g[i / OUT][i % OUT] * x[i / OUT + k / K][i % OUT + k % K];
                        for (int i = 0; i < IN * IN; i++)
                            x[i / IN][i % IN] = fabs(x[i / IN][i % IN]);
                        for (int i = 0; i < OUT * OUT; i++)
                            g[i / OUT][i % OUT] = fabs(g[i / OUT][i % OUT]);
                        sandwich(IN, IN, &t.b[0][0], IN, IN, &t.b[0][0], &x[0][0], &xx[0][0]);
                        sandwich(IN, OUT, &at[0][0], IN, OUT, &at[0][0], &g[0][0], &gg[0][0]);
                        for (int i = 0; i < IN * IN; i++)
                            all[i / IN][i % IN] += xx[i / IN][i % IN] * gg[i / IN][i % IN];
                    }
            sandwich(K, IN, &gt[0][0], K, IN, &gt[0][0], &all[0][0], &bound[0][0]);
            for (int k = 0; k < K * K; k++) {
                float found = d->dw[((o * (d->s.c / d->s.group) + c) * K + k / K) * K + k % K];
                double error = fabs((double)found - exact[k / K][k % K]);
                ck_assert_msg(error <= roundings(tiles) * bound[k / K][k % K],
                              "weight gradient %g off, more than the bound %g", error,
                              roundings(tiles) * bound[k / K][k % K]);
                *largest = fmax(*largest, error);
            }
        }
}

/* The bias's gradient; takes the bias out of y, which it moved by at most two roundings of y. */
static void check_bias(struct data *d)
{
    int64_t pixels = d->oh * d->ow;

    for (int64_t o = 0; o < d->s.o; o++) {
        double sum = 0;
        for (int64_t n = 0; n < d->s.n; n++)
            for (int64_t i = 0; i < pixels; i++) {
                sum += (double)d->dy[(n * d->s.o + o) * pixels + i];
                d->y[(n * d->s.o + o) * pixels + i] -= d->b[o];
            }
        ck_assert_double_lt(fabs((double)d->db[o] - sum), 1e-3);
    }
}

START_TEST(all_passes_stay_within_the_bound)
{
    struct data d;
    double y = 0, dx = 0, dw = 0;
    bool all;

    data_make(&d, &cases[_i]);
    all = run_case(&d, CONVOLUTION_WINOGRAD, true);
    if (d.s.bias)
        check_bias(&d);
    check_plane(&d, d.y, d.s.o, d.s.c / d.s.group, d.oh, d.ow, forward_kernel, forward_pixel, &y);
    check_plane(&d, d.dx, d.s.c, d.s.o / d.s.group, d.s.h, d.s.w, backward_kernel, backward_pixel,
                &dx);
    check_weights(&d, &dw);
    printf("%lldx%lldx%lldx%lld to %lld: %s; off by %.1e, %.1e, %.1e\n", (long long)d.s.n,
           (long long)d.s.c, (long long)d.s.h, (long long)d.s.w, (long long)d.s.o,
           all ? "Winograd" : "oneDNN has no Winograd here", y, dx, dw);
    /* what is usual at these sizes; a wrong tile is off by 0.1 and more */
    ck_assert_double_lt(y, 2e-4);
    ck_assert_double_lt(dx, 2e-4);
    ck_assert_double_lt(dw, 2e-3);
    data_free(&d);
}
END_TEST

/* Where the processor has AVX-512 and oneDNN is of generation 2, Winograd is there. */
START_TEST(avx512_has_winograd)
{
#if defined(__x86_64__) && defined(__GNUC__)
    struct data d;

    if (!__builtin_cpu_supports("avx512dq"))
        return;
    data_make(&d, &cases[0]);
#if DNNL_VERSION_MAJOR == 2 /* 3 dropped it */
    ck_assert(run_case(&d, CONVOLUTION_WINOGRAD, true));
#endif
    run_case(&d, CONVOLUTION_DIRECT, false);
    data_free(&d);
    data_make(&d, &cases[GROUPED]);
#if DNNL_VERSION_MAJOR == 2
    ck_assert(run_case(&d, CONVOLUTION_WINOGRAD, true));
#endif
    data_free(&d);
#endif
}
END_TEST

/* The least memory, in steps of so many MiB, with which the passes go by Winograd's algorithm, and
 * what comes out in d; 0 where they never do. */
static size_t least_workspace(const struct shape_case *s, const char *words, size_t step,
                              struct data *d)
{
    for (size_t mib = step; mib <= 128; mib += step) {
        data_make(d, s);
        d->workspace = mib << 20;
        run_case(d, CONVOLUTION_WINOGRAD, true);
        if (strncmp(d->words, words, strlen(words)) == 0)
            return mib;
        data_free(d);
    }
    return 0;
}

static double farthest(const float *a, const float *b, size_t n)
{
    double most = 0;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Eight images need no more memory than one does; seven, of which no half can be made, need more.
 */
START_TEST(images_take_turns_in_little_memory)
{
    static const struct shape_case some[] = {{8, 128, 128, 28, 28, 1, 1, true},
                                             {1, 128, 128, 28, 28, 1, 1, true},
                                             {7, 128, 128, 28, 28, 1, 1, true}};
    struct data d[3], direct;
    size_t least[3], n = count(8, 128, 28, 28);

    for (int i = 0; i < 3; i++) {
        least[i] = least_workspace(&some[i], "Winograd forward data", 1, &d[i]);
        if (!least[i])
            return; /* oneDNN has no Winograd here */
    }
    printf("MiB for 8 images, for 1, for 7: %zu, %zu, %zu\n", least[0], least[1], least[2]);
    ck_assert_uint_le(least[0], least[1]);
    ck_assert_uint_gt(least[2], least[0]);
    data_make(&direct, &some[0]);
    run_case(&direct, CONVOLUTION_DIRECT, false);
    ck_assert_double_lt(farthest(d[0].y, direct.y, n), 4e-4);
    ck_assert_double_lt(farthest(d[0].dx, direct.dx, n), 4e-4);
    for (int i = 0; i < 3; i++)
        data_free(&d[i]);
    data_free(&direct);
}
END_TEST

/* The weights' pass of eight images may be two of four, whose gradients are added. */
START_TEST(gradients_of_halves_are_added)
{
    static const struct shape_case some[] = {{8, 256, 256, 28, 28, 1, 1, true},
                                             {7, 256, 256, 28, 28, 1, 1, true}};
    static const char words[] = "Winograd forward data weights";
    struct data d[2], direct;
    size_t least[2];

    for (int i = 0; i < 2; i++) {
        least[i] = least_workspace(&some[i], words, 4, &d[i]);
        if (!least[i])
            return; /* oneDNN has no Winograd here */
    }
    printf("MiB for 8 images, for 7: %zu, %zu\n", least[0], least[1]);
    ck_assert_uint_gt(least[1], least[0]);
    data_make(&direct, &some[0]);
    run_case(&direct, CONVOLUTION_DIRECT, false);
    ck_assert_double_lt(farthest(d[0].dw, direct.dw, count(256, 256, 3, 3)), 2e-3);
    ck_assert_double_lt(farthest(d[0].db, direct.db, 256), 2e-3);
    for (int i = 0; i < 2; i++)
        data_free(&d[i]);
    data_free(&direct);
}
END_TEST

SUITE("winograd")
{
    TCase *tcase = suite_case(suite, "winograd");

    tcase_add_test(tcase, transforms_bound_a_sum_of_ones);
    tcase_add_loop_test(tcase, all_passes_stay_within_the_bound, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tcase, avx512_has_winograd);
    tcase_add_test(tcase, images_take_turns_in_little_memory);
    tcase_add_test(tcase, gradients_of_halves_are_added);
}
