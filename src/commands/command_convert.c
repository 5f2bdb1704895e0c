/* `poseidon convert`: reads a published data set whole, checks it, and only then writes.
 *
 * Output goes to a temporary name that is renamed when complete. SIGINT and friends are held back
 * while it exists, and looked at between blocks, so that an interrupted run leaves nothing either.
 */
#include "commands/commands.h"
#include "convert/image_stream.h"
#include "commands/options.h"
#include "commands/output_guard.h"

#include "convert/imageset.h"
#include "train/signals.h"
#include "util/error.h"
#include "util/json.h"
#include "util/path.h"
#include "util/suggest.h"
#include "util/units.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_PAD 1024

struct convert {
    bool mnist; /* else cifar10 */
    int nsources;
    char **sources;         /* borrowed from argv */
    const char *out, *mean; /* mean: NULL for none */
    int split;              /* an enum imageset_split; -1: not given */
    bool shuffle, force, json;
    long long seed; /* -1: not given */
    int gzip;
    int classes; /* -1: not given */
    int pad;
};

/* Returns 0, 1 where --help was printed, -1 with a message. The plain words are in
 * argv[1..*nwords].
 */
static int options_read(struct convert *c, int argc, char **argv, int *nwords)
{
    static const char *const splits[] = {"train", "test", NULL};
    const struct option options[] = {
        {"split", OPTION_CHOICE, &c->split, "train|test", "which half of a folder (default train)",
         splits},
        {"mean", OPTION_TEXT, &c->mean, "FILE",
         "also write the mean image of these records (for mean_file): HDF5, or Caffe's form if "
         "FILE ends in .binaryproto"},
        {"shuffle", OPTION_FLAG, &c->shuffle, NULL, "write the records in a random order"},
        {"seed", OPTION_SEED, &c->seed, "N", "the seed of that order (default 1)"},
        {"classes", OPTION_INT, &c->classes, "N", "mnist: labels are 0..N-1 (default 10)"},
        {"pad", OPTION_INT, &c->pad, "N",
         "add a border of N pixels in the mean colour, so that crops of the old size fit"},
        {"gzip", OPTION_INT, &c->gzip, "LEVEL",
         "compress, 1..9 (default 0: larger, but any record is read at once)"},
        {"force", OPTION_FLAG, &c->force, NULL, "replace DST.h5 and FILE if they exist"},
        {"json", OPTION_FLAG, &c->json, NULL, "the summary as JSON"},
    };
    const struct command_line line = {
        .command = "convert",
        .synopsis = "cifar10 SRC DST.h5 [OPTIONS]\n"
                    "       poseidon convert mnist SRC DST.h5 [OPTIONS]\n"
                    "       poseidon convert images DIR|LIST DST.h5|DST_lmdb [OPTIONS]\n"
                    "       poseidon convert weights IN OUT [--force]",
        .about =
            "Writes the images of a published data set as DST.h5 for Data layers: `data`, uint8 "
            "N x C x H x W, the original bytes, and `label`, int32 N.\n"
            "\n"
            "  cifar10 SRC   the binary version: its folder, unpacked (cifar-10-batches-bin),\n"
            "                or one or more .bin files\n"
            "  mnist SRC     the folder with IDX files (train-images-idx3-ubyte[.gz] ...),\n"
            "                or an images file whose labels file lies beside it;\n"
            "                Fashion-MNIST likewise\n"
            "  images        JPEG, PNG and WebP files; see its own options below\n"
            "  weights       a model in another form; see below",
        .example = "  poseidon convert mnist /usr/share/datasets/fashion-mnist fashion.h5",
        OPTION_ROWS(options),
        .least_words = 3,
        .max_words = INT_MAX,
        .expected = "expected a kind (cifar10, mnist, images or weights), SRC and DST.h5",
    };

    return options_parse(&line, argc, argv, nwords);
}

static int range_check(const char *option, int number, int low, int high)
{
    if (number < low || number > high)
        return error_set("--%s=%d: expected a number from %d to %d", option, number, low, high);
    return 0;
}

