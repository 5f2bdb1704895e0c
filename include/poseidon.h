/* libposeidon: keeps the gradients, or the parameters, of all ranks of an MPI program together
 * while they are still being computed. A thread of the library's sends each tensor the moment that
 * its gradient exists, by the way that is cheapest for it; the program waits for each before its
 * next use. C11 and C++; docs/library.md has a program.
 *
 *     MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...);
 *     poseidon_create(MPI_COMM_WORLD, "comm=auto", &p);
 *     poseidon_add(p, &tensor, &number);              for each tensor, in forward order
 *     poseidon_start(p);
 *     each iteration: poseidon_post(p, number)        as each gradient becomes final
 *                     poseidon_wait(p, number)        before it is used
 *     poseidon_destroy(p);
 *
 * Every iteration posts or skips every tensor once, and waits for every tensor once: in any order,
 * but nothing is waited for before all are posted. Ranks may be in different iterations.
 *
 * Open MPI 4 over TCP: set OMPI_MCA_btl_tcp_flags=send,inplace before MPI_Init_thread. By its
 * default, ranks that all talk to all reach about half of a link.
 *
 * Threads. Calls on one handle come one at a time, from any thread. Handles know nothing of each
 * other. Memory that is handed over stays the program's.
 *
 * Errors. Functions return 0, or -1 with the message in poseidon_error() of the calling thread.
 * After poseidon_start a failure ends the handle on all ranks: their next calls fail, too, with the
 * message of the lowest rank that failed. Then only poseidon_destroy is left to do. A failing call
 * may wait until the other ranks come to one. From then on ranks that are silent for the time of
 * stall-timeout, or keep all others waiting for it, end all processes by MPI_Abort, named on
 * standard error. Until the end of poseidon_start collective calls wait without limit, as those of
 * MPI do; there poseidon_fail and an early poseidon_destroy fail the others' next one. */
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

/* One array of floats that every rank has. Set what is not used to zero. */
struct poseidon_tensor {
    const char *name; /* for messages; no two of a handle have the same. Copied */
    size_t elems;     /* at least 1 */
    float *gradient;  /* elems: this rank's from poseidon_post on, the result after poseidon_wait.
                         NULL: the library has the memory (poseidon_gradient), and copies less */
    float *values;    /* elems parameters: rank 0's become everybody's in poseidon_start, and with
                         result=values the result is there. Else they may be NULL */
    /* A matrix of outputs x inputs, row by row: comm=lowrank may factor its gradient (a
     * convolution's inputs: all that one output weighs). rows: that of an inner product is besides
     * a sum over the rows of a batch, so rows * (outputs + inputs) floats may travel in its place.
     * 0 where that is not so. */
    int64_t rows, outputs, inputs;
    /* What the tensor's layer takes, if that is known: comm=auto hides traffic behind it. Rank 0's
     * count. */
    double forward_seconds, backward_seconds;
};

/* The library's version, "0.1.0". */
POSEIDON_API const char *poseidon_version(void);

/* The last message of the calling thread; "" where there was none. Valid until its next call. */
POSEIDON_API const char *poseidon_error(void);

/* ---- set-up ---- */

/* A handle for the ranks of `comm`, which is copied. MPI must have been initialised with
 * MPI_THREAD_MULTIPLE. options: NULL, or words with commas between them, the same on all ranks;
 * they mean what those of `poseidon train` do:
 *
 *     comm=HOW            auto (default), paper, or a scheme: ps, sfb, allreduce, lowrank:4, ...
 *     lossy=WAYS          that auto may choose, too: bf16+lowrank:4+onebit; else it never rounds
 *     wire=fp32|bf16      how gradients travel
 *     hierarchy=auto|off|N  ranks of a machine, or N of them, add up in memory that they share
 *     merge=, chunk=, window=SIZE  of messages ("64k")
 *     bandwidth-mbps=X    most that a rank sends
 *     cluster-file=FILE   keeps what was measured of the network
 *     lowrank-warmup=N    iterations before lowrank begins
 *     trace=FILE          what each rank did when, as of train --trace; by poseidon_destroy
 *     stall-timeout=TIME  ("5min", the default; none: never)
 *     result=mean|sum|values  what poseidon_wait gives: the mean (default) or the sum of the
 *                         ranks' gradients; or the values as a rule updates them by the mean:
 *     type=, base_lr=, momentum=, momentum2=, rms_decay=, delta=, weight_decay=, local_gw_ratio=
 *                         that rule, by the fields of Caffe's solver (SGD, 0.01, 0, ...); for
 *                         result=values alone
 *
 * Collective. */
POSEIDON_API int poseidon_create(MPI_Comm comm, const char *options, struct poseidon **out);

/* Frees the handle; NULL is fine. Between iterations that is its end; within one, or before a
 * poseidon_start that others come to, it is a failure, which they are told. One that ends an
 * iteration before the others is named after stall-timeout. Collective, before MPI_Finalize, which
 * else ends the traffic and says so. After a failure some memory is kept until the process ends:
 * MPI may still use it. Returns -1 where the handle had failed. */
