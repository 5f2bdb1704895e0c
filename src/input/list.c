/* Lists of image files: from a text file, whose lines are cut in place, or from folders. */
#include "input/list.h"

#include "util/alloc.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/utf8.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MAX_LIST_BYTES ((size_t)1 << 34)

static int list_add(struct list *list, uint64_t start, int32_t label)
{
    if (ALLOC_ROOM(list->start, list->count, "a list of images") ||
        ALLOC_ROOM(list->label, list->count, "a list of images"))
        return -1;
    list->start[list->count] = start;
    list->label[list->count++] = label;
    return 0;
}

/* Whether numbers follow the name of an image. */
static bool has_labels(const char *path)
{
    for (const char *blank = path; (blank = strchr(blank, ' ')) != NULL; blank++) {
        const char *end = blank;

        for (; end > path && *end != '.'; end--)
            ;
        if ((!strncasecmp(end, ".jpg ", 5) || !strncasecmp(end, ".jpeg ", 6) ||
             !strncasecmp(end, ".png ", 5)) &&
            strspn(blank, " 0123456789.-") == strlen(blank))
            return true;
    }
    return false;
}

/* One line without its end: PATH blank LABEL. The path is NUL-terminated in place. */
static int line_parse(struct list *list, const char *path, long number, char *line)
{
    char *end = line + strlen(line), *blank, *cut, *rest;
    long label;

    while (end > line && isspace((unsigned char)end[-1]))
        *--end = '\0';
    if (end == line)
        return 0;
    blank = end;
    while (blank > line && !isspace((unsigned char)*blank))
        blank--;
    cut = blank;
    while (cut > line && isspace((unsigned char)cut[-1]))
        cut--;
    if (!isspace((unsigned char)*blank) || cut == line)
        return error_set("%s:%ld: '%.200s' has no label; expected \"PATH LABEL\"", path, number,
                         line);
    errno = 0;
    label = strtol(blank + 1, &rest, 10);
    if (*rest)
        return error_set("%s:%ld: the label '%.200s' is no integer; expected \"PATH LABEL\"", path,
                         number, blank + 1);
    if (errno || label < INT32_MIN || label > INT32_MAX)
        return error_set("%s:%ld: the label %.200s does not fit into 32 bits, which labels have",
                         path, number, blank + 1);
    *cut = '\0';
    if (has_labels(line))
        return error_set(
            "%s:%ld: '%.200s %ld' has several labels; expected \"PATH LABEL\" (HDF5Data "
            "reads any number of labels, from HDF5 files)",
            path, number, line, label);
    return list_add(list, (uint64_t)(line - list->text.data), (int32_t)label);
}

int list_read_file(struct list *list, const char *path)
{
    char *line, *rest;
    long number = 1;

    *list = (struct list){.count = 0};
    if (file_load(&list->text, path, MAX_LIST_BYTES))
        goto fail;
    if (memchr(list->text.data, '\0', list->text.length)) {
        error_set(
            "%s: not a text file (it has zero bytes); expected a line \"PATH LABEL\" for every "
            "image",
            path);
        goto fail;
    }
    if (strbuf_add(&list->text, "", 1, "a list of images"))
        goto fail;
    rest = list->text.data + utf8_mark(list->text.data);
    for (; (line = strsep(&rest, "\n")) != NULL; number++)
        if (line_parse(list, path, number, line))
            goto fail;
    if (list->count == 0) {
        error_set("%s: lists no images; expected a line \"PATH LABEL\" for every image", path);
        goto fail;
    }
    return 0;

fail:
    list_free(list);
    return file_kind_error(path, "a list of images");
}

/* What is in a folder and not hidden, folders or all others, sorted. */
static int names_read(struct class_names *names, const char *folder, bool folders)
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, NULL, alphasort), status = 0;

    *names = (struct class_names){.count = 0};
    if (count < 0)
        return error_set("%s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char path[4096 + 300];
        struct stat st;

        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (!status && name[0] != '.' && stat(path, &st) == 0 && S_ISDIR(st.st_mode) == folders)
            status = class_names_add(names, name, strlen(name));
        free(entries[i]);
    }
    free(entries);
    if (status)
        class_names_free(names);
    return status;
}

enum { DEEPEST = 32 }; /* a folder that holds a link to one above it ends there */

/* The files of a class's folder, then those of the folders in it. */
static int class_read(struct list *list, const char *folder, const char *name, int label, int depth)
{
    char path[4096], inner[4096];
    struct class_names files, folders = {.count = 0};
    int status = 0;

    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path)
        return error_set("%s/%s: the name is too long", folder, name);
    if (depth > DEEPEST)
        return error_set("%s: folders nested more than %d deep", path, DEEPEST);
    if (names_read(&files, path, false))
        return -1;
    for (int i = 0; i < files.count && status == 0; i++) {
        uint64_t start = list->text.length;

        strbuf_printf(&list->text, "%s/%s%c", name, files.name[i], '\0');
        if (strbuf_status(&list->text) || list_add(list, start, label))
            status = -1;
    }
    class_names_free(&files);
    if (!status)
        status = names_read(&folders, path, true);
    for (int i = 0; i < folders.count && status == 0; i++)
        status =
            (size_t)snprintf(inner, sizeof inner, "%s/%s", name, folders.name[i]) >= sizeof inner
                ? error_set("%s/%s: the name is too long", path, folders.name[i])
                : class_read(list, folder, inner, label, depth + 1);
    class_names_free(&folders);
    return status;
}

int list_read_folder(struct list *list, const char *path)
{
    struct class_names *classes = &list->classes;

    *list = (struct list){.count = 0};
    if (names_read(classes, path, true))
        return -1;
    if (classes->count == 0) {
        error_set("%s: no folders in it; expected one for every class, with its images inside (or "
                  "a list of images instead of the folder)",
                  path);
        goto fail;
    }
    if (classes->count == 1) {
        error_set("%s: only one folder in it, '%s', so there is only one class; expected one for "
                  "every class (or a list of images instead of the folder)",
                  path, classes->name[0]);
        goto fail;
    }
    for (int k = 0; k < classes->count; k++)
        if (class_read(list, path, classes->name[k], k, 0))
            goto fail;
    if (list->count == 0) {
        error_set("%s: the %d folders in it hold no files; expected images", path, classes->count);
        goto fail;
    }
    return 0;

fail:
    list_free(list);
    return -1;
}

const char *list_path(const struct list *list, uint64_t n)
{
    return list->text.data + list->start[n];
}

void list_free(struct list *list)
{
    class_names_free(&list->classes);
    free(list->start);
    free(list->label);
    strbuf_free(&list->text);
    *list = (struct list){.count = 0};
}
