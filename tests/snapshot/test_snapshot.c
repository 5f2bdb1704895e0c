/* Snapshots: against h5py in both directions, and everything that can be wrong with a file. */
#include "config.h" /* memmem */

#include "snapshot/checksum.h"
#include "snapshot/snapshot.h"
#include "tests/suite.h"
#include "util/error.h"

#include <check.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DATA   TEST_DATA "/solver/"
#define PYTHON "/usr/bin/python3"

static char folder[] = "/tmp/poseidon_snapshot_XXXXXX";

/* A path in the test's own folder; valid until the fourth call after it. */
static const char *in_folder(const char *name)
{
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void assert_error(const char *format, ...)
{
    char expected[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    ck_assert_str_eq(error_text(), expected);
}

static void assert_error_begins(const char *format, ...)
{
    char expected[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    ck_assert_msg(strncmp(error_text(), expected, strlen(expected)) == 0,
                  "'%s' does not begin with '%s'", error_text(), expected);
}

/* Another seed in every run; printed, and taken from POSEIDON_TEST_SEED to repeat one. */
static void seed_random(void)
{
    const char *chosen = getenv("POSEIDON_TEST_SEED");
    unsigned seed = chosen ? (unsigned)strtoul(chosen, NULL, 10) : (unsigned)time(NULL);

    printf("seed %u\n", seed);
    srand(seed);
}

/* The bytes of a whole small file. */
static size_t read_bytes(const char *path, unsigned char *out, size_t size)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    ck_assert_ptr_nonnull(file);
    n = fread(out, 1, size, file);
    ck_assert_uint_lt(n, size);
    fclose(file);
    return n;
}

static void write_bytes(const char *path, const void *data, size_t length)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, length, file), length);
    fclose(file);
}

/* A net of the layers in caffe.caffemodel.h5, with one more and without one of those. */
struct net {
    float conv_w[18], conv_b[2], inception_w[8], inception_b[4], ip_w[12], ip_b[3], extra_w[6];
    struct snapshot_layer layers[6];
    int nlayers;
};

static const struct shape conv_w = {4, {2, 1, 3, 3}}, conv_b = {1, {2}};
static const struct shape inception_w = {4, {4, 2, 1, 1}}, inception_b = {1, {4}};
static const struct shape ip_w = {2, {3, 4}}, ip_b = {1, {3}}, extra_w = {2, {2, 3}};

static void net_init(struct net *net)
{
    memset(net, 0, sizeof *net);
    net->layers[0] = (struct snapshot_layer){"mnist", 0, {{0}}};
    net->layers[1] = (struct snapshot_layer){
        "conv1", 2, {{&conv_w, net->conv_w, false}, {&conv_b, net->conv_b, false}}};
    net->layers[2] = (struct snapshot_layer){
        "inception_3a/1x1",
        2,
        {{&inception_w, net->inception_w, false}, {&inception_b, net->inception_b, false}}};
    net->layers[3] = (struct snapshot_layer){"relu_new", 0, {{0}}};
    net->layers[4] =
        (struct snapshot_layer){"ip", 2, {{&ip_w, net->ip_w, false}, {&ip_b, net->ip_b, false}}};
    net->layers[5] = (struct snapshot_layer){"fc_new", 1, {{&extra_w, net->extra_w, false}}};
    net->nlayers = 6;
}

static void assert_ramp(const float *values, int n, float start)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(values[i] == start + (float)i, "value %d is %g, expected %g", i,
                      (double)values[i], (double)(start + (float)i));
}

