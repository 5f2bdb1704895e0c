/* Finds the run whose snapshots training writes and reads. The one rule: a run resumes from its own
 * snapshots alone, whatever other files the prefix has, so that no job ends with another job's
 * model. Every snapshot and PREFIX.run hold the run's name and what it trains; --snapshot=FILE
 * checks neither. */
#include "keep/run_internal.h"

#include "keep/scores.h"

#include "snapshot/snapshot.h"
#include "util/agreement.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/path.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRUITLESS_STARTS = 3 }; /* starts in a row without progress before a start fails */

/* ---- finding the run ---- */

char *run_best_model(const struct training_run *run)
{
    return snapshot_model_path(run_prefix(run), SNAPSHOT_BEST, run_writes_binary(run));
}

/* Takes the name of a resumed run from its newest state if PREFIX.run is missing. */
static int name_of_newest(struct training_run *run)
{
    const struct checkpoint_entry *newest = &run->list.entries[0];

    if (!newest->owner.run || run_check_name(newest->owner.run))
        return error_set(
            "--resume: %s does not name its run, and there is no %s: --snapshot=%s resumes anyway",
            newest->path, run->path, newest->path);
    snprintf(run->file.run, sizeof run->file.run, "%s", newest->owner.run);
    return 0;
}

static bool is_own(const struct training_run *run, const struct checkpoint_entry *entry)
{
    return entry->owner.run && !strcmp(entry->owner.run, run->file.run);
}

/* Fails if --run without --resume names a run that has snapshots, which the new run would take for
 * its own. */
static int check_fresh(const struct training_run *run)
{
    for (int i = 0; i < run->list.count; i++)
        if (is_own(run, &run->list.entries[i]))
            return error_set("--run=%s: %s already belongs to a run of that name: --resume "
                             "continues it, another name or snapshot_prefix starts a new one",
                             run->file.run, run->list.entries[i].path);
    return 0;
}

static int find_name(struct training_run *run)
{
    const struct trainer_options *o = run->job->options;

    if (o->run) {
        snprintf(run->file.run, sizeof run->file.run, "%s", o->run);
        return o->resume ? 0 : check_fresh(run);
    }
    if (o->resume && run->found.run[0]) {
        strcpy(run->file.run, run->found.run);
        return 0;
    }
    return o->resume && run->list.count > 0 ? name_of_newest(run) : run_new_name(run->file.run);
}

static const struct checkpoint_entry *newest_candidate(const struct training_run *run)
{
    for (int i = 0; i < run->list.count && run->job->options->resume; i++)
        if (is_own(run, &run->list.entries[i]))
            return &run->list.entries[i];
    return NULL;
}

/* Returns true if PREFIX.run belongs to the run being resumed. */
static bool is_known(const struct training_run *run)
{
    return run->found.run[0] && !strcmp(run->found.run, run->file.run);
}

static bool resumes_known(const struct training_run *run)
{
    return run->job->options->resume && is_known(run);
}

/* Returns true if nothing is left to do. A run that ended in the test after its last iteration must
 * repeat that test. */
static bool has_reached_end(const struct training_run *run, int64_t iteration)
{
    bool unfinished =
        resumes_known(run) && run->found.end != RUN_DONE && iteration == run->job->max_iter;

    return iteration >= run->job->max_iter && !unfinished;
}

bool run_is_finished(const struct training_run *run, const struct train_state *at)
{
    char more[160] = "raise max_iter";

    if (!has_reached_end(run, at->iteration))
        return false;
    if (policy_follows_end(&run->job->policy))
        snprintf(more, sizeof more,
                 "raise max_iter and give --snapshot=FILE, since the rates of lr_policy \"%s\" "
                 "follow max_iter",
                 run->job->solver->lr_policy);
    LOG_INFO(run->job->log,
             "Nothing is left to do: the snapshot is of iteration %" PRId64
             ", and training ends with iteration %d. Run '%s' is finished, and no file is written. "
             "To train on, %s; to start again, leave --resume out or give the solver another "
             "snapshot_prefix",
             at->iteration, run->job->max_iter, run->file.run, more);
    return true;
}

