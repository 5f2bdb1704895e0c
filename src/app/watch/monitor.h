/* Watches for what may end training early: signals, deadlines, late or lost ranks, values that are
 * not finite, damaged records. */
#ifndef POSEIDON_WATCH_MONITOR_H
#define POSEIDON_WATCH_MONITOR_H

#include "compute/compute.h"
#include "keep/run.h"
#include "watch/signals.h"
#include "watch/stragglers.h"

enum monitor_phase { PHASE_TRAINING, PHASE_SAVING, PHASE_LAST_SAVING, PHASE_TESTING };

/* Activity of the compute thread, for the wire's thread (monitor.c). */
struct monitor_doing {
    _Atomic int64_t iteration; /* -1: before the first one */
    _Atomic int64_t phase;
    _Atomic int64_t since; /* whole clock_seconds at which the phase began */
};

/* State of the agreement on signals that only some ranks have got (agree_signals.c). */
struct monitor_signals {
    int64_t asked;     /* iteration before which the open question was asked; -1: none open */
    int64_t next;      /* iteration before which the next question is asked */
    int64_t lag;       /* iterations from a question to its answer */
    int64_t iteration; /* rank 0: iteration before which rank 0 asked last */
    double seconds;    /* rank 0: clock at its last question */
    enum signal_effect effect; /* effect agreed on and not yet carried out */
    double slowest;            /* rank 0: seconds of the slowest recent iteration */
    double passed;             /* rank 0: clock at the last iteration's end; 0: none yet */
    double saved;              /* rank 0: clock at the last snapshot, or at the start */
    bool warned;               /* rank 0: true after the warning about the launcher's patience */
    bool keep;                 /* the stop writes a snapshot whatever the solver says */
    bool enough;               /* the stop comes from --stop-after: the run is complete */
};

struct monitor {
    const struct job *job;    /* borrowed */
    struct compute *compute;  /* borrowed */
    struct training_run *run; /* borrowed */
    struct monitor_doing doing;
    struct monitor_signals signals;
    struct stragglers *stragglers; /* NULL: no rank can be late. Owned */
    bool alone;         /* this rank searches for a NaN, and BatchNorm sums over no ranks */
    bool explained;     /* monitor_explain_loss has spoken */
    bool left_out;      /* this rank did not compute the last iteration */
    int bad_losses;     /* losses in a row that were not finite, on this rank; for --on-nan=skip */
    int64_t skips_told; /* rank 0: number of left-out updates already reported */
    float *statistics;  /* running averages from before the iteration, and room for as many; NULL:
                           not needed (no --on-nan=skip, or none in the net). Owned */
    char *damage;       /* rank 0: a line for each damaged record that was left out. Owned */
};

/* ---- monitor.c ---- */

/* Sets the callbacks that name ranks which keep all others waiting, and that end the process. */
void monitor_watch_ranks(struct monitor *monitor, struct wire_watch *out);

/* Notes what the compute thread does from now on, in or before `iteration`, for ranks that wait.
 * phase: PHASE_TESTING + i for test net i. */
void monitor_enter(struct monitor *monitor, int64_t iteration, int phase);

/* ---- agree_signals.c ---- */

/* Sets monitor->signals.effect to what signals to any rank ask for, the same on all ranks, before
 * `iteration`. enough: rank 0's tests ask for the end. now: waits for all ranks and counts every
 * signal up to this call; otherwise waits for none and counts signals up to an earlier question.
 * Collective, servers included. */
int monitor_ask(struct monitor *monitor, struct sync *sync, bool enough, int64_t iteration,
                bool now);

/* Measures the iteration that has ended. Rank 0. */
void monitor_pace(struct monitor *monitor);

/* Returns true if an optional pass should be left out: a signal asks this rank to stop, or time is
 * nearly over. */
bool monitor_hurries(const struct monitor *monitor);

/* ---- numeric_checks.c ---- */

/* Fails after a pass whose loss is NaN or infinite, and says where the value arose if that can be
 * found. The net is of no use afterwards. */
int monitor_report_divergence(struct monitor *monitor, const struct rates *rates, int64_t iteration,
                              const struct pass *pass, struct sync *sync, double loss);

/* Explains, once, a loss that is a multiple of 87.3365. Rank 0. */
void monitor_explain_loss(struct monitor *monitor, double loss);

/* Fails if training ends without success after `end` iterations: a parameter is not finite, saved
 * or not, or the last test's loss is not. Rank 0. */
int monitor_check_outcome(struct monitor *monitor, const struct rates *rates,
                          const struct scores *scores, int64_t end);

/* Parses "stop" (0), "skip" or "skip,N" into the int `target`; fails with the possible values. */
int on_nan_parse(const char *option, const char *text, void *target);

/* Prepares --on-nan=skip, and fails for what would keep a NaN beyond its iteration. */
int monitor_open_skips(struct monitor *monitor, const struct plan *plan);

/* Keep the running averages before an iteration's passes, and restore them afterwards if any became
 * NaN or infinite. */
void monitor_keep_statistics(struct monitor *monitor);
void monitor_restore_statistics(struct monitor *monitor);

/* Reports the updates that were left out since the last call. Rank 0. */
void monitor_tell_skips(struct monitor *monitor, const struct plan *plan, struct sync *sync);

/* Compares all workers' parameters after `iteration` iterations; fails naming the first rank that
 * differs. Collective, servers included. */
int checks_compare_values(const struct job *job, const struct compute *compute, struct sync *sync,
                          int64_t iteration);

/* ---- data_notices.c ---- */

/* Gathers in rank 0's *out, for the caller to free, the damaged records of all ranks' training and
 * test data, and logs their number. */
int bad_records_gather_all(const struct job *job, const struct compute *compute, char **out);

#endif
