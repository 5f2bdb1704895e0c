/* Reading a folder, in parts. */
#ifndef POSEIDON_REPORT_RUNS_INTERNAL_H
#define POSEIDON_REPORT_RUNS_INTERNAL_H

#include "report/runs.h"
#include "util/strbuf.h"

/* count 0: it tells no losses. */
int runs_read_log(const char *path, struct run_curve *out);

/* A trace's sends between nodes, its iterations laid over one another, into run->wire. */
struct cJSON;
int runs_read_trace(const struct cJSON *trace, const char *path, struct run *run);

/* Sorts, and works out the speed-ups. */
void runs_order(struct run_table *table);

#endif
