/* From a command line to a rank that is ready to train. Every step that can fail on one rank alone
 * is followed by an agreement, so that all ranks stop together with one message. */
#include "solver/trainer_internal.h"

#include "report/curves.h"

#include "engine/replay/profile.h"
#include "solver/device.h"
#include "solver/settings.h"
#include "spec/read.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SILENCE_SECONDS = 60, LAST_BREATH_SECONDS = 30 };

static int check_ranks(struct trainer *t)
{
    const struct trainer_options *o = t->options;

    if (o->servers >= t->nranks)
        return error_set(
            "--servers=%d leaves no worker: %d rank%s, and at least one must compute; start "
            "more ranks (mpirun -np N) or ask for fewer servers",
            o->servers, t->nranks, t->nranks == 1 ? " is there" : "s are there");
    t->nworkers = t->nranks - o->servers;
    t->worker = t->rank < t->nworkers;
    t->blank = engine_is_blank(o->engine);
    if (o->batch > 0 && o->global_batch > 0)
        return error_set("--batch is per rank and --global-batch over all ranks: give one of them");
    return 0;
}

/* What is to be said of the files: the solver, and each net's file once, however many nets it
 * gives. */
static int note_files(struct trainer *t)
{
    struct strbuf notices = {0};

    strbuf_puts(&notices, text_notices(t->doc));
    for (int i = 0; i < t->defs.ndocs; i++) {
        bool said = false;

        for (int k = 0; k < i; k++)
            said = said || !strcmp(text_name(t->defs.docs[k]), text_name(t->defs.docs[i]));
        if (!said)
            strbuf_puts(&notices, text_notices(t->defs.docs[i]));
    }
    t->notices = strbuf_take(&notices);
    return t->notices ? 0 : -1;
}

/* --snapshot-prefix takes the place of the solver's, which its message owns. */
static int name_snapshots(struct trainer *t)
{
    Caffe__SolverParameter *solver = (Caffe__SolverParameter *)text_root(t->doc);
    const char *given = t->options->snapshot_prefix;
    char *prefix = given ? strdup(given) : NULL;

    if (given && !prefix)
        return error_memory(strlen(given) + 1, "--snapshot-prefix");
    if (given) {
        free(solver->snapshot_prefix);
        solver->snapshot_prefix = prefix;
    }
    return 0;
}

/* Rates that follow norms: what they cannot go with. */
static int check_lars(const struct trainer *t)
{
    const Caffe__SolverParameter *s = t->solver;
    const struct trainer_options *o = t->options;

    if (!s->local_lr_auto)
        return 0;
    if (!(s->local_gw_ratio > 0))
        return error_set("local_gw_ratio must be above 0, found %g", (double)s->local_gw_ratio);
    if (t->rule.kind != RULE_SGD && t->rule.kind != RULE_NESTEROV)
        return error_set("local_lr_auto (--lars) is for the types SGD and Nesterov, found %s",
                         rule_kind_name(t->rule.kind));
    if (o->staleness > 0 || o->ps_update == PS_UPDATE_DEVICE)
        return error_set("local_lr_auto (--lars) %s: it cannot be combined with %s",
                         o->staleness > 0 ? "makes every update wait for all ranks"
                                          : "measures parameters on the host",
                         o->staleness > 0 ? "--staleness" : "--ps-update=device");
    return 0;
}

static int read_solver_file(struct trainer *t)
{
    const struct trainer_options *o = t->options;

    if (spec_read_solver_with(o->solver, &o->overrides, &t->doc) || name_snapshots(t))
        return -1;
    t->solver = (const Caffe__SolverParameter *)text_root(t->doc);
    t->max_iter = o->max_iter > 0 ? o->max_iter : t->solver->max_iter;
    t->iter_size = t->solver->iter_size;
    if (t->iter_size < 1)
        return error_set("%s: iter_size must be at least 1, found %d", o->solver, t->iter_size);
    if (t->max_iter < 0)
        return error_set("%s: max_iter must be at least 0, found %d", o->solver, t->max_iter);
    t->seed = o->seed >= 0                  ? (uint64_t)o->seed
              : t->solver->random_seed >= 0 ? (uint64_t)t->solver->random_seed
                                            : 1; /* repeatable unless asked otherwise */
    if (rule_from_solver(t->solver, &t->rule) || policy_from_solver(t->solver, &t->policy))
        return error_context("%s", o->solver);
    if (o->staleness > 0 && t->solver->clip_gradients > 0)
        return error_set(
            "%s: clip_gradients makes every update wait for all ranks; it cannot be combined "
            "with --staleness=%d",
            o->solver, o->staleness);
    if (check_lars(t))
        return error_context("%s", o->solver);
    t->policy.max_iter = t->max_iter;
    if (trainer_check_policy(t))
        return error_context("%s", o->solver);
    if (solver_nets_load(t->doc, t->solver, &t->defs) || trainer_check_early_stop(t))
        return -1;
    return note_files(t);
}

