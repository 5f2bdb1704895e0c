/* Turns the options and the solver file into a job. Checks of the solver use Caffe's messages where
 * Caffe has one, and add the value that was found. */
#include "job/job.h"

#include "snapshot/checkpoint.h"
#include "job/agree_job.h"
#include "util/agree.h"
#include "util/agreement.h"
#include "spec/read.h"
#include "util/alloc.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const ps_update_words[] = {
    [PS_UPDATE_AUTO] = "auto", [PS_UPDATE_HOST] = "host", [PS_UPDATE_DEVICE] = "device", NULL};

int job_open(struct job *job, MPI_Comm world, const struct trainer_options *o, struct log *log)
{
    job->options = o;
    job->log = log;
    job->world = world;
    MPI_Comm_rank(world, &job->rank);
    MPI_Comm_size(world, &job->nranks);
    if (o->exchange.servers >= job->nranks)
        return error_set(
            "--servers=%d leaves no worker: %d rank%s, and at least one must compute; start "
            "more ranks (mpirun -np N) or ask for fewer servers",
            o->exchange.servers, job->nranks, job->nranks == 1 ? " is there" : "s are there");
    job->nworkers = job->nranks - o->exchange.servers;
    job->worker = job->rank < job->nworkers;
    if (o->exchange.drop >= job->nworkers && o->exchange.drop > 0)
        return error_set(
            "--tune=drop-stragglers=%d would drop every gradient of %s: start more ranks "
            "(mpirun -np N) or drop fewer",
            o->exchange.drop, units_count(job->nworkers, "worker").text);
    job->blank = engine_is_blank(o->engine);
    return 0;
}

int job_compare_all(const struct job *job, int status)
{
    struct strbuf list = {.data = NULL};

    if (!status)
        agree_job_put_files(job, &list);
    status = agree_alike(job->world, status, &list, AGREEMENT_START);
    strbuf_free(&list);
    return status;
}

/* Collects the notices of the solver file and of each net file, each file once. */
static int note_files(const struct job *job, char **notices)
{
    struct strbuf text = {0};

    strbuf_puts(&text, text_notices(job->doc));
    for (int i = 0; i < job->defs.ndocs; i++) {
        bool noted = false;

        for (int k = 0; k < i; k++)
            noted = noted || !strcmp(text_name(job->defs.docs[k]), text_name(job->defs.docs[i]));
        if (!noted)
            strbuf_puts(&text, text_notices(job->defs.docs[i]));
    }
    *notices = strbuf_take(&text);
    return *notices ? 0 : -1;
}

/* Finds the kind of rule: from the string `type`, or from solver_type of old files, a number with
 * the same values as enum rule_kind. */
static int rule_kind_of(const Caffe__SolverParameter *solver, enum rule_kind *kind)
{
    unsigned number = (unsigned)solver->solver_type;

    _Static_assert((int)RULE_ADAM == CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADAM, "as there");
    if (solver->has_solver_type && strcmp(solver->type, "SGD") == 0) {
        if (number > RULE_ADAM)
            return error_set("Unknown solver type: %u (solver_type goes from 0 to 5)", number);
        *kind = (enum rule_kind)number;
        return 0;
    }
    return rule_kind_from_name(solver->type, kind);
}

/* Prefixes the message with the place of the field: its last --set, else the solver file. */
static int context_of(const struct trainer_options *o, const char *field)
{
    size_t length = strlen(field);

    for (int i = o->overrides.nsettings - 1; i >= 0; i--)
        if (!strncmp(o->overrides.settings[i], field, length) &&
            o->overrides.settings[i][length] == '=')
            return error_context("--set %s", o->overrides.settings[i]);
    return error_context("%s", o->solver);
}

static int check_rule(const struct rule *rule)
{
    const char *name = rule_kind_name(rule->kind);

    if ((rule->kind == RULE_ADAGRAD || rule->kind == RULE_RMSPROP) && rule->momentum != 0)
        return error_set("Momentum cannot be used with %s. (momentum is %g)", name,
                         (double)rule->momentum);
    if (rule->kind == RULE_RMSPROP && !(rule->rms_decay >= 0 && rule->rms_decay < 1))
        return error_set("rms_decay should lie between 0 and 1. (rms_decay is %g)",
                         (double)rule->rms_decay);
    if (rule->kind != RULE_ADAM && rule->kind != RULE_ADAMW)
        return 0;
    if (!(rule->momentum >= 0 && rule->momentum < 1))
        return error_set("momentum must be at least 0 and below 1 with %s, found %g", name,
                         (double)rule->momentum);
    if (!(rule->momentum2 >= 0 && rule->momentum2 < 1))
        return error_set("momentum2 must be at least 0 and below 1 with %s, found %g", name,
                         (double)rule->momentum2);
    if (rule->kind == RULE_ADAMW && rule->regularization == RULE_L1 && rule->weight_decay != 0)
        return error_set("AdamW takes weight_decay off the parameters: regularization_type \"L1\" "
                         "does not apply");
    return 0;
}

