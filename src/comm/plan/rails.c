/* Rails: several ranks of a node share its leader's work. On rail j, rank j of a node talks to rank
 * j of other nodes alone. A chunk's rail says which rank of a node sends, adds up and updates the
 * chunk. Homes and the order of sums do not depend on rails. */
#include "plan/plan_internal.h"
#include "plan/for_schemes.h"

/* ---- ranks ---- */

/* Finds the rank of each leader and rail; a node with few ranks has some on several rails. */
static int find_ranks(struct plan *plan)
{
    int n = plan->rails, *seen;

    if (PLAN_ROOM(plan, seen, plan->nleaders))
        return -1;
    for (int r = 0; r < plan->options.nranks; r++) {
        int leader = plan->leader[r], member = seen[leader]++;
        int leaders = plan_leaders_of(plan, leader);
        for (int rail = member; member < leaders && rail < n; rail += leaders)
            plan->rail_rank[(size_t)leader * (size_t)n + (size_t)rail] = r;
    }
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

/* Deals chunks to the least loaded rail of their home, which has the most work with a chunk. */
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

    if (PLAN_ROOM(plan, loads, (size_t)plan->nleaders * (size_t)plan->rails))
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
    return 0;
}

int plan_lay_rails(struct plan *plan)
{
    if (PLAN_ROOM(plan, plan->rail_rank, (size_t)plan->nleaders * (size_t)plan->rails) ||
        find_ranks(plan))
        return -1;
    return plan->rails > 1 ? deal_rails(plan) : 0;
}

/* ---- traffic and memory of one of several leaders ---- */

/* Returns the rank's load. elems: elements of the chunks that the rank moves. */
static struct plan_load find_load(const struct plan *plan, int bucket, int world_rank,
                                  uint64_t *elems)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct plan_load load = {.bytes = 0};

    *elems = 0;
    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++) {
        const struct home_share part = {.home = plan_home(plan, c),
                                        .chunks = 1,
                                        .elems = plan->chunks[c].elems,
                                        .gradient_bytes = plan_gradient_bytes(plan, c),
                                        .back_bytes = plan_back_bytes(plan, c)};
        if (!plan_leads_chunk(plan, c, world_rank))
            continue;
        plan_add_part(plan, bucket, plan->leader[world_rank], &part, &load);
        *elems += part.elems;
    }
    return load;
}

struct traffic plan_rail_traffic(const struct plan *plan, int bucket, int world_rank)
{
    uint64_t elems;

    return find_load(plan, bucket, world_rank, &elems).traffic;
}

/* Returns the rank's bytes; memory that plan_home_memory does not count is divided by elements. */
uint64_t plan_rail_memory(const struct plan *plan, int bucket, int world_rank)
{
    const struct bucket *b = &plan->buckets[bucket];
    int leader = plan->leader[world_rank];
    uint64_t elems, bytes = find_load(plan, bucket, world_rank, &elems).bytes;
    uint64_t other_bytes =
        b->scheme->memory(plan, bucket, leader) - plan_home_memory(plan, bucket, leader);

    return bytes + (uint64_t)((double)other_bytes * ((double)elems / (double)b->elems));
}
