/* Watches calls of MPI. The trick: the calling thread only notes its current call. The watching
 * thread looks four times a second if the note changed, and alone reads the clock. */
#include "util/watchdog.h"

#include "util/alloc.h"
#include "util/clock.h"
#include "util/ranks.h"
#include "util/strbuf.h"
#include "util/thread.h"
#include "util/topology.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Only ranks below SPEAKERS report, lest a large job says one thing a thousand times. */
enum { SPEAKERS = 8, LOOK_NS = 250000000 };
enum { TAG_CARD = 27190, TAG_ANSWER = 27191 };

/* Waiting ranks and rank 0 send each other a card every CARD_SECONDS. A rank without a card for
 * HEARD_SECONDS is not waiting. */
enum { CARD_SECONDS = 1, HEARD_SECONDS = 4, NAP_NS = 50000 };

static struct {
    /* written by the thread that calls MPI */
    _Atomic(const char *) step, call; /* the ranks' common step; the MPI call, or NULL */
    _Atomic uint64_t calls;           /* number of calls entered */

    pthread_mutex_t mutex; /* guards the members from here to `quiet` */
    pthread_cond_t changed;
    struct watchdog_options options;
    bool stop;
    char missing[512]; /* ranks that this rank waits for, "rank 1 on a"; "": unknown */
    bool quiet;        /* rank 0 knows that this rank waits, and speaks for it */

    pthread_t thread;
    bool started;
    int rank, nranks;
    char own_host[64];
    const struct topology *topology; /* hosts of the ranks; NULL: unknown. Borrowed */
    double *heard; /* time of each rank's last card on rank 0, of rank 0's last answer elsewhere */
} watchdog = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

void watchdog_enter(const char *call)
{
    uint64_t calls = atomic_load_explicit(&watchdog.calls, memory_order_relaxed);

    atomic_store_explicit(&watchdog.calls, calls + 1, memory_order_relaxed);
    atomic_store_explicit(&watchdog.call, call, memory_order_relaxed);
}

void watchdog_leave(void)
{
    atomic_store_explicit(&watchdog.call, NULL, memory_order_relaxed);
}

void watchdog_step(const char *what)
{
    atomic_store(&watchdog.step, what);
}

/* ---- ranks that wait ---- */

static void send_card(int rank, int tag)
{
    static char card;
    MPI_Request request;

    if (MPI_Isend(&card, 1, MPI_CHAR, rank, tag, MPI_COMM_WORLD, &request) == MPI_SUCCESS)
        (void)MPI_Request_free(&request);
}

/* Receives cards of all ranks (on rank 0), or rank 0's answers (elsewhere). */
static void take_cards(double now)
{
    int tag = watchdog.rank == 0 ? TAG_CARD : TAG_ANSWER, found = 1;
    MPI_Status from;
    char card;

    while (MPI_Iprobe(MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &found, &from) == MPI_SUCCESS && found) {
        if (MPI_Recv(&card, 1, MPI_CHAR, from.MPI_SOURCE, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE) !=
            MPI_SUCCESS)
            return;
        watchdog.heard[from.MPI_SOURCE] = now;
        if (watchdog.rank == 0)
            send_card(from.MPI_SOURCE, TAG_ANSWER);
    }
}

static void name_missing(double now, struct strbuf *text)
{
    int last = watchdog.rank == 0 ? watchdog.nranks : 1;
    struct ranks ranks = {.text = text};

    for (int r = watchdog.rank == 0 ? 1 : 0; r < last; r++)
        if (now - watchdog.heard[r] >= HEARD_SECONDS && ranks_next(&ranks))
            ranks_put(text, watchdog.topology, r);
    ranks_end(&ranks);
}

static void tell_watch(const char *missing, bool quiet)
{
    pthread_mutex_lock(&watchdog.mutex);
    snprintf(watchdog.missing, sizeof watchdog.missing, "%s", missing);
    watchdog.quiet = quiet;
    pthread_mutex_unlock(&watchdog.mutex);
}

/* Exchanges cards with rank 0, and names missing ranks if `known`: all had time to send a card. */
static void call_roll(double now, bool known)
{
    struct strbuf missing = {0};

    if (watchdog.rank > 0)
        send_card(0, TAG_CARD);
    take_cards(now);
    if (known)
        name_missing(now, &missing);
    tell_watch(strbuf_text(&missing), watchdog.rank > 0 && now - watchdog.heard[0] < HEARD_SECONDS);
    strbuf_free(&missing);
}

int watchdog_wait(const char *call, MPI_Request *request)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const struct watchdog_options *o = &watchdog.options; /* changed by this thread alone */
    double begun = clock_seconds();
    double first = (o->silence_seconds > 0 ? o->silence_seconds : o->lost_seconds) / 4;
    double next = first, known = first + (2 * first < HEARD_SECONDS ? 2 * first : HEARD_SECONDS);
    int code, over = 0;

    watchdog_enter(call);
    while ((code = MPI_Test(request, &over, MPI_STATUS_IGNORE)) == MPI_SUCCESS && !over) {
        double now = clock_seconds();

        if (now - begun < 0.01) /* MPI's own wait yields, too */
            sched_yield();
        else
            nanosleep(&nap, NULL);
        if (!watchdog.started || first <= 0 || now - begun < next)
            continue;
        call_roll(now, now - begun > known);
        next = now - begun + CARD_SECONDS;
    }
    if (next > first)
        tell_watch("", false);
    watchdog_leave();
    return code;
}