static int rule_from_solver(const Caffe__SolverParameter *solver, struct rule *rule)
{
    *rule = (struct rule){
        .momentum = solver->momentum,
        .momentum2 = solver->momentum2,
        .rms_decay = solver->rms_decay,
        .delta = solver->delta,
        .weight_decay = solver->weight_decay,
    };
    if (rule_kind_of(solver, &rule->kind))
        return -1;
    rule->nhistory = rule_kind_histories(rule->kind);
    if (strcmp(solver->regularization_type, "L1") == 0)
        rule->regularization = RULE_L1;
    else if (strcmp(solver->regularization_type, "L2") != 0 && rule->weight_decay != 0)
        return error_set("Unknown regularization type: %s (known types: L1, L2)",
                         solver->regularization_type);
    return check_rule(rule);
}

/* Replaces the snapshot_prefix in the solver's message, which owns it, by --snapshot-prefix. */
static int name_snapshots(struct job *job)
{
    Caffe__SolverParameter *solver = (Caffe__SolverParameter *)text_root(job->doc);
    const char *given = job->options->snapshot_prefix;

    if (!given)
        return 0;
    free(solver->snapshot_prefix);
    return error_status(alloc_text(&solver->snapshot_prefix, given, "--snapshot-prefix") ||
                        spec_complete_prefix(solver, job->options->solver));
}

/* Fails for settings that exclude local_lr_auto (LARS: rates follow norms). */
static int check_lars(const struct job *job)
{
    const Caffe__SolverParameter *s = job->solver;
    const struct trainer_options *o = job->options;

    if (!s->local_lr_auto)
        return 0;
    if (!(s->local_gw_ratio > 0))
        return error_set("local_gw_ratio must be above 0, found %g", (double)s->local_gw_ratio);
    if (o->reproducible)
        return error_set(
            "local_lr_auto measures each rank's share of the parameters, which depends on the "
            "number of ranks: it cannot be combined with --reproducible");
    if (job->rule.kind != RULE_SGD && job->rule.kind != RULE_NESTEROV)
        return error_set("local_lr_auto is for the types SGD and Nesterov, found %s",
                         rule_kind_name(job->rule.kind));
    if (o->exchange.staleness > 0 || o->ps_update == PS_UPDATE_DEVICE)
        return error_set("local_lr_auto %s: it cannot be combined with %s",
                         o->exchange.staleness > 0 ? "makes every update wait for all ranks"
                                                   : "measures parameters on the host",
                         o->exchange.staleness > 0 ? "--tune=staleness"
                                                   : "--tune=ps-update=device");
    return 0;
}

/* Fails for an average_decay out of range, or if options let workers' weights differ. */
static int check_average(const struct job *job)
{
    const struct exchange_options *o = &job->options->exchange;
    float decay = job->solver->average_decay;
    const char *apart = o->comm.policy == COMM_NONE ? "--comm=none" : job_apart(job);

    if (!(decay >= 0 && decay < 1))
        return error_set("average_decay is %g; expected 0 to below 1, such as 0.999",
                         (double)decay);
    return decay > 0 && apart ? error_set("average_decay needs the same weights on all ranks after "
                                          "every update: it cannot be combined with %s",
                                          apart)
                              : 0;
}

static int check_policy(const struct job *job)
{
    const struct trainer_options *o = job->options;

    if (job->policy.type != POLICY_PLATEAU || (!job_apart(job) && o->exchange.servers <= 0))
        return 0;
    return error_set("lr_policy \"plateau\" needs the loss of all workers before the next "
                     "iteration: it cannot be combined with %s",
                     job_apart(job) ? job_apart(job) : "--servers, which have no loss");
}

