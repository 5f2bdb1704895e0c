/* Makes plans without a cluster, and simulates them. */
#include "forecast/forecast.h"

#include "forecast/layer_times.h"
#include "forecast/profiles.h"
#include "plan/deal.h"
#include "util/alloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one number of nodes ---- */

/* Fills one node after the other with ranks. Dedicated servers are the last ranks, so they take
 * whole nodes before they take parts. */
static int find_shape(const struct exchange_options *exchange,
                      const struct forecast_options *options, int nodes, struct exchange_shape *out)
{
    int each = options->ranks_per_node, ranks = nodes * each, status;
    int *machine = alloc_array((size_t)ranks, sizeof *machine, "the nodes");
    const struct exchange_facts facts = {.nranks = ranks,
                                         .machine = machine,
                                         .nmachines = nodes,
                                         .ranks_per_host = each,
                                         .capped = exchange->mbps > 0};

    for (int r = 0; machine && r < ranks; r++)
        machine[r] = r / each;
    status = machine ? exchange_shape(exchange, &facts, out) : -1;
    free(machine);
    return status;
}

static struct exchange_net net_of(const struct forecast *f, const struct forecast_point *point)
{
    return (struct exchange_net){.groups = f->groups,
                                 .ngroups = f->work.ngroups,
                                 .iter_size = f->options->iter_size,
                                 .parts = f->options->balance ? point->share : NULL,
                                 .batch = f->batch / f->options->iter_size};
}

/* Sets the speeds of the point's workers and their shares of the batch. */
static int deal(const struct forecast *f, struct forecast_point *point)
{
    const struct forecast_options *options = f->options;
    int each = f->batch / options->iter_size, n = point->workers, status;
    struct deal_worker *workers = NULL;

    point->capacity = n;
    if (options->nspeeds == 0)
        return 0;
    status = error_status(ALLOC(point->share, n, "shares") || ALLOC(point->pace, n, "speeds") ||
                          ALLOC(workers, n, "speeds"));
    point->capacity = 0;
    for (int r = 0; r < n && !status; r++) {
        double speed = options->speeds[r / options->ranks_per_node % options->nspeeds];
        point->capacity += speed;
        point->pace[r].speed = speed;
        workers[r] =
            (struct deal_worker){.samples_per_s = options->balance ? speed : 1, .most = INT32_MAX};
    }
    status = status ? -1 : deal_samples(workers, n, (int64_t)n * each, 1, point->share);
    if (!status)
        exchange_set_shares(point->pace, point->share, n, each);
    free(workers);
    return status;
}

static int set_up(const struct forecast *f, int nodes, int servers, struct forecast_point *point)
{
    const struct forecast_options *options = f->options;
    struct exchange_options exchange = options->exchange;
    struct exchange_net net;
    int ranks = nodes * options->ranks_per_node;

    if (servers >= ranks)
        return error_set(
            "--servers=%d leaves no worker on %d node%s: %d rank%s, and at least one must compute",
            servers, nodes, nodes == 1 ? "" : "s", ranks, ranks == 1 ? "" : "s");
    exchange.servers = servers;
    *point = (struct forecast_point){.nodes = nodes, .workers = ranks - servers};
    if (deal(f, point) || find_shape(&exchange, options, nodes, &point->shape))
        return -1;
    net = net_of(f, point);
    exchange_plan_options(&exchange, &point->shape, &net, ranks, NULL, &point->how);
    point->how.in_turn = options->system && options->system->in_turn;
    point->locals = point->shape.nodes.node ? point->shape.nodes.most : 1;
    point->played = f->cluster;
    exchange_cap(&point->shape, exchange.mbps * 1e6 / 8, &point->played);
    point->how.sizes = cost_sizes_keep(cost_sizes_for(&point->played), &exchange.sizes);
    point->servers = servers > 0               ? servers
                     : point->shape.nodes.node ? point->shape.nodes.nnodes
                                               : point->workers;
    return 0;
}

static void free_point(struct forecast_point *point)
{
    exchange_shape_free(&point->shape);
    free(point->share);
    free(point->pace);
    free(point->chosen);
    free(point->table);
    choose_answer_free(&point->answer);
}

/* ---- simulation ---- */

/* Returns the options for simulating a plan. cluster: filled; must live as long as the options.
 * dilated: factor by which the plan's sizes are smaller; its products and updates take as long. */
static struct simulate_options options_of(const struct forecast *f,
                                          const struct forecast_point *point, int dilated,
                                          struct cost_cluster *cluster)
{
    struct simulate_options options = f->options->play;
    double by = dilated > 1 ? dilated : 1;

    *cluster = point->played;
    cluster->gemm_flops /= by * by;
    cluster->update_Bps /= by;
    options.cluster = cluster;
    options.work = &f->work;
    options.paces = point->pace;
    options.overlap = f->options->exchange.overlap;
    options.fifo = f->options->exchange.fifo;
    options.bytes_per_second = f->options->exchange.mbps * 1e6 / 8;
    options.ranks_per_node = f->options->ranks_per_node;
    return options;
}

