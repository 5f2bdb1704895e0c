/* Reads whole files, and writes files that appear whole or not at all. */
#define _GNU_SOURCE
#include "util/file.h"

#include "util/alloc.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

char *file_temp_name(const char *path)
{
    struct strbuf name = {0};

    strbuf_printf(&name, "%s.tmp", path);
    return strbuf_take(&name);
}

enum { WRITER_BYTES = 1 << 16 };

/* Opens a file, again after a signal: some network file systems let signals interrupt open. */
static int open_again(const char *path, int flags)
{
    return (int)TEMP_FAILURE_RETRY(open(path, flags, 0666));
}

/* Forces a file to the disk; for a folder, flags is O_DIRECTORY and what is "the folder ". */
static int sync_path(const char *path, int flags, const char *what)
{
    int fd = open_again(path, O_RDONLY | O_CLOEXEC | flags), status = 0;

    if (fd < 0 ||
        (TEMP_FAILURE_RETRY(fsync(fd)) != 0 && !(flags && (errno == EINVAL || errno == ENOTSUP))))
        status = error_set("cannot force %s'%s' to the disk: %s", what, path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

/* Forces the folder of `path` to the disk, which makes a renamed file's entry safe. A file system
 * that cannot sync folders (EINVAL on some network file systems) is no failure. */
static int sync_folder_of(const char *path)
{
    char *folder = path_folder(path);
    int status = folder ? sync_path(folder, O_DIRECTORY, "the folder ") : -1;

    free(folder);
    return status;
}

int file_sync(const char *path)
{
    return error_status(sync_path(path, 0, "") || sync_folder_of(path));
}

/* Moves `temp` to `path`; on failure, also of an earlier step (`status`), removes it. */
static int move(const char *temp, const char *path, int status)
{
    if (!status && TEMP_FAILURE_RETRY(rename(temp, path)) != 0)
        status = error_set("cannot rename '%s' to '%s': %s", temp, path, strerror(errno));
    if (status)
        unlink(temp);
    return status;
}

int file_commit(const char *temp, const char *path)
{
    return error_status(move(temp, path, sync_path(temp, 0, "")) || sync_folder_of(path));
}

int file_probe(const char *path)
{
    char *temp = file_temp_name(path);
    int fd, status = 0;

    if (temp == NULL)
        return -1;
    fd = open_again(temp, O_WRONLY | O_CREAT | O_CLOEXEC);
    if (fd < 0)
        status = error_set("cannot write '%s': %s", path, strerror(errno));
    else
        unlink(temp);
    if (fd >= 0)
        close(fd);
    free(temp);
    return status;
}

static int write_all(int fd, const char *data, size_t length)
{
    while (length > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(write(fd, data, length));

        if (n < 0)
            return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

static void flush(struct file_writer *writer)
{
    if (!writer->error && write_all(writer->fd, writer->buffer, writer->used))
        writer->error = errno;
    writer->used = 0;
}

int file_writer_open(struct file_writer *writer, const char *path)
{
    *writer = (struct file_writer){.path = path, .fd = -1, .temp = file_temp_name(path)};
    if (!writer->temp)
        return -1;
    if (ALLOC(writer->buffer, WRITER_BYTES, path))
        return -1;
    writer->fd = open_again(writer->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC);
    return writer->fd < 0 ? error_set("cannot write '%s': %s", path, strerror(errno)) : 0;
}

void file_writer_put(struct file_writer *writer, const void *data, size_t length)
{
    if (length > WRITER_BYTES - writer->used)
        flush(writer);
    if (length > WRITER_BYTES) {
        if (!writer->error && write_all(writer->fd, data, length))
            writer->error = errno;
        return;
    }
    memcpy(writer->buffer + writer->used, data, length);
    writer->used += length;
}

/* Closes a written file. An interrupted close has closed the descriptor. */
static int close_written(int fd)
{
    return close(fd) == 0 || errno == EINTR ? 0 : -1;
}

int file_writer_close(struct file_writer *writer, int status)
{
    if (writer->fd >= 0) {
        flush(writer);
        if (close_written(writer->fd) && !writer->error)
            writer->error = errno;
        if (!status && writer->error)
            status = error_set("cannot write '%s': %s", writer->path, strerror(writer->error));
        status = status || writer->unsynced ? move(writer->temp, writer->path, status)
                                            : file_commit(writer->temp, writer->path);
    } else {
        status = -1;
    }
    free(writer->temp);
    free(writer->buffer);
    return status ? -1 : 0;
}

int file_write(const char *path, const void *data, size_t length)
{
    struct file_writer writer;
    int status = file_writer_open(&writer, path);

    if (!status)
        file_writer_put(&writer, data, length);
    return file_writer_close(&writer, status);
}

int file_write_text(const char *path, struct strbuf *text)
{
    int status = strbuf_status(text);

    if (!status)
        status = file_write(path, strbuf_text(text), text->length);
    strbuf_free(text);
    return status;
}

int file_check_special(const char *path)
{
    static const char *const given[] = {"/dev/fd/", "/dev/stdin", "/dev/null", "/proc/"};
    struct stat st;

    if (stat(path, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
        return 0;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        if (!strncmp(path, given[i], strlen(given[i])))
            return 0;
    return error_set("%s: not a regular file (a %s)", path,
                     S_ISFIFO(st.st_mode)   ? "FIFO"
                     : S_ISSOCK(st.st_mode) ? "socket"
                                            : "device");
}

int file_open_plain(const char *path)
{
    bool special = file_check_special(path) != 0;
    int fd = special ? -1 : open_again(path, O_RDONLY | O_CLOEXEC), code = special ? EINVAL : errno;

    if (fd < 0 && code == ENOENT)
        path_missing(path);
    else if (fd < 0 && !special)
        error_set("%s: cannot be opened: %s", path, strerror(code));
    errno = code;
    return fd;
}

FILE *file_open_stream(const char *path)
{
    int fd = file_open_plain(path);

    return fd < 0 ? NULL : fdopen(fd, "rb");
}

/* Reads until the file's end, which may have moved since its size was asked. */
static int load_all(struct strbuf *out, int fd, const char *path, size_t max)
{
    for (;;) {
        ssize_t got;

        if (strbuf_reserve(out, out->length + 2, path))
            return -1;
        got =
            TEMP_FAILURE_RETRY(read(fd, out->data + out->length, out->capacity - out->length - 1));
        if (got < 0)
            return error_set("%s: cannot be read at offset %zu: %s", path, out->length,
                             strerror(errno));
        out->data[out->length += (size_t)got] = '\0';
        if (got == 0)
            return 0;
        if (out->length > max)
            return error_set("%s: larger than %zu bytes", path, max);
    }
}

int file_load(struct strbuf *out, const char *path, size_t max)
{
    struct stat st;
    int fd, status;

    out->length = 0;
    fd = file_open_plain(path);
    if (fd < 0)
        return -1;
    if (fstat(fd, &st) != 0)
        status = error_set("%s: %s", path, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        status = error_set("%s is a folder; expected a file", path);
    else if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > max)
        status =
            error_set("%s: %lld bytes; expected at most %zu", path, (long long)st.st_size, max);
    else
        status = error_status(
            strbuf_reserve(out, (S_ISREG(st.st_mode) ? (size_t)st.st_size : 0) + 2, path) ||
            load_all(out, fd, path, max));
    close(fd);
    return status;
}

int file_copy(const char *from, const char *path)
{
    FILE *file = file_open_stream(from);
    struct file_writer writer;
    char block[1 << 14];
    size_t got;
    int status;

    if (!file)
        return -1;
    status = file_writer_open(&writer, path);
    while (!status && (got = fread(block, 1, sizeof block, file)) > 0)
        file_writer_put(&writer, block, got);
    if (!status && ferror(file))
        status = error_set("%s: cannot be read: %s", from, strerror(errno));
    fclose(file);
    return file_writer_close(&writer, status);
}

int file_link(const char *from, const char *path)
{
    char *temp = file_temp_name(path);
    int status;

    if (!temp)
        return -1;
    unlink(temp);
    status = link(from, temp) ? file_copy(from, path) : file_commit(temp, path);
    unlink(temp); /* if both names are one file already, rename leaves `temp` */
    free(temp);
    return status;
}

int64_t file_find_hdf5(FILE *file)
{
    static const char signature[8] = "\211HDF\r\n\032\n";
    char found[sizeof signature];

    for (int64_t at = 0; fseeko(file, (off_t)at, SEEK_SET) == 0; at = at > 0 ? 2 * at : 512) {
        if (fread(found, 1, sizeof found, file) < sizeof found)
            return -1;
        if (memcmp(found, signature, sizeof signature) == 0)
            return at;
    }
    return -1;
}

bool file_is_hdf5(const char *path)
{
    struct stat st;
    FILE *file = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
    bool is = file && file_find_hdf5(file) >= 0;

    if (file)
        fclose(file);
    return is;
}
