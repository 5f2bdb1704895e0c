/* Decides which layers belong to the net of a state. */
#include "spec/netdef.h"

#include "util/alloc.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int net_state_merge(struct net_state *state, const Caffe__NetState *with)
{
    if (with == NULL)
        return 0;
    if (with->has_phase)
        state->phase = with->phase;
    if (with->has_level)
        state->level = with->level;
    for (size_t i = 0; i < with->n_stage; i++) {
        if (ALLOC_ROOM(state->stages, state->nstages, "stages"))
            return -1;
        state->stages[state->nstages++] = with->stage[i];
    }
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

/* Appends all conditions of a rule. */
static void describe_rule(const Caffe__NetStateRule *rule, char *out, size_t bytes)
{
    const size_t before = strlen(out);

    if (rule->has_phase)
        buffer_printf(out, bytes, "in phase %s, ",
                      rule->phase == CAFFE__PHASE__TRAIN ? "TRAIN" : "TEST");
    if (rule->has_min_level)
        buffer_printf(out, bytes, "at level %d and above, ", (int)rule->min_level);
    if (rule->has_max_level)
        buffer_printf(out, bytes, "at level %d and below, ", (int)rule->max_level);
    for (size_t i = 0; i < rule->n_stage; i++)
        buffer_printf(out, bytes, "with stage '%s', ", rule->stage[i]);
    for (size_t i = 0; i < rule->n_not_stage; i++)
        buffer_printf(out, bytes, "without stage '%s', ", rule->not_stage[i]);
    if (strlen(out) == before)
        buffer_printf(out, bytes, "in any net, ");
    out[strlen(out) - 2] = '\0'; /* the last comma */
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

bool net_state_explain(const struct net_state *state, const Caffe__LayerParameter *layer, char *out,
                       size_t bytes)
{
    Caffe__NetStateRule **rules = layer->n_exclude > 0 ? layer->exclude : layer->include;
    size_t count = layer->n_exclude > 0 ? layer->n_exclude : layer->n_include;
    bool phase = count > 0, stage = false, level = false;
    const char *between = layer->n_exclude > 0 ? "not " : "only ";

    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        if (layer->n_exclude > 0 && !meets(state, rules[i]))
            continue;
        buffer_printf(out, bytes, "%s", between);
        describe_rule(rules[i], out, bytes);
        between = " or ";
        if (rules[i]->has_phase && (int)rules[i]->phase != state->phase)
            continue;
        phase = false;
        stage = stage || rules[i]->n_stage > 0 || rules[i]->n_not_stage > 0;
        level = level || rules[i]->has_min_level || rules[i]->has_max_level;
    }
    if (stage || level)
        buffer_printf(out, bytes, "; see %s%s%s, or train_state and test_state in a solver",
                      stage ? "--stage" : "", stage && level ? ", " : "", level ? "--level" : "");
    else if (phase)
        buffer_printf(out, bytes,
                      "; with --phase=%s, summary and others take the net of that phase",
                      state->phase == CAFFE__PHASE__TRAIN ? "TEST" : "TRAIN");
    return stage || level;
}
