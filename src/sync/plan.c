/* The plan. The one trick: chunks are dealt greedily by bytes in a fixed order, so that every rank
 * computes the same assignment without talking. */
#include "sync/plan.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* a*b and c*d as 128-bit products: m, n, k and rank counts come from files and users. */
__extension__ typedef unsigned __int128 wide_t;

bool plan_prefers_sfb(int64_t m, int64_t n, int64_t k, int64_t nworkers, int64_t nservers)
{
    wide_t sfb = (wide_t)(uint64_t)k * (uint64_t)(nworkers - 1) * (uint64_t)(m + n);
    wide_t ps = (wide_t)(uint64_t)m * (uint64_t)n * (uint64_t)(nworkers + nservers - 2);

    return sfb * (uint64_t)nservers <= ps;
}

static enum scheme choose(const struct plan *plan, const struct param_group *group)
{
    int64_t rows = group->k * plan->options.iter_size;

    if (!group->trains)
        return SCHEME_NONE;
    if (!group->factorable || plan->options.comm == COMM_PS || plan->nworkers == 1)
        return SCHEME_PS;
    if (plan->options.comm == COMM_SFB)
        return SCHEME_SFB;
    return plan_prefers_sfb(group->m, group->n, rows, plan->nworkers, plan->nservers) ? SCHEME_SFB
                                                                                      : SCHEME_PS;
}

static int64_t shrink(int64_t size, int by)
{
    return (size + by - 1) / by;
}

/* Groups of 1/dilate of the size where the real ones begin; schemes stay what full size chose. */
static int dilate(struct plan *plan)
{
    int by = plan->options.dilate;
    size_t bytes = ((size_t)plan->ngroups + 1) * sizeof *plan->dilated;

    if (by <= 1)
        return 0;
    plan->dilated = malloc(bytes);
    if (!plan->dilated)
        return error_memory(bytes, "the dilated plan");
    for (int g = 0; g < plan->ngroups; g++) {
        struct param_group *group = &plan->dilated[g];
        *group = plan->groups[g];
        group->elems = (size_t)shrink((int64_t)group->elems, by);
        if (group->factorable) {
            group->m = shrink(group->m, by);
            group->n = shrink(group->n, by);
        }
    }
    plan->groups = plan->dilated;
    return 0;
}

static int cut(struct plan *plan)
{
    size_t most = plan->options.chunk_bytes / sizeof(float), count = 0;

    for (int g = 0; g < plan->ngroups; g++)
        count += (plan->groups[g].elems + most - 1) / most;
    if (count > INT32_MAX / 4)
        return error_set("--chunk=%zu cuts the parameters into %zu pieces; choose a larger chunk",
                         plan->options.chunk_bytes, count);
    plan->chunks = calloc(count ? count : 1, sizeof *plan->chunks);
    plan->first_chunk = calloc((size_t)plan->ngroups + 1, sizeof *plan->first_chunk);
    if (!plan->chunks || !plan->first_chunk)
        return error_memory(count * sizeof *plan->chunks, "the list of chunks");
    for (int g = 0; g < plan->ngroups; g++) {
        const struct param_group *group = &plan->groups[g];
        plan->first_chunk[g] = plan->nchunks;
        for (size_t at = 0; at < group->elems; at += most)
            plan->chunks[plan->nchunks++] = (struct chunk){
                .group = g,
                .begin = group->begin + at,
                .elems = group->elems - at < most ? group->elems - at : most,
            };
    }
    plan->first_chunk[plan->ngroups] = plan->nchunks;
    return 0;
}

/* Only what PS moves loads a server; the other chunks still have a number and a home (server 0). */
static int deal(struct plan *plan)
{
    uint64_t *load = calloc((size_t)plan->nservers, sizeof *load);
    int *order = calloc(plan->nchunks ? (size_t)plan->nchunks : 1, sizeof *order);
    int n = 0, status = 0;

    if (!load || !order) {
        status = error_memory((size_t)plan->nchunks * sizeof *order, "dealing chunks");
        goto done;
    }
    /* Whole chunks first (they are all of one size), then the odd ends from large to small. Insertion
     * by counting keeps the order stable and the same everywhere. */
    for (int c = 0; c < plan->nchunks; c++)
        if (plan->scheme[plan->chunks[c].group] == SCHEME_PS)
            order[n++] = c;
    for (int i = 1; i < n; i++) {
        int c = order[i], j = i;
        for (; j > 0 && plan->chunks[order[j - 1]].elems < plan->chunks[c].elems; j--)
            order[j] = order[j - 1];
        order[j] = c;
    }
    for (int i = 0; i < n; i++) {
        int best = 0;
        for (int s = 1; s < plan->nservers; s++)
            if (load[s] < load[best])
                best = s;
        plan->chunks[order[i]].server = best;
        load[best] += plan->chunks[order[i]].elems;
    }
done:
    free(order);
    free(load);
    return status;
}

