/* A data base of samples, read only: values in the order of their keys, addressed by place.
 *
 * Both kinds are opened so that any number of ranks can read them at once, from a folder that
 * nobody may write to. */
#ifndef POSEIDON_INPUT_FORMAT_KV_H
#define POSEIDON_INPUT_FORMAT_KV_H

#include "util/strbuf.h"

#include <stdbool.h>

struct kv;

struct kv_i {
    const char *name; /* "LMDB", "LevelDB" */
    void (*close)(struct kv *kv);
    /* Replaces *out by the value at `place` (< count), or, for messages, by its key, which is not
     * NUL-terminated. Any thread at any time. */
    int (*read)(struct kv *kv, uint64_t place, bool key, struct strbuf *out);
    /* As source_i's; NULL: nobody can. */
    int (*check)(struct kv *kv);
    /* As source_i's; NULL: the library keeps where values are to itself. */
    void (*expect)(struct kv *kv, uint64_t place, uint64_t count);
};

struct kv { /* first member of each kind's own struct */
    const struct kv_i *i;
    char *path; /* owned; as opened */
    uint64_t count;
};

/* Opens what is at `path`, by content: a folder with data.mdb or such a file itself; a folder with
 * CURRENT and MANIFEST-*. *out is NULL where it is neither, which is no error. */
int kv_open(const char *path, struct kv **out);

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
