/* Planning a run: who adds up together, which scheme moves which layer, where servers update.
 *
 * Nodes (sync/node.h): the workers of a machine add up among themselves before their leader speaks
 * for all of them. Where the GPUs of a node add up, they add up whole gradients: no layer sends
 * factors then.
 *
 * Schemes: `auto` measures the cluster and lets the cost model choose, where there is more than one
 * machine (on one it is the paper's rule). It leaves the paper's choice only for a gain worth its
 * name, so that the noise of a measurement does not change the order of sums, and with it the last
 * bits, from one run to the next. (PS and allreduce give the same bits; between them it is free.)
 *
 * Servers apply the solver on the host, or in the memory of the device that their worker trains on.
 * Both give the same bits, so each rank may decide by what it measures. */
#include "solver/trainer_internal.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/choice.h"
#include "util/error.h"
#include "util/units.h"

#include <stdlib.h>
#include <string.h>

#define GAIN_WORTH_CHANGING 0.95 /* of the predicted iteration */

/* ---- nodes ---- */

int hierarchy_parse(const char *text, int *out)
{
    static const char *const words[] = {"auto", "off", NULL};
    static const int values[] = {HIERARCHY_AUTO, HIERARCHY_OFF};
    int word = choice_find(words, text);
    char *end;
    long n = strtol(text, &end, 10);

    if (word < 0 && (*end || end == text || n < 1 || n > 65536))
        return error_set(
            "--hierarchy=%s is not known (auto, off, or the ranks of a node, 1 to 65536)", text);
    *out = word >= 0 ? values[word] : (int)n;
    return 0;
}

/* Whether the ranks of a node can go together: a message where not. */
static int check_hierarchy(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    const struct engine_i *engine = t->engine.i;

    if (o->staleness > 0)
        return error_set("--staleness lets every rank have parameters of its own");
    if (o->comm == COMM_NONE)
        return error_set("with --comm=none every rank trains a net of its own");
    if (!engine->remote) /* of a dedicated server, too */
        return 0;
    if (!engine->team)
        return error_set("the engine keeps parameters in memory of its own, and this build has no "
                         "NCCL that would "
                         "reach it (configure --with-nccl)");
    if (o->share_gpu)
        return error_set(
            "with --share-gpu ranks may compute on one GPU, and NCCL wants one for each");
    if (o->comm == COMM_SFB || o->comm == COMM_ADAM)
        return error_set("NCCL adds up whole gradients, and --comm=%s sends factors of them",
                         o->comm == COMM_SFB ? "sfb" : "adam");
    return engine->team->library(t->team, sizeof t->team);
}

/* The first rank's bytes become everybody's. Collective over comm. */
static int share(void *bytes, size_t count, MPI_Comm comm)
{
    MPI_TRY(MPI_Bcast(bytes, (int)count, MPI_BYTE, 0, comm));
    return 0;
fail:
    return -1;
}

/* The node's engines become a team. Collective. */
static int open_team(struct trainer *t)
{
    const struct engine_team_i *team = t->engine.i->team;
    struct node *node = t->node;
    bool member = node->nranks > 1;
    char id[ENGINE_TEAM_ID];
    int status = member && node->rank == 0 ? team->identify(t->engine.context, id) : 0;

    if (error_agree(t->world, status) ||
        error_agree(t->world, member ? share(id, sizeof id, node->comm) : 0))
        return -1;
    return error_agree(t->world,
                       member ? team->open(t->engine.context, id, node->rank, node->nranks) : 0);
}

/* Whether any worker computes in memory that is not the host's. */
static int find_remote(const struct trainer *t, int *any)
{
    int mine = t->worker && t->engine.i->remote;

    *any = 0;
    MPI_TRY(MPI_Allreduce(&mine, any, 1, MPI_INT, MPI_MAX, t->world));
    return 0;
fail:
    return -1;
}

int trainer_find_nodes(struct trainer *t)
{
    int each = t->options->hierarchy, team;
    struct node_map *map = &t->nodes;

    if (each == HIERARCHY_OFF || (each == HIERARCHY_AUTO && t->nworkers == 1))
        return 0;
    if (error_agree(t->world, find_remote(t, &team)))
        return -1;
    if (error_agree(t->world, check_hierarchy(t))) {
        if (each != HIERARCHY_AUTO)
            return error_context("--hierarchy=%d: the ranks of a node cannot be grouped", each);
        if (team && t->engine.i->team)
            LOG_INFO(t->log, "NCCL disabled: %s", error_text());
        return 0;
    }
    if (error_agree(t->world, node_map_create(&t->topology, t->nworkers,
                                              each == HIERARCHY_AUTO ? 0 : each, map)))
        return -1;
    /* between processors of one machine a message is no more than a copy; between GPUs it is two,
     * through the host */
    if (map->most == 1 || (each == HIERARCHY_AUTO && map->nnodes == 1 && !team)) {
        node_map_free(map);
        return 0;
    }
    map->team = team;
    if (node_create(t->world, map, t->net->elems, &t->node))
        return -1;
    if (team)
        return open_team(t);
    if (t->node->nranks > 1)
        net_use_arenas(t->net, t->node->values, node_grads(t->node, t->node->rank),
                       t->node->rank == 0);
    return 0;
}

/* ---- schemes ---- */

