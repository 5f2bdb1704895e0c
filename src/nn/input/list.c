/* Lists of image files, from a text file, whose lines are split in place, or from folders. */
#include "input/list.h"

#include "util/alloc.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/path.h"
#include "util/units.h"
#include "util/utf8.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define MAX_LIST_BYTES ((size_t)1 << 34)

static int add(struct list *list, uint64_t start, int32_t label)
{
    if (ALLOC_ROOM(list->start, list->count, "a list of images") ||
        ALLOC_ROOM(list->label, list->count, "a list of images"))
        return -1;
    list->start[list->count] = start;
    list->label[list->count++] = label;
    return 0;
}

#define BLANKS " \t\v\f\r"

/* Returns the end of the text before `end` without its trailing blanks. */
static char *trim(char *begin, char *end)
{
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    return end;
}

/* Returns the beginning of the word before `at`; NULL if that is the first word after `begin`. */
static char *word_before(char *begin, char *at)
{
    at = trim(begin, at);
    while (at > begin && !isspace((unsigned char)at[-1]))
        at--;
    return at > begin ? at : NULL;
}

static int word_length(const char *word)
{
    return (int)strcspn(word, BLANKS);
}

static bool is_number(const char *word)
{
    char *end;

    (void)strtod(word, &end);
    return end == word + word_length(word);
}

static bool is_image_name(const char *begin, const char *end)
{
    static const char *const endings[] = {".jpg", ".jpeg", ".png", ".webp"};

    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);

        if ((size_t)(end - begin) > n && !strncasecmp(end - n, endings[i], n))
            return true;
    }
    return false;
}

/* Counts surplus words before `labels`: words behind a quoted name, or numbers behind an image's
 * extension. */
static int words_too_many(char *begin, bool quoted, char *labels)
{
    char *word;
    int n = 0;

    for (; (word = word_before(begin, labels)) && (quoted || is_number(word)); labels = word)
        n++;
    return quoted || is_image_name(begin, trim(begin, labels)) ? n : 0;
}

static int refuse_count(const struct list *list, const char *line, int found)
{
    if (list->nvalues)
        return error_set("'%.60s%s' has %s; expected %d, as label_size says", line,
                         strlen(line) > 60 ? "..." : "", units_count(found, "label").text,
                         list->nvalues);
    if (found == 0)
        return error_set("'%.200s' has no label; expected \"PATH LABEL\"", line);
    return error_set(
        "'%.200s' has %d labels; expected \"PATH LABEL\" (ImageData reads several with "
        "label_size: %d, HDF5Data from HDF5 files)",
        line, found, found);
}

static int label_read(const char *text, int32_t *label)
{
    char *rest;
    long value;

    errno = 0;
    value = strtol(text, &rest, 10);
    if (*rest)
        return error_set("the label '%.200s' is not an integer; expected \"PATH LABEL\"%s", text,
                         is_number(text) ? " (ImageData reads reals with label_size: 1)" : "");
    if (errno || value < INT32_MIN || value > INT32_MAX)
        return error_set("the label %.200s does not fit into 32 bits", text);
    *label = (int32_t)value;
    return 0;
}

static int values_read(struct list *list, const char *text)
{
    size_t each = (size_t)list->nvalues;

    if (alloc_grow(&list->value, list->count, each * sizeof(float), "labels of images"))
        return -1;
    for (size_t i = 0; i < each; i++, text += word_length(text)) {
        float *value = &list->value[list->count * each + i];

        text += strspn(text, BLANKS);
        *value = strtof(text, NULL);
        if (!isfinite(*value))
            return error_set("the label %.*s is not a finite number", word_length(text), text);
    }
    return 0;
}

/* Parses a line without its newline: PATH blank LABEL, or list->nvalues labels. PATH may be in
 * double quotes; line_parse ends PATH with a NUL in place. */
static int line_parse(struct list *list, char *line)
{
    char *end = line + strlen(line), *quote = line[0] == '"' ? strchr(line + 1, '"') : NULL;
    bool quoted = quote && quote > line + 1 && isspace((unsigned char)quote[1]);
    char *begin = quoted ? quote + 1 : line, *labels, *word;
    int wanted = list->nvalues ? list->nvalues : 1, found = 0;
    int32_t label = 0;

    end = trim(line, end);
    *end = '\0';
    if (end == line)
        return 0;
    for (labels = end; found < wanted && (word = word_before(begin, labels)) &&
                       (!list->nvalues || is_number(word));
         labels = word)
        found++;
    end = trim(line, labels);
    if (end == line)
        found = 0;
    else if (found == wanted)
        found += words_too_many(begin, quoted, labels);
    if (found != wanted)
        return refuse_count(list, line, found);
    if (list->nvalues ? values_read(list, labels) : label_read(labels, &label))
        return -1;
    *(quoted ? quote : end) = '\0';
    return add(list, (uint64_t)(line - list->text.data) + quoted, label);
}

