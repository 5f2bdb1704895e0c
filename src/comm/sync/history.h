/* The solver's history (momentum and the like), and its rule applied to parts of a bucket: on the
 * host, or in the device's memory. */
#ifndef POSEIDON_SYNC_HISTORY_H
#define POSEIDON_SYNC_HISTORY_H

#include "device/device.h"
#include "sync/steps.h"

struct sync;

/* Blocks of history of `elems` elements. */
struct history {
    float *memory; /* blocks of elems, one behind the other */
    float *copy;   /* on the host, of memory that it does not address; NULL until asked for */
    size_t elems, blocks; /* of one block; of the solver's nhistory, at least 1 */
    bool on_device;       /* memory is the device's */
};

/* Zeroed. name: the bucket's, for messages. on_device: where the rule will be applied by the
 * device. */
int history_open(struct sync *sync, const char *name, size_t elems, bool on_device,
                 struct history *out);
/* Opens `blocks` blocks of `elems` floats that are kept from iteration to iteration. */
int history_open_blocks(struct sync *sync, const char *what, size_t elems, size_t blocks,
                        bool on_device, struct history *out);

/* Elements [begin, begin + elems) of all blocks, as the host can read and write them; -1 with a
 * message where they could not be fetched. What is written there holds after history_restore, which
 * is for all that was viewed. No update may be under way. */
int history_view(struct sync *sync, struct history *history, size_t begin, size_t elems,
                 struct history_view *out);
int history_restore(struct sync *sync, struct history *history);

/* The solver's rule on a chunk: values and grad (the sum) are its own, in the host's memory or the
 * device's, as the history. turn: on the device, among the ops or behind what was stored. Wire or
 * compute thread; on the host it is over when this returns. */
int history_update_chunk(struct sync *sync, int chunk, int64_t iteration, float *values,
                         const float *grad, const struct history *history, enum device_turn turn);

/* ---- buckets that are updated whole, where the ops work ----
 *
 * Their scheme's state begins with a struct history, on_device, of the whole bucket; NULL: this
 * rank has none. The last three are steps of a scheme (steps.h). */

/* The update with the sum that is in the model's gradients. */
int history_update_bucket(struct sync *sync, int bucket, int64_t iteration, enum device_turn turn);

int history_settle(struct sync *sync, int bucket, int64_t iteration);
int history_view_chunk(struct sync *sync, int chunk, struct history_view *out);
int history_restore_bucket(struct sync *sync, int bucket);

#endif
