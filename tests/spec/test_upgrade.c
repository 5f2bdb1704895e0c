/* Old nets and solvers in today's form. Expected texts are written by Caffe's rules by hand. */
#include "spec/print.h"
#include "spec/read.h"
#include "spec/upgrade.h"
#include "spec/upgrade_internal.h"
#include "tests/suite.h"
#include "util/error.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define V1_NOTICE    "F: upgraded from the old form of Caffe's nets (layers)\n"
#define V0_NOTICE    "F: upgraded from the first form of Caffe's nets (layers with a layer inside)\n"
#define INPUT_NOTICE "F: net-level input fields became a layer of type Input\n"

static struct text_doc *read_text(const char *text, const ProtobufCMessageDescriptor *type)
{
    struct text_doc *doc;

    ck_assert_msg(text_read_string("F", text, strlen(text), type, &doc) == 0, "%s: %s", text,
                  error_text());
    return doc;
}

/* Compares two messages as texts. */
static void assert_same(const ProtobufCMessage *found, const char *expected,
                        const ProtobufCMessageDescriptor *type)
{
    struct text_doc *doc = read_text(expected, type);
    struct strbuf a = {0}, b = {0};

    print_message(&a, found);
    print_message(&b, text_root(doc));
    ck_assert_str_eq(strbuf_text(&a), strbuf_text(&b));
    strbuf_free(&a);
    strbuf_free(&b);
    text_free(doc);
}