/* Fails if --stop-after has no tests to count. */
static int check_early_stop(const struct job *job)
{
    const Caffe__SolverParameter *s = job->solver;
    const struct solver_nets *nets = &job->defs;

    if (job->options->stop_after <= 0 ||
        (s->test_interval > 0 && nets->ntests > 0 && nets->test_iter[0] > 0))
        return 0;
    return error_set("--stop-after=%d counts tests, and %s asks for none: expected a test net, "
                     "test_iter and test_interval",
                     job->options->stop_after, job->options->solver);
}

int job_read(struct job *job, char **notices)
{
    const struct trainer_options *o = job->options;

    if (spec_read_solver_with(o->solver, &o->overrides, &job->doc) || name_snapshots(job))
        return -1;
    job->solver = (const Caffe__SolverParameter *)text_root(job->doc);
    job->max_iter = o->max_iter > 0 ? o->max_iter : job->solver->max_iter;
    job->iter_size = job->solver->iter_size;
    if (job->solver->average_loss < 1)
        return error_set("%s: average_loss must be at least 1, found %d", o->solver,
                         job->solver->average_loss);
    if (job->iter_size < 1)
        return error_set("%s: iter_size must be at least 1, found %d", o->solver, job->iter_size);
    if (job->max_iter < 0)
        return error_set("%s: max_iter must be at least 0, found %d", o->solver, job->max_iter);
    /* a fixed seed makes runs repeatable unless the solver asks otherwise */
    job->seed = job->solver->random_seed >= 0 ? (uint64_t)job->solver->random_seed : 1;
    if (rule_from_solver(job->solver, &job->rule))
        return context_of(o, "type");
    if (policy_from_solver(job->solver, &job->policy))
        return context_of(o, "lr_policy");
    if (o->exchange.staleness > 0 && job->solver->clip_gradients > 0)
        return error_set(
            "%s: clip_gradients makes every update wait for all ranks; it cannot be combined "
            "with --tune=staleness=%d",
            o->solver, o->exchange.staleness);
    if (check_lars(job) || check_average(job))
        return error_context("%s", o->solver);
    job->policy.max_iter = job->max_iter;
    if (check_policy(job))
        return error_context("%s", o->solver);
    if (!job->solver->has_max_iter && o->max_iter <= 0 && o->epochs <= 0)
        return error_set("%s: the solver has no max_iter; add it, or give --max-iter=N or "
                         "--epochs=N",
                         o->solver);
    if (solver_nets_load(job->doc, job->solver, !job_rehearses(job), &job->defs) ||
        check_early_stop(job))
        return -1;
    return note_files(job, notices);
}

/* Returns the samples of a worker's turn (see `turn` in job.h). */
static int64_t samples_of(const struct job *job, int worker)
{
    return job->samples ? job->samples[worker] : (int64_t)job->batch * job_shares(job);
}

int job_batch(const struct job *job)
{
    const struct trainer_options *o = job->options;

    if (o->reproducible)
        return job->batch;
    if (job->samples)
        return job->samples[job->worker ? job->rank : 0];
    return job->unlike || job->global_batch <= 0
               ? o->batch
               : job->global_batch / (job->nworkers * job->iter_size);
}

void job_take_turns(struct job *job)
{
    job->before = job->turn = 0;
    for (int w = 0; w < job->nworkers; w++) {
        job->before += w < job->rank ? samples_of(job, w) : 0;
        job->turn += samples_of(job, w);
    }
}

double job_weight(const struct job *job)
{
    return job->samples && !job->options->reproducible
               ? (double)job->batch * job->nworkers / (double)job->turn
               : 1;
}

int job_find_threads_all(struct job *job)
{
    const char *environment = getenv("OMP_NUM_THREADS");
    bool sends = job->nranks > 1 && job->options->exchange.comm.policy != COMM_NONE && !job->blank;
    int wanted = job->options->computing.threads;

    if (cores_find(job->world, &job->topology, &job->cores))
        return -1;
    if (!wanted && environment && (wanted = atoi(environment)) < 1)
        return 0; /* the engine's library reports a wrong OMP_NUM_THREADS */
    job->threads = wanted ? wanted : job->cores.threads;
    if (sends && job->worker)
        job->threads = cores_place(&job->cores, wanted);
    else if (sends && job->threads > 1)
        cores_place(&job->cores, job->threads - 1); /* one core is left to the server's wire */
    cores_enter(&job->cores, CORES_ALL);
    return 0;
}

