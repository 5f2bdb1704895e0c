/* libposeidon: data-parallel training for MPI programs. The library averages the gradients of all
 * ranks, or applies an update rule to shared parameters, while the program still computes. A thread
 * of the library sends each tensor as soon as its gradient exists, by the scheme that is cheapest
 * for the tensor's shape on this cluster. The program waits for a tensor only before it uses the
 * tensor again. C11 and C++; docs/library.md has a complete program.
 *
 *     MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...);
 *     poseidon_create(MPI_COMM_WORLD, "comm=auto", &p);
 *     poseidon_add(p, &tensor, &number);              for each tensor, in forward order
 *     poseidon_start(p);
 *     each iteration: poseidon_post(p, number)        as each gradient becomes final
 *                     poseidon_wait(p, number)        before the result is used
 *     poseidon_destroy(p);
 *
 * Tensors on GPUs, and gradients of half precision: poseidon_add_at, poseidon_post_on,
 * poseidon_wait_on.
 *
 * Iterations. In every iteration a rank posts or skips each tensor once, in any order, and then
 * waits for each tensor once, in any order. No wait comes before the last post of its iteration.
 * Ranks may be in different iterations.
 *
 * Open MPI 4 over TCP: set OMPI_MCA_btl_tcp_flags=send,inplace before MPI_Init_thread. With Open
 * MPI's default, ranks that all talk to all reach about half of a link's rate.
 *
 * Threads. Calls on one handle must not overlap; they may come from different threads. Handles are
 * independent of each other.
 *
 * Memory. Arrays that the program hands over stay the program's.
 *
 * Errors. Functions return 0, or -1; poseidon_error() then has the message, per thread. A failure
 * after poseidon_start ends the handle on all ranks: every later call on any rank fails with the
 * message of the lowest rank that failed, and only poseidon_destroy is allowed. A failing call may
 * block until the other ranks make their next call. A rank that is silent for stall-timeout, or
 * keeps all other ranks waiting for stall-timeout, is named on standard error, and all processes
 * end by MPI_Abort with status 76. Before the end of poseidon_start collective calls wait without
 * limit, as MPI's do; a rank that cannot go on there calls poseidon_fail, and the other ranks' next
 * collective call fails.
 *
 * Compatibility. A program that was linked with 1.0 runs with every later 1.x, without a new
 * compilation, if the MPI library is the same: functions, sizes and fields of structs, returned
 * values, status 76 and the options of poseidon_create stay. A later 1.x may have more functions
 * and options. Not part of the promise: wording of messages and of poseidon_advice, what comm=auto
 * chooses, the last bits of sums, and a state (poseidon_state_get) of another version. */
#ifndef POSEIDON_H
#define POSEIDON_H

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define POSEIDON_API __attribute__((visibility("default")))
#else
#define POSEIDON_API
#endif

struct poseidon; /* a handle */

/* An array of floats that every rank has. Fields that are not used are zero. */
struct poseidon_tensor {
    const char *name; /* appears in messages; unique in the handle. Copied */
    size_t elems;     /* number of floats, at least 1 */
    float *gradient;  /* elems floats. Before poseidon_post: this rank's gradient; after
                         poseidon_wait: the result. NULL: the library allocates the array
                         (poseidon_gradient), which saves a copy */
    float *values;    /* elems parameters, or NULL. poseidon_start gives rank 0's values to all
                         ranks. result=values needs this array, and leaves the result in it */
    /* The tensor as a matrix of outputs x inputs, row by row; 0 if the tensor is no matrix.
     * comm=lowrank may then send factors of low rank in place of the gradient. For a convolution,
     * inputs is the number of weights of one output. rows > 0: the gradient is a product over
     * `rows` samples, like an inner product layer's, so that rows * (outputs + inputs) floats
     * (sufficient factors) may travel in its place; 0: no such product. */
    int64_t rows, outputs, inputs;
    /* Seconds that the tensor's layer computes in each pass; 0: unknown. comm=auto hides traffic
     * behind this time. Rank 0's numbers are used. */
    double forward_seconds, backward_seconds;
};

/* Type of a gradient's elements. */
enum poseidon_type { POSEIDON_FLOAT32, POSEIDON_FLOAT16, POSEIDON_BFLOAT16 };

/* Memory of an array: the host's, or a GPU's, as CUDA allocates it. */
enum poseidon_memory { POSEIDON_HOST, POSEIDON_CUDA };

/* Memory of a tensor's arrays, and type of its gradient. {.size = sizeof(struct poseidon_place)} is
 * the place of a tensor of poseidon_add. */
struct poseidon_place {
    size_t size; /* sizeof(struct poseidon_place): a later 1.x may have more fields */
    int memory;  /* enum poseidon_memory of gradient and values; the same for all tensors of a
                    handle, which lie on one GPU if they lie on any */
    int type;    /* enum poseidon_type of the gradient, which is passed as float * in any case. Sums
                    are of floats, and the result is rounded to the type. Values are floats */
};

