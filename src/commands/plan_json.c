/* A plan as JSON: all layers at all numbers of nodes. Bytes are those of one iteration. */
#include "commands/plan_request.h"

static void put_uint(struct json *json, const char *key, uint64_t value)
{
    json_key(json, key);
    json_uint(json, value);
}

static void put_double(struct json *json, const char *key, double value)
{
    json_key(json, key);
    json_double(json, value);
}

static void put_string(struct json *json, const char *key, const char *value)
{
    json_key(json, key);
    json_string(json, value);
}

static const char *name_of(const struct scheme *scheme)
{
    return scheme ? scheme->name : "none";
}

static void put_cluster(const struct forecast *f, struct json *json)
{
    json_key(json, "cluster");
    json_object_begin(json);
    put_double(json, "latency_seconds", f->cluster.latency_seconds);
    put_double(json, "message_seconds", f->cluster.message_seconds);
    put_double(json, "link_bytes_per_second", f->cluster.link_Bps);
    put_double(json, "local_bytes_per_second", f->cluster.local_Bps);
    put_double(json, "gemm_flops", f->cluster.gemm_flops);
    put_double(json, "copy_bytes_per_second", f->cluster.copy_Bps);
    put_double(json, "sum_bytes_per_second", f->cluster.sum_Bps);
    put_double(json, "served_bytes_per_second", f->cluster.serve_Bps);
    put_double(json, "device_bytes_per_second", f->cluster.device_Bps);
    put_double(json, "transport_bytes_per_second", f->cluster.transport_Bps);
    put_double(json, "core_share", f->cluster.core_share);
    put_uint(json, "ranks_per_node", (uint64_t)f->options->ranks_per_node);
    json_object_end(json);
}

/* On the last point. */
static void put_advice(const struct forecast *f, struct json *json)
{
    const struct forecast_point *point = &f->points[f->options->npoints - 1];
    char words[1024];

    forecast_advice_words(f, point, &f->advice, words, sizeof words);
    json_key(json, "advice");
    json_object_begin(json);
    put_string(json, "words", words);
    put_uint(json, "nodes", (uint64_t)point->nodes);
    put_double(json, "speedup", f->advice.speedup);
    put_double(json, "enough_link_bytes_per_second", f->advice.enough_Bps);
    put_double(json, "most_speedup", f->advice.most_speedup);
    put_uint(json, "server_nodes", (uint64_t)f->advice.server_nodes);
    put_double(json, "speedup_with_servers", f->advice.servers_speedup);
    json_object_end(json);
}

static void put_cost(const struct cost *cost, struct json *json)
{
    json_key(json, name_of(cost->scheme));
    if (!cost->possible) {
        json_null(json);
        return;
    }
    json_object_begin(json);
    put_uint(json, "bytes", cost->bytes);
    put_double(json, "worker_sent", cost->worker.sent);
    put_double(json, "worker_received", cost->worker.received);
    put_double(json, "server_sent", cost->server.sent);
    put_double(json, "server_received", cost->server.received);
    put_double(json, "messages", cost->messages);
    put_double(json, "memory_bytes", cost->memory);
    put_double(json, "wire_seconds", cost->wire_seconds);
    put_double(json, "skew_seconds", cost->skew_seconds);
    put_double(json, "latency_seconds", cost->latency_seconds);
    put_double(json, "sum_seconds", cost->sum_seconds);
    put_double(json, "compute_seconds", cost->compute_seconds);
    put_double(json, "copy_out_seconds", cost->copy_out_seconds);
    put_double(json, "copy_in_seconds", cost->copy_in_seconds);
    put_double(json, "stolen_seconds", cost->stolen_seconds);
    put_double(json, "seconds", cost->seconds);
    json_object_end(json);
}

static void put_layer(const struct forecast *f, const struct forecast_point *point, int g,
                      struct json *json)
{
    const struct group *group = &f->groups[g];
    char reason[256];

