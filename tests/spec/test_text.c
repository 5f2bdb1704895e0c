/* The text reader and printer: against protoc (tests/data/spec/generate_text.py), and every message
 * it can give. */
#include "spec/caffe.pb-c.h"
#include "spec/print.h"
#include "tests/spec/text_cases.h"
#include "tests/suite.h"
#include "spec/text.h"
#include "util/error.h"

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct text_case *text_cases;
static const ProtobufCMessageDescriptor *const net = &caffe__net_parameter__descriptor;
static const ProtobufCMessageDescriptor *const solver = &caffe__solver_parameter__descriptor;

/* Reads from memory that ends where the text ends, so that a step too far is seen by the tools. */
static int read_text(const char *text, size_t length, const ProtobufCMessageDescriptor *type,
                     struct text_doc **out)
{
    char *exact = malloc(length > 0 ? length : 1);
    int status;

    ck_assert_ptr_nonnull(exact);
    memcpy(exact, text, length);
    status = text_read_string("F", exact, length, type, out);
    free(exact);
    return status;
}

static Caffe__NetParameter *read_net(const char *text, struct text_doc **doc)
{
    ck_assert_msg(read_text(text, strlen(text), net, doc) == 0, "%s", error_text());
    return (Caffe__NetParameter *)text_root(*doc);
}

static void assert_packs_to(const struct text_doc *doc, const char *bytes, size_t nbytes)
{
    size_t length = protobuf_c_message_get_packed_size(text_root(doc));
    uint8_t *packed = malloc(length + 1);

    ck_assert_ptr_nonnull(packed);
    ck_assert_uint_eq(length, nbytes);
    protobuf_c_message_pack(text_root(doc), packed);
    ck_assert_mem_eq(packed, bytes, nbytes);
    free(packed);
}

START_TEST(text_is_accepted_and_read_as_protoc_does)
{
    struct text_doc *doc;
    int status = read_text(text_cases[_i].text, text_cases[_i].length, text_cases[_i].type, &doc);

    ck_assert_msg((status == 0) == text_cases[_i].accepted, "<%s>: protoc %s it; %s",
                  text_cases[_i].text, text_cases[_i].accepted ? "accepts" : "refuses",
                  status ? error_text() : "we accept it");
    if (status)
        return;
    assert_packs_to(doc, text_cases[_i].bytes, text_cases[_i].nbytes);
    text_free(doc);
}
END_TEST

START_TEST(printed_message_reads_back_as_it_was)
{
    struct strbuf printed = {0};
    struct text_doc *doc;

    if (!text_cases[_i].accepted)
        return;
    ck_assert_int_eq(
        read_text(text_cases[_i].text, text_cases[_i].length, text_cases[_i].type, &doc), 0);
    print_message(&printed, text_root(doc));
    text_free(doc);
    ck_assert_msg(read_text(strbuf_text(&printed), printed.length, text_cases[_i].type, &doc) == 0,
                  "%s: %s", strbuf_text(&printed), error_text());
    assert_packs_to(doc, text_cases[_i].bytes, text_cases[_i].nbytes);
    text_free(doc);
    strbuf_free(&printed);
}
END_TEST

