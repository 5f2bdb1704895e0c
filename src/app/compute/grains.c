/* Sums over a worker's grains, and over the grains of all workers. */
#include "compute/grains.h"

#include "device/vector.h"
#include "plan/plan.h"
#include "report/outputs.h"
#include "sync/sync.h"
#include "util/clock.h"

#include <assert.h>
#include <string.h>

/* Returns the number of rows in grains->table. */
static size_t count_rows(const struct job *job)
{
    return job->options->reproducible ? (size_t)job_grains(job) : 1;
}

/* Returns true if the weight's gradient is one product of all grains' factors. */
static bool is_product(const struct job *job, const struct net *net, int group)
{
    const struct group *g = &net->groups[group];

    return job->options->reproducible && g->factorable && net->params[g->first].wants_grad;
}

/* Returns the number of leading elements of a group that are a product of factors, not sums. */
static size_t product_elems(const struct job *job, const struct net *net, int group)
{
    const struct group *g = &net->groups[group];

    return is_product(job, net, group) ? (size_t)(g->m * g->n) : 0;
}

static int open_places(struct grains *grains, const struct job *job, const struct net *net)
{
    size_t shares = (size_t)job_shares(job);
    size_t rows = 0;

    if (OWN(job->owner, grains->places, net->ngroups, "gradients"))
        return -1;
    for (int i = 0; i < net->ngroups; i++) {
        const struct group *g = &net->groups[i];
        bool product = is_product(job, net, i);

        assert(product_elems(job, net, i) <= g->elems); /* the weight comes first, then the bias */
        grains->places[i] = (struct grains_place){.waiting = grains->each, .rows = rows};
        grains->each += g->trains ? g->elems - product_elems(job, net, i) : 0;
        rows += product ? shares * (size_t)(g->k * (g->m + g->n)) : 0;
        if (product)
            net->params[g->first].factored = true;
    }
    if (rows > 0 && OWN(job->owner, grains->factors, rows, "factors"))
        return -1;
    grains->bytes = rows * sizeof *grains->factors;
    return 0;
}

/* Converts this worker's branches of the plan to numbers of its passes. */
static int open_branches(struct grains *grains, const struct job *job, const struct net *net,
                         const struct plan *plan)
{
    bool several = job->options->reproducible && job->samples;
    int n = several ? plan_branches(plan, job->rank) : 1;

    grains->nbranches = n;
    if (OWN(job->owner, grains->branches, n, "branches") ||
        (n > 1 && OWN(job->owner, grains->arenas, n, "branches")))
        return -1;
    for (int i = 0, first = several ? (int)(job->before / job->batch) : 0; i < n; i++) {
        struct grains_branch *branch = &grains->branches[i];

        branch->begin =
            several ? plan->branches[plan->first_branch[job->rank] + i].begin - first : 0;
        branch->end = job_shares(job);
        if (i > 0)
            branch[-1].end = branch->begin;
        if (i < n - 1 && OWN(job->owner, branch->sum, net->elems, "gradients of branches"))
            return -1;
        if (i < n - 1)
            grains->arenas[i] = branch->sum;
    }
    return 0;
}

int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                const struct plan *plan, size_t nstatistics)
{
    size_t shares = (size_t)job_shares(job), levels = 0, width = 1 + outputs_count_parts(net);
    size_t most = width > nstatistics ? width : nstatistics, elems;

    assert(job->worker && shares >= 1);
    *grains = (struct grains){.nstatistics = nstatistics};
    if (OWN(job->owner, grains->rows, shares * width, "losses") ||
        OWN(job->owner, grains->table, count_rows(job) * most, "sums over workers") ||
        OWN(job->owner, grains->sums, shares * nstatistics, "running averages") ||
        OWN(job->owner, grains->mean, nstatistics, "running averages") ||
        open_places(grains, job, net) || open_branches(grains, job, net, plan))
        return -1;
    if (shares == 1)
        return 0;
    while ((size_t)1 << levels < shares)
        levels++;
    elems = levels * grains->each;
    grains->bytes += elems * sizeof *grains->waiting;
    return error_status(OWN(job->owner, grains->waiting, elems, "gradients of grains") ||
                        OWN(job->owner, grains->statistics, (shares + 1) * nstatistics,
                            "grains' running averages"));
}

