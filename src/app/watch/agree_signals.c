/* Agrees on what all ranks do about signals that came to some ranks only.
 *
 * About twice a second, before the same iteration on each rank, the ranks sum up their signals:
 * this is a question. In each question rank 0 also gives the number of iterations to the next
 * question. Ranks read the answer so late that every rank has sent its part, so no rank waits. With
 * "drop-stragglers" the answer is read when the next question is due: a rank late by less delays no
 * other rank. */
#include "watch/monitor.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define QUESTION_SECONDS 0.5 /* approximate seconds between questions */

/* Indices into a question's values. Per signal: number of ranks that received it, and sum of their
 * rank numbers, which names a single rank. From rank 0 alone: time is over, a snapshot is due,
 * tests ask for the end, iterations to the next question. */
enum { RANKS = 0, NUMBERS = SIGNALS, ENDS = 2 * SIGNALS, SAVES, ENOUGH, NEXT };
_Static_assert(NEXT + 1 == SYNC_ASK_VALUES, "a question fills its values");

static int64_t iterations_to_next(struct monitor *monitor, int64_t iteration)
{
    double now = clock_seconds(), lapse = now - monitor->signals.seconds;
    enum { SLOWER = 4 }; /* a rank that is slower by this factor is late, not lost */
    int64_t least = monitor->job->options->exchange.drop > 0 ? SLOWER : 1;
    int64_t n = iteration - monitor->signals.iteration, next = 1;

    /* at most twice as far as last time: the first iterations take another time than the rest */
    if (n > 0 && lapse > 0)
        next = (double)n * QUESTION_SECONDS / lapse < 2.0 * (double)n
                   ? (int64_t)((double)n * QUESTION_SECONDS / lapse)
                   : 2 * n;
    assert(n >= 0 && next >= 0); /* iterations only increase */
    monitor->signals.seconds = now;
    monitor->signals.iteration = iteration;
    return next > least ? next : least;
}

/* ---- time, on rank 0 ---- */

/* Warns if Open MPI's mpirun, on a signal, may kill its ranks before an iteration and a snapshot
 * are done. Not with a patience of 0: job scripts set it, and keep signals from mpirun. */
static void warn_of_launcher(struct monitor *monitor)
{
    const char *patience = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    double lives = 2 * (patience ? atof(patience) : 1);
    double needs =
        QUESTION_SECONDS + 2 * monitor->signals.slowest + run_saving_seconds(monitor->run);

    if (monitor->signals.warned || monitor->signals.slowest == 0 || job_rehearses(monitor->job))
        return;
    monitor->signals.warned = true;
    if (!getenv("OMPI_COMM_WORLD_SIZE") || getenv("SLURM_STEP_ID") || needs <= lives || lives <= 0)
        return;
    LOG_INFO(monitor->job->log,
             "Stopping and saving takes up to %.0f s here, but mpirun kills its ranks %.0f s after "
             "Ctrl-C: send mpirun SIGUSR1 instead (kill -USR1), or start mpirun with --mca "
             "odls_base_sigkill_timeout %.0f",
             ceil(needs), lives, ceil(needs));
}

void monitor_pace(struct monitor *monitor)
{
    double now = clock_seconds(), lapse = now - monitor->signals.passed;

    if (monitor->job->rank != 0)
        return;
    /* `slowest` decays, so that one slow iteration counts for a few dozen iterations only */
    if (monitor->signals.passed > 0)
        monitor->signals.slowest = fmax(lapse, 0.98 * monitor->signals.slowest);
    monitor->signals.passed = now;
    warn_of_launcher(monitor);
}

/* Returns true if the run's time ends before `further` more iterations and the last snapshot are
 * done, with margin. */
static bool time_is_over(const struct monitor *monitor, double further)
{
    double needs = further * monitor->signals.slowest + 1.5 * run_saving_seconds(monitor->run) +
                   monitor->job->options->deadline.margin;

    return clock_seconds() + needs > monitor->run->shared.ends;
}

bool monitor_hurries(const struct monitor *monitor)
{
    return signals_stop_pending(monitor->job->options->signals) || time_is_over(monitor, 1);
}

/* Returns true if --snapshot-every asks for a snapshot and no other effect is pending. */
static bool snapshot_is_due(const struct monitor *monitor)
{
    return !job_rehearses(monitor->job) && monitor->signals.effect == SIGNAL_NOTHING &&
           run_saving_is_due(monitor->run, clock_seconds() - monitor->signals.saved);
}