static const struct {
    const char *text;
    bool of_solver;
    const char *message;
} errors[] = {
    /* unknown fields */
    {"naem: 'a'", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"naem\"; did you mean \"name\"?"},
    {"\n\n  layer {\n  kernel_size: 3 }", false,
     "F:4:3: message \"caffe.LayerParameter\" has no field \"kernel_size\"; it belongs in "
     "convolution_param { }, pooling_param { }"},
    {"layer { convolution_param { kernal_sise: 3 } }", false,
     "F:1:29: message \"caffe.ConvolutionParameter\" has no field \"kernal_sise\"; did you mean "
     "\"kernel_size\"?"},
    {"layer { convolution_param { bottom: 'a' } }", false,
     "F:1:29: message \"caffe.ConvolutionParameter\" has no field \"bottom\"; it is a field of "
     "\"caffe.LayerParameter\": is a \"}\" missing before it?"},
    {"layer { name: 'a'\nlayer { name: 'b' } }", false,
     "F:2:1: message \"caffe.LayerParameter\" has no field \"layer\"; it is a field of "
     "\"caffe.NetParameter\": is a \"}\" missing before it?"},
    {"layer { quantization_param { bw_layer_in: 8 } }", false,
     "F:1:9: message \"caffe.LayerParameter\" has no field \"quantization_param\"; it comes from "
     "the Caffe fork of Ristretto"},
    {"layer { name: 'bn' type: 'BN'\nbn_param { } }", false,
     "F:2:1: layer 'bn' (BN): message \"caffe.LayerParameter\" has no field "
     "\"bn_param\"; it comes from the Caffe fork of PSPNet and SegNet"},
    {"layer { type: 'SoftmaxWithLoss' loss_param { class_weighting: 2 } }", false,
     "F:1:46: layer '' (SoftmaxWithLoss): message \"caffe.LossParameter\" has no field "
     "\"class_weighting\"; it comes from the Caffe fork of SegNet: tools/from_forks.py writes "
     "InfogainLoss, which does the same"},
    {"layer { type: 'Convolution' convolution_param { hole: 2 } }", false,
     "F:1:49: layer '' (Convolution): message \"caffe.ConvolutionParameter\" has no field "
     "\"hole\"; it comes from the Caffe fork of DeepLab: tools/from_forks.py writes "
     "what does the same"},
    {"layer { transform_param { random_aspect_ratio_param { resize_param { } } } }", false,
     "F:1:55: message \"caffe.RandomAspectRatioParameter\" has no field \"resize_param\""},
    {"layer { transform_param { resize_param { } } }", false,
     "F:1:27: message \"caffe.TransformationParameter\" has no field \"resize_param\"; it comes "
     "from "
     "the Caffe fork of SSD"},
    {"layer { data_param { side: 7 } }", false,
     "F:1:22: message \"caffe.DataParameter\" has no field \"side\"; it comes from the Caffe fork "
     "of "
     "YOLO (caffe-yolo)"},
    {"layer { video_data_param { } normalize_param { } }", false,
     "F:1:9: message \"caffe.LayerParameter\" has no field \"video_data_param\"; it comes from the "
     "Caffe fork of C3D, or video-caffe\n"
     "F:1:30: message \"caffe.LayerParameter\" has no field \"normalize_param\"; it comes from the "
     "Caffe fork of NormFace"},
    {"layer { batch_norm_param { scale_bias: true scale_filler { } } }", false,
     "F:1:28: message \"caffe.BatchNormParameter\" has no field \"scale_bias\"; it comes from the "
     "Caffe fork of NVIDIA (NVCaffe): tools/from_forks.py adds a Scale layer, which does the "
     "same\n"
     "F:1:45: message \"caffe.BatchNormParameter\" has no field \"scale_filler\"; it comes from "
     "the "
     "Caffe fork of NVIDIA (NVCaffe): tools/from_forks.py adds a Scale layer, which does the "
     "same"},
    {"larc: true vstep_size: 3", true,
     "F:1:1: message \"caffe.SolverParameter\" has no field \"larc\"; it comes from the Caffe fork "
     "of "
     "NVIDIA (NVCaffe): local_lr_auto: true and local_gw_ratio do the same\n"
     "F:1:12: message \"caffe.SolverParameter\" has no field \"vstep_size\"; it comes from a Caffe "
     "fork with learning rates of its own; lr_policy says them here"},
    {"layer { pooling_param { pad_l: 1 } convolution_param { kernel_shape { } stride_shape { } } }",
     false,
     "F:1:25: message \"caffe.PoolingParameter\" has no field \"pad_l\"; it comes from a Caffe "
     "fork "
     "that pads each side by itself; pad, pad_h and pad_w pad both sides alike\n"
     "F:1:56: message \"caffe.ConvolutionParameter\" has no field \"kernel_shape\"; it comes from "
     "a "
     "Caffe fork for video; kernel_size, stride and pad once for each axis do the same\n"
     "F:1:73: message \"caffe.ConvolutionParameter\" has no field \"stride_shape\"; it comes from "
     "a "
     "Caffe fork for video; kernel_size, stride and pad once for each axis do the same"},
    {"layer { transform_param { crop_size_l: 16 } }", false,
     "F:1:27: message \"caffe.TransformationParameter\" has no field \"crop_size_l\"; it comes "
     "from a "
     "Caffe fork that cuts boxes; crop_height and crop_width of transform_param do the same"},
    {"layers { layer { name: 'c' type: 'conv' conv_param { } } }\n"
     "layers { layer { lrn_param { } } }",
     false,
     "F:1:41: message \"caffe.V0LayerParameter\" has no field \"conv_param\"; it comes from the "
     "Caffe "
     "fork of SPP_net, whose settings stand in layer { } itself here (kernelsize, batchsize, ...)\n"
     "F:2:18: message \"caffe.V0LayerParameter\" has no field \"lrn_param\"; it comes from the "
     "Caffe "
     "fork of SPP_net, whose settings stand in layer { } itself here (kernelsize, batchsize, ...)"},
    {"layers { type: LOCAL }\nlayers { name: 'a' type: LOCAL x: 1 }\nlayers { type: CROP }", false,
     "F:1:16: unknown layer type LOCAL for field \"type\" of \"caffe.V1LayerParameter\" (2 times)\n"
     "F:2:32: layer 'a': message \"caffe.V1LayerParameter\" has no field \"x\"\n"
     "F:3:16: unknown layer type CROP for field \"type\" of \"caffe.V1LayerParameter\""},
    {"layers { type: CONVOLUTION hole: 2 }", false,
     "F:1:28: message \"caffe.V1LayerParameter\" has no field \"hole\""},
    {"disabled_update: true", true,
     "F:1:1: message \"caffe.SolverParameter\" has no field \"disabled_update\""},
    {"larc_policy: 'clip'", true,
     "F:1:1: message \"caffe.SolverParameter\" has no field \"larc_policy\"; it comes from the "
     "Caffe fork of NVIDIA (NVCaffe): local_lr_auto: true and local_gw_ratio do the same"},
    {"solver_data_type: FLOAT16", true,
     "F:1:1: message \"caffe.SolverParameter\" has no field \"solver_data_type\"; it comes from "
     "the "
     "Caffe fork of NVIDIA (NVCaffe) and is about speed, precision or files alone: remove it"},
    {"global_grad_scale: 1000", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"global_grad_scale\"; it comes from the "
     "Caffe fork of NVIDIA (NVCaffe) and is about speed, precision or files alone: remove it"},
    {"layer { transform_param { use_gpu_transform: true } }", false,
     "F:1:27: message \"caffe.TransformationParameter\" has no field \"use_gpu_transform\"; it "
     "comes "
     "from the Caffe fork of NVIDIA (NVCaffe) and is about speed, precision or files alone: remove "
     "it"},
    {"layer { batch_norm_param { use_weight_bias: true } }", false,
     "F:1:28: message \"caffe.BatchNormParameter\" has no field \"use_weight_bias\""},
    {"learning_rate: 1", true,
     "F:1:1: message \"caffe.SolverParameter\" has no field \"learning_rate\""},
    {"test_initialisations: 1", true,
     "F:1:1: message \"caffe.SolverParameter\" has no field \"test_initialisations\"; did you mean "
     "\"test_initialization\"?"},
    {"base_lr: 1 gamma: 0.1 stepsize: 3", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"base_lr\"\n"
     "F:1:12: message \"caffe.NetParameter\" has no field \"gamma\"\n"
     "F:1:23: message \"caffe.NetParameter\" has no field \"stepsize\""},
    {"layer { wasserstein_param { } lstm_param { } batchnorm_param { } }", false,
     "F:1:9: message \"caffe.LayerParameter\" has no field \"wasserstein_param\"\n"
     "F:1:31: message \"caffe.LayerParameter\" has no field \"lstm_param\"\n"
     "F:1:46: message \"caffe.LayerParameter\" has no field \"batchnorm_param\"; did you mean "
     "\"batch_norm_param\"?"},
    {"end_layer: 5", false, "F:1:1: message \"caffe.NetParameter\" has no field \"end_layer\""},
    {"x: 1", false, "F:1:1: message \"caffe.NetParameter\" has no field \"x\""},
    {"nmae: 'a' stae { a: 1 b { c: [1, 'x'] } } froce_backward: -inf f: 'a' 'b' name: 'ok'", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"nmae\"; did you mean \"name\"?\n"
     "F:1:11: message \"caffe.NetParameter\" has no field \"stae\"; did you mean \"state\"?\n"
     "F:1:43: message \"caffe.NetParameter\" has no field \"froce_backward\"; did you mean "
     "\"force_backward\"?\n"
     "F:1:64: message \"caffe.NetParameter\" has no field \"f\""},
    {"a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1 a:1", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"a\" (15 times)"},
    {"naem: 'a' name: 5", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"naem\"; did you mean \"name\"?\n"
     "F:1:17: expected a string in quotes for field \"name\" of \"caffe.NetParameter\", found "
     "\"5\""},
    {"naem\nlayer { }", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"naem\"; did you mean \"name\"?"},
    {"naem: { a: 1", false,
     "F:1:1: message \"caffe.NetParameter\" has no field \"naem\"; did you mean \"name\"?"},
    /* structure */
    {"name 'a'", false, "F:1:6: expected \":\" behind \"name\", found the string 'a'"},
    {"test_iter 5", true, "F:1:11: expected \":\" behind \"test_iter\", found \"5\""},
    {"name: 'a',, name: 'b'", false,
     "F:1:11: expected the name of a field of \"caffe.NetParameter\", found \",\""},
    {"layer { } }", false,
     "F:1:11: expected the name of a field of \"caffe.NetParameter\", found \"}\", which closes "
     "nothing"},
    {"layer {\n name: 'a'\n 5 }", false,
     "F:3:2: expected the name of a field, or the end of the \"caffe.LayerParameter\" that began "
     "on line 1, found \"5\""},
    {"layer {\n name: 'a'\n", false,
     "F:3:1: expected the name of a field, or the end of the \"caffe.LayerParameter\" that began "
     "on line 1, found end of file"},
    {"layer < name: 'a' }", false,
     "F:1:19: expected \">\" to end the \"caffe.LayerParameter\" that began on line 1, found "
     "\"}\""},
    {"layer: 5", false,
     "F:1:8: expected \"{\" for field \"layer\" of \"caffe.NetParameter\", found \"5\""},
    {"input: ['a' 5]", false,
     "F:1:13: expected \",\" or \"]\" in the list for field \"input\" of \"caffe.NetParameter\", "
     "found \"5\""},
    {"base_lr: 0.1\nbase_lr: 0.2", true,
     "F:2:1: field \"base_lr\" of \"caffe.SolverParameter\" is given twice, expected once"},
    {"state { } state { }", false,
     "F:1:11: field \"state\" of \"caffe.NetParameter\" is given twice, expected once"},
    /* strings */
    {"name: a", false,
     "F:1:7: expected a string in quotes for field \"name\" of \"caffe.NetParameter\", found "
     "\"a\""},
    {"layer { type: CONVOLUTION }", false,
     "F:1:15: expected a string in quotes for field \"type\" of \"caffe.LayerParameter\", found "
     "\"CONVOLUTION\" (types without quotes belong to the old form, \"layers\")"},
    {"name: 'a\n'", false,
     "F:1:7: a string must end on the line it begins on; its closing quote is missing"},
    {"name: 'a", false, "F:1:7: expected the closing quote of a string, found end of file"},
    {"name: 'a\\q'", false,
     "F:1:9: invalid escape sequence in a string (write a path with / or \\\\)"},
    {"name: '\\xg'", false, "F:1:8: expected hexadecimal digits behind \\x"},
    {"name: '\\u12'", false, "F:1:8: expected 4 hexadecimal digits behind \\u or 8 behind \\U"},
    {"name: '\\U00110000'", false, "F:1:8: \\U beyond the last Unicode character, 0010ffff"},
    {"name: 'a' 'b\\0c'", false, "F:1:7: expected a string without zero bytes for field \"name\""},
    {"net: 'C:\\\\a/b' snapshot_prefix: \"E:\\new\\temp\"", true,
     "F:1:33: expected a path without control characters (write / or \\\\, not \\) for field "
     "\"snapshot_prefix\""},
    {"layer { name: 'a\\tb' data_param { source: 'D:\\test' } }", false,
     "F:1:43: expected a path without control characters (write / or \\\\, not \\) for field "
     "\"source\""},
    /* numbers */
    {"max_iter: 1e5", true,
     "F:1:11: expected an integer for field \"max_iter\" of \"caffe.SolverParameter\", found "
     "\"1e5\""},
    {"max_iter: 3000000000", true,
     "F:1:11: expected an integer from -2147483648 to 2147483647 for field \"max_iter\" of "
     "\"caffe.SolverParameter\", found \"3000000000\""},
    {"layer { convolution_param { num_output: -1 } }", false,
     "F:1:41: expected an integer that is not negative for field \"num_output\" of "
     "\"caffe.ConvolutionParameter\", found \"-\""},
    {"layer { convolution_param { num_output: 4294967296 } }", false,
     "F:1:41: expected an integer from 0 to 4294967295 for field \"num_output\" of "
     "\"caffe.ConvolutionParameter\", found \"4294967296\""},
    {"max_iter: 08", true, "F:1:11: a number with a leading zero is octal and may not hold 8 or 9"},
    {"max_iter: 5x", true, "F:1:12: expected a space between a number and a name"},
    {"max_iter: 0x", true, "F:1:13: expected hexadecimal digits behind \"0x\""},
    {"base_lr: 1e", true, "F:1:12: expected an exponent behind \"e\""},
    {"base_lr: 1.2.3", true, "F:1:13: a second decimal point, or one behind the exponent"},
    {"base_lr: 00.5", true, "F:1:12: a decimal point in a hexadecimal or octal number"},
    {"base_lr.5", true, "F:1:8: expected a space between a name and a decimal point"},
    {"base_lr: 010", true,
     "F:1:10: expected a decimal number for field \"base_lr\" of \"caffe.SolverParameter\", found "
     "\"010\" (it is hexadecimal or octal)"},
    {"base_lr: fast", true,
     "F:1:10: expected a number for field \"base_lr\" of \"caffe.SolverParameter\", found "
     "\"fast\""},
    {"base_lr: 'abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz'", true,
     "F:1:10: expected a number for field \"base_lr\" of \"caffe.SolverParameter\", found "
     "\"'abcdefghijklmnopqrstuvwxyzabcdefghijklm...\""},
    /* truth and names */
    {"force_backward: yes", false,
     "F:1:17: expected true or false for field \"force_backward\" of \"caffe.NetParameter\", found "
     "\"yes\""},
    {"solver_mode: gpu", true,
     "F:1:14: unknown value \"gpu\" for field \"solver_mode\" of \"caffe.SolverParameter\"; "
     "expected CPU or GPU"},
    {"solver_mode: 7", true,
     "F:1:14: unknown value \"7\" for field \"solver_mode\" of \"caffe.SolverParameter\"; expected "
     "CPU or GPU"},
    {"solver_mode: 'GPU'", true,
     "F:1:14: expected a name without quotes for field \"solver_mode\" of "
     "\"caffe.SolverParameter\", found the string 'GPU'"},
    {"layers { type: CONVOLUTOIN }", false,
     "F:1:16: unknown layer type CONVOLUTOIN for field \"type\" of \"caffe.V1LayerParameter\"; did "
     "you mean CONVOLUTION?"},
    {"layers { name: 'local1'\ntype: LOCAL_WEIGHTED_CONVOLUTION }", false,
     "F:2:7: layer 'local1': unknown layer type LOCAL_WEIGHTED_CONVOLUTION for field \"type\" of "
     "\"caffe.V1LayerParameter\""},
    {"layers { name: 'n' type: LRN_MAP }", false,
     "F:1:26: layer 'n': unknown layer type LRN_MAP for field \"type\" of "
     "\"caffe.V1LayerParameter\""},
    {"layers { name: 'n' type: 40 }", false,
     "F:1:26: layer 'n': unknown layer type 40 for field \"type\" of \"caffe.V1LayerParameter\""},
    {"net_param { layers { name: 'n' type: NOTHING } }", true,
     "F:1:38: unknown layer type NOTHING for field \"type\" of \"caffe.V1LayerParameter\""},
    /* files of another kind */
    {"name: '$#NAME#$'\nlayer { convolution_param { num_output: $#N#$ } }", false,
     "F:2:41: expected an integer for field \"num_output\" of \"caffe.ConvolutionParameter\", "
     "found "
     "\"$\""},
    {"input_dim:{height}", false,
     "F:1:11: expected an integer for field \"input_dim\" of \"caffe.NetParameter\", found \"{\""},
    {"layer { convolution_param { num_output: NCLASS_tpl } }", false,
     "F:1:41: expected an integer for field \"num_output\" of \"caffe.ConvolutionParameter\", "
     "found "
     "\"NCLASS_tpl\""},
    {"base_lr: LR_tpl", true,
     "F:1:10: expected a number for field \"base_lr\" of \"caffe.SolverParameter\", found "
     "\"LR_tpl\""},
    {"{{ include('x') }}", false,
     "F:1:1: expected the name of a field of \"caffe.NetParameter\", found \"{\""},
    {"name: 'a'\n<<<<<<< HEAD\nname: 'b'", false,
     "F:2:1: expected the name of a field of \"caffe.NetParameter\", found \"<\""},
    {"\x89HDF\r\n", false,
     "F:1:1: expected text, found the byte 0x89 (only strings and comments may hold "
     "other characters than ASCII)"},
    {"\x81n", false,
     "F:1:1: expected text, found the byte 0x81 (only strings and comments may hold other "
     "characters than ASCII)"},
};

