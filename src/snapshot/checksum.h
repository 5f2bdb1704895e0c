/* The seal of a snapshot: its SHA-256, on a line behind the end of the HDF5 file, where HDF5 does
 * not look. The library follows whatever a damaged file says; with the seal, damage is found before
 * it reads. */
#ifndef POSEIDON_SOLVER_SEAL_H
#define POSEIDON_SOLVER_SEAL_H

#include <stddef.h>

#define SEAL_BYTES 81

/* Writes the seal of `length` bytes behind them: there is room for SEAL_BYTES more. */
void seal_write(void *bytes, size_t length);

/* Fails where the file's contents are not those that its seal was made of. A file without a seal
 * (Caffe's) passes, and one that cannot be read: who reads it says why. */
int seal_check(const char *path);

#endif
