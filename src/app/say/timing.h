/* Progress and times of the loop on this rank. */
#ifndef POSEIDON_SAY_TIMING_H
#define POSEIDON_SAY_TIMING_H

#include "util/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIMING_LAPSES = 256 };

/* Rates between displays, in iterations per second; all zero at the start. */
struct timing_lapses {
    double rate[TIMING_LAPSES];
    int count, thinned; /* number of rates kept, one of each 2^thinned */
    int64_t seen;
};

/* Records the rate between two displays, unless no time or no iteration has passed. */
void timing_note_lapse(struct timing_lapses *lapses, double seconds, int64_t iterations);

/* Finds the least, median and largest rate; returns false if there are fewer than three rates. */
bool timing_spread(const struct timing_lapses *lapses, double *least, double *median, double *most);

struct timing {
    double started;         /* clock_seconds when the loop began */
    double paused;          /* seconds spent in tests and snapshots */
    double train_seconds;   /* seconds of all iterations, without tests and snapshots */
    double train_stall;     /* seconds of train_seconds in which this rank waited for the network */
    double paused_stall;    /* seconds of waiting for the network in tests and snapshots */
    int saves;              /* number of snapshots between iterations */
    double saving_stall;    /* seconds that snapshots between iterations stopped training */
    double warm_seconds;    /* train_seconds at the end of warm-up */
    int warm_iterations;    /* number of warm-up iterations, once twice as many have run; else 0 */
    double trained_seconds; /* train_seconds at the end of the last iteration */
    double display_seconds; /* train_seconds at the last display */
    int64_t display_iter;   /* iteration of the last display */
    struct timing_lapses lapses;
    double train_loss;         /* mean of all workers' losses at the last display; NAN: none */
    int train_loss_iterations; /* number of losses per worker in train_loss */
    int64_t end;  /* number of iterations done at the end: max_iter, or less if stopped */
    bool stopped; /* training ended early: by a signal, or in its last test */
};

/* Returns the seconds of training so far. */
static inline double timing_now(const struct timing *timing)
{
    return clock_seconds() - timing->started - timing->paused;
}

/* Records the end of warm-up, which the steady rate leaves out. Called after `iterations`
 * iterations of this run; the last ended at trained_seconds. */
static inline void timing_warm_up(struct timing *timing, int64_t iterations)
{
    enum { WARM_ITERATIONS = 5 };

    if (iterations == WARM_ITERATIONS)
        timing->warm_seconds = timing->trained_seconds;
    else if (iterations == 2 * WARM_ITERATIONS)
        timing->warm_iterations = WARM_ITERATIONS;
}

#endif
