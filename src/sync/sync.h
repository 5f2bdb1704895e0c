/* Synchronisation: keeps the parameters of all ranks equal, while backprop runs.
 *
 * One progress thread per rank makes every MPI call between sync_start and sync_close. The compute
 * thread tells it "gradient of group g is final" through a lock-free ring (sync_post, called from
 * net_backward's hook) and goes on; the thread posts nonblocking MPI for that group and keeps it
 * moving. The next forward pass waits group by group (sync_wait), never for all: wait-free
 * backpropagation (Zhang et al., USENIX ATC'17, section 3).
 *
 * Ranks of a node may add up their gradients in shared memory first (options.node): then one of
 * them, who speaks for all, takes part in the traffic, and what it brings lands where all of them
 * train from. Devices may do so among themselves.
 *
 * Life, every step collective over the world communicator:
 *     sync_create -> (sync_share_values, sync_load_history) -> sync_start
 *     -> per iteration: [worker: sync_post / sync_wait from the passes, sync_flush after backward]
 *                       [dedicated server: sync_serve]
 *     -> sync_close -> sync_destroy
 *
 * Failure: a rank that fails calls sync_close with its status; the others learn of it from the
 * progress thread, and their next sync call fails; they go to sync_close too, which makes the
 * lowest failing rank's message everybody's. Nobody hangs. */
#ifndef POSEIDON_SYNC_SYNC_H
#define POSEIDON_SYNC_SYNC_H

#include <mpi.h>

#include "sync/node.h"
#include "net/net.h"
#include "plan/plan.h"

/* How the solver changes parameters: called by the progress thread (PS) and by the compute thread
 * (SFB), for different elements, so it must be a pure function of its arguments. */
struct sync_update {
    void *context;
    int nhistory; /* floats of history per parameter */
    /* grad holds the SUM over workers and micro-batches; `scale` makes it the averaged, clipped
     * one. history: nhistory blocks, `stride` elements apart. */
    void (*apply)(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                  float *value, const float *grad, float *history, size_t stride, size_t n);
    /* The same on memory of an engine that has its own (engine_remote_i.update). NULL: no such
     * engine is used. */
    int (*apply_remote)(void *context, int64_t iteration, float scale, float lr_mult,
                        float decay_mult, float *value, const float *grad, float *history,
                        size_t stride, size_t n, bool stored);
};

/* Whether messages go straight from and to the memory of an engine that has its own, not by way of
 * the host's. */
enum sync_direct {
    SYNC_DIRECT_AUTO, /* where MPI says that it can, and a trial on all workers bears it out */
    SYNC_DIRECT_ON,   /* ditto, else it is an error */
    SYNC_DIRECT_OFF,
};

/* "auto", "on" or "off"; fails with the list of them. */
int sync_direct_parse(const char *name, enum sync_direct *out);

struct sync_options {
    bool overlap; /* false: traffic starts when backward is over, forward waits for all of it */
    bool forward_waits_all; /* the first layer of the next forward pass waits for all layers */
    int staleness; /* S > 0: PS groups may lag S iterations behind (stale.h); not with clip */
    bool fifo;     /* sends go in the order of posting, not of urgency */
    size_t window; /* bytes of training data in MPI's hands at a time, an eighth of them (or one
                      message) to one rank; 0: no limit */
    double bytes_per_second; /* most this rank sends of training data; 0: no limit */
    const struct node *
        node; /* the ranks that add up together, as the plan has it, and the arenas of net;
                 borrowed; NULL: every worker speaks for itself. Not with staleness or COMM_NONE;
                 where engines have memory of their own only as a team, and then not with factors */
    enum sync_direct direct;
    bool update_remotely; /* a server that trains on an engine with memory of its own updates its
                             chunks there; not with staleness. Each rank's own choice: the bits are
                             the same */
    const struct engine
        *engine; /* multiplies factors (workers, and the owners of Adam's way); borrowed */
    int threads; /* of the host's engine, which multiplies where that one cannot; 0: its default */
    float clip;  /* Caffe's clip_gradients: largest global L2 norm; <= 0: off */
    int64_t iteration;    /* the first one to come */
    double stall_seconds; /* after that long without progress in a wait, say what is waited for */
    void (*warn)(void *context, const char *text); /* says it; may be NULL. Any thread */
    void *warn_context;
    struct trace
        *trace; /* waits, updates and transfers are recorded there; borrowed; NULL: they are not */
    uint64_t digest; /* of all else that ranks must agree on (solver, batch, ...) */
};

