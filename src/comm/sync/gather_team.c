/* Adds up within a node whose ranks compute on devices that reach each other, by device_team_i
 * (device/device.h). The leader's device gets the sum, which travels as if the leader were alone;
 * then the leader's device gives the new parameters to the others.
 *
 * All ranks must ask for the same operations in the same order. But sums are asked for as backward
 * makes gradients, and parameters as the network brings them, which only the leader sees. So the
 * leader writes the order into a ring in shared memory, and every rank follows it, the leader, too.
 * No rank waits for this: the wire thread asks for an operation at its turn, and the device runs
 * the operation when all ranks have asked.
 *
 * Why no rank waits for ever. Take the first operation that is not over: some rank R has asked for
 * all operations before it, but not for this one. Every rank asks for parameters as soon as they
 * are ordered, so this operation is a sum, whose gradient R's backward has not computed yet. R's
 * backward needs parameters of the last iteration. The leader needed the same parameters, and
 * ordered them before it posted any gradient of this iteration. So R has asked for these
 * parameters, they are in place, and R's backward depends on R alone. A server's updates take turns
 * among the operations, but updates before a sum belong to the last iteration, or to this
 * iteration, whose parameters no rank's backward needs. If R has failed, all ranks abort the
 * operations under way, since compute threads may wait for them on the device.
 *
 * The ring is large enough. The leader orders a sum of iteration t + 1 after its forward pass read
 * the loss, so after all sums of iteration t were over. Other ranks are behind by at most the
 * parameters of t and both operations of t + 1: three for each bucket. */
#include "sync/gather.h"

#include "sync/gradient.h"
#include "sync/sync_internal.h"

enum { OPERATIONS = 4 }; /* operations of each bucket in the ring */

/* State of one bucket on this rank. */
struct team_bucket {
    struct device_ticket *passed; /* end of the computation of its gradient */
    bool posted;                  /* true from post until this rank asks for the bucket's sum */
    int missing; /* posts whose parameters are not asked for: up to two on the leader, until its own
                    wire thread asks */
};

struct team_gather {
    _Atomic uint64_t *order; /* ring: number (from 1) << 32 | bucket << 1 | parameters */
    uint64_t places;
    uint64_t ordered,
        followed; /* operations that the leader has ordered, and that this rank has asked for */
    struct team_bucket *buckets;
    int missing; /* sum of `missing` over all buckets */
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "an entry that processes share must not need a lock");

static const struct device_i *device_of(const struct sync *sync)
{
    return sync->model.device->i;
}

static void *context_of(const struct sync *sync)
{
    return sync->model.device->context;
}

static int open_team(struct sync *sync)
{
    size_t buckets = (size_t)sync->plan->nbuckets + 1;
    struct team_gather *team;

    if (OWN(&sync->owner, team, 1, "the node's buckets"))
        return -1;
    sync->gathering = team;
    if (OWN(&sync->owner, team->buckets, buckets, "the node's buckets"))
        return -1;
    for (int b = 0; b < sync->plan->nbuckets && sync->options.node->nranks > 1; b++)
        if (gradient_ticket(sync, &team->buckets[b].passed))
            return -1;
    return 0;
}

static int team_open(struct sync *sync, MPI_Comm world)
{
    uint64_t places = OPERATIONS * (uint64_t)sync->plan->nbuckets + 1;
    struct team_gather *team;

    if (error_agree(world, open_team(sync)) ||
        gather_open_window(sync, world, places * sizeof *team->order, "the order of operations"))
        return -1;
    team = sync->gathering;
    team->order = sync->window.memory;
    team->places = places;
    return 0;
}

static int team_mark(struct sync *sync, int bucket)
{
    const struct device_rows none = {.rows = 0};
    struct team_gather *team = sync->gathering;

    return device_of(sync)->copies->copy(context_of(sync), DEVICE_WITHIN, &none, DEVICE_IN_TURN,
                                         team->buckets[bucket].passed);
}

/* ---- wire thread ---- */

static void team_order(struct team_gather *team, int bucket, bool parameters)
{
    uint64_t number = ++team->ordered;

    atomic_store_explicit(&team->order[number % team->places],
                          number << 32 | (uint64_t)bucket << 1 | (uint64_t)parameters,
                          memory_order_release);
}

static int team_post(struct sync *sync, int bucket)
{
    struct team_gather *team = sync->gathering;

    team->buckets[bucket].posted = true;
    team->buckets[bucket].missing++;
    team->missing++;
    if (sync->leads)
        team_order(team, bucket, false);
    return 0;
}

static bool team_publish(struct sync *sync, int bucket)
{
    team_order(sync->gathering, bucket, true);
    return true;
}

static int ask_for_sum(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct team_gather *team = sync->gathering;

    team->buckets[bucket].posted = false;
    if (device_of(sync)->team->reduce(context_of(sync), sync->model.device_grads + b->begin,
                                      b->elems, team->buckets[bucket].passed))
        return error_context("layer '%s': the node's sum", b->name);
    if (!sync->leads)
        return 0;
    if (sync->buckets[bucket].steps->stays)
        return bucket_post(sync, bucket);
    return error_status(gradient_depart(sync, bucket, DEVICE_STORED) || bucket_await(sync, bucket));
}

/* Asks for the parameters. The other ranks' next pass waits for them on the device. */
static int ask_for_parameters(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct team_gather *team = sync->gathering;

    team->buckets[bucket].missing--;
    team->missing--;
    if (device_of(sync)->team->broadcast(context_of(sync), sync->model.device_values + b->begin,
                                         b->elems))
        return error_context("layer '%s': its parameters for the node", b->name);
    if (sync->leads)
        return 0;
    if (gradient_note_stored(sync, bucket))
        return -1;
    bucket_brought(sync, bucket);
    return 0;
}

/* Asks for the next operation if its turn has come. Returns 1 if it asked, 0 if not, -1 with a
 * message. */
static int follow(struct sync *sync)
{
    struct team_gather *team = sync->gathering;
    uint64_t number = team->followed + 1;
    uint64_t entry =
        atomic_load_explicit(&team->order[number % team->places], memory_order_acquire);
    int bucket = (int)((entry & UINT32_MAX) >> 1);
    bool parameters = entry & 1;

    if (entry >> 32 == ((number + team->places) & UINT32_MAX))
        return error_set(
            "internal: the node's first rank is more than %llu operations ahead of this one",
            (unsigned long long)team->places);
    if (entry >> 32 != (number & UINT32_MAX) || (!parameters && !team->buckets[bucket].posted))
        return 0;
    team->followed = number;
    return (parameters ? ask_for_parameters(sync, bucket) : ask_for_sum(sync, bucket)) ? -1 : 1;
}

static int team_poll(struct sync *sync)
{
    int worked = 0, followed;

    if (device_of(sync)->team->check(context_of(sync)))
        return -1;
    while ((followed = follow(sync)) > 0)
        worked++;
    return followed < 0 ? -1 : worked;
}

/* Returns the pace: urgent while the device works, which costs no core. */
static enum wire_pace team_pace(const struct sync *sync)
{
    const struct team_gather *team = sync->gathering;

    return team->missing > 0 ? WIRE_URGENT : WIRE_IDLE;
}

static void team_abort(struct sync *sync)
{
    device_of(sync)->team->abort(context_of(sync));
}

const struct gather_i gather_team = {
    .sums_on_device = true,
    .open = team_open,
    .mark = team_mark,
    .post = team_post,
    .poll = team_poll,
    .pace = team_pace,
    .publish = team_publish,
    .abort = team_abort,
};
