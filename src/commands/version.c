/* poseidon --version: what a report of an error or a table of results has to name. */
#include "commands/commands.h"

#include "util/build_info.h"

#include <hdf5.h>
#include <oneapi/dnnl/dnnl.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

int command_version(void)
{
    const dnnl_version_t *dnnl = dnnl_version();
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    unsigned major, minor, release;
    int length = 0;

    if (MPI_Get_library_version(mpi, &length) != MPI_SUCCESS) /* allowed before MPI_Init */
        strcpy(mpi, "unknown");
    H5get_libversion(&major, &minor, &release);
    printf("poseidon %s\n", build_info.version);
    printf("commit      %s\nsources     %s\n", build_info.commit, build_info.sources);
    printf("MPI         %.*s\n", (int)strcspn(mpi, ",\n"), mpi);
    printf("HDF5        %u.%u.%u\n", major, minor, release);
    printf("oneDNN      %d.%d.%d\n", dnnl->major, dnnl->minor, dnnl->patch);
    printf("protobuf-c  %s\n", protobuf_c_version());
    printf("zlib        %s\n", zlibVersion());
    printf("data        HDF5%s%s%s%s\n",
#ifdef HAVE_LMDB
           ", LMDB",
#else
           "",
#endif
#ifdef HAVE_LEVELDB
           ", LevelDB",
#else
           "",
#endif
#ifdef HAVE_JPEG
           ", JPEG",
#else
           "",
#endif
#ifdef HAVE_PNG
           ", PNG"
#else
           ""
#endif
    );
    printf("engines     cpu, replay%s\n",
#ifdef HAVE_CUDA
           ", cuda"
#else
           ""
#endif
    );
    printf("compiler    %s\nflags       %s\n", build_info.compiler, build_info.flags);
    return 0;
}
