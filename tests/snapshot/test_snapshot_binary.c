/* Snapshots in binary form: weights and states that protoc wrote go where they belong, and protoc
 * reads what we write. */
#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/read.h"
#include "spec/proto.h"
#include "tests/spec/models_common.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A net that fits the small models, with room for their weights. */
struct small {
    float conv_w[18], conv_b[2], ip_w[8], ip_b[1], new_w[3];
    struct snapshot_layer layers[4];
};

static const struct shape conv_w = {4, {2, 1, 3, 3}}, conv_b = {1, {2}}, ip_w = {2, {1, 8}},
                          ip_b = {1, {1}}, new_w = {1, {3}};

static void make_small(struct small *net)
{
    memset(net, 0, sizeof *net);
    net->layers[0] = (struct snapshot_layer){"data", 0, {{0}}};
    net->layers[1] = (struct snapshot_layer){
        "conv", 2, {{&conv_w, net->conv_w, false}, {&conv_b, net->conv_b, false}}};
    net->layers[2] =
        (struct snapshot_layer){"ip", 2, {{&ip_w, net->ip_w, false}, {&ip_b, net->ip_b, false}}};
    net->layers[3] = (struct snapshot_layer){"new", 1, {{&new_w, net->new_w, false}}};
}

START_TEST(weights_go_to_layers_of_their_names)
{
    static const char *const files[] = {"today.caffemodel", "v1.caffemodel", "v0.caffemodel"};
    struct snapshot_report report;
    struct small net;

    make_small(&net);
    ck_assert_msg(snapshot_read_model(data(files[_i]), net.layers, 4, &report) == 0, "%s",
                  error_text());
    for (int i = 0; i < 9; i++) {
        ck_assert_float_eq(net.conv_w[i], (float)(i + 1));
        ck_assert_float_eq(net.conv_w[9 + i], (float)-(i + 1));
    }
    ck_assert_float_eq(net.conv_b[1], -0.25f);
    ck_assert_float_eq(net.ip_w[7], 1);
    ck_assert_float_eq(net.ip_b[0], 3);
    ck_assert_float_eq(net.new_w[0], 0);
    ck_assert_int_eq(report.nmissing, 1);
    ck_assert_str_eq(report.missing[0], "new");
    ck_assert_int_eq(report.nignored, _i == 0);
    if (_i == 0)
        ck_assert_str_eq(report.ignored[0], "gone");
    snapshot_report_free(&report);
}
END_TEST

START_TEST(weights_of_another_shape_are_refused_with_both_shapes)
{
    static const struct shape wrong = {2, {8, 1}}, longer = {4, {1, 1, 1, 8}};
    struct small net;

    make_small(&net);
    net.layers[2].blobs[0].shape = &wrong;
    ck_assert_int_ne(snapshot_read_model(data("today.caffemodel"), net.layers, 4, NULL), 0);
    assert_error(
        "%s: Cannot copy param 0 weights from layer 'ip'; shape mismatch.  Source param "
        "shape is 1 8 (8); target param shape is 8 1 (8). To learn this layer's parameters "
        "from scratch rather than copying from a saved net, rename the layer.",
        data("today.caffemodel"));
    ck_assert_float_eq(net.conv_w[0], 0); /* nothing was touched */
    /* only shapes given the old way are filled up with ones */
    net.layers[2].blobs[0].shape = &longer;
    ck_assert_int_ne(snapshot_read_model(data("today.caffemodel"), net.layers, 4, NULL), 0);
    ck_assert_int_eq(snapshot_read_model(data("v1.caffemodel"), net.layers, 4, NULL), 0);
}
END_TEST

START_TEST(number_of_blobs_must_match)
{
    struct small net;

    make_small(&net);
    net.layers[2].nblobs = 1;
    ck_assert_int_ne(snapshot_read_model(data("v1.caffemodel"), net.layers, 4, NULL), 0);
    assert_error("%s: Incompatible number of blobs for layer ip: the file has 2, the net has 1",
                 data("v1.caffemodel"));
}
END_TEST

START_TEST(blob_with_fewer_values_than_its_shape_is_refused)
{
    /* a layer "ip" with a blob of shape 2 and one value */
    const char bytes[] =
        "\xa2\x06\x11\x0a\x02ip\x3a\x0b\x2a\x04\x01\x02\x03\x04\x3a\x03\x0a\x01\x02";
    static const struct shape two = {1, {2}};
    float values[2];
    const struct snapshot_layer layer = {"ip", 1, {{&two, values, false}}};

    ck_assert_int_ne(
        snapshot_read_model(file_put("short", bytes, sizeof bytes - 1), &layer, 1, NULL), 0);
    assert_error("%s: param 0 of layer 'ip' holds 1 values; its shape has 2", in_folder("short"));
}
END_TEST

