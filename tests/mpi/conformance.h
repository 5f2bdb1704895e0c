/* What the parts of sync_conformance share: a net made by hand, the serial run that it is judged
 * by, and the profiling shim that counts and delays. See sync_conformance.c. */
#ifndef POSEIDON_TESTS_MPI_CONFORMANCE_H
#define POSEIDON_TESTS_MPI_CONFORMANCE_H

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "sync/node.h"
#include "sync/sync.h"
#include "util/error.h"

enum {
    CONFORMANCE_SEED = 5,
    GROUPS = 5,
    ROWS = 3,
    MOST_PARTS = 4, /* as often a worker may have them */
    WIDEST = 100
}; /* WIDEST: most inputs or outputs of a connected group */

extern char conformance_text[]; /* the case that runs, as it was asked for; starts with a blank */

/* Ends all ranks with a message where the condition does not hold. `rank` is the caller's. */
#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "FAILED:%s: rank %d: ", conformance_text, rank);                       \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* ---- conformance_options.c: what is run ---- */

enum conformance_overlap { OVERLAP_NONE, OVERLAP_WFBP, OVERLAP_BACKWARD };
enum conformance_net { NET_AUTO, NET_SMALL, NET_LARGE };

/* One case; conformance_options_help says what each field means. */
struct conformance {
    struct comm comm;
    struct way ways[GROUPS]; /* COMM_AUTO: of the groups */
    int wire, overlap, net, fifo, frozen, fails,
        late; /* enum wire_format, the two above, and bools */
    long servers, chunk, merge, window, iter_size, staleness, node, leaders, tree, factors, warmup,
        owed, threads, seeds, iterations, limit, drop, parts;
    double clip;
};

void conformance_defaults(struct conformance *out);
/* Takes one argument, "--NAME=VALUE". Fails with what is wrong with it, in error_text. */
int conformance_option(struct conformance *c, const char *argument);
void conformance_options_help(FILE *out);

/* ---- conformance_net.c: a net made by hand ---- */

struct made_net {
    const struct group *groups; /* GROUPS of them */
    size_t elems;               /* of each arena */
    float *values, *grads;      /* NULL on dedicated servers */
};

/* Group 0 has first_elems parameters and a bias, groups 1 and 3 are fully connected (with and
 * without a bias, which does not learn if frozen), group 2 gets no gradient: it decays, or if
 * frozen stays as it is. One net at a time. */
void conformance_net_make(struct made_net *net, int64_t first_elems, bool frozen);
/* Arenas: of its own, or the node's. node may be NULL. */
void conformance_net_place(struct made_net *net, const struct node *node);
void conformance_net_free(struct made_net *net, const struct node *node);

/* How gradients depend on values: 0.1 unless set otherwise; 0 makes them the same at any staleness.
 */
void conformance_feedback(float feedback);

/* What a worker's backward leaves behind: factors (rows of n inputs and of m outputs), or a
 * gradient that depends on the values; `add` adds it to what is there. group: the net's. */
void conformance_factors(const struct group *g, int group, int worker, int iteration, int micro,
                         int64_t rows, const float *values, float *bottom, float *top);
void conformance_gradient(const struct group *g, int group, int worker, int iteration, int micro,
                          const float *values, float *gradient, bool add);
/* A parameter of the group that does not learn has no gradient. */
void conformance_freeze(const struct group *g, float *gradient);
/* A worker's backward passes of one iteration: posts all gradients, now and then late. As
 * sync_flush. */
int conformance_backward(struct sync *sync, const struct plan *plan, struct made_net *net, int rank,
                         int iteration);
float conformance_first_value(size_t i);

/* C = alpha A B + beta C by three loops: further products add on in the same order. */
int conformance_gemm(void *context, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc);
extern struct device conformance_device; /* multiplies so, and does nothing else */

/* The solver of this test: momentum with a rate that falls. As sync_update.describe; and that rule,
 * in a plain loop. */
int conformance_describe(void *context, int64_t iteration, float scale, float lr_mult,
                         float decay_mult, struct device_update *out);
void conformance_apply(int64_t iteration, float scale, float lr_mult, float decay_mult,
                       float *value, const float *grad, float *history, size_t n);

/* What sync is given of the net. */
struct sync_model conformance_model(const struct made_net *net);

/* Whether the plan's bucket travels as factors. */
static inline bool conformance_by_factors(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].scheme && plan->buckets[bucket].scheme->factors;
}

/* ---- conformance_serial.c: what all workers together must arrive at ---- */

struct serial {
    float *values, *history, *sum; /* arenas of the net */
    size_t elems;                  /* of the net */
    const struct plan *plan;
    const struct made_net *net;
    float *gradients; /* of one bucket: every worker's, `most` elements each */
    float *nodes;     /* their sums per leader, as far apart */
    size_t most;
    float *rows;      /* factors of all workers */
    float *lost;      /* per leader an arena: what its codecs rounded away */
    float *lost_home; /* and the homes' */
    float *second;    /* an arena: the second factor of low rank, bucket by bucket */
    int warmup;       /* iterations before low rank begins */
    unsigned late;    /* with plan_options.drop: a bit for each worker whose gradient is dropped */
    bool posts_late;  /* which it computes all the same */
    double clip;      /* for late_train */
};

/* plan and net are borrowed. False where memory is lacking. */
bool serial_create(const struct plan *plan, const struct made_net *net, struct serial *out);
void serial_free(struct serial *s);
/* One iteration of `rank`'s parameters; all ranks have the same unless each trains alone. */
void serial_iteration(struct serial *s, float clip, int iteration, int rank);

/* ---- conformance_mpi.c: what MPI sees ---- */

struct counted {
    uint64_t sent[GROUPS], received[GROUPS]; /* bytes, per bucket */
    uint64_t messages[GROUPS];               /* sent */
};

/* Counts training data from here on; what was counted before is forgotten. plan is borrowed. */
void counting_start(const struct plan *plan);
struct counted counting_stop(void);
/* This rank sees no message of training data come, or does again. The compute thread. */
void chaos_hold(bool on);
/* Whether a rank's wire thread, where it is delayed, also stops for much longer now and then. */
void chaos_naps(bool on);
/* Delays sends, and lets completions be seen late and out of order, another way for every seed; 0:
 * no more. Not while a sync runs. */
void chaos_set(uint64_t seed);

/* ---- conformance_late.c: workers whose gradients are dropped ---- */

/* Who is late is decided by who has posted when (LATE_HELD, LATE_STUCK: then parameters and dropped
 * gradients are known), or by chance: parameters are equal everywhere, and no gradient is lost.
 * Instead of the iterations of other cases, up to the end of the last one. */
enum conformance_late { LATE_HELD, LATE_STUCK, LATE_RANDOM };
void late_train(struct sync *sync, const struct plan *plan, struct made_net *net,
                const struct conformance *c, struct serial *serial, int rank);
/* Before the history travels, and after sync_close: bytes and counts. Collective. */
void late_check_bytes(const struct plan *plan, const struct sync_stats *stats,
                      const struct counted *measured, const struct conformance *c, int rank);
void late_check_counts(const struct plan *plan, const struct sync_stats *stats,
                       const struct conformance *c, int rank);

#endif
