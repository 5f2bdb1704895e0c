/* `poseidon convert images`: photographs to HDF5 or LMDB in constant memory. Several threads read,
 * decode and resize ahead; this one takes their results in order and writes. */
#include "commands/commands.h"
#include "commands/convert.h"
#include "commands/options.h"
#include "commands/output.h"

#include "input/list.h"
#include "convert/mean_image.h"
#include "input/shuffle.h"
#include "solver/signals.h"
#include "util/thread_pool.h"
#include "convert/sink.h"
#include "input/source_internal.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/json.h"
#include "util/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHOWN_REFUSALS 10
#define MAX_FILE_BYTES ((size_t)1 << 30)

struct request {
    char *source, *out; /* borrowed from argv */
    const char *mean, *root, *resize, *encode_type;
    const char *backend;
    bool shuffle, gray, encoded, check_size, force, json;
    long long seed; /* -1: not given */
    int gzip, quality, threads;
    bool lmdb;         /* else HDF5 */
    int height, width; /* 0: as they are */
};

/* What a thread leaves for one image. */
struct result {
    struct record record;
    struct bytes encoded; /* where an image file is to be stored */
    bool failed;
    char error[512];
};

struct refusal {
    char *name, *reason; /* owned */
};

struct conversion {
    const struct request *request;
    struct list list;
    char *root;     /* owned; in front of every path, with its slash */
    struct rng rng; /* of the shuffled order */
    int places;
    struct result *result; /* places; owned */
    struct sink *sink;
    struct mean_image mean; /* without --mean only its shape: that of the first image */
    bool varies;            /* images differ in size */
    uint64_t refused;
    struct refusal refusal[SHOWN_REFUSALS];
    double started, shown; /* clock_seconds() */
    bool progress;
};

static int size_parse(struct request *r)
{
    char after;

    if (!r->resize)
        return 0;
    if (sscanf(r->resize, "%dx%d%c", &r->width, &r->height, &after) != 2 || r->width < 1 ||
        r->height < 1 || r->width > 65536 || r->height > 65536)
        return error_set("--resize=%s: expected WIDTHxHEIGHT in pixels, such as 256x256",
                         r->resize);
    return 0;
}

static int request_check(struct request *r)
{
    size_t length = strlen(r->out);

    while (length > 1 && r->out[length - 1] == '/')
        r->out[--length] = '\0';
    r->lmdb = r->backend ? strcmp(r->backend, "hdf5") != 0 : path_ends(r->out, "lmdb");
    if (r->backend && r->lmdb && strcmp(r->backend, "lmdb") != 0)
        return error_set("--backend=%s: expected lmdb or hdf5 (LevelDB is read, not written)",
                         r->backend);
    if (!r->backend && !r->lmdb && !path_ends(r->out, ".h5") && !path_ends(r->out, ".hdf5"))
        return error_set("'%s': expected a name that ends in .h5 (HDF5) or lmdb (LMDB)", r->out);
    if (r->encoded && !r->lmdb)
        return error_set("--encoded is for LMDB; HDF5 holds the pixels themselves");
    if (r->encode_type && !r->encoded)
        return error_set("--encode-type has no effect without --encoded");
    if (r->encode_type && strcmp(r->encode_type, "jpg") != 0 && strcmp(r->encode_type, "png") != 0)
        return error_set("--encode-type=%s: expected jpg or png", r->encode_type);
    if (r->gzip < 0 || r->gzip > 9 || (r->gzip && r->lmdb))
        return error_set("--gzip=%d: expected 0 to 9, and HDF5", r->gzip);
    if (r->quality < 1 || r->quality > 100)
        return error_set("--quality=%d: expected 1 to 100", r->quality);
    if (r->seed >= 0 && !r->shuffle)
        return error_set("--seed has no effect without --shuffle");
    return size_parse(r);
}

