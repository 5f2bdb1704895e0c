/* Models in memory, apart from any net: see weights.h. */
#include "snapshot/weights_internal.h"

#include "snapshot/snapshot_internal.h"
#include "spec/modelfile.h"
#include "spec/read.h"
#include "spec/upgrade.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add_layer(struct weights *w, const char *name, size_t length)
{
    struct snapshot_layer *longer = realloc(w->layers, (size_t)(w->nlayers + 1) * sizeof *longer);

    if (!longer)
        return error_memory((size_t)(w->nlayers + 1) * sizeof *longer, "the layers of a model");
    w->layers = longer;
    longer[w->nlayers] = (struct snapshot_layer){.name = strndup(name, length)};
    return longer[w->nlayers].name ? w->nlayers++, 0 : error_memory(length, "a layer's name");
}

struct snapshot_layer *weights_layer(struct weights *w, const char *name, size_t length)
{
    for (int i = 0; i < w->nlayers; i++)
        if (!strncmp(w->layers[i].name, name, length) && !w->layers[i].name[length])
            return &w->layers[i];
    return add_layer(w, name, length) ? NULL : &w->layers[w->nlayers - 1];
}

int weights_add_blob(const char *path, struct snapshot_layer *layer, int number, int naxes,
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
    if (!blob->shared)
        return error_set("%s is there twice", what);
    blob->shape = shape = alloc_array(1, sizeof *shape, what);
    if (!shape || shape_set(shape, naxes, dim, what))
        return -1;
    blob->data = alloc_array(shape_elems(shape), sizeof *blob->data, what);
    blob->shared = false;
    return blob->data ? 0 : -1;
}

/* The place, from `from` on, of the layer of that name; of several the first with parameters. */
static int find_layer(const struct weights *w, int from, const char *name)
{
    int found = -1;

    for (int i = from; i < w->nlayers; i++)
        if (!strcmp(w->layers[i].name, name) && (found < 0 || w->layers[found].nblobs == 0))
            found = i;
    return found;
}

int weights_set_net(struct weights *w, struct text_doc *doc)
{
    const Caffe__NetParameter *net = spec_net(doc);

    w->net = doc;
    for (size_t l = 0; l < net->n_layer; l++) {
        const char *name = net->layer[l]->name ? net->layer[l]->name : "";
        int at = find_layer(w, (int)l, name);
        struct snapshot_layer layer;

        if (at < 0) {
            at = w->nlayers;
            if (add_layer(w, name, strlen(name)))
                return -1;
        }
        layer = w->layers[at];
        memmove(&w->layers[l + 1], &w->layers[l], (size_t)(at - (int)l) * sizeof layer);
        w->layers[l] = layer;
    }
    if ((size_t)w->nlayers > net->n_layer)
        return error_set("%s: layer '%s' has parameters, and is not in the net that comes with it",
                         text_name(doc), w->layers[net->n_layer].name);
    return 0;
}

/* Files from before blobs had shapes give four sizes, with ones in front. */
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

static int read_stored_blob(struct model_file *file, const char *path,
                            const Caffe__NetParameter *net, struct snapshot_layer *layer,
                            int number, const struct stored_blob *stored)
{
    int begin = stored->legacy ? stored->naxes - legacy_axes(net, layer->name, number) : 0;

    while (begin > 0 && stored->dim[begin - 1] != 1)
        begin--;
    if (weights_add_blob(path, layer, number, stored->naxes - begin, stored->dim + begin))
        return -1;
    if (stored->elems != shape_elems(layer->blobs[number].shape))
        return error_set("%s: param %d of layer '%s' holds %" PRIu64 " values; its shape has %zu",
                         path, number, layer->name, stored->elems,
                         shape_elems(layer->blobs[number].shape));
    return model_file_read(file, stored, layer->blobs[number].data);
}

static int read_binary(const char *path, struct weights *w)
{
    const struct stored_layer *stored;
    struct text_doc *net = NULL;
    struct model_file *file;
    int nstored, status;

    if (model_file_open(path, &file))
        return -1;
    stored = model_file_layers(file, &nstored);
    status = model_file_net(file, &net) || upgrade_net(spec_net(net), net) ||
                     snapshot_copy_text(model_file_run(file), &w->run)
                 ? -1
                 : 0;
    for (int s = 0; s < nstored && !status; s++) {
        status = add_layer(w, stored[s].name, strlen(stored[s].name));
        for (int b = 0; b < stored[s].nblobs && !status; b++)
            status = read_stored_blob(file, path, spec_net(net), &w->layers[w->nlayers - 1], b,
                                      &stored[s].blobs[b]);
    }
    model_file_close(file);
    if (status)
        text_free(net);
    return status ? status : weights_set_net(w, net);
}

int weights_read(const char *path, struct weights *out)
{
    *out = (struct weights){0};
    if (file_is_hdf5(path))
        return weights_read_hdf5(path, out);
    if (path_ends(path, WEIGHTS_SAFETENSORS) || weights_is_safetensors(path))
        return weights_read_safetensors(path, out);
    return read_binary(path, out);
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
    free(w->run);
    text_free(w->net);
    *w = (struct weights){0};
}

/* The binary form takes definitions as a net of one phase has them: here, as they are. */
static int write_binary(const struct weights *w, const char *path)
{
    const Caffe__NetParameter *net = w->net ? spec_net(w->net) : NULL;
    struct net_def def = {.name = net && net->name ? net->name : "", .nlayers = w->nlayers};
    int status;

    for (int i = 0; i < w->nlayers; i++)
        for (int b = 0; b < w->layers[i].nblobs; b++)
            if (w->layers[i].blobs[b].shared)
                return error_set("%s: layer '%s' shares its parameter %d with another layer, and "
                                 "this form would need a copy: expected a name that ends in .h5",
                                 path, w->layers[i].name, b);
    def.layers = alloc_array((size_t)w->nlayers, sizeof *def.layers, "a net");
    if (!def.layers)
        return -1;
    for (int i = 0; net && i < w->nlayers; i++)
        def.layers[i] = (struct layer_def){.param = net->layer[i],
                                           .nbottoms = (int)net->layer[i]->n_bottom,
                                           .ntops = (int)net->layer[i]->n_top,
                                           .bottoms = net->layer[i]->bottom,
                                           .tops = net->layer[i]->top};
    status = snapshot_write_model_binary(path, w->run, net ? &def : NULL, w->layers, w->nlayers);
    free(def.layers);
    return status;
}

const char *const weights_ends[] = {".caffemodel", ".caffemodel.h5", WEIGHTS_SAFETENSORS, NULL};

int weights_write(const struct weights *w, const char *path)
{
    if (path_ends(path, WEIGHTS_SAFETENSORS))
        return weights_write_safetensors(w, path);
    return path_ends(path, ".h5") ? snapshot_write_model(path, w->run, w->layers, w->nlayers)
                                  : write_binary(w, path);
}
