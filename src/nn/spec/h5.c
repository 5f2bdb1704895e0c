/* HDF5 helpers. The trick: only HDF5's innermost error entry says something useful, so messages
 * quote that entry and leave out the twenty above. */
#include "spec/h5.h"
#include "spec/h5_lzf.h"

#include "util/alloc.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* HDF5's state is global to the process, and so is this lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define CACHE_DEFAULT_BYTES ((size_t)1 << 20)
#define CACHE_MAX_BYTES     ((size_t)256 << 20)
#define TEXTS_MAX_BYTES     ((size_t)1 << 24) /* limit for one attribute or data set */

/* Turns off HDF5's clean-up at exit, which crashes if a file could not be closed (a full disk). The
 * program closes everything by hand. */
static void library_prepare(void)
{
    H5dont_atexit();
    h5_lzf_register();
}

void h5_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, library_prepare);
    pthread_mutex_lock(&lock);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* thread-safe builds keep this setting per thread */
}

void h5_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

struct reason {
    char *buffer;
    size_t size;
};

static herr_t reason_visit(unsigned n, const H5E_error2_t *entry, void *data)
{
    struct reason *reason = data;

    if (n == 0 && entry->desc)
        snprintf(reason->buffer, reason->size, "%s", entry->desc);
    return 0;
}

/* Shortens HDF5's text of a failed system call, with time, pointers and sizes, to the error. */
static void reason_shorten(char *buffer)
{
    static const char mark[] = "error message = '";
    char *from = strstr(buffer, mark), *end = from ? strchr(from + sizeof mark - 1, '\'') : NULL;

    if (end) {
        *end = '\0';
        memmove(buffer, from + sizeof mark - 1, strlen(from + sizeof mark - 1) + 1);
    }
    for (char *c = buffer; *c; c++)
        if (*c == '\n')
            *c = ' ';
}

/* Writes HDF5's reason for the call that just failed; returns buffer. */
static const char *h5_reason(char *buffer, size_t size)
{
    struct reason reason = {buffer, size};

    snprintf(buffer, size, "HDF5 gives no reason");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, reason_visit, &reason);
    reason_shorten(buffer);
    return buffer;
}

