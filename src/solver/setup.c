/* Setting a run up: who adds up together, where servers update. (schemes.c: which scheme moves
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
#include "solver/trainer_internal.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/choice.h"
#include "util/error.h"
#include "util/units.h"

#include <stdlib.h>
#include <string.h>

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
            "--hierarchy=%s: expected auto, off, or the number of a node's ranks, 1 to 65536",
            text);
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
    if (o->comm.policy == COMM_NONE)
        return error_set("with --comm=none every rank trains a net of its own");
    if (!engine->own_memory) /* of a dedicated server, too */
        return 0;
    if (!engine->team)
        return error_set("the engine keeps parameters in memory of its own, and this build has no "
                         "NCCL that would "
                         "reach it (configure --with-nccl)");
    if (o->share_gpu)
        return error_set(
            "with --share-gpu ranks may compute on one GPU, and NCCL needs one for each");
    if (o->comm.policy == COMM_SCHEME && o->comm.scheme->factors)
        return error_set("NCCL adds up whole gradients, and --comm=%s sends factors of them",
                         comm_name(o->comm));
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

/* What some rank has, and every rank must know. */
enum somewhere {
    OWN_MEMORY, /* a worker computes in memory that is not the host's */
    CAP,        /* its sends are to keep to a rate, which each may have for itself */
    SOMEWHERE
};

static int look_around(const struct trainer *t, int any[SOMEWHERE])
{
    int mine[SOMEWHERE] = {
        [OWN_MEMORY] = t->worker && t->engine.i->own_memory, [CAP] = t->options->mbps > 0};

    memset(any, 0, SOMEWHERE * sizeof *any);
    MPI_TRY(MPI_Allreduce(mine, any, SOMEWHERE, MPI_INT, MPI_MAX, t->world));
    return 0;
fail:
    return -1;
}

/* Whether ranks that are all on one machine are to exchange messages as if they were not: they ask
 * for what memory that they share does not have, stand for machines of their own, or go on as they
 * began. The same on all ranks. */
static bool wants_messages(const struct trainer *t, bool capped)
{
    const struct trainer_options *o = t->options;

    return o->comm.policy != COMM_AUTO || o->servers > 0 || o->wire != WIRE_FP32 || capped ||
           o->cluster_file || t->blank || trainer_kept_apart(t);
}

/* Whether the nodes that were formed can have as many leaders as were asked for. The same on all
 * ranks. */
static int check_leaders(const struct trainer *t)
{
    int leaders = t->options->leaders;

    if (leaders <= 1)
        return 0;
    if (!t->nodes.node)
        return error_set("--leaders=%d: no ranks add up together here (--hierarchy)", leaders);
    if (t->nodes.team)
        return error_set("--leaders=%d: NCCL leaves the sum of a node to one of its ranks",
                         leaders);
    if (leaders > t->nodes.most)
        return error_set("--leaders=%d: the largest node has %d ranks", leaders, t->nodes.most);
    return 0;
}

/* The nodes that the map has. */
static int open_node(struct trainer *t)
{
    if (node_create(t->world, &t->topology, &t->nodes, t->net->elems, &t->node))
        return -1;
    if (t->nodes.team)
        return open_team(t);
    if (t->node->nranks > 1)
        net_use_arenas(t->net, t->node->values, node_grads(t->node, t->node->rank),
                       t->node->rank == 0);
    return 0;
}

static int form_nodes(struct trainer *t)
{
    int each = t->options->hierarchy, any[SOMEWHERE];
    bool automatic = each == HIERARCHY_AUTO, only;
    struct node_map *map = &t->nodes;

    if (each == HIERARCHY_OFF || (automatic && t->nworkers == 1))
        return 0;
    if (error_agree(t->world, look_around(t, any)))
        return -1;
    if (error_agree(t->world, check_hierarchy(t))) {
        if (!automatic)
            return error_context("--hierarchy=%d: the ranks of a node cannot be grouped", each);
        if (any[OWN_MEMORY] && t->engine.i->team)
            LOG_INFO(t->log, "NCCL disabled: %s", error_text());
        return 0;
    }
    if (error_agree(t->world,
                    node_map_create(&t->topology, t->nworkers, automatic ? 0 : each, map)))
        return -1;
    map->team = any[OWN_MEMORY];
    only = map->nnodes == 1 && !map->team;
    if (map->most == 1 || (automatic && only && wants_messages(t, any[CAP]))) {
        node_map_free(map);
        return 0;
    }
    if (!open_node(t))
        return 0;
    if (!automatic || !only || t->options->leaders > 0)
        return -1;
    LOG_WARNING(t->log,
                "Ranks exchange messages instead of sharing memory, which would be faster: %s",
                error_text());
    node_map_free(map);
    return 0;
}

int trainer_leaders(const struct trainer *t)
{
    const struct node_map *map = &t->nodes;

    if (t->options->leaders > 0 || !map->node)
        return t->options->leaders;
    /* they have nobody else to lead for, and every one has a core */
    return map->nnodes == 1 && !map->team && t->options->servers == 0 ? map->most : 1;
}

int trainer_find_nodes(struct trainer *t)
{
    return form_nodes(t) || error_agree(t->world, check_leaders(t)) ? -1 : 0;
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
    for (int b = 0; b < t->plan->nbuckets; b++) {
        const struct scheme *scheme = t->plan->buckets[b].scheme;
        if (scheme && (scheme->home == HOME_SERVERS || scheme->home == HOME_OWNER))
            return !plan_is_alone(t->plan);
    }
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
    if (!t->worker || t->options->ps_update == PS_UPDATE_HOST || t->solver->local_lr_auto)
        return 0;
    if (!t->engine.i->own_memory) {
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
