/* What ends a program of several ranks that finds something wrong. */
#ifndef POSEIDON_TESTS_MPI_REQUIRE_H
#define POSEIDON_TESTS_MPI_REQUIRE_H

#include <mpi.h>
#include <stdio.h>

#include "util/error.h"

/* Ends all ranks with a message where the condition does not hold. `rank` is the caller's. */
#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #condition,              \
                    error_text());                                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

#endif
