/* Project Adam's scheme (Chilimbi et al., OSDI'14), one of the paper's baselines: workers send a
 * fully connected layer's factors to the one server that owns the layer. The owner rebuilds the
 * gradient, updates, and sends the whole matrix back. A worker sends little and receives a whole
 * matrix; the owner is a hot spot. */
#include "plan/cost.h"
#include "sync/factors.h"
#include "sync/home.h"
#include "sync/sync_internal.h"
#include "plan/for_schemes.h"

#include <string.h>

/* ---- the plan ---- */

static int owner_of(const struct plan *plan, int bucket)
{
    return plan_home(plan, plan->buckets[bucket].first_chunk);
}

static struct traffic count_traffic(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    bool worker = leader < plan->nworkers;
    uint64_t others = (uint64_t)plan->nworkers - (worker ? 1 : 0);
    uint64_t mine = worker ? plan_factor_bytes(plan, bucket, leader) : 0;
    uint64_t all = plan_factor_bytes(plan, bucket, -1);

    if (leader == owner_of(plan, bucket))
        return (struct traffic){.sent = plan_times(others, b->back_bytes),
                                .received = all == UINT64_MAX ? all : all - mine,
                                .messages = others * (uint64_t)b->nchunks};
    if (worker)
        return (struct traffic){.sent = mine, .received = b->back_bytes, .messages = 1};
    return (struct traffic){0};
}

/* Returns the bytes of all workers' factors and their sum on the owner, own factors elsewhere. */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    if (leader == owner_of(plan, bucket))
        return plan_times(plan_factor_elems(plan, bucket, -1), plan_factor_room(plan, bucket)) +
               plan->buckets[bucket].elems * sizeof(float);
    return leader < plan->nworkers
               ? plan_times(plan_factor_elems(plan, bucket, leader), plan_factor_room(plan, bucket))
               : 0;
}

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);
    out->sum_seconds = cost_decode_seconds(cluster, plan, bucket) +
                       cost_rebuild_seconds(cluster, plan, bucket) +
                       cost_update_seconds(cluster, bytes);
    out->compute_seconds = cost_stage_seconds(cluster, plan, bucket);
}

/* ---- steps: the owner makes the sum on the host, and goes on as a parameter server ---- */

struct adam {
    struct home home;       /* first member: home.c finds it here */
    struct factors factors; /* on the owner all workers' rows, elsewhere this node's rows */
    bool owner;
    bool *here;        /* owner: per worker, its rows of `iteration` are here */
    int arrived;       /* number of workers in `here` */
    int64_t iteration; /* iteration being collected */
    float *gradient;   /* owner: the sum */
};

static int adam_open(struct sync *sync, int bucket)
{
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);
    struct adam *adam = sync->buckets[bucket].scheme_state;

    adam->owner = is_home(sync, b->first_chunk);
    adam->iteration = sync->options.iteration;
    if (home_open(sync, bucket))
        return -1;
    if ((adam->owner || sync->worker) && factors_open(sync, bucket, true, &adam->factors))
        return -1;
    if (!adam->owner)
        return 0;
    adam->gradient = gradient_alloc(sync, b->elems, "the owner's gradient");
    return adam->gradient ? OWN(&sync->owner, adam->here, plan->nworkers, "the owner's gradient")
                          : -1;
}

static int adam_stage(struct sync *sync, int bucket, int micro)
{
    struct adam *adam = sync->buckets[bucket].scheme_state;

    return factors_stage(sync, bucket, &adam->factors, 0, micro);
}

/* Rebuilds the gradient when all rows are here, and hands it to the server chunk by chunk. */
static int adam_rebuild(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct adam *adam = sync->buckets[bucket].scheme_state;

    if (factors_rebuild(sync, bucket, &adam->factors, 0, 0, false, adam->gradient))
        return -1;
    memset(adam->here, 0, (size_t)sync->plan->nworkers * sizeof *adam->here);
    adam->arrived = 0;
    adam->iteration++;
    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        if (home_summed(sync, c, adam->gradient + (chunk_of(sync, c)->begin - b->begin)))
            return -1;
    return 0;
}

static int adam_arrive(struct sync *sync, int bucket, int worker)
{
    struct adam *adam = sync->buckets[bucket].scheme_state;

    adam->here[worker] = true;
    return ++adam->arrived == sync->plan->nworkers ? adam_rebuild(sync, bucket) : 0;
}

static int adam_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = chunk_of(sync, message_chunk(sync, message))->bucket;
    int worker = leader_of(sync, message);
    const struct adam *adam = sync->buckets[bucket].scheme_state;

    factors_decode(&adam->factors, factors_rows(&adam->factors, worker, 0),
                   message->bytes / plan_factor_size(sync->plan, bucket));
    return adam_arrive(sync, bucket, worker);
}

static int adam_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out)
{
    const struct adam *adam = sync->buckets[arrival->bucket].scheme_state;
    int64_t iteration = tag_iteration(sync, arrival, adam->iteration);
    bool wanted = adam->owner && arrival->peer < sync->plan->nworkers && !adam->here[arrival->peer];

    if (arrival->back)
        return home_accept(sync, arrival, out);
    if (arrival_check(sync, arrival, iteration, wanted ? adam->iteration + 1 : 0,
                      (size_t)plan_factor_bytes(sync->plan, arrival->bucket, arrival->peer)))
        return -1;
    out->buffer = factors_message(&adam->factors, factors_rows(&adam->factors, arrival->peer, 0));
    out->done = adam_came;
    return 0;
}

static int adam_post(struct sync *sync, int bucket, int64_t iteration)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct adam *adam = sync->buckets[bucket].scheme_state;
    float *rows = factors_own(&adam->factors, 0);

    factors_encode(&adam->factors, rows, (size_t)plan_factor_elems(sync->plan, bucket, sync->rank));
    bucket_expect(sync, bucket, iteration, b->nchunks + (adam->owner ? 0 : 1));
    if (adam->owner)
        return adam_arrive(sync, bucket, sync->rank);
    return bucket_send(
        sync, bucket, iteration,
        (struct wire_message){.buffer = factors_message(&adam->factors, rows),
                              .bytes = (size_t)plan_factor_bytes(sync->plan, bucket, sync->rank),
                              .peer = plan_home(sync->plan, b->first_chunk),
                              .tag = tag_of(sync, false, b->first_chunk, iteration),
                              .done = bucket_message_over,
                              .user = (uint64_t)iteration});
}

static const struct scheme_steps steps_adam = {
    .state_bytes = sizeof(struct adam),
    .serves = true,
    .open = adam_open,
    .stage = adam_stage,
    .post = adam_post,
    .accept = adam_accept,
    .cleared = home_cleared,
    .history = home_history,
    .restore = home_restore,
    .home_norms = true,
};

const struct scheme scheme_adam = {
    .name = "adam",
    .label = "Adam",
    .help = "send factors to each layer's server, receive full parameters (Project Adam)",
    .home = HOME_OWNER,
    .factors = true, /* not `lossless`, to keep --comm=auto off: one owner does the sends that PS
                        spreads over all servers */
    .traffic = count_traffic,
    .memory = count_memory,
    .cost = estimate,
    .steps = &steps_adam,
};
