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
    const struct engine_copies_i *copies = s->engine->i->copies;
    const struct engine_services_i *services = s->engine->i->services;
    void *context = s->engine->context;
    const struct engine_update sgd = {
        .rule = RULE_SGD, .scale = 1, .rate = 0.01f, .momentum = 0.9f};
    float *values = s->memory, *grad = values + ELEMS, *history = grad + ELEMS;
    const struct engine_rows up = {.host = s->host, .memory = grad, .width = ELEMS, .rows = 1};
    const struct engine_rows back = {.host = s->host, .memory = values, .width = ELEMS, .rows = 1};
    int ready;

    if (copies->store(context, &up, s->ticket) ||
        services->update(context, &sgd, values, grad, history, ELEMS, ELEMS, ENGINE_STORED) ||
        copies->fetch_stored(context, &back, s->ticket))
        return -1;
    while ((ready = copies->ready(context, s->ticket)) == 0)
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
    const struct engine_copies_i *copies = engine->i->copies;
    struct serving s = {.engine = engine};
    int status;

    *Bps = 0;
    if (!engine->i->own_memory || !engine->i->services->update)
        return 0;
    status =
        copies->host_alloc(engine->context, ELEMS * sizeof(float), "measuring updates", &s.host) ||
                engine->i->alloc(engine->context, 3 * ELEMS * sizeof(float), "measuring updates",
                                 &s.memory) ||
                copies->ticket_create(engine->context, &s.ticket) || time_rounds(&s, Bps)
            ? -1
            : 0;
    copies->ticket_destroy(engine->context, s.ticket);
    engine->i->free(engine->context, s.memory);
    copies->host_free(engine->context, s.host);
    return status;
}
