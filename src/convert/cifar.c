/* CIFAR-10, binary version: records of a label byte and 3072 pixel bytes (3 planes of 32x32). The
 * published files have 10,000 records each, and anything else under their names is damage; single
 * .bin files may have any number of whole records. */
#include "convert/imageset.h"

#include "convert/gzstream.h"
#include "util/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIXELS        3072
#define RECORD        (1 + PIXELS)
#define BATCH         10000
#define TRAIN_BATCHES 5
#define CLASSES       10
#define CLASS_FILE    "batches.meta.txt"
#define CLASS_MAX     4096 /* bytes of that file */

static void set_begin(struct imageset *set)
{
    *set = (struct imageset){.dim = {3, 32, 32}, .nclasses = CLASSES};
}

static int record_store(struct imageset *set, size_t at, const uint8_t record[RECORD],
                        const char *path, size_t number, uint64_t offset)
{
    if (record[0] >= CLASSES)
        return error_set("%s: label %d in record %zu, at offset %llu; CIFAR-10 has labels 0..%d",
                         path, record[0], number, (unsigned long long)offset, CLASSES - 1);
    set->label[at] = record[0];
    memcpy(set->data + at * PIXELS, record + 1, PIXELS);
    return 0;
}

/* One published batch file from the stream into records first .. first + BATCH. */
static int batch_read(struct gzstream *s, const char *name, struct imageset *set, size_t first)
{
    uint8_t record[RECORD];

    if (imageset_reserve(set, first + BATCH))
        return -1;
    for (size_t i = 0; i < BATCH; i++) {
        uint64_t offset = s->offset;
        char what[512];

        snprintf(what, sizeof what, "record %zu of %d (%s)", i, BATCH, name);
        if (gzstream_read(s, record, RECORD, what) ||
            record_store(set, first + i, record, s->path, i, offset))
            return -1;
    }
    return 0;
}

/* Class names, one per line; the file is optional, but not half of it. */
static int classes_parse(struct imageset *set, const char *path, char *text)
{
    char *line, *rest = text;
    int n = 0;

    while ((line = strsep(&rest, "\n"))) {
        line[strcspn(line, "\r")] = '\0';
        if (!*line)
            continue;
        if (n < CLASSES) {
            free(set->class_name[n]);
            set->class_name[n] = strdup(line);
            if (!set->class_name[n])
                return error_memory(strlen(line), "a class name");
        }
        n++;
    }
    if (n != CLASSES)
        return error_set("%s: %d class names; expected %d, one per line", path, n, CLASSES);
    return 0;
}

static int classes_read(const char *folder, struct imageset *set)
{
    char path[4096], text[CLASS_MAX + 1];
    struct gzstream s;
    size_t size;
    int status;

    snprintf(path, sizeof path, "%s/" CLASS_FILE, folder);
    if (access(path, F_OK) != 0)
        return 0;
    if (gzstream_open(&s, path))
        return -1;
    status = gzstream_read_some(&s, text, sizeof text, &size);
    gzstream_close(&s);
    if (status)
        return -1;
    if (size > CLASS_MAX)
        return error_set("%s: more than %d bytes; expected %d lines", path, CLASS_MAX, CLASSES);
    text[size] = '\0';
    return classes_parse(set, path, text);
}

static int batches_of(enum imageset_split split)
{
    return split == IMAGESET_TEST ? 1 : TRAIN_BATCHES;
}

static const char *batch_name(enum imageset_split split, int b, char buffer[32])
{
    snprintf(buffer, 32, split == IMAGESET_TEST ? "test_batch.bin" : "data_batch_%d.bin", b + 1);
    return buffer;
}

static int folder_missing(const char *folder, const char *name)
{
    static const char *const suffixes[] = {".xz", ".gz", ".bz2"};
    char path[4096], bare[64];

    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s%s", folder, name, suffixes[i]);
        if (access(path, F_OK) == 0)
            return error_set("%s is compressed; unpack it to %s first", path, name);
    }
    snprintf(bare, sizeof bare, "%s", name);
    bare[strlen(bare) - strlen(".bin")] = '\0';
    snprintf(path, sizeof path, "%s/%s", folder, bare);
    if (access(path, F_OK) == 0)
        return error_set("%s: no %s; %s belongs to the Python version of CIFAR-10, and the binary "
                         "version is needed",
                         folder, name, bare);
    return error_set("%s: no %s; expected the files of CIFAR-10's binary version", folder, name);
}

static int folder_read(const char *folder, enum imageset_split split, struct imageset *set)
{
    for (int b = 0; b < batches_of(split); b++) {
        char path[4096], name[32];
        struct gzstream s;
        int status;

        batch_name(split, b, name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (access(path, F_OK) != 0)
            return folder_missing(folder, name);
        if (gzstream_open(&s, path))
            return -1;
        status = batch_read(&s, name, set, (size_t)b * BATCH);
        if (status == 0)
            status = gzstream_expect_end(&s, "record 10000");
        gzstream_close(&s);
        if (status)
            return -1;
    }
    return classes_read(folder, set);
}

int imageset_read_cifar10(const char *path, enum imageset_split split, struct imageset *set)
{
    struct stat st;

    set_begin(set);
    if (stat(path, &st) != 0)
        return error_set("%s: %s", path, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set("%s is no folder: unpack the archive of CIFAR-10's binary version by 'tar "
                         "xf', and name the folder, cifar-10-batches-bin",
                         path);
    if (folder_read(path, split, set)) {
        imageset_free(set);
        return -1;
    }
    set->count = (size_t)batches_of(split) * BATCH;
    return 0;
}

bool imageset_is_cifar10_file(const char *path)
{
    size_t length = strlen(path);
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return false;
    return (length > 4 && strcmp(path + length - 4, ".bin") == 0) ||
           (length > 7 && strcmp(path + length - 7, ".bin.gz") == 0);
}

static int file_append(const char *path, struct imageset *set)
{
    uint8_t record[RECORD];
    struct gzstream s;
    int status = -1;

    if (gzstream_open(&s, path))
        return -1;
    for (size_t number = 0;; number++) {
        uint64_t offset = s.offset;
        size_t got;

        if (gzstream_read_some(&s, record, RECORD, &got))
            break;
        if (got == 0) {
            status =
                number ? 0 : error_set("%s: empty; expected records of %d bytes", path, RECORD);
            break;
        }
        if (got < RECORD) {
            error_set("%s: truncated in record %zu, at offset %llu: %zu of %d bytes", path, number,
                      (unsigned long long)s.offset, got, RECORD);
            break;
        }
        if (set->count == set->capacity &&
            imageset_reserve(set, set->capacity ? 2 * set->capacity : 64))
            break;
        if (record_store(set, set->count, record, path, number, offset))
            break;
        set->count++;
    }
    gzstream_close(&s);
    return status;
}

int imageset_read_cifar10_files(int npaths, char *const *paths, struct imageset *set)
{
    set_begin(set);
    for (int i = 0; i < npaths; i++)
        if (file_append(paths[i], set)) {
            imageset_free(set);
            return -1;
        }
    return 0;
}
