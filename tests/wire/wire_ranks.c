/* A wire without a sync: the ranks of an MPI run drive it as SCENARIO says and check what comes of
 * it. Run under mpirun: wire_ranks SCENARIO [ARGUMENT...]; test_wire.sh lists them. MPI's profiling
 * interface notes the order of sends and, where a seed asks for it, delays sends and lets arrivals
 * and completions be seen late and out of order. */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/error.h"
#include "wire/wire.h"

#define CHECK(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, %s:%d: %s: ", rank, __FILE__, __LINE__, #condition);         \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static int rank, nranks;
static MPI_Comm data;

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* ---- the profiling shim; the wire thread's alone ---- */

static uint64_t chaos; /* state of the random delays; 0: none */
static int order[4096], norder;

static uint64_t chance(void)
{
    return chaos = mix(chaos);
}

static void dawdle(unsigned seldom)
{
    if (chaos && chance() % seldom == 0)
        usleep((useconds_t)(chance() % 200));
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    if (comm == data && norder < (int)(sizeof order / sizeof *order))
        order[norder++] = tag;
    dawdle(16);
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    *flag = 0;
    if (chaos && chance() % 3 == 0)
        return MPI_SUCCESS;
    return PMPI_Improbe(from, tag, comm, flag, message, status);
}

/* Half of the requests, from a random place backwards or forwards: late and out of order. */
int MPI_Testsome(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    int code = MPI_SUCCESS, start, step;

    if (!chaos || n == 0)
        return PMPI_Testsome(n, requests, done, which, statuses);
    dawdle(16);
    start = (int)(chance() % (uint64_t)n);
    step = chance() % 2 ? 1 : n - 1;
    *done = 0;
    for (int i = 0, at = start; i < n && code == MPI_SUCCESS; i++, at = (at + step) % n) {
        int flag = 0;
        if (chance() % 2)
            code = PMPI_Test(&requests[at], &flag, &statuses[*done]);
        if (flag)
            which[(*done)++] = at;
    }
    return code;
}

/* ---- the rig ---- */

static struct wire *wire;
static _Atomic int64_t received, sent, called;
static pthread_t wire_thread;
static char warning[1024];
static _Atomic int64_t warned;
static double moved_bytes; /* as `account` saw it */

static int enter(void *context)
{
    (void)context;
    wire_thread = pthread_self();
    return 0;
}

static int say_sent(void *context, const struct wire_message *message)
{
    (void)context;
    CHECK(pthread_equal(pthread_self(), wire_thread), "a callback on another thread");
    CHECK(!message->received && message->posted <= message->started && message->posted > 0,
          "posted %lld, started %lld", (long long)message->posted, (long long)message->started);
    free(message->buffer);
    atomic_fetch_add(&sent, 1);
    wire_wake(wire);
    return 0;
}

static void account(void *context, const struct wire_message *message)
{
    (void)context;
    CHECK(message->comm == data, "accounted for another communicator's message");
    moved_bytes += (double)message->bytes;
}

static void warn(void *context, const char *text)
{
    (void)context;
    snprintf(warning, sizeof warning, "%s", text);
    atomic_store(&warned, 1);
}

static struct wire_options usual(void)
{
    return (struct wire_options){.data = data,
                                 .window = 1 << 20,
                                 .calls = 16,
                                 .messages = 8, /* fewer than there are: it grows */
                                 .enter = enter,
                                 .account = account,
                                 .warn = warn};
}

static void open_wire(const struct wire_options *options)
{
    norder = 0;
    moved_bytes = 0;
    received = sent = called = warned = 0;
    CHECK(!wire_open(MPI_COMM_WORLD, options, &wire), "%s", error_text());
}

