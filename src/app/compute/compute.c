/* Makes a rank's engine and nets, from definitions to weights in their memory. */
#include "compute/compute.h"

#include "exchange/exchange.h"
#include "snapshot/checkpoint.h"
#include "compute/balance.h"
#include "job/agree_job.h"
#include "util/agreement.h"
#include "compute/fake_data.h"
#include "sync/sync.h"
#include "util/agree.h"
#include "util/finite.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int create_tests(const struct job *job, const struct layer_env *env, const struct net *share,
                        struct net ***tests, struct test_pass **passes)
{
    if (OWN(job->owner, *tests, job->defs.ntests + 1, "test nets") ||
        OWN(job->owner, *passes, job->defs.ntests + 1, "test nets"))
        return -1;
    for (int i = 0; i < job->defs.ntests; i++)
        if (net_create(job->defs.tests[i], false, env, share, &(*tests)[i]) ||
            test_pass_open(&(*passes)[i], (*tests)[i], job->nworkers) ||
            test_pass_set(&(*passes)[i], job->defs.test_iter[i], env, share))
            return -1;
    return 0;
}

/* Scales losses and accuracies of a net whose batch is part of the ranks' common batch: the ranks'
 * sum, or mean, becomes that of one rank with the whole batch. */
static void share_batch(struct net *net, const struct job *job)
{
    if (job_shares_batch(job))
        net_share_sums(net, (double)(job->options->reproducible ? job_grains(job) : job->nworkers));
    if (job->samples)
        net_share_means(net, job_weight(job));
    for (int o = 0; o < net->noutputs; o++)
        if (net->outputs[o].labels)
            net_keep(net, net->outputs[o].labels);
}

/* Returns the environment of a net to train. chw: memory for its image size. */
static struct layer_env first_env(struct compute *compute, const struct job *job, int64_t chw[3])
{
    for (int i = 0; i < 3; i++)
        chw[i] = job->options->input_chw[i];
    return (struct layer_env){.rank = job->worker ? job->rank : 0,
                              .nranks = job->nworkers,
                              .row = job_shares(job),
                              .seed = job->seed,
                              .care = {.max_bad = job->options->max_bad,
                                       .say = job_say_of_data,
                                       .context = (void *)(uintptr_t)job,
                                       .left_out = &compute->bad_records},
                              .base_file = job->options->solver,
                              .look_only = job_rehearses(job),
                              .fake = true,
                              .input_chw = chw[0] > 0 ? chw : NULL,
                              .shuffle = job->options->shuffle,
                              .no_bias_decay = job->solver->no_bias_decay};
}

static int create_once(struct compute *compute, struct job *job, struct layer_env *env)
{
    env->batch = job_batch(job);
    if (net_create(job->defs.train, true, env, NULL, &compute->net))
        return net_explain(*env->notices);
    job->batch = net_batch(compute->net);
    if (job->batch == 0)
        return error_set("%s: the net has no data layer to train from", compute->net->def->file);
    job_take_turns(job);
    return 0;
}

/* Fails if an output has a value for each sample: workers with unequal numbers of samples have no
 * mean of such values. */
static int check_outputs(const struct net *net)
{
    for (int o = 0; o < net->noutputs; o++)
        if (net->outputs[o].sums && shape_elems(&net->outputs[o].blob->value.shape) > 1)
            return error_set("%s: output '%s' has values for each sample, but workers have unlike "
                             "shares: let a Silence layer take the output, or change the batch",
                             net->def->file, net->outputs[o].blob->name);
    return 0;
}

/* Creates the net to train, where shares may differ for this worker's. Without a given batch, the
 * net file's batch is the mean share. */
static int create_training(struct compute *compute, struct job *job, struct layer_env *env)
{
    int64_t turn = job->global_batch / (job->options->reproducible ? 1 : job->iter_size);

    if (!job->unlike)
        return create_once(compute, job, env);
    if (!job->samples && turn == 0) {
        if (create_once(compute, job, env))
            return -1;
        turn = job->turn;
        net_destroy(compute->net);
        compute->net = NULL;
    }
    if (!job->samples && balance_deal(job, turn))
        return -1;
    job_take_turns(job);
    env->row = job_shares(job);
    env->before = (uint64_t)job->before;
    env->turn = (uint64_t)job->turn;
    return error_status(create_once(compute, job, env) || check_outputs(compute->net));
}