START_TEST(model_of_caffe_is_read_by_layer_name)
{
    struct snapshot_report report;
    struct net net;

    net_init(&net);
    net.extra_w[0] = 77;
    ck_assert_msg(
        snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, &report) == 0,
        "%s", error_text());
    assert_ramp(net.conv_w, 18, 0);
    assert_ramp(net.conv_b, 2, 100);
    assert_ramp(net.inception_w, 8, 200);
    assert_ramp(net.inception_b, 4, 300);
    assert_ramp(net.ip_w, 12, 400);
    assert_ramp(net.ip_b, 3, 500);
    ck_assert(net.extra_w[0] == 77);
    ck_assert_int_eq(report.nignored, 2);
    ck_assert_str_eq(report.ignored[0], "old_fc");
    ck_assert_str_eq(report.ignored[1], "relu1");
    ck_assert_int_eq(report.nmissing, 1);
    ck_assert_str_eq(report.missing[0], "fc_new");
    snapshot_report_free(&report);
    ck_assert_int_eq(snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, NULL),
                     0);
}
END_TEST

START_TEST(escaped_slashes_are_understood)
{
    static const struct shape two = {1, {2}};
    float plain[2], slash[2], colon[2];
    struct snapshot_layer layers[] = {
        {"a/b", 1, {{&two, slash, false}}},
        {"a_b", 1, {{&two, plain, false}}},
        {"c/d", 1, {{&two, colon, false}}},
    };
    struct snapshot_report report;

    ck_assert_int_eq(snapshot_read_model(DATA "escaped.caffemodel.h5", layers, 3, &report), 0);
    assert_ramp(plain, 2, 1);
    assert_ramp(slash, 2, 10);
    assert_ramp(colon, 2, 20);
    ck_assert_int_eq(report.nignored, 0);
    ck_assert_int_eq(report.nmissing, 0);
    snapshot_report_free(&report);
}
END_TEST

START_TEST(model_comes_back_bit_for_bit)
{
    struct net net, again;

    net_init(&net);
    net_init(&again);
    for (int i = 0; i < 18; i++)
        net.conv_w[i] = ldexpf(1.0f + (float)i / 7, 10 * i - 100);
    net.conv_b[0] = NAN;
    net.conv_b[1] = -INFINITY;
    net.extra_w[3] = -0.0f;
    ck_assert_msg(snapshot_write_model(in_folder("bits.h5"), NULL, net.layers, net.nlayers) == 0,
                  "%s", error_text());
    ck_assert_int_eq(snapshot_read_model(in_folder("bits.h5"), again.layers, again.nlayers, NULL),
                     0);
    ck_assert_int_eq(memcmp(&net, &again, offsetof(struct net, layers)), 0);
}
END_TEST

START_TEST(blobs_of_any_size_come_back)
{
    static const struct shape large = {3, {5, 3, 700001}}, long_one = {1, {9000001}};
    static const struct shape scalar = {0, {0}}, empty = {2, {0, 4}};
    size_t n = shape_elems(&large), m = shape_elems(&long_one);
    float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), one = 3.5f, other = 0;
    struct snapshot_layer layer = {
        "big",
        4,
        {{&large, a, false}, {&long_one, a, false}, {&scalar, &one, false}, {&empty, a, false}}};
    struct stat status;

    for (size_t i = 0; i < n; i++)
        a[i] = (float)i;
    ck_assert_msg(snapshot_write_model(in_folder("big.h5"), NULL, &layer, 1) == 0, "%s",
                  error_text());
    layer.blobs[0].data = b;
    layer.blobs[1].data = b;
    layer.blobs[2].data = &other;
    ck_assert_msg(snapshot_read_model(in_folder("big.h5"), &layer, 1, NULL) == 0, "%s",
                  error_text());
    ck_assert(other == 3.5f);
    ck_assert_int_eq(memcmp(b, a, m * sizeof *a), 0);
    ck_assert_int_eq(memcmp(b + m, a + m, (n - m) * sizeof *a), 0);
    ck_assert_int_eq(stat(in_folder("big.h5"), &status), 0);
    ck_assert_int_lt(status.st_size, (long)((n + m) * sizeof *a * 103 / 100));
    unlink(in_folder("big.h5"));
    free(a);
    free(b);
}
END_TEST

