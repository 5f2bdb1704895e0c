/* Reads mean images from HDF5 and binaryproto. */
#include "input/mean_file.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/file.h"
#include "spec/h5.h"
#include "util/path.h"

_Static_assert((int)MODELFILE_MAX_AXES >= H5S_MAX_RANK, "any data set's axes");

#define MOST_ELEMS ((uint64_t)1 << 28)

static int read_hdf5(hid_t file, const char *path, struct stored_blob *blob, float **values)
{
    bool data =
        H5Lexists(file, "mean", H5P_DEFAULT) <= 0 && H5Lexists(file, "data", H5P_DEFAULT) > 0;
    struct h5_dataset dataset;
    int status = -1;

    if (h5_dataset_open(file, path, data ? "data" : "mean", &dataset))
        return -1;
    *blob = (struct stored_blob){.naxes = dataset.naxes, .elems = 1};
    for (int i = 0; i < dataset.naxes && blob->elems <= MOST_ELEMS; i++) {
        blob->dim[i] = (int64_t)dataset.dim[i];
        blob->elems *= dataset.dim[i] <= MOST_ELEMS ? dataset.dim[i] : MOST_ELEMS + 1;
    }
    if (blob->elems == 0 || blob->elems > MOST_ELEMS)
        error_set("%s: expected a mean image, found %llu values", path,
                  (unsigned long long)blob->elems);
    else if (!(*values = malloc(blob->elems * sizeof **values)))
        error_memory(blob->elems * sizeof **values, "the mean image");
    else
        status = h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, *values);
    h5_dataset_close(&dataset);
    return status;
}

int mean_file_read(const char *path, struct stored_blob *blob, float **values)
{
    struct stat st;
    hid_t file;
    int status = -1;

    *values = NULL;
    if (path_is_folder(path))
        return error_set("%s is a folder; expected the file of a mean image: 'poseidon mean %s "
                         "mean.h5' makes one from an LMDB or LevelDB",
                         path, path);
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && !file_is_hdf5(path))
        return stored_blob_load(path, blob, values)
                   ? error_context("neither an HDF5 file nor a binaryproto with a mean image")
                   : 0;
    h5_lock(); /* on failure, h5_file_open's message says what else the file may be */
    if (h5_file_open(path, &file) == 0) {
        status = read_hdf5(file, path, blob, values);
        H5Fclose(file);
    }
    h5_unlock();
    if (status) {
        free(*values);
        *values = NULL;
    }
    return status;
}