int h5_error(const char *format, ...)
{
    char text[2048], reason[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set("%s (%s)", text, h5_reason(reason, sizeof reason));
}

static uint64_t little_endian(const unsigned char *bytes, size_t n)
{
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

/* Returns the length of the driver information block that a superblock of version 0 or 1 may point
 * at, 0 if there is none. HDF5 allocates this length before it reads on: up to 4 GB in a damaged
 * file (HDF5 File Format Specification 3.0, II.A and II.B). */
static uint64_t driver_block_bytes(FILE *file, uint64_t file_bytes)
{
    unsigned char block[60] = {0}; /* HDF5, too, reads zeros beyond the end of a file */
    unsigned char length[4] = {0};
    int64_t found = file_find_hdf5(file);
    uint64_t start = (uint64_t)found;
    size_t fixed, address;

    if (found < 0 || fseeko(file, (off_t)found, SEEK_SET) ||
        fread(block, 1, sizeof block, file) < 16)
        return 0;
    fixed = block[8] == 1 ? 28 : 24;
    address = block[13]; /* bytes of each of four addresses; the last address is the block's */
    if (block[8] > 1 || address > 8)
        return 0;
    start += little_endian(block + fixed + 3 * address, address);
    if (start >= file_bytes || fseeko(file, (off_t)start + 4, SEEK_SET))
        return 0;
    return fread(length, 1, sizeof length, file) ? little_endian(length, sizeof length) : 0;
}

static int superblock_check(const char *path, uint64_t file_bytes)
{
    FILE *file = fopen(path, "rb");
    uint64_t bytes;

    if (!file)
        return error_set("%s: %s", path, strerror(errno));
    bytes = driver_block_bytes(file, file_bytes);
    fclose(file);
    if (bytes <= file_bytes)
        return 0;
    return error_set(
        "%s: truncated HDF5 file of %llu bytes (its superblock points at a driver information "
        "block of %llu)",
        path, (unsigned long long)file_bytes, (unsigned long long)bytes);
}

int h5_file_open(const char *path, hid_t *out)
{
    struct stat st;
    char reason[512];
    int fd = file_open_plain(path);

    *out = -1;
    if (fd < 0)
        return -1;
    fstat(fd, &st);
    close(fd);
    if (S_ISDIR(st.st_mode))
        return error_set(
            "%s is a folder; expected an HDF5 file (or a folder that is a data base: an LMDB "
            "has a data.mdb, a LevelDB a CURRENT)",
            path);
    if (!file_is_hdf5(path)) {
        error_set("%s is not an HDF5 file", path);
        return file_kind_error(path, "an HDF5 file");
    }
    if (superblock_check(path, (uint64_t)st.st_size))
        return -1;
    *out = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (*out >= 0)
        return 0;
    h5_reason(reason, sizeof reason);
    if (strstr(reason, strerror(EAGAIN)) || strstr(reason, strerror(ENOLCK)))
        return error_set("%s: another program has it open for writing, or its file system has no "
                         "locks (%s); HDF5_USE_FILE_LOCKING=FALSE in the environment opens it "
                         "nevertheless",
                         path, reason);
    if (strstr(reason, "truncated") || st.st_size < 96)
        return error_set("%s: truncated HDF5 file of %lld bytes (%s)", path, (long long)st.st_size,
                         reason);
    return error_set("%s: HDF5 cannot open it (%s)", path, reason);
}

enum { LISTING_BYTES = 1024 };

static herr_t listing_visit(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    char *listing = data;
    H5O_info_t object;
    const char *suffix = "";

    (void)info;
    if (H5Oget_info_by_name(group, name, &object, H5P_DEFAULT) >= 0 &&
        object.type == H5O_TYPE_GROUP)
        suffix = "/";
    buffer_printf(listing, LISTING_BYTES, "%s'%s%s'", *listing ? ", " : "", name, suffix);
    return strlen(listing) == LISTING_BYTES - 1;
}

static int dataset_missing(hid_t file, const char *path, const char *name)
{
    char listing[LISTING_BYTES] = "";

    H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, NULL, listing_visit, listing);
    return error_set("%s: no data set '%s'; the file holds %s", path, name,
                     *listing ? listing : "nothing");
}

/* Returns the bytes of the chunk cache: twice the chunks across all axes but the first. A record
 * needs one such run of chunks; two survive a batch that ends inside a chunk. */
static size_t cache_bytes(hid_t id, const struct h5_dataset *dataset, size_t *nchunks)
{
    hid_t properties = H5Dget_create_plist(id), type = H5Dget_type(id);
    hsize_t chunk[H5S_MAX_RANK];
    double bytes = 0, chunks = 1;

    if (H5Pget_layout(properties) == H5D_CHUNKED &&
        H5Pget_chunk(properties, H5S_MAX_RANK, chunk) == dataset->naxes) {
        bytes = (double)H5Tget_size(type) * (double)chunk[0];
        for (int i = 1; i < dataset->naxes; i++) {
            hsize_t across = (dataset->dim[i] + chunk[i] - 1) / chunk[i];
            chunks *= (double)across;
            bytes *= (double)(across * chunk[i]);
        }
    }
    H5Tclose(type);
    H5Pclose(properties);
    bytes *= 2;
    *nchunks = chunks < 10000 ? (size_t)(2 * chunks) : 20000;
    if (bytes > (double)CACHE_MAX_BYTES)
        return CACHE_MAX_BYTES;
    return (size_t)bytes;
}

static int dataset_reopen(hid_t file, struct h5_dataset *dataset, size_t slots, size_t bytes)
{
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS);

    H5Pset_chunk_cache(access, slots, bytes, 1.0);
    H5Dclose(dataset->id);
    dataset->id = H5Dopen2(file, dataset->name, access);
    H5Pclose(access);
    return dataset->id < 0
               ? h5_error("%s: data set '%s' cannot be opened again", dataset->path, dataset->name)
               : 0;
}

