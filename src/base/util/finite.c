/* Finds NaN and infinite values. The trick: read as an integer and without its sign, a float that
 * is not finite is at least infinity; vector instructions find the largest of a block. */
#include "util/finite.h"

#include "util/error.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024, INFINITE_BITS = 0x7f800000 };

static int is_finite_block(const float *values)
{
    uint32_t bits[BLOCK], most = 0;

    memcpy(bits, values, sizeof bits);
    for (int i = 0; i < BLOCK; i++) {
        uint32_t size = bits[i] & INT32_MAX;
        most = size > most ? size : most;
    }
    return most < INFINITE_BITS;
}

size_t finite_begin(const float *values, size_t count)
{
    size_t at = 0;

    while (count - at >= BLOCK && is_finite_block(values + at))
        at += BLOCK;
    while (at < count && isfinite(values[at]))
        at++;
    return at;
}

static int refuse(const float *values, size_t count)
{
    size_t first = finite_begin(values, count), bad = 0;

    for (size_t i = first; i < count; i++)
        bad += !isfinite(values[i]);
    return error_set("%zu of %zu values %s not finite, the first of them %g at %zu", bad, count,
                     bad == 1 ? "is" : "are", (double)values[first], first);
}

int finite_copy(float *to, const float *values, size_t count)
{
    for (size_t at = 0, n; at < count; at += n) {
        n = count - at < BLOCK ? count - at : BLOCK;
        if (to)
            memcpy(to + at, values + at, n * sizeof *to);
        if (finite_begin(values + at, n) < n)
            return refuse(values, count);
    }
    return 0;
}
