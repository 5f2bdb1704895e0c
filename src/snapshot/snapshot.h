/* Snapshots in Caffe's two layouts, readable by Caffe, h5py and protobuf.
 *
 * HDF5: a model (.caffemodel.h5) has the group `data` and in it one group per layer with the data
 * sets `0`, `1`, ...; a layer without parameters has an empty group, a parameter that belongs to
 * another layer is left out (its layer's attribute `shared` has "OWNER/NUMBER" for it, and "" for
 * its own), and a `/` in a layer's name makes nested groups. A state
 * (.solverstate.h5) has the data sets `iter`, `learned_net`, `current_step` and the group
 * `history`, and beside them, ignored by Caffe, the data set `data_cursor` and attributes. Values
 * carry checksums. Both files name in attributes the run that wrote them, and the parameters: a
 * state and a model that do not belong together are told apart by it. A model has the names of
 * classes and what images go through in others.
 *
 * Binary: a model (.caffemodel) is a NetParameter with all layers, their definitions and, all of
 * them, their parameters; a state (.solverstate) is a SolverState. Both have fields of our own.
 * Both end in a checksum that Caffe does not look at. Files may have any size; other programs'
 * protobuf refuses more than 2 GB.
 *
 * A file appears whole under its final name or not at all: see util/file.h. Write the model before
 * the state, so that every state on disk has its model. All functions here take HDF5's lock
 * (util/h5.h) themselves where they need it, work on plain host arrays, and are not collective: one
 * rank calls them. */
#ifndef POSEIDON_SNAPSHOT_SNAPSHOT_H
#define POSEIDON_SNAPSHOT_SNAPSHOT_H

#include "engine/tensor.h"
#include "spec/netdef.h"

#include <stdbool.h>
#include <stdint.h>

#define SNAPSHOT_MAX_BLOBS 4

/* BatchNorm of NVIDIA's Caffe since 0.16 may have five: Caffe's three, a scale and a bias. */
enum { SNAPSHOT_NORM_BLOBS = 3, SNAPSHOT_NVIDIA_NORM_BLOBS = 5 };

/* Tables of layers and blobs leave out what is zero. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

struct snapshot_blob {
    const struct shape *shape; /* borrowed */
    float *data; /* borrowed, plain row-major; read when writing, written when reading */
    bool shared; /* belongs to another layer: HDF5 files do not have it, and say whose it is */
    const char *owner; /* of those, that layer, and which of its blobs; NULL: nobody knows */
    int owner_blob;
};

struct snapshot_layer {
    const char *name; /* borrowed */
    int nblobs;
    struct snapshot_blob blobs[SNAPSHOT_MAX_BLOBS];
    int scale; /* of a BatchNorm, the number of the layer with a scale and a bias behind it; else 0
                */
};

/* Whose a state or a model is; NULL and 0 where a file does not say. A model has run, parameters,
 * classes and preparation; a state all but the last two of these. The texts are those of
 * snapshot_texts (snapshot_internal.h). */
struct snapshot_owner {
    char *run;            /* the run's name */
    char *parameters;     /* "iteration N, SHA-256 ...": the model's, to which the state belongs */
    char *classes;        /* names of what is learnt to be told apart, one a line */
    char *preparation;    /* what images go through: a layer as text, with transform_param, and in
                             input_param their shape before it */
    char *rule;           /* the solver's type, whose history it is */
    char *digest;         /* of what it trains: solver, net, data, seed (job/agree_job.h) */
    char *plan;           /* how its layers travel, in words that a resume reads */
    char *memory;         /* what the solver remembers besides current_step (job/rates.c) */
    char *residuals;      /* of which ranks and kinds there are some, as many as its first number
                             says, each in a file of its own (checkpoint.h); NULL: none are */
    int64_t global_batch; /* samples of an iteration, over all workers */
};

/* What a solver state holds besides the history. */
struct snapshot_state {
    int32_t iter;         /* iterations done */
    int32_t current_step; /* see policy_step */
    char *learned_net;    /* path of the model as written; owned by the struct after reading */
    bool has_data_cursor; /* false after reading a file that Caffe wrote */
    uint64_t data_cursor; /* place in the global sample order: samples consumed so far */
    struct snapshot_owner owner; /* owned by the struct after reading */
};

