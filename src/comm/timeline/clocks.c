/* Cristian's method: rank 0 asks for a rank's time, notes when it asked and when the answer came,
 * and takes the answer to be the time in the middle. */
#include "timeline/clocks.h"

#include "util/agree.h"
#include "util/error.h"

enum { TAG_CLOCK = 1, ROUNDS = 32 };

static int ask_clock(MPI_Comm comm, const struct trace *trace, int peer, struct clock_offset *out)
{
    out->error = 1e18;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t asked = trace_clock(trace), reply = 0, answered;
        if (MPI_STATUS(MPI_Send(&asked, 1, MPI_INT64_T, peer, TAG_CLOCK, comm)) ||
            MPI_STATUS(MPI_Recv(&reply, 1, MPI_INT64_T, peer, TAG_CLOCK, comm, MPI_STATUS_IGNORE)))
            return -1;
        answered = trace_clock(trace);
        double half = (double)(answered - asked) / 2;
        if (half < out->error)
            *out = (struct clock_offset){
                .at = reply, .error = half, .offset = (double)(reply - asked) - half};
    }
    return 0;
}

static int answer_clock(MPI_Comm comm, const struct trace *trace)
{
    for (int i = 0; i < ROUNDS; i++) {
        int64_t asked, now;
        if (MPI_STATUS(MPI_Recv(&asked, 1, MPI_INT64_T, 0, TAG_CLOCK, comm, MPI_STATUS_IGNORE)))
            return -1;
        now = trace_clock(trace);
        if (MPI_STATUS(MPI_Send(&now, 1, MPI_INT64_T, 0, TAG_CLOCK, comm)))
            return -1;
    }
    return 0;
}

int clock_compare(MPI_Comm comm, const struct trace *trace, struct clock_offset *out)
{
    int rank, nranks;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &nranks);
    if (rank > 0)
        return error_status(answer_clock(comm, trace) ||
                            MPI_STATUS(MPI_Recv(out, (int)sizeof *out, MPI_BYTE, 0, TAG_CLOCK, comm,
                                                MPI_STATUS_IGNORE)));
    *out = (struct clock_offset){.at = trace_clock(trace)};
    for (int peer = 1; peer < nranks; peer++) {
        struct clock_offset found;
        if (ask_clock(comm, trace, peer, &found) ||
            MPI_STATUS(MPI_Send(&found, (int)sizeof found, MPI_BYTE, peer, TAG_CLOCK, comm)))
            return -1;
    }
    return 0;
}

int64_t clock_align(const struct clock_offset *before, const struct clock_offset *after,
                    int64_t time)
{
    double span = (double)(after->at - before->at), offset = before->offset;

    if (span > 0)
        offset += (after->offset - before->offset) * ((double)(time - before->at) / span);
    return time - (int64_t)(offset < 0 ? offset - 0.5 : offset + 0.5);
}
