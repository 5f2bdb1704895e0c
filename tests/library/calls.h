/* What the cases of calls.c and misuse.c share: a few tensors, and what ends a case. */
#ifndef POSEIDON_TESTS_LIBRARY_CALLS_H
#define POSEIDON_TESTS_LIBRARY_CALLS_H

#include <stdio.h>
#include <string.h>

#include "include/poseidon.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, %s:%d: %s: %s\n", rank, __FILE__, __LINE__, #condition,      \
                    poseidon_error());                                                             \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* A failure whose message has all of these. */
#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        const char *const parts_[] = {__VA_ARGS__};                                                \
        REQUIRE((call) == -1);                                                                     \
        for (size_t i_ = 0; i_ < sizeof parts_ / sizeof *parts_; i_++)                             \
            if (!strstr(poseidon_error(), parts_[i_])) {                                           \
                fprintf(stderr, "%s:%d: '%s' expected in: %s\n", __FILE__, __LINE__, parts_[i_],   \
                        poseidon_error());                                                         \
                MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
            }                                                                                      \
        if (rank == 0)                                                                             \
            printf("ok: %s\n", poseidon_error());                                                  \
    } while (0)

enum { TENSORS = 5, ROWS = 3, OUTPUTS = 40, INPUTS = 70, PRODUCT = 2, MOST = 30000 };

extern int rank, nranks;

/* Tensor t of handle h, 0 or 1. */
struct poseidon_tensor tensor_of(int h, int t);

/* Handle h with all tensors; rank 0's values are all 1, the others' noise, which nobody may see. */
struct poseidon *made(int h, const char *options);

/* That, and the start. */
struct poseidon *started(int h, const char *options);

/* Posts or skips all of them, in an order of each rank's own. */
void post_all(struct poseidon *p, int h, int iteration);

/* ---- device.c: with POSEIDON_CALLS_MODULE, a module over an emulated GPU, tensors lie there ----
 */

void device_open(void);
void *array_new(size_t bytes); /* zeros, where tensors lie */
int add(struct poseidon *p, const struct poseidon_tensor *tensor, int type, int *out);
void case_streams(const char *options);
void case_pieces(const char *options);
void case_devices(const char *options);
void case_full(const char *options);
void case_no_driver(const char *options);

/* ---- misuse.c ---- */

void case_refusals(const char *options);
void case_differ(const char *options);
void case_ends(const char *options);
void case_silent(const char *options);
void case_unstarted(const char *options);
void case_early(const char *options);
void case_unwritable(const char *options);
void case_finalized(const char *options);
void case_uninitialised(const char *options);
void case_launched(const char *text);
void case_single(const char *options);

#endif