static int batch_per_pass(struct trainer *t, int *out)
{
    const struct trainer_options *o = t->options;
    int shares = t->nworkers * t->iter_size;

    *out = o->batch;
    if (t->global_batch <= 0)
        return 0;
    if (t->global_batch % shares)
        return error_set(
            "--global-batch=%d cannot be shared evenly: %d worker%s times iter_size %d "
            "makes %d shares",
            t->global_batch, t->nworkers, t->nworkers == 1 ? "" : "s", t->iter_size, shares);
    *out = t->global_batch / shares;
    return 0;
}

static int create_nets(struct trainer *t)
{
    struct layer_env env = {
        .rank = t->worker ? t->rank : 0,
        .nranks = t->nworkers,
        .seed = t->seed,
        .notices = &t->notices,
        .care = {.max_bad = t->options->max_bad, .say = trainer_say_of_data, .context = t},
        .base_file = t->options->solver,
        .look_only = t->blank};
    int64_t chw[3] = {t->options->input_chw[0], t->options->input_chw[1], t->options->input_chw[2]};

    if (chw[0] > 0)
        env.input_chw = chw;
    if (trainer_open_trace(t))
        return -1;
    env.trace = t->trace;
    if (batch_per_pass(t, &env.batch) || net_create(t->defs.train, true, &env, NULL, &t->net))
        return -1;
    t->batch = net_batch(t->net);
    if (t->batch == 0)
        return error_set("%s: the net has no data layer to train from", t->net->def->file);
    t->net->trace = t->trace;
    if (!t->worker)
        return 0;
    t->tests = calloc((size_t)t->defs.ntests + 1, sizeof(struct net *));
    if (!t->tests)
        return error_memory(sizeof(struct net *), "test nets");
    env.batch = 0;
    env.trace = NULL;
    for (int i = 0; i < t->defs.ntests && !t->blank; i++)
        if (net_create(t->defs.tests[i], false, &env, t->net, &t->tests[i]))
            return -1;
    return 0;
}

/* Who computes on which cores. Collective. */
static int find_threads(struct trainer *t)
{
    const char *environment = getenv("OMP_NUM_THREADS");
    bool sends = t->nranks > 1 && t->options->comm.policy != COMM_NONE && !t->blank;
    int wanted = t->options->threads > 0 ? t->options->threads : 0;

    if (cores_find(t->world, &t->topology, &t->cores))
        return -1;
    if (!wanted && environment && (wanted = atoi(environment)) < 1)
        return 0; /* the engine's library says what it makes of that */
    t->threads = wanted ? wanted : t->cores.threads;
    if (sends && t->worker)
        t->threads = cores_place(&t->cores, wanted);
    else if (sends && t->threads > 1)
        cores_place(&t->cores, t->threads - 1); /* a server's wire is one of them */
    cores_enter(&t->cores, CORES_ALL);
    return 0;
}

/* What rank 0 says of where ranks compute. Collective. */
static int gather_places(struct trainer *t)
{
    char text[CORES_PLACE_BYTES] = "", identity[64];
    const struct engine_i *engine = t->engine.i;
    bool device = engine->device && engine->device(t->engine.context, identity);

    if (t->worker && !t->blank && !device)
        cores_describe(&t->cores, t->threads, text);
    return cores_gather(t->world, text, &t->places);
}

/* Collective. */
static int open_engine(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    struct engine_options options = {.threads = t->threads,
                                     .profile = o->profile,
                                     .dilate = o->dilate,
                                     .device = t->topology.local_rank,
                                     .math = o->math,
                                     .convolution = o->convolution,
                                     .no_fusion = o->no_fusion,
                                     .deterministic = o->deterministic,
                                     .workspace = o->workspace,
                                     .no_graphs = o->no_graphs};

    /* a dedicated server multiplies factors at most: it leaves the GPUs to the workers */
    return device_open(t->world, t->worker || strcmp(o->engine, "cuda") ? o->engine : "cpu",
                       &options, o->share_gpu, &t->engine) ||
                   gather_places(t)
               ? -1
               : 0;
}

