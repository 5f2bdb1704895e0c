/* Tensors on GPUs, as a program has them whose work is in streams: all of it over a module that
 * emulates the GPU (tests/cuda/emulation.h), whose streams are worked off as late as can be. */
#define _GNU_SOURCE /* RTLD_NODELETE */
#include "tests/library/calls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

/* Of the CUDA run time in the module; its types without its header. */
static struct {
    int (*allocate)(void **out, size_t bytes);
    int (*allocate_host)(void **out, size_t bytes, unsigned flags);
    int (*create)(void **stream, unsigned flags);
    int (*copy)(void *to, const void *from, size_t bytes, int kind, void *stream);
    int (*set)(void *to, int value, size_t bytes, void *stream);
    int (*finish)(void *stream);
    int (*choose)(int device);
    int (*fetches_left)(void); /* the emulation's own */
} cuda;
static bool on_device;

static void find(void *module, const char *name, void *function)
{
    void *found = dlsym(module, name);

    REQUIRE(found);
    memcpy(function, &found, sizeof found);
}

void device_open(void)
{
    const char *path = getenv("POSEIDON_CALLS_MODULE");
    void *module = path ? dlopen(path, RTLD_NOW | RTLD_NODELETE) : NULL;

    const char *devices = getenv("POSEIDON_EMULATED_GPUS");

    on_device = path != NULL;
    if (!on_device)
        return;
    if (!module)
        fprintf(stderr, "%s\n", dlerror());
    find(module, "cudaMalloc", &cuda.allocate);
    find(module, "cudaHostAlloc", &cuda.allocate_host);
    find(module, "cudaStreamCreateWithFlags", &cuda.create);
    find(module, "cudaMemcpyAsync", &cuda.copy);
    find(module, "cudaMemsetAsync", &cuda.set);
    find(module, "cudaStreamSynchronize", &cuda.finish);
    find(module, "cudaSetDevice", &cuda.choose);
    find(module, "emulated_fetches_left", &cuda.fetches_left);
    cuda.choose(devices && atoi(devices) >= nranks ? rank : 0);
}

void *array_new(size_t bytes)
{
    void *array = on_device ? NULL : calloc(1, bytes);

    if (on_device && cuda.allocate(&array, bytes) == 0)
        memset(array, 0, bytes); /* the emulated memory is the host's */
    REQUIRE(array);
    return array;
}

int add(struct poseidon *p, const struct poseidon_tensor *tensor, int type, int *out)
{
    const struct poseidon_place place = {
        .size = sizeof place, .memory = on_device ? POSEIDON_CUDA : POSEIDON_HOST, .type = type};

    return !on_device && type == POSEIDON_FLOAT32 ? poseidon_add(p, tensor, out)
                                                  : poseidon_add_at(p, tensor, &place, out);
}

/* ---- streams ---- */

enum { GRADIENTS = 3, ELEMS = 20000, TURNS = 12, WHOLE = ROWS * OUTPUTS };

static int number(int r, int turn, int t, int i)
{
    return (i * 7 + r * 13 + turn * 5 + t) % 15 - 7;
}

static int sum_of(int turn, int t, int i)
{
    int sum = 0;

    for (int r = 0; r < nranks; r++)
        for (int k = 0; k < (t == GRADIENTS ? ROWS : 1); k++)
            sum += t == GRADIENTS ? number(r, turn, t, k * OUTPUTS + i / INPUTS) *
                                        number(r, turn, t, WHOLE + k * INPUTS + i % INPUTS)
                                  : number(r, turn, t, i);
    return sum;
}

/* A turn's arrays; the program's work is to copy them. */
struct turn {
    float *made[GRADIENTS + 1], *result[GRADIENTS + 1];
};

static void make_turn(struct turn *turn, int number_of)
{
    for (int t = 0; t <= GRADIENTS; t++) {
        size_t elems = t < GRADIENTS ? ELEMS : WHOLE + ROWS * INPUTS;
        turn->made[t] = array_new(elems * sizeof(float));
        turn->result[t] = array_new(ELEMS * sizeof(float));
        for (size_t i = 0; i < elems; i++)
            turn->made[t][i] = (float)number(rank, number_of, t, (int)i);
    }
}

/* Gradients are made in the stream and results are taken from there, over several iterations in
 * which the host waits for the stream not once; whole numbers, whose sums are exact. The gradient
 * of tensor 2 is the library's, and tensor 3 is a product of factors, which are overwritten at
 * once. options: of the handle; "default " before them: in the default stream. */
