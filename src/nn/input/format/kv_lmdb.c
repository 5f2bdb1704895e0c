/* Reads LMDB files without liblmdb.
 *
 * liblmdb maps the file and trusts it: a truncated file kills a whole job with SIGBUS and no
 * message, and opening needs a writable lock file. Reading takes little code: a file is pages; a
 * tree of branch pages leads to leaf pages, and long values are in runs of overflow pages. The
 * leaves are listed once with the number of their first record; then any thread reads a record with
 * two reads.
 *
 * No reader's slot in lock.mdb is taken, so a writer may reuse pages of the snapshot S that is read
 * here. The first transaction that may do so makes snapshot S + 3. It begins after S + 2 has
 * overwritten the meta page of S. Records are therefore right if that meta page is unchanged after
 * they were read. */

/* clang-format off */
/*   page    u64 number, u16 -, u16 flags, u16 end of offsets, u16 -, u16 offset of each node
 *   node    u16 low, u16 high, u16 flags, u16 key bytes, key, value
 *           leaf: high:low is the value's size; flag 1: the value is the number of its first page
 *           branch: flags:high:low is the number of the page below
 *   meta    (pages 0 and 1) u32 magic, u32 version, u64 -, u64 -, two trees (free pages, data),
 *           u64 last page, u64 transaction: the one with the higher transaction holds
 *   tree    u32 page size (in the first), u16 flags, u16 depth, u64 branch, leaf, overflow pages,
 *           u64 records, u64 root */
/* clang-format on */
#define _GNU_SOURCE
#include "input/format/kv.h"

#include "util/alloc.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAGIC_AT = 16,
    VERSION_AT = 20,
    FREE_TREE_AT = 40,
    DATA_TREE_AT = 88,
    TRANSACTION_AT = 144,
    META_BYTES = 152,
    TREE_FLAGS = 4,
    TREE_DEPTH = 6,
    TREE_RECORDS = 32,
    TREE_ROOT = 40,
    PAGE_FLAGS = 10,
    PAGE_LOWER = 12,
    PAGE_HEADER = 16,
    NODE_HEADER = 8
};

enum { FLAG_BRANCH = 1, FLAG_LEAF = 2, FLAG_OVERFLOW = 4 };
enum { NODE_BIG = 1, NODE_TREE = 2 };

#define MAGIC          0xBEEFC0DEu
#define MAGIC_SWAPPED  0xDEC0EFBEu
#define VERSION        1
#define MAX_PAGE_BYTES 65536
#define MAX_DEPTH      32
#define MAX_VALUE      ((uint64_t)1 << 31)
#define HARMLESS_FLAGS 0x0au /* flags for another order of keys, which the tree already has */
#define NO_PAGE        UINT64_MAX
#define MAX_GAP_PAGES  4 /* gaps up to this are read along with their surroundings */

struct leaf {
    uint64_t page, first; /* page number; number of the leaf's first record */
};

struct lmdb {
    struct kv kv;
    int fd;
    uint64_t bytes; /* size of the file */
    uint32_t page_bytes;
    uint64_t npages;   /* number of whole pages in the file */
    struct leaf *leaf; /* owned; in the order of keys */
    size_t nleaves;
    uint64_t visited;         /* pages visited while listing the leaves */
    uint8_t meta[META_BYTES]; /* meta page of the snapshot */
    uint64_t meta_at;         /* offset of the meta page */
};

static uint16_t u16(const uint8_t *at)
{
    return (uint16_t)(at[0] | at[1] << 8);
}

static uint32_t u32(const uint8_t *at)
{
    return u16(at) | (uint32_t)u16(at + 2) << 16;
}

static uint64_t u64(const uint8_t *at)
{
    return u32(at) | (uint64_t)u32(at + 4) << 32;
}

static int lmdb_read_at(const struct lmdb *db, uint64_t offset, void *out, size_t length)
{
    size_t done = 0;

    while (done < length) {
        ssize_t got = TEMP_FAILURE_RETRY(
            pread(db->fd, (char *)out + done, length - done, (off_t)(offset + done)));

        if (got < 0)
            return error_set("%s: cannot be read at offset %llu: %s", db->kv.path,
                             (unsigned long long)(offset + done), strerror(errno));
        if (got == 0)
            return error_set(
                "%s: truncated LMDB file: its data continue at offset %llu, but it has %llu bytes",
                db->kv.path, (unsigned long long)(offset + done), (unsigned long long)db->bytes);
        done += (size_t)got;
    }
    return 0;
}

