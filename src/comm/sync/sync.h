/* Synchronisation: keeps the parameters of all ranks equal while backprop runs.
 *
 * The wire's thread (wire/wire.h) makes every MPI call between sync_start and sync_close. The
 * compute thread says during backprop that the gradient of a group is final (sync_post), and
 * computes on; the wire's thread starts the traffic of the group's bucket and keeps it moving. The
 * next forward pass waits group by group (sync_wait), never for all: wait-free backpropagation
 * (Zhang et al., USENIX ATC'17, section 3).
 *
 * The ranks of a node may first add up their gradients among themselves (options.node). One rank of
 * the node, the leader, then exchanges messages for all, and writes the new parameters to memory
 * that all ranks of the node share.
 *
 * Sync knows no net: it moves groups of floats in two arenas (struct sync_model), as the plan says.
 *
 * Life, every step collective over the world communicator:
 *     sync_create -> (sync_share_values, sync_load_history) -> sync_start
 *     -> per iteration: [worker: sync_post / sync_wait from the passes, sync_flush after backward]
 *                       [dedicated server: sync_wait_all]
 *     -> sync_close -> sync_destroy
 *
 * Failure: a rank that fails calls sync_close with its status. The wire tells the other ranks,
 * whose next sync call fails, so that they call sync_close, too. sync_close gives all ranks the
 * message of the lowest failing rank. No rank hangs. */
#ifndef POSEIDON_SYNC_SYNC_H
#define POSEIDON_SYNC_SYNC_H

#include <mpi.h>

#include "device/device.h"
#include "plan/plan.h"
#include "sync/node.h"
#include "wire/wire.h"

struct gather_i;

/* Registry of all schemes (plan/scheme.h), the parameter server first. */
extern const struct scheme *const sync_schemes[];

/* The model, as sync sees it. Borrowed, with everything it points to, until sync_destroy. */
struct sync_model {
    size_t elems;           /* elements of each arena */
    float *values, *grads;  /* arenas in host memory; NULL on dedicated servers */
    float *const *branches; /* on a worker that sends several sums of gradients (plan_branches):
                               arenas of all sums except the last, which is in grads; else NULL */
    float *device_values;   /* arenas in device memory, which may be the host's; NULL on dedicated
                               servers */
    float *device_grads;
    const struct device *device;      /* device of device_values; on servers, multiplies factors */
    const struct device *host_device; /* multiplies on the host if `device` cannot; else NULL */
    void *context; /* first argument of the functions below, which the compute thread calls */
    /* Gives the factors of a factorable group's last pass, in device memory: bottom K x N, top_grad
     * K x M. */
    void (*factors)(void *context, int group, const float **bottom, const float **top_grad);
    /* Says that the group's parameters are new, so that operators renew their packed copies. May be
     * NULL. */
    void (*changed)(void *context, int group);
};

/* The solver's rule. Both threads call `describe`, for different elements, so it must be a pure
 * function of its arguments. */
struct sync_update {
    void *context;
    int nhistory; /* floats of history per parameter */
    /* Describes one application of the rule; NULL: parameters do not change. The gradient is the
     * SUM over workers and micro-batches; `scale` makes it the averaged, clipped gradient. */
    int (*describe)(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                    struct device_update *out);
};

/* Use of a device's own memory (GPU memory) by MPI, without a copy in host memory. */
enum sync_direct {
    SYNC_DIRECT_AUTO, /* direct if MPI says that it reaches the memory, and a trial succeeds on all
                         workers */
    SYNC_DIRECT_ON,   /* direct; an error if MPI cannot reach the device's memory */
    SYNC_DIRECT_OFF,
};

/* Words of enum sync_direct ("auto", "on", "off"), ended by NULL, for util/choice.h. */
extern const char *const sync_direct_words[];