static const struct {
    const char *old, *today, *notices;
} nets[] = {
    /* nothing old, nothing changed */
    {"layer { name: 'a' type: 'ReLU' param { lr_mult: 2 } }",
     "layer { name: 'a' type: 'ReLU' param { lr_mult: 2 } }", ""},
    /* the oldest form */
    {"layers { layer { name: 'd' type: 'data' source: 's' batchsize: 3 cropsize: 4 scale: 0.5 "
     "meanfile: 'm' mirror: true rand_skip: 7 } top: 'x' top: 'y' }",
     "layer { name: 'd' type: 'Data' top: 'x' top: 'y' transform_param { scale: 0.5 mirror: true "
     "crop_size: 4 mean_file: 'm' } data_param { source: 's' batch_size: 3 rand_skip: 7 } }",
     V0_NOTICE},
    {"layers { layer { name: 'c' type: 'conv' num_output: 96 kernelsize: 11 stride: 4 pad: 2 "
     "group: 2 biasterm: false weight_filler { type: 'gaussian' std: 0.01 } bias_filler { value: 1 "
     "} blobs_lr: 1 blobs_lr: 2 weight_decay: 1 weight_decay: 0 } bottom: 'x' top: 'c' }",
     "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' param { lr_mult: 1 decay_mult: 1 "
     "} param { lr_mult: 2 decay_mult: 0 } convolution_param { num_output: 96 kernel_size: 11 "
     "stride: 4 pad: 2 group: 2 bias_term: false weight_filler { type: 'gaussian' std: 0.01 } "
     "bias_filler { value: 1 } } }",
     V0_NOTICE},
    {"layers { layer { name: 'p' type: 'pool' pool: AVE kernelsize: 3 stride: 2 pad: 1 } bottom: "
     "'x' top: 'p' } layers { layer { name: 'i' type: 'innerproduct' num_output: 5 biasterm: true "
     "} bottom: 'p' top: 'i' }",
     "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE "
     "kernel_size: 3 stride: 2 pad: 1 } } layer { name: 'i' type: 'InnerProduct' bottom: 'p' top: "
     "'i' inner_product_param { num_output: 5 bias_term: true } }",
     V0_NOTICE},
    {"layers { layer { name: 'n' type: 'lrn' local_size: 3 alpha: 2 beta: 0.5 k: 2 } } layers { "
     "layer { name: 'o' type: 'dropout' dropout_ratio: 0.4 } } layers { layer { name: 'c' type: "
     "'concat' concat_dim: 2 } }",
     "layer { name: 'n' type: 'LRN' lrn_param { local_size: 3 alpha: 2 beta: 0.5 k: 2 } } layer { "
     "name: 'o' type: 'Dropout' dropout_param { dropout_ratio: 0.4 } } layer { name: 'c' type: "
     "'Concat' concat_param { concat_dim: 2 } }",
     V0_NOTICE},
    {"layers { layer { name: 'i' type: 'images' source: 's' batchsize: 2 shuffle_images: true "
     "new_height: 5 new_width: 6 } } layers { layer { name: 'w' type: 'window_data' source: 't' "
     "det_fg_threshold: 0.6 det_bg_threshold: 0.1 det_fg_fraction: 0.2 det_context_pad: 9 "
     "det_crop_mode: 'square' } } layers { layer { name: 'h' type: 'hdf5_data' source: 'u' "
     "batchsize: 4 } } layers { layer { name: 'g' type: 'infogain_loss' source: 'v' } } layers { "
     "layer { name: 'o' type: 'hdf5_output' hdf5_output_param { file_name: 'w' } } }",
     "layer { name: 'i' type: 'ImageData' image_data_param { source: 's' batch_size: 2 shuffle: "
     "true new_height: 5 new_width: 6 } } layer { name: 'w' type: 'WindowData' window_data_param { "
     "source: 't' fg_threshold: 0.6 bg_threshold: 0.1 fg_fraction: 0.2 context_pad: 9 crop_mode: "
     "'square' } } layer { name: 'h' type: 'HDF5Data' hdf5_data_param { source: 'u' batch_size: 4 "
     "} } layer { name: 'g' type: 'InfogainLoss' infogain_loss_param { source: 'v' } } layer { "
     "name: 'o' type: 'HDF5Output' hdf5_output_param { file_name: 'w' } }",
     V0_NOTICE},
    /* what its type does not have is dropped, with a word */
    {"\nlayers { layer { name: 'r' type: 'relu' kernelsize: 3 } bottom: 'x' top: 'x' }",
     "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }",
     "F:2: layer 'r': Unknown parameter kernelsize for layer type relu; ignored\n" V0_NOTICE},
    /* padding layers go into those behind them */
    {"layers { layer { name: 'd' type: 'data' } top: 'x' } layers { layer { name: 'pad' type: "
     "'padding' pad: 2 } bottom: 'x' top: 'padded' } layers { layer { name: 'c' type: 'conv' "
     "kernelsize: 5 } bottom: 'padded' top: 'c' } layers { layer { name: 'p' type: 'pool' } "
     "bottom: 'padded' top: 'p' }",
     "layer { name: 'd' type: 'Data' top: 'x' } layer { name: 'c' type: 'Convolution' bottom: 'x' "
     "top: 'c' convolution_param { kernel_size: 5 pad: 2 } } layer { name: 'p' type: 'Pooling' "
     "bottom: 'x' top: 'p' pooling_param { pad: 2 } }",
     V0_NOTICE},
    /* the form of 2014 */
    {"layers { name: 'c' type: CONVOLUTION bottom: 'x' top: 'c' blobs_lr: 1 blobs_lr: 2 "
     "weight_decay: 0.5 param: 'w' param: 'b' param: 't' blob_share_mode: PERMISSIVE include { "
     "phase: TEST } exclude { stage: 'a' } loss_weight: 3 convolution_param { num_output: 4 } }",
     "layer { name: 'c' type: 'Convolution' bottom: 'x' top: 'c' loss_weight: 3 param { name: 'w' "
     "share_mode: PERMISSIVE lr_mult: 1 decay_mult: 0.5 } param { name: 'b' lr_mult: 2 } param { "
     "name: 't' } include { phase: TEST } exclude { stage: 'a' } convolution_param { num_output: 4 "
     "} }",
     V1_NOTICE},
    {"layers { type: DATA data_param { source: 's' scale: 2 mean_file: 'm' crop_size: 3 mirror: "
     "true batch_size: 4 backend: LMDB } } layers { type: IMAGE_DATA image_data_param { mirror: "
     "false } } layers { type: WINDOW_DATA window_data_param { crop_size: 7 } transform_param { "
     "mirror: true } }",
     "layer { type: 'Data' data_param { source: 's' batch_size: 4 backend: LMDB } transform_param "
     "{ scale: 2 mean_file: 'm' crop_size: 3 mirror: true } } layer { type: 'ImageData' "
     "transform_param { mirror: false } image_data_param { } } layer { type: 'WindowData' "
     "transform_param { mirror: true crop_size: 7 } window_data_param { } }",
     V1_NOTICE},
    /* a layer without a type is kept, and refused when it is built */
    {"layers { name: 'x' }", "layer { name: 'x' }", V1_NOTICE},
    /* net-level inputs */
    {"input: 'data' input_dim: [1, 3, 224, 225] layer { name: 'a' type: 'ReLU' bottom: 'data' top: "
     "'a' }",
     "layer { name: 'input' type: 'Input' top: 'data' input_param { shape { dim: [1, 3, 224, 225] "
     "} } } layer { name: 'a' type: 'ReLU' bottom: 'data' top: 'a' }",
     INPUT_NOTICE},
    {"input: 'a' input: 'b' input_shape { dim: [1, 2] } input_shape { dim: 3 }",
     "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [1, 2] } "
     "shape { dim: 3 } } }",
     INPUT_NOTICE},
    {"input: 'a' input: 'b' input_dim: [1, 2, 3, 4, 5, 6, 7, 8] layers { type: RELU bottom: 'a' }",
     "layer { name: 'input' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: [1, 2, 3, "
     "4] "
     "} shape { dim: [5, 6, 7, 8] } } } layer { type: 'ReLU' bottom: 'a' }",
     V1_NOTICE INPUT_NOTICE},
    {"input: 'a' layer { name: 'x' }\ninput: 'b'", "layer { name: 'x' }",
     "F:1: input \"a\" is left out: no input_shape or input_dim gives its size\n"
     "F:2: input \"b\" is left out: no input_shape or input_dim gives its size\n"},
    /* BatchNorm's statistics are not learned */
    {"layer { type: 'BatchNorm' param { lr_mult: 1 decay_mult: 2 } param { } param { name: 's' } }",
     "layer { type: 'BatchNorm' param { lr_mult: 0 decay_mult: 0 } param { lr_mult: 0 decay_mult: "
     "0 } param { name: 's' lr_mult: 0 decay_mult: 0 } }",
     ""},
    {"layer { type: 'BatchNorm' param { lr_mult: 1 } param { } }",
     "layer { type: 'BatchNorm' param { lr_mult: 1 } param { } }", ""},
    /* the name that forks gave round_mode */
    {"layer { pooling_param { ceil_mode: false } } layer { pooling_param { ceil_mode: true } } "
     "layer { pooling_param { ceil_mode: true round_mode: FLOOR } }",
     "layer { pooling_param { round_mode: FLOOR } } layer { pooling_param { round_mode: CEIL } } "
     "layer { pooling_param { round_mode: FLOOR } }",
     ""},
};

