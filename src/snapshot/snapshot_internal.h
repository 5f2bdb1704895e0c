/* Shared by the readers and writers of snapshots. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H

#include "snapshot/snapshot.h"
#include "spec/modelfile.h"

/* Each form's half of snapshot_read_model and snapshot_read_state. *report and *state come in all
 * zero; after a failure the caller frees what was put into them. */
int snapshot_read_model_hdf5(const char *path, const struct snapshot_layer *layers, int nlayers,
                             struct snapshot_report *report);
int snapshot_read_model_binary(const char *path, const struct snapshot_layer *layers, int nlayers,
                               struct snapshot_report *report);
/* nhistory SNAPSHOT_PEEK: neither history nor checksum. */
enum { SNAPSHOT_PEEK = -1 };
int snapshot_read_state_hdf5(const char *path, struct snapshot_state *state,
                             const struct snapshot_blob *history, int nhistory);
int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory);

/* A file of either form, open: what it has of a model's layers, or of a state's history. */
struct snapshot_source {
    const char *path;
    bool hdf5; /* slashes of names may be replaced; shared blobs are not there */
    const struct stored_layer *layers; /* of their blobs only the number counts here */
    int nlayers;
    void *context;
    /* Of blob `blob` of a layer, or of the history: its shape and size; 1: it is not there. */
    int (*find)(void *context, int layer, int blob, struct stored_blob *out);
    int (*read)(void *context, int layer, int blob, float *out);
};
enum { SNAPSHOT_HISTORY = -1 };

/* match.c: compares all, then reads into layers or history, of which the file has `stored`. */
int snapshot_load_model(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct snapshot_report *report);
int snapshot_load_history(const struct snapshot_source *from, uint64_t stored,
                          const struct snapshot_blob *history, int nhistory);

/* The floats as little-endian bytes. */
void snapshot_store_floats(unsigned char *bytes, const float *values, size_t count);

/* How many blobs of the layer are its own. */
int snapshot_owned_blobs(const struct snapshot_layer *layer);

/* Fails where two layers of one name have parameters. */
int snapshot_check_names(const char *path, const struct snapshot_layer *layers, int nlayers);

/* Adds a copy of the name to a list of a report. */
int snapshot_report_add(char ***names, int *count, const char *name);

#endif
