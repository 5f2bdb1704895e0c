/* Logs the start of training: files' notices, the net, where and how ranks compute. */
#include "say/output.h"

#include "compute/balance.h"

#include "report/net_table.h"
#include "util/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Warns of Caffe's fields that have no effect here. */
static void warn_of_unused(const struct job *job)
{
    const Caffe__SolverParameter *solver = job->solver;
    const char *file = job->options->solver;

    if (solver->debug_info || job->defs.train->param->debug_info)
        LOG_WARNING(job->log,
                    "%s: debug_info has no effect: values and gradients are not printed ('poseidon "
                    "extract' writes a layer's values)",
                    solver->debug_info ? file : job->defs.train->file);
    if (solver->snapshot_diff)
        LOG_WARNING(job->log, "%s: snapshot_diff has no effect: snapshots hold no gradients", file);
    if (solver->has_layer_wise_reduce && !solver->layer_wise_reduce)
        LOG_WARNING(job->log,
                    "%s: layer_wise_reduce: false has no effect; --tune=overlap=none sends "
                    "gradients after the whole backward pass",
                    file);
}

/* Warns if test_iter is 0 or repeats records; logs a smaller last batch. */
static void say_pass(const struct job *job, int i, const struct test_pass *pass)
{
    uint64_t samples = pass->batch * (uint64_t)pass->batches;

    if (pass->batches == 0)
        LOG_WARNING(job->log, "%s: test_iter is 0: test net #%d is not run", job->options->solver,
                    i);
    else if (pass->unable)
        LOG_WARNING(job->log, "Test net #%d: %s: %s", i, test_pass_twice, pass->unable);
    else if (pass->rest)
        LOG_INFO(job->log,
                 "Test net #%d: a test is one pass over %" PRIu64 " records; its last batch has "
                 "%" PRIu64 " samples",
                 i, pass->records, test_pass_samples(pass, pass->batches - 1));
    else if (pass->records && samples > pass->records)
        LOG_WARNING(job->log,
                    "%s: test net #%d: test_iter %d x batch %" PRIu64
                    " are %.4g passes over %" PRIu64 " records in every test; test_iter: %" PRIu64
                    " makes one pass",
                    job->options->solver, i, pass->batches, pass->batch,
                    (double)samples / (double)pass->records, pass->records,
                    (pass->records + pass->batch - 1) / pass->batch);
}

/* Returns the level of the training net's state in the files. */
static int level_of(const struct job *job)
{
    const Caffe__NetState *last = job->solver->train_state, *net = job->defs.train->param->state;

    return last && last->has_level ? last->level : net ? net->level : 0;
}

/* Warns of settings that are valid but probably mistakes. */
static void warn_of_settings(const struct job *job, const struct compute *compute)
{
    const Caffe__SolverParameter *solver = job->solver;
    const struct trainer_options *o = job->options;
    bool cpu = !strcmp(o->engine, "cpu");

    if (!compute_trains(compute))
        LOG_WARNING(job->log, "Nothing trains: every lr_mult of the net is 0, or its loss "
                              "depends on no parameters");
    if (solver->base_lr <= 0)
        LOG_WARNING(job->log, "%s: base_lr is %g: %s", o->solver, (double)solver->base_lr,
                    solver->base_lr < 0 ? "training increases the loss" : "nothing trains");
    if (policy_doubt(&job->policy))
        LOG_WARNING(job->log, "%s: lr_policy \"%s\": %s", o->solver, solver->lr_policy,
                    policy_doubt(&job->policy));
    for (int i = 0; i < job->defs.ntests && compute->passes; i++)
        say_pass(job, i, &compute->passes[i]);
    if (solver->clip_gradients == 0)
        LOG_WARNING(job->log,
                    "%s: clip_gradients is 0: nothing is clipped (Caffe makes every gradient 0; "
                    "values below 0, the default, turn clipping off in both)",
                    o->solver);
    if (solver->snapshot_format == CAFFE__SOLVER_PARAMETER__SNAPSHOT_FORMAT__BINARYPROTO &&
        (solver->snapshot > 0 || solver->snapshot_after_train) &&
        compute->net->nlearnable > (size_t)INT32_MAX / sizeof(float))
        LOG_WARNING(job->log,
                    "%s: a .caffemodel of this net exceeds 2 GB, more than Caffe and other "
                    "programs take; snapshot_format: HDF5 has no such limit",
                    o->solver);
    if (level_of(job) != 0 && !o->overrides.level)
        LOG_WARNING(job->log,
                    "%s: the training net's state has level %d, which is used; 'caffe train' "
                    "always uses level 0 (--tune=level=N)",
                    o->solver, level_of(job));
    if (cpu && solver->has_solver_mode &&
        solver->solver_mode == CAFFE__SOLVER_PARAMETER__SOLVER_MODE__GPU)
        LOG_WARNING(job->log,
                    "%s: solver_mode is GPU, but training runs on the CPU; --engine=cuda "
                    "trains on GPUs",
                    o->solver);
}

