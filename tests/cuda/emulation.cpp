/* The CUDA run time and cuBLASLt in a few lines of host code, and all kernels. See emulation.h. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Structures in place of the libraries' hidden ones. */
struct CUstream_st {
    struct emulated_work *first, *last;
    struct CUgraph_st *graph; /* captured into */
    double busy;              /* milliseconds, as far as what ran in it says how long it takes */
    int device;
    bool
        programs; /* it is none of the engine's: cudaStreamCreateWithFlags made it, or nobody did */
};

struct CUgraph_st {
    struct emulated_work *first, *last;
    bool spoiled; /* by what must not be called meanwhile */
};

struct CUevent_st {
    cudaStream_t stream; /* where it was recorded */
    int device;
    unsigned long wanted, reached;
    double at; /* milliseconds: how busy the stream had been */
    int waits; /* of streams for it, that are to come */
    bool destroyed;
};

#include "../../cuda/batch_norm.cu"
#include "../../cuda/channel.cu"
#include "../../cuda/codec.cu"
#include "../../cuda/conv.cu"
#include "../../cuda/eltwise.cu"
#include "../../cuda/element.cu"
#include "../../cuda/layout.cu"
#include "../../cuda/loss.cu"
#include "../../cuda/lrn.cu"
#include "../../cuda/move.cu"
#include "../../cuda/neuron.cu"
#include "../../cuda/pool.cu"
#include "../../cuda/reduce.cu"
#include "../../cuda/resize.cu"
#include "../../cuda/scale.cu"
#include "../../cuda/softmax.cu"
#include "../../cuda/unary.cu"
#include "../../cuda/update.cu"

extern "C" {
#include "../../cuda/libs.h"
}

struct emulated_place blockIdx, threadIdx, blockDim, gridDim;

#include "emulated_blocks.cpp"

/* What this thread captures: until then it must not wait, allocate or ask. */
static thread_local cudaStream_t capturing;

static cudaError_t unless_capturing(void)
{
    if (!capturing)
        return cudaSuccess;
    capturing->graph->spoiled = true;
    return cudaErrorStreamCaptureUnsupported;
}

#define REFUSE_IN_CAPTURE                                                                          \
    do {                                                                                           \
        cudaError_t refused = unless_capturing();                                                  \
        if (refused != cudaSuccess)                                                                \
            return refused;                                                                        \
    } while (0)

/* One lock for all queues: compute and wire thread both come here. Recursive, as work may push.
 */
static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static bool run_first(cudaStream_t stream);

enum { DEVICES = 8 };
static thread_local int current;
static struct CUstream_st defaults[DEVICES];

/* NULL: the default stream of this thread's device. No other waits for it by itself. */
static cudaStream_t stream_of(cudaStream_t stream)
{
    if (stream)
        return stream;
    defaults[current].device = current;
    defaults[current].programs = true;
    return &defaults[current];
}

/* POSEIDON_EMULATED_AT_ONCE: streams are worked off as soon as can be: what runs right then, and
 * wrong otherwise, waits for too little. */
static bool works_at_once(void)
{
    const char *text = getenv("POSEIDON_EMULATED_AT_ONCE");

    return text && atoi(text);
}

void emulated_push(cudaStream_t stream, struct emulated_work *work)
{
    pthread_mutex_lock(&lock);
    stream = stream_of(stream);
    struct emulated_work **first = stream->graph ? &stream->graph->first : &stream->first;
    struct emulated_work **last = stream->graph ? &stream->graph->last : &stream->last;
    if (stream->graph && stream != capturing) /* another thread's work would be recorded */
        stream->graph->spoiled = true;
    if (*last)
        (*last)->next = work;
    else
        *first = work;
    *last = work;
    if (!stream->graph && works_at_once())
        while (stream->first && run_first(stream))
            ;
    pthread_mutex_unlock(&lock);
}

/* Under the lock. False: it must wait for another process. */
static bool run_first(cudaStream_t stream)
{
    struct emulated_work *work = stream->first;

    if (!work->run(work))
        return false;
    stream->first = work->next;
    if (!stream->first)
        stream->last = NULL;
    free(work);
    return true;
}

