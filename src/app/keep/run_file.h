/* PREFIX.run: names the run that owns a prefix's snapshots. Each line is "KEY<tab>VALUE"; lines
 * that begin with "+" say what the run trains, for error messages. Plain text for job scripts and
 * people, replaced as a whole. Not collective: rank 0. */
#ifndef POSEIDON_KEEP_RUN_FILE_H
#define POSEIDON_KEEP_RUN_FILE_H

#include "util/sha256.h"

#include <stdbool.h>
#include <stdint.h>

enum { RUN_NAME_BYTES = 64 }; /* bytes of a run's name, its NUL included */

enum run_end {
    RUN_GOES_ON, /* still running, or killed */
    RUN_STOPPED, /* stopped early and in order */
    RUN_DONE     /* trained to the last iteration */
};

/* Work of one start, as of `seen`. Seconds but for `reached`. */
struct run_pulse {
    double seen;     /* time since 1970; 0: no pulse */
    double trained;  /* training and tests since the start's first iteration */
    double saving;   /* training's stall for snapshots, not part of `trained` */
    int64_t reached; /* iterations done, of the run */
};

/* Sums over all starts of a run, in seconds but for the counts. */
struct run_ledger {
    double trained;   /* training and tests that count */
    double repeated;  /* training that was lost with a start and done again */
    double starting;  /* from a process's begin to its first iteration */
    double saving;    /* training's stall for snapshots */
    double waiting;   /* from the end of a start to the begin of the next start's process */
    int64_t launches; /* count of starts */
    int64_t again;    /* count of iterations done twice */
};

struct run_file {
    char run[RUN_NAME_BYTES];
    char digest[SHA256_HEX]; /* SHA-256 of `about` */
    char *about; /* description of what the run trains: lines "NAME<tab>VALUE<newline>". Owned */
    enum run_end end;
    int64_t iteration;    /* iteration of the newest snapshot; -1: none yet */
    int64_t begun;        /* iteration at which the last start began */
    int64_t starts;       /* number of starts in a row at `begun` that got no further */
    int64_t furthest;     /* most iterations done by a start at `begun` */
    int64_t global_batch; /* samples per iteration, over all workers */
    int64_t ranks;        /* ranks of the last start */
    int64_t best;         /* iteration of the best snapshot by output best_of; -1: none */
    double best_score;
    char best_of[RUN_NAME_BYTES]; /* output that decides which snapshot is the best; "": none */
    struct run_pulse pulse;       /* last start, as it ended, or as it began if it was killed */
    struct run_ledger ledger;     /* all starts before the last */
};

/* Returns "PREFIX.run", for the caller to free; NULL: no memory. */
char *run_file_path(const char *prefix);

/* Reads a run's file; run_file_free frees *out. *found false: no file, and *out is empty. Fails if
 * the file is no run's file. */
int run_file_read(const char *path, struct run_file *out, bool *found);
int run_file_write(const char *path, const struct run_file *file);
void run_file_free(struct run_file *file);

/* Accepts 1 to 63 letters, digits, '.', '_' and '-', first a letter or digit; else fails, saying
 * why. */
int run_check_name(const char *name);

/* Makes a new name: 12 random hexadecimal digits. */
int run_new_name(char out[RUN_NAME_BYTES]);

#endif