/* Ends the next path of a line with a NUL and moves *rest behind it. Returns NULL at the end. */
static char *path_take(char **rest)
{
    char *path = *rest + strspn(*rest, BLANKS), *end = path + word_length(path);
    char *quote = *path == '"' ? strchr(path + 1, '"') : NULL;

    if (!*path)
        return NULL;
    if (quote > path + 1) {
        path++;
        end = quote;
    }
    *rest = *end ? end + 1 : end;
    *end = '\0';
    return path;
}

/* Parses a line of paths: LIST_PAIRS or LIST_PATHS. */
static int paths_parse(struct list *list, char *line)
{
    char *rest = line, *path = path_take(&rest), *picture, *more;

    if (!path)
        return 0;
    if (list->nvalues == LIST_PAIRS) {
        picture = path_take(&rest);
        more = path_take(&rest);
        if (!picture || more)
            return error_set("'%.200s' %s%.200s%s; expected \"IMAGE LABELS\", the paths of two "
                             "pictures, in double quotes if they have blanks",
                             path, more ? "has a third path, '" : "has no picture of labels",
                             more ? more : "", more ? "'" : "");
        if (is_number(picture))
            return error_set("'%.200s' has the label %.200s; expected the path of a picture of "
                             "labels (ImageData reads labels)",
                             path, picture);
        if (ALLOC_ROOM(list->picture, list->count, "a list of images"))
            return -1;
        list->picture[list->count] = (uint64_t)(picture - list->text.data);
    }
    return add(list, (uint64_t)(path - list->text.data), 0);
}

int list_read_file(struct list *list, const char *path, int nvalues)
{
    const char *form = nvalues == LIST_PAIRS   ? "IMAGE LABELS"
                       : nvalues == LIST_PATHS ? "IMAGE"
                                               : "PATH LABEL";
    char *line, *rest;
    long number = 1;

    *list = (struct list){.nvalues = nvalues};
    if (file_load(&list->text, path, MAX_LIST_BYTES))
        goto fail;
    if (memchr(list->text.data, '\0', list->text.length)) {
        error_set("%s: not a text file (it has zero bytes); expected a line \"%s\" for every image",
                  path, form);
        goto fail;
    }
    if (strbuf_add(&list->text, "", 1, "a list of images"))
        goto fail;
    rest = list->text.data + utf8_mark(list->text.data);
    for (; (line = strsep(&rest, "\n")) != NULL; number++)
        if (nvalues < 0 ? paths_parse(list, line) : line_parse(list, line)) {
            error_context("%s:%ld", path, number);
            goto fail;
        }
    if (list->count == 0) {
        error_set("%s: lists no images; expected a line \"%s\" for every image", path, form);
        goto fail;
    }
    return 0;

fail:
    list_free(list);
    return file_kind_error(path, "a list of images");
}

/* Returns true for a file browser's own files: hidden files and two names of Windows. */
static bool is_passed_over(const char *name)
{
    return name[0] == '.' || !strcasecmp(name, "Thumbs.db") || !strcasecmp(name, "desktop.ini");
}

/* Lists a folder's folders, or its other files, sorted, without those to be passed over, which
 * *passed_over counts. */
static int names_read(struct class_names *names, const char *folder, bool folders,
                      uint64_t *passed_over)
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
        if (!status && !stat(path, &st) && S_ISDIR(st.st_mode) == folders) {
            if (is_passed_over(name))
                *passed_over += !folders;
            else
                status = class_names_add(names, name, strlen(name));
        }
        free(entries[i]);
    }
    free(entries);
    if (status)
        class_names_free(names);
    return status;
}

enum { DEEPEST = 32 }; /* limit of nested folders; ends a cycle of links */

