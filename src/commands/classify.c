/* poseidon classify: the likeliest classes of photographs. */
#include "commands/commands.h"
#include "commands/model.h"
#include "commands/options.h"
#include "commands/photo.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/checkpoint.h"
#include "util/error.h"
#include "util/json.h"
#include "util/path.h"

struct classification {
    struct model_options options;
    const char *weights, *labels, *mean, *blob, *engine;
    double scale;
    const char *resize;
    int top, threads;
    bool squeeze, rgb, json;
    struct model model;
    struct photo_options photo;
    struct blob *input; /* of the net's first layer */
    const struct blob *scores;
    bool softmax; /* the scores are not probabilities yet */
    int batch, classes;
    float *pixels, *values; /* of one batch: input, scores */
    char **names;           /* of the classes; NULL: none are known */
    int nnames;
    struct json report;
    int failed; /* images that could not be read */
};

static int read_labels(struct classification *c)
{
    FILE *file = fopen(c->labels, "r");
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    int status = 0, capacity = 0;

    if (!file)
        return path_missing(c->labels);
    while (!status && (length = getline(&line, &room, file)) >= 0) {
        line[strcspn(line, "\r\n")] = '\0';
        if (c->nnames == capacity) {
            char **grown =
                realloc(c->names, (size_t)(capacity = 2 * capacity + 64) * sizeof *grown);

            if (grown)
                c->names = grown;
            status = grown ? 0 : error_memory((size_t)capacity * sizeof *grown, "labels");
        }
        if (!status && !(c->names[c->nnames++] = strdup(line)))
            status = error_memory((size_t)length, "a label");
    }
    free(line);
    fclose(file);
    if (!status && c->nnames < c->classes)
        return error_set("%s: expected a label for each of the %d classes, one a line, found %d",
                         c->labels, c->classes, c->nnames);
    return status;
}

/* What an image is resized to before its centre is cut out. Without --resize and --squeeze: 256 x
 * 256, as Caffe's classify.py, for the inputs that are custom to be cut out of that; the input's
 * own size for others. */
static int set_resize(struct classification *c)
{
    enum { CUSTOM = 256, CUT_FROM = 192, LARGEST = 16384 };
    struct photo_options *p = &c->photo;
    bool cut =
        p->height >= CUT_FROM && p->height <= CUSTOM && p->width >= CUT_FROM && p->width <= CUSTOM;
    char after;

    p->whole_height = cut && !c->squeeze ? CUSTOM : p->height;
    p->whole_width = cut && !c->squeeze ? CUSTOM : p->width;
    if (!c->resize)
        return 0;
    if (c->squeeze)
        return error_set("--squeeze resizes to the input's size; expected no --resize beside it");
    if (sscanf(c->resize, "%d%c", &p->side, &after) == 1) {
        if (p->side >= p->height && p->side >= p->width && p->side <= LARGEST)
            return 0;
    } else {
        p->side = 0;
        if (sscanf(c->resize, "%dx%d%c", &p->whole_width, &p->whole_height, &after) == 2 &&
            p->whole_height >= p->height && p->whole_width >= p->width &&
            p->whole_height <= LARGEST && p->whole_width <= LARGEST)
            return 0;
    }
    return error_set("--resize=%s: expected WIDTHxHEIGHT such as 256x256, or the shorter side's "
                     "length, at least the input's %dx%d",
                     c->resize, p->width, p->height);
}

/* The input: the first top of the net's first layer, N x C x H x W. */
static int find_input(struct classification *c)
{
    struct net *net = c->model.net;
    const struct layer *first = net->nlayers > 0 ? &net->layers[0] : NULL;
    const struct shape *shape;
    char text[128];

    if (!first || !first->i->is_data || first->ntops < 1)
        return error_set("expected a net that begins with its input, a layer of type Input");
    c->input = first->tops[0];
    shape = &c->input->value.shape;
    if (shape->naxes != 4 || (shape->dim[1] != 1 && shape->dim[1] != 3))
        return error_set("expected an input of N x 1 or 3 x H x W, found '%s' of shape %s",
                         c->input->name, shape_text(shape, text, sizeof text));
    c->batch = (int)shape->dim[0];
    c->photo = (struct photo_options){.channels = (int)shape->dim[1],
                                      .height = (int)shape->dim[2],
                                      .width = (int)shape->dim[3],
                                      .rgb = c->rgb,
                                      .scale = (float)c->scale};
    if (set_resize(c))
        return -1;
    return c->mean ? photo_set_mean(c->mean, &c->photo) : 0;
}

