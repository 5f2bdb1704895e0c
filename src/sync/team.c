/* Adding up within a node whose ranks compute on devices that reach each other: an engine_team_i.
 * The leader's device gets the sum, which goes on as if it were that of a rank alone; from there
 * the new parameters come to the others.
 *
 * All ranks must ask for the same operations in the same order. Sums are asked for as backward
 * makes the gradients, but parameters when the network brings them, which the leader alone sees. So
 * the leader says the order, one operation after another, in a ring in shared memory, and all
 * follow it, itself included. Nobody waits in doing so: the progress thread asks for an operation
 * when its turn has come, and the device does it when all have asked.
 *
 * Why nobody waits for ever. Take the first operation that is not over. What it waits for is a rank
 * that has not asked for it, though it has for all before. Parameters are asked for as soon as they
 * are said. A sum is when the rank's own backward has come there, which needs parameters of the
 * iteration before; the leader, who needed them too, said these before it posted any gradient of
 * this iteration. So they were asked for, and are over, and that backward depends on its rank
 * alone. What a server updates waits among the operations, too; but what a sum is behind is of the
 * iteration before, or of its own, which no rank's backward needs. A rank that fails never gets
 * there: then all abort what is under way, since the compute threads may wait for it on the device.
 *
 * The ring is large enough. The leader says a sum of iteration t + 1 after its forward pass read
 * the loss, hence after all sums of iteration t were over, so that others are behind by no more
 * than the parameters of t and both operations of t + 1: three for each group. */
#include "sync/sync_internal.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERATIONS = 4 }; /* of each group, that the ring holds */

struct team_state {
    struct node_window window;
    _Atomic uint64_t
        *order; /* in the window: number << 32 | group << 1 | whether parameters; numbers from 1 */
    uint64_t places;
    uint64_t said, followed; /* operations: by the leader; by this rank */
    struct {
        bool posted; /* here, and its sum was not asked for */
        int missing; /* how often it was posted and its parameters were not asked for: a second time
                        at the leader, before its own progress thread has come to what it published
                      */
    } * groups;
    int missing; /* of all groups */
    bool aborted;
};
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "an entry that processes share must not need a lock");

static const struct engine_team_i *engine_of(const struct sync *sync)
{
    return sync->net->engine->i->team;
}

static void *context_of(const struct sync *sync)
{
    return sync->net->engine->context;
}

int team_open(struct sync *sync, MPI_Comm world)
{
    const struct node *node = sync->options.node;
    size_t ngroups = (size_t)sync->plan->nbuckets,
           bytes = (OPERATIONS * ngroups + 1) * sizeof(uint64_t);
    struct team_state *team;
    int status = 0;

    if (!node || !node->team)
        return 0;
    sync->team = team = calloc(1, sizeof *team);
    if (team)
        team->window.window = MPI_WIN_NULL;
    if (!team || !(team->groups = calloc(ngroups + 1, sizeof *team->groups)))
        status = error_memory(ngroups * sizeof *team->groups, "the node's groups");
    if (error_agree(world, status) ||
        node_window_open(world, node, bytes, "the order of operations", &team->window))
        return -1;
    if (node->nranks == 1) {
        team_close(sync);
        return 0;
    }
    team->order = team->window.memory;
    team->places = OPERATIONS * ngroups + 1;
    if (node->rank == 0)
        memset(team->window.memory, 0, bytes);
    MPI_TRY(MPI_Barrier(node->comm));
    return 0;
fail:
    return -1;
}

void team_close(struct sync *sync)
{
    struct team_state *team = sync->team;

    if (!team)
        return;
    node_window_close(&team->window);
    free(team->groups);
    free(team);
    sync->team = NULL;
}

int team_mark(struct sync *sync, int group)
{
    const struct engine_rows none = {.rows = 0};

    return sync->remote->copy(context_of(sync), &none, sync->groups[group].passed);
}

/* ---- progress thread ---- */

