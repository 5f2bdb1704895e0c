/* The plan in a snapshot: which scheme moves which layer, and the sizes of messages, as lines of
 * text. A run that goes on as it began adds up in the same order, and ends in the same bits; what
 * the cluster would be measured as today must not change that. */
#include "solver/trainer_internal.h"

#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Every worker is one where they do not add up together. */
static int count_nodes(const struct trainer *t)
{
    return t->nodes.node ? t->nodes.nnodes : t->nworkers;
}

void trainer_describe_plan(const struct trainer *t, struct strbuf *out)
{
    const struct plan *plan = t->plan;

    strbuf_printf(out, "ranks %d servers %d nodes %d chunk %zu merge %zu latency %zu\n", t->nranks,
                  t->options->servers, count_nodes(t), t->sizes.chunk, t->sizes.merge,
                  t->sizes.latency);
    for (int g = 0; g < t->net->ngroups; g++) {
        const struct scheme *scheme = plan->buckets[plan->bucket_of[g]].scheme;
        strbuf_printf(out, "%s %s\n", scheme ? scheme->name : "-", t->net->groups[g].name);
    }
}

/* One line "SCHEME NAME" for each group, in order. */
static bool read_schemes(const struct trainer *t, const char *line, const struct scheme **scheme)
{
    char name[32];

    for (int g = 0; g < t->net->ngroups; g++) {
        size_t length = strcspn(line, "\n"), first = strcspn(line, " ");
        if (first >= length || first >= sizeof name ||
            strlen(t->net->groups[g].name) != length - first - 1 ||
            strncmp(line + first + 1, t->net->groups[g].name, length - first - 1) != 0)
            return false;
        memcpy(name, line, first);
        name[first] = '\0';
        scheme[g] = scheme_find(name);
        if (!scheme[g] && strcmp(name, "-") != 0)
            return false;
        line += length + (line[length] == '\n');
    }
    return *line == '\0';
}

bool trainer_read_plan(const struct trainer *t, const char *text, struct cost_sizes *sizes,
                       const struct scheme **scheme)
{
    struct cost_sizes read = *sizes;
    int ranks, servers, nodes;

    if (!text || sscanf(text, "ranks %d servers %d nodes %d chunk %zu merge %zu latency %zu",
                        &ranks, &servers, &nodes, &read.chunk, &read.merge, &read.latency) != 6)
        return false;
    text += strcspn(text, "\n");
    if (ranks != t->nranks || servers != t->options->servers || read.chunk < 4 ||
        nodes != count_nodes(t) || !read_schemes(t, text + (*text == '\n'), scheme))
        return false;
    *sizes = read;
    return true;
}

bool trainer_kept_apart(const struct trainer *t)
{
    const char *text = t->options->measure ? NULL : t->run.kept_plan;
    int ranks, servers, nodes;

    return text && sscanf(text, "ranks %d servers %d nodes %d", &ranks, &servers, &nodes) == 3 &&
           ranks == t->nranks && servers == t->options->servers && nodes == t->nworkers;
}
