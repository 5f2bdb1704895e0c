/* calloc and realloc with a message. How much an array has room for follows from how much it holds.
 */
#include "util/alloc.h"

#include "util/error.h"

#include <stdint.h>
#include <stdlib.h>

void *alloc_array(size_t count, size_t size, const char *what)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);

    if (!memory)
        error_memory((unsigned long long)count * size, what);
    return memory;
}

void *alloc_room(void *array, size_t count, size_t size, const char *what)
{
    enum { FIRST = 16 };
    size_t room = count ? 2 * count : FIRST;
    void *grown;

    if (count && (count < FIRST || (count & (count - 1))))
        return array;
    grown = room <= SIZE_MAX / 2 / size ? realloc(array, room * size) : NULL;
    if (!grown)
        error_memory((unsigned long long)room * size, what);
    return grown;
}
