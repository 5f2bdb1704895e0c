/* Shows every `display` iterations the mean loss and outputs over workers, the learning rate, and
 * the late rank. One sum over workers carries all numbers. */
#include "say/output.h"

#include "report/outputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Layout of output->sums: loss, outputs' parts, the stragglers' figures and, with drop-stragglers,
 * 1 if the worker computed. */
struct display {
    size_t noutputs; /* number of outputs' parts (outputs_count_parts); 0 at the end of training */
    size_t alike;    /* first numbers that are already equal on all workers (--reproducible) */
    size_t late;     /* index of the stragglers' figures (watch/stragglers.h) */
    size_t count;
    bool drops;
};

static struct display display_lay_out(const struct output *output, bool training)
{
    struct display d = {.noutputs = training ? outputs_count_parts(output->compute->net) : 0,
                        .drops = output->job->options->exchange.drop > 0};

    d.late = d.noutputs + 1;
    d.alike = output->job->options->reproducible ? d.late : 0;
    d.count = d.late + stragglers_values(output->monitor->stragglers) + d.drops;
    return d;
}

/* Fills output->sums with this worker's numbers. */
static int display_put(struct output *output, const struct display *d, double seconds)
{
    double *sums = output->sums;

    sums[0] = rates_smoothed(output->rates);
    if (d->alike > 0)
        memcpy(sums + 1, output->compute->grains.rows + 1, d->noutputs * sizeof *sums);
    else if (d->noutputs > 0 && outputs_read_part(output->compute->net, sums + 1))
        return -1;
    stragglers_put(output->monitor->stragglers, output->exchange->sync, output->compute->net,
                   seconds, output->timing->paused_stall, sums + d->late);
    if (output->monitor->left_out)
        memset(sums, 0, d->late * sizeof *sums);
    if (d->drops)
        sums[d->count - 1] = !output->monitor->left_out;
    return 0;
}

/* Replaces loss and outputs by their means over the workers that computed. */
static int display_average(struct output *output, const struct display *d)
{
    double *sums = output->sums;

    if (sync_sum(output->exchange->sync, sums + d->alike, (int)(d->count - d->alike)))
        return -1;
    for (size_t i = d->alike; i < d->late; i++)
        sums[i] /= d->drops ? sums[d->count - 1] : output->job->nworkers;
    if (d->noutputs > 0 && d->alike == 0)
        outputs_join(output->compute->net, sums + 1);
    return 0;
}

static void display_say(struct output *output, int64_t iteration, double seconds)
{
    double lapse = seconds - output->timing->display_seconds;
    double rate = lapse > 0 ? (double)(iteration - output->timing->display_iter) / lapse : 0;

    timing_note_lapse(&output->timing->lapses, lapse, iteration - output->timing->display_iter);
    LOG_INFO(output->job->log, "Iteration %" PRId64 " (%g iter/s, %gs/%d iters), loss = %g%s",
             iteration, rate, lapse, output->job->solver->display, output->sums[0],
             output->job->blank ? " (replayed, not computed)" : "");
    outputs_log(output->job->log, "Train", output->compute->net, output->sums + 1);
    monitor_explain_loss(output->monitor, output->sums[0]);
    LOG_INFO(output->job->log, "Iteration %" PRId64 ", lr = %g", iteration,
             (double)rates_of(output->rates, iteration));
    metrics_put(output, (struct curves_row){.iteration = iteration,
                                            .seconds = seconds,
                                            .images_per_second =
                                                rate > 0 ? rate * (double)job_samples(output->job)
                                                         : (double)NAN,
                                            .loss = output->sums[0],
                                            .rate = (double)rates_of(output->rates, iteration)});
}

int output_display(struct output *output, int64_t iteration, double seconds, bool training)
{
    const struct display d = display_lay_out(output, training);

    if (display_put(output, &d, seconds) || display_average(output, &d))
        return -1;
    output->timing->train_loss = output->sums[0];
    output->timing->train_loss_iterations = rates_smooths(output->rates);
    if (training)
        display_say(output, iteration, seconds);
    stragglers_judge(output->monitor->stragglers, iteration, output->sums + d.late);
    output->timing->display_iter = iteration;
    output->timing->display_seconds = seconds;
    return 0;
}
