/* "Home sums, then fans out": the code behind the parameter server (ps.c), allreduce (allreduce.c),
 * one bit (onebit.c) and the second half of Adam's scheme (adam.c).
 *
 * Every chunk has a home, which adds up the workers' gradients in the order of a fixed tree
 * (device/tree_sum.h), so that the sum has the same bits in any order of arrival. Then the solver's
 * rule is applied. A parameter server applies it at home and sends the new parameters back. With
 * allreduce the home sends the sum back, encoded if there is a codec, with error feedback of its
 * own, and uses the sent values itself; every worker applies the rule to the same numbers.
 *
 * Where the plan says so (struct bucket.log_steps), gradients are added up on their way along a
 * tree, and answers come back along it (home_tree.h).
 *
 * No chunk waits for another. Workers may be --staleness iterations ahead; the home adds up whole
 * iterations, one after the other.
 *
 * With plan_options.drop = K and N workers, a home closes an iteration when N - K gradients are
 * there, and updates with their mean. The home drops later gradients, and answers with the newest
 * values; an answer's tag names the values' iteration, so the worker learns what it has missed
 * (sync_leave_out). A home sends nothing but answers, one for each gradient, so no worker has two
 * gradients of a chunk under way. Sends to a worker that hangs do not end, so the home keeps K
 * further copies of its values, and updates a copy that no send reads. */
#ifndef POSEIDON_SYNC_HOME_H
#define POSEIDON_SYNC_HOME_H

#include "device/tree_sum.h"
#include "sync/history.h"

struct arrival;
struct home_tree;
struct plan;
struct sync;
struct wire_message;

/* A chunk at its home. */
struct home_sum {
    int64_t iteration; /* iteration being added up */
    int depth; /* number of iterations whose gradients may be here; slot: iteration modulo depth */
    struct tree_sum
        tree;       /* sum of the iteration's gradients; unused where other code makes the sum */
    int missing;    /* gradients missing in the sum */
    float **from;   /* per slot and worker: its gradient as floats; this rank's own gradient, unless
                       encoded, is borrowed until the chunk is back */
    void **encoded; /* per slot and worker: the encoded gradient; NULL without a codec */
    unsigned char *arrived; /* per slot and worker: 1 if here (drop: and not answered) */
    const float *sum;  /* complete sum, in `from` or in other code's memory; NULL: incomplete */
    bool cleared;      /* the clipping scale of this iteration is known; true without clipping */
    bool updating;     /* an update is under way in device memory, or by a helper */
    double weight;     /* weight of the last update, for the order of sends */
    float *values;     /* with updates: values that are updated and sent back */
    float *own_values; /* copies of the values, one of which is `values`, where the worker on this
                          rank may lag behind; or NULL */
    int copies;        /* number of copies, at least 1 */
    int *sends;        /* per copy, or for the sum: answers still being sent */
    float *residual;   /* residual of the sum's encoding; NULL without a codec */
};

/* A chunk as a worker or its home sees it. */
struct home_part {
    int chunk;
    bool leads;   /* this rank exchanges the chunk's messages; false: the members below are empty */
    int64_t back; /* worker: iterations whose answer from home is here */
    bool held;    /* worker: the latest answer waits for the clipping scale */
    float *total; /* without updates: the sum, on workers */
    struct history history; /* history: at home with `updates`, else on all workers */
    void *encoded;          /* encoded sum on its way back; NULL without a codec */
    struct home_sum *sum;   /* NULL: another rank is its home */
    struct home_tree *tree; /* tree that gradients take (home_tree.h); NULL: straight home */
};

/* State of a bucket: the first member of the scheme's state in sync_bucket.scheme_state. */
struct home {
    bool gathers; /* every worker sends its gradient of a chunk to the home; false: the sum is made
                     from factors or along a tree */
    bool updates; /* the home applies the rule */
    int nparts;
    int first;               /* index of the part whose gradient this rank sends first */
    struct home_part *parts; /* parts of all chunks, in order */
};

/* Opens the bucket's state. The home applies the rule if dedicated servers may be homes
 * (scheme_steps.serves); gradients go home, straight or along a tree, unless factors do. */
int home_open(struct sync *sync, int bucket);

/* Implements scheme.memory where workers apply the rule: the whole sum, and the homes' buffers. */
uint64_t home_count_totals(const struct plan *plan, int bucket, int leader);

/* Steps of scheme_steps. `scheme_state` is a struct home, or NULL where this rank has no part. */
void home_start(struct sync *sync, int bucket);
int home_post(struct sync *sync, int bucket, int64_t iteration);
int home_go_on(struct sync *sync, int bucket, int64_t iteration, int piece);
int home_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out);
int home_cleared(struct sync *sync, int bucket);
int home_history(struct sync *sync, int chunk, struct history_view *out);
int home_restore(struct sync *sync, int bucket);
size_t home_residual(struct sync *sync, int chunk, enum kept kept, float **out);

/* Returns the part of a chunk, or NULL. */
struct home_part *home_part_of(const struct sync *sync, int chunk);

/* Takes a chunk's complete sum, which other code may have made; `sum` stays until the next sum. */
int home_summed(struct sync *sync, int chunk, const float *sum);

/* Sends the values after an update in device memory, or by a helper. */
int home_updated(struct sync *sync, int chunk);

/* Updates the chunk, on a helper of the wire thread (struct jobs). context: the sync. */
int home_help(void *context, uint64_t chunk);

#endif