static int damaged(const struct lmdb *db, uint64_t page, const char *what)
{
    return error_set("%s: damaged LMDB file: page %llu (at offset %llu) %s", db->kv.path,
                     (unsigned long long)page, (unsigned long long)page * db->page_bytes, what);
}

static int page_read(const struct lmdb *db, uint64_t page, uint8_t *out)
{
    if (page >= db->npages && page < NO_PAGE / MAX_PAGE_BYTES)
        return error_set("%s: truncated LMDB file: page %llu would be at offset %llu, but it has "
                         "%llu bytes",
                         db->kv.path, (unsigned long long)page,
                         (unsigned long long)page * db->page_bytes, (unsigned long long)db->bytes);
    if (page >= db->npages)
        return error_set("%s: damaged LMDB file: there is no page %llu", db->kv.path,
                         (unsigned long long)page);
    if (lmdb_read_at(db, page * db->page_bytes, out, db->page_bytes))
        return -1;
    if (u64(out) != page)
        return damaged(db, page, "has the number of another page");
    if (u16(out + PAGE_LOWER) < PAGE_HEADER || u16(out + PAGE_LOWER) > db->page_bytes)
        return damaged(db, page, "has an impossible number of nodes");
    return 0;
}

static unsigned nodes_of(const uint8_t *page)
{
    return (u16(page + PAGE_LOWER) - PAGE_HEADER) / 2u;
}

/* Finds node n of a page and checks that its header and key are inside the page. */
static int node_find(const struct lmdb *db, uint64_t number, const uint8_t *page, unsigned n,
                     const uint8_t **out)
{
    uint32_t at = u16(page + PAGE_HEADER + 2 * n);

    if (at < PAGE_HEADER || at + NODE_HEADER > db->page_bytes ||
        at + NODE_HEADER + u16(page + at + 6) > db->page_bytes)
        return damaged(db, number, "has a node outside it");
    *out = page + at;
    return 0;
}

static int leaf_add(struct lmdb *db, uint64_t page, unsigned nodes)
{
    if (ALLOC_ROOM(db->leaf, db->nleaves, "the index of an LMDB file"))
        return -1;
    db->leaf[db->nleaves++] = (struct leaf){page, db->kv.count};
    db->kv.count += nodes;
    return 0;
}

/* Lists the leaves below page `number`, which is `levels` levels high (1: a leaf). A tree contains
 * a page only once, so more visits than pages mean a cycle. */
static int leaves_list(struct lmdb *db, uint64_t number, int levels)
{
    uint8_t *page = alloc_array(db->page_bytes, 1, "a page of an LMDB file");
    int status = -1;

    if (!page)
        return -1;
    if (page_read(db, number, page))
        goto done;
    if (++db->visited > db->npages) {
        damaged(db, number, "occurs twice in the tree");
        goto done;
    }
    if (levels == 1) {
        status = u16(page + PAGE_FLAGS) & FLAG_LEAF
                     ? leaf_add(db, number, nodes_of(page))
                     : damaged(db, number, "is not the leaf it should be");
        goto done;
    }
    if (!(u16(page + PAGE_FLAGS) & FLAG_BRANCH)) {
        damaged(db, number, "is not the branch it should be");
        goto done;
    }
    for (unsigned n = 0; n < nodes_of(page); n++) {
        const uint8_t *node;

        if (node_find(db, number, page, n, &node) ||
            leaves_list(db, u32(node) | (uint64_t)u16(node + 4) << 32, levels - 1))
            goto done;
    }
    status = 0;

done:
    free(page);
    return status;
}

/* Reads and checks the meta page at `offset`. */
static int meta_read(const struct lmdb *db, uint64_t offset, uint8_t out[META_BYTES])
{
    uint32_t magic;

    if (lmdb_read_at(db, offset, out, META_BYTES))
        return -1;
    magic = u32(out + MAGIC_AT);
    if (magic == MAGIC_SWAPPED)
        return error_set("%s: an LMDB file from a machine of the other byte order; dump it there "
                         "with mdb_dump, and load it here with mdb_load",
                         db->kv.path);
    if (magic != MAGIC)
        return error_set("%s: not an LMDB file: 0x%08x at offset %llu; expected 0x%08x",
                         db->kv.path, magic, (unsigned long long)offset + MAGIC_AT, MAGIC);
    if (u32(out + VERSION_AT) != VERSION)
        return error_set("%s: an LMDB file of version %u; this program reads version %d",
                         db->kv.path, u32(out + VERSION_AT), VERSION);
    return 0;
}

