/* The walk over a net, layer by layer. In ONNX each value has one name and one writer: a layer in
 * place makes a new one, and the last of them is called as the blob is; but an input of the net
 * keeps its blob's name, and so the layers in place on it do not get it. */
#include "export/export_internal.h"

#include "input/transform.h"
#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

const char *emission_value(const struct emission *e, const struct blob *blob)
{
    return e->values[net_blob_number(e->net, blob)];
}

/* Whether the name is another value's: an input's, or what the last layer in place behind makes. */
static bool is_taken(const struct emission *e, const char *name)
{
    for (int l = 0; l < e->net->nlayers; l++)
        for (int t = 0; t < e->net->layers[l].ntops; t++)
            if ((l > e->layer->index || e->net->layers[l].i->is_data) &&
                !strcmp(e->net->layers[l].tops[t]->name, name))
                return true;
    return false;
}

/* The name, with another end where a blob is called that. */
static const char *free_name(const struct emission *e, const char *name)
{
    while (!e->graph->failed && net_find_blob(e->net, name))
        name = onnx_text(e->graph, "%s'", name);
    return name;
}

/* The one softmax loss of a net gives "prob", as in nets that are deployed; its top's name is a
 * loss's. */
static const char *probabilities_name(const struct emission *e)
{
    int nlosses = 0;

    for (int l = 0; l < e->net->nlayers; l++)
        nlosses += e->net->layers[l].i->op == OP_SOFTMAX_LOSS;
    if (nlosses == 1 && !net_find_blob(e->net, "prob"))
        return "prob";
    return free_name(e, onnx_text(e->graph, "%s/prob", e->graph->prefix));
}

const char *emission_top_name(const struct emission *e, int top)
{
    const char *name = e->layer->tops[top]->name;

    if (e->layer->i->auto_tops && top == 0)
        return probabilities_name(e);
    return is_taken(e, name) ? free_name(e, onnx_text(e->graph, "%s/%s", name, e->graph->prefix))
                             : name;
}

int emission_alias(struct emission *e, int top, const char *value)
{
    e->values[net_blob_number(e->net, e->layer->tops[top])] = value;
    return 0;
}

int emission_give(struct emission *e, int top, const char *value)
{
    const char *name = emission_top_name(e, top);

    onnx_rename(e->graph, value, name);
    return emission_alias(e, top, name);
}

const char *emission_param(const struct emission *e, int param, const char *name)
{
    const struct param *p = e->args.params[param];

    return onnx_floats(e->graph, name, &p->shape, net_host_value(e->net, p));
}

/* What the data layer makes of pixels: they are multiplied, and what it would make of zeros is
 * added. */
static int emit_transform(struct emission *e, const struct transform *t)
{
    struct shape shape = t->out;
    float *zeros = onnx_alloc(e->graph, shape_elems(&t->in), sizeof *zeros);
    struct record record = {.shape = t->in, .type = SOURCE_F32, .data = zeros};
    float *offset = onnx_alloc(e->graph, shape_elems(&shape), sizeof *offset);
    size_t plane = shape_count(&shape, 1, shape.naxes);
    const char *x = e->values[net_blob_number(e->net, e->layer->tops[0])];

    if (!zeros || !offset)
        return -1;
    if (transform_apply(t, &record, 0, 0, 0, offset))
        return -1;
    if (!t->mean) { /* alike all over a channel */
        for (int64_t c = 0; c < shape.dim[0]; c++)
            offset[c] = offset[(size_t)c * plane];
        shape.dim[1] = shape.dim[2] = 1;
    }
    if (t->scale != 1)
        x = ONNX_NODE(e->graph, "Mul", x, onnx_scalar(e->graph, "scale", t->scale));
    x = ONNX_NODE(e->graph, "Add", x, onnx_floats(e->graph, "offset", &shape, offset));
    return emission_alias(e, 0, x);
}

static int preprocess(struct emission *e, const char *base_file)
{
    const struct shape *top = &e->layer->tops[0]->value.shape;
    Caffe__TransformationParameter param;
    struct layer_images images = {NULL};
    struct transform transform;
    int status;

    if (e->layer->i->images)
        e->layer->i->images(e->layer, &images);
    if (!images.transform)
        return 0;
    param = *images.transform;
    if (images.record.naxes == 0 && top->naxes == 4) { /* its source is not here */
        images.record = (struct shape){3, {top->dim[1], top->dim[2], top->dim[3]}};
        param.crop_size = 0;
    }
    if (transform_create(&param, &images.record, false, base_file, &transform))
        return -1;
    status = emit_transform(e, &transform);
    transform_free(&transform);
    return status;
}

