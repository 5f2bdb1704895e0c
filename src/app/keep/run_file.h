/* PREFIX.run: whose snapshots those under a prefix are. One line "KEY<tab>VALUE" for each figure,
 * and behind a "+" what the run trains, line by line, so that a difference can be named. Plain text
 * for job scripts and people; it appears whole or not at all. Not collective: rank 0. */
#ifndef POSEIDON_KEEP_RUN_FILE_H
#define POSEIDON_KEEP_RUN_FILE_H

#include "util/sha256.h"

#include <stdbool.h>
#include <stdint.h>

enum { RUN_NAME_BYTES = 64 }; /* its end included */

enum run_end {
    RUN_GOES_ON, /* or was killed */
    RUN_STOPPED, /* early and in order */
    RUN_DONE     /* to its last iteration */
};

struct run_file {
    char run[RUN_NAME_BYTES];
    char digest[SHA256_HEX]; /* of `about` */
    char *about;             /* lines "NAME<tab>VALUE<newline>". Owned */
    enum run_end end;
    int64_t iteration;    /* of the newest snapshot; -1: there is none yet */
    int64_t begun;        /* where the last start began */
    int64_t starts;       /* how many starts one after another began there */
    int64_t global_batch; /* samples of an iteration, over all workers */
    int64_t ranks;        /* at the last start */
    int64_t best;         /* iteration of the best snapshot by the output best_of; -1: none */
    double best_score;
    char best_of[RUN_NAME_BYTES]; /* "": nobody asked */
};

/* "PREFIX.run"; freed by the caller. NULL: no memory. */
char *run_file_path(const char *prefix);

/* *found false: there is none, and *out is all zero. Fails where it is no such file. */
int run_file_read(const char *path, struct run_file *out, bool *found);
int run_file_write(const char *path, const struct run_file *file);
void run_file_free(struct run_file *file);

/* Whether it may name a run: 1 to 63 letters, digits, '.', '_' and '-', the first no sign. Fails
 * with what is wrong. */
int run_check_name(const char *name);

/* A name that no other run has: 12 random digits, hexadecimal. */
int run_new_name(char out[RUN_NAME_BYTES]);

#endif
