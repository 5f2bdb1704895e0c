/* Shared by the files behind gradient.h. */
#ifndef POSEIDON_SYNC_GRADIENT_INTERNAL_H
#define POSEIDON_SYNC_GRADIENT_INTERNAL_H

#include "sync/gradient.h"
#include "sync/history.h"
#include "sync/sync_internal.h"

/* Copies under way of one bucket, and its slots. */
struct bucket_copies {
    struct device_ticket *down;    /* gradients or factors on their way to the host */
    struct device_ticket **pieces; /* one ticket for each of several pieces, in place of `down` */
    struct device_ticket *up;      /* parameters or factors on their way to the device */
    float *branches; /* messages of a worker that sends several sums (plan_branches); else NULL */
    struct device_ticket *
        *fetches;              /* with staleness: per slot, its gradient on the way to the host */
    float *gradients, *values; /* with staleness: depth x elems */
};

struct gradient {
    const struct device_copies_i *copies; /* copies of the device; NULL on dedicated servers */
    void *context;
    bool own_memory; /* the host does not address the device's memory */
    bool direct;     /* MPI reaches device memory: gradients that need no other form go straight */
    char way[512];
    struct bucket_copies *buckets;
    /* Encoded gradients of all chunks that travel encoded. A message's memory is free again when
     * its bucket's messages are over, since staleness excludes codecs. */
    size_t *begin;           /* nchunks + 1: floats before the chunk's gradient */
    size_t *message;         /* nchunks + 1: floats before the chunk's message */
    struct history residual; /* rounding errors still to be sent, in the memory of the encoder */
    float *messages;         /* messages on the host */
    float *device_messages;  /* messages in device memory; NULL where the host encodes */
    int *serving, nserving; /* chunks being updated in device memory, in order; room for each twice,
                               as one update's end may begin the next */
    struct device_ticket **
        served; /* per chunk: ticket of its update; NULL: this rank updates none in device memory */
};

/* True if messages to and from the chunk's home use device memory without the host's. */
bool gradient_goes_straight(const struct sync *sync, int chunk);

/* ---- gradients that travel encoded (encode.c) ---- */

/* True if this rank sends the chunk's gradient encoded. */
bool encode_wanted(const struct sync *sync, int chunk);
int encode_open(struct sync *sync);
/* Encodes the bucket's gradients on a device that encodes, and fetches messages that do not go
 * straight. */
int encode_on_device(struct sync *sync, int bucket, enum device_turn turn,
                     struct device_ticket *ticket);
/* Returns the message of the chunk's gradient; encodes it now where the host encodes. */
void *encode_message(struct sync *sync, int chunk);

/* ---- a server's updates in the device's memory (serve.c) ---- */
int serve_open(struct sync *sync);

#endif
