/* The LMDB sink, through liblmdb. Keys come in order, so pages fill one after another. Transactions
 * are short, and between them the map grows long before it is full. */
#include "convert/sink.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const own_files[] = {"data.mdb", "lock.mdb", "classes.txt"};

bool sink_is_lmdb_folder(const char *path)
{
    DIR *stream = opendir(path);
    struct dirent *entry;
    bool has_data = false, has_others = false;

    if (!stream)
        return false;
    while ((entry = readdir(stream)) != NULL) {
        bool is_own = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;

        for (int i = 0; i < 3; i++)
            is_own = is_own || strcmp(entry->d_name, own_files[i]) == 0;
        has_data = has_data || strcmp(entry->d_name, "data.mdb") == 0;
        has_others = has_others || !is_own;
    }
    closedir(stream);
    return has_data && !has_others;
}

#ifdef HAVE_LMDB

#include "input/format/datum.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <lmdb.h>

#define MAP_FIRST   ((size_t)1 << 30)
#define TXN_RECORDS 1000
#define TXN_BYTES   ((size_t)64 << 20)
#define MAX_KEY     511
#define MAX_RECORDS 100000000u /* keys have eight digits */

struct lmdb_sink {
    struct sink sink;
    struct sink_options o;
    MDB_env *env;
    MDB_txn *txn; /* NULL between transactions */
    MDB_dbi dbi;
    size_t map, pending, records; /* bytes of the map; bytes and records in the transaction */
    size_t total;                 /* bytes put so far */
    struct strbuf value;
    bool has_temp;         /* this sink made the temporary folder */
    struct sink *pictures; /* LMDB of pictures of labels; NULL: none; owned */
};

static void folder_remove(const char *path)
{
    char name[4096];

    for (int i = 0; i < 3; i++)
        if ((size_t)snprintf(name, sizeof name, "%s/%s", path, own_files[i]) < sizeof name)
            unlink(name);
    rmdir(path);
}

/* Returns the true error of a short write, which liblmdb calls EIO or ENOSPC: writes more bytes
 * until the system says why. */
static int find_reason(const struct lmdb_sink *self, int code)
{
    static const char zeros[1 << 16];
    char path[4096];
    bool found = code != EIO && code != ENOSPC;
    int fd;

    snprintf(path, sizeof path, "%s/data.mdb", self->sink.temp);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    for (int i = 0; i < 3 && !found && fd >= 0; i++)
        if ((found = write(fd, zeros, sizeof zeros) < 0))
            code = errno;
    if (fd >= 0)
        close(fd);
    return code;
}

static int lmdb_failed(const struct lmdb_sink *self, int code)
{
    return error_set("%s: cannot be written (%s)", self->sink.temp,
                     mdb_strerror(find_reason(self, code)));
}

static int txn_begin(struct lmdb_sink *self, size_t next)
{
    int code;

    while (self->map / 2 < self->total + next + TXN_BYTES) {
        self->map *= 2;
        code = mdb_env_set_mapsize(self->env, self->map);
        if (code)
            return lmdb_failed(self, code);
    }
    code = mdb_txn_begin(self->env, NULL, 0, &self->txn);
    if (code == 0)
        code = mdb_dbi_open(self->txn, NULL, 0, &self->dbi);
    self->pending = self->records = 0;
    return code ? lmdb_failed(self, code) : 0;
}

static int txn_end(struct lmdb_sink *self)
{
    int code = self->txn ? mdb_txn_commit(self->txn) : 0;

    self->txn = NULL;
    return code ? lmdb_failed(self, code) : 0;
}

static int lmdb_add(struct sink *sink, const struct sample *sample)
{
    struct lmdb_sink *self = (struct lmdb_sink *)sink;
    const struct sample picture = {.name = sample->name, .raw = sample->picture};
    char key[MAX_KEY + 1];
    MDB_val k = {.mv_data = key}, v;
    int code, n;

    if (sink->count == MAX_RECORDS)
        return error_set("more than %u images do not fit the keys of Caffe's tools", MAX_RECORDS);
    self->value.length = 0;
    if (sample->encoded.bytes ? datum_write_encoded(sample->encoded.bytes, sample->encoded.length,
                                                    sample->label, &self->value)
                              : datum_write_raw(sample->raw, sample->label, &self->value))
        return -1;
    if (!self->txn && txn_begin(self, self->value.length))
        return -1;
    n = sample->name
            ? snprintf(key, sizeof key, "%08llu_%s", (unsigned long long)sink->count, sample->name)
            : snprintf(key, sizeof key, "%010llu", (unsigned long long)sink->count);
    k.mv_size = n < MAX_KEY ? (size_t)n : MAX_KEY;
    v.mv_data = self->value.bytes;
    v.mv_size = self->value.length;
    code = mdb_put(self->txn, self->dbi, &k, &v, MDB_APPEND);
    if (code)
        return lmdb_failed(self, code);
    if (self->pictures && sink_add(self->pictures, &picture))
        return -1;
    sink->count++;
    self->total += v.mv_size + k.mv_size + 8192; /* a value may leave most of a page empty */
    self->pending += v.mv_size;
    self->records++;
    return self->records >= TXN_RECORDS || self->pending >= TXN_BYTES ? txn_end(self) : 0;
}

