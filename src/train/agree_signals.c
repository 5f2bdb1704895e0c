/* What all ranks do about signals that only some of them have got.
 *
 * About twice a second the ranks sum up what has come, between two iterations that all of them
 * know: rank 0 says with each answer how many iterations later the next question stands. The answer
 * is read so many iterations after the question that every rank has passed it anyway, so nobody
 * waits. With --drop-stragglers ranks may be apart: it is read when the next question is due, and
 * who is late by less holds nobody up. */
#include "train/guard.h"

#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define QUESTION_SECONDS 0.5 /* between two questions, about */

/* The values of a question: per signal how many ranks have got it and the sum of their numbers,
 * which names a rank that is alone; then rank 0's alone: whether its clock asks for the end or for
 * a snapshot, whether its tests ask for the end, and the iterations to the next question. */
enum { RANKS = 0, NUMBERS = SIGNALS, ENDS = 2 * SIGNALS, SAVES, ENOUGH, NEXT };
_Static_assert(NEXT + 1 == SYNC_ASK_VALUES, "a question fills its values");

static int64_t iterations_to_next(struct guard *guard, int64_t iteration)
{
    double now = clock_seconds(), lapse = now - guard->signals.seconds;
    enum { SLOWER = 4 }; /* so many times as slow a rank may be that is held to be late, not lost */
    int64_t least = guard->job->options->exchange.drop > 0 ? SLOWER : 1;
    int64_t n = iteration - guard->signals.iteration, next = 1;

    /* never more than twice as many as were timed: the first iterations are not like the rest */
    if (n > 0 && lapse > 0)
        next = (double)n * QUESTION_SECONDS / lapse < 2.0 * (double)n
                   ? (int64_t)((double)n * QUESTION_SECONDS / lapse)
                   : 2 * n;
    guard->signals.seconds = now;
    guard->signals.iteration = iteration;
    return next > least ? next : least;
}

/* ---- rank 0's clock ---- */

void guard_pace(struct guard *guard)
{
    double now = clock_seconds(), lapse = now - guard->signals.passed;

    if (guard->job->rank != 0)
        return;
    /* the slowest of some dozens: one that was slow once is forgotten */
    if (guard->signals.passed > 0)
        guard->signals.slowest = fmax(lapse, 0.98 * guard->signals.slowest);
    guard->signals.passed = now;
}

/* Seconds from the decision to the last byte, if it fell now; `further`: iterations that are run
 * until then. */
static double seconds_to_save(const struct guard *guard, double further)
{
    return further * guard->signals.slowest + 1.5 * run_saving_seconds(guard->run) +
           guard->job->options->deadline.margin;
}

bool guard_hurries(const struct guard *guard)
{
    return signals_stop_pending(guard->job->options->signals) ||
           clock_seconds() + seconds_to_save(guard, 1) > guard->run->ends;
}

/* next: iterations until rank 0 is asked again. The decision takes effect a few iterations after
 * the question, as guard_ask has it. */
static bool time_is_over(const struct guard *guard, int64_t next)
{
    double further = (double)(next + 2 * guard->signals.lag);

    return clock_seconds() + seconds_to_save(guard, further) > guard->run->ends;
}

/* Not where one is written before the answer comes. */
static bool snapshot_is_due(const struct guard *guard)
{
    return guard->job->options->snapshot_every > 0 && !job_rehearses(guard->job) &&
           guard->signals.effect == SIGNAL_NOTHING &&
           clock_seconds() - guard->signals.saved >= guard->job->options->snapshot_every;
}

/* Open MPI's mpirun, told to end, lets its ranks live for a time that is often shorter than an
 * iteration and a snapshot; better known before than after. */
static void warn_of_launcher(struct guard *guard)
{
    const char *patience = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    double lives = 2 * (patience ? atof(patience) : 1);
    double needs = QUESTION_SECONDS + 2 * guard->signals.slowest + run_saving_seconds(guard->run);

    if (guard->signals.warned || guard->signals.slowest == 0 || job_rehearses(guard->job))
        return;
    guard->signals.warned = true;
    if (!getenv("OMPI_COMM_WORLD_SIZE") || getenv("SLURM_STEP_ID") || needs <= lives)
        return;
    LOG_INFO(guard->job->log,
             "Stopping and saving takes up to %.0f s here, but mpirun kills its ranks %.0f s after "
             "Ctrl-C: send it SIGUSR1 instead (kill -USR1), or start it with --mca "
             "odls_base_sigkill_timeout %.0f",
             ceil(needs), lives, ceil(needs));
}

