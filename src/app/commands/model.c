/* One phase of a net file, opened for a command. */
#include "commands/model.h"
#include "commands/options_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "snapshot/checkpoint.h"
#include "spec/modelfile.h"
#include "spec/proto.h"
#include "spec/read.h"
#include "util/alloc.h"
#include "util/path.h"
#include "util/strbuf.h"
#include "util/units.h"

static int define(const struct model_options *o, struct model *model)
{
    const Caffe__NetParameter *param = (const Caffe__NetParameter *)text_root(model->doc);
    Caffe__NetState own = CAFFE__NET_STATE__INIT;
    bool tests = strcasecmp(o->phase, "TEST") == 0;
    int nstages, status;

    if (!tests && strcasecmp(o->phase, "TRAIN") != 0)
        return error_set("--phase=%s: expected TRAIN or TEST", o->phase);
    status = alloc_split(&own.stage, &nstages, o->stages ? o->stages : "", "stages");
    own.n_stage = (size_t)nstages;
    own.has_level = true; /* like Caffe's tools: keep the file's stages, not its level */
    own.level = o->level;
    if (!status)
        status = net_def_create(model->doc, param, tests ? CAFFE__PHASE__TEST : CAFFE__PHASE__TRAIN,
                                &own, &model->def);
    alloc_free_list(own.stage, nstages);
    return status;
}

/* First words of a layer's notice that it assumes an image size. */
static const char image_assumption[] = "assuming images";

/* Adds an explanation to an error. A weight file may name layers without a complete net. An assumed
 * image size may be the cause, so its notice follows. */
static int explain(bool with_weights, const char *notices)
{
    if (with_weights)
        return error_set("%s (this weight file has no complete net: give the net's prototxt)",
                         error_text());
    return net_explain(notices);
}

static int create(const struct model_options *o, const struct layer_env *env, struct model *model)
{
    free(model->notices);
    net_destroy(model->net);
    model->net = NULL;
    if (alloc_text(&model->notices, text_notices(model->doc), "notices")) /* layers add to it */
        return -1;
    return error_status(
        net_create(model->def, !strcasecmp(o->phase, "TRAIN"), env, NULL, &model->net) ||
        layer_notices_gather(&model->notices));
}

/* Returns true if the stored weights have the sizes that the net's layers expect. */
static bool weights_fit(const struct net *net, const struct stored_layer *stored, int nstored)
{
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];

        for (int s = 0; s < nstored; s++)
            for (int p = 0; !strcmp(stored[s].name, layer->def->name) && p < layer->nparams; p++)
                if (p < stored[s].nblobs &&
                    stored[s].blobs[p].elems != shape_elems(&layer->param_defs[p].shape))
                    return false;
    }
    return true;
}

/* Replaces an assumed image size by the size in `told`, stored with the weights. Without a stored
 * size, and if the net comes from the weight file, tries usual sizes until the weights fit. Sets
 * env->input_chw. */
static int fit_input(const struct model_options *o, bool with_weights,
                     const struct checkpoint_told *told, struct layer_env *env, struct model *model)
{
    static const int64_t sizes[][3] = {{3, 32, 32},   {1, 28, 28},   {3, 28, 28},   {1, 32, 32},
                                       {3, 64, 64},   {1, 64, 64},   {3, 96, 96},   {3, 128, 128},
                                       {1, 128, 128}, {3, 227, 227}, {1, 227, 227}, {1, 224, 224},
                                       {3, 256, 256}, {1, 256, 256}, {3, 299, 299}};
    const struct stored_layer *stored;
    struct model_file *file;
    bool fits = told->record.naxes > 0;
    int nstored;

    if (fits) {
        env->input_chw = told->record.dim;
        if (create(o, env, model))
            return -1;
    } else if (with_weights) {
        if (model_file_open(o->model, &file))
            return -1;
        stored = model_file_layers(file, &nstored);
        fits = model->net && weights_fit(model->net, stored, nstored);
        for (size_t i = 0; !fits && i < sizeof sizes / sizeof *sizes; i++) {
            env->input_chw = sizes[i];
            fits = create(o, env, model) == 0 && weights_fit(model->net, stored, nstored);
        }
        model_file_close(file);
    }
    if (fits && env->input_chw)
        return layer_notice(model->net->layers, env,
                            "taking images of %s, %d x %d pixels, %s the weights; "
                            "--input-shape=C,H,W says otherwise",
                            units_count(env->input_chw[0], "channel").text, (int)env->input_chw[1],
                            (int)env->input_chw[2], told->record.naxes ? "from" : "to fit");
    env->input_chw = NULL;
    return fits || (!with_weights && model->net) ? 0 : create(o, env, model);
}

struct layer_env model_env(const struct model_options *o, struct model *model)
{
    return (struct layer_env){.look_only = o->look_only,
                              .batch = o->batch,
                              .rank = o->rank,
                              .nranks = o->nranks > 0 ? o->nranks : 1,
                              .seed = 1,
                              .ranks = o->ranks,
                              .notices = &model->notices,
                              .base_file = o->model};
}

/* Parses "3,224,224", a size of images, or "label:1,41,41", the shape of one top. */
static int parse_input(const char *text, struct input_shape *out)
{
    const char *colon = strrchr(text, ':'), *at = colon ? colon + 1 : text;
    struct shape *shape = &out->shape;
    long long size;
    int n;

    *out = (struct input_shape){.top = text, .letters = colon ? (int)(colon - text) : 0};
    while (colon != text && shape->naxes + 1 < SHAPE_MAX_AXES &&
           sscanf(at, "%lld%n", &size, &n) == 1 && size > 0 && strchr(",", at[n])) {
        shape->dim[shape->naxes++] = size;
        if (!at[n] && (colon || shape->naxes == 3))
            return 0;
        at += n + (at[n] == ',');
    }
    return error_set("--input-shape expects C,H,W such as 3,224,224, or TOP:SIZES such as "
                     "label:1,41,41, found '%s'",
                     text);
}