static int dataset_describe(hid_t id, struct h5_dataset *out)
{
    hid_t space = H5Dget_space(id), type = H5Dget_type(id);
    H5T_class_t class = H5Tget_class(type);
    int status = 0;

    out->is_u8 =
        class == H5T_INTEGER && H5Tget_size(type) == 1 && H5Tget_sign(type) == H5T_SGN_NONE;
    out->naxes = H5Sget_simple_extent_ndims(space);
    if (out->naxes < 0 || H5Sget_simple_extent_type(space) == H5S_NULL)
        status = error_set("%s: data set '%s' has no shape", out->path, out->name);
    else if (class != H5T_INTEGER && class != H5T_FLOAT && class != H5T_ENUM)
        status = error_set("%s: data set '%s' holds %s; expected integers or floats", out->path,
                           out->name,
                           class == H5T_STRING     ? "text"
                           : class == H5T_COMPOUND ? "compound values"
                                                   : "values of another kind");
    else
        H5Sget_simple_extent_dims(space, out->dim, NULL);
    H5Tclose(type);
    H5Sclose(space);
    return status;
}

/* Fails if this HDF5 lacks a filter of the data set, even if the first chunks do not use it. */
static int filters_check(hid_t id, const struct h5_dataset *dataset)
{
    hid_t properties = H5Dget_create_plist(id);
    int status = 0;

    for (int i = 0; i < H5Pget_nfilters(properties) && !status; i++) {
        char name[64] = "";
        unsigned flags, config;
        size_t n = 0;
        int filter =
            H5Pget_filter2(properties, (unsigned)i, &flags, &n, NULL, sizeof name, name, &config);

        if (H5Zfilter_avail(filter) <= 0)
            status = error_set("%s: data set '%s' is compressed by filter %d (%s), which this HDF5 "
                               "lacks (HDF5_PLUGIN_PATH): write it with gzip, or convert it on a "
                               "machine that has the filter: 'h5repack -f GZIP=1 IN OUT'",
                               dataset->path, dataset->name, filter,
                               filter == H5Z_FILTER_SZIP ? "szip" : name);
    }
    H5Pclose(properties);
    return status;
}

int h5_dataset_open(hid_t file, const char *path, const char *name, struct h5_dataset *out)
{
    char reason[512];
    size_t nchunks, bytes;
    hid_t id;

    *out = (struct h5_dataset){.id = -1, .path = path, .name = name};
    id = H5Dopen2(file, name, H5P_DEFAULT);
    if (id < 0) {
        h5_reason(reason, sizeof reason);
        if (H5Lexists(file, name, H5P_DEFAULT) <= 0)
            return dataset_missing(file, path, name);
        return error_set("%s: '%s' cannot be opened as a data set (%s)", path, name, reason);
    }
    if (dataset_describe(id, out) || filters_check(id, out)) {
        H5Dclose(id);
        return -1;
    }
    out->id = id;
    bytes = cache_bytes(id, out, &nchunks);
    return bytes > CACHE_DEFAULT_BYTES ? dataset_reopen(file, out, 100 * nchunks + 1, bytes) : 0;
}

int h5_dataset_scatter(hid_t file, struct h5_dataset *dataset)
{
    return dataset_reopen(file, dataset, 20001, CACHE_MAX_BYTES);
}

void h5_dataset_close(struct h5_dataset *dataset)
{
    if (dataset->id >= 0)
        H5Dclose(dataset->id);
    dataset->id = -1;
}

int h5_dataset_read(const struct h5_dataset *dataset, hsize_t first, hsize_t count, hid_t type,
                    void *out)
{
    hsize_t start[H5S_MAX_RANK] = {first}, size[H5S_MAX_RANK];
    hid_t from = -1, to = -1;
    int status = 0;

    if (dataset->naxes < 1 || count > dataset->dim[0] || first > dataset->dim[0] - count)
        return error_set("%s: records %llu..%llu of data set '%s' asked for; it has %llu",
                         dataset->path, (unsigned long long)first,
                         (unsigned long long)(first + count) - 1, dataset->name,
                         dataset->naxes < 1 ? 0 : (unsigned long long)dataset->dim[0]);
    memcpy(size, dataset->dim, sizeof size);
    size[0] = count;
    from = H5Dget_space(dataset->id);
    to = H5Screate_simple(dataset->naxes, size, NULL);
    if (from < 0 || to < 0 ||
        H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, size, NULL) < 0 ||
        H5Dread(dataset->id, type, to, from, H5P_DEFAULT, out) < 0) {
        status = h5_error("%s: records %llu..%llu of data set '%s' cannot be read", dataset->path,
                          (unsigned long long)first, (unsigned long long)(first + count) - 1,
                          dataset->name);
    }
    if (to >= 0)
        H5Sclose(to);
    if (from >= 0)
        H5Sclose(from);
    return status;
}

