/* The registry of layer types, and the helpers that all families use. The types themselves are
 * listed in layers_internal.h. */
#include "layers/layers_internal.h"

#include "util/alloc.h"
#include "util/log.h"
#include "util/strbuf.h"
#include "util/suggest.h"
#include "util/units.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct layer_i *const layer_types[] = {
#define LAYER_ENTRY(name) &layer_##name,
    LAYERS(LAYER_ENTRY)
#undef LAYER_ENTRY
};

#define NTYPES (sizeof(layer_types) / sizeof(layer_types[0]))

/* Known types that are not supported, separated by blanks, with the reason. */
#define FORK "it belongs to a fork of Caffe for "
static const struct {
    const char *types, *reason;
} refused[] = {
    {"Python", "it needs Caffe's Python layers, which only Caffe can run; to read data, use Data, "
               "ImageData or HDF5Data"},
    {"LSTM LSTMUnit RNN Recurrent", "this program does not train recurrent layers"},
    {"ContinuationIndicator CTCLoss", FORK "recurrent nets; HDF5Data reads their data"},
    {"WindowData MCWindowData",
     "it reads the window lists of R-CNN, which this program cannot read"},
    {"ImageLabelmapData", FORK "segmentation; ImageSegData does the same"},
    {"SegAccuracy", FORK "segmentation; tools/from_forks.py makes it Accuracy"},
    {"MergeCrop", FORK "segmentation; Crop and Concat do the same"},
    {"VideoData VideoSegmentationData", FORK "video; HDF5Data with 5 axes does the same"},
    {"Reorg Region RegionLoss Yolo EvalDetection", FORK "object detection (Darknet's YOLO)"},
    {"Permute Transpose", FORK "object detection (SSD) and others; Reshape does not do the same"},
    {"SpatialSoftmax", FORK "maps; Softmax between two Reshapes does the same"},
    {"Flip", FORK "mirrored maps; mirror of transform_param is for images alone"},
    {"Local", FORK "weights that differ from place to place"},
    {"MMDLoss", FORK "domain adaptation (DAN)"},
    {"Normalize", FORK "object detection (SSD) or face recognition (NormFace)"},
    {"Filter", "its tops' shapes depend on the data, and here all shapes are fixed at set-up"},
    {"AnnotatedData DetectionEvaluate DetectionOutput", FORK "object detection (SSD)"},
    {"MultiBoxLoss PriorBox", FORK "object detection (SSD)"},
    {"PSROIPooling", FORK "object detection (R-FCN)"},
    {"ROIPooling SmoothL1Loss", FORK "object detection (Fast R-CNN)"},
    {"Axpy", FORK "squeeze-and-excitation nets; tools/from_forks.py makes it Scale and Eltwise"},
    {"BN", FORK "segmentation; tools/from_forks.py makes it BatchNorm and Scale"},
    {"NdConvolution NdPooling Convolution3D Pooling3D",
     FORK "video; tools/from_forks.py makes it Convolution or Pooling"},
    {"CuDNNBatchNorm", "it is a fork's name for BatchNorm"},
    {"DetectNetTransformation", FORK "object detection (NVIDIA's DetectNet)"},
    {"CoSData", FORK "training on Spark (CaffeOnSpark)"},
    {"CenterLoss", FORK "face recognition (CenterLoss)"},
    {"MarginInnerProduct", FORK "face recognition (SphereFace)"},
};

/* Names of layer types in other frameworks and forks, separated by blanks, and ours. */
static const struct {
    const char *types, *ours;
} aliases[] = {
    {"Conv Conv1d Conv2d Conv3d", "Convolution"},
    {"ConvTranspose2d", "Deconvolution"},
    {"Linear Dense FullyConnected", "InnerProduct"},
    {"MaxPool MaxPool1d MaxPool2d MaxPool3d", "Pooling"},
    {"AvgPool AvgPool1d AvgPool2d AvgPool3d", "Pooling"},
    {"BatchNorm2d", "BatchNorm"},
    {"LeakyReLU", "ReLU"},
    {"CrossEntropyLoss SoftmaxLoss", "SoftmaxWithLoss"},
    {"MSELoss", "EuclideanLoss"},
    {"BCELoss BCEWithLogitsLoss", "SigmoidCrossEntropyLoss"},
    {"Cat", "Concat"},
    {"Add", "Eltwise"},
};