/* Fails if the net has no such input. */
static int check_input(const struct net *net, const struct input_shape *input)
{
    char tops[256] = "";
    bool found = false;

    for (int l = 0; l < net->nlayers; l++)
        for (int t = 0; net->layers[l].i->is_data && t < net->layers[l].ntops; t++) {
            const struct blob *top = net->layers[l].tops[t];

            found |= input->letters ? strlen(top->name) == (size_t)input->letters &&
                                          !strncmp(top->name, input->top, (size_t)input->letters)
                                    : top->value.shape.naxes == 4;
            buffer_list(tops, sizeof tops, top->name);
        }
    return found ? 0
                 : error_set("--input-shape=%s: the net has no input %s; its inputs are: %s",
                             input->top, input->letters ? "of that name" : "of images", tops);
}

int model_open(const struct model_options *o, struct model *model)
{
    struct layer_env env = model_env(o, model);
    struct input_shape inputs[OPTIONS_ITEMS];
    struct checkpoint_told told = {.preparation = NULL};
    bool with_weights;
    int status;

    memset(model, 0, sizeof *model);
    if (o->weights && path_ends(o->weights, ".prototxt") && !path_ends(o->model, ".prototxt"))
        return error_set("--model=%s and --weights=%s are swapped: the net is the .prototxt file",
                         o->model, o->weights);
    for (int i = 0; i < o->inputs.n; i++) {
        if (parse_input(o->inputs.item[i], &inputs[i]))
            return -1;
        if (!inputs[i].letters)
            env.input_chw = inputs[i].shape.dim;
    }
    env.inputs = inputs;
    env.ninputs = o->inputs.n;
    if (spec_read_net_of(o->model, layer_check_type, false, &model->doc))
        return -1;
    with_weights = proto_is_binary(o->model);
    status = error_status(define(o, model) || create(o, &env, model));
    if ((o->weights || with_weights) && model->notices && strstr(model->notices, image_assumption))
        status = error_status(checkpoint_read_told(o->weights ? o->weights : o->model, &told) ||
                              fit_input(o, with_weights, &told, &env, model));
    checkpoint_free_told(&told);
    for (int i = 0; i < o->inputs.n && !status; i++)
        status = check_input(model->net, &inputs[i]);
    if (status) {
        explain(with_weights, model->notices);
        model_close(model);
    }
    return status;
}

int model_define(const struct model_options *o, struct model *model)
{
    memset(model, 0, sizeof *model);
    if (spec_read_net_of(o->model, layer_check_type, false, &model->doc) == 0 &&
        define(o, model) == 0)
        return 0;
    model_close(model);
    return -1;
}

/* Returns one of the layer's tops that is wanted but that nothing fills; NULL: none. */
static const struct blob *blank_input(const struct net *net, const struct layer *layer,
                                      bool look_only, const struct blob *given, const bool *wanted)
{
    for (int t = 0; t < layer->ntops; t++)
        if ((layer->i->from_program || (look_only && layer->i->seek)) &&
            wanted[net_blob_number(net, layer->tops[t])] && layer->tops[t] != given)
            return layer->tops[t];
    return NULL;
}

int model_check_inputs(const struct model *model, const struct model_options *options,
                       const struct blob *given, int n, const struct blob *const *blobs)
{
    const struct net *net = model->net;
    const struct blob *blank = NULL;
    bool *wanted;
    int l = net->nlayers;

    if (ALLOC(wanted, net->nblobs + 1, "a net's inputs"))
        return -1;
    for (int i = 0; i < n; i++)
        wanted[net_blob_number(net, blobs[i])] = true;
    while (l-- > 0 && !blank) {
        const struct layer *layer = &net->layers[l];
        bool makes = n == 0;

        for (int t = 0; t < layer->ntops; t++)
            makes |= wanted[net_blob_number(net, layer->tops[t])];
        for (int b = 0; makes && b < layer->nbottoms; b++)
            wanted[net_blob_number(net, layer->bottoms[b])] = true;
        blank = blank_input(net, layer, options->look_only, given, wanted);
    }
    free(wanted);
    if (!blank)
        return 0;
    error_set(given ? "the input '%s' would be zeros: classify gives photographs to '%s' alone"
                    : "the input '%s' would be zeros: expected a layer that reads data (poseidon "
                      "classify takes photographs)",
              blank->name, given ? given->name : "");
    return error_context("%s", layer_def_place(net->layers[l + 1].def).text);
}

int model_build(struct model *model, const char *engine, const struct engine_options *options,
                uint64_t seed)
{
    if (engine_open(engine, options, &model->engine))
        return -1;
    return net_build(model->net, &model->engine, seed);
}

int model_load_weights(struct model *model, const char *weights, bool all, struct log *log)
{
    if (!weights)
        return model->net->nparams ? error_set("Need " NEED_WEIGHTS) : 0;
    if (checkpoint_load_weights(weights, all, model->net, log))
        return -1;
    for (int g = 0; g < model->net->ngroups; g++)
        net_touch(model->net, g);
    return 0;
}

void model_print_notices(const struct model *model)
{
    if (model->notices)
        fputs(model->notices, stderr);
}

void model_close(struct model *model)
{
    net_destroy(model->net);
    if (model->engine.i)
        engine_close(&model->engine);
    net_def_destroy(model->def);
    text_free(model->doc);
    free(model->notices);
    memset(model, 0, sizeof *model);
}
