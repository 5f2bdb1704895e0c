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

int comm_parse(const struct scheme *const *registry, const char *text, struct comm *out)
{
    struct strbuf names = {.data = NULL};

    *out = (struct comm){.policy = COMM_SCHEME, .scheme = scheme_find(registry, text)};
    for (int i = 0; i < POLICIES && !out->scheme; i++)
        if (!strcmp(text, policies[i].name)) {
            out->policy = policies[i].policy;
            return 0;
        }
    if (out->scheme)
        return 0;
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
    return comm.scheme->name;
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

bool scheme_can_move(const struct scheme *scheme, const struct group *group)
{
    if (!group->trains)
        return false;
    return scheme->can_move ? scheme->can_move(group) : !scheme->factors || group->factorable;
}
