/* Iterations that end without the slowest workers (plan_options.drop), every case in one of three
 * ways.
 *
 * Held: iterations come in blocks of one, two and three. In each block other workers are late: they
 * post the gradient of its first iteration when the others have ended all of it, and must learn
 * then that the rest is over, too. So the serial run knows whose gradients were added.
 *
 * Stuck: iterations come in pairs. Of the first one some workers are late as above, and others, who
 * have posted, take in no message until the second one is over without them: their answers may not
 * hold up a server, nor change on their way. So they are no servers.
 *
 * Random: nobody is held; delays and naps (conformance_mpi.c) decide. Then parameters must be equal
 * on all ranks, and every gradient that was posted was added or dropped. */
#include <string.h>

#include "tests/mpi/conformance.h"

/* turn: 1: the workers that come behind those of turn 0. */
static unsigned late_in(const struct plan *plan, int block, int turn)
{
    unsigned late = 0;

    for (int i = 0; i < plan->options.drop; i++)
        late |= 1u << (block + turn * plan->options.drop + i) % plan->nworkers;
    return late;
}

/* The iteration behind the block that begins with this one. */
static int block_end(int block, int first, int iterations)
{
    int end = first + 1 + block % 3;

    return end < iterations ? end : iterations;
}

static void meet(struct sync *sync, int rank)
{
    double one = 1;

    REQUIRE(!sync_sum(sync, &one, 1), "%s", error_text());
}

static void compute(struct sync *sync, const struct plan *plan, struct made_net *net, int iteration,
                    int rank)
{
    for (int g = 0; g < GROUPS; g++)
        REQUIRE(!sync_wait(sync, g), "%s", error_text());
    REQUIRE(!conformance_backward(sync, plan, net, rank, iteration), "%s", error_text());
}

static void run_block(struct sync *sync, const struct plan *plan, struct made_net *net, bool late,
                      int first, int end, int rank)
{
    if (late) {
        meet(sync, rank);
        compute(sync, plan, net, first, rank);
    }
    for (int t = first; t < end; t++) {
        bool left_out = late && t > first;
        if (late && t == first)
            continue;
        REQUIRE(sync_leave_out(sync, t) == left_out, "iteration %d: %s", t,
                left_out ? "its end is not known" : "it is taken to be over");
        if (!left_out)
            compute(sync, plan, net, t, rank);
    }
    REQUIRE(!sync_wait_all(sync, end - 1), "%s", error_text());
    if (!late)
        meet(sync, rank);
    meet(sync, rank);
}

static void compute_all(struct sync *sync, const struct plan *plan, struct made_net *net,
                        int iteration, int rank)
{
    REQUIRE(sync_leave_out(sync, iteration) == 0, "iteration %d is taken to be over", iteration);
    compute(sync, plan, net, iteration, rank);
    REQUIRE(!sync_wait_all(sync, iteration), "%s", error_text());
}

static void run_stuck(struct sync *sync, const struct plan *plan, struct made_net *net, int block,
                      int rank)
{
    bool late = late_in(plan, block, 0) >> rank & 1, stuck = late_in(plan, block, 1) >> rank & 1;
    int first = 2 * block;

    if (late)
        meet(sync, rank);
    if (stuck) {
        chaos_hold(true);
        REQUIRE(sync_leave_out(sync, first) == 0, "iteration %d is taken to be over", first);
        compute(sync, plan, net, first, rank);
    } else {
        compute_all(sync, plan, net, first, rank);
    }
    if (!late)
        meet(sync, rank);
    if (!stuck)
        compute_all(sync, plan, net, first + 1, rank);
    meet(sync, rank);
    chaos_hold(false);
    if (stuck)
        compute_all(sync, plan, net, first + 1, rank);
    meet(sync, rank);
}

