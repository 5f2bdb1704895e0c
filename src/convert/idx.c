/* MNIST's IDX files: a big-endian header (two zero bytes, the type 8 for bytes, the number of axes,
 * the sizes), then the bytes. Sizes are believed only as far as the file bears them out. */
#include "convert/imageset.h"

#include "convert/gzfile.h"
#include "util/error.h"
#include "util/path.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC_IMAGES 0x00000803u
#define MAGIC_LABELS 0x00000801u

static uint32_t big_endian(const uint8_t *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

static int truncated(const char *path, const struct strbuf *file, const char *where)
{
    return error_set("%s: truncated at offset %zu, in %s", path, file->length, where);
}

/* The header's sizes, all at least 1, and behind it exactly the items that it says. */
static int check(const char *path, const struct strbuf *file, uint32_t magic, uint32_t *size)
{
    const char *kind = magic == MAGIC_IMAGES ? "images" : "labels";
    size_t naxes = magic & 0xff, header = 4 + 4 * naxes, item = 1, held;
    uint32_t found;
    char where[128];

    if (file->length < 4)
        return truncated(path, file, "the IDX magic number");
    found = big_endian(file->bytes);
    if (found != magic)
        return error_set(
            "%s: magic number 0x%08x at offset 0%s; expected 0x%08x, an IDX file of %s", path,
            found,
            found == MAGIC_LABELS   ? ", a file of labels"
            : found == MAGIC_IMAGES ? ", a file of images"
                                    : "",
            magic, kind);
    if (file->length < header)
        return truncated(path, file, "the IDX header");
    for (size_t i = 0; i < naxes; i++) {
        size[i] = big_endian(file->bytes + 4 + 4 * i);
        if (size[i] == 0)
            return error_set("%s: size 0 at offset %zu of the header; expected at least 1", path,
                             4 + 4 * i);
        if (i > 0 && size[i] > 65536)
            return error_set("%s: images of %u x %u at offset 8; expected at most 65536 x 65536",
                             path, big_endian(file->bytes + 8), big_endian(file->bytes + 12));
        item *= i > 0 ? size[i] : 1;
    }
    held = (file->length - header) / item;
    if (held < size[0]) {
        snprintf(where, sizeof where, "item %zu of the %u %s in its header", held, size[0], kind);
        return truncated(path, file, where);
    }
    if (file->length > header + size[0] * item)
        return error_set("%s: extra bytes after the last of %u %s, from offset %zu on", path,
                         size[0], kind, header + size[0] * item);
    return 0;
}

static int idx_images_read(const char *path, struct imageset *set)
{
    struct strbuf file = {0};
    uint32_t size[3];
    int status = error_status(gzfile_read(path, &file) || check(path, &file, MAGIC_IMAGES, size));

    if (!status) {
        set->dim[0] = 1;
        set->dim[1] = (int)size[1];
        set->dim[2] = (int)size[2];
        status = imageset_reserve(set, size[0]);
    }
    if (!status) {
        set->count = size[0];
        memcpy(set->data, file.bytes + 16, file.length - 16);
    }
    strbuf_free(&file);
    return status;
}

static int labels_read(const char *path, const char *images_path, struct imageset *set)
{
    struct strbuf file = {0};
    uint32_t count;
    int status = error_status(gzfile_read(path, &file) || check(path, &file, MAGIC_LABELS, &count));

    if (!status && count != set->count)
        status = error_set("%s: %u labels at offset 4, but %s has %zu images", path, count,
                           images_path, set->count);
    for (size_t i = 0; !status && i < set->count; i++) {
        set->label[i] = file.bytes[8 + i];
        if (set->label[i] >= set->nclasses)
            status = error_set("%s: label %d in record %zu, at offset %zu; expected 0..%d", path,
                               set->label[i], i, 8 + i, set->nclasses - 1);
    }
    strbuf_free(&file);
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
    const char *word = strstr(path_base(images), "images"),
               *idx3 = word ? strstr(word, "idx3") : NULL;
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
    if (path_ends(out, ".gz"))
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

    *set = (struct imageset){.nclasses = nclasses};
    if (path_is_folder(path)) {
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
    return 0;
}
