/* Roofline of a device: its measured limits, and the least time that work must take. */
#ifndef POSEIDON_ENGINE_ROOFLINE_H
#define POSEIDON_ENGINE_ROOFLINE_H

#include "engine/engine.h"

struct roofline {
    double flops;     /* operations per second of matrix products, a multiply-add counted as 2 */
    double bandwidth; /* bytes of memory per second, read and written together */
};

/* Waits until all work given to the engine is done. */
int roofline_finish(const struct engine *engine);

/* Measures a product of square matrices of that size, in seconds: the best of a few. */
int roofline_gemm(const struct engine *engine, int size, double *seconds);

/* Measures SGD with momentum, in seconds for 10^9 parameters: the best of a few. */
int roofline_update(const struct engine *engine, double *seconds);

/* Measures products of growing size until one takes milliseconds, and an update of 16 million
 * parameters, which reads three numbers for each and writes two. Takes well under a second. Keeps
 * the larger values of `out` (zeros at first): other programs may have disturbed a measurement. */
int roofline_measure(const struct engine *engine, struct roofline *out);

/* Returns the least seconds for the work: the longer of operations and bytes at their limits. */
double roofline_floor(const struct roofline *roofline, const struct op_work *work);

/* Returns true if operations take longer than bytes. */
bool roofline_computes(const struct roofline *roofline, const struct op_work *work);

static inline double op_work_bytes(const struct op_work *work)
{
    return work->blob_bytes + work->param_bytes;
}

#endif
