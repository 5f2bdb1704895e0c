/* Runs that are over, read back: what `train --summary`, `train --trace`, its log and
 * `simulate --json` say of them. A folder is a table: its runs are of one net with one batch, by
 * several schemes, on several numbers of nodes, over one or more speeds of links. Not collective.
 *
 * In the folder count:
 *     *.json         a summary of train; rows of simulate; a trace of train, named after its
 *                    summary: a.json, a.trace.json
 *     *.log          what train says while it trains: one that tells losses becomes a curve
 *     about.json     of all of them: "how" (measured, emulated), "title", and values for keys that
 *                    summaries do not have, such as "link_bytes_per_second" */
#ifndef POSEIDON_REPORT_RUNS_H
#define POSEIDON_REPORT_RUNS_H

#include <stdbool.h>
#include <stddef.h>

enum run_how {
    RUN_MEASURED, /* processes, messages and computation were real */
    RUN_EMULATED, /* computation was replayed, or the hosts and links were made of one machine */
    RUN_SIMULATED /* on a virtual clock */
};

/* Of what is not known, doubles are NAN. Bytes and seconds are those of one iteration. */
struct run {
    char *file;       /* where it was read; owned */
    char *net, *comm; /* owned */
    enum run_how how;
    int nodes, workers;
    int size;     /* what tables and plots go over: nodes, or workers (run_table.by_workers) */
    double batch; /* images of one worker in one iteration */
    double parameters;
    double link_Bps;
    double seconds, images_per_second;
    double speedup; /* over one worker; see runs.c */
    double stall_share;
    double bytes_sent, bytes_most; /* by a node, mean; by the rank that sends most */
    double *wire;                  /* bytes a node sends in each nwire-th; owned; NULL: not known */
    int nwire;
};

/* Losses that a log tells. */
struct run_curve {
    char *name; /* the file's, without ".log"; owned */
    int count;
    double *iteration, *seconds, *loss; /* seconds since training began; owned */
};

struct run_table {
    char *folder, *name, *title; /* name: the folder's last part; title: about.json's; owned */
    bool by_workers; /* runs of one scheme differ in workers, not in nodes: on one machine */
    int nruns;
    struct run *runs; /* in the order of speed of links, how, scheme, nodes; owned */
    int ncurves;
    struct run_curve *curves; /* owned */
};

const char *run_how_name(enum run_how how);

/* What sizes count: "node" or "rank". */
const char *runs_unit(const struct run_table *table);

/* Fails, naming the file, where the folder has no run, a file is damaged, a field is missing or two
 * runs do not belong to one table. out is freed then. */
int runs_read(const char *folder, struct run_table *out);
void runs_free(struct run_table *table);

/* Whether a and b differ in size alone. */
bool runs_same_series(const struct run *a, const struct run *b);
bool runs_same_link(const struct run *a, const struct run *b);
bool runs_same_scheme(const struct run *a, const struct run *b); /* and how it was obtained */

/* The busiest interval over the mean one; NAN where the intervals are not known. */
double runs_peak(const struct run *run);

/* The number of nodes that bars show: the largest that every scheme but `none` has on that link;
 * 0: there is none. */
int runs_common_nodes(const struct run_table *table, const struct run *link);

/* Whether runs on that many nodes are a sweep over bandwidth: they have at least two speeds of
 * links, and no other number of nodes has more; or the table is one of sweeps. */
bool runs_is_sweep(const struct run_table *table, int nodes);

/* Whether there are more speeds of links with several numbers of nodes than numbers of nodes: then
 * the table shows sweeps alone. */
bool runs_all_sweeps(const struct run_table *table);

/* Whether the run is the first of its scheme's, of at least two, in the sweep of that many nodes.
 */
bool runs_begins_sweep(const struct run_table *table, const struct run *run, int nodes);

/* Whether there is more than one number of nodes on the run's link. */
bool runs_link_scales(const struct run_table *table, const struct run *link);

#endif
