/* Clocks that are wrong by a known amount are found to be wrong by that amount, within the error
 * that the measurement claims for itself; and times taken after a message arrive after it was sent.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "timeline/clocks.h"
#include "util/agree.h"
#include "util/error.h"

/* What every rank's clock reads too much: nothing on rank 0, then +-seconds. */
static int64_t shift_of(int rank)
{
    static const int64_t shifts[] = {0, 5000000000, -7000000123, 1234};

    return shifts[rank % 4];
}

static int check(int rank, const struct clock_offset *offset, const char *when)
{
    double wrong = fabs(offset->offset - (double)(shift_of(rank) - shift_of(0)));

    /* one machine, one clock: the truth is the shift */
    if (wrong <= offset->error + 1)
        return 0;
    return error_set("%s: offset %.0f ns, expected %" PRId64 "; off by %.0f, claimed at most %.0f",
                     when, offset->offset, shift_of(rank) - shift_of(0), wrong, offset->error);
}

/* Passes a token round; its holders' aligned times must not go back by more than the error. */
static int check_token(MPI_Comm comm, const struct trace *trace, const struct clock_offset *before,
                       const struct clock_offset *after, int rank, int nranks, const int64_t *raw)
{
    int64_t mine = clock_align(before, after, *raw), theirs = 0;
    double error = 0;

    (void)trace;
    if (rank > 0) {
        MPI_TRY(MPI_Recv(&theirs, 1, MPI_INT64_T, rank - 1, 9, comm, MPI_STATUS_IGNORE));
        MPI_TRY(MPI_Recv(&error, 1, MPI_DOUBLE, rank - 1, 9, comm, MPI_STATUS_IGNORE));
    }
    error += before->error > after->error ? before->error : after->error;
    if (rank + 1 < nranks) {
        MPI_TRY(MPI_Send(&mine, 1, MPI_INT64_T, rank + 1, 9, comm));
        MPI_TRY(MPI_Send(&error, 1, MPI_DOUBLE, rank + 1, 9, comm));
    }
    if (rank > 0 && (double)(theirs - mine) > error + 2)
        return error_set("a token left rank %d at %" PRId64 " and was here at %" PRId64, rank - 1,
                         theirs, mine);
    return 0;
fail:
    return -1;
}

static int run(MPI_Comm comm, struct trace *trace, int rank, int nranks)
{
    struct clock_offset before, after;
    int64_t raw;
    int token = 0, status;

    if (error_agree(comm, clock_compare(comm, trace, &before)))
        return -1;
    if (rank > 0)
        MPI_TRY(MPI_Recv(&token, 1, MPI_INT, rank - 1, 8, comm, MPI_STATUS_IGNORE));
    raw = trace_clock(trace);
    if (rank + 1 < nranks)
        MPI_TRY(MPI_Send(&token, 1, MPI_INT, rank + 1, 8, comm));
    if (error_agree(comm, clock_compare(comm, trace, &after)))
        return -1;
    status = check(rank, &before, "before") || check(rank, &after, "after");
    if (error_agree(comm, status))
        return -1;
    return error_agree(comm, check_token(comm, trace, &before, &after, rank, nranks, &raw));
fail:
    return -1;
}

int main(int argc, char **argv)
{
    struct trace_options options = {.capacity = 1};
    struct trace *trace = NULL;
    int rank, nranks, status;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    options.clock_shift = shift_of(rank);
    status = error_agree(MPI_COMM_WORLD, trace_create(&options, &trace));
    if (!status)
        status = run(MPI_COMM_WORLD, trace, rank, nranks);
    if (status && rank == 0)
        fprintf(stderr, "test_trace_clock: %s\n", error_text());
    trace_destroy(trace);
    MPI_Finalize();
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}
