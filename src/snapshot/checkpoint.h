/* Snapshots of a training run: what is saved of nets and solver, and how it comes back. The file
 * format is snapshot/snapshot.h's. */
#ifndef POSEIDON_SNAPSHOT_CHECKPOINT_H
#define POSEIDON_SNAPSHOT_CHECKPOINT_H

#include <stdint.h>

#include "net/net.h"
#include "util/log.h"

/* Where a run stands, apart from parameters and history. */
struct train_state {
    int64_t iteration;    /* the next one */
    int32_t current_step; /* the learning rate policy's */
    uint64_t cursor;      /* samples of the global order consumed so far */
};

/* Writes PREFIX_iter_N.caffemodel.h5, then PREFIX_iter_N.solverstate.h5, each whole or not at all,
 * the state last: a state never names a model that is not there. binary: Caffe's binary form,
 * without
 * ".h5". history: nhistory blocks of net->elems floats in the arenas' layout. Rank 0. */
int checkpoint_write(const char *prefix, bool binary, const struct net *net, int nhistory,
                     const float *history, const struct train_state *state, struct log *log);

/* Reads state, history and the model it names into net->values. Rank 0. */
int checkpoint_resume(const char *path, struct net *net, int nhistory, float *history,
                      struct train_state *state, struct log *log);

/* The state of the highest iteration under that prefix, in either format, into *path, to be freed;
 * NULL if there is none. Fails where the folder cannot be read. */
int checkpoint_newest(const char *prefix, char **path);

/* Weights by layer name from a comma list of files. Says which layers were not found; fails where
 * none was, or, if `all`, where one was not. Rank 0. */
int checkpoint_load_weights(const char *list, bool all, struct net *net, struct log *log);

/* SHA-256 over the parameters, layer by layer in Caffe's shape, little-endian floats; hex, 65
 * bytes. */
void checkpoint_hash(const struct net *net, char hex[65]);

#endif