void trainer_set_up_cost(const struct trainer *t, struct cost_setup *out)
{
    bool nodes = t->nodes.node != NULL;
    int workers = nodes ? t->nodes.nnodes : t->nworkers;

    *out = (struct cost_setup){.nworkers = workers,
                               .locals = nodes ? t->nodes.most : 1,
                               .nservers = t->options->servers ? t->options->servers : workers,
                               .dedicated = t->options->servers > 0,
                               .ranks_per_node =
                                   nodes ? t->nodes.speakers_per_host : t->probe.ranks_per_node,
                               .iter_size = t->iter_size,
                               .chunk_bytes = t->sizes.chunk,
                               .merge_bytes = t->sizes.merge,
                               .wire = t->options->wire};
}

static bool in_teams(const struct trainer *t)
{
    return t->node && t->node->team;
}

static int choose_schemes(struct trainer *t, const struct probe *probe, enum scheme *scheme)
{
    struct cost_setup setup;
    enum cost_overlap overlap = !t->options->overlap            ? COST_OVERLAP_NONE
                                : t->options->forward_waits_all ? COST_OVERLAP_WFBP
                                                                : COST_OVERLAP_FULL;
    int n = t->net->ngroups, status = -1;
    struct cost *paper = alloc_array((size_t)n, sizeof *paper, "the choice of schemes");
    enum scheme *best = alloc_array((size_t)n, sizeof *best, "the choice of schemes");
    struct cost_work work = {0};
    struct cost_iteration base, least;

    trainer_set_up_cost(t, &setup);
    if (!paper || !best)
        goto done;
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
static void keep_given_sizes(struct trainer *t)
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
    char latency[UNITS_CELL], link[UNITS_CELL];

    if (trainer_probe(t))
        return -1;
    t->sizes = cost_sizes_for(&probe->cluster);
    if (error_agree(t->world, share(&t->sizes, sizeof t->sizes, t->world)))
        return -1;
    keep_given_sizes(t);
    if (error_agree(t->world, t->rank == 0 ? choose_schemes(t, probe, scheme) : 0) ||
        error_agree(t->world, share(scheme, (size_t)t->net->ngroups * sizeof *scheme, t->world)))
        return -1;
    if (!probe->from_file)
        LOG_INFO(t->log, "Measured this cluster in %.1f s: latency %s, %s per rank, %.3g GFLOP/s",
                 probe->took_seconds, units_print_seconds(probe->cluster.latency_seconds, latency),
                 units_print_rate(probe->cluster.link_Bps, link), probe->cluster.gemm_flops * 1e-9);
    return 0;
}

int trainer_plan(struct trainer *t)
{
    enum scheme *scheme = alloc_array((size_t)t->net->ngroups, sizeof *scheme, "schemes");
    struct plan_options options = {.comm = t->options->comm,
                                   .wire = t->options->wire,
                                   .scheme = scheme,
                                   .nranks = t->nranks,
                                   .servers = t->options->servers,
                                   .nodes = t->nodes.node,
                                   .iter_size = t->iter_size,
                                   .dilate = t->options->dilate};
    int status = error_agree(t->world, scheme ? 0 : -1);

    t->sizes = COST_USUAL_SIZES;
    keep_given_sizes(t);
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

/* ---- servers ---- */

int ps_update_parse(const char *name, enum ps_update *out)
{
    static const char *const words[] = {
        [PS_UPDATE_AUTO] = "auto", [PS_UPDATE_HOST] = "host", [PS_UPDATE_DEVICE] = "device", NULL};
    int found = PS_UPDATE_AUTO, status = choice_parse("ps-update", name, words, &found);

    *out = (enum ps_update)found;
    return status;
}

static bool serves_parameters(const struct trainer *t)
{
    for (int g = 0; g < t->plan->ngroups; g++)
        if (t->plan->scheme[g] == SCHEME_PS || t->plan->scheme[g] == SCHEME_ADAM)
            return !plan_is_alone(t->plan);
    return false;
}

/* The cluster's figures where it was measured, else this rank's own. */
static int measure_servers(struct trainer *t, struct cost_cluster *out)
{
    *out = t->probe.cluster;
    if (t->probed)
        return 0;
    return probe_serving(&t->engine, &out->serve_Bps) || probe_sums(&out->sum_Bps) ? -1 : 0;
}

static int decide_placement(struct trainer *t, bool *remotely)
{
    struct cost_cluster cluster;
    char here[UNITS_CELL], there[UNITS_CELL];

    *remotely = false;
    if (t->options->ps_update == PS_UPDATE_DEVICE && t->options->staleness > 0)
        return error_set(
            "--ps-update=device does not go with --staleness=%d: a server whose worker lags behind "
            "has parameters of its own, on the host",
            t->options->staleness);
    if (!t->worker || t->options->ps_update == PS_UPDATE_HOST)
        return 0;
    if (!t->engine.i->remote) {
        if (t->options->ps_update == PS_UPDATE_DEVICE)
            return error_set("--ps-update=device: the engine '%s' computes in the host's memory",
                             t->engine.i->name);
        return 0;
    }
    if (t->options->ps_update == PS_UPDATE_DEVICE) {
        *remotely = true;
        return 0;
    }
    if (t->options->staleness > 0 || !serves_parameters(t))
        return 0;
    if (measure_servers(t, &cluster))
        return -1;
    *remotely = cost_updates_remotely(&cluster);
    LOG_INFO(
        t->log, "Parameter servers update %s: %s there, %s on the %s",
        *remotely ? "in the device's memory" : "on the host",
        units_print_rate(*remotely ? cluster.serve_Bps : cost_host_update_rate(&cluster), here),
        units_print_rate(*remotely ? cost_host_update_rate(&cluster) : cluster.serve_Bps, there),
        *remotely ? "host" : "device");
    return 0;
}

int trainer_place_updates(struct trainer *t)
{
    return error_agree(t->world, decide_placement(t, &t->update_remotely));
}
