/* A data base of samples, read only: values in the order of their keys, addressed by place.
 *
 * Both kinds are opened so that any number of ranks can read them at once, from a folder that
 * nobody may write to. */
#ifndef POSEIDON_INPUT_FORMAT_KV_H
#define POSEIDON_INPUT_FORMAT_KV_H

#include "input/format/bytes.h"

#include <stdbool.h>

struct kv;

struct kv_i {
    const char *name; /* "LMDB", "LevelDB" */
    void (*close)(struct kv *kv);
    /* Replaces *out by the value at `place` (< count). Any thread at any time. */
    int (*read)(struct kv *kv, uint64_t place, struct bytes *out);
    /* Replaces *out by the key at `place`, not NUL-terminated. Any thread. For messages. */
    int (*key)(struct kv *kv, uint64_t place, struct bytes *out);
};

struct kv { /* first member of each kind's own struct */
    const struct kv_i *i;
    char *path; /* owned; as opened */
    uint64_t count;
};

enum kv_kind { KV_NONE, KV_LMDB, KV_LEVELDB };

/* What is at `path`, by content: a folder with data.mdb or such a file itself; a folder with
 * CURRENT and MANIFEST-*. */
enum kv_kind kv_kind_of(const char *path);

/* Errors: cut short, damaged, made on another kind of machine, in use in a way that this reader
 * does not know, empty, not built in. */
int kv_open_lmdb(const char *path, struct kv **out);
int kv_open_leveldb(const char *path, struct kv **out);

static inline void kv_close(struct kv *kv)
{
    if (kv)
        kv->i->close(kv);
}

#endif
