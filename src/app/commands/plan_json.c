/* Prints a plan as JSON: a row for each number of nodes. Bytes are per iteration. */
#include "commands/command_plan.h"

#include <stdio.h>

#include "util/json.h"
#include "util/path.h"

static void put_cluster(const struct plan_request *r, const struct forecast *f, struct json *json)
{
    struct probe probe = r->figures;
    const char *key, *about;
    double value;

    probe.cluster = f->cluster; /* includes figures of a profile */
    probe.ranks_per_node = f->options->ranks_per_node;
    json_put_object(json, "cluster");
    for (int i = 1; (key = probe_figure(&probe, i, &about, &value)) != NULL; i++)
        json_put_double(json, key, value);
    json_object_end(json);
}

static void put_layers(const struct forecast *f, const struct forecast_point *point,
                       struct json *json)
{
    json_put_object(json, "scheme_by_layer");
    for (int g = 0; g < f->work.ngroups; g++)
        json_put_string(json, f->groups[g].name, way_name(point->chosen[g]).text);
    json_object_end(json);
}

/* Writes how full the busiest link is; nothing if no messages were simulated. */
static void put_burst(const struct link_meter *burst, struct json *json)
{
    if (burst->most_queued == 0)
        return;
    json_put_double(json, "link_full_seconds", burst->full_seconds);
    json_put_double(json, "link_full_longest_seconds", burst->longest_seconds);
    json_put_uint(json, "queued_bytes_most", burst->most_queued);
}

static void put_hosts(const struct forecast_point *point, struct json *json)
{
    json_put_array(json, "speeds");
    for (int r = 0; r < point->workers; r++)
        json_double(json, point->pace[r].speed);
    json_array_end(json);
    json_put_array(json, "shares");
    for (int r = 0; r < point->workers; r++)
        json_double(json, (double)point->share[r]);
    json_array_end(json);
}

/* Writes the seconds of an iteration for each value of --comm. */
static void put_answer(const struct choose_answer *answer, struct json *json)
{
    json_put_object(json, "seconds_by_comm");
    json_put_double(json, "auto", answer->seconds);
    for (int i = 0; i < answer->nrows; i++)
        if (answer->row[i].comm.policy != COMM_AUTO)
            json_put_double(json, answer->row[i].name.text, answer->row[i].seconds);
    if (answer->ways.n > answer->nexact)
        json_put_double(json, "exact", answer->exact_seconds);
    json_object_end(json);
}

static void put_row(const struct plan_request *r, const struct forecast *f,
                    const struct forecast_point *point, struct json *json)
{
    char schemes[128], comm[256];

    forecast_schemes(f, point, schemes, sizeof schemes);
    snprintf(comm, sizeof comm, "%s%s%s", forecast_comm_name(f),
             f->options->exchange.lossy.n ? " --lossy=" : "",
             f->options->exchange.lossy.n ? f->options->exchange.lossy.text : "");
    json_object_begin(json);
    json_put_string(json, "comm", comm);
    json_put_int(json, "nodes", point->nodes);
    json_put_double(json, "seconds", point->result.seconds);
    json_put_double(json, "speedup", point->speedup);
    json_put_double(json, "images_per_second", point->images_per_second);
    json_put_double(json, "bytes_sent", point->bytes_sent);
    json_put_double(json, "stall_share", point->result.stall_share);
    if (r->sync_bn)
        json_put_double(json, "sync_bn_share", point->result.join_share);
    json_put_string(json, "model", f->net->def->name);
    json_put_string(json, "profile", r->profile ? path_base(r->profile) : NULL);
    json_put_double(json, "bandwidth", f->cluster.link_Bps);
    json_put_double(json, "latency", f->cluster.latency_seconds);
    json_put_int(json, "ranks_per_node", f->options->ranks_per_node);
    json_put_int(json, "batch", f->batch);
    json_put_uint(json, "parameters", f->net->nlearnable);
    json_put_int(json, "workers", point->workers);
    json_put_double(json, "bytes_sent_most", point->bytes_most);
    put_burst(&point->result.burst, json);
    if (point->pace)
        put_hosts(point, json);
    json_put_double(json, "alone_seconds", f->alone_seconds);
    json_put_int(json, "servers", point->servers);
    json_put_string(json, "schemes", schemes);
    json_put_uint(json, "merge_bytes", point->how.sizes.merge);
    if (point->shape.asks)
        put_answer(&point->answer, json);
    put_cluster(r, f, json);
    put_layers(f, point, json);
    json_object_end(json);
}

int plan_print_json(const struct plan_request *r, const struct forecast *f)
{
    struct json json = {.depth = 0};
    int status;

    json_array_begin(&json);
    for (int i = 0; i < f->options->npoints; i++)
        put_row(r, f, &f->points[i], &json);
    json_array_end(&json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}
