/* Files that appear whole or not at all. */
#include "util/file.h"

#include "util/error.h"
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

/* The entry of a renamed file is safe only once its folder is. File systems that cannot sync a
 * folder (EINVAL on some network ones) give no better guarantee, so that is no failure. */
static int sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct strbuf folder = {0};
    int fd, status = 0;

    if (slash == NULL)
        strbuf_puts(&folder, ".");
    else
        strbuf_append(&folder, path, slash == path ? 1 : (size_t)(slash - path));
    if (strbuf_status(&folder)) {
        strbuf_free(&folder);
        return -1;
    }
    fd = open(strbuf_text(&folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL && errno != ENOTSUP))
        status = error_set("cannot force the folder '%s' to the disk: %s", strbuf_text(&folder),
                           strerror(errno));
    if (fd >= 0)
        close(fd);
    strbuf_free(&folder);
    return status;
}

static int sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), status = 0;

    if (fd < 0 || fsync(fd) != 0)
        status = error_set("cannot force '%s' to the disk: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return status;
}

int file_commit(const char *temp, const char *path)
{
    if (sync_file(temp))
        goto fail;
    if (rename(temp, path) != 0) {
        error_set("cannot rename '%s' to '%s': %s", temp, path, strerror(errno));
        goto fail;
    }
    return sync_folder_of(path);

fail:
    unlink(temp);
    return -1;
}

int file_probe(const char *path)
{
    char *temp = file_temp_name(path);
    int fd, status = 0;

    if (temp == NULL)
        return -1;
    fd = open(temp, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
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
        ssize_t n = write(fd, data, length);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data += n;
        length -= (size_t)n;
    }
    return 0;
}

int file_write(const char *path, const void *data, size_t length)
{
    char *temp = file_temp_name(path);
    int fd = -1, status = -1;

    if (temp == NULL)
        return -1;
    fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        error_set("cannot write '%s': %s", path, strerror(errno));
        goto done;
    }
    if (write_all(fd, data, length) != 0) {
        error_set("cannot write %zu bytes to '%s': %s", length, path, strerror(errno));
        goto done;
    }
    if (close(fd) != 0) {
        fd = -1;
        error_set("cannot write '%s': %s", path, strerror(errno));
        goto done;
    }
    fd = -1;
    status = file_commit(temp, path);

done:
    if (fd >= 0)
        close(fd);
    if (status)
        unlink(temp);
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
