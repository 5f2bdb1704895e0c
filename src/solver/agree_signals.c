/* What all ranks do about signals that only some of them have got.
 *
 * About twice a second the ranks sum up what has come, between two iterations that all of them
 * know: rank 0 says with each answer how many iterations later the next question stands. The answer
 * is read so many iterations after the question that every rank has passed it anyway, so nobody
 * waits. */
#include "solver/trainer_internal.h"

#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUESTION_SECONDS 0.5 /* between two questions, about */

/* The values of a question: per signal how many ranks have got it and the sum of their numbers,
 * which names a rank that is alone; then rank 0's alone: whether its clock asks for the end or for
 * a snapshot, whether its tests ask for the end, and the iterations to the next question. */
enum { RANKS = 0, NUMBERS = SIGNALS, ENDS = 2 * SIGNALS, SAVES, ENOUGH, NEXT };
_Static_assert(NEXT + 1 == SYNC_ASK_VALUES, "a question fills its values");

static int64_t iterations_to_next(struct trainer *t, int64_t iteration)
{
    double now = clock_seconds(), lapse = now - t->signals.seconds;
    int64_t n = iteration - t->signals.iteration, next = 1;

    /* never more than twice as many as were timed: the first iterations are not like the rest */
    if (n > 0 && lapse > 0)
        next = (double)n * QUESTION_SECONDS / lapse < 2.0 * (double)n
                   ? (int64_t)((double)n * QUESTION_SECONDS / lapse)
                   : 2 * n;
    t->signals.seconds = now;
    t->signals.iteration = iteration;
    return next > 1 ? next : 1;
}

/* ---- rank 0's clock ---- */

void trainer_pace(struct trainer *t)
{
    double now = clock_seconds(), lapse = now - t->signals.passed;

    if (t->rank != 0)
        return;
    /* the slowest of some dozens: one that was slow once is forgotten */
    if (t->signals.passed > 0)
        t->signals.slowest = lapse > 0.98 * t->signals.slowest ? lapse : 0.98 * t->signals.slowest;
    t->signals.passed = now;
}

/* Seconds from the decision to the last byte, if it fell now; `further`: iterations that are run
 * until then. */
static double seconds_to_save(const struct trainer *t, double further)
{
    return further * t->signals.slowest + 1.5 * trainer_saving_seconds(t) +
           t->options->deadline.margin;
}

bool trainer_hurries(const struct trainer *t)
{
    return signals_stop_pending(t->options->signals) ||
           clock_seconds() + seconds_to_save(t, 1) > t->ends;
}

/* next: iterations until rank 0 is asked again. The decision takes effect a few iterations after
 * the question, as trainer_agree_signals has it. */
static bool time_is_over(const struct trainer *t, int64_t next)
{
    double further = (double)next + 2 * (1 + t->options->staleness);

    return clock_seconds() + seconds_to_save(t, further) > t->ends;
}

/* Not where one is written before the answer comes. */
static bool snapshot_is_due(const struct trainer *t)
{
    return t->options->snapshot_every > 0 && !t->blank && t->signals.effect == SIGNAL_NOTHING &&
           clock_seconds() - t->signals.saved >= t->options->snapshot_every;
}

/* Open MPI's mpirun, told to end, lets its ranks live for a time that is often shorter than an
 * iteration and a snapshot; better known before than after. */
static void warn_of_launcher(struct trainer *t)
{
    const char *patience = getenv("OMPI_MCA_odls_base_sigkill_timeout");
    double lives = 2 * (patience ? atof(patience) : 1);
    double needs = QUESTION_SECONDS + 2 * t->signals.slowest + trainer_saving_seconds(t);

    if (t->signals.warned || t->signals.slowest == 0 || t->blank)
        return;
    t->signals.warned = true;
    if (!getenv("OMPI_COMM_WORLD_SIZE") || getenv("SLURM_STEP_ID") || needs <= lives)
        return;
    LOG_INFO(t->log,
             "To stop and save takes up to %.0f s here, and mpirun kills its ranks %.0f s after "
             "Ctrl-C: stop by \"kill -USR1\" to it, or start it with --mca "
             "odls_base_sigkill_timeout %.0f",
             ceil(needs), lives, ceil(needs));
}

