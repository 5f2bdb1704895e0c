/* Binary models and solver states: small ones that protoc wrote, real ones where POSEIDON_DATA has
 * them, damaged ones, and our own, which protoc has to read. */
#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/print.h"
#include "spec/read.h"
#include "spec/proto.h"
#include "tests/suite.h"
#include "util/error.h"

#include <check.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/data/spec/real_weights.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

static char folder[] = "/tmp/poseidon_models_XXXXXX";

/* A file of the source tree or, by tmp, of the test's own folder; valid until the fourth call. */
static const char *path_in(const char *where, const char *name)
{
    static char paths[4][1024];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", where, name);
    return path;
}

static const char *data(const char *name)
{
    return path_in(TEST_DATA "/spec", name);
}

static const char *tmp(const char *name)
{
    return path_in(folder, name);
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

static const char *write_bytes(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, length, file), length);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static struct model_file *open_model(const char *path)
{
    struct model_file *file;

    ck_assert_msg(model_file_open(path, &file) == 0, "%s", error_text());
    return file;
}

/* "name[shape=value,value;shape=...] name[]" */
static char *show_layers(struct model_file *file)
{
    struct strbuf out = {0};
    int count;
    const struct stored_layer *layers = model_file_layers(file, &count);

    for (int i = 0; i < count; i++) {
        strbuf_printf(&out, "%s%s[", i ? " " : "", layers[i].name);
        for (int b = 0; b < layers[i].nblobs; b++) {
            const struct stored_blob *blob = &layers[i].blobs[b];
            float values[32] = {0};
            char shape[128];

            ck_assert_uint_le(blob->elems, 32);
            ck_assert_msg(model_file_read(file, blob, values) == 0, "%s", error_text());
            strbuf_printf(&out, "%s%s%s=", b ? ";" : "", blob->legacy ? "old " : "",
                          stored_blob_shape(blob, shape, sizeof shape));
            for (uint64_t k = 0; k < blob->elems; k++)
                strbuf_printf(&out, "%s%g", k ? "," : "", (double)values[k]);
        }
        strbuf_puts(&out, "]");
    }
    return strbuf_take(&out);
}

static const struct {
    const char *file, *layers;
} models[] = {
    {"today.caffemodel", "data[] conv[2 1 3 3 (18)=1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9;2 "
                         "(2)=0.5,-0.25] ip[1 8 "
                         "(8)=1,1,1,1,1,1,1,1;1 (1)=3] gone[1 (1)=1]"},
    {"v1.caffemodel", "conv[old 2 1 3 3 (18)=1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9;old 1 1 "
                      "1 2 (2)=0.5,-0.25] "
                      "ip[old 1 1 1 8 (8)=1,1,1,1,1,1,1,1;old 1 1 1 1 (1)=3]"},
    {"v0.caffemodel", "conv[old 2 1 3 3 (18)=1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9;old 1 1 "
                      "1 2 (2)=0.5,-0.25] "
                      "ip[old 1 1 1 8 (8)=1,1,1,1,1,1,1,1;old 1 1 1 1 (1)=3]"},
    {"odd.caffemodel", "odd[2 (2)=0.1,2;2 2 (4)=1.5,2.5,3.5,4.5]"},
};

START_TEST(weights_of_every_form_are_found)
{
    struct model_file *file = open_model(data(models[_i].file));
    char *shown = show_layers(file);

    ck_assert_str_eq(shown, models[_i].layers);
    free(shown);
    model_file_close(file);
}
END_TEST

