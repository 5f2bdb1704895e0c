/* Shared by the readers and writers of snapshots. */
#ifndef POSEIDON_SOLVER_SNAPSHOT_INTERNAL_H
#define POSEIDON_SOLVER_SNAPSHOT_INTERNAL_H

#include "snapshot/snapshot.h"
#include "util/h5.h"

/* Whether a file is to be read as Caffe's binary form: it is there and no HDF5 file. */
bool snapshot_is_binary(const char *path);

int snapshot_read_model_binary(const char *path, const struct snapshot_layer *layers, int nlayers,
                               struct snapshot_report *report);
int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory);

/* How many blobs of the layer are its own. */
int snapshot_owned_blobs(const struct snapshot_layer *layer);

/* Fails where two layers of one name have parameters. */
int snapshot_check_names(const char *path, const struct snapshot_layer *layers, int nlayers);

/* Adds a copy of the name to a list of a report. */
int snapshot_report_add(char ***names, int *count, const char *name);

/* The following expect HDF5's lock held. */

/* Whether the file has a link of that name at its top. */
bool snapshot_has(hid_t file, const char *name);

/* Opens the data set `name` for a blob. Where it has another shape, fails with *mismatch and *found
 * set and no message: the caller has Caffe's sentence for its case. */
int snapshot_open_blob(hid_t file, const char *path, const char *name,
                       const struct snapshot_blob *blob, struct h5_dataset *dataset,
                       struct shape *found, bool *mismatch);

#endif
