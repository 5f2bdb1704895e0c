/* The loop, in Caffe's order of events: test, forward and backward, display, update, snapshot. The
 * update is not a step of the loop: it happens in sync while this thread computes, and the next
 * forward pass waits for it layer by layer. */
#include "solver/trainer_internal.h"

#include "report/outputs.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What the hooks of one pass need. */
struct pass {
    struct sync *sync;
    int64_t iteration;
    bool last; /* micro-batch of its iteration */
};

static int before_forward(void *context, int group)
{
    return sync_wait(((struct pass *)context)->sync, group);
}

static int after_backward(void *context, int group)
{
    struct pass *pass = context;

    sync_mark(pass->sync, pass->iteration, group);
    return sync_post(pass->sync, group, pass->last);
}

static bool is_placed(void *context, int group)
{
    return !sync_is_local(((struct pass *)context)->sync, group);
}

static uint64_t samples_before(const struct trainer *t, int64_t iteration)
{
    return t->at.cursor + (uint64_t)(iteration - t->at.iteration) * (uint64_t)t->iter_size *
                              (uint64_t)t->nworkers * (uint64_t)t->batch;
}

static int report_divergence(struct trainer *t, int64_t iteration, const struct run *run,
                             double loss)
{
    struct strbuf where = {.data = NULL};

    trainer_find_nonfinite(t, run, &where);
    error_set("iteration %" PRId64 ": loss = %g: training has diverged; lower base_lr (the rate is "
              "%g now), or set clip_gradients%s%s",
              iteration, loss, (double)t->rates[iteration - t->at.iteration],
              where.length ? "; " : "", strbuf_text(&where));
    strbuf_free(&where);
    return -1;
}

/* Puts in front of the message when it was, and on what: labels and records are counted in a batch.
 */
static int pass_error(const struct trainer *t, int64_t iteration, const struct run *run)
{
    return error_context("iteration %" PRId64 ", samples %" PRIu64 " to %" PRIu64, iteration,
                         run->first_sample, run->first_sample + (uint64_t)t->batch - 1);
}

/* One iteration's passes on this worker; the loss is their mean. */
static int run_passes(struct trainer *t, int64_t iteration, double *loss)
{
    struct pass pass = {.sync = t->sync, .iteration = iteration};
    struct net_hooks hooks = {.context = &pass,
                              .before_forward = before_forward,
                              .after_backward = after_backward,
                              .placed = is_placed};

    *loss = 0;
    trainer_keep_statistics(t);
    for (int micro = 0; micro < t->iter_size; micro++) {
        struct run run = {.seed = t->seed,
                          .first_sample =
                              samples_before(t, iteration) +
                              ((uint64_t)micro * (uint64_t)t->nworkers + (uint64_t)t->rank) *
                                  (uint64_t)t->batch};
        double one = 0;
        pass.last = micro == t->iter_size - 1;
        if (net_forward(t->net, &run, &hooks, &one))
            return pass_error(t, iteration, &run);
        *loss += one / t->iter_size;
        if (!isfinite(*loss) && ++t->bad_losses > t->options->skip_nan - 1)
            return report_divergence(t, iteration, &run, *loss);
        if (net_backward(t->net, &run, micro == 0, &hooks))
            return pass_error(t, iteration, &run);
    }
    if (isfinite(*loss))
        t->bad_losses = 0;
    trainer_restore_statistics(t);
    return sync_flush(t->sync);
}

static void remember_loss(struct trainer *t, double loss)
{
    int window = t->solver->average_loss > 0 ? t->solver->average_loss : 1;

    t->losses[t->nlosses++ % window] = (float)loss;
}

static double smoothed_loss(const struct trainer *t)
{
    int64_t window = t->solver->average_loss > 0 ? t->solver->average_loss : 1;
    int64_t n = t->nlosses < window ? t->nlosses : window;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)t->losses[i];
    return n > 0 ? sum / (double)n : 0;
}

/* Loss and outputs averaged over the workers; every worker calls it at the same iterations. */
static int display_loss(struct trainer *t, int64_t iteration, double seconds, bool training)
{
    size_t noutputs = training ? outputs_count(t->net) : 0;
    double *sums = calloc(noutputs + 1 + trainer_late_values(t), sizeof *sums);
    double lapse = seconds - t->display_seconds;
    double rate = lapse > 0 ? (double)(iteration - t->display_iter) / lapse : 0;
    int status = -1;

    if (!sums) {
        error_memory(noutputs * sizeof *sums, "outputs");
        goto done;
    }
    sums[0] = smoothed_loss(t);
    if (training && outputs_read(t->net, sums + 1))
        goto done;
    trainer_put_late(t, seconds, sums + noutputs + 1);
    if (sync_sum(t->sync, sums, (int)(noutputs + 1 + trainer_late_values(t))))
        goto done;
    for (size_t i = 0; i <= noutputs; i++)
        sums[i] /= t->nworkers;
    t->final_loss = sums[0];
    if (training) {
        LOG_INFO(t->log, "Iteration %" PRId64 " (%g iter/s, %gs/%d iters), loss = %g%s", iteration,
                 rate, lapse, t->solver->display, sums[0],
                 t->blank ? " (replayed, not computed)" : "");
        outputs_log(t->log, "Train", t->net, sums + 1);
        LOG_INFO(t->log, "Iteration %" PRId64 ", lr = %g", iteration,
                 (double)t->rates[iteration - t->at.iteration]);
    }
    if (training)
        trainer_note_display(t, iteration, seconds, sums[0]);
    trainer_judge_late(t, iteration, sums + noutputs + 1);
    t->display_iter = iteration;
    t->display_seconds = seconds;
    status = 0;
done:
    free(sums);
    return status;
}

