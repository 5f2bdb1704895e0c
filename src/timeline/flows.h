/* Arrows through a timeline: a gradient from backward to its send, its receive and the update that
 * it goes into; parameters (or the sum) from there to their send, their receive and the wait or the
 * forward pass that wants them. Private to src/timeline. */
#ifndef POSEIDON_TIMELINE_FLOWS_H
#define POSEIDON_TIMELINE_FLOWS_H

#include "timeline/merge.h"

/* A point within a span: rank `rank`, event `event` of it, at its end or its start. */
struct flow_point {
    int rank;
    size_t event;
    bool at_end;
};

enum { FLOW_POINTS = 4 };

/* Whether a transfer brings back what a home has made of gradients. */
bool flow_is_back(const struct trace_event *transfer);

typedef void flow_put_fn(void *context, bool back, const struct flow_point *points, int n);

/* Calls `put` for every message whose send and receive are there, with two to four points in the
 * order of time. After timeline_pair and timeline_lay_out. Fails for want of memory. */
int flows_put(const struct timeline_rank *ranks, int nranks, flow_put_fn *put, void *context);

#endif
