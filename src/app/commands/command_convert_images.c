/* poseidon convert images: writes photographs to HDF5 or LMDB in constant memory. Several threads
 * read, decode and resize ahead; the main thread writes the results in order. */
#include "commands/commands.h"
#include "commands/image_stream.h"
#include "convert/split.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include "input/list.h"
#include "input/shuffle.h"
#include "watch/signals.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"
#include "util/units.h"
#include "util/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILE_BYTES ((size_t)1 << 30)

struct request {
    char *source, *out;                  /* borrowed from argv */
    const char *root, *classes, *labels; /* NULL: not given */
    int backend, encode_type;            /* index of the option's word; -1: not given */
    int shuffle;                         /* -1: not given, folders are shuffled */
    bool turn, gray, encoded, check_size, skip_bad, force;
    double split;   /* share of the test set; 0: no split */
    long long seed; /* -1: not given */
    int gzip, quality, threads;
    bool lmdb;         /* output is LMDB, else HDF5 */
    int height, width; /* size to resize to; 0: keep */
};

struct conversion {
    const struct request *request;
    struct list list;
    char *root; /* folder of all paths, with its final slash. Owned */
    bool shuffled;
    struct rng rng; /* random generator of the shuffled order */
    int nsinks;
    char *out[2];           /* owned; outputs: [0] all or training images, [1] test images */
    char *pictures[2];      /* owned; LMDBs of the outputs' pictures of labels; NULL: none */
    struct sink *sink[2];   /* owned; sink of each output; NULL: closed */
    uint64_t count[2];      /* images in each output */
    bool *test;             /* per image: true if it goes to out[1]. NULL without --split. Owned */
    struct shape shape;     /* shape of the first image */
    bool varies;            /* images differ in size */
    uint64_t refused, odd;  /* unreadable images; images of another size, with --check-size */
    uint64_t unended;       /* JPEGs without their end mark */
    struct strbuf refusals; /* one line per refused image */
    const char *remark;     /* first remark about a label (image_label_remark); NULL: none */
    uint64_t remarked, nremarked; /* image of `remark`; number of images with a remark */
    double started;               /* start time, clock_seconds() */
    double silent;                /* seconds from the start to the next line of progress */
};

static int size_parse(const char *option, const char *text, void *target)
{
    struct request *r = target;
    char after;

    if (sscanf(text, "%d%c", &r->width, &after) == 1)
        r->height = r->width;
    else if (sscanf(text, "%dx%d%c", &r->width, &r->height, &after) != 2)
        r->width = 0;
    if (r->width < 1 || r->height < 1 || r->width > 65536 || r->height > 65536)
        return error_set(
            "%s=%s: expected WIDTHxHEIGHT in pixels, such as 256x256, or one number for both",
            option, text);
    return 0;
}

static int request_check(struct request *r)
{
    size_t length = strlen(r->out);

    while (length > 1 && r->out[length - 1] == '/')
        r->out[--length] = '\0';
    r->lmdb = r->backend < 0 ? path_ends(r->out, "lmdb") : r->backend == 0;
    if (r->backend < 0 && !r->lmdb && !path_ends(r->out, ".h5") && !path_ends(r->out, ".hdf5"))
        return error_set("'%s': expected a name that ends in .h5 (HDF5) or lmdb (LMDB)", r->out);
    if (r->encoded && !r->lmdb)
        return error_set("--encoded is for LMDB; HDF5 holds the pixels themselves");
    if (r->encode_type >= 0 && !r->encoded)
        return error_set("--encode-type has no effect without --encoded");
    if (r->gzip < 0 || r->gzip > 9 || (r->gzip && r->lmdb))
        return error_set("--gzip=%d: expected 0 to 9, and HDF5", r->gzip);
    if (r->quality < 1 || r->quality > 100)
        return error_set("--quality=%d: expected 1 to 100", r->quality);
    if (!(r->split >= 0 && r->split < 1))
        return error_set(
            "--split=%g: expected the share of images that go to the test set, such as "
            "0.2",
            r->split);
    return 0;
}

