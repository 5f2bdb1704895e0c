/* poseidon --version: prints the facts that error reports and tables of results need. */
#include "commands/commands.h"

#include "report/build_info.h"
#include "util/strbuf.h"

#include <hdf5.h>
#include <oneapi/dnnl/dnnl.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

static const char data[] = "HDF5"
#ifdef HAVE_LMDB
                           ", LMDB"
#endif
#ifdef HAVE_LEVELDB
                           ", LevelDB"
#endif
#ifdef HAVE_JPEG
                           ", JPEG"
#endif
#ifdef HAVE_PNG
                           ", PNG"
#endif
#ifdef HAVE_WEBP
                           ", WebP"
#endif
    ;

static const char engines[] = "cpu, replay"
#ifdef HAVE_CUDA
                              ", cuda"
#endif
    ;

void version_put(struct strbuf *out)
{
    const dnnl_version_t *dnnl = dnnl_version();
    char mpi[MPI_MAX_LIBRARY_VERSION_STRING];
    unsigned major, minor, release;
    int length = 0;

    if (MPI_Get_library_version(mpi, &length) != MPI_SUCCESS) /* allowed before MPI_Init */
        strcpy(mpi, "unknown");
    H5get_libversion(&major, &minor, &release);
    strbuf_printf(out, "poseidon %s\n", build_info.version);
    strbuf_printf(out, "commit      %s\nsources     %s\n", build_info.commit, build_info.sources);
    strbuf_printf(out, "MPI         %.*s\n", (int)strcspn(mpi, ",\n"), mpi);
    strbuf_printf(out, "HDF5        %u.%u.%u\n", major, minor, release);
    strbuf_printf(out, "oneDNN      %d.%d.%d\n", dnnl->major, dnnl->minor, dnnl->patch);
    strbuf_printf(out, "protobuf-c  %s\n", protobuf_c_version());
    strbuf_printf(out, "data        %s\n", data);
    strbuf_printf(out, "engines     %s\n", engines);
    strbuf_printf(out, "compiler    %s\nflags       %s\n", build_info.compiler, build_info.flags);
}

int command_version(void)
{
    struct strbuf text = {.data = NULL};

    version_put(&text);
    printf("%s", strbuf_text(&text));
    strbuf_free(&text);
    return 0;
}