static bool keeps_snapshots(const struct training_run *run)
{
    const Caffe__SolverParameter *s = run->job->solver;

    return !job_rehearses(run->job) && s->snapshot_prefix &&
           (s->snapshot > 0 || s->snapshot_after_train);
}

static int open_run(struct training_run *run)
{
    const struct trainer_options *o = run->job->options;
    const struct checkpoint_entry *newest;
    struct snapshot_owner given = {.run = NULL};
    bool has_file = false;

    run->keeps = keeps_snapshots(run);
    run->file.iteration = run->file.best = -1;
    if (job_rehearses(run->job) || !run_prefix(run))
        return 0;
    run->path = run_file_path(run_prefix(run));
    if (!run->path ||
        ((run->keeps || o->resume) && run_file_read(run->path, &run->found, &has_file)) ||
        ((run->keeps || o->run || o->resume) &&
         checkpoint_list_create(run_prefix(run), run->keeps, &run->list)) ||
        find_name(run) || prefix_lock_name(run->lock, run->file.run))
        return -1;
    newest = newest_candidate(run);
    run->shared.resumes = newest || o->snapshot;
    if (newest) {
        run->shared.global_batch = newest->owner.global_batch;
        run->saved_plan = newest->owner.plan ? strdup(newest->owner.plan) : NULL;
    } else if (resumes_known(run))
        run->shared.global_batch = run->found.global_batch;
    else if (o->snapshot && checkpoint_read_owner(o->snapshot, &given) == 0) {
        run->saved_plan = given.plan;
        given.plan = NULL;
    }
    snapshot_owner_free(&given);
    return 0;
}

/* Locks the prefix first, so that its files do not change while they are read. */
static int take_prefix(struct training_run *run)
{
    if (!keeps_snapshots(run))
        return 0;
    if (snapshot_probe(run_prefix(run)))
        return -1;
    return prefix_lock_take(run_prefix(run), run->job->options->resume, run->job->log, &run->lock);
}

int run_open_all(struct training_run *run)
{
    MPI_Comm world = run->job->world;
    int status = run->job->rank == 0 ? take_prefix(run) || open_run(run) : 0;

    run->shared.ends = run->job->options->deadline.end - clock_seconds();
    if (error_agree(world, status) || agree_share(world, &run->shared, sizeof run->shared))
        return -1;
    run->shared.ends += clock_seconds(); /* clocks differ from host to host */
    return agree_share_text(world, &run->saved_plan);
}

/* ---- comparison with the found run ---- */

int run_check_same(struct training_run *run)
{
    const struct checkpoint_entry *newest = newest_candidate(run);
    struct strbuf difference = {.data = NULL};

    if (!run->path || !run->job->options->resume)
        return 0;
    assert(run->job->rank == 0 && run->digest[0]);
    if (is_known(run)) {
        if (!strcmp(run->found.digest, run->digest))
            return 0;
        agreement_difference(run->found.about, strbuf_text(&run->about), &difference);
        error_set("--resume: %s is of run '%s', which trains something else (%s): give the solver "
                  "another snapshot_prefix to start again, or --snapshot=FILE to resume anyway",
                  run->path, run->found.run,
                  difference.length ? strbuf_text(&difference) : "its digest differs");
        strbuf_free(&difference);
        return -1;
    }
    if (newest && newest->owner.digest && strcmp(newest->owner.digest, run->digest))
        return error_set("--resume: %s is of run '%s', which trains something else (solver, net, "
                         "data or seed): --snapshot=FILE resumes anyway",
                         newest->path, run->file.run);
    return 0;
}

/* ---- resuming ---- */

/* Returns the newest snapshot for which `is` returns true. *count: number of such snapshots. */
static const struct checkpoint_entry *
newest_where(const struct training_run *run,
             bool (*is)(const struct training_run *, const struct checkpoint_entry *), int *count)
{
    const struct checkpoint_entry *newest = NULL;

    *count = 0;
    for (int i = run->list.count - 1; i >= 0; i--)
        if (is(run, &run->list.entries[i])) {
            newest = &run->list.entries[i];
            ++*count;
        }
    return newest;
}

