/* Matches a file's layers, of either form, with the net's: compares all, then reads the values. */
#include "snapshot/snapshot_internal.h"

#include "util/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <ctype.h>

/* Returns true if `source` is `name` with each slash replaced by another character or %2F. */
static bool is_escaped_form(const char *name, const char *source)
{
    for (; *name && *source; name++) {
        if (*name != '/') {
            if (*name != *source)
                return false;
            source++;
        } else if (strncasecmp(source, "%2F", 3) == 0) {
            source += 3;
        } else if (isalnum((unsigned char)*source)) {
            return false;
        } else {
            source++;
        }
    }
    return *name == *source;
}

int snapshot_find_layer(const struct snapshot_layer *layers, int nlayers, const char *name)
{
    int found = -1;

    for (int i = 0; i < nlayers; i++)
        if (strcmp(layers[i].name, name) == 0 &&
            (found < 0 || (layers[found].nblobs == 0 && layers[i].nblobs > 0)))
            found = i;
    return found;
}

/* Returns the file's layer of that name; -1: none. Among several, such as data layers of both
 * phases, the last with parameters. */
static int find_source(const struct snapshot_source *from, const struct snapshot_layer *layers,
                       int nlayers, const char *name)
{
    int found = -1;

    for (int s = 0; s < from->nlayers; s++)
        if (strcmp(from->layers[s].name, name) == 0 && (found < 0 || from->layers[s].nblobs > 0))
            found = s;
    for (int s = 0; from->hdf5 && strchr(name, '/') && s < from->nlayers && found < 0; s++)
        if (is_escaped_form(name, from->layers[s].name) &&
            snapshot_find_layer(layers, nlayers, from->layers[s].name) < 0)
            found = s;
    return found;
}

/* Returns true for equal shapes. Old shapes have four sizes, of which leading ones are skipped. */
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

/* A layer's parameters in the file: blobs from `first` on of layer `source`; source -1: none. */
struct place {
    int source, first;
};

static int wrong_count(const struct snapshot_source *from, const struct place *at,
                       const struct snapshot_layer *layer)
{
    int nblobs = from->layers[at->source].nblobs;

    return error_set(
        "%s: Incompatible number of blobs for layer %s: the file has %d, the net has %d%s",
        from->path, layer->name, nblobs, layer->nblobs,
        nblobs == SNAPSHOT_NVIDIA_NORM_BLOBS ? " (a BatchNorm of NVIDIA's Caffe with scale and "
                                               "bias inside: expected a BatchNorm and, "
                                               "behind it, a Scale with bias_term: true)"
                                             : "");
}

static int check_blob(const struct snapshot_source *from, const struct place *at,
                      const struct snapshot_layer *layer, int number)
{
    const struct shape *shape = layer->blobs[number].shape;
    char have[256], what[256];
    struct stored_blob stored;
    int status = snapshot_find_blob(from, at->source, at->first + number, &stored);

    if (status)
        return status < 0 ? -1 : wrong_count(from, at, layer);
    if (!same_shape(&stored, shape))
        return error_set(
            "%s: Cannot copy param %d weights from layer '%s'; shape mismatch.  Source "
            "param shape is %s; target param shape is %s. To learn this layer's "
            "parameters from scratch rather than copying from a saved net, rename the "
            "layer.",
            from->path, number, layer->name, stored_blob_shape(&stored, have, sizeof have),
            shape_text(shape).text);
    snprintf(what, sizeof what, "param %d of layer '%.200s'", number, layer->name);
    return check_values(from->path, what, &stored, shape);
}

/* Returns true if the file should have the blob. HDF5 files have shared blobs with their owner
 * alone, and so have binary files made of HDF5 files. */
static bool is_stored(const struct snapshot_source *from, const struct place *at, int number,
                      const struct snapshot_blob *blob)
{
    struct stored_blob stored;

    return !blob->shared ||
           (!from->hdf5 && snapshot_find_blob(from, at->source, at->first + number, &stored) == 0);
}

/* Adds a copy of the name to a list of a report. */
static int add_name(char ***names, int *count, const char *name)
{
    return alloc_listed(names, count, name, strlen(name), "a list of layers");
}

/* Returns true for NVIDIA's BatchNorm of five blobs, if the net has BatchNorm and Scale instead. */
static bool is_split(const struct snapshot_source *from, int source,
                     const struct snapshot_layer *layer)
{
    return source >= 0 && layer->scale && layer->nblobs == SNAPSHOT_NORM_BLOBS &&
           from->layers[source].nblobs == SNAPSHOT_NVIDIA_NORM_BLOBS;
}

