/* What a training says before it begins: files' notices, the net, where and how it computes. */
#include "solver/trainer_internal.h"

#include "plan/scheme.h"
#include "report/net_table.h"

#include <string.h>

/* Fields of Caffe's that do nothing here. */
static void warn_of_unused(const struct trainer *t)
{
    const Caffe__SolverParameter *solver = t->solver;
    const char *file = t->options->solver;

    if (solver->debug_info || t->defs.train->param->debug_info)
        LOG_WARNING(t->log,
                    "%s: debug_info has no effect: values and gradients are not printed ('poseidon "
                    "extract' writes a layer's values)",
                    solver->debug_info ? file : t->defs.train->file);
    if (solver->snapshot_diff)
        LOG_WARNING(t->log, "%s: snapshot_diff has no effect: snapshots hold no gradients", file);
    if (solver->has_layer_wise_reduce && !solver->layer_wise_reduce)
        LOG_WARNING(t->log,
                    "%s: layer_wise_reduce: false has no effect; --overlap=none sends gradients "
                    "when all are there",
                    file);
}

/* What is well-formed and yet hardly what was meant. */
static void warn_of_settings(const struct trainer *t)
{
    const Caffe__SolverParameter *solver = t->solver;
    const struct trainer_options *o = t->options;
    bool cpu = !strcmp(o->engine, "cpu"), trains = false;

    for (int g = 0; g < t->net->ngroups; g++)
        trains |= t->net->groups[g].trains;
    if (!trains)
        LOG_WARNING(t->log, "Nothing trains: every lr_mult of the net is 0, or it has no layer "
                            "with parameters");
    if (solver->base_lr <= 0)
        LOG_WARNING(t->log, "%s: base_lr is %g: %s", o->solver, (double)solver->base_lr,
                    solver->base_lr < 0 ? "training climbs the loss" : "nothing trains");
    for (size_t i = 0; i < solver->n_test_iter; i++)
        if (solver->test_iter[i] == 0)
            LOG_WARNING(t->log, "%s: test_iter is 0: test net #%zu is not run", o->solver, i);
    if (cpu && solver->has_solver_mode &&
        solver->solver_mode == CAFFE__SOLVER_PARAMETER__SOLVER_MODE__GPU)
        LOG_WARNING(t->log,
                    "%s: solver_mode is GPU, but training runs on the CPU; --engine=cuda (or "
                    "--gpu=all) trains on GPUs",
                    o->solver);
    if (cpu && engine_math_is_reduced(o->math))
        LOG_WARNING(t->log, "%s", engine_math_unused);
    if (cpu && o->deterministic)
        LOG_WARNING(t->log, "--deterministic has no effect on --engine=cpu, which computes the "
                            "same bits at every run by the same algorithms");
}

static const char *scheme_of_group(void *context, int group)
{
    const struct trainer *t = context;
    const struct scheme *scheme = t->plan->buckets[t->plan->bucket_of[group]].scheme;

    if (t->net->groups[group].trains && (plan_is_alone(t->plan) || !scheme))
        return "local";
    return scheme_label(scheme);
}

/* Which layers are computed in another way than by the definition. */
static void log_choices(struct trainer *t)
{
    struct strbuf list = {.data = NULL};
    char words[ENGINE_OP_WORDS];

    for (int l = 0; l < t->net->nlayers; l++) {
        layer_describe(&t->net->layers[l], &t->engine, words);
        if (words[0])
            strbuf_printf(&list, "%s%s (%s)", list.length ? ", " : "", t->net->layers[l].def->name,
                          words);
    }
    if (list.length)
        LOG_INFO(t->log, "Algorithms chosen: %s", strbuf_text(&list));
    strbuf_free(&list);
}

/* All ranks that there are: nobody is left to communicate with. */
static void log_only_node(const struct trainer *t)
{
    char updates[48] = "each updates its share of the parameters";

    if (t->plan->rails == 1)
        snprintf(updates, sizeof updates, "one of them updates the parameters");
    else if (t->plan->rails < t->nworkers)
        snprintf(updates, sizeof updates, "%d of them update the parameters", t->plan->rails);
    LOG_INFO(t->log, "%d workers on one machine add up their gradients in its memory; %s",
             t->nworkers, updates);
}

static void log_nodes(const struct trainer *t)
{
    char leaders[64] = "the leader of each communicates for it";

    if (t->plan->rails > 1)
        snprintf(leaders, sizeof leaders, "%d leaders of each communicate for it", t->plan->rails);
    LOG_INFO(t->log, "%d workers on %d node%s add up their gradients %s%s; %s", t->nworkers,
             t->nodes.nnodes, t->nodes.nnodes == 1 ? "" : "s",
             t->node->team ? "by " : "in shared memory", t->node->team ? t->team : "", leaders);
}

static void log_lines(const struct trainer *t, const char *lines)
{
    for (int length; *lines; lines += length + (lines[length] == '\n')) {
        length = (int)strcspn(lines, "\n");
        LOG_INFO(t->log, "%.*s", length, lines);
    }
}

void trainer_log_start(struct trainer *t)
{
    const struct net_table_scheme scheme = {.name = scheme_of_group, .context = t};
    const char *words = NULL;
    char identity[64];

    if (t->rank != 0)
        return;
    if (t->engine.i->device)
        words = t->engine.i->device(t->engine.context, identity);
    log_lines(t, t->notices ? t->notices : "");
    if (!t->options->json)
        net_table_print(t->net, &scheme, stdout);
    if (t->blank)
        LOG_WARNING(t->log,
                    "Replaying %s: passes take the time it says and compute nothing. Every loss is "
                    "0 (replayed, not computed); no data is read, tests and snapshots are skipped",
                    t->options->profile);
    else
        LOG_INFO(t->log, "Use %s.", words ? words : "CPU");
    warn_of_settings(t);
    warn_of_unused(t);
    trainer_log_paths(t);
    log_lines(t, strbuf_text(&t->places));
    if (t->worker && !t->blank && !words)
        cores_warn(&t->cores, t->rank, t->log);
    if (t->options->dilate > 1)
        LOG_WARNING(t->log, "Dilated: every transfer carries 1/%d of its bytes",
                    t->options->dilate);
    LOG_INFO(t->log, "Effective batch = %d worker%s x %d x iter_size %d = %d samples per iteration",
             t->nworkers, t->nworkers == 1 ? "" : "s", t->batch, t->iter_size,
             t->nworkers * t->batch * t->iter_size);
    if (t->options->servers > 0)
        LOG_INFO(t->log, "%d dedicated parameter server%s", t->options->servers,
                 t->options->servers == 1 ? "" : "s");
    if (t->node && plan_is_alone(t->plan) && !t->node->team)
        log_only_node(t);
    else if (t->node)
        log_nodes(t);
    if (sync_way(t->sync))
        LOG_INFO(t->log, "Messages go %s", sync_way(t->sync));
    log_choices(t);
    LOG_INFO(t->log, "Solver scaffolding done.");
}
