/* poseidon classify: prints the most likely classes of photographs. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options_rows.h"
#include "input/image_input.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input/class_names.h"
#include "input/list.h"
#include "snapshot/checkpoint.h"
#include "spec/caffe.pb-c.h"
#include "spec/text.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"
#include "util/progress.h"
#include "util/units.h"

struct classification {
    struct model_options options;
    const char *labels, *labels_out, *mean, *blob;
    double scale; /* NAN: not given */
    const char *resize;
    struct computing computing;
    int top;
    bool rgb, json;
    struct model model;
    struct layer_images from;    /* image preparation and class names of the net's data layer */
    struct checkpoint_told told; /* preparation and class names in the weights. Owned */
    bool prepared;               /* `from` holds preparation that was read from the weights */
    struct image_input image;
    struct blob *input; /* first top of the net's first layer */
    const struct blob *scores;
    bool softmax; /* scores need a softmax to be probabilities */
    int batch, classes;
    int height, width;      /* size of the plane of scores, with --labels-out; else 1 */
    float *pixels, *values; /* input and scores of one batch */
    struct class_names own; /* names of --labels or of the weights */
    char *const *names;     /* class names: `own`, or the data layer's */
    int nnames;
    struct json report;
    struct list images; /* images to classify */
    uint64_t *which;    /* indices into `images` of one batch; owned */
    int failed;         /* images that could not be read */
    struct progress progress;
};

/* Finds the class names: --labels, those of the net's data layer, or those of the weights. */
static int find_names(struct classification *c)
{
    c->names = c->from.classes;
    c->nnames = c->from.nclasses;
    if (c->labels || !c->nnames) {
        if (c->labels ? class_names_read(c->labels, &c->own)
                      : class_names_split(c->told.owner.classes, &c->own))
            return -1;
        c->names = c->own.name;
        c->nnames = c->own.count;
    }
    if (!c->nnames)
        fprintf(stderr, "Class names are missing in the weights and in the net's data; "
                        "--labels=FILE gives them\n");
    if (!c->labels || c->nnames == c->classes)
        return 0;
    return error_set("%s: expected %s, one per line, found %d ('%s' to '%s')", c->labels,
                     units_count(c->classes, "class name").text, c->nnames, c->names[0],
                     c->names[c->nnames - 1]);
}

/* Takes the preparation of images from the weights if the net's data is missing. */
static void take_preparation(struct classification *c, const struct layer *first)
{
    const struct shape *input = &c->input->value.shape, *told = &c->told.record;

    if (c->from.source || !c->told.preparation)
        return;
    if (!first->i->images)
        c->from.transform = c->told.transform;
    if (!c->from.as_stored && !c->from.record.naxes && told->naxes &&
        told->dim[0] == input->dim[1] && told->dim[1] >= input->dim[2] &&
        told->dim[2] >= input->dim[3])
        c->from.record = *told;
    c->prepared = !first->i->images && (c->from.transform || c->from.record.naxes);
}

/* Sets the size that photographs are resized to before the centre is cut out: (1) --resize; (2) the
 * size of the data layer's records; (3) 256 x 256, like Caffe's classify.py, for inputs of 192 to
 * 256 pixels; (4) the input's own size. */
static int set_size(struct classification *c, const struct shape *input, struct shape *whole)
{
    enum { CUSTOM = 256, CUT_FROM = 192, LARGEST = 16384 };
    int height = (int)input->dim[2], width = (int)input->dim[3], side, tall, wide;
    bool cut = height >= CUT_FROM && height <= CUSTOM && width >= CUT_FROM && width <= CUSTOM;
    char after;

    *whole = (struct shape){.naxes = 3, .dim = {input->dim[1], height, width}};
    c->image.as_stored = c->from.as_stored && !c->resize;
    if (c->from.record.naxes)
        *whole = c->from.record;
    else if (cut)
        whole->dim[1] = whole->dim[2] = CUSTOM;
    if (!c->resize)
        return 0;
    if (sscanf(c->resize, "%d%c", &side, &after) == 1) {
        if (side >= height && side >= width && side <= LARGEST) {
            c->image.side = side;
            return 0;
        }
    } else if (sscanf(c->resize, "%dx%d%c", &wide, &tall, &after) == 2 && tall >= height &&
               wide >= width && tall <= LARGEST && wide <= LARGEST) {
        whole->dim[1] = tall;
        whole->dim[2] = wide;
        return 0;
    }
    return error_set("--resize=%s: expected WIDTHxHEIGHT such as 256x256, or the shorter side's "
                     "length, at least the input's %dx%d",
                     c->resize, width, height);
}

