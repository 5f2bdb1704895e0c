/* Plans without a cluster. */
#include "commands/plan_forecast.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static const char *const mode_names[FORECAST_MODES] = {"ps",     "sfb",   "allreduce", "adam",
                                                       "onebit", "paper", "auto",      "none"};

const char *forecast_mode_name(enum forecast_mode mode)
{
    return mode_names[mode];
}

int forecast_mode_parse(const char *text, enum forecast_mode *out)
{
    for (int i = 0; i < FORECAST_MODES; i++)
        if (!strcmp(text, mode_names[i])) {
            *out = (enum forecast_mode)i;
            return 0;
        }
    return error_set(
        "--comm=%s is not known (auto, paper, ps, sfb, allreduce, adam, onebit or none)", text);
}

static int find_batch(const struct net *net, int *out)
{
    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].i->is_data && net->layers[l].ntops > 0) {
            *out = (int)shape_dim(&net->layers[l].tops[0]->value.shape, 0);
            return 0;
        }
    return error_set("%s: the net has no data layer, so its batch is not known", net->def->file);
}

/* As --hierarchy=auto of the training: more than one node, more than one worker on some. Dedicated
 * servers are the last ranks, so they leave whole nodes before they leave parts. */
static void add_up_first(const struct forecast_options *options, int workers,
                         struct cost_setup *out)
{
    int each = options->ranks_per_node, nodes = (workers + each - 1) / each;

    if (options->flat || nodes < 2 || each < 2)
        return;
    out->nworkers = nodes;
    out->locals = each;
    out->ranks_per_node = 1;
}

static struct cost_sizes sizes_of(const struct forecast *f)
{
    struct cost_sizes sizes = cost_sizes_for(&f->cluster);

    if (f->options->chunk_bytes != COST_SIZE_CHOSEN)
        sizes.chunk = f->options->chunk_bytes;
    if (f->options->merge_bytes != COST_SIZE_CHOSEN)
        sizes.merge = f->options->merge_bytes;
    return sizes;
}

