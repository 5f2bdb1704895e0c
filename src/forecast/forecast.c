/* Plans without a cluster. */
#include "forecast/forecast.h"

#include "engine/replay/profile.h"
#include "forecast/groups.h"
#include "forecast/work.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

static int find_batch(const struct net *net, int *out)
{
    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].i->is_data && net->layers[l].ntops > 0) {
            *out = (int)shape_dim(&net->layers[l].tops[0]->value.shape, 0);
            return 0;
        }
    return error_set("%s: the net has no data layer, so its batch is not known", net->def->file);
}

/* ---- one number of nodes ---- */

/* Whether ranks that are all on one machine share its memory under --comm=auto, as in training. */
static bool can_share(const struct forecast_options *options, int nodes)
{
    return nodes == 1 && options->servers == 0 && options->wire == WIRE_FP32 &&
           options->bytes_per_second <= 0;
}

/* As --hierarchy=auto of the training: more than one worker on some node, and more than one node or
 * nobody else to send to. Dedicated servers are the last ranks, so they leave whole nodes before
 * they leave parts. */
static int add_up_first(const struct forecast_options *options, struct forecast_point *point)
{
    int each = options->ranks_per_node, nodes = (point->workers + each - 1) / each;

    point->how.leaders_per_host = each;
    point->locals = 1;
    if (options->flat || each < 2 || (nodes < 2 && !can_share(options, point->nodes)))
        return 0;
    point->node_of = calloc((size_t)point->workers, sizeof *point->node_of);
    if (!point->node_of)
        return error_memory((uint64_t)point->workers * sizeof *point->node_of, "the nodes");
    for (int w = 0; w < point->workers; w++)
        point->node_of[w] = w / each;
    point->shares = nodes < 2 && options->comm.policy == COMM_AUTO;
    if (nodes > 1 || point->shares)
        point->locals = each;
    return 0;
}

/* The point under `comm`, all but the schemes. */
static struct plan_options options_for(const struct forecast *f, const struct forecast_point *point,
                                       struct comm comm)
{
    struct plan_options how = point->how;
    bool only = point->nodes == 1;

    how.comm = comm;
    if (comm.policy == COMM_AUTO && !point->asks)
        how.comm = (struct comm){.policy = COMM_PAPER};
    if (!point->node_of || (only && comm.policy != COMM_AUTO))
        return how;
    how.nodes = point->node_of;
    how.leaders_per_host = 1;
    how.rails = only && f->options->leaders == 0 ? point->workers : f->options->leaders;
    return how;
}

static struct cost_sizes sizes_of(const struct forecast *f, const struct cost_cluster *cluster)
{
    struct cost_sizes sizes = cost_sizes_for(cluster);

    if (f->options->chunk_bytes != COST_SIZE_CHOSEN)
        sizes.chunk = f->options->chunk_bytes;
    if (f->options->merge_bytes != COST_SIZE_CHOSEN)
        sizes.merge = f->options->merge_bytes;
    return sizes;
}

