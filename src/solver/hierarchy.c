/* Which workers add up among themselves before one of them speaks for all (sync/node.h). */
#include "solver/trainer.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

int hierarchy_parse(const char *text, int *out)
{
    char *end;
    long n = strtol(text, &end, 10);

    *out = !strcmp(text, "auto") ? HIERARCHY_AUTO : HIERARCHY_OFF;
    if (!strcmp(text, "auto") || !strcmp(text, "off"))
        return 0;
    if (*end || end == text || n < 1 || n > 65536)
        return error_set(
            "--hierarchy=%s is not known (auto, off, or the ranks of a node, 1 to 65536)", text);
    *out = (int)n;
    return 0;
}

/* Whether the ranks of a node can go together: a message where not. */
static int check_options(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    const struct engine_i *engine = t->engine.i;

    if (o->staleness > 0)
        return error_set("--staleness lets every rank have parameters of its own");
    if (o->comm.policy == COMM_NONE)
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
    if (o->comm.policy == COMM_SCHEME && o->comm.scheme->factors)
        return error_set("NCCL adds up whole gradients, and --comm=%s sends factors of them",
                         comm_name(o->comm));
    return engine->team->library(t->team, sizeof t->team);
}

/* The node's engines become a team. Collective. */
static int open_team(struct trainer *t)
{
    const struct engine_team_i *team = t->engine.i->team;
    struct node *node = t->node;
    bool member = node->nranks > 1;
    char id[ENGINE_TEAM_ID];

    if (error_agree(t->world,
                    member && node->rank == 0 ? team->identify(t->engine.context, id) : 0))
        return -1;
    if (member)
        MPI_Bcast(id, sizeof id, MPI_BYTE, 0, node->comm);
    return error_agree(t->world,
                       member ? team->open(t->engine.context, id, node->rank, node->nranks) : 0);
}

int trainer_find_nodes(struct trainer *t)
{
    int each = t->options->hierarchy, remote = t->worker && t->engine.i->remote, team = 0;
    struct node_map *map = &t->nodes;

    if (each == HIERARCHY_OFF || (each == HIERARCHY_AUTO && t->nworkers == 1))
        return 0;
    MPI_Allreduce(&remote, &team, 1, MPI_INT, MPI_MAX, t->world);
    if (error_agree(t->world, check_options(t))) {
        if (each != HIERARCHY_AUTO)
            return error_context("--hierarchy=%d: the ranks of a node cannot go together", each);
        if (team && t->engine.i->team)
            LOG_INFO(t->log, "No use of NCCL: %s", error_text());
        return 0;
    }
    if (node_map_create(t->world, t->nworkers, each == HIERARCHY_AUTO ? 0 : each, map))
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