static int ask_signals(struct monitor *monitor, struct sync *sync, bool enough, int64_t iteration)
{
    double values[SYNC_ASK_VALUES] = {0};
    unsigned bits = signals_take();

    assert(monitor->signals.asked < 0); /* at most one question is open */
    for (int k = 0; k < SIGNALS; k++)
        if ((bits >> k & 1) && monitor->job->options->signals[k] != SIGNAL_NOTHING) {
            values[RANKS + k] = 1;
            values[NUMBERS + k] = monitor->job->rank;
        }
    if (monitor->job->rank == 0) {
        int64_t next = iterations_to_next(monitor, iteration);
        values[NEXT] = (double)next;
        /* the next question's decision takes effect a few iterations later (monitor_ask) */
        values[ENDS] = time_is_over(monitor, (double)(next + 2 * monitor->signals.lag));
        values[SAVES] = snapshot_is_due(monitor);
        values[ENOUGH] = enough;
    }
    monitor->signals.asked = iteration;
    return sync_ask(sync, values);
}

static void log_signal(const struct monitor *monitor, enum signal_kind kind, const double *values,
                       int64_t iteration)
{
    static const char *const words[] = {
        [SIGNAL_NOTHING] = "ignored", [SIGNAL_SNAPSHOT] = "a snapshot", [SIGNAL_STOP] = "stopping"};
    char where[64] = "";

    assert(values[RANKS + kind] < monitor->job->nranks + 0.5);
    if (monitor->job->nranks > 1 && values[RANKS + kind] < 1.5)
        snprintf(where, sizeof where, " to rank %.0f", values[NUMBERS + kind]);
    else if (monitor->job->nranks > 1)
        snprintf(where, sizeof where, " to %.0f of %d ranks", values[RANKS + kind],
                 monitor->job->nranks);
    LOG_INFO(monitor->job->log, "%s%s: %s after %s", signal_kind_name(kind), where,
             words[monitor->job->options->signals[kind]], units_count(iteration, "iteration").text);
}

/* Reads the answer. The strongest effect of all signals counts, once. */
static int read_answer(struct monitor *monitor, struct sync *sync, int64_t iteration)
{
    double values[SYNC_ASK_VALUES];
    int strongest = -1;

    assert(monitor->signals.asked >= 0 && iteration >= monitor->signals.asked);
    if (sync_answer(sync, values))
        return -1;
    assert(values[NEXT] >= 1); /* rank 0 sets NEXT in every question */
    monitor->signals.next = monitor->signals.asked + (int64_t)values[NEXT];
    if (monitor->job->options->exchange.drop > 0)
        monitor->signals.lag = (int64_t)values[NEXT];
    monitor->signals.asked = -1;
    for (int k = 0; k < SIGNALS; k++) {
        enum signal_effect effect = monitor->job->options->signals[k];
        if (values[RANKS + k] < 0.5 || effect == SIGNAL_NOTHING)
            continue;
        if (effect > monitor->signals.effect || strongest < 0)
            strongest = k;
        if (effect > monitor->signals.effect)
            monitor->signals.effect = effect;
        /* a stop by a scheduler always writes a snapshot */
        monitor->signals.keep |= effect == SIGNAL_STOP && k != SIGNAL_INT;
    }
    if (strongest >= 0)
        log_signal(monitor, (enum signal_kind)strongest, values, iteration);
    if (values[SAVES] > 0.5 && monitor->signals.effect == SIGNAL_NOTHING)
        monitor->signals.effect = SIGNAL_SNAPSHOT;
    if (values[ENOUGH] > 0.5) {
        monitor->signals.enough = monitor->signals.effect != SIGNAL_STOP;
        monitor->signals.effect = SIGNAL_STOP;
    }
    if (values[ENDS] > 0.5) {
        if (monitor->signals.effect != SIGNAL_STOP)
            LOG_INFO(monitor->job->log, "%s ends in %.0f s: stopping after %s",
                     monitor->job->options->deadline.whence,
                     monitor->run->shared.ends - clock_seconds(),
                     units_count(iteration, "iteration").text);
        monitor->signals.effect = SIGNAL_STOP;
        monitor->signals.keep = true;
    }
    return 0;
}

int monitor_ask(struct monitor *monitor, struct sync *sync, bool enough, int64_t iteration,
                bool now)
{
    if (monitor->signals.asked >= 0 &&
        (now || iteration >= monitor->signals.asked + monitor->signals.lag) &&
        read_answer(monitor, sync, iteration))
        return -1;
    if (!now)
        return monitor->signals.asked < 0 && iteration >= monitor->signals.next
                   ? ask_signals(monitor, sync, enough, iteration)
                   : 0;
    return error_status(ask_signals(monitor, sync, enough, iteration) ||
                        read_answer(monitor, sync, iteration));
}
