/* Whose snapshots a training writes and reads. The one rule: a run goes on from its own snapshots
 * alone, whatever else lies under the prefix, so that no job ends with the model of another. Its
 * name stands in every snapshot and in PREFIX.run, with what it trains; --resume=any asks for
 * neither. */
#include "train/run.h"

#include "train/rates.h"
#include "train/scores.h"

#include "snapshot/snapshot.h"
#include "util/agreement.h"
#include "util/agree.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FRUITLESS_STARTS = 3 }; /* in a row; the next one fails */

const char *const resume_words[] = {
    [RESUME_OFF] = "off", [RESUME_OWN] = "own", [RESUME_ANY] = "any", NULL};

/* ---- which run ---- */

static const char *prefix_of(const struct training_run *run)
{
    return run->job->solver->snapshot_prefix;
}

static bool writes_binary(const struct training_run *run)
{
    return run->job->solver->snapshot_format ==
           CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__BINARYPROTO;
}

char *run_best_model(const struct training_run *run)
{
    return snapshot_model_path(prefix_of(run), SNAPSHOT_BEST, writes_binary(run));
}

/* The run's name where a run is resumed whose file is gone: the newest state's. */
static int name_of_newest(struct training_run *run)
{
    const struct checkpoint_entry *newest = &run->list.entries[0];

    if (!newest->owner.run || run_check_name(newest->owner.run))
        return error_set("--resume: %s does not name its run, and there is no %s: --resume=any "
                         "resumes from it all the same, --snapshot=FILE from any state",
                         newest->path, run->path);
    snprintf(run->file.run, sizeof run->file.run, "%s", newest->owner.run);
    return 0;
}

static bool is_own(const struct training_run *run, const struct checkpoint_entry *entry)
{
    return entry->owner.run && !strcmp(entry->owner.run, run->file.run);
}

/* --run without --resume starts anew: what has that name already would be taken for its own. */
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
        return o->resume == RESUME_OFF ? check_fresh(run) : 0;
    }
    if (o->resume == RESUME_OWN && run->found.run[0])
        strcpy(run->file.run, run->found.run);
    else if (o->resume == RESUME_OWN && run->list.count > 0)
        return name_of_newest(run);
    else if (o->resume == RESUME_ANY && run->list.count > 0 && run->list.entries[0].owner.run &&
             run_check_name(run->list.entries[0].owner.run) == 0)
        snprintf(run->file.run, sizeof run->file.run, "%s", run->list.entries[0].owner.run);
    else
        return run_new_name(run->file.run);
    return 0;
}

/* Whether the run may go on from that state. */
static bool is_candidate(const struct training_run *run, const struct checkpoint_entry *entry)
{
    return run->job->options->resume == RESUME_ANY || is_own(run, entry);
}

static const struct checkpoint_entry *newest_candidate(const struct training_run *run)
{
    for (int i = 0; i < run->list.count && run->job->options->resume != RESUME_OFF; i++)
        if (is_candidate(run, &run->list.entries[i]))
            return &run->list.entries[i];
    return NULL;
}

/* PREFIX.run tells of the run that goes on. */
static bool is_known(const struct training_run *run)
{
    return run->found.run[0] && !strcmp(run->found.run, run->file.run);
}

/* A run that has come to its end would "go on" by saying so at once: to a new job, with the model
 * of the old one. Who names the run means that very one. */
static int check_unfinished(const struct training_run *run)
{
    const struct checkpoint_entry *newest = newest_candidate(run);

    if (run->job->options->resume != RESUME_OWN || run->job->options->run || !newest ||
        newest->iteration < run->job->max_iter)
        return 0;
    return error_set("--resume: run '%s' is finished: %s is its iteration %" PRId64
                     " of %d. To train on, raise max_iter; to start again, leave --resume out or "
                     "give the solver another snapshot_prefix; --run=%s names this run",
                     run->file.run, newest->path, newest->iteration, run->job->max_iter,
                     run->file.run);
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
    bool there = false;

    run->keeps = keeps_snapshots(run);
    run->file.iteration = run->file.best = -1;
    if (job_rehearses(run->job) || !prefix_of(run))
        return 0;
    run->path = run_file_path(prefix_of(run));
    if (!run->path ||
        ((run->keeps || o->resume == RESUME_OWN) && o->resume != RESUME_ANY &&
         run_file_read(run->path, &run->found, &there)) ||
        ((o->resume != RESUME_OFF || o->run) &&
         checkpoint_list_create(prefix_of(run), &run->list)) ||
        find_name(run) || prefix_lock_name(run->lock, run->file.run))
        return -1;
    newest = newest_candidate(run);
    if (newest) {
        run->global_batch = newest->owner.global_batch;
        run->kept_plan = newest->owner.plan ? strdup(newest->owner.plan) : NULL;
    } else if (o->resume == RESUME_OWN && is_known(run))
        run->global_batch = run->found.global_batch;
    else if (o->snapshot && checkpoint_read_owner(o->snapshot, &given) == 0) {
        run->kept_plan = given.plan;
        given.plan = NULL;
    }
    snapshot_owner_free(&given);
    return 0;
}

