/* The plan. The one trick: chunks are dealt greedily by bytes in a fixed order, so that every rank
 * computes the same assignment without talking. */
#include "plan/plan.h"

#include "util/error.h"

#include <stdio.h>
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

static enum scheme choose(const struct plan *plan, int group, const struct param_group *g)
{
    const struct plan_options *o = &plan->options;
    int64_t rows = g->k * o->iter_size * plan->most_locals;

    if (!g->trains || o->comm == COMM_NONE)
        return SCHEME_NONE;
    if (plan->nworkers == 1)
        return SCHEME_PS; /* with itself, or the one worker's server */
    if (o->comm == COMM_ALLREDUCE)
        return SCHEME_ALLREDUCE;
    if (o->comm == COMM_AUTO && (o->scheme[group] == SCHEME_ALLREDUCE || g->factorable))
        return o->scheme[group];
    if (!g->factorable)
        return SCHEME_PS;
    switch (o->comm) {
    case COMM_SFB:
        return SCHEME_SFB;
    case COMM_ADAM:
        return SCHEME_ADAM;
    case COMM_ONEBIT:
        return SCHEME_ONEBIT;
    case COMM_PAPER:
        return plan_prefers_sfb(g->m, g->n, rows, plan->nworkers, plan->nservers) ? SCHEME_SFB
                                                                                  : SCHEME_PS;
    default:
        return SCHEME_PS;
    }
}

/* ---- buckets ---- */

/* Whether group g - 1 travels with g and those behind it, `bytes` of which are together: they wait
 * for it, so they must be few, whatever its own size. */
static bool joins(const struct plan *plan, const struct param_group *groups, int g, size_t bytes)
{
    enum { PADDING = 16 }; /* at most, between neighbours in the arenas */
    const struct param_group *before = &groups[g - 1];
    bool mergeable = plan->scheme[g] == SCHEME_PS || plan->scheme[g] == SCHEME_ALLREDUCE;

    return mergeable && plan->options.nranks > 1 && plan->scheme[g - 1] == plan->scheme[g] &&
           bytes < plan->options.merge_bytes &&
           before->first + before->nparams == groups[g].first &&
           groups[g].begin - (before->begin + before->elems) < PADDING;
}

/* From the last group to the first, as backward makes them; plan->bucket[g] becomes 1 where one
 * begins. */
static void find_buckets(struct plan *plan, int ngroups, const struct param_group *groups)
{
    size_t bytes = 0;

    for (int g = ngroups - 1; g >= 0; g--) {
        bytes += groups[g].elems * sizeof(float);
        plan->bucket[g] = g == 0 || !joins(plan, groups, g, bytes);
        if (plan->bucket[g])
            bytes = 0;
    }
}

static int name_bucket(struct plan *plan, int bucket, const struct param_group *groups, int last)
{
    int first = plan->first_member[bucket], bytes = 0;
    char *name = NULL;

    bytes = snprintf(NULL, 0, "%s .. %s", groups[first].name, groups[last].name) + 1;
    name = malloc((size_t)bytes);
    if (!name)
        return error_memory((uint64_t)bytes, "a bucket's name");
    snprintf(name, (size_t)bytes, "%s .. %s", groups[first].name, groups[last].name);
    plan->groups[bucket].name = plan->names[bucket] = name;
    return 0;
}

static int allocate_buckets(struct plan *plan, int ngroups)
{
    size_t n = (size_t)ngroups + 1;

    plan->scheme = calloc(n, sizeof *plan->scheme);
    plan->groups = calloc(n, sizeof *plan->groups);
    plan->first_member = calloc(n, sizeof *plan->first_member);
    plan->bucket = calloc(n, sizeof *plan->bucket);
    plan->names = calloc(n, sizeof *plan->names);
    if (!plan->scheme || !plan->groups || !plan->first_member || !plan->bucket || !plan->names)
        return error_memory(n * sizeof *plan->groups, "the communication plan");
    return 0;
}

