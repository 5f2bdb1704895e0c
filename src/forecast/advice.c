/* What a plan comes to: which network would be enough, and whether spare nodes as servers help.
 * Each question is the same forecast once more with another link or more nodes. */
#include "forecast/forecast.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ENOUGH       0.95 /* of the workers */
#define WORTH_A_NODE 1.05 /* times as fast, or servers are not worth their nodes */

static const double SLOWEST = 1e6, FASTEST = 1e12; /* links that are tried, bytes per second */

static int speedup_at(const struct forecast *f, int nodes, double link_Bps, double *out)
{
    struct forecast other = *f; /* lives shorter than what it borrows */

    other.cluster.link_Bps = link_Bps;
    return forecast_try(&other, nodes, out);
}

/* The slowest link on which all workers but a twentieth are worth their while, to 1 %; 0: none is
 * fast enough. */
static int find_enough(const struct forecast *f, const struct forecast_point *point,
                       struct forecast_advice *out)
{
    double low = SLOWEST, high = FASTEST, wanted = ENOUGH * point->workers, speedup;

    if (speedup_at(f, point->nodes, high, &out->most_speedup))
        return -1;
    if (out->most_speedup < wanted)
        return 0;
    while (high > 1.01 * low) {
        double middle = sqrt(low * high);
        if (speedup_at(f, point->nodes, middle, &speedup))
            return -1;
        *(speedup < wanted ? &low : &high) = middle;
    }
    out->enough_Bps = high;
    return 0;
}

/* A quarter as many more nodes as servers, half as many, as many: the first that is worth it. */
static int find_servers(const struct forecast *f, const struct forecast_point *point,
                        struct forecast_advice *out)
{
    struct forecast_options options = *f->options;
    struct forecast other = *f;
    int before = 0;

    if (options.servers > 0 || point->nodes < 2)
        return 0;
    other.options = &options;
    for (int part = 4; part >= 1 && out->server_nodes == 0; part /= 2) {
        int more = (point->nodes + part - 1) / part;
        double speedup;
        options.servers = more * options.ranks_per_node;
        if (more == before)
            continue;
        before = more;
        if (forecast_try(&other, point->nodes + more, &speedup))
            return -1;
        if (speedup > WORTH_A_NODE * out->speedup) {
            out->server_nodes = more;
            out->servers_speedup = speedup;
        }
    }
    return 0;
}

int forecast_advise(const struct forecast *f, const struct forecast_point *point,
                    struct forecast_advice *out)
{
    *out =
        (struct forecast_advice){.speedup = forecast_speedup(f, point, &point->chosen_iteration)};
    if (point->workers < 2 || point->shares)
        return 0;
    return find_enough(f, point, out) || find_servers(f, point, out) ? -1 : 0;
}

/* ---- in sentences ---- */

/* "SFB for 3 layers and PS for 16" */
static void list_schemes(const struct forecast *f, const struct forecast_point *point, char *out,
                         size_t bytes)
{
    size_t at = 0;

    *out = '\0';
    for (int s = 0; s < f->nschemes; s++) {
        int count = 0;
        for (int g = 0; g < f->work.ngroups; g++)
            count += f->groups[g].trains && point->chosen[g] == f->options->registry[s];
        if (count > 0 && at < bytes)
            at += (size_t)snprintf(out + at, bytes - at, "%s%s for %d layer%s", at ? ", " : "",
                                   scheme_label(f->options->registry[s]), count,
                                   count == 1 ? "" : "s");
    }
}

/* 9.2e8 -> "7.4 Gbit/s" */
static const char *bits(double Bps, char out[COST_CELL])
{
    double gigabits = Bps * 8e-9;

    if (gigabits < 1)
        snprintf(out, COST_CELL, "%.3g Mbit/s", gigabits * 1e3);
    else
        snprintf(out, COST_CELL, gigabits < 100 ? "%.2g Gbit/s" : "%.0f Gbit/s", gigabits);
    return out;
}

static void say_network(const struct forecast *f, const struct forecast_point *point,
                        const struct forecast_advice *advice, char *out, size_t bytes)
{
    char enough[COST_CELL], has[COST_CELL];

    if (advice->enough_Bps <= 0) {
        snprintf(out, bytes,
                 "No network makes that %.0f %%: on the fastest it is %.2f times, the rest is "
                 "latency, sums and products.",
                 100 * ENOUGH, advice->most_speedup);
        return;
    }
    snprintf(out, bytes, "%.0f %% of %d %s a network of %s per node; this one has %s.",
             100 * ENOUGH, point->workers,
             advice->enough_Bps > f->cluster.link_Bps ? "would need" : "would be reached on",
             bits(advice->enough_Bps, enough), bits(f->cluster.link_Bps, has));
}

static void say_servers(const struct forecast *f, const struct forecast_point *point,
                        const struct forecast_advice *advice, char *out, size_t bytes)
{
    int more = advice->server_nodes, each = f->options->ranks_per_node;

    *out = '\0';
    if (more > 0)
        snprintf(
            out, bytes,
            " %d more node%s without a device as server%s (--nodes=%d --servers=%d) would make "
            "it %.2f times.",
            more, more == 1 ? "" : "s", more == 1 ? "" : "s", point->nodes + more, more * each,
            advice->servers_speedup);
    else if (f->options->servers == 0 && point->nodes > 1)
        snprintf(out, bytes, " Dedicated servers would not make it 5 %% faster.");
}

void forecast_advice_words(const struct forecast *f, const struct forecast_point *point,
                           const struct forecast_advice *advice, char *out, size_t bytes)
{
    char schemes[256], network[256], servers[256], assumed[128] = "";

    if (!f->options->profile && f->options->images_per_second <= 0)
        snprintf(assumed, sizeof assumed,
                 "Assuming %.3g images/s a rank, by operations (give --images-per-second): ",
                 f->batch / f->alone_seconds);
    list_schemes(f, point, schemes, sizeof schemes);
    if (point->workers < 2) {
        snprintf(out, bytes, "One worker has nothing to send: ask for more --nodes.");
        return;
    }
    if (point->shares) {
        snprintf(out, bytes,
                 "%s%d workers on 1 node train %.2f times as fast as one (%.0f %% of %d): they add "
                 "up in the memory that they share, and nothing is sent (--comm=%s).",
                 assumed, point->workers, advice->speedup, 100 * advice->speedup / point->workers,
                 point->workers, comm_name(f->options->comm));
        return;
    }
    say_network(f, point, advice, network, sizeof network);
    say_servers(f, point, advice, servers, sizeof servers);
    snprintf(out, bytes,
             "%s%d workers on %d node%s train %.2f times as fast as one (%.0f %% of %d): %s "
             "(--comm=%s). %s%s",
             assumed, point->workers, point->nodes, point->nodes == 1 ? "" : "s", advice->speedup,
             100 * advice->speedup / point->workers, point->workers,
             *schemes ? schemes : "nothing is sent", comm_name(f->options->comm), network, servers);
}