static const struct {
    const char *file, *net, *notices;
} nets[] = {
    {"today.caffemodel",
     "name: 'today' layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: [1, "
     "1, "
     "4, 4] } } } layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' phase: TRAIN "
     "convolution_param { num_output: 2 kernel_size: 3 } } layer { name: 'ip' type: 'InnerProduct' "
     "bottom: 'conv' top: 'ip' inner_product_param { num_output: 1 } } layer { name: 'gone' type: "
     "'InnerProduct' bottom: 'ip' }",
     ""},
    {"v1.caffemodel",
     "name: 'of 2014' layer { name: 'input' type: 'Input' top: 'data' input_param { shape { dim: "
     "[1, "
     "1, 4, 4] } } } layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' param { "
     "lr_mult: 1 } param { lr_mult: 2 } convolution_param { num_output: 2 kernel_size: 3 } } layer "
     "{ name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param { num_output: "
     "1 } }",
     "upgraded from the old form of Caffe's nets (layers)"},
    {"v0.caffemodel",
     "name: 'oldest' layer { name: 'input' type: 'Input' top: 'data' input_param { shape { dim: "
     "[1, "
     "1, 4, 4] } } } layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
     "convolution_param { num_output: 2 kernel_size: 3 } } layer { name: 'ip' type: 'InnerProduct' "
     "bottom: 'conv' top: 'ip' inner_product_param { num_output: 1 } }",
     "upgraded from the first form"},
    {"odd.caffemodel", "name: 'odd forms' layer { name: 'odd' type: 'Odd' }", ""},
};

START_TEST(net_inside_a_model_is_read_without_its_weights)
{
    struct strbuf found = {0}, expected = {0};
    struct text_doc *doc, *want;

    ck_assert_msg(spec_read_net(data(nets[_i].file), &doc) == 0, "%s", error_text());
    ck_assert_int_eq(text_read_string("F", nets[_i].net, strlen(nets[_i].net),
                                      &caffe__net_parameter__descriptor, &want),
                     0);
    print_message(&found, text_root(doc));
    print_message(&expected, text_root(want));
    ck_assert_str_eq(strbuf_text(&found), strbuf_text(&expected));
    ck_assert_msg(strstr(text_notices(doc), nets[_i].notices) != NULL, "%s", text_notices(doc));
    strbuf_free(&found);
    strbuf_free(&expected);
    text_free(doc);
    text_free(want);
}
END_TEST

START_TEST(number_without_a_name_in_a_net_is_refused)
{
    struct text_doc *doc;

    ck_assert_int_ne(spec_read_net(data("enum.caffemodel"), &doc), 0);
    assert_error("%s: unknown value 77 for field \"pool\" of \"caffe.PoolingParameter\"",
                 data("enum.caffemodel"));
}
END_TEST

START_TEST(what_is_no_model_is_told_apart)
{
    struct model_file *file;

    ck_assert_int_ne(model_file_open("/nowhere/x", &file), 0);
    assert_error("File not found: /nowhere/x");
    ck_assert_int_ne(model_file_open(folder, &file), 0);
    assert_error("%s: expected a plain file, found something else", folder);
    ck_assert_int_ne(model_file_open("/dev/null/x", &file), 0);
    assert_error("/dev/null/x: cannot be opened: Not a directory");
    ck_assert_int_ne(model_file_open(write_bytes(tmp("empty"), "", 0), &file), 0);
    assert_error("%s: expected a binary model (.caffemodel), found an empty file", tmp("empty"));
    ck_assert_int_ne(model_file_open(data("generate_models.py"), &file), 0);
    assert_error("%s: expected a binary model (.caffemodel), found a text",
                 data("generate_models.py"));
    ck_assert_int_ne(model_file_open(path_in(TEST_DATA, "solver/caffe.caffemodel.h5"), &file), 0);
    assert_error("%s: expected a binary model (.caffemodel), found an HDF5 file",
                 path_in(TEST_DATA, "solver/caffe.caffemodel.h5"));
    ck_assert_int_ne(model_file_open(data("state.solverstate"), &file), 0);
    assert_error("%s: expected a binary model (.caffemodel), found a solver state: give it to "
                 "--snapshot, or give the .caffemodel that belongs to it",
                 data("state.solverstate"));
    ck_assert_int_ne(model_file_open(data("mean.binaryproto"), &file), 0);
    assert_error("%s: expected a binary model (.caffemodel), found a single blob, such as a mean "
                 "image",
                 data("mean.binaryproto"));
    ck_assert_int_ne(model_file_open(write_bytes(tmp("none"),
                                                 "\x0a\x03"
                                                 "a\x01"
                                                 "b",
                                                 5),
                                     &file),
                     0);
    assert_error("%s: expected a binary model (.caffemodel), found no layer in it", tmp("none"));
}
END_TEST

