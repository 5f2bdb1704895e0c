/* The seams of schemes and of gathering: a scheme and a gathering that no file of src knows of
 * train the net of sync_conformance, and must arrive at the serial run's bits with the bytes that
 * the plan predicts. Collective; run under mpirun without arguments; rank 0 prints "ok:" for each
 * case. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sync/gather.h"
#include "tests/mpi/conformance.h"
#include "tests/plan/schemes.h"
#include "tests/sync/fakes.h"

enum { ITERATIONS = 8 };

static int rank, nranks;
char conformance_text[128];

static const struct seam_case {
    const char *name;
    const struct scheme *scheme; /* NULL: each group of its own, in turn the test's and PS */
    const struct gather_i *gather;
    float clip;
    int iter_size, servers;
    size_t merge, chunk;
    bool overlap;
    int seeds;
} cases[] = {
    {"a scheme", &scheme_flood, NULL, 0, 1, 0, 0, 1024, true, 0},
    {"a scheme, clipped, two micro-batches", &scheme_flood, NULL, 0.2f, 2, 0, 0, 300, true, 0},
    {"a scheme, merged, no overlap", &scheme_flood, NULL, 0.2f, 1, 0, 1 << 20, 1024, false, 0},
    {"a scheme, delayed", &scheme_flood, NULL, 0.3f, 1, 0, 0, 512, true, 8},
    {"a scheme beside another", NULL, NULL, 0.3f, 1, 0, 0, 400, true, 4},
    {"a scheme beside servers", NULL, NULL, 0.3f, 1, 1, 0, 400, true, 0},
    {"a gathering under PS", &scheme_ps, &gather_late, 0, 1, 0, 0, 300, true, 4},
    {"a gathering under PS, clipped", &scheme_ps, &gather_late, 0.2f, 2, 0, 2000, 300, true, 0},
    {"a gathering under SFB", &scheme_sfb, &gather_late, 0.2f, 1, 0, 0, 1024, true, 4},
    {"both", &scheme_flood, &gather_late, 0.2f, 1, 0, 0, 1024, true, 8},
};

static int iterate(struct sync *sync, const struct plan *plan, struct made_net *net, int iteration)
{
    for (int g = 0; g < GROUPS; g++)
        if (sync_wait(sync, g))
            return -1;
    return conformance_backward(sync, plan, net, rank, iteration);
}

static struct plan *make_plan(const struct seam_case *c, const struct made_net *net)
{
    struct way mixed[GROUPS] = {{.scheme = NULL}};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, c->scheme},
                                   .ways = mixed,
                                   .nranks = nranks,
                                   .servers = c->servers,
                                   .sizes.chunk = c->chunk,
                                   .sizes.merge = c->merge,
                                   .iter_size = c->iter_size};
    struct plan *plan;

    for (int g = 0; g < GROUPS; g++)
        mixed[g].scheme = g % 2 ? &scheme_ps : &scheme_flood;
    if (!c->scheme)
        options.comm.policy = COMM_AUTO;
    REQUIRE(!plan_create(&options, GROUPS, net->groups, &plan), "%s", error_text());
    return plan;
}

/* What MPI saw is what the plan says; every bucket was marked, posted and published as often as it
 * was trained. */
static void check(const struct seam_case *c, const struct plan *plan,
                  const struct counted *measured)
{
    int64_t times = 0;

    for (int b = 0; b < plan->nbuckets; b++) {
        struct traffic t = plan_traffic(plan, b, rank);
        REQUIRE(measured->sent[b] == t.sent * ITERATIONS &&
                    measured->received[b] == t.received * ITERATIONS,
                "bucket %d: %llu bytes sent, %llu received", b,
                (unsigned long long)measured->sent[b], (unsigned long long)measured->received[b]);
        times += plan->buckets[b].trains || plan->buckets[b].decays ? ITERATIONS : 0;
    }
    if (c->gather == &gather_late)
        REQUIRE(late_counts.marks == times && late_counts.posts == times &&
                    late_counts.polls == times && late_counts.publishes == times,
                "%lld marks, %lld posts, %lld polls and %lld publishes instead of %lld each",
                (long long)late_counts.marks, (long long)late_counts.posts,
                (long long)late_counts.polls, (long long)late_counts.publishes, (long long)times);
}

static void run(const struct seam_case *c)
{
    struct sync_options options = {.overlap = c->overlap, .clip = c->clip, .gather = c->gather};
    struct sync_update update = {.nhistory = 1, .describe = conformance_describe};
    struct made_net net = {0};
    struct sync_model model;
    struct counted measured;
    struct serial serial;
    struct plan *plan;
    struct sync *sync;
    const float *history;
    double one = 1;

    conformance_net_make(&net, 300, false);
    plan = make_plan(c, &net);
    if (plan_is_worker(plan, rank))
        conformance_net_place(&net, NULL);
    model = conformance_model(&net);
    REQUIRE(!sync_create(MPI_COMM_WORLD, plan, &model, &update, &options, &sync), "%s",
            error_text());
    REQUIRE(serial_create(plan, &net, &serial), "memory is full");
    if (rank == 0)
        memcpy(net.values, serial.values, net.elems * sizeof(float));
    REQUIRE(!sync_share_values(sync) && !sync_load_history(sync, serial.history), "%s",
            error_text());
    counting_start(plan);
    REQUIRE(!sync_start(sync), "%s", error_text());
    for (int t = 0; t < ITERATIONS; t++) {
        REQUIRE(!(net.values ? iterate(sync, plan, &net, t) : sync_wait_all(sync, t)), "%s",
                error_text());
        serial_iteration(&serial, c->clip, t, rank);
    }
    REQUIRE(!sync_wait_all(sync, ITERATIONS - 1), "%s", error_text());
    REQUIRE(!net.values || !sync_sum(sync, &one, 1), "%s", error_text()); /* all have all */
    REQUIRE(!net.values || !memcmp(net.values, serial.values, net.elems * sizeof(float)),
            "parameters differ from the serial run");
    measured = counting_stop();
    REQUIRE(!sync_gather_history(sync, &history), "%s", error_text());
    REQUIRE(rank != 0 || !memcmp(history, serial.history, net.elems * sizeof(float)),
            "history differs from the serial run");
    REQUIRE(!sync_close(sync, 0), "%s", error_text());
    check(c, plan, &measured); /* calls that nobody waits for are over, too */
    sync_destroy(sync);
    serial_free(&serial);
    plan_destroy(plan);
    conformance_net_free(&net, NULL);
}

int main(int argc, char **argv)
{
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    alarm(600);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct seam_case *c = &cases[i];
        if (c->servers >= nranks)
            continue;
        snprintf(conformance_text, sizeof conformance_text, " %s", c->name);
        for (int seed = c->seeds > 0; seed <= c->seeds; seed++) {
            chaos_set(seed ? (uint64_t)seed * 1000003 + (uint64_t)rank + 1 : 0);
            run(c);
        }
        if (rank == 0)
            printf("ok: %d ranks:%s\n", nranks, conformance_text);
    }
    MPI_Finalize();
    return 0;
}
