/* Whose snapshots a training writes and reads. The one rule: a run goes on from its own snapshots
 * alone, whatever else lies under the prefix, so that no job ends with the model of another. Its
 * name stands in every snapshot and in PREFIX.run, with what it trains; --resume=any asks for
 * neither. */
#include "solver/trainer_internal.h"

#include "snapshot/snapshot.h"
#include "solver/agreement.h"
#include "util/agree.h"
#include "util/choice.h"
#include "util/clock.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { FRUITLESS_STARTS = 3 }; /* in a row; the next one fails */

int resume_parse(const char *text, enum resume *out)
{
    static const char *const words[] = {"own", "any", NULL};
    int found = 0;

    *out = text ? RESUME_OWN : RESUME_OFF;
    if (!text || !*text)
        return 0;
    if (choice_parse("resume", text, words, &found))
        return -1;
    *out = found == 0 ? RESUME_OWN : RESUME_ANY;
    return 0;
}

/* ---- which run ---- */

static const char *prefix_of(const struct trainer *t)
{
    return t->solver->snapshot_prefix;
}

/* The run's name where a run is resumed whose file is gone: the newest state's. */
static int name_of_newest(struct trainer *t)
{
    const struct checkpoint_entry *newest = &t->run.list.entries[0];

    if (!newest->owner.run || run_check_name(newest->owner.run))
        return error_set(
            "--resume: %s does not say which run it is of, and there is no %s: --resume=any goes "
            "on from it all the same, --snapshot=FILE from any state",
            newest->path, t->run.path);
    snprintf(t->run.file.run, sizeof t->run.file.run, "%s", newest->owner.run);
    return 0;
}

/* --run without --resume starts anew: what has that name already would be taken for its own. */
static int check_fresh(const struct trainer *t)
{
    const struct trainer_run *run = &t->run;

    for (int i = 0; i < run->list.count; i++)
        if (run->list.entries[i].owner.run &&
            !strcmp(run->list.entries[i].owner.run, run->file.run))
            return error_set("--run=%s: %s is of a run of that name already: --resume goes on with "
                             "it, another name or snapshot_prefix starts a new one",
                             run->file.run, run->list.entries[i].path);
    return 0;
}

static int find_name(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    struct trainer_run *run = &t->run;

    if (o->run) {
        snprintf(run->file.run, sizeof run->file.run, "%s", o->run);
        return o->resume == RESUME_OFF ? check_fresh(t) : 0;
    }
    if (o->resume == RESUME_OWN && run->found.run[0])
        strcpy(run->file.run, run->found.run);
    else if (o->resume == RESUME_OWN && run->list.count > 0)
        return name_of_newest(t);
    else if (o->resume == RESUME_ANY && run->list.count > 0 && run->list.entries[0].owner.run &&
             run_check_name(run->list.entries[0].owner.run) == 0)
        snprintf(run->file.run, sizeof run->file.run, "%s", run->list.entries[0].owner.run);
    else
        return run_new_name(run->file.run);
    return 0;
}

/* Whether the run may go on from that state. */
static bool is_candidate(const struct trainer *t, const struct checkpoint_entry *entry)
{
    return t->options->resume == RESUME_ANY ||
           (entry->owner.run && !strcmp(entry->owner.run, t->run.file.run));
}

static const struct checkpoint_entry *newest_candidate(const struct trainer *t)
{
    for (int i = 0; i < t->run.list.count && t->options->resume != RESUME_OFF; i++)
        if (is_candidate(t, &t->run.list.entries[i]))
            return &t->run.list.entries[i];
    return NULL;
}

/* PREFIX.run tells of the run that goes on. */
static bool is_known(const struct trainer *t)
{
    return t->run.found.run[0] && !strcmp(t->run.found.run, t->run.file.run);
}

/* A run that has come to its end would "go on" by saying so at once: to a new job, with the model
 * of the old one. Who names the run means that very one. */
static int check_unfinished(const struct trainer *t)
{
    const struct checkpoint_entry *newest = newest_candidate(t);

    if (t->options->resume != RESUME_OWN || t->options->run || !newest ||
        newest->iteration < t->max_iter)
        return 0;
    return error_set("--resume: run '%s' is finished: %s is its iteration %" PRId64
                     " of %d. To train on, raise max_iter; to train anew, leave --resume out or "
                     "give the solver another snapshot_prefix; --run=%s means this very run",
                     t->run.file.run, newest->path, newest->iteration, t->max_iter,
                     t->run.file.run);
}

static bool keeps_snapshots(const struct trainer *t)
{
    const Caffe__SolverParameter *s = t->solver;

    return !t->blank && s->snapshot_prefix && (s->snapshot > 0 || s->snapshot_after_train);
}

