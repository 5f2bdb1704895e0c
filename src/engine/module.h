/* Between libposeidon.so and the module that reaches GPUs: the module is loaded when the first
 * tensor on a GPU is added, is of the same build, and hands over an engine's table. */
#ifndef POSEIDON_LIBRARY_MODULE_H
#define POSEIDON_LIBRARY_MODULE_H

#include "engine/engine.h"

#define LIBRARY_MODULE       "libposeidon_cuda.so.1"
#define LIBRARY_MODULE_ENTRY "poseidon_cuda_engine"

/* The engine of GPUs' memory, with `guest`, and without operators. version: of libposeidon.so. say
 * takes each message of the module's as error_set does. NULL: of another version; say has why. */
typedef const struct engine_i *library_module_fn(const char *version, int (*say)(const char *text));

#endif
