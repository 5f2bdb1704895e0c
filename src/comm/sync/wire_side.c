/* Callbacks of the wire's thread while training runs: for pending work, its pace, and awaited
 * layers. */
#include "sync/gradient.h"
#include "sync/home.h"
#include "sync/sync_internal.h"
#include "util/strbuf.h"
#include "util/workers.h"

#include <limits.h>

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

/* Returns the pace: urgent on a server, which does nothing else, and while a device works, since
 * waiting for a device uses no core. */
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

/* Names the net's first bucket that is not done: the compute thread waits for this bucket. */
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

    return sync->model.device->i->copies->enter(sync->model.device->context);
}

/* Returns the messages that may be under way or waiting at a time: this rank's of one iteration,
 * and those that come meanwhile. There may be more. */
static int count_messages(const struct sync *sync)
{
    uint64_t count = 2 * plan_messages(sync->plan, sync->world_rank) + 64;

    for (int b = 0; b < sync->plan->nbuckets && sync->plan->in_rounds; b++) {
        uint64_t rounds = (uint64_t)bucket_of(sync, b)->rounds;
        uint64_t sent = plan_traffic(sync->plan, b, sync->world_rank).messages;
        if (rounds > 2) /* only two rounds may be under way */
            count -= 2 * (sent - 2 * (sent / rounds));
    }

    return count > INT_MAX / 4 ? INT_MAX / 4 : (int)count;
}

int sync_open_wire(struct sync *sync, MPI_Comm world)
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