const struct layer_i *layer_find(const char *type)
{
    char word[64] = ""; /* `type` without V1's underscores */
    struct suggest near = suggest_start(word);

    for (size_t i = 0; i < NTYPES; i++)
        if (strcmp(layer_types[i]->type, type) == 0)
            return layer_types[i];
    for (const char *at = type; *at; at += strcspn(at, "_"), at += *at == '_')
        buffer_printf(word, sizeof word, "%.*s", (int)strcspn(at, "_"), at);
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        if (!suggest_lists(refused[i].types, word))
            continue;
        error_set("layer type %s is not supported: %s", type, refused[i].reason);
        return NULL;
    }
    for (size_t i = 0; i < NTYPES; i++)
        suggest_offer(&near, layer_types[i]->type);
    for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
        if (suggest_lists(aliases[i].types, word))
            near.nearest = aliases[i].ours;
    error_set("unknown layer type: %s%s%s%s", type, near.nearest ? "; did you mean " : "",
              near.nearest ? near.nearest : "", near.nearest ? "?" : "");
    return NULL;
}

const char *layer_type_name(int index)
{
    return (size_t)index < NTYPES ? layer_types[index]->type : NULL;
}

const char *layer_type_refused(int index, const char **reason)
{
    if ((size_t)index >= sizeof(refused) / sizeof(refused[0]))
        return NULL;
    *reason = refused[index].reason;
    return refused[index].types;
}

int layer_check_type(const char *type)
{
    return layer_find(type) ? 0 : -1;
}

int layer_check_types(const struct net_def *def)
{
    struct strbuf lines = {0};

    for (int l = 0; l < def->nlayers; l++)
        text_refuse_type(&lines, layer_def_place(&def->layers[l]).text, def->layers[l].type,
                         layer_check_type);
    return text_refusals_end(&lines, "", true);
}

static bool layer_counts(const struct layer_i *i)
{
    return i->bottoms.most || i->tops.most;
}

struct op_count layer_bottoms(const struct layer_i *i)
{
    return layer_counts(i) ? i->bottoms : op_signature(i->op)->bottoms;
}

struct op_count layer_tops(const struct layer_i *i)
{
    return layer_counts(i) ? i->tops : op_signature(i->op)->tops;
}

unsigned layer_no_gradient_to(const struct layer_i *i)
{
    return i->no_gradient_to | op_signature(i->op)->no_gradient_to;
}

/* Assembles the operator's arguments from the layer. */
static struct op_args layer_arguments(struct layer *layer)
{
    struct op_args args = {
        .kind = layer->i->op,
        .train = layer->train,
        .layer = layer->def->name,
        .relu = layer->fused != NULL,
        .layer_index = layer->index,
        .nbottoms = layer->nbottoms,
        .ntops = layer->ntops,
        .nparams = layer->nparams,
        .bottoms = layer->bottoms,
        .tops = layer->tops,
        .params = layer->params,
        .propagate = layer->propagate,
        .u = layer->u,
    };

    if (layer->i->arguments)
        layer->i->arguments(layer, &args);
    return args;
}

/* Checks arguments and shapes against the operator's signature. A merged op, which has two layers'
 * parameters, is checked at creation instead. */
static int check_call(struct layer *layer)
{
    struct param declared[LAYER_MAX_PARAMS], *params[LAYER_MAX_PARAMS];
    struct op_args args;

    if (layer->i->build || layer->merged)
        return 0;
    args = layer_arguments(layer);
    for (int p = 0; p < layer->nparams; p++) {
        declared[p] = (struct param){.shape = layer->param_defs[p].shape};
        params[p] = &declared[p];
    }
    args.params = params;
    if (layer->i->op_per_bottom)
        args.nbottoms = args.ntops = 1;
    return op_check_call(&args);
}

