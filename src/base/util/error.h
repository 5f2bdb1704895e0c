/* Errors as values.
 *
 * Functions that can fail return int: 0 is success, anything else failure. The function that knows
 * what went wrong writes one message with error_set; callers pass the status up, adding context
 * where it helps. Only commands print. The message is per thread. */
#ifndef POSEIDON_UTIL_ERROR_H
#define POSEIDON_UTIL_ERROR_H

#include <stdbool.h>

/* Sets this thread's message (printf style, no newline at the end) and returns -1, so that
 * `return error_set("...")` is the usual form. The arguments may include error_text(). */
int error_set(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Puts "CONTEXT: " in front of the message that is set; returns -1. */
int error_context(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns this thread's message, "" if none was set; valid until the message changes. */
const char *error_text(void);

void error_clear(void);

/* Returns -1 if `failed`, else 0: the status of a row of calls that ends at the first failure,
 * `return error_status(open(a) || open(b));`. */
static inline int error_status(bool failed)
{
    return failed ? -1 : 0;
}

/* Sets the message "out of memory: N bytes for WHAT" and returns -1. */
int error_memory(unsigned long long bytes, const char *what);

#endif