START_TEST(old_net_becomes_todays)
{
    struct text_doc *doc = read_text(nets[_i].old, &caffe__net_parameter__descriptor);

    ck_assert_msg(upgrade_net(spec_net(doc), doc) == 0, "%s", error_text());
    assert_same(text_root(doc), nets[_i].today, &caffe__net_parameter__descriptor);
    ck_assert_str_eq(text_notices(doc), nets[_i].notices);
    /* and stays as it is */
    ck_assert_int_eq(upgrade_net(spec_net(doc), doc), 0);
    assert_same(text_root(doc), nets[_i].today, &caffe__net_parameter__descriptor);
    ck_assert_str_eq(text_notices(doc), nets[_i].notices);
    text_free(doc);
}
END_TEST

static const struct {
    const char *v0;
    const char *today;
} v0_types[] = {
    {"accuracy", "Accuracy"},
    {"bnll", "BNLL"},
    {"concat", "Concat"},
    {"conv", "Convolution"},
    {"data", "Data"},
    {"dropout", "Dropout"},
    {"euclidean_loss", "EuclideanLoss"},
    {"flatten", "Flatten"},
    {"hdf5_data", "HDF5Data"},
    {"hdf5_output", "HDF5Output"},
    {"im2col", "Im2col"},
    {"images", "ImageData"},
    {"infogain_loss", "InfogainLoss"},
    {"innerproduct", "InnerProduct"},
    {"lrn", "LRN"},
    {"multinomial_logistic_loss", "MultinomialLogisticLoss"},
    {"pool", "Pooling"},
    {"relu", "ReLU"},
    {"sigmoid", "Sigmoid"},
    {"softmax", "Softmax"},
    {"softmax_loss", "SoftmaxWithLoss"},
    {"split", "Split"},
    {"tanh", "TanH"},
    {"window_data", "WindowData"},
};

