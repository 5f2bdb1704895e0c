/* Every scheme against the plain mathematics, bit for bit, and every byte against the prediction.
 *
 * A net made by hand (conformance_net.c) runs some iterations through sync; each rank also computes
 * serially what all workers together must arrive at (conformance_serial.c). MPI's profiling
 * interface counts what was really put on the wire (conformance_mpi.c). Collective; run under
 * mpirun:
 *
 *     sync_conformance [--OPTION=VALUE...] [--cases=FILE]
 *
 * runs the one case that the options describe (--help lists them), or one for each line of FILE,
 * whose options add to those of the command line, in one process after another: starting ranks
 * takes longer than most cases. With --seeds a case is repeated that often, and the profiling
 * interface delays sends and lets completions be seen late and in random order, another one every
 * time. With --staleness the gradients do not depend on the values, so that the serial run is still
 * the end; on the way each group must hold the parameters of one of the last S + 1 iterations. The
 * first rank prints a line that starts with "ok:" for each case; the first that fails ends all
 * ranks. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/mpi/conformance.h"
#include "util/clock.h"
#include "plan/for_schemes.h"

enum { LINE = 512 };
static int rank, nranks;
char conformance_text[3 * LINE];

/* Whether the group holds the parameters of one of the last iterations. versions: the serial run's
 * after 0, 1, ... iterations. */
static bool is_recent(const struct made_net *net, const float *versions, const struct group *g,
                      int iteration, int staleness)
{
    for (int v = iteration; v >= 0 && v >= iteration - staleness; v--)
        if (!memcmp(net->values + g->begin, versions + (size_t)v * net->elems + g->begin,
                    g->elems * sizeof(float)))
            return true;
    return false;
}

/* versions: NULL without staleness. */
static int worker_iteration(struct sync *sync, const struct plan *plan, struct made_net *net,
                            int iteration, int staleness, const float *versions)
{
    for (int g = 0; g < GROUPS; g++)
        if (sync_wait(sync, g))
            return -1;
    for (int g = 0; versions && g < GROUPS; g++)
        REQUIRE(is_recent(net, versions, &net->groups[g], iteration, staleness),
                "iteration %d: group %d is older than %d iterations, or torn", iteration, g,
                staleness);
    return conformance_backward(sync, plan, net, rank, iteration);
}

/* What all iterations put on the wire; those before low rank begins, chunk by chunk as an allreduce
 * does. */
static struct traffic predict(const struct plan *plan, int bucket, int iterations, int warmup)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct traffic t = plan_traffic(plan, bucket, rank);
    uint64_t exact = b->rank > 0 ? (uint64_t)warmup : 0, times = (uint64_t)iterations - exact;
    uint64_t others = (uint64_t)plan->nworkers - 1;

    t = (struct traffic){t.sent * times, t.received * times, t.messages * times};
    for (int c = b->first_chunk; exact && c < b->first_chunk + b->nchunks; c++) {
        uint64_t bytes = plan->chunks[c].elems * sizeof(float) * exact;
        uint64_t each = plan_home(plan, c) == plan->leader[rank] ? others : 1;
        if (!plan_is_worker(plan, rank) || !plan_leads_chunk(plan, c, rank))
            continue;
        t.sent += each * bytes;
        t.received += each * bytes;
        t.messages += each * exact;
    }
    return t;
}

/* What MPI saw against the prediction, per bucket, and against what the program counted. */
static void check_bytes(const struct plan *plan, struct sync *sync, const struct counted *measured,
                        int iterations, int warmup)
{
    uint64_t sent = 0;

    for (int g = 0; g < plan->nbuckets; g++) {
        struct traffic t = predict(plan, g, iterations, warmup);
        REQUIRE(measured->sent[g] == t.sent && measured->received[g] == t.received,
                "bucket %d (%s): %llu bytes sent and %llu received, predicted %llu and %llu", g,
                plan->buckets[g].label.text, (unsigned long long)measured->sent[g],
                (unsigned long long)measured->received[g], (unsigned long long)t.sent,
                (unsigned long long)t.received);
        REQUIRE(measured->messages[g] == t.messages,
                "bucket %d (%s): %llu messages, predicted %llu", g, plan->buckets[g].label.text,
                (unsigned long long)measured->messages[g], (unsigned long long)t.messages);
        sent += measured->sent[g];
    }
    REQUIRE(sync_stats(sync)->wire.sent == sent, "the program counted %llu bytes sent, MPI %llu",
            (unsigned long long)sync_stats(sync)->wire.sent, (unsigned long long)sent);
}

