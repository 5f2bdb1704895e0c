/* Binary models, solver states and single blobs. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/read.h"

/* Reads every blob; what is there can be read, and no file has more values than bytes. */
static void read_model(const char *path, size_t length)
{
    struct model_file *file;
    const struct stored_layer *layers;
    struct text_doc *doc;
    char text[128];
    int count;

    if (model_file_open(path, &file))
        return;
    layers = model_file_layers(file, &count);
    for (int i = 0; i < count; i++)
        for (int b = 0; b < layers[i].nblobs; b++) {
            const struct stored_blob *blob = &layers[i].blobs[b];
            float *values;

            if (blob->elems > length)
                abort();
            values = malloc((size_t)blob->elems * sizeof *values + 1);
            if (values == NULL || model_file_read(file, blob, values))
                abort();
            stored_blob_shape(blob, text, sizeof text);
            free(values);
        }
    if (model_file_net(file, &doc) == 0)
        text_free(doc);
    model_file_close(file);
}

static void load(const char *path)
{
    static const struct shape conv_w = {4, {2, 1, 3, 3}}, conv_b = {1, {2}}, ip_w = {2, {1, 8}},
                              ip_b = {1, {1}}, history_w = {2, {2, 3}};
    float a[18], b[2], c[8], d[1], e[6];
    const struct snapshot_layer layers[] = {
        {"conv", 2, {{&conv_w, a, false}, {&conv_b, b, false}}},
        {"ip", 2, {{&ip_w, c, false}, {&ip_b, d, false}}},
    };
    const struct snapshot_blob history[] = {{&history_w, e, false}, {&conv_b, b, false}};
    struct snapshot_report report;
    struct snapshot_state state;

    if (snapshot_read_model(path, layers, 2, &report) == 0)
        snapshot_report_free(&report);
    if (snapshot_read_state(path, &state, history, 2) == 0)
        snapshot_state_free(&state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    const char *path = fuzz_file(0, data, length);
    struct stored_blob blob;
    struct text_doc *doc;
    float *values;

    read_model(path, length);
    load(path);
    if (stored_blob_load(path, &blob, &values) == 0)
        free(values);
    if (spec_read_net_of(path, NULL, false, &doc) == 0)
        text_free(doc);
    return 0;
}