START_TEST(every_type_of_the_oldest_form_has_a_name_today)
{
    char text[128];
    struct text_doc *doc;

    snprintf(text, sizeof text, "layers { layer { type: '%s' } }", v0_types[_i].v0);
    doc = read_text(text, &caffe__net_parameter__descriptor);
    ck_assert_msg(upgrade_net(spec_net(doc), doc) == 0, "%s", error_text());
    ck_assert_str_eq(spec_net(doc)->layer[0]->type, v0_types[_i].today);
    text_free(doc);
}
END_TEST

/* Numbers and names as in caffe.proto; binary models of 2014 hold the numbers. */
static const char *const v1_types[][2] = {
    {"NONE", ""},
    {"ACCURACY", "Accuracy"},
    {"BNLL", "BNLL"},
    {"CONCAT", "Concat"},
    {"CONVOLUTION", "Convolution"},
    {"DATA", "Data"},
    {"DROPOUT", "Dropout"},
    {"EUCLIDEAN_LOSS", "EuclideanLoss"},
    {"FLATTEN", "Flatten"},
    {"HDF5_DATA", "HDF5Data"},
    {"HDF5_OUTPUT", "HDF5Output"},
    {"IM2COL", "Im2col"},
    {"IMAGE_DATA", "ImageData"},
    {"INFOGAIN_LOSS", "InfogainLoss"},
    {"INNER_PRODUCT", "InnerProduct"},
    {"LRN", "LRN"},
    {"MULTINOMIAL_LOGISTIC_LOSS", "MultinomialLogisticLoss"},
    {"POOLING", "Pooling"},
    {"RELU", "ReLU"},
    {"SIGMOID", "Sigmoid"},
    {"SOFTMAX", "Softmax"},
    {"SOFTMAX_LOSS", "SoftmaxWithLoss"},
    {"SPLIT", "Split"},
    {"TANH", "TanH"},
    {"WINDOW_DATA", "WindowData"},
    {"ELTWISE", "Eltwise"},
    {"POWER", "Power"},
    {"SIGMOID_CROSS_ENTROPY_LOSS", "SigmoidCrossEntropyLoss"},
    {"HINGE_LOSS", "HingeLoss"},
    {"MEMORY_DATA", "MemoryData"},
    {"ARGMAX", "ArgMax"},
    {"THRESHOLD", "Threshold"},
    {"DUMMY_DATA", "DummyData"},
    {"SLICE", "Slice"},
    {"MVN", "MVN"},
    {"ABSVAL", "AbsVal"},
    {"SILENCE", "Silence"},
    {"CONTRASTIVE_LOSS", "ContrastiveLoss"},
    {"EXP", "Exp"},
    {"DECONVOLUTION", "Deconvolution"},
};

START_TEST(every_type_of_2014_has_a_name_today)
{
    char text[128];
    struct text_doc *doc;

    snprintf(text, sizeof text, "layers { type: %s } layers { type: %d }", v1_types[_i][0], _i);
    doc = read_text(text, &caffe__net_parameter__descriptor);
    ck_assert_msg(upgrade_net(spec_net(doc), doc) == 0, "%s", error_text());
    for (int i = 0; i < 2; i++) {
        const char *type = spec_net(doc)->layer[i]->type;

        ck_assert_str_eq(type != NULL ? type : "", v1_types[_i][1]);
    }
    ck_assert_str_eq(upgrade_type(_i)->name, v1_types[_i][1]);
    text_free(doc);
}
END_TEST

