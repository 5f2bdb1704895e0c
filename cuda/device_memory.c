/* Device memory, and copies to and from the host.
 *
 * Small writes (loss weights, ends of parameters) go through page-locked slots and cost the host a
 * copy. Large writes (a batch of images) go through one of two buffers on the device: the next
 * batch is copied while the GPU works on the last. */
#include "cuda_internal.h"

#include "util/error.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 16, SLOT_BYTES = 16384, BUFFERS = 2 };

struct slot {
    void *host;
    cudaEvent_t used; /* end of the copy out of the slot */
};

struct buffer {
    void *device;
    size_t bytes;
    cudaEvent_t filled, used;
};

struct cuda_staging {
    struct slot slot[SLOTS];
    struct buffer buffer[BUFFERS];
    unsigned next_slot, next_buffer;
};

int cuda_alloc(size_t bytes, const char *what, void **out)
{
    size_t free_bytes = 0, total = 0;
    cudaError_t status;

    *out = NULL;
    status = cudaMalloc(out, bytes ? bytes : 1);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        cudaMemGetInfo(&free_bytes, &total);
        return error_set(
            "the GPU's memory is full: %s needs %.1f MiB, and %.1f of %.0f MiB are free", what,
            (double)bytes / 1048576, (double)free_bytes / 1048576, (double)total / 1048576);
    }
    if (status != cudaSuccess)
        return cuda_status(status, "cudaMalloc");
    /* the default stream is not in order with the engine's streams: wait here once */
    if (cuda_check(cudaMemset(*out, 0, bytes ? bytes : 1)) ||
        cuda_check(cudaStreamSynchronize(NULL))) {
        cudaFree(*out);
        *out = NULL;
        return -1;
    }
    return 0;
}

void cuda_free(void *context, void *memory)
{
    (void)context;
    if (memory)
        cudaFree(memory);
}

int cuda_work_reserve(struct cuda_engine *engine, enum cuda_work_slot slot, size_t bytes)
{
    static const char *const names[WORK_SLOTS] = {
        "the libraries' workspace", "a top gradient's copy", "a bottom gradient's copy",
        "a weight gradient's copy", "partial sums"};
    struct cuda_work *work = &engine->work[slot];

    if (work->bytes >= bytes)
        return 0;
    assert(!engine->recording); /* a stream under capture allocates nothing */
    cudaStreamSynchronize(engine->stream);
    cuda_free(NULL, work->data);
    *work = (struct cuda_work){0};
    engine->generation++;
    if (cuda_alloc(bytes, names[slot], &work->data))
        return -1;
    work->bytes = bytes;
    return 0;
}

int cuda_staging_open(struct cuda_engine *engine)
{
    struct cuda_staging *staging = calloc(1, sizeof *staging);

    engine->staging = staging;
    if (!staging)
        return error_memory(sizeof *staging, "staging");
    for (int i = 0; i < SLOTS; i++)
        if (cuda_check(cudaMallocHost(&staging->slot[i].host, SLOT_BYTES)) ||
            cuda_check(cudaEventCreateWithFlags(&staging->slot[i].used, cudaEventDisableTiming)))
            return -1;
    for (int i = 0; i < BUFFERS; i++)
        if (cuda_check(
                cudaEventCreateWithFlags(&staging->buffer[i].filled, cudaEventDisableTiming)) ||
            cuda_check(cudaEventCreateWithFlags(&staging->buffer[i].used, cudaEventDisableTiming)))
            return -1;
    return 0;
}

void cuda_staging_close(struct cuda_engine *engine)
{
    struct cuda_staging *staging = engine->staging;

    if (!staging)
        return;
    for (int i = 0; i < SLOTS; i++) {
        if (staging->slot[i].host)
            cudaFreeHost(staging->slot[i].host);
        if (staging->slot[i].used)
            cudaEventDestroy(staging->slot[i].used);
    }
    for (int i = 0; i < BUFFERS; i++) {
        cuda_free(NULL, staging->buffer[i].device);
        if (staging->buffer[i].filled)
            cudaEventDestroy(staging->buffer[i].filled);
        if (staging->buffer[i].used)
            cudaEventDestroy(staging->buffer[i].used);
    }
    free(staging);
    engine->staging = NULL;
}

/* ---- to and from the host ---- */