static void check_values(const struct plan *plan, const struct made_net *net,
                         const struct serial *serial, int end, int rank)
{
    REQUIRE(rank >= plan->nworkers ||
                !memcmp(net->values, serial->values, net->elems * sizeof(float)),
            "after %d iterations parameters differ from the serial run", end);
}

static void train_stuck(struct sync *sync, const struct plan *plan, struct made_net *net,
                        int iterations, struct serial *serial, int rank)
{
    REQUIRE(plan->dedicated && 2 * plan->options.drop < plan->nworkers && iterations % 2 == 0,
            "--late=stuck needs servers, more workers, or one iteration more");
    serial->posts_late = true;
    for (int t = 0; t < iterations; t++) {
        if (t % 2 == 0 && rank < plan->nworkers)
            run_stuck(sync, plan, net, t / 2, rank);
        serial->late = late_in(plan, t / 2, t % 2);
        serial_iteration(serial, (float)serial->clip, t, rank);
        REQUIRE(rank < plan->nworkers || !sync_wait_all(sync, t), "%s", error_text());
        if (t % 2)
            check_values(plan, net, serial, t + 1, rank);
    }
}

static void train_held(struct sync *sync, const struct plan *plan, struct made_net *net,
                       int iterations, struct serial *serial, int rank)
{
    for (int block = 0, first = 0, end; first < iterations; block++, first = end) {
        end = block_end(block, first, iterations);
        serial->late = late_in(plan, block, 0);
        if (rank < plan->nworkers)
            run_block(sync, plan, net, serial->late >> rank & 1, first, end, rank);
        for (int t = first; t < end; t++) {
            serial->posts_late = t == first;
            serial_iteration(serial, (float)serial->clip, t, rank);
            REQUIRE(rank < plan->nworkers || !sync_wait_all(sync, t), "%s", error_text());
        }
        check_values(plan, net, serial, end, rank);
    }
}

/* All workers' sum of equal numbers is exact. */
static void check_equal(struct sync *sync, const struct plan *plan, const struct made_net *net,
                        int rank)
{
    double *sums = malloc(net->elems * sizeof *sums);

    REQUIRE(sums, "memory is full");
    for (size_t i = 0; i < net->elems; i++)
        sums[i] = (double)net->values[i];
    REQUIRE(!sync_sum(sync, sums, (int)net->elems), "%s", error_text());
    for (size_t i = 0; i < net->elems; i++)
        REQUIRE(sums[i] == (double)net->values[i] * plan->nworkers,
                "parameter %zu is not the same on all workers", i);
    free(sums);
}

static void train_random(struct sync *sync, const struct plan *plan, struct made_net *net,
                         int iterations, int rank)
{
    for (int t = 0; t < iterations; t++) {
        int left_out = rank < plan->nworkers ? sync_leave_out(sync, t) : sync_wait_all(sync, t);
        REQUIRE(left_out >= 0, "%s", error_text());
        if (rank < plan->nworkers && !left_out)
            compute(sync, plan, net, t, rank);
    }
    if (rank >= plan->nworkers)
        return;
    REQUIRE(!sync_wait_all(sync, iterations - 1), "%s", error_text());
    check_equal(sync, plan, net, rank);
}

void late_train(struct sync *sync, const struct plan *plan, struct made_net *net,
                const struct conformance *c, struct serial *serial, int rank)
{
    serial->clip = c->clip;
    if (c->late == LATE_RANDOM)
        train_random(sync, plan, net, (int)c->iterations, rank);
    else if (c->late == LATE_STUCK)
        train_stuck(sync, plan, net, (int)c->iterations, serial, rank);
    else
        train_held(sync, plan, net, (int)c->iterations, serial, rank);
}

/* Whose gradients of how many iterations were posted; and of how many of them dropped, where that
 * is known. */
