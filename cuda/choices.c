/* The file of measured choices: one line per convolution, "key choice". The key holds all that the
 * candidates depend on: device, cuDNN's version, precision, shape, and how this program lists them
 * (v2). Lines are only ever added, whole, so ranks that measure at the same time do each other no
 * harm; of several lines the last one holds. */
#include "cuda_internal.h"

#include "util/error.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES = 320 };

struct choice {
    char key[KEY_BYTES];
    int choice;
};

struct cuda_choices {
    char path[4096]; /* empty: nowhere to keep them */
    struct choice *list;
    size_t count, capacity;
};

/* POSEIDON_CACHE, or where such things are kept. */
static void choices_path(char *path, size_t size)
{
    const char *own = getenv("POSEIDON_CACHE"), *cache = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    char folder[4000] = "";

    path[0] = '\0';
    if (own)
        snprintf(folder, sizeof folder, "%s", own);
    else if (cache && cache[0])
        snprintf(folder, sizeof folder, "%s/poseidon", cache);
    else if (home && home[0])
        snprintf(folder, sizeof folder, "%s/.cache/poseidon", home);
    if (!folder[0])
        return;
    for (char *slash = folder + 1; (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        mkdir(folder, 0777);
    }
    if (mkdir(folder, 0777) == 0 || access(folder, W_OK) == 0)
        snprintf(path, size, "%s/convolutions", folder);
}

static int choices_remember(struct cuda_choices *choices, const char *key, int choice)
{
    if (choices->count == choices->capacity) {
        size_t capacity = choices->capacity ? 2 * choices->capacity : 64;
        struct choice *list = realloc(choices->list, capacity * sizeof *list);
        if (!list)
            return error_memory(capacity * sizeof *list, "convolutions' choices");
        choices->list = list;
        choices->capacity = capacity;
    }
    snprintf(choices->list[choices->count].key, KEY_BYTES, "%s", key);
    choices->list[choices->count++].choice = choice;
    return 0;
}

int cuda_choices_open(struct cuda_engine *engine)
{
    struct cuda_choices *choices = calloc(1, sizeof *choices);
    char key[KEY_BYTES];
    int choice, status = 0;
    FILE *file;

    engine->choices = choices;
    if (!choices)
        return error_memory(sizeof *choices, "convolutions' choices");
    choices_path(choices->path, sizeof choices->path);
    file = choices->path[0] ? fopen(choices->path, "r") : NULL;
    while (file && !status && fscanf(file, "%319s %d", key, &choice) == 2)
        status = choices_remember(choices, key, choice);
    if (file)
        fclose(file);
    return status;
}

void cuda_choices_close(struct cuda_engine *engine)
{
    if (engine->choices)
        free(engine->choices->list);
    free(engine->choices);
    engine->choices = NULL;
}

static void choices_key(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                        const struct kernel_conv *c, char key[KEY_BYTES])
{
    int used = snprintf(
        key, KEY_BYTES, "%.80s,cudnn%zu,v2,m%d%s,w%zu,k%d,n%d,c%d,%dx%d,o%d,%dx%d,g%d",
        engine->words, engine->libs.cudnnGetVersion_(), (int)engine->math,
        engine->deterministic ? "d" : "", engine->workspace, (int)kind, c->samples, c->channels,
        c->height, c->width, c->outputs, c->top_height, c->top_width, c->group);

    snprintf(key + used, KEY_BYTES - (size_t)used, ",f%dx%d,s%dx%d,p%dx%d,d%dx%d", c->kernel[0],
             c->kernel[1], c->stride[0], c->stride[1], c->pad[0], c->pad[1], c->dilation[0],
             c->dilation[1]);
    /* the device's number is not its kind, and words would end at a blank */
    char *number = strstr(key, ", device ");
    if (number) {
        char *rest = strchr(number + 1, ',');
        memmove(number, rest, strlen(rest) + 1);
    }
    for (char *at = key; *at; at++)
        *at = *at == ' ' ? '_' : *at;
}

int cuda_choice_find(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv)
{
    const struct cuda_choices *choices = engine->choices;
    char key[KEY_BYTES];

    choices_key(engine, kind, conv, key);
    for (size_t i = choices->count; i > 0; i--)
        if (!strcmp(choices->list[i - 1].key, key))
            return choices->list[i - 1].choice;
    return -1;
}

void cuda_choice_note(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, int choice)
{
    struct cuda_choices *choices = engine->choices;
    char key[KEY_BYTES], line[KEY_BYTES + 32];
    int file, length;

    choices_key(engine, kind, conv, key);
    choices_remember(choices, key, choice);
    if (!choices->path[0])
        return;
    length = snprintf(line, sizeof line, "%s %d\n", key, choice);
    file = open(choices->path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    if (file < 0)
        return;
    /* one write per line; a line that could not be written is measured again, no harm done */
    if (write(file, line, (size_t)length) != length)
        choices->path[0] = '\0';
    close(file);
}
