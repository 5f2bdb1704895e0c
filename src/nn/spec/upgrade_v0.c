/* Upgrades the first form of nets: every layer is `layers { layer { all settings } bottom top }`.
 * One table maps each setting to its place today. */
#include "spec/upgrade_internal.h"

#include "spec/field.h"
#include "spec/names.h"
#include "util/alloc.h"
#include "util/choice.h"
#include "util/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Targets of V0 settings. types: V0 types that have the setting, separated by blanks; NULL: any
 * type, target in transform_param. */
static const struct {
    const char *name, *types, *target;
} moves[] = {
    {"num_output", " conv innerproduct ", "num_output"},
    {"biasterm", " conv innerproduct ", "bias_term"},
    {"weight_filler", " conv innerproduct ", "weight_filler"},
    {"bias_filler", " conv innerproduct ", "bias_filler"},
    {"pad", " conv pool ", "pad"},
    {"kernelsize", " conv pool ", "kernel_size"},
    {"group", " conv ", "group"},
    {"stride", " conv pool ", "stride"},
    {"pool", " pool ", "pool"},
    {"dropout_ratio", " dropout ", "dropout_ratio"},
    {"local_size", " lrn ", "local_size"},
    {"alpha", " lrn ", "alpha"},
    {"beta", " lrn ", "beta"},
    {"k", " lrn ", "k"},
    {"source", " data hdf5_data images window_data infogain_loss ", "source"},
    {"batchsize", " data hdf5_data images window_data ", "batch_size"},
    {"rand_skip", " data images ", "rand_skip"},
    {"shuffle_images", " images ", "shuffle"},
    {"new_height", " images ", "new_height"},
    {"new_width", " images ", "new_width"},
    {"concat_dim", " concat ", "concat_dim"},
    {"det_fg_threshold", " window_data ", "fg_threshold"},
    {"det_bg_threshold", " window_data ", "bg_threshold"},
    {"det_fg_fraction", " window_data ", "fg_fraction"},
    {"det_context_pad", " window_data ", "context_pad"},
    {"det_crop_mode", " window_data ", "crop_mode"},
    {"scale", NULL, "scale"},
    {"meanfile", NULL, "mean_file"},
    {"cropsize", NULL, "crop_size"},
    {"mirror", NULL, "mirror"},
};

static const char *const kept[] = {"name", "blobs", "blobs_lr", "weight_decay", NULL};

bool upgrade_is_v0(const Caffe__NetParameter *net)
{
    for (size_t i = 0; i < net->n_layers; i++)
        if (net->layers[i]->layer != NULL)
            return true;
    return false;
}

static const char *type_of(const Caffe__V1LayerParameter *layer)
{
    return layer->layer != NULL && layer->layer->type != NULL ? layer->layer->type : "";
}

/* Returns the layer's name, which an upgrade moves from the inner to the outer layer. */
static const char *name_of(const Caffe__V1LayerParameter *layer)
{
    const char *name =
        layer->layer != NULL && layer->name == NULL ? layer->layer->name : layer->name;

    return name != NULL ? name : "";
}

/* Moves one setting; drops a setting that the layer's type does not have, with a remark. */
static int move_setting(struct text_doc *doc, Caffe__V1LayerParameter *layer, const char *name,
                        const char *message)
{
    ProtobufCMessage *to;

    if (choice_find(kept, name) >= 0)
        return upgrade_move(&layer->layer->base, name, &layer->base, name);
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        if (strcmp(name, moves[i].name) != 0)
            continue;
        if (moves[i].types != NULL && !suggest_lists(moves[i].types, type_of(layer)))
            break;
        if (message_part(&layer->base, moves[i].types != NULL ? message : "transform_param", &to))
            return -1;
        return upgrade_move(&layer->layer->base, name, to, moves[i].target);
    }
    if (strcmp(name, "hdf5_output_param") == 0 && strcmp(type_of(layer), "hdf5_output") == 0)
        return upgrade_move(&layer->layer->base, name, &layer->base, name);
    return text_add_notice(doc, "%s: Unknown parameter %s for layer type %s; ignored",
                           text_place(doc, layer, name_of(layer)).text, name, type_of(layer));
}

