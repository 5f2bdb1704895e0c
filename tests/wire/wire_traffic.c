/* Scenarios of messages that arrive: whole, once, in order, whatever happens meanwhile. */
#include <signal.h>
#include <sys/types.h>
#include <time.h>

#include "tests/wire/wire_rig.h"

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
void traffic(int argc, char **argv)
{
    int seeds = argc > 0 ? atoi(argv[0]) : 1;
    const size_t windows[] = {1 << 20, 0, 4096, 1};

    for (int s = 0; s < seeds; s++) {
        struct wire_options options = usual();
        seed = (uint64_t)s;
        chaos = s % 4 ? mix((uint64_t)(s * nranks + rank)) | 1 : 0;
        options.sends.window = windows[s / 4 % 4];
        options.sends.fifo = s % 5 == 4;
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

void stopped(int argc, char **argv)
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

void by_urgency(int argc, char **argv)
{
    struct wire_options options = usual();

    (void)argc;
    (void)argv;
    options.sends.window = 1; /* one at a time */
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

/* ---- the window ---- */

enum { SMALL_ONES = 500, SMALL_BYTES = 1024, AT_ONCE = 8, MOST_AT_ONCE = 256 };
static size_t small_bytes; /* SMALL_BYTES at most */

static int post_small_ones(void *context, int64_t argument)
{
    static float nothing[SMALL_BYTES / sizeof(float)];

    (void)context;
    (void)argument;
    for (int i = 0; i < SMALL_ONES; i++) {
        struct wire_message message = {
            .buffer = nothing, .bytes = small_bytes, .peer = 1, .tag = i};
        if (wire_send(wire, &message))
            return -1;
    }
    return 0;
}

static int accept_small_one(void *context, int peer, int tag, size_t bytes,
                            struct wire_message *out)
{
    static char room[MOST_AT_ONCE][SMALL_BYTES];

    (void)context;
    (void)peer;
    CHECK(bytes == small_bytes, "%zu bytes", bytes);
    out->buffer = room[tag % MOST_AT_ONCE];
    out->done = take_float;
    return 0;
}

/* However eager MPI is to take small messages: before the receiver's wire takes any, no more than
 * the peer's share of the window may leave, or nothing could overtake the rest. Those of less than
 * a 2,048th of the window count as such a part, and share replies. */
void window(int argc, char **argv)
{
    bool tiny = argc > 0 && !strcmp(argv[0], "tiny");
    uint64_t at_once = tiny ? MOST_AT_ONCE : AT_ONCE;
    struct wire_options options = usual();
    struct timespec nap = {.tv_nsec = 1000000};
    int mine = (int)getpid(), all[2], number;
    sigset_t go;

    small_bytes = tiny ? 4 : SMALL_BYTES;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    CHECK(!pthread_sigmask(SIG_BLOCK, &go, NULL), "no mask");
    MPI_Allgather(&mine, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    options.accept = accept_small_one;
    options.sends.window = 8 * AT_ONCE * SMALL_BYTES;
    open_wire(&options);
    if (rank == 1)
        CHECK(!sigwait(&go, &number), "no signal");
    CHECK(!wire_start(wire), "%s", error_text());
    if (rank == 0) {
        uint64_t polls;
        wire_call(wire, post_small_ones, NULL, 0);
        while (wire_stats(wire).messages_sent < at_once)
            nanosleep(&nap, NULL);
        polls = wire_stats(wire).polls;
        while (wire_stats(wire).polls < polls + 50)
            nanosleep(&nap, NULL);
        CHECK(wire_stats(wire).messages_sent == at_once, "%llu messages left",
              (unsigned long long)wire_stats(wire).messages_sent);
        CHECK(!kill(all[1], SIGUSR1), "cannot wake rank 1");
    }
    close_wire(0, 0);
    CHECK(rank == 0 || received == SMALL_ONES, "%lld received", (long long)received);
    CHECK(rank == 1 || replies == (tiny ? SMALL_ONES / 65 : SMALL_ONES), "%d replies", replies);
    wire_destroy(wire);
}
