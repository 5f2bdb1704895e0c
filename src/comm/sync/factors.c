/* Rows of factors, and gradients rebuilt from these rows. */
#include "sync/factors.h"

#include "sync/gradient_internal.h"

#include "device/codec.h"
#include "util/alloc.h"
#include "plan/for_schemes.h"

#include <assert.h>
#include <stdlib.h>

/* Opens the column of ones, one for each row of a slot. */
static int open_ones(struct sync *sync, struct factors *out)
{
    const struct device *device = out->device;
    size_t rows = (size_t)out->workers * (size_t)out->round_rows;
    float *values;
    int status;

    out->ones = gradient_alloc_on(sync, device, rows, "sufficient factors");
    if (!out->ones || ALLOC(values, rows, "sufficient factors"))
        return -1;
    for (size_t i = 0; i < rows; i++)
        values[i] = 1;
    status = device->i->write(device->context, out->ones, values, rows);
    free(values);
    return status;
}

static void lay_out(const struct sync *sync, int bucket, struct factors *out)
{
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);
    bool everywhere = b->scheme->home == HOME_NOBODY;
    bool all = everywhere || plan_home(plan, b->first_chunk) == sync->leader;

    *out = (struct factors){.slots = everywhere ? 2 : 1,
                            .workers = all ? plan->nworkers : 1,
                            .mine = all ? sync->leader : 0,
                            .rounds = everywhere ? b->rounds : 1,
                            .rows_each = plan_most_rows(plan, bucket)};
    out->round_rows = everywhere ? plan_round_rows(plan, bucket) : out->rows_each;
    out->each = (size_t)(out->rows_each * (b->m + b->n));
    out->round_each = (size_t)(out->round_rows * (b->m + b->n));
}

static size_t all_elems(const struct factors *factors)
{
    return (factors->rounds > 1 ? factors->each : 0) +
           factors->round_each * (size_t)factors->workers * (size_t)factors->slots;
}

size_t factors_elems(const struct sync *sync, int bucket)
{
    struct factors factors;

    lay_out(sync, bucket, &factors);
    return all_elems(&factors);
}

size_t factors_round_elems(const struct sync *sync, int bucket, const struct factors *factors,
                           int leader, int round)
{
    size_t all = (size_t)plan_factor_elems(sync->plan, bucket, leader), most = factors->round_each;
    size_t before = (size_t)round * most;

    if (before >= all)
        return 0;
    return all - before < most ? all - before : most;
}

void factors_encode(const struct factors *factors, float *rows, size_t elems)
{
    if (factors->halves)
        bf16_round(rows, elems, factors_message(factors, rows));
}

void factors_decode(const struct factors *factors, float *rows, size_t elems)
{
    if (factors->halves)
        bf16_expand(factors_message(factors, rows), elems, rows);
}

/* Opens the zeroed rows. elems: floats that the device computes with at a time; 0: none. shared:
 * host memory for the rows, or NULL. straight: rows may be in device memory alone. */
static int open_rows(struct sync *sync, size_t elems, float *shared, bool straight,
                     struct factors *out)
{
    static const char what[] = "sufficient factors";
    size_t all = all_elems(out);

    out->straight = straight && gradient_is_direct(sync);
    out->rows = out->straight ? gradient_alloc_on(sync, sync->model.device, all, what)
                : shared      ? shared
                              : gradient_alloc(sync, all, what);
    if (!out->rows)
        return -1;
    if (out->straight || elems == 0 || gradient_on_host(sync))
        return 0; /* the device reads each slot in place, or does not compute with rows */
    out->slot = gradient_alloc_on(sync, sync->model.device, elems, what);
    return out->slot ? 0 : -1;
}

int factors_open(struct sync *sync, int bucket, bool on_host, struct factors *out)
{
    const struct bucket *b = bucket_of(sync, bucket);
    int64_t width = b->m + b->n;
    bool floats = !plan_halves(sync->plan, bucket);
    float *shared;

    lay_out(sync, bucket, out);
    out->device = on_host ? gradient_host_device(sync) : sync->model.device;
    if (b->slices == 1 && out->round_rows > PLAN_LARGEST_MESSAGE / (int64_t)sizeof(float) / width)
        return error_set("layer '%s': %lld rows of %lld factors are too many for one message; use "
                         "the parameter server",
                         b->name, (long long)out->round_rows, (long long)width);
    shared = sync->gather->rows ? sync->gather->rows(sync, bucket) : NULL;
    if (!floats && OWN(&sync->owner, out->halves, all_elems(out), "sufficient factors"))
        return -1;
    /* not straight with several rounds or bfloat16: the host then copies or rounds the rows */
    return error_status(open_rows(sync, on_host ? 0 : out->round_each * (size_t)out->workers,
                                  shared, !on_host && out->rounds == 1 && floats, out) ||
                        open_ones(sync, out));
}

