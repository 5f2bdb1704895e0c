/* The training loop, in Caffe's order: test, forward and backward, display, update, snapshot. The
 * update is no step of the loop: sync updates during computation, and the next forward pass waits
 * for each layer's update. */
#include "loop/parts.h"

#include "report/outputs.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/watchdog.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int before_forward(void *context, int group)
{
    struct trainer *t = context;

    return error_status(sync_wait(t->exchange.sync, group) ||
                        average_follow(&t->compute.average, group));
}

static int after_backward(void *context, int group)
{
    struct trainer *t = context;

    if (grains_add(&t->compute.grains, &t->job, t->compute.net, group))
        return -1;
    return sync_post(t->exchange.sync, group, t->compute.grains.pass == t->job.iter_size - 1);
}

static bool is_placed(void *context, int group)
{
    return !sync_is_local(((struct trainer *)context)->exchange.sync, group);
}

/* Adds iteration and samples to the error, whose labels and records are numbered within a batch. */
static int pass_error(const struct trainer *t, int64_t iteration, const struct pass *keys)
{
    return error_context("iteration %" PRId64 ", samples %" PRIu64 " to %" PRIu64, iteration,
                         keys->first_sample, keys->first_sample + (uint64_t)t->job.batch - 1);
}

/* Returns a pass's seed and first sample. */
static struct pass pass_of(const struct trainer *t, int64_t iteration, int pass)
{
    const struct job *job = &t->job;
    int64_t before = job->before + pass * (job->options->reproducible ? job->batch : job->turn);

    return (struct pass){.seed = job->seed,
                         .first_sample =
                             job_samples_before(job, &t->at, iteration) + (uint64_t)before};
}

static int average_statistics(struct trainer *t)
{
    return compute_average_statistics(&t->compute, &t->job, t->exchange.sync);
}

/* Runs an iteration's passes on this worker. *loss: mean over passes, and with grains over
 * workers. */
static int run_passes(struct trainer *t, int64_t iteration, double *loss)
{
    double *row = t->compute.grains.rows;
    int *pass = &t->compute.grains.pass;
    bool grains = t->job.options->reproducible,
         display = grains && course_is_due(t->job.solver->display, iteration);
    size_t width = 1 + (display ? outputs_count_parts(t->compute.net) : 0);
    struct net_hooks hooks = {.context = t,
                              .before_forward = before_forward,
                              .after_backward = after_backward,
                              .placed = is_placed};

    *loss = 0;
    t->compute.average.now = iteration;
    monitor_keep_statistics(&t->monitor);
    for (*pass = 0; *pass < t->job.iter_size; ++*pass, row += grains ? width : 0) {
        struct pass keys = pass_of(t, iteration, *pass);
        bool finite = isfinite(*loss);
        if (compute_forward(&t->compute, &t->job, t->exchange.sync, &keys, &hooks, *pass, row))
            return pass_error(t, iteration, &keys);
        *loss += *row / t->job.iter_size;
        /* counts only the first NaN, because all later sums are NaN, too */
        if (finite && !isfinite(*loss) && ++t->monitor.bad_losses >= t->job.options->skip_nan)
            return monitor_report_divergence(&t->monitor, &t->rates, iteration, &keys,
                                             t->exchange.sync, *loss);
        if (net_backward(t->compute.net, &keys, *pass == 0 || grains, &hooks))
            return pass_error(t, iteration, &keys);
        if (display && outputs_read_part(t->compute.net, row + 1))
            return -1;
    }
    if (isfinite(*loss))
        t->monitor.bad_losses = 0;
    monitor_restore_statistics(&t->monitor);
    row = t->compute.grains.rows;
    if (sync_flush(t->exchange.sync) ||
        (grains && (grains_mean(&t->compute.grains, &t->job, t->exchange.sync, row, width) ||
                    average_statistics(t)))) /* the same bits wherever training stops */
        return -1;
    if (display)
        outputs_join(t->compute.net, row + 1);
    *loss = grains ? *row : *loss;
    return 0;
}

/* With --tune=drop-stragglers, waits for all workers. */
static int meet(struct trainer *t)
{
    double nothing = 0;

    return t->job.options->exchange.drop > 0 && t->job.worker
               ? sync_sum(t->exchange.sync, &nothing, 1)
               : 0;
}

