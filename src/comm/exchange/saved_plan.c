/* The plan in a snapshot: each layer's way, and the sizes of messages, as lines of text. A resumed
 * run with the same plan adds up in the same order and ends in the same bits, whatever a new
 * measurement of the cluster would give. */
#include "exchange/saved_plan.h"

#include <stdio.h>
#include <string.h>

void saved_plan_describe(const struct plan *plan, struct strbuf *out)
{
    const struct plan_sizes *sizes = &plan->options.sizes;

    strbuf_printf(out, "ranks %d servers %d nodes %d chunk %zu merge %zu latency %zu\n",
                  plan->options.nranks, plan->options.servers, plan->nworkers, sizes->chunk,
                  sizes->merge, sizes->latency);
    for (int g = 0; g < plan->ngroups; g++) {
        struct way way = plan_way(plan, g);
        strbuf_printf(out, "%s %s\n", way.scheme ? way_name(way).text : "-", plan->groups[g].name);
    }
}

/* Finds a way by name; "-" is no scheme. Returns false if no way has that name. */
static bool find_way(const struct ways *ways, const char *name, struct way *out)
{
    *out = (struct way){.scheme = NULL};
    for (int w = 0; w < ways->n && !out->scheme; w++)
        if (!strcmp(way_name(ways->way[w]).text, name))
            *out = ways->way[w];
    return out->scheme || !strcmp(name, "-");
}

/* Reads one line "WAY NAME" for each group, in order. */
static bool read_ways(int ngroups, const struct group *groups, const struct ways *ways,
                      const char *line, struct way *way)
{
    char name[sizeof(struct way_text)];

    for (int g = 0; g < ngroups; g++) {
        size_t length = strcspn(line, "\n"), first = strcspn(line, " ");
        if (first >= length || first >= sizeof name ||
            strlen(groups[g].name) != length - first - 1 ||
            strncmp(line + first + 1, groups[g].name, length - first - 1) != 0)
            return false;
        memcpy(name, line, first);
        name[first] = '\0';
        if (!find_way(ways, name, &way[g]))
            return false;
        line += length + (line[length] == '\n');
    }
    return *line == '\0';
}

/* Reads the first line; false if there is none, or for other ranks. */
static bool read_head(const struct plan_options *how, int nodes, const char *text,
                      struct plan_sizes *sizes)
{
    int ranks, servers, saved_nodes;

    return text &&
           sscanf(text, "ranks %d servers %d nodes %d chunk %zu merge %zu latency %zu", &ranks,
                  &servers, &saved_nodes, &sizes->chunk, &sizes->merge, &sizes->latency) == 6 &&
           ranks == how->nranks && servers == how->servers && saved_nodes == nodes;
}

bool saved_plan_read(struct plan_options *how, int nodes, const struct ways *lossy, int ngroups,
                     const struct group *groups, const char *text, struct way *way)
{
    struct plan_sizes sizes = how->sizes;
    struct ways ways;

    if (!read_head(how, nodes, text, &sizes) || sizes.chunk < 4)
        return false;
    ways_list(how->registry, how->wire, lossy, &ways);
    text += strcspn(text, "\n");
    if (!read_ways(ngroups, groups, &ways, text + (*text == '\n'), way))
        return false;
    how->sizes = sizes;
    return true;
}

bool saved_plan_is_apart(const struct plan_options *how, const char *text)
{
    struct plan_sizes sizes;

    return read_head(how, how->nranks - how->servers, text, &sizes);
}
