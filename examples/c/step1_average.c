/* Step 1: the mean of a vector over all ranks. A tensor is added once, and posted and waited for in
 * every iteration.
 *
 *     mpicc step1_average.c -o step1_average $(pkg-config --cflags --libs poseidon)
 *     mpirun -np 2 ./step1_average */
#include <poseidon.h>
#include <stdio.h>

enum { ELEMS = 1000, ITERATIONS = 3 };

static void check(int status)
{
    if (status && fprintf(stderr, "step1_average: %s\n", poseidon_error()))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
    float vector[ELEMS];
    struct poseidon_tensor tensor = {.name = "vector", .elems = ELEMS, .gradient = vector};
    struct poseidon *p;
    int level, rank, number;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    check(poseidon_create(MPI_COMM_WORLD, argc > 1 ? argv[1] : NULL, &p));
    check(poseidon_add(p, &tensor, &number));
    check(poseidon_start(p));
    for (int iteration = 1; iteration <= ITERATIONS; iteration++) {
        for (int i = 0; i < ELEMS; i++)
            vector[i] = (float)(iteration * i + rank);
        check(poseidon_post(p, number)); /* the vector is the library's until wait returns: */
        check(poseidon_wait(p, number)); /* compute something else in between */
        if (rank == 0)
            printf("iteration %d: the mean ends with %.2f\n", iteration, vector[ELEMS - 1]);
    }
    check(poseidon_destroy(p));
    MPI_Finalize();
    return 0;
}