/* Returns true if workers can take unlike shares of `parts` samples or grains. */
static bool can_differ(const struct job *job, int64_t parts)
{
    return parts >= job->nworkers && !job->blank && job->options->exchange.drop == 0 &&
           job->options->exchange.comm.policy != COMM_NONE;
}

int job_keep_batch(struct job *job, int64_t kept)
{
    const struct trainer_options *o = job->options;
    const bool resumed = o->global_batch <= 0 && o->batch <= 0 && kept > 0;
    const int64_t batch = resumed ? kept : o->global_batch;
    const int passes = o->reproducible ? 1 : job->iter_size;
    int64_t shares = o->reproducible ? 1 : (int64_t)job->nworkers * passes;

    job->unlike = o->balance || (batch % shares && can_differ(job, batch / passes));
    if (job->unlike)
        shares = passes;
    if (batch > INT32_MAX || batch % shares)
        return error_set("%s%" PRId64 " cannot be shared: %s%siter_size %d makes %" PRId64
                         " shares; expected a multiple, such as --global-batch=%" PRId64,
                         resumed ? "--resume: the run's batch of " : "--global-batch=", batch,
                         job->unlike ? "" : units_count(job->nworkers, "worker").text,
                         job->unlike ? "" : " times ", passes, shares,
                         batch < shares ? shares : batch - batch % shares);
    job->global_batch = (int)batch;
    return 0;
}

int job_cut_grains(struct job *job)
{
    int batch = job->global_batch, given = job->options->grain;
    int grains = given > 0 ? batch / given : REPRODUCIBLE_GRAINS;
    int grain = given > 0 ? given : batch / REPRODUCIBLE_GRAINS, each = grains / job->nworkers;
    bool even = grains == each * job->nworkers && (job->nworkers == 1 || !(each & (each - 1)));

    if (!job->options->reproducible)
        return 0;
    if (batch <= 0)
        return error_set("--reproducible needs --global-batch=N, the samples of an iteration over "
                         "all ranks, whatever the number of ranks");
    if (grain == 0 || batch != grains * grain)
        return error_set("--reproducible: --global-batch=%d is no multiple of %d, the %s: give "
                         "--reproducible=GRAIN, a divisor of the batch",
                         batch, given > 0 ? given : grains,
                         given > 0 ? "samples of a grain" : "number of grains");
    job->unlike = job->options->balance || (!even && can_differ(job, grains));
    if (!even && !job->unlike)
        return error_set("--reproducible: %s of %d samples over %d workers: expected at least one "
                         "for each worker: change the ranks or GRAIN",
                         units_count(grains, "grain").text, grain, job->nworkers);
    job->batch = grain;
    job->iter_size = each > 1 ? each : 1; /* balance_deal sets it where shares differ */
    return 0;
}

int64_t job_samples(const struct job *job)
{
    return job->turn * (job->options->reproducible ? 1 : job->iter_size);
}

double job_epochs(const struct job *job, double samples)
{
    return job->records > 0 ? samples / (double)job->records : 0;
}

int job_count_epochs(struct job *job)
{
    double epochs = job->options->epochs, samples = (double)job_samples(job),
           iterations = ceil(epochs * (double)job->records / samples * (1 - 1e-12));

    if (epochs <= 0)
        return 0;
    if (!job->records)
        return error_set(
            "--epochs=%g: the number of training records is not known; give --max-iter=N", epochs);
    if (iterations > INT32_MAX)
        return error_set("--epochs=%g of %" PRIu64 " records are %.4g iterations of %.0f; at most "
                         "%d can be counted",
                         epochs, job->records, iterations, samples, INT32_MAX);
    job->max_iter = job->policy.max_iter = (int)iterations;
    return 0;
}

uint64_t job_samples_before(const struct job *job, const struct train_state *at, int64_t iteration)
{
    assert(iteration >= at->iteration);
    return at->cursor + (uint64_t)(iteration - at->iteration) * (uint64_t)job_samples(job);
}

void job_close(struct job *job)
{
    topology_free(&job->topology);
    solver_nets_free(&job->defs);
    text_free(job->doc);
}

void job_say_of_data(void *context, const char *text)
{
    const struct job *job = context;

    if (job->rank == 0)
        LOG_WARNING(job->log, "%s", text);
    else /* ranks other than 0 log errors only */
        LOG_ERROR(job->log, "rank %d on %s: %s", job->rank, job->topology.host[job->rank], text);
}
