/* Sealing and checking. */
#include "snapshot/checksum.h"

#include "util/error.h"
#include "util/sha256.h"

#include <stdio.h>
#include <string.h>

#define SEAL_WORD "\nposeidon sha256 "

static void finish(struct sha256 *hash, char line[SEAL_BYTES + 1])
{
    char hex[SHA256_HEX];

    sha256_final_hex(hash, hex);
    snprintf(line, SEAL_BYTES + 1, "%s%s", SEAL_WORD, hex);
}

void seal_write(void *bytes, size_t length)
{
    struct sha256 hash;
    char line[SEAL_BYTES + 1];

    sha256_init(&hash);
    sha256_update(&hash, bytes, length);
    finish(&hash, line);
    memcpy((char *)bytes + length, line, SEAL_BYTES);
}

static int check(FILE *file, const char *path)
{
    struct sha256 hash;
    char found[SEAL_BYTES + 1] = "", expected[SEAL_BYTES + 1], block[65536];
    long length;

    if (fseek(file, -(long)SEAL_BYTES, SEEK_END) || (length = ftell(file)) < 0 ||
        fread(found, 1, SEAL_BYTES, file) != SEAL_BYTES ||
        strncmp(found, SEAL_WORD, strlen(SEAL_WORD)))
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
    finish(&hash, expected);
    if (!strcmp(found, expected))
        return 0;
    return error_set(
        "%s: damaged: its SHA-256 is %.12s..., and %.12s... was written; use an older snapshot",
        path, expected + strlen(SEAL_WORD), found + strlen(SEAL_WORD));
}

int seal_check(const char *path)
{
    FILE *file = fopen(path, "rb");
    int status = file ? check(file, path) : 0;

    if (file)
        fclose(file);
    return status;
}
