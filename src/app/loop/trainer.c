/* Sets up a rank for training (set_up). Ranks agree after each step that can fail on one rank
 * alone, so that all stop together with one message. */
#include "loop/parts.h"

#include "forecast/profiles.h"
#include "report/outputs.h"
#include "job/agree_job.h"
#include "compute/balance.h"
#include "say/dry_run.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/watchdog.h"

#include <math.h>
#include <stdlib.h>

/* Data for set-up and a dry run, not for training. */
struct setup {
    char *notices;        /* remarks on the files. Owned */
    struct strbuf places; /* lines about cores and devices of ranks; rank 0's. Owned */
    size_t memory_limit;  /* bytes for this rank's nets; 0: no limit */
    float *history;       /* rank 0: history from the snapshot; NULL: none read. Owned */
    struct dry_run dry;   /* findings of a dry run on rank 0; else empty */
    struct start {
        struct train_state at;
        bool resumed, finished;
        bool written; /* the snapshot at this iteration is already the run's own */
    } start;          /* start of training, read by rank 0 */
};

/* ---- hosts and cores ---- */

static int find_hosts_all(struct trainer *t)
{
    if (topology_create(t->job.world, &t->job.topology) || job_find_threads_all(&t->job))
        return -1;
    watchdog_hosts(&t->job.topology);
    return 0;
}

/* ---- the run and its data ---- */

/* Sums over the workers. Does nothing before sync is open, while ranks time passes alone. */
static int sum_over_workers(void *context, double *values, int count)
{
    const struct trainer *t = context;

    return t->exchange.sync && !t->monitor.alone ? sync_sum(t->exchange.sync, values, count) : 0;
}

static int make_nets(struct trainer *t)
{
    bool joined = t->job.options->sync_bn && t->job.nworkers > 1;

    if (compute_create_nets(&t->compute, &t->job, joined ? &t->ranks : NULL, t->output.trace,
                            &t->setup->notices))
        return -1;
    t->run.net = t->compute.net;
    t->run.average = t->compute.average.net;
    return 0;
}

static int create_nets(struct trainer *t)
{
    t->ranks = (struct op_ranks){.sum = sum_over_workers, .context = t};
    t->job.shares.saved = t->job.options->exchange.measure ? NULL : t->run.saved_plan;
    return error_status(job_keep_batch(&t->job, t->run.shared.global_batch) ||
                        job_cut_grains(&t->job) || result_open_trace(&t->job, &t->output.trace) ||
                        make_nets(t));
}

/* Makes the nets again after shares have changed. */
static int remake_nets(struct trainer *t)
{
    compute_close(&t->compute, &t->job);
    t->compute = (struct compute){.engine = t->compute.engine};
    return error_agree(t->job.world, make_nets(t));
}

/* Forms the exchange with shares by speed, then changes shares by the schemes' compute time. */
static int form_all(struct trainer *t)
{
    bool dealt, anew = false;

    if (balance_measure_all(&t->job, &t->compute, &dealt) || (dealt && remake_nets(t)) ||
        net_exchange_form_all(&t->net_exchange, &t->job, &t->compute,
                              balance_skip_saved(t->run.saved_plan), &t->exchange) ||
        (dealt && net_exchange_deal_all(&t->net_exchange, &t->exchange, &anew)))
        return -1;
    if (anew && remake_nets(t))
        return -1;
    net_exchange_share_memory(&t->net_exchange, &t->exchange);
    if (t->run.shared.resumes && t->compute.net)
        net_leave_values(t->compute.net);
    return 0;
}

/* Fails if snapshots cannot name the layers, or the run to resume trains something else. */
static int identify_run(struct trainer *t)
{
    if (job_count_epochs(&t->job))
        return -1;
    if (t->job.rank != 0)
        return 0;
    if (t->run.keeps && checkpoint_check_names(t->compute.net))
        return -1;
    if (!job_rehearses(&t->job) &&
        (agree_job_describe(&t->job, t->compute.net, &t->run.about, t->run.digest) ||
         run_check_same(&t->run)))
        return -1;
    return t->job.options->dry_run ? inspect_data(&t->job, &t->compute, &t->setup->dry) : 0;
}

/* ---- engine and nets ---- */

static int check_limits(struct trainer *t)
{
    const struct job *job = &t->job;

    return error_status((job->blank && profiles_check_batch(job->options->profile, job->batch)) ||
                        dry_run_limit_memory(&t->job, &t->compute, &t->setup->memory_limit));
}

/* ---- start of training ---- */

