/* A wire without a sync: the ranks of an MPI run drive it as SCENARIO says and check what comes of
 * it. Run under mpirun: wire_ranks SCENARIO [ARGUMENT...]; test_wire.sh lists them. */
#include "tests/wire/wire_rig.h"

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
    options.accept = accept_float;
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
    options.sends.bytes_per_second = 8e6; /* 4 MB: half a second */
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

/* ---- rests ---- */

static int every_other_time(void *context)
{
    static int turns;

    (void)context;
    return ++turns % 2;
}

static enum wire_pace polled_pace(void *context)
{
    (void)context;
    return WIRE_POLLED;
}

/* Beside passes that do not wait the thread rests 800 us whatever it finds: it leaves them the
 * core. A machine that has no time for it only lengthens that. */
static void polled(int argc, char **argv)
{
    struct wire_options options = usual();
    struct wire_stats stats;

    (void)argc;
    (void)argv;
    options.accept = accept_float;
    options.poll = every_other_time;
    options.pace = polled_pace;
    open_wire(&options);
    CHECK(!wire_start(wire), "%s", error_text());
    do {
        usleep(1000);
        stats = wire_stats(wire);
    } while (stats.rests < 50);
    CHECK((double)(stats.rests - 1) * 800e-6 <= wire_stats(wire).seconds, "%llu rests in %.4f s",
          (unsigned long long)stats.rests, wire_stats(wire).seconds);
    wire_call(wire, next_call, NULL, 0);
    CHECK(!wire_wait(wire, &called, 1, NULL), "%s", error_text());
    close_wire(0, 0);
    wire_destroy(wire);
}

/* ---- lengths ---- */

static int post_too_long(void *context, int64_t argument)
{
    static float somewhere;
    struct wire_message message = {.buffer = &somewhere, .bytes = (size_t)1 << 31};

    (void)context;
    (void)argument;
    CHECK(wire_send(wire, &message), "2^31 bytes in one message");
    CHECK(strstr(error_text(), "2147483648 bytes"), "%s", error_text());
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
    message.buffer = NULL;
    if (!strcmp(kind, "buffer"))
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
                     {"lengths", lengths}, {"misuse", misuse},       {"window", window},
                     {"polled", polled}};
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