/* Times of another batch would be replayed without a word. */
static int check_profile(const struct trainer *t)
{
    struct profile profile;
    int batch;

    if (!t->blank)
        return 0;
    if (profile_read(t->options->profile, &profile))
        return -1;
    batch = profile.batch;
    profile_free(&profile);
    if (batch > 0 && batch != t->batch)
        return error_set(
            "%s holds the times of a batch of %d samples a pass, and this run takes %d: give "
            "--batch=%d here, or --batch=%d to \"poseidon time --profile\"",
            t->options->profile, batch, t->batch, batch, t->batch);
    return 0;
}

/* Within t->room, if there is one. */
static int build_net(struct trainer *t, struct net *net)
{
    size_t taken = net == t->net ? 0 : net_memory(t->net);

    if (t->room)
        net_limit_memory(net, t->room > taken ? t->room - taken : 1);
    if (net_build(net, &t->engine, t->seed) == 0)
        return 0;
    return t->room ? error_context("not fit to train") : -1;
}

static int build_nets(struct trainer *t)
{
    if (!t->worker)
        return 0;
    if (build_net(t, t->net))
        return -1;
    for (int i = 0; i < t->defs.ntests && !t->blank; i++)
        if (build_net(t, t->tests[i]))
            return error_context("test net #%d", i);
    return 0;
}

/* Rank 0 first where its engine measures, so that all compute the same bits. Threads that read data
 * are started on the way, before computing is bound to its cores. Collective. */
static int build_alike(struct trainer *t)
{
    bool measures;
    int status;

    if (device_measures(t->world, &t->engine, &measures))
        return -1;
    if (measures && (error_agree(t->world, t->rank == 0 ? build_nets(t) : 0) ||
                     device_share_choices(t->world, &t->engine)))
        return -1;
    status = error_agree(t->world, measures && t->rank == 0 ? 0 : build_nets(t));
    cores_enter_team(&t->cores, t->threads);
    return status;
}

static int load_weights(struct trainer *t)
{
    const char *given = t->options->weights;

    for (size_t i = 0; !given && i < t->solver->n_weights; i++)
        if (checkpoint_load_weights(t->solver->weights[i], false, t->net, t->log))
            return -1;
    return given ? checkpoint_load_weights(given, false, t->net, t->log) : 0;
}

/* Rank 0 reads files; what it found goes to everybody. *history: rank 0, to be freed; NULL if none.
 */
static int load_files(struct trainer *t, float **history)
{
    const struct trainer_options *o = t->options;
    size_t blocks = (size_t)t->rule.nhistory;

    *history = NULL;
    if (t->rank != 0 || t->blank)
        return 0;
    if (o->snapshot && o->weights)
        return error_set("Give a snapshot to resume training or weights to finetune but not both.");
    if (o->resume != RESUME_OFF || o->snapshot) {
        *history = calloc(blocks * t->net->elems + 1, sizeof **history);
        if (!*history)
            return error_memory(blocks * t->net->elems * sizeof **history, "history");
    }
    if (o->resume != RESUME_OFF && trainer_resume(t, *history))
        return -1;
    if (!t->resumed && o->snapshot)
        return trainer_take_state(t, o->snapshot, *history);
    return t->resumed ? 0 : load_weights(t);
}

/* The solver as src/sync sees it. */
static int describe_update(void *context, int64_t iteration, float scale, float lr_mult,
                           float decay_mult, struct engine_update *out)
{
    const struct trainer *t = context;

    rule_describe(&t->rule, iteration, t->rates[iteration - t->at.iteration], scale, lr_mult,
                  decay_mult, out);
    return 0;
}

static void warn_of_stall(void *context, const char *text)
{
    struct trainer *t = context;

    /* from whichever rank waits: its own log is off unless it is rank 0 */
    LOG_ERROR(t->log, "%s", text);
}

/* On the wire's thread: a rank is gone, and nothing collective will ever end. What rank 0 has
 * handed to the keeper is still written. */
