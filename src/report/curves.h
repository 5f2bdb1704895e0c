/* What people plot of a run while it lasts: losses, rates and scores by iteration, as a CSV file
 * and as TensorBoard's event files. One rank writes; not collective. */
#ifndef POSEIDON_REPORT_CURVES_H
#define POSEIDON_REPORT_CURVES_H

#include "util/log.h"

#include <stdbool.h>
#include <stdint.h>

struct curves;

struct curves_options {
    const char *csv;         /* path; NULL: none */
    const char *tensorboard; /* folder; NULL: none */
    bool resumed;            /* what a CSV file there says of iterations before `first` stays */
    int64_t first;           /* iteration to come */
    const char *scores; /* what tests give, in order: the names of columns, a comma list; copied.
                           NULL, "": nothing */
    struct log *log;    /* where a failure is told; borrowed */
};

/* Fails where a folder holds event files, which would be shown as one run with others. */
int curves_check_folder(const char *folder);

/* The files are there when it returns; fails where they cannot be written. What others left there
 * is replaced, but by a run that is resumed. */
int curves_open(const struct curves_options *options, struct curves **out);

/* A point of the curves; NAN stands for what is not known, and makes an empty cell. */
struct curves_row {
    int64_t iteration;
    double epoch;   /* of the training data */
    double seconds; /* of training, since this process began */
    double images_per_second, loss, rate;
    const double *scores; /* of one test: columns [first, first + n); NULL: none */
    int first, n;
};

/* Appends it. A file that cannot be written any more is told of once, and left alone: training goes
 * on. */
void curves_put(struct curves *curves, const struct curves_row *row);

/* NULL is fine. */
void curves_close(struct curves *curves);

#endif
