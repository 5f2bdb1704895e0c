/* Makes a sync from ranks and options, step by step: node, figures, choice of schemes, plan. */
#include "exchange/exchange.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Most seconds that an iteration's messages may take under bandwidth-mbps. The limit is for sharing
 * a network; training that sends for longer than this would never end. */
#define LONGEST_ITERATION 600.0

__attribute__((format(printf, 3, 4))) static void say(const struct exchange *e, bool warning,
                                                      const char *format, ...)
{
    char text[2048];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    e->member.say(e->member.context, warning, text);
}

/* ---- nodes ---- */

/* Facts about any one rank that all ranks must know. */
enum somewhere { OWN_MEMORY, CAP, SOMEWHERE };

/* Checks that this rank's engine can be one of a team, if it has memory of its own. */
static int check_team(struct exchange *e)
{
    const struct device_i *device = e->member.device->i;

    if (!device->own_memory)
        return 0;
    if (!device->team)
        return error_set("the engine keeps parameters in its own memory, which only NCCL reaches, "
                         "and this build has no NCCL (configure --with-nccl)");
    if (e->member.no_team)
        return error_set("%s", e->member.no_team);
    return device->team->library(e->team, sizeof e->team);
}

/* Fills e->facts. no_team: buffer for the reason why engines cannot add up. */
static int find_facts(struct exchange *e, const char *saved_plan, struct strbuf *no_team)
{
    const struct topology *topology = e->member.topology;
    double any[SOMEWHERE] = {
        [OWN_MEMORY] = e->member.device->i->own_memory, [CAP] = e->options->mbps > 0};

    if (error_agree(e->member.world, agree_max(e->member.world, any, SOMEWHERE)))
        return -1;
    if (any[OWN_MEMORY] > 0 && e->options->hierarchy != HIERARCHY_OFF &&
        error_agree(e->member.world, check_team(e)))
        strbuf_puts(no_team, error_text());
    e->facts = (struct exchange_facts){.nranks = topology->nranks,
                                       .machine = topology->machine,
                                       .nmachines = topology->nmachines,
                                       .ranks_per_host = topology->most_ranks,
                                       .blank = e->member.blank,
                                       .capped = any[CAP] > 0,
                                       .reproducible = e->member.reproducible,
                                       .unlike = e->member.unlike,
                                       .own_memory = any[OWN_MEMORY] > 0,
                                       .no_team = no_team->length ? strbuf_text(no_team) : NULL,
                                       .saved_plan = saved_plan};
    return 0;
}

/* Makes a team of the node's engines. Collective. */
static int open_team(const struct exchange *e)
{
    const struct device_team_i *team = e->member.device->i->team;
    void *device = e->member.device->context;
    struct node *node = e->node;
    bool member = node->nranks > 1;
    char id[DEVICE_TEAM_ID];
    int status = member && node->rank == 0 ? team->identify(device, id) : 0;

    if (error_agree(e->member.world, status) ||
        error_agree(e->member.world, member ? agree_share(node->comm, id, sizeof id) : 0))
        return -1;
    return error_agree(e->member.world,
                       member ? team->open(device, id, node->rank, node->nranks) : 0);
}

/* Creates this rank's node. If memory is too small to share on the only machine, and no option
 * asked for sharing, ranks exchange messages instead. Collective. */
static int open_node(struct exchange *e, size_t elems)
{
    bool yields =
        e->shape.only && e->options->hierarchy == HIERARCHY_AUTO && e->options->leaders <= 0;

    if (!e->shape.nodes.node)
        return 0;
    if (node_create(e->member.world, e->member.topology, &e->shape.nodes, elems, &e->node)) {
        if (!yields)
            return -1;
        error_context("Ranks exchange messages instead of sharing memory, which would be faster");
        say(e, true, "%s", error_text());
        exchange_shape_part(&e->shape, &e->facts);
    }
    return e->node && e->node->team ? open_team(e) : 0;
}

int exchange_form_all(struct exchange *e, const struct exchange_options *options,
                      const struct exchange_member *member, const char *saved_plan, size_t elems)
{
    struct strbuf no_team = {.data = NULL};
    int status;

    e->options = options;
    e->member = *member;
    status = find_facts(e, saved_plan, &no_team) ||
             error_agree(member->world, exchange_shape(options, &e->facts, &e->shape)) ||
             error_agree(member->world, exchange_check_leaders(options, &e->shape));
    if (!status && *e->shape.hindered && e->facts.own_memory && member->device->i->team)
        say(e, false, "NCCL disabled: %s", e->shape.hindered);
    strbuf_free(&no_team);
    e->facts.no_team = NULL;
    return error_status(status || open_node(e, elems));
}

/* ---- choice of schemes ---- */

/* Returns options to simulate plans; links carry dilated bytes, and are faster by `dilate`. */
static struct simulate_options where_played(const struct exchange *e)
{
    int dilate = e->options->dilate > 1 ? e->options->dilate : 1;