struct sync_options {
    bool overlap;           /* false: traffic starts after backward, and forward waits for all */
    bool forward_waits_all; /* the first layer of the next forward pass waits for all layers */
    int staleness; /* S > 0: parameter-server buckets may lag S iterations behind (gradient.h); not
                      with clip */
    struct queue_options sends; /* order of training data, as in wire_options */
    const struct node *node;    /* ranks that add up together, as in the plan; borrowed; NULL: every
                                   worker leads itself. Not with staleness or --comm=none. On devices
                                   with memory of their own: only as a team, without factors */
    const struct gather_i *gather; /* gathering of a node's ranks; NULL: `node` decides */
    enum sync_direct direct;
    bool update_on_device; /* a server that trains on a device with memory of its own updates its
                              chunks there; not with staleness. Each rank chooses alone: the bits
                              are the same */
    int threads; /* threads of a dedicated server: all but the wire thread update chunks. The bits
                    are the same for any number */
    float clip;  /* Caffe's clip_gradients, the largest global L2 norm; <= 0: off */
    int exact_norms; /* N > 0: clip limits the norm of N times the mean gradient, summed exactly, so
                        that the cut into chunks changes no bit (device/exact_sum.h; only if devices
                        use host memory); 0: of iter_size times the mean gradient, rounded. Not with
                        lars */
    int skips;   /* > 0: an update whose mean gradient is not finite is left out on all ranks; after
                    `skips` in a row the run fails. Not with staleness, nor with codecs, whose
                    residuals would keep the values */
    float lars;  /* > 0: LARS's ratio of rates (lars.h); not with staleness or update_on_device */
    float decay; /* the solver's weight_decay, for lars */
    int lowrank_warmup; /* number of a run's first iterations in which low-rank buckets send exact
                           gradients */
    uint64_t seed;      /* seed of draws, the same on all ranks */
    int64_t iteration;  /* first iteration to come */
    struct wire_watch watch; /* names ranks that keep all waiting, and ends the process */
    struct trace *trace;     /* record of waits, updates and transfers; borrowed; NULL: none */
};

/* Figures of the network, summed since sync_start. */
struct sync_stats {
    struct wire_stats wire; /* control bytes are losses, clipping norms and a snapshot's history */
    double stall_seconds;   /* waiting time of the compute thread in sync calls */
    struct bucket_stats {
        double stall_seconds;            /* waiting time for this bucket */
        _Atomic uint64_t sent, received; /* bytes of its data messages; complete after sync_close */
        _Atomic int64_t travel_ns; /* time from post to end, summed; no meaning under staleness */
    } * buckets;                   /* per bucket of the plan; borrowed */
    uint64_t *dropped; /* per worker: number of its chunk gradients that this rank, the home, has
                          not waited for; complete after sync_close; borrowed */
    int64_t left_out;  /* iterations that this rank has not computed (sync_leave_out) */
};

struct sync;

/* Creates a sync, if all ranks have the same plan. plan and model outlive the sync. Collective. */
int sync_create(MPI_Comm world, const struct plan *plan, const struct sync_model *model,
                const struct sync_update *update, const struct sync_options *options,
                struct sync **out);

/* Broadcasts rank 0's parameters to all ranks, in host memory; the caller copies them to a device
 * with memory of its own. Call before sync_start. Collective. */
int sync_share_values(struct sync *sync);

/* Deals rank 0's history (nhistory blocks of model->elems floats; ignored on other ranks) to the
 * ranks that update each part. Call before sync_start. Collective. */
int sync_load_history(struct sync *sync, const float *history);

/* Residuals of a plan's schemes (steps.h), as arenas of model->elems floats: one arena for each
 * leader's gradients, then one for sums, then one for bases. */
struct sync_residuals {
    int leaders, sums, bases; /* numbers of arenas; sums and bases: 0 or 1 */
    int64_t gradients;        /* gradients in one update, whose sum the residuals belong to */
};

/* Returns the residuals of the plan's schemes, the same on all ranks; without residuals only
 * `gradients` is not 0. */
struct sync_residuals sync_residuals(struct sync *sync);

/* Returns the number of arenas. */
static inline int sync_residual_arenas(const struct sync_residuals *of)
{
    return of->leaders + of->sums + of->bases;
}

/* Deals rank 0's arena (ignored on other ranks), number `number` of a run with residuals `of`, to
 * the ranks that keep such residuals. If that run had as many leaders and gradients as this one,
 * each leader gets its own arena; else every leader gets an equal part of each arena, so that the
 * sum of residuals stays. Adds to *left, on rank 0, the number of residuals that no scheme of this
 * plan takes. Call before sync_start. Collective. */
int sync_load_residuals(struct sync *sync, const struct sync_residuals *of, int number,
                        const float *arena, size_t *left);

/* Starts the wire's thread, which alone calls MPI until sync_close, so that ranks cannot agree on
 * the status. A rank that fails here calls sync_close with its status. Not collective. */
int sync_start(struct sync *sync);

