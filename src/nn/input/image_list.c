/* A source of image files from a list, with labels or pictures of labels, decoded one by one. */
#include "input/source_internal.h"

#include "input/list.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_FILE_BYTES ((size_t)1 << 30)

struct images {
    struct source source;
    struct list list;
    struct image_list_options o;
    char *root; /* owned */
};

static void set_labels(const struct images *self, uint64_t number, struct record *out)
{
    const struct list *list = &self->list;

    out->labels = list->nvalues > 0 ? list->value + number * (uint64_t)list->nvalues : NULL;
    out->label = out->labels         ? *out->labels
                 : list->nvalues < 0 ? (float)self->o.ignore
                                     : (float)list->label[number];
}

/* Loads and decodes the file `name` of image `number`. Damage sets out->damaged. */
static int file_read(const struct images *self, uint64_t number, const char *name,
                     enum image_color color, struct record *out)
{
    bool labels = color == IMAGE_INDICES;
    struct strbuf *file = labels ? &out->label_file : &out->file;
    struct image *image = labels ? &out->label_decoded : &out->decoded;
    unsigned long long n = number;
    char path[4096];
    int status;

    if ((size_t)snprintf(path, sizeof path, "%s%s", self->root, name) >= sizeof path)
        return error_set("%s: the name of image %llu is too long", self->source.path, n);
    if (file_load(file, path, MAX_FILE_BYTES)) {
        out->damaged = access(path, F_OK) != 0 && errno == ENOENT;
        return error_context("%s, image %llu", self->source.path, n);
    }
    status = image_decode(file->bytes, file->length, color, image);
    if (!status && !labels)
        status = record_set_image(out, image, self->o.height, self->o.width);
    else if (!status)
        status = record_check_labels(out, list_path(&self->list, number));
    out->damaged = status != 0;
    return status ? error_context("%s, image %llu: %s", self->source.path, n, path) : 0;
}

static int images_read(struct source *source, uint64_t number, struct record *out)
{
    struct images *self = (struct images *)source;
    const char *picture = list_picture(&self->list, number);

    out->damaged = false;
    set_labels(self, number, out);
    if (file_read(self, number, list_path(&self->list, number), self->o.color, out) ||
        (picture && file_read(self, number, picture, IMAGE_INDICES, out)))
        return -1;
    out->label_image = picture ? &out->label_decoded : NULL;
    return 0;
}

static int images_read_label(struct source *source, uint64_t number, float *label)
{
    struct record record;

    set_labels((struct images *)source, number, &record);
    *label = record.label;
    return 0;
}

static void images_close(struct source *source)
{
    struct images *self = (struct images *)source;

    source_release(source);
    list_free(&self->list);
    free(self->root);
    free(self);
}

static const struct source_i images_i = {
    .name = "images",
    .close = images_close,
    .read_record = images_read,
    .read_label = images_read_label,
};

/* Returns true, with a message, if the first image exists with a slash after the root. */
static bool lacks_slash(const char *root, const char *base_file, const char *first)
{
    struct strbuf name = {.data = NULL};
    char *path = NULL;
    bool there = false;

    strbuf_printf(&name, "%s/%s", root, first);
    if (*root && !strbuf_status(&name))
        path = path_find(name.data, base_file, &there);
    if (path && there)
        error_set("root_folder '%s' needs a slash at its end: there is no %s%s, but there is %s",
                  root, root, first, path);
    free(path);
    strbuf_free(&name);
    return path && there;
}

/* Returns the root as given, or beside base_file if the first image exists only there. */
static char *root_find(const char *root, const char *base_file, const char *first)
{
    struct strbuf name = {.data = NULL};
    char *path, *found = NULL;
    bool there = false;

    strbuf_printf(&name, "%s%s", root, first);
    path = strbuf_status(&name) ? NULL : path_find(name.data, base_file, &there);
    /* strip the first image's name to get the root */
    if (path && (there || !lacks_slash(root, base_file, first)))
        found = path_beside(root, strcmp(path, name.data) ? base_file : NULL);
    free(path);
    strbuf_free(&name);
    return found;
}

/* Reads the names of classes from the folders of images: none if some label has two folders. */
static int folders_read(const struct list *list, struct class_names *out)
{
    enum { MOST_CLASSES = 1 << 20 };
    bool fits = !list->nvalues;

    for (uint64_t n = 0; n < list->count && fits; n++) {
        const char *path = list_path(list, n);
        size_t length = (size_t)(path_base(path) - path); /* including the last slash */
        int32_t label = list->label[n];

        fits = length > 0 && label >= 0 && label < MOST_CLASSES;
        for (; fits && out->count <= label; out->name[out->count++] = NULL)
            if (ALLOC_ROOM(out->name, out->count, "names of classes"))
                return -1;
        if (fits && !out->name[label] &&
            alloc_bytes(&out->name[label], path, length - 1, "a folder's name"))
            return -1;
        fits =
            fits && !strncmp(out->name[label], path, length - 1) && !out->name[label][length - 1];
    }
    out->images = list->count;
    if (!fits)
        class_names_free(out);
    return 0;
}

int source_open_image_list(const char *list, const struct image_list_options *o,
                           struct source **out)
{
    static const int forms[] = {
        [IMAGE_LABELS_PICTURE] = LIST_PAIRS, [IMAGE_LABELS_NONE] = LIST_PATHS};
    struct images *self = source_create(sizeof *self, &images_i, list);
    struct source_field *field = self ? self->source.field : NULL;
    int status;

    *out = NULL;
    if (!self)
        return -1;
    self->o = *o;
    if (o->nlabels)
        field[1].shape = (struct shape){.naxes = 1, .dim = {o->nlabels}};
    status = list_read_file(&self->list, list, o->nlabels ? o->nlabels : forms[o->labels]);
    if (status == 0) {
        self->source.nrecords = self->list.count;
        self->root = root_find(o->root, o->base_file, list_path(&self->list, 0));
        status = error_status(!self->root || folders_read(&self->list, &self->source.folders));
    }
    if (source_open_records(&self->source, status, true, out))
        return -1;
    if (!o->labels)
        return 0;
    self->source.remark = NULL; /* it is about labels in an image */
    field[1].shape = field[0].shape;
    field[1].shape.dim[0] = 1;
    field[2].shape = (struct shape){.naxes = 3, .dim = {1, 1, 2}};
    field[2].type = SOURCE_F32;
    if (!source_add_field(&self->source, "size"))
        return 0;
    source_close(*out);
    *out = NULL;
    return -1;
}
