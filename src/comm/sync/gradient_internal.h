/* What the files behind gradient.h share. */
#ifndef POSEIDON_SYNC_GRADIENT_INTERNAL_H
#define POSEIDON_SYNC_GRADIENT_INTERNAL_H

#include "sync/gradient.h"
#include "sync/history.h"
#include "sync/sync_internal.h"

/* One bucket's copies under way, and its slots. */
struct bucket_copies {
    struct device_ticket *down;    /* gradients or factors on their way to the host */
    struct device_ticket **pieces; /* of several, in place of `down`: each on its way */
    struct device_ticket *up;      /* parameters or factors on their way to the device */
    float *branches; /* where a gradient is several sums: the chunks' messages; else NULL */
    /* With staleness, per slot: */
    struct device_ticket **fetches; /* its gradient on the way */
    float *gradients, *values;      /* depth x elems */
};

struct gradient {
    const struct device_copies_i *copies; /* of the device; NULL on dedicated servers */
    void *context;
    bool own_memory; /* the host does not address the device's memory */
    bool direct;     /* MPI reaches that memory: gradients in the form that travels go straight */
    char way[512];
    struct bucket_copies *buckets;
    /* Gradients that travel encoded, chunk behind chunk; those that do not take no room. A place is
     * free again when its bucket's messages are over: staleness excludes codecs. */
    size_t *begin;           /* nchunks + 1: floats before the chunk's gradient */
    size_t *message;         /* nchunks + 1: floats before the chunk's message */
    struct history residual; /* what rounding has yet to send; where the device encodes, there */
    float *messages;         /* on the host */
    float *device_messages;  /* in the device's memory; NULL where the host encodes */
    int *serving, nserving;  /* chunks whose update is under way in the device's memory, in order;
                                room for each twice, as the end of one may begin the next */
    struct device_ticket **served; /* per chunk: of that update; NULL: none is made there */
};

/* Whether messages to and from the chunk's home leave and reach the device's memory without the
 * host's. */
bool gradient_goes_straight(const struct sync *sync, int chunk);

/* ---- gradients that travel encoded (encode.c) ---- */

/* Whether this rank sends that chunk's gradient encoded. */
bool encode_wanted(const struct sync *sync, int chunk);
int encode_open(struct sync *sync);
/* The bucket's gradients that travel encoded become messages, where the device encodes; those that
 * do not go straight are fetched. */
int encode_on_device(struct sync *sync, int bucket, enum device_turn turn,
                     struct device_ticket *ticket);
/* The message of the chunk's gradient: encoded now where the host does it. */
void *encode_message(struct sync *sync, int chunk);

/* ---- a server's updates in the device's memory (serve.c) ---- */
int serve_open(struct sync *sync);

#endif
