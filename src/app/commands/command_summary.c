/* poseidon summary: prints the net as a table or as JSON. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"

#include <stdio.h>

#include "report/net_table.h"
#include "snapshot/checkpoint.h"
#include "spec/print.h"
#include "util/json.h"

static void json_tops(const struct layer_def *def, const struct layer *layer, struct json *json)
{
    json_put_array(json, "tops");
    for (int t = 0; t < (layer ? layer->ntops : def->ntops); t++) {
        json_object_begin(json);
        json_put_string(json, "name", layer ? layer->tops[t]->name : def->tops[t]);
        if (layer)
            json_put_ints(json, "shape", layer->tops[t]->value.shape.naxes,
                          layer->tops[t]->value.shape.dim);
        json_object_end(json);
    }
    json_array_end(json);
}

/* Finds the layer that owns parameter `number` of the net, and the parameter's index there. */
static void find_owner(const struct net *net, int number, int *layer, int *index)
{
    for (*layer = 0;; ++*layer)
        for (*index = 0; *index < net->layers[*layer].nparams; ++*index)
            if (net_param_number(net, *layer, *index) == number)
                return;
}

/* Writes a layer's parameters in order, each with its place in a weights file. */
static void json_blobs(const struct net *net, int l, struct json *json)
{
    int owner, index;

    json_put_array(json, "blobs");
    for (int p = 0; p < net->layers[l].nparams; p++) {
        const struct shape *shape = &net->layers[l].params[p]->shape;

        find_owner(net, net_param_number(net, l, p), &owner, &index);
        json_object_begin(json);
        json_put_ints(json, "shape", shape->naxes, shape->dim);
        json_put_string(json, "layer", net->layers[owner].def->name);
        json_put_int(json, "index", index);
        json_object_end(json);
    }
    json_array_end(json);
}

/* Writes the shape of an image before cropping, if the layer's source exists. */
static void json_record(const struct layer *layer, struct json *json)
{
    struct layer_images images = {.source = NULL};

    if (layer->i->images)
        layer->i->images(layer, &images);
    if (images.record.naxes > 0)
        json_put_ints(json, "record", images.record.naxes, images.record.dim);
}

static void json_layer(const struct net_def *def, const struct net *net, int l, struct json *json)
{
    const struct layer_def *layer = &def->layers[l];
    const struct group *owned = net ? net_table_owned(net, l) : NULL;

    json_object_begin(json);
    json_put_string(json, "name", layer->name);
    json_put_string(json, "type", layer->type);
    json_put_string(json, "place", layer_def_place(layer).text);
    json_put_bool(json, "inserted", layer->inserted);
    json_put_array(json, "bottoms");
    for (int b = 0; b < layer->nbottoms; b++)
        json_string(json, layer->bottoms[b]);
    json_array_end(json);
    json_tops(layer, net ? &net->layers[l] : NULL, json);
    if (net) {
        json_put_uint(json, "parameters", owned ? owned->elems : 0);
        json_put_uint(json, "flops", (uint64_t)net->layers[l].flops);
        json_put_string(json, "scheme", NULL);
        json_blobs(net, l, json);
        json_record(&net->layers[l], json);
    }
    print_json_parts(json, &layer->param->base);
    json_object_end(json);
}

/* Writes class names and image preparation in the form that a model file stores. */
static int json_data(const struct net *net, struct json *json)
{
    struct snapshot_owner data;
    int status = checkpoint_describe_data(net, &data);

    json_put_string(json, "classes", data.classes);
    json_put_string(json, "preprocessing", data.preparation);
    snapshot_owner_free(&data);
    return status;
}

/* Writes the net as one JSON object. net: shapes; NULL: unknown, so phase, parameters, flops,
 * outputs and preprocessing are left out. */
static int json_net(const struct net_def *def, const struct net *net, struct json *json)
{
    int status = 0;

    json_object_begin(json);
    json_put_string(json, "name", def->name);
    if (net) {
        json_put_string(json, "phase", net->train ? "TRAIN" : "TEST");
        json_put_uint(json, "parameters", net->nlearnable);
        json_put_uint(json, "flops", (uint64_t)net->flops);
        json_put_bool(json, "input_assumed", net_is_assumed(net));
        json_put_array(json, "outputs");
        for (int o = 0; o < net->noutputs; o++)
            json_string(json, net->outputs[o].blob->name);
        json_array_end(json);
        status = json_data(net, json);
    }
    json_put_array(json, "layers");
    for (int l = 0; l < def->nlayers; l++)
        json_layer(def, net, l, json);
    json_array_end(json);
    json_object_end(json);
    return status;
}

int command_summary(int argc, char **argv)
{
    struct model_options o = {.phase = "TRAIN", .look_only = true};
    struct model model;
    bool as_json = false, definition = false;
    int status;
    const struct option own[] = {
        {"json", OPTION_FLAG, &as_json, NULL, "print JSON instead"},
        {"definition", OPTION_FLAG, &definition, NULL,
         "print JSON without shapes and parameters, even for a net that cannot be built"},
    };
    const struct command_line line = {
        .command = "summary",
        .synopsis = "--model=FILE [OPTIONS]",
        .example = "  poseidon summary --model=models/lenet/train_val.prototxt",
        OPTION_ROWS(own),
        .net_rows = ROWS_OF_SHAPES,
        .net = &o,
        .about =
            "Prints the net's table: layers, shapes, parameters, operations. The input's size "
            "comes from --input-shape, from the data if it is there, or from crop_size and similar "
            "fields; else 3,224,224 is assumed, and every line says so. Layer types that are not "
            "supported are errors, one line each; --definition prints such a net, too.",
    };

    status = options_parse(&line, argc, argv, NULL);
    if (status || (definition ? model_define(&o, &model) : model_open(&o, &model)))
        return status ? status : -1;
    model_print_notices(&model);
    if (as_json || definition) {
        struct json json = {.depth = 0};
        status = error_status(json_net(model.def, model.net, &json) || json_print(&json, stdout));
        json_free(&json);
    } else {
        status = net_table_print(model.net, NULL, stdout);
    }
    model_close(&model);
    return status;
}
