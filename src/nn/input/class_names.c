/* Reads names of classes from files of images and from lists, and compares them. */
#include "input/class_names.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "spec/h5.h"
#include "util/path.h"
#include "util/strbuf.h"
#include "util/utf8.h"

int class_names_add(struct class_names *names, const char *text, size_t length)
{
    return alloc_listed(&names->name, &names->count, text, length, "names of classes");
}

int class_names_split(const char *text, struct class_names *out)
{
    int status = 0;

    for (const char *line = text; !status && line && *line;) {
        size_t length = strcspn(line, "\n");
        size_t shown = length > 0 && line[length - 1] == '\r' ? length - 1 : length;

        status = class_names_add(out, line, shown);
        line += length + (line[length] == '\n');
    }
    return status;
}

static int read_hdf5(const char *path, struct class_names *out)
{
    struct class_names read = {.count = 0};
    hid_t file;
    int status;

    h5_lock();
    status = h5_file_open(path, &file);
    if (!status) { /* ignores `classes` of another type, which another program wrote */
        (void)h5_attribute_read_texts(file, path, "classes", &read.name, &read.count);
        H5Fclose(file);
    }
    h5_unlock();
    for (int i = 0; i < read.count && !status; i++) /* a model's only text has a name a line */
        status = class_names_split(read.name[i], out);
    class_names_free(&read);
    return status;
}

static int read_lines(const char *path, struct class_names *out)
{
    struct strbuf text = {.data = NULL};
    const char *kind;
    int status = file_load(&text, path, SIZE_MAX);

    kind = text.length ? file_kind_of(text.data, text.length) : NULL;
    if (!status && (kind || memchr(strbuf_text(&text), '\0', text.length)))
        status = error_set("%s: expected a text with the name of a class on every line, or images "
                           "that poseidon convert wrote, found %s",
                           path, kind ? kind : "a binary file");
    while (!status && text.length && strchr("\r\n", text.data[text.length - 1]))
        text.data[--text.length] = '\0'; /* blank lines at the end name no class */
    if (!status)
        status = class_names_split(strbuf_text(&text) + utf8_mark(strbuf_text(&text)), out);
    strbuf_free(&text);
    return status;
}

/* Reads classes.txt in the folder; no names if there is no such file. */
static int read_beside(const char *folder, int length, struct class_names *out)
{
    struct strbuf list = {.data = NULL};
    int status;

    strbuf_printf(&list, "%.*s/classes.txt", length, folder);
    status = strbuf_status(&list);
    if (!status && access(list.data, F_OK) == 0)
        status = read_lines(list.data, out);
    strbuf_free(&list);
    return status;
}

int class_names_of_data(const char *path, struct class_names *out)
{
    int status = 0;

    *out = (struct class_names){.count = 0};
    if (path_is_folder(path))
        status = read_beside(path, (int)strlen(path), out);
    else if (path_ends(path, "/data.mdb"))
        status = read_beside(path, (int)(path_base(path) - path) - 1, out);
    else if (file_is_hdf5(path))
        status = read_hdf5(path, out);
    if (status)
        class_names_free(out);
    return status;
}

int class_names_read(const char *path, struct class_names *out)
{
    bool data = path_is_folder(path) || file_is_hdf5(path);

    *out = (struct class_names){.count = 0};
    if (data ? class_names_of_data(path, out) : read_lines(path, out)) {
        class_names_free(out);
        return -1;
    }
    return out->count
               ? 0
               : error_set(
                     "%s: holds no names of classes%s", path,
                     data ? "; poseidon convert writes them if it is given a folder for every class"
                          : ", one on every line");
}

/* Appends "(ant, bee, cat)"; of a long list, the names around number n. */
static void put_names(struct strbuf *out, const struct class_names *names, int n)
{
    enum { AROUND = 5 };
    int first = n > AROUND ? n - AROUND : 0;
    int end = n + AROUND < names->count ? n + AROUND : names->count;

    strbuf_puts(out, first ? "(..., " : "(");
    for (int i = first; i < end; i++)
        strbuf_printf(out, "%s%s", i > first ? ", " : "", names->name[i]);
    strbuf_puts(out, end < names->count ? ", ...)" : ")");
}

struct place {
    const char *name;
    int label;
    bool other; /* the name is from the second list */
};

static int by_name(const void *a, const void *b)
{
    const struct place *one = a, *two = b;
    int order = strcmp(one->name, two->name);

    return order ? order : one->other - two->other;
}

/* Lists names with labels and returns their number; 0 if folders are not all inside one folder. */
static int put_places(struct place *place, const struct class_names *names, bool other)
{
    const char *first = NULL;
    int n = 0;

    for (int label = 0; label < names->count; label++) {
        const char *path = names->name[label];
        const char *name = path && names->images ? path_base(path) : path;

        if (!name || !*name)
            continue;
        first = first ? first : path;
        place[n++] = (struct place){name, label, other};
        if (name - path != place->name - first || strncmp(path, first, (size_t)(name - path)))
            return 0;
    }
    return n;
}

/* Returns a name with two labels; places are sorted by name. NULL: no name has, or a list contains
 * a name twice. */
static const struct place *find_moved(const struct place *place, int n)
{
    const struct place *moved = NULL;

    for (int i = 1; i < n; i++)
        if (!strcmp(place[i - 1].name, place[i].name)) {
            if (place[i - 1].other == place[i].other)
                return NULL;
            if (place[i - 1].label != place[i].label && !moved)
                moved = &place[i];
        }
    return moved;
}

static int compare_folders(const char *path, const struct class_names *names,
                           const char *other_path, const struct class_names *others)
{
    const struct place *moved = NULL;
    struct place *place;
    int first, n, status = 0;

    if (ALLOC(place, names->count + others->count, "names of classes"))
        return -1;
    first = put_places(place, names, false);
    n = first + put_places(place + first, others, true);
    qsort(place, (size_t)n, sizeof *place, by_name);
    /* A list of one label proves nothing, nor do two lists with one image in each folder. */
    if (first > 1 && n - first > 1 &&
        (!names->images || !others->images || names->images + others->images > (uint64_t)n))
        moved = find_moved(place, n);
    if (moved)
        status = error_set("'%s', a folder of images, has label %d in %s and label %d in %s: a "
                           "label would mean two classes; give the folder one label everywhere",
                           moved->name, moved[-1].label, path, moved->label, other_path);
    free(place);
    return status;
}

int class_names_compare(const char *path, const struct class_names *names, const char *other_path,
                        const struct class_names *others)
{
    struct strbuf text = {.data = NULL};
    int n = 0;

    if (names->images || others->images)
        return compare_folders(path, names, other_path, others);
    while (n < names->count && n < others->count && !strcmp(names->name[n], others->name[n]))
        n++;
    if (n == names->count || n == others->count)
        return 0;
    strbuf_printf(&text, "class %d is '%s' in %s ", n, names->name[n], path);
    put_names(&text, names, n);
    strbuf_printf(&text, " and '%s' in %s ", others->name[n], other_path);
    put_names(&text, others, n);
    if (!strbuf_status(&text))
        error_set("%s: a label would mean two classes; 'poseidon convert images' with "
                  "--classes=FILE gives one set the classes of another",
                  text.data);
    strbuf_free(&text);
    return -1;
}

void class_names_free(struct class_names *names)
{
    for (int i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct class_names){.count = 0};
}