/* Everybody ends the same way: 0, or the same message everywhere. */
static void close_wire(int status, int expected)
{
    char first[4096];

    status = wire_close(wire, status);
    CHECK((status != 0) == (expected != 0), "closed with %d: %s", status, error_text());
    snprintf(first, sizeof first, "%s", status ? error_text() : "");
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
    CHECK(!status || !strcmp(first, error_text()), "'%s' and '%s'", first, error_text());
}

/* ---- traffic ---- */

/* Message number `number` of a rank: to whom, how long, how urgent. Some are answered, and the
 * answer is answered, `hops` times: so much is under way when everybody closes. */
struct letter {
    int to;
    size_t elems;
    int urgency, hops;
};

enum { LETTERS = 120, MOST_HOPS = 3, TAG_BASE = LETTERS * (MOST_HOPS + 1) };

static uint64_t seed;

static struct letter letter_of(int from, int number)
{
    uint64_t key = mix(seed * 1000003 + (uint64_t)from * 4099 + (uint64_t)number);
    struct letter letter = {.to = (int)(key % (uint64_t)nranks),
                            .urgency = (int)(key >> 20 & 7),
                            .hops = (int)(key >> 24 & MOST_HOPS)};

    switch (key >> 32 & 7) { /* one in eight is empty, one in eight large */
    case 0:
        letter.elems = 0;
        break;
    case 1:
        letter.elems = key >> 36 & 0x1ffff;
        break;
    default:
        letter.elems = key >> 36 & 0x3ff;
    }
    return letter;
}

static uint32_t word(int from, int tag, size_t i)
{
    return (uint32_t)from * 2654435761u ^ (uint32_t)tag * 40503u ^ (uint32_t)i;
}

/* A tag says which letter it is, after how many hops, and of whom the letter was at first. */
static int tag_of(int origin, int number, int hop)
{
    return (origin * LETTERS + number) * (MOST_HOPS + 1) + hop;
}

static int post(int to, int tag, size_t elems, int urgency)
{
    uint32_t *words = malloc(elems * sizeof *words + 1);
    struct wire_message message = {.buffer = words,
                                   .bytes = elems * sizeof *words,
                                   .peer = to,
                                   .tag = tag,
                                   .urgency = urgency,
                                   .done = say_sent};

    for (size_t i = 0; i < elems; i++)
        words[i] = word(rank, tag, i);
    return wire_send(wire, &message);
}

static char *seen; /* by tag */

static int take_letter(void *context, const struct wire_message *message)
{
    const uint32_t *words = message->buffer;
    int hop = message->tag % (MOST_HOPS + 1), number = message->tag / (MOST_HOPS + 1) % LETTERS,
        origin = message->tag / TAG_BASE;
    struct letter letter = letter_of(origin, number);
    int status = 0;

    (void)context;
    CHECK(pthread_equal(pthread_self(), wire_thread), "a callback on another thread");
    CHECK(message->received && message->user == (uint64_t)message->tag, "tag %d", message->tag);
    CHECK(message->peer == (hop % 2 ? letter.to : origin), "from %d", message->peer);
    CHECK(message->bytes == letter.elems * 4, "%zu bytes", message->bytes);
    CHECK(!seen[message->tag], "tag %d came twice", message->tag);
    seen[message->tag] = 1;
    for (size_t i = 0; i < letter.elems; i++)
        CHECK(words[i] == word(message->peer, message->tag, i), "word %zu of tag %d", i,
              message->tag);
    if (hop < letter.hops)
        status = post(message->peer, message->tag + 1, letter.elems, letter.urgency);
    free(message->buffer);
    atomic_fetch_add(&received, 1);
    wire_wake(wire);
    return status;
}

static int accept_letter(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    (void)context;
    (void)peer;
    CHECK(out->bytes == bytes, "%zu and %zu bytes", out->bytes, bytes);
    out->buffer = malloc(bytes + 1);
    out->done = take_letter;
    out->user = (uint64_t)tag;
    return 0;
}