/* The lock comes first: what lies there must not change while it is looked at. */
static int take_prefix(struct training_run *run)
{
    if (!keeps_snapshots(run))
        return 0;
    if (snapshot_probe(prefix_of(run)))
        return -1;
    return prefix_lock_take(prefix_of(run), run->job->options->resume != RESUME_OFF, run->job->log,
                            &run->lock);
}

int run_open_all(struct training_run *run)
{
    MPI_Comm world = run->job->world;
    int status = run->job->rank == 0 ? take_prefix(run) || open_run(run) : 0;
    double left =
        run->job->options->deadline.end - clock_seconds(); /* clocks differ from host to host */

    if (error_agree(world, status) || agree_share(world, &left, sizeof left) ||
        agree_share(world, &run->global_batch, sizeof run->global_batch))
        return -1;
    run->ends = clock_seconds() + left;
    return agree_share_text(world, &run->kept_plan);
}

/* ---- whether it is this one ---- */

int run_check_same(struct training_run *run)
{
    const struct checkpoint_entry *newest = newest_candidate(run);
    struct strbuf difference = {.data = NULL};

    if (!run->path || run->job->options->resume != RESUME_OWN)
        return 0;
    if (check_unfinished(run))
        return -1;
    if (is_known(run)) {
        if (!strcmp(run->found.digest, run->digest))
            return 0;
        agreement_difference(run->found.about, strbuf_text(&run->about), &difference);
        error_set("--resume: %s is of run '%s', which trains something else (%s): give the solver "
                  "another snapshot_prefix to start again, or --resume=any to resume all the same",
                  run->path, run->found.run,
                  difference.length ? strbuf_text(&difference) : "its digest differs");
        strbuf_free(&difference);
        return -1;
    }
    if (newest && newest->owner.digest && strcmp(newest->owner.digest, run->digest))
        return error_set("--resume: %s is of run '%s', which trains something else (solver, net, "
                         "data or seed): --resume=any resumes from it all the same",
                         newest->path, run->file.run);
    return 0;
}

/* ---- going on ---- */

/* The newest of another run's, and how many there are. */
static void tell_others(const struct training_run *run)
{
    const struct checkpoint_entry *newest = NULL;
    int others = 0;

    for (int i = run->list.count - 1; i >= 0; i--)
        if (!is_candidate(run, &run->list.entries[i])) {
            newest = &run->list.entries[i];
            others++;
        }
    if (newest)
        LOG_INFO(run->job->log,
                 "Ignoring %d snapshot%s of other runs, the newest of them %s of run '%s'; this "
                 "run is '%s'",
                 others, others == 1 ? "" : "s", newest->path,
                 newest->owner.run ? newest->owner.run : "unknown", run->file.run);
}

static int try_state(struct training_run *run, const char *path, float *history,
                     struct train_state *at)
{
    if (checkpoint_resume(path, run->net, run->job->rule.nhistory, history, at, &run->model,
                          run->job->log))
        return -1;
    if (run->global_batch > 0 && run->global_batch != job_samples(run->job))
        LOG_WARNING(run->job->log,
                    "The run took %" PRId64 " samples an iteration and takes %" PRId64
                    " from here on; "
                    "--global-batch=%" PRId64 " would keep it",
                    run->global_batch, job_samples(run->job), run->global_batch);
    return 0;
}

int run_take_state(struct training_run *run, const char *path, float *history,
                   struct train_state *at)
{
    struct snapshot_owner owner;

    if (checkpoint_read_owner(path, &owner))
        return -1;
    run->global_batch = owner.global_batch;
    snapshot_owner_free(&owner);
    return try_state(run, path, history, at);
}