/* Schemes, one per group of the net, move up to their buckets. */
static int merge(struct plan *plan, int ngroups, const struct param_group *groups)
{
    find_buckets(plan, ngroups, groups);
    for (int g = 0; g < ngroups; g++) {
        struct param_group *into;
        if (plan->bucket[g]) {
            plan->scheme[plan->ngroups] = plan->scheme[g];
            plan->first_member[plan->ngroups] = g;
            plan->groups[plan->ngroups++] = groups[g];
        } else {
            into = &plan->groups[plan->ngroups - 1];
            into->elems = groups[g].begin + groups[g].elems - into->begin;
            into->nparams += groups[g].nparams;
            into->factorable = false;
        }
        plan->bucket[g] = plan->ngroups - 1;
    }
    plan->first_member[plan->ngroups] = ngroups;
    for (int b = 0; b < plan->ngroups; b++)
        if (plan->first_member[b + 1] - plan->first_member[b] > 1 &&
            name_bucket(plan, b, groups, plan->first_member[b + 1] - 1))
            return -1;
    return 0;
}

static int64_t shrink(int64_t size, int by)
{
    return (size + by - 1) / by;
}

/* Buckets of 1/dilate of the size where the real ones begin; schemes stay what full size chose. */
static void dilate(struct plan *plan)
{
    int by = plan->options.dilate;

    for (int g = 0; g < plan->ngroups && by > 1; g++) {
        struct param_group *group = &plan->groups[g];
        group->elems = (size_t)shrink((int64_t)group->elems, by);
        if (group->factorable) {
            group->m = shrink(group->m, by);
            group->n = shrink(group->n, by);
        }
    }
}

/* ---- chunks ---- */

/* How many ranks a group's chunks are dealt to; 1: nobody adds them up, or one owner. */
static int homes_of(const struct plan *plan, int group)
{
    switch (plan->scheme[group]) {
    case SCHEME_PS:
        return plan->nservers;
    case SCHEME_ALLREDUCE:
    case SCHEME_ONEBIT:
        return plan->nworkers;
    default:
        return 1;
    }
}

/* Elements of a chunk out of `elems`, in steps of `unit`: at most --chunk, and so few that all
 * homes get a part, unless parts would be too small to be worth a message. */
static size_t piece_of(const struct plan *plan, int group, size_t elems, size_t unit)
{
    size_t homes = (size_t)homes_of(plan, group), part = (elems + homes - 1) / homes;
    size_t by =
        plan->options.dilate > 1 ? (size_t)plan->options.dilate : 1; /* as many as undilated */
    size_t most = plan->options.chunk_bytes / sizeof(float) / by, least = PLAN_LEAST_PART / by;

    part = part < least ? least : part;
    most = (part < most ? part : most) / unit * unit;
    return most ? most : unit;
}

/* unit: the width of a codec's rows; 0: no rows. */
static void add_chunks(struct plan *plan, int group, size_t begin, size_t elems, size_t unit,
                       bool fill)
{
    bool codec_rows = unit > 0;
    size_t piece;

    unit = unit ? unit : 1;
    piece = piece_of(plan, group, elems, unit);

    for (size_t at = 0; at < elems; at += piece) {
        size_t size = elems - at < piece ? elems - at : piece;
        if (fill)
            plan->chunks[plan->nchunks] = (struct chunk){.group = group,
                                                         .begin = begin + at,
                                                         .elems = size,
                                                         .rows = codec_rows ? size / unit : 1};
        plan->nchunks++;
    }
}

/* One-bit chunks are whole rows of the weight; the bias is a chunk of floats. */
static void cut_group(struct plan *plan, int group, bool fill)
{
    const struct param_group *g = &plan->groups[group];
    size_t weight = plan->scheme[group] == SCHEME_ONEBIT ? (size_t)(g->m * g->n) : 0;

    if (weight)
        add_chunks(plan, group, g->begin, weight, (size_t)g->n, fill);
    add_chunks(plan, group, g->begin + weight, g->elems - weight, 0, fill);
}

