/* Decodes LZF chunks. A chunk is a sequence of runs. The first byte of a run, `control`, is below
 * 32 for control + 1 bytes that follow as they are. Else bytes of the output are repeated: the
 * upper three bits are their number - 2, to which the next byte is added if all three are set; the
 * lower five bits and the next byte are their distance - 1. (Format: LibLZF 3.) */
#include "spec/h5_lzf.h"

#include <hdf5.h>
#include <string.h>

enum { LZF = 32000, LITERALS = 32, LONG = 7 };

#define FULL       ((size_t)-1)      /* result of decode: `room` is too small */
#define MOST_BYTES ((size_t)1 << 30) /* limit of a chunk */

/* Returns the bytes written to `out`, FULL, or 0 for a damaged chunk. */
static size_t decode(const unsigned char *in, size_t n, unsigned char *out, size_t room)
{
    size_t at = 0, done = 0;

    while (at < n) {
        size_t control = in[at++], count = control + 1, back = 0;

        if (control >= LITERALS) {
            count = control / LITERALS + 2;
            if (control / LITERALS == LONG)
                count += at < n ? in[at++] : 0;
            if (at == n)
                return 0;
            back = (control % LITERALS << 8) + in[at++] + 1;
        }
        if (back ? back > done : count > n - at)
            return 0;
        if (count > room - done)
            return FULL;
        if (!back) {
            memcpy(out + done, in + at, count);
            at += count;
        }
        for (size_t i = 0; back && i < count; i++) /* may overlap what it writes */
            out[done + i] = out[done + i - back];
        done += count;
    }
    return done;
}

/* An H5Z_func_t. values[2]: bytes of a whole chunk, if there. Only decodes. */
static size_t filter(unsigned flags, size_t nvalues, const unsigned values[], size_t nbytes,
                     size_t *size, void **buffer)
{
    size_t room = nvalues > 2 && values[2] > 0 ? values[2] : 4 * nbytes, done = FULL;
    void *out = NULL;

    if (!(flags & H5Z_FLAG_REVERSE))
        return 0;
    for (; done == FULL && room <= MOST_BYTES; room *= 2) {
        H5free_memory(out);
        out = H5allocate_memory(room, false);
        *size = room;
        done = out ? decode(*buffer, nbytes, out, room) : 0;
    }
    if (done == FULL || done == 0) {
        H5free_memory(out);
        return 0;
    }
    H5free_memory(*buffer);
    *buffer = out;
    return done;
}

void h5_lzf_register(void)
{
    static const H5Z_class2_t lzf = {.version = H5Z_CLASS_T_VERS,
                                     .id = LZF,
                                     .decoder_present = 1,
                                     .name = "lzf",
                                     .filter = filter};

    (void)H5Zregister(&lzf); /* if this fails, filters_check names the filter */
}