void watchdog_hosts(const struct topology *topology)
{
    watchdog.topology = topology;
}

/* ---- the thread ---- */

/* The call being watched. */
struct wait {
    uint64_t call;
    double since;
    double reported; /* seconds waited when last reported; 0: not reported */
};

static void describe(double seconds, char *text, size_t bytes)
{
    const char *step = atomic_load(&watchdog.step);
    const char *call = atomic_load_explicit(&watchdog.call, memory_order_relaxed);

    snprintf(text, bytes, "rank %d on %s has waited %.0f s for %s while %s (in %.*s)",
             watchdog.rank, watchdog.own_host, seconds,
             *watchdog.missing ? watchdog.missing : "other ranks", step ? step : "starting",
             call ? (int)strcspn(call, "(") : 0, call ? call : "");
}

static void end_process(const struct watchdog_options *o, const char *text)
{
    if (o->lost)
        o->lost(o->context, text);
    fprintf(stderr,
            "poseidon %s: lost: %s. %s is stopped, cut off, still at work, or waits for such a "
            "rank; or messages are lost: compare the MTU of hosts and switches, and their "
            "interfaces (poseidon doctor). The run ends with status %d%s%s\n",
            o->command, text, *watchdog.missing ? "It" : "A rank without such a report", o->status,
            o->advice ? "; " : "", o->advice ? o->advice : "");
    _exit(o->status);
}

/* Returns seconds by which this rank's report is late: rank 0 reports first, then one by one. */
static double grace(double limit)
{
    double most = limit / 4 < WATCHDOG_GRACE_SECONDS ? limit / 4 : WATCHDOG_GRACE_SECONDS;
    int turn = watchdog.rank < SPEAKERS ? watchdog.rank : SPEAKERS;

    return watchdog.rank == 0 ? 0 : most + 0.5 * turn;
}

static void judge(const struct watchdog_options *o, struct wait *wait, double now)
{
    double waited = now - wait->since;
    double next =
        wait->reported > 0 ? 2 * wait->reported : o->silence_seconds + grace(o->silence_seconds);
    char text[1024];

    describe(waited, text, sizeof text);
    if (o->lost_seconds > 0 && waited > o->lost_seconds + grace(o->lost_seconds))
        end_process(o, text);
    if (o->silence_seconds <= 0 || waited <= next || watchdog.quiet || watchdog.rank >= SPEAKERS)
        return;
    fprintf(stderr, "poseidon %s: %s\n", o->command, text);
    wait->reported = waited;
}

static void look(struct wait *wait, double now, double lapse)
{
    uint64_t call = atomic_load_explicit(&watchdog.calls, memory_order_relaxed);

    if (!atomic_load_explicit(&watchdog.call, memory_order_relaxed) || call != wait->call)
        *wait = (struct wait){.call = call, .since = now};
    else if (lapse > WATCHDOG_STOPPED_SECONDS) /* this rank itself was stopped */
        wait->since += lapse;
    else
        judge(&watchdog.options, wait, now);
}

static void *watch(void *unused)
{
    double now = clock_seconds(), before;
    struct wait wait = {.since = now};
    struct timespec until;

    pthread_mutex_lock(&watchdog.mutex);
    while (!watchdog.stop) {
        clock_gettime(CLOCK_REALTIME, &until); /* a clock that is set back only delays this look */
        until.tv_nsec += LOOK_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watchdog.changed, &watchdog.mutex, &until);
        before = now;
        now = clock_seconds();
        look(&wait, now, now - before);
    }
    pthread_mutex_unlock(&watchdog.mutex);
    return unused;
}

/* ---- life ---- */

int watchdog_begin(const struct watchdog_options *options)
{
    int status;

    MPI_Comm_rank(MPI_COMM_WORLD, &watchdog.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &watchdog.nranks);
    if (watchdog.nranks == 1 || watchdog.started)
        return 0;
    if (ALLOC(watchdog.heard, watchdog.nranks, "ranks"))
        return -1;
    if (gethostname(watchdog.own_host, sizeof watchdog.own_host - 1))
        strcpy(watchdog.own_host, "?");
    watchdog.options = *options;
    watchdog.stop = false;
    status = thread_start(&watchdog.thread, NULL, watch, NULL);
    if (status) {
        free(watchdog.heard);
        return error_set("cannot start the thread that watches other ranks: %s", strerror(status));
    }
    watchdog.started = true;
    return 0;
}

void watchdog_change(double silence_seconds, double lost_seconds, int status)
{
    pthread_mutex_lock(&watchdog.mutex);
    watchdog.options.silence_seconds = silence_seconds;
    watchdog.options.lost_seconds = lost_seconds;
    watchdog.options.status = status;
    watchdog.options.advice = NULL;
    pthread_mutex_unlock(&watchdog.mutex);
}

void watchdog_end(void)
{
    if (!watchdog.started)
        return;
    pthread_mutex_lock(&watchdog.mutex);
    watchdog.stop = true;
    pthread_cond_signal(&watchdog.changed);
    pthread_mutex_unlock(&watchdog.mutex);
    pthread_join(watchdog.thread, NULL);
    free(watchdog.heard);
    watchdog.heard = NULL;
    watchdog.started = false;
}