/* Fails if pages of the snapshot may have been reused. Call after reading them. */
static int lmdb_check(struct kv *kv)
{
    const struct lmdb *db = (struct lmdb *)kv;
    uint8_t now[META_BYTES];

    if (lmdb_read_at(db, db->meta_at, now, sizeof now))
        return -1;
    if (memcmp(now, db->meta, sizeof now) == 0)
        return 0;
    return error_set("%s: another program is writing to this LMDB, and records may have changed "
                     "while they were read; wait until that program ends, or use a copy (mdb_copy)",
                     db->kv.path);
}

static int tree_open(struct lmdb *db, const uint8_t *tree)
{
    unsigned flags = u16(tree + TREE_FLAGS) & 0x7fffu, depth = u16(tree + TREE_DEPTH);
    uint64_t records = u64(tree + TREE_RECORDS);

    if (flags & ~HARMLESS_FLAGS)
        return error_set("%s: an LMDB file with several values per key or fixed keys (flags 0x%x); "
                         "expected one value per key, as Caffe writes",
                         db->kv.path, flags);
    if (records == 0 || u64(tree + TREE_ROOT) == NO_PAGE)
        return error_set("%s: an LMDB file without records", db->kv.path);
    if (depth < 1 || depth > MAX_DEPTH)
        return error_set("%s: damaged LMDB file: a tree of %u levels", db->kv.path, depth);
    if (leaves_list(db, u64(tree + TREE_ROOT), (int)depth))
        return -1;
    if (db->kv.count != records)
        return error_set("%s: damaged LMDB file: %llu records found; its header says %llu",
                         db->kv.path, (unsigned long long)db->kv.count,
                         (unsigned long long)records);
    return 0;
}

static int file_open(struct lmdb *db)
{
    uint8_t second[META_BYTES];
    struct stat st;
    int status;

    db->fd = open(db->kv.path, O_RDONLY | O_CLOEXEC);
    if (db->fd < 0 || fstat(db->fd, &st) != 0)
        return error_set("%s: %s", db->kv.path, strerror(errno));
    db->bytes = (uint64_t)st.st_size;
    if (meta_read(db, 0, db->meta))
        return -1;
    db->page_bytes = u32(db->meta + FREE_TREE_AT);
    if (db->page_bytes < 256 || db->page_bytes > MAX_PAGE_BYTES ||
        (db->page_bytes & (db->page_bytes - 1)))
        return error_set("%s: damaged LMDB file: pages of %u bytes", db->kv.path, db->page_bytes);
    db->npages = db->bytes / db->page_bytes;
    if (meta_read(db, db->page_bytes, second))
        return -1;
    if (u64(second + TRANSACTION_AT) > u64(db->meta + TRANSACTION_AT)) {
        memcpy(db->meta, second, sizeof second);
        db->meta_at = db->page_bytes;
    }
    status = tree_open(db, db->meta + DATA_TREE_AT);
    return lmdb_check(&db->kv) ? -1 : status;
}

/* Finds the leaf page that holds record `place`, and the record's node in it. */
static int place_find(const struct lmdb *db, uint64_t place, uint8_t *page, uint64_t *number,
                      const uint8_t **node)
{
    size_t low = 0, high = db->nleaves - 1;

    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;

        if (db->leaf[middle].first <= place)
            low = middle;
        else
            high = middle - 1;
    }
    *number = db->leaf[low].page;
    if (page_read(db, *number, page))
        return -1;
    if (place - db->leaf[low].first >= nodes_of(page))
        return damaged(db, *number, "has changed since the file was opened");
    return node_find(db, *number, page, (unsigned)(place - db->leaf[low].first), node);
}

static int big_value_read(const struct lmdb *db, uint64_t number, uint64_t length,
                          struct strbuf *out)
{
    uint64_t offset = number * db->page_bytes + PAGE_HEADER;
    uint8_t header[PAGE_HEADER];

    if (number >= db->npages)
        return error_set("%s: truncated or damaged LMDB file: there is no page %llu, where a value "
                         "should be",
                         db->kv.path, (unsigned long long)number);
    if (lmdb_read_at(db, number * db->page_bytes, header, sizeof header))
        return -1;
    if (u64(header) != number || !(u16(header + PAGE_FLAGS) & FLAG_OVERFLOW))
        return damaged(db, number, "holds no value, but should");
    if (length > db->bytes - offset)
        return error_set(
            "%s: truncated LMDB file: a value of %llu bytes at offset %llu, but the file "
            "has %llu",
            db->kv.path, (unsigned long long)length, (unsigned long long)offset,
            (unsigned long long)db->bytes);
    if (strbuf_reserve(out, length, "a record"))
        return -1;
    out->length = length;
    return lmdb_read_at(db, offset, out->bytes, length);
}

