/* Creates, starts and closes a rank's synchronisation. */
#include "sync/gradient.h"
#include "sync/home.h"
#include "sync/sync_internal.h"
#include "util/alloc.h"
#include "util/strbuf.h"
#include "util/workers.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- tags ---- */

static int fit_tags(struct sync *sync)
{
    enum { LATEST = 1024 }; /* iterations that a worker may be behind */
    int *upper = NULL, found = 0, chunks = sync->plan->nchunks > 0 ? sync->plan->nchunks : 1;

    /* Open MPI answers for the world alone */
    MPI_TRY(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &upper, &found));
    sync->tag_period = ((found ? (int64_t)*upper : 32767) + 1) / 2 / chunks;
    if (sync->tag_period > 1 << 16)
        sync->tag_period = 1 << 16;
    if (sync->tag_period < (sync_drops(sync) ? LATEST : 4 + sync->options.staleness))
        return error_set(
            "%d chunks need more message tags than this MPI has (%d); use a larger --tune=chunk",
            chunks, found ? *upper : 32767);
    return 0;
fail:
    return -1;
}

/* ---- steps ---- */

const struct scheme_steps *leading_steps(const struct sync *sync, int bucket)
{
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);
    bool in_team = sync->gather->sums_on_engine, alone = sync->gather->sums_nothing;

    if (!b->trains && !b->decays)
        return NULL;
    if (!b->trains && !in_team)
        return alone ? &steps_decay : &steps_decay_node;
    /* the only rank updates where it computes, by all of its threads */
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

/* Whether this rank moves any chunk of the bucket. */
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

/* ---- the wire's questions ---- */

static int take_updates(struct sync *sync)
{
    uint64_t chunk;
    int count = 0, status;

    while ((status = jobs_take(sync->service.helpers, &chunk)) > 0 &&
           !home_updated(sync, (int)chunk))
        count++;
    return status ? -1 : count;
}

static int look_after(void *context)
{
    struct sync *sync = context;
    int posted = sync->nwaiting > 0 ? bucket_poll(sync) : 0;
    int gathered = sync->gather->poll ? sync->gather->poll(sync) : 0;
    int served = gradient_serve_busy(sync) ? gradient_serve_poll(sync) : 0;
    int helped = jobs_busy(sync->service.helpers) ? take_updates(sync) : 0;

    return posted < 0 || gathered < 0 || served < 0 || helped < 0
               ? -1
               : posted + gathered + served + helped;
}

/* A server has nothing else to do; and where a device's clock runs, that costs no core. */
static enum wire_pace find_pace(void *context)
{
    struct sync *sync = context;
    enum wire_pace gathering = sync->gather->pace ? sync->gather->pace(sync) : WIRE_IDLE;

    if (!sync->worker || sync->nwaiting > 0 || gradient_serve_busy(sync))
        return WIRE_URGENT;
    if (gathering == WIRE_UNDER_WAY && plan_is_alone(sync->plan))
        return WIRE_POLLED;
    if (gathering != WIRE_IDLE)
        return gathering;
    return sync->leads && sync->plan->nleaders > 1 ? WIRE_UNDER_WAY : WIRE_IDLE;
}

static bool is_busy(void *context)
{
    struct sync *sync = context;

    return sync->nwaiting > 0 || gradient_serve_busy(sync) || jobs_busy(sync->service.helpers) ||
           (sync->gather->pace && sync->gather->pace(sync) != WIRE_IDLE);
}

static void abort_gathering(void *context)
{
    struct sync *sync = context;

    if (sync->gather->abort)
        sync->gather->abort(sync);
}

/* The net's first bucket that is not done: the passes wait for that. */
static void describe_wait(void *context, struct strbuf *text)
{
    struct sync *sync = context;
    int b = 0;

    while (b < sync->plan->nbuckets && sync->buckets[b].started == sync->buckets[b].complete)
        b++;
    if (b < sync->plan->nbuckets)
        strbuf_printf(text, " for layer '%s'", bucket_of(sync, b)->name);
    else if (sync->gather->pace && sync->gather->pace(sync) != WIRE_IDLE)
        strbuf_puts(text, " for the other ranks of its node");
}

static int enter(void *context)
{
    struct sync *sync = context;

    return sync->model.engine->i->copies->enter(sync->model.engine->context);
}

/* How many messages may be on their way or wait at a time: what this rank sends of one iteration,
 * and what comes meanwhile. It may be more. */
static int count_messages(const struct sync *sync)
{
    uint64_t count = 2 * plan_messages(sync->plan, sync->world_rank) + 64;

    for (int b = 0; b < sync->plan->nbuckets && sync->plan->in_rounds; b++) {
        uint64_t rounds = (uint64_t)bucket_of(sync, b)->rounds;
        uint64_t sent = plan_traffic(sync->plan, b, sync->world_rank).messages;
        if (rounds > 2) /* of which two may be under way */
            count -= 2 * (sent - 2 * (sent / rounds));
    }

    return count > INT_MAX / 4 ? INT_MAX / 4 : (int)count;
}

static int open_wire(struct sync *sync, MPI_Comm world)
{
    struct wire_options options = {
        .data = sync->leads ? sync->data : MPI_COMM_NULL,
        .sends = sync->options.sends,
        .calls = sync->plan->nbuckets * (4 + sync->options.staleness) + 64,
        .messages = count_messages(sync),
        .context = sync,
        .enter = gradient_is_direct(sync) ? enter : NULL,
        .accept = bucket_accept,
        .account = bucket_account,
        .poll = look_after,
        .pace = find_pace,
        .busy = is_busy,
        .abort = abort_gathering,
        .describe_wait = describe_wait,
        .watch = sync->options.watch,
    };

    return wire_open(world, &options, &sync->wire);
}

