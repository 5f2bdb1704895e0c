/* Memory with a message. */
#ifndef POSEIDON_UTIL_ALLOC_H
#define POSEIDON_UTIL_ALLOC_H

#include <stddef.h>

/* `count` items of `size` bytes, all zero, for the caller to free; also for 0 items. NULL: the
 * message is set, "out of memory: N bytes for WHAT". */
void *alloc_array(size_t count, size_t size, const char *what) __attribute__((malloc));

/* `array`, which holds `count` items of `size` bytes and came from here (NULL: none yet), with room
 * for one more: it moves when it doubles. NULL: the message is set, and `array` stays. */
void *alloc_room(void *array, size_t count, size_t size, const char *what);

#endif
