/* Plans a convolution by Winograd's algorithm: by which code, and in which pieces. */
#include "engine/cpu/winograd.h"

#include <limits.h>

/* The fastest sizes on processors with second-level caches of 512 KB and 1 MB. GROUP: tiles of a
 * group; a weight's gradient sums within groups, then over groups. ROUND: common multiple of the
 * codes' tiles in registers. FEW_TILES_CHUNK: the points of a single group serve all chunks, and
 * small chunks keep the weights' points in the caches. */
enum { GROUP = 192, ROUND = 12, CHUNK = 512, FEW_TILES_CHUNK = 96 };

/* Bytes of scratch above which chunks are halved, down to one panel. */
static const size_t enough = (size_t)96 << 20;

static int up(int n, int to)
{
    return (n + to - 1) / to * to;
}

/* Rounds up to a number of cache lines such that points map to different sets of the cache. */
static size_t odd_lines(size_t floats)
{
    size_t lines = (floats + 15) / 16 | 1;

    return (lines % 64 < 9 ? lines / 64 * 64 + 9 : lines) * 16;
}

static void lay_out(struct winograd *p)
{
    int in = p->shape.weights ? p->chunk : p->in, out = p->shape.weights ? p->out : p->chunk;
    size_t rows = (size_t)(p->group / p->rows);

    p->vrow = odd_lines((size_t)in * (size_t)p->rows);
    p->mrow = odd_lines((size_t)out * (size_t)p->rows);
    p->vpoint = odd_lines(p->vrow * rows);
    p->mpoint = odd_lines(p->mrow * rows);
    p->upoint = odd_lines((size_t)in * (size_t)out);
}

size_t winograd_bytes(const struct winograd *p, bool kept)
{
    size_t floats = WINOGRAD_POINTS * (p->vpoint + p->mpoint + (kept ? 0 : p->upoint));
    size_t channels = (size_t)p->shape.groups * (size_t)p->out; /* sums of one image, for biases */

    return (floats > channels ? floats : channels) * sizeof(float);
}

size_t winograd_points_bytes(const struct winograd *p)
{
    size_t chunks = (size_t)((p->out + p->chunk - 1) / p->chunk);

    return (size_t)p->shape.groups * chunks * WINOGRAD_POINTS * p->upoint * sizeof(float);
}

static bool fits(const struct winograd_shape *s, int block)
{
    bool window = s->window == 3 || s->window == 5;
    bool whole = s->in % block == 0 && s->out % block == 0;

    return window && s->images > 0 && s->groups > 0 && s->in > 0 && s->out > 0 &&
           s->in <= INT_MAX / 2 && s->out <= INT_MAX / 2 && (whole || s->groups == 1) &&
           s->pad[0] >= 0 && s->pad[1] >= 0 && s->pad[0] < s->window && s->pad[1] < s->window &&
           s->height <= INT_MAX / 4 && s->width <= INT_MAX / 4;
}

bool winograd_plan_code(const struct winograd_shape *shape, const struct winograd_code *code,
                        size_t most, struct winograd *out)
{
    const struct winograd_shape *s = shape;
    int panel = 2 * code->lanes, groups, most_chunk;
    int64_t tiles;

    *out = (struct winograd){.shape = *s, .code = code, .step = WINOGRAD_SIDE + 1 - s->window};
    out->out_height = s->height + 2 * s->pad[0] - s->window + 1;
    out->out_width = s->width + 2 * s->pad[1] - s->window + 1;
    if (!fits(s, code->block) || out->out_height <= 0 || out->out_width <= 0)
        return false;
    out->down = (out->out_height + out->step - 1) / out->step;
    out->across = (out->out_width + out->step - 1) / out->step;
    tiles = (int64_t)out->down * out->across;
    if (tiles > INT_MAX / 2 / s->images)
        return false;
    out->tiles = (int)tiles * s->images;
    out->in = up(s->in, code->block);
    out->out = up(s->out, code->block);
    groups = (out->tiles + GROUP - 1) / GROUP;
    out->group = up((out->tiles + groups - 1) / groups, ROUND);
    out->rows = s->weights ? out->group : code->rows;
    most_chunk = groups == 1 ? FEW_TILES_CHUNK : CHUNK;
    out->chunk = s->weights ? out->in : out->out;
    if (out->chunk > most_chunk)
        out->chunk = most_chunk;
    lay_out(out);
    while (winograd_bytes(out, false) > (most < enough ? most : enough) && out->chunk > panel) {
        out->chunk = up(out->chunk / 2, panel);
        lay_out(out);
    }
    return winograd_bytes(out, false) <= most;
}

static const struct winograd_code *code_for(int block)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (block == 8 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &winograd_avx2;
    if (block == 16 && __builtin_cpu_supports("avx512f"))
        return &winograd_avx512;
#endif
    return block == 8 ? &winograd_base : NULL;
}

bool winograd_plan(const struct winograd_shape *shape, int block, size_t most, struct winograd *out)
{
    const struct winograd_code *code = code_for(block);

    return code && winograd_plan_code(shape, code, most, out);
}

void winograd_run(const struct winograd *p, const struct winograd_data *data)
{
    (p->shape.weights ? p->code->weights : p->code->forward)(p, data);
}