static int post_letters(void *context, int64_t begin)
{
    (void)context;
    for (int i = (int)begin; i < (int)begin + LETTERS / 4; i++) {
        struct letter letter = letter_of(rank, i);
        if (post(letter.to, tag_of(rank, i, 0), letter.elems, letter.urgency))
            return -1;
    }
    atomic_fetch_add(&called, 1);
    wire_wake(wire);
    return 0;
}

/* What comes to this rank, and what it sends. */
static void expect(int64_t *in, int64_t *out, double *bytes)
{
    *in = *out = 0;
    *bytes = 0;
    for (int from = 0; from < nranks; from++)
        for (int i = 0; i < LETTERS; i++) {
            struct letter letter = letter_of(from, i);
            for (int hop = 0; hop <= letter.hops; hop++) {
                bool comes = rank == (hop % 2 ? from : letter.to),
                     goes = rank == (hop % 2 ? letter.to : from);
                *in += comes;
                *out += goes;
                *bytes += 4.0 * (double)letter.elems * (comes + goes);
            }
        }
}

/* meddle: what the compute thread does while traffic goes on. */
static void run_traffic(struct wire_options options, bool waits, void (*meddle)(void))
{
    int64_t in, out;
    double bytes, slept = 0;
    struct wire_stats stats;

    options.accept = accept_letter;
    seen = calloc((size_t)nranks * TAG_BASE, 1);
    expect(&in, &out, &bytes);
    open_wire(&options);
    CHECK(!wire_start(wire), "%s", error_text());
    for (int i = 0; i < 4; i++)
        wire_call(wire, post_letters, NULL, i * (LETTERS / 4));
    if (meddle)
        meddle();
    if (waits) {
        CHECK(!wire_wait(wire, &received, in, &slept), "%s", error_text());
        CHECK(!wire_wait(wire, &sent, out, NULL), "%s", error_text());
        CHECK(slept >= 0 && slept < 100, "slept %g s", slept);
    }
    close_wire(0, 0);
    stats = wire_stats(wire);
    CHECK(received == in, "%lld messages of %lld", (long long)received, (long long)in);
    CHECK(sent == out, "%lld messages of %lld", (long long)sent, (long long)out);
    CHECK(stats.messages_received == (uint64_t)in && stats.messages_sent == (uint64_t)out,
          "%llu and %llu messages", (unsigned long long)stats.messages_received,
          (unsigned long long)stats.messages_sent);
    CHECK((double)(stats.sent + stats.received) == bytes && moved_bytes == bytes,
          "%llu + %llu bytes, %.0f accounted for, %.0f expected", (unsigned long long)stats.sent,
          (unsigned long long)stats.received, moved_bytes, bytes);
    CHECK(stats.control_sent == 0 && stats.polls > 0 && stats.seconds > 0 && stats.cpu_seconds > 0,
          "%llu polls", (unsigned long long)stats.polls);
    wire_destroy(wire);
    free(seen);
}

/* SEEDS: so many different ones, with delays; every other one closes without waiting. */
static void traffic(int argc, char **argv)
{
    int seeds = argc > 0 ? atoi(argv[0]) : 1;
    const size_t windows[] = {1 << 20, 0, 4096, 1};

    for (int s = 0; s < seeds; s++) {
        struct wire_options options = usual();
        seed = (uint64_t)s;
        chaos = s % 4 ? mix((uint64_t)(s * nranks + rank)) | 1 : 0;
        options.window = windows[s / 4 % 4];
        options.fifo = s % 5 == 4;
        options.messages = s % 3 ? 8 : 2000;
        run_traffic(options, s % 2, NULL);
    }
    chaos = 0;
}

/* ---- a rank that is stopped for two seconds ---- */

static pid_t pids[64];

static void stop_last(void)
{
    struct timespec two = {.tv_sec = 2};

    if (rank != 0 || nranks == 1)
        return;
    CHECK(!kill(pids[nranks - 1], SIGSTOP), "cannot stop rank %d", nranks - 1);
    nanosleep(&two, NULL);
    CHECK(!kill(pids[nranks - 1], SIGCONT), "cannot wake rank %d", nranks - 1);
}

