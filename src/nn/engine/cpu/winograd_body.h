/* Winograd's algorithm for activations in blocks of BLOCK channels, LANES channels at a time. The
 * including file chooses the instructions, and CODE, the name that is exported.
 *
 * The values of a group of tiles, over all channels, at the 36 points are
 *    v[point][tile / rows][channel / LANES][tile % rows][LANES].
 * Transforming a tile writes them with one vector store for each point. Forward, `rows` is the rows
 * that a product has in registers; for the weights' gradient, `rows` is all tiles of the group. So
 * every product reads one stream, and nothing is ever transposed. */
#include "engine/cpu/element.h"
#include "engine/cpu/winograd_tiles.h"

#include <math.h>
#include <omp.h>

/* ROWS x PANEL, and WEIGHT_ROWS x WEIGHT_VECTORS, vectors of sums fill the registers. DEPTH:
 * channels whose weights for one panel stay in the first-level cache. */
enum {
    ROWS = LANES == 16 ? 12 : 6,
    PANEL = 2,
    DEPTH = 256,
    WEIGHT_ROWS = LANES == 16 ? 8 : 4,
    WEIGHT_VECTORS = 3,
    WEIGHT_TILES = 48, /* tiles that one thread transforms at a time */
};

/* ---- groups of tiles ---- */

/* Current work of a pass: one of the convolution's groups, some tiles, and a chunk of channels. */
struct job {
    const struct winograd *p;
    float *v, *m, *u;   /* values at the points: input; output or its gradient; weights */
    int first, tiles;   /* first tile; number of tiles */
    int from, channels; /* chunk: first channel or output, counted in the group; size */
};

/* A tensor and a range of its channels, counted in vectors of LANES channels. */
struct side {
    const void *data;
    bool half;                   /* elements are bfloat16 */
    int all, from, blocks;       /* vectors: of an image; before the range; in the range */
    int height, width, up, left; /* pixels; pixels of padding above and to the left */
};

/* Returns the first element of vector number `lanes` of channels, counted over all images. */
static size_t plane_at(size_t lanes, size_t pixels)
{
    const size_t each = BLOCK / LANES;

    return lanes / each * pixels * BLOCK + lanes % each * LANES;
}

static const void *side_plane(const struct side *s, int image, int block)
{
    const size_t lanes = (size_t)image * s->all + s->from + block;

    return element_place(s->data, (int64_t)plane_at(lanes, (size_t)s->height * s->width), s->half);
}

static void tile_at(const struct winograd *p, int tile, int *image, int *y, int *x)
{
    int per_image = p->down * p->across, t = tile % per_image;

    *image = tile / per_image;
    *y = t / p->across * p->step;
    *x = t % p->across * p->step;
}

static void side_tile(const struct job *job, const struct side *s, bool gradient, int block, int t,
                      float *to, size_t row, size_t point)
{
    const struct winograd *p = job->p;
    const void *plane;
    int image, y, x;

    tile_at(p, job->first + t, &image, &y, &x);
    plane = side_plane(s, image, block);
    to += (size_t)(t / p->rows) * row + ((size_t)block * p->rows + t % p->rows) * LANES;
    if (gradient)
        gradient_tile(plane, s->half, p->step, s->height, s->width, y, x, to, point);
    else
        image_tile(plane, s->half, s->height, s->width, y - s->up, x - s->left, to, point);
}

/* Transforms the job's tiles of a tensor to the points. */
static void side_points(const struct job *job, const struct side *s, bool gradient, float *to,
                        size_t row, size_t point)
{
    int each = job->p->shape.weights ? WEIGHT_TILES : ROWS;

#pragma omp for schedule(static) collapse(2)
    for (int t0 = 0; t0 < job->tiles; t0 += each)
        for (int block = 0; block < s->blocks; block++)
            for (int t = t0; t < t0 + each && t < job->tiles; t++)
                side_tile(job, s, gradient, block, t, to, row, point);
}

/* Returns the number of parts into which each point's work is cut, for equal shares of threads. */
static int point_parts(int most)
{
    int threads = omp_get_num_threads();

    return POINTS % threads == 0 ? 1 : most < threads ? most : threads;
}