    return (struct simulate_options){.cluster = &e->probe.cluster,
                                     .paces = e->member.paces,
                                     .ranks_per_node = e->probe.ranks_per_node,
                                     .fifo = e->options->fifo,
                                     .bytes_per_second = e->cap * dilate};
}

/* Finds the layers' times, and chooses; on rank 0. deal: see exchange_choose. */
static int ask(struct exchange *e, const struct exchange_net *net, const struct plan_options *how,
               struct exchange_deal *deal, struct choose_answer *answer)
{
    struct layer_times work;
    struct exchange_cluster cluster = {.dilate = 1, .play = where_played(e)};

    cluster.play.work = &work;
    return error_status(e->member.find_work(e->member.context, &e->probe.cluster, &work) ||
                        exchange_choose(e->options, &e->shape, net, &cluster, how, deal, answer));
}

/* Chooses schemes on rank 0. way: per group, the index of its scheme and encoding in `ways`. */
static int choose(struct exchange *e, const struct exchange_net *net, struct plan_options *how,
                  const struct ways *ways, int *way)
{
    const struct exchange_options *o = e->options;
    struct choose_answer answer;
    char words[CHOOSE_WORDS];

    if (ask(e, net, how, NULL, &answer))
        return -1;
    choose_print_rows(&answer, words);
    say(e, false, "Simulated time of an iteration by %s: %s", exchange_word(o, "--comm"), words);
    if (o->lossy.n > 0) {
        choose_print_lossy(&answer, net->ngroups, words);
        say(e, false, "%s: %s", exchange_word(o, "--lossy"), words);
    }
    how->sizes = answer.sizes;
    for (int g = 0; g < net->ngroups; g++)
        way[g] = ways_find(ways, answer.way[g]);
    choose_answer_free(&answer);
    return 0;
}

static int deal(struct exchange *e, const struct exchange_net *net, struct exchange_deal *shares)
{
    struct plan_options how;
    struct choose_answer answer;

    exchange_plan_options(e->options, &e->shape, net, e->facts.nranks, NULL, &how);
    if (ask(e, net, &how, shares, &answer))
        return -1;
    choose_answer_free(&answer);
    return 0;
}

int exchange_deal_all(struct exchange *e, const struct exchange_net *net,
                      struct exchange_deal *shares)
{
    MPI_Comm world = e->member.world;
    size_t n = (size_t)(e->facts.nranks - e->options->servers);
    int status;

    if (!e->shape.asks || e->facts.saved_plan)
        return 0;
    status = exchange_measure_all(e) ||
             error_agree(world, e->member.topology->rank == 0 ? deal(e, net, shares) : 0) ||
             agree_share(world, shares->share, n * sizeof *shares->share) ||
             agree_share(world, &shares->before, sizeof shares->before) ||
             agree_share(world, &shares->after, sizeof shares->after);
    return error_status(status);
}

/* Chooses on rank 0 for all ranks: the same figures give the same choice, but no rank should have
 * to prove that. Sets *how and `way`, net->ngroups places. Collective. */
static int choose_together(struct exchange *e, const struct exchange_net *net,
                           struct plan_options *how, struct way *way)
{
    MPI_Comm world = e->member.world;
    size_t ngroups = (size_t)net->ngroups;
    int *index = alloc_array(ngroups, sizeof *index, "schemes");
    struct ways ways;
    int status = error_agree(world, index ? 0 : -1) || exchange_measure_all(e);

    ways_list(sync_schemes, e->options->wire, &e->options->lossy, &ways);
    if (!status)
        status = error_agree(world,
                             e->member.topology->rank == 0 ? choose(e, net, how, &ways, index) : 0);
    if (!status)
        status = agree_share(world, &how->sizes, sizeof how->sizes) ||
                 agree_share(world, index, ngroups * sizeof *index);
    for (size_t g = 0; g < ngroups && !status; g++)
        way[g] = index[g] >= 0 ? ways.way[index[g]] : (struct way){.scheme = NULL};
    free(index);
    return error_status(status);
}

static int check_pace(const struct exchange *e)
{
    const struct exchange_options *o = e->options;
    double dilate = o->dilate > 1 ? o->dilate : 1, rate = o->mbps * 1e6 / 8 * dilate;

    for (int r = 0; rate > 0 && r < e->facts.nranks; r++) {
        double sent = 0;

        for (int b = 0; b < e->plan->nbuckets; b++)
            sent += (double)plan_traffic(e->plan, b, r).sent;
        if (sent > LONGEST_ITERATION * rate)
            return error_set("%s=%g: rank %d sends %s an iteration, which takes %s at that rate; "
                             "expected at least %.2g, at which it takes %g minutes",
                             exchange_word(o, "--tune=bandwidth-mbps"), o->mbps, r,
                             units_bytes(sent).text, units_seconds(sent / rate).text,
                             sent / LONGEST_ITERATION * 8e-6 / dilate, LONGEST_ITERATION / 60);
    }
    return 0;
}

