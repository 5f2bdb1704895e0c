/* How far the loop has come, and where its time went, on this rank. */
#ifndef POSEIDON_SAY_TIMING_H
#define POSEIDON_SAY_TIMING_H

#include "util/clock.h"

#include <stdbool.h>
#include <stdint.h>

enum { TIMING_LAPSES = 256 };

/* Iterations a second between displays; all zero at the start. */
struct timing_lapses {
    double rate[TIMING_LAPSES];
    int count, thinned; /* rates kept: every 2^thinned-th */
    int64_t seen;
};

/* Notes what lay between two displays; what took no time, or had no iteration, is passed over. */
void timing_note_lapse(struct timing_lapses *lapses, double seconds, int64_t iterations);

/* Least, median and most of them; false where there are fewer than three. */
bool timing_spread(const struct timing_lapses *lapses, double *least, double *median, double *most);

struct timing {
    double started;         /* clock_seconds when the loop began */
    double paused;          /* seconds of it in tests and snapshots */
    double train_seconds;   /* iterations alone, without tests and snapshots */
    double train_stall;     /* of these: this rank waited for the network */
    double paused_stall;    /* waited in tests and snapshots */
    int saves;              /* snapshots between iterations */
    double saving_stall;    /* seconds that training stood still for them */
    double warm_seconds;    /* train_seconds after the first iterations of this run */
    int warm_iterations;    /* these, once there are as many again; else 0 */
    double trained_seconds; /* train_seconds so far, at the end of the last iteration */
    double display_seconds; /* of train_seconds at the last display */
    int64_t display_iter;   /* iteration of the last display */
    struct timing_lapses lapses;
    double train_loss; /* there: mean of the last losses of all workers; NAN: none was run */
    int train_loss_iterations; /* how many losses of a worker that mean is of */
    int64_t end;  /* iterations done when training was over: max_iter, or less if stopped */
    bool stopped; /* training ended before its time: by a signal, or in its last test */
};

/* Seconds of training so far. */
static inline double timing_now(const struct timing *timing)
{
    return clock_seconds() - timing->started - timing->paused;
}

/* After `iterations` iterations of this run, the last one at trained_seconds: the first ones are
 * left out of the steady rate. */
static inline void timing_warm_up(struct timing *timing, int64_t iterations)
{
    enum { WARM_ITERATIONS = 5 };

    if (iterations == WARM_ITERATIONS)
        timing->warm_seconds = timing->trained_seconds;
    else if (iterations == 2 * WARM_ITERATIONS)
        timing->warm_iterations = WARM_ITERATIONS;
}

#endif