/* The serial values after 0, 1, ... iterations; freed by the caller. */
static float *serial_versions(struct serial *serial, int iterations)
{
    size_t elems = serial->elems;
    float *versions = malloc((size_t)(iterations + 1) * elems * sizeof *versions);

    REQUIRE(versions, "memory is full");
    for (int t = 0; t <= iterations; t++) {
        memcpy(versions + (size_t)t * elems, serial->values, elems * sizeof(float));
        if (t < iterations)
            serial_iteration(serial, 0, t, rank);
    }
    return versions;
}

/* The last rank fails while the others collect the history, a part of which is its own: rank 0's
 * receives stay open, and nobody may free under them. */
static void fail_in_gather(struct sync *sync)
{
    const float *history = NULL;
    int status;

    if (rank == nranks - 1) {
        usleep(100000);
        REQUIRE(sync_close(sync, error_set("a full disk")), "a failure is closed as none");
    } else {
        status = sync_gather_history(sync, &history);
        REQUIRE(!history && (status || rank != 0), "a history came without the last rank's part");
        REQUIRE(sync_close(sync, status), "another rank's failure is not told");
    }
    REQUIRE(strstr(error_text(), "a full disk"), "the message is '%s'", error_text());
}

/* Whether the serial run knows what was added. */
static bool is_known(const struct conformance *c)
{
    return c->drop == 0 || c->late != LATE_RANDOM;
}

/* Whether the chunk's scheme keeps residuals of its leaders' gradients, or of its sum. */
static bool owes(const struct plan *plan, int chunk, bool of_sum)
{
    const struct bucket *b = &plan->buckets[plan->chunks[chunk].bucket];

    if (!b->scheme || !b->trains)
        return false;
    return of_sum ? plan_codec(plan, chunk) && b->scheme->codec_back
                  : plan_codec(plan, chunk) || b->rank > 0;
}

/* The elements of such chunks, of an arena into another; otherwise 0. */
static void copy_owed(const struct plan *plan, bool of_sum, const float *from, float *to)
{
    for (int c = 0; c < plan->nchunks; c++)
        for (size_t i = plan->chunks[c].begin; i < plan->chunks[c].begin + plan->chunks[c].elems;
             i++)
            to[i] = owes(plan, c, of_sum) ? from[i] : 0;
}

/* A residual of the run before this one, the same on every rank. */
static float owed_before(int number, size_t i)
{
    return (float)((i + 5 * (size_t)number) % 13) * 1e-3f;
}

/* This run goes on from another, of `leaders` leaders, or as many as there are. However many they
 * were, an update is owed the same; and a basis is given to all. */
static void lose_before(struct sync *sync, struct serial *serial, int leaders)
{
    const struct plan *plan = serial->plan;
    size_t elems = serial->elems, left = 0;
    struct sync_residuals own = sync_residuals(sync), from = own;
    double part = 1;
    float *arena = calloc(elems, sizeof *arena);

    REQUIRE(arena, "memory is full");
    if (own.leaders > 0 && leaders > 0 && leaders != own.leaders) {
        from.leaders = leaders;
        from.gradients = 3 * leaders;
        part = (double)own.gradients / (3 * leaders) / own.leaders;
    }
    for (int n = 0; n < sync_residual_arenas(&from); n++) {
        for (size_t i = 0; i < elems; i++)
            arena[i] = owed_before(n, i);
        REQUIRE(!sync_load_residuals(sync, &from, n, arena, &left), "%s", error_text());
        for (size_t i = 0; i < elems; i++)
            if (n >= from.leaders + from.sums)
                serial->second[i] = arena[i];
            else if (n >= from.leaders)
                serial->lost_home[i] =
                    part == 1 ? arena[i] : (float)(arena[i] * part * own.leaders);
            else
                for (int l = 0; l < own.leaders; l++)
                    if (part != 1 || l == n)
                        serial->lost[(size_t)l * elems + i] += (float)(arena[i] * part);
    }
    for (int l = 0; l < own.leaders; l++)
        copy_owed(plan, false, serial->lost + (size_t)l * elems, serial->lost + (size_t)l * elems);
    copy_owed(plan, true, serial->lost_home, serial->lost_home);
    free(arena);
}

