/* Synchronisation: keeps the parameters of all ranks equal, while backprop runs.
 *
 * The wire's thread (wire/wire.h) makes every MPI call between sync_start and sync_close. The
 * compute thread says "the gradient of this group is final" (sync_post, called from backprop) and
 * goes on; the wire's thread starts the traffic of the group's bucket and keeps it moving. The next
 * forward pass waits group by group (sync_wait), never for all: wait-free backpropagation (Zhang et
 * al., USENIX ATC'17, section 3).
 *
 * Ranks of a node may add up their gradients among themselves first (options.node): then one of
 * them, the leader, takes part in the traffic for all, and what it brings lands where all of them
 * train from.
 *
 * Sync knows no net: what is trained are groups of floats in two arenas (struct sync_model), moved
 * as the plan says.
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

#include "engine/engine.h"
#include "plan/plan.h"
#include "sync/node.h"
#include "wire/wire.h"

struct gather_i;

/* The registry of all schemes (plan/scheme.h), the parameter server first. */
extern const struct scheme *const sync_schemes[];

/* What is trained, as sync sees it. Borrowed, with all it points to, until sync_destroy. */
struct sync_model {
    size_t elems;          /* of each arena */
    float *values, *grads; /* the arenas where the host can touch them; NULL on dedicated servers */
    float *engine_values;  /* the arenas where ops work: the same addresses where the engine's */
    float *engine_grads;   /* memory is the host's; NULL on dedicated servers */
    const struct engine
        *engine; /* of those; multiplies factors also on a server that owns a layer */
    const struct engine *host_engine; /* multiplies on the host where that one cannot; else NULL */
    void *context;                    /* of the two below, which are called on the compute thread */
    /* The factors of a factorable group's last pass, in engine memory: bottom k x n, top_grad k x
     * m. */
    void (*factors)(void *context, int group, const float **bottom, const float **top_grad);
    /* The group's values are new: ops renew their copies. NULL: nobody keeps copies. */
    void (*changed)(void *context, int group);
};

/* How the solver changes parameters. Called by both threads for different elements, so it must be a
 * pure function of its arguments. */
struct sync_update {
    void *context;
    int nhistory; /* floats of history per parameter */
    /* One application of the rule; NULL: parameters stay as they are. The gradient it is applied to
     * holds the SUM over workers and micro-batches; `scale` makes it the averaged, clipped one. */
    int (*describe)(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                    struct engine_update *out);
};

/* Whether messages go straight from and to the memory of an engine that has its own, not by way of
 * the host's. */
