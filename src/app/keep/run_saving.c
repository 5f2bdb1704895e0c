/* Saves snapshots of training through the writer, which has its own thread. */
#include "keep/run_internal.h"

#include "job/rates.h"
#include "keep/scores.h"

#include "util/clock.h"
#include "util/error.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Seconds of retrying the last snapshot: at least, and after a failure; without a time limit. */
enum { LAST_TRIES_SECONDS = 15, LONG_TRIES_SECONDS = 600 };

/* With --snapshot-every=P%: seconds before the first snapshot; least gap that is logged as rare;
 * seconds between faults, where nothing is known of them; most that a first start may use of P%. */
enum { FIRST_SAVING_SECONDS = 1, RARE_SAVING_SECONDS = 60, UNKNOWN_SECONDS = 300, MOST_SHARES = 4 };

#define USUAL_SAVING_Bps 50e6 /* assumed before the first snapshot: a busy file server's rate */

/* Notes a snapshot in PREFIX.run. Runs on the writer's thread, which alone uses run->file between
 * the first snapshot and the last. */
static int note_snapshot(void *context, int64_t iteration)
{
    struct training_run *run = context;

    if (iteration > run->file.iteration) /* the best snapshot may be written late */
        run->file.iteration = iteration;
    (void)snapshot_writer_best(run->writer, &run->file.best, &run->file.best_score);
    return run_write_file(run);
}

static int check_prefix(void *context)
{
    const struct training_run *run = context;

    return prefix_lock_check(run->lock);
}

static bool is_told_to_stop(void *context)
{
    const struct training_run *run = context;

    return run->told_to_stop(run->job->options->signals);
}

/* Returns true if `iteration` is a resumed run's best snapshot, saved only for its score. */
static bool was_not_due(const struct training_run *run, int64_t iteration)
{
    return iteration == run->file.best && iteration != run->file.begun &&
           !course_is_due(run->job->solver->snapshot, iteration);
}

static int open_writer(struct training_run *run)
{
    struct snapshot_writer_options options = {.prefix = run_prefix(run),
                                              .binary = run_writes_binary(run),
                                              .net = run->net,
                                              .nhistory = run->job->rule.nhistory,
                                              .average = run->average,
                                              .keep = run->job->options->keep,
                                              .log = run->job->log,
                                              .context = run,
                                              .check = check_prefix,
                                              .written = note_snapshot,
                                              .hurries = is_told_to_stop};
    const struct checkpoint_list *list = &run->list;
    int status;

    cores_enter(&run->job->cores, CORES_ALL);
    status = snapshot_writer_create(&options, &run->writer);
    cores_enter(&run->job->cores, CORES_COMPUTE);
    if (status)
        return -1;
    for (int i = list->count - 1; i >= 0; i--)
        if (run_has_written(run, list->entries[i].iteration) &&
            list->entries[i].iteration <= run->file.begun &&
            snapshot_writer_add(run->writer, list->entries[i].iteration,
                                was_not_due(run, list->entries[i].iteration)))
            return -1;
    if (run->file.best >= 0)
        snapshot_writer_mark_best(run->writer, run->file.best, run->file.best_score);
    snapshot_writer_prune(run->writer);
    return 0;
}

/* Adds iteration and advice to the error about values that are not finite. */
static int report_nonfinite(struct training_run *run, const struct rates *rates, int64_t iteration)
{
    char *where = strdup(error_text()), *newest = NULL;

    (void)run_finish_saving(run, false); /* an earlier snapshot may still be written */
    if (run->writer)
        newest = snapshot_writer_newest(run->writer);
    error_set("after iteration %" PRId64
              ": %s: training has diverged, and these parameters are not "
              "kept; lower base_lr (the rate was %g), or set clip_gradients%s%s",
              iteration, where ? where : "values are not finite",
              (double)rates_of(rates, iteration > rates->first ? iteration - 1 : iteration),
              newest ? "; --resume continues from " : "", newest ? newest : "");
    free(where);
    free(newest);
    return -1;
}