START_TEST(error_says_where_what_was_expected_and_found)
{
    struct text_doc *doc;
    int status = read_text(errors[_i].text, strlen(errors[_i].text),
                           errors[_i].of_solver ? solver : net, &doc);

    ck_assert_int_ne(status, 0);
    ck_assert_str_eq(error_text(), errors[_i].message);
}
END_TEST

START_TEST(zero_bytes_are_refused_inside_and_outside_of_strings)
{
    struct text_doc *doc;

    ck_assert_int_ne(read_text("name: 'a\0b'", 11, net, &doc), 0);
    ck_assert_str_eq(error_text(), "F:1:9: a zero byte inside a string");
    ck_assert_int_ne(read_text("name: 'a'\0", 10, net, &doc), 0);
    ck_assert_str_eq(error_text(), "F:1:10: expected text, found the byte 0x00 (only strings and "
                                   "comments may hold other characters than ASCII)");
}
END_TEST

START_TEST(byte_order_mark_is_skipped_with_a_notice)
{
    struct text_doc *doc;

    ck_assert_str_eq(read_net("\xef\xbb\xbfname: 'a'", &doc)->name, "a");
    ck_assert_str_eq(text_notices(doc), "F: skipped the byte-order mark at its beginning\n");
    text_free(doc);
}
END_TEST