/* What h5py says of a file of ours; skips the comparison, aloud, where there is no h5py. */
static bool show(const char *path, char *text, size_t size)
{
    char command[1024];
    FILE *pipe;
    size_t n;

    if (system(PYTHON " -c 'import h5py' 2>/dev/null") != 0) {
        fprintf(stderr, "skipped: " PYTHON " has no h5py (Debian: python3-h5py)\n");
        return false;
    }
    snprintf(command, sizeof command, PYTHON " " DATA "show.py %s", path);
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    n = fread(text, 1, size - 1, pipe);
    text[n] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
    return true;
}

START_TEST(h5py_reads_our_model_in_caffes_layout)
{
    struct net net;
    char text[4096];

    net_init(&net);
    net.layers[4].blobs[0].shared = true;
    for (int i = 0; i < 8; i++)
        net.inception_w[i] = (float)i;
    net.ip_b[1] = 0.5f;
    ck_assert_int_eq(snapshot_write_model(in_folder("ours.h5"), NULL, net.layers, net.nlayers), 0);
    if (!show(in_folder("ours.h5"), text, sizeof text))
        return;
    ck_assert_str_eq(text, "data/\n"
                           "data/conv1/\n"
                           "data/conv1/0 float32 2x1x3x3: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                           "data/conv1/1 float32 2: 0 0\n"
                           "data/fc_new/\n"
                           "data/fc_new/0 float32 2x3: 0 0 0 0 0 0\n"
                           "data/inception_3a/\n"
                           "data/inception_3a/1x1/\n"
                           "data/inception_3a/1x1/0 float32 4x2x1x1: 0 1 2 3 4 5 6 7\n"
                           "data/inception_3a/1x1/1 float32 4: 0 0 0 0\n"
                           "data/ip/\n"
                           "data/ip/1 float32 3: 0 0.5 0\n"
                           "data/mnist/\n"
                           "data/relu_new/\n"
                           "version\n");
}
END_TEST

START_TEST(same_parameters_give_the_same_bytes)
{
    static unsigned char a[100000], b[100000];
    struct net net;
    size_t n;

    net_init(&net);
    ck_assert_int_eq(snapshot_write_model(in_folder("a.h5"), NULL, net.layers, net.nlayers), 0);
    sleep(1); /* a time stamp would differ now */
    ck_assert_int_eq(snapshot_write_model(in_folder("b.h5"), NULL, net.layers, net.nlayers), 0);
    n = read_bytes(in_folder("a.h5"), a, sizeof a);
    ck_assert_uint_eq(read_bytes(in_folder("b.h5"), b, sizeof b), n);
    ck_assert_int_eq(memcmp(a, b, n), 0);
}
END_TEST

START_TEST(of_two_layers_with_one_name_the_one_with_parameters_is_kept)
{
    static const struct shape two = {1, {2}};
    float first[2] = {1, 2}, second[2] = {3, 4}, back[2];
    struct snapshot_layer layers[] = {{"twin", 0, {{0}}},
                                      {"twin", 1, {{&two, first, false}}},
                                      {"twin", 0, {{0}}},
                                      {"", 0, {{0}}}};
    const char *path = in_folder("twins.h5");

    ck_assert_msg(snapshot_write_model(path, NULL, layers, 4) == 0, "%s", error_text());
    layers[1].blobs[0].data = back;
    ck_assert_msg(snapshot_read_model(path, layers + 1, 2, NULL) == 0, "%s", error_text());
    ck_assert(back[0] == 1 && back[1] == 2);
    layers[2] = (struct snapshot_layer){"twin", 1, {{&two, second, false}}};
    ck_assert_int_ne(snapshot_write_model(path, NULL, layers, 3), 0);
    assert_error("%s: two layers named 'twin' have parameters; a snapshot holds one layer of a "
                 "name, rename the other",
                 path);
}
END_TEST

