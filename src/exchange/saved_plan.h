/* A plan as text, for a run that goes on from a snapshot or a state. */
#ifndef POSEIDON_EXCHANGE_SAVED_PLAN_H
#define POSEIDON_EXCHANGE_SAVED_PLAN_H

#include "plan/plan.h"
#include "util/strbuf.h"

/* The plan's ranks, sizes and ways, in lines. */
void saved_plan_describe(const struct plan *plan, struct strbuf *out);

/* The same back, into `way`, of ngroups places, and how->sizes, but for the window: false, and
 * nothing is changed but `way`, where the text is of other ranks (nodes: how many there are now,
 * every worker one where they do not add up together) or groups, has what may not be chosen now, or
 * is NULL. how: registry, wire, nranks and servers are read. */
bool saved_plan_read(struct plan_options *how, int nodes, const struct ways *lossy, int ngroups,
                     const struct group *groups, const char *text, struct way *way);

/* Whether a run with that plan, or NULL, had the same ranks, and none of them added up together. */
bool saved_plan_is_apart(const struct plan_options *how, const char *text);

#endif
