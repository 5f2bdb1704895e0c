/* poseidon device_query: lists this machine's GPUs, or says why the CUDA engine finds none. */
#include "commands/commands.h"
#include "commands/options.h"

#include <stdio.h>

#include "util/error.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_CUDA
#include "cuda/gpu.h"

static void print_device(int number, const struct cuda_device *device)
{
    printf("device %d: %s\n", number, device->name);
    printf("  identity            %s\n", device->identity);
    printf("  PCI bus             %s\n", device->bus);
    printf("  compute capability  %d.%d\n", device->major, device->minor);
    printf("  multiprocessors     %d\n", device->processors);
    printf("  memory              %.0f MiB, %.0f MiB free\n", (double)device->bytes / 1048576,
           (double)device->free_bytes / 1048576);
}

static int query(void)
{
    struct cuda_device device;
    char libraries[256];
    int run_time, driver, count, status;

    cuda_device_versions(&run_time, &driver);
    printf("CUDA run time %d.%d, driver ", run_time / 1000, run_time % 1000 / 10);
    if (driver)
        printf("%d.%d\n", driver / 1000, driver % 1000 / 10);
    else
        printf("none\n");
    status = cuda_device_libraries(libraries, sizeof libraries);
    printf("libraries: %s\n", status ? error_text() : libraries);
    printf("between GPUs: %s\n",
           cuda_device_nccl(libraries, sizeof libraries) ? error_text() : libraries);
    if (cuda_device_count(&count))
        return -1;
    for (int i = 0; i < count; i++) {
        if (cuda_device_describe(i, &device))
            return error_context("device %d", i);
        print_device(i, &device);
    }
    /* GPUs without libraries are useless: fail with the libraries' message */
    return status ? cuda_device_libraries(libraries, sizeof libraries) : 0;
}
#else
static int query(void)
{
    return error_set(
        "this build has no CUDA engine: it was configured --without-cuda, or without nvcc, "
        "cuDNN and cuBLAS at hand");
}
#endif

int command_device_query(int argc, char **argv)
{
    const struct command_line line = {
        .command = "device_query",
        .synopsis = "",
        .about = "Lists the GPUs of this machine and what the CUDA engine needs: driver, cuDNN and "
                 "cuBLASLt, and NCCL for several GPUs of a node. The status is 1 if --engine=cuda "
                 "cannot run.",
        .example = "  poseidon device_query",
    };
    int status = options_parse(&line, argc, argv, NULL);

    return status ? status : query();
}
