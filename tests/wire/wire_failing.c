/* Scenarios of ranks that fail, or that others wait for. */
#include <signal.h>

#include "tests/wire/wire_rig.h"
#include "util/strbuf.h"

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
void failing(int argc, char **argv)
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
void unstarted(int argc, char **argv)
{
    bool fails = argc > 0 && !strcmp(argv[0], "fail");
    struct wire_options options = usual();

    options.accept = accept_float;
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

static void describe_moon(void *context, struct strbuf *text)
{
    (void)context;
    strbuf_puts(text, " for the moon (rank 1)");
}

static void seventh(void *context, struct wire_place *out)
{
    (void)context;
    out->iteration = 7;
}

static int accept_late(void *context, int peer, int tag, size_t bytes, struct wire_message *out)
{
    int status = accept_float(context, peer, tag, bytes, out);

    out->done = take_float;
    return status;
}

static int pids[64];

static void warn_and_wake(void *context, const char *text)
{
    (void)context;
    snprintf(warning, sizeof warning, "%s", text);
    atomic_store(&warned, 1);
    for (int r = 1; r < nranks && rank == 0; r++)
        CHECK(!kill(pids[r], SIGUSR1), "cannot wake rank %d", r);
}

/* The others do nothing until rank 0 has complained. */
void stall(int argc, char **argv)
{
    struct wire_options options = usual();
    int mine = (int)getpid(), number;
    sigset_t go;

    (void)argc;
    (void)argv;
    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    CHECK(!pthread_sigmask(SIG_BLOCK, &go, NULL), "no mask");
    MPI_Allgather(&mine, 1, MPI_INT, pids, 1, MPI_INT, MPI_COMM_WORLD);
    options.accept = accept_late;
    options.describe_wait = describe_moon;
    options.watch = (struct wire_watch){.stall_seconds = 3, /* signs of life come every second */
                                        .warn = warn_and_wake,
                                        .where = seventh};
    open_wire(&options);
    place = IN_NOTHING;
    CHECK(!wire_start(wire), "%s", error_text());
    if (rank != 0)
        CHECK(!sigwait(&go, &number), "no signal");
    if (rank == 1) {
        CHECK(!warned, "%s", warning);
        wire_call(wire, fail_call, NULL, 0);
    }
    if (rank == 2 % nranks) {
        CHECK(!wire_wait(wire, &received, 1, NULL), "%s", error_text());
        if (rank == 0)
            CHECK(warned && strstr(warning, "rank 0 has waited") && strstr(warning, "the moon") &&
                      (nranks == 1 || strstr(warning, "; rank 1 is in iteration 7")) &&
                      !strstr(warning, "rank 0 is"),
                  "'%s'", warning);
    }
    close_wire(0, 0);
    CHECK(rank != 0 || strstr(warning, "the moon"), "'%s'", warning);
    wire_destroy(wire);
}