int compute_create_nets(struct compute *compute, struct job *job, const struct op_ranks *ranks,
                        struct trace *trace, char **notices)
{
    int64_t chw[3];
    struct layer_env env = first_env(compute, job, chw);
    struct average *average = &compute->average;
    char *repeated = NULL;
    int status;

    env.notices = notices;
    env.ranks = ranks;
    env.trace = trace;
    if (create_training(compute, job, &env))
        return -1;
    for (int g = 0; g < compute->net->ngroups; g++)
        compute->net->groups[g].decays &= job->rule.weight_decay != 0;
    share_batch(compute->net, job);
    if (!net_losses(compute->net))
        return error_set("%s: the net has no loss: no layer of the TRAIN phase has a loss_weight; "
                         "expected a loss layer such as SoftmaxWithLoss, or loss_weight: 1 in the "
                         "layer whose top is the loss",
                         compute->net->def->file);
    compute->net->trace = trace;
    if (average_create(average, job, &env, compute->net))
        return -1;
    if (!job->worker)
        return 0;
    if (job_rehearses(job) && !job->blank &&
        fake_data_create(job->owner, compute->net, job->seed,
                         (uint64_t)(job->before / job_shares(job)), &compute->fake))
        return -1;
    env.batch = env.row = 0;
    env.turn = 0;
    env.trace = NULL;
    env.ranks = NULL; /* no sums over workers, which test unequal numbers of batches */
    if (create_tests(job, &env, compute->net, &compute->tests, &compute->passes))
        return -1;
    env.notices = &repeated; /* the same notices as before */
    status =
        average->net ? create_tests(job, &env, average->net, &average->tests, &average->passes) : 0;
    free(repeated);
    return status;
}

int compute_create_trial(struct compute *compute, const struct job *job, int batch,
                         struct net **out)
{
    int64_t chw[3];
    struct layer_env env = first_env(compute, job, chw);
    char *notices = NULL;
    int status;

    env.look_only = true;
    env.batch = batch;
    env.notices = &notices;
    status = error_status(net_create(job->defs.train, true, &env, NULL, out) ||
                          net_build(*out, &compute->engine, job->seed));
    free(notices);
    return status;
}

/* ---- data ---- */

/* Finds the number of records in an epoch. */
static int find_records(const struct compute *compute, struct job *job)
{
    struct layer_data_mark mark = {.known = false};

    for (int l = 0; l < compute->net->nlayers && !mark.known; l++) {
        const struct layer *layer = &compute->net->layers[l];
        if (layer->i->mark && layer->i->mark(layer, &mark))
            return error_context("layer '%s'", layer->def->name);
    }
    if (mark.own && job->samples)
        return error_set("unlike shares need samples in one order for all workers: not with "
                         "shared_file_system: false, which gives each worker its own order");
    job->records = mark.known && !mark.own ? mark.nrecords : 0;
    return job->options->shuffle && !mark.known
               ? error_set("%s: --shuffle is for layers that read records (Data, ImageData, "
                           "HDF5Data), and the TRAIN phase has none",
                           compute->net->def->file)
               : 0;
}

/* Compares test data only if all ranks are workers, since servers have no test nets. */
int compute_compare_data_all(const struct compute *compute, struct job *job)
{
    struct strbuf list = {.data = NULL};
    char name[32];
    int status;

    if (job->blank)
        return 0;
    status =
        error_status(find_records(compute, job) || agree_job_put_data(&list, "", compute->net));
    for (int i = 0; i < job->defs.ntests && job->nworkers == job->nranks && !status; i++) {
        snprintf(name, sizeof name, "test net #%d: ", i);
        status = agree_job_put_data(&list, name, compute->tests[i]);
    }
    status = agree_alike(job->world, status, &list, AGREEMENT_START);
    strbuf_free(&list);
    return status;
}

/* ---- engine and memory ---- */

/* Fails if two ranks have the same device. Compares the names that devices give themselves, not
 * their numbers: if the scheduler shows each rank one GPU of its own, every GPU is number 0. */
static int check_double(MPI_Comm world, const struct engine *engine)
{
    char sharers[EXCHANGE_SHARERS];

    if (exchange_find_sharers(world, &engine->device, sharers))
        return -1;
    return sharers[0] ? error_set("%s: start as many ranks on each node as it has GPUs, or give "
                                  "--tune=share-gpu",
                                  sharers)
                      : 0;
}

