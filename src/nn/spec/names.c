/* Maps names to numbers by the C library's binary tree (tsearch). */
#define _GNU_SOURCE
#include "spec/names.h"

#include "util/error.h"

#include <search.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct name_entry {
    const void *name;
    int number;
};

static int compare_texts(const void *a, const void *b)
{
    return strcmp(((const struct name_entry *)a)->name, ((const struct name_entry *)b)->name);
}

static int compare_addresses(const void *a, const void *b)
{
    uintptr_t left = (uintptr_t)((const struct name_entry *)a)->name;
    uintptr_t right = (uintptr_t)((const struct name_entry *)b)->name;

    return (left > right) - (left < right);
}

static int (*order_of(const struct names *names))(const void *a, const void *b)
{
    return names->by_address ? compare_addresses : compare_texts;
}

int names_set(struct names *names, const void *name, int number)
{
    struct name_entry *entry = malloc(sizeof *entry), **place = NULL;

    if (entry != NULL) {
        *entry = (struct name_entry){name, number};
        place = tsearch(entry, &names->tree, order_of(names));
    }
    if (place == NULL || *place != entry)
        free(entry);
    if (place == NULL)
        return error_memory(sizeof *entry, "a table of names");
    (*place)->number = number;
    return 0;
}

int names_get(const struct names *names, const void *name)
{
    struct name_entry *const *place =
        tfind(&(struct name_entry){name, 0}, &names->tree, order_of(names));

    return place == NULL ? -1 : (*place)->number;
}

void names_free(struct names *names)
{
    tdestroy(names->tree, free);
    names->tree = NULL;
}
