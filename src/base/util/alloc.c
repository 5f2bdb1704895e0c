/* calloc and realloc that set a message. The trick: an array's capacity follows from its count. */
#include "util/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void *alloc_array(size_t count, size_t size, const char *what)
{
    void *memory = calloc(count ? count : 1, size ? size : 1);

    if (!memory)
        error_memory((unsigned long long)count * size, what);
    return memory;
}

int alloc_grow(void *array, size_t count, size_t size, const char *what)
{
    enum { FIRST = 16 };
    size_t room = count ? 2 * count : FIRST;
    void *memory;

    if (count && (count < FIRST || (count & (count - 1))))
        return 0;
    memcpy(&memory, array, sizeof memory); /* all object pointers have the same representation */
    memory = room <= SIZE_MAX / 2 / size ? realloc(memory, room * size) : NULL;
    if (!memory)
        return error_memory((unsigned long long)room * size, what);
    memcpy(array, &memory, sizeof memory);
    return 0;
}

int alloc_bytes(char **copy, const char *text, size_t length, const char *what)
{
    *copy = strndup(text, length);
    return *copy ? 0 : error_memory(length + 1, what);
}

int alloc_text(char **copy, const char *text, const char *what)
{
    return alloc_bytes(copy, text, strlen(text), what);
}

int alloc_listed(char ***list, int *count, const char *text, size_t length, const char *what)
{
    if (ALLOC_ROOM(*list, *count, what) || alloc_bytes(&(*list)[*count], text, length, what))
        return -1;
    ++*count;
    return 0;
}

int alloc_split(char ***list, int *count, const char *text, const char *what)
{
    int status = 0;

    *list = NULL;
    *count = 0;
    for (size_t length; *text && !status; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        status = length ? alloc_listed(list, count, text, length, what) : 0;
    }
    return status;
}

void alloc_free_list(char **list, int count)
{
    for (int i = 0; i < count; i++)
        free(list[i]);
    free(list);
}