/* Gathers on rank 0 where ranks compute. Collective. */
static int gather_places(const struct compute *compute, const struct job *job, struct strbuf *out)
{
    char text[CORES_PLACE_BYTES] = "", identity[64];
    const struct device *computing = &compute->engine.device;
    bool device = computing->i->describe && computing->i->describe(computing->context, identity);

    if (job->worker && !job->blank && !device)
        cores_describe(&job->cores, job->threads, text);
    return cores_gather(job->world, text, out);
}

int compute_open_engine_all(struct compute *compute, const struct job *job, struct strbuf *places)
{
    const struct trainer_options *o = job->options;
    struct engine_options options = o->computing;

    options.threads = job->threads;
    options.profile = o->profile;
    options.dilate = o->exchange.dilate;
    options.device = job->topology.local_rank;
    options.passes = job->iter_size;
    if (o->reproducible && o->balance && !*o->balance) /* balance may give one worker all grains */
        options.passes = (int)job_grains(job);
    options.steady = job->options->reproducible;
    /* a dedicated server only multiplies factors: on the CPU, and in math of its own */
    if (!job->worker)
        options.math = MATH_DEFAULT;
    return error_status(
        error_agree(job->world,
                    engine_open(job->worker || strcmp(o->engine, "cuda") ? o->engine : "cpu",
                                &options, &compute->engine)) ||
        (!o->share_gpu && check_double(job->world, &compute->engine)) ||
        gather_places(compute, job, places));
}

static int build_net(struct compute *compute, const struct job *job, size_t limit, struct net *net)
{
    size_t taken = net == compute->net ? 0 : net_memory(compute->net);

    if (limit)
        net_limit_memory(net, limit > taken ? limit - taken : 1);
    if (net_build(net, &compute->engine, job->seed) == 0)
        return 0;
    return limit ? error_context("not ready to train") : -1;
}

static int build_tests(struct compute *compute, const struct job *job, size_t limit,
                       struct test_pass *passes)
{
    for (int i = 0; i < job->defs.ntests; i++) {
        struct test_pass *pass = &passes[i];

        if (build_net(compute, job, limit, pass->net) ||
            (pass->rest && (pass->batches - 1) % job->nworkers == job->rank &&
             build_net(compute, job, limit, pass->rest)))
            return error_context("test net #%d", i);
    }
    return 0;
}

static int build_nets(struct compute *compute, const struct job *job, size_t limit)
{
    struct average *average = &compute->average;

    if (!job->worker)
        return 0;
    return error_status(build_net(compute, job, limit, compute->net) ||
                        average_build(average, &compute->engine) ||
                        build_tests(compute, job, limit, compute->passes) ||
                        (average->net && build_tests(compute, job, limit, average->passes)));
}

int compute_build_all(struct compute *compute, const struct job *job, size_t limit)
{
    int status = error_agree(job->world, build_nets(compute, job, limit));

    cores_enter_team(&job->cores, job->threads);
    return status;
}

bool compute_trains(const struct compute *compute)
{
    bool trains = false;

    for (int g = 0; g < compute->net->ngroups; g++)
        trains |= compute->net->groups[g].trains;
    return trains;
}

int compute_load_weights(struct compute *compute, const struct job *job)
{
    const char *given = job->options->weights;

    for (size_t i = 0; !given && !job_rehearses(job) && i < job->solver->n_weights; i++)
        if (checkpoint_load_weights(job->solver->weights[i], false, compute->net, job->log))
            return error_context("%s: weights (or train --weights=FILE)", job->options->solver);
    return given ? checkpoint_load_weights(given, false, compute->net, job->log) : 0;
}

int compute_push_values(struct compute *compute, const struct job *job)
{
    for (int g = 0; g < compute->net->ngroups && job->worker; g++)
        if (net_push_values(compute->net, g))
            return -1;
    return 0;
}

/* ---- values that workers exchange ---- */

size_t compute_statistics(const struct compute *compute, float *values, bool write)
{
    const struct net *net = compute->net;
    size_t count = 0;

    for (int p = 0; p < net->nparams; p++) {
        size_t elems = net->params[p].statistic ? shape_elems(&net->params[p].shape) : 0;
        float *host = values && elems ? net_host_value(net, &net->params[p]) : NULL;

        if (host)
            memcpy(write ? host : values + count, write ? values + count : host,
                   elems * sizeof *host);
        count += elems;
    }
    return count;
}

