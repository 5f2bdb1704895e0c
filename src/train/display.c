/* What training shows every `display` iterations: loss and outputs averaged over the workers, the
 * learning rate, and which rank was late. All of it travels in one sum. */
#include "train/parts.h"

#include "report/outputs.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The numbers of a display, in t->sums: the loss, the outputs' parts, the stragglers' numbers and,
 * where gradients are dropped, whether this worker computed. */
struct display {
    size_t noutputs; /* parts of outputs; 0 at the end of training */
    size_t alike;    /* numbers in front that all workers have already: of --reproducible */
    size_t late;     /* place of the stragglers' numbers */
    size_t count;
    bool drops;
};

static struct display display_lay_out(const struct trainer *t, bool training)
{
    struct display d = {.noutputs = training ? outputs_count_parts(t->compute.net) : 0,
                        .drops = t->job.options->exchange.drop > 0};

    d.late = d.noutputs + 1;
    d.alike = t->job.options->reproducible ? d.late : 0;
    d.count = d.late + stragglers_values(t->monitor.stragglers) + d.drops;
    return d;
}

/* Puts this worker's numbers in their places. */
static int display_put(struct trainer *t, const struct display *d, double seconds)
{
    double *sums = t->sums;

    sums[0] = rates_smoothed(&t->rates);
    if (d->alike > 0)
        memcpy(sums + 1, t->compute.grains.rows + 1, d->noutputs * sizeof *sums);
    else if (d->noutputs > 0 && outputs_read_part(t->compute.net, sums + 1))
        return -1;
    stragglers_put(t->monitor.stragglers, t->exchange.sync, t->compute.net, seconds,
                   t->timing.paused_stall, sums + d->late);
    if (t->monitor.left_out)
        memset(sums, 0, d->late * sizeof *sums);
    if (d->drops)
        sums[d->count - 1] = !t->monitor.left_out;
    return 0;
}

/* Replaces loss and outputs by their means over the workers that computed. */
static int display_average(struct trainer *t, const struct display *d)
{
    double *sums = t->sums;

    if (sync_sum(t->exchange.sync, sums + d->alike, (int)(d->count - d->alike)))
        return -1;
    for (size_t i = d->alike; i < d->late; i++)
        sums[i] /= d->drops ? sums[d->count - 1] : t->job.nworkers;
    if (d->noutputs > 0 && d->alike == 0)
        outputs_join(t->compute.net, sums + 1);
    return 0;
}

static void display_say(struct trainer *t, int64_t iteration, double seconds)
{
    double lapse = seconds - t->timing.display_seconds;
    double rate = lapse > 0 ? (double)(iteration - t->timing.display_iter) / lapse : 0;

    timing_note_lapse(&t->timing.lapses, lapse, iteration - t->timing.display_iter);
    LOG_INFO(t->job.log, "Iteration %" PRId64 " (%g iter/s, %gs/%d iters), loss = %g%s", iteration,
             rate, lapse, t->job.solver->display, t->sums[0],
             t->job.blank ? " (replayed, not computed)" : "");
    outputs_log(t->job.log, "Train", t->compute.net, t->sums + 1);
    monitor_explain_loss(&t->monitor, t->sums[0]);
    LOG_INFO(t->job.log, "Iteration %" PRId64 ", lr = %g", iteration,
             (double)rates_of(&t->rates, iteration));
    metrics_put(t->output.curves, &t->job, &t->at,
                (struct curves_row){.iteration = iteration,
                                    .seconds = seconds,
                                    .images_per_second = rate > 0
                                                             ? rate * (double)job_samples(&t->job)
                                                             : (double)NAN,
                                    .loss = t->sums[0],
                                    .rate = (double)rates_of(&t->rates, iteration)});
}

int trainer_display(struct trainer *t, int64_t iteration, double seconds, bool training)
{
    const struct display d = display_lay_out(t, training);

    if (display_put(t, &d, seconds) || display_average(t, &d))
        return -1;
    t->timing.train_loss = t->sums[0];
    t->timing.train_loss_iterations = rates_smooths(&t->rates);
    if (training)
        display_say(t, iteration, seconds);
    stragglers_judge(t->monitor.stragglers, iteration, t->sums + d.late);
    t->timing.display_iter = iteration;
    t->timing.display_seconds = seconds;
    return 0;
}