static void give_up(void *context, const char *text)
{
    struct trainer *t = context;

    fprintf(stderr,
            "poseidon train: lost: %s. The run ends with status %d; --resume goes on from "
            "its newest snapshot\n",
            text, TRAINER_LOST);
    fflush(stderr);
    if (t->rank == 0)
        (void)trainer_finish_saving(t);
    alarm(LAST_BREATH_SECONDS); /* the launcher may be out of reach, too */
    MPI_Abort(MPI_COMM_WORLD, TRAINER_LOST);
    _exit(TRAINER_LOST);
}

static const char *host_of(void *context, int rank)
{
    const struct trainer *t = context;

    return t->topology.host[rank];
}

static const char *layer_of_group(void *context, int64_t group)
{
    const struct trainer *t = context;

    return group < t->net->ngroups ? t->net->groups[group].name : NULL;
}

/* The net as src/sync sees it. */
static void model_factors(void *context, int group, const float **bottom, const float **top_grad)
{
    const struct trainer *t = context;

    net_factors(t->net, group, bottom, top_grad);
}

static void model_changed(void *context, int group)
{
    const struct trainer *t = context;

    net_touch(t->net, group);
}

static void make_model(struct trainer *t)
{
    const struct net *net = t->net;

    t->model = (struct sync_model){.elems = net->elems,
                                   .values = net->values,
                                   .grads = net->grads,
                                   .engine_values = net->engine_values,
                                   .engine_grads = net->engine_grads,
                                   .engine = &t->engine,
                                   .context = t,
                                   .factors = model_factors,
                                   .changed = model_changed};
    for (int b = 0; b < t->plan->nbuckets && t->worker; b++) {
        const struct bucket *bucket = &t->plan->buckets[b];
        const struct param_group *group = &net->groups[bucket->first_group];
        for (int p = 0; p < group->nparams && bucket->scheme && bucket->scheme->factors; p++)
            net->params[group->first + p].factored = true;
    }
}

/* Ranks of a node have their statistics outside the arena that they share (net_use_arenas). */
static int share_statistic(struct trainer *t, int param)
{
    const struct param *p = &t->net->params[param];
    size_t elems = shape_elems(&p->shape);
    float *scratch = t->worker ? NULL : malloc(elems * sizeof *scratch);
    float *values = t->worker ? net_host_value(t->net, p) : scratch;
    int status = values ? 0 : error_memory(elems * sizeof *scratch, "statistics");

    status = error_agree(t->world, status);
    if (!status && MPI_Bcast(values, (int)elems, MPI_FLOAT, 0, t->world) != MPI_SUCCESS)
        status = error_set("the statistics of rank 0 did not reach this rank");
    free(scratch);
    return error_agree(t->world, status);
}

/* Engines with memory of their own get the values. */
static int push_values(struct trainer *t)
{
    for (int g = 0; g < t->net->ngroups && t->worker; g++) {
        if (net_push_values(t->net, g))
            return -1;
        net_touch(t->net, g);
    }
    return 0;
}

/* Everybody has rank 0's values. */
static int share_values(struct trainer *t)
{
    if (sync_share_values(t->sync))
        return -1;
    for (int p = 0; t->plan->most_locals > 1 && p < t->net->nparams; p++)
        if (t->net->params[p].statistic && share_statistic(t, p))
            return -1;
    return error_agree(t->world, push_values(t));
}

/* Ranks are named before they are given up. */
static double silence_seconds(const struct trainer_options *o)
{
    return o->stall_timeout > 0 && o->stall_timeout < 2 * SILENCE_SECONDS ? o->stall_timeout / 2
                                                                          : SILENCE_SECONDS;
}

static int create_sync(struct trainer *t, const float *history)
{
    struct sync_update update = {
        .context = t, .nhistory = t->rule.nhistory, .describe = describe_update};

    if (trainer_place_updates(t))
        return -1;
    t->sync_options = (struct sync_options){
        .update_on_engine = t->update_remotely,
        .overlap = t->options->overlap != COST_OVERLAP_NONE,
        .forward_waits_all = t->options->overlap == COST_OVERLAP_BACKWARD,
        .staleness = t->options->staleness,
        .fifo = t->options->fifo,
        .window = t->sizes.window / (size_t)(t->options->dilate > 1 ? t->options->dilate : 1),
        .bytes_per_second = t->options->mbps * 1e6 / 8,
        .node = t->node,
        .direct = t->options->direct,
        .threads = t->threads,
        .clip = t->solver->clip_gradients,
        .skips = t->options->skip_nan,
        .lars = t->solver->local_lr_auto ? t->solver->local_gw_ratio : 0,
        .decay = t->solver->weight_decay,
        .iteration = t->at.iteration,
        .stall_seconds = SILENCE_SECONDS,
        .warn = warn_of_stall,
        .silence_seconds = silence_seconds(t->options),
        .lost_seconds = t->options->stall_timeout,
        .lost = give_up,
        .host_of = host_of,
        .place_of = layer_of_group,
        .warn_context = t,
        .trace = t->trace};
    make_model(t);
    if (sync_create(t->world, t->plan, &t->model, &update, &t->sync_options, &t->sync) ||
        (!t->blank && share_values(t)))
        return -1;
    if (t->resumed && sync_load_history(t->sync, history))
        return -1;
    return error_agree(t->world, trainer_start_clock(t));
}