static bool is_ignored(const struct training_run *run, const struct checkpoint_entry *entry)
{
    return !is_own(run, entry);
}

/* Returns true for another run's snapshot that this run will overwrite. */
static bool is_in_the_way(const struct training_run *run, const struct checkpoint_entry *entry)
{
    const Caffe__SolverParameter *s = run->job->solver;
    int64_t at = entry->iteration, end = run->job->max_iter;

    return !is_own(run, entry) && at > run->file.begun &&
           path_ends(entry->path, ".h5") != run_writes_binary(run) &&
           ((at <= end && course_is_due(s->snapshot, at)) ||
            (s->snapshot_after_train && at == end));
}

static void warn_of_overwriting(const struct training_run *run)
{
    int count;
    const struct checkpoint_entry *newest = newest_where(run, is_in_the_way, &count);

    if (run->keeps && newest)
        LOG_WARNING(run->job->log,
                    "This run overwrites %s of other runs (newest: %s of run '%s'): give another "
                    "--snapshot-prefix to keep those snapshots",
                    units_count(count, "snapshot").text, newest->path,
                    newest->owner.run ? newest->owner.run : "unknown");
}

static void tell_others(const struct training_run *run)
{
    int others;
    const struct checkpoint_entry *newest = newest_where(run, is_ignored, &others);

    if (newest)
        LOG_INFO(run->job->log,
                 "Ignoring %s of other runs (newest: %s of run '%s'); this run is '%s'",
                 units_count(others, "snapshot").text, newest->path,
                 newest->owner.run ? newest->owner.run : "unknown", run->file.run);
}

/* Checks the solver type of the history; Caffe's has none. Caffe accepts any type with as many
 * arrays, but arrays of another meaning, such as momentum for sums of squares, would give NaN or no
 * progress. */
static int check_rule(const struct training_run *run, const char *path, const char *type)
{
    enum rule_kind now = run->job->rule.kind, then;

    if (!type || rule_kind_from_name(type, &then) || then == now) {
        error_clear();
        return 0;
    }
    if (!rule_kinds_alike(then, now))
        return error_set("%s: its history is of type \"%s\" and means nothing to the solver's type "
                         "\"%s\"; --weights takes the parameters alone",
                         path, type, rule_kind_name(now));
    LOG_WARNING(run->job->log,
                "%s: its history is of type \"%s\"; type \"%s\" continues with that history", path,
                type, rule_kind_name(now));
    return 0;
}

static int try_state(struct training_run *run, const char *path, const char *type, float *history,
                     struct train_state *at)
{
    if (check_rule(run, path, type))
        return -1;
    if (checkpoint_resume(path, run->net, job_histories(run->job), history, at, &run->model,
                          run->job->log))
        return -1;
    if (run->shared.global_batch > 0 && run->shared.global_batch != job_samples(run->job))
        LOG_WARNING(run->job->log,
                    "The run took %" PRId64 " samples an iteration, from here on %" PRId64
                    "; --global-batch=%" PRId64 " keeps the old number",
                    run->shared.global_batch, job_samples(run->job), run->shared.global_batch);
    return 0;
}

int run_take_state(struct training_run *run, const char *path, float *history,
                   struct train_state *at)
{
    struct snapshot_owner owner;
    int status;

    if (checkpoint_read_owner(path, &owner))
        return -1;
    run->shared.global_batch = owner.global_batch;
    status = try_state(run, path, owner.rule, history, at);
    snapshot_owner_free(&owner);
    return status;
}

