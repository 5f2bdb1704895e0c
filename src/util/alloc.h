/* Memory with a message. */
#ifndef POSEIDON_UTIL_ALLOC_H
#define POSEIDON_UTIL_ALLOC_H

#include <stddef.h>

#include "util/error.h"

/* `count` items of `size` bytes, all zero, for the caller to free; also for 0 items. NULL: the
 * message is set, "out of memory: N bytes for WHAT". */
void *alloc_array(size_t count, size_t size, const char *what) __attribute__((malloc));

/* The same for a pointer to such items. 0; -1: the pointer is NULL. */
#define ALLOC(pointer, count, what)                                                                \
    (((pointer) = alloc_array((size_t)(count), sizeof *(pointer), what)) ? 0 : -1)

/* The pointer `array`, to `count` items that came from here (NULL: none yet), gets room for one
 * more: they move when their room doubles. 0; -1 with a message: they stay. */
#define ALLOC_ROOM(array, count, what) alloc_grow(&(array), (size_t)(count), sizeof *(array), what)
int alloc_grow(void *array, size_t count, size_t size, const char *what);

/* A copy of the text, or of its first `length` bytes, for the caller to free; fail with the
 * message.
 */
int alloc_text(char **copy, const char *text, const char *what);
int alloc_bytes(char **copy, const char *text, size_t length, const char *what);

/* Such a copy as one more of a list that grows by ALLOC_ROOM; all items of a comma list, but for
 * empty ones, as a new list; and the end of such a list. */
int alloc_listed(char ***list, int *count, const char *text, size_t length, const char *what);
int alloc_split(char ***list, int *count, const char *text, const char *what);
void alloc_free_list(char **list, int count);

#endif
