/* --comm, and looking schemes up. All names come from a registry. */
#include "plan/comm.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *help;
    enum comm_policy policy;
} policies[] = {
    {"auto", "for each layer what makes the iteration shortest (default)", COMM_AUTO},
    {"paper", "for each layer ps or sfb, by the paper's rule", COMM_PAPER},
    {"none", "no communication: every rank trains alone (upper bound of speed)", COMM_NONE},
};

enum { POLICIES = sizeof policies / sizeof *policies };

static int parse_rank(const char *text, const char *number, struct comm *out)
{
    enum { MOST = 1024 };
    char end;

    out->text = text;
    if (sscanf(number, "%5d%c", &out->rank, &end) != 1 || out->rank < 1 || out->rank > MOST)
        return error_set("--comm=%s: expected a rank from 1 to %d behind the colon, as %s:%d", text,
                         MOST, out->scheme->name, out->scheme->rank);
    return 0;
}

int comm_parse(const struct scheme *const *registry, const char *text, struct comm *out)
{
    const char *colon = strchr(text, ':');
    struct strbuf names = {.data = NULL};
    char name[64];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(text, ":"), text);
    *out = (struct comm){.policy = COMM_SCHEME, .scheme = scheme_find(registry, name)};
    for (int i = 0; i < POLICIES && !out->scheme; i++)
        if (!strcmp(text, policies[i].name)) {
            out->policy = policies[i].policy;
            return 0;
        }
    if (out->scheme && (!colon || out->scheme->rank > 0))
        return colon ? parse_rank(text, colon + 1, out) : 0;
    for (int i = 0; i < POLICIES; i++)
        strbuf_printf(&names, "%s, ", policies[i].name);
    for (int i = 0; registry[i]; i++)
        strbuf_printf(&names, registry[i + 1] ? "%s, " : "%s", registry[i]->name);
    error_set("--comm=%s: expected one of %s", text, strbuf_text(&names));
    strbuf_free(&names);
    return -1;
}

const char *comm_name(struct comm comm)
{
    for (int i = 0; i < POLICIES; i++)
        if (policies[i].policy == comm.policy)
            return policies[i].name;
    return comm.text ? comm.text : comm.scheme->name;
}

static void append_help(char *out, int indent, const char *name, const char *help)
{
    size_t used = strlen(out);

    snprintf(out + used, COMM_HELP_BYTES - used, "%s%*s%s: %s", used ? "\n" : "", used ? indent : 0,
             "", name, help);
}

void comm_help(const struct scheme *const *registry, int indent, char out[COMM_HELP_BYTES])
{
    *out = '\0';
    for (int i = 0; i < POLICIES; i++)
        append_help(out, indent, policies[i].name, policies[i].help);
    for (int i = 0; registry[i]; i++)
        append_help(out, indent, registry[i]->name, registry[i]->help);
}

int scheme_rank(const struct scheme *scheme, struct comm comm)
{
    return comm.scheme == scheme && comm.rank > 0 ? comm.rank : scheme->rank;
}

const struct scheme *scheme_find(const struct scheme *const *registry, const char *name)
{
    for (int i = 0; registry[i]; i++)
        if (!strcmp(registry[i]->name, name))
            return registry[i];
    return NULL;
}

const struct scheme *scheme_of_factors(const struct scheme *const *registry)
{
    for (int i = 0; registry[i]; i++)
        if (registry[i]->factors && registry[i]->lossless)
            return registry[i];
    return NULL;
}

int scheme_index(const struct scheme *const *registry, const struct scheme *scheme)
{
    for (int i = 0; registry[i]; i++)
        if (registry[i] == scheme)
            return i;
    return -1;
}

const struct scheme *scheme_at(const struct scheme *const *registry, int index)
{
    return index < 0 ? NULL : registry[index];
}

const char *scheme_label(const struct scheme *scheme)
{
    return scheme ? scheme->label : "-";
}

/* Whether factors of that rank are at most half of the matrix. */
static bool fits_rank(const struct group *group, int rank)
{
    double m = (double)group->outputs, n = (double)group->params[0].elems / m;

    return 2 * (m + n) * rank <= m * n;
}

bool scheme_can_move(const struct scheme *scheme, const struct group *group, int rank)
{
    if (!group->trains)
        return false;
    if (rank > 0)
        return group->outputs > 0 && group->params[0].lr_mult != 0 && fits_rank(group, rank);
    return scheme->can_move ? scheme->can_move(group) : !scheme->factors || group->factorable;
}
