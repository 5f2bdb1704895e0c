/* LevelDB through its library.
 *
 * The library locks a LevelDB against every other process and may rewrite it. Each rank therefore
 * opens a view: a temporary folder with links to the tables and copies of the small files that list
 * the tables. So ranks do not disturb each other, and the data set is never changed. */
#include "input/format/kv.h"

#include "util/alloc.h"
#include "util/file.h"
#include "util/path.h"

#include <stdlib.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_LEVELDB

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <leveldb/c.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct level {
    struct kv kv;
    char view[PATH_MAX]; /* path of the temporary folder; "" for none */
    leveldb_t *db;
    leveldb_options_t *options;
    leveldb_readoptions_t *reading; /* read options for single values */
    struct strbuf keys;             /* all keys, one after another */
    uint64_t *end;                  /* owned; end of each key in `keys`, count of them */
};

/* Links a table into the view, copies CURRENT, MANIFEST-* or a log, and ignores other files. */
static int view_add(const struct level *self, const char *folder, const char *name)
{
    char from[PATH_MAX + 300], to[PATH_MAX + 300];

    snprintf(from, sizeof from, "%s/%s", folder, name);
    snprintf(to, sizeof to, "%s/%s", self->view, name);
    if (path_ends(name, ".ldb") || path_ends(name, ".sst")) /* reading a FIFO would block */
        return file_check_special(from) ? -1
               : symlink(from, to) == 0 ? 0
                                        : error_set("%s: cannot be made: %s", to, strerror(errno));
    if (strcmp(name, "CURRENT") == 0 || strncmp(name, "MANIFEST-", 9) == 0 ||
        path_ends(name, ".log"))
        return file_copy(from, to);
    return 0;
}

static int view_make(struct level *self)
{
    const char *base = getenv("TMPDIR");
    char folder[PATH_MAX];
    struct dirent *entry;
    DIR *stream;
    int status = 0;

    if (!realpath(self->kv.path, folder))
        return error_set("%s: %s", self->kv.path, strerror(errno));
    snprintf(self->view, sizeof self->view, "%s/poseidon-leveldb-XXXXXX",
             base && *base ? base : "/tmp");
    if (!mkdtemp(self->view)) {
        status =
            error_set("%s: a temporary folder cannot be made: %s", self->view, strerror(errno));
        self->view[0] = '\0';
        return status;
    }
    stream = opendir(folder);
    if (!stream)
        return error_set("%s: %s", folder, strerror(errno));
    while (status == 0 && (entry = readdir(stream)) != NULL)
        status = view_add(self, folder, entry->d_name);
    closedir(stream);
    return status;
}

static void view_remove(struct level *self)
{
    struct dirent *entry;
    DIR *stream = self->view[0] ? opendir(self->view) : NULL;

    while (stream && (entry = readdir(stream)) != NULL) {
        char path[PATH_MAX + 300];

        snprintf(path, sizeof path, "%s/%s", self->view, entry->d_name);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(path);
    }
    if (stream)
        closedir(stream);
    if (self->view[0])
        rmdir(self->view);
}

/* Turns the library's message into ours and frees it. */
static int library_error(const struct level *self, char *text)
{
    error_set("%s: LevelDB cannot read it (%s)", self->kv.path, text);
    leveldb_free(text);
    return -1;
}

static int key_add(struct level *self, const char *key, size_t length)
{
    if (ALLOC_ROOM(self->end, self->kv.count, "the index of a LevelDB") ||
        strbuf_add(&self->keys, key, length, "the index of a LevelDB"))
        return -1;
    self->end[self->kv.count++] = self->keys.length;
    return 0;
}

/* Lists all keys once: a LevelDB does not know its number of records. */
static int keys_list(struct level *self)
{
    leveldb_readoptions_t *o = leveldb_readoptions_create();
    leveldb_iterator_t *at;
    char *text = NULL;
    int status = 0;

    leveldb_readoptions_set_fill_cache(o, 0);
    leveldb_readoptions_set_verify_checksums(o, 1);
    at = leveldb_create_iterator(self->db, o);
    for (leveldb_iter_seek_to_first(at); status == 0 && leveldb_iter_valid(at);
         leveldb_iter_next(at)) {
        size_t length;
        const char *key = leveldb_iter_key(at, &length);

        status = key_add(self, key, length);
    }
    leveldb_iter_get_error(at, &text);
    leveldb_iter_destroy(at);
    leveldb_readoptions_destroy(o);
    if (text)
        return library_error(self, text);
    if (status == 0 && self->kv.count == 0)
        return error_set("%s: a LevelDB without records", self->kv.path);
    return status;
}

/* Returns the key at `place`, and its length. */
static const char *key_of(const struct level *self, uint64_t place, size_t *length)
{
    uint64_t start = place ? self->end[place - 1] : 0;

    *length = self->end[place] - start;
    return self->keys.data + start;
}

static int level_read(struct kv *kv, uint64_t place, bool wants_key, struct strbuf *out)
{
    struct level *self = (struct level *)kv;
    size_t key_length, length = 0;
    const char *key = key_of(self, place, &key_length);
    char *text = NULL, *value;
    int status;

    out->length = 0;
    if (wants_key)
        return strbuf_add(out, key, key_length, "a key");
    value = leveldb_get(self->db, self->reading, key, key_length, &length, &text);
    if (text)
        return library_error(self, text);
    if (!value)
        return error_set("%s: record %llu has disappeared", kv->path, (unsigned long long)place);
    status = strbuf_add(out, value, length, "a record");
    leveldb_free(value);
    return status;
}

static void level_close(struct kv *kv)
{
    struct level *self = (struct level *)kv;

    if (self->db)
        leveldb_close(self->db);
    if (self->reading)
        leveldb_readoptions_destroy(self->reading);
    if (self->options)
        leveldb_options_destroy(self->options);
    view_remove(self);
    free(self->end);
    strbuf_free(&self->keys);
    free(kv->path);
    free(self);
}

static const struct kv_i level_i = {
    .name = "LevelDB",
    .close = level_close,
    .read = level_read,
};

static int level_open(struct level *self)
{
    char *text = NULL;

    if (view_make(self))
        return -1;
    self->options = leveldb_options_create();
    self->reading = leveldb_readoptions_create();
    leveldb_readoptions_set_verify_checksums(self->reading, 1);
    leveldb_options_set_paranoid_checks(self->options, 1);
    self->db = leveldb_open(self->options, self->view, &text);
    return text ? library_error(self, text) : keys_list(self);
}

int kv_open_leveldb(const char *path, struct kv **out)
{
    struct level *self = alloc_array(1, sizeof *self, "a LevelDB");

    *out = NULL;
    if (!self)
        return -1;
    self->kv.i = &level_i;
    if (alloc_text(&self->kv.path, path, "a path") || level_open(self)) {
        level_close(&self->kv);
        return -1;
    }
    *out = &self->kv;
    return 0;
}

#else

int kv_open_leveldb(const char *path, struct kv **out)
{
    *out = NULL;
    return error_set(
        "%s is a LevelDB, Caffe's default backend, and this program was built without libleveldb "
        "(Debian: libleveldb-dev); use an LMDB, or an HDF5 file made by `poseidon convert`",
        path);
}

#endif