static int classes_write(const struct lmdb_sink *self)
{
    struct strbuf text = {0};
    char path[4096];
    int status;

    for (int k = 0; k < self->o.nclasses; k++)
        strbuf_printf(&text, "%s\n", self->o.class_name[k]);
    snprintf(path, sizeof path, "%s/classes.txt", self->sink.temp);
    status = strbuf_status(&text);
    if (status == 0 && text.length)
        status = file_write(path, text.data, text.length);
    strbuf_free(&text);
    return status;
}

/* Puts the new folder in the place of the old folder, which the caller has checked. */
static int folder_commit(const char *temp, const char *path)
{
    struct strbuf name = {0};
    char *old = NULL;
    struct stat st;
    int status = 0;

    if (lstat(path, &st) == 0) {
        strbuf_printf(&name, "%s.old", path);
        old = strbuf_take(&name);
        if (!old)
            return -1;
        if (sink_is_lmdb_folder(old))
            folder_remove(old);
        if (rename(path, old) != 0)
            status = error_set("cannot rename '%s' to '%s': %s", path, old, strerror(errno));
    }
    if (status == 0 && rename(temp, path) != 0)
        status = error_set("cannot rename '%s' to '%s': %s", temp, path, strerror(errno));
    if (status == 0 && old)
        folder_remove(old);
    free(old);
    return status;
}

static int lmdb_close(struct sink *sink, int status)
{
    struct lmdb_sink *self = (struct lmdb_sink *)sink;
    int code;

    if (!status)
        status = txn_end(self);
    if (!status && (code = mdb_env_sync(self->env, 1)) != 0)
        status = lmdb_failed(self, code);
    status = sink_close(&self->pictures, status);
    if (self->txn)
        mdb_txn_abort(self->txn);
    if (self->env)
        mdb_env_close(self->env);
    if (!status)
        status = error_status(classes_write(self) || folder_commit(sink->temp, sink->path));
    if (status && self->has_temp)
        folder_remove(sink->temp);
    strbuf_free(&self->value);
    free(sink->temp);
    free(sink->path);
    free(self);
    return status;
}

static const struct sink_i lmdb_i = {.add = lmdb_add, .close = lmdb_close};

static int env_open(struct lmdb_sink *self)
{
    int code;

    if (sink_is_lmdb_folder(self->sink.temp)) /* folder of a killed run */
        folder_remove(self->sink.temp);
    if (mkdir(self->sink.temp, 0777) != 0)
        return error_set("%s: cannot be made: %s", self->sink.temp, strerror(errno));
    self->has_temp = true;
    code = mdb_env_create(&self->env);
    if (code == 0)
        code = mdb_env_set_mapsize(self->env, self->map);
    /* MDB_NOSYNC: nobody else knows the file yet, and commit forces it to disk. MDB_NOLOCK: the
     * lock file would be mapped, and writing to it on a full disk is a SIGBUS. */
    if (code == 0)
        code = mdb_env_open(self->env, self->sink.temp, MDB_NOSYNC | MDB_NOLOCK, 0666);
    return code ? lmdb_failed(self, code) : 0;
}

int sink_create_lmdb(const char *path, const struct sink_options *o, struct sink **out)
{
    struct lmdb_sink *self = calloc(1, sizeof *self);
    size_t length = strlen(path);

    *out = NULL;
    if (!self)
        return error_memory(sizeof *self, "an LMDB");
    self->sink.i = &lmdb_i;
    self->o = *o;
    self->map = MAP_FIRST;
    while (length > 1 && path[length - 1] == '/')
        length--;
    self->sink.path = strndup(path, length);
    self->sink.temp = self->sink.path ? file_temp_name(self->sink.path) : NULL;
    if (!self->sink.temp)
        return lmdb_close(&self->sink, error_memory(length, "a path"));
    if (env_open(self) ||
        (o->pictures && sink_create_lmdb(o->pictures, &(struct sink_options){0}, &self->pictures)))
        return lmdb_close(&self->sink, -1);
    *out = &self->sink;
    return 0;
}

#else

int sink_create_lmdb(const char *path, const struct sink_options *o, struct sink **out)
{
    (void)o;
    *out = NULL;
    return error_set("%s: LMDB cannot be written: this program was built without liblmdb (Debian: "
                     "liblmdb-dev); write DST.h5 instead",
                     path);
}

#endif