/* Logs layers whose parameters only weight decay changes. */
static void log_decays(const struct job *job, const struct net *net)
{
    struct strbuf list = {.data = NULL};

    for (int g = 0; g < net->ngroups; g++)
        if (net->groups[g].decays)
            strbuf_printf(&list, "%s%s", list.length ? ", " : "", net->groups[g].name);
    if (list.length)
        LOG_INFO(
            job->log,
            "No loss depends on these layers, but weight_decay %g shrinks their parameters, as "
            "in Caffe (lr_mult: 0 keeps them): %s",
            (double)job->rule.weight_decay, strbuf_text(&list));
    strbuf_free(&list);
}

/* Logs over which samples BatchNorm computes statistics, and what --sync-bn sums in a pass. */
static void log_joins(const struct job *job, const struct net *net)
{
    int layers = 0, alone = 0;
    size_t values = 0, most = 0;

    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];

        alone += !strcmp(layer->i->type, "BatchNorm") && !layer->u.batch_norm.global_stats;
        if (!layer->joins)
            continue;
        layers++;
        values = 2 * shape_elems(&net->layers[l].params[0]->shape) + 1;
        most = values > most ? values : most;
    }
    if (layers > 0)
        LOG_INFO(job->log,
                 "BatchNorm over %d workers: in each pass, %s add%s up statistics, %zu values at "
                 "most",
                 job->nworkers, units_count(layers, "layer").text, layers == 1 ? "s" : "", most);
    else if (job->options->sync_bn && job->nworkers > 1)
        LOG_WARNING(job->log, "--sync-bn: no BatchNorm of the net makes statistics in training");
    else if (alone > 0 && job->nworkers > 1 && !job->options->reproducible)
        LOG_INFO(job->log,
                 "BatchNorm: each of %d workers normalises by its own samples; --sync-bn "
                 "normalises over all workers",
                 job->nworkers);
}

/* Logs losses that are sums over samples, whose mean over ranks differs from one rank's loss. */
static void log_sums(const struct job *job, const struct net *net)
{
    struct strbuf list = {.data = NULL};

    net_list_sums(net, &list);
    if (list.length && job->nworkers > 1 && !job_shares_batch(job))
        LOG_INFO(
            job->log,
            "These losses are sums over a rank's samples, averaged over the ranks as Caffe does "
            "over GPUs; --global-batch=%d makes them sums over all samples, as on one rank: %s",
            (int)job_samples(job), strbuf_text(&list));
    strbuf_free(&list);
}

/* Logs layers whose engine chose another algorithm than the definition's. */
static void log_choices(const struct job *job, const struct compute *compute)
{
    struct strbuf list = {.data = NULL};
    char words[ENGINE_OP_WORDS];

    for (int l = 0; l < compute->net->nlayers; l++) {
        layer_describe(&compute->net->layers[l], &compute->engine, words);
        if (words[0])
            strbuf_printf(&list, "%s%s (%s)", list.length ? ", " : "",
                          compute->net->layers[l].def->name, words);
    }
    if (list.length)
        LOG_INFO(job->log, "Algorithms chosen: %s", strbuf_text(&list));
    strbuf_free(&list);
}

/* Logs how updates are shared if one node has all ranks. */
static void log_only_node(const struct job *job, const struct exchange *exchange)
{
    char updates[48] = "each worker updates its share of the parameters";

    if (exchange->plan->rails == 1)
        snprintf(updates, sizeof updates, "one worker updates the parameters");
    else if (exchange->plan->rails < job->nworkers)
        snprintf(updates, sizeof updates, "%d workers update the parameters",
                 exchange->plan->rails);
    LOG_INFO(job->log, "%d workers on one machine add up gradients in shared memory; %s",
             job->nworkers, updates);
}