/* Parses the command line. Returns 0, OPTIONS_HELPED after --help, or -1 with a message. */
static int request_parse(struct request *r, int argc, char **argv)
{
    static const char *const backends[] = {"lmdb", "hdf5", NULL};
    static const char *const encode_types[] = {"jpg", "png", NULL};
    static const char *const truths[] = {"false", "true", NULL};
    const struct option options[] = {
        {"resize", OPTION_CALL, r, "WxH", "resize to that width and height (bilinear); N: to NxN",
         .parse = size_parse},
        {"gray", OPTION_FLAG, &r->gray, NULL, "one channel instead of three (blue, green, red)"},
        {"turn", OPTION_FLAG, &r->turn, NULL,
         "turn images upright by their EXIF orientation (default; --no-turn: keep them as stored)"},
        {"shuffle", OPTION_WORD, &r->shuffle, NULL,
         "write in a random order (default for DIR, not for LIST; --no-shuffle: class by class)",
         truths},
        {"split", OPTION_REAL, &r->split, "SHARE",
         "write two sets: DST-train, and DST-test with this share of every class"},
        {"seed", OPTION_SEED, &r->seed, "N", "seed of the order and of the split (default 1)"},
        {"backend", OPTION_CHOICE, &r->backend, "FORM", "lmdb or hdf5, whatever the ending of DST",
         backends},
        {"check-size", OPTION_FLAG, &r->check_size, NULL,
         "LMDB: leave out images that differ in size from the first"},
        {"skip-bad", OPTION_FLAG, &r->skip_bad, NULL,
         "succeed even if unreadable images are left out"},
        {"encoded", OPTION_FLAG, &r->encoded, NULL,
         "LMDB: store image files: unchanged files are copied, changed images and, without --gray, "
         "grey images are encoded again"},
        {"encode-type", OPTION_CHOICE, &r->encode_type, "jpg|png",
         "with --encoded: the format (default: the file's own; for WebP jpg)", encode_types},
        {"quality", OPTION_INT, &r->quality, "N", "with --encoded: quality of JPEG, 1..100 (95)"},
        {"root", OPTION_TEXT, &r->root, "DIR", "folder of LIST's paths (default: LIST's own)"},
        {"classes", OPTION_TEXT, &r->classes, "FILE",
         "label DIR's folders by FILE's classes: another set, or one class name per line"},
        {"labels", OPTION_TEXT, &r->labels, "FOLDER",
         "labels of pixels instead of one an image: for a/b.jpg FOLDER/a/b.png (gray or palette: "
         "indices) of its size, resized to the nearest. DIR needs no classes, LIST no labels. HDF5 "
         "gets `label` N x 1 x H x W; LMDB a second one, DST-labels_lmdb",
         .not_with = "classes", .why = "has a label for every pixel"},
        {"gzip", OPTION_INT, &r->gzip, "LEVEL", "HDF5: compress, 1..9 (0: none)"},
        {"threads", OPTION_THREADS, &r->threads, "N", "threads that decode (default: all cores)"},
        {"force", OPTION_FLAG, &r->force, NULL, "replace what exists"},
    };
    const struct command_line line = {
        .command = "convert images",
        .synopsis = "DIR|LIST DST.h5|DST_lmdb [OPTIONS]",
        .about = "Writes JPEG, PNG and WebP files as data for Data layers. DIR has a folder for "
                 "every class, with or without subfolders; classes are labelled 0, 1, ... in the "
                 "order of their names. LIST has a line \"PATH LABEL\" for every image. DST.h5 "
                 "gets `data`, uint8 N x C x H x W, and `label`, int32 N, for images of one size; "
                 "DST_lmdb gets Caffe's Datum messages. Unreadable images are left out and named "
                 "at the end; the status is then 1, unless --skip-bad is given.",
        .example = "  poseidon convert images flowers/ flowers.h5 --resize=256x256 --split=0.2",
        OPTION_ROWS(options),
        .least_words = 2,
        .max_words = 2,
        .expected = "expected a folder or list of images, and DST.h5 or DST_lmdb",
    };
    int status = options_parse(&line, argc, argv, NULL);

    if (status)
        return status;
    r->source = argv[1];
    r->out = argv[2];
    return request_check(r);
}

