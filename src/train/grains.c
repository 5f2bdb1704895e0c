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
    size_t shares = (size_t)job->shares, levels;

    *grains = (struct grains){.nstatistics = nstatistics};
    while (1 << grains->levels < job->shares)
        grains->levels++;
    levels = (size_t)grains->levels;
    grains->losses = alloc_array(shares, sizeof *grains->losses, "losses");
    grains->outputs = alloc_array(shares * outputs_count(net), sizeof *grains->outputs, "outputs");
    if (job->shares > 1) {
        grains->waiting =
            alloc_array(levels * net->elems, sizeof *grains->waiting, "gradients of grains");
        grains->statistics = alloc_array((shares + 1) * nstatistics, sizeof *grains->statistics,
                                         "grains' running averages");
        grains->now = grains->statistics ? grains->statistics + shares * nstatistics : NULL;
    }
    return grains->losses && grains->outputs &&
                   (job->shares == 1 || (grains->waiting && grains->statistics))
               ? 0
               : -1;
}

void grains_close(struct grains *grains)
{
    free(grains->losses);
    free(grains->outputs);
    free(grains->waiting);
    free(grains->statistics);
}

/* The bits of the pass's number say which branches wait. The last pass takes all of them along;
 * another one's sum waits at the first level where none does. */
static void climb(const struct grains *grains, const struct net *net, const struct param_group *g,
                  int pass, bool last)
{
    float *gradient = net->grads + g->begin, *waiting = grains->waiting + g->begin;

    for (int level = 0; level < grains->levels; level++, waiting += net->elems) {
        if (pass >> level & 1) {
            vector_add(gradient, waiting, g->elems);
        } else if (!last) {
            memcpy(waiting, gradient, g->elems * sizeof *gradient);
            return;
        }
    }
}

void grains_add(struct grains *grains, const struct job *job, const struct net *net, int group,
                int pass)
{
    double start;

    if (!grains->waiting || !net->groups[group].trains)
        return;
    start = clock_seconds();
    climb(grains, net, &net->groups[group], pass, pass == job->shares - 1);
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
int grains_sum(const struct job *job, struct sync *sync, double *rows, size_t width)
{
    size_t count = (size_t)job->nworkers * width;
    double *table;
    int status;

    if (job->grain == 0)
        return sync_sum(sync, rows, (int)width);
    table = alloc_array(count, sizeof *table, "sums over grains");
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