void case_streams(const char *options)
{
    bool by_default = !strncmp(options, "default ", 8),
         at_once = getenv("POSEIDON_EMULATED_AT_ONCE");
    float *gradient[GRADIENTS + 1] = {NULL}, *factor = array_new((WHOLE + ROWS * INPUTS) * 4);
    struct turn turns[TURNS];
    void *stream = NULL;
    struct poseidon *p;
    int factors;

    REQUIRE(by_default || !cuda.create(&stream, 1));
    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options + (by_default ? 8 : 0), &p));
    for (int t = 0; t <= GRADIENTS; t++) {
        static const char *const names[] = {"first", "second", "library's", "product"};
        struct poseidon_tensor tensor = {.name = names[t], .elems = ELEMS};
        if (t == GRADIENTS) {
            tensor.elems = OUTPUTS * INPUTS;
            tensor.rows = ROWS;
            tensor.outputs = OUTPUTS;
            tensor.inputs = INPUTS;
        }
        tensor.gradient = t == 2 ? NULL : array_new(ELEMS * sizeof(float));
        gradient[t] = tensor.gradient;
        REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
    }
    REQUIRE(!poseidon_start(p));
    gradient[2] = poseidon_gradient(p, 2);
    factors = poseidon_takes_factors(p, GRADIENTS);
    for (int turn = 0; turn < TURNS; turn++) {
        make_turn(&turns[turn], turn);
        if (rank > 0 && rank == nranks - 1)
            usleep(3000); /* the others may not run ahead without limit */
        for (int t = GRADIENTS; t >= 0; t--) {
            size_t elems = t < GRADIENTS ? ELEMS : WHOLE + ROWS * INPUTS;
            float *to = t < GRADIENTS ? gradient[t] : factor;
            cuda.copy(to, turns[turn].made[t], elems * sizeof(float), 3, stream);
            if (t < GRADIENTS)
                REQUIRE(!poseidon_post_on(p, t, stream));
            else if (factors)
                REQUIRE(!poseidon_post_factors_on(p, t, ROWS, factor, factor + WHOLE, stream));
            else
                REQUIRE(!poseidon_skip(p, t));
            if (t == GRADIENTS)
                cuda.set(factor, 255, elems * sizeof(float), stream);
        }
        for (int t = 0; t <= GRADIENTS; t++) {
            REQUIRE(!poseidon_wait_on(p, t, stream));
            cuda.copy(turns[turn].result[t], gradient[t], ELEMS * sizeof(float), 3, stream);
        }
        /* alone there is nothing that a host could wait for */
        REQUIRE(nranks > 1 || at_once || turns[turn].result[0][2] == 0);
    }
    cuda.finish(stream);
    for (int turn = 0; turn < TURNS; turn++)
        for (int t = 0; t <= GRADIENTS; t++)
            for (int i = 0; i < (t < GRADIENTS ? ELEMS : OUTPUTS * INPUTS); i++) {
                int sum = t < GRADIENTS || factors ? sum_of(turn, t, i) : 0;
                if (turns[turn].result[t][i] == (float)sum)
                    continue;
                fprintf(stderr, "rank %d, turn %d: tensor %d has %g at %d, expected %d\n", rank,
                        turn, t, (double)turns[turn].result[t][i], i, sum);
                MPI_Abort(MPI_COMM_WORLD, 1);
            }
    REQUIRE(!poseidon_destroy(p));
    if (rank == 0)
        printf("ok: streams, %s%s\n", options, factors ? ", with factors" : "");
}

/* The emulated GPU's memory is the host's, which every MPI reaches: whether it says so. */
int MPIX_Query_cuda_support(void)
{
    const char *text = getenv("POSEIDON_EMULATED_AWARE");

    return text && atoi(text);
}

/* ---- chunks ---- */

static atomic_int early; /* messages that left while parts of the gradient were not on the host */

/* As wire/wire.c calls them. */
static int note(int status, int bytes)
{
    early += on_device && bytes >= 1024 && cuda.fetches_left() > 0;
    return status;
}

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    return note(PMPI_Isend(buffer, count, type, peer, tag, comm, request), count);
}

int MPI_Issend(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
               MPI_Request *request)
{
    return note(PMPI_Issend(buffer, count, type, peer, tag, comm, request), count);
}