static void stopped(int argc, char **argv)
{
    int mine = (int)getpid(), all[64];

    (void)argc;
    (void)argv;
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < nranks; r++)
        pids[r] = all[r];
    for (seed = 0; seed < 2; seed++)
        run_traffic(usual(), seed == 0, stop_last);
}

/* ---- order ---- */

enum { IN_ORDER = 300 };
static int urgency_of[IN_ORDER];
static double weight_of[IN_ORDER];

static int post_in_disorder(void *context, int64_t argument)
{
    static float nothing;

    (void)context;
    (void)argument;
    for (int i = 0; i < IN_ORDER; i++) {
        struct wire_message message = {.buffer = &nothing,
                                       .bytes = 4,
                                       .peer = (rank + i) % nranks,
                                       .tag = i,
                                       .urgency = urgency_of[i],
                                       .weight = weight_of[i]};
        if (wire_send(wire, &message))
            return -1;
    }
    return 0;
}

static int accept_float(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    static float nothing[64];

    (void)context;
    (void)peer;
    (void)tag;
    CHECK(bytes == 4, "%zu bytes", bytes);
    out->buffer = &nothing[tag % 64];
    return 0;
}

static void by_urgency(int argc, char **argv)
{
    struct wire_options options = usual();

    (void)argc;
    (void)argv;
    options.window = 1; /* one at a time */
    options.accept = accept_float;
    for (int i = 0; i < IN_ORDER; i++) {
        urgency_of[i] = (int)(mix((uint64_t)i) % 20);
        weight_of[i] = (double)(mix((uint64_t)i) >> 20 & 3);
    }
    open_wire(&options);
    wire_call(wire, post_in_disorder, NULL, 0); /* before the start is fine */
    CHECK(!wire_start(wire), "%s", error_text());
    close_wire(0, 0);
    CHECK(norder == IN_ORDER, "%d sent", norder);
    for (int i = 1; i < IN_ORDER; i++) {
        int a = order[i - 1], b = order[i];
        bool right = urgency_of[a] != urgency_of[b] ? urgency_of[a] < urgency_of[b]
                     : weight_of[a] != weight_of[b] ? weight_of[a] > weight_of[b]
                                                    : a < b;
        CHECK(right, "message %d before %d", a, b);
    }
    wire_destroy(wire);
}

/* ---- calls and waits ---- */

static int next_call(void *context, int64_t argument)
{
    (void)context;
    CHECK(argument == called, "call %lld came as number %lld", (long long)argument,
          (long long)called);
    atomic_store_explicit(&called, argument + 1, memory_order_release);
    wire_wake(wire);
    return 0;
}

static void calls(int argc, char **argv)
{
    enum { CALLS = 50000 };
    struct wire_options options = usual();

    (void)argc;
    (void)argv;
    options.data = MPI_COMM_NULL; /* a rank without messages of its own */
    open_wire(&options);
    for (int i = 0; i < 10; i++)
        wire_call(wire, next_call, NULL, i);
    CHECK(!wire_start(wire), "%s", error_text());
    for (int i = 10; i < CALLS; i++) {
        wire_call(wire, next_call, NULL, i);
        if (mix((uint64_t)i) % 64 == 0)
            CHECK(!wire_wait(wire, &called, i + 1, NULL), "%s", error_text());
    }
    close_wire(0, 0);
    CHECK(called == CALLS, "%lld calls", (long long)called);
    wire_destroy(wire);
}

/* ---- collectives, and another communicator ---- */

static MPI_Comm other;
static double mine[3], sums[3];
static float note_in[8], note_out[8];

