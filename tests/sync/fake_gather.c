/* A gathering of the tests' own: every worker leads itself, but what is posted begins to travel
 * only some turns of the wire later, the last one first; and all calls are counted. */

#include "sync/gradient.h"
#include "sync/sync_internal.h"
#include "tests/sync/fakes.h"

#include <assert.h>

enum { TURNS = 3 }; /* that what is posted waits */

struct late {
    int *posted, nposted; /* buckets that wait */
    int turns;            /* since the last of them came */
};

struct late_counts late_counts;

static int late_open(struct sync *sync, MPI_Comm world)
{
    struct late *late;
    int buckets = sync->plan->nbuckets + 1;
    int status = error_status(OWN(&sync->owner, late, 1, "a list of buckets") ||
                              OWN(&sync->owner, late->posted, buckets, "a list of buckets"));

    late_counts = (struct late_counts){0};
    sync->gathering = late;
    return error_agree(world, status);
}

static int late_mark(struct sync *sync, int bucket)
{
    late_counts.marks++;
    return gather_alone.mark(sync, bucket);
}

static int late_post(struct sync *sync, int bucket)
{
    struct late *late = sync->gathering;

    assert(late->nposted < sync->plan->nbuckets);
    late_counts.posts++;
    late->posted[late->nposted++] = bucket;
    late->turns = 0;
    return 0;
}

static int late_poll(struct sync *sync)
{
    struct late *late = sync->gathering;

    if (late->nposted == 0 || late->turns++ < TURNS)
        return 0;
    late_counts.polls++;
    return bucket_await(sync, late->posted[--late->nposted]) ? -1 : 1;
}

static enum wire_pace late_pace(const struct sync *sync)
{
    const struct late *late = sync->gathering;

    return late->nposted > 0 ? WIRE_URGENT : WIRE_IDLE;
}

static bool late_publish(struct sync *sync, int bucket)
{
    (void)sync;
    (void)bucket;
    late_counts.publishes++;
    return true;
}

const struct gather_i gather_late = {
    .open = late_open,
    .mark = late_mark,
    .post = late_post,
    .poll = late_poll,
    .pace = late_pace,
    .publish = late_publish,
};