static int output_check_lmdb(const struct request *r, const char *out)
{
    struct stat st;

    if (lstat(out, &st) == 0) {
        if (!r->force)
            return error_set("%s exists already; --force replaces it", out);
        if (!sink_is_lmdb_folder(out))
            return error_set(
                "%s is not an LMDB folder, or holds other files too; remove it by hand", out);
    }
    return output_check_folder(out);
}

/* Sets the names of the outputs and fails if one may not be written. */
static int outputs_check(struct conversion *c)
{
    static const char *const parts[] = {"train", "test"};
    const struct request *r = c->request;

    c->nsinks = r->split > 0 ? 2 : 1;
    for (int i = 0; i < c->nsinks; i++) {
        c->out[i] = r->split > 0 ? split_name(r->out, parts[i]) : strdup(r->out);
        if (!c->out[i])
            return error_memory(strlen(r->out), "a path");
        if (r->labels && r->lmdb) {
            c->pictures[i] = split_name(c->out[i], "labels");
            if (!c->pictures[i] || output_check_lmdb(r, c->pictures[i]))
                return -1;
        }
        if (r->lmdb ? output_check_lmdb(r, c->out[i])
                    : output_check(c->out[i], r->force, 1, (const char *const *)&r->source))
            return -1;
    }
    return 0;
}

/* Returns the folder before the paths of the list: --root, the given folder, or the list's folder
 * if the first image exists there and not in the current folder. */
static char *root_find(const struct request *r, const struct list *list)
{
    const char *slash = strrchr(r->source, '/'), *folder = r->root ? r->root : r->source;
    size_t length = strlen(folder);
    struct strbuf root = {.data = NULL};
    struct stat st;

    if (!r->root && !path_is_folder(r->source)) {
        if (list_path(list, 0)[0] == '/' || !slash || stat(list_path(list, 0), &st) == 0)
            return strdup("");
        length = (size_t)(slash - r->source);
    }
    strbuf_printf(&root, "%.*s/", (int)length, folder);
    return strbuf_take(&root);
}

/* Warns of empty folders, such as "__MACOSX": an empty folder still counts as a class, because one
 * of several sets may lack a class. */
static void warn_of_empty_classes(const struct request *r, const struct list *list)
{
    uint64_t n = 0; /* index; images are sorted by class */

    for (int k = 0; k < list->classes.count; k++) {
        if (n == list->count || list->label[n] != k)
            fprintf(stderr,
                    "warning: %s/%s holds no images and still counts as class %d; remove the "
                    "folder if it is no class\n",
                    r->source, list->classes.name[k], k);
        while (n < list->count && list->label[n] == k)
            n++;
    }
}

/* Warns once if a class is named by a number that is not its label, because "10" sorts before
 * "2". */
static void warn_of_numbers(const struct class_names *classes)
{
    int k = 0, digits, number;

    while (k < classes->count && (sscanf(classes->name[k], "%9d%n", &number, &digits) != 1 ||
                                  classes->name[k][digits] || number == k))
        k++;
    if (k < classes->count)
        fprintf(stderr,
                "warning: folder '%s' has label %d, since names are sorted as text; leading zeros "
                "or --classes=FILE change the labels\n",
                classes->name[k], k);
}

static int list_open(const struct request *r, struct list *list)
{
    if (r->labels && !path_is_folder(r->labels))
        return error_set("--labels=%s: no such folder; expected pictures of labels", r->labels);
    if (r->labels)
        return path_is_folder(r->source) ? list_add(list, r->source, true)
                                         : list_read_file(list, r->source, LIST_PATHS);
    if (r->classes && !path_is_folder(r->source))
        return error_set("--classes=%s is for folders of images; %s is a list", r->classes,
                         r->source);
    if (!path_is_folder(r->source))
        return list_read_file(list, r->source, 0);
    if (list_read_folder(list, r->source, r->classes))
        return -1;
    if (!r->classes) {
        warn_of_empty_classes(r, list);
        warn_of_numbers(&list->classes);
    }
    return 0;
}