START_TEST(names_that_have_no_place_are_errors)
{
    static const struct shape two = {1, {2}};
    float data[2] = {1, 2};
    struct snapshot_layer layers[] = {{"a", 1, {{&two, data, false}}},
                                      {"a/0", 1, {{&two, data, false}}}};
    const char *path = in_folder("names.h5");

    ck_assert_int_ne(snapshot_write_model(path, NULL, layers, 2), 0);
    assert_error("the model cannot be saved: %s: the place of layer 'a/0' in the snapshot is taken "
                 "by a parameter of another layer; rename one of them",
                 path);
    ck_assert(!exists(path));
    layers[1].name = "//";
    ck_assert_int_ne(snapshot_write_model(path, NULL, layers, 2), 0);
    assert_error("the model cannot be saved: %s: a layer named '//' has no place in a snapshot; "
                 "give it a name",
                 path);
}
END_TEST

START_TEST(model_of_another_shape_is_refused_in_caffes_words_before_anything_changes)
{
    static const struct shape other = {2, {20, 4}};
    static float data[80];
    struct net net;

    net_init(&net);
    net.layers[4].blobs[0] = (struct snapshot_blob){&other, data, false};
    ck_assert_int_ne(snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, NULL),
                     0);
    assert_error(DATA "caffe.caffemodel.h5: Cannot copy param 0 weights from layer 'ip'; shape "
                      "mismatch.  Source param shape is 3 4 (12); target param shape is 20 4 (80). "
                      "To learn this layer's parameters from scratch rather than copying from a "
                      "saved net, rename the layer.");
    ck_assert(net.conv_w[1] == 0);
}
END_TEST

START_TEST(model_with_another_number_of_blobs_is_refused)
{
    struct net net;

    net_init(&net);
    net.layers[4].nblobs = 1;
    ck_assert_int_ne(snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, NULL),
                     0);
    assert_error(DATA
                 "caffe.caffemodel.h5: Incompatible number of blobs for layer ip: the file has "
                 "2, the net has 1");
    net_init(&net);
    net.layers[1].nblobs = 3;
    net.layers[1].blobs[2] = (struct snapshot_blob){&conv_b, net.conv_b, false};
    ck_assert_int_ne(snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, NULL),
                     0);
    assert_error(DATA "caffe.caffemodel.h5: Incompatible number of blobs for layer conv1: the file "
                      "has 2, the net has 3");
    net.layers[1].blobs[2].shared = true;
    ck_assert_int_eq(snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, NULL),
                     0);
    net_init(&net);
    net.layers[0].name = "old_fc"; /* has none in the net */
    ck_assert_int_ne(snapshot_read_model(DATA "caffe.caffemodel.h5", net.layers, net.nlayers, NULL),
                     0);
    assert_error(DATA
                 "caffe.caffemodel.h5: Incompatible number of blobs for layer old_fc: the file "
                 "has 1, the net has 0");
}
END_TEST

static void expect_model_error(const char *path, const char *format, ...)
{
    char expected[2048];
    struct snapshot_report report;
    struct net net;
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    net_init(&net);
    ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, &report), 0);
    assert_error_begins("%s", expected);
    ck_assert_int_eq(report.nignored + report.nmissing, 0);
}

START_TEST(what_is_no_model_is_named)
{
    expect_model_error(DATA "caffe.solverstate.h5",
                       DATA "caffe.solverstate.h5 is a solver state, not a model: give it to "
                            "--snapshot, or give the .caffemodel.h5 that belongs to it");
    expect_model_error(DATA "neither.h5", DATA "neither.h5 is not a model: it has no group 'data'");
    expect_model_error(DATA "show.py",
                       DATA "show.py: expected a binary model (.caffemodel), found a text");
    expect_model_error("/nowhere/m.h5", "/nowhere/m.h5: no such file");
    expect_model_error("/tmp", "/tmp is a folder; expected an HDF5 file");
}
END_TEST