/* Values that are none, and options that contradict each other or the source. */
static int options_check(const struct convert *c)
{
    bool single;

    if ((c->classes >= 0 && range_check("classes", c->classes, 1, IMAGESET_MAX_CLASSES)) ||
        range_check("pad", c->pad, 0, MAX_PAD) || range_check("gzip", c->gzip, 0, 9))
        return -1;
    if (c->seed >= 0 && !c->shuffle)
        return error_set("--seed has no effect without --shuffle");
    if (c->classes >= 0 && !c->mnist)
        return error_set("--classes is for mnist; CIFAR-10 has 10 classes");
    single = c->mnist ? access(c->sources[0], F_OK) == 0 && !path_is_folder(c->sources[0])
                      : imageset_is_cifar10_file(c->sources[0]);
    if (c->split >= 0 && single)
        return error_set("--split is for folders; '%s' is a single file", c->sources[0]);
    if (c->nsources > 1 && !single)
        return error_set("%d sources given; only .bin files of cifar10 can be several",
                         c->nsources);
    for (int i = 1; i < c->nsources; i++)
        if (c->mnist || !imageset_is_cifar10_file(c->sources[i]))
            return error_set("'%s': only .bin files of cifar10 can be several", c->sources[i]);
    return 0;
}

static int kind_check(const char *kind)
{
    static const char *const kinds[] = {"cifar10", "mnist", "images", "weights"};
    struct suggest suggest = suggest_start(kind);

    for (int i = 0; i < 4; i++)
        suggest_offer(&suggest, kinds[i]);
    if (!strcmp(kind, kinds[0]) || !strcmp(kind, kinds[1]))
        return 0;
    if (access(kind, F_OK) == 0)
        return error_set("'%s' is a path: expected what is there as the first word, cifar10, "
                         "mnist, images or weights (sets in LMDB, LevelDB or HDF5 need no "
                         "conversion: Data layers read all three)",
                         kind);
    return error_set("unknown kind of data '%s'%s%s%s (expected cifar10, mnist, images or weights "
                     "as the first word)",
                     kind, suggest.nearest ? "; did you mean " : "",
                     suggest.nearest ? suggest.nearest : "", suggest.nearest ? "?" : "");
}

/* Returns 0, 1 where --help was printed, -1 with a message. */
static int arguments_parse(struct convert *c, int argc, char **argv)
{
    int nwords, status;

    *c = (struct convert){.split = -1, .seed = -1, .classes = -1};
    if (argc > 1 && argv[1][0] != '-' && kind_check(argv[1])) /* else its options seem unknown */
        return -1;
    status = options_read(c, argc, argv, &nwords);
    if (status)
        return status;
    if (kind_check(argv[1]))
        return -1;
    if (path_ends(argv[nwords], "lmdb"))
        return error_set("'%s': %s is written as HDF5; expected a name that ends in .h5 (only "
                         "'convert images' writes LMDB; Data layers read both)",
                         argv[nwords], argv[1]);
    c->mnist = strcmp(argv[1], "mnist") == 0;
    c->sources = argv + 2;
    c->nsources = nwords - 2;
    c->out = argv[nwords];
    return options_check(c);
}

static int set_read(const struct convert *c, struct imageset *set)
{
    enum imageset_split split = c->split == IMAGESET_TEST ? IMAGESET_TEST : IMAGESET_TRAIN;

    if (c->mnist ? imageset_read_mnist(c->sources[0], split, c->classes < 0 ? 10 : c->classes, set)
        : imageset_is_cifar10_file(c->sources[0])
            ? imageset_read_cifar10_files(c->nsources, c->sources, set)
            : imageset_read_cifar10(c->sources[0], split, set))
        return -1;
    return error_status(
        (c->shuffle && imageset_shuffle(set, c->seed < 0 ? 1 : (uint64_t)c->seed)) ||
        (c->pad && imageset_pad(set, c->pad)));
}

/* One of the set, as the images of a stream. */
struct written {
    const struct imageset *set;
    struct image_outputs outputs;
};