static int set_up(const struct forecast *f, int nodes, struct forecast_point *point)
{
    const struct forecast_options *options = f->options;
    struct cost_sizes sizes = sizes_of(f);
    struct cost_setup *out = &point->setup;
    int ranks = nodes * options->ranks_per_node;

    if (options->servers >= ranks)
        return error_set(
            "--servers=%d leaves no worker on %d node%s: %d rank%s, and at least one must compute",
            options->servers, nodes, nodes == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
    point->nodes = nodes;
    point->workers = ranks - options->servers;
    *out = (struct cost_setup){
        .nworkers = point->workers,
        .dedicated = options->servers > 0,
        .ranks_per_node = options->ranks_per_node,
        .iter_size = options->iter_size,
        .chunk_bytes = sizes.chunk,
        .merge_bytes = sizes.merge,
        .wire = options->wire,
    };
    add_up_first(options, point->workers, out);
    out->nservers = out->dedicated ? options->servers : out->nworkers;
    return 0;
}

/* The iteration where every layer goes by the mode; `chosen`: its schemes. */
static int run_mode(const struct forecast *f, const struct forecast_point *point,
                    enum forecast_mode mode, enum cost_overlap overlap, struct cost *costs,
                    enum scheme *chosen, struct cost_iteration *out)
{
    if (mode == FORECAST_AUTO &&
        cost_choose(&f->work, &f->cluster, &point->setup, overlap, COST_AUTO_SCHEMES, chosen, out))
        return -1;
    for (int g = 0; g < f->work.ngroups; g++) {
        enum scheme scheme =
            mode == FORECAST_NONE ? SCHEME_NONE : (enum scheme)(SCHEME_PS + (int)mode);
        if (mode != FORECAST_AUTO)
            chosen[g] =
                cost_single(&point->setup, &f->work.groups[g], scheme, mode == FORECAST_PAPER);
        costs[g] = point->table[(size_t)g * SCHEMES + chosen[g]];
    }
    return cost_iterate(&f->work, costs, overlap, out);
}

static int run_point(const struct forecast *f, struct forecast_point *point)
{
    size_t groups = (size_t)f->work.ngroups + 1;
    struct cost *costs = calloc(groups, sizeof *costs);
    enum scheme *chosen = calloc(groups, sizeof *chosen);
    int status = -1;

    point->table = calloc(groups * SCHEMES, sizeof *point->table);
    point->chosen = calloc(groups, sizeof *point->chosen);
    if (!costs || !chosen || !point->table || !point->chosen) {
        error_memory(groups * SCHEMES * sizeof *point->table, "the plan");
        goto done;
    }
    for (int g = 0; g < f->work.ngroups; g++)
        for (int s = 0; s < SCHEMES; s++)
            point->table[(size_t)g * SCHEMES + (size_t)s] =
                cost_of(&f->cluster, &point->setup, &f->work.groups[g], (enum scheme)s);
    for (int m = 0; m < FORECAST_MODES; m++)
        if (run_mode(f, point, (enum forecast_mode)m, f->options->overlap, costs, chosen,
                     &point->by_mode[m]))
            goto done;
    if (run_mode(f, point, f->options->mode, f->options->overlap, costs, point->chosen,
                 &point->chosen_iteration))
        goto done;
    for (int o = COST_OVERLAP_NONE; o <= COST_OVERLAP_FULL; o++)
        if (cost_iterate(&f->work, costs, (enum cost_overlap)o, &point->by_overlap[o]))
            goto done;
    status = 0;
done:
    free(costs);
    free(chosen);
    return status;
}

/* The passes by operations, or as measured. Only the last micro-batch's backward makes
 * gradients final and only the first one's forward waits: those between are as one long layer on
 * top. */
static int find_work(struct forecast *f)
{
    double rate = f->options->images_per_second;
    int between = f->options->iter_size - 1;

    if (find_batch(f->model.net, &f->batch))
        return -1;
    if (f->options->profile
            ? cost_work_profile(f->model.net, f->options->profile, &f->cluster, &f->work)
            : cost_work_create(f->model.net, &f->cluster, &f->work))
        return -1;
    if (rate > 0)
        cost_work_scale(&f->work, f->batch / rate);
    for (int l = 0; l < f->work.nlayers; l++) {
        f->forward_seconds += f->work.forward[l];
        f->backward_seconds += f->work.backward[l];
    }
    f->work.forward[f->work.nlayers - 1] += between * (f->forward_seconds + f->backward_seconds);
    f->forward_seconds *= 1 + between;
    f->backward_seconds *= 1 + between;
    f->batch *= 1 + between;
    return 0;
}

static int find_alone(struct forecast *f)
{
    const struct cost_setup one = {.nworkers = 1,
                                   .nservers = 1,
                                   .ranks_per_node = 1,
                                   .iter_size = f->options->iter_size,
                                   .chunk_bytes = sizes_of(f).chunk};
    size_t groups = (size_t)f->work.ngroups + 1;
    struct cost *costs = calloc(groups, sizeof *costs);
    struct cost_iteration iteration = {.seconds = 0};
    int status;

    if (!costs)
        return error_memory(groups * sizeof *costs, "the plan");
    for (int g = 0; g < f->work.ngroups; g++)
        costs[g] = cost_of(&f->cluster, &one, &f->work.groups[g], SCHEME_NONE);
    status = cost_iterate(&f->work, costs, f->options->overlap, &iteration);
    f->alone_seconds = iteration.seconds;
    free(costs);
    return status;
}

int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    struct forecast *out)
{
    memset(out, 0, sizeof *out);
    out->options = options;
    out->cluster = *cluster;
    if (model_open(&options->model, &out->model) || find_work(out) || find_alone(out))
        goto fail;
    for (int i = 0; i < options->npoints; i++) {
        if (set_up(out, options->nodes[i], &out->points[i]) || run_point(out, &out->points[i]))
            goto fail;
    }
    return 0;
fail:
    forecast_free(out);
    return -1;
}

void forecast_free(struct forecast *f)
{
    for (int i = 0; i < FORECAST_MAX_POINTS; i++) {
        free(f->points[i].table);
        free(f->points[i].chosen);
    }
    cost_work_free(&f->work);
    model_close(&f->model);
    memset(f, 0, sizeof *f);
}

void forecast_reason(const struct forecast *f, const struct forecast_point *point, int g, char *out,
                     size_t bytes)
{
    const struct param_group *group = &f->work.groups[g];
    const struct cost *row = point->table + (size_t)g * SCHEMES;

    if (f->options->mode == FORECAST_AUTO || !group->trains || point->setup.nworkers == 1)
        cost_explain(&f->cluster, &point->setup, group, point->chosen[g], COST_AUTO_SCHEMES, out,
                     bytes);
    else if (f->options->mode == FORECAST_PAPER && group->factorable)
        snprintf(out, bytes, "the paper's rule: SFB moves %.4g million parameters a node, PS %.4g",
                 (row[SCHEME_SFB].worker.sent + row[SCHEME_SFB].worker.received) / 4e6,
                 (row[SCHEME_PS].worker.sent + row[SCHEME_PS].worker.received +
                  row[SCHEME_PS].server.sent + row[SCHEME_PS].server.received) /
                     4e6);
    else if (f->options->mode == FORECAST_PAPER)
        snprintf(out, bytes, "the paper's rule: no factors, so PS");
    else
        snprintf(out, bytes, "as --comm=%s says%s", mode_names[f->options->mode],
                 group->factorable ? "" : ", for a layer without factors");
}

double forecast_images(const struct forecast *f, const struct forecast_point *point,
                       const struct cost_iteration *iteration)
{
    return (double)f->batch * point->workers / iteration->seconds;
}

double forecast_speedup(const struct forecast *f, const struct forecast_point *point,
                        const struct cost_iteration *iteration)
{
    return point->workers * f->alone_seconds / iteration->seconds;
}
