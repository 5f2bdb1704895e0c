/* Memory that grows, and whole files in it. */
#define _GNU_SOURCE
#include "input/format/bytes.h"

#include "util/error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int bytes_reserve(struct bytes *bytes, size_t capacity, const char *what)
{
    size_t wanted = capacity > bytes->capacity + bytes->capacity / 2
                        ? capacity
                        : bytes->capacity + bytes->capacity / 2;
    uint8_t *grown;

    if (capacity <= bytes->capacity && bytes->data)
        return 0;
    grown = realloc(bytes->data, wanted ? wanted : 1);
    if (!grown)
        return error_memory(wanted, what);
    bytes->data = grown;
    bytes->capacity = wanted;
    return 0;
}

int bytes_append(struct bytes *bytes, const void *data, size_t length, const char *what)
{
    if (length > SIZE_MAX - bytes->length)
        return error_memory(SIZE_MAX, what);
    if (bytes_reserve(bytes, bytes->length + length, what))
        return -1;
    if (length > 0)
        memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
    return 0;
}

/* Reads until the file's end, which may have moved since its size was asked. */
static int load_all(struct bytes *bytes, int fd, const char *path, size_t max)
{
    for (;;) {
        ssize_t got;

        if (bytes_reserve(bytes, bytes->length + 1, path))
            return -1;
        got = TEMP_FAILURE_RETRY(
            read(fd, bytes->data + bytes->length, bytes->capacity - bytes->length));
        if (got < 0)
            return error_set("%s: cannot be read at offset %zu: %s", path, bytes->length,
                             strerror(errno));
        if (got == 0)
            return 0;
        bytes->length += (size_t)got;
        if (bytes->length > max)
            return error_set("%s: larger than %zu bytes", path, max);
    }
}

int bytes_load(struct bytes *bytes, const char *path, size_t max)
{
    struct stat st;
    int fd, status;

    bytes->length = 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_set("%s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0)
        status = error_set("%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        status = error_set("%s is a folder; expected a file", path);
    else if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
        status =
            error_set("%s: %lld bytes; expected at most %zu", path, (long long)st.st_size, max);
    else
        status = bytes_reserve(bytes, (S_ISREG(st.st_mode) ? (size_t)st.st_size : 0) + 1, path) ||
                         load_all(bytes, fd, path, max)
                     ? -1
                     : 0;
    close(fd);
    return status;
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){0};
}