static int record_read(void *context, uint64_t number, struct streamed *out)
{
    const struct imageset *set = ((const struct written *)context)->set;

    out->record.type = SOURCE_U8;
    out->record.shape = (struct shape){.naxes = 3, .dim = {set->dim[0], set->dim[1], set->dim[2]}};
    out->record.data = set->data + number * imageset_record_bytes(set);
    return 0;
}

static int record_write(void *context, uint64_t number, const struct streamed *image)
{
    struct written *w = context;
    const struct sample sample = {
        .name = "", .label = w->set->label[number], .raw = &image->record};

    return image_outputs_add(&w->outputs, 0, &sample);
}

static int set_write(const struct convert *c, const struct imageset *set)
{
    const struct sink_options o = {
        .source = c->sources[0],
        .gzip = c->gzip,
        .count = set->count,
        .nclasses = set->classes.count,
        .class_name = set->classes.name,
    };
    struct written written = {.set = set, .outputs.mean = c->mean};
    const struct image_stream stream = {.count = set->count,
                                        .threads = 1,
                                        .progress = !c->json,
                                        .read = record_read,
                                        .take = record_write,
                                        .outputs = &written.outputs,
                                        .interrupted = signals_pending,
                                        .release = signals_release,
                                        .context = &written};
    int status;

    signals_hold();
    status = error_status(sink_create_hdf5(c->out, &o, &written.outputs.sink[0]) ||
                          image_stream_run(&stream) || image_outputs_commit(&written.outputs));
    image_outputs_free(&written.outputs);
    signals_release();
    return status;
}

static int summary_print(const struct convert *c, const struct imageset *set, const size_t *count)
{
    printf("%s: %s of %dx%dx%d", c->out, units_count((long long)set->count, "record").text,
           set->dim[0], set->dim[1], set->dim[2]);
    for (int k = 0; k < set->nclasses; k++) {
        const char *separator = k ? ", " : "; per class: ";
        if (set->classes.count)
            printf("%s%s %zu", separator, set->classes.name[k], count[k]);
        else
            printf("%s%d: %zu", separator, k, count[k]);
    }
    printf("\n");
    return 0;
}

static int summary_json(const struct convert *c, const struct imageset *set, const size_t *count)
{
    struct json json = {0};

    json_object_begin(&json);
    json_put_string(&json, "file", c->out);
    json_put_string(&json, "mean_file", c->mean);
    json_put_uint(&json, "records", set->count);
    json_put_ints(&json, "shape", 3, (const int64_t[]){set->dim[0], set->dim[1], set->dim[2]});
    json_put_array(&json, "records_per_class");
    for (int k = 0; k < set->nclasses; k++)
        json_uint(&json, count[k]);
    json_array_end(&json);
    json_object_end(&json);
    return json_print(&json, stdout);
}

static int convert_run(const struct convert *c)
{
    const char *const outputs[] = {c->out, c->mean};
    struct imageset set = {0};
    size_t count[IMAGESET_MAX_CLASSES];
    int status;

    if (c->mean && strcmp(c->mean, c->out) == 0)
        return error_set("--mean=%s: the same file as the output", c->mean);
    if (output_check_all(2, outputs, c->force, c->nsources, (const char *const *)c->sources))
        return -1;
    status = error_status(set_read(c, &set) || set_write(c, &set));
    if (status == 0) {
        imageset_count(&set, count);
        status = c->json ? summary_json(c, &set, count) : summary_print(c, &set, count);
    }
    imageset_free(&set);
    return status;
}

int command_convert(int argc, char **argv)
{
    char images[] = "images", weights[] = "weights", help[] = "--help";
    char *images_help[] = {images, help, NULL}, *weights_help[] = {weights, help, NULL};
    struct convert c;
    int status;

    if (argc > 1 && strcmp(argv[1], "images") == 0)
        return command_convert_images(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], weights) == 0)
        return command_convert_weights(argc - 1, argv + 1);
    status = arguments_parse(&c, argc, argv);
    if (status > 0) {
        printf("\n");
        command_convert_images(2, images_help);
        printf("\n");
        return command_convert_weights(2, weights_help);
    }
    return status ? status : convert_run(&c);
}
