/* Adding up within a node whose ranks compute on devices that reach each other: a device_team_i
 * (device/device.h). The leader's device gets the sum, which goes on as if it were that of a rank
 * alone; from there the new parameters come to the others.
 *
 * All ranks must ask for the same operations in the same order. Sums are asked for as backward
 * makes the gradients, but parameters when the network brings them, which the leader alone sees. So
 * the leader gives the order, one operation after another, in a ring in shared memory, and all
 * follow it, itself included. Nobody waits in doing so: the wire thread asks for an operation
 * when its turn has come, and the device does it when all have asked.
 *
 * Why nobody waits for ever. Take the first operation that is not over. What it waits for is a rank
 * that has not asked for it, though it has for all before. Parameters are asked for as soon as they
 * are ordered. A sum is when the rank's own backward has come there, which needs parameters of the
 * iteration before; the leader, who needed them too, ordered these before it posted any gradient of
 * this iteration. So they were asked for, and are over, and that backward depends on its rank
 * alone. What a server updates waits among the operations, too; but what a sum is behind is of the
 * iteration before, or of its own, which no rank's backward needs. A rank that fails never gets
 * there: then all abort what is under way, since the compute threads may wait for it on the device.
 *
 * The ring is large enough. The leader orders a sum of iteration t + 1 after its forward pass read
 * the loss, hence after all sums of iteration t were over, so that others are behind by no more
 * than the parameters of t and both operations of t + 1: three for each bucket. */
#include "sync/gather.h"

#include "sync/gradient.h"
#include "sync/sync_internal.h"

enum { OPERATIONS = 4 }; /* of each bucket, that the ring holds */

/* One bucket here. */
struct team_bucket {
    struct device_ticket *passed; /* the computation of its gradient */
    bool posted;                  /* its sum was not asked for */
    int missing; /* how often it was posted and its parameters were not asked for: a second time at
                    the leader, before its own wire thread has come to what it published */
};

struct team_gather {
    _Atomic uint64_t *order; /* in the window: number << 32 | bucket << 1 | whether parameters;
                                numbers from 1 */
    uint64_t places;
    uint64_t ordered, followed; /* operations: by the leader; by this rank */
    struct team_bucket *buckets;
    int missing; /* of all buckets */
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

/* The others' next pass is told to wait for them on the device: nobody does here. */
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

/* The next operation, if it was ordered and its turn has come: 1, else 0; -1 with a message. */
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

/* A device's clock runs, which costs no core. */
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