/* Returns 0, 1 where --help was printed, -1 with a message. */
static int request_parse(struct request *r, int argc, char **argv)
{
    const struct option options[] = {
        {"resize", OPTION_TEXT, &r->resize, "WxH", "resize to that width and height (bilinear)"},
        {"gray", OPTION_FLAG, &r->gray, NULL, "one channel instead of three (blue, green, red)"},
        {"shuffle", OPTION_FLAG, &r->shuffle, NULL, "write in a random order"},
        {"seed", OPTION_SEED, &r->seed, "N", "the seed of that order (1)"},
        {"backend", OPTION_TEXT, &r->backend, "FORM", "lmdb or hdf5, whatever DST's name ends in"},
        {"check-size", OPTION_FLAG, &r->check_size, NULL,
         "LMDB: leave out images of another size than the first"},
        {"encoded", OPTION_FLAG, &r->encoded, NULL,
         "LMDB: store image files: unchanged ones as they are, others encoded again"},
        {"encode-type", OPTION_TEXT, &r->encode_type, "jpg|png",
         "with --encoded: in this form (as the file is)"},
        {"quality", OPTION_INT, &r->quality, "N", "of JPEG that is encoded again, 1..100 (95)"},
        {"root", OPTION_TEXT, &r->root, "DIR", "folder of LIST's paths (that of LIST)"},
        {"mean", OPTION_TEXT, &r->mean, "FILE",
         "also write the mean image; HDF5, or .binaryproto by its name"},
        {"gzip", OPTION_INT, &r->gzip, "LEVEL", "HDF5: compress, 1..9 (0: none)"},
        {"threads", OPTION_THREADS, &r->threads, "N", "threads that decode (the number of cores)"},
        {"force", OPTION_FLAG, &r->force, NULL, "replace what exists"},
        {"json", OPTION_FLAG, &r->json, NULL, "the summary as JSON"},
    };
    const struct command_line line = {
        .command = "convert images",
        .synopsis = "DIR|LIST DST.h5|DST_lmdb [OPTIONS]",
        .about =
            "Writes JPEG and PNG files as data for Data layers. DIR has a folder for every class, "
            "labelled 0, 1, ... in the order of their names; LIST has a line \"PATH LABEL\" for "
            "every image. DST.h5 gets `data`, uint8 N x C x H x W, and `label`, int32 N, of images "
            "of one size; DST_lmdb gets Caffe's Datum messages. Images that cannot be read are "
            "left out and named at the end.",
        .example = "  poseidon convert images flowers/ flowers.h5 --resize=256x256 --shuffle",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .max_words = 2,
    };
    int nwords, status;

    *r = (struct request){.seed = -1, .quality = 95, .threads = pool_default_threads()};
    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status;
    if (nwords != 2)
        return error_set("expected a folder or list of images, and DST.h5 or DST_lmdb; --help "
                         "explains");
    r->source = argv[1];
    r->out = argv[2];
    return request_check(r);
}

static int output_check_lmdb(const struct request *r)
{
    struct stat st;

    if (lstat(r->out, &st) == 0) {
        if (!r->force)
            return error_set("%s exists already; --force replaces it", r->out);
        if (!sink_is_lmdb_folder(r->out))
            return error_set("%s is no LMDB folder, or holds other files too; remove it by hand",
                             r->out);
    }
    return output_check_folder(r->out);
}

static int outputs_check(const struct request *r)
{
    if (r->mean && strcmp(r->mean, r->out) == 0)
        return error_set("--mean=%s: the same file as the output", r->mean);
    if (r->lmdb ? output_check_lmdb(r)
                : output_check(r->out, r->force, 1, (const char *const *)&r->source))
        return -1;
    return r->mean ? output_check(r->mean, r->force, 1, (const char *const *)&r->source) : 0;
}

/* Where the paths begin: --root, the folder given, or the list's folder where the first image is
 * there and not here. */
