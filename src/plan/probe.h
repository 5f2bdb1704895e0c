/* Measures the cluster at start-up, as training will use it: all ranks at once, each talking to all
 * others. Takes less than two seconds; a file keeps the figures for the next run on the same
 * cluster. */
#ifndef POSEIDON_PLAN_PROBE_H
#define POSEIDON_PLAN_PROBE_H

#include <mpi.h>

#include "device/device.h"
#include "plan/cost.h"
#include "util/topology.h"

struct probe {
    struct cost_cluster cluster;
    int nranks;          /* of the job that was measured */
    int ranks_per_node;  /* the most on any node */
    bool from_file;      /* nothing was measured */
    double took_seconds; /* measuring */
};

/* Measures with the ranks of `world`, which `topology` describes; the slowest rank's figures are
 * everybody's, the same bits on all ranks. engine: whose products are measured, with its memory;
 * NULL on ranks that have none (dedicated servers), but not on all. No thread may use MPI or the
 * engine meanwhile. One rank has no network: its latency is 0 and its link as fast as its copies.
 * Collective. */
int probe_measure(MPI_Comm world, const struct topology *topology, const struct device *device,
                  struct probe *out);

/* Bytes of parameters that a server updates per second in this engine's memory; 0 where that is the
 * host's. Not collective. */
int probe_serving(const struct device *device, double *Bps);

/* Bytes per second between the host's and this engine's memory, the mean of both ways; 0 where they
 * are one. Not collective. */
int probe_copying(const struct device *device, double *Bps);

/* As a server's update on the host is measured: bytes of gradient added to a sum per second. */
int probe_sums(double *Bps);

/* As probe_measure, but figures in `file` for as many ranks, as many of them a node, are taken
 * instead of measuring; else they are measured, and rank 0 writes the file where it `keeps` them. A
 * damaged file is an error, not overwritten. file NULL: measures. Collective. */
int probe_cluster(MPI_Comm world, const struct topology *topology, const struct device *device,
                  const char *file, bool keeps, struct probe *out);

/* The file: lines KEY = NUMBER, # starts a comment. Reading fails with FILE:LINE where a line is
 * none, a key is unknown, twice there or missing, or a figure is out of range. Not collective. */
int probe_read(const char *file, struct probe *out);
int probe_write(const char *file, const struct probe *probe);

/* One figure of the cluster, text: KEY=VALUE with a key of such a file, VALUE in the file's unit or
 * with its own ("latency_seconds=30us"). Messages name the option. */
int probe_set(const char *option, const char *text, struct probe *out);

/* The file's figures by number: the key, what it is, its value; NULL: there are no more. */
const char *probe_figure(const struct probe *probe, int i, const char **about, double *value);

#endif