/* Copies `count` rows of `width` floats of device memory to rows at `to`. */
static int stage_rows(struct sync *sync, int bucket, const struct factors *factors, float *to,
                      const float *from, size_t width, size_t count)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct gradient *g = sync->gradient;
    const struct device_rows rows = {.host = to,
                                     .host_stride = (size_t)(b->m + b->n),
                                     .memory = (float *)(uintptr_t)from,
                                     .stride = width,
                                     .width = width,
                                     .rows = count};

    return g->copies->copy(g->context, factors->straight ? DEVICE_WITHIN : DEVICE_FETCH, &rows,
                           DEVICE_IN_TURN, g->buckets[bucket].down);
}

/* Returns the parts (shares of the batch) of the node's earlier ranks, whose rows come before this
 * rank's rows, as further micro-batches of the leader. */
static size_t parts_before(const struct sync *sync)
{
    size_t parts = 0;

    for (int r = 0; r < sync->world_rank; r++)
        parts += sync->plan->leader[r] == sync->leader ? (size_t)sync->plan->part[r] : 0;
    return parts;
}

int factors_stage(struct sync *sync, int bucket, const struct factors *factors, int slot, int micro)
{
    const struct bucket *b = bucket_of(sync, bucket);
    size_t m = (size_t)b->m, n = (size_t)b->n;
    size_t rows = (size_t)(b->k * sync->plan->part[sync->world_rank]);
    size_t before = parts_before(sync) * (size_t)b->k * (size_t)sync->plan->options.iter_size;
    float *row = factors_own(factors, slot) + (before + (size_t)micro * rows) * (m + n);
    const float *bottom, *top_grad;

    assert((before + ((size_t)micro + 1) * rows) * (m + n) <= factors->each);
    sync->model.factors(sync->model.context, b->first_group, &bottom, &top_grad);
    return error_status(stage_rows(sync, bucket, factors, row, bottom, n, rows) ||
                        stage_rows(sync, bucket, factors, row + n, top_grad, m, rows));
}

int factors_store(struct sync *sync, int bucket, const struct factors *factors, int slot)
{
    const struct gradient *g = sync->gradient;
    const struct device_rows rows = {.host = factors_rows(factors, 0, slot),
                                     .memory = factors->slot,
                                     .width = factors->round_each * (size_t)factors->workers,
                                     .rows = 1};

    return factors->slot ? g->copies->copy(g->context, DEVICE_STORE, &rows, DEVICE_STORED,
                                           g->buckets[bucket].up)
                         : 0;
}

/* Returns the slot's rows in the device's memory. */
static const float *device_rows_of(const struct factors *factors, int slot)
{
    return factors->slot ? factors->slot : factors_rows(factors, 0, slot);
}

int factors_product(struct sync *sync, int bucket, const struct factors *factors, int slot,
                    int first, int last, bool add, float *gradient)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct device *device = factors->device;
    int64_t rows = (last - first) * factors->round_rows, width = b->m + b->n;
    const float *from = device_rows_of(factors, slot) + (size_t)first * factors->round_each;

    if (device->i->blank && first <= factors->mine && factors->mine < last)
        rows -= factors->round_rows; /* this rank's product is in the time of backward */
    if (rows > 0 &&
        device->i->gemm(device->context, true, false, b->m, b->n, rows, 1.0f, from + b->n, width,
                        from, width, add ? 1.0f : 0.0f, gradient, b->n))
        return error_context("layer '%s': rebuilding the gradient from factors", b->name);
    return 0;
}

/* True if the bias learns. Else its gradient must be 0, as in other schemes and Caffe, since norms
 * count it, though its factors are not 0. A weight that does not learn never travels as factors. */
static bool bias_learns(const struct sync *sync, const struct bucket *b)
{
    const struct group *group = &sync->plan->groups[b->first_group];

    return group->nparams > 1 && group->params[1].lr_mult != 0;
}

int factors_rebuild(struct sync *sync, int bucket, const struct factors *factors, int slot,
                    int first, bool add, float *gradient)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct device *device = factors->device;
    int64_t rows = factors->workers * factors->round_rows, width = b->m + b->n;
    float *bias = gradient + b->m * b->n;
    const float *from = device_rows_of(factors, slot);

    if (factors_product(sync, bucket, factors, slot, first, factors->workers, add || first > 0,
                        gradient))
        return -1;
    if (!bias_learns(sync, b) || device->i->blank)
        return 0;
    if (device->i->gemm(device->context, true, false, b->m, 1, rows, 1.0f, from + b->n, width,
                        factors->ones, 1, add ? 1.0f : 0.0f, bias, 1))
        return error_context("layer '%s': rebuilding the bias's gradient from factors", b->name);
    return 0;
}