/* ---- forward ---- */

/* Computes m[ROWS tiles][vecs] (+)= v[tiles][LANES blocks] u[LANES blocks][vecs]. */
INLINE void rows_product(const float *v, const float *u, int blocks, int vecs, bool add, float *m)
{
    vec s[ROWS * PANEL]; /* in registers, since all loops over s are unrolled */

#pragma GCC unroll 24
    for (int i = 0; i < ROWS * vecs; i++)
        s[i] = add ? *(const vec *)(m + (i % vecs * ROWS + i / vecs) * LANES) : (vec){0};
    for (int b = 0; b < blocks; b++, v += ROWS * LANES) {
#pragma GCC unroll 2
        for (int k = 0; k < LANES; k++, u += vecs * LANES) {
#pragma GCC unroll 24
            for (int i = 0; i < ROWS * vecs; i++)
                s[i] += v[i / vecs * LANES + k] * *(const vec *)(u + i % vecs * LANES);
        }
    }
#pragma GCC unroll 24
    for (int i = 0; i < ROWS * vecs; i++)
        *(vec *)(m + (i % vecs * ROWS + i / vecs) * LANES) = s[i];
}

static void rows_products(const struct job *job, const float *v, const float *u, int blocks,
                          bool two, bool add, float *m)
{
    for (int t = 0; t < job->tiles; t += ROWS, v += job->p->vrow, m += job->p->mrow) {
        if (two && add)
            rows_product(v, u, blocks, 2, true, m);
        else if (two)
            rows_product(v, u, blocks, 2, false, m);
        else
            rows_product(v, u, blocks, 1, add, m);
    }
}

/* Computes products at one point, of all tiles: outputs `begin` to `end` of the chunk. */
static void point_product(const struct job *job, int i, int begin, int end)
{
    const struct winograd *p = job->p;
    const float *v = job->v + (size_t)i * p->vpoint, *u = job->u + (size_t)i * p->upoint;
    float *m = job->m + (size_t)i * p->mpoint;
    int in = p->in, panel = PANEL * LANES;

    for (int k = 0; k < in; k += DEPTH) {
        int blocks = (in - k < DEPTH ? in - k : DEPTH) / LANES;
        for (int o = begin; o < end; o += panel) {
            bool two = job->channels - o >= panel;
            rows_products(job, v + (size_t)k * ROWS,
                          u + (size_t)o * in + (size_t)k * (two ? panel : LANES), blocks, two,
                          k > 0, m + (size_t)o * ROWS);
        }
    }
}

static void products(const struct job *job)
{
    int panel = PANEL * LANES, panels = (job->channels + panel - 1) / panel;
    int parts = point_parts(panels), each = (panels + parts - 1) / parts * panel;

#pragma omp for schedule(static) collapse(2)
    for (int i = 0; i < POINTS; i++)
        for (int o = 0; o < job->channels; o += each)
            point_product(job, i, o, job->channels - o < each ? job->channels : o + each);
}

/* Copies the weights of LANES outputs at LANES channels to lanes[window * window * LANES][LANES],
 * with zeros behind the last output and channel. */
static void weights_gather(const struct winograd_shape *s, const float *w, int o, int c,
                           float *lanes)
{
    int taps = s->window * s->window;

    for (int a = 0; a < LANES; a++)
        for (int b = 0; b < LANES; b++) {
            int output = s->turned ? b : a, channel = s->turned ? a : b;
            bool exists = o + output < s->out && c + channel < s->in;
            const float *from = w + (s->turned ? (size_t)(c + channel) * s->out + o + output
                                               : (size_t)(o + output) * s->in + c + channel) *
                                        taps;
            for (int k = 0; k < taps; k++)
                lanes[(channel * taps + (s->turned ? taps - 1 - k : k)) * LANES + output] =
                    exists ? from[k] : 0;
        }
}

INLINE void weights_points_of(const float *lanes, int n, float *to, size_t point)
{
    vec d[SIDE][SIDE];

    for (int k = 0; k < n * n; k++)
        d[k / n][k % n] = *(const vec *)(lanes + k * LANES);
    factor_tile(d, n, to, point);
}

