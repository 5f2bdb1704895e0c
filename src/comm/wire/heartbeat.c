/* Heartbeats tell a rank that hangs from the many ranks that wait for it. Every few seconds each
 * wire thread tells rank 0 its compute thread's position, progress and wait, and rank 0 answers.
 * Rank 0 reports a rank that is silent (stopped, dead, cut off) or alive without progress (a file
 * system that hangs). Rank 1 reports a silent rank 0. Time in which this rank itself was stopped
 * does not count as silence. */
#include "wire/wire_internal.h"

#include "util/error.h"
#include "util/ranks.h"
#include "util/strbuf.h"
#include "util/watchdog.h"

#include <string.h>

enum { TAG_BEAT = 2, TAG_ANSWER = 3, BEATS_A_SECOND = 64 }; /* most beats that rank 0 takes */

#define BEAT_NS ((int64_t)1000000000) /* interval of beats with few ranks */

/* One heartbeat of a rank. */
struct beat {
    struct wire_place at; /* position of the compute thread */
    int64_t waits;        /* WAITS or CLOSES; 0: the rank waits for no other rank */
};
enum { WAITS = 1, CLOSES = 2 };

enum { BEAT_VALUES = sizeof(struct beat) / sizeof(int64_t) };

/* Last news of a rank. */
struct peer {
    struct beat beat;
    int64_t heard, moved; /* ns: time of the last beat; time of the last progress */
    MPI_Request answer;   /* rank 0: request of the answer under way */
};

struct heartbeat {
    int64_t period;               /* ns between beats */
    int64_t last_look, last_sent; /* ns: time of the last look; time of the last beat sent */
    struct beat mine, arrived;
    MPI_Request out, in; /* requests; rank 0 uses `in` only */
    struct peer *peers;  /* rank 0: every rank, itself included; elsewhere rank 0 alone */
    int npeers;
    double reported; /* seconds of silence or standstill at the last report; 0: none reported */
};

int heartbeat_open(struct wire *wire)
{
    size_t n = wire->rank == 0 ? (size_t)wire->nranks : 1;
    struct heartbeat *heartbeat;

    if (wire->options.watch.stall_seconds <= 0 || wire->nranks == 1)
        return 0;
    if (OWN(&wire->owner, heartbeat, 1, "signs of life"))
        return -1;
    wire->heartbeat = heartbeat;
    heartbeat->out = heartbeat->in = MPI_REQUEST_NULL;
    heartbeat->period = BEAT_NS * (1 + wire->nranks / BEATS_A_SECOND);
    if (OWN(&wire->owner, heartbeat->peers, n, "signs of life"))
        return -1;
    heartbeat->npeers = (int)n;
    for (size_t i = 0; i < n; i++)
        heartbeat->peers[i] =
            (struct peer){.beat = {.at = WIRE_NOWHERE}, .answer = MPI_REQUEST_NULL};
    return 0;
}

