/* The GPUs of this machine, for poseidon device_query. Only in builds with the CUDA engine. */
#ifndef POSEIDON_CUDA_GPU_H
#define POSEIDON_CUDA_GPU_H

#include <stddef.h>

struct cuda_device {
    char name[256];
    char identity[64]; /* UUID, hexadecimal */
    char bus[32];      /* PCI domain:bus:device */
    int major, minor;  /* compute capability */
    int processors;    /* streaming multiprocessors */
    size_t bytes, free_bytes;
};

/* Counts the GPUs: at least one, else -1 with a message that says whether driver or device is
 * missing. */
int cuda_device_count(int *count);
int cuda_device_describe(int device, struct cuda_device *out);
/* Writes the versions of cuDNN and cuBLASLt; -1 with a message where one is missing. */
int cuda_device_libraries(char *text, size_t size);
/* Writes NCCL's version; -1 with a message where this build or machine lacks NCCL. */
int cuda_device_nccl(char *text, size_t size);
/* Return versions as 1000 major + 10 minor; *driver 0: no driver. */
void cuda_device_versions(int *run_time, int *driver);

#endif