static int open_run(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    struct trainer_run *run = &t->run;
    const struct checkpoint_entry *newest;
    struct checkpoint_owner given = {.run = NULL};
    bool there = false;

    run->keeps = keeps_snapshots(t);
    run->file.iteration = run->file.best = -1;
    if (t->blank || !prefix_of(t))
        return 0;
    run->path = run_file_path(prefix_of(t));
    if (!run->path ||
        ((run->keeps || o->resume == RESUME_OWN) && o->resume != RESUME_ANY &&
         run_file_read(run->path, &run->found, &there)) ||
        ((o->resume != RESUME_OFF || o->run) && checkpoint_list_create(prefix_of(t), &run->list)) ||
        find_name(t) || check_unfinished(t) || prefix_lock_name(run->lock, run->file.run))
        return -1;
    newest = newest_candidate(t);
    if (newest) {
        run->global_batch = newest->owner.global_batch;
        run->kept_plan = newest->owner.plan ? strdup(newest->owner.plan) : NULL;
    } else if (o->resume == RESUME_OWN && is_known(t))
        run->global_batch = run->found.global_batch;
    else if (o->snapshot && checkpoint_read_owner(o->snapshot, &given) == 0) {
        run->kept_plan = given.plan;
        given.plan = NULL;
    }
    checkpoint_owner_free(&given);
    return 0;
}

/* The lock comes first: what lies there must not change while it is looked at. */
static int take_prefix(struct trainer *t)
{
    if (!keeps_snapshots(t))
        return 0;
    if (snapshot_probe(prefix_of(t)))
        return -1;
    return prefix_lock_take(prefix_of(t), t->options->resume != RESUME_OFF, t->log, &t->run.lock);
}

/* ---- samples of an iteration ---- */

/* A run that is resumed on other ranks takes as many samples as before, unless it is told. */
static int keep_batch(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    int shares = t->nworkers * t->iter_size;
    int64_t kept = t->run.global_batch;

    t->global_batch = o->global_batch;
    if (kept <= 0 || o->global_batch > 0 || o->batch > 0)
        return 0;
    if (kept > INT32_MAX || kept % shares)
        return error_set(
            "--resume: the run takes %" PRId64
            " samples an iteration, which %d worker%s (times iter_size %d) cannot share evenly: "
            "start a number of ranks that divides it, or change it by --global-batch=N",
            kept, t->nworkers, t->nworkers == 1 ? "" : "s", t->iter_size);
    t->global_batch = (int)kept;
    return 0;
}

/* Rank 0's is everybody's. */
static int share_plan(struct trainer *t)
{
    int length = t->run.kept_plan ? (int)strlen(t->run.kept_plan) + 1 : 0;

    MPI_TRY(MPI_Bcast(&length, 1, MPI_INT, 0, t->world));
    if (t->rank != 0 && length > 0)
        t->run.kept_plan = malloc((size_t)length);
    if (error_agree(t->world, length > 0 && !t->run.kept_plan
                                  ? error_memory((unsigned)length, "the run's plan")
                                  : 0))
        return -1;
    if (length > 0)
        MPI_TRY(MPI_Bcast(t->run.kept_plan, length, MPI_CHAR, 0, t->world));
    return 0;
fail:
    return -1;
}

int trainer_open_run(struct trainer *t)
{
    int status = t->rank == 0 ? take_prefix(t) || open_run(t) : 0;
    double left = t->options->deadline.end - clock_seconds(); /* clocks differ from host to host */

    if (error_agree(t->world, status))
        return -1;
    MPI_TRY(MPI_Bcast(&left, 1, MPI_DOUBLE, 0, t->world));
    t->ends = clock_seconds() + left;
    MPI_TRY(MPI_Bcast(&t->run.global_batch, 1, MPI_INT64_T, 0, t->world));
    if (share_plan(t))
        return -1;
    return error_agree(t->world, keep_batch(t));
fail:
    return -1;
}

/* ---- whether it is this one ---- */

int trainer_check_run(struct trainer *t)
{
    struct trainer_run *run = &t->run;
    const struct checkpoint_entry *newest = newest_candidate(t);
    struct strbuf difference = {.data = NULL};

    if (!run->path || t->options->resume != RESUME_OWN)
        return 0;
    if (is_known(t)) {
        if (!strcmp(run->found.digest, run->digest))
            return 0;
        agreement_difference(run->found.about, strbuf_text(&run->about), &difference);
        error_set("--resume: %s is of run '%s', which trains something else (%s): give the solver "
                  "another snapshot_prefix to train anew, or --resume=any to go on all the same",
                  run->path, run->found.run,
                  difference.length ? strbuf_text(&difference) : "its digest differs");
        strbuf_free(&difference);
        return -1;
    }
    if (newest && newest->owner.digest && strcmp(newest->owner.digest, run->digest))
        return error_set("--resume: %s is of run '%s', which trains something else (solver, net, "
                         "data or seed): --resume=any goes on from it all the same",
                         newest->path, run->file.run);
    return 0;
}

