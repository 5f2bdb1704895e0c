/* The table of other systems. Sources:
 *
 * caffe-ps, wfbp, poseidon: Zhang et al., USENIX ATC 2017, who compare Poseidon with a parameter
 * server under Caffe, and with Poseidon without SFB. caffe-ps puts a whole tensor on one server:
 * its published times grow by about as much with every node, which nothing else explains
 * (tests/cluster/VALIDATION.md).
 *
 * tf-ps: TensorFlow up to 1.3, by its code and by measurements in its issues, without any figure of
 * Zhang et al. replica_device_setter places each variable on one server, in turn. A gradient leaves
 * as soon as it exists; the SyncReplicasOptimizer of that time allows no read before all variables
 * are updated. Then all are requested at once and share the connections: forward waits for all. A
 * thread of the requesting process puts a tensor together: 0.9 GB/s for 10 MB (issues 6116, 4498),
 * 569 MB/s for 128 MB (6256), since gRPC moved all remaining slices for each slice taken (grpc/grpc
 * 8975): 0.947 GB/s, and half of it at 193 MB. Eight callers of one process got 2.555 GB/s (6116).
 * 30 tiny tensors took 1.46 ms longer than one (pull request 7466): 50 us each.
 *
 * ring: Sergeev and Del Balso, arXiv 1802.05799: one ring allreduce at a time, over all that is
 * ready at the end of a cycle, up to a fusion buffer; Horovod of 2017 used 64 MB and 5 ms. */
#include "forecast/systems.h"

#include "util/error.h"
#include "util/strbuf.h"
#include "plan/for_schemes.h"

#include <stdio.h>
#include <string.h>

/* ---- whole tensors, each with one server ---- */

static void estimate_whole(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                           struct cost *out)
{
    double bytes = (double)plan->buckets[bucket].elems * sizeof(float);

    out->sum_seconds = plan_is_alone(plan) ? 0 : bytes * plan->nworkers / cluster->sum_Bps;
    out->sum_seconds += cost_update_seconds(cluster, bytes);
}

static const struct scheme scheme_whole = {
    .name = "whole",
    .label = "whole",
    .home = HOME_OWNER,
    .traffic = plan_home_traffic,
    .cost = estimate_whole,
};

/* ---- whole tensors by queues: gradients are put together, then added up ---- */

static void estimate_queued(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                            struct cost *out)
{
    estimate_whole(cluster, plan, bucket, out);
    if (!plan_is_alone(plan))
        out->sum_seconds += (double)plan->buckets[bucket].elems * sizeof(float) * plan->nworkers /
                            cluster->copy_Bps;
}

static const struct scheme scheme_queued = {
    .name = "queued",
    .label = "queued",
    .home = HOME_OWNER,
    .traffic = plan_home_traffic,
    .cost = estimate_queued,
};

/* ---- a ring, which sums while it sends (ring.c) ---- */

static void estimate_ring(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                          struct cost *out)
{
    out->compute_seconds =
        cost_device_update_seconds(cluster, (double)plan->buckets[bucket].elems * sizeof(float));
}

static const struct scheme scheme_ring = {
    .name = "ring",
    .label = "ring",
    .home = HOME_WORKERS,
    .traffic = plan_home_traffic,
    .cost = estimate_ring,
};

/* ---- the table ---- */

#define MB    ((size_t)1 << 20)
#define WHOLE ((size_t)PLAN_LARGEST_MESSAGE)
#define BY(table)                                                                                  \
    {                                                                                              \
        .policy = COMM_SCHEME, .scheme = &(table)                                                  \
    }

static const struct system systems[] = {
    {.name = "poseidon",
     .help = "Zhang et al. 2017: the paper's rule, pairs of 2 MB, first come first sent",
     .comm = {.policy = COMM_PAPER},
     .overlap = COST_OVERLAP_BACKWARD,
     .chunk_bytes = 2 * MB,
     .manner = {.fifo = true, .syncs_alone = true}},
    {.name = "wfbp",
     .help = "poseidon without SFB: a parameter server during backward",
     .comm = {.policy = COMM_SCHEME},
     .overlap = COST_OVERLAP_BACKWARD,
     .chunk_bytes = 2 * MB,
     .manner = {.fifo = true, .syncs_alone = true}},
    {.name = "caffe-ps",
     .help = "Caffe with a parameter server: nothing overlaps, whole tensors",
     .comm = BY(scheme_whole),
     .overlap = COST_OVERLAP_NONE,
     .chunk_bytes = WHOLE,
     .manner = {.fifo = true, .syncs_alone = true, .copies_wait = true}},
    {.name = "tf-ps",
     .help = "stock TensorFlow of 2016: whole tensors, placed in turn, by RecvTensor",
     .comm = BY(scheme_queued),
     .overlap = COST_OVERLAP_BACKWARD,
     .chunk_bytes = WHOLE,
     .in_turn = true,
     .manner = {.fifo = true,
                .sums_late = true,
                .call_seconds = 50e-6,
                .calls_Bps = 0.947e9,
                .half_rate_bytes = 193e6,
                .called_Bps = 2.555e9}},
    {.name = "ring",
     .alias = "horovod",
     .help = "Horovod (or --comm=horovod): ring allreduces of up to 64 MB, begun every 5 ms",
     .comm = BY(scheme_ring),
     .overlap = COST_OVERLAP_BACKWARD,
     .chunk_bytes = WHOLE,
     .manner = {.ring = true, .fusion_bytes = 64 * MB, .cycle_seconds = 5e-3}},
};

enum { SYSTEMS = sizeof systems / sizeof *systems };

void systems_help(int indent, char out[COMM_HELP_BYTES])
{
    for (int i = 0; i < SYSTEMS; i++)
        buffer_printf(out, COMM_HELP_BYTES, "\n%*s%s: %s", indent, "", systems[i].name,
                      systems[i].help);
}

static const struct system *find(const char *name)
{
    for (int i = 0; i < SYSTEMS; i++)
        if (!strcmp(systems[i].name, name) || (systems[i].alias && !strcmp(systems[i].alias, name)))
            return &systems[i];
    return NULL;
}

int systems_parse(const struct scheme *const *registry, const char *option, const char *text,
                  struct comm *comm, const struct system **out)
{
    char names[128] = "";

    *out = find(text);
    if (!*out) {
        for (int i = 0; i < SYSTEMS; i++)
            buffer_printf(names, sizeof names, ", %s", systems[i].name);
        if (comm_parse(registry, option, text, comm))
            return comm->scheme ? -1 : error_set("%s%s", error_text(), names);
        return 0;
    }
    *comm = (*out)->comm;
    if (comm->policy == COMM_SCHEME && !comm->scheme)
        comm->scheme = registry[0];
    return 0;
}
