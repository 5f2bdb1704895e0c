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
    grains->waiting =
        alloc_array(levels * net->elems, sizeof *grains->waiting, "gradients of grains");
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
static void climb(float *gradient, float *waiting, const struct net *net,
                  const struct param_group *group, int pass, int passes)
{
    for (int level = 0; 1 << level < passes; level++, waiting += net->elems) {
        if (pass >> level & 1) {
            vector_add(gradient, waiting, group->elems);
        } else if (pass < passes - 1) {
            memcpy(waiting, gradient, group->elems * sizeof *gradient);
            return;
        }
    }
}

void grains_add(struct grains *grains, const struct job *job, const struct net *net, int group,
                int pass)
{
    const struct param_group *g = &net->groups[group];
    double start;

    if (!grains->waiting || !g->trains)
        return;
    start = clock_seconds();
    climb(net->grads + g->begin, grains->waiting + g->begin, net, g, pass, job->shares);
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

/* MPI adds in an order of its own, which changes nothing where all but one bring zeros. */
static int sum_rows(const struct job *job, struct sync *sync, double *rows, size_t width)
{
    size_t count = (size_t)job->nworkers * width;
    double *table = alloc_array(count, sizeof *table, "sums over grains");
    int status;

    if (!table)
        return -1;
    add_rows(rows, job->shares, width);
    memcpy(table + (size_t)job->rank * width, rows, width * sizeof *rows);
    status = sync_sum(sync, table, (int)count);
    add_rows(table, job->nworkers, width);
    for (size_t w = 0; w < width; w++)
        rows[w] = table[w] + 0.0; /* of one worker, -0 becomes 0 as of several */
    free(table);
    return status;
}

int grains_mean(const struct job *job, struct sync *sync, double *rows, size_t width)
{
    if (job->grain > 0 ? sum_rows(job, sync, rows, width) : sync_sum(sync, rows, (int)width))
        return -1;
    for (size_t w = 0; w < width; w++)
        rows[w] /= job->shares * job->nworkers;
    return 0;
}
