/* Snapshots of a training run: what is saved of nets and solver, and how it comes back. The file
 * format is snapshot/snapshot.h's. */
#ifndef POSEIDON_SNAPSHOT_CHECKPOINT_H
#define POSEIDON_SNAPSHOT_CHECKPOINT_H

#include <stdint.h>

#include "net/net.h"
#include "snapshot/snapshot.h"
#include "util/log.h"
#include "util/sha256.h"

/* Where a run stands, apart from parameters and history. */
struct train_state {
    int64_t iteration;    /* the next one */
    int32_t current_step; /* the learning rate policy's */
    uint64_t cursor;      /* samples of the global order consumed so far */
    char memory[256];     /* what else the solver remembers, in words of its own; "": nothing */
    char residuals[96]; /* what arenas of residuals belong to it, as snapshot_state has it; "": none
                         */
};

/* A moment of a run, in memory of its own. */
struct checkpoint;

/* Room for the parameters of that net, which outlives it, and nhistory blocks of net->elems floats.
 */
int checkpoint_create(const struct net *net, int nhistory, struct checkpoint **out);

/* Copies the net's values (on the host), the history, in the arenas' layout, and the rest. Returns
 * 0; CHECKPOINT_NOT_FINITE where some of them are NaN or infinite, with their layer and number, and
 * there is no copy; -1 without memory. */
enum { CHECKPOINT_NOT_WRITTEN = 1, CHECKPOINT_NOT_FINITE };
int checkpoint_fill(struct checkpoint *checkpoint, const float *history,
                    const struct train_state *state, const struct snapshot_owner *owner);

/* Fails as that does where the net's values (on the host) are not all finite. */
int checkpoint_look(const struct net *net);

/* Fails where two layers of one name have parameters: no snapshot can hold both. */
int checkpoint_check_names(const struct net *net);

int64_t checkpoint_iteration(const struct checkpoint *checkpoint);

/* Writes PREFIX_iter_N.caffemodel.h5, then PREFIX_iter_N.solverstate.h5, each whole or not at all,
 * the state last: a state never names a model that is not there. binary: Caffe's binary form,
 * without ".h5". Returns 0; CHECKPOINT_NOT_WRITTEN with a message where the file system refused,
 * which it may not the next time; -1 where the next time would be no better. Any one thread; rank
 * 0. */
int checkpoint_write(const struct checkpoint *checkpoint, const char *prefix, bool binary,
                     struct log *log);

/* Residuals: an arena of the net's for each rank and kind that has some, in files
 * PREFIX_iter_N.residuals.K, from 0 on, that are states whose history it is, in Caffe's binary
 * form. They are to be there before the state to which they belong. Rank 0.
 *
 * Writes one of them for a state of that run; -1 where that cannot be. */
int checkpoint_write_residuals(const struct net *net, const char *prefix, char *run,
                               const struct train_state *state, int number, float *arena);

/* Reads one that belongs to the state whose model lies there; fails where it is another net's. */
int checkpoint_read_residuals(const struct net *net, const char *model, int number, float *arena);

/* Removes all of that iteration, unless a state is there (`state`) that they may belong to. */
void checkpoint_drop_residuals(const char *prefix, int64_t iteration, const char *state);

/* NULL is fine. */
void checkpoint_destroy(struct checkpoint *checkpoint);

/* Reads state, history and the model it names into net->values. A model that another run wrote
 * than the state, or that has other parameters than the state was saved beside, is refused, values
 * that are not finite, and residuals that are damaged or another state's. *model: the model's path,
 * to be freed. Rank 0. */
int checkpoint_resume(const char *path, struct net *net, int nhistory, float *history,
                      struct train_state *state, char **model, struct log *log);

/* A state under a prefix. */
struct checkpoint_entry {
    char *path;
    int64_t iteration;           /* by its name */
    struct snapshot_owner owner; /* as it says; empty where it cannot be read */
};

struct checkpoint_list {
    struct checkpoint_entry *entries; /* the highest iteration first */
    int count;
};

/* All states under that prefix, in either format, with what they say of themselves; no checksums
 * are looked at. Fails where the folder cannot be read. */
int checkpoint_list_create(const char *prefix, struct checkpoint_list *list);
void checkpoint_list_free(struct checkpoint_list *list);

/* What one state says of itself; to be freed by snapshot_owner_free. */
int checkpoint_read_owner(const char *path, struct snapshot_owner *owner);

/* What a model of that net is to say of its data, as its layers know it: classes and preparation;
 * to be freed by snapshot_owner_free, also after a failure. */
int checkpoint_describe_data(const struct net *net, struct snapshot_owner *out);

/* What weights, a comma list of files, say of their data: the last of them that does; likewise. */
int checkpoint_read_weights_owner(const char *list, struct snapshot_owner *owner);

/* Weights by layer name from a comma list of files. Says which layers were not found; fails where
 * none was, or, if `all`, where one was not or names of classes differ from the data's, which else
 * is a warning; and where a value is not finite. Rank 0. */
int checkpoint_load_weights(const char *list, bool all, struct net *net, struct log *log);

/* SHA-256 over the parameters, layer by layer in Caffe's shape, little-endian floats; hex.
 * statistics: with those that are measured and not learnt. */
void checkpoint_hash(const struct net *net, bool statistics, char hex[SHA256_HEX]);

#endif
