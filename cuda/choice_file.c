/* The file of measured choices (choice_file.h). */
#include "choice_file.h"

#include "util/error.h"
#include "util/path.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct choice {
    char key[CHOICES_KEY_BYTES];
    int choice;
};

struct choices {
    char *path; /* NULL: no place for a file */
    struct choice *list;
    size_t count, capacity;
};

/* Makes a key, with '_' for blanks: a line's only blank comes before the number. */
static void make_key(const char *from, char key[CHOICES_KEY_BYTES])
{
    snprintf(key, CHOICES_KEY_BYTES, "%s", from);
    for (char *at = key; *at; at++)
        *at = *at == ' ' || *at == '\n' ? '_' : *at;
}

static struct choice *find(const struct choices *choices, const char *key)
{
    for (size_t i = choices->count; i > 0; i--)
        if (!strcmp(choices->list[i - 1].key, key))
            return &choices->list[i - 1];
    return NULL;
}

static int remember(struct choices *choices, const char *key, int choice)
{
    if (choices->count == choices->capacity) {
        size_t capacity = choices->capacity ? 2 * choices->capacity : 64;
        struct choice *list = realloc(choices->list, capacity * sizeof *list);
        if (!list)
            return error_memory(capacity * sizeof *list, "measured choices");
        choices->list = list;
        choices->capacity = capacity;
    }
    choices->list[choices->count] = (struct choice){.choice = choice};
    snprintf(choices->list[choices->count++].key, CHOICES_KEY_BYTES, "%s", key);
    return 0;
}

int choices_open(struct choices **out)
{
    struct choices *choices = calloc(1, sizeof *choices);
    char key[CHOICES_KEY_BYTES];
    int choice, status = 0;
    FILE *file;

    *out = choices;
    if (!choices)
        return error_memory(sizeof *choices, "measured choices");
    choices->path = path_in_cache("convolutions");
    file = choices->path ? fopen(choices->path, "r") : NULL;
    while (file && !status && fscanf(file, "%319s %d", key, &choice) == 2)
        status = remember(choices, key, choice);
    if (file)
        fclose(file);
    return status;
}

void choices_close(struct choices *choices)
{
    if (!choices)
        return;
    free(choices->path);
    free(choices->list);
    free(choices);
}

int choices_find(const struct choices *choices, const char *text)
{
    char key[CHOICES_KEY_BYTES];
    const struct choice *found;

    make_key(text, key);
    found = find(choices, key);
    return found ? found->choice : -1;
}

int choices_note(struct choices *choices, const char *text, int choice)
{
    char key[CHOICES_KEY_BYTES], line[CHOICES_KEY_BYTES + 32];
    int file, length;

    make_key(text, key);
    if (remember(choices, key, choice))
        return -1;
    if (!choices->path)
        return 0;
    length = snprintf(line, sizeof line, "%s %d\n", key, choice);
    file = open(choices->path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0)
        return 0;
    if (write(file, line, (size_t)length) != length) { /* one write, so that lines stay whole */
        free(choices->path);
        choices->path = NULL;
    }
    close(file);
    return 0;
}
