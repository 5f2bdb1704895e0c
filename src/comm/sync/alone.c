/* Ranks without traffic of their own, of four kinds:
 *
 * Alone: the only worker, or every worker with --comm=none. Gradients, history and parameters stay
 * in the device's memory, the rule runs as one more computation, and nothing waits.
 *
 * A team that is the only node: its leader has the sum in device memory, and applies the rule
 * beside the computation, unless clipping must see all gradients first.
 *
 * Decay: parameters without a gradient (struct group). Every worker, or the leader for its node,
 * applies the rule, so that nothing travels.
 *
 * Led ranks: their leader exchanges messages for them, and brings them the new parameters. */
#include "sync/factors.h"
#include "sync/history.h"
#include "sync/sync_internal.h"

static int alone_open(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);

    return history_open(sync, b->name, b->elems, true, sync->buckets[bucket].scheme_state);
}

static int alone_post(struct sync *sync, int bucket, int64_t iteration)
{
    bucket_expect(sync, bucket, iteration, 1);
    return bucket_finish_one(sync, bucket, iteration);
}

/* Makes the computation wait for the gradient. */
static int alone_rebuild(struct sync *sync, int bucket, int64_t iteration)
{
    (void)iteration;
    return gradient_order(sync, bucket);
}

/* Updates with the team's sum; gradient_order makes the computation wait for the result. */
static int team_settle(struct sync *sync, int bucket, int64_t iteration)
{
    return error_status(history_update_bucket(sync, bucket, iteration, DEVICE_STORED) ||
                        gradient_note_stored(sync, bucket));
}

static int team_post(struct sync *sync, int bucket, int64_t iteration)
{
    bucket_expect(sync, bucket, iteration, 1);
    if (sync_clips(sync) ? gradient_note_stored(sync, bucket)
                         : team_settle(sync, bucket, iteration))
        return -1;
    return bucket_finish_one(sync, bucket, iteration);
}

#define ALONE                                                                                      \
    .state_bytes = sizeof(struct history), .open = alone_open, .history = history_view_chunk,      \
    .restore = history_restore_bucket, .everywhere = true, .stays = true

const struct scheme_steps steps_alone = {ALONE, .post = alone_post, .rebuild = alone_rebuild,
                                         .settle = history_settle, .local = true};
/* Has no `rebuild`, so the norm of these parameters counts as 0. */
const struct scheme_steps steps_decay = {ALONE, .settle = history_settle, .local = true};
const struct scheme_steps steps_decay_node = {ALONE, .post = alone_post, .settle = history_settle};
const struct scheme_steps steps_alone_team = {ALONE, .post = team_post};
const struct scheme_steps steps_alone_team_clipped = {
    ALONE, .post = team_post, .rebuild = alone_rebuild, .settle = team_settle};

/* ---- ranks that another rank leads ---- */

static int led_open(struct sync *sync, int bucket)
{
    return factors_open(sync, bucket, false, sync->buckets[bucket].scheme_state);
}

static int led_stage(struct sync *sync, int bucket, int micro)
{
    const struct factors *factors = sync->buckets[bucket].scheme_state;

    return factors_stage(sync, bucket, factors,
                         (int)(sync->buckets[bucket].posted % factors->slots), micro);
}

const struct scheme_steps steps_led = {.stays = true};
const struct scheme_steps steps_led_factors = {
    .state_bytes = sizeof(struct factors), .open = led_open, .stage = led_stage};