static int count_done(void *context, const struct wire_message *message)
{
    CHECK(context == &called, "the context of another");
    CHECK(message->bytes == sizeof mine || message->bytes == sizeof note_in, "%zu bytes",
          message->bytes);
    atomic_fetch_add(&called, 1);
    wire_wake(wire);
    return 0;
}

static int start_others(void *context, int64_t argument)
{
    struct wire_message in = {.buffer = note_in,
                              .bytes = sizeof note_in,
                              .peer = (rank + nranks - 1) % nranks,
                              .tag = 5,
                              .comm = other,
                              .done = count_done,
                              .context = context},
                        out = in;
    MPI_Request request;

    (void)argument;
    out.buffer = note_out;
    out.peer = (rank + 1) % nranks;
    if (MPI_Iallreduce(mine, sums, 3, MPI_DOUBLE, MPI_SUM, other, &request))
        return error_set("MPI_Iallreduce");
    return wire_track(wire, request, sizeof mine, count_done, context) || wire_receive(wire, &in) ||
           wire_send(wire, &out);
}

static void others(int argc, char **argv)
{
    struct wire_options options = usual();
    struct wire_stats stats;

    (void)argc;
    (void)argv;
    options.accept = accept_letter;
    MPI_Comm_dup(MPI_COMM_WORLD, &other);
    open_wire(&options);
    CHECK(!wire_start(wire), "%s", error_text());
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 3; k++)
            mine[k] = rank + 10 * k + i;
        for (int k = 0; k < 8; k++)
            note_out[k] = (float)(rank * 100 + i + k);
        wire_call(wire, start_others, &called, 0);
        CHECK(!wire_wait(wire, &called, 3 * (i + 1), NULL), "%s", error_text());
        for (int k = 0; k < 3; k++)
            CHECK(sums[k] == nranks * (nranks - 1) / 2.0 + nranks * (10 * k + i), "%g", sums[k]);
        for (int k = 0; k < 8; k++)
            CHECK(note_in[k] == (float)((rank + nranks - 1) % nranks * 100 + i + k), "%g",
                  (double)note_in[k]);
    }
    close_wire(0, 0);
    stats = wire_stats(wire);
    CHECK(stats.control_sent == 20 * (sizeof mine + sizeof note_out) && stats.sent == 0 &&
              stats.messages_sent == 0,
          "%llu bytes of control", (unsigned long long)stats.control_sent);
    wire_destroy(wire);
    MPI_Comm_free(&other);
}

/* ---- failures ---- */

enum where {
    IN_CALL = 'c',    /* a call fails */
    IN_POLL = 'p',    /* what goes on beside fails */
    IN_DONE = 'd',    /* the end of a message fails */
    IN_ACCEPT = 'a',  /* a message comes that does not belong here */
    IN_LENGTH = 'l',  /* a message comes that is shorter than it should be */
    IN_ENTER = 'e',   /* the thread cannot begin */
    IN_COMPUTE = 'm', /* the compute thread fails, without having heard of others */
    IN_NOTHING = '-',
};
static enum where place;
static _Atomic int64_t never;
static int aborts;

static int fail_now(void)
{
    return error_set("the pump (%c) of %d is broken", place, rank);
}

static int fail_call(void *context, int64_t argument)
{
    static float nothing;

    (void)context;
    (void)argument;
    if (place == IN_CALL)
        return fail_now();
    return wire_send(wire,
                     &(struct wire_message){
                         .buffer = &nothing, .bytes = 4, .peer = (rank + 1) % nranks, .tag = 77});
}

static int fail_done(void *context, const struct wire_message *message)
{
    (void)context;
    (void)message;
    return place == IN_DONE ? fail_now() : 0;
}

static int fail_accept(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    static float somewhere[2];

    (void)context;
    (void)bytes;
    CHECK(tag == 77 && peer == (rank + nranks - 1) % nranks, "tag %d of %d", tag, peer);
    out->buffer = somewhere;
    out->done = fail_done;
    if (place == IN_LENGTH)
        out->bytes = 8;
    return place == IN_ACCEPT ? fail_now() : 0;
}