void h5_dataset_expect(const struct h5_dataset *dataset, hsize_t first, hsize_t count)
{
    haddr_t at = H5Dget_offset(dataset->id);
    hsize_t bytes = H5Dget_storage_size(dataset->id) / dataset->dim[0];
    int fd = at == HADDR_UNDEF ? -1 : open(dataset->path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)posix_fadvise(fd, (off_t)(at + first * bytes), (off_t)(count * bytes),
                        POSIX_FADV_WILLNEED);
    close(fd);
}

int h5_dataset_read_all(const struct h5_dataset *dataset, hid_t type, void *out)
{
    if (H5Dread(dataset->id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0)
        return h5_error("%s: data set '%s' cannot be read", dataset->path, dataset->name);
    return 0;
}

const char *h5_shape_text(const struct h5_dataset *dataset, char *buffer, size_t size)
{
    snprintf(buffer, size, "%s", dataset->naxes ? "" : "scalar");
    for (int i = 0; i < dataset->naxes; i++)
        buffer_printf(buffer, size, "%s%llu", i ? "x" : "", (unsigned long long)dataset->dim[i]);
    return buffer;
}

/* ---- texts ---- */

static herr_t read_attribute(hid_t id, hid_t type, void *out)
{
    return H5Aread(id, type, out);
}

static herr_t read_dataset(hid_t id, hid_t type, void *out)
{
    return H5Dread(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out);
}

static int texts_add(char ***texts, int *count, const char *text)
{
    text = text ? text : "";
    return alloc_listed(texts, count, text, strlen(text), "texts of an HDF5 file");
}

/* Reads all texts of an open attribute or data set with the given type and space. HDF5 allocates
 * texts of variable length, and reclaims them here. */
static int texts_read(hid_t id, herr_t (*read)(hid_t id, hid_t type, void *out), hid_t type,
                      hid_t space, const char *path, const char *name, char ***texts, int *count)
{
    hssize_t n = H5Sget_simple_extent_npoints(space);
    bool lent = H5Tis_variable_str(type) > 0;
    size_t each = lent ? sizeof(char *) : H5Tget_size(type) + 1;
    hid_t memory = H5Tcopy(H5T_C_S1);
    char *block = NULL;
    int status = 0;

    if (H5Tget_class(type) == H5T_STRING && n > 0 && each <= TEXTS_MAX_BYTES / (size_t)n)
        block = calloc((size_t)n, each);
    H5Tset_cset(memory, H5Tget_cset(type));
    H5Tset_size(memory, lent ? H5T_VARIABLE : each);
    if (!block || read(id, memory, block) < 0)
        status = h5_error("%s: '%s' is not a text that can be read", path, name);
    for (hssize_t i = 0; i < n && !status; i++)
        status = texts_add(texts, count, lent ? ((char **)block)[i] : block + (size_t)i * each);
    if (block && lent)
        H5Dvlen_reclaim(memory, space, H5P_DEFAULT, block);
    free(block);
    H5Tclose(memory);
    return status;
}

int h5_attribute_read_texts(hid_t file, const char *path, const char *name, char ***texts,
                            int *count)
{
    hid_t attribute, type, space;
    int status;

    *texts = NULL;
    *count = 0;
    if (H5Aexists(file, name) <= 0)
        return 0;
    attribute = H5Aopen(file, name, H5P_DEFAULT);
    type = H5Aget_type(attribute);
    space = H5Aget_space(attribute);
    status = texts_read(attribute, read_attribute, type, space, path, name, texts, count);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return status;
}

/* Frees a list of texts, except for the first, which is returned. */
static char *texts_take(char **texts, int count)
{
    char *first = count > 0 ? texts[0] : NULL;

    if (first)
        texts[0] = NULL;
    alloc_free_list(texts, count);
    return first;
}

int h5_attribute_read_text(hid_t file, const char *path, const char *name, char **text)
{
    char **texts;
    int count, status = h5_attribute_read_texts(file, path, name, &texts, &count);

    *text = texts_take(texts, count);
    return status;
}

int h5_dataset_read_text(hid_t file, const char *path, const char *name, char **text)
{
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), type, space;
    char **texts = NULL;
    int count = 0, status = 0;

    *text = NULL;
    if (dataset < 0)
        return h5_error("%s: '%s' cannot be read", path, name);
    type = H5Dget_type(dataset);
    space = H5Dget_space(dataset);
    if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1)
        status = error_set("%s: '%s' is not one text", path, name);
    else
        status = texts_read(dataset, read_dataset, type, space, path, name, &texts, &count);
    *text = texts_take(texts, count);
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return status;
}