int run_resume(struct training_run *run, float *history, struct train_state *at, bool *resumed)
{
    int failed = 0;

    tell_others(run);
    for (int i = 0; i < run->list.count; i++) {
        const struct checkpoint_entry *entry = &run->list.entries[i];
        if (!is_candidate(run, entry))
            continue;
        if (try_state(run, entry->path, history, at) == 0) {
            *resumed = true;
            run->file.iteration = entry->iteration;
            return 0;
        }
        LOG_WARNING(run->job->log, "Ignoring %s: %s", entry->path, error_text());
        failed++;
    }
    if (failed > 0)
        return error_set(
            "--resume: none of %d snapshot%s of run '%s' can be read, the last one: %s", failed,
            failed == 1 ? "" : "s", run->file.run, error_text());
    LOG_INFO(run->job->log, "No snapshot %s_iter_* of run '%s' yet: starting as without --resume",
             prefix_of(run), run->file.run);
    return 0;
}

/* Whether that snapshot is there for the run that goes on. */
static bool is_there(const struct training_run *run, int64_t iteration, int64_t first)
{
    for (int i = 0; i < run->list.count; i++)
        if (run->list.entries[i].iteration == iteration && iteration <= first)
            return true;
    return false;
}

int run_find_best_all(struct training_run *run, const struct train_state *at, bool resumed,
                      struct scores *scores)
{
    const char *name = scores->name;
    struct {
        int64_t iteration;
        double score;
    } known = {.iteration = -1};

    if (!run->job->options->keep_best)
        return 0;
    if (run->job->rank == 0) {
        if (resumed && !strcmp(run->found.run, run->file.run) &&
            !strcmp(run->found.best_of, name)) {
            known.iteration = run->found.best;
            known.score = run->found.best_score;
        }
        if (known.iteration >= 0 && !is_there(run, known.iteration, at->iteration)) {
            LOG_WARNING(run->job->log,
                        "The best snapshot, of iteration %" PRId64 " (%s = %g), is gone: the next "
                        "test counts as the best",
                        known.iteration, name, known.score);
            known.iteration = -1;
        }
        run->file.best = known.iteration;
        run->file.best_score = known.score;
        snprintf(run->file.best_of, sizeof run->file.best_of, "%s", name);
    }
    if (agree_share(run->job->world, &known, sizeof known))
        return -1;
    scores->best = known.iteration;
    scores->best_score = known.score;
    return 0;
}

/* ---- PREFIX.run ---- */

static int write_file(struct training_run *run)
{
    return run->keeps ? run_file_write(run->path, &run->file) : 0;
}

static int count_start(struct training_run *run, int64_t first)
{
    bool again = run->job->options->resume == RESUME_OWN && is_known(run) &&
                 run->found.begun == first && first < run->job->max_iter;

    run->file.begun = first;
    run->file.starts = again ? run->found.starts + 1 : 1;
    if (run->file.starts <= FRUITLESS_STARTS)
        return 0;
    return error_set(
        "run '%s' was started %d times at iteration %" PRId64
        " and never wrote a later snapshot. If it ended with a message, mend its cause; if its "
        "time was over, give it more (the job's limit, --time-limit), or save more often "
        "(snapshot, --snapshot-every). --resume=any tries once more",
        run->file.run, FRUITLESS_STARTS, first);
}

int run_begin(struct training_run *run, int64_t first, char *plan)
{
    run->plan = plan;
    if (job_rehearses(run->job) || !prefix_of(run))
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
    return write_file(run);
}

/* ---- writing ---- */

/* Of the snapshot at the end: where training failed, at least, and where no time limit is known. */
enum { LAST_TRIES_SECONDS = 15, LONG_TRIES_SECONDS = 600 };

#define USUAL_SAVING_Bps 50e6 /* until one was timed: a busy file server */

/* On the keeper's thread, which alone touches run.file between the first snapshot and the last. */
static int note_snapshot(void *context, int64_t iteration)
{
    struct training_run *run = context;

    if (iteration > run->file.iteration) /* the best may come late */
        run->file.iteration = iteration;
    (void)keeper_best(run->keeper, &run->file.best, &run->file.best_score);
    return write_file(run);
}

static int check_prefix(void *context)
{
    const struct training_run *run = context;

    return prefix_lock_check(run->lock);
}

static bool is_told_to_stop(void *context)
{
    const struct training_run *run = context;

    return signals_stop_pending(run->job->options->signals);
}

/* The best of a run that goes on, where nothing but its score had it saved. */
static bool was_not_due(const struct training_run *run, int64_t iteration)
{
    int every = run->job->solver->snapshot;

    return iteration == run->file.best && iteration != run->file.begun &&
           (every <= 0 || iteration % every != 0);
}