START_TEST(list_of_devices_is_kept_as_text)
{
    struct text_doc *doc;
    const char text[] = "device_id: '0,1'";

    ck_assert_int_eq(read_text(text, strlen(text), solver, &doc), 0);
    ck_assert_str_eq(((Caffe__SolverParameter *)text_root(doc))->device_list, "0,1");
    ck_assert(!((Caffe__SolverParameter *)text_root(doc))->has_device_id);
    text_free(doc);
}
END_TEST

START_TEST(document_knows_the_line_of_every_message)
{
    struct text_doc *doc;
    const Caffe__NetParameter *n =
        read_net("name: 'a'\nlayer {\n name: 'x'\n include\n { } }\n\nlayer:\n[{ },\n{ }]", &doc);

    ck_assert_int_eq(text_line(doc, n), 1);
    ck_assert_int_eq(text_line(doc, n->layer[0]), 2);
    ck_assert_int_eq(text_line(doc, n->layer[0]->include[0]), 4);
    ck_assert_int_eq(text_line(doc, n->layer[1]), 8);
    ck_assert_int_eq(text_line(doc, n->layer[2]), 9);
    ck_assert_int_eq(text_line(doc, &doc), 0);
    ck_assert_int_eq(text_line(NULL, n), 0);
    ck_assert_str_eq(text_name(doc), "F");
    ck_assert_str_eq(text_notices(doc), "");
    text_free(doc);
}
END_TEST

