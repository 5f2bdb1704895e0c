/* The per-thread error message. Fixed storage, so that reporting an error cannot itself fail. */
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[4096];

int error_set(const char *format, ...)
{
    char text[sizeof message]; /* the arguments may point into the old message */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof message);
    return -1;
}

int error_context(const char *format, ...)
{
    char text[sizeof message];
    va_list args;
    int used;

    va_start(args, format);
    used = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (used < 0 || (size_t)used >= sizeof text)
        return -1;
    if (snprintf(text + used, sizeof text - (size_t)used, ": %s", message) < 0)
        return -1; /* a message cut at the end is still worth showing */
    memcpy(message, text, sizeof message);
    return -1;
}

const char *error_text(void)
{
    return message;
}

void error_clear(void)
{
    message[0] = '\0';
}

int error_memory(unsigned long long bytes, const char *what)
{
    return error_set("out of memory: %llu bytes for %s", bytes, what);
}
