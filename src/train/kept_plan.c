/* The plan in a snapshot: in which way each layer travels, and the sizes of messages, as lines of
 * text. A run that goes on as it began adds up in the same order, and ends in the same bits; what
 * the cluster would be measured as today must not change that. */
#include "train/exchange.h"

#include <stdio.h>
#include <string.h>

/* Every worker is one where they do not add up together. */
static int count_nodes(const struct exchange *exchange, const struct job *job)
{
    return exchange->nodes.node ? exchange->nodes.nnodes : job->nworkers;
}

void kept_plan_describe(const struct exchange *exchange, const struct job *job,
                        const struct net *net, struct strbuf *out)
{
    strbuf_printf(out, "ranks %d servers %d nodes %d chunk %zu merge %zu latency %zu\n",
                  job->nranks, job->options->servers, count_nodes(exchange, job),
                  exchange->sizes.chunk, exchange->sizes.merge, exchange->sizes.latency);
    for (int g = 0; g < net->ngroups; g++) {
        struct way way = plan_way(exchange->plan, g);
        strbuf_printf(out, "%s %s\n", way.scheme ? way_name(way).text : "-", net->groups[g].name);
    }
}

/* "-" is no scheme. False: nothing that may be chosen has that name. */
static bool find_way(const struct ways *ways, const char *name, struct way *out)
{
    *out = (struct way){.scheme = NULL};
    for (int w = 0; w < ways->n && !out->scheme; w++)
        if (!strcmp(way_name(ways->way[w]).text, name))
            *out = ways->way[w];
    return out->scheme || !strcmp(name, "-");
}

/* One line "WAY NAME" for each group, in order. */
static bool read_ways(const struct net *net, const struct ways *ways, const char *line,
                      struct way *way)
{
    char name[sizeof(struct way_text)];

    for (int g = 0; g < net->ngroups; g++) {
        size_t length = strcspn(line, "\n"), first = strcspn(line, " ");
        if (first >= length || first >= sizeof name ||
            strlen(net->groups[g].name) != length - first - 1 ||
            strncmp(line + first + 1, net->groups[g].name, length - first - 1) != 0)
            return false;
        memcpy(name, line, first);
        name[first] = '\0';
        if (!find_way(ways, name, &way[g]))
            return false;
        line += length + (line[length] == '\n');
    }
    return *line == '\0';
}

/* The first line; false: there is none, or of other ranks. */
static bool read_head(const struct job *job, const char *text, int *nodes, struct cost_sizes *sizes)
{
    int ranks, servers;

    return text &&
           sscanf(text, "ranks %d servers %d nodes %d chunk %zu merge %zu latency %zu", &ranks,
                  &servers, nodes, &sizes->chunk, &sizes->merge, &sizes->latency) == 6 &&
           ranks == job->nranks && servers == job->options->servers;
}

bool kept_plan_read(const struct exchange *exchange, const struct job *job, const struct net *net,
                    const char *text, struct cost_sizes *sizes, struct way *way)
{
    struct cost_sizes read = *sizes;
    struct ways ways;
    int nodes;

    if (!read_head(job, text, &nodes, &read) || read.chunk < 4 ||
        nodes != count_nodes(exchange, job))
        return false;
    ways_list(sync_schemes, job->options->wire, &job->options->lossy, &ways);
    text += strcspn(text, "\n");
    if (!read_ways(net, &ways, text + (*text == '\n'), way))
        return false;
    *sizes = read;
    return true;
}

bool kept_plan_is_apart(const struct job *job, const char *text)
{
    struct cost_sizes sizes;
    int nodes;

    return !job->options->measure && read_head(job, text, &nodes, &sizes) && nodes == job->nworkers;
}
