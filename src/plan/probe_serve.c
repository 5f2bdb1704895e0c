/* How fast a server updates parameters in its engine's memory: a chunk's sum goes there, the rule
 * is applied, the new values come back. One chunk after the other, as their sums become complete.
 */
#include "plan/probe.h"

#include "util/clock.h"

#include <sched.h>

enum {
    ELEMS = 1 << 19, /* 2 MiB, a chunk of a fast network */
    ROUNDS = 16
};

struct serving {
    const struct engine *engine;
    void *host, *memory; /* ELEMS floats; values, gradient and history */
    struct engine_ticket *ticket;
};

static int serve(const struct serving *s)
{
    const struct engine_remote_i *remote = s->engine->i->remote;
    void *context = s->engine->context;
    const struct engine_update sgd = {
        .rule = ENGINE_SGD, .scale = 1, .rate = 0.01f, .momentum = 0.9f};
    float *values = s->memory, *grad = values + ELEMS, *history = grad + ELEMS;
    const struct engine_rows up = {.host = s->host, .memory = grad, .width = ELEMS, .rows = 1};
    const struct engine_rows back = {.host = s->host, .memory = values, .width = ELEMS, .rows = 1};
    int ready;

    if (remote->store(context, &up, s->ticket) ||
        remote->update(context, &sgd, values, grad, history, ELEMS, ELEMS, true) ||
        remote->fetch_stored(context, &back, s->ticket))
        return -1;
    while ((ready = remote->ready(context, s->ticket)) == 0)
        sched_yield();
    return ready < 0 ? -1 : 0;
}

/* The best round counts, as for the host's rates (probe.c). */
static int time_rounds(const struct serving *s, double *Bps)
{
    if (serve(s)) /* warms up */
        return -1;
    for (int i = 0; i < ROUNDS; i++) {
        double start = clock_seconds(), rate;
        if (serve(s))
            return -1;
        rate = ELEMS * sizeof(float) / (clock_seconds() - start);
        *Bps = rate > *Bps ? rate : *Bps;
    }
    return 0;
}

int probe_serving(const struct engine *engine, double *Bps)
{
    const struct engine_remote_i *remote = engine->i->remote;
    struct serving s = {.engine = engine};
    int status;

    *Bps = 0;
    if (!remote)
        return 0;
    status =
        remote->host_alloc(engine->context, ELEMS * sizeof(float), "measuring updates", &s.host) ||
                engine->i->alloc(engine->context, 3 * ELEMS * sizeof(float), "measuring updates",
                                 &s.memory) ||
                remote->ticket_create(engine->context, &s.ticket) || time_rounds(&s, Bps)
            ? -1
            : 0;
    remote->ticket_destroy(engine->context, s.ticket);
    engine->i->free(engine->context, s.memory);
    remote->host_free(engine->context, s.host);
    return status;
}