static int cut(struct plan *plan)
{
    size_t most = plan->options.chunk_bytes / sizeof(float), least = 0;

    for (int g = 0; g < plan->ngroups; g++)
        least += plan->groups[g].elems / most + 2;
    if (least > INT32_MAX / 8)
        return error_set("--chunk=%zu cuts the parameters into %zu pieces; choose a larger chunk",
                         plan->options.chunk_bytes, least);
    for (int g = 0; g < plan->ngroups; g++)
        cut_group(plan, g, false);
    plan->chunks = calloc(plan->nchunks ? (size_t)plan->nchunks : 1, sizeof *plan->chunks);
    plan->first_chunk = calloc((size_t)plan->ngroups + 1, sizeof *plan->first_chunk);
    if (!plan->chunks || !plan->first_chunk)
        return error_memory((uint64_t)plan->nchunks * sizeof *plan->chunks, "the list of chunks");
    plan->nchunks = 0;
    for (int g = 0; g < plan->ngroups; g++) {
        plan->first_chunk[g] = plan->nchunks;
        cut_group(plan, g, true);
    }
    plan->first_chunk[plan->ngroups] = plan->nchunks;
    return 0;
}

/* Largest first; equal ones stay in order, so that every rank deals alike. */
static int by_size(const void *left, const void *right)
{
    const struct chunk *a = *(const struct chunk *const *)left,
                       *b = *(const struct chunk *const *)right;

    if (a->elems != b->elems)
        return a->elems < b->elems ? 1 : -1;
    return a < b ? -1 : a > b;
}

/* The rank among [first, first + count) with the least load takes `elems` more. */
static int deal_one(uint64_t *load, int first, int count, uint64_t elems)
{
    int best = first;

    for (int r = first + 1; r < first + count; r++)
        if (load[r] < load[best])
            best = r;
    load[best] += elems;
    return best;
}

static int deal(struct plan *plan)
{
    int first = plan->dedicated ? plan->nworkers : 0, n = 0;
    uint64_t *load = calloc((size_t)plan->options.nranks, sizeof *load);
    struct chunk **order = calloc(plan->nchunks ? (size_t)plan->nchunks : 1, sizeof *order);

    if (!load || !order) {
        free(load);
        free(order);
        return error_memory((uint64_t)plan->nchunks * sizeof *order, "dealing chunks");
    }
    for (int g = 0; g < plan->ngroups; g++) {
        int owner = plan->scheme[g] == SCHEME_ADAM
                        ? deal_one(load, first, plan->nservers, plan->groups[g].elems)
                        : -1;
        for (int c = plan->first_chunk[g]; c < plan->first_chunk[g + 1]; c++) {
            plan->chunks[c].home = owner;
            if (owner < 0)
                order[n++] = &plan->chunks[c];
        }
    }
    qsort(order, (size_t)n, sizeof *order, by_size);
    for (int i = 0; i < n; i++) {
        enum scheme scheme = plan->scheme[order[i]->group];
        bool server = scheme == SCHEME_PS;
        order[i]->home = server ? deal_one(load, first, plan->nservers, order[i]->elems)
                         : scheme == SCHEME_ALLREDUCE || scheme == SCHEME_ONEBIT
                             ? deal_one(load, 0, plan->nworkers, order[i]->elems)
                             : 0; /* nobody adds it up; rank 0 speaks for its norm */
    }
    free(order);
    free(load);
    return 0;
}

const struct codec *plan_codec(const struct plan *plan, int chunk)
{
    const struct chunk *c = &plan->chunks[chunk];
    const struct param_group *g = &plan->groups[c->group];

    switch (plan->scheme[c->group]) {
    case SCHEME_ONEBIT:
        return c->begin < g->begin + (size_t)(g->m * g->n) ? &codec_onebit : NULL;
    case SCHEME_PS:
    case SCHEME_ALLREDUCE:
        return plan->options.wire == WIRE_BF16 && plan->nworkers > 1 ? &codec_bf16 : NULL;
    default:
        return NULL;
    }
}