/* Sets the transform of pixels: the data layer's, changed by options, without mirroring. */
static int set_transform(struct classification *c, const struct shape *input,
                         const struct shape *whole)
{
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct transform *t = &c->image.transform;

    if (c->from.transform)
        param = *c->from.transform;
    param.mirror = false;
    param.crop_size = param.crop_height = param.crop_width = 0;
    param.n_scale_factors = 0;
    if (c->mean) {
        param.mean_file = NULL;
        param.n_mean_value = 0;
    }
    if (!isnan(c->scale))
        param.scale = (float)c->scale;
    if (transform_create(&param, whole, false, c->options.model, t))
        return param.mean_file && !c->from.record.naxes
                   ? error_set("%s\nThe net's data is missing, so the size of its records is not "
                               "known: give the mean image's size, --resize=WIDTHxHEIGHT",
                               error_text())
                   : -1;
    t->out.dim[1] = input->dim[2];
    t->out.dim[2] = input->dim[3];
    if (c->image.side || c->image.as_stored || !shape_equal(&t->in, &t->out))
        t->crops = true;
    return c->mean ? image_input_set_mean(c->mean, t) : 0;
}

/* Prints how photographs are prepared, and whether data layer, weights or options decided so. */
static void say_transform(const struct classification *c)
{
    const struct layer *first = &c->model.net->layers[0];
    const struct transform *t = &c->image.transform;
    const Caffe__TransformationParameter *own = c->from.transform;
    const char *unit = c->image.transform.in.dim[0] == 1 ? "grey"
                       : c->image.rgb                    ? "red, green, blue"
                                                         : "blue, green, red";

    fprintf(stderr, "Preprocessing: ");
    if (c->image.as_stored)
        fprintf(stderr, "as stored");
    else if (c->image.side)
        fprintf(stderr, "shorter side %d", c->image.side);
    else
        fprintf(stderr, "resize %lldx%lld", (long long)t->in.dim[2], (long long)t->in.dim[1]);
    if (t->crops)
        fprintf(stderr, ", crop %lldx%lld", (long long)t->out.dim[2], (long long)t->out.dim[1]);
    if (t->mean)
        fprintf(stderr, ", mean %s", own->mean_file);
    else if (t->channel_mean)
        for (int64_t i = 0; i < t->in.dim[0]; i++)
            fprintf(stderr, "%s%g", i ? "," : ", mean ", (double)t->channel_mean[i]);
    else
        fprintf(stderr, ", no mean subtracted");
    fprintf(stderr, ", scale %g, %s", (double)t->scale, unit);
    if (!own && !c->from.record.naxes && !c->from.as_stored)
        fprintf(stderr, " (layer '%s' sets no preprocessing%s)\n", first->def->name,
                c->mean || c->resize || !isnan(c->scale) ? "; the options do"
                                                         : ": use --resize, --mean, --scale");
    else
        fprintf(stderr, " (from %s '%s'%s)\n", c->prepared ? "the weights" : "layer",
                c->prepared ? c->options.weights : first->def->name,
                c->mean || c->resize || !isnan(c->scale) ? " and the options" : "");
}

/* Finds the input, the first top of the net's first layer, N x C x H x W. */
static int find_input(struct classification *c)
{
    struct net *net = c->model.net;
    const struct layer *first = net->nlayers > 0 ? &net->layers[0] : NULL;
    const struct shape *shape;
    struct shape whole;

    if (!first || !first->i->is_data || first->ntops < 1)
        return error_set("expected a net that begins with its input, a layer of type Input");
    c->input = first->tops[0];
    shape = &c->input->value.shape;
    if (shape->naxes != 4 || (shape->dim[1] != 1 && shape->dim[1] != 3))
        return error_set("expected an input of N x 1 or 3 x H x W, found '%s' of shape %s",
                         c->input->name, shape_text(shape).text);
    c->batch = (int)shape->dim[0];
    c->image.rgb = c->rgb;
    if (first->i->images)
        first->i->images(first, &c->from);
    take_preparation(c, first);
    if (set_size(c, shape, &whole) || set_transform(c, shape, &whole))
        return -1;
    say_transform(c);
    return 0;
}

