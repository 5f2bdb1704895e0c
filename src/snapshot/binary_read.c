/* Reading Caffe's binary models and states. */
#include "snapshot/snapshot_internal.h"

static const struct stored_blob *blob_of(const struct model_file *file, int layer, int blob)
{
    int nlayers;
    const struct stored_layer *layers = model_file_layers(file, &nlayers);

    return blob < layers[layer].nblobs ? &layers[layer].blobs[blob] : NULL;
}

static int find_blob(void *context, int layer, int blob, struct stored_blob *out)
{
    const struct stored_blob *found = blob_of(context, layer, blob);

    if (found)
        *out = *found;
    return found ? 0 : 1;
}

static int read_blob(void *context, int layer, int blob, float *out)
{
    return model_file_read(context, blob_of(context, layer, blob), out);
}

int snapshot_read_model_binary(const char *path, const struct snapshot_layer *layers, int nlayers,
                               struct snapshot_report *report)
{
    struct snapshot_source source = {.path = path, .find = find_blob, .read = read_blob};
    struct model_file *file;
    int status;

    if (model_file_open(path, &file))
        return -1;
    source.context = file;
    source.layers = model_file_layers(file, &source.nlayers);
    status = snapshot_load_model(&source, layers, nlayers, report) ||
                     snapshot_copy_text(model_file_run(file), &report->run)
                 ? -1
                 : 0;
    model_file_close(file);
    return status;
}

static int find_history(void *context, int layer, int blob, struct stored_blob *out)
{
    (void)layer;
    *out = state_file_state(context)->history[blob];
    return 0;
}

static int read_history(void *context, int layer, int blob, float *out)
{
    (void)layer;
    return state_file_read(context, &state_file_state(context)->history[blob], out);
}

int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory)
{
    struct snapshot_source source = {.path = path, .find = find_history, .read = read_history};
    const struct stored_state *stored;
    struct state_file *file;
    int status;

    if (state_file_open(path, &file))
        return -1;
    stored = state_file_state(file);
    *state = (struct snapshot_state){.iter = stored->iter,
                                     .current_step = stored->current_step,
                                     .has_data_cursor = stored->has_data_cursor,
                                     .data_cursor = stored->data_cursor,
                                     .owner.global_batch = stored->global_batch};
    source.context = file;
    status = snapshot_copy_text(stored->learned_net, &state->learned_net) ||
                     snapshot_copy_text(stored->run, &state->owner.run) ||
                     snapshot_copy_text(stored->digest, &state->owner.digest) ||
                     snapshot_copy_text(stored->plan, &state->owner.plan) ||
                     snapshot_copy_text(stored->memory, &state->memory) ||
                     (nhistory != SNAPSHOT_PEEK &&
                      snapshot_load_history(&source, (uint64_t)stored->nhistory, history, nhistory))
                 ? -1
                 : 0;
    state_file_close(file);
    return status;
}
