/* The solver's history (momentum and the like), and the solver's rule applied to parts of a bucket,
 * on the host or in device memory. */
#ifndef POSEIDON_SYNC_HISTORY_H
#define POSEIDON_SYNC_HISTORY_H

#include "device/device.h"
#include "sync/steps.h"

struct sync;

/* Blocks of history, of `elems` elements each. */
struct history {
    float *memory;        /* contiguous blocks of elems floats each */
    float *copy;          /* copy of device memory for the host; NULL until history_view makes it */
    size_t elems, blocks; /* elems: of one block. blocks: the solver's nhistory, at least 1 */
    bool on_device;       /* memory is the device's */
};

/* Opens zeroed history. name: the bucket's, for messages. on_device: the device has the rule. */
int history_open(struct sync *sync, const char *name, size_t elems, bool on_device,
                 struct history *out);
/* Opens `blocks` blocks of `elems` floats that are kept from iteration to iteration. */
int history_open_blocks(struct sync *sync, const char *what, size_t elems, size_t blocks,
                        bool on_device, struct history *out);

/* Gives elements [begin, begin + elems) of all blocks, for the host to read and write; -1 with a
 * message where fetching failed. Writes take effect with history_restore, one call for all views.
 * No update may be under way. */
int history_view(struct sync *sync, struct history *history, size_t begin, size_t elems,
                 struct history_view *out);
int history_restore(struct sync *sync, struct history *history);

/* Applies the solver's rule to a chunk. values and grad (the sum): the chunk's, in the same memory
 * as the history, the host's or the device's. turn: begin of the work on a device. On the host the
 * update is over when this returns. Wire or compute thread. */
int history_update_chunk(struct sync *sync, int chunk, int64_t iteration, float *values,
                         const float *grad, const struct history *history, enum device_turn turn);

/* ---- buckets that are updated whole, in the memory of the operators ----
 *
 * The scheme's state begins with a struct history, on_device, of the whole bucket; NULL: this rank
 * has none. The last three functions are steps of a scheme (steps.h). */

/* Updates the bucket with the sum in the model's gradients. */
int history_update_bucket(struct sync *sync, int bucket, int64_t iteration, enum device_turn turn);

int history_settle(struct sync *sync, int bucket, int64_t iteration);
int history_view_chunk(struct sync *sync, int chunk, struct history_view *out);
int history_restore_bucket(struct sync *sync, int bucket);

#endif
