/* Every worker leads itself: there is nobody to add up with. */
#include "sync/gather.h"

#include "sync/gradient.h"
#include "sync/sync_internal.h"

static bool alone_fits(const struct sync *sync)
{
    return sync->plan->most_locals == 1;
}

static int alone_mark(struct sync *sync, int bucket)
{
    return gradient_depart(sync, bucket, ENGINE_IN_TURN);
}

const struct gather_i gather_alone = {
    .name = "alone",
    .sums_nothing = true,
    .fits = alone_fits,
    .mark = alone_mark,
    .post = bucket_await,
};