/* The scores: --blob, or the top of the last Softmax, or what the last loss reads. */
static int find_scores(struct classification *c)
{
    const struct net *net = c->model.net;
    const struct shape *shape;
    char text[128];

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
        return error_set("the net has no Softmax: say with --blob=NAME where its scores are");
    net_keep(c->model.net, c->scores);
    shape = &c->scores->value.shape;
    if (shape->naxes < 1 || shape->dim[0] != c->batch)
        return error_set(
            "expected scores for each of the %d images of a batch, found '%s' of shape %s",
            c->batch, c->scores->name, shape_text(shape, text, sizeof text));
    c->classes = (int)(shape_elems(shape) / (size_t)c->batch);
    if (c->top > c->classes)
        c->top = c->classes;
    return c->labels ? read_labels(c) : 0;
}

static int prepare(struct classification *c, struct log *log)
{
    size_t pixels;

    if (model_open(&c->options, &c->model))
        return -1;
    model_print_notices(&c->model);
    if (find_input(c) || find_scores(c) ||
        model_build(&c->model, c->engine, &(struct engine_options){.threads = c->threads}, 1))
        return -1;
    if (checkpoint_load_weights(c->weights, true, c->model.net, log))
        return net_is_assumed(c->model.net)
                   ? error_set("%s\nThe input was assumed to be %d x %d x %d: give its size with "
                               "--input-shape=C,H,W, or a net that begins with an Input layer",
                               error_text(), c->photo.channels, c->photo.height, c->photo.width)
                   : -1;
    for (int g = 0; g < c->model.net->ngroups; g++)
        net_touch(c->model.net, g);
    pixels = shape_elems(&c->input->value.shape);
    c->pixels = calloc(pixels, sizeof *c->pixels);
    c->values = calloc((size_t)c->batch * (size_t)c->classes, sizeof *c->values);
    if (!c->pixels || !c->values)
        return error_memory(pixels * sizeof *c->pixels, "images");
    return 0;
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

/* The class with the most that comes after (value, index) in falling order; n is small times top.
 */
static int next_best(const float *scores, int n, int last)
{
    int best = -1;

    for (int i = 0; i < n; i++) {
        bool before =
            last >= 0 && (scores[i] > scores[last] || (i <= last && scores[i] == scores[last]));

        if (before)
            continue;
        if (best < 0 || scores[i] > scores[best])
            best = i;
    }
    return best;
}

static void report(struct classification *c, const char *path, float *scores)
{
    int best = -1;

    if (c->softmax)
        to_probabilities(scores, c->classes);
    if (!c->json)
        printf("---------- Prediction for %s ----------\n", path);
    json_object_begin(&c->report);
    json_key(&c->report, "image");
    json_string(&c->report, path);
    json_key(&c->report, "top");
    json_array_begin(&c->report);
    for (int k = 0; k < c->top; k++) {
        best = next_best(scores, c->classes, best);
        if (best < 0)
            break; /* scores that are not numbers have no order */
        if (!c->json && c->names)
            printf("%.4f - \"%s\"\n", (double)scores[best], c->names[best]);
        else if (!c->json)
            printf("%.4f - class %d\n", (double)scores[best], best);
        json_object_begin(&c->report);
        json_key(&c->report, "class");
        json_int(&c->report, best);
        json_key(&c->report, "label");
        json_string(&c->report, c->names ? c->names[best] : NULL);
        json_key(&c->report, "probability");
        json_double(&c->report, (double)scores[best]);
        json_object_end(&c->report);
    }
    json_array_end(&c->report);
    json_object_end(&c->report);
}

/* One forward pass; the images are those that could be read. Layer by layer, because a data layer
 * in front of the net would put its own images there. */
static int run_batch(struct classification *c, char *const *paths, int count)
{
    struct net *net = c->model.net;
    struct run run = {.seed = 1};

    if (net_layer_forward(net, 0, &run) ||
        net->engine->i->write(net->engine->context, &c->input->value, c->pixels))
        return -1;
    for (int i = 1; i < net->nlayers; i++)
        if (net_layer_forward(net, i, &run))
            return -1;
    if (net_read_blob(net, c->scores, c->values))
        return -1;
    for (int i = 0; i < count; i++)
        report(c, paths[i], c->values + (size_t)i * (size_t)c->classes);
    return 0;
}

static int classify(struct classification *c, int nimages, char **images)
{
    size_t each = (size_t)c->photo.channels * (size_t)c->photo.height * (size_t)c->photo.width;
    int ready = 0, status = 0;

    json_array_begin(&c->report);
    for (int i = 0; i < nimages && !status; i++) {
        if (photo_read(images[i], &c->photo, c->pixels + (size_t)ready * each)) {
            fprintf(stderr, "poseidon classify: %s\n", error_text());
            c->failed++;
        } else {
            images[i - c->failed] = images[i]; /* those that were read move together */
            ready++;
        }
        if (ready > 0 && (ready == c->batch || i == nimages - 1)) {
            status = run_batch(c, images + (i + 1 - c->failed - ready), ready);
            ready = 0;
        }
    }
    json_array_end(&c->report);
    if (!status && c->json)
        status = json_print(&c->report, stdout);
    if (!status && c->failed)
        status = error_set("%d of %d images could not be read", c->failed, nimages);
    return status;
}

static void release(struct classification *c)
{
    for (int i = 0; i < c->nnames; i++)
        free(c->names[i]);
    free(c->names);
    free(c->pixels);
    free(c->values);
    json_free(&c->report);
    model_close(&c->model);
}

static int parse(struct classification *c, int argc, char **argv, int *nwords)
{
    const struct option options[] = {
        {"model", OPTION_TEXT, &c->options.model, "FILE",
         "the net, its input a layer of type Input; required"},
        {"weights", OPTION_TEXT, &c->weights, "FILES", "trained weights (comma list); required"},
        {"input-shape", OPTION_TEXT, &c->options.input_shape, "C,H,W",
         "input size, where neither the net nor its data gives it"},
        {"labels", OPTION_TEXT, &c->labels, "FILE", "the classes' names, one a line"},
        {"mean", OPTION_TEXT, &c->mean, "MEAN",
         "subtract this: B,G,R, or one number, or a mean image's file"},
        {"scale", OPTION_REAL, &c->scale, "X", "factor after the mean (default 1)"},
        {"resize", OPTION_TEXT, &c->resize, "WxH",
         "resize to this, then cut out the centre; N: the shorter side to N "
         "(default 256x256, as classify.py; for inputs below 192 or above 256, the input's size)"},
        {"squeeze", OPTION_FLAG, &c->squeeze, NULL,
         "resize to the input's size and cut nothing, as classification.bin"},
        {"rgb", OPTION_FLAG, &c->rgb, NULL,
         "the net wants red, green, blue; default is Caffe's blue, green, red"},
        {"top", OPTION_COUNT, &c->top, "N", "how many classes to print (default 5)"},
        {"blob", OPTION_TEXT, &c->blob, "NAME", "where the scores are (default: the last Softmax)"},
        {"engine", OPTION_TEXT, &c->engine, "NAME", "compute engine: cpu (default)"},
        {"threads", OPTION_THREADS, &c->threads, "N", "compute threads"},
        {"json", OPTION_FLAG, &c->json, NULL, "print JSON instead"},
    };
    const struct command_line line = {
        .command = "classify",
        .synopsis = "--model=FILE --weights=FILES IMAGE...",
        .example = "  poseidon classify --model=deploy.prototxt --weights=net.caffemodel \\\n"
                   "      --labels=synset_words.txt --mean=104,117,123 photo.jpg",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .max_words = argc,
        .about = "Prints the likeliest classes of photographs (JPEG, PNG).",
    };
    int status = options_parse(&line, argc, argv, nwords);

    if (status)
        return status;
    if (!c->options.model)
        return error_set("Need a model definition: --model=FILE");
    if (!c->weights)
        return error_set("Need model weights: --weights=FILE");
    if (*nwords == 0)
        return error_set("expected images to classify, found none");
    return 0;
}

int command_classify(int argc, char **argv)
{
    struct classification c = {
        .options = {.phase = "TEST", .look_only = true}, .engine = "cpu", .scale = 1, .top = 5};
    struct log log;
    int nwords, status = parse(&c, argc, argv, &nwords);

    if (status > 0)
        return 0;
    log_init(&log, true, c.json ? NULL : stderr, NULL);
    if (!status)
        status = prepare(&c, &log);
    if (!status)
        status = classify(&c, nwords, argv + 1);
    release(&c);
    return status ? command_fail("classify") : 0;
}
