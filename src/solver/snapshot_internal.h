/* Shared by the two readers of snapshots. HDF5's lock is held by the caller. */
#ifndef POSEIDON_SOLVER_SNAPSHOT_INTERNAL_H
#define POSEIDON_SOLVER_SNAPSHOT_INTERNAL_H

#include "solver/snapshot.h"
#include "util/h5.h"

/* Whether the file has a link of that name at its top. */
bool snapshot_has(hid_t file, const char *name);

/* Opens the data set `name` for a blob. Where it has another shape, fails with *mismatch and *found
 * set and no message: the caller has Caffe's sentence for its case. */
int snapshot_open_blob(hid_t file, const char *path, const char *name,
                       const struct snapshot_blob *blob, struct h5_dataset *dataset,
                       struct shape *found, bool *mismatch);

#endif
