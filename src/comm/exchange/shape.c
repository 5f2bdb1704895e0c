/* The shape of an exchange.
 *
 * The workers of a machine add up among themselves, then their leader communicates for all of them
 * (sync/node.h). GPUs of a node add up whole gradients, so no layer sends factors then. If one
 * machine has all ranks, workers that leave everything to auto share its memory. With a named
 * scheme, or options that need messages, ranks exchange messages as between machines. */
#include "exchange/shape.h"

#include "exchange/saved_plan.h"
#include "simulate/choose.h"
#include "util/error.h"

#include <assert.h>
#include <stdio.h>

/* Returns 0 if workers can add up together, otherwise fails with the reason. */
static int check_obstacles(const struct exchange_options *o, const struct exchange_facts *facts)
{
    if (o->staleness > 0)
        return error_set("--tune=staleness gives every rank its own parameters");
    if (o->drop > 0)
        return error_set("--tune=drop-stragglers lets ranks go on without each other");
    if (facts->unlike)
        return error_set("unlike shares with --reproducible give every rank sums of its own");
    if (o->comm.policy == COMM_NONE)
        return error_set("with %s=none every rank trains its own net", exchange_word(o, "--comm"));
    if (facts->own_memory && facts->no_team)
        return error_set("%s", facts->no_team);
    if (facts->own_memory && o->comm.policy == COMM_SCHEME &&
        !scheme_sums_gradients(o->comm.scheme))
        return error_set("NCCL adds up whole gradients, but %s=%s sends factors",
                         exchange_word(o, "--comm"), comm_name(o->comm));
    return 0;
}

/* True if ranks of a single machine exchange messages: the options need these (named scheme,
 * servers, bf16, bandwidth limit, cluster file), in replays, or if the resumed run did so. */
static bool wants_messages(const struct exchange_options *o, const struct exchange_facts *facts)
{
    const struct plan_options how = {.nranks = facts->nranks, .servers = o->servers};

    return o->comm.policy != COMM_AUTO || o->servers > 0 || o->wire != WIRE_FP32 || facts->capped ||
           o->cluster_file || facts->blank ||
           (!o->measure && saved_plan_is_apart(&how, facts->saved_plan));
}

/* True if the nodes' sums are branches of the tree over all workers (device/tree_sum.h). */
static bool keeps_tree(const struct node_map *map)
{
    for (int w = 0; w < map->nworkers; w++)
        if (map->node[w] != w / map->most)
            return false;
    return map->nnodes == 1 || (map->most & (map->most - 1)) == 0;
}

void exchange_shape_part(struct exchange_shape *shape, const struct exchange_facts *facts)
{
    node_map_free(&shape->nodes);
    shape->only = false;
    shape->leaders_per_host = facts->ranks_per_host;
    shape->rails = 1;
}

/* Sets the leaders. On a single node without dedicated servers every worker leads its share of the
 * parameters, because each has a core and no one else to send to. */
static void put_together(const struct exchange_options *o, struct exchange_shape *shape)
{
    const struct node_map *map = &shape->nodes;

    shape->only = map->nnodes == 1 && !map->team && o->servers == 0;
    shape->leaders_per_host = map->leaders_per_host;
    shape->rails = o->leaders > 0 ? o->leaders : shape->only ? map->most : 1;
}

/* Forms nodes of the workers that are to add up together. */
static int form(const struct exchange_options *o, const struct exchange_facts *facts, int nworkers,
                struct exchange_shape *out)
{
    bool automatic = o->hierarchy == HIERARCHY_AUTO, alone;
    struct node_map *map = &out->nodes;

    if (node_map_create(facts->machine, facts->nmachines, facts->nranks, nworkers,
                        automatic ? 0 : o->hierarchy, map))
        return -1;
    map->team = facts->own_memory;
    if (facts->reproducible && !keeps_tree(map) && !automatic)
        return error_set("%s=%d: with --reproducible every node must have the same number of "
                         "consecutive ranks, 2, 4, 8 ...: give such a number, or off",
                         exchange_word(o, "--hierarchy"), o->hierarchy);
    alone = map->nnodes == 1 && !map->team;
    if (map->most > 1 && !(facts->reproducible && !keeps_tree(map)) &&
        !(alone && automatic && wants_messages(o, facts)))
        put_together(o, out);
    else
        exchange_shape_part(out, facts);
    return 0;
}

int exchange_shape(const struct exchange_options *o, const struct exchange_facts *facts,
                   struct exchange_shape *out)
{
    int nworkers = facts->nranks - o->servers;
    bool automatic = o->hierarchy == HIERARCHY_AUTO;
    int status = 0;

    assert(nworkers > 0);
    *out = (struct exchange_shape){
        .asks = o->comm.policy == COMM_AUTO &&
                choose_is_asked(facts->nmachines, nworkers, o->cluster_file != NULL)};
    exchange_shape_part(out, facts);
    if (o->hierarchy != HIERARCHY_OFF && !(automatic && nworkers == 1)) {
        if (check_obstacles(o, facts) == 0)
            status = form(o, facts, nworkers, out);
        else if (automatic)
            snprintf(out->hindered, sizeof out->hindered, "%s", error_text());
        else
            status = error_context("%s=%d: the ranks of a node cannot be grouped",
                                   exchange_word(o, "--hierarchy"), o->hierarchy);
    }
    out->whole_gradients = facts->reproducible || (out->nodes.node && out->nodes.team);
    if (status)
        exchange_shape_free(out);
    return status;
}

void exchange_shape_free(struct exchange_shape *shape)
{
    node_map_free(&shape->nodes);
}

int exchange_check_leaders(const struct exchange_options *o, const struct exchange_shape *shape)
{
    const char *word = exchange_word(o, "--hierarchy");

    if (o->leaders <= 1)
        return 0;
    if (!shape->nodes.node)
        return error_set("%s: %d leaders per node need ranks that add up together; found none",
                         word, o->leaders);
    if (shape->nodes.team)
        return error_set("%s: %d leaders per node: with NCCL a node has one leader", word,
                         o->leaders);
    if (o->leaders > shape->nodes.most)
        return error_set("%s: %d leaders per node: the largest node has %d ranks", word, o->leaders,
                         shape->nodes.most);
    return 0;
}
