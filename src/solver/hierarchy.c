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
        return error_set("--hierarchy=%s is not known (auto, off, or the ranks of a node, 1 to 65536)", text);
    *out = (int)n;
    return 0;
}

/* Why the ranks of a node cannot train from one array of parameters; NULL: they can. Collective. */
static const char *obstacle(struct trainer *t)
{
    int remote = t->worker && t->engine.i->remote, any = 0;

    MPI_Allreduce(&remote, &any, 1, MPI_INT, MPI_MAX, t->world);
    return t->options->staleness > 0    ? "--staleness lets every rank have parameters of its own"
           : t->options->comm == COMM_NONE ? "with --comm=none every rank trains a net of its own"
           : any                           ? "the engine keeps parameters in memory of its own"
                                           : NULL;
}

int trainer_find_nodes(struct trainer *t)
{
    int each = t->options->hierarchy;
    struct node_map *map = &t->nodes;
    const char *why = each == HIERARCHY_OFF ? NULL : obstacle(t);
    bool worth;

    if (each == HIERARCHY_OFF || (each == HIERARCHY_AUTO && why))
        return 0;
    if (why)
        return error_set("--hierarchy=%d: the ranks of a node share their parameters, but %s", each, why);
    if (node_map_create(t->world, t->nworkers, each == HIERARCHY_AUTO ? 0 : each, map))
        return -1;
    worth = map->most > 1 && (each > 0 || map->nnodes > 1);
    if (!worth) {
        node_map_free(map);
        return 0;
    }
    if (node_create(t->world, map, t->net->elems, &t->node))
        return -1;
    if (t->node->nranks > 1)
        net_use_arenas(t->net, t->node->values, node_grads(t->node, t->node->rank), t->node->rank == 0);
    return 0;
}

void trainer_set_up_cost(const struct trainer *t, struct cost_setup *out)
{
    bool nodes = t->nodes.node != NULL;
    int workers = nodes ? t->nodes.nnodes : t->nworkers;

    *out = (struct cost_setup){.nworkers = workers,
                               .locals = nodes ? t->nodes.most : 1,
                               .nservers = t->options->servers ? t->options->servers : workers,
                               .dedicated = t->options->servers > 0,
                               .ranks_per_node = nodes ? t->nodes.speakers_per_host : t->probe.ranks_per_node,
                               .iter_size = t->iter_size,
                               .chunk_bytes = t->sizes.chunk,
                               .merge_bytes = t->sizes.merge,
                               .wire = t->options->wire};
}
