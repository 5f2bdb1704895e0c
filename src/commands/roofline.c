/* The roof that every operator is under, measured through the engine's own products and updates. */
#include "commands/roofline.h"

#include "util/clock.h"

enum { TIMES = 8 };

int roofline_finish(const struct engine *engine)
{
    return engine->i->finish ? engine->i->finish(engine->context) : 0;
}

/* Floats on the engine, and what is timed with them. */
struct trial {
    const struct engine *engine;
    float *memory;
    int size;                    /* of matrices */
    struct engine_update update; /* of parameters */
};

enum { ELEMS = 1 << 24 }; /* parameters */

static int multiply(const struct trial *t)
{
    size_t elems = (size_t)t->size * (size_t)t->size;

    return t->engine->i->gemm(t->engine->context, true, false, t->size, t->size, t->size, 1.0f,
                              t->memory, t->size, t->memory + elems, t->size, 0.0f,
                              t->memory + 2 * elems, t->size);
}

static int update(const struct trial *t)
{
    return t->engine->i->services->update(t->engine->context, &t->update, t->memory,
                                          t->memory + ELEMS, t->memory + 2 * ELEMS, ELEMS, ELEMS,
                                          ENGINE_IN_TURN);
}

/* The best of a few times of `once` with 3 x elems floats. */
static int time_best(struct trial *t, size_t elems, const char *what,
                     int (*once)(const struct trial *t), double *seconds)
{
    const struct engine *engine = t->engine;
    void *memory;
    int status = 0;

    if (engine->i->alloc(engine->context, 3 * elems * sizeof(float), what, &memory))
        return -1;
    t->memory = memory;
    *seconds = 0;
    for (int i = 0; i < TIMES && !status; i++) {
        double start = clock_seconds(), took;
        status = once(t) || roofline_finish(engine);
        took = clock_seconds() - start;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
    engine->i->free(engine->context, memory);
    return status ? -1 : 0;
}

int roofline_gemm(const struct engine *engine, int size, double *seconds)
{
    struct trial trial = {.engine = engine, .size = size};

    return time_best(&trial, (size_t)size * (size_t)size, "a matrix product", multiply, seconds);
}

int roofline_update(const struct engine *engine, double *seconds)
{
    const struct rule rule = {
        .kind = RULE_SGD, .momentum = 0.9f, .weight_decay = 5e-4f, .nhistory = 1};
    struct trial trial = {.engine = engine};
    int status;

    rule_describe(&rule, 0, 0.01f, 1, 1, 1, &trial.update);
    status = time_best(&trial, ELEMS, "parameters, gradients and history", update, seconds);
    *seconds *= 1e9 / ELEMS;
    return status;
}

int roofline_measure(const struct engine *engine, struct roofline *out)
{
    enum { SMALLEST = 512, LARGEST = 8192 };
    const double long_enough = 4e-3, bytes_per_param = 5 * sizeof(float);
    double seconds = 0;

    for (int size = SMALLEST; size <= LARGEST && seconds < long_enough; size *= 2) {
        double flops = 2.0 * size * size * size;
        if (roofline_gemm(engine, size, &seconds))
            return -1;
        if (flops / seconds > out->flops)
            out->flops = flops / seconds;
    }
    if (roofline_update(engine, &seconds))
        return -1;
    if (bytes_per_param * 1e9 / seconds > out->bandwidth)
        out->bandwidth = bytes_per_param * 1e9 / seconds;
    return 0;
}

bool roofline_computes(const struct roofline *roofline, const struct op_work *work)
{
    return work->flops / roofline->flops > op_work_bytes(work) / roofline->bandwidth;
}

double roofline_floor(const struct roofline *roofline, const struct op_work *work)
{
    return roofline_computes(roofline, work) ? work->flops / roofline->flops
                                             : op_work_bytes(work) / roofline->bandwidth;
}