static void say(struct sync *sync, int group, bool parameters)
{
    struct team_state *team = sync->team;
    uint64_t number = ++team->said;

    atomic_store_explicit(&team->order[number % team->places],
                          number << 32 | (uint64_t)group << 1 | (uint64_t)parameters,
                          memory_order_release);
}

void team_post(struct sync *sync, int group)
{
    sync->team->groups[group].posted = true;
    sync->team->groups[group].missing++;
    sync->team->missing++;
    if (sync->speaks)
        say(sync, group, false);
}

void team_publish(struct sync *sync, int group)
{
    if (sync->team)
        say(sync, group, true);
}

static int ask_for_sum(struct sync *sync, int group)
{
    const struct bucket *g = &sync->plan->buckets[group];

    sync->team->groups[group].posted = false;
    if (engine_of(sync)->reduce(context_of(sync), sync->net->remote_grads + g->begin, g->elems,
                                sync->groups[group].passed))
        return error_context("layer '%s': the node's sum", g->name);
    if (!sync->speaks)
        return 0;
    if (sync->groups[group].syncer->stays)
        return progress_post_group(sync, group);
    sync->waiting[sync->nwaiting++] = group;
    return remote_fetch_gradient(sync, group);
}

/* The others' next pass is told to wait for them on the device: nobody does here. */
static int ask_for_parameters(struct sync *sync, int group)
{
    const struct engine_rows none = {.rows = 0};
    const struct bucket *g = &sync->plan->buckets[group];
    struct group_state *own = &sync->groups[group];

    sync->team->groups[group].missing--;
    sync->team->missing--;
    if (engine_of(sync)->broadcast(context_of(sync), sync->net->remote_values + g->begin, g->elems))
        return error_context("layer '%s': its parameters for the node", g->name);
    if (sync->speaks)
        return 0;
    if (sync->remote->fetch_stored(context_of(sync), &none, own->up))
        return -1;
    own->running++;
    atomic_store_explicit(&own->done, own->running, memory_order_release);
    progress_wake(sync);
    return 0;
}

/* The next operation, if it was said and its turn has come: 1, else 0; -1 with a message. */
static int follow(struct sync *sync)
{
    struct team_state *team = sync->team;
    uint64_t number = team->followed + 1;
    uint64_t entry =
        atomic_load_explicit(&team->order[number % team->places], memory_order_acquire);
    int group = (int)((entry & UINT32_MAX) >> 1);
    bool parameters = entry & 1;

    if (entry >> 32 == ((number + team->places) & UINT32_MAX))
        return error_set(
            "internal: the node's first rank is more than %llu operations ahead of this one",
            (unsigned long long)team->places);
    if (entry >> 32 != (number & UINT32_MAX) || (!parameters && !team->groups[group].posted))
        return 0;
    team->followed = number;
    return (parameters ? ask_for_parameters(sync, group) : ask_for_sum(sync, group)) ? -1 : 1;
}

int team_poll(struct sync *sync)
{
    int worked = 0, followed;

    if (engine_of(sync)->check(context_of(sync)))
        return -1;
    while ((followed = follow(sync)) > 0)
        worked++;
    return followed < 0 ? -1 : worked;
}

bool team_busy(const struct sync *sync)
{
    return sync->team && sync->team->missing > 0;
}

void team_abort(struct sync *sync)
{
    if (!sync->team || sync->team->aborted)
        return;
    sync->team->aborted = true;
    engine_of(sync)->abort(context_of(sync));
}

int team_describe_wait(const struct sync *sync, char *text, size_t bytes)
{
    int told = 0;
    size_t used = 0;

    for (int g = 0; g < sync->plan->nbuckets && told < 3 && used < bytes; g++)
        if (sync->team->groups[g].missing > 0)
            used += (size_t)snprintf(text + used, bytes - used, "%s %s layer '%s'",
                                     told++ ? ";" : " for",
                                     sync->speaks ? "its node's sum or the network's of"
                                                  : "its node's first rank to bring",
                                     sync->plan->buckets[g].name);
    return told;
}
