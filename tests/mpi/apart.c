/* Preloaded by test_cores.sh: every rank takes itself to be alone on its machine, whatever the
 * launcher has started beside it. */
#include <mpi.h>

int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out)
{
    if (type == MPI_COMM_TYPE_SHARED)
        return MPI_Comm_dup(MPI_COMM_SELF, out);
    return PMPI_Comm_split_type(comm, type, key, info, out);
}