int layer_setup(struct layer *layer, const struct layer_env *env)
{
    int status = 0;

    for (int t = 0; layer->nbottoms > 0 && t < layer->ntops; t++)
        layer->tops[t]->value.shape = layer->bottoms[0]->value.shape;
    if (layer->i->setup_in)
        status = layer->i->setup_in(layer, env);
    else if (layer->i->setup)
        status = layer->i->setup(layer);
    return status ? -1 : check_call(layer);
}

bool layer_always(const struct layer *layer)
{
    (void)layer;
    return true;
}

int layer_set_scalar(struct layer *layer, double flops)
{
    layer->flops = flops * (double)shape_elems(&layer->bottoms[0]->value.shape);
    return shape_set(&layer->tops[0]->value.shape, 0, NULL, layer->tops[0]->name);
}

int layer_declare_param(struct layer *layer, const char *what, int naxes, const int64_t *dim,
                        const Caffe__FillerParameter *filler)
{
    struct param_def *def = &layer->param_defs[layer->nparams];

    if (layer->nparams == LAYER_MAX_PARAMS)
        return error_set("a layer has at most %d parameters", LAYER_MAX_PARAMS);
    def->filler = filler;
    if (shape_set(&def->shape, naxes, dim, what) || (filler && filler_check(filler)))
        return -1;
    layer->nparams++;
    return 0;
}

int layer_declare_weights(struct layer *layer, int naxes, const int64_t *weight,
                          const Caffe__FillerParameter *weight_filler, bool bias, int64_t outputs,
                          const Caffe__FillerParameter *bias_filler)
{
    if (layer_declare_param(layer, "weight", naxes, weight, weight_filler))
        return -1;
    return bias ? layer_declare_param(layer, "bias", 1, &outputs, bias_filler) : 0;
}

int layer_build(struct layer *layer, struct engine *engine)
{
    size_t count = layer->i->op_per_bottom ? (size_t)layer->nbottoms : 1;

    assert(!layer->ops); /* called once */
    if (layer->idle)
        return 0;
    if (layer->i->build)
        return layer->i->build(layer, engine);
    if (ALLOC(layer->ops, count, "operators"))
        return -1;
    for (size_t b = 0; b < count; b++, layer->nops++) {
        struct op_args args = layer_arguments(layer);
        if (layer->i->op_per_bottom) {
            args.nbottoms = args.ntops = 1;
            args.bottoms += b;
            args.tops += b;
            args.propagate += b;
        }
        if (engine_op_create(engine, &args, &layer->ops[b]))
            return -1;
    }
    return 0;
}

bool layer_takes(const struct layer *layer, const struct layer *next, const struct engine *engine)
{
    const struct layer *work = layer->merged ? layer->merged : layer;

    return layer->i->takes_relu && layer->i->takes_relu(layer) && layer_is_plain_relu(next) &&
           engine_fuses(engine, work->i->op, OP_RELU);
}

bool layer_takes_before(const struct layer *layer, const struct layer *before,
                        const struct engine *engine)
{
    return layer->i->takes_relus_before && layer_is_plain_relu(before) &&
           engine_fuses(engine, layer->i->op, OP_RELU);
}

int layer_forward(struct layer *layer, const struct pass *pass)
{
    if (layer->idle)
        return 0;
    assert(layer->i->forward || layer->nops > 0);
    if (layer->i->forward)
        return layer->i->forward(layer, pass);
    for (int i = 0; i < layer->nops; i++)
        if (op_forward(layer->ops[i], pass))
            return -1;
    return 0;
}

int layer_backward(struct layer *layer, const struct pass *pass)
{
    if (layer->idle)
        return 0;
    assert(layer->train && layer->needs_backward && (layer->i->backward || layer->nops > 0));
    if (layer->i->backward)
        return layer->i->backward(layer, pass);
    for (int i = 0; i < layer->nops; i++) {
        if (layer->i->op_per_bottom && !layer->tops[i]->wants_grad)
            continue; /* no loss depends on this top: its bottom's gradient is 0 */
        if (op_backward(layer->ops[i], pass))
            return -1;
        for (int p = 0; p < layer->nparams; p++)
            layer->params[p]->accumulate = true; /* the next bottom's op adds to this gradient */
    }
    return 0;
}