START_TEST(of_two_layers_with_one_name_the_one_with_weights_counts)
{
    struct small net;
    struct snapshot_layer layers[5];

    make_small(&net);
    memcpy(layers + 1, net.layers, sizeof net.layers);
    layers[0] = (struct snapshot_layer){"conv", 0, {{0}}};
    ck_assert_msg(snapshot_read_model(data("today.caffemodel"), layers, 5, NULL) == 0, "%s",
                  error_text());
    ck_assert_float_eq(net.conv_w[0], 1);
}
END_TEST

/* The output of a command, without what does not fit. */
static void capture(const char *command, char *out, size_t size)
{
    FILE *pipe = popen(command, "r");
    size_t n;

    ck_assert_ptr_nonnull(pipe);
    n = fread(out, 1, size - 1, pipe);
    out[n] = '\0';
    ck_assert_msg(pclose(pipe) == 0, "%s failed", command);
}

static bool have_protoc(void)
{
    if (system("protoc --version >/dev/null 2>&1") == 0)
        return true;
    puts("protoc is missing: what we write is not read by it");
    return false;
}

/* What protoc reads, up to the seal. */
static const char *decode(const char *path, const char *message)
{
    static char text[8192];
    char command[2048], *seal;

    snprintf(command, sizeof command, "protoc -I'%s' --decode=caffe.%s caffe.proto <'%s'",
             TEST_PROTO, message, path);
    capture(command, text, sizeof text);
    seal = strstr(text, "\n1002: ");
    ck_assert_ptr_nonnull(seal);
    seal[7] = '\0';
    return text;
}