/* `count` times `piece`, with `head` before and `tail` behind. */
static char *repeat(const char *head, const char *piece, size_t count, const char *tail)
{
    struct strbuf text = {0};

    strbuf_puts(&text, head);
    for (size_t i = 0; i < count; i++)
        strbuf_puts(&text, piece);
    strbuf_puts(&text, tail);
    return strbuf_take(&text);
}

START_TEST(million_open_braces_end_in_a_message)
{
    char *text = repeat("layer { unknown ", "{ a ", 1000000, "");
    struct text_doc *doc;

    ck_assert_int_ne(read_text(text, strlen(text), net, &doc), 0);
    ck_assert_str_eq(error_text(),
                     "F:1:9: message \"caffe.LayerParameter\" has no field \"unknown\"");
    free(text);
}
END_TEST

START_TEST(hundred_thousand_layers_are_read)
{
    char *text = repeat("", "layer { name: 'x' bottom: 'a' }\n", 100000, "");
    struct text_doc *doc;
    Caffe__NetParameter *n = read_net(text, &doc);

    ck_assert_uint_eq(n->n_layer, 100000);
    ck_assert_int_eq(text_line(doc, n->layer[99999]), 100000);
    text_free(doc);
    free(text);
}
END_TEST

/* However long the file's name and however many fields. */
START_TEST(list_of_unknown_fields_ends_with_a_whole_line)
{
    char *name = repeat("", "folder/", 60, "net");
    struct strbuf fields = {0};
    struct text_doc *doc;
    const char *last;
    int listed = 0, more = 0;

    for (int i = 0; i < 40; i++)
        strbuf_printf(&fields, "unknown%d: 1\n", i);
    ck_assert_int_ne(text_read_string(name, strbuf_text(&fields), fields.length, net, &doc), 0);
    for (const char *at = error_text(); at != NULL && strncmp(at, name, strlen(name)) == 0;
         at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL) {
        last = strstr(at, " has no field \"unknown");
        ck_assert_ptr_nonnull(last);
        listed++;
    }
    last = strrchr(error_text(), '\n');
    ck_assert_ptr_nonnull(last);
    ck_assert_msg(sscanf(last, "\n... and others (%d times)", &more) == 1, "%s", error_text());
    ck_assert_int_ge(listed, 3);
    ck_assert_int_eq(listed + more, 40);
    strbuf_free(&fields);
    free(name);
}
END_TEST