void layer_describe(const struct layer *layer, const struct engine *engine,
                    char words[ENGINE_OP_WORDS])
{
    engine_describe(engine, layer->nops > 0 ? layer->ops[0] : NULL, words);
}

struct op_work layer_work(const struct layer *layer, enum op_pass pass)
{
    struct op_work sum = {0};

    if (pass == OP_BACKWARD && !layer->needs_backward)
        return sum;
    for (int i = 0; i < layer->nops; i++) {
        const struct op_work *work = &layer->ops[i]->work[pass];
        sum.flops += work->flops;
        sum.blob_bytes += work->blob_bytes;
        sum.param_bytes += work->param_bytes;
    }
    return sum;
}

int layer_notice(const struct layer *layer, const struct layer_env *env, const char *format, ...)
{
    const char *before = strncmp(format, LOG_WARNS, strlen(LOG_WARNS)) ? "" : LOG_WARNS;
    struct strbuf text = {0};
    size_t start;
    va_list arguments;
    char *grown;

    if (!env->notices)
        return 0;
    strbuf_puts(&text, *env->notices ? *env->notices : "");
    start = text.length;
    if (*layer->def->name)
        strbuf_printf(&text, "%slayer '%s': ", before, layer->def->name);
    else
        strbuf_printf(&text, "%s%s:%d: layer of type %s: ", before, layer->def->file,
                      layer->def->line, layer->def->type);
    va_start(arguments, format);
    strbuf_vprintf(&text, format + strlen(before), arguments);
    va_end(arguments);
    strbuf_putc(&text, '\n');
    grown = strbuf_take(&text);
    if (!grown)
        return -1;
    if (*env->notices && strstr(*env->notices, grown + start)) { /* by the other phase */
        free(grown);
        return 0;
    }
    free(*env->notices);
    *env->notices = grown;
    return 0;
}

int layer_notices_gather(char **notices)
{
    struct strbuf text = {0};
    char *save, *gathered;

    for (char *line = strtok_r(*notices, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        const char *tail = strstr(line, "': ");
        if (!tail || !strbuf_count_line(&text, tail))
            strbuf_printf(&text, "%s\n", line);
    }
    gathered = strbuf_take(&text);
    free(*notices);
    *notices = gathered;
    return gathered ? 0 : -1;
}

int layer_expect_axes(const struct layer *layer, int bottom, int naxes, const char *meaning)
{
    const struct blob *blob = layer->bottoms[bottom];

    if (blob->value.shape.naxes == naxes)
        return 0;
    return error_set("expected a bottom of %s (%s), found '%s' of %d: %s",
                     units_count(naxes, "axis").text, meaning, blob->name, blob->value.shape.naxes,
                     shape_text(&blob->value.shape).text);
}

int layer_expect_one_shape(const struct layer *layer)
{
    const struct shape *first = &layer->bottoms[0]->value.shape;

    for (int b = 1; b < layer->nbottoms; b++) {
        const struct shape *other = &layer->bottoms[b]->value.shape;
        if (!shape_equal(first, other))
            return error_set("all bottoms must have one shape: '%s' is %s, '%s' is %s",
                             layer->bottoms[0]->name, shape_text(first).text,
                             layer->bottoms[b]->name, shape_text(other).text);
    }
    return 0;
}

int layer_resolve_axis(const struct layer *layer, const char *field, int axis, int *out)
{
    const struct blob *blob = layer->bottoms[0];

    if (shape_axis(&blob->value.shape, axis, out) == 0)
        return 0;
    return error_set("%s %d is out of range for bottom '%s' of %s: %s%s", field, axis, blob->name,
                     units_count(blob->value.shape.naxes, "axis").text,
                     shape_text(&blob->value.shape).text,
                     blob->value.shape.naxes == 1 && strcmp(layer->i->type, "Slice") == 0
                         ? "; several labels a record: label_size of ImageData, or HDF5Data"
                         : "");
}
