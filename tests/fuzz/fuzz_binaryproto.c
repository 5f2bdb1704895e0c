/* Mean images in Caffe's binary form. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "input/feeder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    const struct shape shape = {3, {3, 9, 12}};
    struct transform t;

    param.mean_file = (char *)fuzz_file(0, data, length);
    if (transform_create(&param, &shape, true, NULL, &t) == 0)
        transform_free(&t);
    return 0;
}
