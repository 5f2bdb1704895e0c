/* CIFAR-10: single files. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "convert/imageset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    char *path = (char *)fuzz_file(0, data, length);
    struct imageset set;

    if (imageset_read_cifar10_files(1, &path, &set) == 0) {
        if (imageset_shuffle(&set, 1))
            abort();
        imageset_free(&set);
    }
    return 0;
}
