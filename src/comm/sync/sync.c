/* Creates, starts and closes a rank's synchronisation. */
#include "sync/gradient.h"
#include "sync/home.h"
#include "sync/sync_internal.h"
#include "util/alloc.h"
#include "util/workers.h"

#include <stdlib.h>

/* ---- tags ---- */

static int fit_tags(struct sync *sync)
{
    enum { LATEST = 1024 }; /* iterations that a worker may be behind */
    int *upper = NULL, found = 0, chunks = sync->plan->nchunks > 0 ? sync->plan->nchunks : 1;

    /* Open MPI has this attribute on the world alone */
    MPI_CHECK(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &found));
    sync->tag_period = ((found ? (int64_t)*upper : 32767) + 1) / 2 / chunks;
    if (sync->tag_period > 1 << 16)
        sync->tag_period = 1 << 16;
    if (sync->tag_period < (sync_drops(sync) ? LATEST : 4 + sync->options.staleness))
        return error_set(
            "%d chunks need more message tags than this MPI has (%d); use larger chunks", chunks,
            found ? *upper : 32767);
    return 0;
}

/* ---- steps ---- */

const struct scheme_steps *leading_steps(const struct sync *sync, int bucket)
{
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);
    bool in_team = sync->gather->sums_on_device, alone = sync->gather->sums_nothing;

    if (!b->trains && !b->decays)
        return NULL;
    if (!b->trains && !in_team)
        return alone ? &steps_decay : &steps_decay_node;
    /* the only rank updates where it computes, with all of its threads */
    bool only = plan_is_alone(plan) && !in_team;
    if (b->trains && (!b->scheme || (only && (!gradient_on_host(sync) || alone))))
        return &steps_alone;
    if (in_team && (plan_is_alone(plan) || !b->trains))
        return sync_clips(sync) ? &steps_alone_team_clipped : &steps_alone_team;
    return b->scheme->steps;
}

static const struct scheme_steps *choose_steps(const struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);

    if (sync->buckets[bucket].leads || (!b->scheme && !b->decays))
        return leading_steps(sync, bucket);
    return b->scheme && b->scheme->factors ? &steps_led_factors : &steps_led;
}

/* True if this rank moves any chunk of the bucket. */
static bool leads_bucket(const struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);

    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        if (leads_chunk(sync, c))
            return true;
    return false;
}

static int open_bucket(struct sync *sync, int bucket)
{
    struct sync_bucket *state = &sync->buckets[bucket];

    state->posted = state->signalled = state->applied = sync->options.iteration;
    state->started = state->complete = sync->options.iteration;
    state->newest = sync->options.iteration - 1;
    atomic_init(&state->done, sync->options.iteration);
    state->leads = leads_bucket(sync, bucket);
    state->steps = choose_steps(sync, bucket);
    state->pieces = 1;
    state->depth = state->steps && state->steps->lags ? 1 + sync->options.staleness : 1;
    return OWN(&sync->owner, state->pending, state->depth, "a bucket");
}

static int open_state(struct sync *sync, int bucket)
{
    struct sync_bucket *state = &sync->buckets[bucket];
    const struct scheme_steps *steps = state->steps;

    if (!steps || steps->state_bytes == 0 || !(sync->worker || steps->serves))
        return 0;
    state->scheme_state = owner_array(&sync->owner, 1, steps->state_bytes, "a bucket");
    return state->scheme_state ? steps->open(sync, bucket) : -1;
}

static int open_buckets(struct sync *sync)
{
    for (int b = 0; b < sync->plan->nbuckets; b++)
        if (open_bucket(sync, b))
            return -1;
    if (gradient_place(sync))
        return -1;
    for (int b = 0; b < sync->plan->nbuckets; b++)
        if (open_state(sync, b))
            return -1;
    return clip_open(sync);
}

/* ---- creation ---- */

/* Starts helper threads on a dedicated server, one for each core but the wire thread's; a rank that
 * computes has no spare core. Starts none with a trace, which needs updates one at a time. */
static int open_helpers(struct sync *sync)
{
    bool spare = !sync->worker && !sync->options.trace;
    const struct jobs_options options = {.threads = spare ? sync->options.threads - 1 : 0,
                                         .places = sync->plan->nchunks,
                                         .work = home_help,
                                         .context = sync};

    return options.threads > 0 && options.places > 0 ? jobs_create(&options, &sync->service.helpers)
                                                     : 0;
}

