/* Loads libraries by dlopen and dlsym, in the major version of the headers: other major versions
 * have other structures. */
#include "libs.h"

#include "util/error.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_NCCL_H
#include "nccl_functions.h"
#endif

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* Searches the loader's folders, then the folders where the toolkit was at build time. */
static int library_open(const char *name, void **out)
{
    char folders[] = CUDA_LIBRARY_FOLDERS, path[4096], first[512], *rest = folders, *folder;
    const char *why;

    *out = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (*out)
        return 0;
    why = dlerror();
    snprintf(first, sizeof first, "%s", why ? why : "it cannot be loaded");
    while (!*out && (folder = strsep(&rest, ":")) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, name);
        *out = *folder ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    return *out ? 0
                : error_set(
                      "the library %s is missing (%s); install it, or set LD_LIBRARY_PATH to its "
                      "folder",
                      name, first);
}

static int function_find(void *library, const char *file, const char *name, void *to)
{
    void *found = dlsym(library, name);

    if (!found)
        return error_set("the library %s has no function %s: a newer version is needed", file,
                         name);
    memcpy(to, &found, sizeof found); /* ISO C converts no object pointer into a function pointer */
    return 0;
}

#define FIND_CUDNN(name)                                                                           \
    if (function_find(out->cudnn, cudnn, #name, &out->name##_))                                    \
        goto fail;
#define FIND_CUBLASLT(name)                                                                        \
    if (function_find(out->cublaslt, cublaslt, #name, &out->name##_))                              \
        goto fail;

int cuda_libs_open(struct cuda_libs *out, bool dnn)
{
    static const char cudnn[] = "libcudnn.so." TEXT(CUDNN_MAJOR);
    static const char cublaslt[] = "libcublasLt.so." TEXT(CUBLAS_VER_MAJOR);

    memset(out, 0, sizeof *out);
    if (library_open(cublaslt, &out->cublaslt) || (dnn && library_open(cudnn, &out->cudnn)))
        goto fail;
    CUBLASLT_FUNCTIONS(FIND_CUBLASLT)
    if (!dnn)
        return 0;
    CUDNN_FUNCTIONS(FIND_CUDNN)
    return 0;
fail:
    cuda_libs_close(out);
    return -1;
}

void cuda_libs_close(struct cuda_libs *libs)
{
    if (libs->cudnn)
        dlclose(libs->cudnn);
    if (libs->cublaslt)
        dlclose(libs->cublaslt);
    memset(libs, 0, sizeof *libs);
}

#ifdef HAVE_NCCL_H
#define FIND_NCCL(name)                                                                            \
    if (function_find(out->library, nccl, #name, &out->name##_))                                   \
        goto fail;

int nccl_functions_open(struct nccl_functions *out)
{
    static const char nccl[] = "libnccl.so." TEXT(NCCL_MAJOR);

    memset(out, 0, sizeof *out);
    if (library_open(nccl, &out->library))
        goto fail;
    NCCL_FUNCTIONS(FIND_NCCL)
    return 0;
fail:
    nccl_functions_close(out);
    return -1;
}

void nccl_functions_close(struct nccl_functions *nccl)
{
    if (nccl->library)
        dlclose(nccl->library);
    memset(nccl, 0, sizeof *nccl);
}
#endif
