/* poseidon mean: computes the mean image of a data set, for transform_param's mean_file. */
#include "commands/commands.h"
#include "commands/image_stream.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include "convert/mean_image.h"
#include "watch/signals.h"
#include "util/error.h"
#include "util/units.h"
#include "util/workers.h"

#include <stdio.h>

struct averaging {
    const char *path, *out; /* borrowed from argv; out NULL: print only the means of channels */
    bool force, force_color, force_gray;
    int threads;
    struct source *source;
    struct mean_image mean;
};

static int arguments_parse(struct averaging *a, int argc, char **argv)
{
    const struct option options[] = {
        {"force-color", OPTION_FLAG, &a->force_color, NULL,
         "decode encoded images to three channels"},
        {"force-gray", OPTION_FLAG, &a->force_gray, NULL, "decode encoded images to one channel",
         .not_with = "force-color", .why = "decodes to another number of channels"},
        {"threads", OPTION_THREADS, &a->threads, "N", "threads that decode (default: all cores)"},
        {"force", OPTION_FLAG, &a->force, NULL, "replace DST if it exists"},
    };
    const struct command_line line = {
        .command = "mean",
        .synopsis = "SRC [DST.h5|DST.binaryproto] [OPTIONS]",
        .about =
            "Averages all images of SRC (HDF5, LMDB or LevelDB, as Data layers read them) pixel by "
            "pixel, for a transform_param's mean_file, and prints the mean of every channel, for "
            "its mean_value.",
        .example = "  poseidon mean flowers.h5 flowers-mean.h5",
        OPTION_ROWS(options),
        .least_words = 1,
        .max_words = 2,
        .expected = "expected SRC: an HDF5 file, an LMDB or a LevelDB; --help explains",
    };
    int nwords, status = options_parse(&line, argc, argv, &nwords);

    if (status)
        return status;
    a->path = argv[1];
    a->out = nwords > 1 ? argv[2] : NULL;
    return 0;
}

static int read_image(void *context, uint64_t number, struct streamed *out)
{
    const struct averaging *a = context;

    return source_read_record(a->source, number, &out->record);
}

static int add_image(void *context, uint64_t number, const struct streamed *image)
{
    struct averaging *a = context;
    const struct record *record = &image->record;

    if (image->failed)
        return error_set("%s", image->error);
    return mean_image_add(&a->mean, &record->shape, record->type, record->data)
               ? error_context("%s: record %llu", a->path, (unsigned long long)number)
               : 0;
}

/* Prints the result. The lines of channels are those of Caffe's compute_image_mean. */
static void result_print(const struct averaging *a)
{
    for (int64_t c = 0; c < a->mean.shape.dim[0]; c++)
        printf("mean_value channel [%lld]: %g\n", (long long)c, mean_image_channel(&a->mean, c));
    printf("%s: the mean of %s of %lldx%lldx%lld\n", a->out ? a->out : a->path,
           units_count((long long)a->mean.count, "image").text, (long long)a->mean.shape.dim[0],
           (long long)a->mean.shape.dim[1], (long long)a->mean.shape.dim[2]);
}

static int average(struct averaging *a)
{
    static const char *const ends[] = {".h5", ".hdf5", ".binaryproto", NULL};
    enum image_color color = a->force_color  ? IMAGE_COLOR
                             : a->force_gray ? IMAGE_GRAY
                                             : IMAGE_AS_STORED;

    if ((a->out &&
         (output_check(a->out, a->force, 1, &a->path) || output_check_ending(a->out, ends))) ||
        source_open_images(a->path, false, color, &a->source))
        return -1;
    const struct image_stream stream = {.count = a->source->nrecords,
                                        .threads = a->threads,
                                        .read = read_image,
                                        .take = add_image,
                                        .context = a};

    signals_hold();
    if (image_stream_run(&stream) || (a->out && mean_image_write(&a->mean, a->out)))
        return -1;
    result_print(a);
    return 0;
}

int command_mean(int argc, char **argv)
{
    struct averaging a = {.threads = workers_usual()};
    int status = arguments_parse(&a, argc, argv);

    if (status)
        return status;
    status = average(&a);
    mean_image_free(&a.mean);
    source_close(a.source);
    signals_release();
    return status;
}
