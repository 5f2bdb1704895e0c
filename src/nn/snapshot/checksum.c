/* Writes the bytes of snapshots with their CRC-32C, and compares the CRC of an HDF5 snapshot, which
 * stands on a line behind the end of the HDF5 file, where HDF5 does not look. The HDF5 library
 * follows whatever a damaged file says; the checksum shows damage before the library reads. */
#include "snapshot/snapshot_internal.h"

#include "util/crc32c.h"
#include "util/error.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define CHECKSUM_WORD "\nposeidon crc32c "
#define PIECE         4096 /* floats converted at a time */

int snapshot_output_open(const char *path, struct snapshot_output *to)
{
    int status = file_writer_open(&to->file, path);

    to->file.unsynced = true;
    to->sum = 0;
    return status;
}

void snapshot_put(struct snapshot_output *to, const void *bytes, size_t count)
{
    file_writer_put(&to->file, bytes, count);
    to->sum = crc32c(to->sum, bytes, count);
}

void snapshot_put_floats(struct snapshot_output *to, const float *values, size_t count)
{
    uint32_t bits[PIECE];

    for (size_t done = 0, n; done < count; done += n) {
        n = count - done < PIECE ? count - done : PIECE;
        memcpy(bits, values + done, n * sizeof *bits);
        for (size_t i = 0; i < n; i++)
            bits[i] = htole32(bits[i]);
        snapshot_put(to, bits, n * sizeof *bits);
    }
}

int snapshot_output_close(struct snapshot_output *to, int status, const char *what)
{
    if (file_writer_close(&to->file, status) == 0)
        return 0;
    error_context("the %s cannot be saved", what);
    return SNAPSHOT_NOT_WRITTEN;
}

void checksum_line(uint32_t sum, char line[CHECKSUM_BYTES + 1])
{
    snprintf(line, CHECKSUM_BYTES + 1, "%s%08" PRIx32, CHECKSUM_WORD, sum);
}

static int compare_sums(FILE *file, const char *path)
{
    char found[CHECKSUM_BYTES + 1] = "", expected[CHECKSUM_BYTES + 1], block[65536];
    uint64_t end; /* HDF5's own end, by its superblock of version 0, which we write */
    uint32_t sum = 0;
    long length;

    if (fread(block, 1, 48, file) != 48 || fseek(file, -(long)CHECKSUM_BYTES, SEEK_END) ||
        (length = ftell(file)) < 0 || fread(found, 1, CHECKSUM_BYTES, file) != CHECKSUM_BYTES)
        return 0;
    memcpy(&end, block + 40, sizeof end);
    if (strncmp(found, CHECKSUM_WORD, strlen(CHECKSUM_WORD)) && le64toh(end) != (uint64_t)length)
        return 0;
    rewind(file);
    while (length > 0) {
        size_t n =
            fread(block, 1, length < (long)sizeof block ? (size_t)length : sizeof block, file);
        if (n == 0)
            return 0;
        sum = crc32c(sum, block, n);
        length -= (long)n;
    }
    checksum_line(sum, expected);
    if (!strcmp(found, expected))
        return 0;
    return error_set("%s: damaged: its CRC-32C is not what was written; use an older snapshot",
                     path);
}

int checksum_check(const char *path)
{
    FILE *file = file_open_stream(path);
    int status = file ? compare_sums(file, path) : 0;

    if (file)
        fclose(file);
    return status;
}
