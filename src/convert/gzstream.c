/* zlib reads plain files too, so one stream serves both. A short read of zlib may be the end or a
 * cut gzip file: only its error state tells, also at what looks like a clean end. */
#include "convert/gzstream.h"

#include "util/error.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>

#define READ_MAX ((size_t)1 << 30) /* gzread counts in int */

int gzstream_open(struct gzstream *s, const char *path)
{
    struct stat st;

    *s = (struct gzstream){0};
    if (stat(path, &st) != 0)
        return error_set("%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return error_set("%s is a folder; expected a file", path);
    s->path = strdup(path);
    if (!s->path)
        return error_memory(strlen(path), "a file name");
    errno = 0;
    s->file = gzopen(path, "rb");
    if (!s->file) {
        error_set("%s: %s", path, errno ? strerror(errno) : "out of memory");
        gzstream_close(s);
        return -1;
    }
    gzbuffer(s->file, 1 << 18);
    return 0;
}

void gzstream_close(struct gzstream *s)
{
    if (s->file)
        gzclose_r(s->file);
    free(s->path);
    *s = (struct gzstream){0};
}

static int stream_error(struct gzstream *s)
{
    int code = Z_OK;
    const char *text = gzerror(s->file, &code);

    if (code == Z_OK || code == Z_STREAM_END)
        return 0;
    if (code == Z_BUF_ERROR)
        return error_set("%s: truncated gzip file; its data end at offset %llu", s->path,
                         (unsigned long long)s->offset);
    if (code == Z_ERRNO)
        return error_set("%s: cannot be read at offset %llu: %s", s->path,
                         (unsigned long long)s->offset, strerror(errno));
    return error_set("%s: damaged gzip data after offset %llu (%s)", s->path,
                     (unsigned long long)s->offset, text);
}

int gzstream_read_some(struct gzstream *s, void *out, size_t length, size_t *got)
{
    *got = 0;
    while (*got < length) {
        size_t piece = length - *got < READ_MAX ? length - *got : READ_MAX;
        int n = gzread(s->file, (char *)out + *got, (unsigned)piece);

        if (n > 0) {
            *got += (size_t)n;
            s->offset += (uint64_t)n;
        }
        if (n < (int)piece)
            return stream_error(s);
    }
    return 0;
}

int gzstream_read(struct gzstream *s, void *out, size_t length, const char *what)
{
    size_t got;

    if (gzstream_read_some(s, out, length, &got))
        return error_context("reading %s", what);
    if (got < length)
        return error_set("%s: truncated at offset %llu, %zu bytes into the %zu bytes of %s",
                         s->path, (unsigned long long)s->offset, got, length, what);
    return 0;
}

int gzstream_expect_end(struct gzstream *s, const char *what)
{
    char byte;
    size_t got;

    if (gzstream_read_some(s, &byte, 1, &got))
        return -1;
    if (got)
        return error_set("%s: extra bytes after %s, from offset %llu on", s->path, what,
                         (unsigned long long)s->offset - 1);
    return 0;
}
