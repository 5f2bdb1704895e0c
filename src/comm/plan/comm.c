/* Parses --comm and --lossy, and looks schemes up. All names come from a registry. */
#include "plan/for_schemes.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *help;
    enum comm_policy policy;
} policies[] = {
    {"auto", "for each layer the scheme that makes the iteration shortest (default)", COMM_AUTO},
    {"paper", "for each layer ps or sfb, by the paper's rule", COMM_PAPER},
    {"none", "no communication: every rank trains alone (upper bound of speed)", COMM_NONE},
};

enum { POLICIES = sizeof policies / sizeof *policies };

/* Parses "NAME" or "NAME:RANK" from an option's value. An unknown name makes out->scheme NULL. */
static int parse_scheme(const struct scheme *const *registry, const char *option, const char *value,
                        const char *word, struct way *out)
{
    enum { MOST = 1024 };
    const char *colon = strchr(word, ':');
    char name[64], end;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, ":"), word);
    *out = (struct way){.scheme = scheme_find(registry, name)};
    if (colon && out->scheme && out->scheme->rank == 0)
        out->scheme = NULL;
    if (!out->scheme)
        return 0;
    out->rank = out->scheme->rank;
    if (colon &&
        (sscanf(colon + 1, "%5d%c", &out->rank, &end) != 1 || out->rank < 1 || out->rank > MOST))
        return error_set("%s=%s: expected a rank from 1 to %d behind the colon, as %s:%d", option,
                         value, MOST, name, out->scheme->rank);
    return 0;
}

int comm_parse(const struct scheme *const *registry, const char *option, const char *text,
               struct comm *out)
{
    struct strbuf names = {.data = NULL};
    struct way way;
    int status = parse_scheme(registry, option, text, text, &way);

    *out = (struct comm){.policy = COMM_SCHEME, .scheme = way.scheme};
    if (status)
        return -1;
    for (int i = 0; i < POLICIES && !out->scheme; i++)
        if (!strcmp(text, policies[i].name)) {
            out->policy = policies[i].policy;
            return 0;
        }
    if (strchr(text, ':')) {
        out->rank = way.rank;
        out->text = text;
    }
    if (out->scheme)
        return 0;
    for (int i = 0; i < POLICIES; i++)
        strbuf_printf(&names, "%s, ", policies[i].name);
    for (int i = 0; registry[i]; i++)
        strbuf_printf(&names, registry[i + 1] ? "%s, " : "%s", registry[i]->name);
    error_set("%s=%s: expected one of %s", option, text, strbuf_text(&names));
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

/* ---- ways ---- */

bool scheme_takes_bf16(const struct scheme *scheme)
{
    return scheme->factors || scheme->codec == plan_wire_codec;
}

static struct way_text print_way(struct way way, const char *scheme, char rank, char wire)
{
    struct way_text out;
    int at = snprintf(out.text, sizeof out.text, "%.20s", scheme);

    if (way.rank > 0)
        at += sprintf(out.text + at, "%c%d", rank, way.rank % 10000);
    if (way.wire == WIRE_BF16)
        sprintf(out.text + at, "%cbf16", wire);
    return out;
}

struct way_text way_name(struct way way)
{
    return print_way(way, way.scheme ? way.scheme->name : "none", ':', '/');
}

struct way_text way_label(struct way way)
{
    return print_way(way, scheme_label(way.scheme), ' ', ' ');
}

int ways_find(const struct ways *ways, struct way way)
{
    for (int i = 0; i < ways->n; i++)
        if (way_is(ways->way[i], way))
            return i;
    return -1;
}

static int refuse_lossy(const struct scheme *const *registry, const char *option, const char *text,
                        const char *word)
{
    struct strbuf names = {.data = NULL};

    for (int i = 0; registry[i]; i++)
        if (registry[i]->lossy)
            strbuf_printf(&names, registry[i]->rank > 0 ? ", %s:R" : ", %s", registry[i]->name);
    error_set("%s=%s: unknown word '%s'; expected some of bf16%s", option, text, word,
              strbuf_text(&names));
    strbuf_free(&names);
    return -1;
}

int ways_parse_lossy(const struct scheme *const *registry, const char *option, const char *text,
                     struct ways *out)
{
    enum { MOST = 8 };
    char word[32];

    *out = (struct ways){.text = text};
    for (const char *at = text, *end; at; at = *end ? end + 1 : NULL) {
        struct way way = {.wire = WIRE_BF16};
        end = at + strcspn(at, ",+");
        snprintf(word, sizeof word, "%.*s", (int)(end - at), at);
        if (strcmp(word, "bf16") && parse_scheme(registry, option, text, word, &way))
            return -1;
        if (way.wire != WIRE_BF16 && !(way.scheme && way.scheme->lossy))
            return refuse_lossy(registry, option, text, word);
        if (ways_find(out, way) >= 0)
            return error_set("%s=%s: '%s' appears twice; give it once", option, text, word);
        if (out->n == MOST)
            return error_set("%s=%s: expected at most %d words", option, text, MOST);
        out->way[out->n++] = way;
    }
    return 0;
}

/* Adds the way; without a scheme, adds all lossless schemes. */
static void add_ways(const struct scheme *const *registry, struct way way, struct ways *out)
{
    for (int i = 0; registry[i]; i++) {
        struct way candidate = {.scheme = registry[i], .rank = way.rank};
        if (scheme_takes_bf16(registry[i]))
            candidate.wire = way.wire;
        if (way.scheme ? way.scheme != registry[i] : !registry[i]->lossless)
            continue;
        assert(out->n < WAYS_MOST);
        if (ways_find(out, candidate) < 0)
            out->way[out->n++] = candidate;
    }
}

int ways_list(const struct scheme *const *registry, enum wire_format wire, const struct ways *lossy,
              struct ways *out)
{
    int exact;

    out->n = 0;
    add_ways(registry, (struct way){.wire = wire}, out);
    exact = out->n;
    for (int i = 0; lossy && i < lossy->n; i++)
        add_ways(registry, lossy->way[i], out);
    return exact;
}

/* Returns true if factors of that rank have at most half of the matrix's elements. */
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
