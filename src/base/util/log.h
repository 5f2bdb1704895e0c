/* The log: lines in the form that Caffe's users and their parsers know,
 *
 *     I1121 06:50:01.123456 12345 solver.c:239] Iteration 100, lr = 0.01
 *
 * (level, month and day, local time with microseconds, thread id, source file:line). A terminal
 * also gets one progress line below the log lines. A struct log is passed down; there is no global
 * log. Several threads may write lines. */
#ifndef POSEIDON_UTIL_LOG_H
#define POSEIDON_UTIL_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct log {
    bool enabled;  /* false on ranks other than 0: only errors are printed there */
    FILE *to;      /* borrowed; usually stderr. NULL: nowhere */
    bool terminal; /* a progress line may be drawn on `to` */
    bool progress; /* a progress line is on the terminal now */
    double drawn;  /* clock_seconds() when the progress line was last drawn */
    char line[80]; /* text of the progress line */
};

/* Initialises a log to `to`. Sets `terminal` if the log is enabled and `to` ends on a terminal,
 * directly or through mpirun. */
void log_init(struct log *log, bool enabled, FILE *to);

/* Writes a line of level 'I', 'W' or 'E'; 'E' alone if the log is not enabled. Text may have
 * several lines; only the first gets the prefix, like glog's. Does nothing if `log` is NULL. */
void log_write(struct log *log, char level, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#define LOG_WARNS "warning: "

/* Writes each line at level 'I', or at 'W' without LOG_WARNS if the line begins with LOG_WARNS. */
void log_lines(struct log *log, const char *file, int line, const char *lines);

#define LOG_INFO(log, ...)    log_write((log), 'I', __FILE__, __LINE__, __VA_ARGS__)
#define LOG_WARNING(log, ...) log_write((log), 'W', __FILE__, __LINE__, __VA_ARGS__)
#define LOG_ERROR(log, ...)   log_write((log), 'E', __FILE__, __LINE__, __VA_ARGS__)
#define LOG_LINES(log, lines) log_lines((log), __FILE__, __LINE__, (lines))

struct log_progress {
    int64_t iteration, max_iter; /* iterations done, and to be done */
    double images_per_second;    /* over all ranks */
    double eta_seconds;          /* negative or not finite: unknown */
    double loss;
    double epochs, max_epochs; /* epochs done, and to be done; max_epochs 0: unknown */
};

/* Draws the progress line, at most a few times a second, so every iteration may call this function.
 * Does nothing without a terminal. */
void log_progress(struct log *log, const struct log_progress *progress);

/* Erases the progress line, before other output on the terminal and at the end. */
void log_progress_end(struct log *log);

#endif
