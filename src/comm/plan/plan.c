/* Makes the plan: leaders, schemes and buckets. Everything is decided in a fixed order from what
 * all ranks know, so that every rank computes the same plan without talking. */
#include "plan/plan_internal.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/strbuf.h"
#include "plan/for_schemes.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* 128-bit type for a*b and c*d, because m, n, k and rank counts come from files and users. */
__extension__ typedef unsigned __int128 wide_t;

bool plan_prefers_sfb(int64_t m, int64_t n, int64_t k, int64_t nworkers, int64_t nservers)
{
    wide_t sfb = (wide_t)(uint64_t)k * (uint64_t)(nworkers - 1) * (uint64_t)(m + n);
    wide_t ps = (wide_t)(uint64_t)m * (uint64_t)n * (uint64_t)(nworkers + nservers - 2);

    return sfb * (uint64_t)nservers <= ps;
}

static struct way wished_way(const struct plan *plan, int group)
{
    const struct plan_options *o = &plan->options;
    const struct group *g = &plan->groups[group];
    struct way way = {.wire = o->wire};

    switch (o->comm.policy) {
    case COMM_SCHEME:
        way.scheme = o->comm.scheme;
        way.rank = scheme_rank(way.scheme, o->comm);
        break;
    case COMM_AUTO:
        way = o->ways[group];
        break;
    case COMM_PAPER:
        if (g->factorable && plan_prefers_sfb(g->m, g->n, g->k * o->iter_size * plan->most_parts,
                                              plan->nworkers, plan->nservers))
            way.scheme = scheme_of_factors(o->registry);
        break;
    case COMM_NONE:
        break;
    }
    return way;
}

static struct way choose_way(const struct plan *plan, int group)
{
    const struct group *g = &plan->groups[group];
    struct way way = wished_way(plan, group);

    if (!g->trains || plan->options.comm.policy == COMM_NONE)
        return (struct way){.scheme = NULL};
    /* a single worker talks to itself, or to its server */
    if (plan->nworkers == 1 || !way.scheme || !scheme_can_move(way.scheme, g, way.rank))
        way = (struct way){.scheme = plan->options.registry[0], .wire = way.wire};
    if (!scheme_takes_bf16(way.scheme))
        way.wire = WIRE_FP32;
    return way;
}

/* ---- buckets ---- */

/* True if group g - 1 travels with group g and the groups behind, of `bytes` together. These groups
 * wait for group g - 1, so they must be few, whatever the size of g - 1. */
static bool joins(const struct plan *plan, const struct way *way, int g, size_t bytes)
{
    enum { PADDING = 16 }; /* most padding between neighbours in the arenas */
    const struct group *before = &plan->groups[g - 1];

    return way[g].scheme && way[g].scheme->mergeable && plan->options.nranks > 1 &&
           way_is(way[g - 1], way[g]) && bytes < plan->options.sizes.merge &&
           plan->groups[g].begin - (before->begin + before->elems) < PADDING;
}

/* Finds buckets from the last group to the first, as backward makes them; bucket_of[g] becomes 1
 * where one begins. Returns their number. */
static int find_buckets(struct plan *plan, const struct way *way)
{
    size_t bytes = 0;
    int count = 0;

    for (int g = plan->ngroups - 1; g >= 0; g--) {
        bytes += plan->groups[g].elems * sizeof(float);
        plan->bucket_of[g] = g == 0 || !joins(plan, way, g, bytes);
        count += plan->bucket_of[g];
        if (plan->bucket_of[g])
            bytes = 0;
    }
    return count;
}

static int name_bucket(const struct plan *plan, struct bucket *bucket)
{
    const char *first = plan->groups[bucket->first_group].name;
    const char *last = plan->groups[bucket->first_group + bucket->ngroups - 1].name;
    struct strbuf name = {.data = NULL};

    strbuf_printf(&name, bucket->ngroups > 1 ? "%s .. %s" : "%s", first, last);
    bucket->name = strbuf_take(&name);
    return bucket->name ? 0 : -1;
}

static void begin_bucket(struct bucket *bucket, const struct group *group, int number,
                         struct way way)
{
    *bucket = (struct bucket){.layer = group->layer,
                              .begin = group->begin,
                              .elems = group->elems,
                              .trains = group->trains,
                              .decays = group->decays,
                              .factorable = group->factorable,
                              .m = group->m,
                              .n = group->n,
                              .k = group->k,
                              .first_group = number,
                              .ngroups = 1,
                              .scheme = way.scheme,
                              .rank = way.rank,
                              .wire = way.wire,
                              .label = way_label(way)};
}

