/* What may end training before its time: signals, deadlines, ranks that are late or lost, values
 * that are not finite, damaged records. */
#ifndef POSEIDON_WATCH_MONITOR_H
#define POSEIDON_WATCH_MONITOR_H

#include "compute/compute.h"
#include "keep/run.h"
#include "watch/signals.h"
#include "watch/stragglers.h"

enum monitor_phase { PHASE_TRAINING, PHASE_SAVING, PHASE_LAST_SAVING, PHASE_TESTING };

/* What the compute thread does, for the wire's (monitor.c). */
struct monitor_doing {
    _Atomic int64_t iteration; /* -1: before the first one */
    _Atomic int64_t phase;
    _Atomic int64_t since; /* clock_seconds, whole ones */
};

/* What all ranks know of signals that some of them have got (agree_signals.c). */
struct monitor_signals {
    int64_t asked;             /* before which iteration the open question stands; -1: none does */
    int64_t next;              /* before which iteration the next one is asked */
    int64_t lag;               /* iterations from the question to its answer */
    int64_t iteration;         /* rank 0: before which one it asked last */
    double seconds;            /* rank 0: the clock then */
    enum signal_effect effect; /* agreed on and not done yet */
    double slowest;            /* rank 0: seconds of the slowest iteration of late */
    double passed;             /* rank 0: the clock at the last iteration's end; 0: not yet */
    double saved;              /* rank 0: the clock at the last snapshot; first: at the start */
    bool warned;               /* rank 0: of the launcher's patience */
    bool keep;                 /* the stop wants a snapshot whatever the solver says */
    bool enough;               /* the stop is --stop-after's: the run is over */
};

struct monitor {
    const struct job *job; /* these three are borrowed */
    struct compute *compute;
    struct training_run *run;
    struct monitor_doing doing;
    struct monitor_signals signals;
    struct stragglers *stragglers; /* NULL: nobody can be late. Owned */
    bool alone;                    /* this rank looks for a NaN: BatchNorm asks no other rank */
    bool explained;                /* monitor_explain_loss has spoken */
    bool left_out;                 /* this rank did not compute the last iteration */
    int bad_losses;                /* of this rank, in a row; --on-nan=skip */
    int64_t skips_told;            /* rank 0: updates left out that it has told of */
    float *statistics; /* running averages as they were before the iteration, and room for as many;
                          NULL: --on-nan=skip is not asked for, or the net has none. Owned */
    char *damage;      /* rank 0: a line for each damaged record that was left out. Owned */
};

/* ---- monitor.c ---- */

/* Fills in who names ranks that keep all waiting, and who ends the process. */
void monitor_watch_ranks(struct monitor *monitor, struct wire_watch *out);

/* What the compute thread does from now on, before or in that iteration, for those who wait for
 * this rank: PHASE_TESTING + i for test net i. */
void monitor_enter(struct monitor *monitor, int64_t iteration, int phase);

/* ---- agree_signals.c ---- */

/* Between two iterations, `iteration` to come: puts into monitor->signals.effect what signals to
 * any rank ask for, the same on all ranks, and whether rank 0's tests have found `enough`. now:
 * waits for all ranks, and counts every signal up to this call; else waits for nobody, and counts
 * signals up to an earlier question. Collective, servers included. */
int monitor_ask(struct monitor *monitor, struct sync *sync, bool enough, int64_t iteration,
                bool now);

/* Rank 0, after an iteration: how long it took. */
void monitor_pace(struct monitor *monitor);

/* Whether a pass that may be left out should be: a signal asks this rank to stop, or the time is
 * nearly over. */
bool monitor_hurries(const struct monitor *monitor);

/* ---- numeric_checks.c ---- */

/* After a pass whose loss is NaN or infinite: fails, and says where that arose if it can be found.
 * The net is of no use afterwards. */
int monitor_report_divergence(struct monitor *monitor, const struct rates *rates, int64_t iteration,
                              const struct pass *pass, struct sync *sync, double loss);

/* Rank 0: explains once a loss that is a multiple of 87.3365. */
void monitor_explain_loss(struct monitor *monitor, double loss);

/* Rank 0, after `end` iterations: fails where training is not to end as a success: parameters that
 * are no numbers, whether they were saved or not, or with which the last test's loss is none. */
int monitor_check_outcome(struct monitor *monitor, const struct rates *rates,
                          const struct scores *scores, int64_t end);

/* "stop" (0), "skip" or "skip,N" into the int `target`; fails with what is possible. */
int on_nan_parse(const char *option, const char *text, void *target);

/* --on-nan=skip, at set-up: refuses what would keep a NaN beyond its iteration. */
int monitor_open_skips(struct monitor *monitor, const struct plan *plan);

/* Before and after the passes of an iteration: running averages that became NaN or infinite are
 * what they were before. */
void monitor_keep_statistics(struct monitor *monitor);
void monitor_restore_statistics(struct monitor *monitor);

/* Rank 0: tells of the updates that were left out since it was called last. */
void monitor_tell_skips(struct monitor *monitor, const struct plan *plan, struct sync *sync);

/* Whether all workers have the same parameters after that many iterations; fails naming the first
 * rank that differs. Collective, servers included. */
int checks_compare_values(const struct job *job, const struct compute *compute, struct sync *sync,
                          int64_t iteration);

/* ---- data_notices.c ---- */

/* Gathers in rank 0's *out, to be freed, which records of all ranks' training and test data were
 * left out, and says how many. */
int bad_records_gather_all(const struct job *job, const struct compute *compute, char **out);

#endif
