/* A rank that knows no handshake: like a poseidon from before it, it begins with a collective call.
 */
#include <mpi.h>

int main(int argc, char **argv)
{
    int one = 1, all = 0;

    if (MPI_Init(&argc, &argv) != MPI_SUCCESS)
        return 1;
    (void)MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
