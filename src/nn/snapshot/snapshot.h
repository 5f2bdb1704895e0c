/* Snapshots in Caffe's two layouts, readable by Caffe, h5py and protobuf.
 *
 * HDF5: a model (.caffemodel.h5) has the group `data`, with one group per layer that holds the data
 * sets `0`, `1`, ... A layer without parameters has an empty group. Parameters of another layer are
 * left out: their layer's attribute `shared` has "OWNER/NUMBER" for them, and "" for its own
 * parameters. A `/` in a layer's name makes nested groups. A state (.solverstate.h5) has the data
 * sets `iter`, `learned_net` and `current_step` and the group `history`. Caffe ignores its data
 * sets `data_cursor` and `global_batch`, and all attributes. Attributes name the run that wrote a
 * file, and the parameters, so that readers refuse a state with another state's model. A model's
 * attributes also hold class names and image preparation. A line behind the HDF5 file has a
 * checksum.
 *
 * Binary: a model (.caffemodel) is a NetParameter with every layer's definition and parameters,
 * shared ones included; a state (.solverstate) is a SolverState. Both end in a checksum that Caffe
 * ignores, and have fields of our own. Files may exceed 2 GB, which other protobufs refuse.
 *
 * A file appears whole under its final name or not at all, even if its writer is killed at once.
 * The caller forces it to the disk (file_sync); if the power fails before that, it may be damaged,
 * as its checksum then shows. Write the model before the state, so that every state has its model.
 * All functions here take HDF5's lock (spec/h5.h) where needed, work on plain host arrays, and are
 * not collective: one rank calls. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_H

#include "engine/tensor.h"
#include "spec/netdef.h"

#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_MAX_BLOBS 4

/* Blobs of a BatchNorm: Caffe has three; NVIDIA's Caffe since 0.16 may add a scale and a bias. */
enum { SNAPSHOT_NORM_BLOBS = 3, SNAPSHOT_NVIDIA_NORM_BLOBS = 5 };

/* Initialisers of layers and blobs may omit members that are zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct snapshot_blob {
    const struct shape *shape; /* borrowed */
    float *data; /* borrowed, plain row-major; read when writing, written when reading */
    bool shared; /* another layer owns the blob: HDF5 files omit its values and name the owner */
    const char *owner; /* owner of a shared blob, by layer; owner_blob: its number. NULL: unknown */
    int owner_blob;
};

struct snapshot_layer {
    const char *name; /* borrowed */
    int nblobs;
    struct snapshot_blob blobs[SNAPSHOT_MAX_BLOBS];
    int scale; /* for a BatchNorm: index of the layer with its scale and bias; else 0 */
};

/* Owner of a state or a model: the run that wrote it, and more. A member that the file lacks is
 * NULL or 0. A model has run, parameters, classes and preparation; a state has all members but
 * classes and preparation. snapshot_texts (snapshot_internal.h) lists the texts. */
struct snapshot_owner {
    char *run;         /* name of the run that wrote the file */
    char *parameters;  /* "iteration N, CRC-32C ...": equal in a model and its state */
    char *classes;     /* names of the classes that the net tells apart, one a line */
    char *preparation; /* image preparation as a layer's text: transform_param, and in input_param
                          the shape before that */
    char *rule;        /* solver type that the history belongs to */
    char *digest;      /* digest of the training job: solver, net, data, seed (job/agree_job.h) */
    char *plan;        /* communication plan of the layers, as text that a resumed run reads */
    char *memory;      /* values that the solver keeps besides current_step (job/rates.c) */
    char *residuals;   /* ranks and kinds whose residuals are saved; the first number counts the
                          residuals files (checkpoint.h); NULL: none */
    int64_t global_batch; /* samples per iteration, over all workers */
};

/* Contents of a solver state besides the history. */
struct snapshot_state {
    int32_t iter;         /* iterations done */
    int32_t current_step; /* state of the learning rate policy; see policy_step */
    char *learned_net;    /* path of the model as written; owned by the struct after reading */
    bool has_data_cursor; /* false after reading a file that Caffe wrote */
    uint64_t data_cursor; /* place in the global sample order: count of samples consumed so far */
    struct snapshot_owner owner; /* owned by the struct after reading */
};

/* Layers without a partner when a model was read; the caller calls snapshot_report_free. */
struct snapshot_report {
    int nignored; /* layers of the file that the net lacks: "Ignoring source layer X" */
    char **ignored;
    int nmissing; /* layers of the net whose own parameters the file lacks: left unchanged */
    char **missing;
    struct snapshot_owner owner; /* owner that the model's file names */
};

