/* CIFAR-10, binary version: records of a label byte and 3072 pixel bytes (3 planes of 32x32). The
 * published files have 10,000 records each, and anything else under their names is damage; single
 * .bin files may have any number of whole records. */
#include "convert/imageset.h"

#include "convert/gzfile.h"
#include "util/alloc.h"
#include "util/path.h"

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

/* Records of a file behind those that the set has: exactly `expected`, or any number for 0. */
static int records_read(const char *path, size_t expected, struct imageset *set)
{
    struct strbuf file = {0};
    size_t n, rest;
    int status = gzfile_read(path, &file);

    n = expected ? expected : file.length / RECORD;
    rest = file.length % RECORD;
    if (!status && !file.length)
        status = error_set("%s: empty; expected records of %d bytes", path, RECORD);
    else if (!status && (file.length < n * RECORD || (!expected && rest)))
        status = error_set("%s: truncated in record %zu, at offset %zu: %zu of %d bytes", path,
                           file.length / RECORD, file.length, rest, RECORD);
    else if (!status && file.length > n * RECORD)
        status =
            error_set("%s: extra bytes after record %zu, from offset %zu on", path, n, n * RECORD);
    if (!status)
        status = imageset_reserve(set, set->count + n);
    for (size_t i = 0; i < n && !status; i++) {
        const uint8_t *record = file.bytes + i * RECORD;

        set->label[set->count] = record[0];
        memcpy(set->data + set->count++ * PIXELS, record + 1, PIXELS);
        if (record[0] >= CLASSES)
            status = error_set("%s: label %d in record %zu, at offset %zu; CIFAR-10 has labels "
                               "0..%d",
                               path, record[0], i, i * RECORD, CLASSES - 1);
    }
    strbuf_free(&file);
    return status;
}

/* Class names, one per line; the file is optional, but not half of it. */
static int classes_parse(struct imageset *set, const char *path, const char *text)
{
    struct class_names *names = &set->classes;

    for (size_t length; *text; text += length) {
        length = strcspn(text, "\r\n");
        if (length && class_names_add(names, text, length))
            return -1;
        length += strspn(text + length, "\r\n");
    }
    return names->count == CLASSES ? 0
                                   : error_set("%s: %d class names; expected %d, one per line",
                                               path, names->count, CLASSES);
}

static int classes_read(const char *folder, struct imageset *set)
{
    char path[4096];
    struct strbuf file = {0};
    int status;

    snprintf(path, sizeof path, "%s/" CLASS_FILE, folder);
    if (access(path, F_OK) != 0)
        return 0;
    status = gzfile_read(path, &file);
    if (!status && file.length > CLASS_MAX)
        status = error_set("%s: more than %d bytes; expected %d lines", path, CLASS_MAX, CLASSES);
    if (!status)
        status =
            error_status(strbuf_add(&file, "", 1, path) || classes_parse(set, path, file.data));
    strbuf_free(&file);
    return status;
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
    for (int b = 1; b <= (split == IMAGESET_TEST ? 1 : TRAIN_BATCHES); b++) {
        char path[4096], name[32];

        snprintf(name, sizeof name, split == IMAGESET_TEST ? "test_batch.bin" : "data_batch_%d.bin",
                 b);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (access(path, F_OK) != 0)
            return folder_missing(folder, name);
        if (records_read(path, BATCH, set))
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
    return 0;
}

bool imageset_is_cifar10_file(const char *path)
{
    return !path_is_folder(path) && (path_ends(path, ".bin") || path_ends(path, ".bin.gz"));
}

int imageset_read_cifar10_files(int npaths, char *const *paths, struct imageset *set)
{
    set_begin(set);
    for (int i = 0; i < npaths; i++)
        if (records_read(paths[i], 0, set)) {
            imageset_free(set);
            return -1;
        }
    return 0;
}
