/* Synchronisation: keeps the parameters of all ranks equal, while backprop runs.
 *
 * The wire's thread (wire/wire.h) makes every MPI call between sync_start and sync_close. The
 * compute thread says "the gradient of this group is final" (sync_post, called from backprop) and
 * goes on; the wire's thread starts the traffic of the group's bucket and keeps it moving. The next
 * forward pass waits group by group (sync_wait), never for all: wait-free backpropagation (Zhang et
 * al., USENIX ATC'17, section 3).
 *
 * Ranks of a node may add up their gradients among themselves first (options.node): then one of
 * them, the leader, exchanges messages for all, and writes the new parameters to memory that all
 * ranks of the node share.
 *
 * Sync knows no net: it moves groups of floats in two arenas (struct sync_model), as the plan says.
 *
 * Life, every step collective over the world communicator:
 *     sync_create -> (sync_share_values, sync_load_history) -> sync_start
 *     -> per iteration: [worker: sync_post / sync_wait from the passes, sync_flush after backward]
 *                       [dedicated server: sync_wait_all]
 *     -> sync_close -> sync_destroy
 *
 * Failure: a rank that fails calls sync_close with its status; the others learn of it from the
 * wire, and their next sync call fails; they go to sync_close too, which makes the lowest failing
 * rank's message everybody's. Nobody hangs. */
#ifndef POSEIDON_SYNC_SYNC_H
#define POSEIDON_SYNC_SYNC_H

#include <mpi.h>

#include "device/device.h"
#include "plan/plan.h"
#include "sync/node.h"
#include "wire/wire.h"

struct gather_i;

/* The registry of all schemes (plan/scheme.h), the parameter server first. */
extern const struct scheme *const sync_schemes[];

/* What is trained, as sync sees it. Borrowed, with all it points to, until sync_destroy. */
struct sync_model {
    size_t elems;           /* of each arena */
    float *values, *grads;  /* the arenas in host memory; NULL on dedicated servers */
    float *const *branches; /* of a worker whose gradient is several sums (plan_branches): the
                               arenas of all sums but the last, which is in grads; else NULL */
    float *device_values;   /* the arenas in the device's memory, which may be the same; NULL on
                               dedicated servers */
    float *device_grads;    /* likewise */
    const struct device *device;      /* of device_values; also multiplies factors on servers */
    const struct device *host_device; /* multiplies factors in host memory if `device` cannot; else
                                         NULL */
    void *context; /* first argument of the functions below, called on the compute thread */
    /* The factors of a factorable group's last pass, in device memory: bottom K x N, top_grad K x
     * M. */
    void (*factors)(void *context, int group, const float **bottom, const float **top_grad);
    /* The group's parameters are new, so that operators renew their packed copies. May be NULL. */
    void (*changed)(void *context, int group);
};

/* How the solver changes parameters. Both threads call it, for different elements, so it must be a
 * pure function of its arguments. */
struct sync_update {
    void *context;
    int nhistory; /* floats of history per parameter */
    /* Describes one application of the rule; NULL: parameters do not change. The gradient is the
     * SUM over workers and micro-batches; `scale` makes it the averaged, clipped one. */
    int (*describe)(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                    struct device_update *out);
};

/* Whether MPI sends from and receives into the memory of a device that has its own (GPU memory),
 * without a copy in host memory. */
enum sync_direct {
    SYNC_DIRECT_AUTO, /* if MPI says that it can, and a trial succeeds on all workers */
    SYNC_DIRECT_ON,   /* likewise; otherwise an error */
    SYNC_DIRECT_OFF,
};

/* By enum sync_direct: "auto", "on", "off"; ended by NULL, as util/choice.h has it. */
extern const char *const sync_direct_words[];

