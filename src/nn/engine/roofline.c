/* The roofline, measured by the engine's own products and updates. */
#include "engine/roofline.h"

#include "util/clock.h"

enum { TIMES = 8 };

int roofline_finish(const struct engine *engine)
{
    return engine->device.i->finish ? engine->device.i->finish(engine->context) : 0;
}

int roofline_gemm(const struct engine *engine, int size, double *seconds)
{
    size_t elems = (size_t)size * (size_t)size;
    void *memory;
    int status = 0;

    if (engine->device.i->alloc(engine->context, 3 * elems * sizeof(float), "a matrix product",
                                &memory))
        return -1;
    float *a = memory, *b = a + elems, *c = b + elems;
    *seconds = 0;
    for (int i = 0; i < TIMES && !status; i++) {
        double start = clock_seconds(), took;
        status = (engine->i->multiply
                      ? engine->i->multiply(engine->context, size, a, b, c)
                      : engine->device.i->gemm(engine->context, true, false, size, size, size, 1.0f,
                                               a, size, b, size, 0.0f, c, size)) ||
                 roofline_finish(engine);
        took = clock_seconds() - start;
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
    engine->device.i->free(engine->context, memory);
    return status;
}

int roofline_update(const struct engine *engine, double *seconds)
{
    enum { ELEMS = 1 << 24 };
    const struct rule rule = {
        .kind = RULE_SGD, .momentum = 0.9f, .weight_decay = 5e-4f, .nhistory = 1};
    struct device_update update;
    void *memory;
    int status = 0;

    if (engine->device.i->alloc(engine->context, 3 * ELEMS * sizeof(float),
                                "parameters, gradients and history", &memory))
        return -1;
    float *values = memory, *grads = values + ELEMS, *history = grads + ELEMS;
    rule_describe(&rule, 0, 0.01f, 1, 1, 1, &update);
    *seconds = 0;
    for (int i = 0; i < TIMES && !status; i++) {
        double start = clock_seconds(), took;
        status = engine->device.i->services->update(engine->context, &update, values, grads,
                                                    history, ELEMS, ELEMS, DEVICE_IN_TURN) ||
                 roofline_finish(engine);
        took = (clock_seconds() - start) * (1e9 / ELEMS);
        *seconds = i == 0 || took < *seconds ? took : *seconds;
    }
    engine->device.i->free(engine->context, memory);
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

static double compute_seconds(const struct roofline *roofline, const struct op_work *work)
{
    return work->flops / roofline->flops;
}

static double memory_seconds(const struct roofline *roofline, const struct op_work *work)
{
    return op_work_bytes(work) / roofline->bandwidth;
}

bool roofline_computes(const struct roofline *roofline, const struct op_work *work)
{
    return compute_seconds(roofline, work) > memory_seconds(roofline, work);
}

double roofline_floor(const struct roofline *roofline, const struct op_work *work)
{
    return roofline_computes(roofline, work) ? compute_seconds(roofline, work)
                                             : memory_seconds(roofline, work);
}
