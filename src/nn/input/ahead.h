/* Reading ahead in a shuffled order (SHUFFLE_WINDOWS): while training uses one window, the system
 * is asked for the next, in the order of the file. A slow disk thus reads blocks of neighbours, and
 * training takes records from the page cache, which needs room for two windows. A rank asks for its
 * own records alone. */
#ifndef POSEIDON_INPUT_AHEAD_H
#define POSEIDON_INPUT_AHEAD_H

#include "input/feeder.h"
#include "util/owner.h"

#include <pthread.h>

struct ahead {
    struct source *source; /* borrowed; NULL: no reading ahead */
    struct order order;
    struct feeder_options o;
    pthread_mutex_t mutex;
    /* guarded by the mutex */
    uint64_t start, window; /* first sample of the run; of the window that `pick` lists */
    struct pick *pick;      /* ORDER_WINDOW places; this rank's records of the window */
    int npicks, asked;      /* number of picks, and of picks asked for */
};

/* Prepares reading ahead; `owner` owns the memory. Does nothing without SHUFFLE_WINDOWS, or if the
 * source cannot read ahead. */
int ahead_open(struct ahead *ahead, struct owner *owner, struct source *source,
               const struct order *order, const struct feeder_options *o);

/* Asks the system for the records that are due when this rank begins a batch at sample `first`;
 * pass 0 of the run starts at `start`. Any thread. */
void ahead_ask(struct ahead *ahead, uint64_t start, uint64_t first);

void ahead_close(struct ahead *ahead);

#endif