START_TEST(unknown_numbers_of_types_have_no_name)
{
    ck_assert_ptr_null(upgrade_type(-1));
    ck_assert_ptr_null(upgrade_type(40));
}
END_TEST

START_TEST(upgraded_layers_keep_their_lines)
{
    struct text_doc *doc =
        read_text("\ninput: 'x'\ninput: ['y',\n'z']\ninput_dim: [1,1,1,1,1,1,1,1,1,1,1,1]\n"
                  "layers { type: RELU }\n\n"
                  "layers { type: RELU }",
                  &caffe__net_parameter__descriptor);

    ck_assert_int_eq(upgrade_net(spec_net(doc), doc), 0);
    ck_assert_int_eq(text_line(doc, spec_net(doc)->layer[0]), 2);
    ck_assert_int_eq(text_line(doc, spec_net(doc)->layer[0]->top[0]), 2);
    ck_assert_int_eq(text_line(doc, spec_net(doc)->layer[0]->top[1]), 3);
    ck_assert_int_eq(text_line(doc, spec_net(doc)->layer[0]->top[2]), 4);
    ck_assert_int_eq(text_line(doc, spec_net(doc)->layer[1]), 6);
    ck_assert_int_eq(text_line(doc, spec_net(doc)->layer[2]), 8);
    text_free(doc);
}
END_TEST

static const struct {
    const char *text, *message;
} net_errors[] = {
    {"layer { }\nlayers { }",
     "F: expected either 'layer' (today's form) or 'layers' (the old one), found both: 'layers' "
     "first on line 2, 'layer' on line 1"},
    {"\nlayers { layer { name: 'x' type: 'convv' } }",
     "F:2: layer 'x': Unknown layer name: convv; did you mean \"conv\"?"},
    {"layers { layer { name: 'x' } }", "F:1: layer 'x': Unknown layer name: "},
    {"layers { layer { name: 'p' type: 'padding' } bottom: 'x' top: 'y' }\n"
     "layers { layer { name: 'r' type: 'relu' } bottom: 'y' }",
     "F:2: layer 'r': a padding layer may feed only conv and pool, found relu"},
    {"layers { layer { name: 'p' type: 'padding' } bottom: 'x' top: 'y' }\n"
     "layers { layer { name: 'c' type: 'conv' } bottom: 'y' bottom: 'z' }",
     "F:2: layer 'c': expected one bottom behind a padding layer with one bottom and one top, "
     "found 2, 1 and 1"},
    {"input: 'x'\ninput_dim: [1, 2,\n3]", "F:2: expected four input_dim per input (4), found 3"},
    {"input: 'x' input: 'y'\ninput_dim: 1\ninput_dim: 2\ninput_dim: 3\ninput_dim: 4",
     "F:2: expected four input_dim per input (8), found 4"},
    {"input: 'x' input: 'y'\n\ninput_shape { dim: 1 }",
     "F:3: expected one input_shape per input (2), found 1"},
};

START_TEST(net_that_cannot_be_upgraded_is_refused)
{
    struct text_doc *doc = read_text(net_errors[_i].text, &caffe__net_parameter__descriptor);

    ck_assert_int_ne(upgrade_net(spec_net(doc), doc), 0);
    ck_assert_str_eq(error_text(), net_errors[_i].message);
    text_free(doc);
}
END_TEST

START_TEST(number_of_an_unknown_type_is_refused)
{
    struct text_doc *doc = read_text("layers { name: 'x' }", &caffe__net_parameter__descriptor);

    spec_net(doc)->layers[0]->has_type = 1;
    spec_net(doc)->layers[0]->type = (Caffe__V1LayerParameter__LayerType)77;
    ck_assert_int_ne(upgrade_net(spec_net(doc), doc), 0);
    ck_assert_str_eq(error_text(), "F:1: layer 'x': unknown number 77 as the type of a layer in "
                                   "the old form, expected 0 to 39");
    text_free(doc);
}
END_TEST