static int open_local(struct sync *sync)
{
    static const char what[] = "synchronisation";
    size_t buckets = (size_t)sync->plan->nbuckets + 1;

    if (OWN(&sync->owner, sync->buckets, buckets, what) ||
        OWN(&sync->owner, sync->waiting, buckets * (size_t)(2 + sync->options.staleness), what) ||
        OWN(&sync->owner, sync->stats.buckets, buckets, what) ||
        OWN(&sync->owner, sync->stats.dropped, sync->nranks, what) ||
        OWN(&sync->owner, sync->links, sync->nranks, what) ||
        (!sync->worker && OWN(&sync->owner, sync->values, sync->model.elems, "parameters")))
        return -1;
    if (sync->worker)
        sync->values = sync->model.values;
    return error_status(fit_tags(sync) || open_helpers(sync) || open_buckets(sync));
}

static const struct gather_i *choose_gather(const struct sync *sync)
{
    if (sync->options.gather)
        return sync->options.gather;
    if (sync->plan->most_locals == 1)
        return &gather_alone;
    return sync->options.node->team ? &gather_team : &gather_node;
}

static bool anything_trains(const struct plan *plan)
{
    for (int b = 0; b < plan->nbuckets; b++)
        if (plan->buckets[b].trains)
            return true;
    return false;
}

static void fill_in(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    bool apart = plan->options.comm.policy == COMM_NONE;
    float passes = (float)plan->leaves;

    sync->leader = plan->leader[sync->world_rank];
    sync->leads = plan_leads(plan, sync->world_rank);
    sync->rank = sync->leads ? sync->leader : -1;
    sync->worker = plan_is_worker(plan, sync->world_rank);
    if (!plan->in_grains)
        passes = (apart ? 1.0f : (float)(plan->ncomputing - plan->options.drop)) *
                 (float)plan->options.iter_size;
    sync->scale = 1.0f / passes;
    sync->data = sync->control = sync->sums = sync->all = MPI_COMM_NULL;
    sync->window.window = MPI_WIN_NULL;
    atomic_init(&sync->service.done, sync->options.iteration);
    sync->gather = choose_gather(sync);
    if (sync->gather->sums)
        sync->model.grads = sync->gather->sums(sync);
    if (!anything_trains(plan)) { /* no norm is ever given: nothing may wait for one */
        sync->options.clip = sync->options.lars = 0;
        sync->options.skips = 0;
    }
}

int sync_create(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                const struct sync_update *update, const struct sync_options *options,
                struct sync **out)
{
    struct sync *sync;

    *out = NULL;
    if (error_agree(world, ALLOC(sync, 1, "synchronisation"))) {
        free(sync);
        return -1;
    }
    sync->plan = plan;
    sync->model = *model;
    sync->update = *update;
    sync->options = *options;
    MPI_Comm_rank(world, &sync->world_rank);
    MPI_Comm_size(world, &sync->nranks);
    fill_in(sync);
    if (error_agree(world, sync_split(sync, world)) || sync_compare_plans(sync) ||
        error_agree(world, sync->gather->open ? sync->gather->open(sync, world) : 0) ||
        error_agree(world, gradient_open(sync)) || error_agree(world, open_local(sync)) ||
        sync_open_wire(sync, world)) {
        sync_destroy(sync);
        return -1;
    }
    *out = sync;
    return 0;
}

int sync_start(struct sync *sync)
{
    for (int b = 0; b < sync->plan->nbuckets; b++)
        if (sync->buckets[b].steps && sync->buckets[b].steps->start)
            sync->buckets[b].steps->start(sync, b);
    return wire_start(sync->wire);
}

int sync_close(struct sync *sync, int status)
{
    status = wire_close(sync->wire, status);
    sync->in_flight = status != 0;
    return status;
}

const char *sync_way(const struct sync *sync)
{
    return plan_is_alone(sync->plan) ? NULL : gradient_way(sync);
}

struct sync_link sync_link(const struct sync *sync, int rank)
{
    struct link_account *link = &sync->links[rank];

    return (struct sync_link){.bytes = atomic_load_explicit(&link->bytes, memory_order_relaxed),
                              .ns = atomic_load_explicit(&link->ns, memory_order_relaxed)};
}

const struct sync_stats *sync_stats(struct sync *sync)
{
    sync->stats.wire = wire_stats(sync->wire);
    return &sync->stats;
}

/* Keeps a sync whose buffers MPI may read and write until the process ends. The list keeps the
 * memory reachable, so that leak checkers do not report it. */
static void abandon(struct sync *sync)
{
    static struct sync *_Atomic all;

    sync->abandoned = atomic_exchange(&all, sync);
}

void sync_destroy(struct sync *sync)
{
    if (!sync)
        return;
    jobs_destroy(sync->service.helpers);
    sync->service.helpers = NULL;
    if (sync->in_flight) {
        abandon(sync);
        return;
    }
    wire_destroy(sync->wire);
    owner_free(&sync->owner);
    node_window_close(&sync->window);
    sync_free_communicators(sync);
    free(sync->calls.sums.values);
    free(sync->calls.asked.values);
    free(sync);
}
