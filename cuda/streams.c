/* Copies of parameters and gradients, beside the computation.
 *
 * Each direction has a stream, since a GPU has a copy engine for each: gradients on their way to
 * the host do not wait for parameters on their way back. Values that a server has updated go to the
 * host by a third stream, ahead of gradients still to be computed. Copies keep the order of the
 * calls; a copy's event is its ticket. */
#include "cuda_internal.h"

#include "util/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int enter(void *context)
{
    const struct cuda_engine *engine = context;

    return cuda_check(cudaSetDevice(engine->device));
}

static int host_alloc(void *context, size_t bytes, const char *what, void **out)
{
    const struct cuda_engine *engine = context;
    cudaError_t status;

    *out = NULL;
    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    status = cudaHostAlloc(out, bytes ? bytes : 1, cudaHostAllocPortable);
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        return error_set("cannot allocate %.1f MiB of page-locked host memory for %s: raise "
                         "'ulimit -l', or free "
                         "memory on this node",
                         (double)bytes / 1048576, what);
    }
    if (status != cudaSuccess)
        return cuda_status(status, "cudaHostAlloc");
    memset(*out, 0, bytes ? bytes : 1);
    return 0;
}

static void host_free(void *context, void *memory)
{
    (void)context;
    if (memory)
        cudaFreeHost(memory);
}

static void ticket_destroy(void *context, struct device_ticket *ticket)
{
    (void)context;
    if (!ticket)
        return;
    if (ticket->before)
        cudaEventDestroy(ticket->before);
    if (ticket->over)
        cudaEventDestroy(ticket->over);
    free(ticket);
}

static int ticket_create(void *context, struct device_ticket **out)
{
    const struct cuda_engine *engine = context;
    struct device_ticket *ticket = calloc(1, sizeof *ticket);

    *out = NULL;
    if (!ticket)
        return error_memory(sizeof *ticket, "a copy's ticket");
    if (cuda_check(cudaSetDevice(engine->device)) ||
        cuda_check(cudaEventCreateWithFlags(&ticket->before, cudaEventDisableTiming)) ||
        cuda_check(cudaEventCreateWithFlags(&ticket->over, cudaEventDisableTiming))) {
        ticket_destroy(context, ticket);
        return -1;
    }
    *out = ticket;
    return 0;
}

static int copy_rows(const struct device_rows *r, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    size_t width = r->width * sizeof(float);
    bool one = r->rows == 1 || (r->host_stride == r->width && r->stride == r->width);
    bool up = kind == cudaMemcpyHostToDevice;
    void *to = up ? r->memory : r->host;
    const void *from = up ? r->host : r->memory;
    size_t to_stride = up ? r->stride : r->host_stride, stride = up ? r->host_stride : r->stride;

    assert(r->rows == 1 || (r->stride >= r->width && r->host_stride >= r->width));
    if (one)
        return cuda_check(cudaMemcpyAsync(to, from, width * r->rows, kind, stream));
    return cuda_check(cudaMemcpy2DAsync(to, to_stride * sizeof(float), from, stride * sizeof(float),
                                        width, r->rows, kind, stream));
}

int cuda_follow(const struct cuda_engine *engine, cudaStream_t after, cudaStream_t on,
                struct device_ticket *ticket)
{
    return cuda_check(cudaSetDevice(engine->device)) ||
                   cuda_check(cudaEventRecord(ticket->before, after)) ||
                   cuda_check(cudaStreamWaitEvent(on, ticket->before, 0))
               ? -1
               : 0;
}

/* Starts a copy. Stores, and updates after stores, share one stream, and so keep their order. */
static int copy(void *context, enum device_direction direction, const struct device_rows *rows,
                enum device_turn turn, struct device_ticket *ticket)
{
    static const enum cudaMemcpyKind kinds[] = {[DEVICE_FETCH] = cudaMemcpyDeviceToHost,
                                                [DEVICE_STORE] = cudaMemcpyHostToDevice,
                                                [DEVICE_WITHIN] = cudaMemcpyDeviceToDevice};
    const struct cuda_engine *engine = context;
    cudaStream_t after = turn == DEVICE_STORED ? engine->up : engine->stream;
    cudaStream_t on = direction == DEVICE_STORE    ? engine->up
                      : direction == DEVICE_WITHIN ? engine->stream
                      : turn == DEVICE_STORED      ? engine->back
                                                   : engine->down;

    if (on == after ? cuda_check(cudaSetDevice(engine->device))
                    : cuda_follow(engine, after, on, ticket))
        return -1;
    if (rows->rows > 0 && copy_rows(rows, kinds[direction], on))
        return -1;
    return cuda_check(cudaEventRecord(ticket->over, on));
}

int cuda_store_after(const struct cuda_engine *engine, const struct device_ticket *ticket)
{
    return cuda_check(cudaStreamWaitEvent(engine->up, ticket->over, 0));
}

static int ready(void *context, struct device_ticket *ticket)
{
    const struct cuda_engine *engine = context;
    cudaError_t status;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    status = cudaEventQuery(ticket->over);
    if (status == cudaSuccess)
        return 1;
    return status == cudaErrorNotReady ? 0 : cuda_status(status, "a copy to or from the GPU");
}

static int order(void *context, struct device_ticket *ticket)
{
    const struct cuda_engine *engine = context;

    return cuda_check(cudaStreamWaitEvent(engine->stream, ticket->over, 0));
}

const struct device_copies_i cuda_copies = {
    .enter = enter,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .ticket_create = ticket_create,
    .ticket_destroy = ticket_destroy,
    .copy = copy,
    .ready = ready,
    .order = order,
};
