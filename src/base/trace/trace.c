/* Sets up the recorder. Buffers are written once beforehand, so that the system need not map their
 * pages while training runs. */
#include "trace/trace.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

int trace_create(const struct trace_options *options, struct trace **out)
{
    struct trace *trace = calloc(1, sizeof *trace);
    size_t capacity = options->capacity ? options->capacity : TRACE_DEFAULT_CAPACITY;

    *out = NULL;
    if (!trace)
        return error_memory(sizeof *trace, "the trace");
    trace->options = *options;
    pthread_mutex_init(&trace->shared, NULL);
    for (int i = 0; i < TRACE_THREADS; i++) {
        struct trace_buffer *buffer = &trace->buffer[i];
        buffer->events = malloc(capacity * sizeof *buffer->events);
        if (!buffer->events) {
            trace_destroy(trace);
            return error_memory(capacity * sizeof *buffer->events, "the trace");
        }
        memset(buffer->events, 0xff, capacity * sizeof *buffer->events);
        buffer->capacity = capacity;
    }
    *out = trace;
    return 0;
}

void trace_destroy(struct trace *trace)
{
    if (!trace)
        return;
    for (int i = 0; i < TRACE_THREADS; i++)
        free(trace->buffer[i].events);
    pthread_mutex_destroy(&trace->shared);
    free(trace);
}

void trace_span_shared(struct trace *trace, enum trace_kind kind, int layer, int64_t start)
{
    if (!trace)
        return;
    pthread_mutex_lock(&trace->shared);
    trace_span(trace, TRACE_OTHERS, kind, layer, start);
    pthread_mutex_unlock(&trace->shared);
}

void trace_stop(struct trace *trace)
{
    pthread_mutex_lock(&trace->shared);
    atomic_store(&trace->on, false);
    pthread_mutex_unlock(&trace->shared);
}

/* Parses a number without a sign at *text, and moves *text behind the number. */
static bool take_number(const char **text, int64_t *out)
{
    char *end;

    if (**text < '0' || **text > '9')
        return false;
    *out = strtoll(*text, &end, 10);
    *text = end;
    return *out <= INT32_MAX;
}

int trace_parse_iterations(const char *text, int64_t *first, int64_t *last)
{
    const char *rest = text;
    bool good = take_number(&rest, first);

    *last = *first;
    if (good && *rest == '-') {
        rest++;
        if (*rest)
            good = take_number(&rest, last);
        else
            *last = INT32_MAX;
    }
    if (!good || *rest || *last < *first)
        return error_set("iterations must be given as A-B, A- or A with A <= B, found '%s'", text);
    return 0;
}