static int make_plan(struct exchange *e, const struct exchange_net *net,
                     const struct plan_options *how)
{
    return error_status(exchange_plan(e->options, net, how, &e->plan) || check_pace(e));
}

/* Reports options that have no effect. */
static void say_unused(const struct exchange *e)
{
    const struct plan *plan = e->plan;
    const struct comm *comm = &e->options->comm;
    int used = 0, by_ps = 0;

    for (int b = 0; b < plan->nbuckets; b++) {
        used += plan->buckets[b].scheme == comm->scheme;
        by_ps += plan->buckets[b].scheme == sync_schemes[0];
    }
    if (comm->policy == COMM_SCHEME && plan->nworkers > 1 && used == 0 && by_ps > 0)
        say(e, true, "%s=%s can move no layer of this net: all travel by %s=%s",
            exchange_word(e->options, "--comm"), comm_name(*comm),
            exchange_word(e->options, "--comm"), sync_schemes[0]->name);
    if (e->options->lossy.n > 0 && !e->shape.asks)
        say(e, false, "%s: nothing is rounded: %s", exchange_word(e->options, "--lossy"),
            plan_is_alone(plan)
                ? "all gradients stay in this machine's memory"
                : "on one machine without a cluster file, schemes follow the paper's rule");
}

int exchange_plan_all(struct exchange *e, const struct exchange_net *net)
{
    struct way *way = alloc_array((size_t)net->ngroups, sizeof *way, "schemes");
    struct plan_options how;
    int status = error_agree(e->member.world, way ? 0 : -1);

    exchange_plan_options(e->options, &e->shape, net, e->facts.nranks, way, &how);
    if (!status && exchange_keep(e->options, &e->shape, net, e->facts.saved_plan, &how, way))
        say(e, false, "Using the resumed run's schemes; --tune=measure chooses again");
    else if (!status && e->shape.asks) {
        if (e->facts.saved_plan && !e->options->measure)
            say(e, false, "The resumed run's schemes do not fit this start: choosing again");
        status = choose_together(e, net, &how, way);
    }
    if (!status)
        status = error_agree(e->member.world, make_plan(e, net, &how));
    if (!status)
        say_unused(e);
    free(way);
    return status;
}

/* Simulates a bucket of several groups as one group. */
static int play_bucket(const struct exchange *e, const struct bucket *b, double *seconds)
{
    const struct plan *plan = e->plan;
    const struct group *first = &plan->groups[b->first_group], *last = first + b->ngroups - 1;
    const struct simulate_options options = where_played(e);
    struct plan_options how = plan->options;
    struct group all = *first;

    how.nodes = plan->leader;
    how.parts = plan->part;
    all.elems = last->begin + last->elems - first->begin;
    all.factorable = b->factorable;
    return simulate_group(&options, &how, &all, (struct way){b->scheme, b->rank, b->wire}, seconds);
}

int exchange_price(const struct exchange *e, struct cost *out)
{
    cost_plan(&e->probe.cluster, e->plan, out);
    for (int b = 0; b < e->plan->nbuckets; b++)
        if (e->plan->buckets[b].scheme && play_bucket(e, &e->plan->buckets[b], &out[b].seconds))
            return -1;
    return 0;
}

/* ---- sync ---- */

int exchange_open_all(struct exchange *e, const struct sync_model *model,
                      const struct sync_update *update, const struct sync_options *job)
{
    enum { USUAL_WARMUP = 10 }; /* gradients change most at the start */
    const struct exchange_options *o = e->options;
    struct sync_options *s = &e->sync_options;
    size_t dilate = (size_t)(o->dilate > 1 ? o->dilate : 1);

    *s = *job;
    s->overlap = o->overlap != COST_OVERLAP_NONE;
    s->forward_waits_all = o->overlap == COST_OVERLAP_BACKWARD;
    s->staleness = o->staleness;
    s->direct = o->direct;
    s->node = e->node;
    s->sends = (struct queue_options){.fifo = o->fifo,
                                      .window = e->plan->options.sizes.window / dilate,
                                      .bytes_per_second = o->mbps * 1e6 / 8,
                                      .meter = job->sends.meter};
    if (s->sends.meter)
        *s->sends.meter = (struct link_meter){.rate = e->probe.cluster.link_Bps / (double)dilate,
                                              .begin = clock_seconds(),
                                              .end = INFINITY};
    s->lowrank_warmup = o->lowrank_warmup >= 0               ? o->lowrank_warmup
                        : job->lowrank_warmup > USUAL_WARMUP ? job->lowrank_warmup
                                                             : USUAL_WARMUP;
    s->watch.lost_seconds = o->stall_timeout;
    s->watch.topology = e->member.topology;
    return sync_create(e->member.world, e->plan, model, update, s, &e->sync);
}

void exchange_close(struct exchange *e)
{
    sync_destroy(e->sync);
    plan_destroy(e->plan);
    e->sync = NULL;
    e->plan = NULL;
}

void exchange_leave(struct exchange *e)
{
    node_destroy(e->node);
    exchange_shape_free(&e->shape);
    e->node = NULL;
}
