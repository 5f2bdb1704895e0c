/* The recorder: what a rank did when, kept in memory until training is over.
 *
 * Each thread that records has its own buffer, made and touched beforehand: recording an event
 * reads the clock and writes 56 bytes; it locks, allocates and asks the system nothing. A full
 * buffer drops what comes and counts it. Where nothing is to be traced, the recorder is a NULL
 * pointer and every function here is one branch. */
#ifndef POSEIDON_TRACE_TRACE_H
#define POSEIDON_TRACE_TRACE_H

#include "util/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACE_ITERATION, /* passes and what they wait for */
    TRACE_FORWARD,
    TRACE_BACKWARD,
    TRACE_UPDATE, /* the solver's rule, with the rebuilding of a gradient from factors */
    TRACE_WAIT,   /* the compute thread waits for the network */
    TRACE_COPY,   /* what must outlive the pass is copied out: sufficient factors */
    TRACE_SUM,    /* the gradients of a node's ranks are added up */
    TRACE_PAUSE,  /* tests and snapshots */
    TRACE_INPUT,  /* a data layer's forward: waits for the batch and takes it over */
    TRACE_READ, /* feeders: a batch is read and transformed, by one thread or several. From here on
                   spans of one kind may overlap */
    TRACE_SEND, /* from here on: transfers, from the posting to the completion of the request */
    TRACE_RECEIVE,
    TRACE_EXCHANGE, /* a collective: bytes sent, and as many received */
    TRACE_KINDS
};

/* Who records. One writer each; TRACE_OTHERS is for threads that come and go, through
 * trace_span_shared. */
enum trace_thread { TRACE_COMPUTE, TRACE_PROGRESS, TRACE_OTHERS, TRACE_THREADS };

struct trace_event {
    int64_t start, end; /* ns of the rank's clock */
    int64_t
        posted;     /* sends: when they were queued, start is when they left; 0: at once. Receives,
                       once paired: when they were posted, start is when their data began to travel */
    uint64_t bytes; /* transfers: in one direction */
    int32_t iteration;
    int32_t layer;  /* index in the net; -1: none */
    int32_t peer;   /* transfers: world rank, -1: all */
    int32_t tag;    /* transfers: the message's; pairs a receive with its send */
    uint8_t kind;   /* enum trace_kind */
    uint8_t scheme; /* transfers: its number in the registry; UINT8_MAX: none */
    uint8_t thread; /* enum trace_thread */
};

struct trace_buffer {
    struct trace_event *events; /* owned */
    size_t used, capacity;
    uint64_t dropped;
};

struct trace_options {
    int64_t first, last; /* iterations to keep, inclusive */
    size_t capacity;     /* events per thread; 0: TRACE_DEFAULT_CAPACITY */
    int64_t clock_shift; /* ns added to every reading of the clock: only tests want it */
};

enum { TRACE_DEFAULT_CAPACITY = 1 << 17 };
enum { TRACE_MARGIN = 2 }; /* iterations recorded around those to keep */

struct trace {
    struct trace_options options;
    _Atomic int32_t iteration; /* running on the compute thread */
    _Atomic bool on;           /* it is to be kept */
    struct trace_buffer buffer[TRACE_THREADS];
    pthread_mutex_t shared; /* guards TRACE_OTHERS */
};

/* Keeps iterations options->first to last. Not collective. */
int trace_create(const struct trace_options *options, struct trace **out);
void trace_destroy(struct trace *trace);

/* "5-20", "7" (that one), "5-" (from there on). */
int trace_parse_iterations(const char *text, int64_t *first, int64_t *last);

static inline int64_t trace_clock(const struct trace *trace)
{
    return clock_ns() + trace->options.clock_shift;
}

/* The start of what may become an event; 0 where nothing is traced. */
static inline int64_t trace_begin(const struct trace *trace)
{
    return trace ? trace_clock(trace) : 0;
}

/* An iteration begins on this rank. Others may be ahead or behind, and an iteration's transfers end
 * in the next one, so recording begins before `first` and ends after `last`; what is outside is
 * left out when the trace is written. Before traffic starts it is called for the first iteration to
 * come. */
static inline void trace_iteration(struct trace *trace, int64_t iteration)
{
    if (!trace)
        return;
    atomic_store_explicit(&trace->iteration, (int32_t)iteration, memory_order_relaxed);
    atomic_store_explicit(&trace->on,
                          iteration + TRACE_MARGIN >= trace->options.first &&
                              iteration - TRACE_MARGIN <= trace->options.last,
                          memory_order_relaxed);
}

static inline int32_t trace_current(const struct trace *trace)
{
    return atomic_load_explicit(&trace->iteration, memory_order_relaxed);
}

/* Keeps an event that ends now. */
static inline void trace_keep(struct trace *trace, enum trace_thread thread,
                              struct trace_event event)
{
    struct trace_buffer *buffer = &trace->buffer[thread];

    if (!atomic_load_explicit(&trace->on, memory_order_relaxed))
        return;
    if (buffer->used == buffer->capacity) {
        buffer->dropped++;
        return;
    }
    event.end = trace_clock(trace);
    event.thread = (uint8_t)thread;
    buffer->events[buffer->used++] = event;
}

/* What the thread did since `start`; layer -1: none. Nothing where trace is NULL. */
static inline void trace_span(struct trace *trace, enum trace_thread thread, enum trace_kind kind,
                              int layer, int64_t start)
{
    if (trace)
        trace_keep(trace, thread,
                   (struct trace_event){.start = start,
                                        .kind = (uint8_t)kind,
                                        .layer = layer,
                                        .peer = -1,
                                        .iteration = trace_current(trace)});
}

/* The same for threads without a buffer of their own; takes a lock. */
void trace_span_shared(struct trace *trace, enum trace_kind kind, int layer, int64_t start);

/* Nothing is recorded any more, whatever threads go on: the buffers may be read. */
void trace_stop(struct trace *trace);

#endif
