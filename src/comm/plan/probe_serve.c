/* Measures how fast a server updates parameters in engine memory: a chunk's sum goes there, the
 * rule is applied, the new values come back, one chunk after the other. Also measures the copies of
 * such chunks there and back, without a rule. */
#include "plan/probe.h"

#include "util/clock.h"
#include "util/error.h"

#include <sched.h>

enum {
    ELEMS = 1 << 19, /* 2 MiB, a chunk of a fast network */
    ROUNDS = 16
};

struct serving {
    const struct device *device;
    void *host, *memory; /* ELEMS floats; values, gradient and history, ELEMS floats each */
    struct device_ticket *ticket;
};

static void close_serving(struct serving *s)
{
    const struct device *device = s->device;

    device->i->copies->ticket_destroy(device->context, s->ticket);
    device->i->free(device->context, s->memory);
    device->i->copies->host_free(device->context, s->host);
}

static int open_serving(struct serving *s)
{
    const struct device *device = s->device;
    const struct device_copies_i *copies = device->i->copies;
    size_t bytes = ELEMS * sizeof(float);

    if (!copies->host_alloc(device->context, bytes, "measuring updates", &s->host) &&
        !device->i->alloc(device->context, 3 * bytes, "measuring updates", &s->memory) &&
        !copies->ticket_create(device->context, &s->ticket))
        return 0;
    close_serving(s);
    return -1;
}

static int await(const struct serving *s)
{
    const struct device *device = s->device;
    int ready;

    while ((ready = device->i->copies->ready(device->context, s->ticket)) == 0)
        sched_yield();
    return ready < 0 ? -1 : 0;
}

static int serve(const struct serving *s)
{
    const struct device_copies_i *copies = s->device->i->copies;
    const struct device_services_i *services = s->device->i->services;
    void *context = s->device->context;
    const struct device_update sgd = {
        .rule = RULE_SGD, .scale = 1, .rate = 0.01f, .momentum = 0.9f};
    float *values = s->memory, *grad = values + ELEMS, *history = grad + ELEMS;
    const struct device_rows up = {.host = s->host, .memory = grad, .width = ELEMS, .rows = 1};
    const struct device_rows back = {.host = s->host, .memory = values, .width = ELEMS, .rows = 1};

    return error_status(
        copies->copy(context, DEVICE_STORE, &up, DEVICE_STORED, s->ticket) ||
        services->update(context, &sgd, values, grad, history, ELEMS, ELEMS, DEVICE_STORED) ||
        copies->copy(context, DEVICE_FETCH, &back, DEVICE_STORED, s->ticket) || await(s));
}

static int copy(const struct serving *s)
{
    const struct device_copies_i *copies = s->device->i->copies;
    const struct device_rows rows = {
        .host = s->host, .memory = s->memory, .width = ELEMS, .rows = 1};

    return error_status(
        copies->copy(s->device->context, DEVICE_STORE, &rows, DEVICE_STORED, s->ticket) ||
        await(s) ||
        copies->copy(s->device->context, DEVICE_FETCH, &rows, DEVICE_IN_TURN, s->ticket) ||
        await(s));
}

/* Measures the bytes per second of a round that moves its chunk `times` times. The best round
 * counts, as for the host's rates (probe.c). */
static int time_rounds(const struct serving *s, int (*round)(const struct serving *s), int times,
                       double *Bps)
{
    if (round(s)) /* warms up */
        return -1;
    for (int i = 0; i < ROUNDS; i++) {
        double start = clock_seconds(), rate;
        if (round(s))
            return -1;
        rate = times * ELEMS * sizeof(float) / (clock_seconds() - start);
        *Bps = rate > *Bps ? rate : *Bps;
    }
    return 0;
}

static int measure(const struct device *device, int (*round)(const struct serving *s), int times,
                   double *Bps)
{
    struct serving s = {.device = device};
    int status;

    if (open_serving(&s))
        return -1;
    status = time_rounds(&s, round, times, Bps);
    close_serving(&s);
    return status;
}

int probe_serving(const struct device *device, double *Bps)
{
    *Bps = 0;
    return device->i->own_memory && device->i->services->update ? measure(device, serve, 1, Bps)
                                                                : 0;
}

int probe_copying(const struct device *device, double *Bps)
{
    *Bps = 0;
    return device->i->own_memory ? measure(device, copy, 2, Bps) : 0;
}
