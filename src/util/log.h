/* The log: lines in the form that Caffe's users and their parsers know,
 *
 *     I1121 06:50:01.123456 12345 solver.c:239] Iteration 100, lr = 0.01
 *
 * (level, month and day, local time with microseconds, thread id, source file:line), and on a
 * terminal one progress line below them. A struct log is passed down; there is no global one. Lines
 * may come from several threads. */
#ifndef POSEIDON_UTIL_LOG_H
#define POSEIDON_UTIL_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct log {
    bool enabled;  /* false on ranks other than 0: only errors are printed there */
    FILE *to;      /* borrowed; usually stderr. NULL: nowhere */
    FILE *copy;    /* the same lines without colours or progress, and what is not enabled, too; or
                      NULL. Borrowed; flushed per line */
    bool terminal; /* a progress line may be drawn on `to` */
    bool progress; /* a progress line is on the terminal now */
    double drawn;  /* clock_seconds() of its last drawing */
    char line[80]; /* its text */
};

/* A log to `to` and, if not NULL, `copy`. `terminal` is set where `to` ends on a terminal, directly
 * or through mpirun, and the log is enabled. */
void log_init(struct log *log, bool enabled, FILE *to, FILE *copy);

/* Levels 'I', 'W' and 'E'. 'I' and 'W' go to the copy alone where the log is not enabled. Text may
 * have several lines; the prefix stands before the first, as in glog. `log` may be NULL: nothing
 * happens. */
void log_write(struct log *log, char level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define LOG_WARNS "warning: "

/* Each line by itself at level 'I', or 'W' where it begins with LOG_WARNS, which is left out. */
void log_lines(struct log *log, const char *file, int line, const char *lines);

#define LOG_INFO(log, ...)    log_write((log), 'I', __FILE__, __LINE__, __VA_ARGS__)
#define LOG_WARNING(log, ...) log_write((log), 'W', __FILE__, __LINE__, __VA_ARGS__)
#define LOG_ERROR(log, ...)   log_write((log), 'E', __FILE__, __LINE__, __VA_ARGS__)
#define LOG_LINES(log, lines) log_lines((log), __FILE__, __LINE__, (lines))

struct log_progress {
    int64_t iteration, max_iter; /* done, and to be done */
    double images_per_second;    /* over all ranks */
    double eta_seconds;          /* negative or not finite: unknown */
    double loss;
    double epochs, max_epochs; /* likewise; 0: they are not known */
};

/* Shows or renews the progress line; at most a few times a second, so it may be called every
 * iteration. Nothing where there is no terminal. */
void log_progress(struct log *log, const struct log_progress *progress);

/* Takes the progress line away: before other output on the terminal, and at the end. */
void log_progress_end(struct log *log);

#endif