static const struct {
    const char *bytes;
    size_t length;
    const char *what;
} damages[] = {
    {"\xa2\x06\x7f\x01", 4, "at byte 0: field 100 says it has 127 bytes, of which 1 are there"},
    {"\xa2\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 13,
     "at byte 0: field 100 says it has 18446744073709551615 bytes, of which 1 are there"},
    {"\xa2\x06\x02\x08\x01\x0a", 6, "at byte 6: a number that goes beyond the end of its message"},
    {"\x0a\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 14,
     "at byte 3: a number of more than 10 bytes"},
    {"\x0a\x01\x01\x00\x00", 5, "at byte 3: 0 where the number of a field is expected"},
    {"\x0a\x01\x01\x0b\x00", 5, "at byte 3: field 1 is of a kind (3) that is not used"},
    {"\x0a\x01\x01\x0d\x00\x00\x00", 7,
     "at byte 3: field 1 says it has 4 bytes, of which 3 are there"},
    {"\x0a\x01\x01\x09\x00\x00\x00", 7,
     "at byte 3: field 1 says it has 8 bytes, of which 3 are there"},
    /* three bytes of floats, in a blob of a layer */
    {"\xa2\x06\x07\x3a\x05\x2a\x03\x01\x02\x03", 10, "at byte 7: 3 bytes of values of 4 bytes"},
    {"\xa2\x06\x09\x3a\x07\x3a\x05\x0a\x03\x01\xff\xff", 12,
     "at byte 10: a number that goes beyond the end of its message"},
};

START_TEST(damage_is_named_with_its_place)
{
    const char *path = write_bytes(tmp("damaged"), damages[_i].bytes, damages[_i].length);
    struct model_file *file;

    ck_assert_int_ne(model_file_open(path, &file), 0);
    assert_error("%s: damaged or truncated %s", path, damages[_i].what);
}
END_TEST

START_TEST(blob_has_at_most_32_axes)
{
    unsigned char bytes[64] = {0xa2, 0x06, 39, 0x3a, 37, 0x3a, 35, 0x0a, 33};
    struct model_file *file;

    memset(bytes + 9, 1, 33);
    ck_assert_int_ne(model_file_open(write_bytes(tmp("axes"), bytes, 42), &file), 0);
    assert_error("%s: damaged or truncated at byte 41: a blob of more than 32 axes", tmp("axes"));
}
END_TEST

/* Everything that a reader does with a file. */
static void use(const char *path)
{
    struct model_file *file;
    struct state_file *state;
    struct text_doc *doc;
    int count;

    if (model_file_open(path, &file) == 0) {
        const struct stored_layer *layers = model_file_layers(file, &count);

        for (int i = 0; i < count; i++)
            for (int b = 0; b < layers[i].nblobs; b++) {
                float *values = malloc((size_t)layers[i].blobs[b].elems * sizeof *values + 1);

                ck_assert_int_eq(model_file_read(file, &layers[i].blobs[b], values), 0);
                free(values);
            }
        if (model_file_net(file, &doc) == 0)
            text_free(doc);
        model_file_close(file);
    }
    if (state_file_open(path, &state) == 0)
        state_file_close(state);
    if (spec_read_net(path, &doc) == 0)
        text_free(doc);
}

static const char *const small_files[] = {"today.caffemodel", "v1.caffemodel", "v0.caffemodel",
                                          "odd.caffemodel", "state.solverstate"};

START_TEST(file_cut_anywhere_does_no_harm)
{
    unsigned char bytes[4096];
    size_t length = read_bytes(data(small_files[_i]), bytes, sizeof bytes);

    for (size_t cut = 0; cut < length; cut++)
        use(write_bytes(tmp("cut"), bytes, cut));
}
END_TEST

