/* Gathering where every worker leads itself, and nothing is added up. */
#include "sync/gather.h"

#include "sync/gradient.h"
#include "sync/sync_internal.h"

static int alone_mark(struct sync *sync, int bucket)
{
    return gradient_depart(sync, bucket, DEVICE_IN_TURN);
}

const struct gather_i gather_alone = {
    .sums_nothing = true,
    .mark = alone_mark,
    .post = bucket_await,
};