/* Sets the image file to store: a copy of the original, unless pixels were changed, another format
 * is requested, or a reader would see other channels or turn the image. */
static int image_encode_again(const struct request *r, const struct image *image,
                              struct streamed *out)
{
    struct strbuf *file = &out->record.file;
    enum image_format is = image_format_of(file->bytes, file->length), wanted = is;

    if (r->encode_type >= 0)
        wanted = r->encode_type == 1 ? IMAGE_PNG : IMAGE_JPEG;
    out->encoded.length = 0;
    if (!r->height && !r->gray && wanted == is && !image->stored_gray && image->orientation == 1)
        return strbuf_add(&out->encoded, file->bytes, file->length, "an image");
    return image_encode(image, wanted == IMAGE_WEBP ? IMAGE_JPEG : wanted, r->quality,
                        &out->encoded);
}

static uint64_t number_of(const struct conversion *c, uint64_t job)
{
    return c->shuffled ? order_shuffled(&c->rng, job, c->list.count) : job;
}

static int file_decode(const struct request *r, const struct strbuf *file, enum image_color color,
                       struct image *out)
{
    return (r->turn ? image_decode : image_decode_stored)(file->bytes, file->length, color, out);
}

/* Sets record->cut to the labels of the image `name`, which is at `path`. */
static int labels_read(const struct request *r, const char *path, const char *name,
                       struct record *record)
{
    const struct image *picture = &record->label_decoded;
    const int height = (int)record->shape.dim[1], width = (int)record->shape.dim[2];
    const char *dot = strrchr(path_base(name), '.');
    double down, along;
    char labels[4096];

    if ((size_t)snprintf(labels, sizeof labels, "%s/%.*s.png", r->labels,
                         (int)(dot ? (size_t)(dot - name) : strlen(name)), name) >= sizeof labels)
        return error_set("the name of its picture of labels is too long");
    if (file_load(&record->label_file, labels, MAX_FILE_BYTES))
        return error_context("every image needs a picture of labels");
    if (path_is_same(labels, path))
        return error_set("%s is the image itself; expected its labels in another folder", labels);
    if (file_decode(r, &record->label_file, IMAGE_INDICES, &record->label_decoded) ||
        record_check_labels(record, name))
        return error_context("%s", labels);
    down = 1 / ((double)height / picture->height);
    along = 1 / ((double)width / picture->width);
    if (strbuf_reserve(&record->cut, (size_t)height * (size_t)width, "labels"))
        return -1;
    for (int y = 0, i = 0; y < height; y++)
        for (int x = 0; x < width; x++, i++)
            record->cut.bytes[i] = image_nearest(picture, y * down, x * along);
    return 0;
}

static int image_prepare(void *context, uint64_t job, struct streamed *out)
{
    const struct conversion *c = context;
    const struct request *r = c->request;
    struct record *record = &out->record;
    const struct image *image = &record->decoded;
    const char *name = list_path(&c->list, number_of(c, job));
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s%s", c->root, name) >= sizeof path)
        return error_set("the name is too long");
    if (file_load(&record->file, path, MAX_FILE_BYTES) ||
        file_decode(r, &record->file, r->gray ? IMAGE_GRAY : IMAGE_COLOR, &record->decoded))
        return -1;
    if (r->height) {
        if (image_resize(&record->decoded, r->height, r->width, &record->resized))
            return -1;
        image = &record->resized;
    }
    if (r->encoded && image_encode_again(r, image, out))
        return -1;
    return error_status(record_set_image(record, image, 0, 0) || record_to_planes(record) ||
                        (r->labels && labels_read(r, path, name, record)));
}

static void refuse(struct conversion *c, uint64_t number, const char *reason)
{
    c->refused++;
    strbuf_printf(&c->refusals, "  %s: %s\n", list_path(&c->list, number), reason);
}