START_TEST(file_with_one_wrong_byte_does_no_harm)
{
    static const unsigned char wrong[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
    unsigned char bytes[4096];
    size_t length = read_bytes(data(small_files[_i]), bytes, sizeof bytes);

    for (size_t at = 0; at < length; at++)
        for (int w = 0; w < COUNT(wrong); w++) {
            unsigned char right = bytes[at];

            bytes[at] = wrong[w];
            use(write_bytes(tmp("wrong"), bytes, length));
            bytes[at] = right;
        }
}
END_TEST

/* Appends a field of `length` bytes, without the bytes. */
static void put_head(FILE *file, uint32_t number, uint64_t length)
{
    unsigned char bytes[20];
    size_t n = proto_put_varint(bytes, (uint64_t)number << 3 | PROTO_BYTES);

    n += proto_put_varint(bytes + n, length);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
}

START_TEST(model_of_more_than_2_GB_is_read)
{
    const uint64_t huge = ((uint64_t)5 << 29) + 12; /* 2.5 GB of floats, a hole in the file */
    FILE *file = fopen(tmp("huge"), "wb");
    struct model_file *model;
    const struct stored_layer *layers;
    float value;
    int count;

    put_head(file, 100, 2 + 1 + 6 + huge + 6);
    put_head(file, 1, 1);
    fputc('a', file);
    put_head(file, 7, huge + 6);
    put_head(file, 5, huge);
    ck_assert_int_eq(fseeko(file, (off_t)huge, SEEK_CUR), 0);
    put_head(file, 100, 2 + 1 + 2 + 6);
    put_head(file, 1, 1);
    fputc('b', file);
    put_head(file, 7, 6);
    put_head(file, 5, 4);
    ck_assert_uint_eq(fwrite("\0\0\x80\x3f", 1, 4, file), 4);
    ck_assert_int_eq(fclose(file), 0);

    model = open_model(tmp("huge"));
    layers = model_file_layers(model, &count);
    ck_assert_int_eq(count, 2);
    ck_assert_uint_eq(layers[0].blobs[0].elems, huge / 4);
    ck_assert_str_eq(layers[1].name, "b");
    ck_assert_int_eq(model_file_read(model, &layers[1].blobs[0], &value), 0);
    ck_assert_float_eq(value, 1);
    model_file_close(model);
    unlink(tmp("huge"));
}
END_TEST

START_TEST(real_models_hold_what_protoc_reads_in_them)
{
    const char *root = getenv("POSEIDON_DATA"), *opened = "";
    const struct stored_layer *layers = NULL;
    struct model_file *file = NULL;
    int count = 0, layer = 0, blob = 0;

    if (root == NULL) {
        puts("POSEIDON_DATA is not set: real models are not read");
        return;
    }
    for (int i = 0; i < COUNT(real_weights); i++, blob++) {
        const struct stored_blob *stored;
        double sum = 0, magnitudes = 0;
        char shape[128], path[1024];
        float *values;

        if (strcmp(opened, real_weights[i].file) != 0) {
            snprintf(path, sizeof path, "%s/caffe-weights/%s", root, real_weights[i].file);
            model_file_close(file);
            file = open_model(path);
            layers = model_file_layers(file, &count);
            opened = real_weights[i].file;
            layer = blob = 0;
        }
        while (layer < count && blob == layers[layer].nblobs) {
            layer++;
            blob = 0;
        }
        ck_assert_int_lt(layer, count);
        ck_assert_str_eq(layers[layer].name, real_weights[i].layer);
        stored = &layers[layer].blobs[blob];
        ck_assert_str_eq(stored_blob_shape(stored, shape, sizeof shape), real_weights[i].shape);
        values = malloc((size_t)stored->elems * sizeof *values);
        ck_assert_int_eq(model_file_read(file, stored, values), 0);
        for (uint64_t k = 0; k < stored->elems; k++) {
            sum += (double)values[k];
            magnitudes += fabs((double)values[k]);
        }
        ck_assert_double_eq_tol(sum, real_weights[i].sum, 1e-6 * real_weights[i].sum_of_magnitudes);
        ck_assert_double_eq_tol(magnitudes, real_weights[i].sum_of_magnitudes,
                                1e-6 * real_weights[i].sum_of_magnitudes);
        free(values);
    }
    model_file_close(file);
}
END_TEST

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
        snapshot_read_model(write_bytes(tmp("short"), bytes, sizeof bytes - 1), &layer, 1, NULL),
        0);
    assert_error("%s: param 0 of layer 'ip' holds 1 values; its shape has 2", tmp("short"));
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
    struct net_state state = net_state_make(CAFFE__PHASE__TRAIN);
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
    ck_assert_int_eq(net_def_create(doc, spec_net(doc), &state, &def), 0);
    ck_assert_int_eq(def->nlayers, 4);
    ck_assert_msg(snapshot_write_model_binary(tmp("w.caffemodel"), NULL, def, layers, 4) == 0, "%s",
                  error_text());
    layers[1].blobs[0].data = w2;
    layers[1].blobs[1].data = b2;
    ck_assert_int_eq(snapshot_read_model(tmp("w.caffemodel"), layers, 4, NULL), 0);
    ck_assert_mem_eq(w, w2, sizeof w);
    ck_assert_mem_eq(b, b2, sizeof b);
    ck_assert_int_eq(spec_read_net(tmp("w.caffemodel"), &back), 0);
    ck_assert_uint_eq(spec_net(back)->n_layer, 4);
    if (have_protoc())
        ck_assert_str_eq(
            decode(tmp("w.caffemodel"), "NetParameter"),
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

START_TEST(damage_to_what_we_wrote_is_found)
{
    unsigned char bytes[4096];
    struct small net;
    size_t length;
    int found = 0;

    make_small(&net);
    ck_assert_int_eq(snapshot_write_model_binary(tmp("d.caffemodel"), NULL, NULL, net.layers, 4),
                     0);
    length = read_bytes(tmp("d.caffemodel"), bytes, sizeof bytes);
    for (size_t at = 0; at < length; at++) {
        bytes[at] ^= 4;
        write_bytes(tmp("e.caffemodel"), bytes, length);
        bytes[at] ^= 4;
        /* of the seal's own first three bytes, a change makes it another field, unknown and passed
         * over */
        if (snapshot_read_model(tmp("e.caffemodel"), net.layers, 4, NULL) == 0)
            ck_assert_msg(at >= length - 35 && at < length - 32, "byte %zu of %zu", at, length);
        else
            found += strstr(error_text(), "damaged") != NULL;
    }
    ck_assert_int_gt(found, 100);
}
END_TEST

START_TEST(scalars_and_empty_blobs_are_written_as_they_are)
{
    static const struct shape scalar = {0, {0}}, empty = {2, {0, 3}};
    float one[1] = {4}, none[1], back[1] = {0};
    struct snapshot_layer layer = {"l", 2, {{&scalar, one, false}, {&empty, none, false}}};

    ck_assert_int_eq(snapshot_write_model_binary(tmp("s.caffemodel"), NULL, NULL, &layer, 1), 0);
    layer.blobs[0].data = back;
    ck_assert_msg(snapshot_read_model(tmp("s.caffemodel"), &layer, 1, NULL) == 0, "%s",
                  error_text());
    ck_assert_float_eq(back[0], 4);
}
END_TEST

START_TEST(two_layers_of_one_name_with_weights_are_not_written)
{
    struct small net;

    make_small(&net);
    net.layers[3].name = "ip";
    ck_assert_int_ne(snapshot_write_model_binary(tmp("t.caffemodel"), NULL, NULL, net.layers, 4),
                     0);
    assert_error("the model cannot be saved: %s: two layers named 'ip' have parameters; a snapshot "
                 "holds one layer of a name, rename the other",
                 tmp("t.caffemodel"));
    ck_assert_int_ne(access(tmp("t.caffemodel"), F_OK), 0);
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
    ck_assert(!state.has_data_cursor && !state.has_random_seed);
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
                                   .data_cursor = UINT64_MAX - 1,
                                   .has_random_seed = true,
                                   .random_seed = -5},
                          back;

    ck_assert_int_eq(snapshot_write_state_binary(tmp("w.solverstate"), &state, history, 2), 0);
    history[0].data = a2;
    history[1].data = b2;
    ck_assert_msg(snapshot_read_state(tmp("w.solverstate"), &back, history, 2) == 0, "%s",
                  error_text());
    ck_assert_int_eq(back.iter, 300);
    ck_assert_int_eq(back.current_step, 1);
    ck_assert_str_eq(back.learned_net, "m.caffemodel");
    ck_assert(back.has_data_cursor && back.data_cursor == UINT64_MAX - 1);
    ck_assert(back.has_random_seed && back.random_seed == -5);
    ck_assert_mem_eq(a, a2, sizeof a);
    ck_assert_mem_eq(b, b2, sizeof b);
    snapshot_state_free(&back);
    if (have_protoc())
        ck_assert_str_eq(
            decode(tmp("w.solverstate"), "SolverState"),
            "iter: 300\nlearned_net: \"m.caffemodel\"\nhistory {\n  data: 1\n  data: "
            "2\n  data: 3\n  data: 4\n  data: 5\n  data: 6\n  shape {\n    dim: 2\n    "
            "dim: 3\n  }\n}\nhistory {\n  data: 7\n  data: 8\n  shape {\n    dim: 2\n  "
            "}\n}\ncurrent_step: 1\n1000: 18446744073709551614\n1001: "
            "18446744073709551611\n1002: ");
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
                 "state of another net or another type of solver",
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
    struct state_file *file;

    ck_assert_int_ne(snapshot_read_state(data("today.caffemodel"), &state, NULL, 0), 0);
    assert_error(
        "%s is a model, not a solver state: give it to --weights, or give the .solverstate "
        "that belongs to it",
        data("today.caffemodel"));
    ck_assert_int_ne(snapshot_read_state(data("mean.binaryproto"), &state, NULL, 0), 0);
    assert_error("%s: expected a solver state (.solverstate), found something else",
                 data("mean.binaryproto"));
    ck_assert_int_ne(state_file_open(write_bytes(tmp("empty"), "", 0), &file), 0);
    assert_error("%s: expected a solver state, found an empty file", tmp("empty"));
    ck_assert_int_ne(
        state_file_open(write_bytes(tmp("neg"), "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11),
                        &file),
        0);
    assert_error("%s: iter is -1 and current_step 0; expected 0 or more", tmp("neg"));
}
END_TEST

static TCase *files_case(void)
{
    TCase *tcase = tcase_create("files");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, weights_of_every_form_are_found, 0, COUNT(models));
    tcase_add_loop_test(tcase, net_inside_a_model_is_read_without_its_weights, 0, COUNT(nets));
    tcase_add_test(tcase, number_without_a_name_in_a_net_is_refused);
    tcase_add_test(tcase, what_is_no_model_is_told_apart);
    tcase_add_loop_test(tcase, damage_is_named_with_its_place, 0, COUNT(damages));
    tcase_add_test(tcase, blob_has_at_most_32_axes);
    tcase_add_loop_test(tcase, file_cut_anywhere_does_no_harm, 0, COUNT(small_files));
    tcase_add_loop_test(tcase, file_with_one_wrong_byte_does_no_harm, 0, COUNT(small_files));
    tcase_add_test(tcase, model_of_more_than_2_GB_is_read);
    tcase_add_test(tcase, real_models_hold_what_protoc_reads_in_them);
    return tcase;
}

