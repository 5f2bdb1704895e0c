/* Weights in .safetensors, with their header's JSON. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "snapshot/weights.h"

/* What is read has no more values than the file has bytes, and every blob's may be looked at. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct weights weights;
    size_t elems = 0;
    float sum = 0;

    if (weights_read(fuzz_file(0, data, length), &weights) == 0)
        for (int i = 0; i < weights.nlayers; i++)
            for (int b = 0; b < weights.layers[i].nblobs; b++) {
                const struct snapshot_blob *blob = &weights.layers[i].blobs[b];
                size_t n = blob->shared ? 0 : shape_elems(blob->shape);

                elems += n;
                for (size_t e = 0; e < n; e++)
                    sum += blob->data[e] == 0 ? 0 : 1;
            }
    if (elems > length || sum > (float)length)
        abort();
    weights_free(&weights);
    return 0;
}
