/* Setting a run up: who adds up together, where servers update. (choose_plan.c: which scheme moves
 * which layer.)
 *
 * Nodes (sync/node.h): the workers of a machine add up among themselves before their leader
 * communicates for all of them. Where the GPUs of a node add up, they add up whole gradients: no
 * layer sends factors then. Where one machine has all ranks there is nobody to communicate with,
 * and whoever leaves all to auto has them share its memory; who names a scheme, or asks for what
 * only messages have, gets messages as between machines.
 *
 * Servers apply the solver on the host, or in the memory of the device that their worker trains on.
 * Both give the same bits, so each rank may decide by what it measures. */
#include "train/exchange.h"

#include "plan/kept_plan.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/units.h"

/* ---- nodes ---- */

/* Whether the ranks of a node can go together: a message where not. */
static int check_hierarchy(struct exchange *exchange, const struct job *job,
                           const struct compute *compute)
{
    const struct trainer_options *o = job->options;
    const struct engine_i *engine = compute->engine.i;

    if (o->staleness > 0)
        return error_set("--tune=staleness gives every rank its own parameters");
    if (o->drop > 0)
        return error_set("--drop-stragglers lets ranks go on without each other");
    if (o->comm.policy == COMM_NONE)
        return error_set("with --comm=none every rank trains its own net");
    if (!engine->own_memory) /* of a dedicated server, too */
        return 0;
    if (!engine->team)
        return error_set("the engine keeps parameters in memory of its own, and this build has no "
                         "NCCL that would "
                         "reach it (configure --with-nccl)");
    if (o->share_gpu)
        return error_set(
            "with --tune=share-gpu ranks may compute on one GPU, and NCCL needs one for each");
    if (o->comm.policy == COMM_SCHEME && !scheme_sums_gradients(o->comm.scheme))
        return error_set("NCCL adds up whole gradients, and --comm=%s sends factors of them",
                         comm_name(o->comm));
    return engine->team->library(exchange->team, sizeof exchange->team);
}

/* The node's engines become a team. Collective. */
static int open_team(const struct exchange *exchange, const struct job *job,
                     struct compute *compute)
{
    const struct engine_team_i *team = compute->engine.i->team;
    struct node *node = exchange->node;
    bool member = node->nranks > 1;
    char id[ENGINE_TEAM_ID];
    int status = member && node->rank == 0 ? team->identify(compute->engine.context, id) : 0;

    if (error_agree(job->world, status) ||
        error_agree(job->world, member ? agree_share(node->comm, id, sizeof id) : 0))
        return -1;
    return error_agree(
        job->world, member ? team->open(compute->engine.context, id, node->rank, node->nranks) : 0);
}

/* What some rank has, and every rank must know. */
enum somewhere {
    OWN_MEMORY, /* a worker computes in memory that is not the host's */
    CAP,        /* its sends are to keep to a rate, which each may have for itself */
    SOMEWHERE
};

/* Whether ranks that are all on one machine are to exchange messages as if they were not: they ask
 * for what memory that they share does not have, stand for machines of their own, or go on as they
 * began. The same on all ranks. */
static bool wants_messages(const struct job *job, const char *kept_plan, bool capped)
{
    const struct trainer_options *o = job->options;
    const struct plan_options how = {.nranks = job->nranks, .servers = o->servers};

    return o->comm.policy != COMM_AUTO || o->servers > 0 || o->wire != WIRE_FP32 || capped ||
           o->cluster_file || job->blank || (!o->measure && kept_plan_is_apart(&how, kept_plan));
}

/* Whether the nodes that were formed can have as many leaders as were asked for. The same on all
 * ranks. */
static int check_leaders(const struct exchange *exchange, const struct job *job)
{
    int leaders = job->options->leaders;

    if (leaders <= 1)
        return 0;
    if (!exchange->nodes.node)
        return error_set("--hierarchy: %d leaders of a node, and no ranks add up together here",
                         leaders);
    if (exchange->nodes.team)
        return error_set(
            "--hierarchy: %d leaders of a node: NCCL leaves the sum of a node to one of its ranks",
            leaders);
    if (leaders > exchange->nodes.most)
        return error_set("--hierarchy: %d leaders of a node: the largest has %d ranks", leaders,
                         exchange->nodes.most);
    return 0;
}

/* Whether the nodes' sums are branches of the tree over all workers (engine/tree_sum.h). */
static bool keeps_tree(const struct node_map *map)
{
    for (int w = 0; w < map->nworkers; w++)
        if (map->node[w] != w / map->most)
            return false;
    return map->nnodes == 1 || (map->most & (map->most - 1)) == 0;
}

