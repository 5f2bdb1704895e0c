/* Reading ahead in a shuffled order (SHUFFLE_WINDOWS): while a window is trained on, the system is
 * asked for the next one, in the order of the file. So a disk that seeks slowly reads blocks of
 * neighbours, whose records training then takes from the page cache in any order; two windows at
 * most are wanted there at a time. A rank asks for its own records alone. */
#ifndef POSEIDON_INPUT_AHEAD_H
#define POSEIDON_INPUT_AHEAD_H

#include "input/feeder.h"
#include "util/owner.h"

#include <pthread.h>

struct ahead {
    struct source *source; /* borrowed; NULL: nothing is asked for */
    struct order order;
    struct feeder_options o;
    pthread_mutex_t mutex;
    /* under the mutex */
    uint64_t start, window; /* of which run, and from which sample on, the records are asked for */
    struct pick *pick;      /* ORDER_WINDOW; this rank's of them, in the order of the file */
    int npicks, asked;      /* how many they are, and how many of them were asked for */
};

/* The memory is the owner's. Without windows, and of a source that cannot be asked, nothing is
 * done. */
int ahead_open(struct ahead *ahead, struct owner *owner, struct source *source,
               const struct order *order, const struct feeder_options *o);

/* This rank begins to read its batch from sample `first` on, of a run whose pass 0 starts at
 * `start`: asks for what is due. Any thread. */
void ahead_ask(struct ahead *ahead, uint64_t start, uint64_t first);

void ahead_close(struct ahead *ahead);

#endif