/* Finds every layer's place. used: set for the file's layers that belong to a layer of the net. */
static void find_places(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct place *places, bool *used)
{
    for (int i = 0; i < nlayers; i++) {
        int source = find_source(from, layers, nlayers, layers[i].name);

        if (source >= 0)
            used[source] = true;
        if (snapshot_find_layer(layers, nlayers, layers[i].name) != i)
            source = -1;
        if (places[i].first == 0 || source >= 0)
            places[i] = (struct place){.source = source};
        if (is_split(from, source, &layers[i]))
            places[layers[i].scale] = (struct place){source, SNAPSHOT_NORM_BLOBS};
    }
}

/* Compares all layers. places: set for each layer of the net; source -1: the layer gets nothing. */
static int match_layers(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct place *places, struct snapshot_report *report)
{
    bool *used = alloc_array((size_t)from->nlayers, sizeof *used, "the layers of a model");
    int status = used ? 0 : -1;

    if (used)
        find_places(from, layers, nlayers, places, used);
    for (int i = 0; i < nlayers && !status; i++) {
        const struct snapshot_layer *layer = &layers[i];
        const struct place *at = &places[i];

        if (snapshot_find_layer(layers, nlayers, layer->name) != i)
            continue;
        if (at->source < 0 && snapshot_owned_blobs(layer) > 0)
            status = add_name(&report->missing, &report->nmissing, layer->name);
        else if (at->source >= 0 && !at->first && !is_split(from, at->source, layer) &&
                 from->layers[at->source].nblobs > layer->nblobs)
            status = wrong_count(from, at, layer);
        for (int b = 0; at->source >= 0 && b < layer->nblobs && !status; b++)
            if (is_stored(from, at, b, &layer->blobs[b]))
                status = check_blob(from, at, layer, b);
    }
    for (int s = 0; s < from->nlayers && !status; s++)
        if (!used[s] && snapshot_find_layer(layers, nlayers, from->layers[s].name) < 0)
            status = add_name(&report->ignored, &report->nignored, from->layers[s].name);
    free(used);
    return status;
}

int snapshot_load_model(const struct snapshot_source *from, const struct snapshot_layer *layers,
                        int nlayers, struct snapshot_report *report)
{
    struct place *places = alloc_array((size_t)nlayers, sizeof *places, "the layers of a model");
    int status = places ? match_layers(from, layers, nlayers, places, report) : -1;

    for (int i = 0; i < nlayers && !status; i++) {
        const struct place *at = &places[i];

        for (int b = 0; at->source >= 0 && b < layers[i].nblobs && !status; b++)
            if (is_stored(from, at, b, &layers[i].blobs[b]) &&
                from->read(from->context, at->source, at->first + b, layers[i].blobs[b].data))
                status = error_context("layer '%s'", layers[i].name);
        if (!status && is_split(from, at->source, &layers[i])) /* NVIDIA's sums have weight 1 */
            layers[i].blobs[2].data[0] = 1;
    }
    free(places);
    return status;
}

static int check_history(const struct snapshot_source *from, int number,
                         const struct snapshot_blob *history)
{
    char have[256], what[32];
    struct stored_blob stored;
    int status = snapshot_find_blob(from, SNAPSHOT_HISTORY, number, &stored);

    snprintf(what, sizeof what, "history %d", number);
    if (status)
        return status < 0 ? -1 : error_set("%s: %s is missing", from->path, what);
    if (!same_shape(&stored, history->shape))
        return error_set("%s: %sshape mismatch. Source shape is %s target shape is %s (%s: the "
                         "state of another net)",
                         from->path, from->hdf5 ? "Cannot load blob from hdf5; " : "",
                         stored_blob_shape(&stored, have, sizeof have),
                         shape_text(history->shape).text, what);
    return check_values(from->path, what, &stored, history->shape);
}

int snapshot_load_history(const struct snapshot_source *from, uint64_t stored,
                          const struct snapshot_blob *history, int nhistory)
{
    if (stored != (uint64_t)nhistory)
        return error_set("%s: Incorrect length of history blobs. The file has %" PRIu64
                         ", the solver needs %d: the state of another net or another type of "
                         "solver, or one with average_decay where the other has none",
                         from->path, stored, nhistory);
    for (int i = 0; i < nhistory; i++)
        if (check_history(from, i, &history[i]))
            return -1;
    for (int i = 0; i < nhistory; i++)
        if (from->read(from->context, SNAPSHOT_HISTORY, i, history[i].data))
            return -1;
    return 0;
}