/* Returns the library's version, "MAJOR.MINOR.PATCH", a constant text. */
POSEIDON_API const char *poseidon_version(void);

/* Returns the calling thread's last message, "" if none; valid until the thread's next call. */
POSEIDON_API const char *poseidon_error(void);

/* ---- set-up ---- */

/* Makes a handle for the ranks of `comm`, which the library duplicates. MPI must have been
 * initialised with MPI_THREAD_MULTIPLE. options: NULL, or options separated by commas, the same on
 * all ranks, with the meanings that they have in `poseidon train`:
 *
 *     comm=HOW            auto (default), paper, or a scheme: ps, sfb, allreduce, lowrank:4, ...
 *     lossy=WAYS          lossy schemes that auto may choose, too, as bf16+lowrank:4+onebit;
 *                         a scheme takes bf16 alone: wire=bf16
 *                         (default: none, nothing is rounded)
 *     wire=fp32|bf16      the format in which gradients travel
 *     hierarchy=auto|off|N  the ranks of a machine, or N of them, add up gradients in shared
 *                         memory before one of them sends the sum
 *     merge=SIZE          small neighbouring tensors travel together, up to this size ("64k")
 *     chunk=SIZE          bytes of a message at most
 *     window=SIZE         bytes in flight at most; 0: no limit
 *     bandwidth-mbps=X    Mbit/s that a rank sends at most
 *     cluster-file=FILE   keeps the measured figures of the network
 *     lowrank-warmup=N    iterations in which gradients travel whole before lowrank begins
 *     trace=FILE          a timeline of all ranks, as train --trace; poseidon_destroy writes it
 *     stall-timeout=TIME  silence after which a rank is lost ("5min", default; none: never)
 *     result=mean|sum|values  the result of poseidon_wait: the mean (default) or the sum of the
 *                         ranks' gradients; or new values, by an update rule and the mean
 *     type=, base_lr=, momentum=, momentum2=, rms_decay=, delta=, weight_decay=, local_gw_ratio=
 *                         the update rule of result=values: fields of a Caffe solver (defaults:
 *                         SGD, 0.01, 0, ...)
 *
 * Collective. */
POSEIDON_API int poseidon_create(MPI_Comm comm, const char *options, struct poseidon **out);

/* Frees the handle; NULL is allowed. The regular place is between two iterations. Within an
 * iteration, or before a poseidon_start that other ranks make, the call is a failure, and the other
 * ranks are told. A rank that ends before other ranks have begun their last iteration is a failure,
 * too, found within seconds. Collective; before MPI_Finalize, which otherwise ends the traffic and
 * says so. After a failure some memory stays allocated until the process ends, because MPI may
 * still use it. Returns -1 if the handle had failed. */
POSEIDON_API int poseidon_destroy(struct poseidon *p);

/* Adds a tensor, before poseidon_start. All ranks add the same tensors in the same order, which is
 * the order of the forward pass: a tensor added earlier is sent earlier. *out: the tensor's number,
 * counted from 0. Not collective. */
POSEIDON_API int poseidon_add(struct poseidon *p, const struct poseidon_tensor *tensor, int *out);

/* Adds a tensor that lies on a GPU, or whose gradient is of another type. The first tensor on a GPU
 * opens CUDA through libposeidon_cuda.so.1, which lies beside libposeidon.so.1. Only a gradient of
 * floats may be NULL. */
POSEIDON_API int poseidon_add_at(struct poseidon *p, const struct poseidon_tensor *tensor,
                                 const struct poseidon_place *place, int *out);

/* Checks that all ranks have added the same tensors, measures the network where comm=auto needs its
 * figures, chooses a scheme for each tensor, and starts the library's thread. Collective. */
POSEIDON_API int poseidon_start(struct poseidon *p);

/* Copies rank 0's `count` bytes to all ranks, before poseidon_start. A count that differs between
 * ranks is an error on all ranks, after which the handle still works. Collective. */
POSEIDON_API int poseidon_share(struct poseidon *p, void *bytes, size_t count);

/* Continues another run, before poseidon_start: bytes are what poseidon_state_get gave on that
 * run's rank 0; other ranks' bytes are not read. With the values of that moment this run continues
 * as that run would have, to the last bit. poseidon_start refuses a state of another number of
 * ranks, other tensors, other schemes or another update rule. The learning rate is the state's
 * until poseidon_set_rate changes it. Collective. */
POSEIDON_API int poseidon_state_set(struct poseidon *p, const void *bytes, size_t count);

/* Returns the tensor's gradient array; the library's own array exists from poseidon_start on. NULL:
 * there is no such tensor, or its array does not exist yet. Not collective, like all functions
 * below but poseidon_state_get. */
POSEIDON_API float *poseidon_gradient(struct poseidon *p, int tensor);

/* Returns which post the tensor needs: 1 for poseidon_post_factors, 0 for poseidon_post; -1: an
 * error. From poseidon_start on; the same on all ranks. */