static int make_buckets(struct plan *plan)
{
    size_t n = (size_t)plan->ngroups + 1;
    struct way *way;
    int last = -1, status = 0;

    if (PLAN_ROOM(plan, way, n) || PLAN_ROOM(plan, plan->bucket_of, n) ||
        PLAN_ROOM(plan, plan->buckets, n))
        return -1;
    for (int g = 0; g < plan->ngroups; g++)
        way[g] = choose_way(plan, g);
    plan->nbuckets = find_buckets(plan, way);
    for (int g = 0; g < plan->ngroups; g++) {
        const struct group *group = &plan->groups[g];
        if (plan->bucket_of[g]) {
            begin_bucket(&plan->buckets[++last], group, g, way[g]);
        } else {
            struct bucket *current = &plan->buckets[last];
            current->elems = group->begin + group->elems - current->begin;
            current->factorable = false;
            current->ngroups++;
        }
        plan->bucket_of[g] = last;
    }
    assert(last + 1 == plan->nbuckets);
    for (int b = 0; b < plan->nbuckets && !status; b++)
        status = name_bucket(plan, &plan->buckets[b]);
    return status;
}

/* Returns the rounds of the bucket's factors. Memory holds two rounds of all workers' rows, since
 * the next one may come while the last is used, and with several rounds the leader's own rows. All
 * workers send equally many rows a round, or all would wait for the links of a few. */
static int rounds_of(const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];
    double rows = (double)plan_most_rows(plan, bucket);
    double row = (double)(b->m + b->n) * (double)plan_factor_room(plan, bucket);
    double workers = plan->nworkers;
    double most = 2.0 * (double)b->elems * sizeof(float), each;

    if (!b->scheme || !b->scheme->factors || b->scheme->home != HOME_NOBODY)
        return 1;
    most = most > (double)PLAN_FACTOR_BYTES ? most : (double)PLAN_FACTOR_BYTES;
    if (plan->options.factor_bytes > 0)
        most = (double)plan->options.factor_bytes;
    if (2 * workers * rows * row <= most)
        return 1;
    each = (most / row - rows) / (2 * workers);
    each = each < 1 ? 1 : (double)(int64_t)each;
    rows /= each;
    return rows > INT32_MAX ? INT32_MAX : (int)rows + (rows > (double)(int64_t)rows);
}

/* Returns the slices of the leader with the most rows; other leaders' slices are smaller. */
static int slices_of(const struct plan *plan, int bucket)
{
    enum { MOST = 1 << 16 };
    const struct bucket *b = &plan->buckets[bucket];
    double bytes = (double)plan_round_rows(plan, bucket) * (double)(b->m + b->n) *
                   (double)plan_factor_size(plan, bucket);
    double slices = bytes / (double)plan->options.sizes.chunk;

    if (!b->scheme || !b->scheme->factors || b->scheme->home != HOME_NOBODY || slices <= 1)
        return 1;
    return slices > MOST ? MOST : (int)slices + (slices > (double)(int)slices);
}

static void cut_factors(struct plan *plan)
{
    for (int b = 0; b < plan->nbuckets; b++) {
        plan->buckets[b].rounds = rounds_of(plan, b);
        plan->buckets[b].slices = slices_of(plan, b);
        plan->in_rounds =
            plan->in_rounds || plan->buckets[b].rounds > 1 || plan->buckets[b].rank > 0;
    }
}

static int64_t shrink(int64_t size, int divisor)
{
    return (size + divisor - 1) / divisor;
}

/* Shrinks buckets to 1/dilate of their size, in place; schemes were chosen for the full size. */
static void dilate(struct plan *plan)
{
    int divisor = plan->options.dilate;

    for (int b = 0; b < plan->nbuckets && divisor > 1; b++) {
        struct bucket *bucket = &plan->buckets[b];
        bucket->elems = (size_t)shrink((int64_t)bucket->elems, divisor);
        if (bucket->factorable) {
            bucket->m = shrink(bucket->m, divisor);
            bucket->n = shrink(bucket->n, divisor);
        }
    }
}

