/* A data base of samples, read only: values in the order of keys, numbered by place.
 *
 * Any number of ranks can open it at once, in a folder without write permission. */
#ifndef POSEIDON_INPUT_FORMAT_KV_H
#define POSEIDON_INPUT_FORMAT_KV_H

#include "util/strbuf.h"

#include <stdbool.h>

struct kv;

struct kv_i {
    const char *name; /* "LMDB" or "LevelDB" */
    void (*close)(struct kv *kv);
    /* Replaces *out by the value at `place` (< count) or, if `key`, by its key for messages, which
     * is not NUL-terminated. Any thread at any time. */
    int (*read)(struct kv *kv, uint64_t place, bool key, struct strbuf *out);
    /* See struct source_i; NULL: this kind cannot tell. */
    int (*check)(struct kv *kv);
    /* See struct source_i; NULL: the library does not say where values are. */
    void (*expect)(struct kv *kv, uint64_t place, uint64_t count);
};

struct kv { /* first member of each kind's own struct */
    const struct kv_i *i;
    char *path; /* owned; path as opened */
    uint64_t count;
};

/* Opens the data base at `path`. LMDB: a folder with data.mdb, or such a file. LevelDB: a folder
 * with CURRENT. *out is NULL if `path` is neither, which is not an error. */
int kv_open(const char *path, struct kv **out);

/* Open a data base of the given kind. Errors: cut short, damaged, from a machine of the other byte
 * order, an unknown use of the format, empty, not built in. */
int kv_open_lmdb(const char *path, struct kv **out);
int kv_open_leveldb(const char *path, struct kv **out);

static inline void kv_close(struct kv *kv)
{
    if (kv)
        kv->i->close(kv);
}

#endif
