/* Shared by the readers and writers of snapshots. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H

#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/proto.h"
#include "spec/text.h"

/* Fields of a SolverState; the last is ours, as those of spec/proto.h. */
enum { STATE_ITER = 1, STATE_NET, STATE_HISTORY, STATE_STEP, STATE_CURSOR = PROTO_OWN };

/* An open model of any form, or the history of an open state. */
struct snapshot_source {
    const char *path;
    bool hdf5; /* slashes in layer names may be replaced; shared blobs are missing */
    const struct stored_layer *layers;
    int nlayers;
    struct snapshot_owner owner; /* from the file. Owned */
    void *context;
    /* Shape and size of a layer's blob, or of a blob of the history (layer SNAPSHOT_HISTORY);
     * returns 1 if the file lacks it. NULL: `layers` has shapes and sizes. */
    int (*find)(void *context, int layer, int blob, struct stored_blob *out);
    /* Reads the blob's values. */
    int (*read)(void *context, int layer, int blob, float *out);
    /* The net in the file, in today's form; *out NULL: the file has none. The function may be NULL
     * for forms that never have a net. */
    int (*net)(void *context, struct text_doc **out);
    void (*close)(void *context);
};
enum { SNAPSHOT_HISTORY = -1 };

/* Open a model of one form. *out comes in zeroed but for its path; the caller closes it by
 * snapshot_close, also after a failure. */
int snapshot_open_hdf5(const char *path, struct snapshot_source *out);
int snapshot_open_binary(const char *path, struct snapshot_source *out);

/* Opens a model of any form, which the file's content shows; likewise. */
int snapshot_open(const char *path, struct snapshot_source *out);

/* Frees what an open source holds. */
void snapshot_close(struct snapshot_source *source);

/* Moves the source's owner to the caller, who frees it by snapshot_owner_free. */
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

/* Text number i of an owner; NULL if it is unset or owner is NULL. */
const char *snapshot_text_of(const struct snapshot_owner *owner, int i);

/* Text number i of an owner, to be set. */
char **snapshot_text_in(struct snapshot_owner *owner, int i);

/* Calls source->find, or looks in source->layers. Returns 1 if the file lacks the blob. */
int snapshot_find_blob(const struct snapshot_source *source, int layer, int blob,
                       struct stored_blob *out);

/* Each form's half of snapshot_read_state. *state comes in all zero; after a failure the caller
 * frees what was put into it. nhistory SNAPSHOT_PEEK: neither history nor checksum. */
enum { SNAPSHOT_PEEK = -1 };
int snapshot_read_state_hdf5(const char *path, struct snapshot_state *state,
                             const struct snapshot_blob *history, int nhistory);
int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory);

/* match.c: compares names, numbers and shapes of all blobs, then reads their values. */
int snapshot_load_model(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct snapshot_report *report);

/* match.c: likewise for the history of a state, of which the file has `stored` blobs. */
int snapshot_load_history(const struct snapshot_source *from, uint64_t stored,
                          const struct snapshot_blob *history, int nhistory);

/* checksum.c: writes the checksum line of `length` bytes, CHECKSUM_BYTES characters and a NUL. */
enum { CHECKSUM_BYTES = 81 };
void checksum_line(const void *bytes, size_t length, char line[CHECKSUM_BYTES + 1]);

/* checksum.c: fails if a file differs from its checksum. A file without one (Caffe's) passes, and a
 * file that cannot be read, since its reader reports the reason. */
int checksum_check(const char *path);

/* The index of the layer of that name, of several the first with parameters; -1: none. */
int snapshot_find_layer(const struct snapshot_layer *layers, int nlayers, const char *name);

/* How many blobs of the layer are not shared from another layer. */
int snapshot_owned_blobs(const struct snapshot_layer *layer);

/* Fails if two layers of one name have parameters; `path` is for the message. */
int snapshot_check_names(const char *path, const struct snapshot_layer *layers, int nlayers);

#endif
