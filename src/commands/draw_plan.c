/* Which layer travels by which scheme, out of JSON of `plan --json` or `train --summary`. */
#include "commands/draw_graph.h"

#include <stdlib.h>
#include <string.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/json_read.h"
#include "util/path.h"
#include "util/strbuf.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

void draw_plan_free(struct draw_plan *plan)
{
    for (int i = 0; i < plan->count; i++) {
        free(plan->layers[i]);
        free(plan->schemes[i]);
    }
    free(plan->layers);
    free(plan->schemes);
    free(plan->title);
    *plan = (struct draw_plan){.count = 0};
}

#ifdef HAVE_CJSON
#include <cJSON.h>

static int add(struct draw_plan *plan, const char *path, const char *layer, const char *scheme)
{
    if (!layer || !scheme)
        return error_set("%s: layer %d of the plan has no name or no scheme", path, plan->count);
    plan->layers[plan->count] = strdup(layer);
    plan->schemes[plan->count++] = strdup(scheme);
    return plan->layers[plan->count - 1] && plan->schemes[plan->count - 1]
               ? 0
               : error_memory(strlen(layer) + strlen(scheme), "a plan's layer");
}

static int reserve(struct draw_plan *plan, const cJSON *layers)
{
    size_t count = (size_t)cJSON_GetArraySize(layers);

    plan->layers = alloc_array(count, sizeof *plan->layers, "a plan");
    plan->schemes = alloc_array(count, sizeof *plan->schemes, "a plan");
    return plan->layers && plan->schemes ? 0 : -1;
}

/* train's: {"conv1": "ps", ...} */
static int read_summary(const char *path, const cJSON *by_layer, struct draw_plan *plan)
{
    const cJSON *item;

    if (reserve(plan, by_layer))
        return -1;
    cJSON_ArrayForEach(
        item, by_layer) if (add(plan, path, item->string, cJSON_GetStringValue(item))) return -1;
    return 0;
}

static double nodes_of(const cJSON *point)
{
    const cJSON *nodes = cJSON_GetObjectItemCaseSensitive(point, "nodes");

    return cJSON_IsNumber(nodes) ? nodes->valuedouble : 0;
}

static const cJSON *find_point(const char *path, const cJSON *points, int nodes)
{
    struct strbuf there = {.length = 0};
    const cJSON *point, *last = NULL;

    cJSON_ArrayForEach(point, points)
    {
        if (nodes_of(point) == nodes)
            return point;
        strbuf_printf(&there, "%s%g", last ? ", " : "", nodes_of(point));
        last = point;
    }
    if (nodes == 0 && last) {
        strbuf_free(&there);
        return last;
    }
    error_set("%s: there is no plan for %d nodes; it has %s", path, nodes, strbuf_text(&there));
    strbuf_free(&there);
    return NULL;
}

static int read_point(const char *path, const cJSON *point, struct draw_plan *plan)
{
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(point, "layers"), *item;

    if (reserve(plan, layers))
        return -1;
    cJSON_ArrayForEach(item, layers)
    {
        const cJSON *name = cJSON_GetObjectItemCaseSensitive(item, "layer");
        const cJSON *choice = cJSON_GetObjectItemCaseSensitive(item, "choice");

        if (add(plan, path, cJSON_GetStringValue(name), cJSON_GetStringValue(choice)))
            return -1;
    }
    return 0;
}

int draw_plan_read(const char *path, int nodes, struct draw_plan *out)
{
    cJSON *document;
    const cJSON *points, *point, *by_layer;
    struct strbuf title = {.length = 0};
    int status = json_read_file(path, &document);

    *out = (struct draw_plan){.count = 0};
    if (status)
        return -1;
    points = cJSON_GetObjectItemCaseSensitive(document, "points");
    by_layer = cJSON_GetObjectItemCaseSensitive(document, "scheme_by_layer");
    strbuf_puts(&title, path_base(path));
    if (cJSON_IsObject(by_layer)) {
        status = read_summary(path, by_layer, out);
    } else if (cJSON_IsArray(points)) {
        point = find_point(path, points, nodes);
        status = point ? read_point(path, point, out) : -1;
        if (point)
            strbuf_printf(&title, ", %g node%s", nodes_of(point), nodes_of(point) == 1 ? "" : "s");
    } else {
        status = error_set("%s: it has no schemes of layers; expected what plan --json prints or "
                           "train --summary=FILE writes",
                           path);
    }
    if (status == 0) {
        out->title = strbuf_take(&title);
        status = out->title ? 0 : -1;
    }
    strbuf_free(&title);
    cJSON_Delete(document);
    if (status)
        draw_plan_free(out);
    return status;
}

#else

int draw_plan_read(const char *path, int nodes, struct draw_plan *out)
{
    struct cJSON *document;

    (void)nodes;
    *out = (struct draw_plan){.count = 0};
    return json_read_file(path, &document);
}

#endif
