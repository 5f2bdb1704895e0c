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

/* Measures the product of two `size` x `size` matrices, in seconds: the least of several runs. */
int roofline_gemm(const struct engine *engine, int size, double *seconds);

/* Measures SGD with momentum, in seconds for 10^9 parameters: the least of several runs. */
int roofline_update(const struct engine *engine, double *seconds);

/* Measures products of growing size until one takes milliseconds, and an update of 16 million
 * parameters, which reads three numbers for each and writes two. Takes well under a second. Only
 * ever raises the values of `out` (zeros at first): other programs may disturb a measurement. */
int roofline_measure(const struct engine *engine, struct roofline *out);

/* Returns the least seconds for the work: the greater of its compute time and memory time. */
double roofline_floor(const struct roofline *roofline, const struct op_work *work);

/* Returns true if the work's compute time exceeds its memory time. */
bool roofline_computes(const struct roofline *roofline, const struct op_work *work);

static inline double op_work_bytes(const struct op_work *work)
{
    return work->blob_bytes + work->param_bytes;
}

#endif
