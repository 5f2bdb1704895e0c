/* Finds which network would be enough, and whether spare nodes help as servers. Each question
 * simulates the last number of nodes again, with another link or more nodes. */
#include "forecast/forecast.h"

#include "util/error.h"
#include "util/units.h"

#include <math.h>
#include <stdio.h>

#define ENOUGH       0.95 /* fraction of the workers' capacity */
#define WORTH_A_NODE 1.05 /* factor in speed below which servers are not worth their nodes */
#define CLOSE        1.02 /* factor below which two links count as equal */

static const double SLOWEST = 1e6, FASTEST = 1e12; /* range of links to try, bytes per second */

static const struct forecast_point *last_point(const struct forecast *f)
{
    return &f->points[f->options->npoints - 1];
}

static int speedup_at(const struct forecast *f, double link_Bps, double *out)
{
    struct forecast changed = *f; /* a copy that *f, from which it borrows, outlives */

    changed.cluster.link_Bps = link_Bps;
    return forecast_try(&changed, last_point(f)->nodes, f->options->exchange.servers, true, out);
}

/* Finds the slowest link on which workers reach ENOUGH of their capacity: doubles or halves the
 * rate to find an interval, then halves the interval. */
static int find_enough(const struct forecast *f, struct forecast_advice *out)
{
    double wanted = ENOUGH * last_point(f)->capacity, speedup = last_point(f)->speedup;
    double low = f->cluster.link_Bps, high = low;

    if (speedup < wanted) {
        if (speedup_at(f, FASTEST, &out->most_speedup))
            return -1;
        if (out->most_speedup < wanted)
            return 0;
        for (; speedup < wanted && high < FASTEST; low = speedup < wanted ? high : low)
            if (speedup_at(f, high *= 2, &speedup))
                return -1;
    } else {
        for (; speedup >= wanted && low > SLOWEST; high = speedup >= wanted ? low : high)
            if (speedup_at(f, low /= 2, &speedup))
                return -1;
    }
    while (high > CLOSE * low) {
        double middle = sqrt(low * high);
        if (speedup_at(f, middle, &speedup))
            return -1;
        *(speedup < wanted ? &low : &high) = middle;
    }
    out->enough_Bps = high;
    return 0;
}

/* Tries a quarter as many server nodes, half as many, as many, and takes the first worth it. */
static int find_servers(const struct forecast *f, struct forecast_advice *out)
{
    const struct forecast_point *point = last_point(f);
    int before = 0;

    if (f->options->exchange.servers > 0 || point->nodes < 2)
        return 0;
    for (int part = 4; part >= 1 && out->server_nodes == 0; part /= 2) {
        int extra = (point->nodes + part - 1) / part;
        double speedup;
        if (extra == before)
            continue;
        before = extra;
        if (forecast_try(f, point->nodes + extra, extra * f->options->ranks_per_node, true,
                         &speedup))
            return -1;
        if (speedup > WORTH_A_NODE * point->speedup) {
            out->server_nodes = extra;
            out->servers_speedup = speedup;
        }
    }
    return 0;
}

static int find_balance(const struct forecast *f, struct forecast_advice *out)
{
    struct forecast_options options = *f->options;
    struct forecast changed = *f;

    if (options.nspeeds == 0 || options.balance)
        return 0;
    options.balance = true;
    changed.options = &options;
    return forecast_try(&changed, last_point(f)->nodes, options.exchange.servers, false,
                        &out->balanced_speedup);
}

int forecast_advise(const struct forecast *f, struct forecast_advice *out)
{
    const struct forecast_point *point = last_point(f);

    *out = (struct forecast_advice){.enough_Bps = 0};
    if (point->workers < 2 || point->shape.only)
        return 0;
    return error_status(find_enough(f, out) || find_servers(f, out) || find_balance(f, out));
}

/* ---- in sentences ---- */

static void say_network(const struct forecast *f, const struct forecast_advice *advice, char *out,
                        size_t bytes)
{
    if (advice->enough_Bps <= 0) {
        snprintf(out, bytes,
                 "No network would reach %.0f %%: the fastest gives %.2f times, the rest is %s.",
                 100 * ENOUGH, advice->most_speedup,
                 advice->balanced_speedup > 0 ? "waiting for the slowest worker"
                                              : "latency, sums and products");
        return;
    }
    snprintf(out, bytes, "%.0f %% of %.7g %s a network of %s per node; this one has %s.",
             100 * ENOUGH, last_point(f)->capacity,
             advice->enough_Bps > f->cluster.link_Bps ? "would need" : "would be reached on",
             units_bits(advice->enough_Bps).text, units_bits(f->cluster.link_Bps).text);
}

static void say_servers(const struct forecast *f, const struct forecast_advice *advice, char *out,
                        size_t bytes)
{
    int extra = advice->server_nodes, nodes = last_point(f)->nodes;

    *out = '\0';
    if (extra > 0)
        snprintf(out, bytes,
                 " %d extra server-only node%s (--nodes=%d --servers=%d) would raise the speed-up "
                 "to %.2f.",
                 extra, extra == 1 ? "" : "s", nodes + extra, extra * f->options->ranks_per_node,
                 advice->servers_speedup);
    else if (f->options->exchange.servers == 0 && nodes > 1)
        snprintf(out, bytes, " Dedicated servers would not make it 5 %% faster.");
}

void forecast_advice_words(const struct forecast *f, const struct forecast_advice *advice,
                           char *out, size_t bytes)
{
    const struct forecast_point *point = last_point(f);
    char train[128], network[256], servers[256], balance[64] = "", lossy[CHOOSE_WORDS] = "";

    snprintf(train, sizeof train,
             "%d workers on %d node%s train %.2f times as fast as one%s (%.0f %% of %.7g)",
             point->workers, point->nodes, point->nodes == 1 ? "" : "s", point->speedup,
             point->pace ? " of speed 1" : "", 100 * point->speedup / point->capacity,
             point->capacity);
    if (point->workers < 2) {
        snprintf(out, bytes, "One worker has nothing to send: ask for more --nodes.");
    } else if (point->shape.only) {
        snprintf(out, bytes,
                 "%s: they add up gradients in shared memory, and nothing is sent (--comm=%s).",
                 train, forecast_comm_name(f));
    } else {
        say_network(f, advice, network, sizeof network);
        say_servers(f, advice, servers, sizeof servers);
        if (point->shape.asks && f->options->exchange.lossy.n > 0)
            choose_print_lossy(&point->answer, f->work.ngroups, lossy);
        if (advice->balanced_speedup > 0)
            snprintf(balance, sizeof balance, " --balance would make it %.2f times.",
                     advice->balanced_speedup);
        snprintf(out, bytes, "%s (--comm=%s). %s%s%s%s%s", train, forecast_comm_name(f), network,
                 servers, balance, *lossy ? " --lossy: " : "", lossy);
    }
}