START_TEST(truncated_model_is_refused_at_any_length)
{
    static unsigned char bytes[100000];
    struct net net;
    size_t n;
    const char *path = in_folder("cut.h5");

    net_init(&net);
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    n = read_bytes(path, bytes, sizeof bytes) -
        CHECKSUM_BYTES; /* without its checksum it is still a model */
    for (size_t length = n - 1; length > 0; length = length * 9 / 10) {
        write_bytes(path, bytes, length);
        ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
        ck_assert_ptr_nonnull(strstr(error_text(), path));
        if (length > 100)
            assert_error_begins("%s: truncated HDF5 file of %zu bytes", path, length);
    }
}
END_TEST

START_TEST(damaged_values_are_noticed)
{
    static unsigned char bytes[100000];
    struct net net;
    float mark = 1234.5678f;
    unsigned char *place;
    const char *path = in_folder("damaged.h5");
    size_t n;

    net_init(&net);
    net.conv_w[9] = mark;
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    n = read_bytes(path, bytes, sizeof bytes);
    place = memmem(bytes, n, &mark, sizeof mark);
    ck_assert_ptr_nonnull(place);
    *place ^= 1;
    write_bytes(path, bytes, n);
    ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
    assert_error_begins("%s: damaged: its SHA-256 is ", path);
    write_bytes(path, bytes, n - CHECKSUM_BYTES); /* HDF5's own checksum finds it too */
    ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
    assert_error_begins("layer 'conv1': %s: data set 'data/conv1/0' cannot be read (", path);
    ck_assert_ptr_nonnull(strstr(error_text(), "checksum"));
}
END_TEST

START_TEST(every_flipped_byte_is_found)
{
    static unsigned char bytes[100000];
    struct net net;
    const char *path = in_folder("flipped.h5");
    size_t n;

    net_init(&net);
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    n = read_bytes(path, bytes, sizeof bytes);
    seed_random();
    for (int i = 0; i < 300; i++) {
        size_t at = (size_t)rand() % n;
        unsigned char old = bytes[at];

        bytes[at] ^= (unsigned char)(1 + rand() % 255);
        write_bytes(path, bytes, n);
        if (snapshot_read_model(path, net.layers, net.nlayers, NULL) == 0)
            ck_assert_uint_ge(
                at, n - CHECKSUM_BYTES); /* no checksum any more, but nothing else is wrong */
        else
            ck_assert_ptr_nonnull(strstr(error_text(), "damaged"));
        bytes[at] = old;
    }
}
END_TEST

/* Two arrays as in the state fixtures. */
struct history {
    float a[18], b[2];
    struct snapshot_blob blobs[2];
};

static void history_init(struct history *history)
{
    memset(history, 0, sizeof *history);
    history->blobs[0] = (struct snapshot_blob){&conv_w, history->a, false};
    history->blobs[1] = (struct snapshot_blob){&conv_b, history->b, false};
}

START_TEST(state_of_caffe_is_read)
{
    struct snapshot_state state;
    struct history history;

    history_init(&history);
    ck_assert_msg(snapshot_read_state(DATA "caffe.solverstate.h5", &state, history.blobs, 2) == 0,
                  "%s", error_text());
    ck_assert_int_eq(state.iter, 500);
    ck_assert_int_eq(state.current_step, 2);
    ck_assert_str_eq(state.learned_net, "lenet_iter_500.caffemodel.h5");
    ck_assert(!state.has_data_cursor && !state.has_random_seed);
    assert_ramp(history.a, 18, 0);
    assert_ramp(history.b, 2, 50);
    snapshot_state_free(&state);
    ck_assert_ptr_null(state.learned_net);
}
END_TEST

START_TEST(state_of_h5py_with_variable_text_and_extras_is_read)
{
    struct snapshot_state state;
    struct history history;

    history_init(&history);
    ck_assert_msg(snapshot_read_state(DATA "h5py.solverstate.h5", &state, history.blobs, 2) == 0,
                  "%s", error_text());
    ck_assert_str_eq(state.learned_net, "models/gr\xc3\xbcn.caffemodel.h5");
    ck_assert(state.has_data_cursor && state.data_cursor == 448);
    ck_assert(state.has_random_seed && state.random_seed == -3);
    snapshot_state_free(&state);
}
END_TEST