/* Works off the stream that the event was recorded in until it is reached. */
static bool try_reach(cudaEvent_t event, cudaStream_t in, unsigned long wanted)
{
    while (event->reached < wanted)
        if (!run_first(in))
            return false;
    return true;
}

static void free_unused(cudaEvent_t event)
{
    if (event->destroyed && event->waits == 0)
        free(event);
}

/* What waits for another process leaves the lock to other threads meanwhile. */
template <typename F> static void insist(F attempt)
{
    for (time_t end = time(NULL) + 300; time(NULL) <= end;) { /* a hang: before tests/mpirun.sh */
        pthread_mutex_lock(&lock);
        bool done = attempt();
        pthread_mutex_unlock(&lock);
        if (done)
            return;
        usleep(100);
    }
    fprintf(stderr, "emulated GPU: another process was waited for too long\n");
    abort();
}

static void reach(cudaEvent_t event, unsigned long wanted)
{
    insist([=]() { return try_reach(event, event->stream, wanted); });
}

static void drain(cudaStream_t stream)
{
    insist([=]() {
        while (stream->first)
            if (!run_first(stream))
                return false;
        return true;
    });
}

enum { STREAMS = 64 };
static cudaStream_t streams[STREAMS];

static void drain_all(void)
{
    for (int i = 0; i < STREAMS; i++)
        if (streams[i])
            drain(streams[i]);
    for (int i = 0; i < DEVICES; i++)
        drain(&defaults[i]);
}

/* What was allocated, by a list. */
struct block {
    void *memory;
    size_t bytes;
    int device; /* -1: the host's, page-locked */
    struct block *next;
};
static struct block *blocks;

static void note_block(void *memory, size_t bytes, int device)
{
    pthread_mutex_lock(&lock);
    struct block *block = (struct block *)malloc(sizeof *block);
    *block = {memory, bytes, device, blocks};
    blocks = block;
    pthread_mutex_unlock(&lock);
}

static void forget_block(void *memory)
{
    pthread_mutex_lock(&lock);
    struct block **at = &blocks;
    while (*at && (*at)->memory != memory)
        at = &(*at)->next;
    if (*at) {
        struct block *block = *at;
        *at = block->next;
        free(block);
    }
    pthread_mutex_unlock(&lock);
}

/* POSEIDON_EMULATED_FORGETS: which waits of a stream for another are left out, as if the code had
 * none: "follow": of the engine's for a program's, "precede": of a program's for the engine's,
 * "inner": among the engine's. */
