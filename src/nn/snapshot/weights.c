/* Reads models into memory, apart from any net, and writes them: see weights.h. */
#include "snapshot/weights.h"

#include "snapshot/snapshot_internal.h"
#include "spec/read.h"
#include "util/alloc.h"
#include "util/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_layer(struct weights *w, const char *name)
{
    char *copy;

    if (ALLOC_ROOM(w->layers, w->nlayers, "the layers of a model") ||
        alloc_text(&copy, name, "a layer's name"))
        return -1;
    w->layers[w->nlayers++] = (struct snapshot_layer){.name = copy};
    return 0;
}

/* Adds parameter `number` to a layer, with memory for its values. Missing parameters of lower
 * numbers become shared ones. */
static int add_blob(const char *path, struct snapshot_layer *layer, int number, int naxes,
                    const int64_t *dim)
{
    struct snapshot_blob *blob = &layer->blobs[number];
    char what[512];
    struct shape *shape;

    if (number >= SNAPSHOT_MAX_BLOBS)
        return error_set("%s: layer '%s' has a parameter %d; expected at most %d", path,
                         layer->name, number, SNAPSHOT_MAX_BLOBS);
    snprintf(what, sizeof what, "%s: parameter %d of layer '%s'", path, number, layer->name);
    for (; layer->nblobs <= number; layer->nblobs++)
        layer->blobs[layer->nblobs] = (struct snapshot_blob){.shared = true};
    blob->shape = shape = alloc_array(1, sizeof *shape, what);
    if (!shape || shape_set(shape, naxes, dim, what))
        return -1;
    blob->data = alloc_array(shape_elems(shape), sizeof *blob->data, what);
    blob->shared = false;
    return blob->data ? 0 : -1;
}

/* Takes over the net's definitions, and sorts the layers into the order of the definitions. */
static int set_net(struct weights *w, struct text_doc *doc)
{
    const Caffe__NetParameter *net = spec_net(doc);

    w->net = doc;
    for (size_t l = 0; l < net->n_layer; l++) {
        const char *name = net->layer[l]->name ? net->layer[l]->name : "";
        int at = snapshot_find_layer(w->layers + l, w->nlayers - (int)l, name);
        struct snapshot_layer layer;

        if (at < 0 && add_layer(w, name))
            return -1;
        at = at < 0 ? w->nlayers - 1 : at + (int)l;
        layer = w->layers[at];
        memmove(&w->layers[l + 1], &w->layers[l], (size_t)(at - (int)l) * sizeof layer);
        w->layers[l] = layer;
    }
    if ((size_t)w->nlayers > net->n_layer)
        return error_set("%s: layer '%s' has parameters, but is not in the net stored with it",
                         text_name(doc), w->layers[net->n_layer].name);
    return 0;
}

/* Returns the axes of a blob saved before blobs had shapes: four sizes, the first ones 1. */
static int legacy_axes(const Caffe__NetParameter *net, const char *name, int blob)
{
    for (size_t l = 0; blob == 0 && l < net->n_layer; l++) {
        const Caffe__LayerParameter *layer = net->layer[l];

        if (layer->name && !strcmp(layer->name, name) && layer->convolution_param)
            return 4;
        if (layer->name && !strcmp(layer->name, name) && layer->inner_product_param)
            return 2;
    }
    return 1;
}

static int read_blob(const struct snapshot_source *from, int source, const Caffe__NetParameter *net,
                     struct snapshot_layer *layer, int number, const struct stored_blob *stored)
{
    int begin = stored->legacy ? stored->naxes - legacy_axes(net, layer->name, number) : 0;

    while (begin > 0 && stored->dim[begin - 1] != 1)
        begin--;
    if (add_blob(from->path, layer, number, stored->naxes - begin, stored->dim + begin))
        return -1;
    if (stored->elems != shape_elems(layer->blobs[number].shape))
        return error_set("%s: param %d of layer '%s' holds %" PRIu64 " values; its shape has %zu",
                         from->path, number, layer->name, stored->elems,
                         shape_elems(layer->blobs[number].shape));
    return from->read(from->context, source, number, layer->blobs[number].data);
}