/* Transforms the weights of LANES outputs at LANES channels into the panel that products read. */
static void weights_block(const struct job *job, const float *w, int o, int c0)
{
    const struct winograd_shape *s = &job->p->shape;
    int panel = PANEL * LANES, taps = s->window * s->window, at = o / panel * panel;
    int width = job->channels - at >= panel ? panel : LANES;
    float lanes[5 * 5 * LANES * LANES] __attribute__((aligned(64)));

    weights_gather(s, w, job->from + o, c0, lanes);
    for (int c = 0; c < LANES; c++) {
        float *to = job->u + (size_t)at * job->p->in + (size_t)(c0 + c) * width + o % panel;
        const float *from = lanes + c * taps * LANES;
        if (s->window == 3)
            weights_points_of(from, 3, to, job->p->upoint);
        else
            weights_points_of(from, 5, to, job->p->upoint);
    }
}

/* Transforms the chunk's weights to the points. */
static void weights_points(const struct job *job, const float *w)
{
#pragma omp for schedule(static) collapse(2)
    for (int o = 0; o < job->channels; o += LANES)
        for (int c = 0; c < job->p->in; c += LANES)
            weights_block(job, w, o, c);
}

/* Destination of a pass's results. */
struct results {
    const float *bias; /* biases of the job's outputs; NULL: none */
    int biases;        /* number of biases */
    void *y;
    size_t all, from; /* see struct side */
    float least;      /* results below this become 0 */
};

static void results_row(const struct job *job, const struct results *to, int t0, int block)
{
    const struct winograd *p = job->p;
    const float *from = job->m + (size_t)(t0 / ROWS) * p->mrow + (size_t)block * ROWS * LANES;
    size_t pixels = (size_t)p->out_height * p->out_width;
    float bias[LANES] = {0};

    for (int l = 0; to->bias && l < LANES && block * LANES + l < to->biases; l++)
        bias[l] = to->bias[block * LANES + l];
    for (int t = t0; t < t0 + ROWS && t < job->tiles; t++, from += LANES) {
        int image, row, column;
        size_t lanes;
        tile_at(p, job->first + t, &image, &row, &column);
        lanes = (size_t)image * to->all + to->from + block;
        back_tile(from, p->mpoint, p->step, to->bias ? bias : NULL, to->least,
                  element_room(to->y, (int64_t)plane_at(lanes, pixels), p->shape.half),
                  p->shape.half, p->out_height, p->out_width, row, column);
    }
}

static void results_store(const struct job *job, const struct results *to)
{
#pragma omp for schedule(static) collapse(2)
    for (int t = 0; t < job->tiles; t += ROWS)
        for (int block = 0; block < job->channels / LANES; block++)
            results_row(job, to, t, block);
}

static struct job job_start(const struct winograd *p, float *scratch)
{
    return (struct job){.p = p,
                        .v = scratch,
                        .m = scratch + POINTS * p->vpoint,
                        .u = scratch + POINTS * (p->vpoint + p->mpoint)};
}

/* Takes the next group of tiles; false behind the last group. */
static bool job_group(struct job *job, int first)
{
    int left = job->p->tiles - first;

    job->first = first;
    job->tiles = left < job->p->group ? left : job->p->group;
    return left > 0;
}

/* Points job->u at kept weights, if any. Returns true if the chunk's weights have to be
 * transformed. */
static bool points_find(struct job *job, const struct winograd_data *d, int group)
{
    const struct winograd *p = job->p;
    int chunks = (p->out + p->chunk - 1) / p->chunk;

    if (!d->points)
        return true;
    job->u = d->points + ((size_t)group * chunks + job->from / p->chunk) * POINTS * p->upoint;
    return !d->pointed;
}