POSEIDON_API int poseidon_takes_factors(struct poseidon *p, int tensor);

/* ---- an iteration ---- */

/* Says that this rank's gradient of the tensor is final. The array must not be touched until
 * poseidon_wait of the tensor has returned. Does not block. */
POSEIDON_API int poseidon_post(struct poseidon *p, int tensor);

/* Posts the gradient as sufficient factors: the gradient is left^T right. left: rows x outputs, the
 * gradient of the layer's output; right: rows x inputs, the layer's input. The call copies both.
 * rows: the number that the tensor was added with. */
POSEIDON_API int poseidon_post_factors(struct poseidon *p, int tensor, int64_t rows,
                                       const float *left, const float *right);

/* poseidon_post, poseidon_post_factors and poseidon_wait of a tensor on a GPU, for a program whose
 * work is in a stream of that GPU: a cudaStream_t, or NULL, the default stream. The post takes
 * effect after all work that is in the stream already; work that the program adds later may
 * overwrite the factors. poseidon_wait_on blocks until the result has come from the network; work
 * that the program adds to the stream later finds the result. Where nothing but this machine's GPUs
 * adds up, poseidon_wait_on does not block. Calls leave that GPU as the thread's current device.
 * The three functions without a stream suit a program that waits for its GPU itself: poseidon_post
 * says that the gradient is complete, and poseidon_wait blocks until the result is in its array. */
POSEIDON_API int poseidon_post_on(struct poseidon *p, int tensor, void *stream);
POSEIDON_API int poseidon_post_factors_on(struct poseidon *p, int tensor, int64_t rows,
                                          const float *left, const float *right, void *stream);
POSEIDON_API int poseidon_wait_on(struct poseidon *p, int tensor, void *stream);

/* Replaces a post: this rank has no gradient of the tensor in this iteration. The gradient counts
 * as zero in the mean, which is over all ranks. A rank that neither posts nor skips a tensor ends
 * the handle on all ranks with one message that names rank and tensor: at once if the rank waits or
 * begins the next iteration, else after stall-timeout. */
POSEIDON_API int poseidon_skip(struct poseidon *p, int tensor);

/* Blocks until the tensor's result is in its array; returns at once before the first iteration. */
POSEIDON_API int poseidon_wait(struct poseidon *p, int tensor);

/* Blocks until every tensor's result is in its array. */
POSEIDON_API int poseidon_wait_all(struct poseidon *p);

/* Sets the learning rate of result=values from the next iteration on: 0 or more, the same on all
 * ranks. Must be called between two iterations; fails after the first post of an iteration. */
POSEIDON_API int poseidon_set_rate(struct poseidon *p, float rate);

/* Returns the bytes of the handle's state on rank 0; 0 on other ranks and on failure. The state
 * belongs in the program's checkpoint beside the values: residuals of lossy schemes (wire=bf16,
 * onebit, lowrank), the update rule's history, and the schemes that comm=auto chose. Machines of
 * the same byte order can read the state. */
POSEIDON_API size_t poseidon_state_size(struct poseidon *p);

/* Writes the state into rank 0's buffer of `room` bytes; other ranks' buffers are not touched.
 * Between two iterations; waits for all tensors. Collective. */
POSEIDON_API int poseidon_state_get(struct poseidon *p, void *buffer, size_t room);

/* Says that this rank cannot go on. The other ranks' next calls fail with the message; before
 * poseidon_start has returned their next collective calls do, once this rank makes a collective
 * call, too, such as poseidon_destroy. Returns -1. */
POSEIDON_API int poseidon_fail(struct poseidon *p, const char *message);

/* ---- traffic and waiting ---- */

/* Traffic of a tensor and the neighbours that travel with it. Bytes are this rank's alone. */
struct poseidon_traffic {
    char scheme[40];       /* "PS", "low rank 4", "PS bf16"; "-": nothing travels */
    int first, tensors;    /* tensors that travel together: number of the first, and how many */
    uint64_t planned_sent; /* bytes that the plan has this rank send in an iteration */
    uint64_t planned_received;
    uint64_t sent; /* bytes that this rank has sent since the start */
    uint64_t received;
    double predicted_seconds; /* seconds from the gradient to the result, if nothing else travelled;
                                 0: the network was not measured */
    double travel_seconds;    /* measured from post to result, summed since the start */
    double waited_seconds;    /* spent in poseidon_wait, summed since the start */
};

/* Fills *out for the tensor, from poseidon_start on. */
POSEIDON_API int poseidon_report(struct poseidon *p, int tensor, struct poseidon_traffic *out);

/* Returns a sentence for people: how long this rank has waited, for which tensor most, and what may
 * help. The handle owns the text, which is valid until the next call of poseidon_advice. */
POSEIDON_API const char *poseidon_advice(struct poseidon *p);

#ifdef __cplusplus
}
#endif

#endif