static int read_layer(const struct snapshot_source *from, int source,
                      const Caffe__NetParameter *net, struct weights *w)
{
    const struct stored_layer *stored = &from->layers[source];
    int most = from->hdf5 ? SNAPSHOT_MAX_BLOBS : stored->nblobs, nfound = 0;
    struct stored_blob blob;

    if (add_layer(w, stored->name))
        return -1;
    if (stored->nblobs == SNAPSHOT_NVIDIA_NORM_BLOBS)
        return error_set("%s: layer '%s' has %d parameters, as a BatchNorm of NVIDIA's Caffe with "
                         "scale and bias inside, and Caffe's has %d: train, test and the others "
                         "take it by --weights, for a net with BatchNorm and Scale",
                         from->path, stored->name, stored->nblobs, SNAPSHOT_NORM_BLOBS);
    for (int b = 0, found; b < most; b++) {
        found = snapshot_find_blob(from, source, b, &blob);
        if (found < 0 ||
            (found == 0 && read_blob(from, source, net, &w->layers[w->nlayers - 1], b, &blob)))
            return -1;
        nfound += found == 0;
    }
    return !from->hdf5 || nfound >= stored->nblobs
               ? 0
               : error_set("%s: layer '%s' has %d data sets; expected only those numbered 0 to %d",
                           from->path, stored->name, stored->nblobs, SNAPSHOT_MAX_BLOBS - 1);
}

int weights_read(const char *path, struct weights *out)
{
    struct snapshot_source source = {.path = path};
    struct text_doc *net = NULL;
    int status = snapshot_open(path, &source);

    *out = (struct weights){.owner = snapshot_take_owner(&source)};
    if (!status && source.net)
        status = source.net(source.context, &net);
    for (int l = 0; l < source.nlayers && !status; l++)
        status = read_layer(&source, l, net ? spec_net(net) : NULL, out);
    snapshot_close(&source);
    if (!status && net)
        return set_net(out, net);
    text_free(net);
    return status;
}

void weights_free(struct weights *w)
{
    for (int i = 0; i < w->nlayers; i++) {
        for (int b = 0; b < w->layers[i].nblobs; b++) {
            free((void *)(uintptr_t)w->layers[i].blobs[b].shape);
            free(w->layers[i].blobs[b].data);
        }
        free((void *)(uintptr_t)w->layers[i].name);
    }
    free(w->layers);
    snapshot_owner_free(&w->owner);
    text_free(w->net);
    *w = (struct weights){0};
}

/* Writes the binary form, which needs definitions as a net_def: here the model's own, unchanged. */
static int write_binary(const struct weights *w, const char *path)
{
    const Caffe__NetParameter *net = w->net ? spec_net(w->net) : NULL;
    struct net_def def = {.name = net && net->name ? net->name : "", .nlayers = w->nlayers};
    int status;

    for (int i = 0; i < w->nlayers; i++)
        for (int b = 0; b < w->layers[i].nblobs; b++)
            if (w->layers[i].blobs[b].shared)
                return error_set("%s: layer '%s' has a parameter %d, but no parameter %d: this "
                                 "form needs it, and it is missing, or is a parameter of a layer "
                                 "that the file does not name; expected a name that ends in .h5",
                                 path, w->layers[i].name, w->layers[i].nblobs - 1, b);
    if (ALLOC(def.layers, w->nlayers, "a net"))
        return -1;
    for (int i = 0; net && i < w->nlayers; i++)
        def.layers[i] = (struct layer_def){.param = net->layer[i],
                                           .nbottoms = (int)net->layer[i]->n_bottom,
                                           .ntops = (int)net->layer[i]->n_top,
                                           .bottoms = net->layer[i]->bottom,
                                           .tops = net->layer[i]->top};
    status = snapshot_write_model_binary(path, &w->owner, net ? &def : NULL, w->layers, w->nlayers);
    free(def.layers);
    return status;
}

const char *const weights_ends[] = {".caffemodel", ".caffemodel.h5", NULL};

int weights_write(const struct weights *w, const char *path)
{
    return error_status((path_ends(path, ".h5")
                             ? snapshot_write_model(path, &w->owner, w->layers, w->nlayers)
                             : write_binary(w, path)) ||
                        file_sync(path));
}