static void forward_group(const struct winograd *p, const struct winograd_data *d, int group)
{
    const struct winograd_shape *s = &p->shape;
    const struct side in = {d->x,
                            s->half,
                            s->groups * p->in / LANES,
                            group * p->in / LANES,
                            p->in / LANES,
                            s->height,
                            s->width,
                            s->pad[0],
                            s->pad[1]};
    struct job job = job_start(p, d->scratch);
    size_t outputs = (size_t)group * s->out;

    for (int o = 0; o < p->out; o += p->chunk) {
        const size_t at = outputs + (size_t)o;
        const struct results out = {
            d->bias ? d->bias + at : NULL,        s->out - o, d->y,
            (size_t)(s->groups * p->out / LANES), at / LANES, d->relu ? 0 : -INFINITY};
        job.from = o;
        job.channels = p->out - o < p->chunk ? p->out - o : p->chunk;
        if (points_find(&job, d, group))
            weights_points(&job, d->weights + outputs * s->in * s->window * s->window);
        for (int t = 0; job_group(&job, t); t += p->group) {
            if (o == 0 || job.tiles < p->tiles) /* later chunks reuse a single group's points */
                side_points(&job, &in, false, job.v, p->vrow, p->vpoint);
            products(&job);
            results_store(&job, &out);
        }
    }
}

static void forward(const struct winograd *p, const struct winograd_data *data)
{
#pragma omp parallel
    for (int group = 0; group < p->shape.groups; group++)
        forward_group(p, data, group);
}

/* ---- the weights' gradient ---- */

/* Computes to[WEIGHT_ROWS outputs][vecs] (+)= dy[tiles][outputs]' v[tiles][vecs of channels]. */
INLINE void weights_product(const float *dy, const float *v, size_t block, int tiles, int vecs,
                            bool add, float *to, size_t output)
{
    vec s[WEIGHT_ROWS * WEIGHT_VECTORS];

#pragma GCC unroll 24
    for (int i = 0; i < WEIGHT_ROWS * vecs; i++)
        s[i] = (vec){0};
#pragma GCC unroll 2
    for (int t = 0; t < tiles; t++) {
#pragma GCC unroll 24
        for (int i = 0; i < WEIGHT_ROWS * vecs; i++)
            s[i] += dy[t * LANES + i / vecs] *
                    *(const vec *)(v + (size_t)(i % vecs) * block + t * LANES);
    }
#pragma GCC unroll 24
    for (int i = 0; i < WEIGHT_ROWS * vecs; i++) {
        vec *at = (vec *)(to + (size_t)(i / vecs) * output + i % vecs * LANES);
        if (add)
            s[i] += *at;
        *at = s[i];
    }
}

/* Sums weight gradients at one point: outputs `begin` to `end` by the chunk's channels. */
static void point_weights(const struct job *job, int i, int begin, int end)
{
    const struct winograd *p = job->p;
    const float *v = job->v + (size_t)i * p->vpoint, *dy = job->m + (size_t)i * p->mpoint;
    size_t block = (size_t)p->rows * LANES, output = (size_t)job->channels;
    bool add = job->first > 0;

    for (int c = 0; c < job->channels; c += WEIGHT_VECTORS * LANES) {
        int left = (job->channels - c) / LANES;
        const float *from = v + (size_t)(c / LANES) * block;
        for (int o = begin; o < end; o += WEIGHT_ROWS) {
            const float *g = dy + (size_t)(o / LANES) * block + o % LANES;
            float *to = job->u + (size_t)i * p->upoint + (size_t)o * output + c;
            if (left >= 3)
                weights_product(g, from, block, job->tiles, 3, add, to, output);
            else if (left == 2)
                weights_product(g, from, block, job->tiles, 2, add, to, output);
            else
                weights_product(g, from, block, job->tiles, 1, add, to, output);
        }
    }
}

static void weights_products(const struct job *job)
{
    int out = job->p->out, parts = point_parts(out / LANES);
    int each = (out / LANES + parts - 1) / parts * LANES;

#pragma omp for schedule(static) collapse(2)
    for (int i = 0; i < POINTS; i++)
        for (int o = 0; o < out; o += each)
            point_weights(job, i, o, out - o < each ? out : o + each);
}

INLINE void weights_result_of(const float *from, size_t point, int n, int channels, float *dw)
{
    vec r[SIDE][SIDE];

    result_tile(from, point, n, r);
    for (int l = 0; l < LANES && l < channels; l++)
        for (int k = 0; k < n * n; k++)
            dw[l * n * n + k] = r[k / n][k % n][l];
}