static void note_remark(struct conversion *c, uint64_t number, const struct image *image)
{
    const char *remark = image_label_remark(image, c->request->height, c->request->width);

    if (remark && c->nremarked++ == 0) {
        c->remark = remark;
        c->remarked = number;
    }
}

/* Sets *fits if the image may be written. Fails if sizes differ and the output needs one size. */
static int check_shape(struct conversion *c, uint64_t number, const struct record *record,
                       bool *fits)
{
    const struct request *r = c->request;

    if (!c->shape.naxes)
        c->shape = record->shape;
    *fits = shape_equal(&record->shape, &c->shape);
    if (*fits)
        return 0;
    if (r->check_size) {
        c->odd++;
        return 0;
    }
    *fits = r->lmdb;
    c->varies = true;
    return *fits ? 0
                 : error_set("%s: shape %s, but the first image has %s; HDF5 needs images of one "
                             "size, such as --resize=256x256. Nothing was written",
                             list_path(&c->list, number), shape_text(&record->shape).text,
                             shape_text(&c->shape).text);
}

/* Prints how many images are done, and how long the others will take. */
static void progress_print(struct conversion *c, uint64_t done)
{
    const double spent = clock_seconds() - c->started;
    const uint64_t count = c->list.count;

    if (spent < c->silent)
        return;
    c->silent = 2 * spent;
    fprintf(stderr, "%llu of %s; about %s left\n", (unsigned long long)done,
            units_count((long long)count, "image").text,
            units_seconds(spent / (double)done * (double)(count - done)).text);
}

static int image_write(void *context, uint64_t job, const struct streamed *image)
{
    struct conversion *c = context;
    uint64_t number = number_of(c, job);
    const struct shape *shape = &image->record.shape;
    const struct record picture = {.shape = {3, {1, shape->dim[1], shape->dim[2]}},
                                   .data = image->record.cut.bytes};
    const struct sample sample = {.name = list_path(&c->list, number),
                                  .label = c->list.label[number],
                                  .raw = &image->record,
                                  .picture = c->request->labels ? &picture : NULL,
                                  .encoded = c->request->encoded ? image->encoded
                                                                 : (struct strbuf){.length = 0}};
    int to = c->test && c->test[number];
    bool fits;

    progress_print(c, job + 1);
    if (image->failed) {
        refuse(c, number, image->error);
        return 0;
    }
    if (check_shape(c, number, &image->record, &fits))
        return -1;
    c->unended += fits && image->record.decoded.unended;
    if (!c->request->labels)
        note_remark(c, number, &image->record.decoded);
    c->count[to] += fits;
    return fits ? sink_add(c->sink[to], &sample) : 0;
}

static void summary_print(const struct conversion *c)
{
    for (int i = 0; i < c->nsinks; i++) {
        printf("%s%s%s: %s", c->out[i], c->pictures[i] ? " and " : "",
               c->pictures[i] ? c->pictures[i] : "",
               units_count((long long)c->count[i], "image").text);
        if (c->varies)
            printf(" of different sizes (Data layers need crop_size, and mean_value for a mean)");
        else
            printf(" of %lldx%lldx%lld", (long long)c->shape.dim[0], (long long)c->shape.dim[1],
                   (long long)c->shape.dim[2]);
        if (c->list.classes.count)
            printf(" of %s", units_count(c->list.classes.count, "class").text);
        printf(" in %.1f s\n", clock_seconds() - c->started);
    }
    if (c->odd)
        fprintf(stderr, "%s of another size than the first left out\n",
                units_count((long long)c->odd, "image").text);
    if (c->unended)
        fprintf(stderr, "%s without an end mark, but with all pixels\n",
                units_count((long long)c->unended, "JPEG image").text);
    if (c->remark)
        fprintf(stderr, "warning: %s, first %s: %s\n",
                units_count((long long)c->nremarked, "image").text,
                list_path(&c->list, c->remarked), c->remark);
    if (c->refused)
        fprintf(stderr, "warning: %llu of %s refused:\n%s", (unsigned long long)c->refused,
                units_count((long long)c->list.count, "image").text, strbuf_text(&c->refusals));
}