static const char written_net[] =
    "name: 'n' layer { name: 'd' type: 'Input' top: 'x' input_param { shape { dim: [1, 8] } } }"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { "
    "num_output: 1 } loss_weight: 2 } layer { name: 'r' type: 'ReLU' bottom: 'ip' top: 'r' }";

START_TEST(written_model_is_read_by_protoc_and_by_us)
{
    float w[8] = {1, 2, 3, 4, 5, 6, 7, NAN}, b[1] = {-INFINITY}, w2[8], b2[1];
    struct snapshot_layer layers[] = {{"d", 0, {{0}}},
                                      {"ip", 2, {{&ip_w, w, false}, {&ip_b, b, true}}},
                                      {"ip_ip_0_split", 0, {{0}}},
                                      {"r", 0, {{0}}}};
    struct text_doc *doc, *back;
    struct net_def *def;

    ck_assert_int_eq(text_read_string("F", written_net, strlen(written_net),
                                      &caffe__net_parameter__descriptor, &doc),
                     0);
    ck_assert_int_eq(net_def_create(doc, spec_net(doc), CAFFE__PHASE__TRAIN, NULL, &def), 0);
    ck_assert_int_eq(def->nlayers, 4);
    ck_assert_msg(snapshot_write_model_binary(in_folder("w.caffemodel"), NULL, def, layers, 4) == 0,
                  "%s", error_text());
    layers[1].blobs[0].data = w2;
    layers[1].blobs[1].data = b2;
    ck_assert_int_eq(snapshot_read_model(in_folder("w.caffemodel"), layers, 4, NULL), 0);
    ck_assert_mem_eq(w, w2, sizeof w);
    ck_assert_mem_eq(b, b2, sizeof b);
    ck_assert_int_eq(spec_read_net_of(in_folder("w.caffemodel"), NULL, false, &back), 0);
    ck_assert_uint_eq(spec_net(back)->n_layer, 4);
    if (have_protoc())
        ck_assert_str_eq(
            decode(in_folder("w.caffemodel"), "NetParameter"),
            "name: \"n\"\nlayer {\n  name: \"d\"\n  type: \"Input\"\n  top: \"x\"\n  phase: "
            "TRAIN\n  input_param {\n    shape {\n      dim: 1\n      dim: 8\n    }\n  }\n}\n"
            "layer {\n  name: \"ip\"\n  type: \"InnerProduct\"\n  bottom: \"x\"\n  top: \"ip\"\n  "
            "loss_weight: 0\n  blobs {\n    data: 1\n    data: 2\n    data: 3\n    data: 4\n    "
            "data: 5\n    data: 6\n    data: 7\n    data: nan\n    shape {\n      dim: 1\n      "
            "dim: 8\n    }\n  }\n  blobs {\n    data: -inf\n    shape {\n      dim: 1\n    }\n  "
            "}\n  phase: TRAIN\n  inner_product_param {\n    num_output: 1\n  }\n}\n"
            "layer {\n  name: \"ip_ip_0_split\"\n  type: \"Split\"\n  bottom: \"ip\"\n  top: "
            "\"ip_ip_0_split_0\"\n  top: \"ip_ip_0_split_1\"\n  loss_weight: 2\n  loss_weight: "
            "0\n  phase: TRAIN\n}\n"
            "layer {\n  name: \"r\"\n  type: \"ReLU\"\n  bottom: \"ip_ip_0_split_1\"\n  top: "
            "\"r\"\n  phase: TRAIN\n}\n1002: ");
    text_free(back);
    net_def_destroy(def);
    text_free(doc);
}
END_TEST

/* A loss's weight, and that statistics do not learn: Caffe's layers add it to their definitions. */
START_TEST(written_definitions_say_what_caffe_adds)
{
    static const char net[] =
        "layer { name: 'd' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: [1, 8] } } }"
        "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'b' }"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'b' bottom: 'y' top: 'l' }";
    static const char param[] = "  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n";
    struct snapshot_layer layers[] = {{"d", 0, {{0}}}, {"b", 0, {{0}}}, {"l", 0, {{0}}}};
    struct text_doc *doc;
    struct net_def *def;
    char expected[512];

    ck_assert_int_eq(
        text_read_string("F", net, strlen(net), &caffe__net_parameter__descriptor, &doc), 0);
    ck_assert_int_eq(net_def_create(doc, spec_net(doc), CAFFE__PHASE__TRAIN, NULL, &def), 0);
    ck_assert_int_eq(snapshot_write_model_binary(in_folder("w.caffemodel"), NULL, def, layers, 3),
                     0);
    snprintf(
        expected, sizeof expected,
        "type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"b\"\n%s%s%s  phase: TRAIN\n}\nlayer {\n  "
        "name: \"l\"\n  type: \"EuclideanLoss\"\n  bottom: \"b\"\n  bottom: \"y\"\n  top: "
        "\"l\"\n  loss_weight: 1\n  phase: TRAIN\n}\n1002: ",
        param, param, param);
    if (have_protoc())
        ck_assert_ptr_nonnull(strstr(decode(in_folder("w.caffemodel"), "NetParameter"), expected));
    net_def_destroy(def);
    text_free(doc);
}
END_TEST
static const struct snapshot_owner by_run = {.run = (char *)"run"};

START_TEST(damage_to_what_we_wrote_is_found)
{
    unsigned char bytes[4096];
    struct small net;
    size_t length;
    int found = 0;

    make_small(&net);
    ck_assert_int_eq(
        snapshot_write_model_binary(in_folder("d.caffemodel"), &by_run, NULL, net.layers, 4), 0);
    length = read_bytes(in_folder("d.caffemodel"), bytes, sizeof bytes);
    for (size_t at = 0; at < length; at++) {
        bytes[at] ^= 4;
        file_put("e.caffemodel", bytes, length);
        bytes[at] ^= 4;
        ck_assert_msg(snapshot_read_model(in_folder("e.caffemodel"), net.layers, 4, NULL) != 0,
                      "byte %zu of %zu", at, length);
        found += strstr(error_text(), "damaged") != NULL;
    }
    ck_assert_int_gt(found, 100);
}
END_TEST