int forecast_set_up(const struct forecast *f, int nodes, struct forecast_point *point)
{
    const struct forecast_options *options = f->options;
    struct cost_sizes sizes;
    int ranks = nodes * options->ranks_per_node;

    if (options->servers >= ranks)
        return error_set(
            "--servers=%d leaves no worker on %d node%s: %d rank%s, and at least one must compute",
            options->servers, nodes, nodes == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
    point->nodes = nodes;
    point->workers = ranks - options->servers;
    point->how = (struct plan_options){
        .registry = options->registry,
        .wire = options->wire,
        .nranks = ranks,
        .servers = options->servers,
        .iter_size = options->iter_size,
        .dilate = options->dilate,
    };
    if (add_up_first(options, point))
        return -1;
    point->asks = choose_is_asked(nodes, point->workers, options->cluster_file != NULL);
    point->cluster = f->cluster;
    cost_cap(&point->cluster, options->bytes_per_second,
             point->locals > 1 ? 1 : options->ranks_per_node);
    sizes = sizes_of(f, &point->cluster);
    point->how.chunk_bytes = sizes.chunk;
    point->how.merge_bytes = sizes.merge;
    point->how.latency_bytes = sizes.latency;
    point->servers = options->servers > 0 ? options->servers
                     : point->locals > 1  ? (point->workers + point->locals - 1) / point->locals
                                          : point->workers;
    return 0;
}

/* What --comm=auto takes, asked once. */
static int choose(const struct forecast *f, struct forecast_point *point)
{
    struct plan_options how = options_for(f, point, (struct comm){.policy = COMM_AUTO});
    struct choose_question question = {.cost = {.work = &f->work,
                                                .cluster = &point->cluster,
                                                .how = &how,
                                                .groups = f->groups,
                                                .overlap = f->options->overlap},
                                       .play = {.cluster = &point->cluster,
                                                .ranks_per_node = f->options->ranks_per_node,
                                                .window = COST_SIZE_CHOSEN}};

    if (point->answer.scheme)
        return 0;
    how.merge_bytes = f->options->merge_bytes;
    if (f->options->play)
        question.play = *f->options->play;
    question.play.bytes_per_second = f->options->bytes_per_second;
    return choose_comm(&question, &point->answer);
}

/* The plan's options under `comm`, with the schemes of auto's answer; they are the point's. */
static int settle_comm(const struct forecast *f, struct forecast_point *point, struct comm comm,
                       struct plan_options *out)
{
    *out = options_for(f, point, comm);
    if (out->comm.policy != COMM_AUTO)
        return 0;
    if (choose(f, point))
        return -1;
    out->schemes = point->answer.scheme;
    out->merge_bytes = point->answer.merge_bytes;
    return 0;
}

/* The iteration where every layer goes as `comm` says, as the cost model has it. */
static int run_comm(const struct forecast *f, struct forecast_point *point, struct comm comm,
                    struct cost_iteration *out)
{
    struct plan_options how;

    return settle_comm(f, point, comm, &how)
               ? -1
               : cost_predict(&f->work, &point->cluster, &how, f->groups, f->options->overlap, out);
}

/* Counts of the rank that has most. Homes are dealt lowest ranks first, so the first ones hold as
 * much as any. */
static void count_most(const struct plan *plan, struct forecast_point *point)
{
    enum { ENOUGH = 4096 };

    for (int l = 0; l < plan->nleaders; l++) {
        uint64_t messages, memory;
        if (l >= ENOUGH && l < plan->nworkers)
            continue;
        for (int rail = 0; rail < plan_leaders_of(plan, l); rail++) {
            int rank = plan->rail_rank[l * plan->rails + rail];
            messages = plan_messages(plan, rank);
            memory = plan_memory(plan, rank);
            point->messages = messages > point->messages ? messages : point->messages;
            point->memory = memory > point->memory ? memory : point->memory;
        }
    }
    point->leaders = plan->rails;
}

static int play_plan(const struct forecast *f, const struct plan *plan,
                     struct forecast_point *point)
{
    struct cost *costs = calloc((size_t)plan->nbuckets + 1, sizeof *costs);
    int status = 0;

    if (!costs)
        return error_memory((uint64_t)plan->nbuckets * sizeof *costs, "the plan's costs");
    cost_plan(&point->cluster, plan, costs);
    for (int o = 0; o < COST_OVERLAPS && !status; o++)
        status = cost_iterate(&f->work, plan, costs, (enum cost_overlap)o, &point->by_overlap[o]);
    point->chosen_iteration = point->by_overlap[f->options->overlap];
    free(costs);
    return status;
}

int forecast_plan(const struct forecast *f, struct forecast_point *point, struct plan **out)
{
    struct plan_options how;

    if (settle_comm(f, point, f->options->comm, &how))
        return -1;
    point->window = how.comm.policy == COMM_AUTO ? point->answer.window : COST_SIZE_CHOSEN;
    point->merge_bytes = how.merge_bytes;
    return plan_create(&how, f->work.ngroups, f->groups, out);
}

/* What options.comm makes of it, with all figures. */
static int run_chosen(const struct forecast *f, struct forecast_point *point)
{
    struct plan *plan;
    int status;

    if (forecast_plan(f, point, &plan))
        return -1;
    for (int g = 0; g < f->work.ngroups; g++)
        point->chosen[g] = plan->buckets[plan->bucket_of[g]].scheme;
    point->buckets = plan->nbuckets;
    point->chunks = plan->nchunks;
    count_most(plan, point);
    status = play_plan(f, plan, point);
    plan_destroy(plan);
    return status;
}

/* Under auto, what the cost model finds: many links are tried, and nobody trains by it. */
static int estimate(const struct forecast *f, const struct forecast_point *point,
                    struct cost_iteration *out)
{
    struct plan_options how = options_for(f, point, f->options->comm);
    struct cost_question question = {.work = &f->work,
                                     .cluster = &point->cluster,
                                     .how = &how,
                                     .groups = f->groups,
                                     .overlap = f->options->overlap};
    struct cost_answer answer;

    if (how.comm.policy != COMM_AUTO)
        return cost_predict(&f->work, &point->cluster, &how, f->groups, f->options->overlap, out);
    how.merge_bytes = f->options->merge_bytes;
    if (cost_search(&question, &answer))
        return -1;
    *out = answer.iteration;
    cost_answer_free(&answer);
    return 0;
}

int forecast_try(const struct forecast *f, int nodes, double *speedup)
{
    struct forecast_point point = {.nodes = 0};
    struct cost_iteration iteration;
    int status = forecast_set_up(f, nodes, &point) || estimate(f, &point, &iteration) ? -1 : 0;

    if (!status)
        *speedup = forecast_speedup(f, &point, &iteration);
    free(point.node_of);
    return status;
}

static int run_point(const struct forecast *f, struct forecast_point *point)
{
    size_t groups = (size_t)f->work.ngroups + 1, schemes = (size_t)f->nschemes;
    struct plan_options how = options_for(f, point, f->options->comm);

    point->table = calloc(groups * schemes, sizeof *point->table);
    point->chosen = calloc(groups, sizeof *point->chosen);
    if (!point->table || !point->chosen)
        return error_memory(groups * schemes * sizeof *point->table, "the plan");
    if (cost_table(&point->cluster, &how, f->work.ngroups, f->groups, point->table))
        return -1;
    for (int i = 0; i < f->ncomms; i++)
        if (run_comm(f, point, f->comms[i], &point->by_comm[i]))
            return -1;
    return run_chosen(f, point);
}

/* ---- all of it ---- */

/* Times of another batch are not those of this net's passes. */
static int check_batch(const char *file, int batch)
{
    struct profile profile;
    int timed;

    if (profile_read(file, &profile))
        return -1;
    timed = profile.batch;
    profile_free(&profile);
    return timed == 0 || timed == batch
               ? 0
               : error_set("%s holds the times of a batch of %d samples a pass, and the net takes "
                           "%d: give --batch=%d here, or to \"poseidon time --profile\" another",
                           file, timed, batch, timed);
}

/* The passes by operations, or as measured. */
static int find_work(struct forecast *f)
{
    double rate = f->options->images_per_second;
    int passes = f->options->iter_size;

    if (find_batch(f->net, &f->batch))
        return -1;
    /* a rank that trains so fast multiplies so fast: forward once, backward twice the operations */
    if (rate > 0 && !f->options->profile && !f->options->products_measured && f->batch > 0)
        f->cluster.gemm_flops = 3 * f->net->flops / f->batch * rate;
    if (f->options->profile && check_batch(f->options->profile, f->batch))
        return -1;
    if (f->options->profile ? work_read(f->net, f->options->profile, &f->cluster, &f->work)
                            : work_estimate(f->net, &f->cluster, &f->work))
        return -1;
    if (rate > 0)
        cost_work_scale(&f->work, f->batch / rate);
    for (int l = 0; l < f->work.nlayers; l++) {
        f->forward_seconds += f->work.forward[l];
        f->backward_seconds += f->work.backward[l];
    }
    work_repeat(&f->work, passes);
    f->forward_seconds *= passes;
    f->backward_seconds *= passes;
    f->batch *= passes;
    return 0;
}

static int find_alone(struct forecast *f)
{
    const struct plan_options one = {.registry = f->options->registry,
                                     .comm = {.policy = COMM_NONE},
                                     .nranks = 1,
                                     .chunk_bytes = sizes_of(f, &f->cluster).chunk,
                                     .iter_size = f->options->iter_size};
    struct cost_iteration iteration = {.seconds = 0};
    int status =
        cost_predict(&f->work, &f->cluster, &one, f->groups, f->options->overlap, &iteration);

    f->alone_seconds = iteration.seconds;
    return status;
}

static int list_comms(struct forecast *f)
{
    static const enum comm_policy policies[] = {COMM_PAPER, COMM_AUTO, COMM_NONE};

    f->nschemes = cost_count_schemes(f->options->registry);
    if (f->nschemes > FORECAST_MAX_COMMS - 3)
        return error_set("%d schemes are more than a plan has columns for", f->nschemes);
    for (int s = 0; s < f->nschemes; s++)
        f->comms[f->ncomms++] =
            (struct comm){.policy = COMM_SCHEME, .scheme = f->options->registry[s]};
    for (int p = 0; p < 3; p++)
        f->comms[f->ncomms++] = (struct comm){.policy = policies[p]};
    return 0;
}

int forecast_open(const struct forecast_options *options, const struct cost_cluster *cluster,
                  const struct net *net, struct forecast *out)
{
    memset(out, 0, sizeof *out);
    out->options = options;
    out->cluster = *cluster;
    out->net = net;
    if (list_comms(out))
        goto fail;
    out->groups = groups_create(net);
    if (!out->groups || find_work(out) || find_alone(out))
        goto fail;
    return 0;
fail:
    forecast_free(out);
    return -1;
}

int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    const struct net *net, struct forecast *out)
{
    if (forecast_open(options, cluster, net, out))
        return -1;
    for (int i = 0; i < options->npoints; i++)
        if (forecast_set_up(out, options->nodes[i], &out->points[i]) ||
            run_point(out, &out->points[i])) {
            forecast_free(out);
            return -1;
        }
    if (forecast_advise(out, &out->points[options->npoints - 1], &out->advice)) {
        forecast_free(out);
        return -1;
    }
    return 0;
}

void forecast_free(struct forecast *f)
{
    for (int i = 0; i < FORECAST_MAX_POINTS; i++) {
        free(f->points[i].node_of);
        free(f->points[i].table);
        free(f->points[i].chosen);
        choose_answer_free(&f->points[i].answer);
    }
    cost_work_free(&f->work);
    free(f->groups);
    memset(f, 0, sizeof *f);
}

const struct cost *forecast_cost(const struct forecast *f, const struct forecast_point *point,
                                 int group, const struct scheme *scheme)
{
    for (int s = 0; s < f->nschemes; s++)
        if (f->options->registry[s] == scheme)
            return &point->table[group * f->nschemes + s];
    return NULL;
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