/* Adds the files of the folder root + name, then its subfolders'; listed names omit the root. */
static int files_read(struct list *list, const char *root, const char *name, int label, int depth)
{
    char path[4096], inner[4096];
    struct class_names files, folders = {.count = 0};
    int status = 0;

    if ((size_t)snprintf(path, sizeof path, "%s%s", root, name) >= sizeof path)
        return error_set("%s%s: the name is too long", root, name);
    if (depth > DEEPEST)
        return error_set("%s: folders nested more than %d deep", path, DEEPEST);
    if (names_read(&files, path, false, &list->passed_over))
        return -1;
    for (int i = 0; i < files.count && status == 0; i++) {
        uint64_t start = list->text.length;

        strbuf_printf(&list->text, "%s/%s%c", name, files.name[i], '\0');
        status = error_status(strbuf_status(&list->text) || add(list, start, label));
    }
    class_names_free(&files);
    if (!status)
        status = names_read(&folders, path, true, &list->passed_over);
    for (int i = 0; i < folders.count && status == 0; i++)
        status =
            (size_t)snprintf(inner, sizeof inner, "%s/%s", name, folders.name[i]) >= sizeof inner
                ? error_set("%s/%s: the name is too long", path, folders.name[i])
                : files_read(list, root, inner, label, depth + 1);
    class_names_free(&folders);
    return status;
}

int list_add(struct list *list, const char *path, bool inside)
{
    uint64_t count = list->count, start = list->text.length;
    char name[4096];
    size_t length = strlen(path);

    if (!path_is_folder(path)) {
        strbuf_printf(&list->text, "%s%c", path, '\0');
        return error_status(strbuf_status(&list->text) || add(list, start, 0));
    }
    while (length > 1 && path[length - 1] == '/')
        length--;
    if ((size_t)snprintf(name, sizeof name, "%.*s", (int)length, path) >= sizeof name)
        return error_set("%s: the name is too long", path);
    if (files_read(list, "", name, 0, 0))
        return -1;
    for (uint64_t n = count; inside && n < list->count; n++)
        list->start[n] += length + 1;
    return list->count > count ? 0 : error_set("%s: no files in it; expected images", path);
}

/* Fails unless each folder is exactly one of the classes that the file names. */
static int check_folders(const char *path, const struct class_names *folders,
                         const struct class_names *classes, const char *file)
{
    for (int i = 0; i < folders->count; i++) {
        int found = 0;

        for (int k = 0; k < classes->count; k++)
            found += !strcmp(folders->name[i], classes->name[k]);
        if (found != 1)
            return error_set("%s/%s: expected a folder with the name of a class; %s has %s of this "
                             "name: rename or remove the folder",
                             path, folders->name[i], file, found ? "several" : "none");
    }
    return 0;
}

static int check_count(const char *path, const struct class_names *folders)
{
    if (folders->count == 0)
        return error_set("%s: holds no folders; expected a folder of images for every class (or a "
                         "list of images instead)",
                         path);
    if (folders->count == 1)
        return error_set("%s: holds only one folder, '%s', and so one class; expected a folder for "
                         "every class (or a list of images instead)",
                         path, folders->name[0]);
    return 0;
}

int list_read_folder(struct list *list, const char *path, const char *classes)
{
    struct class_names folders = {.count = 0};
    char root[4096], folder[2 * 4096];
    int status;

    *list = (struct list){.count = 0};
    if ((size_t)snprintf(root, sizeof root, "%s/", path) >= sizeof root)
        return error_set("%s: the name is too long", path);
    if (classes)
        status = error_status(class_names_read(classes, &list->classes) ||
                              names_read(&folders, path, true, &list->passed_over) ||
                              check_folders(path, &folders, &list->classes, classes));
    else
        status = error_status(names_read(&list->classes, path, true, &list->passed_over) ||
                              check_count(path, &list->classes));
    for (int k = 0; k < list->classes.count && !status; k++) {
        const char *name = list->classes.name[k];

        snprintf(folder, sizeof folder, "%s%s", root, name);
        if (!classes || path_is_folder(folder))
            status = files_read(list, root, name, k, 0);
    }
    if (!status && list->count == 0)
        status = error_set("%s: the %d folders in it hold no files; expected images", path,
                           classes ? folders.count : list->classes.count);
    class_names_free(&folders);
    if (status)
        list_free(list);
    return status;
}

const char *list_path(const struct list *list, uint64_t n)
{
    return list->text.data + list->start[n];
}

const char *list_picture(const struct list *list, uint64_t n)
{
    return list->picture ? list->text.data + list->picture[n] : NULL;
}

void list_free(struct list *list)
{
    class_names_free(&list->classes);
    free(list->picture);
    free(list->start);
    free(list->label);
    free(list->value);
    strbuf_free(&list->text);
    *list = (struct list){.count = 0};
}