/* Whole but for its seal, a file of ours is not taken for one of Caffe's. */
START_TEST(file_of_ours_without_its_seal_is_refused)
{
    enum { SEAL = 7 }; /* bytes, with its head */
    struct snapshot_state state = {
        .iter = 3, .learned_net = (char *)"x", .owner = {.run = (char *)"run"}};
    unsigned char bytes[4096];
    struct small net;
    size_t length;

    make_small(&net);
    ck_assert_int_eq(snapshot_write_state_binary(in_folder("c.solverstate"), &state, NULL, 0), 0);
    length = read_bytes(in_folder("c.solverstate"), bytes, sizeof bytes);
    file_put("c.solverstate", bytes, length - SEAL);
    ck_assert_int_ne(snapshot_read_state(in_folder("c.solverstate"), &state, NULL, 0), 0);
    assert_error(
        "%s: damaged: expected its checksum at the end, as poseidon writes it, found none: "
        "the file was cut off or changed; use an older snapshot",
        in_folder("c.solverstate"));
    ck_assert_int_eq(
        snapshot_write_model_binary(in_folder("c.caffemodel"), &by_run, NULL, net.layers, 4), 0);
    length = read_bytes(in_folder("c.caffemodel"), bytes, sizeof bytes);
    file_put("c.caffemodel", bytes, length - SEAL);
    ck_assert_int_ne(snapshot_read_model(in_folder("c.caffemodel"), net.layers, 4, NULL), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "expected its checksum at the end"));
}
END_TEST

START_TEST(scalars_and_empty_blobs_are_written_as_they_are)
{
    static const struct shape scalar = {0, {0}}, empty = {2, {0, 3}};
    float one[1] = {4}, none[1], back[1] = {0};
    struct snapshot_layer layer = {"l", 2, {{&scalar, one, false}, {&empty, none, false}}};

    ck_assert_int_eq(snapshot_write_model_binary(in_folder("s.caffemodel"), NULL, NULL, &layer, 1),
                     0);
    layer.blobs[0].data = back;
    ck_assert_msg(snapshot_read_model(in_folder("s.caffemodel"), &layer, 1, NULL) == 0, "%s",
                  error_text());
    ck_assert_float_eq(back[0], 4);
}
END_TEST

START_TEST(two_layers_of_one_name_with_weights_are_not_written)
{
    struct small net;

    make_small(&net);
    net.layers[3].name = "ip";
    ck_assert_int_ne(
        snapshot_write_model_binary(in_folder("t.caffemodel"), NULL, NULL, net.layers, 4), 0);
    assert_error("the model cannot be saved: %s: two layers named 'ip' have parameters; a snapshot "
                 "holds one layer of a name, rename the other",
                 in_folder("t.caffemodel"));
    ck_assert_int_ne(access(in_folder("t.caffemodel"), F_OK), 0);
}
END_TEST

START_TEST(file_that_cannot_be_written_is_named)
{
    struct snapshot_state state = {.learned_net = (char *)"x"};
    struct small net;

    make_small(&net);
    ck_assert_int_ne(snapshot_write_model_binary("/nowhere/m", NULL, NULL, net.layers, 4), 0);
    assert_error("the model cannot be saved: cannot write '/nowhere/m': No such file or directory");
    ck_assert_int_ne(snapshot_write_state_binary("/nowhere/s", &state, NULL, 0), 0);
    assert_error("the solver state cannot be saved: cannot write '/nowhere/s': No such file or "
                 "directory");
}
END_TEST

static const struct shape history_a = {2, {2, 3}}, history_b = {1, {2}};

START_TEST(state_of_caffe_is_read)
{
    float a[6], b[2];
    const struct snapshot_blob history[] = {{&history_a, a, false}, {&history_b, b, false}};
    struct snapshot_state state;

    ck_assert_msg(snapshot_read_state(data("state.solverstate"), &state, history, 2) == 0, "%s",
                  error_text());
    ck_assert_int_eq(state.iter, 7);
    ck_assert_int_eq(state.current_step, 2);
    ck_assert_str_eq(state.learned_net, "some/folder/today_iter_7.caffemodel");
    ck_assert(!state.has_data_cursor);
    ck_assert_float_eq(a[5], 6);
    ck_assert_float_eq(b[1], -2);
    snapshot_state_free(&state);
}
END_TEST