int cuda_write_small(struct cuda_engine *engine, void *to, const void *from, size_t bytes)
{
    struct slot *slot = &engine->staging->slot[engine->staging->next_slot++ % SLOTS];

    if (cuda_check(cudaEventSynchronize(slot->used)))
        return -1;
    assert(bytes <= SLOT_BYTES);
    memcpy(slot->host, from, bytes);
    if (cuda_check(cudaMemcpyAsync(to, slot->host, bytes, cudaMemcpyHostToDevice, engine->stream)))
        return -1;
    return cuda_check(cudaEventRecord(slot->used, engine->stream));
}

static int buffer_reserve(struct buffer *buffer, size_t bytes)
{
    if (buffer->bytes >= bytes)
        return 0;
    cuda_free(NULL, buffer->device);
    buffer->bytes = 0;
    buffer->device = NULL;
    if (cuda_alloc(bytes, "a buffer for input", &buffer->device))
        return -1;
    buffer->bytes = bytes;
    return 0;
}

/* Reports a label out of range that a kernel noted. Called wherever the host waits anyway. */
static int labels_check(struct cuda_engine *engine)
{
    struct kernel_bad bad = *(volatile struct kernel_bad *)engine->bad;
    const char *fault = bad.label == floorf(bad.label) ? "outside" : "not a whole number in";

    if (!bad.position)
        return 0;
    engine->bad->position = 0;
    if (bad.rows == 2)
        return error_set("layer '%s': the mask says place %g of planes of %d pixels; expected the "
                         "second top of the pooling that this layer undoes",
                         bad.layer ? bad.layer : "?", (double)bad.label, bad.classes);
    if (bad.rows)
        return error_set("layer '%s': index %g at place %d is %s 0..%d",
                         bad.layer ? bad.layer : "?", (double)bad.label, bad.position - 1, fault,
                         bad.classes - 1);
    return error_set("layer '%s': label %g of sample %d of the batch is %s 0..%d (the scores "
                     "have %d classes)",
                     bad.layer ? bad.layer : "?", (double)bad.label, (bad.position - 1) / bad.inner,
                     fault, bad.classes - 1, bad.classes);
}

int cuda_stage(struct cuda_engine *engine, const void *from, size_t bytes, struct cuda_staged *out)
{
    struct buffer *buffer = &engine->staging->buffer[engine->staging->next_buffer++ % BUFFERS];

    assert(!engine->recording);
    if (cuda_check(cudaEventSynchronize(buffer->used)) || buffer_reserve(buffer, bytes) ||
        cuda_check(
            cudaMemcpyAsync(buffer->device, from, bytes, cudaMemcpyHostToDevice, engine->feed)) ||
        cuda_check(cudaEventRecord(buffer->filled, engine->feed)) ||
        cuda_check(cudaStreamWaitEvent(engine->stream, buffer->filled, 0)))
        return -1;
    *out = (struct cuda_staged){buffer->device, buffer->filled, buffer->used};
    return 0;
}

int cuda_staged_done(struct cuda_engine *engine, const struct cuda_staged *staged)
{
    return cuda_check(cudaEventRecord(staged->used, engine->stream)) ||
                   cuda_check(cudaEventSynchronize(staged->filled))
               ? -1
               : 0;
}

int cuda_store(void *context, float *to, const float *from, size_t n)
{
    struct cuda_engine *engine = context;
    struct cuda_staged staged;
    size_t bytes = n * sizeof *to;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (bytes <= SLOT_BYTES)
        return cuda_write_small(engine, to, from, bytes);
    return cuda_stage(engine, from, bytes, &staged) ||
                   cuda_check(cudaMemcpyAsync(to, staged.data, bytes, cudaMemcpyDeviceToDevice,
                                              engine->stream)) ||
                   cuda_staged_done(engine, &staged)
               ? -1
               : 0;
}

int cuda_fetch(void *context, const float *from, float *to, size_t n)
{
    struct cuda_engine *engine = context;

    if (cuda_check(cudaSetDevice(engine->device)) ||
        cuda_check(
            cudaMemcpyAsync(to, from, n * sizeof *to, cudaMemcpyDeviceToHost, engine->stream)) ||
        cuda_check(cudaStreamSynchronize(engine->stream)))
        return -1;
    return labels_check(engine);
}
