/* libposeidon_cuda.so, which libposeidon.so loads when the first tensor on a GPU is added: the one
 * function that the module exports, and the functions of util/error.h, which pass messages to the
 * library. */
#include "cuda_internal.h"

#include "device/module.h"
#include "util/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "config.h"

enum { MESSAGE = 2048 };

static const struct device_module_errors *library;

#define FORMAT_MESSAGE(text, format)                                                               \
    do {                                                                                           \
        va_list arguments_;                                                                        \
        va_start(arguments_, format);                                                              \
        vsnprintf(text, sizeof text, format, arguments_);                                          \
        va_end(arguments_);                                                                        \
    } while (0)

int error_set(const char *format, ...)
{
    char text[MESSAGE];

    FORMAT_MESSAGE(text, format);
    return library->set("%s", text);
}

int error_context(const char *format, ...)
{
    char text[MESSAGE];

    FORMAT_MESSAGE(text, format);
    return library->context("%s", text);
}

const char *error_text(void)
{
    return library->text();
}

int error_memory(unsigned long long bytes, const char *what)
{
    return library->set("out of memory: %llu bytes for %s", bytes, what);
}

__attribute__((visibility("default"))) device_module_fn poseidon_cuda_device;

const struct device_i *poseidon_cuda_device(const char *version,
                                            const struct device_module_errors *errors)
{
    if (!strcmp(version, PACKAGE_VERSION)) {
        library = errors;
        return &device_cuda;
    }
    errors->set("%s has version %s, but libposeidon.so has %s: install both from one build",
                DEVICE_MODULE, PACKAGE_VERSION, version);
    return NULL;
}
