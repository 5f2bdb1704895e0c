/* See winograd_bound.h. */
#include "tests/engine/winograd_bound.h"

#include <check.h>
#include <math.h>
#include <string.h>

enum { OUT = 4, IN = 6, K = WINOGRAD_CASE_WINDOW };

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

double winograd_bound_of_ones(int o)
{
    struct transforms t;
    double sum = 0;

    transforms_make(&t);
    for (int i = 0; i < IN; i++) {
        double g = 0, b = 0;
        for (int k = 0; k < K; k++)
            g += t.g[i][k];
        for (int k = 0; k < IN; k++)
            b += t.b[i][k];
        sum += t.a[o][i] * g * b;
    }
    return sum;
}

static float x_at(const struct winograd_case *d, int64_t n, int64_t c, int64_t h, int64_t w)
{
    bool inside = h >= 0 && h < d->s.h && w >= 0 && w < d->s.w;

    return inside ? d->x[((n * d->s.c + c) * d->s.h + h) * d->s.w + w] : 0;
}

static float dy_at(const struct winograd_case *d, int64_t n, int64_t o, int64_t h, int64_t w)
{
    bool inside = h >= 0 && h < d->oh && w >= 0 && w < d->ow;

    return inside ? d->dy[((n * d->s.o + o) * d->oh + h) * d->ow + w] : 0;
}

/* c: within o's group */
static float w_at(const struct winograd_case *d, int64_t o, int64_t c, int kh, int kw)
{
    return d->w[((o * (d->s.c / d->s.group) + c) * K + kh) * K + kw];
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
typedef double (*kernel_at)(const struct winograd_case *d, int64_t to, int64_t from, int kh,
                            int kw);
typedef double (*pixel_at)(const struct winograd_case *d, int64_t n, int64_t to, int64_t from,
                           int64_t h, int64_t w);

/* The first bottom channel of output o's group, and the first output of bottom channel c's. */
static int64_t first_bottom(const struct winograd_case *d, int64_t o)
{
    return o / (d->s.o / d->s.group) * (d->s.c / d->s.group);
}

static int64_t first_output(const struct winograd_case *d, int64_t c)
{
    return c / (d->s.c / d->s.group) * (d->s.o / d->s.group);
}

static double forward_kernel(const struct winograd_case *d, int64_t o, int64_t c, int kh, int kw)
{
    return (double)w_at(d, o, c, kh, kw);
}

static double forward_pixel(const struct winograd_case *d, int64_t n, int64_t o, int64_t c,
                            int64_t h, int64_t w)
{
    return (double)x_at(d, n, first_bottom(d, o) + c, h - d->s.pad, w - d->s.pad);
}

static double backward_kernel(const struct winograd_case *d, int64_t c, int64_t o, int kh, int kw)
{
    return (double)w_at(d, first_output(d, c) + o, c % (d->s.c / d->s.group), K - 1 - kh,
                        K - 1 - kw);
}

static double backward_pixel(const struct winograd_case *d, int64_t n, int64_t c, int64_t o,
                             int64_t h, int64_t w)
{
    return (double)dy_at(d, n, first_output(d, c) + o, h - (K - 1 - d->s.pad),
                         w - (K - 1 - d->s.pad));
}

/* One tile of one output plane: exact values and bounds, 4 x 4. */
static void tile_expect(const struct winograd_case *d, const struct transforms *t, int64_t n,
                        int64_t to, int64_t froms, int64_t h, int64_t w, kernel_at kernel,
                        pixel_at pixel, double exact[OUT][OUT], double bound[OUT][OUT])
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

/* All of a result that is a convolution: the largest error. */
static double check_planes(const struct winograd_case *d, const float *found, int64_t tos,
                           int64_t froms, int64_t height, int64_t width, kernel_at kernel,
                           pixel_at pixel)
{
    struct transforms t;
    double largest = 0, exact[OUT][OUT], bound[OUT][OUT];

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
                        largest = fmax(largest, error);
                    }
                }
    return largest;
}

double winograd_bound_check_y(const struct winograd_case *d)
{
    return check_planes(d, d->y, d->s.o, d->s.c / d->s.group, d->oh, d->ow, forward_kernel,
                        forward_pixel);
}

double winograd_bound_check_dx(const struct winograd_case *d)
{
    return check_planes(d, d->dx, d->s.c, d->s.o / d->s.group, d->s.h, d->s.w, backward_kernel,
                        backward_pixel);
}

/* The gradient of weight (o, c): sums over all tiles of a 6x6 piece of x with a 4x4 piece of dy.
 * Its bound has the transforms the other way round: of dy by A (4 terms), back by G. */
double winograd_bound_check_dw(const struct winograd_case *d)
{
    struct transforms t;
    double at[IN][OUT], gt[K][IN], tiles = 0, largest = 0;

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
                largest = fmax(largest, error);
            }
        }
    return largest;
}
