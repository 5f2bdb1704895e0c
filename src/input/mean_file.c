/* See mean_file.h. */
#include "input/mean_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "spec/modelfile.h"
#include "util/error.h"
#include "util/file.h"
#include "util/h5.h"

_Static_assert((int)MEAN_AXES >= H5S_MAX_RANK, "any data set's axes");

#define MOST_ELEMS ((uint64_t)1 << 28)

static int read_hdf5(hid_t file, const char *path, struct mean_file *out)
{
    bool data =
        H5Lexists(file, "mean", H5P_DEFAULT) <= 0 && H5Lexists(file, "data", H5P_DEFAULT) > 0;
    struct h5_dataset dataset;
    int status = -1;

    if (h5_dataset_open(file, path, data ? "data" : "mean", &dataset))
        return -1;
    out->naxes = dataset.naxes;
    out->elems = 1;
    for (int i = 0; i < dataset.naxes && out->elems <= MOST_ELEMS; i++) {
        out->dim[i] = (int64_t)dataset.dim[i];
        out->elems *= dataset.dim[i] <= MOST_ELEMS ? dataset.dim[i] : MOST_ELEMS + 1;
    }
    if (out->elems == 0 || out->elems > MOST_ELEMS)
        error_set("%s: expected a mean image, found %llu values", path,
                  (unsigned long long)out->elems);
    else if (!(out->values = malloc(out->elems * sizeof *out->values)))
        error_memory(out->elems * sizeof *out->values, "the mean image");
    else
        status = h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, out->values);
    h5_dataset_close(&dataset);
    return status;
}

static int read_binaryproto(const char *path, struct mean_file *out)
{
    struct stored_blob blob;

    if (stored_blob_load(path, &blob, &out->values))
        return error_context("neither an HDF5 file nor a binaryproto with a mean image");
    out->naxes = blob.naxes;
    out->elems = blob.elems;
    memcpy(out->dim, blob.dim, (size_t)blob.naxes * sizeof *out->dim);
    return 0;
}

int mean_file_read(const char *path, struct mean_file *out)
{
    struct stat st;
    hid_t file;
    int status = -1;

    *out = (struct mean_file){.values = NULL};
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && !file_is_hdf5(path)) {
        status = read_binaryproto(path, out);
    } else { /* h5_file_open says what else it may be */
        h5_lock();
        if (h5_file_open(path, &file) == 0) {
            status = read_hdf5(file, path, out);
            H5Fclose(file);
        }
        h5_unlock();
    }
    if (status) {
        free(out->values);
        out->values = NULL;
    }
    return status;
}
