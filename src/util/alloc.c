/* calloc with a message. */
#include "util/alloc.h"

#include "util/error.h"

#include <stdlib.h>

void *alloc_array(size_t count, size_t size, const char *what)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);

    if (!memory)
        error_memory((unsigned long long)count * size, what);
    return memory;
}
