/* The steps of a scheme turn one bucket's gradient into every rank's new parameters, at run time.
 * Each scheme's file has one table of steps, beside its `struct scheme` (plan/scheme.h).
 *
 * An iteration of a bucket on a worker: stage (after each micro-batch) -> post (the gradient is
 * final: messages go) -> accept (a message comes; bucket_finish_one for each that the worker waits
 * for) -> ahead, rebuild, settle (the rest of the computation) -> new values in place. */
#ifndef POSEIDON_SYNC_STEPS_H
#define POSEIDON_SYNC_STEPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arrival;
struct sync;
struct wire_message;

/* A chunk's history on this rank, which the host can read and write. */
struct history_view {
    float *blocks; /* NULL: this rank keeps none */
    size_t stride; /* floats from one block to the next */
};

/* State that snapshots keep beside values, in one or several arenas: the solver's history, and
 * residuals, the parts of gradients that encoding has not sent yet. */
enum kept {
    KEPT_HISTORY,
    KEPT_GRADIENTS, /* a leader's residuals; the sum over all leaders is still to be sent */
    KEPT_SUMS,      /* the homes' residuals of the sums that they send back */
    KEPT_BASES, /* bases that the next iteration begins with, equal on all leaders; stored from the
                   bucket's begin on, though not per parameter */
};

struct scheme_steps {
    /* Bytes of this rank's state of a bucket (sync_bucket.scheme_state, zeroed). 0: no state. */
    size_t state_bytes;
    bool serves; /* dedicated servers have scheme state, too; false: no part in the bucket */
    /* Fills the state, before the wire's thread runs. The sync owns its memory (util/owner.h). */
    int (*open)(struct sync *sync, int bucket);
    /* Compute thread, in sync_start, when parameters and history are in place. NULL: nothing. */
    void (*start)(struct sync *sync, int bucket);
    /* Compute thread, after each micro-batch: copies data that must outlive it. NULL: nothing. */
    int (*stage)(struct sync *sync, int bucket, int micro);
    /* Wire thread: starts the traffic of `iteration`, whose gradient is final. Sets the number of
     * messages to wait for (bucket_expect) before any of them can complete. */
    int (*post)(struct sync *sync, int bucket, int64_t iteration);
    /* Starts the traffic of another piece of the gradient; `post` starts piece 0. bucket_piece
     * gives a piece's chunks. NULL: the gradient comes whole. */
    int (*go_on)(struct sync *sync, int bucket, int64_t iteration, int piece);
    /* Wire thread: finds the place of a message that came (wire_options.accept). */
    int (*accept)(struct sync *sync, const struct arrival *arrival, struct wire_message *out);
    /* Wire thread: takes the clipping scale of the iteration. NULL: nothing here waits for it. */
    int (*cleared)(struct sync *sync, int bucket);
    /* Compute thread, before it waits for all messages of `iteration`: computes with each message
     * as it arrives. NULL: nothing can be computed before the last message. */
    int (*ahead)(struct sync *sync, int bucket, int64_t iteration);
    /* Compute thread, after each post of any bucket: computes without waiting. NULL: nothing. */
    int (*advance)(struct sync *sync, int bucket);
    /* Compute thread, when all messages of `iteration` are complete: the rest of the computation,
     * before the clipping norm is known (`rebuild`) and after (`settle`). NULL: nothing. */
    int (*rebuild)(struct sync *sync, int bucket, int64_t iteration);
    int (*settle)(struct sync *sync, int bucket, int64_t iteration);
    /* Sets *out, which is empty, to this rank's history of a chunk; -1 with a message where
     * fetching it failed. Neither thread has work under way. NULL: there is no history. */
    int (*history)(struct sync *sync, int chunk, struct history_view *out);
    /* Makes writes to the viewed history take effect. NULL: writes take effect at once. */
    int (*restore)(struct sync *sync, int bucket);
    /* Returns the number of residuals of that kind that a chunk has where they are kept, the same
     * on all ranks. *out, if not NULL: this rank's residuals on the host, or NULL with a message
     * where fetching them failed. NULL: no residuals. */
    size_t (*residual)(struct sync *sync, int chunk, enum kept kept, float **out);
    bool everywhere; /* every leading worker keeps the whole history, not the chunk's home alone */
    bool home_norms; /* a chunk's home gives its norm for clipping; false: workers do */
    bool lags;       /* a worker may run --staleness iterations ahead */
    bool stays;      /* new parameters reach device memory without the host */
    bool local;      /* nothing travels or waits: a post is done at once */
};

/* Steps of allreduce, and of one bit, which differs only in its codec. */
extern const struct scheme_steps steps_allreduce;
/* Steps of ranks that another rank leads and brings the new parameters to. */
extern const struct scheme_steps steps_led, steps_led_factors;
/* Steps of ranks without a network: the only worker (on a device with memory of its own), or any
 * with --comm=none; and the leader of a team that is the only node, without and with clipping. */
extern const struct scheme_steps steps_alone, steps_alone_team, steps_alone_team_clipped;
/* Steps of parameters that only decay: on a rank by itself, and on the leader of a node. */
extern const struct scheme_steps steps_decay, steps_decay_node;

#endif
