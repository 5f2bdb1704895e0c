/* The checksum of an HDF5 snapshot: its SHA-256, on a line behind the end of the HDF5 file, where
 * HDF5 does not look. The library follows whatever a damaged file says; with the checksum, damage
 * is found before it reads. */
#ifndef POSEIDON_SNAPSHOT_CHECKSUM_H
#define POSEIDON_SNAPSHOT_CHECKSUM_H

#include <stddef.h>

#define CHECKSUM_BYTES 81

/* The checksum of `length` bytes, CHECKSUM_BYTES of text and a NUL. */
void checksum_line(const void *bytes, size_t length, char line[CHECKSUM_BYTES + 1]);

/* Fails where the file's contents are not those that its checksum was made of. A file without one
 * (Caffe's) passes, and one that cannot be read: who reads it says why. */
int checksum_check(const char *path);

#endif