static int ask_signals(struct guard *guard, struct sync *sync, bool enough, int64_t iteration)
{
    double values[SYNC_ASK_VALUES] = {0};
    unsigned bits = signals_take();

    for (int k = 0; k < SIGNALS; k++)
        if ((bits >> k & 1) && guard->job->options->signals[k] != SIGNAL_NOTHING) {
            values[RANKS + k] = 1;
            values[NUMBERS + k] = guard->job->rank;
        }
    if (guard->job->rank == 0) {
        int64_t next = iterations_to_next(guard, iteration);
        values[NEXT] = (double)next;
        values[ENDS] = time_is_over(guard, next);
        values[SAVES] = snapshot_is_due(guard);
        values[ENOUGH] = enough;
        warn_of_launcher(guard);
    }
    guard->signals.asked = iteration;
    return sync_ask(sync, values);
}

static void log_signal(const struct guard *guard, enum signal_kind kind, const double *values,
                       int64_t iteration)
{
    static const char *const words[] = {
        [SIGNAL_NOTHING] = "ignored", [SIGNAL_SNAPSHOT] = "a snapshot", [SIGNAL_STOP] = "stopping"};
    char where[64] = "";

    if (guard->job->nranks > 1 && values[RANKS + kind] < 1.5)
        snprintf(where, sizeof where, " to rank %.0f", values[NUMBERS + kind]);
    else if (guard->job->nranks > 1)
        snprintf(where, sizeof where, " to %.0f of %d ranks", values[RANKS + kind],
                 guard->job->nranks);
    LOG_INFO(guard->job->log, "%s%s: %s after %" PRId64 " iteration%s", signal_kind_name(kind),
             where, words[guard->job->options->signals[kind]], iteration,
             iteration == 1 ? "" : "s");
}

/* The strongest effect of what has come. Whoever is told twice to do one thing does it once. */
static int read_answer(struct guard *guard, struct sync *sync, int64_t iteration)
{
    double values[SYNC_ASK_VALUES];
    int strongest = -1;

    if (sync_answer(sync, values))
        return -1;
    guard->signals.next = guard->signals.asked + (int64_t)values[NEXT];
    if (guard->job->options->exchange.drop > 0)
        guard->signals.lag = (int64_t)values[NEXT];
    guard->signals.asked = -1;
    for (int k = 0; k < SIGNALS; k++) {
        enum signal_effect effect = guard->job->options->signals[k];
        if (values[RANKS + k] < 0.5 || effect == SIGNAL_NOTHING)
            continue;
        if (effect > guard->signals.effect || strongest < 0)
            strongest = k;
        if (effect > guard->signals.effect)
            guard->signals.effect = effect;
        /* a scheduler will not ask whether the work of hours was to be kept */
        guard->signals.keep |= effect == SIGNAL_STOP && k != SIGNAL_INT;
    }
    if (strongest >= 0)
        log_signal(guard, (enum signal_kind)strongest, values, iteration);
    if (values[SAVES] > 0.5 && guard->signals.effect == SIGNAL_NOTHING)
        guard->signals.effect = SIGNAL_SNAPSHOT;
    if (values[ENOUGH] > 0.5) {
        guard->signals.enough = guard->signals.effect != SIGNAL_STOP;
        guard->signals.effect = SIGNAL_STOP;
    }
    if (values[ENDS] > 0.5) {
        if (guard->signals.effect != SIGNAL_STOP)
            LOG_INFO(guard->job->log, "%s ends in %.0f s: stopping after %" PRId64 " iteration%s",
                     guard->job->options->deadline.whence, guard->run->ends - clock_seconds(),
                     iteration, iteration == 1 ? "" : "s");
        guard->signals.effect = SIGNAL_STOP;
        guard->signals.keep = true;
    }
    return 0;
}

int guard_ask(struct guard *guard, struct sync *sync, bool enough, int64_t iteration, bool now)
{
    if (guard->signals.asked >= 0 &&
        (now || iteration >= guard->signals.asked + guard->signals.lag) &&
        read_answer(guard, sync, iteration))
        return -1;
    if (!now)
        return guard->signals.asked < 0 && iteration >= guard->signals.next
                   ? ask_signals(guard, sync, enough, iteration)
                   : 0;
    return error_any(ask_signals(guard, sync, enough, iteration) ||
                     read_answer(guard, sync, iteration));
}