static int unknown_type(const struct text_doc *doc, const Caffe__V1LayerParameter *layer)
{
    struct suggest near = suggest_start(type_of(layer));
    char remark[96] = "";
    const struct upgrade_type *type;

    for (int i = 0; (type = upgrade_type(i)) != NULL; i++)
        if (type->v0 != NULL)
            suggest_offer(&near, type->v0);
    if (near.nearest != NULL)
        snprintf(remark, sizeof remark, "; did you mean \"%s\"?", near.nearest);
    return error_set("%s: Unknown layer name: %s%s", text_place(doc, layer, name_of(layer)).text,
                     type_of(layer), remark);
}

static int upgrade_one(struct text_doc *doc, Caffe__V1LayerParameter *layer)
{
    Caffe__V0LayerParameter *old = layer->layer;
    const ProtobufCMessageDescriptor *descriptor = old->base.descriptor;
    const struct upgrade_type *type;
    int number = 0, status = 0;

    while ((type = upgrade_type(number)) != NULL &&
           (type->v0 == NULL || strcmp(type->v0, type_of(layer)) != 0))
        number++;
    if (type == NULL)
        return unknown_type(doc, layer);
    layer->has_type = 1;
    layer->type = (Caffe__V1LayerParameter__LayerType)number;
    for (unsigned i = 0; i < descriptor->n_fields && status == 0; i++)
        if (strcmp(descriptor->fields[i].name, "type") != 0 &&
            field_is_set(&old->base, &descriptor->fields[i]))
            status = move_setting(doc, layer, descriptor->fields[i].name, type->v0_message);
    layer->layer = NULL;
    caffe__v0_layer_parameter__free_unpacked(old, NULL);
    return status;
}

/* Moves the padding of a padding layer to the layer that reads it. */
static int take_padding(const struct text_doc *doc, Caffe__V1LayerParameter *layer,
                        const Caffe__V1LayerParameter *padding)
{
    const char *type = type_of(layer);
    char *bottom;

    if (strcmp(type, "conv") != 0 && strcmp(type, "pool") != 0)
        return error_set("%s: a padding layer may feed only conv and pool, found %s",
                         text_place(doc, layer, name_of(layer)).text, type);
    if (layer->n_bottom != 1 || padding->n_bottom != 1 || padding->n_top != 1)
        return error_set("%s: expected one bottom behind a padding layer with one bottom and one "
                         "top, found %zu, %zu and %zu",
                         text_place(doc, layer, name_of(layer)).text, layer->n_bottom,
                         padding->n_bottom, padding->n_top);
    if (alloc_text(&bottom, padding->bottom[0], "a name"))
        return -1;
    free(layer->bottom[0]);
    layer->bottom[0] = bottom;
    layer->layer->has_pad = 1;
    layer->layer->pad = padding->layer->pad;
    return 0;
}

/* Removes padding layers; their readers take over the padding. */
static int fold_padding(Caffe__NetParameter *net, const struct text_doc *doc)
{
    struct names producers = {0};
    size_t left = 0;
    int status = 0;

    for (size_t i = 0; i < net->n_layers && status == 0; i++) {
        Caffe__V1LayerParameter *layer = net->layers[i];

        for (size_t k = 0; k < layer->n_bottom && status == 0; k++) {
            int producer = names_get(&producers, layer->bottom[k]);

            if (producer >= 0 && strcmp(type_of(net->layers[producer]), "padding") == 0)
                status = take_padding(doc, layer, net->layers[producer]);
        }
        for (size_t k = 0; k < layer->n_top && status == 0; k++)
            status = names_set(&producers, layer->top[k], (int)i);
    }
    names_free(&producers);
    for (size_t i = 0; i < net->n_layers; i++) {
        if (strcmp(type_of(net->layers[i]), "padding") == 0)
            caffe__v1_layer_parameter__free_unpacked(net->layers[i], NULL);
        else
            net->layers[left++] = net->layers[i];
    }
    net->n_layers = left;
    return status;
}

int upgrade_v0(Caffe__NetParameter *net, struct text_doc *doc)
{
    if (fold_padding(net, doc))
        return -1;
    for (size_t i = 0; i < net->n_layers; i++)
        if (net->layers[i]->layer != NULL && upgrade_one(doc, net->layers[i]))
            return -1;
    return 0;
}
