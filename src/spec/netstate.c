/* Which layers are in the net of a state. */
#include "spec/netdef.h"

#include "util/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct net_state net_state_make(int phase)
{
    return (struct net_state){.phase = phase};
}

int net_state_add_stage(struct net_state *state, const char *stage)
{
    const char **grown = realloc(state->stages, (state->nstages + 1) * sizeof *grown);

    if (grown == NULL)
        return error_memory((state->nstages + 1) * sizeof *grown, "stages");
    state->stages = grown;
    state->stages[state->nstages++] = stage;
    return 0;
}

int net_state_merge(struct net_state *state, const Caffe__NetState *with)
{
    if (with == NULL)
        return 0;
    if (with->has_phase)
        state->phase = with->phase;
    if (with->has_level)
        state->level = with->level;
    for (size_t i = 0; i < with->n_stage; i++)
        if (net_state_add_stage(state, with->stage[i]))
            return -1;
    return 0;
}

void net_state_free(struct net_state *state)
{
    free(state->stages);
    state->stages = NULL;
    state->nstages = 0;
}

static bool has_stage(const struct net_state *state, const char *stage)
{
    for (size_t i = 0; i < state->nstages; i++)
        if (strcmp(state->stages[i], stage) == 0)
            return true;
    return false;
}

static bool meets(const struct net_state *state, const Caffe__NetStateRule *rule)
{
    if (rule->has_phase && (int)rule->phase != state->phase)
        return false;
    if (rule->has_min_level && state->level < rule->min_level)
        return false;
    if (rule->has_max_level && state->level > rule->max_level)
        return false;
    for (size_t i = 0; i < rule->n_stage; i++)
        if (!has_stage(state, rule->stage[i]))
            return false;
    for (size_t i = 0; i < rule->n_not_stage; i++)
        if (has_stage(state, rule->not_stage[i]))
            return false;
    return true;
}

int net_state_admits(const struct net_state *state, const Caffe__LayerParameter *layer, bool *in)
{
    bool excludes = layer->n_exclude > 0;
    size_t count = excludes ? layer->n_exclude : layer->n_include;
    Caffe__NetStateRule **rules = excludes ? layer->exclude : layer->include;

    if (layer->n_include > 0 && excludes)
        return error_set("expected include rules or exclude rules, found both");
    *in = excludes || count == 0;
    for (size_t i = 0; i < count; i++)
        if (meets(state, rules[i]))
            *in = !excludes;
    return 0;
}
