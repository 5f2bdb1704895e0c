/* HDF5 behind one lock, with errors that say what is wrong with the file.
 *
 * HDF5 is thread-safe only in some builds, and the feeder's thread reads while the main thread may
 * write a snapshot. So every HDF5 call of the process is made between h5_lock and h5_unlock; the
 * functions below expect the lock held unless they say otherwise. Not collective. */
#ifndef POSEIDON_UTIL_H5_H
#define POSEIDON_UTIL_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

/* A data set that is open for reading, with what its users ask about. */
struct h5_dataset {
    hid_t id;                /* negative: not open */
    const char *path, *name; /* borrowed; for messages */
    int naxes;               /* 0 for a scalar */
    hsize_t dim[H5S_MAX_RANK];
    bool is_u8; /* stored as unsigned 8-bit integers */
};

/* Takes and releases the process-wide lock; not recursive. Taking it also silences HDF5's automatic
 * error printing for the calling thread. */
void h5_lock(void);
void h5_unlock(void);

/* error_set with what HDF5 says about the call that just failed, the innermost description, in
 * brackets behind it; returns -1. */
int h5_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens a file for reading. Messages tell apart: no such file (with the current folder where the
 * path is relative), a folder, no permission, empty, not HDF5, truncated, damaged. */
int h5_file_open(const char *path, hid_t *out);

/* Opens a data set of integers, floats or an enumeration (numpy's bool) for reading. path and name
 * are kept, not copied. Where it is missing the message lists what the file holds. The chunk cache
 * is sized so that reading record after record decompresses every chunk once. On failure out->id is
 * negative. */
int h5_dataset_open(hid_t file, const char *path, const char *name, struct h5_dataset *out);
void h5_dataset_close(struct h5_dataset *dataset);

/* Reads [first, first + count) of the first axis as memory type `type` (H5T_NATIVE_FLOAT, ...). */
int h5_dataset_read(const struct h5_dataset *dataset, hsize_t first, hsize_t count, hid_t type,
                    void *out);

/* Its records are to be read in a random order: the chunk cache becomes as large as it may be, so
 * that a chunk is not decompressed for each of its records. `file` is the one it was opened in. */
int h5_dataset_scatter(hid_t file, struct h5_dataset *dataset);

/* The system may fetch these from the disk ahead, where they lie in one piece: not in chunks. */
void h5_dataset_expect(const struct h5_dataset *dataset, hsize_t first, hsize_t count);

/* Reads all of it. */
int h5_dataset_read_all(const struct h5_dataset *dataset, hid_t type, void *out);

/* Texts below are of fixed length, as Caffe's and ours are, or of variable length, as h5py's. Each,
 * and the array of several, is the caller's to free, also on failure. */

/* An attribute of the file; *text is NULL where there is none. */
int h5_attribute_read_text(hid_t file, const char *path, const char *name, char **text);

/* An attribute that is an array of them: *count, 0 where there is none. Names may be added to the
 * array by ALLOC_ROOM. */
int h5_attribute_read_texts(hid_t file, const char *path, const char *name, char ***texts,
                            int *count);

/* A data set that is one text. */
int h5_dataset_read_text(hid_t file, const char *path, const char *name, char **text);

/* Writes an attribute: one text, or an array of n, of the length of the longest. */
int h5_attribute_write_texts(hid_t file, const char *path, const char *name, int n,
                             const char *const *texts);

/* A data set that is written, of at least one axis. */
struct h5_output {
    const char *path, *name; /* borrowed; for messages. A slash in the name makes a group */
    hid_t type;              /* in the file */
    int naxes;
    hsize_t dim[H5S_MAX_RANK];
    hsize_t chunk; /* rows of a chunk, in which it grows along its first axis; 0: it keeps dim */
    int gzip;      /* of chunks: 0, or 1..9 */
    hid_t id;      /* negative: not open */
};

/* Makes it; on failure output->id is negative. */
int h5_output_create(hid_t file, struct h5_output *output);

/* Writes [first, first + count) of the first axis from memory type `type`. */
int h5_output_write(struct h5_output *output, hsize_t first, hsize_t count, hid_t type,
                    const void *values);

/* Returns 0 where it is not open. */
int h5_output_close(struct h5_output *output);

/* The message that PATH cannot be written, with HDF5's reason: to be called before anything else of
 * HDF5, for every call forgets the error of the one before. Returns -1. */
int h5_write_failed(const char *path);

/* "60000x1x28x28"; "scalar". Returns buffer. */
const char *h5_shape_text(const struct h5_dataset *dataset, char *buffer, size_t size);

#endif
