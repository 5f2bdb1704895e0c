/* MNIST's IDX files: a big-endian header (two zero bytes, the type 8 for bytes, the number of axes,
 * the sizes), then the bytes. Sizes are believed only as far as the file bears them out: memory
 * grows with what was read. */
#include "convert/imageset.h"

#include "convert/gzstream.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC_IMAGES 0x00000803u
#define MAGIC_LABELS 0x00000801u
#define GROW_BYTES   ((size_t)1 << 24)

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* The header's sizes, all at least 1. */
static int header_read(struct gzstream *s, uint32_t magic, int naxes, uint32_t *size)
{
    const char *kind = magic == MAGIC_IMAGES ? "images" : "labels";
    uint8_t header[16];
    uint32_t found;

    if (gzstream_read(s, header, 4, "the IDX magic number"))
        return -1;
    found = big_endian(header);
    if (found != magic)
        return error_set(
            "%s: magic number 0x%08x at offset 0%s; expected 0x%08x, an IDX file of %s", s->path,
            found,
            found == MAGIC_LABELS   ? ", a file of labels"
            : found == MAGIC_IMAGES ? ", a file of images"
                                    : "",
            magic, kind);
    if (gzstream_read(s, header, 4 * (size_t)naxes, "the IDX header"))
        return -1;
    for (int i = 0; i < naxes; i++) {
        size[i] = big_endian(header + 4 * i);
        if (size[i] == 0)
            return error_set("%s: size 0 at offset %d of the header; expected at least 1", s->path,
                             4 + 4 * i);
    }
    return 0;
}

/* `count` items of `size` bytes each; memory grows as the data comes. */
static int body_read(struct gzstream *s, size_t count, size_t size, const char *what, uint8_t **out)
{
    size_t total, used = 0, room = 0;
    char text[128];

    *out = NULL;
    if (count > SIZE_MAX / size)
        return error_set("%s: the header asks for %zu %s of %zu bytes, more than there can be",
                         s->path, count, what, size);
    total = count * size;
    while (used < total) {
        size_t got, more = room ? room : GROW_BYTES;
        uint8_t *grown;

        if (more > total - used)
            more = total - used;
        grown = realloc(*out, used + more);
        if (!grown)
            return error_memory(used + more, what);
        *out = grown;
        room = used + more;
        if (gzstream_read_some(s, *out + used, more, &got))
            return -1;
        used += got;
        if (got < more)
            return error_set(
                "%s: truncated at offset %llu, in item %zu of the %zu %s that its header "
                "says",
                s->path, (unsigned long long)s->offset, used / size, count, what);
    }
    snprintf(text, sizeof text, "the last of %zu %s", count, what);
    return gzstream_expect_end(s, text);
}

static int idx_images_read(const char *path, struct imageset *set)
{
    struct gzstream s;
    uint32_t size[3];
    int status;

    if (gzstream_open(&s, path))
        return -1;
    status = header_read(&s, MAGIC_IMAGES, 3, size);
    if (status == 0 && (size[1] > 65536 || size[2] > 65536))
        status = error_set("%s: images of %u x %u at offset 8; expected at most 65536 x 65536",
                           path, size[1], size[2]);
    if (status == 0) {
        set->dim[0] = 1;
        set->dim[1] = (int)size[1];
        set->dim[2] = (int)size[2];
        set->count = size[0];
        status = body_read(&s, size[0], (size_t)size[1] * size[2], "images", &set->data);
    }
    gzstream_close(&s);
    return status;
}

static int labels_read(const char *path, const char *images_path, struct imageset *set)
{
    struct gzstream s;
    uint32_t count = 0;
    int status;

    if (gzstream_open(&s, path))
        return -1;
    status = header_read(&s, MAGIC_LABELS, 1, &count);
    if (status == 0 && count != set->count)
        status = error_set("%s: %u labels at offset 4, but %s has %zu images", path, count,
                           images_path, set->count);
    if (status == 0)
        status = body_read(&s, count, 1, "labels", &set->label);
    for (size_t i = 0; status == 0 && i < set->count; i++)
        if (set->label[i] >= set->nclasses)
            status = error_set("%s: label %d in record %zu, at offset %zu; expected 0..%d", path,
                               set->label[i], i, 8 + i, set->nclasses - 1);
    gzstream_close(&s);
    return status;
}

/* FOLDER/SPLIT-images-idx3-ubyte in the spellings that are around. */
static int folder_find(const char *folder, enum imageset_split split, char *out, size_t size)
{
    static const char *const spellings[] = {"-images-idx3-ubyte", "-images-idx3-ubyte.gz",
                                            "-images.idx3-ubyte", "-images.idx3-ubyte.gz"};
    const char *prefix = split == IMAGESET_TEST ? "t10k" : "train";

    for (int i = 0; i < 4; i++) {
        snprintf(out, size, "%s/%s%s", folder, prefix, spellings[i]);
        if (access(out, F_OK) == 0)
            return 0;
    }
    return error_set("%s: no %s-images-idx3-ubyte[.gz]; expected MNIST's IDX files", folder,
                     prefix);
}

/* The labels file beside an images file: images -> labels, idx3 -> idx1, with or without .gz. */
static int labels_find(const char *images, char *out, size_t size)
{
    const char *slash = strrchr(images, '/'), *name = slash ? slash + 1 : images;
    const char *word = strstr(name, "images"), *idx3 = word ? strstr(word, "idx3") : NULL;
    size_t length;

    if (!idx3)
        return error_set(
            "%s: expected a name with \"images\" and \"idx3\", for the labels file beside "
            "it to be found",
            images);
    length = (size_t)snprintf(out, size, "%.*slabels%.*sidx1%s", (int)(word - images), images,
                              (int)(idx3 - word) - 6, word + 6, idx3 + 4);
    if (length + 4 > size)
        return error_set("%s: the name is too long", images);
    if (access(out, F_OK) == 0)
        return 0;
    if (length > 3 && strcmp(out + length - 3, ".gz") == 0)
        out[length - 3] = '\0';
    else
        strcpy(out + length, ".gz");
    if (access(out, F_OK) == 0)
        return 0;
    return error_set("%s: no labels file beside it; expected %s", images, out);
}

int imageset_read_mnist(const char *path, enum imageset_split split, int nclasses,
                        struct imageset *set)
{
    char images[4096], labels[4096];
    struct stat st;

    *set = (struct imageset){.nclasses = nclasses};
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        if (folder_find(path, split, images, sizeof images))
            return -1;
    } else if ((size_t)snprintf(images, sizeof images, "%s", path) >= sizeof images) {
        return error_set("%s: the name is too long", path);
    }
    if (idx_images_read(images, set) || labels_find(images, labels, sizeof labels) ||
        labels_read(labels, images, set)) {
        imageset_free(set);
        return -1;
    }
    set->capacity = set->count;
    return 0;
}