static int fail_enter(void *context)
{
    (void)context;
    return place == IN_ENTER ? fail_now() : 0;
}

static int fail_poll(void *context)
{
    static int turns;

    (void)context;
    return place == IN_POLL && ++turns % 10 == 0 ? fail_now() : 0;
}

static void count_abort(void *context)
{
    (void)context;
    aborts++;
}

/* Whether nobody of a lower rank fails. */
static bool is_lowest(const char *places, int r)
{
    for (int i = 0; i < r; i++)
        if (places[i] != IN_NOTHING)
            return false;
    return true;
}

/* PLACES: a letter for each rank, see enum where. Where only one fails, or compute threads alone
 * do, everybody ends with the lowest one's message; else with that of one that failed. */
static void failing(int argc, char **argv)
{
    const char *places = argc > 0 ? argv[0] : "";
    struct wire_options options = usual();
    bool free_of_chance = true, found = false;
    int nfailing = 0;

    CHECK((int)strlen(places) == nranks, "a place for each rank is wanted, not '%s'", places);
    place = (enum where)places[rank];
    for (int r = 0; r < nranks; r++) {
        nfailing += places[r] != IN_NOTHING;
        free_of_chance = free_of_chance && (places[r] == IN_NOTHING || places[r] == IN_COMPUTE);
    }
    free_of_chance = free_of_chance || nfailing == 1;
    for (int i = 0; i < 20; i++) {
        char expected[64];
        aborts = 0;
        options.accept = fail_accept;
        options.poll = fail_poll;
        options.enter = fail_enter;
        options.abort = count_abort;
        open_wire(&options);
        MPI_Barrier(MPI_COMM_WORLD);
        CHECK(!wire_start(wire), "%s", error_text());
        wire_call(wire, fail_call, NULL, 0);
        if (place == IN_COMPUTE) {
            usleep((useconds_t)(mix((uint64_t)(i * nranks + rank)) % 3 * 500));
            close_wire(fail_now(), 1);
        } else {
            CHECK(wire_wait(wire, &never, 1, NULL), "the end of all waiting");
            CHECK(wire_failed(wire), "no word of a failure");
            wire_call(wire, fail_call, NULL, 0); /* dropped */
            close_wire(-1, 1);
        }
        found = false;
        for (int r = 0; r < nranks; r++) {
            if (places[r] == IN_NOTHING)
                continue;
            if (places[r] == IN_LENGTH)
                snprintf(expected, sizeof expected, "sent 4 bytes with tag 77 where 8");
            else
                snprintf(expected, sizeof expected, "the pump (%c) of %d is broken", places[r], r);
            if (strstr(error_text(), expected)) {
                found = true;
                CHECK(!free_of_chance || is_lowest(places, r), "%s", error_text());
                if (nfailing < nranks) {
                    snprintf(expected, sizeof expected, "rank %d (", r);
                    CHECK(!strncmp(error_text(), expected, strlen(expected)), "%s", error_text());
                }
            }
        }
        CHECK(found, "%s", error_text());
        CHECK(aborts == 1, "%d times aborted", aborts);
        wire_destroy(wire);
    }
}

/* Some ranks never start; with FAIL the last one closes with a failure. */
static void unstarted(int argc, char **argv)
{
    bool fails = argc > 0 && !strcmp(argv[0], "fail");
    struct wire_options options = usual();

    options.accept = accept_letter;
    for (int i = 0; i < 10; i++) {
        int status = fails && rank == nranks - 1 ? error_set("no thread") : 0;
        open_wire(&options);
        if (rank % 2 == 0 && !status)
            CHECK(!wire_start(wire), "%s", error_text());
        close_wire(status, fails);
        CHECK(!fails || strstr(error_text(), "no thread"), "%s", error_text());
        wire_destroy(wire);
    }
}