/* ---- going on ---- */

static const char *run_of(const struct checkpoint_entry *entry)
{
    return entry->owner.run ? entry->owner.run : "of no name";
}

/* The newest of another run's, and how many there are. */
static void tell_others(const struct trainer *t)
{
    const struct checkpoint_entry *newest = NULL;
    int others = 0;

    for (int i = t->run.list.count - 1; i >= 0; i--)
        if (!is_candidate(t, &t->run.list.entries[i])) {
            newest = &t->run.list.entries[i];
            others++;
        }
    if (newest)
        LOG_INFO(
            t->log,
            "Passing over %d snapshot%s of other runs, the newest of them %s of run '%s'; this "
            "run is '%s'",
            others, others == 1 ? "" : "s", newest->path, run_of(newest), t->run.file.run);
}

static int try_state(struct trainer *t, const char *path, float *history)
{
    if (checkpoint_resume(path, t->net, t->rule.nhistory, history, &t->at, t->log))
        return -1;
    t->resumed = true;
    if (t->run.global_batch > 0 &&
        t->run.global_batch != (int64_t)t->nworkers * t->batch * t->iter_size)
        LOG_WARNING(t->log,
                    "The run took %" PRId64 " samples an iteration and takes %d from here on; "
                    "--global-batch=%" PRId64 " would keep it",
                    t->run.global_batch, t->nworkers * t->batch * t->iter_size,
                    t->run.global_batch);
    return 0;
}

int trainer_take_state(struct trainer *t, const char *path, float *history)
{
    struct checkpoint_owner owner;

    if (checkpoint_read_owner(path, &owner))
        return -1;
    t->run.global_batch = owner.global_batch;
    checkpoint_owner_free(&owner);
    return try_state(t, path, history);
}

int trainer_resume(struct trainer *t, float *history)
{
    struct trainer_run *run = &t->run;
    int failed = 0;

    tell_others(t);
    for (int i = 0; i < run->list.count; i++) {
        const struct checkpoint_entry *entry = &run->list.entries[i];
        if (!is_candidate(t, entry))
            continue;
        if (try_state(t, entry->path, history) == 0) {
            run->file.iteration = entry->iteration;
            return 0;
        }
        LOG_WARNING(t->log, "Passing over %s: %s", entry->path, error_text());
        failed++;
    }
    if (failed > 0)
        return error_set(
            "--resume: none of %d snapshot%s of run '%s' can be read, the last one: %s", failed,
            failed == 1 ? "" : "s", run->file.run, error_text());
    LOG_INFO(t->log, "No snapshot %s_iter_* of run '%s' yet: starting as without --resume",
             prefix_of(t), run->file.run);
    return 0;
}

/* ---- PREFIX.run ---- */

static int write_file(struct trainer *t)
{
    return t->run.keeps ? run_file_write(t->run.path, &t->run.file) : 0;
}

static int count_start(struct trainer *t)
{
    struct trainer_run *run = &t->run;
    bool again = t->options->resume == RESUME_OWN && is_known(t) &&
                 run->found.begun == t->at.iteration && t->at.iteration < t->max_iter;

    run->file.begun = t->at.iteration;
    run->file.starts = again ? run->found.starts + 1 : 1;
    if (run->file.starts <= FRUITLESS_STARTS)
        return 0;
    return error_set("run '%s' was started %d times at iteration %" PRId64
                     " and never came to a later snapshot: give it more time (the job's limit, "
                     "--time-limit), or let it save more often (snapshot, --snapshot-every); "
                     "--resume=any tries once more",
                     run->file.run, FRUITLESS_STARTS, t->at.iteration);
}

int trainer_begin_run(struct trainer *t)
{
    struct trainer_run *run = &t->run;
    struct strbuf plan = {.data = NULL};

    if (t->blank || !prefix_of(t))
        return 0;
    memcpy(run->file.digest, run->digest, sizeof run->digest);
    run->file.about = strbuf_take(&run->about);
    run->file.global_batch = (int64_t)t->nworkers * t->batch * t->iter_size;
    run->file.ranks = t->nranks;
    run->file.end = RUN_GOES_ON;
    trainer_describe_plan(t, &plan);
    run->plan = strbuf_take(&plan);
    if (!run->plan || !run->file.about || count_start(t))
        return -1;
    LOG_INFO(t->log, "Run '%s'%s", run->file.run,
             run->file.starts > 1 ? ", started again where it began before" : "");
    return write_file(t);
}

