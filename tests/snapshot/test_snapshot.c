/* Models in snapshots: against h5py in both directions, and everything that can be wrong with a
 * file. */
#include "config.h" /* memmem */

#include "snapshot/snapshot_internal.h"
#include "tests/snapshot/snapshot_common.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
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

/* Writes the net's model and reads the file's bytes, to be damaged; returns their number. */
static size_t bytes_of_model(const struct net *net, const char *path, unsigned char *bytes,
                             size_t room)
{
    ck_assert_int_eq(snapshot_write_model(path, NULL, net->layers, net->nlayers), 0);
    return read_bytes(path, bytes, room);
}

START_TEST(truncated_model_is_refused_at_any_length)
{
    static unsigned char bytes[100000];
    struct net net;
    size_t n;
    const char *path = in_folder("cut.h5");

    net_init(&net);
    n = bytes_of_model(&net, path, bytes, sizeof bytes) -
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
    n = bytes_of_model(&net, path, bytes, sizeof bytes);
    place = memmem(bytes, n, &mark, sizeof mark);
    ck_assert_ptr_nonnull(place);
    *place ^= 1;
    write_bytes(path, bytes, n);
    ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
    assert_error_begins("%s: damaged: its CRC-32C is not what was written", path);
}
END_TEST

/* A power failure may leave a file of the right length whose last blocks are zeros. */
START_TEST(blocks_that_the_disk_has_not_are_noticed)
{
    static unsigned char bytes[100000];
    struct net net;
    const char *path = in_folder("torn.h5");
    size_t n;

    net_init(&net);
    n = bytes_of_model(&net, path, bytes, sizeof bytes);
    for (size_t lost = 1; lost < n; lost += 97) {
        memset(bytes + n - lost, 0, lost);
        write_bytes(path, bytes, n);
        ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
    }
}
END_TEST

START_TEST(every_flipped_byte_is_found)
{
    static unsigned char bytes[100000];
    struct net net;
    const char *path = in_folder("flipped.h5");
    size_t n;

    net_init(&net);
    n = bytes_of_model(&net, path, bytes, sizeof bytes);
    seed_random();
    for (int i = 0; i < 300; i++) {
        size_t at = (size_t)rand() % n;
        unsigned char old = bytes[at];

        bytes[at] ^= (unsigned char)(1 + rand() % 255);
        write_bytes(path, bytes, n);
        ck_assert_int_ne(snapshot_read_model(path, net.layers, net.nlayers, NULL), 0);
        ck_assert_ptr_nonnull(strstr(error_text(), "damaged"));
        bytes[at] = old;
    }
}
END_TEST

SUITE_IN(folder, "snapshot")
{
    TCase *tcase = suite_case(suite, "model");

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
    tcase_add_test(tcase, blocks_that_the_disk_has_not_are_noticed);
    tcase_add_test(tcase, every_flipped_byte_is_found);
}
