/* Writes class names and image preparation of the training data into a model's owner, and finds
 * them in the models given to --weights. */
#include "snapshot/snapshot_internal.h"

#include "net/net.h"
#include "snapshot/checkpoint.h"
#include "spec/caffe.pb-c.h"
#include "spec/print.h"
#include "spec/text.h"
#include "util/alloc.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>

static void put_preparation(struct strbuf *out, const struct layer_images *images)
{
    Caffe__BlobShape shape = CAFFE__BLOB_SHAPE__INIT, *shapes[] = {&shape};
    Caffe__InputParameter input = CAFFE__INPUT_PARAMETER__INIT;
    Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT;
    struct shape record = images->record;

    shape.n_dim = (size_t)record.naxes;
    shape.dim = record.dim;
    input.n_shape = 1;
    input.shape = shapes;
    layer.type = (char *)(uintptr_t) "Input";
    layer.transform_param = (Caffe__TransformationParameter *)(uintptr_t)images->transform;
    layer.input_param = record.naxes == 3 ? &input : NULL;
    print_message(out, &layer.base);
}

int checkpoint_describe_data(const struct net *net, struct snapshot_owner *out)
{
    struct layer_images images = net_images(net);
    struct strbuf names = {.data = NULL}, preparation = {.data = NULL};

    *out = (struct snapshot_owner){.run = NULL};
    if (!images.source)
        return 0;
    for (int i = 0; i < images.nclasses; i++) {
        strbuf_append(&names, images.classes[i], strcspn(images.classes[i], "\n"));
        strbuf_putc(&names, '\n');
    }
    put_preparation(&preparation, &images);
    if (images.nclasses)
        out->classes = strbuf_take(&names);
    out->preparation = strbuf_take(&preparation);
    return out->preparation && (out->classes || !images.nclasses) ? 0 : -1;
}

static int read_preparation(const char *list, const char *text, struct checkpoint_told *told)
{
    const Caffe__LayerParameter *layer;

    if (text_read_string(list, text, strlen(text), &caffe__layer_parameter__descriptor,
                         &told->preparation))
        return error_context("preprocessing in the weights");
    layer = (const Caffe__LayerParameter *)text_root(told->preparation);
    told->transform = layer->transform_param;
    if (layer->input_param && layer->input_param->n_shape == 1 &&
        layer->input_param->shape[0]->n_dim == 3)
        return shape_set(&told->record, 3, layer->input_param->shape[0]->dim,
                         "preprocessing in the weights");
    return 0;
}

int checkpoint_read_told(const char *list, struct checkpoint_told *told)
{
    char **paths;
    int npaths, status = alloc_split(&paths, &npaths, list, "the list of weights");
    struct snapshot_owner *owner = &told->owner;

    *told = (struct checkpoint_told){.preparation = NULL};
    for (int i = 0; i < npaths && !status; i++) {
        struct snapshot_owner candidate;

        status = snapshot_read_owner(paths[i], &candidate);
        if (status || candidate.classes || candidate.preparation) {
            snapshot_owner_free(owner);
            *owner = candidate;
        } else {
            snapshot_owner_free(&candidate);
        }
    }
    alloc_free_list(paths, npaths);
    return status || !owner->preparation ? status
                                         : read_preparation(list, owner->preparation, told);
}

void checkpoint_free_told(struct checkpoint_told *told)
{
    snapshot_owner_free(&told->owner);
    text_free(told->preparation);
}