static int emit_layer(struct emission *e, const struct export_options *options)
{
    struct layer *layer = &e->net->layers[e->layer->index];

    if (layer->i->is_data) {
        for (int t = 0; t < layer->ntops; t++)
            emission_alias(e, t, layer->tops[t]->name);
        return options->preprocess ? preprocess(e, options->base_file) : 0;
    }
    if (layer->idle || layer->ntops == 0)
        return 0;
    e->args = layer_arguments(layer);
    e->in = layer->nbottoms > 0 ? &e->args.bottoms[0]->value.shape : NULL;
    e->out = &layer->tops[0]->value.shape;
    e->x = layer->nbottoms > 0 ? emission_value(e, e->args.bottoms[0]) : NULL;
    return operator_emit(e);
}

/* Of two layers with one name, or none, the second is told apart by its number. */
static const char *layer_prefix(struct onnx *graph, const struct net *net, int layer)
{
    const char *name = net->layers[layer].def->name;

    for (int l = 0; l < layer; l++)
        if (!strcmp(net->layers[l].def->name, name))
            return onnx_text(graph, "%s#%d", name, layer);
    return name;
}

/* Whether every blob begins with the batch, which then is 1: no layer joins or cuts samples. */
static bool keeps_batch(const struct net *net)
{
    for (int i = 0; i < net->nblobs; i++)
        if (net->blobs[i]->value.shape.naxes > 0 && net->blobs[i]->value.shape.dim[0] != 1)
            return false;
    return true;
}

/* A layer without tops (Silence) says that nobody wants what it takes. */
static bool is_silenced(const struct net *net, const struct blob *blob)
{
    for (int l = 0; l < net->nlayers; l++)
        for (int b = 0; net->layers[l].ntops == 0 && b < net->layers[l].nbottoms; b++)
            if (net->layers[l].bottoms[b] == blob)
                return true;
    return false;
}

/* Inputs are what some node takes of the data; outputs, what none takes of all that was made. */
static enum onnx_place place_of(const struct emission *e, const struct layer *layer, int top,
                                const char *value)
{
    bool taken = onnx_is_taken(e->graph, value);

    if (layer->i->is_data)
        return taken ? ONNX_INPUT : ONNX_NOWHERE;
    if (layer->i->op == OP_SPLIT)
        return ONNX_NOWHERE;
    return taken || is_silenced(e->net, layer->tops[top]) ? ONNX_BETWEEN : ONNX_OUTPUT;
}

/* The shapes of all blobs: those of the ends are wanted, the others say what the net has there. */
static void tell_shapes(const struct emission *e, bool any_batch)
{
    for (enum onnx_place place = ONNX_INPUT; place <= ONNX_BETWEEN; place++)
        for (int l = 0; l < e->net->nlayers; l++)
            for (int t = 0; t < e->net->layers[l].ntops; t++) {
                const struct layer *layer = &e->net->layers[l];
                const struct blob *blob = layer->i->auto_tops ? layer->bottoms[0] : layer->tops[t];
                const char *value =
                    layer->i->is_data ? blob->name : emission_value(e, layer->tops[t]);

                if (value && place_of(e, layer, t, value) == place)
                    onnx_tell(e->graph, place, value, &blob->value.shape, any_batch);
            }
}

int export_net(const struct net *net, const struct export_options *options, struct onnx *out)
{
    struct emission e = {.graph = out, .net = net};
    int status = 0;

    *out = (struct onnx){.failed = false};
    onnx_init(out, net->def->name[0] ? net->def->name : "net");
    if (ALLOC(e.values, net->nblobs, "a graph's values"))
        return -1;
    for (int l = 0; l < net->nlayers && !status; l++) {
        e.layer = &net->layers[l];
        onnx_prefix(e.graph, layer_prefix(e.graph, net, l));
        if (emit_layer(&e, options))
            status = error_context("%s (%s)", layer_def_place(e.layer->def).text, e.layer->i->type);
        else if (out->failed)
            status = -1;
    }
    if (!status)
        tell_shapes(&e, !options->fixed_batch && keeps_batch(net));
    free(e.values);
    if (!status && out->main.n_output == 0)
        return error_set("%s: the net gives no values to export", net->def->file);
    return status;
}