int h5_attribute_write_texts(hid_t file, const char *path, const char *name, int n,
                             const char *const *texts)
{
    size_t size = 1;
    hsize_t dim = (hsize_t)n;
    char *block;
    hid_t type, space, attribute;
    int status = 0;

    for (int i = 0; i < n; i++)
        if (strlen(texts[i]) + 1 > size)
            size = strlen(texts[i]) + 1;
    block = alloc_array((size_t)n, size, "an attribute");
    if (!block)
        return -1;
    for (int i = 0; i < n; i++)
        strcpy(block + (size_t)i * size, texts[i]);
    type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size);
    space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &dim, NULL);
    attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0 || H5Awrite(attribute, type, block) < 0)
        status = h5_error("%s: cannot write attribute '%s'", path, name);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    free(block);
    return status;
}

/* ---- writing ---- */

int h5_write_failed(const char *path)
{
    return h5_error("%s: cannot be written", path);
}

int h5_output_create(hid_t file, struct h5_output *o)
{
    hsize_t most[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
    hid_t links = H5Pcreate(H5P_LINK_CREATE), properties = H5Pcreate(H5P_DATASET_CREATE), space;
    int status = 0;

    memcpy(most, o->dim, sizeof most);
    memcpy(chunk, o->dim, sizeof chunk);
    most[0] = H5S_UNLIMITED;
    chunk[0] = o->chunk;
    space = H5Screate_simple(o->naxes, o->dim, o->chunk ? most : NULL);
    H5Pset_create_intermediate_group(links, 1);
    if (o->chunk)
        H5Pset_chunk(properties, o->naxes, chunk);
    if (o->gzip)
        H5Pset_deflate(properties, (unsigned)o->gzip);
    o->id = H5Dcreate2(file, o->name, o->type, space, links, properties, H5P_DEFAULT);
    if (o->id < 0)
        status = h5_error("%s: cannot make data set '%s'", o->path, o->name);
    H5Sclose(space);
    H5Pclose(properties);
    H5Pclose(links);
    return status;
}

int h5_output_write(struct h5_output *o, hsize_t first, hsize_t count, hid_t type,
                    const void *values)
{
    hsize_t begin[H5S_MAX_RANK] = {first}, size[H5S_MAX_RANK];
    hid_t to = -1, from = -1;
    int status = 0;

    memcpy(size, o->dim, sizeof size);
    size[0] = count;
    if (first + count > o->dim[0]) {
        o->dim[0] = first + count;
        status = H5Dset_extent(o->id, o->dim) < 0 ? h5_write_failed(o->path) : 0;
    }
    if (!status &&
        ((to = H5Dget_space(o->id)) < 0 || (from = H5Screate_simple(o->naxes, size, NULL)) < 0 ||
         H5Sselect_hyperslab(to, H5S_SELECT_SET, begin, NULL, size, NULL) < 0 ||
         H5Dwrite(o->id, type, from, to, H5P_DEFAULT, values) < 0))
        status = h5_write_failed(o->path);
    if (from >= 0)
        H5Sclose(from);
    if (to >= 0)
        H5Sclose(to);
    return status;
}

int h5_output_close(struct h5_output *o)
{
    hid_t id = o->id;

    o->id = -1;
    return id >= 0 && H5Dclose(id) < 0 ? h5_write_failed(o->path) : 0;
}