static void count_known(const struct plan *plan, const struct conformance *c, uint64_t *posted,
                        uint64_t *dropped)
{
    int iterations = (int)c->iterations;

    for (int w = 0; w < plan->nworkers && c->late == LATE_STUCK; w++) {
        posted[w] = (uint64_t)iterations;
        for (int t = 0; t < iterations; t++)
            dropped[w] += late_in(plan, t / 2, t % 2) >> w & 1;
    }
    if (c->late == LATE_STUCK)
        return;
    for (int block = 0, first = 0, end; first < iterations; block++, first = end) {
        end = block_end(block, first, iterations);
        for (int w = 0; w < plan->nworkers; w++) {
            bool late = late_in(plan, block, 0) >> w & 1;
            posted[w] += late ? 1 : (uint64_t)(end - first);
            dropped[w] += late;
        }
    }
}

void late_check_bytes(const struct plan *plan, const struct sync_stats *stats,
                      const struct counted *measured, const struct conformance *c, int rank)
{
    uint64_t posted[32] = {0}, dropped[32] = {0};

    if (rank >= plan->nworkers) /* whose last answers nobody waits for; the workers count them */
        return;
    count_known(plan, c, posted, dropped);
    if (c->late == LATE_RANDOM)
        posted[rank] = (uint64_t)(c->iterations - stats->left_out);
    REQUIRE(posted[rank] == (uint64_t)(c->iterations - stats->left_out), "%lld were left out",
            (long long)stats->left_out);
    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        uint64_t sent = 0, received = 0, messages = 0;
        bool serves = false;
        for (int i = bucket->first_chunk; i < bucket->first_chunk + bucket->nchunks; i++) {
            uint64_t out = plan_gradient_bytes(plan, i), back = plan_back_bytes(plan, i);
            bool home = plan_home(plan, i) == rank;
            serves |= home;
            for (int w = 0; w < plan->nworkers && bucket->trains; w++) {
                uint64_t times = posted[w] * ((w == rank) != home);
                sent += times * (home ? back : out);
                received += times * (home ? out : back);
                messages += times;
            }
        }
        if (c->late == LATE_RANDOM && serves) /* it does not know what came from others */
            continue;
        REQUIRE(measured->sent[b] == sent && measured->received[b] == received,
                "bucket %d: %llu bytes sent and %llu received, predicted %llu and %llu", b,
                (unsigned long long)measured->sent[b], (unsigned long long)measured->received[b],
                (unsigned long long)sent, (unsigned long long)received);
        REQUIRE(measured->messages[b] == messages, "bucket %d: %llu messages, predicted %llu", b,
                (unsigned long long)measured->messages[b], (unsigned long long)messages);
    }
}

void late_check_counts(const struct plan *plan, const struct sync_stats *stats,
                       const struct conformance *c, int rank)
{
    uint64_t posted[32] = {0}, expected[32] = {0}, dropped[32] = {0}, all = 0, added;
    uint64_t left_out = (uint64_t)stats->left_out, chunks = 0;
    int workers = plan->nworkers;

    for (int b = 0; b < plan->nbuckets; b++)
        chunks += plan->buckets[b].trains ? (uint64_t)plan->buckets[b].nchunks : 0;
    count_known(plan, c, posted, expected);
    MPI_Allreduce(stats->dropped, dropped, workers, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &left_out, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int w = 0; w < workers; w++) {
        all += dropped[w];
        REQUIRE(c->late == LATE_RANDOM || dropped[w] == expected[w] * chunks,
                "of worker %d %llu gradients of chunks were dropped, not %llu", w,
                (unsigned long long)dropped[w], (unsigned long long)(expected[w] * chunks));
    }
    added = (uint64_t)c->iterations * (uint64_t)(workers - plan->options.drop) * chunks;
    REQUIRE(((uint64_t)(c->iterations * workers) - left_out) * chunks == added + all,
            "%llu gradients of chunks were dropped, and %llu iterations left out: the rest is not "
            "%llu",
            (unsigned long long)all, (unsigned long long)left_out, (unsigned long long)added);
}
