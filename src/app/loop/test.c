/* Tests during training. Worker w of n runs batches w, w + n, w + 2n, ... and writes each batch's
 * outputs to the batch's own place in one vector, zero elsewhere. The vector is summed over
 * workers, so the scores have the same bits at any number of ranks. */
#include "loop/parts.h"

#include "report/outputs.h"
#include "util/alloc.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Runs this worker's batches of a test, unless a signal stops it. table: per batch the outputs,
 * then the loss. Begins at the record that Caffe's test would begin at; an extra test at the end
 * counts as the next test. */
static int run_test_batches(struct trainer *t, const struct test_pass *pass, int64_t iteration,
                            size_t width, double *table)
{
    int64_t interval = t->job.solver->test_interval;
    int64_t before =
        interval > 0 ? (iteration + interval - 1) / interval : 0; /* number of earlier tests */
    const struct pass keys = {.seed = t->job.seed};
    uint64_t first;

    if (before > 0 && !t->job.solver->test_initialization)
        before--;
    first = (uint64_t)before * test_pass_length(pass);
    if (net_seek(pass->net, first))
        return -1;
    for (int b = t->job.rank; b < pass->batches && !monitor_hurries(&t->monitor);
         b += t->job.nworkers)
        if (test_pass_run(pass, b, first, &keys, table + (size_t)b * width))
            return -1;
    return 0;
}

static void keep_scores(struct trainer *t, const struct test_pass *pass, int i, int64_t iteration,
                        bool average, const double *mean)
{
    size_t width = outputs_count(pass->net) + 1;

    if (i == 0)
        memcpy(average ? t->scores.of_average : t->scores.values, mean, width * sizeof *mean);
    if (average)
        return;
    metrics_put(&t->output, (struct curves_row){.iteration = iteration,
                                                .seconds = t->timing.trained_seconds,
                                                .images_per_second = NAN,
                                                .loss = NAN,
                                                .rate = NAN,
                                                .scores = mean,
                                                .first = (int)metrics_count(&t->compute, i),
                                                .n = (int)width - 1});
    if (i == 0)
        t->scores.iteration = iteration;
}

int trainer_test(struct trainer *t, int i, int64_t iteration, bool average, bool *interrupted)
{
    const struct test_pass *pass = average ? &t->compute.average.passes[i] : &t->compute.passes[i];
    struct net *net = pass->net;
    size_t width = test_pass_width(pass);
    size_t rows = (size_t)pass->batches * width;
    double *table; /* scores per batch, then their means */
    int status = -1;

    *interrupted = false;
    if (pass->batches == 0) /* switched off by test_iter: 0 */
        return 0;
    if (ALLOC(table, rows + width + 1, "test scores"))
        return -1;
    monitor_enter(&t->monitor, iteration, PHASE_TESTING + i);
    LOG_INFO(t->job.log, "Iteration %" PRId64 ", Testing net (#%d)%s", iteration, i,
             average ? " with the average of the weights" : "");
    if (run_test_batches(t, pass, iteration, width, table))
        goto done;
    double *mean = table + rows;
    *mean = monitor_hurries(&t->monitor); /* lets all workers know of a signal */
    if (sync_sum(t->exchange.sync, table, (int)rows + 1))
        goto done;
    *interrupted = *mean > 0;
    if (*interrupted) {
        LOG_INFO(t->job.log, "Test interrupted.");
        status = 0;
        goto done;
    }
    test_pass_mean(pass, table, mean);
    if (t->job.solver->test_compute_loss)
        LOG_INFO(t->job.log, "Test loss: %g", mean[outputs_count(net)]);
    outputs_log(t->job.log, average ? "Average" : "Test", net, mean);
    keep_scores(t, pass, i, iteration, average, mean);
    status = 0;
done:
    free(table);
    return status;
}