static bool forgets(const struct CUstream_st *stream, const struct CUstream_st *after)
{
    const char *text = getenv("POSEIDON_EMULATED_FORGETS");
    const char *kind = stream->programs ? "precede" : after->programs ? "follow" : "inner";

    return text && !strcmp(text, kind);
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *text = getenv("POSEIDON_EMULATED_GPUS");

    int version;

    cudaDriverGetVersion(&version);
    *count = version < CUDART_VERSION / 1000 * 1000 ? 0 : text ? atoi(text) : 1;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

/* POSEIDON_EMULATED_DRIVER: the CUDA that the driver serves, as 13000; 0: there is none. */
cudaError_t cudaDriverGetVersion(int *version)
{
    const char *text = getenv("POSEIDON_EMULATED_DRIVER");

    *version = text ? atoi(text) : CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    memset(prop, 0, sizeof *prop);
    snprintf(prop->name, sizeof prop->name, "emulated GPU");
    prop->uuid.bytes[15] = (char)device;
    prop->major = 9;
    prop->multiProcessorCount = 1;
    prop->totalGlobalMem = (size_t)1 << 30;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    if (device < 0 || device >= DEVICES)
        return cudaErrorInvalidDevice;
    current = device;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *memory)
{
    memset(out, 0, sizeof *out);
    out->type = cudaMemoryTypeUnregistered;
    pthread_mutex_lock(&lock);
    for (const struct block *b = blocks; b; b = b->next)
        if ((const char *)memory >= (char *)b->memory &&
            (const char *)memory < (char *)b->memory + b->bytes) {
            out->type = b->device < 0 ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
            out->device = b->device < 0 ? 0 : b->device;
        }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

static size_t allocated;

static size_t device_bytes(void)
{
    const char *limit = getenv("POSEIDON_EMULATED_BYTES");

    return limit ? strtoull(limit, NULL, 10) : (size_t)1 << 30;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    *total = device_bytes();
    *free_bytes = allocated < *total ? *total - allocated : 0;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "out of memory" : "an emulated error";
}

const char *cudaGetErrorName(cudaError_t error)
{
    return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "cudaErrorUnknown";
}

/* Fresh memory holds what nobody would take for a result. */
static cudaError_t allocate(void **out, size_t bytes, int device)
{
    REFUSE_IN_CAPTURE;
    if (allocated + bytes > device_bytes())
        return cudaErrorMemoryAllocation;
    if (posix_memalign(out, 256, bytes)) /* not rounded up: a sanitizer sees every byte beyond */
        return cudaErrorMemoryAllocation;
    memset(*out, 0xFF, bytes);
    allocated += malloc_usable_size(*out);
    note_block(*out, bytes, device);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return allocate(out, bytes, current);
}

/* Waits for all work, as a real one does. */
cudaError_t cudaFree(void *memory)
{
    REFUSE_IN_CAPTURE;
    drain_all();
    forget_block(memory);
    allocated -= malloc_usable_size(memory);
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return allocate(out, bytes, -1);
}

cudaError_t cudaMallocHost(void **out, size_t bytes)
{
    return allocate(out, bytes, -1);
}

cudaError_t cudaFreeHost(void *memory)
{
    return cudaFree(memory);
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    REFUSE_IN_CAPTURE;
    memset(to, value, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    emulated_later(stream, [=]() { memset(to, value, bytes); });
    return cudaSuccess;
}

/* POSEIDON_EMULATED_TELL: how many bytes went to the host is said at the end. */
static size_t fetched;
static int fetches_left; /* copies to the host that were asked for and are still to come */

int emulated_fetches_left(void)
{
    return __atomic_load_n(&fetches_left, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void tell(void)
{
    const char *text = getenv("POSEIDON_EMULATED_TELL");

    if (text && atoi(text))
        fprintf(stderr, "fetched from the emulated GPU: %zu bytes\n", fetched);
}

/* Copies from pageable memory are staged before the call returns; those from page-locked memory are
 * not. Which it is cannot be told here: the stricter reading is taken. */
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    int fetch = kind == cudaMemcpyDeviceToHost;

    fetched += fetch ? bytes : 0;
    __atomic_fetch_add(&fetches_left, fetch, __ATOMIC_RELAXED);
    emulated_later(stream, [=]() {
        memcpy(to, from, bytes);
        __atomic_fetch_sub(&fetches_left, fetch, __ATOMIC_RELAXED);
    });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    if (kind == cudaMemcpyDeviceToHost)
        fetched += width * height;
    emulated_later(stream, [=]() {
        for (size_t i = 0; i < height; i++)
            memcpy((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width);
    });
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    *out = (cudaStream_t)calloc(1, sizeof **out);
    (*out)->device = current;
    for (int i = 0; i < STREAMS; i++)
        if (!streams[i]) {
            streams[i] = *out;
            break;
        }
    return cudaSuccess;
}

/* A program's: the engine's streams have priorities. */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    cudaError_t status = cudaStreamCreateWithPriority(out, flags, 0);

    (*out)->programs = true;
    return status;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    drain(stream);
    for (int i = 0; i < STREAMS; i++)
        streams[i] = streams[i] == stream ? NULL : streams[i];
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    REFUSE_IN_CAPTURE;
    drain(stream_of(stream));
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    (void)flags;
    *out = (cudaEvent_t)calloc(1, sizeof **out);
    (*out)->device = current;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, 0);
}

/* Streams may still have to come to where they wait for it. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (event->stream)
        reach(event, event->wanted);
    pthread_mutex_lock(&lock);
    event->destroyed = true;
    free_unused(event);
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    REFUSE_IN_CAPTURE;
    stream = stream_of(stream);
    if (stream->device != event->device)
        return cudaErrorInvalidResourceHandle;
    pthread_mutex_lock(&lock);
    unsigned long number = ++event->wanted;
    event->stream = stream;
    emulated_later(stream, [=]() {
        if (event->reached < number) {
            event->reached = number;
            event->at = stream->busy;
        }
    });
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    REFUSE_IN_CAPTURE;
    (void)flags;
    stream = stream_of(stream);
    pthread_mutex_lock(&lock);
    unsigned long number = event->wanted;
    cudaStream_t in = event->stream; /* it may be recorded in another one before this is over */
    if (number > 0 && !forgets(stream, in)) {
        event->waits++;
        emulated_later(stream, [=]() {
            if (!try_reach(event, in, number))
                return false;
            event->waits--;
            free_unused(event);
            return true;
        });
    }
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    REFUSE_IN_CAPTURE;
    if (event->wanted > 0)
        reach(event, event->wanted);
    return cudaSuccess;
}

/* Every few questions the answer is yes. */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    static unsigned asked;
    cudaError_t answer = cudaSuccess;

    pthread_mutex_lock(&lock);
    if (event->reached < event->wanted &&
        (++asked % 4 || !try_reach(event, event->stream, event->wanted)))
        answer = cudaErrorNotReady;
    pthread_mutex_unlock(&lock);
    return answer;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    REFUSE_IN_CAPTURE;
    pthread_mutex_lock(&lock);
    stream->graph = (struct CUgraph_st *)calloc(1, sizeof *stream->graph);
    capturing = stream;
    pthread_mutex_unlock(&lock);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    while (graph->first) {
        struct emulated_work *work = graph->first;
        graph->first = work->next;
        free(work);
    }
    free(graph);
    return cudaSuccess;
}

/* POSEIDON_EMULATED_CAPTURES: how many succeed. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    static int captures;
    const char *most = getenv("POSEIDON_EMULATED_CAPTURES");

    pthread_mutex_lock(&lock);
    *out = stream->graph;
    stream->graph = NULL;
    capturing = NULL;
    pthread_mutex_unlock(&lock);
    if (!(*out)->spoiled && (!most || captures++ < atoi(most)))
        return cudaSuccess;
    cudaGraphDestroy(*out);
    *out = NULL;
    return cudaErrorStreamCaptureInvalidated;
}

/* The work moves over: the graph is not needed any more. */
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    struct CUgraph_st *exec = (struct CUgraph_st *)malloc(sizeof *exec);

    (void)flags;
    *exec = *graph;
    graph->first = graph->last = NULL;
    *out = (cudaGraphExec_t)exec;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    for (struct emulated_work *work = ((struct CUgraph_st *)exec)->first; work; work = work->next)
        emulated_later(stream, [=]() { return work->run(work); });
    return cudaSuccess;
}

/* Launches that are still queued read the graph: a real one waits for them, too. */
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    drain_all();
    return cudaGraphDestroy((cudaGraph_t)exec);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    *ms = 1 + (float)(end->at - begin->at);
    return cudaSuccess;
}

/* Takes the place of MPI's own: the emulated GPU's memory is the host's, which every MPI reaches.
 * POSEIDON_EMULATED_AWARE: whether it says so. */
int MPIX_Query_cuda_support(void)
{
    const char *text = getenv("POSEIDON_EMULATED_AWARE");

    return text && atoi(text);
}

} /* extern "C" */

#include "emulated_cublaslt.cpp"
#include "emulated_cudnn.cpp"
#include "emulated_faults.cpp"

int cuda_libs_open(struct cuda_libs *libs, bool)
{
    memset(libs, 0, sizeof *libs);
    fake_cublaslt(libs);
    fake_cudnn(libs);
    return 0;
}

void cuda_libs_close(struct cuda_libs *libs)
{
    memset(libs, 0, sizeof *libs);
}

#ifdef HAVE_NCCL_H
#include "emulated_nccl.cpp"
#endif
