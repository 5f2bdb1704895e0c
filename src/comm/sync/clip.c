/* Gives this rank's norms, sums the norms of all ranks, and computes the clipping scale. */
#include "sync/clip.h"

#include "device/exact_sum.h"
#include "sync/gradient.h"
#include "sync/sync_internal.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* True if this rank adds the chunk up and gives its norm. */
static bool clip_is_home(const struct sync *sync, int chunk)
{
    const struct scheme_steps *steps = sync->buckets[chunk_of(sync, chunk)->bucket].steps;

    return steps && steps->home_norms && is_home(sync, chunk);
}

int clip_open(struct sync *sync)
{
    bool exact = sync->options.exact_norms > 0;
    size_t count;
    struct clip *clip = &sync->clip;

    clip->scale = 1;
    clip->given = sync->options.iteration;
    atomic_init(&clip->done, sync->options.iteration);
    if (!sync_clips(sync))
        return 0;
    if (lars_open(sync))
        return -1;
    clip->sums = sync->plan->nchunks + (exact ? EXACT_SUM_WORDS : lars_count(sync));
    count = (size_t)clip->sums + 1;
    if (OWN(&sync->owner, clip->own, count, "clipping norms") ||
        OWN(&sync->owner, clip->all, count, "clipping norms"))
        return -1;
    for (int c = 0; c < sync->plan->nchunks; c++)
        clip->at_home += clip_is_home(sync, c);
    clip->local = clip->at_home;
    clip->computed = sync_drops(sync);
    return 0;
}

/* Returns the factor that turns the sum of gradients into the mean gradient for the norm. */
static float mean_of(const struct sync *sync)
{
    int times = sync->options.exact_norms;

    return times > 0 ? sync->scale * (float)times
                     : 1.0f / (float)(sync->plan->ncomputing - sync->plan->options.drop);
}

/* ---- wire thread ---- */

/* Notes an update that is left out, and its bucket: backward reaches the net's last groups first,
 * so the last bucket that is not finite is the cause. */
static int clip_skip(struct sync *sync, int64_t iteration)
{
    struct clip *clip = &sync->clip;
    int chunk = sync->plan->nchunks - 1, bucket;
    int64_t row = atomic_load(&clip->in_a_row) + 1;

    while (chunk > 0 && isfinite(clip->all[chunk]))
        chunk--;
    bucket = chunk_of(sync, chunk)->bucket;
    atomic_store(&clip->skipped_bucket, bucket);
    atomic_store(&clip->last_skipped, iteration);
    atomic_store(&clip->in_a_row, row);
    atomic_fetch_add(&clip->skipped, 1);
    if (row < sync->options.skips)
        return 0;
    return error_set("iteration %lld: the gradient of layer '%s' is not finite, and %lld updates "
                     "in a row were to be left out: training has diverged; lower base_lr, or set "
                     "clip_gradients",
                     (long long)iteration, bucket_of(sync, bucket)->name, (long long)row);
}

static int clip_complete(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    struct clip *clip = &sync->clip;
    double total = 0, mean = (double)mean_of(sync);

    (void)message;
    assert(clip->local == 0);
    for (int c = 0; c < sync->plan->nchunks; c++)
        total += clip->all[c];
    if (sync->options.exact_norms > 0) {
        if (isfinite(total))
            total = exact_sum_read(clip->all + sync->plan->nchunks) * mean * mean;
        memset(clip->own + sync->plan->nchunks, 0, EXACT_SUM_WORDS * sizeof(double));
    }
    clip->norm = sqrt(total);
    clip->scale = sync->options.clip > 0 && clip->norm > (double)sync->options.clip
                      ? (float)((double)sync->options.clip / clip->norm)
                      : 1.0f;
    lars_settle(sync, clip->all + sync->plan->nchunks);
    clip->skips = sync->options.skips > 0 && !isfinite(clip->norm);
    if (!clip->skips)
        atomic_store(&clip->in_a_row, 0);
    else if (clip_skip(sync, atomic_load_explicit(&clip->done, memory_order_relaxed)))
        return -1;
    clip->local = clip->at_home;
    clip->computed =
        sync_drops(sync); /* then homes alone give norms; no compute thread may delay homes */
    for (int b = 0; b < sync->plan->nbuckets; b++) {
        const struct scheme_steps *steps = sync->buckets[b].steps;
        if (steps && steps->cleared && steps->cleared(sync, b))
            return -1;
    }
    atomic_fetch_add_explicit(&clip->done, 1, memory_order_release);
    wire_wake(sync->wire);
    return 0;
}

/* Starts the allreduce when this rank has all of its norms. */
static int clip_advance(struct sync *sync)
{
    struct clip *clip = &sync->clip;
    /* with --comm=none each rank trains its own net */
    bool apart = sync->plan->options.comm.policy == COMM_NONE;
    int count = clip->sums;
    MPI_Request request;

    if (clip->local > 0 || !clip->computed)
        return 0;
    MPI_CHECK(MPI_Iallreduce(clip->own, clip->all, count, MPI_DOUBLE, MPI_SUM,
                             apart ? MPI_COMM_SELF : sync->control, &request));
    return wire_track(sync->wire, request, (size_t)count * sizeof(double), clip_complete, sync);
}

/* Computes the norms of a chunk, in device memory or on the host. */
static int note_norms(struct sync *sync, int chunk, bool on_device, const float *gradient,
                      const float *values)
{
    size_t elems = chunk_of(sync, chunk)->elems;
    double *own = &sync->clip.own[chunk], *more = sync->clip.own + sync->plan->nchunks;

    if (gradient_sumsq(sync, on_device, gradient, elems, mean_of(sync), own) ||
        lars_note(sync, chunk, on_device, gradient, values, more))
        return -1;
    if (sync->options.exact_norms > 0 && isfinite(*own))
        exact_sum_squares(gradient, elems, more);
    return 0;
}

int clip_chunk_ready(struct sync *sync, int chunk, const float *sum, const float *values)
{
    assert(sync->clip.local > 0);
    sync->clip.local--;
    return error_status(note_norms(sync, chunk, false, sum, values) || clip_advance(sync));
}

static int clip_take(void *context, int64_t argument)
{
    struct sync *sync = context;

    (void)argument;
    sync->clip.computed = true;
    return clip_advance(sync);
}

/* ---- compute thread ---- */

/* Rebuilds the bucket's gradient, and computes norms of this worker's share of the chunks. */
static int clip_give_bucket(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct sync_bucket *state = &sync->buckets[bucket];
    int64_t iteration = state->posted - 1;

    if ((state->steps->ahead && state->steps->ahead(sync, bucket, iteration)) ||
        compute_wait(sync, &state->done, state->posted, bucket) ||
        state->steps->rebuild(sync, bucket, iteration))
        return -1;
    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        if ((state->steps->local || c % sync->plan->nworkers == sync->rank) &&
            note_norms(sync, c, true, sync->model.device_grads + chunk_of(sync, c)->begin,
                       sync->model.device_values + chunk_of(sync, c)->begin))
            return -1;
    return 0;
}

int clip_give(struct sync *sync, int64_t iteration)
{
    if (!sync_clips(sync) || !sync->leads || sync_drops(sync) || sync->clip.given > iteration)
        return 0;
    for (int b = sync->plan->nbuckets - 1; b >= 0 && sync->worker; b--)
        if (sync->buckets[b].steps && sync->buckets[b].steps->rebuild && clip_give_bucket(sync, b))
            return -1;
    assert(sync->clip.given == iteration);
    sync->clip.given = iteration + 1;
    wire_call(sync->wire, clip_take, sync, 0);
    return 0;
}