START_TEST(state_comes_back_and_h5py_reads_it)
{
    struct snapshot_state state = {.iter = 1000000,
                                   .current_step = 3,
                                   .has_data_cursor = true,
                                   .learned_net = "gr\xc3\xbcn/m_iter_1000000.caffemodel.h5",
                                   .data_cursor = UINT64_MAX - 1,
                                   .has_random_seed = true,
                                   .random_seed = INT64_MIN};
    struct snapshot_state back;
    struct history history, again;
    char text[4096];

    history_init(&history);
    history_init(&again);
    for (int i = 0; i < 18; i++)
        history.a[i] = 1.0f / (float)(i + 3);
    history.b[1] = 2.5f;
    ck_assert_msg(snapshot_write_state(in_folder("s.h5"), &state, history.blobs, 2) == 0, "%s",
                  error_text());
    ck_assert_msg(snapshot_read_state(in_folder("s.h5"), &back, again.blobs, 2) == 0, "%s",
                  error_text());
    ck_assert_int_eq(back.iter, state.iter);
    ck_assert_int_eq(back.current_step, state.current_step);
    ck_assert_str_eq(back.learned_net, state.learned_net);
    ck_assert(back.has_data_cursor && back.data_cursor == state.data_cursor);
    ck_assert(back.has_random_seed && back.random_seed == state.random_seed);
    ck_assert_int_eq(memcmp(history.a, again.a, sizeof again.a), 0);
    ck_assert_int_eq(memcmp(history.b, again.b, sizeof again.b), 0);
    snapshot_state_free(&back);

    memset(history.a, 0, sizeof history.a);
    state.data_cursor = 64000;
    ck_assert_int_eq(snapshot_write_state(in_folder("s.h5"), &state, history.blobs, 2), 0);
    if (!show(in_folder("s.h5"), text, sizeof text))
        return;
    ck_assert_str_eq(text, "current_step int32 1: 3\n"
                           "data_cursor uint64 1: 64000\n"
                           "history/\n"
                           "history/0 float32 2x1x3x3: 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
                           "history/1 float32 2: 0 2.5\n"
                           "iter int32 1: 1e+06\n"
                           "learned_net text scalar: gr\xc3\xbcn/m_iter_1000000.caffemodel.h5\n"
                           "@random_seed -9223372036854775808\n"
                           "version\n");
}
END_TEST

static void expect_state_error(const char *path, int nhistory, const char *message)
{
    struct snapshot_blob blobs[4];
    struct snapshot_state state;
    struct history history;

    history_init(&history);
    for (int i = 0; i < 4; i++)
        blobs[i] = history.blobs[i % 2];
    ck_assert_int_ne(snapshot_read_state(path, &state, blobs, nhistory), 0);
    assert_error_begins("%s", message);
    ck_assert_ptr_null(state.learned_net);
}

START_TEST(what_is_no_state_is_named)
{
    expect_state_error(DATA "caffe.caffemodel.h5", 2,
                       DATA "caffe.caffemodel.h5 is a model, not a solver state: give it to "
                            "--weights, or give the .solverstate.h5 that belongs to it");
    expect_state_error(DATA "neither.h5", 2,
                       DATA "neither.h5 is not a solver state: it has no 'iter'");
    expect_state_error(DATA "show.py", 2, DATA "show.py: expected a solver state");
    expect_state_error("/nowhere/s.h5", 2, "/nowhere/s.h5: no such file");
    expect_state_error(DATA "three_iters.solverstate.h5", 2,
                       DATA
                       "three_iters.solverstate.h5: data set 'iter' has 3 elements; expected 1");
    expect_state_error(DATA "negative_iter.solverstate.h5", 2,
                       DATA "negative_iter.solverstate.h5: 'iter' is -5; expected 0 or more");
}
END_TEST