/* ---- stalls ---- */

static int describe_moon(void *context, char *text, size_t bytes)
{
    (void)context;
    snprintf(text, bytes, " for the moon (rank 1)");
    return 1;
}

static int take_float(void *context, const struct wire_message *message)
{
    (void)context;
    (void)message;
    atomic_fetch_add(&received, 1);
    wire_wake(wire);
    return 0;
}

static int accept_late(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    int status = accept_float(context, peer, tag, bytes, out);

    out->done = take_float;
    return status;
}

static void stall(int argc, char **argv)
{
    struct wire_options options = usual();
    struct timespec one = {.tv_sec = 1};

    (void)argc;
    (void)argv;
    options.accept = accept_late;
    options.describe_wait = describe_moon;
    options.stall_seconds = 0.3;
    open_wire(&options);
    place = IN_NOTHING;
    CHECK(!wire_start(wire), "%s", error_text());
    if (rank != 0)
        nanosleep(&one, NULL);
    if (rank == 1 || nranks == 1) {
        CHECK(!warned, "%s", warning);
        wire_call(wire, fail_call, NULL, 0);
    }
    if (rank == 2 % nranks && nranks > 1) {
        CHECK(!wire_wait(wire, &received, 1, NULL), "%s", error_text());
        if (rank == 0)
            CHECK(warned && strstr(warning, "rank 0 has waited") && strstr(warning, "the moon"),
                  "'%s'", warning);
    }
    close_wire(0, 0);
    CHECK(rank != 0 || nranks < 2 || strstr(warning, "the moon"), "'%s'", warning);
    wire_destroy(wire);
}

/* ---- closing waits for what is to be sent ---- */

enum { SLOW = 40, SLOW_BYTES = 100000 };
static float slow_out[SLOW_BYTES / 4], slow_in[SLOW_BYTES / 4];
static int polls_left;

static int post_slowly(void *context, int64_t argument)
{
    (void)context;
    (void)argument;
    for (int i = 0; i < SLOW; i++)
        if (wire_send(wire, &(struct wire_message){.buffer = slow_out,
                                                   .bytes = SLOW_BYTES,
                                                   .peer = (rank + 1) % nranks,
                                                   .tag = i}))
            return -1;
    return 0;
}

static int accept_slow(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    (void)context;
    (void)peer;
    (void)tag;
    CHECK(bytes == SLOW_BYTES, "%zu bytes", bytes);
    out->buffer = slow_in; /* all are the same */
    out->done = take_float;
    return 0;
}

static int count_down(void *context)
{
    (void)context;
    if (polls_left > 0)
        polls_left--;
    return 0;
}

static bool is_counting(void *context)
{
    (void)context;
    return polls_left > 0;
}

static void closing(int argc, char **argv)
{
    struct wire_options options = usual();
    double begun, took;

    (void)argc;
    (void)argv;
    options.accept = accept_slow;
    options.bytes_per_second = 8e6; /* 4 MB: half a second */
    options.poll = count_down;
    options.busy = is_counting;
    polls_left = 100;
    open_wire(&options);
    CHECK(!wire_start(wire), "%s", error_text());
    begun = clock_seconds();
    wire_call(wire, post_slowly, NULL, 0);
    close_wire(0, 0);
    took = clock_seconds() - begun;
    CHECK(received == SLOW, "%lld messages", (long long)received);
    CHECK(polls_left == 0, "%d polls left", polls_left);
    CHECK(took > 0.46, "%.3f s for what the cap spreads over 0.48", took);
    wire_destroy(wire);
}

/* ---- lengths ---- */

static int post_too_long(void *context, int64_t argument)
{
    static float somewhere;
    struct wire_message message = {.buffer = &somewhere, .bytes = (size_t)1 << 33};

    (void)context;
    (void)argument;
    CHECK(wire_send(wire, &message), "2^31 floats in one message");
    CHECK(strstr(error_text(), "8589934592 bytes"), "%s", error_text());
    atomic_store(&called, 1);
    wire_wake(wire);
    return 0;
}

