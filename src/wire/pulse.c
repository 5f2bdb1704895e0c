/* Signs of life. Every few seconds each rank's wire thread tells rank 0 where its compute thread is
 * and whether it waits, and rank 0 answers: so a rank that is silent, because it is stopped, dead
 * or cut off, is told from the many that merely wait for it. Rank 0 speaks for all; rank 1 where it
 * is rank 0 that is silent. A time in which this rank was itself stopped counts for nobody's
 * silence. */
#include "wire/wire_internal.h"

#include "util/agree.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_BEAT = 2, TAG_ANSWER = 3, RANKS_NAMED = 8, BEATS_A_SECOND = 64 }; /* that rank 0 takes */

#define BEAT_NS ((int64_t)1000000000) /* from one sign of life to the next, of few ranks */
#define STOPPED_NS                                                                                 \
    ((int64_t)6000000000) /* a turn longer than that: this rank was stopped itself                 \
                           */

/* What a rank tells, and what rank 0 keeps of it. */
struct beat {
    int64_t iteration; /* of the compute thread's last mark; -1: there was none */
    int64_t place;
    int64_t since_ms; /* from that mark to the beat */
    int64_t waits;    /* the compute thread waits for the network */
};

enum { BEAT_VALUES = sizeof(struct beat) / sizeof(int64_t) };

struct pulse {
    int64_t each;         /* ns from one beat to the next */
    int64_t last, beaten; /* ns: the last look, the last beat sent */
    struct beat mine, came;
    MPI_Request out, in; /* rank 0: in alone */
    /* rank 0: of every rank; elsewhere [0] alone, of rank 0 */
    struct beat *beats;
    int64_t *heard;
    MPI_Request *answers; /* rank 0's, on their way */
    int64_t told;         /* ns; 0: nobody is silent */
};

int pulse_open(struct wire *wire)
{
    size_t n = wire->rank == 0 ? (size_t)wire->nranks : 1;
    struct pulse *pulse;

    if (wire->options.silence_seconds <= 0 || wire->nranks == 1)
        return 0;
    wire->pulse = pulse = calloc(1, sizeof *pulse);
    if (!pulse)
        return error_memory(sizeof *pulse, "signs of life");
    pulse->out = pulse->in = MPI_REQUEST_NULL;
    pulse->each = BEAT_NS * (1 + wire->nranks / BEATS_A_SECOND);
    pulse->beats = calloc(n, sizeof *pulse->beats);
    pulse->heard = calloc(n, sizeof *pulse->heard);
    pulse->answers = malloc(n * sizeof *pulse->answers);
    if (!pulse->beats || !pulse->heard || !pulse->answers)
        return error_memory(n * sizeof *pulse->beats, "signs of life");
    for (size_t i = 0; i < n; i++) {
        pulse->answers[i] = MPI_REQUEST_NULL;
        pulse->beats[i].iteration = -1;
    }
    return 0;
}

void pulse_close(struct wire *wire)
{
    struct pulse *pulse = wire->pulse;

    if (!pulse)
        return;
    free(pulse->beats);
    free(pulse->heard);
    free(pulse->answers);
    free(pulse);
    wire->pulse = NULL;
}

static bool is_over(MPI_Request *request)
{
    int over = 1;

    return *request == MPI_REQUEST_NULL ||
           (MPI_Test(request, &over, MPI_STATUS_IGNORE) == MPI_SUCCESS && over);
}

static void listen(struct wire *wire)
{
    struct pulse *pulse = wire->pulse;

    if (MPI_Irecv(&pulse->came, BEAT_VALUES, MPI_INT64_T, wire->rank == 0 ? MPI_ANY_SOURCE : 0,
                  wire->rank == 0 ? TAG_BEAT : TAG_ANSWER, wire->comm, &pulse->in) != MPI_SUCCESS)
        pulse->in = MPI_REQUEST_NULL;
}

void pulse_start(struct wire *wire)
{
    struct pulse *pulse = wire->pulse;
    int64_t now = wire_clock();

    if (!pulse)
        return;
    pulse->last = now;
    for (int r = 0; r < (wire->rank == 0 ? wire->nranks : 1); r++)
        pulse->heard[r] = now;
    listen(wire);
}

