/* The interface of libposeidon.so and its module for GPUs, which is of the same build and is loaded
 * when the first tensor on a GPU is added. The module hands over a device's table. */
#ifndef POSEIDON_DEVICE_MODULE_H
#define POSEIDON_DEVICE_MODULE_H

#include "device/device.h"

#define DEVICE_MODULE       "libposeidon_cuda.so.1"
#define DEVICE_MODULE_ENTRY "poseidon_cuda_device"

/* The library's own functions of util/error.h: the module sets its messages in the library. */
struct device_module_errors {
    int (*set)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    int (*context)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    const char *(*text)(void);
};

/* Returns the device of GPUs' memory, with `open` and `guest`; NULL with a message if the module is
 * of another version. version: the library's. errors: lent while the module is loaded. */
typedef const struct device_i *device_module_fn(const char *version,
                                                const struct device_module_errors *errors);

#endif