size_t plan_gradient_bytes(const struct plan *plan, int chunk)
{
    const struct codec *codec = plan_codec(plan, chunk);
    const struct chunk *c = &plan->chunks[chunk];

    return codec ? codec->bytes(c->rows, c->elems / c->rows) : c->elems * sizeof(float);
}

/* Speakers and whom they speak for. */
static int find_speakers(struct plan *plan)
{
    const struct plan_options *o = &plan->options;
    size_t nranks = (size_t)o->nranks;

    plan->ncomputing = o->nranks - o->servers;
    plan->speaker = calloc(nranks, sizeof *plan->speaker);
    plan->world_rank = calloc(nranks, sizeof *plan->world_rank);
    plan->locals = calloc(nranks, sizeof *plan->locals);
    if (!plan->speaker || !plan->world_rank || !plan->locals)
        return error_memory(nranks * sizeof *plan->speaker, "the communication plan");
    for (int r = 0; r < plan->ncomputing; r++) {
        int speaker = plan->speaker[r] = o->nodes ? o->nodes[r] : r;
        if (plan->locals[speaker]++ == 0)
            plan->world_rank[plan->nworkers++] = r;
        if (plan->locals[speaker] > plan->most_locals)
            plan->most_locals = plan->locals[speaker];
    }
    for (int s = 0; s < o->servers; s++) {
        plan->speaker[plan->ncomputing + s] = plan->nworkers + s;
        plan->world_rank[plan->nworkers + s] = plan->ncomputing + s;
    }
    plan->dedicated = o->servers > 0;
    plan->nservers = plan->dedicated ? o->servers : plan->nworkers;
    return 0;
}

int plan_create(const struct plan_options *options, int ngroups, const struct param_group *groups,
                struct plan **out)
{
    struct plan *plan = calloc(1, sizeof *plan);

    *out = NULL;
    if (!plan)
        return error_memory(sizeof *plan, "the communication plan");
    plan->options = *options;
    if (options->servers < 0 || options->servers >= options->nranks) {
        error_set("--servers=%d leaves no worker: %d rank%s in all, and at least one must compute",
                  options->servers, options->nranks,
                  options->nranks == 1 ? " is there" : "s are there");
        goto fail;
    }
    if (options->chunk_bytes < sizeof(float)) {
        error_set("--chunk=%zu: a chunk holds at least one parameter, %zu bytes",
                  options->chunk_bytes, sizeof(float));
        goto fail;
    }
    if (find_speakers(plan) || allocate_buckets(plan, ngroups))
        goto fail;
    for (int g = 0; g < ngroups; g++)
        plan->scheme[g] = choose(plan, g, &groups[g]);
    if (merge(plan, ngroups, groups))
        goto fail;
    dilate(plan);
    if (cut(plan) || deal(plan))
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
    free(plan->speaker);
    free(plan->world_rank);
    free(plan->locals);
    for (int b = 0; plan->names && b < plan->ngroups; b++)
        free(plan->names[b]);
    free(plan->names);
    free(plan->scheme);
    free(plan->groups);
    free(plan->first_member);
    free(plan->bucket);
    free(plan->chunks);
    free(plan->first_chunk);
    free(plan);
}

bool plan_is_worker(const struct plan *plan, int world_rank)
{
    return world_rank < plan->ncomputing;
}

/* Gradients go to the home, `back` bytes come from it. */
static void add_chunk_traffic(const struct plan *plan, int chunk, int rank, uint64_t back,
                              struct traffic *traffic)
{
    bool worker = rank < plan->nworkers;
    uint64_t others = (uint64_t)plan->nworkers - (worker ? 1 : 0);
    uint64_t gradient = plan_gradient_bytes(plan, chunk);

    if (plan_home(plan, chunk) == rank) {
        traffic->sent += others * back;
        traffic->received += others * gradient;
    } else if (worker) {
        traffic->sent += gradient;
        traffic->received += back;
    }
}

