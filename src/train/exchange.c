/* Sync between this rank's net and all others. */
#include "train/exchange.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/units.h"

#include <stdlib.h>

/* Seconds that one iteration's messages may take. A rate is limited to share a network with others,
 * not to train for ever. */
#define LONGEST_ITERATION 600.0

int exchange_check_pace(const struct exchange *exchange, const struct job *job)
{
    double dilate = job->options->dilate > 1 ? job->options->dilate : 1,
           rate = job->options->mbps * 1e6 / 8 * dilate;

    for (int r = 0; rate > 0 && r < job->nranks; r++) {
        double sent = 0;

        for (int b = 0; b < exchange->plan->nbuckets; b++)
            sent += (double)plan_traffic(exchange->plan, b, r).sent;
        if (sent > LONGEST_ITERATION * rate)
            return error_set(
                "--tune=bandwidth-mbps=%g: rank %d sends %s an iteration, which takes %s "
                "at that rate; expected at least %.2g, at which it takes %g minutes",
                job->options->mbps, r, units_bytes(sent).text, units_seconds(sent / rate).text,
                sent / LONGEST_ITERATION * 8e-6 / dilate, LONGEST_ITERATION / 60);
    }
    return 0;
}

/* The net as src/sync sees it. */
static void model_factors(void *context, int group, const float **bottom, const float **top_grad)
{
    const struct compute *compute = context;

    net_factors(compute->net, group, bottom, top_grad);
}

static void model_changed(void *context, int group)
{
    const struct compute *compute = context;

    net_touch(compute->net, group);
}

static void make_model(struct exchange *exchange, const struct job *job, struct compute *compute)
{
    const struct net *net = compute->net;

    exchange->model = (struct sync_model){.elems = net->elems,
                                          .values = net->values,
                                          .grads = net->grads,
                                          .engine_values = net->engine_values,
                                          .engine_grads = net->engine_grads,
                                          .engine = &compute->engine,
                                          .host_engine = &exchange->host,
                                          .context = compute,
                                          .factors = model_factors,
                                          .changed = model_changed};
    for (int b = 0; b < exchange->plan->nbuckets && job->worker; b++) {
        const struct bucket *bucket = &exchange->plan->buckets[b];
        const struct group *group = &net->groups[bucket->first_group];
        for (int p = 0; p < group->nparams && bucket->scheme && bucket->scheme->factors; p++)
            net->params[group->first + p].factored = true;
    }
}

/* Ranks of a node have their statistics outside the arena that they share (net_use_arenas). */
static int share_statistics(const struct job *job, const struct compute *compute)
{
    size_t count = compute_statistics(compute, NULL, false);
    float *values = alloc_array(count, sizeof *values, "statistics");
    int status = error_agree(job->world, values ? 0 : -1);

    if (!status && job->worker)
        compute_statistics(compute, values, false);
    if (!status)
        status = agree_share(job->world, values, count * sizeof *values);
    if (!status && job->worker)
        compute_statistics(compute, values, true);
    free(values);
    return status;
}

int exchange_share_values_all(struct exchange *exchange, const struct job *job,
                              struct compute *compute)
{
    if (sync_share_values(exchange->sync) ||
        (exchange->plan->most_locals > 1 && share_statistics(job, compute)))
        return -1;
    return error_agree(job->world, compute_push_values(compute, job));
}

/* Gradients change most at the start: PowerSGD begins when that is over. */
static int warmup_of(const struct job *job)
{
    enum { USUAL = 10 };

    if (job->options->lowrank_warmup >= 0)
        return job->options->lowrank_warmup;
    return job->policy.warmup > USUAL ? job->policy.warmup : USUAL;
}

void exchange_set_options(struct exchange *exchange, const struct job *job, int64_t first,
                          struct trace *trace)
{
    exchange->sync_options = (struct sync_options){
        .update_on_engine = exchange->update_remotely,
        .overlap = job->options->overlap != COST_OVERLAP_NONE,
        .forward_waits_all = job->options->overlap == COST_OVERLAP_BACKWARD,
        .staleness = job->options->staleness,
        .sends = {.fifo = job->options->fifo,
                  .window = exchange->plan->options.sizes.window /
                            (size_t)(job->options->dilate > 1 ? job->options->dilate : 1),
                  .bytes_per_second = job->options->mbps * 1e6 / 8},
        .node = exchange->node,
        .direct = job->options->direct,
        .threads = job->threads,
        .clip = job->solver->clip_gradients,
        .exact_norms = job->options->reproducible && job->solver->clip_gradients > 0
                           ? job->solver->iter_size
                           : 0,
        .skips = job->options->skip_nan,
        .lars = job->solver->local_lr_auto ? job->solver->local_gw_ratio : 0,
        .decay = job->solver->weight_decay,
        .lowrank_warmup = warmup_of(job),
        .seed = job->seed,
        .iteration = first,
        .trace = trace};
}

int exchange_open_all(struct exchange *exchange, const struct job *job, struct compute *compute,
                      const struct sync_update *update)
{
    const struct engine_options options = {.threads = job->threads};

    make_model(exchange, job, compute);
    if (error_agree(job->world, compute->engine.i->own_memory
                                    ? engine_open("cpu", &options, &exchange->host)
                                    : 0))
        return -1;
    return sync_create(job->world, exchange->plan, &exchange->model, update,
                       &exchange->sync_options, &exchange->sync);
}

void exchange_close(struct exchange *exchange)
{
    if (exchange->sync)
        sync_destroy(exchange->sync);
    engine_close(&exchange->host);
    plan_destroy(exchange->plan);
}