/* Simulates a plan. system: NULL for training as it is. ranks: filled, and links measured; or
 * NULL. */
static int play(const struct forecast *f, const struct forecast_point *point,
                const struct plan *plan, const struct system *system, struct simulate_result *out,
                struct simulate_rank *ranks)
{
    struct cost_cluster cluster;
    struct simulate_options options = options_of(f, point, plan->options.dilate, &cluster);

    options.plan = plan;
    options.meters = ranks != NULL;
    if (system)
        options.manner = system->manner;
    return simulate_run(&options, out, ranks);
}

/* ---- under a --comm ---- */

/* Asks what --comm=auto chooses. */
static int ask(const struct forecast *f, struct forecast_point *point)
{
    const struct exchange_net net = net_of(f, point);
    struct cost_cluster cluster;
    struct exchange_cluster target = {.play = options_of(f, point, point->how.dilate, &cluster),
                                      .dilate = point->how.dilate};
    struct exchange_deal deal = {.share = point->share, .pace = point->pace};

    return exchange_choose(&f->options->exchange, &point->shape, &net, &target, &point->how,
                           f->options->balance ? &deal : NULL, &point->answer);
}

/* Makes the plan under options.exchange. The caller destroys *out. */
static int make_plan(const struct forecast *f, struct forecast_point *point, struct plan **out)
{
    const struct exchange_net net = net_of(f, point);

    if (point->shape.asks) {
        if (ask(f, point))
            return -1;
        point->how.sizes = point->answer.sizes;
        point->how.ways = point->answer.way;
    }
    return exchange_plan(&f->options->exchange, &net, &point->how, out);
}

static int play_point(const struct forecast *f, struct forecast_point *point,
                      const struct plan *plan)
{
    const struct forecast_options *options = f->options;
    struct simulate_rank *ranks = alloc_array((size_t)plan->nleaders, sizeof *ranks, "leaders");
    int status = ranks ? play(f, point, plan, f->options->system, &point->result, ranks) : -1;

    for (int i = 0; i < plan->nleaders && !status; i++)
        point->bytes_most = ranks[i].sent > point->bytes_most ? ranks[i].sent : point->bytes_most;
    free(ranks);
    /* a profile's update is that of a rank that trains alone; see find_alone */
    if (!status && plan_is_alone(plan) && point->workers == 1 && f->cluster.update_Bps > 0 &&
        (!point->pace || point->pace[0].speed == 1) &&
        !(options->system && options->system->manner.syncs_alone))
        point->result.seconds = f->alone_seconds;
    return status;
}

static int run_point(const struct forecast *f, int nodes, struct forecast_point *point)
{
    struct plan *plan = NULL;
    int status;

    if (set_up(f, nodes, f->options->exchange.servers, point) || make_plan(f, point, &plan))
        return -1;
    point->leaders = plan->rails;
    point->chosen = alloc_array((size_t)plan->ngroups, sizeof *point->chosen, "schemes");
    for (int g = 0; g < plan->ngroups && point->chosen; g++)
        point->chosen[g] = plan_way(plan, g);
    status = point->chosen ? play_point(f, point, plan) : -1;
    plan_destroy(plan);
    if (status)
        return -1;
    point->speedup = point->workers * f->alone_seconds / point->result.seconds;
    point->images_per_second = (double)f->batch * point->workers / point->result.seconds;
    point->bytes_sent = (double)point->result.sent / nodes;
    return 0;
}

/* ---- all points ---- */

/* Finds the times of the passes, by operations or from a profile. */
static int find_work(struct forecast *f)
{
    double rate = f->options->images_per_second;
    int passes = f->options->iter_size;

    f->batch = net_batch(f->net);
    if (f->batch == 0)
        return error_set("%s: the net has no data layer, so its batch is not known",
                         f->net->def->file);
    /* a rank's rate of products by its images: backward doubles forward's operations */
    if (rate > 0 && !f->options->profile && !f->options->products_measured)
        f->cluster.gemm_flops = 3 * f->net->flops / f->batch * rate;
    if (f->options->profile && profiles_check_batch(f->options->profile, f->batch))
        return -1;
    if (f->options->profile
            ? layer_times_read(&f->owner, f->net, f->options->profile, &f->cluster, &f->work)
            : layer_times_estimate(&f->owner, f->net, &f->cluster, &f->work))
        return -1;
    if (rate > 0)
        layer_times_stretch(&f->work, f->batch / rate);
    for (int l = 0; l < f->work.nlayers; l++) {
        f->forward_seconds += f->work.forward[l];
        f->backward_seconds += f->work.backward[l];
    }
    layer_times_repeat(&f->work, passes);
    f->forward_seconds *= passes;
    f->backward_seconds *= passes;
    f->batch *= passes;
    return 0;
}

static double update_seconds(const struct forecast *f)
{
    double elems = 0;

    for (int g = 0; g < f->work.ngroups; g++)
        elems += f->groups[g].trains ? (double)f->groups[g].elems : 0;
    return elems * sizeof(float) / f->cluster.update_Bps;
}