static void weights_output(const struct job *job, int o, float *dw)
{
    int window = job->p->shape.window;

    for (int c = 0; c < job->channels; c += LANES, dw += LANES * window * window) {
        const float *from = job->u + (size_t)o * job->channels + c;
        int channels = job->p->shape.in - job->from - c;
        if (window == 3)
            weights_result_of(from, job->p->upoint, 3, channels, dw);
        else
            weights_result_of(from, job->p->upoint, 5, channels, dw);
    }
}

/* Transforms and stores the chunk's gradients; dw: of its first channel and the first output. */
static void weights_store(const struct job *job, float *dw)
{
    const struct winograd_shape *s = &job->p->shape;

#pragma omp for schedule(static)
    for (int o = 0; o < s->out; o++)
        weights_output(job, o, dw + (size_t)o * s->in * s->window * s->window);
}

static void weights_group(const struct winograd *p, const struct winograd_data *d, int group)
{
    const struct winograd_shape *s = &p->shape;
    const struct side dy = {d->dy,
                            s->half,
                            s->groups * p->out / LANES,
                            group * p->out / LANES,
                            p->out / LANES,
                            p->out_height,
                            p->out_width,
                            0,
                            0};
    struct side in = {d->x,      s->half,  s->groups * p->in / LANES, 0, 0, s->height, s->width,
                      s->pad[0], s->pad[1]};
    struct job job = job_start(p, d->scratch);
    size_t taps = (size_t)(s->window * s->window);

    for (int c = 0; c < p->in; c += p->chunk) {
        job.from = c;
        job.channels = p->in - c < p->chunk ? p->in - c : p->chunk;
        in.from = (group * p->in + c) / LANES;
        in.blocks = job.channels / LANES;
        for (int t = 0; job_group(&job, t); t += p->group) {
            side_points(&job, &in, false, job.v, p->vrow, p->vpoint);
            if (c == 0 || job.tiles < p->tiles)
                side_points(&job, &dy, true, job.m, p->mrow, p->mpoint);
            weights_products(&job);
        }
        weights_store(&job, d->dweights + ((size_t)group * s->out * s->in + c) * taps);
    }
}

/* Sums a plane: pixels of each row, then rows. */
static void plane_sum(const void *plane, bool half, int height, int width, float *sum)
{
    vec all = {0};

    for (int y = 0; y < height; y++) {
        vec row = {0};
        for (int x = 0; x < width; x++) {
            vec pixel;
            pixel_load(plane, ((size_t)y * width + x) * BLOCK, half, &pixel);
            row += pixel;
        }
        all += row;
    }
    *(vec *)sum = all;
}

/* Sums the biases' gradient: several images side by side, then their sums in order. */
static void bias_gradient(const struct winograd *p, const struct winograd_data *d)
{
    int blocks = p->shape.groups * p->out / LANES, images = p->shape.images;
    int some = (int)(winograd_bytes(p, false) / sizeof(vec) / (size_t)blocks);
    const struct side dy = {d->dy,         p->shape.half, blocks, 0, blocks,
                            p->out_height, p->out_width,  0,      0};

    for (int n = 0; n < images; n += some) {
        int now = images - n < some ? images - n : some;
#pragma omp for schedule(static) collapse(2)
        for (int i = 0; i < now; i++)
            for (int b = 0; b < blocks; b++)
                plane_sum(side_plane(&dy, n + i, b), dy.half, p->out_height, p->out_width,
                          d->scratch + ((size_t)i * blocks + b) * LANES);
#pragma omp for schedule(static)
        for (int c = 0; c < p->shape.groups * p->shape.out; c++) {
            float all = n > 0 ? d->dbias[c] : 0;
            for (int i = 0; i < now; i++)
                all += d->scratch[(size_t)i * blocks * LANES + c];
            d->dbias[c] = all;
        }
    }
}

static void weights(const struct winograd *p, const struct winograd_data *data)
{
#pragma omp parallel
    {
        for (int group = 0; data->dweights && group < p->shape.groups; group++)
            weights_group(p, data, group);
        if (data->dbias)
            bias_gradient(p, data);
    }
}

const struct winograd_code CODE = {BLOCK, LANES, ROWS, forward, weights};