static void range_expect(const struct lmdb *db, uint64_t from, uint64_t to)
{
    if (from < to && to <= db->npages)
        (void)posix_fadvise(db->fd, (off_t)(from * db->page_bytes),
                            (off_t)((to - from) * db->page_bytes), POSIX_FADV_WILLNEED);
}

static int record_read(struct lmdb *db, uint64_t place, bool wants_key, struct strbuf *out)
{
    uint8_t page[MAX_PAGE_BYTES];
    const uint8_t *node, *value;
    uint64_t number;
    uint32_t length;

    out->length = 0;
    if (place_find(db, place, page, &number, &node))
        return -1;
    if (wants_key)
        return strbuf_add(out, node + NODE_HEADER, u16(node + 6), "a key");
    length = u32(node);
    value = node + NODE_HEADER + u16(node + 6);
    if (u16(node + 4) & NODE_TREE)
        return error_set("%s: an LMDB of named data bases, such as '%.*s'; expected records in the "
                         "main one, as Caffe writes; to copy them there: mdb_dump -s NAME FOLDER | "
                         "sed /^database=/d | mdb_load NEW",
                         db->kv.path, (int)u16(node + 6), (const char *)node + NODE_HEADER);
    if (u16(node + 4) & ~NODE_BIG)
        return damaged(db, number, "has a node of an unknown kind");
    if (length > MAX_VALUE)
        return damaged(db, number, "has a value of more than 2 GiB");
    if (u16(node + 4) & NODE_BIG)
        return (size_t)(page + db->page_bytes - value) < 8
                   ? damaged(db, number, "has a node outside it")
                   : big_value_read(db, u64(value), length, out);
    if ((size_t)(page + db->page_bytes - value) < length)
        return damaged(db, number, "has a node outside it");
    return strbuf_add(out, value, length, "a record");
}

static int lmdb_read(struct kv *kv, uint64_t place, bool wants_key, struct strbuf *out)
{
    int status = record_read((struct lmdb *)kv, place, wants_key, out);

    return status && lmdb_check(kv) ? -1 : status; /* damaged, or a reused page */
}

/* Asks the system for the pages of big values. Values written one after another are contiguous but
 * for some leaf pages. Small values are in the leaf, which place_find has just read. */
static void lmdb_expect(struct kv *kv, uint64_t place, uint64_t count)
{
    const struct lmdb *db = (struct lmdb *)kv;
    uint8_t page[MAX_PAGE_BYTES];
    const uint8_t *node, *value;
    uint64_t number, from = 0, to = 0;

    for (uint64_t k = 0; k < count && !place_find(db, place + k, page, &number, &node); k++) {
        value = node + NODE_HEADER + u16(node + 6);
        if (!(u16(node + 4) & NODE_BIG) || page + db->page_bytes - value < 8)
            continue;
        number = u64(value);
        if (number < to || number - to > MAX_GAP_PAGES) {
            range_expect(db, from, to);
            from = number;
        }
        to = number + (PAGE_HEADER + u32(node) + db->page_bytes - 1) / db->page_bytes;
    }
    range_expect(db, from, to);
}

static void lmdb_close(struct kv *kv)
{
    struct lmdb *db = (struct lmdb *)kv;

    if (db->fd >= 0)
        close(db->fd);
    free(db->leaf);
    free(kv->path);
    free(db);
}

static const struct kv_i lmdb_i = {
    .name = "LMDB",
    .close = lmdb_close,
    .read = lmdb_read,
    .check = lmdb_check,
    .expect = lmdb_expect,
};

int kv_open_lmdb(const char *path, struct kv **out)
{
    struct lmdb *db = alloc_array(1, sizeof *db, "an LMDB file");
    struct strbuf file = {0};

    *out = NULL;
    if (!db)
        return -1;
    strbuf_puts(&file, path);
    if (path_is_folder(path))
        strbuf_puts(&file, "/data.mdb");
    db->fd = -1;
    db->kv.i = &lmdb_i;
    db->kv.path = strbuf_take(&file);
    if (!db->kv.path || file_check_special(db->kv.path) || file_open(db)) {
        if (db->kv.path)
            file_kind_error(db->kv.path, "an LMDB file");
        lmdb_close(&db->kv);
        return -1;
    }
    *out = &db->kv;
    return 0;
}
