/* The device's services (struct device_services_i): the solver's rule, sums of squares, codecs.
 * DEVICE_IN_TURN work runs on the computation's stream, DEVICE_STORED updates on the stream of
 * copies from the host. Encoding runs on the stream that will fetch its message, so the fetch comes
 * after it. */
#include "cuda_internal.h"

int cuda_update(void *context, const struct device_update *u, float *value, const float *grad,
                float *history, size_t stride, size_t n, enum device_turn turn)
{
    const struct cuda_engine *engine = context;
    float *second = rule_kind_histories(u->rule) > 1 ? history + stride : NULL;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    return cuda_check(kernel_update(turn == DEVICE_STORED ? engine->up : engine->stream, u, value,
                                    grad, history, second, n));
}

int cuda_sumsq(void *context, const float *x, float scale, size_t n, double *out)
{
    const struct cuda_engine *engine = context;
    double *result = engine->sums + KERNEL_SUM_BLOCKS;

    if (cuda_check(kernel_sumsq(engine->stream, x, scale, n, engine->sums, result)) ||
        cuda_check(
            cudaMemcpyAsync(out, result, sizeof *out, cudaMemcpyDeviceToHost, engine->stream)))
        return -1;
    return cuda_check(cudaStreamSynchronize(engine->stream));
}

int cuda_encode(void *context, enum device_code code, const float *x, float *residual, size_t rows,
                size_t n, void *out, enum device_turn turn, struct device_ticket *ticket)
{
    const struct cuda_engine *engine = context;
    bool stored = turn == DEVICE_STORED;
    cudaStream_t on = stored ? engine->back : engine->down;
    cudaError_t status;

    if (cuda_follow(engine, stored ? engine->up : engine->stream, on, ticket))
        return -1;
    status = code == DEVICE_BF16 ? kernel_encode_bf16(on, x, residual, rows * n, out)
                                 : kernel_encode_onebit(on, x, residual, rows, n, out);
    if (status != cudaSuccess)
        return cuda_status(status, "encoding a gradient");
    return cuda_check(cudaEventRecord(ticket->over, on));
}