int plan_create(const struct plan_options *options, int ngroups, const struct param_group *groups,
                struct plan **out)
{
    struct plan *plan = calloc(1, sizeof *plan);

    *out = NULL;
    if (!plan)
        return error_memory(sizeof *plan, "the communication plan");
    plan->options = *options;
    plan->ngroups = ngroups;
    plan->groups = groups;
    if (options->servers < 0 || options->servers >= options->nranks) {
        error_set("--servers=%d leaves no worker: %d rank%s in all, and at least one must compute",
                  options->servers, options->nranks, options->nranks == 1 ? " is there" : "s are there");
        goto fail;
    }
    if (options->chunk_bytes < sizeof(float)) {
        error_set("--chunk=%zu: a chunk holds at least one parameter, %zu bytes",
                  options->chunk_bytes, sizeof(float));
        goto fail;
    }
    plan->dedicated = options->servers > 0;
    plan->nworkers = options->nranks - options->servers;
    plan->nservers = plan->dedicated ? options->servers : plan->nworkers;
    plan->scheme = calloc(ngroups ? (size_t)ngroups : 1, sizeof *plan->scheme);
    if (!plan->scheme) {
        error_memory((size_t)ngroups * sizeof *plan->scheme, "the communication plan");
        goto fail;
    }
    for (int g = 0; g < ngroups; g++)
        plan->scheme[g] = choose(plan, &groups[g]);
    if (dilate(plan) || cut(plan) || deal(plan))
        goto fail;
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
    free(plan->scheme);
    free(plan->dilated);
    free(plan->chunks);
    free(plan->first_chunk);
    free(plan);
}

int plan_server_rank(const struct plan *plan, int server)
{
    return plan->dedicated ? plan->nworkers + server : server;
}

int plan_server_index(const struct plan *plan, int rank)
{
    if (!plan->dedicated)
        return rank;
    return rank >= plan->nworkers ? rank - plan->nworkers : -1;
}

bool plan_is_worker(const struct plan *plan, int rank)
{
    return rank < plan->nworkers;
}

struct traffic plan_traffic(const struct plan *plan, int group, int rank)
{
    struct traffic traffic = {0, 0};
    const struct param_group *g = &plan->groups[group];
    bool worker = plan_is_worker(plan, rank);
    uint64_t peers = (uint64_t)plan->nworkers - (worker ? 1 : 0);

    if (plan->scheme[group] == SCHEME_SFB && worker) {
        uint64_t rows = (uint64_t)g->k * (uint64_t)plan->options.iter_size;
        traffic.sent = traffic.received =
            peers * rows * (uint64_t)(g->m + g->n) * (uint64_t)sizeof(float);
    } else if (plan->scheme[group] == SCHEME_PS) {
        for (int c = plan->first_chunk[group]; c < plan->first_chunk[group + 1]; c++) {
            uint64_t bytes = plan->chunks[c].elems * sizeof(float);
            bool serves = plan_server_rank(plan, plan->chunks[c].server) == rank;
            uint64_t times = serves ? peers : worker ? 1 : 0;
            traffic.sent += times * bytes; /* gradients one way, parameters the other: equal */
            traffic.received += times * bytes;
        }
    }
    return traffic;
}

const char *scheme_name(enum scheme scheme)
{
    switch (scheme) {
    case SCHEME_PS:
        return "PS";
    case SCHEME_SFB:
        return "SFB";
    case SCHEME_ALLREDUCE:
        return "allreduce";
    case SCHEME_ADAM:
        return "Adam";
    case SCHEME_ONEBIT:
        return "1-bit";
    case SCHEME_NONE:
    case SCHEMES:
        break;
    }
    return "-";
}

int comm_mode_parse(const char *text, enum comm_mode *out)
{
    static const char *const names[] = {"ps", "sfb", "paper"};

    for (int i = 0; i < 3; i++)
        if (!strcmp(text, names[i])) {
            *out = (enum comm_mode)i;
            return 0;
        }
    return error_set("--comm=%s is not a scheme (known: ps, sfb, paper)", text);
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    /* FNV-1a over the word's bytes: small, and any difference shows */
    for (int i = 0; i < 8; i++, word >>= 8)
        hash = (hash ^ (word & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t plan_digest(const struct plan *plan, uint64_t seed)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), seed);

    hash = mix(hash, (uint64_t)plan->nworkers << 32 | (uint32_t)plan->nservers);
    hash = mix(hash, (uint64_t)plan->options.iter_size);
    for (int g = 0; g < plan->ngroups; g++) {
        hash = mix(hash, plan->groups[g].begin);
        hash = mix(hash, plan->groups[g].elems);
        hash = mix(hash, (uint64_t)plan->groups[g].k << 8 | (uint64_t)plan->scheme[g]);
    }
    for (int c = 0; c < plan->nchunks; c++)
        hash = mix(hash, (uint64_t)plan->chunks[c].elems << 16 ^ (uint64_t)plan->chunks[c].server);
    return hash;
}
