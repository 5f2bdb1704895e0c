/* Reading Caffe's binary models and states. As with HDF5: first everything is compared with the
 * net, then values are read. */
#include "snapshot/snapshot_internal.h"

#include "spec/modelfile.h"
#include "spec/names.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the file has for a layer of the net. */
struct match {
    int source; /* the last of the file's layers with that name; -1: none */
};

struct reader {
    const char *path;
    struct model_file *file;
    const struct stored_layer *sources;
    int nsources;
    const struct snapshot_layer *layers;
    int nlayers;
    struct names names;    /* of the net's layers; of equal ones the first with parameters */
    struct match *matches; /* one per layer of the net */
};

/* The old four sizes fit any shape of up to four axes that they equal when ones stand before it. */
static bool same_shape(const struct stored_blob *stored, const struct shape *shape)
{
    int extra = stored->naxes - shape->naxes;

    if (extra < 0 || (!stored->legacy && extra != 0))
        return false;
    for (int i = 0; i < stored->naxes; i++)
        if (stored->dim[i] != (i < extra ? 1 : shape->dim[i - extra]))
            return false;
    return true;
}

static int check_values(const char *path, const char *what, const struct stored_blob *stored,
                        const struct shape *shape)
{
    if (stored->elems != shape_elems(shape))
        return error_set("%s: %s holds %" PRIu64 " values; its shape has %zu", path, what,
                         stored->elems, shape_elems(shape));
    return 0;
}

static int check_blob(const struct reader *r, const struct stored_layer *source, int number,
                      const struct snapshot_blob *blob)
{
    const struct stored_blob *stored = &source->blobs[number];
    char from[256], to[128], what[256];

    if (!same_shape(stored, blob->shape))
        return error_set(
            "%s: Cannot copy param %d weights from layer '%s'; shape mismatch.  Source "
            "param shape is %s; target param shape is %s. To learn this layer's "
            "parameters from scratch rather than copying from a saved net, rename the "
            "layer.",
            r->path, number, source->name, stored_blob_shape(stored, from, sizeof from),
            shape_text(blob->shape, to, sizeof to));
    snprintf(what, sizeof what, "param %d of layer '%.200s'", number, source->name);
    return check_values(r->path, what, stored, blob->shape);
}

/* Of two layers with one name in the file, such as the data layers of both phases, one may be
 * without weights: the other counts. */
static void note_source(struct reader *r, struct match *match, int source)
{
    if (match->source < 0 || r->sources[source].nblobs > 0)
        match->source = source;
}

static int match_sources(struct reader *r, struct snapshot_report *report)
{
    for (int i = 0; i < r->nlayers; i++) {
        int known = names_get(&r->names, r->layers[i].name);

        r->matches[i].source = -1;
        if ((known < 0 || (r->layers[known].nblobs == 0 && r->layers[i].nblobs > 0)) &&
            names_set(&r->names, r->layers[i].name, i))
            return -1;
    }
    for (int s = 0; s < r->nsources; s++) {
        int target = names_get(&r->names, r->sources[s].name);

        if (target >= 0)
            note_source(r, &r->matches[target], s);
        else if (snapshot_report_add(&report->ignored, &report->nignored, r->sources[s].name))
            return -1;
    }
    return 0;
}

static int check_stored_layers(struct reader *r, struct snapshot_report *report)
{
    for (int i = 0; i < r->nlayers; i++) {
        const struct snapshot_layer *layer = &r->layers[i];
        const struct stored_layer *source;

        if (r->matches[i].source < 0) {
            /* of layers with one name only the matched one can be missing */
            if (snapshot_owned_blobs(layer) > 0 && names_get(&r->names, layer->name) == i &&
                snapshot_report_add(&report->missing, &report->nmissing, layer->name))
                return -1;
            continue;
        }
        source = &r->sources[r->matches[i].source];
        if (source->nblobs != layer->nblobs)
            return error_set("%s: Incompatible number of blobs for layer %s: the file has %d, the "
                             "net has %d",
                             r->path, layer->name, source->nblobs, layer->nblobs);
        for (int b = 0; b < layer->nblobs; b++)
            if (check_blob(r, source, b, &layer->blobs[b]))
                return -1;
    }
    return 0;
}

static int read_stored_layers(struct reader *r)
{
    for (int i = 0; i < r->nlayers; i++)
        for (int b = 0; r->matches[i].source >= 0 && b < r->layers[i].nblobs; b++)
            if (model_file_read(r->file, &r->sources[r->matches[i].source].blobs[b],
                                r->layers[i].blobs[b].data))
                return error_context("layer '%s'", r->layers[i].name);
    return 0;
}

int snapshot_read_model_binary(const char *path, const struct snapshot_layer *layers, int nlayers,
                               struct snapshot_report *report)
{
    struct reader r = {.path = path, .layers = layers, .nlayers = nlayers};
    int status = -1;

    if (model_file_open(path, &r.file))
        return -1;
    r.sources = model_file_layers(r.file, &r.nsources);
    r.matches = calloc((size_t)nlayers + 1, sizeof *r.matches);
    if (r.matches == NULL)
        error_memory((size_t)nlayers * sizeof *r.matches, "the layers of a model");
    else if (match_sources(&r, report) == 0 && check_stored_layers(&r, report) == 0)
        status = read_stored_layers(&r);
    if (status == 0 && snapshot_copy_text(model_file_run(r.file), &report->run))
        status = -1;
    names_free(&r.names);
    free(r.matches);
    model_file_close(r.file);
    return status;
}

static int check_history(const char *path, const struct stored_state *stored,
                         const struct snapshot_blob *history, int nhistory)
{
    char from[256], to[128], what[32];

    if (stored->nhistory != nhistory)
        return error_set("%s: Incorrect length of history blobs. The file has %d, the solver needs "
                         "%d: the state of another net or another type of solver",
                         path, stored->nhistory, nhistory);
    for (int i = 0; i < nhistory; i++) {
        if (!same_shape(&stored->history[i], history[i].shape))
            return error_set("%s: shape mismatch. Source shape is %s target shape is %s (history "
                             "%d: the state of another net)",
                             path, stored_blob_shape(&stored->history[i], from, sizeof from),
                             shape_text(history[i].shape, to, sizeof to), i);
        snprintf(what, sizeof what, "history %d", i);
        if (check_values(path, what, &stored->history[i], history[i].shape))
            return -1;
    }
    return 0;
}

int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory)
{
    const struct stored_state *stored;
    struct state_file *file;
    int status = -1;

    if (state_file_open(path, &file))
        return -1;
    stored = state_file_state(file);
    *state = (struct snapshot_state){.iter = stored->iter,
                                     .current_step = stored->current_step,
                                     .has_data_cursor = stored->has_data_cursor,
                                     .data_cursor = stored->data_cursor,
                                     .has_random_seed = stored->has_random_seed,
                                     .random_seed = stored->random_seed,
                                     .global_batch = stored->global_batch};
    if (snapshot_copy_text(stored->learned_net, &state->learned_net) ||
        snapshot_copy_text(stored->run, &state->run) ||
        snapshot_copy_text(stored->digest, &state->digest) ||
        snapshot_copy_text(stored->plan, &state->plan) ||
        snapshot_copy_text(stored->memory, &state->memory))
        goto done;
    if (nhistory != SNAPSHOT_PEEK && check_history(path, stored, history, nhistory))
        goto done;
    for (int i = 0; i < nhistory; i++)
        if (state_file_read(file, &stored->history[i], history[i].data))
            goto done;
    status = 0;

done:
    state_file_close(file);
    return status;
}
