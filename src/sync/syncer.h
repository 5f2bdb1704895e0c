/* The syncer: how one group's gradient becomes everybody's new parameters. One constant table per
 * scheme, one file each; sync.c picks it by the plan. */
#ifndef POSEIDON_SYNC_SYNCER_H
#define POSEIDON_SYNC_SYNCER_H

#include <stdbool.h>
#include <stdint.h>

struct sync;
struct transfer;

struct syncer_i {

    bool norms_at_home; /* the rank that adds a chunk up gives its norm for clipping */
    /* Buffers for one group on this rank, worker or server; before the progress thread runs. */
    int (*open)(struct sync *sync, int group);
    void (*close)(struct sync *sync, int group);
    /* Compute thread, after each micro-batch's backward: copy what must outlive it. NULL: nothing.
     */
    int (*stage)(struct sync *sync, int group, int micro);
    /* Progress thread, once: the first receives. NULL: none. */
    int (*start)(struct sync *sync, int group);
    /* Progress thread: the gradient of `iteration` is final: start the traffic. Sets the group's
     * pending transfers before any can complete. */
    int (*post)(struct sync *sync, int group, int64_t iteration);
    /* Progress thread: one of its transfers is complete. */
    int (*complete)(struct sync *sync, const struct transfer *transfer);
    /* Compute thread, before it waits for the transfers of `iteration`: computes with what of them
     * is here, and waits for them one by one. NULL: nothing can be done before the last. */
    int (*ahead)(struct sync *sync, int group, int64_t iteration);
    /* Compute thread, when all transfers of `iteration` are complete: what is left to compute
     * before the clipping norm is known (`rebuild`) and after (`settle`). NULL: nothing. */
    int (*rebuild)(struct sync *sync, int group, int64_t iteration);
    int (*settle)(struct sync *sync, int group, int64_t iteration);
    /* History kept on this rank for the whole group (elems floats per block), as the host can read
     * and write it. NULL where it is sharded over servers or not here; returns NULL with a message
     * where it could not be fetched. */
    float *(*history)(struct sync *sync, int group);
    /* What was written there since is to hold. NULL: it does so by itself. */
    int (*restore)(struct sync *sync, int group);
    bool factors; /* sends factors: the gradient itself need not reach the host */
    bool stays;   /* where the engine has memory of its own, new parameters come there without the
                     host */
    bool local;   /* nothing travels and nobody waits: what is posted is done */
};

extern const struct syncer_i syncer_ps, syncer_sfb, syncer_allreduce, syncer_adam, syncer_onebit,
    syncer_local, syncer_resident, syncer_team, syncer_team_clipped, syncer_member,
    syncer_member_factors;

#endif