void compute_spread_statistics(struct compute *compute, const struct job *job)
{
    const struct grains *grains = &compute->grains;

    for (int s = 0; grains->statistics && s < job_shares(job); s++)
        compute_statistics(compute, grains->statistics + (size_t)s * grains->nstatistics, false);
}

int compute_put_statistics(struct compute *compute, const struct job *job)
{
    struct net *net = compute->net;

    compute_statistics(compute, compute->grains.mean, true);
    compute_spread_statistics(compute, job);
    for (int g = 0; g < net->ngroups; g++)
        if (net->params[net->groups[g].first].statistic && net_push_values(net, g))
            return -1;
    return 0;
}

/* BatchNorm of each worker sees only the worker's samples. Running sums are averaged before a test
 * or a snapshot, as the reference does for one net on several devices. */
int compute_average_statistics(struct compute *compute, const struct job *job, struct sync *sync)
{
    struct grains *grains = &compute->grains;
    size_t count = grains->nstatistics, shares = (size_t)job_shares(job);
    float *mean = grains->mean;

    if (count == 0 || shares * (size_t)job->nworkers == 1 || !job->worker || job->blank)
        return 0;
    if (net_pull_values(compute->net))
        return -1;
    compute_statistics(compute, mean, false);
    for (size_t i = 0; i < shares * count; i++)
        grains->sums[i] =
            job_weight(job) * (double)(grains->statistics ? grains->statistics[i] : mean[i]);
    if (grains_mean(grains, job, sync, grains->sums, count))
        return -1;
    for (size_t i = 0; i < count; i++)
        mean[i] = (float)grains->sums[i];
    return compute_put_statistics(compute, job);
}

int compute_open_shares(struct compute *compute, const struct job *job, const struct plan *plan)
{
    int losses = job->worker && !job->blank ? net_counted_losses(compute->net) : 0;

    if (job->worker && grains_open(&compute->grains, job, compute->net, plan,
                                   compute_statistics(compute, NULL, false)))
        return -1;
    if (losses == 0 || job->nworkers == 1 || job->options->reproducible || job_apart(job) ||
        job->options->exchange.comm.policy == COMM_NONE)
        return 0;
    compute->counted_losses = losses;
    return OWN(job->owner, compute->counts, losses, "labels that count");
}

/* Runs a grain's forward pass with the grain's own running sums, which do not change if the pass
 * makes a NaN or infinity. */
static int forward_grain(struct compute *compute, const struct pass *pass,
                         const struct net_hooks *hooks, const struct job *job, int share,
                         double *loss)
{
    size_t count = compute->grains.nstatistics;
    float *all = compute->grains.statistics, *now = all + (size_t)job_shares(job) * count;

    assert(share >= 0 && share < job_shares(job));
    compute_statistics(compute, all + (size_t)share * count, true);
    if (net_forward(compute->net, pass, hooks, loss))
        return -1;
    compute_statistics(compute, now, false);
    if (finite_begin(now, count) == count)
        memcpy(all + (size_t)share * count, now, count * sizeof *now);
    return 0;
}

int compute_forward(struct compute *compute, const struct job *job, struct sync *sync,
                    const struct pass *pass, const struct net_hooks *hooks, int share, double *loss)
{
    if (compute->fake && fake_data_write(compute->fake))
        return -1;
    if (compute->grains.statistics)
        return forward_grain(compute, pass, hooks, job, share, loss);
    if (!compute->counts)
        return net_forward(compute->net, pass, hooks, loss);
    return error_status(net_forward(compute->net, pass, hooks, NULL) ||
                        net_count_labels(compute->net, compute->counts) ||
                        sync_sum(sync, compute->counts, compute->counted_losses) ||
                        net_share_losses(compute->net, job->nworkers, compute->counts, loss));
}

static void close_tests(const struct job *job, struct net **tests, struct test_pass *passes)
{
    for (int i = 0; passes && i < job->defs.ntests; i++) {
        test_pass_close(&passes[i]);
        net_destroy(tests[i]);
    }
}

void compute_close(struct compute *compute, const struct job *job)
{
    close_tests(job, compute->tests, compute->passes);
    close_tests(job, compute->average.tests, compute->average.passes);
    average_close(&compute->average);
    net_destroy(compute->net);
}