static void check_owed(struct sync *sync, const struct serial *serial)
{
    struct sync_residuals own = sync_residuals(sync);
    size_t elems = serial->elems;
    float *found, *expected = calloc(elems, sizeof *expected);

    REQUIRE(expected, "memory is full");
    for (int n = 0; n < sync_residual_arenas(&own); n++) {
        bool basis = n >= own.leaders + own.sums;
        REQUIRE(!sync_gather_residuals(sync, n, &found), "%s", error_text());
        REQUIRE((rank == 0) == (found != NULL), "rank %d has residuals", rank);
        memset(expected, 0, elems * sizeof *expected);
        if (n < own.leaders)
            copy_owed(serial->plan, false, serial->lost + (size_t)n * elems, expected);
        else if (!basis)
            copy_owed(serial->plan, true, serial->lost_home, expected);
        for (int b = 0; basis && b < serial->plan->nbuckets; b++)
            for (size_t i = 0;
                 serial->plan->buckets[b].rank > 0 && i < plan_low_rank(serial->plan, b).elems[1];
                 i++)
                expected[serial->plan->buckets[b].begin + i] =
                    serial->second[serial->plan->buckets[b].begin + i];
        for (size_t i = 0; found && i < elems; i++)
            REQUIRE(!memcmp(&found[i], &expected[i], sizeof *found),
                    "residual %zu of arena %d is %g, not %g", i, n, (double)found[i],
                    (double)expected[i]);
    }
    free(expected);
}

/* All iterations, and what must hold at their end. */
static void train(struct sync *sync, const struct plan *plan, struct made_net *net,
                  const struct conformance *c, struct serial *serial)
{
    int iterations = (int)c->iterations;
    bool worker = plan_is_worker(plan, rank);
    float *versions = NULL;
    const float *history;
    struct counted measured = {.sent = {0}};

    if (c->staleness > 0)
        versions = serial_versions(serial, iterations);
    counting_start(plan);
    REQUIRE(!sync_start(sync), "%s", error_text());
    if (c->drop > 0)
        late_train(sync, plan, net, c, serial, rank);
    for (int t = 0; t < iterations && c->drop == 0; t++) {
        if (worker)
            REQUIRE(!worker_iteration(sync, plan, net, t, (int)c->staleness, versions), "%s",
                    error_text());
        else
            REQUIRE(!sync_wait_all(sync, t), "%s", error_text());
        if (!versions)
            serial_iteration(serial, (float)c->clip, t, rank);
    }
    REQUIRE(!sync_wait_all(sync, iterations - 1) || !worker, "%s", error_text());
    if (worker) {
        double ones[3] = {1, rank == 0, 2};
        REQUIRE(!is_known(c) ||
                    memcmp(net->values, serial->values, net->elems * sizeof(float)) == 0,
                "parameters differ from the serial run");
        REQUIRE(!sync_sum(sync, ones, 3) && ones[0] == plan->ncomputing && ones[1] == 1,
                "sum is wrong");
    }
    if (worker || c->drop == 0)     /* servers may still answer late workers */
        measured = counting_stop(); /* history is control traffic */
    free(versions);
    if (c->fails) {
        fail_in_gather(sync);
        return;
    }
    REQUIRE(!sync_gather_history(sync, &history), "%s", error_text());
    REQUIRE(rank != 0 || !is_known(c) ||
                memcmp(history, serial->history, net->elems * sizeof(float)) == 0,
            "history differs from the serial run");
    if (is_known(c))
        check_owed(sync, serial);
    if (c->drop > 0)
        late_check_bytes(plan, sync_stats(sync), &measured, c, rank);
    else
        check_bytes(plan, sync, &measured, iterations, (int)c->warmup);
    REQUIRE(!sync_close(sync, 0), "%s", error_text());
    (void)counting_stop();
    if (c->drop > 0)
        late_check_counts(plan, sync_stats(sync), c, rank);
}