struct sync_options {
    bool overlap;           /* false: traffic starts when backward is over, forward waits for all */
    bool forward_waits_all; /* the first layer of the next forward pass waits for all layers */
    int staleness;          /* S > 0: buckets of the parameter server may lag S iterations behind
                               (gradient.h); not with clip */
    struct queue_options sends; /* of training data, as wire_options has it */
    const struct node *node; /* the ranks that add up together, as the plan has it; borrowed; NULL:
                                every worker leads itself. Not with staleness or --comm=none; where
                                devices have memory of their own only as a team, and then not with
                                factors */
    const struct gather_i *gather; /* how they do (gather.h); NULL: as node says */
    enum sync_direct direct;
    bool update_on_device; /* a server that trains on a device with memory of its own updates its
                              chunks there; not with staleness. Each rank's own choice: the bits are
                              the same */
    int threads; /* of a dedicated server: it updates chunks by one less, beside its wire thread.
                    The bits are the same */
    float clip;  /* Caffe's clip_gradients: largest global L2 norm; <= 0: off */
    int exact_norms; /* N > 0: clip's norm is that of N mean gradients, to the same bits however
                        they are cut and dealt (device/exact_sum.h; of devices that work in the
                        host's memory); 0: of the plan's iter_size, rounded. Not with lars */
    int skips;   /* > 0: an update whose gradient, averaged over the workers, is not finite is left
                    out, everywhere or nowhere; after `skips` in a row the traffic fails. Not with
                    staleness, nor with codecs, whose residuals would keep it */
    float lars;  /* > 0: the ratio of rates that follow norms (lars.h); not with staleness, nor with
                    update_on_device */
    float decay; /* lars: the solver's weight_decay */
    int lowrank_warmup;      /* iterations of a run before which low rank travels exact */
    uint64_t seed;           /* of draws; the same on all ranks */
    int64_t iteration;       /* the first one to come */
    struct wire_watch watch; /* who names ranks that keep all waiting, and ends the process */
    struct trace *trace; /* waits, updates and transfers are recorded there; borrowed; NULL: none */
};

/* What the network did, summed since sync_start. */
struct sync_stats {
    struct wire_stats wire; /* its control bytes: losses, clipping norms, snapshots' history */
    double stall_seconds;   /* compute thread waiting in sync calls */
    struct bucket_stats {
        double stall_seconds;            /* of these, for the bucket */
        _Atomic uint64_t sent, received; /* bytes of its data messages; complete after sync_close */
        _Atomic int64_t travel_ns;       /* from each post to what it waits for; not under staleness
                                          */
    } * buckets;                         /* of the plan; borrowed */
    uint64_t *dropped; /* per worker: gradients of chunks that this rank, as their home, has not
                          waited for; complete after sync_close; borrowed */
    int64_t left_out;  /* iterations that this rank did not compute (sync_leave_out) */
};

struct sync;

/* Checks that all ranks agree on the plan. plan and model outlive the sync. Collective. */
int sync_create(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                const struct sync_update *update, const struct sync_options *options,
                struct sync **out);

/* Broadcasts rank 0's parameters to all ranks, in host memory; the caller copies them to a device
 * with memory of its own. Before sync_start. Collective. */
int sync_share_values(struct sync *sync);

/* Deals rank 0's history (nhistory blocks of model->elems floats; ignored on other ranks) to the
 * ranks that update each part. Before sync_start. Collective. */
int sync_load_history(struct sync *sync, const float *history);

/* The residuals of a plan's schemes (steps.h), as arenas of model->elems floats: first one arena
 * for each leader's gradients, then one for sums, then one for bases. */
struct sync_residuals {
    int leaders, sums, bases; /* number of arenas; sums and bases 0 or 1 */
    int64_t gradients;        /* gradients in one update; residuals belong to their sum */
};

/* Which residuals the plan's schemes have, the same on all ranks; all zero but gradients if none.
 */
struct sync_residuals sync_residuals(struct sync *sync);

/* The number of arenas. */
static inline int sync_residual_arenas(const struct sync_residuals *of)
{
    return of->leaders + of->sums + of->bases;
}

/* Deals rank 0's arena (ignored on other ranks), number `number` of a run with residuals `of`, to
 * the ranks that keep such residuals. If that run had as many leaders and gradients as this one,
 * each leader gets its own arena; else every leader gets an equal part of each arena, so that the
 * sum stays. *left grows on rank 0 by the residuals that no scheme of this plan can take. Before
 * sync_start. Collective. */
int sync_load_residuals(struct sync *sync, const struct sync_residuals *of, int number,
                        const float *arena, size_t *left);

/* Starts the wire's thread, which alone calls MPI until sync_close, so that ranks cannot agree on
 * this status. A rank that fails here calls sync_close with its status. Not collective. */
int sync_start(struct sync *sync);

/* ---- workers; compute thread ---- */