struct low_rank plan_low_rank(const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];
    const struct group *group = &plan->groups[b->first_group];
    int divisor = plan->options.dilate > 1 ? plan->options.dilate : 1;
    int64_t elems = (int64_t)group->params[0].elems, m = shrink(group->outputs, divisor),
            n = shrink(elems / group->outputs, divisor),
            tail = shrink((int64_t)group->elems - elems, divisor);

    return (struct low_rank){.m = m,
                             .n = n,
                             .tail = (size_t)tail,
                             .elems = {(size_t)(m * b->rank + tail), (size_t)(n * b->rank)}};
}

/* ---- life ---- */

/* Finds the leaders, and the workers that each leads. */
static int find_leaders(struct plan *plan)
{
    const struct plan_options *o = &plan->options;

    plan->ncomputing = o->nranks - o->servers;
    if (PLAN_ROOM(plan, plan->leader, o->nranks) || PLAN_ROOM(plan, plan->world_rank, o->nranks) ||
        PLAN_ROOM(plan, plan->locals, o->nranks) || PLAN_ROOM(plan, plan->part, o->nranks) ||
        PLAN_ROOM(plan, plan->parts, o->nranks))
        return -1;
    for (int r = 0; r < plan->ncomputing; r++) {
        int leader = plan->leader[r] = o->nodes ? o->nodes[r] : r;
        assert(leader <= plan->nworkers);
        if (plan->locals[leader]++ == 0)
            plan->world_rank[plan->nworkers++] = r;
        if (plan->locals[leader] > plan->most_locals)
            plan->most_locals = plan->locals[leader];
        plan->part[r] = o->parts ? o->parts[r] : 1;
        plan->all_parts += plan->part[r];
        plan->parts[leader] += plan->part[r];
        if (plan->parts[leader] > plan->most_parts)
            plan->most_parts = plan->parts[leader];
    }
    for (int s = 0; s < o->servers; s++) {
        plan->leader[plan->ncomputing + s] = plan->nworkers + s;
        plan->world_rank[plan->nworkers + s] = plan->ncomputing + s;
    }
    plan->dedicated = o->servers > 0;
    plan->nservers = plan->dedicated ? o->servers : plan->nworkers;
    plan->nleaders = plan->nworkers + o->servers;
    plan->rails = o->rails < 1 ? 1 : o->rails < plan->most_locals ? o->rails : plan->most_locals;
    return 0;
}

/* Cuts the leaves from `begin` to `end` into the tree's largest blocks; returns their number. */
static int cut_branches(int begin, int end, int leaves, struct plan_branch *out)
{
    int count = 0;

    while (begin < end) {
        int level = 0;

        /* the last block may lack leaves */
        while (begin % (2 << level) == 0 && begin + (1 << level) < leaves &&
               (begin + (2 << level) <= end || end == leaves))
            level++;
        out[count++] = (struct plan_branch){begin, level};
        begin += 1 << level;
    }
    return count;
}

static int find_branches(struct plan *plan)
{
    const int *grains = plan->options.grains;
    int begin = 0, count = 0, most = 1;

    assert(!grains || (plan->nworkers == plan->ncomputing && plan->options.wire == WIRE_FP32));
    plan->in_grains = grains != NULL;
    for (int w = 0; w < plan->nworkers; w++)
        plan->leaves += grains ? grains[w] : 1;
    if (PLAN_ROOM(plan, plan->first_branch, plan->nworkers + 1) ||
        PLAN_ROOM(plan, plan->branches, plan->leaves))
        return -1;
    for (int w = 0; w < plan->nworkers; w++) {
        int end = begin + (grains ? grains[w] : 1);
        count += cut_branches(begin, end, plan->leaves, plan->branches + count);
        most = count - plan->first_branch[w] > most ? count - plan->first_branch[w] : most;
        plan->first_branch[w + 1] = count;
        begin = end;
    }
    /* a message has all sums of a chunk that its rank has */
    if (plan->options.sizes.chunk > PLAN_LARGEST_MESSAGE / (size_t)most)
        plan->options.sizes.chunk = PLAN_LARGEST_MESSAGE / (size_t)most / 4 * 4;
    return 0;
}

static void check_options(const struct plan_options *o)
{
    assert(o->registry && o->registry[0]);
    assert(o->servers >= 0 && o->servers < o->nranks && o->iter_size >= 1);
    assert(o->comm.policy != COMM_SCHEME || o->comm.scheme);
    assert(o->sizes.chunk >= sizeof(float));
}

