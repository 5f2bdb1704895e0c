/* A GPU as a device: copies, sums and products. The CUDA engine uses this device beside its
 * operators. For a program with arrays and streams of its own, the device is opened alone;
 * `stream`, elsewhere the computation's, then orders work with the program's streams. */
#include "cuda_internal.h"
#include "gpu.h"

#include "util/error.h"

#include <stdlib.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

static void memory_close(void *context)
{
    struct cuda_engine *engine = context;

    if (!engine)
        return;
#ifdef HAVE_NCCL
    cuda_team_close(engine);
#endif
    if (engine->stream)
        cudaStreamSynchronize(engine->stream);
    if (engine->guest)
        cudaEventDestroy(engine->guest);
    cuda_base_close(engine);
    free(engine);
}

static int memory_open(int number, void **context)
{
    struct cuda_engine *engine = calloc(1, sizeof *engine);

    *context = NULL;
    if (!engine)
        return error_memory(sizeof *engine, "a GPU's memory");
    engine->math = MATH_FP32;
    if (cuda_base_open(engine, number, 0, false) ||
        cuda_check(cudaEventCreateWithFlags(&engine->guest, cudaEventDisableTiming))) {
        memory_close(engine);
        return -1;
    }
    *context = engine;
    return 0;
}

/* ---- the program's arrays and streams ---- */

static int expand(void *context, enum element_type type, const void *from, size_t n, float *to)
{
    const struct cuda_engine *engine = context;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (!from)
        return cuda_check(cudaMemsetAsync(to, 0, n * sizeof *to, engine->stream));
    if (type == ELEMENT_FLOAT32)
        return cuda_check(
            cudaMemcpyAsync(to, from, n * sizeof *to, cudaMemcpyDeviceToDevice, engine->stream));
    return cuda_check(kernel_expand(engine->stream, type == ELEMENT_FLOAT16, from, to, n));
}

static int take(void *context, enum element_type type, const float *from, size_t n, void *to)
{
    const struct cuda_engine *engine = context;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (type == ELEMENT_FLOAT32)
        return cuda_check(
            cudaMemcpyAsync(to, from, n * sizeof *from, cudaMemcpyDeviceToDevice, engine->stream));
    return cuda_check(kernel_take(engine->stream, type == ELEMENT_FLOAT16, from, to, n));
}

static int locate(const void *memory, int *device)
{
    struct cudaPointerAttributes at = {.type = cudaMemoryTypeUnregistered};
    int count;

    if (cuda_device_count(&count))
        return -1;
    if (cudaPointerGetAttributes(&at, memory) != cudaSuccess) {
        cudaGetLastError(); /* some drivers fail for memory unknown to CUDA */
        at.type = cudaMemoryTypeUnregistered;
    }
    *device = at.device;
    return at.type == cudaMemoryTypeDevice
               ? 0
               : error_set("%p is %s; expected a GPU's memory, from cudaMalloc", memory,
                           at.type == cudaMemoryTypeHost      ? "page-locked memory of the host"
                           : at.type == cudaMemoryTypeManaged ? "managed memory"
                                                              : "memory unknown to CUDA");
}

/* Records `guest` in a stream, which must belong to the engine's device. */
static int record(const struct cuda_engine *engine, cudaStream_t stream)
{
    cudaError_t status;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    status = cudaEventRecord(engine->guest, stream);
    if (status != cudaErrorInvalidResourceHandle && status != cudaErrorInvalidValue &&
        status != cudaErrorContextIsDestroyed)
        return cuda_status(status, "an event in the program's stream");
    cudaGetLastError();
    return error_set("the stream %p is not on GPU %d, which holds the tensors: it belongs to "
                     "another GPU, or was destroyed",
                     (void *)stream, engine->device);
}

static int follow(void *context, void *stream)
{
    const struct cuda_engine *engine = context;

    return record(engine, stream)
               ? -1
               : cuda_check(cudaStreamWaitEvent(engine->stream, engine->guest, 0));
}

static int precede(void *context, void *stream)
{
    const struct cuda_engine *engine = context;

    return record(engine, stream) || record(engine, engine->stream)
               ? -1
               : cuda_check(cudaStreamWaitEvent(stream, engine->guest, 0));
}

static const struct device_guest_i guest = {
    .expand = expand, .take = take, .locate = locate, .follow = follow, .precede = precede};

static const struct device_services_i services = {
    .update = cuda_update, .sumsq = cuda_sumsq, .encode = cuda_encode};

const struct device_i device_cuda = {
    .open = memory_open,
    .close = memory_close,
    .alloc = cuda_engine_alloc,
    .free = cuda_free,
    .room = cuda_room,
    .write = cuda_store,
    .read = cuda_fetch,
    .gemm = cuda_gemm,
    .describe = cuda_device_words,
    .finish = cuda_finish,
    .own_memory = true,
    .copies = &cuda_copies,
    .services = &services,
    .guest = &guest,
#ifdef HAVE_NCCL
    .team = &cuda_team,
#endif
};