static char *root_find(const struct request *r, const struct list *list)
{
    const char *slash = strrchr(r->source, '/'), *folder = r->root ? r->root : r->source;
    size_t length = strlen(folder);
    struct stat st;
    char *root;

    if (!r->root && list->nclasses == 0) {
        if (list_path(list, 0)[0] == '/' || !slash || stat(list_path(list, 0), &st) == 0)
            return strdup("");
        length = (size_t)(slash - r->source);
    }
    root = malloc(length + 2);
    if (root)
        snprintf(root, length + 2, "%.*s/", (int)length, folder);
    return root;
}

static int list_open(const struct request *r, struct list *list)
{
    struct stat st;

    if (stat(r->source, &st) == 0 && S_ISDIR(st.st_mode))
        return list_read_folder(list, r->source);
    return list_read_file(list, r->source);
}

/* The image file to be stored: as it is, unless it was changed or another form is asked for. */
static int result_encode(const struct request *r, const struct image *image, struct result *result)
{
    struct bytes *file = &result->record.file;
    enum image_format is = image_format_of(file->data, file->length), wanted = is;

    if (r->encode_type)
        wanted = strcmp(r->encode_type, "png") == 0 ? IMAGE_PNG : IMAGE_JPEG;
    result->encoded.length = 0;
    if (!r->height && !r->gray && wanted == is)
        return bytes_append(&result->encoded, file->data, file->length, "an image");
    return image_encode(image, wanted, r->quality, &result->encoded);
}

static int image_prepare(const struct conversion *c, uint64_t number, struct result *result)
{
    const struct request *r = c->request;
    struct record *record = &result->record;
    const struct image *image = &record->decoded;
    char path[4096];

    if ((size_t)snprintf(path, sizeof path, "%s%s", c->root, list_path(&c->list, number)) >=
        sizeof path)
        return error_set("the name is too long");
    if (bytes_load(&record->file, path, MAX_FILE_BYTES) ||
        image_decode(record->file.data, record->file.length, r->gray ? IMAGE_GRAY : IMAGE_COLOR,
                     &record->decoded))
        return -1;
    if (r->height) {
        if (image_resize(&record->decoded, r->height, r->width, &record->resized))
            return -1;
        image = &record->resized;
    }
    if (r->encoded && result_encode(r, image, result))
        return -1;
    return record_from_image(record, image);
}

static uint64_t number_of(const struct conversion *c, uint64_t job)
{
    return c->request->shuffle ? order_shuffled(&c->rng, job, c->list.count) : job;
}

static void work(void *context, uint64_t job, int place)
{
    struct conversion *c = context;
    struct result *result = &c->result[place];

    result->failed = image_prepare(c, number_of(c, job), result) != 0;
    if (result->failed)
        snprintf(result->error, sizeof result->error, "%.*s", (int)sizeof result->error - 1,
                 error_text());
}

static void refuse(struct conversion *c, uint64_t number, const char *reason)
{
    if (c->refused < SHOWN_REFUSALS) {
        c->refusal[c->refused].name = strdup(list_path(&c->list, number));
        c->refusal[c->refused].reason = strdup(reason);
    }
    c->refused++;
}

/* Whether an image that all others are like would not fit is the image's fault, not the output's.
 */
static bool shape_fits(struct conversion *c, const struct record *record, char *text, size_t size)
{
    char found[128], expected[128];

    if (c->sink->count == 0 || shape_equal(&record->shape, &c->mean.shape))
        return true;
    if (c->request->lmdb && !c->request->mean && !c->request->check_size)
        return c->varies = true;
    snprintf(text, size, "shape %s, but the first image has %s; --resize makes them alike",
             shape_text(&record->shape, found, sizeof found),
             shape_text(&c->mean.shape, expected, sizeof expected));
    return false;
}