static int snapshot(struct trainer *t, int64_t iteration)
{
    struct train_state state = {.iteration = iteration,
                                .cursor = job_samples_before(&t->job, &t->at, iteration),
                                .current_step = rates_step(&t->rates, iteration)};
    const float *history;
    int status;

    if (t->job.rank == 0)
        monitor_enter(&t->monitor, iteration, PHASE_SAVING);
    course_saved(&t->scores.course, iteration);
    if (rates_remember(&t->rates, &t->scores.course, t->scores.name, t->exchange.sync,
                       job_losses(&t->job), &state) ||
        run_save_residuals_all(&t->run, t->exchange.sync, &state) ||
        sync_gather_history(t->exchange.sync, &history) || meet(t))
        return -1;
    t->monitor.signals.saved = clock_seconds();
    if (t->job.rank != 0)
        return 0;
    status = error_status(
        net_pull_values(t->compute.net) || average_settle(&t->compute.average, iteration) ||
        average_fetch(&t->compute.average) || run_save(&t->run, &t->rates, history, &state));
    monitor_enter(&t->monitor, iteration, PHASE_TRAINING);
    return status;
}

/* Runs all tests, and saves the best. All workers have the same scores, so all save together. */
static int test_all(struct trainer *t, int64_t iteration, bool *interrupted)
{
    int effects = 0;

    *interrupted = false;
    if (average_statistics(t) || average_settle(&t->compute.average, iteration))
        return -1;
    for (int i = 0; t->job.worker && i < t->job.defs.ntests && !*interrupted; i++)
        if (trainer_test(t, i, iteration, false, interrupted) ||
            (t->compute.average.net && !*interrupted &&
             trainer_test(t, i, iteration, true, interrupted)))
            return -1;
    if (!*interrupted)
        effects = scores_take(&t->scores, &t->job, iteration);
    if ((effects & COURSE_BETTER) && t->job.rank == 0 && run_mark_best(&t->run, &t->scores.course))
        return -1;
    return effects & COURSE_SAVE ? snapshot(t, iteration) : 0;
}

static int log_clipping(struct trainer *t, int64_t iteration)
{
    double norm, scale;

    if (t->job.rank != 0 || t->job.solver->clip_gradients <= 0)
        return 0;
    if (sync_clip(t->exchange.sync, iteration, &norm, &scale))
        return -1;
    if (scale < 1)
        LOG_INFO(t->job.log,
                 "Gradient clipping: scaling down gradients (L2 norm %g > %g) by scale factor %g",
                 norm, (double)t->job.solver->clip_gradients, scale);
    return 0;
}

/* Finds plateau's rate for the next iteration, and logs steps of plateau and multistep. */
static int follow_policy(struct trainer *t, int64_t iteration, double loss)
{
    bool dropped = false;
    int32_t step;

    if (!t->job.blank &&
        rates_follow(&t->rates, t->exchange.sync, job_losses(&t->job), iteration, loss, &dropped))
        return -1;
    step = rates_step(&t->rates, iteration + 1);
    if (dropped)
        LOG_INFO(t->job.log,
                 "Plateau Status: Iteration %" PRId64 ", step = %d: the loss found no minimum "
                 "below %g",
                 iteration + 1, step, t->rates.memory.least);
    if (t->rates.policy->type == POLICY_MULTISTEP && step > rates_step(&t->rates, iteration))
        LOG_INFO(t->job.log, "MultiStep Status: Iteration %" PRId64 ", step = %d", iteration, step);
    return 0;
}

/* Runs the passes, unless other workers have completed the iteration without this rank. */
static int compute_or_leave_out(struct trainer *t, int64_t iteration, double *loss)
{
    bool before = t->monitor.left_out;
    int now = sync_leave_out(t->exchange.sync, iteration);

    if (now < 0)
        return -1;
    t->monitor.left_out = now > 0;
    if (!now && before && net_seek(t->compute.net, job_samples_before(&t->job, &t->at, iteration)))
        return -1;
    return now ? 0 : run_passes(t, iteration, loss);
}

static int worker_iteration(struct trainer *t, int64_t iteration)
{
    int64_t traced = trace_begin(t->output.trace);
    double loss = NAN, seconds;

    if (compute_or_leave_out(t, iteration, &loss))
        return -1;
    trace_span(t->output.trace, TRACE_COMPUTE, TRACE_ITERATION, -1, traced);
    if (isfinite(loss)) /* leaves a NaN out, like its update */
        rates_put(&t->rates, loss);
    monitor_tell_skips(&t->monitor, t->exchange.plan, t->exchange.sync);
    if (follow_policy(t, iteration, isfinite(loss) ? loss : rates_smoothed(&t->rates)))
        return -1;
    seconds = t->timing.trained_seconds = timing_now(&t->timing);
    timing_warm_up(&t->timing, iteration + 1 - t->at.iteration);
    if (course_is_due(t->job.solver->display, iteration) &&
        output_display(&t->output, iteration, seconds, true))
        return -1;
    monitor_pace(&t->monitor);
    metrics_show_progress(&t->output, iteration, seconds, rates_smoothed(&t->rates));
    return log_clipping(t, iteration);
}

