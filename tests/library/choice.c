/* What a program on libposeidon is told of the ways that its tensors go: choice OPTIONS FILE, which
 * has lines "NAME ROWS OUTPUTS INPUTS FORWARD BACKWARD" in forward order. Prints each tensor's
 * scheme. */
#include <stdio.h>
#include <stdlib.h>

#include "include/poseidon.h"

enum { MOST = 16 };

static void check(int status)
{
    if (status) {
        fprintf(stderr, "choice: %s\n", poseidon_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

int main(int argc, char **argv)
{
    struct poseidon_tensor tensor = {.name = NULL};
    struct poseidon_traffic traffic;
    struct poseidon *p;
    char name[MOST][32];
    int rank, level, n = 0;
    FILE *file = argc == 3 ? fopen(argv[2], "r") : NULL;

    if (!file)
        return 2;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(poseidon_create(MPI_COMM_WORLD, argv[1], &p));
    for (long long rows, outputs, inputs;
         n < MOST && fscanf(file, "%31s %lld %lld %lld %lf %lf", name[n], &rows, &outputs, &inputs,
                            &tensor.forward_seconds, &tensor.backward_seconds) == 6;
         n++) {
        tensor.name = name[n];
        tensor.elems = (size_t)(outputs * inputs);
        tensor.rows = rows;
        tensor.outputs = outputs;
        tensor.inputs = inputs;
        check(poseidon_add(p, &tensor, NULL));
    }
    fclose(file);
    check(poseidon_start(p));
    for (int i = 0; i < n; i++) {
        check(poseidon_report(p, i, &traffic));
        if (rank == 0)
            printf("%s\n", traffic.scheme);
    }
    check(poseidon_destroy(p));
    MPI_Finalize();
    return 0;
}