/* Finds the scores: --blob, the top of the last Softmax, or the bottom of the last softmax loss. */
static int find_scores(struct classification *c)
{
    const struct net *net = c->model.net;
    const struct shape *shape;

    if (c->blob && !(c->scores = net_find_blob(net, c->blob)))
        return error_set("--blob: the net's TEST phase has no blob '%s'", c->blob);
    for (int i = net->nlayers - 1; i >= 0 && !c->scores; i--) {
        const struct layer *layer = &net->layers[i];

        if (!strcmp(layer->def->type, "Softmax") || !strcmp(layer->def->type, "SoftmaxWithLoss")) {
            c->softmax = layer->def->type[7] != '\0';
            c->scores = c->softmax ? layer->bottoms[0] : layer->tops[0];
        }
    }
    if (!c->scores)
        return error_set("the net has no Softmax; expected --blob=NAME, the blob of its scores");
    if (model_check_inputs(&c->model, &c->options, c->input, 1, &c->scores))
        return -1;
    net_keep(c->model.net, c->scores);
    shape = &c->scores->value.shape;
    if (shape->naxes < 1 || shape->dim[0] != c->batch)
        return error_set(
            "expected scores for each of the %d images of a batch, found '%s' of shape %s",
            c->batch, c->scores->name, shape_text(shape).text);
    if (c->labels_out && (shape->naxes != 4 || shape->dim[1] > 256))
        return error_set("--labels-out: expected scores of at most 256 classes for every pixel, N "
                         "x classes x H x W; found '%s' of shape %s",
                         c->scores->name, shape_text(shape).text);
    c->height = c->labels_out ? (int)shape->dim[2] : 1;
    c->width = c->labels_out ? (int)shape->dim[3] : 1;
    c->classes = (int)(shape_elems(shape) / (size_t)(c->batch * c->height * c->width));
    if (c->top > c->classes)
        c->top = c->classes;
    return find_names(c);
}

static int prepare(struct classification *c, struct log *log)
{
    size_t pixels;

    if (model_open(&c->options, &c->model) || checkpoint_read_told(c->options.weights, &c->told) ||
        find_input(c) || find_scores(c) ||
        model_build(&c->model, c->computing.engine, &c->computing.options, 1))
        return -1;
    if (model_load_weights(&c->model, c->options.weights, true, log))
        return net_is_assumed(c->model.net)
                   ? error_set("%s\nThe input was assumed to be %d x %d x %d: give its size with "
                               "--input-shape=C,H,W, or a net that begins with an Input layer",
                               error_text(), (int)c->image.transform.out.dim[0],
                               (int)c->image.transform.out.dim[1],
                               (int)c->image.transform.out.dim[2])
                   : -1;
    model_print_notices(&c->model);
    pixels = shape_elems(&c->input->value.shape);
    return error_status(ALLOC(c->pixels, pixels, "images") || ALLOC(c->which, c->batch, "images") ||
                        ALLOC(c->values, shape_elems(&c->scores->value.shape), "images"));
}

static void to_probabilities(float *scores, int n)
{
    double sum = 0;
    float most = scores[0];

    for (int i = 1; i < n; i++)
        most = scores[i] > most ? scores[i] : most;
    for (int i = 0; i < n; i++)
        sum += exp((double)(scores[i] - most));
    for (int i = 0; i < n; i++)
        scores[i] = (float)(exp((double)(scores[i] - most)) / sum);
}

/* Returns the best class after `last` in falling order of (score, index). Fast for small --top. */
static int next_best(const float *scores, int n, int last)
{
    int best = -1;

    for (int i = 0; i < n; i++)
        if ((last < 0 || scores[i] < scores[last] || (i > last && scores[i] == scores[last])) &&
            (best < 0 || scores[i] > scores[best]))
            best = i;
    return best;
}