/* ---- writing ---- */

enum { LAST_TRIES_SECONDS = 15 }; /* of the snapshot at the end */

#define USUAL_SAVING_Bps 50e6 /* until one was timed: a busy file server */

/* On the keeper's thread, which alone touches run.file between the first snapshot and the last. */
static int note_snapshot(void *context, int64_t iteration)
{
    struct trainer *t = context;

    t->run.file.iteration = iteration;
    (void)keeper_best(t->run.keeper, &t->run.file.best, &t->run.file.best_score);
    return write_file(t);
}

static int check_prefix(void *context)
{
    const struct trainer *t = context;

    return prefix_lock_check(t->run.lock);
}

static int open_keeper(struct trainer *t)
{
    struct keeper_options options = {.prefix = prefix_of(t),
                                     .binary =
                                         t->solver->snapshot_format ==
                                         CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__BINARYPROTO,
                                     .net = t->net,
                                     .nhistory = t->rule.nhistory,
                                     .keep = t->options->keep,
                                     .log = t->log,
                                     .context = t,
                                     .check = check_prefix,
                                     .written = note_snapshot};
    const struct checkpoint_list *list = &t->run.list;
    int status;

    cores_enter(&t->cores, CORES_ALL);
    status = keeper_create(&options, &t->run.keeper);
    cores_enter(&t->cores, CORES_COMPUTE);
    if (status)
        return -1;
    for (int i = list->count - 1; i >= 0; i--)
        if (list->entries[i].owner.run && !strcmp(list->entries[i].owner.run, t->run.file.run) &&
            list->entries[i].iteration <= t->at.iteration &&
            keeper_add(t->run.keeper, list->entries[i].iteration))
            return -1;
    if (t->run.file.best >= 0)
        keeper_mark_best(t->run.keeper, t->run.file.best, t->run.file.best_score);
    return 0;
}

int trainer_save(struct trainer *t, const float *history, const struct train_state *state)
{
    struct checkpoint_owner owner = {.run = t->run.file.run,
                                     .digest = t->run.digest,
                                     .plan = t->run.plan,
                                     .global_batch = t->run.file.global_batch};

    if (!t->run.keeper && open_keeper(t))
        return -1;
    return keeper_save(t->run.keeper, history, state, &owner);
}

int trainer_expect_saving(struct trainer *t)
{
    bool saves = t->solver->snapshot > 0 || t->options->snapshot_every > 0;

    return t->rank == 0 && !t->blank && saves && !t->run.keeper ? open_keeper(t) : 0;
}

int trainer_mark_best(struct trainer *t)
{
    if (!t->run.keeper && open_keeper(t))
        return -1;
    keeper_mark_best(t->run.keeper, t->best, t->best_score);
    return 0;
}

int trainer_finish_saving(struct trainer *t)
{
    return keeper_finish(t->run.keeper, LAST_TRIES_SECONDS);
}

double trainer_saving_seconds(const struct trainer *t)
{
    double measured = t->run.keeper ? keeper_seconds(t->run.keeper) : 0;
    double bytes = (double)t->net->nlearnable * sizeof(float) * (1 + t->rule.nhistory);

    return t->blank ? 0 : measured > 0 ? measured : 0.2 + bytes / USUAL_SAVING_Bps;
}

int trainer_end_run(struct trainer *t)
{
    if (!t->run.path)
        return 0;
    if (t->run.keeper)
        (void)keeper_best(t->run.keeper, &t->run.file.best, &t->run.file.best_score);
    t->run.file.end = t->stopped && !t->signals.enough ? RUN_STOPPED : RUN_DONE;
    return write_file(t);
}

void trainer_close_run(struct trainer *t)
{
    struct trainer_run *run = &t->run;

    keeper_destroy(run->keeper);
    prefix_lock_release(run->lock);
    checkpoint_list_free(&run->list);
    run_file_free(&run->file);
    run_file_free(&run->found);
    strbuf_free(&run->about);
    free(run->path);
    free(run->kept_plan);
    free(run->plan);
    *run = (struct trainer_run){.keeps = false};
}

void trainer_abandon_run(struct trainer *t)
{
    char *message = strdup(error_text());

    (void)trainer_finish_saving(t);
    trainer_close_run(t);
    if (message)
        error_set("%s", message);
    free(message);
}

int trainer_exit_status(const struct trainer *t)
{
    if (!t->stopped || t->signals.enough)
        return TRAINER_DONE;
    return t->last_snapshot == t->end ? TRAINER_SAVED : TRAINER_INTERRUPTED;
}
