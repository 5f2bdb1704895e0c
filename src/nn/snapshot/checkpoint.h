/* Snapshots of a training run: copies of nets and solver state, their files, and resuming from
 * them. The file format is that of snapshot/snapshot.h. */
#ifndef POSEIDON_SNAPSHOT_CHECKPOINT_H
#define POSEIDON_SNAPSHOT_CHECKPOINT_H

#include <stdint.h>

#include "net/net.h"
#include "snapshot/snapshot.h"
#include "spec/caffe.pb-c.h"
#include "util/log.h"
#include "util/sha256.h"

/* The state of a run, without parameters and history. */
struct train_state {
    int64_t iteration;    /* next iteration, counted from 0 */
    int32_t current_step; /* state of the learning rate policy; see policy_step */
    uint64_t cursor;      /* samples of the global order consumed so far */
    char memory[256];     /* solver's values besides current_step (job/rates.c); "": none */
    char residuals[96];   /* description of the saved residuals, as in snapshot_owner; "": none */
};

/* A copy of parameters, history and state of one iteration. */
struct checkpoint;

/* Allocates a checkpoint for the parameters of `net` and for nhistory blocks of net->elems floats.
 * average: net whose parameters are the moving average of the weights of `net`; NULL: none. Both
 * nets must outlive the checkpoint. The average is saved as the last block of the state's history
 * and as a model of its own. The caller frees *out by checkpoint_destroy. */
int checkpoint_create(const struct net *net, int nhistory, const struct net *average,
                      struct checkpoint **out);

/* Copies the values of the net and of its average (host memory), the history (nhistory blocks in
 * the layout of the net's arenas), state and owner. Returns 0; CHECKPOINT_NOT_FINITE if a value is
 * NaN or infinite, with a message that names layer and number (the checkpoint is then empty); -1
 * without memory. */
enum { CHECKPOINT_NOT_WRITTEN = 1, CHECKPOINT_NOT_FINITE };
int checkpoint_fill(struct checkpoint *checkpoint, const float *history,
                    const struct train_state *state, const struct snapshot_owner *owner);

/* Returns CHECKPOINT_NOT_FINITE with a message if a value of the net (host memory) is NaN or
 * infinite, else 0. learnt: skips BatchNorm's statistics. */
int checkpoint_look(const struct net *net, bool learnt);

/* Fails if two layers of one name have parameters: no snapshot can hold both. */
int checkpoint_check_names(const struct net *net);

/* Returns the iteration of the copied state. */
int64_t checkpoint_iteration(const struct checkpoint *checkpoint);

/* Writes PREFIX_iter_N.caffemodel.h5, with an average PREFIX_iter_N.average.caffemodel.h5, then
 * PREFIX_iter_N.solverstate.h5, each whole or not at all, so that every state on disk has its
 * model. binary: Caffe's binary form, without ".h5". Returns 0; CHECKPOINT_NOT_WRITTEN with a
 * message if the file system refused, so that a later attempt may succeed; -1 if the files cannot
 * be composed. Any one thread; rank 0. */
int checkpoint_write(const struct checkpoint *checkpoint, const char *prefix, bool binary,
                     struct log *log);

/* Writes the residuals of one rank and kind (`arena`, in the layout of the net's arenas) for the
 * state of `run`, as file PREFIX_iter_N.residuals.NUMBER: a solver state in Caffe's binary form
 * whose history is the arena. NUMBER counts from 0. Must come before the state is written, so that
 * every state on disk has its residuals. Rank 0. */
int checkpoint_write_residuals(const struct net *net, const char *prefix, char *run,
                               const struct train_state *state, int number, float *arena);

/* Reads the residuals file NUMBER beside the model at path `model` into `arena`. Fails if the file
 * is damaged or of another net. */
int checkpoint_read_residuals(const struct net *net, const char *model, int number, float *arena);

/* Removes the average's file beside the model at path `model`, if there is one. */
void checkpoint_drop_average(const char *model);

/* Removes all residuals files of an iteration, unless the solver state at path `state` exists,
 * which may need the files. */
void checkpoint_drop_residuals(const char *prefix, int64_t iteration, const char *state);

/* Frees a checkpoint; NULL is allowed. */
void checkpoint_destroy(struct checkpoint *checkpoint);

/* Reads a solver state into *state and `history` (nhistory blocks of net->elems floats), and the
 * model that the state names into net->values. Fails if another run wrote the model, if the model
 * has other parameters than those saved with the state, if a value is not finite, and if residuals
 * are damaged or of another state. *model gets the model's path, for the caller to free. Rank 0. */
int checkpoint_resume(const char *path, struct net *net, int nhistory, float *history,
                      struct train_state *state, char **model, struct log *log);

/* A solver state on disk under a prefix. */
struct checkpoint_entry {
    char *path;
    int64_t iteration;           /* iteration in the file's name */
    struct snapshot_owner owner; /* owner in the file; empty if the file cannot be read */
};

struct checkpoint_list {
    struct checkpoint_entry *entries; /* states, sorted by falling iteration */
    int count;
};

/* Lists all solver states under a prefix, in both formats, with their owners; checksums are not
 * compared. clears: removes temporary files that a killed writer left there. Fails if the folder
 * cannot be read. */
int checkpoint_list_create(const char *prefix, bool clears, struct checkpoint_list *list);

/* Frees the entries of a list; an empty list is allowed. */
void checkpoint_list_free(struct checkpoint_list *list);

/* Reads the owner of one solver state; the caller frees it by snapshot_owner_free. */
int checkpoint_read_owner(const char *path, struct snapshot_owner *owner);

/* Fills classes and preparation of *out from the net's data layers, for a model's file. The caller
 * frees *out by snapshot_owner_free, also after a failure. */
int checkpoint_describe_data(const struct net *net, struct snapshot_owner *out);

struct text_doc;

/* Class names and image preparation that a model file holds of its training images. */
struct checkpoint_told {
    struct snapshot_owner owner;  /* owner with these texts; owned */
    struct text_doc *preparation; /* parsed owner.preparation; NULL: none. Owned */
    const Caffe__TransformationParameter *transform; /* in `preparation`; NULL: none */
    struct shape record; /* C,H,W before the transform, from `preparation`; naxes 0: unknown */
};

/* Reads class names and preparation from the last file of `list` (comma-separated models) that has
 * one of the two. The caller frees *told by checkpoint_free_told, also after a failure. */
int checkpoint_read_told(const char *list, struct checkpoint_told *told);
void checkpoint_free_told(struct checkpoint_told *told);

/* Copies parameters by layer name from comma-separated files into the net, and logs the layers that
 * no file has. Fails if no layer was found, or if a value is not finite. all: fails also if a layer
 * was not found or class names differ from the data's (else a warning). Rank 0. */
int checkpoint_load_weights(const char *list, bool all, struct net *net, struct log *log);

/* Computes the SHA-256 (hexadecimal) of the parameters, layer by layer in Caffe's shape, as
 * little-endian floats. statistics: includes parameters that are measured, not learnt (BatchNorm's
 * mean). */
void checkpoint_hash(const struct net *net, bool statistics, char hex[SHA256_HEX]);

#endif