static TCase *snapshots_case(void)
{
    TCase *tcase = tcase_create("snapshots");

    tcase_add_loop_test(tcase, weights_go_to_layers_of_their_names, 0, 3);
    tcase_add_test(tcase, weights_of_another_shape_are_refused_with_both_shapes);
    tcase_add_test(tcase, number_of_blobs_must_match);
    tcase_add_test(tcase, blob_with_fewer_values_than_its_shape_is_refused);
    tcase_add_test(tcase, of_two_layers_with_one_name_the_one_with_weights_counts);
    tcase_add_test(tcase, written_model_is_read_by_protoc_and_by_us);
    tcase_add_test(tcase, damage_to_what_we_wrote_is_found);
    tcase_add_test(tcase, scalars_and_empty_blobs_are_written_as_they_are);
    tcase_add_test(tcase, two_layers_of_one_name_with_weights_are_not_written);
    tcase_add_test(tcase, file_that_cannot_be_written_is_named);
    tcase_add_test(tcase, state_of_caffe_is_read);
    tcase_add_test(tcase, written_state_is_read_by_protoc_and_by_us);
    tcase_add_test(tcase, state_of_another_net_is_refused);
    tcase_add_test(tcase, what_is_no_state_is_told_apart);
    return tcase;
}

SUITE_IN(folder, "models")
{
    suite_add_tcase(suite, files_case());
    suite_add_tcase(suite, snapshots_case());
}
