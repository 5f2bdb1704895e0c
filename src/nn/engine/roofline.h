/* What a device can do at most, measured, and so how long work must take at least. */
#ifndef POSEIDON_ENGINE_ROOFLINE_H
#define POSEIDON_ENGINE_ROOFLINE_H

#include "engine/engine.h"

struct roofline {
    double flops;     /* per second, of matrix products, a multiply-add counted as 2 */
    double bandwidth; /* bytes per second of memory, read and written together */
};

/* Everything that the engine was given to do is done. */
int roofline_finish(const struct engine *engine);

/* Seconds of a product of square matrices of that size, the best of a few. */
int roofline_gemm(const struct engine *engine, int size, double *seconds);

/* Seconds that SGD with momentum takes for 10^9 parameters, the best of a few. */
int roofline_update(const struct engine *engine, double *seconds);

/* Products of growing size until one takes milliseconds, and an update of 16 million parameters,
 * which reads three numbers for each and writes two. Takes well under a second. What `out` holds
 * stays where it is more: other programs may have disturbed either time. Zeros: nothing yet. */
int roofline_measure(const struct engine *engine, struct roofline *out);

/* The larger of the two: operations at the rate, and bytes at the bandwidth. Seconds. */
double roofline_floor(const struct roofline *roofline, const struct op_work *work);

/* Whether operations are the larger. */
bool roofline_computes(const struct roofline *roofline, const struct op_work *work);

static inline double op_work_bytes(const struct op_work *work)
{
    return work->blob_bytes + work->param_bytes;
}

#endif