void pulse_stop(struct wire *wire)
{
    struct pulse *pulse = wire->pulse;

    if (!pulse)
        return;
    if (pulse->in != MPI_REQUEST_NULL && MPI_Cancel(&pulse->in) == MPI_SUCCESS)
        (void)MPI_Wait(&pulse->in, MPI_STATUS_IGNORE);
    if (pulse->out != MPI_REQUEST_NULL)
        (void)MPI_Request_free(&pulse->out);
    for (int r = 0; r < (wire->rank == 0 ? wire->nranks : 0); r++)
        if (pulse->answers[r] != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&pulse->answers[r]);
}

/* ---- saying ---- */

static struct beat look_at_self(const struct wire *wire, int64_t now)
{
    int64_t marked = atomic_load_explicit(&wire->mark_ns, memory_order_relaxed);

    return (struct beat){.iteration =
                             atomic_load_explicit(&wire->mark_iteration, memory_order_relaxed),
                         .place = atomic_load_explicit(&wire->mark_place, memory_order_relaxed),
                         .since_ms = marked > 0 ? (now - marked) / 1000000 : 0,
                         .waits = atomic_load(&wire->sleeping) || atomic_load(&wire->close_asked)};
}

static void take_beats(struct wire *wire, int64_t now)
{
    struct pulse *pulse = wire->pulse;
    MPI_Status from;
    int came = 1;

    while (pulse->in != MPI_REQUEST_NULL && came) {
        if (MPI_Test(&pulse->in, &came, &from) != MPI_SUCCESS || !came)
            return;
        pulse->heard[from.MPI_SOURCE] = now;
        pulse->beats[from.MPI_SOURCE] = pulse->came;
        if (wire->rank == 0 && is_over(&pulse->answers[from.MPI_SOURCE]))
            (void)MPI_Isend(&pulse->mine, BEAT_VALUES, MPI_INT64_T, from.MPI_SOURCE, TAG_ANSWER,
                            wire->comm, &pulse->answers[from.MPI_SOURCE]);
        listen(wire);
    }
}

static void send_beat(struct wire *wire, int64_t now)
{
    struct pulse *pulse = wire->pulse;

    if (wire->rank != 0 && !is_over(&pulse->out))
        return; /* the last one has not left: its buffer is MPI's */
    if (now - pulse->beaten < pulse->each)
        return;
    pulse->beaten = now;
    pulse->mine = look_at_self(wire, now); /* rank 0's goes with its answers */
    if (wire->rank != 0)
        (void)MPI_Isend(&pulse->mine, BEAT_VALUES, MPI_INT64_T, 0, TAG_BEAT, wire->comm,
                        &pulse->out);
}

/* ---- judging ---- */

/* "rank 3 on n3", "rank 3" */
static void put_rank(const struct wire *wire, struct strbuf *text, int rank)
{
    const struct wire_options *o = &wire->options;
    const char *host = o->host_of ? o->host_of(o->context, rank) : NULL;

    strbuf_printf(text, host ? "rank %d on %s" : "rank %d", rank, host);
}

static void put_place(const struct wire *wire, struct strbuf *text, const struct beat *beat)
{
    const struct wire_options *o = &wire->options;
    const char *place =
        beat->place >= 0 && o->place_of ? o->place_of(o->context, beat->place) : NULL;

    if (beat->iteration < 0)
        strbuf_puts(text, "before the first iteration");
    else
        strbuf_printf(text, "in iteration %lld", (long long)beat->iteration);
    if (place)
        strbuf_printf(text, " after layer %s", place);
}

/* "; ranks 0, 1, 2 wait for it" */
static void put_waiting(const struct wire *wire, struct strbuf *text, int except)
{
    int named = 0, more = 0;

    for (int r = 0; r < wire->nranks && wire->rank == 0; r++) {
        if (r == except || !wire->pulse->beats[r].waits)
            continue;
        if (named == RANKS_NAMED)
            more++;
        else
            strbuf_printf(text, "%s%d", named++ ? ", " : "; ranks ", r);
    }
    if (more > 0)
        strbuf_printf(text, " and %d more", more);
    if (named > 0)
        strbuf_puts(text, named == 1 ? " waits for it" : " wait for it");
}

