/* Between libposeidon.so and the module that reaches GPUs, which is loaded when the first tensor on
 * a GPU is added. The module is of the same build, and hands over a device's table. */
#ifndef POSEIDON_DEVICE_MODULE_H
#define POSEIDON_DEVICE_MODULE_H

#include "device/device.h"

#define DEVICE_MODULE       "libposeidon_cuda.so.1"
#define DEVICE_MODULE_ENTRY "poseidon_cuda_device"

/* The functions of util/error.h, of the library: a module's messages are the library's. */
struct device_module_errors {
    int (*set)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    int (*context)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    const char *(*text)(void);
};

/* The device of GPUs' memory, with `open` and `guest`. version: the library's. errors: lent for as
 * long as the module is loaded. NULL with a message: the module is of another version. */
typedef const struct device_i *device_module_fn(const char *version,
                                                const struct device_module_errors *errors);

#endif
