/* Measures the cluster at start-up as training uses it: all ranks at once, each talking to all
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
    int nranks;          /* ranks of the measured job */
    int ranks_per_node;  /* most ranks on any node */
    bool from_file;      /* true if figures are read, not measured */
    double took_seconds; /* duration of the measurement */
};

/* Measures the cluster with the ranks of `world`, which `topology` describes. All ranks get the
 * same bits: the slowest rank's figures. engine: has its products and memory measured; NULL on
 * ranks without one (dedicated servers), but not on all. No thread may use MPI or the engine
 * meanwhile. A single rank gets latency 0 and a link as fast as its copies. Collective. */
int probe_measure(MPI_Comm world, const struct topology *topology, const struct device *device,
                  struct probe *out);

/* Measures the bytes of parameters per second that a server updates in engine memory; 0 where that
 * is the host's memory. Not collective. */
int probe_serving(const struct device *device, double *Bps);

/* Measures the bytes per second between host and engine memory, the mean of both ways; 0 where both
 * are the same memory. Not collective. */
int probe_copying(const struct device *device, double *Bps);

/* Measures the bytes of gradient per second that the host adds to a sum. Not collective. */
int probe_sums(double *Bps);

/* Reads figures from `file` if they are of as many ranks, as many of them a node; otherwise
 * measures as probe_measure does, and rank 0 writes the file if `keeps`. A damaged file is an
 * error, not overwritten. file NULL: measures. Collective. */
int probe_cluster(MPI_Comm world, const struct topology *topology, const struct device *device,
                  const char *file, bool keeps, struct probe *out);

/* Read and write the file: lines KEY = NUMBER, # starts a comment. Reading fails with FILE:LINE at
 * a malformed line, an unknown, double or missing key, a figure out of range. Not collective. */
int probe_read(const char *file, struct probe *out);
int probe_write(const char *file, const struct probe *probe);

/* Sets a figure of the cluster from KEY=VALUE: a key of the file, VALUE in the file's unit or with
 * its own ("latency_seconds=30us"). Messages name the option. */
int probe_set(const char *option, const char *text, struct probe *out);

/* Returns the key of the file's figure i, its description and value; NULL: no more figures. */
const char *probe_figure(const struct probe *probe, int i, const char **about, double *value);

#endif