/* Of factors, from that speaker; -1: from all that are workers. */
static uint64_t factor_bytes(const struct plan *plan, int group, int speaker)
{
    const struct param_group *g = &plan->groups[group];
    uint64_t row = (uint64_t)(g->m + g->n) * (uint64_t)sizeof(float), rows = 0;

    for (int s = 0; s < plan->nworkers; s++)
        rows += speaker < 0 || s == speaker ? (uint64_t)plan_rows(plan, group, s) : 0;
    return rows * row;
}

struct traffic plan_traffic(const struct plan *plan, int group, int world_rank)
{
    struct traffic traffic = {0, 0};
    const struct param_group *g = &plan->groups[group];
    int rank = plan->speaker[world_rank];
    bool worker = rank < plan->nworkers;
    uint64_t others = (uint64_t)plan->nworkers - (worker ? 1 : 0);
    uint64_t mine, all;

    if (!plan_speaks(plan, world_rank))
        return traffic;
    switch (plan->scheme[group]) {
    case SCHEME_SFB:
    case SCHEME_ADAM:
        mine = worker ? factor_bytes(plan, group, rank) : 0;
        all = factor_bytes(plan, group, -1);
        if (plan->scheme[group] == SCHEME_SFB && worker)
            traffic = (struct traffic){others * mine, all - mine};
        else if (plan_home(plan, plan->first_chunk[group]) == rank &&
                 plan->scheme[group] == SCHEME_ADAM)
            traffic = (struct traffic){others * g->elems * sizeof(float), all - mine};
        else if (worker)
            traffic = (struct traffic){mine, g->elems * sizeof(float)};
        break;
    case SCHEME_PS:
        for (int c = plan->first_chunk[group]; c < plan->first_chunk[group + 1]; c++)
            add_chunk_traffic(plan, c, rank, plan->chunks[c].elems * sizeof(float), &traffic);
        break;
    case SCHEME_ALLREDUCE:
    case SCHEME_ONEBIT:
        for (int c = plan->first_chunk[group]; c < plan->first_chunk[group + 1]; c++)
            add_chunk_traffic(plan, c, rank, plan_gradient_bytes(plan, c), &traffic);
        break;
    case SCHEME_NONE:
    case SCHEMES:
        break;
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

static int parse(const char *option, const char *text, const char *const *names, int count)
{
    char list[256] = "";

    for (int i = 0; i < count; i++) {
        if (!strcmp(text, names[i]))
            return i;
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    }
    error_set("--%s=%s is not known (%s)", option, text, list);
    return -1;
}

static const char *const comm_names[COMM_MODES] = {"ps",   "sfb",    "paper", "allreduce",
                                                   "adam", "onebit", "auto",  "none"};
static const char *const wire_names[] = {"fp32", "bf16"};

int comm_mode_parse(const char *text, enum comm_mode *out)
{
    int found = parse("comm", text, comm_names, COMM_MODES);

    *out = found < 0 ? COMM_PAPER : (enum comm_mode)found;
    return found < 0 ? -1 : 0;
}

int wire_parse(const char *text, enum wire *out)
{
    int found = parse("wire", text, wire_names, 2);

    *out = found < 0 ? WIRE_FP32 : (enum wire)found;
    return found < 0 ? -1 : 0;
}

const char *comm_mode_name(enum comm_mode mode)
{
    return comm_names[mode];
}

const char *wire_name(enum wire wire)
{
    return wire_names[wire];
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
    for (int r = 0; r < plan->ncomputing; r++)
        hash = mix(hash, (uint64_t)plan->speaker[r]);
    hash = mix(hash, (uint64_t)plan->options.iter_size << 8 | (uint64_t)plan->options.wire);
    for (int g = 0; g < plan->ngroups; g++) {
        hash = mix(hash, plan->groups[g].begin);
        hash = mix(hash, plan->groups[g].elems);
        hash = mix(hash, (uint64_t)plan->groups[g].k << 8 | (uint64_t)plan->scheme[g]);
    }
    for (int c = 0; c < plan->nchunks; c++)
        hash = mix(hash, (uint64_t)plan->chunks[c].elems << 16 ^ (uint64_t)plan->chunks[c].home);
    return hash;
}