START_TEST(solver_type_becomes_type)
{
    static const char *const names[][2] = {{"SGD", "SGD"},           {"NESTEROV", "Nesterov"},
                                           {"ADAGRAD", "AdaGrad"},   {"RMSPROP", "RMSProp"},
                                           {"ADADELTA", "AdaDelta"}, {"ADAM", "Adam"}};
    struct text_doc *doc;
    char text[64], notice[64];

    for (int i = 0; i < COUNT(names); i++) {
        snprintf(text, sizeof text, "solver_type: %s", names[i][0]);
        snprintf(notice, sizeof notice, "F: solver_type became type: \"%s\"\n", names[i][1]);
        doc = read_text(text, &caffe__solver_parameter__descriptor);
        ck_assert_int_eq(upgrade_solver(spec_solver(doc), doc), 0);
        ck_assert_str_eq(spec_solver(doc)->type, names[i][1]);
        ck_assert(!spec_solver(doc)->has_solver_type);
        ck_assert_str_eq(text_notices(doc), notice);
        text_free(doc);
    }
}
END_TEST

START_TEST(solver_with_both_types_is_refused)
{
    struct text_doc *doc =
        read_text("solver_type: SGD type: 'SGD'", &caffe__solver_parameter__descriptor);

    ck_assert_int_ne(upgrade_solver(spec_solver(doc), doc), 0);
    ck_assert_str_eq(error_text(), "F: expected either type: \"SGD\" (today's form) or solver_type "
                                   "(the old one), found both");
    text_free(doc);
}
END_TEST

START_TEST(nets_inside_a_solver_are_upgraded)
{
    struct text_doc *doc = read_text("net_param { layers { type: RELU } } train_net_param { input: "
                                     "'x' input_dim: [1,1,1,1] } test_net_param { layers { type: "
                                     "TANH } } test_net_param { layers { type: BNLL } }",
                                     &caffe__solver_parameter__descriptor);

    ck_assert_int_eq(upgrade_solver(spec_solver(doc), doc), 0);
    ck_assert_str_eq(spec_solver(doc)->net_param->layer[0]->type, "ReLU");
    ck_assert_str_eq(spec_solver(doc)->train_net_param->layer[0]->type, "Input");
    ck_assert_str_eq(spec_solver(doc)->test_net_param[1]->layer[0]->type, "BNLL");
    text_free(doc);
    for (int i = 0; i < 3; i++) {
        static const char *const texts[] = {"net_param { layers { } layer { } }",
                                            "train_net_param { layers { } layer { } }",
                                            "test_net_param { layers { } layer { } }"};

        doc = read_text(texts[i], &caffe__solver_parameter__descriptor);
        ck_assert_int_ne(upgrade_solver(spec_solver(doc), doc), 0);
        text_free(doc);
    }
}
END_TEST

static char folder[] = "/tmp/poseidon_upgrade_XXXXXX";

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

START_TEST(snapshot_prefix_is_completed_from_the_solvers_path)
{
    static const struct {
        const char *path, *text, *prefix;
    } cases[] = {
        {"a.prototxt", "", "a"},
        {"./sub/b.c.prototxt", "", "./sub/b.c"},
        {"sub/plain", "", "sub/plain"},
        {"sub/.hidden", "", "sub/.hidden"},
        {"a.prototxt", "snapshot_prefix: 'x/y'", "x/y"},
        {"a.prototxt", "snapshot_prefix: 'sub'", "sub/a"},
        {"sub/b.prototxt", "snapshot_prefix: 'sub/'", "sub/b"},
        {"a.prototxt", "snapshot_prefix: ''", "a"},
    };
    struct text_doc *doc;

    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(mkdir("sub", 0777), 0);
    for (int i = 0; i < COUNT(cases); i++) {
        write_file(cases[i].path, cases[i].text);
        ck_assert_msg(spec_read_solver_with(cases[i].path,
                                            &(struct spec_overrides){.settings = NULL}, &doc) == 0,
                      "%s", error_text());
        ck_assert_str_eq(spec_solver(doc)->snapshot_prefix, cases[i].prefix);
        text_free(doc);
        unlink(cases[i].path);
    }
    rmdir("sub");
}
END_TEST