static int count_trees(const struct plan *plan)
{
    int count = 0;

    for (int b = 0; b < plan->nbuckets; b++)
        count += plan->buckets[b].log_steps;
    return count;
}

/* One training from start to end. */
static void run(const struct conformance *c)
{
    int workers = nranks - (int)c->servers;
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = c->comm,
                                   .wire = (enum wire_format)c->wire,
                                   .ways = c->ways,
                                   .nranks = nranks,
                                   .servers = (int)c->servers,
                                   .sizes.chunk = (size_t)c->chunk,
                                   .sizes.merge = (size_t)c->merge,
                                   .lags = c->staleness > 0 || c->drop > 0,
                                   .drop = (int)c->drop,
                                   .tree_leaders = (int)c->tree,
                                   .rails = (int)c->leaders,
                                   .factor_bytes = (size_t)c->factors,
                                   .iter_size = (int)c->iter_size};
    struct sync_options sync_options = {.overlap = c->overlap != OVERLAP_NONE,
                                        .forward_waits_all = c->overlap == OVERLAP_BACKWARD,
                                        .clip = (float)c->clip,
                                        .sends = {.window = (size_t)c->window, .fifo = c->fifo},
                                        .staleness = (int)c->staleness,
                                        .lowrank_warmup = (int)c->warmup,
                                        .seed = CONFORMANCE_SEED,
                                        .threads = (int)c->threads};
    struct topology topology = {0};
    struct node_map map = {.node = NULL};
    struct node *node = NULL;
    struct sync_update update = {.nhistory = 1, .describe = conformance_describe};
    struct made_net net = {0};
    struct sync_model model;
    struct serial serial;
    struct plan *plan;
    struct sync *sync;
    int *parts = calloc((size_t)workers, sizeof *parts);
    bool large = c->net == NET_LARGE || (c->net == NET_AUTO && c->node > 0);

    REQUIRE(parts && c->parts <= MOST_PARTS, "at most %d parts", MOST_PARTS);
    for (int w = 0; w < workers; w++)
        parts[w] = 1 + (w + (int)c->parts - 1) % (int)c->parts;
    options.parts = parts;
    options.batch = 1;
    conformance_net_make(&net, large ? 20000 : 300, c->frozen);
    conformance_feedback(c->staleness > 0 ? 0 : 0.1f);
    if (c->node > 0) {
        REQUIRE(!topology_create(MPI_COMM_WORLD, &topology) &&
                    !node_map_create(topology.machine, topology.nmachines, topology.nranks, workers,
                                     (int)c->node, &map) &&
                    !node_create(MPI_COMM_WORLD, &topology, &map, net.elems, &node),
                "%s", error_text());
        options.nodes = map.node;
        sync_options.node = node;
    }
    if (rank < workers)
        conformance_net_place(&net, node);
    REQUIRE(!plan_create(&options, GROUPS, net.groups, &plan), "%s", error_text());
    REQUIRE(plan->rails == c->leaders, "%d leaders a node instead of %ld", plan->rails, c->leaders);
    REQUIRE(c->merge < 1 << 20 || plan->nbuckets <= 4, "nothing was merged");
    REQUIRE(c->factors == 0 || plan->in_rounds, "no factors travel in rounds");
    REQUIRE(c->tree == 0 || count_trees(plan) > 0, "nothing travels along a tree");
    model = conformance_model(&net);
    REQUIRE(!sync_create(MPI_COMM_WORLD, plan, &model, &update, &sync_options, &sync), "%s",
            error_text());
    REQUIRE(serial_create(plan, &net, &serial), "memory is full");
    serial.warmup = (int)c->warmup;
    if (rank == 0)
        memcpy(net.values, serial.values, net.elems * sizeof(float));
    REQUIRE(!sync_share_values(sync), "%s", error_text());
    REQUIRE(!sync_load_history(sync, serial.history), "%s", error_text());
    if (c->warmup == 0)
        lose_before(sync, &serial, (int)c->owed);
    train(sync, plan, &net, c, &serial);
    sync_destroy(sync);
    serial_free(&serial);
    plan_destroy(plan);
    if (rank < workers)
        conformance_net_free(&net, node);
    node_destroy(node);
    node_map_free(&map);
    topology_free(&topology);
    free(parts);
}