/* What reading a model left aside; owned by the caller, snapshot_report_free. */
struct snapshot_report {
    int nignored; /* layers of the file that the net does not have: "Ignoring source layer X" */
    char **ignored;
    int nmissing; /* layers with parameters of their own that the file does not have: unchanged */
    char **missing;
    struct snapshot_owner owner; /* of the model */
};

/* Fails with Caffe's sentence, "Cannot write to snapshot prefix 'X'.  Make sure that ...", where no
 * file can be created under this prefix. To be called at start-up. */
int snapshot_probe(const char *prefix);

/* "<prefix>_iter_<iter>.caffemodel.h5" and ".solverstate.h5", of SNAPSHOT_BEST "<prefix>_best" with
 * these endings; binary: without ".h5". Freed by the caller; NULL: no memory. */
enum { SNAPSHOT_BEST = -1 };
char *snapshot_model_path(const char *prefix, int64_t iter, bool binary);
char *snapshot_state_path(const char *prefix, int64_t iter, bool binary);

/* "<prefix>_iter_<iter>.average.caffemodel", with the model's ending, beside the model at that
 * path. Likewise. */
char *snapshot_average_path(const char *model_path);

/* "<prefix>_iter_<iter>.residuals.<number>", beside the model at that path. Likewise. */
char *snapshot_residuals_path(const char *model_path, int number);

/* Functions that write return 0; -1 where the file cannot be composed, whatever the disk;
 * SNAPSHOT_NOT_WRITTEN where the file system refused it, which it may not the next time. */
enum { SNAPSHOT_NOT_WRITTEN = 1 };

/* Writes a model. owner: what it is to say of itself, or NULL. Of two layers with one name the one
 * without parameters is skipped; two with parameters are an error. The file is composed in memory
 * first: needs twice its size for a moment.
 */
int snapshot_write_model(const char *path, const struct snapshot_owner *owner,
                         const struct snapshot_layer *layers, int nlayers);

/* Writes a state: `history` in Caffe's order, one array per learnable parameter, for AdaDelta and
 * Adam all first arrays, then all second ones. Both optional fields are written where has_ says so.
 */
int snapshot_write_state(const char *path, const struct snapshot_state *state,
                         const struct snapshot_blob *history, int nhistory);

/* The same in binary form, without a copy in memory. def: the net whose layers these are, one for
 * one, for their definitions; NULL: only names are written. */
int snapshot_write_model_binary(const char *path, const struct snapshot_owner *owner,
                                const struct net_def *def, const struct snapshot_layer *layers,
                                int nlayers);
int snapshot_write_state_binary(const char *path, const struct snapshot_state *state,
                                const struct snapshot_blob *history, int nhistory);

/* Reads into the blobs of those layers whose names the file has; every name, number of blobs and
 * shape is checked before the first value is touched (a file damaged further inside may leave some
 * layers changed). Which form a file has is seen from its content. HDF5: accepts `/` in names as
 * nested groups or replaced by one other character or %2F. Binary: accepts the old forms of nets,
 * shapes of four numbers, and doubles; of net layers with one name the first with parameters
 * gets them.
 * `report`, if not NULL, is filled on success and zeroed on failure. */
int snapshot_read_model(const char *path, const struct snapshot_layer *layers, int nlayers,
                        struct snapshot_report *report);

/* Reads what a model says of itself, to be freed: snapshot_owner_free, also after a failure. */
int snapshot_read_owner(const char *path, struct snapshot_owner *owner);

/* Reads a state into *state and the history arrays; number and shapes are checked first. */
int snapshot_read_state(const char *path, struct snapshot_state *state,
                        const struct snapshot_blob *history, int nhistory);

/* Reads what a state says besides the history, without its checksum: a look at many of them. */
int snapshot_peek_state(const char *path, struct snapshot_state *state);

/* Where the model of a state lies: learned_net itself (relative to the current folder), else the
 * file of that name beside the state. *model is freed by the caller. */
int snapshot_find_model(const char *state_path, const char *learned_net, char **model);

/* A copy in *out, to be freed; NULL for NULL. */
int snapshot_copy_text(const char *text, char **out);

/* Copies of what stands in `from`, in *out, to be freed also after a failure. */
int snapshot_owner_copy(const struct snapshot_owner *from, struct snapshot_owner *out);
void snapshot_owner_free(struct snapshot_owner *owner);

/* Frees what snapshot_read_state allocated; not for a struct that only was written. */
void snapshot_state_free(struct snapshot_state *state);
void snapshot_report_free(struct snapshot_report *report);

#endif
