/* MPI_Testsome for the profiling shims of the conformance tests and of the wire's. */
#ifndef POSEIDON_TESTS_WIRE_LATE_REQUESTS_H
#define POSEIDON_TESTS_WIRE_LATE_REQUESTS_H

#include <mpi.h>
#include <stdint.h>

/* Half of the requests, from a random place backwards or forwards: late and out of order. `chance`
 * gives random numbers. */
static inline int late_test_some(uint64_t (*chance)(void), int n, MPI_Request *requests, int *done,
                                 int *which, MPI_Status *statuses)
{
    int code = MPI_SUCCESS, at = (int)(chance() % (uint64_t)n), step = chance() % 2 ? 1 : n - 1;

    *done = 0;
    for (int i = 0; i < n && code == MPI_SUCCESS; i++, at = (at + step) % n) {
        int flag = 0;
        if (chance() % 2)
            code = PMPI_Test(&requests[at], &flag, &statuses[*done]);
        if (flag)
            which[(*done)++] = at;
    }
    return code;
}

#endif