int run_resume(struct training_run *run, float *history, struct train_state *at, bool *resumed)
{
    int failed = 0;

    assert(run->job->rank == 0);
    tell_others(run);
    for (int i = 0; i < run->list.count; i++) {
        const struct checkpoint_entry *entry = &run->list.entries[i];
        assert(i == 0 || entry->iteration <= entry[-1].iteration); /* the newest first */
        if (!is_own(run, entry))
            continue;
        if (try_state(run, entry->path, entry->owner.rule, history, at) == 0) {
            *resumed = true;
            run->file.iteration = entry->iteration;
            return 0;
        }
        LOG_WARNING(run->job->log, "Ignoring %s: %s", entry->path, error_text());
        failed++;
    }
    if (failed > 0)
        return error_set("--resume: none of %s of run '%s' can be read; last error: %s",
                         units_count(failed, "snapshot").text, run->file.run, error_text());
    LOG_INFO(run->job->log, "No snapshot %s_iter_* of run '%s' yet: starting as without --resume",
             run_prefix(run), run->file.run);
    return 0;
}

bool run_has_written(const struct training_run *run, int64_t iteration)
{
    char *path = snapshot_state_path(run_prefix(run), iteration, run_writes_binary(run));
    bool found = false;

    for (int i = 0; path && i < run->list.count && !found; i++)
        found = is_own(run, &run->list.entries[i]) && !strcmp(run->list.entries[i].path, path);
    free(path);
    return found;
}

static bool file_exists(const void *context, int64_t iteration)
{
    return run_has_written(context, iteration);
}

int run_find_best_all(struct training_run *run, bool resumed, struct scores *scores)
{
    struct course *course = &scores->course;
    struct course_best noted = {.iteration = -1}, gone;

    if (!course->keeps_best)
        return 0;
    if (run->job->rank == 0) {
        if (resumed && is_known(run) && !strcmp(run->found.best_of, scores->name))
            noted = (struct course_best){run->found.best, run->found.best_score};
        course->best = course_find_best(course, noted, file_exists, run, &gone);
        if (gone.iteration >= 0 && run->job->options->resume)
            LOG_WARNING(run->job->log,
                        "The best snapshot, of iteration %" PRId64 " (%s = %g), is gone: the next "
                        "test counts as the best",
                        gone.iteration, scores->name, gone.score);
        run->file.best = course->best.iteration;
        run->file.best_score = course->best.score;
        snprintf(run->file.best_of, sizeof run->file.best_of, "%s", scores->name);
    }
    return agree_share(run->job->world, &course->best, sizeof course->best);
}

/* ---- PREFIX.run ---- */

int run_write_file(struct training_run *run)
{
    assert(!run->keeps || (run->path && run->lock)); /* only the owner of the prefix writes */
    return run->keeps ? run_file_write(run->path, &run->file) : 0;
}

/* Adds the last start to the ledger, of which the first `first` iterations are kept, and this
 * start's time until now. A killed start is known by its last pulse. */
static void add_start(struct training_run *run, int64_t first)
{
    const struct run_pulse dead = prefix_lock_dead(run->lock);
    const struct run_pulse last = dead.seen > run->found.pulse.seen ? dead : run->found.pulse;
    struct run_ledger *sum = &run->file.ledger;
    double age = prefix_lock_process_age(), useful = 0;
    int64_t kept = first - run->found.begun, done = last.reached - run->found.begun;

    if (resumes_known(run)) {
        *sum = run->found.ledger;
        run->found.pulse = last;
        done = done > kept ? done : kept; /* a snapshot may be newer than the pulse */
        if (last.reached > run->found.begun)
            useful = last.trained * (double)kept / (double)(last.reached - run->found.begun);
        sum->trained = fmax(0, sum->trained + useful);
        sum->repeated += fmax(0, last.trained - useful);
        sum->again += done - kept;
        sum->saving += last.saving;
        if (run->found.end != RUN_DONE && last.seen > 0)
            sum->waiting +=
                fmax(0, clock_date() - age - fmax(0, useful - last.trained) - last.seen);
    }
    sum->starting += age;
    sum->launches++;
    run->pulse.reached = first;
}

static int write_pulse(struct training_run *run)
{
    run->file.pulse = run->pulse;
    run->file.pulse.seen = clock_date();
    return run_write_file(run);
}