/* Tests and saves; does not count as training time. */
static int pause_for(struct trainer *t, int64_t iteration, bool test, bool save)
{
    int64_t traced;
    double start, stall;
    bool interrupted;
    int status = 0;

    if (!test && !save)
        return 0;
    if (sync_wait_all(t->exchange.sync, iteration - 1) || average_statistics(t))
        return -1;
    traced = trace_begin(t->output.trace);
    stall = sync_stats(t->exchange.sync)->stall_seconds;
    start = clock_seconds();
    if (save) {
        status = snapshot(t, iteration);
        t->run.stall = clock_seconds() - start;
        t->timing.saving_stall += t->run.stall;
        t->timing.saves++;
    }
    if (test && !status)
        status = test_all(t, iteration, &interrupted); /* the caller asks for signals next */
    t->timing.paused += clock_seconds() - start;
    t->monitor.signals.passed = 0;
    t->timing.paused_stall += sync_stats(t->exchange.sync)->stall_seconds - stall;
    trace_span(t->output.trace, TRACE_COMPUTE, TRACE_PAUSE, -1, traced);
    return status;
}

/* Logs the last loss as Caffe does: smoothed, with the first loss of the next iteration.
 * BatchNorm's running sums do not change. */
static int log_last_loss(struct trainer *t, int64_t end)
{
    const struct net_hooks none = {.context = NULL};
    bool grains = t->job.options->reproducible; /* all workers have the same loss */
    double *losses = t->compute.grains.rows;

    if (net_pull_values(t->compute.net))
        return -1;
    compute_statistics(&t->compute, t->compute.grains.mean, false);
    for (int s = 0; s < job_shares(&t->job); s++) {
        struct pass keys = pass_of(t, end, s);
        if (compute_forward(&t->compute, &t->job, t->exchange.sync, &keys, &none, s, &losses[s]))
            return -1;
    }
    if (grains && grains_mean(&t->compute.grains, &t->job, t->exchange.sync, losses, 1))
        return -1;
    rates_put(&t->rates, *losses);
    *losses = rates_smoothed(&t->rates);
    if (!grains && grains_mean(&t->compute.grains, &t->job, t->exchange.sync, losses, 1))
        return -1;
    LOG_INFO(t->job.log, "Iteration %" PRId64 ", loss = %g", end, *losses);
    return compute_put_statistics(&t->compute, &t->job);
}

static int finish_training(struct trainer *t)
{
    const Caffe__SolverParameter *s = t->job.solver;
    int64_t end = t->timing.end;
    bool trained = end > t->at.iteration;
    bool tests = !t->timing.stopped && course_tests_last(&t->scores.course, end),
         interrupted = false;

    if (trained && (sync_wait_all(t->exchange.sync, end - 1) || average_statistics(t)))
        return -1;
    monitor_tell_skips(&t->monitor, t->exchange.plan, t->exchange.sync);
    t->timing.train_seconds = timing_now(&t->timing);
    t->timing.train_stall = sync_stats(t->exchange.sync)->stall_seconds - t->timing.paused_stall;
    if (course_saves_last(&t->scores.course, end, t->timing.stopped && t->monitor.signals.keep) &&
        snapshot(t, end))
        return -1;
    if (t->job.worker) {
        if (trained && output_display(&t->output, end, t->timing.train_seconds, false))
            return -1;
        if (!t->job.blank && !t->timing.stopped && course_is_due(s->display, end) &&
            log_last_loss(t, end))
            return -1;
        if (tests && test_all(t, end, &interrupted))
            return -1;
    }
    t->timing.stopped |= interrupted; /* an interrupted last test counts as a stop */
    monitor_enter(&t->monitor, end, PHASE_LAST_SAVING);
    if (t->job.rank == 0 && run_finish_saving(&t->run, true))
        return -1;
    if (t->job.rank == 0 && (trained || tests) && !t->job.blank &&
        monitor_check_outcome(&t->monitor, &t->rates, &t->scores, end))
        return -1;
    monitor_enter(&t->monitor, end, PHASE_TRAINING);
    log_progress_end(t->job.log);
    LOG_INFO(t->job.log, t->timing.stopped ? "Optimization stopped early." : "Optimization Done.");
    return 0;
}

