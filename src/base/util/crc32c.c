/* CRC-32C, by the instruction of x86 processors since 2008, or by a table for four bits. */
#include "util/crc32c.h"

#include <string.h>
#if defined __x86_64__ && defined __GNUC__
#include <nmmintrin.h>
#endif

uint32_t crc32c_plain(uint32_t sum, const void *data, size_t bytes)
{
    /* remainders of 0 to 15 by the polynomial 1EDC6F41, whose bits stand in reverse order */
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const unsigned char *p = data;

    for (sum = ~sum; bytes > 0; bytes--) {
        sum ^= *p++;
        sum = sum >> 4 ^ table[sum & 15];
        sum = sum >> 4 ^ table[sum & 15];
    }
    return ~sum;
}

#if defined __x86_64__ && defined __GNUC__
__attribute__((target("sse4.2"))) static uint32_t
crc32c_fast(uint32_t sum, const unsigned char *data, size_t bytes)
{
    uint64_t state = (uint32_t)~sum, word;

    for (; bytes >= sizeof word; bytes -= sizeof word, data += sizeof word) {
        memcpy(&word, data, sizeof word);
        state = _mm_crc32_u64(state, word);
    }
    for (; bytes > 0; bytes--)
        state = _mm_crc32_u8((uint32_t)state, *data++);
    return ~(uint32_t)state;
}
#endif

uint32_t crc32c(uint32_t sum, const void *data, size_t bytes)
{
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("sse4.2"))
        return crc32c_fast(sum, data, bytes);
#endif
    return crc32c_plain(sum, data, bytes);
}
