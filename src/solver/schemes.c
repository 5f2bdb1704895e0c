/* Which scheme moves which layer. `auto` measures the cluster and lets the cost model choose, where
 * there is more than one node (on one it is the paper's rule). It leaves the paper's choice only
 * for a gain worth its name, so that the noise of a measurement does not change the order of sums,
 * and with it the last bits, from one run to the next. (PS and allreduce give the same bits;
 * between them it is free.)
 *
 * Where the GPUs of a node add up, they add up whole gradients: no layer sends factors then. */
#include "solver/trainer.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define GAIN_WORTH_CHANGING 0.95 /* of the predicted iteration */

static bool in_teams(const struct trainer *t)
{
    return t->node && t->node->team;
}

static int choose(struct trainer *t, const struct probe *probe, enum scheme *scheme)
{
    struct cost_setup setup;
    enum cost_overlap overlap = !t->options->overlap            ? COST_OVERLAP_NONE
                                : t->options->forward_waits_all ? COST_OVERLAP_WFBP
                                                                : COST_OVERLAP_FULL;
    int n = t->net->ngroups, status = -1;
    struct cost *paper = calloc((size_t)n + 1, sizeof *paper);
    enum scheme *best = calloc((size_t)n + 1, sizeof *best);
    struct cost_work work = {0};
    struct cost_iteration base, least;

    trainer_set_up_cost(t, &setup);
    if (!paper || !best) {
        error_memory((size_t)n * sizeof *paper, "the choice of schemes");
        goto done;
    }
    if (t->blank ? cost_work_profile(t->net, t->options->profile, &t->probe.cluster, &work)
                 : cost_work_create(t->net, &probe->cluster, &work))
        goto done;
    for (int g = 0; g < n; g++) {
        scheme[g] = cost_single(&setup, &t->net->groups[g], SCHEME_PS, !in_teams(t));
        paper[g] = cost_of(&probe->cluster, &setup, &t->net->groups[g], scheme[g]);
    }
    if (cost_iterate(&work, paper, overlap, &base) ||
        cost_choose(&work, &probe->cluster, &setup, overlap,
                    COST_AUTO_SCHEMES & ~(in_teams(t) ? 1u << SCHEME_SFB : 0), best, &least))
        goto done;
    t->predicted_seconds = base.seconds;
    if (least.seconds < GAIN_WORTH_CHANGING * base.seconds) {
        memcpy(scheme, best, (size_t)n * sizeof *scheme);
        t->predicted_seconds = least.seconds;
    }
    status = 0;
done:
    cost_work_free(&work);
    free(paper);
    free(best);
    return status;
}

/* The replay engine multiplies nothing: the product's rate is the CPU's, the link as much faster as
 * the messages are shorter. */
int trainer_probe(struct trainer *t)
{
    struct probe *probe = &t->probe;
    struct engine_options options = {.threads = 0};
    struct engine cpu = {.i = NULL};
    const struct engine *engine = t->blank ? &cpu : &t->engine;
    int status;

    if (t->probed)
        return 0;
    status = error_agree(t->world, t->blank ? engine_open("cpu", &options, &cpu) : 0);
    if (!status)
        status = probe_cluster(t->world, &t->topology, t->worker ? engine : NULL,
                               t->options->cluster_file, probe);
    if (cpu.i)
        engine_close(&cpu);
    if (t->blank)
        probe->cluster.core_share = 0; /* nobody computes: traffic takes nothing away */
    if (t->options->dilate > 1) {
        probe->cluster.link_Bps *= t->options->dilate;
        probe->cluster.local_Bps *= t->options->dilate;
        probe->cluster.transport_Bps *= t->options->dilate;
    }
    t->probed = !status;
    return status;
}

/* Sizes that the user gave hold. */
static void keep_wishes(struct trainer *t)
{
    const struct trainer_options *o = t->options;

    t->sizes.chunk = o->chunk != COST_SIZE_CHOSEN ? o->chunk : t->sizes.chunk;
    t->sizes.merge = o->merge != COST_SIZE_CHOSEN ? o->merge : t->sizes.merge;
    t->sizes.window = o->window != COST_SIZE_CHOSEN ? o->window : t->sizes.window;
}

/* Rank 0 decides for all: the same figures give the same choice, but nobody should have to prove
 * it. */
static int choose_together(struct trainer *t, enum scheme *scheme)
{
    const struct probe *probe = &t->probe;

    if (trainer_probe(t))
        return -1;
    t->sizes = cost_sizes_for(&probe->cluster);
    MPI_TRY(MPI_Bcast(&t->sizes, (int)sizeof t->sizes, MPI_BYTE, 0, t->world));
    keep_wishes(t);
    if (error_agree(t->world, t->rank == 0 ? choose(t, probe, scheme) : 0))
        return -1;
    MPI_TRY(
        MPI_Bcast(scheme, (int)((size_t)t->net->ngroups * sizeof *scheme), MPI_BYTE, 0, t->world));
    if (!probe->from_file)
        LOG_INFO(
            t->log,
            "Measured this cluster in %.1f s: latency %.0f us, %.3g MB/s per rank, %.3g GFLOP/s",
            probe->took_seconds, probe->cluster.latency_seconds * 1e6,
            probe->cluster.link_Bps * 1e-6, probe->cluster.gemm_flops * 1e-9);
    return 0;
fail:
    return -1;
}

int trainer_plan(struct trainer *t)
{
    enum scheme *scheme = calloc((size_t)t->net->ngroups + 1, sizeof *scheme);
    struct plan_options options = {.comm = t->options->comm,
                                   .wire = t->options->wire,
                                   .scheme = scheme,
                                   .nranks = t->nranks,
                                   .servers = t->options->servers,
                                   .nodes = t->nodes.node,
                                   .iter_size = t->iter_size,
                                   .dilate = t->options->dilate};
    int status = error_agree(t->world, scheme ? 0 : error_memory(sizeof *scheme, "schemes"));

    t->sizes = COST_USUAL_SIZES;
    keep_wishes(t);
    /* ranks of one machine have no network between them: what they measured would be memory and
       each other's computation, and the next run might decide otherwise */
    if (options.comm == COMM_AUTO && t->topology.nmachines == 1 && !t->options->cluster_file)
        options.comm = COMM_PAPER;
    if (!status && options.comm == COMM_AUTO && t->nworkers > 1)
        status = choose_together(t, scheme);
    if (options.comm == COMM_PAPER && in_teams(t))
        options.comm = COMM_PS;
    options.chunk_bytes = t->sizes.chunk;
    options.merge_bytes = t->sizes.merge;
    if (!status)
        status =
            error_agree(t->world, plan_create(&options, t->net->ngroups, t->net->groups, &t->plan));
    free(scheme);
    return status;
}