/* Checks that a rank given with --comm suits some layer, at any number of ranks. */
static int check_rank(const struct plan *plan)
{
    const struct comm *comm = &plan->options.comm;

    for (int g = 0; g < plan->ngroups && comm->rank > 0; g++)
        if (scheme_can_move(comm->scheme, &plan->groups[g], comm->rank))
            return 0;
    if (comm->rank == 0)
        return 0;
    return error_set("no layer's gradient is large enough for factors of rank %d, which must have "
                     "at most half of its elements; use a smaller rank, or comm=ps",
                     comm->rank);
}

static int copy_groups(struct plan *plan, int ngroups, const struct group *groups)
{
    struct group *copy;

    if (PLAN_ROOM(plan, copy, ngroups))
        return -1;
    if (ngroups > 0)
        memcpy(copy, groups, (size_t)ngroups * sizeof *copy);
    for (int g = 0; g < ngroups && plan->options.parts; g++) {
        copy[g].factorable &= copy[g].k % plan->options.batch == 0;
        copy[g].k /= plan->options.batch;
    }
    plan->groups = copy;
    plan->ngroups = ngroups;
    return 0;
}

int plan_create(const struct plan_options *options, int ngroups, const struct group *groups,
                struct plan **out)
{
    struct plan *plan;

    *out = NULL;
    if (ALLOC(plan, 1, "the communication plan"))
        return -1;
    check_options(options);
    plan->options = *options;
    if (plan->options.sizes.latency == 0)
        plan->options.sizes.latency = PLAN_USUAL_LATENCY_BYTES;
    if (copy_groups(plan, ngroups, groups) || check_rank(plan) || find_leaders(plan) ||
        find_branches(plan) || make_buckets(plan))
        goto fail;
    cut_factors(plan);
    dilate(plan);
    if (plan_cut(plan) || plan_deal(plan) || plan_share_out(plan) || plan_lay_rails(plan))
        goto fail;
    plan->options.ways = NULL;
    plan->options.nodes = plan->options.parts = plan->options.grains = NULL;
    plan->options.batch = 1; /* the plan's groups have rows of one sample */
    *out = plan;
    return 0;
fail:
    plan_destroy(plan);
    return -1;
}

void plan_destroy(struct plan *plan)
{
    if (!plan)
        return;
    for (int b = 0; plan->buckets && b < plan->nbuckets; b++)
        free((char *)(uintptr_t)plan->buckets[b].name);
    owner_free(&plan->owner);
    free(plan);
}

bool plan_is_worker(const struct plan *plan, int world_rank)
{
    return world_rank < plan->ncomputing;
}

const char *const wire_words[] = {[WIRE_FP32] = "fp32", [WIRE_BF16] = "bf16", NULL};

static uint64_t mix(uint64_t hash, uint64_t word)
{
    /* FNV-1a over the word's bytes: small, and any difference shows */
    for (int i = 0; i < 8; i++, word >>= 8)
        hash = (hash ^ (word & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
    do
        hash = mix(hash, (uint64_t)(unsigned char)*text);
    while (*text++);
    return hash;
}

uint64_t plan_digest(const struct plan *plan, uint64_t seed)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), seed);

    hash = mix(hash, (uint64_t)plan->nworkers << 32 | (uint32_t)plan->nservers);
    hash = mix(hash, (uint64_t)plan->rails);
    for (int r = 0; r < plan->ncomputing; r++)
        hash = mix(hash, (uint64_t)plan->leader[r] << 32 | (uint32_t)plan->part[r]);
    for (int w = 0; w < plan->nworkers; w++)
        hash = mix(hash, (uint64_t)plan->first_branch[w + 1]);
    hash = mix(hash, (uint64_t)plan->options.iter_size);
    hash = mix(hash, (uint64_t)plan->options.drop);
    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        hash = mix(hash, bucket->begin);
        hash = mix(hash, bucket->elems);
        hash = mix(hash, (uint64_t)bucket->k << 1 | bucket->log_steps);
        hash = mix(hash, (uint64_t)bucket->rank << 8 | (uint64_t)bucket->wire);
        hash = mix(hash, (uint64_t)bucket->rounds << 32 | (uint32_t)bucket->slices);
        hash = mix_text(hash, bucket->scheme ? bucket->scheme->name : "");
    }
    for (int c = 0; c < plan->nchunks; c++)
        hash = mix(hash, (uint64_t)plan->chunks[c].elems << 16 ^ (uint64_t)plan->chunks[c].home ^
                             (uint64_t)plan->chunks[c].rail << 56);
    return hash;
}
