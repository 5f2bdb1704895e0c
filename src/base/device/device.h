/* A device: the memory of an engine, and the work that communication and updates need there.
 * Operators belong to the engine (engine/engine.h).
 *
 * Communication knows devices alone. A device is a table of functions and an opaque context. The
 * host's processors are a device, too (device_host). */
#ifndef POSEIDON_DEVICE_DEVICE_H
#define POSEIDON_DEVICE_DEVICE_H

#include "device/rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Codecs that write gradients in fewer bits (device/codec.h). */
enum device_code { DEVICE_BF16, DEVICE_ONEBIT };

/* `rows` pieces of `width` floats, in host memory and in device memory. Strides count floats, and
 * do not matter for one row. Where the device's memory is the host's, `host` and `memory` may be
 * the same place. */
struct device_rows {
    float *host;
    size_t host_stride;
    float *memory;
    size_t stride;
    size_t width, rows;
};

/* A copy under way. If several copies share a ticket, ready and order refer to the last copy. */
struct device_ticket;

/* When work in device memory begins. */
enum device_turn {
    DEVICE_IN_TURN, /* after all computation that was asked for before */
    DEVICE_STORED,  /* after all earlier stores and updates, beside the computation, which must not
                       use that memory meanwhile */
};

enum device_direction {
    DEVICE_FETCH,  /* device to host */
    DEVICE_STORE,  /* host to device */
    DEVICE_WITHIN, /* from rows->memory to rows->host, both device memory; in turn */
};

/* Copies between host and device memory. Every device has all of these functions, so that code
 * that moves parameters and gradients need not ask where the memory is.
 *
 * Copies run beside the computation; a ticket says when one is over. Any thread may call these
 * functions, each ticket from one thread at a time. All return 0, or -1 with a message. Not
 * collective.
 *
 * On devices that work in the host's memory (device_host_copies) a copy is over when its function
 * returns, and rows that would be copied onto themselves are left alone. Such devices have no
 * tickets: ticket_create gives NULL, which every function takes. */
struct device_copies_i {
    /* Call before handing device memory to a library that reaches it by itself. */
    int (*enter)(void *context);
    /* Host memory that copies reach fast (page-locked where that matters), zeroed, aligned to a
     * cache line. The caller owns it until host_free; host_free of NULL does nothing. `what` names
     * the purpose, for a message. */
    int (*host_alloc)(void *context, size_t bytes, const char *what, void **out);
    void (*host_free)(void *context, void *memory);
    int (*ticket_create)(void *context, struct device_ticket **out);
    void (*ticket_destroy)(void *context, struct device_ticket *ticket);
    /* Starts a copy at its turn. Later computation must not touch that memory before the copy is
     * over: call `order`, except for DEVICE_WITHIN. No rows: the ticket marks the end of all
     * earlier work. */
    int (*copy)(void *context, enum device_direction direction, const struct device_rows *rows,
                enum device_turn turn, struct device_ticket *ticket);
    /* 1 if the ticket's last copy is over, 0 if not, -1 with a message. Does not wait. */
    int (*ready)(void *context, struct device_ticket *ticket);
    /* Makes all later computation begin after the ticket's copy; the host does not wait. */
    int (*order)(void *context, struct device_ticket *ticket);
};

/* Copy functions of devices whose memory is the host's. The context is not used. */
extern const struct device_copies_i device_host_copies;

/* Work in device memory. Every slot is optional; NULL: the host does the work, on fetched values if
 * the device has its own memory. Any thread may call these. All return 0, or -1 with a message. Not
 * collective. */
struct device_services_i {
    /* Applies the solver's rule (rule_update) to n elements of device memory. history: one or two
     * blocks, `stride` apart. A blank device lets the time pass and touches nothing.
     * DEVICE_IN_TURN is for the compute thread, which may have helpers. */
    int (*update)(void *context, const struct device_update *update, float *value,
                  const float *grad, float *history, size_t stride, size_t n,
                  enum device_turn turn);
    /* Sum of (scale x)^2 over n elements of device memory, after all earlier computation. Waits. */
    int (*sumsq)(void *context, const float *x, float scale, size_t n, double *out);
    /* Encodes rows x n floats of device memory, within device memory, to the same bits as the host.
     * residual, out: as in the code's codec (device/codec.h). The computation goes on meanwhile; a
     * later DEVICE_FETCH of the same turn begins after the encoding. */
    int (*encode)(void *context, enum device_code code, const float *x, float *residual,
                  size_t rows, size_t n, void *out, enum device_turn turn,
                  struct device_ticket *ticket);
};

/* Services of devices that work in the host's memory; each returns when done. No context is
 * used. */
extern const struct device_services_i device_host_services;

/* The element types of another program's arrays. */
enum element_type { ELEMENT_FLOAT32, ELEMENT_FLOAT16, ELEMENT_BFLOAT16 };

/* Access to another program's arrays and streams. Compute thread. All return 0, or -1 with a
 * message. Not collective. */
