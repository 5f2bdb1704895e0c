/* Declarations shared by the readers and writers of snapshots. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H

#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/proto.h"
#include "spec/text.h"
#include "util/file.h"

/* Fields of a SolverState. STATE_CURSOR is ours, as are the fields of spec/proto.h. */
enum { STATE_ITER = 1, STATE_NET, STATE_HISTORY, STATE_STEP, STATE_CURSOR = PROTO_OWN };

/* An open model of any form, or the history of an open state. */
struct snapshot_source {
    const char *path;
    bool hdf5; /* HDF5 form: slashes in layer names may be replaced; shared blobs are missing */
    const struct stored_layer *layers;
    int nlayers;
    struct snapshot_owner owner; /* owner that the file names. Owned */
    void *context;
    /* Gets shape and size of a layer's blob, or of a blob of the history (layer SNAPSHOT_HISTORY);
     * returns 1 if the file lacks the blob. NULL: `layers` has shapes and sizes. */
    int (*find)(void *context, int layer, int blob, struct stored_blob *out);
    /* Reads the blob's values. */
    int (*read)(void *context, int layer, int blob, float *out);
    /* Reads the net in the file, in today's form; *out NULL: the file has no net. The function may
     * be NULL for forms that never have a net. */
    int (*net)(void *context, struct text_doc **out);
    void (*close)(void *context);
};
enum { SNAPSHOT_HISTORY = -1 };

/* Open a model of one form. On entry *out is zero but for its path. The caller closes *out by
 * snapshot_close, also after a failure. */
int snapshot_open_hdf5(const char *path, struct snapshot_source *out);
int snapshot_open_binary(const char *path, struct snapshot_source *out);

/* Opens a model in the form that the file's content shows. out: as for snapshot_open_hdf5. */
int snapshot_open(const char *path, struct snapshot_source *out);

/* Frees what an open source holds. */
void snapshot_close(struct snapshot_source *source);

/* Moves the source's owner to the caller, who frees the owner by snapshot_owner_free. */
struct snapshot_owner snapshot_take_owner(struct snapshot_source *source);

/* One text of struct snapshot_owner and its name in files: an attribute in HDF5, a field's number
 * in Caffe's binary form. A model has the first SNAPSHOT_MODEL_TEXTS texts. */
struct snapshot_text {
    const char *name;
    uint32_t field;
    bool of_state; /* solver states have the text */
    size_t place;  /* offset in struct snapshot_owner */
};
enum { SNAPSHOT_MODEL_TEXTS = 4, SNAPSHOT_TEXTS = 9 };
extern const struct snapshot_text snapshot_texts[SNAPSHOT_TEXTS];

/* Returns text number i of an owner; NULL if the text is unset or owner is NULL. */
const char *snapshot_text_of(const struct snapshot_owner *owner, int i);

/* Returns the member for text number i of an owner, to be set. */
char **snapshot_text_in(struct snapshot_owner *owner, int i);

/* Calls source->find, or looks in source->layers. Returns 1 if the file lacks the blob. */
int snapshot_find_blob(const struct snapshot_source *source, int layer, int blob,
                       struct stored_blob *out);

/* Read a state of one form, for snapshot_read_state. On entry *state is all zero; after a failure
 * the caller frees its contents. nhistory SNAPSHOT_PEEK: reads neither history nor checksum. */
enum { SNAPSHOT_PEEK = -1 };
int snapshot_read_state_hdf5(const char *path, struct snapshot_state *state,
                             const struct snapshot_blob *history, int nhistory);
int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory);

/* Compares names, numbers and shapes of all blobs, then reads their values (match.c). */
int snapshot_load_model(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct snapshot_report *report);

/* Compares and reads the history of a state, of which the file has `stored` blobs (match.c). */
int snapshot_load_history(const struct snapshot_source *from, uint64_t stored,
                          const struct snapshot_blob *history, int nhistory);

/* A snapshot's file being written, and the CRC-32C of its bytes so far (checksum.c). */
struct snapshot_output {
    struct file_writer file;
    uint32_t sum;
};

/* Open, fill and close the file; floats are little-endian. snapshot_output_close moves the file
 * into its place, unless `status` is a failure; returns 0 or SNAPSHOT_NOT_WRITTEN. To be called
 * even after snapshot_output_open has failed. what: "model" or "solver state". */
int snapshot_output_open(const char *path, struct snapshot_output *to);
void snapshot_put(struct snapshot_output *to, const void *bytes, size_t count);
void snapshot_put_floats(struct snapshot_output *to, const float *values, size_t count);
int snapshot_output_close(struct snapshot_output *to, int status, const char *what);

/* Writes the last line of an HDF5 snapshot: CHECKSUM_BYTES characters and a NUL (checksum.c). */
enum { CHECKSUM_BYTES = 25 };
void checksum_line(uint32_t sum, char line[CHECKSUM_BYTES + 1]);

/* Fails if a file differs from its checksum (checksum.c). Passes a file that ends where HDF5 says,
 * which others wrote or changed, one of an earlier version, and an unreadable file, whose reader
 * reports the reason. */
int checksum_check(const char *path);

/* Returns the index of the first layer of that name, if possible with parameters; -1: none. */
int snapshot_find_layer(const struct snapshot_layer *layers, int nlayers, const char *name);

/* Returns the count of the layer's blobs that are not shared from another layer. */
int snapshot_owned_blobs(const struct snapshot_layer *layer);

/* Fails if two layers of one name have parameters. path: named in the message. */
int snapshot_check_names(const char *path, const struct snapshot_layer *layers, int nlayers);

#endif
