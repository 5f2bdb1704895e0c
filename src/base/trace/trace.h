/* The recorder: each rank's activities and their times, kept in memory until training is over.
 *
 * Each thread that records has its own buffer, allocated and touched beforehand. Recording an event
 * reads the clock and writes 56 bytes, without a lock, an allocation or a system call. A full
 * buffer drops events and counts the drops. Without a trace the recorder is a NULL pointer, and
 * every function here is one branch. */
#ifndef POSEIDON_TRACE_TRACE_H
#define POSEIDON_TRACE_TRACE_H

#include "util/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum trace_kind {
    TRACE_ITERATION, /* an iteration: passes, and waiting for their data */
    TRACE_FORWARD,
    TRACE_BACKWARD,
    TRACE_UPDATE, /* applying the solver's rule, and rebuilding a gradient from factors */
    TRACE_WAIT,   /* the compute thread waits for the network */
    TRACE_COPY,   /* copying data that must outlive the pass: sufficient factors */
    TRACE_SUM,    /* adding up the gradients of a node's ranks */
    TRACE_PAUSE,  /* tests and snapshots */
    TRACE_INPUT,  /* a data layer's forward: waiting for the batch and taking it over */
    TRACE_READ,   /* feeders: reading and transforming a batch, by one thread or several. Spans of
                     this kind and of each later kind may overlap */
    TRACE_SEND,   /* a transfer, like the later kinds: from posting to completion of the request */
    TRACE_RECEIVE,
    TRACE_EXCHANGE, /* a collective, which receives as many bytes as are sent */
    TRACE_KINDS
};

/* Threads that record, one buffer each. TRACE_OTHERS is for threads that come and go, through
 * trace_span_shared. */
enum trace_thread { TRACE_COMPUTE, TRACE_PROGRESS, TRACE_OTHERS, TRACE_THREADS };

struct trace_event {
    int64_t start, end; /* ns of the rank's clock. A send starts when its data leaves, and so does a
                           receive once it is paired */
    int64_t posted;     /* time that a send was queued (0: at once) or a paired receive posted */
    uint64_t bytes;     /* bytes of a transfer in one direction */
    int32_t iteration;
    int32_t layer;  /* index of the layer in the net; -1: none */
    int32_t peer;   /* world rank at the other end of a transfer; -1: all */
    int32_t tag;    /* the message's tag, which pairs a receive with its send */
    uint8_t kind;   /* enum trace_kind */
    uint8_t scheme; /* number of a transfer's scheme in the registry; UINT8_MAX: none */
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
    int64_t clock_shift; /* ns added to every reading of the clock, for tests */
};

enum { TRACE_DEFAULT_CAPACITY = 1 << 17 };
enum { TRACE_MARGIN = 2 }; /* iterations recorded around those to keep */

struct trace {
    struct trace_options options;
    _Atomic int32_t iteration; /* iteration that the compute thread runs */
    _Atomic bool on;           /* the iteration is recorded */
    struct trace_buffer buffer[TRACE_THREADS];
    pthread_mutex_t shared; /* guards the buffer of TRACE_OTHERS */
};

/* Creates a recorder of iterations options->first to last. Not collective. */
int trace_create(const struct trace_options *options, struct trace **out);
void trace_destroy(struct trace *trace);

/* Parses "5-20", "7" (iteration 7 alone) or "5-" (from iteration 5 on). */
int trace_parse_iterations(const char *text, int64_t *first, int64_t *last);

static inline int64_t trace_clock(const struct trace *trace)
{
    return clock_ns() + trace->options.clock_shift;
}

/* Returns the start of what may become an event; 0 if nothing is traced. */
static inline int64_t trace_begin(const struct trace *trace)
{
    return trace ? trace_clock(trace) : 0;
}

/* Begins an iteration on this rank. Other ranks may be ahead or behind, and an iteration's
 * transfers end in the next iteration. So recording begins before `first` and ends after `last`;
 * writing the trace leaves out events of other iterations. To be called before traffic starts, for
 * the first iteration. */
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

/* Records an event that ends now. */
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

/* Records the thread's work since `start`; layer -1: none. Does nothing if trace is NULL. */
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

/* Records like trace_span, for threads without a buffer of their own; takes a lock. */
void trace_span_shared(struct trace *trace, enum trace_kind kind, int layer, int64_t start);

/* Ends recording, even if threads go on working, so that the buffers may be read. */
void trace_stop(struct trace *trace);

#endif
