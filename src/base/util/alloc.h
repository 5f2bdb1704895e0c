/* Memory allocation that sets a message on failure. */
#ifndef POSEIDON_UTIL_ALLOC_H
#define POSEIDON_UTIL_ALLOC_H

#include <stddef.h>

#include "util/error.h"

/* Returns `count` zeroed items of `size` bytes, for the caller to free; not NULL even for 0 items.
 * Returns NULL with the message "out of memory: N bytes for WHAT" on failure. */
void *alloc_array(size_t count, size_t size, const char *what) __attribute__((malloc));

/* Points `pointer` at `count` zeroed items. Returns 0, or -1 with `pointer` NULL. */
#define ALLOC(pointer, count, what)                                                                \
    (((pointer) = alloc_array((size_t)(count), sizeof *(pointer), what)) ? 0 : -1)

/* Makes room for one more item in `array`, which holds `count` items and was grown by ALLOC_ROOM
 * alone (NULL: no items yet). The items move when the capacity doubles. Returns 0, or -1 with a
 * message; then the items stay. */
#define ALLOC_ROOM(array, count, what) alloc_grow(&(array), (size_t)(count), sizeof *(array), what)
int alloc_grow(void *array, size_t count, size_t size, const char *what);

/* Copies the text, or its first `length` bytes, for the caller to free. Returns 0, or -1 with a
 * message. */
int alloc_text(char **copy, const char *text, const char *what);
int alloc_bytes(char **copy, const char *text, size_t length, const char *what);

/* alloc_listed appends a copy of the text to a list that grows by ALLOC_ROOM. alloc_split lists the
 * items of a comma list, without empty ones. alloc_free_list frees such a list. */
int alloc_listed(char ***list, int *count, const char *text, size_t length, const char *what);
int alloc_split(char ***list, int *count, const char *text, const char *what);
void alloc_free_list(char **list, int count);

#endif