static int form_nodes(struct exchange *exchange, const struct job *job, struct compute *compute,
                      const char *kept_plan)
{
    int each = job->options->hierarchy;
    double any[SOMEWHERE] = {[OWN_MEMORY] = job->worker && compute->engine.i->own_memory,
                             [CAP] = job->options->mbps > 0};
    bool automatic = each == HIERARCHY_AUTO, apart;
    struct node_map *map = &exchange->nodes;
    int status;

    if (each == HIERARCHY_OFF || (automatic && job->nworkers == 1))
        return 0;
    if (error_agree(job->world, agree_most(job->world, any, SOMEWHERE)))
        return -1;
    if (error_agree(job->world, check_hierarchy(exchange, job, compute))) {
        if (!automatic)
            return error_context("--hierarchy=%d: the ranks of a node cannot be grouped", each);
        if (any[OWN_MEMORY] > 0 && compute->engine.i->team)
            LOG_INFO(job->log, "NCCL disabled: %s", error_text());
        return 0;
    }
    if (error_agree(job->world,
                    node_map_create(&job->topology, job->nworkers, automatic ? 0 : each, map)))
        return -1;
    map->team = any[OWN_MEMORY] > 0;
    apart = job->options->reproducible && !keeps_tree(map);
    if (apart && !automatic)
        return error_set("--hierarchy=%d: --reproducible needs nodes of equally many ranks, 2, 4, "
                         "8 ..., that follow each other: give such a number, or off",
                         each);
    if (apart) {
        node_map_free(map);
        return 0;
    }
    status = node_create(job->world, &job->topology, map, compute->net->elems,
                         automatic && wants_messages(job, kept_plan, any[CAP] > 0),
                         automatic && job->options->leaders <= 0, &exchange->node);
    if (status > 0)
        LOG_WARNING(job->log, "%s", error_text());
    if (exchange->node && map->team)
        return open_team(exchange, job, compute);
    if (node_shares_memory(exchange->node))
        net_use_arenas(compute->net, exchange->node->values,
                       node_grads(exchange->node, exchange->node->rank), exchange->node->rank == 0);
    return status < 0 ? -1 : 0;
}

int nodes_leaders(const struct exchange *exchange, const struct job *job)
{
    const struct node_map *map = &exchange->nodes;

    if (job->options->leaders > 0 || !map->node)
        return job->options->leaders;
    /* they have nobody else to lead for, and every one has a core */
    return map->nnodes == 1 && !map->team && job->options->servers == 0 ? map->most : 1;
}

int nodes_form_all(struct exchange *exchange, const struct job *job, struct compute *compute,
                   const char *kept_plan)
{
    return error_any(form_nodes(exchange, job, compute, kept_plan) ||
                     error_agree(job->world, check_leaders(exchange, job)));
}

/* ---- servers ---- */

const char *const ps_update_words[] = {
    [PS_UPDATE_AUTO] = "auto", [PS_UPDATE_HOST] = "host", [PS_UPDATE_DEVICE] = "device", NULL};

static bool serves_parameters(const struct exchange *exchange)
{
    for (int b = 0; b < exchange->plan->nbuckets; b++) {
        const struct scheme *scheme = exchange->plan->buckets[b].scheme;
        if (scheme && (scheme->home == HOME_SERVERS || scheme->home == HOME_OWNER))
            return !plan_is_alone(exchange->plan);
    }
    return false;
}

/* The cluster's figures where it was measured, else this rank's own. */
static int measure_servers(const struct exchange *exchange, struct compute *compute,
                           struct cost_cluster *out)
{
    *out = exchange->probe.cluster;
    if (exchange->probed)
        return 0;
    return error_any(probe_serving(&compute->engine, &out->serve_Bps) || probe_sums(&out->sum_Bps));
}

static int decide_placement(const struct exchange *exchange, const struct job *job,
                            struct compute *compute, bool *remotely)
{
    struct cost_cluster cluster;

    *remotely = false;
    if (job->options->ps_update == PS_UPDATE_DEVICE && job_apart(job))
        return error_set("--tune=ps-update=device does not go with %s: a server whose worker lags "
                         "behind has parameters of its own, on the host",
                         job_apart(job));
    if (!job->worker || job->options->ps_update == PS_UPDATE_HOST || job->solver->local_lr_auto)
        return 0;
    if (!compute->engine.i->own_memory) {
        if (job->options->ps_update == PS_UPDATE_DEVICE)
            return error_set(
                "--tune=ps-update=device: the engine '%s' computes in the host's memory",
                compute->engine.i->name);
        return 0;
    }
    if (job->options->ps_update == PS_UPDATE_DEVICE) {
        *remotely = true;
        return 0;
    }
    if (job_apart(job) || !serves_parameters(exchange))
        return 0;
    if (measure_servers(exchange, compute, &cluster))
        return -1;
    *remotely = cost_updates_remotely(&cluster);
    LOG_INFO(job->log, "Parameter servers update %s: %s there, %s on the %s",
             *remotely ? "in the device's memory" : "on the host",
             units_rate(*remotely ? cluster.serve_Bps : cost_host_update_rate(&cluster)).text,
             units_rate(*remotely ? cost_host_update_rate(&cluster) : cluster.serve_Bps).text,
             *remotely ? "host" : "device");
    return 0;
}

int nodes_place_updates_all(struct exchange *exchange, const struct job *job,
                            struct compute *compute)
{
    return error_agree(job->world,
                       decide_placement(exchange, job, compute, &exchange->update_remotely));
}