START_TEST(files_are_read_and_upgraded)
{
    struct text_doc *doc;

    ck_assert_int_eq(chdir(folder), 0);
    write_file("old.prototxt", "layers { type: RELU }");
    ck_assert_int_eq(spec_read_net_of("old.prototxt", NULL, false, &doc), 0);
    ck_assert_str_eq(spec_net(doc)->layer[0]->type, "ReLU");
    text_free(doc);
    write_file("old.prototxt", "layers { type: RELU } layer { }");
    ck_assert_int_ne(spec_read_net_of("old.prototxt", NULL, false, &doc), 0);
    ck_assert_int_ne(
        spec_read_solver_with("old.prototxt", &(struct spec_overrides){.settings = NULL}, &doc), 0);
    write_file("old.prototxt", "solver_type: ADAM type: 'x'");
    ck_assert_int_ne(
        spec_read_solver_with("old.prototxt", &(struct spec_overrides){.settings = NULL}, &doc), 0);
    ck_assert_int_ne(spec_read_net_of("none.prototxt", NULL, false, &doc), 0);
    ck_assert_ptr_nonnull(
        strstr(error_text(), "none.prototxt: no such file (the current folder is "));
    unlink("old.prototxt");
}
END_TEST

START_TEST(named_file_is_looked_for_here_and_beside_the_one_that_names_it)
{
    char *path, message[128];

    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(mkdir("near", 0777), 0);
    write_file("near/net", "");
    write_file("here", "");
    ck_assert_int_eq(spec_find_file("here", "near/solver", &path), 0);
    ck_assert_str_eq(path, "here");
    free(path);
    ck_assert_int_eq(spec_find_file("net", "near/solver", &path), 0);
    ck_assert_str_eq(path, "near/net");
    free(path);
    ck_assert_int_ne(spec_find_file("net", "solver", &path), 0);
    snprintf(message, sizeof message, "net: no such file (the current folder is %s)", folder);
    ck_assert_str_eq(error_text(), message);
    ck_assert_int_ne(spec_find_file("net", NULL, &path), 0);
    ck_assert_str_eq(error_text(), message);
    ck_assert_int_ne(spec_find_file("/net", "near/solver", &path), 0);
    ck_assert_str_eq(error_text(), "/net: no such file");
    ck_assert_int_ne(spec_find_file("else", "near/solver", &path), 0);
    ck_assert_str_eq(error_text(), "else: no such file (nor near/else)");
    unlink("near/net");
    unlink("here");
    rmdir("near");
}
END_TEST

SUITE_IN(folder, "upgrade")
{
    TCase *tcase = suite_case(suite, "upgrade");

    suite_table(tcase, old_net_becomes_todays, nets);
    suite_table(tcase, every_type_of_the_oldest_form_has_a_name_today, v0_types);
    suite_table(tcase, every_type_of_2014_has_a_name_today, v1_types);
    tcase_add_test(tcase, unknown_numbers_of_types_have_no_name);
    tcase_add_test(tcase, upgraded_layers_keep_their_lines);
    suite_table(tcase, net_that_cannot_be_upgraded_is_refused, net_errors);
    tcase_add_test(tcase, number_of_an_unknown_type_is_refused);
    tcase_add_test(tcase, solver_type_becomes_type);
    tcase_add_test(tcase, solver_with_both_types_is_refused);
    tcase_add_test(tcase, nets_inside_a_solver_are_upgraded);
    tcase_add_test(tcase, snapshot_prefix_is_completed_from_the_solvers_path);
    tcase_add_test(tcase, files_are_read_and_upgraded);
    tcase_add_test(tcase, named_file_is_looked_for_here_and_beside_the_one_that_names_it);
}
