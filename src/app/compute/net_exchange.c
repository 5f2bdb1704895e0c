/* Describes the net and its engine to src/comm/exchange and src/comm/sync. */
#include "compute/net_exchange.h"

#include "forecast/layer_times.h"
#include "compute/balance.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <stdlib.h>

/* ---- callbacks of the exchange ---- */

static void say(void *context, bool warning, const char *text)
{
    const struct net_exchange *mine = context;

    if (warning)
        LOG_WARNING(mine->job->log, "%s", text);
    else
        LOG_INFO(mine->job->log, "%s", text);
}

/* Begins or ends a measurement, in which the sending thread may use all cores. For the replay
 * engine, opens a CPU engine to measure. */
static int measure(void *context, bool begins, const struct device **device)
{
    struct net_exchange *mine = context;
    const struct engine_options options = {.threads = 0};

    cores_enter(&mine->job->cores, begins ? CORES_ALL : CORES_COMPUTE);
    if (!mine->job->blank)
        return 0;
    *device = &mine->stand_in.device;
    if (begins)
        return engine_open("cpu", &options, &mine->stand_in);
    engine_close(&mine->stand_in);
    return 0;
}

static int find_work(void *context, struct cost_cluster *cluster, struct layer_times *out)
{
    const struct net_exchange *mine = context;
    const struct job *job = mine->job;
    const struct net *net = mine->compute->net;

    if (job->blank ? layer_times_read(job->owner, net, job->options->profile, cluster, out)
                   : layer_times_estimate(job->owner, net, cluster, out))
        return -1;
    if (job->blank)
        cluster->device_Bps = 0; /* replay copies nothing to a device */
    if (job->shares.images_per_s > 0)
        layer_times_stretch(out, job->batch / job->shares.images_per_s);
    layer_times_repeat(out, job->iter_size);
    return 0;
}

int net_exchange_form_all(struct net_exchange *mine, const struct job *job, struct compute *compute,
                          const char *saved_plan, struct exchange *out)
{
    const struct trainer_options *o = job->options;
    const struct exchange_member member = {
        .world = job->world,
        .topology = &job->topology,
        .device = &compute->engine.device,
        .blank = job->blank,
        .reproducible = o->reproducible,
        .unlike = o->reproducible && job->samples,
        .dry_run = o->dry_run,
        .paces = job->shares.pace,
        .no_team =
            o->share_gpu
                ? "--tune=share-gpu lets ranks share a GPU, but NCCL needs a GPU for each rank"
                : NULL,
        .context = mine,
        .say = say,
        .measure = measure,
        .find_work = find_work};

    *mine = (struct net_exchange){.job = job, .compute = compute};
    return exchange_form_all(out, &o->exchange, &member, saved_plan, compute->net->elems);
}

void net_exchange_share_memory(struct net_exchange *mine, const struct exchange *exchange)
{
    struct node *node = exchange->node;

    if (node_shares_memory(node)) {
        net_use_arenas(mine->compute->net, node->values, node_grads(node, node->rank));
        if (node->rank > 0)
            net_leave_values(mine->compute->net);
    }
}

static struct exchange_net net_of(const struct net_exchange *mine)
{
    const struct net *net = mine->compute->net;

    return (struct exchange_net){.groups = net->groups,
                                 .ngroups = net->ngroups,
                                 .iter_size = mine->job->iter_size,
                                 .parts = mine->job->samples,
                                 .batch = mine->job->batch};
}

int net_exchange_deal_all(struct net_exchange *mine, struct exchange *exchange, bool *dealt)
{
    const struct job *job = mine->job;
    const struct exchange_net all = net_of(mine);
    struct exchange_deal shares = {
        .share = job->samples, .pace = job->shares.pace, .most = job->shares.room};
    struct strbuf text = {.data = NULL};

    if (job->options->reproducible) /* whole gradients add no compute time */
        return 0;
    if (exchange_deal_all(exchange, &all, &shares))
        return -1;
    *dealt = shares.after < shares.before;
    if (!*dealt)
        return 0;
    exchange_set_shares(shares.pace, job->samples, job->nworkers, job->samples[0]);
    balance_describe(job, &text);
    LOG_INFO(job->log,
             "Balance: with the schemes' compute time, %s; predicted iteration %s instead of %s",
             strbuf_text(&text), units_seconds(shares.after).text,
             units_seconds(shares.before).text);
    strbuf_free(&text);
    return 0;
}