/* The gradient of one micro-batch of `group` is complete. On the last micro-batch of an iteration
 * (`last`) the traffic of the group's bucket starts once all groups of the bucket were posted;
 * without overlap it starts at sync_flush. */
int sync_post(struct sync *sync, int group, bool last);

/* Backward is over: starts the traffic that waited for it (no overlap), and rebuilds gradients from
 * factors if clipping needs their norm. */
int sync_flush(struct sync *sync);

/* Waits until the parameters of `group`, of the iteration last posted, are in place. */
int sync_wait(struct sync *sync, int group);

/* With plan_options.drop, before the first wait and post of `iteration`: returns 1 if the other
 * workers have finished the iteration without this rank, for every group; its parameters are then
 * in place. Returns 0 if the iteration must be computed, -1 on failure. An iteration that another
 * rank waits for is never left out. Waits for answers if this rank seems to be late. 0 without
 * drop. */
int sync_leave_out(struct sync *sync, int64_t iteration);

/* Whether the group causes no traffic: its posts and waits may then come in any order. */
bool sync_is_local(const struct sync *sync, int group);

/* ---- workers and servers; compute thread ---- */

/* Workers: sync_wait for every group. Dedicated servers: waits until every own chunk of `iteration`
 * was updated and sent. Afterwards values and history do not change before the next post; with
 * drop, before the next post of any N - drop workers. */
int sync_wait_all(struct sync *sync, int64_t iteration);

/* Sums `count` (few) values over the workers, in place. All workers call it in the same order; not
 * for dedicated servers. */
int sync_sum(struct sync *sync, double *values, int count);

/* Starts a sum of values over all ranks, workers and servers, while training goes on. One at a
 * time; every rank starts it between the same two iterations. */
enum { SYNC_ASK_VALUES = 14 };
int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES]);

/* Waits for the sums of sync_ask; every rank calls it between the same two iterations. `staleness`
 * + 1 iterations after sync_ask there is no wait that the parameters would not cost anyway. */
int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES]);

/* Collects the history on rank 0, after sync_wait_all of the same iteration on all ranks: *history
 * is nhistory blocks of model->elems floats on rank 0, NULL on others. The sync owns it, until the
 * next call of a sync_gather function or sync_destroy. Collective. */
int sync_gather_history(struct sync *sync, const float **history);

/* Collects one arena of sync_residuals on rank 0, as sync_gather_history does; zeros where no
 * scheme has residuals. */
int sync_gather_residuals(struct sync *sync, int number, float **arena);

/* Ends the traffic. status: this rank's; non-zero with its message set. Returns the agreed status,
 * with the lowest failing rank's message set on all ranks. Collective. */
int sync_close(struct sync *sync, int status);

/* Global gradient norm and scale factor of `iteration`, the one just finished; 0 and 1 without
 * clipping and with drop. Not for workers that are not leaders: they do not know them. */
int sync_clip(struct sync *sync, int64_t iteration, double *norm, double *scale);

/* Updates that were left out because a gradient was not finite (sync_options.skips). A leader knows
 * all of them after sync_wait_all; a worker that is no leader knows none. */
struct sync_skips {
    int64_t count;     /* in all */
    int64_t in_a_row;  /* up to the last iteration */
    int64_t iteration; /* of the last one */
    int bucket; /* the last bucket of the plan with such a gradient: the one nearest the loss */
};
struct sync_skips sync_skips(const struct sync *sync);

/* How messages reach the device's memory (directly or through host memory), and why, in words; NULL
 * if the device computes in host memory, or without traffic. */
const char *sync_way(const struct sync *sync);

/* The counts so far; borrowed until sync_destroy. */
const struct sync_stats *sync_stats(struct sync *sync);

/* What this rank has sent to another so far: bytes, and nanoseconds from each message's start to
 * its end, added up though messages overlap. Compute thread. */
struct sync_link {
    uint64_t bytes, ns;
};
struct sync_link sync_link(const struct sync *sync, int rank);

/* Frees the sync. Collective, since it frees communicators; NULL is allowed. After a failed
 * sync_close nothing is freed: messages may be on their way, and until the process ends MPI may
 * read and write their buffers, among them the model's arenas and the node's. The caller must keep
 * those, too. */
void sync_destroy(struct sync *sync);

#endif