/* Reads state or weights on rank 0. */
static int read_state(struct trainer *t)
{
    const struct trainer_options *o = t->job.options;
    struct start *start = &t->setup->start;
    size_t elems = (size_t)job_histories(&t->job) * t->compute.net->elems;

    if (t->job.rank != 0 || t->job.blank)
        return 0;
    if ((o->resume || o->snapshot) && ALLOC(t->setup->history, elems + 1, "history"))
        return -1;
    if (o->resume && run_resume(&t->run, t->setup->history, &start->at, &start->resumed))
        return -1;
    if (!start->resumed && o->snapshot) {
        if (run_take_state(&t->run, o->snapshot, t->setup->history, &start->at))
            return -1;
        start->resumed = true;
    }
    if (!start->resumed)
        return compute_load_weights(&t->compute, &t->job);
    start->written = run_has_written(&t->run, start->at.iteration);
    start->finished = !o->dry_run && run_is_finished(&t->run, &start->at);
    return 0;
}

static int read_state_all(struct trainer *t)
{
    struct start *start = &t->setup->start;

    if (error_agree(t->job.world, read_state(t)) || agree_share(t->job.world, start, sizeof *start))
        return -1;
    t->at = start->at;
    t->resumed = start->resumed;
    t->finished = start->finished;
    return 0;
}

static int open_loop(struct trainer *t)
{
    const struct net *test = t->compute.tests ? t->compute.tests[0] : NULL;

    trace_iteration(t->output.trace, t->at.iteration); /* traces set-up as a part of it */
    if (rates_open(&t->rates, &t->job.policy, t->job.solver->average_loss, &t->at) ||
        scores_open(&t->scores, &t->job, test, t->at.iteration, t->run.keeps) ||
        rates_recall(&t->rates, &t->scores.course, t->scores.name, &t->at) ||
        stragglers_open(&t->job, t->at.iteration, &t->monitor.stragglers) ||
        OWN(&t->owner, t->output.sums,
            outputs_count_parts(t->compute.net) + 2 + stragglers_values(t->monitor.stragglers),
            "outputs") ||
        monitor_open_skips(&t->monitor, t->exchange.plan) ||
        compute_open_shares(&t->compute, &t->job, t->exchange.plan))
        return -1;
    scores_tell_end(&t->scores, &t->job);
    if (t->setup->start.written)
        course_saved(&t->scores.course, t->at.iteration);
    return t->job.worker ? net_seek(t->compute.net, t->at.cursor) : 0;
}

/* Describes the solver's update of a group for src/comm/sync. */
static int describe_update(void *context, int64_t iteration, float scale, float lr_mult,
                           float decay_mult, struct device_update *out)
{
    const struct trainer *t = context;

    rule_describe(&t->job.rule, iteration, rates_of(&t->rates, iteration), scale, lr_mult,
                  decay_mult, out);
    return 0;
}

static int open_sync_all(struct trainer *t)
{
    struct sync_update update = {
        .context = t, .nhistory = t->job.rule.nhistory, .describe = describe_update};
    struct sync_options options = {.iteration = t->at.iteration, .trace = t->output.trace};

    monitor_watch_ranks(&t->monitor, &options.watch);
    if (t->job.options->log && t->job.nworkers > 1 && !t->job.options->dry_run) {
        if (exchange_measure_all(&t->exchange)) /* measuring does not change the plan */
            return -1;
        options.sends.meter = &t->output.meter;
    }
    if (net_exchange_open_all(&t->net_exchange, &t->exchange, &update, &options))
        return -1;
    return error_status(
        !t->job.blank &&
        (net_exchange_share_values_all(&t->net_exchange, &t->exchange) ||
         average_begin_all(&t->compute.average, &t->job, t->at.iteration, t->resumed,
                           t->setup->history ? t->setup->history + (size_t)t->job.rule.nhistory *
                                                                       t->compute.net->elems
                                             : NULL)));
}

static int begin_run(struct trainer *t)
{
    struct strbuf plan = {.data = NULL};

    if (result_start_clock(&t->output))
        return -1;
    if (t->job.rank != 0 || t->job.options->dry_run)
        return 0;
    balance_put_saved(&t->job, &plan);
    saved_plan_describe(t->exchange.plan, &plan);
    return error_status(run_begin(&t->run, t->at.iteration, strbuf_take(&plan)) ||
                        metrics_open(&t->output));
}

/* ---- all steps ---- */

/* Runs all steps. Ranks agree after a step that may fail on one rank alone; other steps are
 * collective. watchdog_step names the present step, for messages when ranks wait. */