/* Finds the time of a rank that trains alone: simulated or, if the profile has the update's time,
 * passes plus update. */
static int find_alone(struct forecast *f)
{
    const struct plan_options alone = {.registry = sync_schemes,
                                       .comm = {.policy = COMM_NONE},
                                       .nranks = 1,
                                       .sizes.chunk = PLAN_LARGEST_MESSAGE,
                                       .iter_size = f->options->iter_size};
    const struct forecast_point point = {.played = f->cluster};
    struct simulate_result result;
    struct plan *plan;
    int status;

    if (plan_create(&alone, f->work.ngroups, f->groups, &plan))
        return -1;
    status = play(f, &point, plan, NULL, &result, NULL);
    plan_destroy(plan);
    f->alone_seconds = status                      ? 0
                       : f->cluster.update_Bps > 0 ? layer_times_total(&f->work) + update_seconds(f)
                                                   : result.seconds;
    return status;
}

/* Lists the schemes that a layer may use. */
static void find_ways(struct forecast *f)
{
    const struct exchange_options *o = &f->options->exchange;
    const struct scheme *named = o->comm.scheme;

    ways_list(sync_schemes, o->wire, &o->lossy, &f->ways);
    if (scheme_index(sync_schemes, named) < 0 || named->lossless)
        return;
    f->ways.n = 1;
    f->ways.way[f->ways.n++] = (struct way){named, scheme_rank(named, o->comm),
                                            scheme_takes_bf16(named) ? o->wire : WIRE_FP32};
}

int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    const struct net *net, struct forecast *out)
{
    int status;

    *out = (struct forecast){
        .options = options, .cluster = *cluster, .net = net, .groups = net->groups};
    find_ways(out);
    status = error_status(find_work(out) || find_alone(out));
    for (int i = 0; i < options->npoints && !status; i++)
        status = run_point(out, options->nodes[i], &out->points[i]);
    if (status)
        forecast_free(out);
    return status;
}

void forecast_free(struct forecast *f)
{
    for (int i = 0; i < FORECAST_MAX_POINTS; i++)
        free_point(&f->points[i]);
    owner_free(&f->owner);
    memset(f, 0, sizeof *f);
}

/* ---- results ---- */

const char *forecast_comm_name(const struct forecast *f)
{
    return f->options->system ? f->options->system->name : comm_name(f->options->exchange.comm);
}

int forecast_price(const struct forecast *f, struct forecast_point *point)
{
    struct cost_cluster cluster;
    const struct simulate_options options = options_of(f, point, point->how.dilate, &cluster);

    point->table = alloc_array((size_t)f->work.ngroups * (size_t)f->ways.n, sizeof *point->table,
                               "the costs of all schemes");
    return error_status(
        !point->table ||
        cost_table(&cluster, &point->how, &f->ways, f->work.ngroups, f->groups, point->table) ||
        simulate_table(&options, &point->how, &f->ways, f->work.ngroups, f->groups, point->table));
}

void forecast_schemes(const struct forecast *f, const struct forecast_point *point, char *out,
                      size_t bytes)
{
    size_t at = 0;

    snprintf(out, bytes, "-");
    if (point->shape.only || (point->workers == 1 && point->how.servers == 0))
        return;
    for (int w = 0; w <= f->ways.n; w++) { /* the last pass: the way of another system */
        struct way way = {.scheme = f->options->exchange.comm.scheme};
        int count = 0;
        if (w < f->ways.n)
            way = f->ways.way[w];
        else if (!way.scheme || scheme_index(sync_schemes, way.scheme) >= 0)
            break;
        for (int g = 0; g < f->work.ngroups; g++)
            count += way_is(point->chosen[g], way);
        if (count > 0 && at < bytes)
            at += (size_t)snprintf(out + at, bytes - at, "%s%d %s", at ? ", " : "", count,
                                   way_label(way).text);
    }
}

void forecast_result(const struct forecast *f, char *out, size_t bytes)
{
    const struct forecast_point *point = &f->points[f->options->npoints - 1];
    char train[128], lossy[CHOOSE_WORDS] = "";

    snprintf(train, sizeof train,
             "%d workers on %d node%s train %.2f times as fast as one%s (%.0f %% of %.7g)",
             point->workers, point->nodes, point->nodes == 1 ? "" : "s", point->speedup,
             point->pace ? " of speed 1" : "", 100 * point->speedup / point->capacity,
             point->capacity);
    if (point->workers > 1 && point->shape.asks && f->options->exchange.lossy.n > 0)
        choose_print_lossy(&point->answer, f->work.ngroups, lossy);
    if (point->workers < 2)
        snprintf(out, bytes, "One worker has nothing to send: ask for more --nodes.");
    else
        snprintf(out, bytes, "%s%s (--comm=%s).%s%s", train,
                 point->shape.only ? ": they add up gradients in shared memory, and nothing is sent"
                                   : "",
                 forecast_comm_name(f), *lossy ? " --lossy: " : "", lossy);
}