static void log_nodes(const struct job *job, const struct exchange *exchange)
{
    char leaders[64] = "one leader a node communicates";

    if (exchange->plan->rails > 1)
        snprintf(leaders, sizeof leaders, "%d leaders a node communicate", exchange->plan->rails);
    LOG_INFO(job->log, "%d workers on %s add up gradients %s%s; %s", job->nworkers,
             units_count(exchange->shape.nodes.nnodes, "node").text,
             exchange->node->team ? "by " : "in shared memory",
             exchange->node->team ? exchange->team : "", leaders);
}

static void log_batch(const struct job *job)
{
    struct strbuf workers = {.data = NULL};

    balance_describe(job, &workers);
    if (job->samples && job->options->reproducible)
        strbuf_printf(&workers, " in grains of %d", job->batch);
    else
        strbuf_printf(&workers, " x %s %d", job->options->reproducible ? "grains" : "iter_size",
                      job->iter_size);
    LOG_INFO(job->log, "Effective batch = %s = %s per iteration", strbuf_text(&workers),
             units_count((long long)job_samples(job), "sample").text);
    strbuf_free(&workers);
}

void output_log_start(const struct output *output, const char *notices, const char *places)
{
    const struct job *job = output->job;
    const struct compute *compute = output->compute;
    const struct exchange *exchange = output->exchange;
    const char *words = NULL;
    char identity[64];

    if (job->rank != 0)
        return;
    if (compute->engine.device.i->describe)
        words = compute->engine.device.i->describe(compute->engine.context, identity);
    LOG_LINES(job->log, notices);
    if (!job->options->json)
        net_table_print(compute->net, exchange->plan, stdout);
    if (job->blank)
        LOG_WARNING(
            job->log,
            "Replaying %s: passes take the profile's times and compute nothing. Every loss is 0 "
            "(replayed, not computed); no data is read, tests and snapshots are skipped",
            job->options->profile);
    else
        LOG_INFO(job->log, "Use %s.", words ? words : "CPU");
    if (compute->fake)
        LOG_WARNING(job->log, "--fake-data: every pass gets the same made-up samples; no data is "
                              "read, tests and snapshots are skipped");
    warn_of_settings(job, compute);
    log_decays(job, compute->net);
    log_sums(job, compute->net);
    log_joins(job, compute->net);
    warn_of_unused(job);
    LOG_LINES(job->log, places);
    if (job->worker && !job->blank && !words)
        cores_warn(&job->cores, job->threads, job->options->computing.threads > 0, job->rank,
                   job->log);
    if (job->options->exchange.dilate > 1)
        LOG_WARNING(job->log, "Dilated: every transfer carries 1/%d of its bytes",
                    job->options->exchange.dilate);
    log_batch(job);
    if (job->options->reproducible) {
        char processor[ENGINE_PROCESSOR_WORDS] = "";

        engine_processor(job->options->engine, processor);
        LOG_INFO(job->log,
                 "Reproducible: %s, each a pass with its own BatchNorm statistics. The bits stay "
                 "the same on any number of workers, on the same processors and oneDNN (%s)",
                 units_count(job_grains(job), "grain").text,
                 processor[0] ? processor : "not known");
    }
    if (job->solver->local_lr_auto)
        LOG_INFO(job->log,
                 "LARS: every parameter's rate follows its norm and its gradient's "
                 "(local_gw_ratio %g)",
                 (double)job->solver->local_gw_ratio);
    if (job->options->exchange.servers > 0)
        LOG_INFO(job->log, "%s",
                 units_count(job->options->exchange.servers, "dedicated parameter server").text);
    if (job->options->exchange.drop > 0)
        LOG_INFO(job->log,
                 "No iteration waits for the last %d of %d workers' gradients: results depend on "
                 "timing. A stopped rank holds up all ranks if it serves parameters%s",
                 job->options->exchange.drop, job->nworkers,
                 job->options->exchange.servers > 0 ? "" : ", as all do here: give --servers=N");
    if (exchange->node && plan_is_alone(exchange->plan) && !exchange->node->team)
        log_only_node(job, exchange);
    else if (exchange->node)
        log_nodes(job, exchange);
    if (sync_way(exchange->sync))
        LOG_INFO(job->log, "Messages go %s", sync_way(exchange->sync));
    log_choices(job, compute);
    LOG_INFO(job->log, "Solver scaffolding done.");
}