static int snapshot(struct trainer *t, int64_t iteration)
{
    struct train_state state = {.iteration = iteration,
                                .cursor = samples_before(t, iteration),
                                .current_step = trainer_step(t, iteration)};
    const float *history;

    if (trainer_remember(t, &state) || sync_gather_history(t->sync, &history))
        return -1;
    t->last_snapshot = (int)iteration;
    t->signals.saved = clock_seconds();
    return t->rank == 0 && (net_pull_values(t->net) || trainer_save(t, history, &state)) ? -1 : 0;
}

static bool is_due(int64_t iteration, int interval)
{
    return interval > 0 && iteration % interval == 0;
}

static int test_all(struct trainer *t, int64_t iteration)
{
    bool interrupted = false;

    if (trainer_share_statistics(t))
        return -1;
    for (int i = 0; t->worker && i < t->defs.ntests && !interrupted; i++)
        if (trainer_test(t, i, iteration, &interrupted))
            return -1;
    if (t->worker && !interrupted)
        trainer_judge_test(t, iteration);
    return 0;
}

static void show_progress(struct trainer *t, int64_t iteration, double seconds)
{
    int64_t done = iteration + 1 - t->at.iteration;
    double rate = seconds > 0 ? (double)done / seconds : 0;

    log_progress(t->log,
                 &(struct log_progress){
                     .iteration = iteration + 1,
                     .max_iter = t->max_iter,
                     .images_per_second = rate * t->nworkers * t->batch * t->iter_size,
                     .eta_seconds = rate > 0 ? (double)(t->max_iter - iteration - 1) / rate : -1,
                     .loss = smoothed_loss(t)});
}

static int log_clipping(struct trainer *t, int64_t iteration)
{
    double norm, scale;

    if (t->rank != 0 || t->solver->clip_gradients <= 0)
        return 0;
    if (sync_clip(t->sync, iteration, &norm, &scale))
        return -1;
    if (scale < 1)
        LOG_INFO(t->log,
                 "Gradient clipping: scaling down gradients (L2 norm %g > %g) by scale factor %g",
                 norm, (double)t->solver->clip_gradients, scale);
    return 0;
}

/* So many iterations are left out of the steady rate. */
enum { WARM_ITERATIONS = 5 };

static int worker_iteration(struct trainer *t, int64_t iteration, double start, double *paused)
{
    int64_t traced = trace_begin(t->trace);
    double loss, seconds;

    if (run_passes(t, iteration, &loss))
        return -1;
    trace_span(t->trace, TRACE_COMPUTE, TRACE_ITERATION, -1, traced);
    if (isfinite(loss)) /* else its update is left out, too */
        remember_loss(t, loss);
    trainer_tell_skips(t);
    if (trainer_follow_loss(t, iteration, isfinite(loss) ? loss : smoothed_loss(t)))
        return -1;
    seconds = t->trained_seconds = clock_seconds() - start - *paused;
    if (iteration + 1 - t->at.iteration == WARM_ITERATIONS)
        t->warm_seconds = seconds;
    else if (iteration + 1 - t->at.iteration == 2 * WARM_ITERATIONS)
        t->warm_iterations = WARM_ITERATIONS;
    if (is_due(iteration, t->solver->display) && display_loss(t, iteration, seconds, true))
        return -1;
    trainer_pace(t);
    show_progress(t, iteration, seconds);
    return log_clipping(t, iteration);
}

/* All workers have the same scores, and there are no other ranks. */
static int keep_best(struct trainer *t, int64_t iteration)
{
    if (!trainer_is_best(t, iteration))
        return 0;
    if (t->rank == 0 && trainer_mark_best(t))
        return -1;
    return t->last_snapshot == iteration ? 0 : snapshot(t, iteration);
}

/* Tests, snapshots: what stands outside the time of training. */
static int pause_for(struct trainer *t, int64_t iteration, bool test, bool save, double *paused)
{
    int64_t traced;
    double start, stall;
    int status = 0;

    if (!test && !save)
        return 0;
    if (sync_wait_all(t->sync, iteration - 1) || trainer_share_statistics(t))
        return -1;
    traced = trace_begin(t->trace);
    stall = sync_stats(t->sync)->stall_seconds;
    start = clock_seconds();
    if (save) {
        status = snapshot(t, iteration);
        t->saving_stall += clock_seconds() - start;
        t->saves++;
    }
    if (test && !status)
        status = test_all(t, iteration) || keep_best(t, iteration) ? -1 : 0;
    *paused += clock_seconds() - start;
    t->signals.passed = 0;
    t->paused_stall += sync_stats(t->sync)->stall_seconds - stall;
    trace_span(t->trace, TRACE_COMPUTE, TRACE_PAUSE, -1, traced);
    return status;
}

