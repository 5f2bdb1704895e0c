/* Checksum of an HDF5 snapshot: its SHA-256, on a line behind the end of the HDF5 file, where HDF5
 * does not look. The HDF5 library follows whatever a damaged file says; the checksum shows damage
 * before the library reads. */
#include "snapshot/snapshot_internal.h"

#include "util/error.h"
#include "util/file.h"
#include "util/sha256.h"

#include <stdio.h>
#include <string.h>

#define CHECKSUM_WORD "\nposeidon sha256 "

static void make_line(struct sha256 *hash, char line[CHECKSUM_BYTES + 1])
{
    char hex[SHA256_HEX];

    sha256_final_hex(hash, hex);
    snprintf(line, CHECKSUM_BYTES + 1, "%s%s", CHECKSUM_WORD, hex);
}

void checksum_line(const void *bytes, size_t length, char line[CHECKSUM_BYTES + 1])
{
    struct sha256 hash;

    sha256_init(&hash);
    sha256_update(&hash, bytes, length);
    make_line(&hash, line);
}

static int compare_sums(FILE *file, const char *path)
{
    struct sha256 hash;
    char found[CHECKSUM_BYTES + 1] = "", expected[CHECKSUM_BYTES + 1], block[65536];
    long length;

    if (fseek(file, -(long)CHECKSUM_BYTES, SEEK_END) || (length = ftell(file)) < 0 ||
        fread(found, 1, CHECKSUM_BYTES, file) != CHECKSUM_BYTES ||
        strncmp(found, CHECKSUM_WORD, strlen(CHECKSUM_WORD)))
        return 0;
    rewind(file);
    sha256_init(&hash);
    while (length > 0) {
        size_t n =
            fread(block, 1, length < (long)sizeof block ? (size_t)length : sizeof block, file);
        if (n == 0)
            return 0;
        sha256_update(&hash, block, n);
        length -= (long)n;
    }
    make_line(&hash, expected);
    if (!strcmp(found, expected))
        return 0;
    return error_set(
        "%s: damaged: its SHA-256 is %.12s..., but %.12s... was written; use an older snapshot",
        path, expected + strlen(CHECKSUM_WORD), found + strlen(CHECKSUM_WORD));
}

int checksum_check(const char *path)
{
    FILE *file = file_open_stream(path);
    int status = file ? compare_sums(file, path) : 0;

    if (file)
        fclose(file);
    return status;
}