static int ask_signals(struct trainer *t, int64_t iteration)
{
    double values[SYNC_ASK_VALUES] = {0};
    unsigned bits = signals_take();

    for (int k = 0; k < SIGNALS; k++)
        if ((bits >> k & 1) && t->options->signals[k] != SIGNAL_NOTHING) {
            values[RANKS + k] = 1;
            values[NUMBERS + k] = t->rank;
        }
    if (t->rank == 0) {
        int64_t next = iterations_to_next(t, iteration);
        values[NEXT] = (double)next;
        values[ENDS] = time_is_over(t, next);
        values[SAVES] = snapshot_is_due(t);
        values[ENOUGH] = t->memory.enough;
        warn_of_launcher(t);
    }
    t->signals.asked = iteration;
    return sync_ask(t->sync, values);
}

static void log_signal(struct trainer *t, enum signal_kind kind, const double *values,
                       int64_t iteration)
{
    static const char *const words[] = {
        [SIGNAL_NOTHING] = "ignored", [SIGNAL_SNAPSHOT] = "a snapshot", [SIGNAL_STOP] = "stopping"};
    char where[64] = "";

    if (t->nranks > 1 && values[RANKS + kind] < 1.5)
        snprintf(where, sizeof where, " to rank %.0f", values[NUMBERS + kind]);
    else if (t->nranks > 1)
        snprintf(where, sizeof where, " to %.0f of %d ranks", values[RANKS + kind], t->nranks);
    LOG_INFO(t->log, "%s%s: %s after %" PRId64 " iteration%s", signal_kind_name(kind), where,
             words[t->options->signals[kind]], iteration, iteration == 1 ? "" : "s");
}

/* The strongest effect of what has come. Whoever is told twice to do one thing does it once. */
static int read_answer(struct trainer *t, int64_t iteration)
{
    double values[SYNC_ASK_VALUES];
    int strongest = -1;

    if (sync_answer(t->sync, values))
        return -1;
    t->signals.next = t->signals.asked + (int64_t)values[NEXT];
    t->signals.asked = -1;
    for (int k = 0; k < SIGNALS; k++) {
        enum signal_effect effect = t->options->signals[k];
        if (values[RANKS + k] < 0.5 || effect == SIGNAL_NOTHING)
            continue;
        if (effect > t->signals.effect || strongest < 0)
            strongest = k;
        if (effect > t->signals.effect)
            t->signals.effect = effect;
        /* a scheduler will not ask whether the work of hours was to be kept */
        t->signals.keep |= effect == SIGNAL_STOP && k != SIGNAL_INT;
    }
    if (strongest >= 0)
        log_signal(t, (enum signal_kind)strongest, values, iteration);
    if (values[SAVES] > 0.5 && t->signals.effect == SIGNAL_NOTHING)
        t->signals.effect = SIGNAL_SNAPSHOT;
    if (values[ENOUGH] > 0.5) {
        t->signals.enough = t->signals.effect != SIGNAL_STOP;
        t->signals.effect = SIGNAL_STOP;
    }
    if (values[ENDS] > 0.5) {
        if (t->signals.effect != SIGNAL_STOP)
            LOG_INFO(t->log, "%s ends in %.0f s: stopping after %" PRId64 " iteration%s",
                     t->options->deadline.whence, t->ends - clock_seconds(), iteration,
                     iteration == 1 ? "" : "s");
        t->signals.effect = SIGNAL_STOP;
        t->signals.keep = true;
    }
    return 0;
}

int trainer_agree_signals(struct trainer *t, int64_t iteration, bool now)
{
    int lag = 1 + t->options->staleness;

    if (t->signals.asked >= 0 && (now || iteration >= t->signals.asked + lag) &&
        read_answer(t, iteration))
        return -1;
    if (!now)
        return t->signals.asked < 0 && iteration >= t->signals.next ? ask_signals(t, iteration) : 0;
    return ask_signals(t, iteration) || read_answer(t, iteration) ? -1 : 0;
}
