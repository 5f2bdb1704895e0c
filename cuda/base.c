/* Base of the CUDA engine and of the device without operators (memory_device.c): a GPU, its
 * streams, its memory, and matrix products. */
#include "cuda_internal.h"

#include "util/error.h"

#include <string.h>

#define DEFAULT_WORKSPACE ((size_t)1 << 30)

static int open_streams(struct cuda_engine *engine)
{
    void *sums = NULL;
    int least = 0, greatest = 0;

    /* copies get the highest priority: they are short, and other work waits for them */
    if (cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest)) ||
        cuda_check(cudaStreamCreateWithPriority(&engine->stream, cudaStreamNonBlocking, least)) ||
        cuda_check(cudaStreamCreateWithPriority(&engine->down, cudaStreamNonBlocking, greatest)) ||
        cuda_check(cudaStreamCreateWithPriority(&engine->up, cudaStreamNonBlocking, greatest)) ||
        cuda_check(cudaStreamCreateWithPriority(&engine->back, cudaStreamNonBlocking, greatest)) ||
        cuda_check(cudaStreamCreateWithPriority(&engine->feed, cudaStreamNonBlocking, greatest)) ||
        cuda_check(
            cudaHostAlloc((void **)&engine->bad, sizeof *engine->bad, cudaHostAllocMapped)) ||
        cuda_alloc((KERNEL_SUM_BLOCKS + 1) * sizeof *engine->sums, "partial sums", &sums))
        return -1;
    engine->sums = sums;
    memset(engine->bad, 0, sizeof *engine->bad);
    return 0;
}

int cuda_base_open(struct cuda_engine *engine, int number, size_t workspace, bool dnn)
{
    engine->workspace = workspace ? workspace : DEFAULT_WORKSPACE;
    return cuda_device_open(engine, number) || cuda_libs_open(&engine->libs, dnn) ||
                   open_streams(engine) || cuda_staging_open(engine) ||
                   cublaslt_check(engine, engine->libs.cublasLtCreate_(&engine->cublaslt))
               ? -1
               : 0;
}

void cuda_base_close(struct cuda_engine *engine)
{
    cudaStream_t streams[] = {engine->feed, engine->up, engine->down, engine->back, engine->stream};

    cuda_products_close(engine);
    cuda_staging_close(engine);
    for (int i = 0; i < WORK_SLOTS; i++)
        cuda_free(NULL, engine->work[i].data);
    cuda_free(NULL, engine->sums);
    cuda_free(NULL, engine->pass);
    if (engine->bad)
        cudaFreeHost(engine->bad);
    if (engine->cublaslt)
        engine->libs.cublasLtDestroy_(engine->cublaslt);
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamDestroy(streams[i]);
    cuda_libs_close(&engine->libs);
}

int cuda_engine_alloc(void *context, size_t bytes, const char *what, void **out)
{
    const struct cuda_engine *engine = context;

    *out = NULL;
    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    return cuda_alloc(bytes, what, out);
}

size_t cuda_room(void *context)
{
    const struct cuda_engine *engine = context;
    size_t free_bytes = 0, total = 0;

    if (cuda_check(cudaSetDevice(engine->device)) ||
        cuda_check(cudaMemGetInfo(&free_bytes, &total)))
        return 0;
    return free_bytes;
}

const char *cuda_device_words(void *context, char identity[64])
{
    const struct cuda_engine *engine = context;

    memcpy(identity, engine->identity, sizeof engine->identity);
    return engine->words;
}

int cuda_finish(void *context)
{
    const struct cuda_engine *engine = context;

    return cuda_check(cudaStreamSynchronize(engine->stream));
}