/* Writes the picture of labels of the image `path`, the class of the best score at every pixel, and
 * puts its name into `name`. Replaces the scores by each class's share of the pixels. */
static int labels_write(const struct classification *c, const char *path, float *scores,
                        struct strbuf *name)
{
    const size_t pixels = (size_t)c->height * (size_t)c->width;
    const char *base = path_base(path), *dot = strrchr(base, '.');
    struct image image = {.indices = true};
    struct strbuf file = {.data = NULL};
    float share[256] = {0};
    int status = image_set_size(&image, 1, (uint64_t)c->height, (uint64_t)c->width);

    strbuf_printf(name, "%s/%.*s.png", c->labels_out, (int)(dot ? dot - base : 4096), base);
    if (!status && (status = strbuf_status(name)) == 0 && access(name->data, F_OK) == 0)
        status = error_set("%s: %s would be its second picture of labels", path, name->data);
    for (size_t p = 0; p < pixels && !status; p++) {
        int best = 0;

        for (int k = 1; k < c->classes; k++)
            best = scores[(size_t)k * pixels + p] > scores[(size_t)best * pixels + p] ? k : best;
        image.pixels.bytes[p] = (uint8_t)best;
        share[best] += 1;
    }
    for (int k = 0; k < c->classes; k++)
        scores[k] = share[k] / (float)pixels;
    if (!status && !(status = image_encode(&image, IMAGE_PNG, 0, &file)))
        status = file_write(name->data, file.bytes, file.length);
    strbuf_free(&file);
    image_free(&image);
    if (status)
        strbuf_free(name);
    return status;
}

static int report(struct classification *c, const char *path, float *scores)
{
    struct strbuf picture = {.data = NULL};
    char number[32];
    int best = -1;

    if (c->labels_out && labels_write(c, path, scores, &picture))
        return -1;
    if (c->softmax && !c->labels_out)
        to_probabilities(scores, c->classes);
    if (!c->json)
        printf("---------- Prediction for %s ----------\n", path);
    json_object_begin(&c->report);
    json_put_string(&c->report, "image", path);
    if (c->labels_out)
        json_put_string(&c->report, "labels", picture.data);
    strbuf_free(&picture);
    json_put_array(&c->report, "top");
    for (int k = 0; k < c->top; k++) {
        best = next_best(scores, c->classes, best);
        if (best < 0)
            break; /* NaN scores have no order */
        snprintf(number, sizeof number, "class %d", best);
        if (!c->json)
            printf(best < c->nnames ? "%.4f - \"%s\"\n" : "%.4f - %s\n", (double)scores[best],
                   best < c->nnames ? c->names[best] : number);
        json_object_begin(&c->report);
        json_put_int(&c->report, "class", best);
        json_put_int(&c->report, "number", best);
        json_put_string(&c->report, "label", best < c->nnames ? c->names[best] : NULL);
        json_put_double(&c->report, "probability", (double)scores[best]);
        json_object_end(&c->report);
    }
    json_array_end(&c->report);
    json_object_end(&c->report);
    return 0;
}

/* Runs one batch of images forward, layer by layer: the input is written after the first layer,
 * because a data layer would overwrite it with its own images. */
static int run_batch(struct classification *c, int count)
{
    struct net *net = c->model.net;
    const size_t each = shape_elems(&c->scores->value.shape) / (size_t)c->batch;
    struct pass pass = {.seed = 1};

    if (net_layer_forward(net, 0, &pass) ||
        net->engine->i->write(net->engine->context, &c->input->value, c->pixels))
        return -1;
    for (int i = 1; i < net->nlayers; i++)
        if (net_layer_forward(net, i, &pass))
            return -1;
    if (net_read_blob(net, c->scores, c->values))
        return -1;
    progress_erase(&c->progress);
    for (int i = 0; i < count; i++)
        if (report(c, list_path(&c->images, c->which[i]), c->values + (size_t)i * each))
            return -1;
    return 0;
}

