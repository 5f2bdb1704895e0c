/* Curves of a run while it lasts: losses, rates and scores by iteration, as a CSV file and as
 * TensorBoard's event files. One rank writes; not collective. */
#ifndef POSEIDON_REPORT_CURVES_H
#define POSEIDON_REPORT_CURVES_H

#include "util/log.h"

#include <stdbool.h>
#include <stdint.h>

struct curves;

struct curves_options {
    const char *csv;         /* path of the CSV file; NULL: none */
    const char *tensorboard; /* folder of the event files; NULL: none */
    bool resumed;            /* true: a CSV file keeps its rows of iterations before `first` */
    int64_t first;           /* iteration that comes next */
    const char *scores; /* names of the tests' scores in order, for columns: a comma list; copied.
                           NULL, "": no scores */
    struct log *log;    /* log for failures; borrowed */
};

/* Fails if a folder holds event files, which TensorBoard would show as one run with new ones. */
int curves_check_folder(const char *folder);

/* Creates the files before it returns; fails if they cannot be written. Replaces other runs' files
 * in their places; a resumed run keeps its own files. */
int curves_open(const struct curves_options *options, struct curves **out);

/* One point of the curves. NAN: unknown, an empty cell. */
struct curves_row {
    int64_t iteration;
    double epoch;   /* place in the training data, in epochs */
    double seconds; /* training time since this process began */
    double images_per_second, loss, rate;
    const double *scores; /* scores of one test: columns [first, first + n); NULL: none */
    int first, n;
};

/* Appends a row. A file that can no longer be written is logged once and left alone; training goes
 * on. */
void curves_put(struct curves *curves, const struct curves_row *row);

/* Closes the files; NULL is allowed. */
void curves_close(struct curves *curves);

#endif
