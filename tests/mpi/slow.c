/* Preloaded by test_balance.sh: where the file that SLOW names is, a rank's products take thirty
 * times as long: on a busy machine, which slows the others, still some times. */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int dnnl_primitive_execute(void *primitive, void *stream, int nargs, const void *args);

int dnnl_primitive_execute(void *primitive, void *stream, int nargs, const void *args)
{
    static int (*real)(void *, void *, int, const void *);
    const char *file = getenv("SLOW");
    struct timespec before, after;
    int status;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "dnnl_primitive_execute");
    clock_gettime(CLOCK_MONOTONIC, &before);
    status = real(primitive, stream, nargs, args);
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (file && access(file, F_OK) == 0)
        usleep((useconds_t)(29 * ((after.tv_sec - before.tv_sec) * 1000000 +
                                  (after.tv_nsec - before.tv_nsec) / 1000)));
    return status;
}
