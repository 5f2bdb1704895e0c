/* Brings nets and solvers of older releases of Caffe into today's form. */
#include "spec/upgrade.h"

#include "spec/field.h"
#include "spec/upgrade_internal.h"
#include "util/alloc.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Layer types, indexed by their V1 numbers. */
static const struct upgrade_type types[] = {
    {"", NULL, NULL},
    {"Accuracy", "accuracy", NULL},
    {"BNLL", "bnll", NULL},
    {"Concat", "concat", "concat_param"},
    {"Convolution", "conv", "convolution_param"},
    {"Data", "data", "data_param"},
    {"Dropout", "dropout", "dropout_param"},
    {"EuclideanLoss", "euclidean_loss", NULL},
    {"Flatten", "flatten", NULL},
    {"HDF5Data", "hdf5_data", "hdf5_data_param"},
    {"HDF5Output", "hdf5_output", NULL},
    {"Im2col", "im2col", NULL},
    {"ImageData", "images", "image_data_param"},
    {"InfogainLoss", "infogain_loss", "infogain_loss_param"},
    {"InnerProduct", "innerproduct", "inner_product_param"},
    {"LRN", "lrn", "lrn_param"},
    {"MultinomialLogisticLoss", "multinomial_logistic_loss", NULL},
    {"Pooling", "pool", "pooling_param"},
    {"ReLU", "relu", NULL},
    {"Sigmoid", "sigmoid", NULL},
    {"Softmax", "softmax", NULL},
    {"SoftmaxWithLoss", "softmax_loss", NULL},
    {"Split", "split", NULL},
    {"TanH", "tanh", NULL},
    {"WindowData", "window_data", "window_data_param"},
    {"Eltwise", NULL, NULL},
    {"Power", NULL, NULL},
    {"SigmoidCrossEntropyLoss", NULL, NULL},
    {"HingeLoss", NULL, NULL},
    {"MemoryData", NULL, NULL},
    {"ArgMax", NULL, NULL},
    {"Threshold", NULL, NULL},
    {"DummyData", NULL, NULL},
    {"Slice", NULL, NULL},
    {"MVN", NULL, NULL},
    {"AbsVal", NULL, NULL},
    {"Silence", NULL, NULL},
    {"ContrastiveLoss", NULL, NULL},
    {"Exp", NULL, NULL},
    {"Deconvolution", NULL, NULL},
};
static const struct upgrade_type image_seg_data = {"ImageSegData", NULL, "image_data_param"};

const struct upgrade_type *upgrade_type(int v1_type)
{
    if (v1_type == CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__IMAGE_SEG_DATA)
        return &image_seg_data;
    return v1_type < 0 || (size_t)v1_type >= sizeof types / sizeof *types ? NULL : &types[v1_type];
}

/* Appends a new message to a repeated field. */
static int append_new(ProtobufCMessage *message, const char *name, ProtobufCMessage **out)
{
    const ProtobufCFieldDescriptor *field = message_find_field(message->descriptor, name);

    if (message_new(field->descriptor, out))
        return -1;
    if (field_append(message, field, out, false) == 0)
        return 0;
    protobuf_c_message_free_unpacked(*out, NULL);
    return -1;
}

int upgrade_move(ProtobufCMessage *from, const char *from_name, ProtobufCMessage *to,
                 const char *to_name)
{
    const ProtobufCFieldDescriptor *source = message_find_field(from->descriptor, from_name);

    return field_is_set(from, source)
               ? field_move(from, source, to, message_find_field(to->descriptor, to_name))
               : 0;
}