enum sync_direct {
    SYNC_DIRECT_AUTO, /* where MPI says that it can, and a trial on all workers bears it out */
    SYNC_DIRECT_ON,   /* the same, else it is an error */
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
                                engines have memory of their own only as a team, and then not with
                                factors */
    const struct gather_i *gather; /* how they do (gather.h); NULL: as node says */
    enum sync_direct direct;
    bool update_on_engine; /* a server that trains on an engine with memory of its own updates its
                              chunks there; not with staleness. Each rank's own choice: the bits are
                              the same */
    int threads; /* of a dedicated server: it updates chunks by one less, beside its wire thread.
                    The bits are the same */
    float clip;  /* Caffe's clip_gradients: largest global L2 norm; <= 0: off */
    int exact_norms; /* N > 0: clip's norm is that of N mean gradients, to the same bits however
                        they are cut and dealt (engine/exact_sum.h; of engines that work in the
                        host's memory); 0: of the plan's iter_size, rounded. Not with lars */
    int skips;   /* > 0: an update whose gradient, averaged over the workers, is not finite is left
                    out, everywhere or nowhere; after `skips` in a row the traffic fails. Not with
                    staleness, nor with codecs, whose residuals would keep it */
    float lars;  /* > 0: the ratio of rates that follow norms (lars.h); not with staleness, nor with
                    update_on_engine */
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

/* Rank 0's parameters become everybody's, on the host: the caller hands them on to an engine with
 * memory of its own. Before sync_start. Collective. */
int sync_share_values(struct sync *sync);

/* Rank 0's history (nhistory blocks of model->elems; elsewhere ignored) is dealt to those who keep
 * it. Before sync_start. Collective. */
int sync_load_history(struct sync *sync, const float *history);

/* The residuals of a plan's schemes (steps.h), as arenas of model->elems floats: one for each
 * leader's gradients, then one for sums, then one for bases. */
struct sync_residuals {
    int leaders, sums, bases; /* how many arenas; the last two 0 or 1 */
    int64_t gradients;        /* that an update averages: residuals are of their sum */
};

/* The same everywhere. All zero but gradients: the schemes have none. */
struct sync_residuals sync_residuals(struct sync *sync);

static inline int sync_residual_arenas(const struct sync_residuals *of)
{
    return of->leaders + of->sums + of->bases;
}

/* Rank 0's arena (elsewhere ignored), number `number` of a run with those residuals, goes to those
 * who keep such. Where as many leaders and gradients were as there are, everybody gets his own;
 * else every leader gets an equal part of each, so that an update is owed what it was. *left, on
 * rank 0: grows by the residuals that no scheme can take. Before sync_start. Collective. */
int sync_load_residuals(struct sync *sync, const struct sync_residuals *of, int number,
                        const float *arena, size_t *left);

/* Starts the wire's thread, which alone calls MPI from here to sync_close: ranks cannot agree on
 * the status by MPI. A rank where it fails goes to sync_close with it. Not collective. */
int sync_start(struct sync *sync);

/* ---- workers; compute thread ---- */

/* The gradient of one micro-batch of `group`, the net's, is complete. On the last micro-batch
 * (`last`) the traffic of its bucket starts when all its groups have come so far (or is kept for
 * sync_flush without overlap). */
int sync_post(struct sync *sync, int group, bool last);

/* Backward is over: posts what waits without overlap; rebuilds gradients from factors where
 * clipping needs their norm. */
int sync_flush(struct sync *sync);

/* Until the parameters of `group`, of the iteration last posted, are in place. */
int sync_wait(struct sync *sync, int group);

/* With plan_options.drop, before the first wait and post of that iteration: whether it is over
 * without this rank, for every group, and so left out: 1, and its parameters are in place; 0: it is
 * to be computed; -1. A later iteration may be over for some groups, but none that another rank
 * waits for is ever left out. Waits for answers where this rank seems to be late. 0 without drop.
 */
int sync_leave_out(struct sync *sync, int64_t iteration);

/* Whether nobody else waits for the group: its posts and waits may then come in any order. */
bool sync_is_local(const struct sync *sync, int group);

/* ---- workers and servers; compute thread ---- */

/* Workers: sync_wait for every group. Dedicated servers: until every own chunk of that iteration
 * was updated and sent. Afterwards values and history do not change before the next post; with
 * drop, of any N - drop workers. */
int sync_wait_all(struct sync *sync, int64_t iteration);

/* Sums a small vector over the workers, in place. Every worker calls it, in the same order among
 * its sync_sum calls; not for dedicated servers. */
int sync_sum(struct sync *sync, double *values, int count);

/* A question that nobody waits for: starts to sum SYNC_ASK_VALUES values over all ranks, workers
 * and servers, while training goes on; sync_answer waits for the sums. One question at a time.
 * Every rank asks and reads between the same iterations; read `staleness` + 1 iterations later, the
 * answer costs no wait that the parameters do not cost anyway. */
enum { SYNC_ASK_VALUES = 14 };
int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES]);
int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES]);

/* Collects the history on rank 0, after sync_wait_all of the same iteration everywhere: *history
 * is nhistory blocks of model->elems floats there, NULL elsewhere. The sync owns it, and keeps it
 * until the next of these calls or sync_destroy. Collective. */
int sync_gather_history(struct sync *sync, const float **history);

/* Collects one arena of sync_residuals on rank 0, as sync_gather_history does; zeros where no
 * scheme has residuals. */
int sync_gather_residuals(struct sync *sync, int number, float **arena);

/* Ends the traffic. status: this rank's; non-zero with its message set. Returns the agreed status,
 * with the lowest failing rank's message set on all ranks. Collective. */
int sync_close(struct sync *sync, int status);

/* Global norm and scale factor of that iteration, just finished; 0 and 1 without clipping, and with
 * drop, where workers may not know them. Not for workers that another one leads: they are not told.
 */
int sync_clip(struct sync *sync, int64_t iteration, double *norm, double *scale);

/* Updates that were left out (sync_options.skips), as far as this rank knows; all where it leads
 * and sync_wait_all has come back, none where another rank leads it. */
struct sync_skips {
    int64_t count;     /* in all */
    int64_t in_a_row;  /* the last ones */
    int64_t iteration; /* of the last one */
    int bucket;        /* the plan's last one whose gradient was not finite: there it arose */
};
struct sync_skips sync_skips(const struct sync *sync);

/* By which way messages reach the engine's memory, and why, in words; NULL where it is the host's,
 * or nothing travels. */
const char *sync_way(const struct sync *sync);

const struct sync_stats *sync_stats(struct sync *sync);

/* What this rank has sent to that one so far, and how long its messages took, from MPI's hands to
 * their end, added up though they overlap. Compute thread. */
struct sync_link {
    uint64_t bytes, ns;
};
struct sync_link sync_link(const struct sync *sync, int rank);

/* Collective (it frees communicators); NULL is fine. After a failed sync_close nothing is freed:
 * messages may be on their way, and until the process ends MPI may read and write their buffers,
 * the model's arenas and the node's among them. The caller keeps those, too. */
void sync_destroy(struct sync *sync);

#endif
