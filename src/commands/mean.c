/* `poseidon mean`: the mean image of a data set, for transform_param's mean_file. */
#include "commands/commands.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include "convert/mean_image.h"
#include "train/signals.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/json.h"
#include "util/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct averaging {
    char *path, *out; /* borrowed from argv; out NULL: only the channels' means are printed */
    bool force, json, force_color, force_gray;
    int threads;
    struct source *source;
    struct mean_image mean;
    int places;
    struct result {
        struct record record;
        bool failed;
        char error[1024];
    } * result; /* places; owned */
    double started, shown;
    bool progress;
};

static int arguments_parse(struct averaging *a, int argc, char **argv)
{
    const struct option options[] = {
        {"force-color", OPTION_FLAG, &a->force_color, NULL,
         "decode encoded images to three channels"},
        {"force-gray", OPTION_FLAG, &a->force_gray, NULL, "decode encoded images to one channel"},
        {"threads", OPTION_THREADS, &a->threads, "N", "threads that decode (the number of cores)"},
        {"force", OPTION_FLAG, &a->force, NULL, "replace DST where it exists"},
        {"json", OPTION_FLAG, &a->json, NULL, "the result as JSON"},
    };
    const struct command_line line = {
        .command = "mean",
        .synopsis = "SRC [DST.h5|DST.binaryproto] [OPTIONS]",
        .about =
            "Averages all images of SRC (HDF5, LMDB or LevelDB, as Data layers read them) pixel by "
            "pixel, for a transform_param's mean_file, and prints the mean of every channel, for "
            "its mean_value.",
        .example = "  poseidon mean flowers.h5 flowers-mean.h5",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .max_words = 2,
    };
    int nwords, status = options_parse(&line, argc, argv, &nwords);

    if (status)
        return status;
    if (nwords < 1)
        return error_set("expected SRC: an HDF5 file, an LMDB or a LevelDB; --help explains");
    if (a->force_color && a->force_gray)
        return error_set("both --force-color and --force-gray; expected one of them");
    a->path = argv[1];
    a->out = nwords > 1 ? argv[2] : NULL;
    return 0;
}

static int work(void *context, uint64_t job)
{
    struct averaging *a = context;
    struct result *result = &a->result[job % (uint64_t)a->places];

    result->failed = source_read_record(a->source, job, &result->record) != 0;
    if (result->failed)
        snprintf(result->error, sizeof result->error, "%.*s", (int)sizeof result->error - 1,
                 error_text());
    return 0; /* it is said in its turn */
}

static void progress_show(struct averaging *a, uint64_t done)
{
    double now = clock_seconds();

    if (!a->progress || (done < a->source->nrecords && now - a->shown < 0.2))
        return;
    a->shown = now;
    if (done == a->source->nrecords)
        fprintf(stderr, "\r\033[K");
    else
        fprintf(stderr, "\r%llu of %llu images, %.0f images/s\033[K", (unsigned long long)done,
                (unsigned long long)a->source->nrecords, (double)done / (now - a->started + 1e-9));
}

/* Sources of blocks are read by one thread at a time. */
static int images_add(struct averaging *a)
{
    const struct jobs_options o = {.threads = a->source->i->read_record ? a->threads : 1,
                                   .places = a->places,
                                   .work = work,
                                   .context = a};
    struct jobs *jobs;
    uint64_t job;
    int status = 0;

    if (jobs_create(&o, &jobs))
        return -1;
    while (status == 0 && jobs_next(jobs, a->source->nrecords, &job)) {
        const struct result *result = &a->result[job % (uint64_t)a->places];

        if (result->failed)
            status = error_set("%s", result->error);
        else if (mean_image_add(&a->mean, &result->record.shape, result->record.type,
                                result->record.data))
            status = error_context("%s: record %llu", a->path, (unsigned long long)job);
        else if (signals_pending())
            status = error_set("interrupted by a signal; nothing was written");
        progress_show(a, job + 1);
    }
    jobs_destroy(jobs);
    return status;
}

static int result_write(const struct averaging *a)
{
    char *temp = file_temp_name(a->out);
    int status = temp ? mean_image_write(&a->mean, a->out, temp) : -1;

    if (status == 0)
        status = file_commit(temp, a->out);
    else if (temp)
        unlink(temp);
    free(temp);
    return status;
}

static int result_json(const struct averaging *a)
{
    struct json json = {.depth = 0};
    int status;

    json_object_begin(&json);
    json_put_string(&json, "file", a->out);
    json_put_uint(&json, "records", a->mean.count);
    json_key(&json, "shape");
    json_array_begin(&json);
    for (int i = 0; i < a->mean.shape.naxes; i++)
        json_int(&json, a->mean.shape.dim[i]);
    json_array_end(&json);
    json_key(&json, "mean_value");
    json_array_begin(&json);
    for (int64_t c = 0; c < a->mean.shape.dim[0]; c++)
        json_double(&json, mean_image_channel(&a->mean, c));
    json_array_end(&json);
    json_object_end(&json);
    status = json_print(&json, stdout);
    json_free(&json);
    return status;
}

/* The channels' lines are those of Caffe's compute_image_mean. */
static int result_print(const struct averaging *a)
{
    if (a->json)
        return result_json(a);
    for (int64_t c = 0; c < a->mean.shape.dim[0]; c++)
        printf("mean_value channel [%lld]: %g\n", (long long)c, mean_image_channel(&a->mean, c));
    if (a->out)
        printf("%s: the mean of %llu images of %lldx%lldx%lld\n", a->out,
               (unsigned long long)a->mean.count, (long long)a->mean.shape.dim[0],
               (long long)a->mean.shape.dim[1], (long long)a->mean.shape.dim[2]);
    return 0;
}

static int average(struct averaging *a)
{
    enum image_color color = a->force_color  ? IMAGE_COLOR
                             : a->force_gray ? IMAGE_GRAY
                                             : IMAGE_AS_STORED;

    static const char *const ends[] = {".h5", ".hdf5", ".binaryproto", NULL};

    if ((a->out && (output_check(a->out, a->force, 1, (const char *const *)&a->path) ||
                    output_check_ending(a->out, ends))) ||
        source_open_images(a->path, false, color, &a->source))
        return -1;
    a->places = 2 * a->threads + 2;
    a->result = calloc((size_t)a->places, sizeof *a->result);
    if (!a->result)
        return error_memory((size_t)a->places * sizeof *a->result, "images");
    a->progress = isatty(STDERR_FILENO) && !a->json;
    a->started = clock_seconds();
    if (images_add(a) || (a->out && result_write(a)))
        return -1;
    return result_print(a);
}

int command_mean(int argc, char **argv)
{
    struct averaging a = {.threads = workers_usual()};
    int status = arguments_parse(&a, argc, argv);

    if (status)
        return status > 0 ? 0 : command_fail("mean");
    signals_hold();
    status = average(&a);
    if (status)
        command_fail("mean");
    for (int i = 0; a.result && i < a.places; i++)
        record_free(&a.result[i].record);
    free(a.result);
    mean_image_free(&a.mean);
    source_close(a.source);
    signals_release();
    return status ? 1 : 0;
}
