/* Recognises files by magic numbers; zip archives, pickles and a few more by a closer look. */
#include "util/file_kind.h"

#include "util/error.h"
#include "util/utf8.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#define BY_SAFETENSORS " as .safetensors, which tools/weights.py converts to a model"

#define UTF16 "UTF-16 text: save it as UTF-8"

static const struct magic {
    const char *kind, *text;
    size_t at, n;
} magics[] = {
    {"a Git LFS pointer, not the file itself: fetch it with 'git lfs pull'",
     "version https://git-lfs", 0, 23},
    {"a gzip archive: unpack it with gunzip", "\x1f\x8b", 0, 2},
    {"a bzip2 archive: unpack it with bunzip2", "BZh", 0, 3},
    {"an xz archive: unpack it with unxz",
     "\xfd"
     "7zXZ",
     0, 5},
    {"a Zstandard archive: unpack it with unzstd", "\x28\xb5\x2f\xfd", 0, 4},
    {"a NumPy array (.npy): save weights" BY_SAFETENSORS
     ", and a mean image or data as an HDF5 data set",
     "\x93NUMPY", 0, 6},
    {"an HDF5 file", "\x89HDF\r\n\x1a\n", 0, 8},
    {"an LMDB file", "\xde\xc0\xef\xbe", 16, 4},
    {"a program",
     "\x7f"
     "ELF",
     0, 4},
    {UTF16, "\xff\xfe", 0, 2},
    {UTF16, "\xfe\xff", 0, 2},
    {"a JPEG picture", "\xff\xd8\xff", 0, 3},
    {"a PNG picture", "\x89PNG", 0, 4},
    {"a GIF picture", "GIF8", 0, 4},
    {"a TIFF picture", "II*\0", 0, 4},
    {"a TIFF picture", "MM\0*", 0, 4},
    {"a WebP picture", "WEBP", 8, 4},
    {"a JPEG 2000 picture", "jP  ", 4, 4},
    {"an AVIF picture", "ftypavi", 4, 7},
    {"a HEIF picture", "ftyphe", 4, 6},
    {"a HEIF picture", "ftypmif", 4, 7},
    {"a HEIF picture", "ftypmsf", 4, 7},
    {"a film (MP4)", "ftyp", 4, 4},
    {"an ICO picture", "\0\0\1\0", 0, 4},
    {"a PSD picture", "8BPS", 0, 4},
    {"a PDF document", "%PDF", 0, 4},
    {"a swap file of Vim", "b0VIM ", 0, 6},
    {"a zip archive without files", "PK\5\6", 0, 4},
    {"a PNM picture", "P5\n", 0, 3},
    {"a PNM picture", "P6\n", 0, 3},
    {"a label map of an object detector: write its display_name values, one a line", "item {", 0,
     6},
};

/* Returns the kind of a zip archive, whose first file's name begins at byte 30. */
static const char *zip_kind(const char *head)
{
    if (strstr(head + 30, ".npy"))
        return "a NumPy archive (.npz): save its arrays" BY_SAFETENSORS;
    if (strstr(head + 30, "metadata.json") || strstr(head + 30, "config.json"))
        return "a Keras model: save its weights" BY_SAFETENSORS;
    return strstr(head + 30, ".pkl") || strstr(head + 30, "/data")
               ? "a PyTorch file (.pth): save its state_dict" BY_SAFETENSORS
               : "a zip archive: unpack it with unzip";
}

/* Returns true for Caffe2's NetDef: a name, then operators of inputs (1), outputs (2), a name (3),
 * a type (4) and arguments (5), all texts or messages. Field 5 of old Caffe layers is a number. */
static bool is_caffe2(const unsigned char *head, size_t n)
{
    size_t at = head[0] == 0x0a ? 2 + (size_t)head[1] : 0;

    if (strstr((const char *)head, "\nop {") || !strncmp((const char *)head, "op {", 4))
        return true;
    if (at >= n || head[at] != 0x12)
        return false;
    for (at += head[at + 1] < 0x80 ? 2 : 3; at < n && (head[at] & 7) == 2 && head[at] < 0x2a;)
        at += 2 + (size_t)head[at + 1];
    return at < n && head[at] == 0x2a;
}

const char *file_kind_of(const void *begin, size_t bytes)
{
    unsigned char head[FILE_KIND_BYTES] = {0};
    const char *text = (char *)head;
    size_t n = bytes < sizeof head ? bytes : sizeof head - 1;

    if (n == 0)
        return "an empty file";
    memcpy(head, begin, n);
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (n >= magics[i].at + magics[i].n &&
            !memcmp(head + magics[i].at, magics[i].text, magics[i].n))
            return magics[i].kind;
    if (!memcmp(head, "BM", 2) && n > 10 && !memcmp(head + 6, "\0\0\0\0", 4))
        return "a BMP picture";
    if (is_caffe2(head, n))
        return FILE_KIND_CAFFE2;
    if (n > 4 && isprint(head[0]) && isprint(head[2]) && !head[1] && !head[3])
        return UTF16;
    text += utf8_mark(text);
    text += strspn(text, " \t\r\n");
    if (!strncasecmp(text, "<!doctype html", 14) || !strncasecmp(text, "<html", 5))
        return "an HTML page, which a server sent instead of the file";
    if (n > 34 && !memcmp(head, "PK\3\4", 4))
        return zip_kind((char *)head);
    if (n > 2 && head[0] == 0x80 && head[1] >= 2 && head[1] <= 5)
        return "a Python pickle, such as an old PyTorch file (.pth): save its "
               "state_dict" BY_SAFETENSORS;
    return n > 9 && head[8] == '{' && strchr("\" \n}", head[9]) && !head[7] && !head[6] && !head[5]
               ? "a safetensors file: convert it with 'python3 tools/weights.py IN "
                 "OUT.caffemodel.h5'"
               : NULL;
}

const char *file_kind(const char *path)
{
    struct stat st;
    bool plain = stat(path, &st) == 0 && S_ISREG(st.st_mode);
    FILE *file = plain ? fopen(path, "rb") : NULL;
    char head[FILE_KIND_BYTES] = {0};
    const char *kind = file ? file_kind_of(head, fread(head, 1, sizeof head, file)) : NULL;

    if (file)
        fclose(file);
    return kind;
}

int file_kind_error(const char *path, const char *expected)
{
    const char *kind = file_kind(path);

    return kind && strncmp(kind, expected, strlen(expected)) != 0
               ? error_set("%s: expected %s, found %s", path, expected, kind)
               : -1;
}
