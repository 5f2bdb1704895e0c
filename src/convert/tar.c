/* Tar: 512-byte headers with octal numbers and a checksum, contents padded to 512 bytes, two zero
 * blocks at the end. Extended headers (pax, GNU long names) are members like any other here:
 * nothing that is looked for has a long name or size. */
#include "convert/tar.h"

#include "util/error.h"

#include <string.h>

#define BLOCK 512

/* ustar header: offset and length of what is needed. */
enum {
    NAME = 0,
    NAME_LENGTH = 100,
    SIZE = 124,
    SIZE_LENGTH = 12,
    CHECKSUM = 148,
    CHECKSUM_LENGTH = 8,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_LENGTH = 155
};

/* Octal digits between blanks and NULs. */
static int octal(const unsigned char *text, int length, uint64_t *out)
{
    int i = 0;

    *out = 0;
    while (i < length && text[i] == ' ')
        i++;
    if (i == length || text[i] < '0' || text[i] > '7')
        return -1;
    for (; i < length && text[i] >= '0' && text[i] <= '7'; i++)
        *out = *out * 8 + (uint64_t)(text[i] - '0');
    return i == length || text[i] == ' ' || text[i] == '\0' ? 0 : -1;
}

static bool all_zero(const unsigned char *block)
{
    for (int i = 0; i < BLOCK; i++)
        if (block[i])
            return false;
    return true;
}

/* The sum of all bytes with the checksum itself as blanks. */
static bool checksum_holds(const unsigned char *block)
{
    uint64_t stored, sum = 0;

    for (int i = 0; i < BLOCK; i++)
        sum += i >= CHECKSUM && i < CHECKSUM + CHECKSUM_LENGTH ? ' ' : block[i];
    return octal(block + CHECKSUM, CHECKSUM_LENGTH, &stored) == 0 && stored == sum;
}

static int read_to_end(struct gzstream *s)
{
    char buffer[16384];
    size_t got;

    do
        if (gzstream_read_some(s, buffer, sizeof buffer, &got))
            return -1;
    while (got);
    return 0;
}

static int field_copy(char *out, const unsigned char *field, int length)
{
    int n = (int)strnlen((const char *)field, (size_t)length);

    memcpy(out, field, (size_t)n);
    out[n] = '\0';
    return n;
}

int tar_next(struct gzstream *s, struct tar_member *member, bool *found)
{
    unsigned char block[BLOCK];
    unsigned long long at = s->offset;
    size_t got;
    int used = 0;

    *found = false;
    if (gzstream_read_some(s, block, BLOCK, &got))
        return error_context("reading a tar header");
    if (got < BLOCK)
        return error_set("%s: %s at offset %llu, %zu bytes into the %d bytes of a tar header",
                         s->path, at ? "truncated" : "not a tar archive: it ends", s->offset + 0ULL,
                         got, BLOCK);
    if (all_zero(block)) {
        if (gzstream_read(s, block, BLOCK, "the end of the tar archive"))
            return -1;
        if (!all_zero(block))
            return error_set("%s: damaged tar archive: half an end mark at offset %llu", s->path,
                             at);
        return read_to_end(s);
    }
    if (!checksum_holds(block))
        return error_set("%s: %s at offset %llu (wrong checksum)", s->path,
                         at ? "damaged tar header" : "not a tar archive: no tar header", at);
    if (octal(block + SIZE, SIZE_LENGTH, &member->size))
        return error_set("%s: damaged tar header at offset %llu (size)", s->path, at);
    if (memcmp(block + MAGIC, "ustar", 6) == 0 && block[PREFIX]) {
        used = field_copy(member->name, block + PREFIX, PREFIX_LENGTH);
        member->name[used++] = '/';
    }
    field_copy(member->name + used, block + NAME, NAME_LENGTH);
    member->is_file = block[TYPE] == '0' || block[TYPE] == '\0';
    *found = true;
    return 0;
}

int tar_finish(struct gzstream *s, const struct tar_member *member)
{
    return gzstream_skip(s, (BLOCK - member->size % BLOCK) % BLOCK, "padding in the tar archive");
}
