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
#include <stdio.h>
#include <string.h>

#define QUESTION_SECONDS 0.5 /* between two questions, about */

/* The values of a question: per signal how many ranks have got it and the sum of their numbers,
 * which names a rank that is alone; then rank 0's iterations to the next question. */
enum { RANKS = 0, NUMBERS = SIGNALS, NEXT = 2 * SIGNALS };
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

static int ask_signals(struct trainer *t, int64_t iteration)
{
    double values[SYNC_ASK_VALUES] = {0};
    unsigned bits = signals_take();

    for (int k = 0; k < SIGNALS; k++)
        if ((bits >> k & 1) && t->options->signals[k] != SIGNAL_NOTHING) {
            values[RANKS + k] = 1;
            values[NUMBERS + k] = t->rank;
        }
    if (t->rank == 0)
        values[NEXT] = (double)iterations_to_next(t, iteration);
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
    LOG_INFO(t->log, "%s%s: %s after %" PRId64 " iterations", signal_kind_name(kind), where,
             words[t->options->signals[kind]], iteration);
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