/* Handles tests, snapshots and signals between two iterations, in Caffe's order. A run that will
 * stop does not test. */
static int pause_between(struct trainer *t, int64_t i)
{
    const struct course *course = &t->scores.course;
    bool test = course_tests_at(course, i), save = course_saves_at(course, i);

    /* A test may take minutes, longer than a scheduler waits. So no test begins after a signal, no
     * iteration follows an interrupted test, and no iteration begins without time for it and a
     * snapshot. */
    if (monitor_ask(&t->monitor, t->exchange.sync, course_is_over(course), i,
                    test || i == t->at.iteration))
        return -1;
    if (course_is_due(t->job.options->check_sync, i) && i > t->at.iteration &&
        checks_compare_values(&t->job, &t->compute, t->exchange.sync, i))
        return -1;
    if (t->monitor.signals.effect == SIGNAL_SNAPSHOT)
        save = course->saves && course->saved != i;
    if (t->monitor.signals.effect != SIGNAL_STOP) {
        t->monitor.signals.effect = SIGNAL_NOTHING;
        if (pause_for(t, i, test, save))
            return -1;
        if (test && monitor_ask(&t->monitor, t->exchange.sync, course_is_over(course), i, true))
            return -1;
    }
    t->timing.stopped = t->monitor.signals.effect == SIGNAL_STOP;
    return 0;
}

/* Tells the run how far training is. */
static void beat(struct trainer *t, int64_t iteration)
{
    if (t->job.rank == 0)
        run_beat(&t->run, iteration, clock_seconds() - t->timing.started - t->timing.saving_stall,
                 t->timing.saving_stall);
}

static int run_loop(struct trainer *t)
{
    int64_t i = t->at.iteration;

    if (run_expect_saving(&t->run))
        return -1;
    compute_spread_statistics(&t->compute, &t->job);
    t->timing.started = clock_seconds();
    t->timing.display_iter = t->at.iteration;
    LOG_INFO(t->job.log, "Solving %s",
             *t->compute.net->def->name ? t->compute.net->def->name : t->compute.net->def->file);
    LOG_INFO(t->job.log, "Learning Rate Policy: %s", t->job.solver->lr_policy);
    if (t->job.max_iter == 0)
        LOG_WARNING(t->job.log, "%s: max_iter is 0: no iteration is run", t->job.options->solver);
    t->monitor.signals.asked = -1;
    t->monitor.signals.lag = 1 + t->job.options->exchange.staleness;
    t->monitor.signals.next = t->monitor.signals.iteration = i;
    t->monitor.signals.seconds = t->monitor.signals.saved = t->timing.started;
    for (; i < t->job.max_iter; i++) {
        if (pause_between(t, i))
            return -1;
        if (t->timing.stopped)
            break;
        beat(t, i);
        trace_iteration(t->output.trace, i);
        monitor_enter(&t->monitor, i, PHASE_TRAINING);
        if (t->job.worker ? worker_iteration(t, i) : sync_wait_all(t->exchange.sync, i))
            return -1;
    }
    assert(i >= t->at.iteration && (t->timing.stopped || i >= t->job.max_iter));
    t->timing.end = i;
    beat(t, i);
    if (finish_training(t))
        return -1;
    beat(t, i);
    return 0;
}

int trainer_run(struct trainer *t)
{
    /* no MPI agreement before sync_close: a rank that cannot start closes at once */
    int status;

    watchdog_step("training");
    cores_enter(&t->job.cores, CORES_WIRE);
    status = sync_start(t->exchange.sync);
    cores_enter(&t->job.cores, CORES_COMPUTE);
    status = status ? -1 : run_loop(t);
    log_progress_end(t->job.log);
    watchdog_step("closing the run");
    if (sync_close(t->exchange.sync, status) ||
        error_agree(t->job.world, net_pull_values(t->compute.net))) {
        run_abandon(&t->run);
        return -1;
    }
    /* servers run no tests, so they learn of an interrupted test here */
    if (agree_share(t->job.world, &t->timing.stopped, sizeof t->timing.stopped))
        return -1;
    if (output_gather_figures(&t->output))
        return -1;
    sync_destroy(t->exchange.sync); /* only its figures were still needed */
    t->exchange.sync = NULL;
    return output_report(&t->output, &t->net_exchange.model);
}

int trainer_end(struct trainer *t)
{
    return run_end(&t->run, t->timing.stopped && !t->monitor.signals.enough);
}
