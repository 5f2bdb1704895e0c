/* A plan as text in a snapshot or a library's state, so that a resumed run keeps its schemes. */
#ifndef POSEIDON_EXCHANGE_SAVED_PLAN_H
#define POSEIDON_EXCHANGE_SAVED_PLAN_H

#include "plan/plan.h"
#include "util/strbuf.h"

/* Appends the plan's ranks, sizes and the way of each group, one a line. */
void saved_plan_describe(const struct plan *plan, struct strbuf *out);

/* Reads a saved plan's text into `way` (ngroups places) and how->sizes without the window. Returns
 * false, and leaves `how` unchanged, if the text is NULL, of other ranks, nodes or groups, or has a
 * scheme that may not be chosen now. nodes: number of nodes now, each worker a node of its own if
 * workers do not add up together. Reads how->registry, wire, nranks and servers. */
bool saved_plan_read(struct plan_options *how, int nodes, const struct ways *lossy, int ngroups,
                     const struct group *groups, const char *text, struct way *way);

/* True if the run of the saved plan had the same ranks, each a node of its own. False for NULL. */
bool saved_plan_is_apart(const struct plan_options *how, const char *text);

#endif
