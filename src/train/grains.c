/* Sums over the grains of a worker, and of all. */
#include "train/grains.h"

#include "engine/vector.h"
#include "report/outputs.h"
#include "sync/sync.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

/* Of the table. */
static size_t count_rows(const struct job *job)
{
    return job->options->reproducible ? (size_t)job->nworkers : 1;
}

int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                size_t nstatistics)
{
    size_t shares = (size_t)job_shares(job), levels = 0, width = 1 + outputs_count(net);
    size_t most = width > nstatistics ? width : nstatistics;

    *grains = (struct grains){.nstatistics = nstatistics};
    grains->rows = alloc_array(shares * width, sizeof *grains->rows, "losses");
    grains->table = alloc_array(count_rows(job) * most, sizeof *grains->table, "sums over workers");
    if (!grains->rows || !grains->table)
        return -1;
    if (shares == 1)
        return 0;
    while ((size_t)1 << levels < shares)
        levels++;
    grains->bytes = levels * net->elems * sizeof *grains->waiting;
    grains->waiting = alloc_array(grains->bytes, 1, "gradients of grains");
    grains->statistics = alloc_array((shares + 1) * nstatistics, sizeof *grains->statistics,
                                     "grains' running averages");
    return grains->waiting && grains->statistics ? 0 : -1;
}

void grains_close(struct grains *grains)
{
    free(grains->rows);
    free(grains->table);
    free(grains->waiting);
    free(grains->statistics);
}

/* The bits of the pass's number say which branches wait. The last pass takes all of them along;
 * another one's sum waits at the first level where none does. */
void grains_add(struct grains *grains, const struct job *job, const struct net *net, int group)
{
    const struct param_group *g = &net->groups[group];
    int shares = job_shares(job), pass = grains->pass;
    bool last = pass == shares - 1;
    float *gradient, *waiting;
    double start;

    if (shares == 1 || !g->trains)
        return;
    start = clock_seconds();
    gradient = net->grads + g->begin;
    waiting = grains->waiting + g->begin;
    for (int level = 0; 1 << level < shares; level++, waiting += net->elems) {
        if (pass >> level & 1)
            vector_add(gradient, waiting, g->elems);
        else if (!last)
            break;
    }
    if (!last)
        memcpy(waiting, gradient, g->elems * sizeof *gradient);
    grains->seconds += clock_seconds() - start;
}

/* The first row becomes the tree's sum of all, the others partial ones. */
static void add_rows(double *rows, size_t n, size_t width)
{
    for (size_t step = 1; step < n; step *= 2)
        for (size_t i = 0; i + step < n; i += 2 * step)
            for (size_t w = 0; w < width; w++)
                rows[i * width + w] += rows[(i + step) * width + w];
}

/* With grains each worker has a row: MPI adds in an order of its own, which changes nothing where
 * all but one bring zeros. */
int grains_mean(struct grains *grains, const struct job *job, struct sync *sync, double *rows,
                size_t width)
{
    size_t nrows = count_rows(job), own = nrows > 1 ? (size_t)job->rank : 0;
    double *table = grains->table;
    int shares = job_shares(job);

    add_rows(rows, (size_t)shares, width);
    memset(table, 0, nrows * width * sizeof *table);
    memcpy(table + own * width, rows, width * sizeof *rows);
    if (sync_sum(sync, table, (int)(nrows * width)))
        return -1;
    add_rows(table, nrows, width);
    for (size_t w = 0; w < width; w++) /* of one worker, -0 becomes 0 as of several */
        rows[w] = (table[w] + 0.0) / (shares * job->nworkers);
    return 0;
}