/* ---- creation ---- */

/* The same digest everywhere, or the first rank that differs from rank 0 says so. */
static int check_digest(struct sync *sync)
{
    uint64_t mine = plan_digest(sync->plan, (uint64_t)sync->options.staleness), root = mine;

    MPI_TRY(MPI_Bcast(&root, 1, MPI_UINT64_T, 0, sync->all));
    if (mine != root)
        return error_set("this rank's plan of messages differs from rank 0's: are all layers' "
                         "shapes the same there?");
    return 0;
fail:
    return -1;
}

enum { COMMUNICATORS = 4 };

static void list_communicators(struct sync *sync, MPI_Comm *out[COMMUNICATORS])
{
    MPI_Comm *all[COMMUNICATORS] = {&sync->data, &sync->control, &sync->sums, &sync->all};

    memcpy(out, all, sizeof all);
}

/* Whether this rank is the home of any chunk that trains. */
static bool serves(const struct sync *sync)
{
    for (int c = 0; c < sync->plan->nchunks; c++)
        if (is_home(sync, c) && bucket_of(sync, chunk_of(sync, c)->bucket)->trains)
            return true;
    return false;
}

static int split_communicators(struct sync *sync, MPI_Comm world)
{
    bool controls = sync_drops(sync) ? serves(sync) : sync->leads;
    const int color[COMMUNICATORS] = {0, controls ? 0 : MPI_UNDEFINED,
                                      sync->worker ? 0 : MPI_UNDEFINED, 0};
    MPI_Comm *comms[COMMUNICATORS];

    list_communicators(sync, comms);
    for (int i = 0; i < COMMUNICATORS; i++) {
        MPI_TRY(MPI_Comm_split(world, color[i], sync->world_rank, comms[i]));
        if (*comms[i] != MPI_COMM_NULL)
            MPI_TRY(MPI_Comm_set_errhandler(*comms[i], MPI_ERRORS_RETURN));
    }
    return 0;
fail:
    return -1;
}

/* A rank that computes has no core to spare; a dedicated server has all but the wire thread's. A
 * trace wants updates one after the other. */
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
    return error_any(fit_tags(sync) || open_helpers(sync) || open_buckets(sync));
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

    sync->leader = plan->leader[sync->world_rank];
    sync->leads = plan_leads(plan, sync->world_rank);
    sync->rank = sync->leads ? sync->leader : -1;
    sync->worker = plan_is_worker(plan, sync->world_rank);
    sync->scale = 1.0f / ((apart ? 1.0f : (float)(plan->ncomputing - plan->options.drop)) *
                          (float)plan->options.iter_size);
    sync->data = sync->control = sync->sums = sync->all = MPI_COMM_NULL;
    sync->window.window = MPI_WIN_NULL;
    atomic_init(&sync->service.done, sync->options.iteration);
    sync->gather = choose_gather(sync);
    if (sync->gather->sums)
        sync->model.grads = sync->gather->sums(sync);
    if (!anything_trains(plan)) { /* no norm is ever given: nobody may wait for one */
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
    if (error_agree(world, split_communicators(sync, world)) ||
        error_agree(world, check_digest(sync)) ||
        error_agree(world, sync->gather->open ? sync->gather->open(sync, world) : 0) ||
        error_agree(world, gradient_open(sync)) || error_agree(world, open_local(sync)) ||
        open_wire(sync, world)) {
        sync_destroy(sync);
        return -1;
    }
    *out = sync;
    return 0;
}

/* Broadcasts go in pieces: MPI counts are ints, and some transports dislike giants. */
static int broadcast(MPI_Comm comm, float *values, size_t elems)
{
    enum { PIECE = 1 << 24 };
    MPI_Request request;

    for (size_t at = 0; at < elems; at += PIECE) {
        size_t n = elems - at < PIECE ? elems - at : PIECE;
        MPI_TRY(MPI_Ibcast(values + at, (int)n, MPI_FLOAT, 0, comm, &request));
        MPI_TRY(patience_wait("MPI_Bcast", &request));
    }
    return 0;
fail:
    return -1;
}

/* Ranks of a node train from one arena, but for teams: one of them takes part, and the nodes'
 * arenas are in place before anybody reads them. */
static int share_values(struct sync *sync)
{
    const struct node *node = sync->options.node;
    bool shared = node_shares_memory(node), takes = !shared || node->rank == 0;
    MPI_Comm comm;

    MPI_TRY(MPI_Comm_split(sync->all, takes ? 0 : MPI_UNDEFINED, sync->world_rank, &comm));
    if (takes) {
        MPI_TRY(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
        if (broadcast(comm, sync->values, sync->model.elems))
            return -1;
        MPI_TRY(MPI_Comm_free(&comm));
    }
    if (shared)
        MPI_TRY(MPI_Barrier(node->comm));
    return 0;
fail:
    return -1;
}

int sync_share_values(struct sync *sync)
{
    return error_agree(sync->all, share_values(sync));
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

/* What MPI may read and write until the process ends is freed by nobody. It stays within reach, so
 * that whoever looks for lost memory does not take it for such. */
static void abandon(struct sync *sync)
{
    static struct sync *_Atomic all;

    sync->abandoned = atomic_exchange(&all, sync);
}

void sync_destroy(struct sync *sync)
{
    MPI_Comm *comms[COMMUNICATORS];

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
    list_communicators(sync, comms);
    for (int i = 0; i < COMMUNICATORS; i++)
        if (*comms[i] != MPI_COMM_NULL)
            MPI_Comm_free(comms[i]);
    free(sync->calls.sums.values);
    free(sync->calls.asked.values);
    free(sync);
}