static bool is_over(MPI_Request *request)
{
    int over = 1;

    return *request == MPI_REQUEST_NULL ||
           (MPI_Test(request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over);
}

static void listen(struct wire *wire)
{
    struct heartbeat *heartbeat = wire->heartbeat;

    if (MPI_Irecv(&heartbeat->arrived, BEAT_VALUES, MPI_INT64_T,
                  wire->rank == 0 ? MPI_ANY_SOURCE : 0, wire->rank == 0 ? TAG_BEAT : TAG_ANSWER,
                  wire->comm, &heartbeat->in) != MPI_SUCCESS)
        heartbeat->in = MPI_REQUEST_NULL;
}

void heartbeat_start(struct wire *wire)
{
    struct heartbeat *heartbeat = wire->heartbeat;
    int64_t now = clock_ns();

    if (!heartbeat)
        return;
    heartbeat->last_look = now;
    for (int r = 0; r < heartbeat->npeers; r++)
        heartbeat->peers[r].heard = heartbeat->peers[r].moved = now;
    listen(wire);
}

void heartbeat_stop(struct wire *wire)
{
    struct heartbeat *heartbeat = wire->heartbeat;

    if (!heartbeat)
        return;
    if (heartbeat->in != MPI_REQUEST_NULL && MPI_Cancel(&heartbeat->in) == MPI_SUCCESS)
        (void)MPI_Wait(&heartbeat->in, MPI_STATUS_IGNORE);
    if (heartbeat->out != MPI_REQUEST_NULL)
        (void)MPI_Request_free(&heartbeat->out);
    for (int r = 0; r < heartbeat->npeers; r++)
        if (heartbeat->peers[r].answer != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&heartbeat->peers[r].answer);
}

/* ---- saying ---- */

/* Returns this rank's beat. Messages count as progress: a slow link may keep all ranks waiting. */
static struct beat look_at_self(struct wire *wire)
{
    const struct wire_watch *watch = &wire->options.watch;
    bool ends =
        atomic_load(&wire->close_asked) && !wire->compute_failed && !atomic_load(&wire->failed);
    struct beat beat = {.at = WIRE_NOWHERE,
                        .waits = ends                           ? CLOSES
                                 : atomic_load(&wire->sleeping) ? WAITS
                                                                : 0};

    if (watch->where)
        watch->where(watch->context, &beat.at);
    beat.at.done += (int64_t)(atomic_load(&wire->counters.messages_sent) +
                              atomic_load(&wire->counters.messages_received));
    return beat;
}

static void hear(struct peer *peer, const struct beat *beat, int64_t now)
{
    if (memcmp(&peer->beat.at, &beat->at, sizeof beat->at) != 0)
        peer->moved = now;
    peer->beat = *beat;
    peer->heard = now;
}

static void take_beats(struct wire *wire, int64_t now)
{
    struct heartbeat *heartbeat = wire->heartbeat;
    MPI_Status from;
    int arrived = 1;

    while (heartbeat->in != MPI_REQUEST_NULL && arrived) {
        struct peer *peer;

        if (MPI_Test(&heartbeat->in, &arrived, &from) != MPI_SUCCESS || !arrived)
            return;
        peer = &heartbeat->peers[from.MPI_SOURCE];
        hear(peer, &heartbeat->arrived, now);
        if (wire->rank == 0 && is_over(&peer->answer))
            (void)MPI_Isend(&heartbeat->mine, BEAT_VALUES, MPI_INT64_T, from.MPI_SOURCE, TAG_ANSWER,
                            wire->comm, &peer->answer);
        listen(wire);
    }
}

static void send_beat(struct wire *wire, int64_t now)
{
    struct heartbeat *heartbeat = wire->heartbeat;

    if (wire->rank != 0 && !is_over(&heartbeat->out))
        return; /* the last beat has not left: MPI owns its buffer */
    if (now - heartbeat->last_sent < heartbeat->period)
        return;
    heartbeat->last_sent = now;
    heartbeat->mine = look_at_self(wire); /* rank 0 sends this beat with its answers */
    if (wire->rank == 0)
        hear(&heartbeat->peers[0], &heartbeat->mine, now);
    else
        (void)MPI_Isend(&heartbeat->mine, BEAT_VALUES, MPI_INT64_T, 0, TAG_BEAT, wire->comm,
                        &heartbeat->out);
}

/* ---- judging ---- */

/* Appends a rank's position: "in iteration 12 (testing)". */
static void put_place(const struct wire *wire, struct strbuf *text, const struct beat *beat)
{
    const struct wire_watch *watch = &wire->options.watch;
    const struct wire_place *at = &beat->at;

    if (at->iteration < 0)
        strbuf_puts(text, "before the first iteration");
    else
        strbuf_printf(text, "in iteration %lld", (long long)at->iteration);
    if (beat->waits == CLOSES && watch->end)
        strbuf_printf(text, " (%s)", watch->end);
    else if (beat->waits)
        strbuf_puts(text, " (waiting for other ranks)");
    else if (watch->put_place)
        watch->put_place(watch->context, at->place, text);
}

/* Returns the `waits` of the ranks that all wait for: 0 (computing), or CLOSES if none computes. */
static int64_t find_blame(const struct heartbeat *heartbeat)
{
    int64_t least = CLOSES;

    for (int r = 0; r < heartbeat->npeers; r++)
        if (heartbeat->peers[r].beat.waits < least)
            least = heartbeat->peers[r].beat.waits;
    return least == WAITS ? CLOSES : 0;
}

/* Appends "; ranks 0, 1, 2 wait for it". except: a rank to leave out, or -1. */
static void put_waiting(const struct wire *wire, struct strbuf *text, int except, const char *whom)
{
    const struct heartbeat *heartbeat = wire->heartbeat;
    int64_t blame = find_blame(heartbeat);
    struct strbuf list = {0};
    struct ranks waiting = {.text = &list};

    for (int r = 0; r < heartbeat->npeers && wire->rank == 0; r++)
        if (r != except && heartbeat->peers[r].beat.waits != blame)
            ranks_name(&waiting, r, NULL);
    ranks_end(&waiting);
    if (waiting.count > 0)
        strbuf_printf(text,
                      waiting.count == 1 ? "; rank %s waits for %s" : "; ranks %s wait for %s",
                      strbuf_text(&list), whom);
    strbuf_free(&list);
}

static void describe_silence(const struct wire *wire, int rank, double seconds, struct strbuf *text)
{
    ranks_put(text, wire->options.watch.topology, rank);
    strbuf_printf(text, " silent for %.0f s, last seen ", seconds);
    put_place(wire, text, &wire->heartbeat->peers[rank].beat);
    put_waiting(wire, text, rank, "it");
    if (wire->rank != 0) { /* one of the two ranks is cut off, and the reader may know which */
        strbuf_puts(text, " (as ");
        ranks_put(text, wire->options.watch.topology, wire->rank);
        strbuf_puts(text, " sees it)");
    }
}

/* Describes the ranks that hold up all others without progress, though all send heartbeats. */
static void describe_standstill(const struct wire *wire, int64_t now, double seconds,
                                struct strbuf *text)
{
    const struct heartbeat *heartbeat = wire->heartbeat;
    int64_t blame = find_blame(heartbeat);
    struct ranks stuck = {.text = text};

    for (int r = 0; r < heartbeat->npeers; r++) {
        const struct peer *peer = &heartbeat->peers[r];

        if (peer->beat.waits != blame || !ranks_next(&stuck))
            continue;
        ranks_put(text, wire->options.watch.topology, r);
        strbuf_printf(text, " has made no progress for %.0f s ",
                      1e-9 * (double)(now - peer->moved));
        put_place(wire, text, &peer->beat);
    }
    ranks_end(&stuck);
    if (stuck.count > 0) {
        put_waiting(wire, text, -1, stuck.count == 1 ? "it" : "them");
        return;
    }
    strbuf_printf(text, "no rank has made progress for %.0f s ", seconds);
    put_place(wire, text, &heartbeat->peers[0].beat);
    strbuf_puts(text, ": all give signs of life, and large messages may be lost "
                      "(compare the MTU of hosts and switches)");
}

void heartbeat_put_busy(const struct wire *wire, struct strbuf *text)
{
    const struct heartbeat *heartbeat = wire->heartbeat;

    for (int r = 1, named = 0; heartbeat && r < heartbeat->npeers && named < RANKS_NAMED; r++) {
        if (heartbeat->peers[r].beat.waits)
            continue;
        named++;
        strbuf_puts(text, "; ");
        ranks_put(text, wire->options.watch.topology, r);
        strbuf_puts(text, " is ");
        put_place(wire, text, &heartbeat->peers[r].beat);
    }
}

/* Rank 0: fails if a rank has closed while another rank has begun an iteration for all ranks. */
static int check_ends(const struct wire *wire)
{
    const struct wire_watch *watch = &wire->options.watch;
    const struct peer *peers = wire->heartbeat->peers;
    struct strbuf text = {0};
    int first = -1, last = 0;

    for (int r = 0; r < wire->heartbeat->npeers; r++) {
        int64_t iteration = peers[r].beat.at.iteration;

        if (peers[r].beat.waits == CLOSES &&
            (first < 0 || iteration < peers[first].beat.at.iteration))
            first = r;
        if (iteration > peers[last].beat.at.iteration)
            last = r;
    }
    if (!watch->even || first < 0 ||
        peers[first].beat.at.iteration >= peers[last].beat.at.iteration)
        return 0;
    ranks_put(&text, watch->topology, first);
    strbuf_puts(&text, " ends ");
    put_place(wire, &text, &peers[first].beat);
    strbuf_puts(&text, ", which ");
    ranks_put(&text, watch->topology, last);
    error_set("%s has begun: %s", strbuf_text(&text), watch->even);
    strbuf_free(&text);
    return -1;
}

/* Returns the rank that is silent longest; -1: none. Ranks other than 0 check rank 0 only. */
static int most_silent(const struct wire *wire, int64_t now, double *seconds)
{
    const struct heartbeat *heartbeat = wire->heartbeat;
    int found = -1;

    *seconds = wire_silence(wire->options.watch.lost_seconds);
    for (int r = wire->rank == 0 ? 1 : 0; r < heartbeat->npeers; r++)
        if (1e-9 * (double)(now - heartbeat->peers[r].heard) > *seconds) {
            *seconds = 1e-9 * (double)(now - heartbeat->peers[r].heard);
            found = r;
        }
    return found;
}

/* Rank 0: returns the seconds since any rank made progress. */
static double standstill(const struct wire *wire, int64_t now)
{
    const struct heartbeat *heartbeat = wire->heartbeat;
    int64_t last = wire->rank == 0 ? heartbeat->peers[0].moved : now;

    for (int r = 1; r < heartbeat->npeers; r++)
        if (heartbeat->peers[r].moved > last)
            last = heartbeat->peers[r].moved;
    return 1e-9 * (double)(now - last);
}

/* Reports a silence or a standstill, and again whenever it has lasted twice as long. */
static void judge(struct wire *wire, int64_t now)
{
    const struct wire_watch *watch = &wire->options.watch;
    struct heartbeat *heartbeat = wire->heartbeat;
    double seconds, grace = 0;
    int silent = most_silent(wire, now, &seconds);
    struct strbuf text = {0};
    bool lost;

    if (silent < 0)
        seconds = standstill(wire, now);
    else if (wire->rank > 1)
        grace = WATCHDOG_GRACE_SECONDS;
    if (seconds <= wire_silence(watch->lost_seconds)) {
        heartbeat->reported = 0;
        return;
    }
    lost = watch->lost_seconds > 0 && seconds > watch->lost_seconds + grace;
    if (!lost && (wire->rank > 1 || (heartbeat->reported > 0 && seconds < 2 * heartbeat->reported)))
        return;
    heartbeat->reported = seconds;
    if (silent >= 0)
        describe_silence(wire, silent, seconds, &text);
    else
        describe_standstill(wire, now, seconds, &text);
    if (lost && watch->lost)
        watch->lost(watch->context, strbuf_text(&text));
    else if (watch->warn)
        watch->warn(watch->context, strbuf_text(&text));
    strbuf_free(&text);
}

bool heartbeat_speaks(const struct wire *wire)
{
    return wire->heartbeat && (wire->rank != 0 || wire->heartbeat->reported > 0);
}

void heartbeat_look(struct wire *wire, int64_t now)
{
    struct heartbeat *heartbeat = wire->heartbeat;
    int64_t lapse;

    if (!heartbeat || now - heartbeat->last_look < BEAT_NS / 4)
        return;
    lapse = now - heartbeat->last_look;
    heartbeat->last_look = now;
    for (int r = 0; r < heartbeat->npeers && lapse > WATCHDOG_STOPPED_SECONDS * BEAT_NS; r++) {
        heartbeat->peers[r].heard += lapse;
        heartbeat->peers[r].moved += lapse;
    }
    take_beats(wire, now);
    send_beat(wire, now);
    if (wire->stop || atomic_load(&wire->failed))
        return;
    if (wire->rank == 0 && check_ends(wire))
        alarm_raise(wire, true);
    else
        judge(wire, now);
}