START_TEST(state_of_another_net_or_solver_is_refused)
{
    static const struct shape other = {1, {3}};
    float data[3];
    struct snapshot_state state;
    struct history history;

    expect_state_error(DATA "caffe.solverstate.h5", 4,
                       DATA "caffe.solverstate.h5: Incorrect length of history blobs. The file has "
                            "2, the solver needs 4: the state of another net or another type of "
                            "solver");
    expect_state_error(DATA "caffe.solverstate.h5", 1,
                       DATA "caffe.solverstate.h5: Incorrect length of history blobs. The file has "
                            "2, the solver needs 1");
    history_init(&history);
    history.blobs[1] = (struct snapshot_blob){&other, data, false};
    ck_assert_int_ne(snapshot_read_state(DATA "caffe.solverstate.h5", &state, history.blobs, 2), 0);
    assert_error(DATA "caffe.solverstate.h5: Cannot load blob from hdf5; shape mismatch. Source "
                      "shape is 2 (2) target shape is 3 (3) (history 1: the state of another net)");
    ck_assert(history.a[1] == 0);
}
END_TEST

START_TEST(truncated_state_is_refused)
{
    static unsigned char bytes[100000];
    const char *path = in_folder("cut_state.h5");
    size_t n = read_bytes(DATA "caffe.solverstate.h5", bytes, sizeof bytes);
    char expected[512];

    write_bytes(path, bytes, n / 2);
    snprintf(expected, sizeof expected, "%s: truncated HDF5 file of %zu bytes", path, n / 2);
    expect_state_error(path, 2, expected);
}
END_TEST

