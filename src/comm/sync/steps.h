/* The steps of a scheme: how one bucket's gradient becomes everybody's new parameters, at run time.
 * One constant table per scheme, beside its `struct scheme` (plan/scheme.h), in its file.
 *
 * An iteration of a bucket on a worker: stage (after each micro-batch) -> post (the gradient is
 * final: messages go) -> accept, done (messages come; bucket_finish_one for each that the worker
 * waits for) -> ahead, rebuild, settle (what is left to compute) -> new values in place. */
#ifndef POSEIDON_SYNC_STEPS_H
#define POSEIDON_SYNC_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arrival;
struct sync;
struct wire_message;

/* Where this rank keeps the history of a chunk, as the host can read and write it. */
struct history_view {
    float *blocks; /* NULL: not here */
    size_t stride; /* floats from one block to the next */
};

/* What snapshots keep beside values, each an arena or several: the solver's history, and residuals,
 * what encoding has left of gradients and is yet to be sent. */
enum kept {
    KEPT_HISTORY,
    KEPT_GRADIENTS, /* a leader's residuals: all leaders' together are owed */
    KEPT_SUMS,      /* the homes', of the sums they send back */
    KEPT_BASES,     /* what the next iteration begins with, alike on all leaders; it lies where its
                       bucket begins, and its elements are no parameters */
};

struct scheme_steps {
    /* Of what this rank keeps of a bucket: sync_bucket.scheme_state, zeroed. 0: nothing. */
    size_t state_bytes;
    bool serves; /* dedicated servers have one, too; else they have no part in the bucket */
    /* Fills it, before the wire's thread runs. What it allocates is the sync's (util/owner.h). */
    int (*open)(struct sync *sync, int bucket);
    /* Compute thread, once, when parameters and history are in place: sync_start. NULL: nothing. */
    void (*start)(struct sync *sync, int bucket);
    /* Compute thread, after each micro-batch's backward: copy what must outlive it. NULL: nothing.
     */
    int (*stage)(struct sync *sync, int bucket, int micro);
    /* Wire thread: the gradient of `iteration` is final: start the traffic. Says how much it waits
     * for (bucket_expect) before any of it can complete. */
    int (*post)(struct sync *sync, int bucket, int64_t iteration);
    /* The gradient may come in pieces: `post` is called for piece 0, and this when another is
     * there. Chunks of a piece: bucket_piece. NULL: it comes whole. */
    int (*go_on)(struct sync *sync, int bucket, int64_t iteration, int piece);
    /* Wire thread: a message came; where does it belong? (wire_options.accept) */
    int (*accept)(struct sync *sync, const struct arrival *arrival, struct wire_message *out);
    /* Wire thread: the clipping scale of the iteration is known. NULL: nobody waits for it here. */
    int (*cleared)(struct sync *sync, int bucket);
    /* Compute thread, before it waits for all messages of `iteration`: computes with each message
     * as it arrives. NULL: nothing can be computed before the last one. */
    int (*ahead)(struct sync *sync, int bucket, int64_t iteration);
    /* Compute thread, after each post of any bucket: computes with what is here, waits for nothing.
     * NULL: nothing. */
    int (*advance)(struct sync *sync, int bucket);
    /* Compute thread, when all messages of `iteration` are complete: what is left to compute before
     * the clipping norm is known (`rebuild`) and after (`settle`). NULL: nothing. */
    int (*rebuild)(struct sync *sync, int bucket, int64_t iteration);
    int (*settle)(struct sync *sync, int bucket, int64_t iteration);
    /* This rank's history of a chunk of the bucket, into *out, which is empty; -1 with a message
     * where it could not be fetched. Neither thread has work under way. NULL: there is none. */
    int (*history)(struct sync *sync, int chunk, struct history_view *out);
    /* What was written there since is to hold. NULL: it does so by itself. */
    int (*restore)(struct sync *sync, int bucket);
    /* How many residuals of that kind there are of a chunk where they are kept, the same on all
     * ranks; *out, if not NULL: those of this rank, on the host, or NULL with a message where they
     * could not be fetched. NULL: none. */
    size_t (*residual)(struct sync *sync, int chunk, enum kept kept, float **out);
    bool everywhere; /* every worker that leads keeps the whole history, not the chunk's home alone
                      */
    bool home_norms; /* a chunk's home gives its norm for clipping; else the workers do, after
                        `rebuild` */
    bool lags;       /* a worker may run --staleness iterations ahead */
    bool stays;      /* new parameters come into the device's memory without the host */
    bool local;      /* nothing travels and nobody waits: what is posted is done */
};

/* Of allreduce, in whatever form gradients travel: one bit has the same. */
extern const struct scheme_steps steps_allreduce;
/* Of ranks that another one leads: what they post, the leader brings back. */
extern const struct scheme_steps steps_led, steps_led_factors;
/* Of ranks without a network: the only worker on a device with memory of its own, or --comm=none;
 * and the leader of a team that is the only node, without and with clipping. */
extern const struct scheme_steps steps_alone, steps_alone_team, steps_alone_team_clipped;
/* Of parameters that only decay: on a rank by itself, and on the leader of a node. */
extern const struct scheme_steps steps_decay, steps_decay_node;

#endif
