/* Tests during training. The batches of a test are numbered; worker w runs batches w, w+n, w+2n,
 * ... and puts each batch's outputs into its own place of one vector that is then summed over the
 * workers (zeros elsewhere), so scores are the same to the last bit at any number of ranks. */
#include "solver/trainer_internal.h"

#include "report/outputs.h"
#include "util/alloc.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Each worker's BatchNorm has seen its own part of the batches. The running sums of all are
 * averaged before anybody looks at them (a test, a snapshot), as the reference for one net on
 * several devices. */
int trainer_share_statistics(struct trainer *t)
{
    const struct net *net = t->net;
    size_t count = 0, at = 0;
    double *sums;
    int status;

    for (int p = 0; p < net->nparams; p++)
        count += net->params[p].statistic ? shape_elems(&net->params[p].shape) : 0;
    if (count == 0 || t->nworkers == 1 || !t->worker || t->blank)
        return 0;
    sums = alloc_array(count, sizeof *sums, "batch statistics");
    if (!sums)
        return -1;
    if (net_pull_values(t->net)) {
        free(sums);
        return -1;
    }
    for (int p = 0; p < net->nparams; p++)
        for (size_t i = 0; net->params[p].statistic && i < shape_elems(&net->params[p].shape); i++)
            sums[at++] = (double)net_host_value(net, &net->params[p])[i];
    status = sync_sum(t->sync, sums, (int)count);
    at = 0;
    for (int p = 0; p < net->nparams && !status; p++)
        for (size_t i = 0; net->params[p].statistic && i < shape_elems(&net->params[p].shape); i++)
            net_host_value(net, &net->params[p])[i] = (float)(sums[at++] / t->nworkers);
    for (int g = 0; g < net->ngroups && !status; g++)
        if (net->params[net->groups[g].first].statistic) {
            status = net_push_values(t->net, g);
            net_touch(t->net, g);
        }
    free(sums);
    return status;
}

/* This worker's batches, unless a signal stops it; per batch: outputs, then the loss. */
static int run_test_batches(struct trainer *t, struct net *net, int batches, size_t width,
                            double *table)
{
    struct run run = {.seed = t->seed};

    for (int b = t->rank; b < batches && !trainer_hurries(t); b += t->nworkers) {
        double *row = table + (size_t)b * width;
        if (net_forward(net, &run, NULL, &row[width - 1]) || outputs_read(net, row))
            return error_context("test batch %d", b);
    }
    return 0;
}

int trainer_test(struct trainer *t, int i, int64_t iteration, bool *interrupted)
{
    struct net *net = t->tests[i];
    int batches = t->defs.test_iter[i], interval = t->solver->test_interval;
    size_t width = outputs_count(net) + 1;
    size_t rows = (size_t)batches * width;
    double *table = alloc_array(rows + width + 1, sizeof *table, "test scores"); /* then means */
    int status = -1;

    if (!table)
        return -1;
    *interrupted = false;
    if (batches == 0) { /* switched off by test_iter: 0 */
        free(table);
        return 0;
    }
    LOG_INFO(t->log, "Iteration %" PRId64 ", Testing net (#%d)", iteration, i);
    /* a test begins where Caffe's would have got to after all tests before it */
    uint64_t before = interval > 0 ? (uint64_t)(iteration / interval) : 0;
    if (net_seek(net, before * (uint64_t)batches * (uint64_t)net_batch(net)) ||
        run_test_batches(t, net, batches, width, table))
        goto done;
    double *mean = table + rows;
    *mean = trainer_hurries(t); /* its first place tells the others */
    if (sync_sum(t->sync, table, (int)rows + 1))
        goto done;
    *interrupted = *mean > 0;
    if (*interrupted) {
        LOG_INFO(t->log, "Test interrupted.");
        status = 0;
        goto done;
    }
    for (int b = 0; b < batches; b++)
        for (size_t k = 0; k < width; k++)
            mean[k] += table[(size_t)b * width + k];
    for (size_t k = 0; k < width && batches > 0; k++)
        mean[k] /= batches;
    if (t->solver->test_compute_loss)
        LOG_INFO(t->log, "Test loss: %g", mean[width - 1]);
    outputs_log(t->log, "Test", net, mean);
    trainer_note_test(t, i, iteration, mean);
    if (i == 0) {
        free(t->scores);
        t->scores = alloc_array(width, sizeof *t->scores, "test scores");
        if (!t->scores)
            goto done;
        memcpy(t->scores, mean, width * sizeof *t->scores);
        t->scores_iteration = iteration;
    }
    status = 0;
done:
    free(table);
    return status;
}
