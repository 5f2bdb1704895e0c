/* Shared by the readers and writers of snapshots. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_INTERNAL_H

#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/proto.h"
#include "spec/text.h"

#define SAFETENSORS ".safetensors"

/* Fields of a SolverState; the last is ours, as those of spec/proto.h. */
enum { STATE_ITER = 1, STATE_NET, STATE_HISTORY, STATE_STEP, STATE_CURSOR = PROTO_OWN };

/* A model of any form, open: what it has of layers; or what a state has of the history. */
struct snapshot_source {
    const char *path;
    bool hdf5; /* slashes of names may be replaced; shared blobs are not there */
    const struct stored_layer *layers;
    int nlayers;
    struct snapshot_owner owner; /* as it says. Owned */
    void *context;
    /* Of blob `blob` of a layer, or of the history: its shape and size; 1: it is not there. NULL:
     * `layers` has them; one that is not there ends at 0. */
    int (*find)(void *context, int layer, int blob, struct stored_blob *out);
    int (*read)(void *context, int layer, int blob, float *out);
    /* The net that comes with it, in today's form; *out NULL: none. NULL: it never has one. */
    int (*net)(void *context, struct text_doc **out);
    void (*close)(void *context);
};
enum { SNAPSHOT_HISTORY = -1 };

/* Opens a model of each form; *out is all zero but for its path. To be closed in either case. */
int snapshot_open_hdf5(const char *path, struct snapshot_source *out);
int snapshot_open_binary(const char *path, struct snapshot_source *out);
int snapshot_open_safetensors(const char *path, struct snapshot_source *out);

/* The same of whichever form it has, as its content shows. */
int snapshot_open(const char *path, struct snapshot_source *out);
void snapshot_close(struct snapshot_source *source);

/* What the model says of itself, from now on the caller's. */
struct snapshot_owner snapshot_take_owner(struct snapshot_source *source);

/* What models and states say of themselves in all forms: in HDF5 and .safetensors by name, in
 * Caffe's binary form by the number of a field. place: of the text in a struct snapshot_owner. A
 * model has the first SNAPSHOT_MODEL_TEXTS of them. */
struct snapshot_text {
    const char *name;
    uint32_t field;
    bool of_state;
    size_t place;
};
enum { SNAPSHOT_MODEL_TEXTS = 4, SNAPSHOT_TEXTS = 9 };
extern const struct snapshot_text snapshot_texts[SNAPSHOT_TEXTS];

/* Text number i, to be read or set; owner NULL: of nobody. */
const char *snapshot_text_of(const struct snapshot_owner *owner, int i);
char **snapshot_text_in(struct snapshot_owner *owner, int i);

/* As source->find, whether it is there or not. */
int snapshot_find_blob(const struct snapshot_source *source, int layer, int blob,
                       struct stored_blob *out);

/* Whether a file begins as a .safetensors. */
bool snapshot_is_safetensors(const char *path);

/* Each form's half of snapshot_read_state. *state comes in all zero; after a failure the caller
 * frees what was put into it. nhistory SNAPSHOT_PEEK: neither history nor checksum. */
enum { SNAPSHOT_PEEK = -1 };
int snapshot_read_state_hdf5(const char *path, struct snapshot_state *state,
                             const struct snapshot_blob *history, int nhistory);
int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory);

/* match.c: compares all, then reads into layers or history, of which the file has `stored`. */
int snapshot_load_model(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct snapshot_report *report);
int snapshot_load_history(const struct snapshot_source *from, uint64_t stored,
                          const struct snapshot_blob *history, int nhistory);

/* checksum.c: of `length` bytes, CHECKSUM_BYTES of text and a NUL; and a comparison of a file with
 * its own. One without (Caffe's) passes, and one that cannot be read: who reads it says why. */
enum { CHECKSUM_BYTES = 81 };
void checksum_line(const void *bytes, size_t length, char line[CHECKSUM_BYTES + 1]);
int checksum_check(const char *path);

/* The floats as little-endian bytes. */
void snapshot_store_floats(unsigned char *bytes, const float *values, size_t count);

/* The layer that a name means: of several the first with parameters; -1: none. */
int snapshot_find_layer(const struct snapshot_layer *layers, int nlayers, const char *name);

/* How many blobs of the layer are its own. */
int snapshot_owned_blobs(const struct snapshot_layer *layer);

/* Fails where two layers of one name have parameters. */
int snapshot_check_names(const char *path, const struct snapshot_layer *layers, int nlayers);

#endif
