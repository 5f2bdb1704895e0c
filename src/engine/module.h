/* Between libposeidon.so and the module that reaches GPUs, which is loaded when the first tensor on
 * a GPU is added: it is of the same build, and hands over an engine's table. */
#ifndef POSEIDON_ENGINE_MODULE_H
#define POSEIDON_ENGINE_MODULE_H

#include "engine/engine.h"

#define ENGINE_MODULE       "libposeidon_cuda.so.1"
#define ENGINE_MODULE_ENTRY "poseidon_cuda_engine"

/* The functions of util/error.h, of the library: a module's messages are the library's. */
struct engine_module_errors {
    int (*set)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    int (*context)(const char *format, ...) __attribute__((format(printf, 1, 2)));
    const char *(*text)(void);
};

/* The engine of GPUs' memory, with `guest`, and without operators. version: of the library. errors:
 * for as long as the module is loaded. NULL with a message: the module is of another version. */
typedef const struct engine_i *engine_module_fn(const char *version,
                                                const struct engine_module_errors *errors);

#endif