int run_save(struct training_run *run, const struct rates *rates, const float *history,
             const struct train_state *state)
{
    struct snapshot_owner owner = {.run = run->file.run,
                                   .digest = run->digest,
                                   .rule = (char *)(uintptr_t)rule_kind_name(run->job->rule.kind),
                                   .plan = run->plan,
                                   .global_batch = run->file.global_batch};
    int status;

    assert(state->iteration >= run->file.begun);
    if (!run->writer && open_writer(run))
        return -1;
    status = snapshot_writer_save(run->writer, history, state, &owner);
    if (status)
        run_drop_residuals(run, state->iteration);
    return status == CHECKPOINT_NOT_FINITE ? report_nonfinite(run, rates, state->iteration)
                                           : status;
}

int run_check_values(struct training_run *run, const struct rates *rates, int64_t end)
{
    if (net_pull_values(run->net))
        return -1;
    return checkpoint_look(run->net, false) ? report_nonfinite(run, rates, end) : 0;
}

int run_expect_saving(struct training_run *run)
{
    const struct trainer_options *o = run->job->options;
    bool saves = run->job->solver->snapshot > 0 || run_is_paced(run);
    bool keeps = run->keeps && (o->keep > 0 || o->keep_best); /* prunes after a kill */

    return error_status(run->job->rank == 0 && !job_rehearses(run->job) && (saves || keeps) &&
                        !run->writer && open_writer(run));
}

int run_mark_best(struct training_run *run, const struct course *course)
{
    if (!course->keeps_best)
        return 0;
    assert(run->keeps && course->best.iteration > 0); /* iteration 0 is before training */
    if (!run->writer && open_writer(run))
        return -1;
    snapshot_writer_mark_best(run->writer, course->best.iteration, course->best.score);
    return 0;
}

int run_finish_saving(struct training_run *run, bool patient)
{
    double left = run->shared.ends - run->job->options->deadline.margin - clock_seconds();

    if (isinf(run->shared.ends))
        left = LONG_TRIES_SECONDS;
    return snapshot_writer_finish(run->writer,
                                  patient && left > LAST_TRIES_SECONDS ? left : LAST_TRIES_SECONDS);
}

int saving_pace_parse(const char *option, const char *text, void *target)
{
    struct saving_pace *pace = target;
    char *end;
    double percent = strtod(text, &end);

    *pace = (struct saving_pace){0};
    if (end == text || strcmp(end, "%") != 0)
        return units_parse_pause(option, text, &pace->seconds);
    pace->share = percent / 100;
    return pace->share > 0 && pace->share <= 0.5
               ? 0
               : error_set("%s expects a part of the time above 0%% and up to 50%% such as 1%%, "
                           "found '%s'",
                           option, text);
}

double saving_apart(double share, double each, const struct run_ledger *sum)
{
    double between = (UNKNOWN_SECONDS + sum->trained + sum->repeated) / (double)sum->launches;
    double least = sum->launches > 1 ? 0 : each / share / MOST_SHARES;

    return fmin(each / share, fmax(least, sqrt(2 * each * between)));
}

bool run_saving_is_due(struct training_run *run, double since)
{
    const struct saving_pace *pace = &run->job->options->snapshot_every;
    const struct snapshot_cost cost = snapshot_writer_cost(run->writer);
    const struct run_ledger sum = run_ledger(run);
    double apart = FIRST_SAVING_SECONDS, lasts = cost.seconds, each = run->stall + cost.work;

    if (pace->share <= 0)
        return pace->seconds > 0 && since >= pace->seconds;
    if (cost.pending)
        return false;
    if (lasts > 0)
        apart = saving_apart(pace->share, each, &sum);
    if (fmax(apart, lasts) > RARE_SAVING_SECONDS && !run->told_pace) {
        run->told_pace = true;
        LOG_INFO(run->job->log,
                 "Snapshots are at least %s apart: one costs training %s, takes %s to reach the "
                 "disk, and --snapshot-every allows %g%% of the time",
                 units_seconds(fmax(apart, lasts)).text, units_seconds(each).text,
                 units_seconds(lasts).text, 100 * pace->share);
    }
    return since >= apart;
}

double run_saving_seconds(const struct training_run *run)
{
    double measured = snapshot_writer_cost(run->writer).seconds;
    double bytes = (double)run->net->nlearnable * sizeof(float) * (1 + job_histories(run->job)) +
                   run->residuals_bytes;

    return job_rehearses(run->job) ? 0
           : measured > 0          ? measured + run->residuals_seconds
                                   : 0.2 + bytes / USUAL_SAVING_Bps;
}