static int result_write(struct conversion *c, uint64_t number, const struct result *result)
{
    const struct sample sample = {.name = list_path(&c->list, number),
                                  .label = c->list.label[number],
                                  .raw = &result->record,
                                  .encoded = c->request->encoded ? result->encoded
                                                                 : (struct bytes){.length = 0}};
    char reason[400];

    if (result->failed) {
        refuse(c, number, result->error);
        return 0;
    }
    if (!shape_fits(c, &result->record, reason, sizeof reason)) {
        refuse(c, number, reason);
        return 0;
    }
    if (c->request->mean) {
        if (mean_image_add(&c->mean, &result->record.shape, SOURCE_U8, result->record.data))
            return -1;
    } else if (c->sink->count == 0) {
        c->mean.shape = result->record.shape;
    }
    return sink_add(c->sink, &sample);
}

static void progress_show(struct conversion *c, uint64_t done, bool last)
{
    double now = clock_seconds(), rate = (double)done / (now - c->started + 1e-9);
    double left = (double)(c->list.count - done) / (rate > 0 ? rate : 1);

    if (!c->progress || (!last && now - c->shown < 0.2))
        return;
    c->shown = now;
    if (last)
        fprintf(stderr, "\r\033[K");
    else
        fprintf(stderr, "\r%llu of %llu images (%.1f %%), %.0f images/s, %d:%02d:%02d left\033[K",
                (unsigned long long)done, (unsigned long long)c->list.count,
                100.0 * (double)done / (double)c->list.count, rate, (int)(left / 3600),
                (int)(left / 60) % 60, (int)left % 60);
    fflush(stderr);
}

static int images_write(struct conversion *c)
{
    const struct pool_options o = {.njobs = c->list.count,
                                   .threads = c->request->threads,
                                   .places = c->places,
                                   .work = work,
                                   .context = c};
    struct pool *pool;
    uint64_t job = 0;
    int place, status = 0;

    if (pool_create(&o, &pool))
        return -1;
    while (status == 0 && (place = pool_next(pool)) >= 0) {
        status = result_write(c, number_of(c, job++), &c->result[place]);
        if (status == 0 && signals_pending())
            status = error_set("interrupted by a signal; nothing was written");
        progress_show(c, job, false);
    }
    progress_show(c, job, true);
    pool_destroy(pool);
    return status;
}

/* The mean image under its temporary name, then both outputs in their places. */
static int outputs_commit(struct conversion *c)
{
    const char *mean = c->request->mean;
    char *temp = mean ? file_temp_name(mean) : NULL;
    struct sink *sink = c->sink;
    int status = mean && !temp ? -1 : 0;

    c->sink = NULL;
    if (status == 0 && mean)
        status = mean_image_write(&c->mean, mean, temp);
    if (status)
        sink_discard(sink);
    else
        status = sink_commit(sink);
    if (status == 0 && mean)
        status = file_commit(temp, mean);
    if (status && temp)
        unlink(temp);
    free(temp);
    return status;
}

static void summary_print(const struct conversion *c, uint64_t count)
{
    const struct request *r = c->request;
    uint64_t shown = c->refused < SHOWN_REFUSALS ? c->refused : SHOWN_REFUSALS;

    printf("%s: %llu images", r->out, (unsigned long long)count);
    if (c->varies)
        printf(" of different sizes (Data layers need crop_size, and mean_value for a mean)");
    else
        printf(" of %lldx%lldx%lld", (long long)c->mean.shape.dim[0],
               (long long)c->mean.shape.dim[1], (long long)c->mean.shape.dim[2]);
    if (c->list.nclasses)
        printf(" of %d classes", c->list.nclasses);
    printf(" in %.1f s\n", clock_seconds() - c->started);
    if (!c->refused)
        return;
    fprintf(stderr, "warning: %llu of %llu images were refused%s\n", (unsigned long long)c->refused,
            (unsigned long long)c->list.count, c->refused > shown ? "; the first:" : ":");
    for (uint64_t i = 0; i < shown; i++)
        fprintf(stderr, "  %s: %s\n", c->refusal[i].name ? c->refusal[i].name : "?",
                c->refusal[i].reason ? c->refusal[i].reason : "?");
}

