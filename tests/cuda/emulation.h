/* The host in the part of a GPU, for tests of the CUDA engine where there is none.
 *
 * Kernels are compiled as plain C++ and run as loops over blocks of one thread each, which they
 * must allow (cuda/kernel.cuh); or, where it is asked for, over blocks of all their threads, which
 * take turns (emulated_blocks.cpp). Either way one launch after the other. A stream is a queue that
 * is worked off as late as can be: nothing in it runs before the host waits for it, asks after an
 * event, or another stream that is worked off waits for an event of it. So whoever forgets to wait
 * reads memory that nothing has written yet. */
#ifndef POSEIDON_TESTS_CUDA_EMULATION_H
#define POSEIDON_TESTS_CUDA_EMULATION_H

#include <new>
#include <type_traits>
#include <stdint.h>
#include <stdlib.h>

#define DEVICE
#define KERNEL    static
#define SHARED    static
#define BARRIER() emulated_barrier(__LINE__)
#define WARP      (emulated_whole ? 32 : 1)
#define VOTE(bit) emulated_vote(__LINE__, (bit))
#define UNROLL
#define MOVED(bytes)     (emulated_moved += (bytes))
#define RAISE(at, value) (*(at) = *(at) < (value) ? (value) : *(at))

extern bool emulated_whole; /* blocks have all their threads */
void emulated_barrier(int line);
uint32_t emulated_vote(int line, bool bit);
/* Runs one block, blockIdx being set. */
void emulated_block(const char *kernel, unsigned threads, void (*run)(void *), void *closure);
void emulated_note(const char *kernel); /* it ran */
extern size_t emulated_moved; /* bytes of activations that the running kernel read and wrote */

struct emulated_place {
    unsigned x;
};

/* All launches run under one lock (emulation.cpp). */
extern struct emulated_place blockIdx, threadIdx, blockDim, gridDim;

/* One piece of work in a stream, or in a graph, which runs it again and again. From malloc. */
struct emulated_work {
    bool (*run)(struct emulated_work
                    *work); /* false: it must wait for another process; it is run again later */
    struct emulated_work *next;
};

void emulated_push(cudaStream_t stream, struct emulated_work *work);

template <typename F> struct emulated_closure {
    struct emulated_work work; /* first */
    F f;
};

template <typename F> static bool emulated_call(struct emulated_work *work)
{
    struct emulated_closure<F> *closure = (struct emulated_closure<F> *)work;

    if constexpr (std::is_void_v<decltype(closure->f())>) {
        closure->f();
        return true;
    } else {
        return closure->f();
    }
}

template <typename F> static void emulated_later(cudaStream_t stream, F f)
{
    struct emulated_closure<F> *closure = (struct emulated_closure<F> *)malloc(sizeof *closure);

    new (&closure->f) F(f);
    closure->work.run = emulated_call<F>;
    closure->work.next = NULL;
    emulated_push(stream, &closure->work);
}

template <typename F> static void emulated_call_block(void *closure)
{
    (*(F *)closure)();
}

/* Arguments are taken when the kernel is launched, as on a GPU, not when it runs. */
template <typename... P, typename... A>
static void emulated_launch(cudaStream_t stream, unsigned blocks, unsigned threads,
                            const char *name, void (*kernel)(P...), A... arguments)
{
    emulated_later(stream, [=]() {
        auto run = [=]() { kernel(arguments...); };
        emulated_moved = 0; /* what libraries moved */
        gridDim.x = blocks;
        blockDim.x = emulated_whole ? threads : 1;
        threadIdx.x = 0;
        for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
            if (emulated_whole)
                emulated_block(name, threads, emulated_call_block<decltype(run)>, (void *)&run);
            else
                run();
        emulated_note(name);
    });
}

#define LAUNCH(kernel, blocks, threads, stream, ...)                                               \
    emulated_launch((stream), (unsigned)(blocks), (unsigned)(threads), #kernel, (kernel),          \
                    __VA_ARGS__)

#endif