/* Moves settings of V1 data layers to transform_param. */
static int upgrade_transform(Caffe__V1LayerParameter *layer)
{
    static const char *const names[] = {"scale", "mean_file", "crop_size", "mirror"};
    const char *holder = upgrade_type((int)layer->type)->v0_message;
    const ProtobufCFieldDescriptor *field =
        holder != NULL ? message_find_field(layer->base.descriptor, holder) : NULL;
    ProtobufCMessage *data, *transform;

    if (field == NULL || !field_is_set(&layer->base, field))
        return 0;
    data = *(ProtobufCMessage *const *)field_at(&layer->base, field, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        field = message_find_field(data->descriptor, names[i]);
        if (field == NULL || !field_is_set(data, field))
            continue;
        if (message_part(&layer->base, "transform_param", &transform) ||
            upgrade_move(data, names[i], transform, names[i]))
            return -1;
    }
    return 0;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Turns V1's lists, with one entry per parameter, into one message per parameter. */
static int upgrade_params(Caffe__V1LayerParameter *old, Caffe__LayerParameter *layer)
{
    size_t count = larger(larger(old->n_param, old->n_blob_share_mode),
                          larger(old->n_blobs_lr, old->n_weight_decay));

    for (size_t i = 0; i < count; i++) {
        ProtobufCMessage *message;
        Caffe__ParamSpec *param;

        if (append_new(&layer->base, "param", &message))
            return -1;
        param = layer->param[i];
        if (i < old->n_param) {
            param->name = old->param[i];
            old->param[i] = NULL;
        }
        if (i < old->n_blob_share_mode) {
            param->has_share_mode = 1;
            param->share_mode = (Caffe__ParamSpec__DimCheckMode)old->blob_share_mode[i];
        }
        if (i < old->n_blobs_lr) {
            param->has_lr_mult = 1;
            param->lr_mult = old->blobs_lr[i];
        }
        if (i < old->n_weight_decay) {
            param->has_decay_mult = 1;
            param->decay_mult = old->weight_decay[i];
        }
    }
    return 0;
}

static int upgrade_layer(const struct text_doc *doc, Caffe__V1LayerParameter *old,
                         Caffe__LayerParameter *layer)
{
    const ProtobufCMessageDescriptor *from = old->base.descriptor, *to = layer->base.descriptor;
    const struct upgrade_type *type = upgrade_type((int)old->type);

    if (type == NULL)
        return error_set("%s: unknown number %d as the type of a layer in the old form, expected 0 "
                         "to 39",
                         text_place(doc, old, old->name ? old->name : "").text, (int)old->type);
    if (upgrade_transform(old) || upgrade_params(old, layer))
        return -1;
    for (unsigned i = 0; i < from->n_fields; i++) {
        const ProtobufCFieldDescriptor *source = &from->fields[i];
        const ProtobufCFieldDescriptor *target = message_find_field(to, source->name);

        /* A field of the same name in both forms has the same type, except type and param. */
        if (target != NULL && target->type == source->type && target->label == source->label &&
            upgrade_move(&old->base, source->name, &layer->base, source->name))
            return -1;
    }
    return type->name[0] != '\0' ? alloc_text(&layer->type, type->name, "a type") : 0;
}

static int upgrade_v1(Caffe__NetParameter *net, struct text_doc *doc)
{
    for (size_t i = 0; i < net->n_layers; i++) {
        Caffe__V1LayerParameter *old = net->layers[i];
        ProtobufCMessage *layer;

        if (append_new(&net->base, "layer", &layer) ||
            upgrade_layer(doc, old, (Caffe__LayerParameter *)layer) ||
            text_set_line(doc, layer, text_line(doc, old)))
            return -1;
    }
    field_drop(&net->base, message_find_field(net->base.descriptor, "layers"));
    return 0;
}

/* Adds the shapes of net-level inputs, given whole or as four numbers for each input. */
static int add_input_shapes(Caffe__NetParameter *net, const struct text_doc *doc,
                            ProtobufCMessage *to)
{
    if (net->n_input_shape > 0 && net->n_input_shape != net->n_input)
        return error_set("%s: expected one input_shape per input (%zu), found %zu",
                         text_place(doc, net->input_shape[0], NULL).text, net->n_input,
                         net->n_input_shape);
    if (net->n_input_shape > 0)
        return upgrade_move(&net->base, "input_shape", to, "shape");
    if (net->n_input_dim / 4 != net->n_input || net->n_input_dim % 4 != 0)
        return error_set("%s: expected four input_dim per input (%zu), found %zu",
                         text_place(doc, &net->n_input_dim, NULL).text, 4 * net->n_input,
                         net->n_input_dim);
    for (size_t i = 0; i < net->n_input_dim; i += 4) {
        ProtobufCMessage *message;

        if (append_new(to, "shape", &message))
            return -1;
        for (size_t k = 0; k < 4; k++) {
            int64_t dim = net->input_dim[i + k];

            if (field_append(message, message_find_field(message->descriptor, "dim"), &dim, false))
                return -1;
        }
    }
    return 0;
}

#define INPUT_NOTICE "%s: net-level input fields became a layer of type Input"
#define LEFT_OUT     ": input \"%s\" is left out: no input_shape or input_dim gives its size"

void upgrade_find_left_out(const struct text_doc *doc, const char *input, char *out, size_t bytes)
{
    const char *notices = doc != NULL ? text_notices(doc) : "", *at;
    char tail[512];

    snprintf(tail, sizeof tail, LEFT_OUT "\n", input);
    at = strstr(notices, tail);
    while (at != NULL && at > notices && at[-1] != '\n')
        at--;
    if (at != NULL)
        snprintf(out, bytes, "%.*s", (int)strcspn(at, "\n"), at);
}

/* Turns net-level inputs into the tops of a first layer named "input". Drops inputs without a size,
 * as Caffe does. */
static int upgrade_input(Caffe__NetParameter *net, struct text_doc *doc)
{
    static const char *const gone[] = {"input", "input_shape", "input_dim"};
    ProtobufCMessage *message, *shapes;
    Caffe__LayerParameter *layer;

    if (net->n_input_shape > 0 || net->n_input_dim > 0) {
        if (append_new(&net->base, "layer", &message))
            return -1;
        layer = (Caffe__LayerParameter *)message;
        memmove(net->layer + 1, net->layer, (net->n_layer - 1) * sizeof *net->layer);
        net->layer[0] = layer;
        if (alloc_text(&layer->name, "input", "a layer") ||
            alloc_text(&layer->type, "Input", "a layer") ||
            message_part(message, "input_param", &shapes) || add_input_shapes(net, doc, shapes) ||
            text_set_line(doc, layer, text_line(doc, net->input[0])) ||
            text_add_notice(doc, INPUT_NOTICE, text_name(doc)) ||
            upgrade_move(&net->base, "input", message, "top"))
            return -1;
    }
    for (size_t i = 0; i < net->n_input; i++)
        if (text_add_notice(doc, "%s" LEFT_OUT, text_place(doc, net->input[i], NULL).text,
                            net->input[i]) ||
            text_set_line(doc, net->input[i], 0))
            return -1;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        field_drop(&net->base, message_find_field(net->base.descriptor, gone[i]));
    return 0;
}

/* Keeps BatchNorm's three blobs, which are statistics, from learning if they have settings. */
static void upgrade_batch_norm(Caffe__LayerParameter *layer)
{
    if (layer->type == NULL || strcmp(layer->type, "BatchNorm") != 0 || layer->n_param != 3)
        return;
    for (size_t i = 0; i < 3; i++) {
        layer->param[i]->has_lr_mult = layer->param[i]->has_decay_mult = 1;
        layer->param[i]->lr_mult = layer->param[i]->decay_mult = 0;
    }
}

/* Turns ceil_mode, the forks' name before Caffe had it, into round_mode, which wins over it. */
static void upgrade_ceil_mode(Caffe__PoolingParameter *pooling)
{
    if (pooling == NULL || !pooling->has_ceil_mode)
        return;
    if (!pooling->has_round_mode) {
        pooling->has_round_mode = 1;
        pooling->round_mode = pooling->ceil_mode ? CAFFE__POOLING_PARAMETER__ROUND_MODE__CEIL
                                                 : CAFFE__POOLING_PARAMETER__ROUND_MODE__FLOOR;
    }
    pooling->has_ceil_mode = 0;
}

int upgrade_net(Caffe__NetParameter *net, struct text_doc *doc)
{
    const char *file = text_name(doc);

    if (net->n_layers > 0 && net->n_layer > 0)
        return error_set("%s: expected either 'layer' (today's form) or 'layers' (the old one), "
                         "found both: 'layers' first on line %d, 'layer' on line %d",
                         file, text_line(doc, net->layers[0]), text_line(doc, net->layer[0]));
    if (upgrade_is_v0(net)) {
        if (upgrade_v0(net, doc) ||
            text_add_notice(doc,
                            "%s: upgraded from the first form of Caffe's nets (layers with a layer "
                            "inside)",
                            file))
            return -1;
    } else if (net->n_layers > 0 &&
               text_add_notice(doc, "%s: upgraded from the old form of Caffe's nets (layers)",
                               file)) {
        return -1;
    }
    if (upgrade_v1(net, doc))
        return -1;
    if (net->n_input > 0 && upgrade_input(net, doc))
        return -1;
    for (size_t i = 0; i < net->n_layer; i++) {
        upgrade_batch_norm(net->layer[i]);
        upgrade_ceil_mode(net->layer[i]->pooling_param);
    }
    return 0;
}

static int upgrade_solver_type(Caffe__SolverParameter *solver, struct text_doc *doc)
{
    static const char *const names[] = {"SGD",     "Nesterov", "AdaGrad",
                                        "RMSProp", "AdaDelta", "Adam"};
    const ProtobufCFieldDescriptor *field = message_find_field(solver->base.descriptor, "type");
    const char *file = text_name(doc);
    char *name;

    if (!solver->has_solver_type)
        return 0;
    if (field_is_set(&solver->base, field))
        return error_set("%s: expected either type: \"%s\" (today's form) or solver_type (the old "
                         "one), found both",
                         file, solver->type);
    if ((unsigned)solver->solver_type >= sizeof names / sizeof *names)
        return error_set("%s: unknown solver_type %d", file, (int)solver->solver_type);
    if (alloc_text(&name, names[solver->solver_type], "a type"))
        return -1;
    field_set(&solver->base, field, &name);
    solver->has_solver_type = 0;
    return text_add_notice(doc, "%s: solver_type became type: \"%s\"", file, name);
}

int upgrade_solver(Caffe__SolverParameter *solver, struct text_doc *doc)
{
    if (upgrade_solver_type(solver, doc))
        return -1;
    if ((solver->net_param != NULL && upgrade_net(solver->net_param, doc)) ||
        (solver->train_net_param != NULL && upgrade_net(solver->train_net_param, doc)))
        return -1;
    for (size_t i = 0; i < solver->n_test_net_param; i++)
        if (upgrade_net(solver->test_net_param[i], doc))
            return -1;
    return 0;
}