static char *long_in;

static int post_long(void *context, int64_t bytes)
{
    return wire_send(wire, &(struct wire_message){.buffer = context,
                                                  .bytes = (size_t)bytes,
                                                  .peer = (rank + 1) % nranks,
                                                  .tag = 77});
}

static int accept_long(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    (void)context;
    (void)peer;
    (void)tag;
    out->buffer = long_in = malloc(bytes);
    out->done = take_float;
    CHECK(long_in, "%zu bytes", bytes);
    return 0;
}

/* BYTES: a message of that length goes to the next rank. */
static void lengths(int argc, char **argv)
{
    size_t bytes = argc > 0 ? (size_t)atoll(argv[0]) : 4000000;
    struct wire_options options = usual();
    char *out = malloc(bytes);

    CHECK(out, "%zu bytes", bytes);
    for (size_t i = 0; i < bytes; i += 4096)
        out[i] = (char)(i >> 12);
    out[bytes - 1] = 42;
    options.accept = accept_long;
    options.account = NULL;
    open_wire(&options);
    CHECK(!wire_start(wire), "%s", error_text());
    wire_call(wire, post_too_long, NULL, 0);
    CHECK(!wire_wait(wire, &called, 1, NULL), "%s", error_text());
    wire_call(wire, post_long, out, (int64_t)bytes);
    CHECK(!wire_wait(wire, &received, 1, NULL), "%s", error_text());
    close_wire(0, 0);
    CHECK(wire_stats(wire).received == bytes, "%zu bytes", bytes);
    for (size_t i = 0; i < bytes; i += 4096)
        CHECK(long_in[i] == (char)(i >> 12) || i == bytes - 1, "byte %zu", i);
    CHECK(long_in[bytes - 1] == 42, "the last byte");
    wire_destroy(wire);
    free(long_in);
    free(out);
}

/* ---- our own mistakes end in an assertion ---- */

static void misuse(int argc, char **argv)
{
    const char *kind = argc > 0 ? argv[0] : "";
    struct wire_options options = usual();
    static float nothing[2];
    struct wire_message message = {.buffer = nothing, .bytes = 4};

    options.accept = accept_float;
    open_wire(&options);
    CHECK(!wire_start(wire), "%s", error_text());
    if (!strcmp(kind, "thread"))
        wire_send(wire, &message);
    close_wire(0, 0);
    if (!strcmp(kind, "close"))
        wire_close(wire, 0);
    wire_destroy(wire);
    open_wire(&options);
    message.bytes = 3;
    if (!strcmp(kind, "bytes"))
        wire_send(wire, &message);
    wire_start(wire);
    if (!strcmp(kind, "destroy"))
        wire_destroy(wire);
    close_wire(0, 0);
    wire_destroy(wire);
    fprintf(stderr, "nothing was noticed\n");
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int argc, char **argv);
    } scenarios[] = {{"traffic", traffic}, {"stopped", stopped},     {"order", by_urgency},
                     {"calls", calls},     {"others", others},       {"failing", failing},
                     {"stall", stall},     {"unstarted", unstarted}, {"closing", closing},
                     {"lengths", lengths}, {"misuse", misuse}};
    int provided;
    bool found = false;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    MPI_Comm_dup(MPI_COMM_WORLD, &data);
    CHECK(provided >= MPI_THREAD_SERIALIZED, "MPI without threads");
    for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof *scenarios; i++)
        if (!strcmp(argv[1], scenarios[i].name)) {
            scenarios[i].run(argc - 2, argv + 2);
            found = true;
        }
    CHECK(found, "no scenario '%s'", argc > 1 ? argv[1] : "");
    MPI_Comm_free(&data);
    MPI_Finalize();
    return 0;
}