static void describe(const struct wire *wire, int rank, int64_t now, struct strbuf *text)
{
    const struct pulse *pulse = wire->pulse;
    const struct beat *beat = &pulse->beats[rank];
    double silent = 1e-9 * (double)(now - pulse->heard[rank]);

    put_rank(wire, text, rank);
    if (silent > wire->options.silence_seconds)
        strbuf_printf(text, " silent for %.0f s, last seen ", silent);
    else
        strbuf_printf(text, " has computed for %.0f s ", 1e-3 * (double)beat->since_ms);
    put_place(wire, text, beat);
    put_waiting(wire, text, rank);
    if (wire->rank != 0) { /* one of the two is cut off: who reads this may know which */
        strbuf_puts(text, " (as ");
        put_rank(wire, text, wire->rank);
        strbuf_puts(text, " sees it)");
    }
}

/* The rank that is silent longest; -1: all have given signs. Elsewhere than on rank 0: rank 0. */
static int most_silent(const struct wire *wire, int64_t now, double *seconds)
{
    const struct pulse *pulse = wire->pulse;
    int found = -1;

    *seconds = wire->options.silence_seconds;
    for (int r = wire->rank == 0 ? 1 : 0; r < (wire->rank == 0 ? wire->nranks : 1); r++)
        if (1e-9 * (double)(now - pulse->heard[r]) > *seconds) {
            *seconds = 1e-9 * (double)(now - pulse->heard[r]);
            found = r;
        }
    return found;
}

/* Rank 0: the one rank that computes while all others wait for longer than is usual; -1. */
static int one_that_computes(const struct wire *wire)
{
    const struct pulse *pulse = wire->pulse;
    int found = -1;

    for (int r = 0; r < wire->nranks && wire->rank == 0; r++) {
        if (pulse->beats[r].waits)
            continue;
        if (found >= 0)
            return -1;
        found = r;
    }
    return found >= 0 && 1e-3 * (double)pulse->beats[found].since_ms > wire->options.silence_seconds
               ? found
               : -1;
}

static void judge(struct wire *wire, int64_t now)
{
    const struct wire_options *o = &wire->options;
    struct pulse *pulse = wire->pulse;
    double silent, grace = wire->rank > 1 ? 15 : 0; /* one speaks first */
    int rank = most_silent(wire, now, &silent);
    bool lost = rank >= 0 && o->lost_seconds > 0 && silent > o->lost_seconds + grace;
    struct strbuf text = {0};

    if (rank < 0)
        rank = one_that_computes(wire);
    if (rank < 0) {
        pulse->told = 0;
        return;
    }
    if (lost || (!pulse->told && wire->rank <= 1)) {
        describe(wire, rank, now, &text);
        if (lost && o->lost)
            o->lost(o->context, strbuf_text(&text));
        else if (!pulse->told && o->warn)
            o->warn(o->context, strbuf_text(&text));
        strbuf_free(&text);
    }
    if (!pulse->told)
        pulse->told = now;
}

bool pulse_speaks(const struct wire *wire)
{
    return wire->pulse && (wire->rank != 0 || wire->pulse->told);
}

void pulse_look(struct wire *wire, int64_t now)
{
    struct pulse *pulse = wire->pulse;
    int64_t lapse;

    if (!pulse || now - pulse->last < BEAT_NS / 4)
        return;
    lapse = now - pulse->last;
    pulse->last = now;
    if (lapse > STOPPED_NS)
        for (int r = 0; r < (wire->rank == 0 ? wire->nranks : 1); r++)
            pulse->heard[r] += lapse;
    take_beats(wire, now);
    send_beat(wire, now);
    if (wire->rank == 0) {
        pulse->heard[0] = now;
        pulse->beats[0] = look_at_self(wire, now);
    }
    if (!wire->stop && !atomic_load(&wire->failed))
        judge(wire, now);
}
