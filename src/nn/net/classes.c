/* Compares the named classes of a net's data with the layer that has a score for each class. */
#include "net/net_internal.h"

#include "util/error.h"
#include "util/units.h"

#include <string.h>

/* True if the blob is that top, or a Split's copy of the top. */
static bool is_copy_of(const struct net *net, const struct blob *blob, const struct blob *top)
{
    for (int l = net->nlayers - 1; l >= 0 && blob != top; l--)
        for (int t = 0; t < net->layers[l].ntops && net->layers[l].def->inserted; t++)
            if (net->layers[l].tops[t] == blob)
                return is_copy_of(net, net->layers[l].bottoms[0], top);
    return blob == top;
}

const struct layer *net_label_reader(const struct net *net, const struct layer *data, int top,
                                     size_t *classes)
{
    const struct layer *reader = NULL;

    *classes = 0;
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        size_t labels, scored;

        if (!layer->i->reads_labels || !is_copy_of(net, layer->bottoms[1], data->tops[top]))
            continue;
        labels = shape_elems(&layer->bottoms[1]->value.shape);
        scored = labels ? shape_elems(&layer->bottoms[0]->value.shape) / labels : 0;
        if (scored > 0 && (!reader || scored < *classes)) {
            reader = layer;
            *classes = scored;
        }
    }
    return reader;
}

bool net_ignores_a_label(const struct layer *reader)
{
    const Caffe__LayerParameter *p = reader->param;

    return (p->loss_param && p->loss_param->has_ignore_label) ||
           (p->accuracy_param && p->accuracy_param->has_ignore_label);
}

/* Returns the layer whose num_output sets how many scores `reader` compares; NULL: none. */
static const struct layer *scorer_of(const struct net *net, const struct layer *reader)
{
    const struct blob *scores = reader->bottoms[0];

    for (int l = reader->index - 1; l >= 0; l--) {
        const struct layer *layer = &net->layers[l];
        bool makes = false;

        for (int t = 0; t < layer->ntops; t++)
            makes |= layer->tops[t] == scores;
        if (!makes)
            continue;
        if (layer->param->inner_product_param || layer->param->convolution_param)
            return layer;
        if (layer->nbottoms != 1)
            return NULL;
        scores = layer->bottoms[0];
    }
    return NULL;
}

/* Fails if there are fewer scores than named classes. More, allowed by Caffe, are a notice. */
static int compare(struct net *net, const struct layer_env *env, const struct layer *reader,
                   size_t scores, const struct layer_images *data)
{
    const struct layer *scorer = scorer_of(net, reader);
    const struct layer *layer = scorer ? scorer : reader;
    const char *field = scorer ? "num_output" : "the number of scores";

    if ((size_t)data->nclasses > scores) {
        error_set("%s is %zu, but %s has %s ('%s' to '%s'); expected num_output: %d%s", field,
                  scores, data->source, units_count(data->nclasses, "class").text, data->classes[0],
                  data->classes[data->nclasses - 1], data->nclasses,
                  scorer ? " here" : " in the layer that makes the scores");
        return net_layer_error(net, layer->index);
    }
    if ((size_t)data->nclasses == scores || net->owner_of_params)
        return 0;
    return layer_notice(layer, env,
                        "%s is %zu, but %s has %s: no sample belongs to the other outputs "
                        "(num_output: %d at %s:%d fits)",
                        field, scores, data->source, units_count(data->nclasses, "class").text,
                        data->nclasses, layer->def->file, layer->def->line);
}

struct layer_images net_images(const struct net *net)
{
    struct layer_images images = {.source = NULL};

    for (int l = 0; l < net->nlayers && !images.source; l++)
        if (net->layers[l].i->images)
            net->layers[l].i->images(&net->layers[l], &images);
    return images;
}

int net_compare_classes(const struct net *net, const char *path, const char *names)
{
    const struct layer_images images = net_images(net);

    return layer_compare_told_classes(path, names, &images);
}

/* The reader of a data layer's labels, and the names of the classes. */
struct named {
    struct layer_images images;
    int top;                    /* index of the labels' top */
    const struct layer *reader; /* layer that compares scores with the labels; NULL: none */
    const char *scorer;         /* layer that makes these scores */
    size_t scores;
};

static struct named look_at(const struct net *net, const struct layer *data)
{
    struct named named = {.reader = NULL};
    const struct layer *scorer;

    if (data->i->mark)
        data_images(data, &named.images);
    for (int t = 0; data->i->is_data && t < data->ntops && !named.reader; t++) {
        named.top = t;
        named.reader = net_label_reader(net, data, t, &named.scores);
    }
    if (named.reader && net_ignores_a_label(named.reader) && !named.images.nclasses)
        named.images.names = NULL; /* a folder of the ignored label is not a class */
    scorer = named.reader ? scorer_of(net, named.reader) : NULL;
    named.scorer = scorer ? scorer->def->name : "";
    return named;
}

/* Fails if a data layer before `index` feeds the same scorer under other class names. */
static int compare_names(const struct net *net, int index, const struct named *named,
                         const struct net *other, int nlayers)
{
    for (int l = 0; l < nlayers; l++) {
        struct named before = look_at(other, &other->layers[l]);

        if (before.reader && !strcmp(before.scorer, named->scorer) &&
            layer_compare_classes(&before.images, &named->images))
            return net_layer_error(net, index);
    }
    return 0;
}

int net_check_classes(struct net *net, const struct layer_env *env)
{
    const struct net *training = net->owner_of_params;

    for (int l = 0; l < net->nlayers && !(env->look_only && env->fake); l++) {
        struct layer *layer = &net->layers[l];
        const struct named named = look_at(net, layer);
        bool ignores = named.reader && net_ignores_a_label(named.reader);

        if (named.reader && layer->i->make_labels &&
            layer->i->make_labels(layer, named.top, ignores ? 0 : named.scores, env))
            return net_layer_error(net, l);
        if (!named.reader || !named.images.names)
            continue;
        if ((training && compare_names(net, l, &named, training, training->nlayers)) ||
            compare_names(net, l, &named, net, l))
            return -1;
        if (!ignores && named.images.nclasses &&
            compare(net, env, named.reader, named.scores, &named.images))
            return -1;
    }
    return 0;
}