/* Fails with Caffe's sentence, "Cannot write to snapshot prefix 'X'.  Make sure that ...", if no
 * file can be created under this prefix. Call at start-up. */
int snapshot_probe(const char *prefix);

/* Returns "<prefix>_iter_<iter>.caffemodel.h5" or ".solverstate.h5", for SNAPSHOT_BEST
 * "<prefix>_best" with these ends; binary: without ".h5". To be freed; NULL: no memory. */
enum { SNAPSHOT_BEST = -1 };
char *snapshot_model_path(const char *prefix, int64_t iter, bool binary);
char *snapshot_state_path(const char *prefix, int64_t iter, bool binary);

/* Returns "<prefix>_iter_<iter>.average.caffemodel", with the model's ending, beside the model at
 * model_path. The caller frees the path; NULL: no memory. */
char *snapshot_average_path(const char *model_path);

/* Returns "<prefix>_iter_<iter>.residuals.<number>", beside the model at model_path. The caller
 * frees the path; NULL: no memory. */
char *snapshot_residuals_path(const char *model_path, int number);

/* Functions that write return 0; -1 if the file cannot be composed, whatever the disk;
 * SNAPSHOT_NOT_WRITTEN if the file system refused the file, so that a later try may succeed. */
enum { SNAPSHOT_NOT_WRITTEN = 1 };

/* Writes a model. owner: owner for the file to name, or NULL. A layer without parameters is skipped
 * if another layer has its name; two layers of one name with parameters are an error. Takes no copy
 * in memory of the values. */
int snapshot_write_model(const char *path, const struct snapshot_owner *owner,
                         const struct snapshot_layer *layers, int nlayers);

/* Writes a state. history: one array per learnable parameter, in Caffe's order; for AdaDelta and
 * Adam all first arrays, then all second arrays. has_data_cursor: data_cursor is written, too. */
int snapshot_write_state(const char *path, const struct snapshot_state *state,
                         const struct snapshot_blob *history, int nhistory);

/* Write a model or a state in binary form. def: net with the definitions
 * of the layers, one for one; NULL: only layer names are written. */
int snapshot_write_model_binary(const char *path, const struct snapshot_owner *owner,
                                const struct net_def *def, const struct snapshot_layer *layers,
                                int nlayers);
int snapshot_write_state_binary(const char *path, const struct snapshot_state *state,
                                const struct snapshot_blob *history, int nhistory);

/* Reads a model into the blobs of the layers whose names the file has. Checks every name, number of
 * blobs and shape before it touches the first value; a file damaged further inside may leave some
 * layers changed. The file's content shows its form. HDF5: accepts `/` in names as nested groups,
 * or replaced by another character or %2F. Binary: accepts old forms of nets, shapes of four
 * numbers, and doubles; among net layers of one name, the first with parameters gets the values.
 * report: filled on success, zeroed on failure; may be NULL. */
int snapshot_read_model(const char *path, const struct snapshot_layer *layers, int nlayers,
                        struct snapshot_report *report);

/* Reads a model's owner. The caller calls snapshot_owner_free, also after a failure. */
int snapshot_read_owner(const char *path, struct snapshot_owner *owner);

/* Reads a state into *state and the history arrays, whose number and shapes it checks first. */
int snapshot_read_state(const char *path, struct snapshot_state *state,
                        const struct snapshot_blob *history, int nhistory);

/* Reads a state without its history and its checksum: a quick look at many states. */
int snapshot_peek_state(const char *path, struct snapshot_state *state);

/* Finds the model of a state: learned_net itself (relative to the current folder), else the file of
 * that name beside the state. The caller frees *model. */
int snapshot_find_model(const char *state_path, const char *learned_net, char **model);

/* Copies a text into *out, for the caller to free; NULL for NULL. */
int snapshot_copy_text(const char *text, char **out);

/* Copies `from` into *out. The caller calls snapshot_owner_free, also after a failure. */
int snapshot_owner_copy(const struct snapshot_owner *from, struct snapshot_owner *out);
void snapshot_owner_free(struct snapshot_owner *owner);

/* Frees what snapshot_read_state allocated. Not for a struct that the caller filled for writing. */
void snapshot_state_free(struct snapshot_state *state);
void snapshot_report_free(struct snapshot_report *report);

#endif
