/* EXIF data, in which cameras store the picture's orientation. EXIF is a TIFF file: "II" or "MM"
 * (byte order), 42, the offset of the entries, and entries of 12 bytes. */
#include "input/format/image_internal.h"

#include <string.h>

static unsigned number(const uint8_t *at, int bytes, bool little)
{
    unsigned n = 0;

    for (int i = 0; i < bytes; i++)
        n = n << 8 | at[little ? bytes - 1 - i : i];
    return n;
}

int exif_orientation(const uint8_t *at, size_t length)
{
    bool named = length >= 6 && memcmp(at, "Exif\0", 6) == 0, little;
    size_t begin, value;

    at += named ? 6 : 0;
    length -= named ? 6 : 0;
    little = length >= 8 && at[0] == 'I';
    begin = length >= 8 ? number(at + 4, 4, little) : length;
    if (begin + 2 > length || (at[0] != 'I' && at[0] != 'M') || number(at + 2, 2, little) != 42)
        return 1;
    for (size_t i = 0, n = number(at + begin, 2, little); i < n; i++) {
        const uint8_t *entry = at + begin + 2 + 12 * i;

        if (begin + 2 + 12 * (i + 1) > length)
            return 1;
        value = number(entry + 8, 2, little);
        if (number(entry, 2, little) == 0x0112 && number(entry + 2, 2, little) == 3)
            return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
