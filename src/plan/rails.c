/* Several leaders a node: the ranks of a node share what their leader does for it. Leader j of one
 * node has to do with leader j of the others alone, on its rail; a chunk's rail says who of a node
 * sends, adds up and updates it. Homes and the order of sums do not depend on rails. */
#include "plan/plan_internal.h"

#include "plan/tree.h"

#include <stdlib.h>

/* ---- who ---- */

/* A node with fewer ranks than rails has some of them on several. */
static int find_ranks(struct plan *plan)
{
    int n = plan->rails, *seen;

    if (PLAN_ROOM(seen, plan->nleaders))
        return -1;
    for (int r = 0; r < plan->options.nranks; r++) {
        int leader = plan->leader[r], member = seen[leader]++;
        int leaders = plan_leaders_of(plan, leader);
        for (int rail = member; member < leaders && rail < n; rail += leaders)
            plan->rail_rank[(size_t)leader * (size_t)n + (size_t)rail] = r;
    }
    free(seen);
    return 0;
}

bool plan_leads(const struct plan *plan, int world_rank)
{
    const int *ranks = &plan->rail_rank[plan->leader[world_rank] * plan->rails];

    for (int rail = 0; rail < plan->rails; rail++)
        if (ranks[rail] == world_rank)
            return true;
    return false;
}

/* ---- dealing ---- */

/* A home has most to do with a chunk: its rail is the one that has least of that home's so far. */
static void deal_chunks(struct plan *plan, int first, int count, uint64_t elems, uint64_t *loads)
{
    int home = plan->chunks[first].home, best = home % plan->rails;
    uint64_t *load = &loads[(size_t)home * (size_t)plan->rails];

    for (int rail = 0; rail < plan->rails; rail++)
        if (load[rail] < load[best])
            best = rail;
    load[best] += elems;
    for (int c = first; c < first + count; c++)
        plan->chunks[c].rail = best;
}

static int deal_rails(struct plan *plan)
{
    uint64_t *loads;

    if (PLAN_ROOM(loads, (size_t)plan->nleaders * (size_t)plan->rails))
        return -1;
    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        if (!bucket->scheme || bucket->nchunks == 0)
            continue;
        if (!bucket->scheme->sliced)
            deal_chunks(plan, bucket->first_chunk, bucket->nchunks, bucket->elems, loads);
        for (int c = 0; c < bucket->nchunks && bucket->scheme->sliced; c++)
            deal_chunks(plan, bucket->first_chunk + c, 1,
                        plan->chunks[bucket->first_chunk + c].elems, loads);
    }
    free(loads);
    return 0;
}

int plan_lay_rails(struct plan *plan)
{
    if (PLAN_ROOM(plan->rail_rank, (size_t)plan->nleaders * (size_t)plan->rails) ||
        find_ranks(plan))
        return -1;
    return plan->rails > 1 ? deal_rails(plan) : 0;
}

/* ---- what one of several leaders moves and keeps ---- */

/* From how many leaders the chunk's gradients come to this one, and its answers go back there. */
static uint64_t count_below(const struct plan *plan, int chunk, int leader)
{
    int children[TREE_MOST_CHILDREN], home = plan_home(plan, chunk);

    if (plan->buckets[plan->chunks[chunk].bucket].log_steps)
        return (uint64_t)tree_children(plan->nworkers, home, leader, children);
    return home == leader ? (uint64_t)(plan->nworkers - (leader < plan->nworkers)) : 0;
}

struct traffic plan_rail_traffic(const struct plan *plan, int bucket, int world_rank)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct traffic traffic = {0};
    int leader = plan->leader[world_rank];

    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++) {
        uint64_t gradient = plan_gradient_bytes(plan, c), back = plan_back_bytes(plan, c);
        uint64_t below = count_below(plan, c, leader);
        uint64_t up = leader < plan->nworkers && plan_home(plan, c) != leader;
        if (!plan_leads_chunk(plan, c, world_rank))
            continue;
        traffic.sent += up * gradient + below * back;
        traffic.received += up * back + below * gradient;
        traffic.messages += up + below;
    }
    return traffic;
}

/* As plan_home_memory counts it, and of what the scheme keeps beside that, a part like that of the
 * elements. */
uint64_t plan_rail_memory(const struct plan *plan, int bucket, int world_rank)
{
    const struct bucket *b = &plan->buckets[bucket];
    int leader = plan->leader[world_rank];
    bool worker = leader < plan->nworkers, encoded = b->gradient_bytes != b->elems * sizeof(float);
    uint64_t more =
        b->scheme->memory(plan, bucket, leader) - plan_home_memory(plan, bucket, leader);
    uint64_t bytes = 0, elems = 0;

    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++) {
        uint64_t floats = plan->chunks[c].elems * sizeof(float);
        uint64_t gradient = plan_gradient_bytes(plan, c), back = plan_back_bytes(plan, c);
        bool own = plan_home(plan, c) == leader;
        if (!plan_leads_chunk(plan, c, world_rank))
            continue;
        elems += plan->chunks[c].elems;
        bytes += count_below(plan, c, leader) * gradient;
        if (encoded && own)
            bytes += (uint64_t)plan->nworkers * floats;
        if (encoded && worker)
            bytes += floats + gradient;
        if (encoded && worker && b->scheme->codec_back)
            bytes += back + (own ? floats : 0);
    }
    return bytes + (uint64_t)((double)more * ((double)elems / (double)b->elems));
}
