/* What the suites of the cost model share: clusters, layers, and a question asked in one call. */
#ifndef POSEIDON_TESTS_PLAN_COST_COMMON_H
#define POSEIDON_TESTS_PLAN_COST_COMMON_H

#include <check.h>

#include "plan/cost.h"
#include "tests/plan/schemes.h"
#include "util/error.h"
#include "util/rng.h"

/* Nothing but the link costs anything. */
static const struct cost_cluster only_link = {.link_Bps = 1e9,
                                              .local_Bps = 1e30,
                                              .gemm_flops = 1e30,
                                              .copy_Bps = 1e30,
                                              .sum_Bps = 1e30,
                                              .transport_Bps = 1e30};

static const struct cost_cluster usual = {.latency_seconds = 30e-6,
                                          .message_seconds = 3e-6,
                                          .link_Bps = 1.25e9,
                                          .local_Bps = 4e9,
                                          .gemm_flops = 2e11,
                                          .copy_Bps = 8e9,
                                          .sum_Bps = 4e9,
                                          .transport_Bps = 2e9};

/* Repeatable: number `which` of draw `draw`, below n. */
static inline uint32_t pick(uint32_t which, uint64_t draw, uint32_t n)
{
    struct rng rng = rng_make(7, RNG_DUMMY, which, draw);

    return rng_below(&rng, 0, n);
}

static const struct scheme *ps, *sfb, *allreduce, *adam, *onebit;

static inline void find_schemes(void)
{
    ps = scheme_find(sync_schemes, "ps");
    sfb = scheme_find(sync_schemes, "sfb");
    allreduce = scheme_find(sync_schemes, "allreduce");
    adam = scheme_find(sync_schemes, "adam");
    onebit = scheme_find(sync_schemes, "onebit");
    ck_assert(ps && sfb && allreduce && adam && onebit);
}

/* Every worker serves. */
static inline struct plan_options shared(int nodes)
{
    return (struct plan_options){
        .registry = sync_schemes, .nranks = nodes, .iter_size = 1, .sizes.chunk = 2 << 20};
}

static inline struct plan_options dedicated(int workers, int servers)
{
    struct plan_options how = shared(workers + servers);

    how.servers = servers;
    return how;
}

static inline struct plan *plan_of(const struct plan_options *how, struct comm comm, int ngroups,
                                   const struct group *groups)
{
    struct plan_options options = *how;
    struct plan *plan;

    options.comm = comm;
    ck_assert_msg(plan_create(&options, ngroups, groups, &plan) == 0, "%s", error_text());
    return plan;
}

/* The group by itself; NULL: no traffic. */
static inline struct cost cost_of(const struct cost_cluster *cluster,
                                  const struct plan_options *how, const struct group *group,
                                  const struct scheme *scheme)
{
    struct comm comm = {.policy = scheme ? COMM_SCHEME : COMM_NONE, .scheme = scheme};
    struct plan *plan = plan_of(how, comm, 1, group);
    struct cost cost;

    cost_plan(cluster, plan, &cost);
    plan_destroy(plan);
    return cost;
}

static const struct scheme *paper_of(const struct plan_options *how, const struct group *group)
{
    struct plan *plan = plan_of(how, (struct comm){.policy = COMM_PAPER}, 1, group);
    const struct scheme *scheme = plan->buckets[0].scheme;

    plan_destroy(plan);
    return scheme;
}

static inline struct group connected(int64_t m, int64_t n, int64_t k)
{
    return (struct group){.name = "fc",
                          .elems = (size_t)(m * n),
                          .nparams = 1,
                          .trains = true,
                          .factorable = true,
                          .m = m,
                          .n = n,
                          .k = k};
}

static inline struct group plain(size_t elems)
{
    return (struct group){.name = "conv", .elems = elems, .nparams = 1, .trains = true};
}

/* VGG19: convolutions as (in, out) pairs of 3x3, then the three fully connected layers. */
static inline int vgg19(struct group groups[19], int64_t classes, int64_t batch)
{
    static const int channels[17] = {3,   64,  64,  128, 128, 256, 256, 256, 256,
                                     512, 512, 512, 512, 512, 512, 512, 512};
    const int64_t sizes[4] = {25088, 4096, 4096, classes};

    for (int i = 0; i < 16; i++)
        groups[i] =
            plain((size_t)channels[i] * (size_t)channels[i + 1] * 9 + (size_t)channels[i + 1]);
    for (int i = 0; i < 3; i++) {
        groups[16 + i] = connected(sizes[i + 1], sizes[i], batch);
        groups[16 + i].elems += (size_t)sizes[i + 1];
    }
    return 19;
}

#endif
