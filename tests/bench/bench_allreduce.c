/* Which allreduce is faster for which size: ours (src/comm/sync/allreduce.c, two trips of
 * point-to-point messages, every rank the home of a part) or MPI_Iallreduce. In turns, the same
 * buffers, medians over the repetitions of the slowest rank. Both leave the sum on every rank; ours
 * is made by the wire's thread, as in training, and applies no rule.
 *
 *     mpirun -np N bench_allreduce [REPETITIONS] */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/engine.h"
#include "plan/cost.h"
#include "sync/sync.h"
#include "util/clock.h"
#include "util/error.h"

enum { SIZES = 10, MOST = 64 };

static void die(int rank)
{
    fprintf(stderr, "rank %d: %s\n", rank, error_text());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;

    return a < b ? -1 : a > b;
}

/* Of the slowest rank. */
static double median(double *seconds, int count)
{
    MPI_Allreduce(MPI_IN_PLACE, seconds, count, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    qsort(seconds, (size_t)count, sizeof *seconds, by_value);
    return seconds[count / 2];
}

static double run_theirs(float *from, float *to, size_t elems)
{
    MPI_Request request;
    double start;

    MPI_Barrier(MPI_COMM_WORLD);
    start = clock_seconds();
    MPI_Iallreduce(from, to, (int)elems, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    return clock_seconds() - start;
}

/* One size; the sync lives for all its repetitions, and between them MPI is the wire thread's.
 */
static void compare(size_t elems, int repetitions, int rank, int nranks)
{
    static const struct engine_i table = {
        .name = "host", .copies = &device_host_copies, .services = &device_host_services};
    struct engine engine = {.i = &table};
    struct group_param param = {.elems = elems, .lr_mult = 1};
    struct group group = {
        .name = "all", .elems = elems, .nparams = 1, .params = &param, .trains = true};
    struct sync_model model = {.elems = elems, .engine = &engine};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, scheme_find(sync_schemes, "allreduce")},
                                   .nranks = nranks,
                                   .iter_size = 1,
                                   .sizes.chunk = COST_USUAL_SIZES.chunk};
    struct sync_options how = {.overlap = true, .sends.window = COST_USUAL_SIZES.window};
    struct sync_update update = {.describe = NULL};
    double ours[MOST], theirs[MOST], zero = 0;
    struct plan *plan;
    struct sync *sync;

    model.engine_values = model.values = calloc(elems, sizeof(float));
    model.engine_grads = model.grads = calloc(elems, sizeof(float));
    if (!model.values || !model.grads || plan_create(&options, 1, &group, &plan) ||
        sync_create(MPI_COMM_WORLD, plan, &model, &update, &how, &sync))
        die(rank);
    for (int i = 0; i < repetitions; i++)
        theirs[i] = run_theirs(model.grads, model.values, elems);
    if (sync_start(sync))
        die(rank);
    for (int i = 0; i < repetitions; i++) {
        double start;
        if (sync_sum(sync, &zero, 1)) /* all start together */
            die(rank);
        start = clock_seconds();
        if (sync_post(sync, 0, true) || sync_wait(sync, 0))
            die(rank);
        ours[i] = clock_seconds() - start;
    }
    if (sync_close(sync, 0))
        die(rank);
    sync_destroy(sync);
    plan_destroy(plan);
    free(model.values);
    free(model.grads);
    double a = median(ours, repetitions), b = median(theirs, repetitions);
    if (rank == 0)
        printf("| %zu kB | %.3f | %.3f | %.2f |\n", elems * sizeof(float) / 1024, a * 1e3, b * 1e3,
               b / a);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, nranks, level, repetitions = argc > 1 ? atoi(argv[1]) : 9;

    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace",
           0); /* as command_start_mpi does, and why is said there */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    repetitions = repetitions < 1 ? 1 : repetitions > MOST ? MOST : repetitions;
    if (rank == 0)
        printf("%d ranks, medians of %d\n\n| size | ours ms | MPI_Iallreduce ms | ratio "
               "|\n|---|---|---|---|\n",
               nranks, repetitions);
    for (int s = 0; s < SIZES; s++)
        compare((size_t)1024 << s << s / 2, repetitions, rank, nranks); /* 4 kB to 32 MB */
    MPI_Finalize();
    return 0;
}
