/* Pieces of image files in HDF5. */
#include "convert/h5write.h"

#include "util/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int h5_failed_write(const char *path)
{
    char reason[512];

    return error_set("%s: cannot be written (%s)", path, h5_reason(reason, sizeof reason));
}

int h5_write_texts(hid_t file, const char *path, const char *name, int n, char *const *texts)
{
    size_t size = 1;
    hsize_t dim = (hsize_t)n;
    char *block;
    hid_t type, space, attribute;
    int status = 0;

    for (int i = 0; i < n; i++)
        if (strlen(texts[i]) + 1 > size)
            size = strlen(texts[i]) + 1;
    block = calloc((size_t)n, size);
    if (!block)
        return error_memory((size_t)n * size, "an attribute");
    for (int i = 0; i < n; i++)
        strcpy(block + (size_t)i * size, texts[i]);
    type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, size);
    space = n == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &dim, NULL);
    attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (attribute < 0 || H5Awrite(attribute, type, block) < 0)
        status = h5_failed_write(path);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
    H5Tclose(type);
    free(block);
    return status;
}

int h5_write_labels(hid_t file, const char *path, const int32_t *label, size_t count)
{
    hsize_t dim = count;
    hid_t space = H5Screate_simple(1, &dim, NULL), dataset;
    int status = 0;

    dataset =
        H5Dcreate2(file, "label", H5T_STD_I32LE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (dataset < 0 ||
        H5Dwrite(dataset, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, label) < 0)
        status = h5_failed_write(path);
    if (dataset >= 0 && H5Dclose(dataset) < 0 && status == 0)
        status = h5_failed_write(path);
    H5Sclose(space);
    return status;
}