static int conversion_open(struct conversion *c)
{
    const struct request *r = c->request;
    struct sink_options o = {.source = r->source, .gzip = r->gzip};
    struct rng rng = rng_make(r->seed < 0 ? 1 : (uint64_t)r->seed, RNG_SHUFFLE, 1, 0);
    int status = 0;

    if (outputs_check(c) || list_open(r, &c->list))
        return -1;
    if (c->list.passed_over)
        fprintf(stderr, "%s passed over: hidden, Thumbs.db or desktop.ini\n",
                units_count((long long)c->list.passed_over, "file").text);
    c->shuffled = r->shuffle < 0 ? path_is_folder(r->source) : r->shuffle > 0;
    if (r->seed >= 0 && !c->shuffled && r->split == 0)
        return error_set("--seed has no effect without --shuffle or --split");
    if ((r->split > 0 && split_draw(&c->list, r->split, &rng, &c->test)))
        return -1;
    c->root = root_find(r, &c->list);
    if (!c->root)
        return error_memory(strlen(r->source), "a path");
    c->rng = rng_make(r->seed < 0 ? 1 : (uint64_t)r->seed, RNG_SHUFFLE, 0, 0);
    c->started = clock_seconds();
    c->silent = 10;
    o.nclasses = c->list.classes.count;
    o.class_name = c->list.classes.name;
    signals_hold();
    for (int i = 0; i < c->nsinks && !status; i++) {
        o.pictures = c->pictures[i];
        status = r->lmdb ? sink_create_lmdb(c->out[i], &o, &c->sink[i])
                         : sink_create_hdf5(c->out[i], &o, &c->sink[i]);
    }
    return status;
}

static int conversion_run(struct conversion *c)
{
    const struct image_stream stream = {.count = c->list.count,
                                        .threads = c->request->threads,
                                        .read = image_prepare,
                                        .take = image_write,
                                        .sinks = c->sink,
                                        .nsinks = c->nsinks,
                                        .context = c};
    const char *first;
    int status = 0;

    if (image_stream_run(&stream))
        return -1;
    first = strbuf_text(&c->refusals);
    first += strspn(first, " ");
    if (c->count[0] + c->count[1] == 0)
        return error_set("%s: %s refused, none is left; first refusal: %.*s", c->request->source,
                         units_count((long long)c->list.count, "image").text,
                         (int)strcspn(first, "\n"), first);
    for (int i = 0; i < c->nsinks; i++)
        if (c->count[i] == 0)
            return error_set("%s: no image is left; first refusal: %.*s", c->out[i],
                             (int)strcspn(first, "\n"), first);
    for (int i = 0; i < c->nsinks; i++)
        status = sink_close(&c->sink[i], status);
    if (status)
        return -1;
    summary_print(c);
    return c->refused && !c->request->skip_bad
               ? error_set("%llu of %s left out; --skip-bad accepts that",
                           (unsigned long long)c->refused,
                           units_count((long long)c->list.count, "image").text)
               : 0;
}

static void conversion_close(struct conversion *c)
{
    for (int i = 0; i < c->nsinks; i++) {
        sink_close(&c->sink[i], -1);
        free(c->out[i]);
        free(c->pictures[i]);
    }
    free(c->test);
    strbuf_free(&c->refusals);
    free(c->root);
    list_free(&c->list);
}

int command_convert_images(int argc, char **argv)
{
    struct request request = {.turn = true,
                              .seed = -1,
                              .shuffle = -1,
                              .backend = -1,
                              .encode_type = -1,
                              .quality = 95,
                              .threads = workers_usual()};
    struct conversion conversion = {.request = &request};
    int status = request_parse(&request, argc, argv);

    if (status)
        return status;
    status = error_status(conversion_open(&conversion) || conversion_run(&conversion));
    conversion_close(&conversion);
    signals_release();
    return status;
}