static int count_start(struct training_run *run, int64_t first)
{
    bool again = resumes_known(run) && run->found.begun == first && first < run->job->max_iter;
    bool further = run->found.pulse.reached > run->found.furthest;

    run->file.begun = first;
    run->file.starts = again && !further ? run->found.starts + 1 : 1;
    run->file.furthest = !again ? first : further ? run->found.pulse.reached : run->found.furthest;
    if (run->file.starts <= FRUITLESS_STARTS)
        return 0;
    return error_set("run '%s' was started %d times at iteration %" PRId64
                     " and neither got further nor wrote a later snapshot. If a message ended the "
                     "run, fix its cause; if its time was over, raise the limit (the job's, "
                     "--time-limit) or save more often (snapshot, --snapshot-every). Removing %s "
                     "resets the count",
                     run->file.run, FRUITLESS_STARTS, first, run->path);
}

/* Logs once that a killed run would have no snapshot to resume from. */
static void tell_unsaved(const struct training_run *run, int64_t first)
{
    int every = run->job->solver->snapshot;
    int64_t next = every > 0 ? (first / every + 1) * every : INT64_MAX;

    if (next >= run->job->max_iter && !run_is_paced(run) && !run->job->options->keep_best &&
        run->job->max_iter > first)
        LOG_INFO(
            run->job->log,
            "No snapshot is written before the end: a killed run starts again at iteration %" PRId64
            "; %s",
            first,
            run_prefix(run)
                ? "--snapshot-every=1% --keep=2 saves as it goes"
                : "give the solver a snapshot_prefix, and --snapshot-every=1% --keep=2");
}

int run_begin(struct training_run *run, int64_t first, char *plan)
{
    assert(!run->plan && first >= 0); /* called once */
    run->plan = plan;
    add_start(run, first);
    if (job_rehearses(run->job))
        return 0;
    tell_unsaved(run, first);
    if (!run_prefix(run))
        return 0;
    memcpy(run->file.digest, run->digest, sizeof run->digest);
    run->file.about = strbuf_take(&run->about);
    run->file.global_batch = job_samples(run->job);
    run->file.ranks = run->job->nranks;
    run->file.end = RUN_GOES_ON;
    if (!run->plan || !run->file.about || count_start(run, first))
        return -1;
    LOG_INFO(run->job->log, "Run '%s'%s", run->file.run,
             run->file.starts > 1 ? ", started again from where it last began" : "");
    warn_of_overwriting(run);
    return write_pulse(run);
}

void run_beat(struct training_run *run, int64_t reached, double trained, double saving)
{
    run->pulse = (struct run_pulse){.trained = trained, .saving = saving, .reached = reached};
    prefix_lock_beat(run->lock, &run->pulse);
}

struct run_ledger run_ledger(const struct training_run *run)
{
    struct run_ledger sum = run->file.ledger;

    sum.trained += run->pulse.trained;
    sum.saving += run->pulse.saving;
    return sum;
}

int run_end(struct training_run *run, bool stopped)
{
    if (!run->path)
        return 0;
    if (run->writer)
        (void)snapshot_writer_best(run->writer, &run->file.best, &run->file.best_score);
    run->file.end = stopped ? RUN_STOPPED : RUN_DONE;
    return write_pulse(run);
}

void run_close(struct training_run *run)
{
    snapshot_writer_destroy(run->writer);
    prefix_lock_release(run->lock);
    checkpoint_list_free(&run->list);
    run_file_free(&run->file);
    run_file_free(&run->found);
    strbuf_free(&run->about);
    free(run->path);
    free(run->saved_plan);
    free(run->model);
    free(run->plan);
    *run = (struct training_run){.job = run->job};
}

void run_abandon(struct training_run *run)
{
    char *message = strdup(error_text());

    (void)run_finish_saving(run, false);
    if (prefix_lock_check(run->lock) == 0)
        (void)write_pulse(run);
    run_close(run);
    if (message)
        error_set("%s", message);
    free(message);
}