static int classify(struct classification *c)
{
    size_t each = shape_elems(&c->image.transform.out);
    int ready = 0, status = 0;

    json_array_begin(&c->report);
    progress_begin(&c->progress, c->images.count);
    for (uint64_t n = 0; n < c->images.count && !status; n++) {
        if (image_input_read(list_path(&c->images, n), &c->image,
                             c->pixels + (size_t)ready * each)) {
            progress_erase(&c->progress);
            fprintf(stderr, "poseidon classify: %s\n", error_text());
            c->failed++;
        } else {
            c->which[ready++] = n;
        }
        if (ready > 0 && (ready == c->batch || n == c->images.count - 1)) {
            status = run_batch(c, ready);
            ready = 0;
        }
        progress_show(&c->progress, n + 1);
    }
    progress_erase(&c->progress);
    json_array_end(&c->report);
    if (!status && c->json)
        status = json_print(&c->report, stdout);
    if (!status && c->failed)
        status = error_set("%d of %s could not be read", c->failed,
                           units_count((long long)c->images.count, "image").text);
    return status;
}

static void release(struct classification *c)
{
    class_names_free(&c->own);
    checkpoint_free_told(&c->told);
    transform_free(&c->image.transform);
    list_free(&c->images);
    free(c->which);
    free(c->pixels);
    free(c->values);
    json_free(&c->report);
    model_close(&c->model);
}

static int parse(struct classification *c, int argc, char **argv, int *nwords)
{
    const struct option own[] = {
        {"labels", OPTION_TEXT, &c->labels, "FILE",
         "class names, one per line, or a file of convert (default: from the net's data, else the "
         "weights)"},
        {"mean", OPTION_TEXT, &c->mean, "MEAN",
         "mean to subtract: B,G,R, one number, or a mean image's file"},
        {"scale", OPTION_REAL, &c->scale, "X", "factor, after the mean"},
        {"resize", OPTION_TEXT, &c->resize, "WxH",
         "resize to WxH, then crop the centre; N: the shorter side to N (default 256x256, as "
         "classify.py; for inputs below 192 or above 256, the input's size)"},
        {"rgb", OPTION_FLAG, &c->rgb, NULL,
         "the net takes red, green, blue (default: Caffe's blue, green, red)"},
        {"top", OPTION_COUNT, &c->top, "N", "how many classes to print (default 5)"},
        {"blob", OPTION_TEXT, &c->blob, "NAME",
         "the blob of the scores (default: the last Softmax)"},
        {"labels-out", OPTION_TEXT, &c->labels_out, "FOLDER",
         "write each image's labels, the best class of every pixel, as a PNG with a palette to a "
         "new folder, and print shares of pixels"},
        {"json", OPTION_FLAG, &c->json, NULL, "print JSON instead"},
    };
    const struct command_line line = {
        .command = "classify",
        .synopsis = "--model=FILE --weights=FILES IMAGE|FOLDER...",
        .example = "  poseidon classify --model=deploy.prototxt --weights=net.caffemodel \\\n"
                   "      --labels=synset_words.txt --mean=104,117,123 photo.jpg",
        OPTION_ROWS(own),
        .net_rows = "model weights stage level input-shape",
        .net = &c->options,
        .computing = &c->computing,
        .least_words = 1,
        .max_words = argc,
        .expected = "expected images to classify, found none",
        .about = "Prints the most likely classes of photographs (JPEG, PNG, WebP), given one by "
                 "one or as a FOLDER with its subfolders. The net is a deploy net or has a data "
                 "layer. Images are prepared (size, crop, mean, scale) as in the data layer, or, "
                 "if the data is missing, as recorded in the weights; options override both.",
    };

    return options_parse(&line, argc, argv, nwords);
}

int command_classify(int argc, char **argv)
{
    struct classification c = {
        .options = {.phase = "TEST", .look_only = true}, .scale = NAN, .top = 5};
    struct log log;
    int nwords = 0, status = parse(&c, argc, argv, &nwords);

    log_init(&log, true, c.json ? NULL : stderr);
    for (int i = 1; i <= nwords && !status; i++)
        status = list_add(&c.images, argv[i], false);
    if (!status)
        status = prepare(&c, &log);
    if (!status && c.labels_out && mkdir(c.labels_out, 0777))
        status = error_set("--labels-out: %s: %s; expected the name of a new folder", c.labels_out,
                           strerror(errno));
    if (!status)
        status = classify(&c);
    release(&c);
    return status;
}