START_TEST(full_disk_keeps_the_old_snapshot_and_leaves_nothing_else)
{
    const char *path = in_folder("full.h5"), *temp = in_folder("full.h5.tmp");
    struct rlimit limit = {4096, 4096};
    struct snapshot_state state = {.learned_net = "m"};
    struct history history;
    struct net net;

    net_init(&net);
    history_init(&history);
    net.conv_w[0] = 5;
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    net.conv_w[0] = 6;
    ck_assert_int_ne(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    assert_error_begins("the model cannot be saved: cannot write ");
    ck_assert_ptr_nonnull(strstr(error_text(), "File too large"));
    ck_assert(!exists(temp));
    ck_assert_int_eq(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
    ck_assert(net.conv_w[0] == 5);
    ck_assert_int_ne(snapshot_write_state(in_folder("full_s.h5"), &state, history.blobs, 2), 0);
    assert_error_begins("the solver state cannot be saved: cannot write ");
    ck_assert(!exists(in_folder("full_s.h5")));
    ck_assert(!exists(in_folder("full_s.h5.tmp")));
}
END_TEST

START_TEST(kill_at_any_moment_leaves_a_whole_snapshot)
{
    const char *path = in_folder("killed.h5");
    struct net net;

    net_init(&net);
    ck_assert_int_eq(snapshot_write_model(path, NULL, net.layers, net.nlayers), 0);
    seed_random();
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();

        ck_assert_int_ge(child, 0);
        if (child == 0) {
            while (snapshot_write_model(path, NULL, net.layers, net.nlayers) == 0)
                continue;
            _exit(1);
        }
        usleep((useconds_t)(500 + rand() % 15000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        ck_assert_msg(snapshot_read_model(path, net.layers, net.nlayers, NULL) == 0, "%s",
                      error_text());
    }
}
END_TEST

START_TEST(probe_finds_out_whether_snapshots_can_be_written)
{
    char prefix[256];

    snprintf(prefix, sizeof prefix, "%s/probe/lenet", folder);
    ck_assert_int_ne(snapshot_probe(prefix), 0);
    assert_error(
        "Cannot write to snapshot prefix '%s'.  Make sure that the directory exists and is "
        "writable. (%s_iter_0.tempfile: No such file or directory)",
        prefix, prefix);
    ck_assert_int_eq(mkdir(in_folder("probe"), 0777), 0);
    ck_assert_int_eq(snapshot_probe(prefix), 0);
    ck_assert_int_eq(rmdir(in_folder("probe")), 0); /* the probe left nothing behind */
}
END_TEST

START_TEST(names_are_caffes)
{
    char *model = snapshot_model_path("out/lenet", 5000);
    char *state = snapshot_state_path("out/lenet", 5000);

    ck_assert_str_eq(model, "out/lenet_iter_5000.caffemodel.h5");
    ck_assert_str_eq(state, "out/lenet_iter_5000.solverstate.h5");
    free(model);
    free(state);
}
END_TEST

START_TEST(model_of_a_moved_state_is_found_beside_it)
{
    char state[256], *model = NULL;

    snprintf(state, sizeof state, "%s/moved.solverstate.h5", folder);
    write_bytes(in_folder("moved.caffemodel.h5"), "x", 1);
    ck_assert_int_eq(snapshot_find_model(state, "old/place/moved.caffemodel.h5", &model), 0);
    ck_assert_str_eq(model, in_folder("moved.caffemodel.h5"));
    free(model);
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(snapshot_find_model("elsewhere/s.h5", "moved.caffemodel.h5", &model), 0);
    ck_assert_str_eq(model, "moved.caffemodel.h5");
    free(model);
    ck_assert_int_eq(
        snapshot_find_model("moved.solverstate.h5", "gone/moved.caffemodel.h5", &model), 0);
    ck_assert_str_eq(model, "moved.caffemodel.h5");
    free(model);
    ck_assert_int_ne(snapshot_find_model(state, "gone/other.h5", &model), 0);
    ck_assert_ptr_null(model);
    assert_error("%s: its model 'gone/other.h5' is neither there (the current folder is %s) nor "
                 "beside the state as '%s/other.h5'",
                 state, folder, folder);
}
END_TEST

static TCase *model_tests(void)
{
    TCase *tcase = tcase_create("model");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, model_of_caffe_is_read_by_layer_name);
    tcase_add_test(tcase, escaped_slashes_are_understood);
    tcase_add_test(tcase, model_comes_back_bit_for_bit);
    tcase_add_test(tcase, blobs_of_any_size_come_back);
    tcase_add_test(tcase, h5py_reads_our_model_in_caffes_layout);
    tcase_add_test(tcase, same_parameters_give_the_same_bytes);
    tcase_add_test(tcase, of_two_layers_with_one_name_the_one_with_parameters_is_kept);
    tcase_add_test(tcase, names_that_have_no_place_are_errors);
    tcase_add_test(tcase,
                   model_of_another_shape_is_refused_in_caffes_words_before_anything_changes);
    tcase_add_test(tcase, model_with_another_number_of_blobs_is_refused);
    tcase_add_test(tcase, what_is_no_model_is_named);
    tcase_add_test(tcase, truncated_model_is_refused_at_any_length);
    tcase_add_test(tcase, damaged_values_are_noticed);
    tcase_add_test(tcase, every_flipped_byte_is_found);
    return tcase;
}

static TCase *state_tests(void)
{
    TCase *tcase = tcase_create("state");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, state_of_caffe_is_read);
    tcase_add_test(tcase, state_of_h5py_with_variable_text_and_extras_is_read);
    tcase_add_test(tcase, state_comes_back_and_h5py_reads_it);
    tcase_add_test(tcase, what_is_no_state_is_named);
    tcase_add_test(tcase, state_of_another_net_or_solver_is_refused);
    tcase_add_test(tcase, truncated_state_is_refused);
    tcase_add_test(tcase, full_disk_keeps_the_old_snapshot_and_leaves_nothing_else);
    tcase_add_test(tcase, kill_at_any_moment_leaves_a_whole_snapshot);
    tcase_add_test(tcase, probe_finds_out_whether_snapshots_can_be_written);
    tcase_add_test(tcase, names_are_caffes);
    tcase_add_test(tcase, model_of_a_moved_state_is_found_beside_it);
    return tcase;
}

SUITE_IN(folder, "snapshot")
{
    suite_add_tcase(suite, model_tests());
    suite_add_tcase(suite, state_tests());
}
