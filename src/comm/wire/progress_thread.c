/* The loop of the wire thread, which alone calls MPI while training runs.
 *
 * A turn takes calls of the compute thread, arrivals and completions, does work besides messages,
 * and sends messages that may leave. After a turn without work the thread rests on a semaphore.
 * Every rest costs the core about 25 us in a virtual machine (RESULTS.md), so rests grow while the
 * compute thread needs the core, and are short while the compute thread waits.
 *
 * Closing is agreed in rounds: every rank that has nothing to send and nothing on its way adds its
 * numbers of messages sent and received to a sum over all ranks. All messages have arrived if the
 * number sent by the end of a round equals the number received by the end of the round before
 * (four-counter method, Mattern 1987). So no message is left behind, and no rank stops while
 * another rank needs an answer. */
#include "config.h"

#include "wire/wire_internal.h"

#include "util/agree.h"

#include <sched.h>

/* A rest begins with REST_NS and doubles with every few turns without work.
 * With messages under way: up to 16-fold (800 us of a 10 Gbit/s link fit into a socket's buffer).
 * Without messages: from 16-fold, as short rests only slow the compute thread down, whose posts end
 * a rest and which looks for other results itself; up to 128-fold if only an alarm can come.
 * While the compute thread waits: slowly, up to 8-fold (100 us after 1 ms, 400 us after 30 ms), as
 * other ranks may compute on the same core. */
enum { REST_NS = 50000, SPINS_WHILE_WAITED_FOR = 50, LONG_YIELD_NS = 500000 };
enum { DOUBLINGS_UNDER_WAY = 4, DOUBLINGS_AT_MOST = 7, DOUBLINGS_WAITED_FOR = 3 };
enum { TURNS_A_DOUBLING = 2, TURNS_A_DOUBLING_WAITED_FOR = 64 };

static int take_calls(struct wire *wire)
{
    struct ring_call call;
    int taken = 0;

    for (; call_ring_take(&wire->calls, &call); taken++)
        if (!atomic_load(&wire->failed) && /* after a failure nothing new starts */
            (call.call(call.context, call.argument) || messages_flush(wire)))
            alarm_raise(wire, true);
    return taken;
}

/* Does work besides messages; returns non-zero if there was any. */
static int look_after_others(struct wire *wire)
{
    const struct wire_options *o = &wire->options;
    int moved;

    if (!o->poll || atomic_load(&wire->failed))
        return 0;
    moved = o->poll(o->context);
    if (moved < 0)
        alarm_raise(wire, true);
    return moved != 0;
}

/* ---- closing ---- */

static bool has_work(const struct wire *wire)
{
    const struct wire_options *o = &wire->options;

    return messages_busy(wire) || (o->busy && o->busy(o->context));
}

static int start_round(struct wire *wire)
{
    struct closing *closing = &wire->closing;
    struct slot *slot = messages_slot(wire, SLOT_CLOSING);
    MPI_Request request;

    if (!slot)
        return -1;
    closing->mine[CLOSING_SENT] = (int64_t)atomic_load(&wire->counters.messages_sent);
    closing->mine[CLOSING_RECEIVED] = (int64_t)atomic_load(&wire->counters.messages_received);
    closing->mine[CLOSING_FAILED] = atomic_load(&wire->failed);
    MPI_CHECK(MPI_Iallreduce(closing->mine, closing->all, CLOSING_VALUES, MPI_INT64_T, MPI_SUM,
                             wire->comm, &request));
    messages_track(wire, request, slot);
    return 0;
}

/* Starts a closing round once no rank needs more work from this rank, or a rank has failed. */
static void try_close(struct wire *wire)
{
    if (wire->compute_failed)
        alarm_raise(wire, false);
    if (wire->closing.posted || (!atomic_load(&wire->failed) && has_work(wire)))
        return;
    wire->closing.posted = true;
    if (start_round(wire)) {
        alarm_raise(wire, true);
        wire->stop = true;
    }
}

void thread_closing_over(struct wire *wire)
{
    struct closing *closing = &wire->closing;

    closing->posted = false;
    wire->stop =
        closing->all[CLOSING_FAILED] > 0 || closing->all[CLOSING_SENT] == closing->received_before;
    closing->received_before = closing->all[CLOSING_RECEIVED];
}

/* ---- resting ---- */

static enum wire_pace pace_of(const struct wire *wire)
{
    const struct wire_options *o = &wire->options;

    if (o->pace && !atomic_load(&wire->failed))
        return o->pace(o->context);
    return o->data == MPI_COMM_NULL ? WIRE_IDLE : WIRE_UNDER_WAY;
}

