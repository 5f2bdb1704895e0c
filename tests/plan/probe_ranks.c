/* Measures the cluster on the ranks it is started on. With a word: through that file.
 *     probe_ranks          prints the figures once; fails where ranks disagree or figures make no
 * sense probe_ranks FILE     the same, and whether they came from the file The last rank has no
 * engine where there are more than two, as a dedicated server. */
#include <mpi.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "plan/probe.h"
#include "util/error.h"

static int check(const struct probe *probe, int nranks)
{
    const struct cost_cluster *c = &probe->cluster;
    const double rates[] = {c->link_Bps, c->local_Bps, c->gemm_flops,
                            c->copy_Bps, c->sum_Bps,   c->transport_Bps};

    if (probe->nranks != nranks || probe->ranks_per_node < 1 || probe->ranks_per_node > nranks)
        return error_set("%d ranks, %d a node", probe->nranks, probe->ranks_per_node);
    for (int i = 0; i < 6; i++)
        if (!(rates[i] > 1e5 && rates[i] < 1e16))
            return error_set("rate %d is %g", i, rates[i]);
    if (!(c->latency_seconds >= 0 && c->latency_seconds < 1 && c->message_seconds >= 0 &&
          c->message_seconds < 1))
        return error_set("latency %g, message %g", c->latency_seconds, c->message_seconds);
    if (!(c->core_share >= 0 && c->core_share <= COST_MOST_SHARE))
        return error_set("core share %g", c->core_share);
    if (c->device_Bps != 0)
        return error_set("the CPU's memory is the host's, but copies there have %g B/s",
                         c->device_Bps);
    if ((nranks > 1) != (c->latency_seconds > 0))
        return error_set("latency %g between %d ranks", c->latency_seconds, nranks);
    return 0;
}

static int compare(const struct probe *mine, int nranks)
{
    struct cost_cluster *all = calloc((size_t)nranks, sizeof *all);
    int status = 0;

    MPI_Allgather(&mine->cluster, sizeof *all, MPI_BYTE, all, sizeof *all, MPI_BYTE,
                  MPI_COMM_WORLD);
    for (int r = 1; r < nranks; r++)
        if (memcmp(&all[r], &all[0], sizeof *all))
            status = error_set("rank %d has other figures than rank 0", r);
    free(all);
    return status;
}

int main(int argc, char **argv)
{
    struct engine_options options = {.threads = 1};
    struct engine engine = {.i = NULL};
    struct topology topology = {.nranks = 0};
    struct probe probe;
    int provided, rank, nranks, status;

    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0); /* as the program does */
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    bool computes = nranks <= 2 || rank < nranks - 1;
    status = computes ? engine_open("cpu", &options, &engine) : 0;
    if (!status)
        status = topology_create(MPI_COMM_WORLD, &topology);
    if (!status)
        status = probe_cluster(MPI_COMM_WORLD, &topology, computes ? &engine.device : NULL,
                               argc > 1 ? argv[1] : NULL, true, &probe);
    if (!status)
        status = check(&probe, nranks) || compare(&probe, nranks);
    if (rank == 0 && status)
        printf("%s\n", error_text());
    else if (rank == 0)
        printf(
            "%s %d ranks, %d a node, in %.2f s: latency %.3g s, message %.3g s, link %.4g B/s, "
            "local %.4g B/s, products %.4g/s, copies %.4g B/s, sums %.4g B/s, transport %.4g B/s, "
            "core share %.2f\n",
            probe.from_file ? "file:" : "measured:", probe.nranks, probe.ranks_per_node,
            probe.took_seconds, probe.cluster.latency_seconds, probe.cluster.message_seconds,
            probe.cluster.link_Bps, probe.cluster.local_Bps, probe.cluster.gemm_flops,
            probe.cluster.copy_Bps, probe.cluster.sum_Bps, probe.cluster.transport_Bps,
            probe.cluster.core_share);
    topology_free(&topology);
    if (engine.i)
        engine_close(&engine);
    MPI_Finalize();
    return status ? 1 : 0;
}