static int set_up(struct trainer *t)
{
    MPI_Comm world = t->job.world;

    /* compares first, because solver and nets decide which later steps are collective */
    if (job_compare_all(&t->job, job_read(&t->job, &t->setup->notices)))
        return -1;
    watchdog_step("finding the hosts");
    if (find_hosts_all(t))
        return -1;
    watchdog_step("opening the run and its data");
    if (run_open_all(&t->run) || error_agree(world, create_nets(t)) ||
        compute_compare_data_all(&t->compute, &t->job) || error_agree(world, identify_run(t)))
        return -1;
    watchdog_step("building the nets");
    if (compute_open_engine_all(&t->compute, &t->job, &t->setup->places) ||
        error_agree(world, check_limits(t)) || form_all(t) ||
        compute_build_all(&t->compute, &t->job, t->setup->memory_limit))
        return -1;
    watchdog_step("measuring the network and choosing schemes");
    if (net_exchange_plan_all(&t->net_exchange, &t->exchange))
        return -1;
    watchdog_step("reading weights or a snapshot");
    if (read_state_all(t))
        return -1;
    if (t->finished)
        return 0;
    if (error_agree(world, open_loop(t)))
        return -1;
    watchdog_step("sharing the first parameters");
    if (open_sync_all(t))
        return -1;
    watchdog_step("preparing the first iteration");
    if ((t->resumed && sync_load_history(t->exchange.sync, t->setup->history)) ||
        run_load_residuals_all(&t->run, t->exchange.sync, &t->at, t->resumed) ||
        run_find_best_all(&t->run, t->resumed, &t->scores) ||
        error_agree(world, error_status(begin_run(t) || layer_notices_gather(&t->setup->notices))))
        return -1;
    output_log_start(&t->output, t->setup->notices, strbuf_text(&t->setup->places));
    return 0;
}

static void free_setup(struct trainer *t)
{
    if (!t->setup)
        return;
    free(t->setup->notices);
    strbuf_free(&t->setup->places);
    free(t->setup->history);
    strbuf_free(&t->setup->dry.survey);
    strbuf_free(&t->setup->dry.unfit);
    free(t->setup);
    t->setup = NULL;
}

int trainer_create(MPI_Comm world, const struct trainer_options *options, struct log *log,
                   struct trainer **out)
{
    struct trainer *t = *out = alloc_array(1, sizeof *t, "the trainer");

    watchdog_step("comparing options, solver and nets");
    if (t) {
        t->setup = alloc_array(1, sizeof *t->setup, "the trainer");
        t->job.owner = &t->owner;
        t->run.job = t->monitor.job = &t->job;
        t->run.told_to_stop = signals_stop_pending;
        t->monitor.compute = &t->compute;
        t->monitor.run = &t->run;
        t->output = (struct output){.job = &t->job,
                                    .compute = &t->compute,
                                    .exchange = &t->exchange,
                                    .rates = &t->rates,
                                    .scores = &t->scores,
                                    .timing = &t->timing,
                                    .monitor = &t->monitor,
                                    .at = &t->at};
        t->timing.train_loss = NAN;
    }
    if (error_agree(world, t && t->setup ? job_open(&t->job, world, options, log) : -1) ||
        set_up(t)) {
        trainer_destroy(t);
        *out = NULL;
        return -1;
    }
    if (!options->dry_run)
        free_setup(t);
    return 0;
}

int trainer_dry_run(struct trainer *t, struct strbuf *out)
{
    return dry_run_report_all(&t->setup->dry, &t->output, t->resumed, out);
}

void trainer_summary(const struct trainer *t, struct json *json)
{
    output_summary(&t->output, json);
}

int trainer_exit_status(const struct trainer *t)
{
    if (!t->timing.stopped || t->monitor.signals.enough)
        return TRAINER_DONE;
    return t->scores.course.saved == t->timing.end ? TRAINER_SAVED : TRAINER_INTERRUPTED;
}

bool trainer_is_finished(const struct trainer *t)
{
    return t->finished;
}

void trainer_destroy(struct trainer *t)
{
    if (!t)
        return;
    cores_enter(&t->job.cores, CORES_ALL);
    run_close(&t->run);
    exchange_close(&t->exchange);
    net_exchange_close(&t->net_exchange);
    compute_close(&t->compute, &t->job);
    exchange_leave(&t->exchange);
    watchdog_hosts(NULL);
    trace_destroy(t->output.trace);
    if (t->compute.engine.i)
        engine_close(&t->compute.engine);
    curves_close(t->output.curves);
    figures_free(&t->output.figures);
    rates_close(&t->rates);
    free_setup(t);
    job_close(&t->job);
    owner_free(&t->owner);
    free(t);
}