static int open_keeper(struct training_run *run)
{
    struct keeper_options options = {.prefix = prefix_of(run),
                                     .binary = writes_binary(run),
                                     .net = run->net,
                                     .nhistory = run->job->rule.nhistory,
                                     .keep = run->job->options->keep,
                                     .log = run->job->log,
                                     .context = run,
                                     .check = check_prefix,
                                     .written = note_snapshot,
                                     .hurries = is_told_to_stop};
    const struct checkpoint_list *list = &run->list;
    int status;

    cores_enter(&run->job->cores, CORES_ALL);
    status = keeper_create(&options, &run->keeper);
    cores_enter(&run->job->cores, CORES_COMPUTE);
    if (status)
        return -1;
    for (int i = list->count - 1; i >= 0; i--)
        if (is_own(run, &list->entries[i]) && list->entries[i].iteration <= run->file.begun &&
            keeper_add(run->keeper, list->entries[i].iteration,
                       was_not_due(run, list->entries[i].iteration)))
            return -1;
    if (run->file.best >= 0)
        keeper_mark_best(run->keeper, run->file.best, run->file.best_score);
    return 0;
}

/* Puts around the message, which says where they are, since when and what to do. */
static int report_nonfinite(struct training_run *run, const struct rates *rates, int64_t iteration)
{
    char *where = strdup(error_text()), *newest = NULL;

    (void)run_finish_saving(run, false); /* the one before may be on its way */
    if (run->keeper)
        newest = keeper_newest(run->keeper);
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
                                   .plan = run->plan,
                                   .global_batch = run->file.global_batch};

    int status;

    if (!run->keeper && open_keeper(run))
        return -1;
    status = keeper_save(run->keeper, history, state, &owner);
    if (status)
        run_drop_residuals(run, state->iteration);
    return status == CHECKPOINT_NOT_FINITE ? report_nonfinite(run, rates, state->iteration)
                                           : status;
}

int run_check_values(struct training_run *run, const struct rates *rates, int64_t end)
{
    if (run->last_snapshot == end) /* they were looked at */
        return 0;
    if (net_pull_values(run->net))
        return -1;
    return checkpoint_look(run->net) ? report_nonfinite(run, rates, end) : 0;
}

int run_expect_saving(struct training_run *run)
{
    bool saves = run->job->solver->snapshot > 0 || run->job->options->snapshot_every > 0;

    return run->job->rank == 0 && !job_rehearses(run->job) && saves && !run->keeper
               ? open_keeper(run)
               : 0;
}

int run_mark_best(struct training_run *run, const struct scores *scores)
{
    if (!run->keeper && open_keeper(run))
        return -1;
    keeper_mark_best(run->keeper, scores->best, scores->best_score);
    return 0;
}

int run_finish_saving(struct training_run *run, bool patient)
{
    double left = run->ends - run->job->options->deadline.margin - clock_seconds();

    if (isinf(run->ends))
        left = LONG_TRIES_SECONDS;
    return keeper_finish(run->keeper,
                         patient && left > LAST_TRIES_SECONDS ? left : LAST_TRIES_SECONDS);
}

double run_saving_seconds(const struct training_run *run)
{
    double measured = run->keeper ? keeper_seconds(run->keeper) : 0;
    double bytes = (double)run->net->nlearnable * sizeof(float) * (1 + run->job->rule.nhistory) +
                   run->residuals_bytes;

    return job_rehearses(run->job) ? 0
           : measured > 0          ? measured + run->residuals_seconds
                                   : 0.2 + bytes / USUAL_SAVING_Bps;
}

int run_end(struct training_run *run, bool stopped)
{
    if (!run->path)
        return 0;
    if (run->keeper)
        (void)keeper_best(run->keeper, &run->file.best, &run->file.best_score);
    run->file.end = stopped ? RUN_STOPPED : RUN_DONE;
    return write_file(run);
}

void run_close(struct training_run *run)
{
    keeper_destroy(run->keeper);
    prefix_lock_release(run->lock);
    checkpoint_list_free(&run->list);
    run_file_free(&run->file);
    run_file_free(&run->found);
    strbuf_free(&run->about);
    free(run->path);
    free(run->kept_plan);
    free(run->model);
    free(run->plan);
    *run = (struct training_run){.job = run->job, .last_snapshot = run->last_snapshot};
}

void run_abandon(struct training_run *run)
{
    char *message = strdup(error_text());

    (void)run_finish_saving(run, false);
    run_close(run);
    if (message)
        error_set("%s", message);
    free(message);
}
