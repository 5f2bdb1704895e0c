/* Sums over the grains of a worker, and of all. */
#include "train/grains.h"

#include "engine/vector.h"
#include "report/outputs.h"
#include "sync/sync.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

int grains_open(struct grains *grains, const struct job *job, const struct net *net,
                size_t nstatistics)
{
    size_t shares = (size_t)job->shares, levels = 0;

    *grains = (struct grains){.nstatistics = nstatistics};
    grains->rows = alloc_array(shares * (1 + outputs_count(net)), sizeof *grains->rows, "losses");
    if (!grains->rows || shares == 1)
        return grains->rows ? 0 : -1;
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
    free(grains->waiting);
    free(grains->statistics);
}

/* The bits of the pass's number say which branches wait. The last pass takes all of them along;
 * another one's sum waits at the first level where none does. */
void grains_add(struct grains *grains, const struct job *job, const struct net *net, int group,
                int pass)
{
    const struct param_group *g = &net->groups[group];
    float *gradient = net->grads + g->begin, *waiting = grains->waiting + g->begin;
    bool last = pass == job->shares - 1;
    double start = clock_seconds();

    if (job->shares == 1 || !g->trains)
        return;
    for (int level = 0; 1 << level < job->shares; level++, waiting += net->elems) {
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
static void add_rows(double *rows, int n, size_t width)
{
    for (int step = 1; step < n; step *= 2)
        for (int i = 0; i + step < n; i += 2 * step)
            for (size_t w = 0; w < width; w++)
                rows[(size_t)i * width + w] += rows[(size_t)(i + step) * width + w];
}

/* With grains each worker has a row: MPI adds in an order of its own, which changes nothing where
 * all but one bring zeros. */
int grains_mean(const struct job *job, struct sync *sync, double *rows, size_t width)
{
    int nrows = job->grain > 0 ? job->nworkers : 1;
    size_t count = (size_t)nrows * width, own = job->grain > 0 ? (size_t)job->rank * width : 0;
    double *table = alloc_array(count, sizeof *table, "sums over workers");
    int status;

    if (!table)
        return -1;
    add_rows(rows, job->shares, width);
    memcpy(table + own, rows, width * sizeof *rows);
    status = sync_sum(sync, table, (int)count);
    add_rows(table, nrows, width);
    for (size_t w = 0; w < width; w++) /* of one worker, -0 becomes 0 as of several */
        rows[w] = (table[w] + 0.0) / (job->shares * job->nworkers);
    free(table);
    return status;
}