START_TEST(written_state_is_read_by_protoc_and_by_us)
{
    float a[6] = {1, 2, 3, 4, 5, 6}, b[2] = {7, 8}, a2[6], b2[2];
    struct snapshot_blob history[] = {{&history_a, a, false}, {&history_b, b, false}};
    struct snapshot_state state = {.iter = 300,
                                   .current_step = 1,
                                   .learned_net = (char *)"m.caffemodel",
                                   .has_data_cursor = true,
                                   .data_cursor = UINT64_MAX - 1},
                          back;

    ck_assert_int_eq(snapshot_write_state_binary(in_folder("w.solverstate"), &state, history, 2),
                     0);
    history[0].data = a2;
    history[1].data = b2;
    ck_assert_msg(snapshot_read_state(in_folder("w.solverstate"), &back, history, 2) == 0, "%s",
                  error_text());
    ck_assert_int_eq(back.iter, 300);
    ck_assert_int_eq(back.current_step, 1);
    ck_assert_str_eq(back.learned_net, "m.caffemodel");
    ck_assert(back.has_data_cursor && back.data_cursor == UINT64_MAX - 1);
    ck_assert_mem_eq(a, a2, sizeof a);
    ck_assert_mem_eq(b, b2, sizeof b);
    snapshot_state_free(&back);
    if (have_protoc())
        ck_assert_str_eq(
            decode(in_folder("w.solverstate"), "SolverState"),
            "iter: 300\nlearned_net: \"m.caffemodel\"\nhistory {\n  data: 1\n  data: "
            "2\n  data: 3\n  data: 4\n  data: 5\n  data: 6\n  shape {\n    dim: 2\n    "
            "dim: 3\n  }\n}\nhistory {\n  data: 7\n  data: 8\n  shape {\n    dim: 2\n  "
            "}\n}\ncurrent_step: 1\n1000: 18446744073709551614\n1002: ");
}
END_TEST

START_TEST(state_of_another_net_is_refused)
{
    float a[6], b[2];
    const struct snapshot_blob history[] = {{&history_a, a, false}, {&history_a, b, false}};
    struct snapshot_state state;
    const char *path = data("state.solverstate");

    ck_assert_int_ne(snapshot_read_state(path, &state, history, 1), 0);
    assert_error("%s: Incorrect length of history blobs. The file has 2, the solver needs 1: the "
                 "state of another net or another type of solver, or "
                 "one with average_decay where the other has none",
                 path);
    ck_assert_int_ne(snapshot_read_state(path, &state, history, 2), 0);
    assert_error(
        "%s: shape mismatch. Source shape is 2 (2) target shape is 2 3 (6) (history 1: the "
        "state of another net)",
        path);
}
END_TEST

START_TEST(what_is_no_state_is_told_apart)
{
    struct snapshot_state state;

    ck_assert_int_ne(snapshot_read_state(data("today.caffemodel"), &state, NULL, 0), 0);
    assert_error(
        "%s is a model, not a solver state: give it to --weights, or give the .solverstate "
        "that belongs to it",
        data("today.caffemodel"));
    ck_assert_int_ne(snapshot_read_state(data("mean.binaryproto"), &state, NULL, 0), 0);
    assert_error("%s: expected a solver state (.solverstate), found something else",
                 data("mean.binaryproto"));
    ck_assert_int_ne(snapshot_peek_state(file_put("empty", "", 0), &state), 0);
    assert_error("%s: expected a solver state (.solverstate), found an empty file",
                 in_folder("empty"));
    ck_assert_int_ne(
        snapshot_peek_state(file_put("neg", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),
                            &state),
        0);
    assert_error("%s: iter is -1 and current_step 0; expected 0 or more", in_folder("neg"));
}
END_TEST

SUITE_IN(folder, "snapshot: binary")
{
    TCase *tcase = suite_case(suite, "binary");

    tcase_add_loop_test(tcase, weights_go_to_layers_of_their_names, 0, 3);
    tcase_add_test(tcase, weights_of_another_shape_are_refused_with_both_shapes);
    tcase_add_test(tcase, number_of_blobs_must_match);
    tcase_add_test(tcase, blob_with_fewer_values_than_its_shape_is_refused);
    tcase_add_test(tcase, of_two_layers_with_one_name_the_one_with_weights_counts);
    tcase_add_test(tcase, written_model_is_read_by_protoc_and_by_us);
    tcase_add_test(tcase, written_definitions_say_what_caffe_adds);
    tcase_add_test(tcase, damage_to_what_we_wrote_is_found);
    tcase_add_test(tcase, file_of_ours_without_its_seal_is_refused);
    tcase_add_test(tcase, scalars_and_empty_blobs_are_written_as_they_are);
    tcase_add_test(tcase, two_layers_of_one_name_with_weights_are_not_written);
    tcase_add_test(tcase, file_that_cannot_be_written_is_named);
    tcase_add_test(tcase, state_of_caffe_is_read);
    tcase_add_test(tcase, written_state_is_read_by_protoc_and_by_us);
    tcase_add_test(tcase, state_of_another_net_is_refused);
    tcase_add_test(tcase, what_is_no_state_is_told_apart);
}