/* What the network did, summed since sync_start. */
struct sync_stats {
    uint64_t sent, received;     /* gradient, parameter and factor bytes */
    uint64_t control_sent;       /* losses, clipping norms, snapshots' history */
    double stall_seconds;        /* compute thread waiting in sync calls */
    double *group_stall_seconds; /* per bucket of the plan; borrowed */
    /* Of sent and received, per bucket; borrowed. Complete after sync_close. */
    const uint64_t *group_sent, *group_received;
    double progress_cpu_seconds; /* processor time of the progress thread */
    double progress_seconds;     /* how long it ran; after sync_close */
};

struct sync;

/* Checks that all ranks agree on the plan and the digest. net: this rank's training net, built
 * (net_build) on workers; on dedicated servers only created. plan and net outlive the sync.
 * Collective. */
int sync_create(MPI_Comm world, const struct plan *plan, struct net *net,
                const struct sync_update *update, const struct sync_options *options,
                struct sync **out);

/* Rank 0's parameter values become everybody's. Before sync_start. Collective. */
int sync_share_values(struct sync *sync);

/* Rank 0's history (nhistory blocks of net->elems; elsewhere ignored) is dealt to those who keep
 * it. Before sync_start. Collective. */
int sync_load_history(struct sync *sync, const float *history);

/* Starts the progress thread. */
int sync_start(struct sync *sync);

/* ---- workers ---- */

/* The gradient of one micro-batch of the net's group `member` is complete. On the last micro-batch
 * (`last`) the traffic of its bucket starts when all members have come so far (or is kept for
 * sync_flush without overlap). Compute thread. */
int sync_post(struct sync *sync, int member, bool last);

/* Backward is over: posts what waits without overlap; rebuilds SFB gradients where clipping needs
 * their norm. Compute thread. */
int sync_flush(struct sync *sync);

/* Until the parameters of the net's group `member`, of the iteration last posted, are in place.
 * Compute thread. */
int sync_wait(struct sync *sync, int member);

/* Whether nobody else waits for the group: its posts and waits may then come in any order of
 * groups. */
bool sync_is_local(const struct sync *sync, int member);

/* ---- workers and servers ---- */

/* Workers: sync_wait for every group. Dedicated servers: until every own chunk of that iteration
 * was updated and sent. Afterwards values and history do not change before the next post. */
int sync_wait_all(struct sync *sync, int64_t iteration);

/* Sums a small vector over the workers, in place. Every worker calls it, in the same order among
 * its sync_sum calls; not for dedicated servers. */
int sync_sum(struct sync *sync, double *values, int count);

/* A question that nobody waits for: starts to sum SYNC_ASK_VALUES values over all ranks, workers
 * and servers, while training goes on; sync_answer waits for the sums. One question at a time.
 * Every rank asks and reads between the same iterations; read `staleness` + 1 iterations later, the
 * answer costs no wait that the parameters do not cost anyway. */
enum { SYNC_ASK_VALUES = 9 };
int sync_ask(struct sync *sync, const double values[SYNC_ASK_VALUES]);
int sync_answer(struct sync *sync, double values[SYNC_ASK_VALUES]);

/* Collects the history on rank 0 (nhistory blocks of net->elems floats; NULL elsewhere), after
 * sync_wait_all of the same iteration everywhere. Collective. */
int sync_gather_history(struct sync *sync, float *history);

/* Ends the traffic. status: this rank's; non-zero with its message set. Returns the agreed status,
 * with the lowest failing rank's message set on all ranks. Collective. */
int sync_close(struct sync *sync, int status);

/* Global norm and scale factor of that iteration, just finished; 0 and 1 without clipping. Not for
 * workers that another one speaks for: they are not told. */
int sync_clip(struct sync *sync, int64_t iteration, double *norm, double *scale);

/* By which way messages reach the engine's memory, and why, in words; NULL where it is the host's,
 * or nothing travels. */
const char *sync_way(const struct sync *sync);

const struct sync_stats *sync_stats(struct sync *sync);

void sync_destroy(struct sync *sync);

#endif