/* One gradient that comes to the host in pieces: the first ones leave before the last are there. */
void case_pieces(const char *options)
{
    enum { TIMES = 5 };
    struct poseidon_tensor tensor = {
        .name = "large", .elems = MOST, .gradient = array_new(MOST * sizeof(float))};
    struct poseidon *p;

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options, &p));
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL) && !poseidon_start(p));
    for (int turn = 0; turn < TIMES; turn++) {
        for (int i = 0; i < MOST; i++)
            tensor.gradient[i] = (float)number(rank, turn, 0, i);
        early = 0;
        REQUIRE(!poseidon_post(p, 0) && !poseidon_wait(p, 0));
        REQUIRE(early > 0);
        for (int i = 0; i < MOST; i++)
            REQUIRE(tensor.gradient[i] == (float)sum_of(turn, 0, i));
    }
    REQUIRE(!poseidon_destroy(p));
}

/* ---- what is wrong ---- */

static struct poseidon *first_on_gpu(void *array)
{
    struct poseidon_tensor tensor = {.name = "first", .elems = 10, .gradient = array};
    struct poseidon *p;

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "comm=ps", &p));
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
    return p;
}

void case_devices(const char *options)
{
    float *here = array_new(4000), *there, *locked, host[10];
    struct poseidon_tensor tensor = {.name = "next", .elems = 10};
    struct poseidon_place place = {.size = sizeof place};
    struct poseidon *p = first_on_gpu(here);
    void *stream, *stream_here;

    (void)options;
    REQUIRE(!cuda.choose(1) && !cuda.create(&stream, 1));
    there = array_new(40);
    REQUIRE(!cuda.choose(0) && !cuda.create(&stream_here, 1));
    REQUIRE(!cuda.allocate_host((void **)&locked, 40, 0));
    tensor.gradient = there;
    REFUSED(add(p, &tensor, POSEIDON_FLOAT32, NULL),
            "tensor 'next' is on GPU 1, and earlier tensors are on GPU 0: a handle serves one GPU");
    tensor.gradient = here + 10;
    tensor.values = there;
    REFUSED(add(p, &tensor, POSEIDON_FLOAT32, NULL), "tensor 'next' is on GPU 1");
    tensor.values = NULL;
    tensor.gradient = host;
    REFUSED(add(p, &tensor, POSEIDON_FLOAT32, NULL),
            "tensor 'next': ", "is memory unknown to CUDA; expected a GPU's memory");
    tensor.gradient = locked;
    REFUSED(add(p, &tensor, POSEIDON_FLOAT32, NULL), "page-locked memory of the host");
    REFUSED(poseidon_add(p, &tensor, NULL), "'next' is in the host's memory, and earlier tensors "
                                            "are in a GPU's");
    tensor.gradient = NULL;
    REFUSED(add(p, &tensor, POSEIDON_BFLOAT16, NULL), "only float32 gradients");
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
    REQUIRE(!poseidon_gradient(p, 1) && !poseidon_start(p) && poseidon_gradient(p, 1));
    REQUIRE(!poseidon_skip(p, 0));
    REFUSED(poseidon_post_on(p, 1, stream), "is not on GPU 0, which holds the tensors");
    REFUSED(poseidon_wait(p, 1), "is not on GPU 0");
    REFUSED(poseidon_destroy(p), "is not on GPU 0");

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "comm=ps", &p));
    REFUSED(add(p, &tensor, POSEIDON_FLOAT32, NULL), "its GPU is unknown");
    place.memory = POSEIDON_CUDA;
    tensor.gradient = host;
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "memory unknown to CUDA");
    tensor.gradient = there; /* the handle's GPU is the first tensor's */
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL) && !poseidon_start(p));
    REQUIRE(!poseidon_post_on(p, 0, stream));
    REFUSED(poseidon_wait_on(p, 0, stream_here), "is not on GPU 1");
    REFUSED(poseidon_destroy(p), "is not on GPU 1");
}

/* The GPU's memory is full when the arrays are allocated. */
void case_full(const char *options)
{
    struct poseidon_tensor tensor = {.name = "large", .elems = 1 << 20};
    struct poseidon *p = first_on_gpu(array_new(4000));

    (void)options;
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
    REFUSED(poseidon_start(p), "memory is full: a copy of all gradients needs");
    REFUSED(poseidon_destroy(p), "memory is full");
}

void case_no_driver(const char *options)
{
    struct poseidon_tensor tensor = {.name = "first", .elems = 10, .gradient = array_new(40)};
    struct poseidon *p;

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "", &p));
    REFUSED(add(p, &tensor, POSEIDON_FLOAT32, NULL), "tensor 'first': ", options);
    REQUIRE(!poseidon_destroy(p)); /* nothing was started */
}
