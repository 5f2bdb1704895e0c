/* "Home sums, then fans out": the one machine behind the parameter server (ps.c), allreduce
 * (allreduce.c), one bit (onebit.c) and the second half of Adam's way (adam.c).
 *
 * Every chunk has a home, which adds up the workers' gradients of it in the order of a fixed tree
 * (device/tree_sum.h), so that the sum has the same bits whatever the order of arrival. Then the
 * schemes differ in who applies the solver's rule. A parameter server does it at home and sends the
 * new parameters back. With allreduce the home sends the sum back, in the codec's form where there
 * is one, with error feedback of its own, and uses itself what it sent; every worker applies the
 * rule to the same numbers.
 *
 * Where the plan says so (struct bucket.log_steps), gradients are added up on their way along a
 * tree, and answers come back along it (home_tree.h).
 *
 * No chunk waits for another. Workers may be --staleness iterations ahead; the home adds up whole
 * iterations, one after the other.
 *
 * With plan_options.drop, K, of N workers, a home closes an iteration when N - K gradients are
 * there, and their mean is the gradient. One that comes later is thrown away, and answered
 * with the newest values; its tag says of which iteration they are, and so the worker learns what
 * it has missed (sync_leave_out). So a home sends nobody what was not asked for, and nobody has two
 * gradients of a chunk under way. Answers to workers that stand still stay under way themselves:
 * while up to K do, the home updates another copy of its values. */
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
    int64_t iteration;    /* being added up */
    int depth;            /* iterations whose gradients may be here; by iteration modulo it */
    struct tree_sum tree; /* of that iteration; unused where others make the sum */
    int missing;          /* gradients of it */
    float **from;         /* per slot and worker: its gradient as floats; this rank's own, unless it
                             travels encoded, is borrowed until the chunk is back */
    void **encoded;       /* the same as it travels; NULL where that is as floats */
    unsigned char *arrived; /* per slot and worker; drop: and not answered */
    const float *sum;  /* complete; in one of the buffers above, or its maker's. NULL: not yet */
    bool cleared;      /* the clipping scale of this iteration is known; true without clipping */
    bool updating;     /* in the device's memory, or by a helper */
    double weight;     /* of the last update, for the order of sends */
    float *values;     /* updates: what is updated and sent back */
    float *own_values; /* copies of them where the worker on this rank may lag behind, one of
                          which is `values`; or NULL */
    int copies;        /* at least 1 */
    int *sends;        /* per copy, or of the sum: still being sent back */
    float *residual;   /* of the sum's encoding; NULL without a codec */
};

/* A chunk as a worker or its home sees it. */
struct home_part {
    int chunk;
    bool leads;             /* this rank moves it; else all below is empty */
    int64_t back;           /* worker: iterations whose answer from home is here */
    bool held;              /* worker: the last of them waits for the clipping scale */
    float *total;           /* without updates: the sum, on workers */
    struct history history; /* of who applies the rule: the home, or without updates all */
    void *encoded;          /* the sum as it travels back; NULL without a codec */
    struct home_sum *sum;   /* NULL: another rank is its home */
    struct home_tree *tree; /* gradients travel along it (home_tree.h); NULL: straight */
};

/* A bucket's; the first member of what schemes keep in sync_bucket.scheme_state. */
struct home {
    bool gathers; /* every gradient comes home, chunk by chunk; false: the sum is made otherwise
                     (from factors, along a tree) */
    bool updates; /* the home applies the rule */
    int nparts;
    int first;               /* of the parts, the one whose gradient this rank sends first */
    struct home_part *parts; /* of all chunks, in their order */
};

/* Fills the bucket's. gathers: gradients go home chunk by chunk, straight or along a tree. */
int home_open(struct sync *sync, int bucket, bool gathers, bool updates);

/* scheme.memory without updates at home: of a bucket, whose whole sum is kept beside the places. */
uint64_t home_count_totals(const struct plan *plan, int bucket, int leader);

/* Steps of scheme_steps; `scheme_state` of the bucket is a struct home, or NULL where this rank has
 * no part in it. */
void home_start(struct sync *sync, int bucket);
int home_post(struct sync *sync, int bucket, int64_t iteration);
int home_go_on(struct sync *sync, int bucket, int64_t iteration, int piece);
int home_accept(struct sync *sync, const struct arrival *arrival, struct wire_message *out);
int home_cleared(struct sync *sync, int bucket);
int home_history(struct sync *sync, int chunk, struct history_view *out);
int home_restore(struct sync *sync, int bucket);
size_t home_residual(struct sync *sync, int chunk, enum kept kept, float **out);

/* The part of a chunk. */
struct home_part *home_part_of(const struct sync *sync, int chunk);

/* For sums that are made otherwise: the chunk's is complete, and stays in place until the next. */
int home_summed(struct sync *sync, int chunk, const float *sum);

/* The update that was started in the device's memory, or by a helper, is over. */
int home_updated(struct sync *sync, int chunk);

/* What a helper of the wire thread does (struct jobs): updates the chunk. context: the sync. */
int home_help(void *context, uint64_t chunk);

#endif