static int finish_training(struct trainer *t, double start, double *paused)
{
    const Caffe__SolverParameter *s = t->solver;
    int64_t end = t->end;
    bool trained = end > t->at.iteration;
    bool save = t->stopped && t->signals.keep ? true : s->snapshot_after_train;

    if (trained && (sync_wait_all(t->sync, end - 1) || trainer_share_statistics(t)))
        return -1;
    trainer_tell_skips(t);
    t->train_seconds = clock_seconds() - start - *paused;
    t->train_stall = sync_stats(t->sync)->stall_seconds - t->paused_stall;
    if (!t->blank && save && t->last_snapshot != end && snapshot(t, end))
        return -1;
    if (t->worker) {
        double unused = 0;
        if (trained && display_loss(t, end, t->train_seconds, false))
            return -1;
        if (!t->blank && !t->stopped && is_due(end, s->display)) {
            struct run run = {.seed = t->seed, .first_sample = samples_before(t, end)};
            struct net_hooks none = {.context = NULL};
            if (net_forward(t->net, &run, &none, &unused) || sync_sum(t->sync, &unused, 1))
                return -1;
            LOG_INFO(t->log, "Iteration %" PRId64 ", loss = %g", end, unused / t->nworkers);
        }
        if (!t->blank && !t->stopped && is_due(end, s->test_interval) &&
            (test_all(t, end) || keep_best(t, end)))
            return -1;
    }
    if (t->rank == 0 && trainer_finish_saving(t))
        return -1;
    log_progress_end(t->log);
    LOG_INFO(t->log, t->stopped ? "Optimization stopped early." : "Optimization Done.");
    return 0;
}

/* Tests, snapshots and signals between two iterations, in Caffe's order: who is to stop tests no
 * more. */
static int pause_between(struct trainer *t, int64_t i, double *paused)
{
    const Caffe__SolverParameter *s = t->solver;
    bool test = !t->blank && is_due(i, s->test_interval) && (i > 0 || s->test_initialization);
    bool save = !t->blank && is_due(i, s->snapshot) && i > t->at.iteration;

    /* a test may take minutes, and a scheduler waits for no more than that: none is begun after a
     * signal, and one that was interrupted is not followed by an iteration; nor is one run where
     * there is no time for it and a snapshot */
    if (trainer_agree_signals(t, i, test || i == t->at.iteration))
        return -1;
    if (is_due(i, t->options->check_sync) && i > t->at.iteration && trainer_check_sync(t, i))
        return -1;
    if (t->signals.effect == SIGNAL_SNAPSHOT)
        save = !t->blank;
    if (t->signals.effect != SIGNAL_STOP) {
        t->signals.effect = SIGNAL_NOTHING;
        if (pause_for(t, i, test, save, paused))
            return -1;
        if (test && trainer_agree_signals(t, i, true))
            return -1;
    }
    t->stopped = t->signals.effect == SIGNAL_STOP;
    return 0;
}

static int run_loop(struct trainer *t)
{
    double start, paused = 0;
    int64_t i = t->at.iteration;

    if (trainer_expect_saving(t))
        return -1;
    start = clock_seconds();
    t->display_iter = t->at.iteration;
    LOG_INFO(t->log, "Solving %s", t->net->def->name);
    LOG_INFO(t->log, "Learning Rate Policy: %s", t->solver->lr_policy);
    if (t->max_iter == 0)
        LOG_WARNING(t->log, "%s: max_iter is 0 or not set: no iteration is run",
                    t->options->solver);
    t->signals.asked = -1;
    t->signals.next = t->signals.iteration = i;
    t->signals.seconds = t->signals.saved = start;
    for (; i < t->max_iter; i++) {
        if (pause_between(t, i, &paused))
            return -1;
        if (t->stopped)
            break;
        trace_iteration(t->trace, i);
        sync_mark(t->sync, i, -1);
        if (t->worker ? worker_iteration(t, i, start, &paused) : sync_wait_all(t->sync, i))
            return -1;
    }
    t->end = i;
    return finish_training(t, start, &paused);
}

int trainer_run(struct trainer *t)
{
    /* from the start to the close nobody agrees by MPI: a rank that cannot start closes at once */
    int status;

    cores_enter(&t->cores, CORES_WIRE);
    status = sync_start(t->sync);
    cores_enter(&t->cores, CORES_COMPUTE);
    status = status ? -1 : run_loop(t);
    log_progress_end(t->log);
    if (sync_close(t->sync, status) || error_agree(t->world, net_pull_values(t->net))) {
        trainer_abandon_run(t);
        return -1;
    }
    if (trainer_gather_figures(t))
        return -1;
    if (error_agree(t->world, t->rank == 0 ? trainer_end_run(t) : 0))
        return -1;
    sync_destroy(t->sync); /* the figures are all that is still wanted of it */
    t->sync = NULL;
    return trainer_report(t);
}