int net_exchange_plan_all(struct net_exchange *mine, struct exchange *exchange)
{
    const struct job *job = mine->job;
    struct exchange_net all = net_of(mine);
    int *grains = NULL;
    int status = 0;

    if (job->samples && job->options->reproducible) {
        status = ALLOC(grains, job->nworkers, "grains");
        for (int w = 0; w < job->nworkers && !status; w++)
            grains[w] = job->samples[w] / job->batch;
        all.grains = grains;
        all.parts = NULL;
        all.iter_size = (int)(job_grains(job) / job->nworkers);
    }
    status = error_agree(job->world, status) || exchange_plan_all(exchange, &all);
    free(grains);
    return error_status(status);
}

/* ---- the net's description for src/comm/sync ---- */

static void model_factors(void *context, int group, const float **bottom, const float **top_grad)
{
    const struct net_exchange *mine = context;

    net_factors(mine->compute->net, group, bottom, top_grad);
}

static void model_changed(void *context, int group)
{
    const struct net_exchange *mine = context;

    net_touch(mine->compute->net, group);
}

static void make_model(struct net_exchange *mine, const struct plan *plan)
{
    const struct net *net = mine->compute->net;

    mine->model = (struct sync_model){.elems = net->elems,
                                      .values = net->values,
                                      .grads = net->grads,
                                      .branches = mine->compute->grains.arenas,
                                      .device_values = net->engine_values,
                                      .device_grads = net->engine_grads,
                                      .device = &mine->compute->engine.device,
                                      .host_device = &mine->host.device,
                                      .context = mine,
                                      .factors = model_factors,
                                      .changed = model_changed};
    for (int b = 0; b < plan->nbuckets && mine->job->worker; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        const struct group *group = &net->groups[bucket->first_group];
        for (int p = 0; p < group->nparams && bucket->scheme && bucket->scheme->factors; p++)
            net->params[group->first + p].factored = true;
    }
}

int net_exchange_open_all(struct net_exchange *mine, struct exchange *exchange,
                          const struct sync_update *update, const struct sync_options *of_job)
{
    const struct job *job = mine->job;
    const struct engine_options options = {.threads = job->threads};
    struct sync_options all = *of_job;

    make_model(mine, exchange->plan);
    all.threads = job->threads;
    all.clip = job->solver->clip_gradients;
    all.exact_norms =
        job->options->reproducible && job->solver->clip_gradients > 0 ? job->solver->iter_size : 0;
    all.skips = job->options->skip_nan;
    all.lars = job->solver->local_lr_auto ? job->solver->local_gw_ratio : 0;
    all.decay = job->solver->weight_decay;
    all.lowrank_warmup = job->policy.warmup;
    all.seed = job->seed;
    if (net_exchange_place_updates_all(mine, exchange, &all.update_on_device) ||
        error_agree(job->world, mine->compute->engine.device.i->own_memory
                                    ? engine_open("cpu", &options, &mine->host)
                                    : 0))
        return -1;
    return exchange_open_all(exchange, &mine->model, update, &all);
}

/* Copies rank 0's statistics to all ranks: a node's shared arena has none (net_use_arenas). */
static int share_statistics(const struct net_exchange *mine)
{
    const struct job *job = mine->job;
    size_t count = compute_statistics(mine->compute, NULL, false);
    float *values = alloc_array(count, sizeof *values, "statistics");
    int status = error_agree(job->world, values ? 0 : -1);

    if (!status && job->worker)
        compute_statistics(mine->compute, values, false);
    if (!status)
        status = agree_share(job->world, values, count * sizeof *values);
    if (!status && job->worker)
        compute_statistics(mine->compute, values, true);
    free(values);
    return status;
}

int net_exchange_share_values_all(struct net_exchange *mine, struct exchange *exchange)
{
    if (sync_share_values(exchange->sync) ||
        (exchange->plan->most_locals > 1 && share_statistics(mine)))
        return -1;
    return error_agree(mine->job->world, compute_push_values(mine->compute, mine->job));
}

void net_exchange_close(struct net_exchange *mine)
{
    engine_close(&mine->host);
}
