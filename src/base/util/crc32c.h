/* CRC-32C (Castagnoli's polynomial; RFC 3720, 12.1 and B.4): the checksum of snapshots. */
#ifndef POSEIDON_UTIL_CRC32C_H
#define POSEIDON_UTIL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of a sequence that ends with these bytes. sum: the checksum of what comes
 * before them; 0: nothing does. */
uint32_t crc32c(uint32_t sum, const void *data, size_t bytes);

/* Returns what crc32c returns, without the processor's instruction. */
uint32_t crc32c_plain(uint32_t sum, const void *data, size_t bytes);

#endif
