/* MNIST's IDX: the input's first byte says how long the labels file is, which comes first. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "convert/imageset.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    static char folder[64], images[128], labels[128];
    struct imageset set;
    size_t cut;

    if (length == 0)
        return 0;
    if (!folder[0]) {
        strcpy(folder, "/tmp/poseidon-fuzz-XXXXXX");
        if (!mkdtemp(folder))
            abort();
        snprintf(images, sizeof images, "%s/images-idx3", folder);
        snprintf(labels, sizeof labels, "%s/labels-idx1", folder);
        /* The names are links to files in memory, and gone once they were opened. */
    }
    cut = data[0] < length - 1 ? data[0] : length - 1;
    if (symlink(fuzz_file(0, data + 1 + cut, length - 1 - cut), images) != 0 ||
        symlink(fuzz_file(1, data + 1, cut), labels) != 0)
        abort();
    if (imageset_read_mnist(images, IMAGESET_TRAIN, 10, &set) == 0)
        imageset_free(&set);
    unlink(images);
    unlink(labels);
    return 0;
}