/* Stores a pass's factors; after a branch's last pass computes the weight's gradient. */
static int add_product(struct grains *grains, const struct job *job, const struct net *net,
                       int group, const struct grains_branch *branch)
{
    const struct group *g = &net->groups[group];
    size_t left = (size_t)(g->k * g->m), right = (size_t)(g->k * g->n), pass = (size_t)grains->pass;
    float *lefts = grains->factors + grains->places[group].rows;
    float *rights = lefts + (size_t)job_shares(job) * left;
    const float *bottom, *top_grad;

    net_factors(net, group, &bottom, &top_grad);
    memcpy(lefts + pass * left, top_grad, left * sizeof *lefts);
    memcpy(rights + pass * right, bottom, right * sizeof *rights);
    if (grains->pass < branch->end - 1)
        return 0;
    return net->engine->i->sum_products(
        net->engine->context,
        &(struct engine_products){.left = lefts + (size_t)branch->begin * left,
                                  .right = rights + (size_t)branch->begin * right,
                                  .parts = branch->end - branch->begin,
                                  .k = g->k,
                                  .m = g->m,
                                  .n = g->n,
                                  .out = (branch->sum ? branch->sum : net->grads) + g->begin});
}

/* Adds a pass's gradient to the tree. Each set bit of `pass` is a level where a sum waits. The last
 * pass adds all waiting sums; any other pass's sum then waits at the lowest free level. */
static void add_gradient(struct grains *grains, int pass, int passes, float *gradient,
                         float *waiting, size_t elems)
{
    bool last = pass == passes - 1;

    assert(pass >= 0 && pass < passes && elems <= grains->each);
    for (int level = 0; 1 << level < passes; level++, waiting += grains->each) {
        if (pass >> level & 1)
            vector_add(gradient, waiting, elems);
        else if (!last)
            break;
    }
    if (!last)
        memcpy(waiting, gradient, elems * sizeof *gradient);
}

int grains_add(struct grains *grains, const struct job *job, const struct net *net, int group)
{
    const struct grains_branch *branch = grains->branches;
    const struct group *g = &net->groups[group];
    size_t rest = product_elems(job, net, group), at = g->begin + rest;
    double start;
    int status = 0;

    if (!job->options->reproducible || !g->trains)
        return 0;
    start = clock_seconds();
    while (branch->end <= grains->pass)
        branch++;
    if (rest > 0)
        status = add_product(grains, job, net, group, branch);
    if (branch->end - branch->begin > 1)
        add_gradient(grains, grains->pass - branch->begin, branch->end - branch->begin,
                     net->grads + at, grains->waiting + grains->places[group].waiting,
                     g->elems - rest);
    if (branch->sum && grains->pass == branch->end - 1)
        memcpy(branch->sum + at, net->grads + at, (g->elems - rest) * sizeof *branch->sum);
    grains->seconds += clock_seconds() - start;
    return status;
}

/* Sums the rows by a tree. The first row receives the sum; other rows become partial sums. */
static void add_rows(double *rows, size_t n, size_t width)
{
    for (size_t step = 1; step < n; step *= 2)
        for (size_t i = 0; i + step < n; i += 2 * step)
            for (size_t w = 0; w < width; w++)
                rows[i * width + w] += rows[(i + step) * width + w];
}

/* With grains, each row is filled by one worker, and is zero on the others: MPI's order of sums
 * then changes no bit. */
int grains_mean(struct grains *grains, const struct job *job, struct sync *sync, double *rows,
                size_t width)
{
    size_t nrows = count_rows(job), own = nrows > 1 ? (size_t)(job->before / job->batch) : 0;
    double *table = grains->table;
    size_t shares = (size_t)job_shares(job);

    assert(own + shares <= nrows); /* a server has no row */
    memset(table, 0, nrows * width * sizeof *table);
    memcpy(table + own * width, rows, shares * width * sizeof *rows);
    if (sync_sum(sync, table, (int)(nrows * width)))
        return -1;
    add_rows(table, nrows, width);
    for (size_t w = 0; w < width; w++) /* turns -0 into 0 even with one worker */
        rows[w] = (table[w] + 0.0) /
                  (double)(job->options->reproducible ? (int64_t)nrows : job->nworkers);
    return 0;
}