static int64_t rest_length(const struct wire *wire, int idle_turns, bool waited_for, int64_t now)
{
    enum wire_pace pace = pace_of(wire);
    bool messages = pace == WIRE_UNDER_WAY || messages_busy(wire);
    int most = messages || pace == WIRE_POLLED ? DOUBLINGS_UNDER_WAY : DOUBLINGS_AT_MOST;
    int turns = TURNS_A_DOUBLING;
    int64_t length;
    double delay;

    if (pace == WIRE_URGENT)
        return REST_NS;
    if (waited_for) {
        most = DOUBLINGS_WAITED_FOR;
        turns = TURNS_A_DOUBLING_WAITED_FOR;
    } else if (!messages) {
        idle_turns += DOUBLINGS_UNDER_WAY * turns;
    }
    length = (int64_t)REST_NS << (idle_turns / turns < most ? idle_turns / turns : most);
    delay = 1e9 * queue_delay(&wire->queue, 1e-9 * (double)now);
    if (queue_first(&wire->queue) && delay > 0 && delay < (double)length)
        length = (int64_t)delay + 1;
    return length;
}

/* Sleeps by the monotonic clock: a clock that is set back would stop the rank's traffic. */
static void sleep_until_woken(struct wire *wire, int64_t length, int64_t now)
{
    struct timespec until;

#ifdef HAVE_SEM_CLOCKWAIT
    now += length;
    until = (struct timespec){.tv_sec = now / 1000000000, .tv_nsec = now % 1000000000};
    sem_clockwait(&wire->wakeup, CLOCK_MONOTONIC, &until);
#else
    (void)now;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += length;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    sem_timedwait(&wire->wakeup, &until);
#endif
}

/* Rests. While the compute thread waits, yields first, which costs little on a free core. On a busy
 * core each yield lasts a whole time slice, and a sleeping thread is woken sooner. */
static void rest(struct wire *wire, int *idle_turns, bool waited_for, bool closing, int64_t now)
{
    if (waited_for && *idle_turns < SPINS_WHILE_WAITED_FOR) {
        sched_yield();
        *idle_turns = clock_ns() - now < LONG_YIELD_NS ? *idle_turns + 1 : SPINS_WHILE_WAITED_FOR;
        return;
    }
    wire_count(&wire->counters.rests, 1);
    atomic_store(&wire->resting, 1);
    if (call_ring_empty(&wire->calls) && atomic_load(&wire->close_asked) == closing)
        sleep_until_woken(wire, rest_length(wire, *idle_turns, waited_for, now), now);
    atomic_store(&wire->resting, 0);
    ++*idle_turns;
}

/* ---- the loop ---- */

/* Runs one turn; returns the work done. closing: the compute thread makes no more calls. */
static int turn(struct wire *wire, bool closing)
{
    int worked = take_calls(wire) + messages_take(wire) + look_after_others(wire);

    wire_count(&wire->counters.polls, 1);
    if (!atomic_load(&wire->failed) &&
        messages_flush(wire)) /* the window or the rate limit may have room again */
        alarm_raise(wire, true);
    if (closing && !wire->stop)
        try_close(wire);
    return worked;
}

static void run_loop(struct wire *wire)
{
    bool waited_for = false;
    int idle_turns = 0;

    while (!wire->stop) {
        bool closing = atomic_load(&wire->close_asked); /* read before the last calls are taken */
        /* A test that found nothing has still made progress inside MPI: only the next test sees the
         * requests completed by it. */
        int worked = turn(wire, closing) || wire->stop || messages_take(wire);
        int64_t now = clock_ns();
        bool waits;

        heartbeat_look(wire, now);
        if (worked) {
            idle_turns = 0;
            wire->last_progress = now;
            wire->stall_reported = false;
            continue;
        }
        waits = closing || atomic_load(&wire->sleeping);
        if (waits && !waited_for) { /* rests and stalls count from the start of the wait */
            idle_turns = 0;
            wire->last_progress = now;
        }
        waited_for = waits;
        if (waits)
            alarm_watch_stall(wire, now);
        rest(wire, &idle_turns, waited_for, closing, now);
    }
}

void thread_run(struct wire *wire, bool enter)
{
    const struct wire_options *o = &wire->options;
    int64_t begun = clock_ns();

    wire->last_progress = begun;
    wire->closing.received_before = -1;
    atomic_store(&wire->begun, begun);
    if (enter && o->enter && o->enter(o->context))
        alarm_raise(wire, true);
    if (alarm_listen(wire))
        alarm_raise(wire, true);
    heartbeat_start(wire);
    run_loop(wire);
    heartbeat_stop(wire);
    messages_drop(wire);
    atomic_store(&wire->run_ns, clock_ns() - begun);
}
