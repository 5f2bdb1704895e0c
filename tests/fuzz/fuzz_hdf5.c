/* HDF5 files as image sources, as HDF5Data and as mean images. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/feeder.h"

#include <string.h>

#define MAX_BYTES ((size_t)1 << 24)

static void read_all(struct source *source)
{
    size_t bytes = 1;
    uint64_t n = source->nrecords < 4 ? source->nrecords : 4;
    void *out[SOURCE_MAX_FIELDS] = {NULL};

    for (int f = 0; f < source->nfields; f++) {
        bytes = n * shape_elems(&source->field[f].shape) * sizeof(float);
        out[f] = bytes <= MAX_BYTES ? malloc(bytes ? bytes : 1) : NULL;
    }
    (void)source->i->read(source, 0, n, out);
    (void)source->i->read(source, source->nrecords - n, n, out);
    for (int f = 0; f < source->nfields; f++)
        free(out[f]);
    source_close(source);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static const char *const names[] = {"data", "label"};
    const char *path = fuzz_file(0, data, length);
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    const struct shape shape = {3, {3, 9, 12}};
    struct source *source;
    struct transform t;

    if (source_open_images(path, true, IMAGE_AS_STORED, &source) == 0)
        read_all(source);
    if (source_open_hdf5_list(fuzz_file(1, (const uint8_t *)path, strlen(path)), 2, names,
                              &source) == 0)
        read_all(source);
    param.mean_file = (char *)path;
    if (transform_create(&param, &shape, true, NULL, &t) == 0)
        transform_free(&t);
    return 0;
}