int trainer_create(MPI_Comm world, const struct trainer_options *options, struct log *log,
                   struct trainer **out)
{
    struct trainer *t = calloc(1, sizeof *t);
    float *history = NULL;

    *out = t;
    if (error_agree(world, t ? 0 : error_memory(sizeof *t, "the trainer")))
        goto fail;
    t->options = options;
    t->log = log;
    t->world = world;
    t->last_snapshot = -1;
    t->final_loss = NAN;
    MPI_Comm_rank(world, &t->rank);
    MPI_Comm_size(world, &t->nranks);
    /* what follows has collective parts that depend on options, solver and nets */
    if (error_agree(world, check_ranks(t)) || error_agree(world, read_solver_file(t)) ||
        trainer_compare_ranks(t))
        goto fail;
    if (topology_create(world, &t->topology) || find_threads(t))
        goto fail;
    if (trainer_open_run(t) || error_agree(world, create_nets(t)) || trainer_identify(t) ||
        error_agree(world, t->rank == 0 ? trainer_check_run(t) : 0) ||
        error_agree(world, options->dry_run && t->rank == 0 ? trainer_look_at_data(t) : 0) ||
        open_engine(t) || error_agree(world, check_profile(t)) ||
        error_agree(world, trainer_check_room(t)) || trainer_find_nodes(t) || build_alike(t) ||
        trainer_plan(t) || error_agree(world, trainer_check_pace(t)) ||
        error_agree(world, load_files(t, &history)))
        goto fail;
    MPI_TRY(MPI_Bcast(&t->at, (int)sizeof t->at, MPI_BYTE, 0, world));
    MPI_TRY(MPI_Bcast(&t->resumed, (int)sizeof t->resumed, MPI_BYTE, 0, world));
    trace_iteration(t->trace, t->at.iteration); /* what is done ahead counts to it */
    if (error_agree(
            world,
            trainer_work_out_rates(t) || trainer_open_late(t) || trainer_open_skips(t) ? -1 : 0) ||
        error_agree(world, t->worker ? net_seek(t->net, t->at.cursor) : 0) ||
        create_sync(t, history) || trainer_open_best(t) ||
        error_agree(world, t->rank == 0 && !options->dry_run
                               ? trainer_begin_run(t) || trainer_open_points(t)
                               : 0))
        goto fail;
    free(history);
    trainer_log_start(t);
    return 0;
fail:
    free(history);
    trainer_destroy(t);
    *out = NULL;
    return -1;
}

void trainer_destroy(struct trainer *t)
{
    if (!t)
        return;
    cores_enter(&t->cores, CORES_ALL);
    trainer_close_run(t);
    trainer_close_late(t);
    if (t->sync)
        sync_destroy(t->sync);
    plan_destroy(t->plan);
    free(t->groups);
    for (int i = 0; t->tests && i < t->defs.ntests; i++)
        net_destroy(t->tests[i]);
    free(t->tests);
    net_destroy(t->net);
    node_destroy(t->node);
    node_map_free(&t->nodes);
    topology_free(&t->topology);
    trace_destroy(t->trace);
    if (t->engine.i)
        engine_close(&t->engine);
    solver_nets_free(&t->defs);
    text_free(t->doc);
    free(t->damage);
    free(t->statistics);
    free(t->rates);
    free(t->steps);
    free(t->losses);
    free(t->scores);
    free(t->notices);
    strbuf_free(&t->places);
    strbuf_free(&t->survey);
    strbuf_free(&t->unfit);
    curves_close(t->curves);
    figures_free(&t->figures);
    free(t);
}
