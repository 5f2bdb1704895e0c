/* zlib reads plain files too. A short read of zlib may be the end or a cut gzip file: only its
 * error state tells, also at what looks like a clean end. */
#include "convert/gzfile.h"

#include "util/error.h"
#include "util/file_kind.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

static int stream_error(gzFile file, const char *path, size_t offset)
{
    int code = Z_OK;
    const char *text = gzerror(file, &code);

    if (code == Z_OK || code == Z_STREAM_END)
        return 0;
    if (code == Z_BUF_ERROR)
        return error_set("%s: truncated gzip file; its data end at offset %zu", path, offset);
    if (code == Z_ERRNO)
        return error_set("%s: cannot be read at offset %zu: %s", path, offset, strerror(errno));
    return error_set("%s: damaged gzip data after offset %zu (%s)", path, offset, text);
}

int gzfile_read(const char *path, struct strbuf *out)
{
    enum { PIECE = 1 << 20 };
    struct stat st;
    gzFile file;
    int n = PIECE, status = 0;

    if (stat(path, &st) != 0)
        return error_set("%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return error_set("%s is a folder; expected a file", path);
    errno = 0;
    file = gzopen(path, "rb");
    if (!file)
        return error_set("%s: %s", path, errno ? strerror(errno) : "out of memory");
    while (n == PIECE && !status) {
        status = strbuf_reserve(out, out->length + PIECE, path);
        n = status ? 0 : gzread(file, out->bytes + out->length, PIECE);
        out->length += n > 0 ? (size_t)n : 0;
    }
    if (!status)
        status = stream_error(file, path, out->length);
    if (!status && out->length > 0 && out->length < 200 && file_kind_of(out->bytes, out->length))
        status =
            error_set("%s: expected data, found %s", path, file_kind_of(out->bytes, out->length));
    gzclose_r(file);
    return status;
}