START_TEST(long_names_are_unknown_and_not_cut_to_known_ones)
{
    char *text = repeat("", "name", 1000, ": 'x'");
    struct text_doc *doc;

    ck_assert_int_ne(read_text(text, strlen(text), net, &doc), 0);
    ck_assert_msg(strstr(error_text(), "has no field \"namename") != NULL, "%s", error_text());
    free(text);
}
END_TEST

static char folder[] = "/tmp/poseidon_text_XXXXXX";

static const char *write_file(const char *name, const char *text)
{
    static char path[256];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

START_TEST(file_is_read_whole_and_named_in_messages)
{
    char *text = repeat("name: 'x'\n", "# a line of remarks, to make the file long\n", 5000,
                        "force_backward: true");
    const char *path = write_file("long.prototxt", text);
    char expected[512];
    struct text_doc *doc;

    ck_assert_msg(text_read_file(path, net, &doc) == 0, "%s", error_text());
    ck_assert_int_eq(((Caffe__NetParameter *)text_root(doc))->force_backward, 1);
    ck_assert_str_eq(text_name(doc), path);
    text_free(doc);
    free(text);
    path = write_file("bad.prototxt", "\nfoo: 1");
    ck_assert_int_ne(text_read_file(path, net, &doc), 0);
    snprintf(expected, sizeof expected,
             "%s:2:1: message \"caffe.NetParameter\" has no field \"foo\"", path);
    ck_assert_str_eq(error_text(), expected);
}
END_TEST

START_TEST(file_that_cannot_be_read_is_named)
{
    char expected[512];
    struct text_doc *doc;

    ck_assert_int_ne(text_read_file("/nowhere/net.prototxt", net, &doc), 0);
    ck_assert_str_eq(error_text(), "/nowhere/net.prototxt: no such file");
    ck_assert_int_ne(text_read_file(folder, net, &doc), 0);
    snprintf(expected, sizeof expected, "%s is a folder; expected a file", folder);
    ck_assert_str_eq(error_text(), expected);
    ck_assert_int_ne(text_read_file("/dev/null/x", net, &doc), 0);
    ck_assert_str_eq(error_text(), "/dev/null/x: cannot be opened: Not a directory");
}
END_TEST

SUITE_IN(folder, "text")
{
    TCase *tcase = suite_case(suite, "text");

    text_cases = text_cases_read();
    tcase_add_loop_test(tcase, text_is_accepted_and_read_as_protoc_does, 0, TEXT_CASES);
    tcase_add_loop_test(tcase, printed_message_reads_back_as_it_was, 0, TEXT_CASES);
    suite_table(tcase, error_says_where_what_was_expected_and_found, errors);
    tcase_add_test(tcase, zero_bytes_are_refused_inside_and_outside_of_strings);
    tcase_add_test(tcase, byte_order_mark_is_skipped_with_a_notice);
    tcase_add_test(tcase, list_of_devices_is_kept_as_text);
    tcase_add_test(tcase, document_knows_the_line_of_every_message);
    tcase_add_test(tcase, million_open_braces_end_in_a_message);
    tcase_add_test(tcase, hundred_thousand_layers_are_read);
    tcase_add_test(tcase, list_of_unknown_fields_ends_with_a_whole_line);
    tcase_add_test(tcase, long_names_are_unknown_and_not_cut_to_known_ones);
    tcase_add_test(tcase, file_is_read_whole_and_named_in_messages);
    tcase_add_test(tcase, file_that_cannot_be_read_is_named);
}