struct device_guest_i {
    /* expand converts n elements of the program's array to floats of device memory, take converts
     * back (device/codec.h); in turn. from NULL: zeros. */
    int (*expand)(void *context, enum element_type type, const void *from, size_t n, float *to);
    int (*take)(void *context, enum element_type type, const float *from, size_t n, void *to);
    /* With own_memory; else NULL. Finds the number of the device that `memory` lies on, as open
     * takes it; fails for memory of no device. */
    int (*locate)(const void *memory, int *device);
    /* follow: our later work waits for the caller's stream. precede: the caller's stream waits for
     * our work so far. stream NULL: the default stream. The host does not wait. */
    int (*follow)(void *context, void *stream);
    int (*precede)(void *context, void *stream);
};

enum { DEVICE_TEAM_ID = 128 };

/* Sums among the devices of one machine, without the host (NCCL). All ranks of a team ask for the
 * same operations in the same order. An operation takes its turn among DEVICE_STORED work, and is
 * over when all ranks have asked for it. The host never waits. One thread at a time. */
struct device_team_i {
    /* The library in words ("NCCL 2.28.9"); fails with the name of what is missing. */
    int (*library)(char *words, size_t size);
    /* Makes the id that rank 0 hands to all ranks for open. */
    int (*identify)(void *context, char id[DEVICE_TEAM_ID]);
    /* Joins the ranks, each with its own device, and makes one sum as a trial. The team lasts until
     * all ranks close their devices. Collective. */
    int (*open)(void *context, const char id[DEVICE_TEAM_ID], int rank, int nranks);
    /* Replaces rank 0's x by the sum of all ranks' x, n elements of device memory. Begins after
     * the ticket's copy; NULL: there is none. */
    int (*reduce)(void *context, float *x, size_t n, struct device_ticket *after);
    /* Replaces the other ranks' x by rank 0's. */
    int (*broadcast)(void *context, float *x, size_t n);
    /* Returns -1 with a message if an operation failed, here or on another rank. */
    int (*check)(void *context);
    /* Ends the operations under way, whose results mean nothing. No call may follow. */
    void (*abort)(void *context);
};

struct device_i {
    bool blank;      /* computes nothing: values mean nothing and need no initialising, testing or
                        saving */
    bool own_memory; /* the host cannot address device memory, and work is asynchronous. false:
                        alloc gives host memory, and values may be touched directly */
    /* Opens the device of that number among the visible devices, without an engine. NULL: the
     * device comes with its engine's context alone (engine_open). */
    int (*open)(int device, void **context);
    void (*close)(void *context);
    /* Device memory, zeroed, aligned for the libraries; free(NULL) does nothing. */
    int (*alloc)(void *context, size_t bytes, const char *what, void **out);
    void (*free)(void *context, void *memory);
    /* Returns the bytes that alloc could still give, for messages. NULL: not known. */
    size_t (*room)(void *context);
    /* Copies n floats, in turn: `from` may be changed, and `to` be read, when this returns. write:
     * host to device. read: device to host. */
    int (*write)(void *context, float *to, const float *from, size_t n);
    int (*read)(void *context, const float *from, float *to, size_t n);
    /* C = alpha op(A) op(B) + beta C, all plain row-major device memory. C is m x n, the inner size
     * k. */
    int (*gemm)(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                float alpha, const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                float *c, int64_t ldc);
    /* Returns when all earlier computation is over. NULL: work is over when its call returns. */
    int (*finish)(void *context);
    /* The device in words ("NVIDIA H200, device 0"). identity: unique to this device among all
     * machines. NULL: computes on the host's processors. */
    const char *(*describe)(void *context, char identity[64]);
    const struct device_copies_i *copies;     /* never NULL */
    const struct device_services_i *services; /* never NULL; each slot may be NULL */
    const struct device_team_i *team;         /* only with own_memory; NULL: this build has none */
    const struct device_guest_i *guest;       /* NULL: no other program's arrays */
};

struct device {
    const struct device_i *i;
    void *context;
};

struct owner;

/* Allocate memory that `owner` frees, by i->alloc or i->copies->host_alloc (_host; without a
 * device: plain zeroed memory). Return NULL with a message on failure. */
void *device_own(const struct device *device, struct owner *owner, size_t bytes, const char *what);
void *device_own_host(const struct device *device, struct owner *owner, size_t bytes,
                      const char *what);

/* The host as a device of processes without an engine: one thread does copies, rules and products.
 * One product at a time. */
extern const struct device_i device_host;

/* The functions of device_host_services, and device_i.write and device_i.read of host memory, for
 * other devices that work there. The context is not used. */
int device_host_sumsq(void *context, const float *x, float scale, size_t n, double *out);
int device_host_encode(void *context, enum device_code code, const float *x, float *residual,
                       size_t rows, size_t n, void *out, enum device_turn turn,
                       struct device_ticket *ticket);
int device_host_write(void *context, float *to, const float *from, size_t n);
int device_host_read(void *context, const float *from, float *to, size_t n);

#endif
