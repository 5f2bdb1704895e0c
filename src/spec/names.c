/* A map from names to numbers. */
#include "spec/names.h"

#include "util/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct names_entry {
    const char *name; /* NULL: free */
    int number;
};

static struct names_entry *find(const struct names *names, const char *name)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */

    for (const char *c = name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    for (;; hash++) {
        struct names_entry *entry = &names->entries[hash & (names->room - 1)];

        if (entry->name == NULL || strcmp(entry->name, name) == 0)
            return entry;
    }
}

static int grow(struct names *names)
{
    struct names old = *names;

    names->room = old.room == 0 ? 64 : 2 * old.room;
    names->entries = calloc(names->room, sizeof *names->entries);
    if (names->entries == NULL) {
        *names = old;
        return error_memory(2 * old.room * sizeof *old.entries, "a table of names");
    }
    for (size_t i = 0; i < old.room; i++)
        if (old.entries[i].name != NULL)
            *find(names, old.entries[i].name) = old.entries[i];
    free(old.entries);
    return 0;
}

int names_set(struct names *names, const char *name, int number)
{
    struct names_entry *entry;

    if (2 * (names->count + 1) > names->room && grow(names))
        return -1;
    entry = find(names, name);
    if (entry->name == NULL) {
        entry->name = name;
        names->count++;
    }
    entry->number = number;
    return 0;
}

int names_get(const struct names *names, const char *name)
{
    const struct names_entry *entry = names->room == 0 ? NULL : find(names, name);

    return entry == NULL || entry->name == NULL ? -1 : entry->number;
}

void names_free(struct names *names)
{
    free(names->entries);
    *names = (struct names){0};
}