/* ---- workers; compute thread ---- */

/* Says that the gradient of one micro-batch of `group` is complete. In the last micro-batch of an
 * iteration (`last`) the traffic of the group's bucket starts with the post of the bucket's last
 * group; without overlap it starts at sync_flush. */
int sync_post(struct sync *sync, int group, bool last);

/* Says that backward is over. Starts the traffic that waited for the end (no overlap), and rebuilds
 * gradients from factors if clipping needs their norm. */
int sync_flush(struct sync *sync);

/* Waits until the parameters of `group` are those after the iteration last posted. */
int sync_wait(struct sync *sync, int group);

/* Returns 1 if the other workers have finished `iteration`, for every group, without this rank,
 * whose parameters are then in place; 0 if this rank must compute the iteration (always without
 * plan_options.drop); -1 on failure. Call before the iteration's first wait and post. An iteration
 * that another rank waits for is never left out. Waits for answers if this rank seems late. */
int sync_leave_out(struct sync *sync, int64_t iteration);

/* Returns true if the group causes no traffic: its posts and waits may come in any order. */
bool sync_is_local(const struct sync *sync, int group);

/* ---- workers and servers; compute thread ---- */

/* Workers: sync_wait for every group. Dedicated servers: waits until every own chunk of `iteration`
 * is updated and sent. Afterwards values and history do not change before the next post (with drop:
 * before the next post of any N - drop workers). */
int sync_wait_all(struct sync *sync, int64_t iteration);

/* Sums `count` (few) values over the workers, in place. All workers make these calls in the same
 * order; dedicated servers make none. */
int sync_sum(struct sync *sync, double *values, int count);

/* Starts a sum of values over all ranks, workers and servers, while training goes on. One sum at a
 * time; every rank starts it between the same two iterations. */
enum { SYNC_ASK_VALUES = 14 };
int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES]);

/* Waits for the sums of sync_ask. Every rank calls it between the same two iterations; `staleness`
 * + 1 iterations after sync_ask, the parameters need the same wait anyway. */
int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES]);

/* Collects the history on rank 0, after sync_wait_all of the same iteration on all ranks: *history
 * is nhistory blocks of model->elems floats on rank 0, NULL on others. The sync owns *history,
 * until the next call of a sync_gather function or sync_destroy. Collective. */
int sync_gather_history(struct sync *sync, const float **history);

/* Collects one arena of sync_residuals on rank 0, like sync_gather_history; zeros without
 * residuals. */
int sync_gather_residuals(struct sync *sync, int number, float **arena);

/* Ends the traffic. status: this rank's; non-zero with its message set. Returns the agreed status,
 * with the lowest failing rank's message set on all ranks. Collective. */
int sync_close(struct sync *sync, int status);

/* Gives the global gradient norm and scale factor of `iteration`, the last one finished; 0 and 1
 * without clipping and with drop. Leaders and servers only: other workers do not know the norm. */
int sync_clip(struct sync *sync, int64_t iteration, double *norm, double *scale);

/* Updates that were left out because a gradient was not finite (sync_options.skips). A leader knows
 * all of them after sync_wait_all; a worker that is no leader knows none. */
struct sync_skips {
    int64_t count;     /* number of updates left out since the start */
    int64_t in_a_row;  /* number of updates left out in a row, up to the last iteration */
    int64_t iteration; /* iteration of the latest update left out */
    int bucket; /* last bucket of the plan whose gradient was not finite: the bucket nearest the
                   loss */
};
struct sync_skips sync_skips(const struct sync *sync);

/* Returns in words how messages reach the device's memory (directly or through host memory), and
 * why; NULL if the device computes in host memory, or without traffic. */
const char *sync_way(const struct sync *sync);

/* Returns the figures so far; borrowed until sync_destroy. */
const struct sync_stats *sync_stats(struct sync *sync);

/* Data that this rank has sent to another rank so far: bytes, and nanoseconds from each message's
 * start to its end, added up though messages overlap. Compute thread. */
struct sync_link {
    uint64_t bytes, ns;
};
struct sync_link sync_link(const struct sync *sync, int rank);

/* Frees the sync; NULL is allowed. Collective, since it frees communicators. After a failed
 * sync_close nothing is freed: until the process ends, MPI may use the buffers of messages under
 * way, among them the model's and the node's arenas, which the caller must keep, too. */
void sync_destroy(struct sync *sync);

#endif
