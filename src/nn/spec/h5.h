/* HDF5 behind one lock, with errors that say what is wrong with the file.
 *
 * HDF5 is thread-safe only in some builds, and the feeder's thread reads while the main thread may
 * write a snapshot. So every HDF5 call of the process is made between h5_lock and h5_unlock. A
 * function here expects the lock held unless its comment says otherwise. Not collective. */
#ifndef POSEIDON_SPEC_H5_H
#define POSEIDON_SPEC_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

/* A data set open for reading, with its shape and type. */
struct h5_dataset {
    hid_t id;                /* negative: not open */
    const char *path, *name; /* borrowed; for messages */
    int naxes;               /* number of axes; 0 for a scalar */
    hsize_t dim[H5S_MAX_RANK];
    bool is_u8; /* stored as unsigned 8-bit integers */
};

/* Take and release the process-wide lock, which is not recursive. h5_lock also silences HDF5's
 * automatic error printing for the calling thread. */
void h5_lock(void);
void h5_unlock(void);

/* Sets the message like error_set, followed in brackets by HDF5's innermost reason for the call
 * that just failed. Returns -1. */
int h5_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Opens a file for reading. Messages distinguish: no such file (with the current folder if the path
 * is relative), a folder, no permission, empty, not HDF5, truncated, damaged. */
int h5_file_open(const char *path, hid_t *out);

/* Opens a data set of integers, floats or an enumeration (numpy's bool) for reading. Borrows `path`
 * and `name`. If the data set is missing, the message lists what the file holds. The chunk cache is
 * large enough that reading record after record decompresses every chunk once. On failure out->id
 * is negative. */
int h5_dataset_open(hid_t file, const char *path, const char *name, struct h5_dataset *out);
void h5_dataset_close(struct h5_dataset *dataset);

/* Reads [first, first + count) of the first axis as memory type `type` (H5T_NATIVE_FLOAT, ...). */
int h5_dataset_read(const struct h5_dataset *dataset, hsize_t first, hsize_t count, hid_t type,
                    void *out);

/* Enlarges the chunk cache to its maximum, so that reading records in random order does not
 * decompress a chunk for each of its records. `file`: where the data set was opened. */
int h5_dataset_scatter(hid_t file, struct h5_dataset *dataset);

/* Advises the system to read these records ahead from the disk. No effect on a chunked data set. */
void h5_dataset_expect(const struct h5_dataset *dataset, hsize_t first, hsize_t count);

/* Reads the whole data set. */
int h5_dataset_read_all(const struct h5_dataset *dataset, hid_t type, void *out);

/* Texts below have fixed length, like Caffe's and ours, or variable length, like h5py's. The caller
 * frees each text and each array of texts, also on failure. */

/* Reads an attribute of the file that is a text; *text is NULL if there is none. */
int h5_attribute_read_text(hid_t file, const char *path, const char *name, char **text);

/* Reads an attribute that is an array of texts; *count is 0 if there is none. ALLOC_ROOM may grow
 * the array. */
int h5_attribute_read_texts(hid_t file, const char *path, const char *name, char ***texts,
                            int *count);

/* Reads a data set that is a single text. */
int h5_dataset_read_text(hid_t file, const char *path, const char *name, char **text);

/* Writes an attribute: one text, or an array of n texts as long as the longest. */
int h5_attribute_write_texts(hid_t file, const char *path, const char *name, int n,
                             const char *const *texts);

/* A data set being written, of at least one axis. */
struct h5_output {
    const char *path, *name; /* borrowed; for messages. A slash in the name makes a group */
    hid_t type;              /* type of the values in the file */
    int naxes;
    hsize_t dim[H5S_MAX_RANK];
    hsize_t chunk; /* rows per chunk of a data set that grows along axis 0; 0: fixed size `dim` */
    int gzip;      /* compression level of chunks, 1..9; 0: none */
    hid_t id;      /* negative: not open */
};

/* Creates the data set; on failure output->id is negative. */
int h5_output_create(hid_t file, struct h5_output *output);

/* Writes [first, first + count) of the first axis from memory type `type`. */
int h5_output_write(struct h5_output *output, hsize_t first, hsize_t count, hid_t type,
                    const void *values);

/* Closes the data set; returns 0 if output is not open. */
int h5_output_close(struct h5_output *output);

/* Sets the message that PATH cannot be written, with HDF5's reason, and returns -1. Must precede
 * any other HDF5 call, since each call clears the reason of the last. */
int h5_write_failed(const char *path);

/* Writes the shape, "60000x1x28x28" or "scalar", to `buffer`. Returns buffer. */
const char *h5_shape_text(const struct h5_dataset *dataset, char *buffer, size_t size);

#endif
