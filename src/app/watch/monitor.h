/* Watches for events that may end training early: signals, deadlines, late or lost ranks, values
 * that are not finite. */
#ifndef POSEIDON_WATCH_MONITOR_H
#define POSEIDON_WATCH_MONITOR_H

#include "compute/compute.h"
#include "keep/run.h"
#include "watch/signals.h"
#include "watch/stragglers.h"

enum monitor_phase { PHASE_TRAINING, PHASE_SAVING, PHASE_LAST_SAVING, PHASE_TESTING };

/* Activity of the compute thread, read by the wire's thread (monitor.c). */
struct monitor_doing {
    _Atomic int64_t iteration; /* -1: before the first iteration */
    _Atomic int64_t phase;
    _Atomic int64_t since; /* whole clock_seconds at which the phase began */
};

/* State of the agreement on signals that came to some ranks only (agree_signals.c). */
struct monitor_signals {
    int64_t asked; /* iteration before which the open question was asked; -1: no open question */
    int64_t next;  /* iteration before which the next question is asked */
    int64_t lag;   /* number of iterations between a question and reading its answer */
    int64_t iteration;         /* rank 0: iteration before which the last question was asked */
    double seconds;            /* rank 0: clock at the last question */
    enum signal_effect effect; /* agreed effect that is not yet carried out */
    double slowest;            /* rank 0: seconds of the slowest recent iteration */
    double passed;             /* rank 0: clock at the end of the last iteration; 0: none yet */
    double saved;              /* rank 0: clock at the last snapshot, or at the start */
    bool warned;               /* rank 0: the launcher's patience was checked */
    bool keep;                 /* the stop writes a snapshot even if the solver wants none */
    bool enough;               /* --stop-after stops the run, which is complete */
};

struct monitor {
    const struct job *job;    /* borrowed */
    struct compute *compute;  /* borrowed */
    struct training_run *run; /* borrowed */
    struct monitor_doing doing;
    struct monitor_signals signals;
    struct stragglers *stragglers; /* NULL: no rank can be late. Owned */
    bool alone;         /* this rank searches for a NaN alone: no sums of BatchNorm over ranks */
    bool explained;     /* monitor_explain_loss has logged */
    bool left_out;      /* this rank did not compute the last iteration */
    int bad_losses;     /* this rank's losses in a row that were not finite; for --on-nan=skip */
    int64_t skips_told; /* rank 0: number of reported updates left out */
    float *statistics;  /* running averages before the iteration, then scratch of the same size;
                           NULL: no --on-nan=skip, or no averages. Owned */
};

/* ---- monitor.c ---- */

/* Sets the callbacks that name a rank for which all others wait, and that end the process. */
void monitor_watch_ranks(struct monitor *monitor, struct wire_watch *out);

/* Records for the wire's thread what the compute thread does from now on, in or before `iteration`.
 * phase: PHASE_TESTING + i for test net i. */
void monitor_enter(struct monitor *monitor, int64_t iteration, int phase);

/* ---- agree_signals.c ---- */

/* Sets monitor->signals.effect to the effect of all ranks' signals, the same on all ranks, before
 * `iteration`. enough: rank 0's tests ask for the end. now: waits for all ranks, and counts each
 * signal up to this call; else waits for none, and counts signals up to an earlier question.
 * Collective, servers included. */
int monitor_ask(struct monitor *monitor, struct sync *sync, bool enough, int64_t iteration,
                bool now);

/* Measures the time of the iteration that ended. Rank 0. */
void monitor_pace(struct monitor *monitor);

/* Returns true if an optional pass should be skipped: a signal asks this rank to stop, or time is
 * nearly over. */
bool monitor_hurries(const struct monitor *monitor);

/* ---- numeric_checks.c ---- */

/* Fails after a pass whose loss is NaN or infinite; the message says where the value arose, if
 * known. The net is unusable afterwards. */
int monitor_report_divergence(struct monitor *monitor, const struct rates *rates, int64_t iteration,
                              const struct pass *pass, struct sync *sync, double loss);

/* Explains once a loss that is a multiple of 87.3365, which is -log of the smallest float. Rank
 * 0. */
void monitor_explain_loss(struct monitor *monitor, double loss);

/* Fails if a parameter, or the last test's loss, is not finite after `end` iterations. Rank 0. */
int monitor_check_outcome(struct monitor *monitor, const struct rates *rates,
                          const struct scores *scores, int64_t end);

/* Parses "stop" (0), "skip" or "skip,N" into the int `target`; fails with the possible values. */
int on_nan_parse(const char *option, const char *text, void *target);

/* Prepares --on-nan=skip; fails for settings that would carry a NaN into later iterations. */
int monitor_open_skips(struct monitor *monitor, const struct plan *plan);

/* Save BatchNorm's running averages before an iteration's passes; restore all if any became NaN or
 * infinite. */
void monitor_keep_statistics(struct monitor *monitor);
void monitor_restore_statistics(struct monitor *monitor);

/* Logs the updates left out since the last call (--on-nan=skip). Rank 0. */
void monitor_tell_skips(struct monitor *monitor, const struct plan *plan, struct sync *sync);

/* Compares all workers' parameters after `iteration` iterations; fails and names the first rank
 * that differs. Collective, servers included. */
int checks_compare_values(const struct job *job, const struct compute *compute, struct sync *sync,
                          int64_t iteration);

#endif