static int summary_json(const struct conversion *c, uint64_t count)
{
    const struct request *r = c->request;
    struct json json = {.depth = 0};
    int status;

    json_object_begin(&json);
    json_put_string(&json, "file", r->out);
    json_put_string(&json, "mean_file", r->mean);
    json_put_uint(&json, "records", count);
    json_key(&json, "shape");
    json_array_begin(&json);
    for (int i = 0; i < 3 && !c->varies; i++)
        json_int(&json, c->mean.shape.dim[i]);
    json_array_end(&json);
    json_key(&json, "classes");
    json_array_begin(&json);
    for (int k = 0; k < c->list.nclasses; k++)
        json_string(&json, c->list.class_name[k]);
    json_array_end(&json);
    json_put_uint(&json, "refused", c->refused);
    json_key(&json, "refused_first");
    json_array_begin(&json);
    for (uint64_t i = 0; i < c->refused && i < SHOWN_REFUSALS; i++) {
        json_object_begin(&json);
        json_put_string(&json, "path", c->refusal[i].name);
        json_put_string(&json, "reason", c->refusal[i].reason);
        json_object_end(&json);
    }
    json_array_end(&json);
    json_object_end(&json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

static int conversion_open(struct conversion *c)
{
    const struct request *r = c->request;
    struct sink_options o = {.source = r->source, .gzip = r->gzip, .force = r->force};

    if (outputs_check(r) || list_open(r, &c->list))
        return -1;
    c->root = root_find(r, &c->list);
    c->places = 2 * r->threads + 2;
    c->result = calloc((size_t)c->places, sizeof *c->result);
    if (!c->root || !c->result)
        return error_memory((size_t)c->places * sizeof *c->result, "images");
    c->rng = rng_make(r->seed < 0 ? 1 : (uint64_t)r->seed, RNG_SHUFFLE, 0, 0);
    c->progress = isatty(STDERR_FILENO) && !r->json;
    c->started = clock_seconds();
    o.nclasses = c->list.nclasses;
    o.class_name = c->list.class_name;
    return r->lmdb ? sink_create_lmdb(r->out, &o, &c->sink)
                   : sink_create_hdf5(r->out, &o, &c->sink);
}

static int conversion_run(struct conversion *c)
{
    uint64_t count;

    if (conversion_open(c) || images_write(c))
        return -1;
    count = c->sink->count;
    if (count == 0)
        return error_set("%s: all %llu images were refused; the first, %s: %s", c->request->source,
                         (unsigned long long)c->list.count, c->refusal[0].name,
                         c->refusal[0].reason);
    if (outputs_commit(c))
        return -1;
    if (c->request->json)
        return summary_json(c, count);
    summary_print(c, count);
    return 0;
}

static void conversion_close(struct conversion *c)
{
    sink_discard(c->sink);
    mean_image_free(&c->mean);
    for (int i = 0; c->result && i < c->places; i++) {
        record_free(&c->result[i].record);
        bytes_free(&c->result[i].encoded);
    }
    for (int i = 0; i < SHOWN_REFUSALS; i++) {
        free(c->refusal[i].name);
        free(c->refusal[i].reason);
    }
    free(c->result);
    free(c->root);
    list_free(&c->list);
}

int command_convert_images(int argc, char **argv)
{
    struct request request;
    struct conversion conversion = {.request = &request};
    int status = request_parse(&request, argc, argv);

    if (status)
        return status > 0 ? 0 : command_fail("convert");
    signals_hold();
    status = conversion_run(&conversion);
    if (status)
        command_fail("convert");
    conversion_close(&conversion);
    signals_release();
    return status ? 1 : 0;
}