    json_object_begin(json);
    put_string(json, "layer", group->name);
    put_uint(json, "parameters", group->elems);
    if (group->factorable) {
        put_uint(json, "m", (uint64_t)group->m);
        put_uint(json, "n", (uint64_t)group->n);
        put_uint(json, "rows",
                 (uint64_t)group->k * (uint64_t)f->options->iter_size * (uint64_t)point->locals);
    }
    json_key(json, "costs");
    json_object_begin(json);
    for (int s = 0; s < f->nschemes; s++)
        put_cost(&point->table[g * f->nschemes + s], json);
    json_object_end(json);
    put_string(json, "choice", name_of(point->chosen[g]));
    forecast_reason(f, point, g, reason, sizeof reason);
    put_string(json, "reason", reason);
    json_object_end(json);
}

static void put_iteration(const struct forecast *f, const struct forecast_point *point,
                          const struct cost_iteration *iteration, struct json *json)
{
    json_object_begin(json);
    put_double(json, "seconds", iteration->seconds);
    put_double(json, "compute_seconds", iteration->compute_seconds);
    put_double(json, "wire_seconds", iteration->wire_seconds);
    put_double(json, "exposed_seconds", iteration->exposed_seconds);
    put_uint(json, "bytes", iteration->bytes);
    put_double(json, "sent", iteration->sent);
    put_double(json, "received", iteration->received);
    put_double(json, "images_per_second", forecast_images(f, point, iteration));
    put_double(json, "speedup", forecast_speedup(f, point, iteration));
    json_object_end(json);
}

static void put_point(const struct forecast *f, const struct forecast_point *point,
                      struct json *json)
{
    json_object_begin(json);
    put_uint(json, "nodes", (uint64_t)point->nodes);
    put_uint(json, "workers", (uint64_t)point->workers);
    put_uint(json, "workers_per_leader", (uint64_t)point->locals);
    put_uint(json, "leaders_per_node", (uint64_t)point->leaders);
    put_uint(json, "servers", (uint64_t)point->servers);
    json_key(json, "dedicated");
    json_bool(json, point->how.servers > 0);
    put_uint(json, "merge_bytes", point->merge_bytes);
    put_uint(json, "buckets", (uint64_t)point->buckets);
    put_uint(json, "chunks", (uint64_t)point->chunks);
    put_uint(json, "messages", point->messages);
    put_uint(json, "memory_bytes", point->memory);
    json_key(json, "chosen");
    put_iteration(f, point, &point->chosen_iteration, json);
    json_key(json, "by_comm");
    json_object_begin(json);
    for (int i = 0; i < f->ncomms; i++) {
        json_key(json, comm_name(f->comms[i]));
        put_iteration(f, point, &point->by_comm[i], json);
    }
    json_object_end(json);
    json_key(json, "by_overlap");
    json_object_begin(json);
    for (int o = COST_OVERLAP_NONE; o < COST_OVERLAPS; o++) {
        json_key(json, cost_overlap_name((enum cost_overlap)o));
        put_iteration(f, point, &point->by_overlap[o], json);
    }
    json_object_end(json);
    json_key(json, "layers");
    json_array_begin(json);
    for (int g = 0; g < f->work.ngroups; g++)
        put_layer(f, point, g, json);
    json_array_end(json);
    json_object_end(json);
}

void plan_json(const struct forecast *f, struct json *json)
{
    json_object_begin(json);
    put_string(json, "model", f->net->def->file);
    put_string(json, "net", f->net->def->name);
    put_uint(json, "parameters", f->net->nlearnable);
    put_uint(json, "images_per_rank", (uint64_t)f->batch);
    put_string(json, "comm", comm_name(f->options->comm));
    put_advice(f, json);
    put_cluster(f, json);
    put_double(json, "forward_seconds", f->forward_seconds);
    put_double(json, "backward_seconds", f->backward_seconds);
    put_double(json, "alone_seconds", f->alone_seconds);
    json_key(json, "points");
    json_array_begin(json);
    for (int i = 0; i < f->options->npoints; i++)
        put_point(f, &f->points[i], json);
    json_array_end(json);
    json_object_end(json);
}