static void on_alarm(int signal)
{
    static const char words[] = ": did not end within its --limit\n";
    size_t length = strlen(conformance_text);

    (void)signal;
    if (write(STDERR_FILENO, conformance_text, length) < 0 ||
        write(STDERR_FILENO, words, sizeof words - 1) < 0)
        _exit(125);
    _exit(124);
}

static void run_case(const struct conformance *c)
{
    double start = clock_seconds();

    alarm((unsigned)c->limit);
    chaos_naps(c->drop > 0 && c->late == LATE_RANDOM);
    for (long seed = c->seeds > 0; seed <= c->seeds; seed++) {
        chaos_set(seed ? (uint64_t)seed * 1000003 + (uint64_t)rank + 1 : 0);
        run(c);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    alarm(0);
    if (rank == 0) {
        printf("ok: %d ranks, %.1f s:%s\n", nranks, clock_seconds() - start, conformance_text);
        fflush(stdout);
    }
}

/* Takes the options of one line, words between blanks, on top of `c`. */
static int line_read(char *line, struct conformance *c)
{
    for (char *word = strtok(line, " \t\n"); word; word = strtok(NULL, " \t\n"))
        if (conformance_option(c, word))
            return -1;
    return 0;
}

/* Every line of the file; lines that start with # and empty ones are none. */
static int run_file(const char *path, const struct conformance *standard)
{
    FILE *file = fopen(path, "r");
    char line[LINE];
    size_t used = strlen(conformance_text);
    int status = 0;

    if (!file)
        return error_set("%s cannot be read", path);
    while (!status && fgets(line, sizeof line, file)) {
        struct conformance c = *standard;
        line[strcspn(line, "\n")] = '\0';
        if (!*line || *line == '#')
            continue;
        snprintf(conformance_text + used, 2 * LINE, " %s", line);
        status = line_read(line, &c);
        if (!status)
            run_case(&c);
    }
    fclose(file);
    return status;
}

static int run_arguments(int argc, char **argv)
{
    struct conformance c;
    const char *path = NULL;

    conformance_defaults(&c);
    for (int i = 1; i < argc; i++) {
        if (!strncmp(argv[i], "--cases=", 8)) {
            path = argv[i] + 8;
        } else if (!strcmp(argv[i], "--help")) {
            if (rank == 0)
                conformance_options_help(stdout);
            return 0;
        } else if (conformance_option(&c, argv[i])) {
            return -1;
        } else {
            size_t used = strlen(conformance_text);
            if (used + strlen(argv[i]) + 2 > LINE)
                return error_set("the command line is too long");
            snprintf(conformance_text + used, LINE - used, " %s", argv[i]);
        }
    }
    if (path)
        return run_file(path, &c);
    run_case(&c);
    return 0;
}

int main(int argc, char **argv)
{
    int level, status;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    signal(SIGALRM, on_alarm);
    status = run_arguments(argc, argv);
    if (status && rank == 0)
        fprintf(stderr, "sync_conformance: %s\n", error_text());
    MPI_Finalize();
    return status ? 2 : 0;
}