POSEIDON_API int poseidon_destroy(struct poseidon *p);

/* One more tensor, before poseidon_start. All ranks add the same ones in the same order, that of
 * the forward pass: what comes first is sent first. *out: its number, from 0 on. Not collective. */
POSEIDON_API int poseidon_add(struct poseidon *p, const struct poseidon_tensor *tensor, int *out);

/* Compares what the ranks have added, measures the network where comm=auto asks for it, and
 * chooses. Collective. */
POSEIDON_API int poseidon_start(struct poseidon *p);

/* Rank 0's bytes become everybody's: for what is no tensor. count: any, the same on all ranks; one
 * that differs fails on all, and the handle goes on. Before poseidon_start. Collective. */
POSEIDON_API int poseidon_share(struct poseidon *p, void *bytes, size_t count);

/* What poseidon_state_get gave on rank 0 of another run, of as many ranks, tensors and options:
 * this run goes on as that one would have, to the bit, where its values are those of then. Other
 * ranks' bytes are not read. Before poseidon_start, which refuses a state of another job: of other
 * ranks, tensors, ways to send them, or numbers of the rule. As with train --resume those stay; the
 * rate is the state's, and poseidon_set_rate changes it. Collective. */
POSEIDON_API int poseidon_state_set(struct poseidon *p, const void *bytes, size_t count);

/* Where the tensor's gradient is; the library's memory from poseidon_start on. NULL: there is no
 * such tensor, or not yet. Not collective, as all below. */
POSEIDON_API float *poseidon_gradient(struct poseidon *p, int tensor);

/* 1: poseidon_post_factors is to be called for the tensor, 0: poseidon_post; -1: an error. The same
 * on all ranks, from poseidon_start on. */
POSEIDON_API int poseidon_takes_factors(struct poseidon *p, int tensor);

/* ---- an iteration ---- */

/* This rank's gradient of the tensor is final, and is not touched until it was waited for. Does not
 * block. */
POSEIDON_API int poseidon_post(struct poseidon *p, int tensor);

/* The same by factors: the gradient is left^T right. left: rows x outputs, the gradient of the
 * product's result; right: rows x inputs, what was multiplied. Both are copied. rows: as many as
 * the tensor was added with. */
POSEIDON_API int poseidon_post_factors(struct poseidon *p, int tensor, int64_t rows,
                                       const float *left, const float *right);

/* This rank has no gradient of the tensor in this iteration: it counts as zero in the mean, which
 * is over all ranks. A rank that does neither this nor post ends the handle on all ranks: at once
 * where it waits or goes on to the next iteration, else after stall-timeout; with one message that
 * names it and the tensor. */
POSEIDON_API int poseidon_skip(struct poseidon *p, int tensor);

/* Until the tensor's result is in its place. Before the first iteration: nothing to wait for. */
POSEIDON_API int poseidon_wait(struct poseidon *p, int tensor);
POSEIDON_API int poseidon_wait_all(struct poseidon *p);

/* result=values: the learning rate from the next iteration on, 0 or more; the same on all ranks.
 * Between two iterations: within one, of which some tensors were posted, it is a failure. */
POSEIDON_API int poseidon_set_rate(struct poseidon *p, float rate);

/* For the program's own checkpoint, beside the values: what lossy ways have yet to send (wire=bf16,
 * onebit, lowrank), the history of a rule, how auto chose; as bytes on rank 0, good for machines
 * of one byte order. So many, on rank 0; 0 elsewhere, or where it fails. */
POSEIDON_API size_t poseidon_state_size(struct poseidon *p);

/* Between two iterations: waits for all tensors, and brings the state into rank 0's buffer; the
 * others' is not touched. Collective. */
POSEIDON_API int poseidon_state_get(struct poseidon *p, void *buffer, size_t room);

/* This rank cannot go on: the other ranks' next calls fail with its message; before the start their
 * next collective ones, if this rank comes to one, too: poseidon_destroy will do. Returns -1. */
POSEIDON_API int poseidon_fail(struct poseidon *p, const char *message);

/* ---- what it did ---- */

/* Of one tensor, or of the neighbours that travel with it; bytes of this rank alone. */
struct poseidon_traffic {
    const char *scheme;                      /* "PS"; "-": nothing travels */
    int first, tensors;                      /* that travel together: their numbers */
    uint64_t planned_sent, planned_received; /* in an iteration */
    uint64_t sent, received;                 /* since the start */
    double predicted_seconds; /* from the gradient to the result, by itself; 0: not measured */
    double travel_seconds;    /* measured, since the start: from the post to what comes back */
    double waited_seconds;    /* in poseidon_wait, since the start */
};
POSEIDON_API int poseidon_report(struct poseidon *p, int tensor, struct poseidon_traffic *out);

/* One sentence: how long was waited, for what most, and what may help. The handle's, until the next
 * call. */
POSEIDON_API const char *poseidon_advice(struct poseidon *p);

#ifdef __cplusplus
}
#endif

#endif
