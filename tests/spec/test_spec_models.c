/* Binary models and solver states as files: small ones that protoc wrote, real ones where
 * POSEIDON_DATA has them, damaged ones. */
#include "snapshot/snapshot.h"
#include "spec/modelfile.h"
#include "spec/print.h"
#include "spec/read.h"
#include "spec/proto.h"
#include "tests/spec/models_common.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/data/spec/real_weights.h"

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

    ck_assert_msg(spec_read_net_of(data(nets[_i].file), NULL, false, &doc) == 0, "%s",
                  error_text());
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

    ck_assert_int_ne(spec_read_net_of(data("enum.caffemodel"), NULL, false, &doc), 0);
    assert_error("%s: unknown value 77 for field \"pool\" of \"caffe.PoolingParameter\"",
                 data("enum.caffemodel"));
}
END_TEST

START_TEST(what_is_no_model_is_told_apart)
{
    struct model_file *file;

    ck_assert_int_ne(model_file_open("/nowhere/x", &file), 0);
    assert_error("/nowhere/x: no such file");
    ck_assert_int_ne(model_file_open(folder, &file), 0);
    assert_error("%s: expected a plain file, found something else", folder);
    ck_assert_int_ne(model_file_open("/dev/null/x", &file), 0);
    assert_error("/dev/null/x: cannot be opened: Not a directory");
    ck_assert_int_ne(model_file_open(file_put("empty", "", 0), &file), 0);
    assert_error("%s: expected a binary model (.caffemodel), found an empty file",
                 in_folder("empty"));
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
    ck_assert_int_ne(model_file_open(file_put("none",
                                              "\x0a\x03"
                                              "a\x01"
                                              "b",
                                              5),
                                     &file),
                     0);
    assert_error("%s: expected a binary model (.caffemodel), found no layer in it",
                 in_folder("none"));
}
END_TEST

static const struct {
    const char *bytes;
    size_t length;
    const char *what;
} damages[] = {
    {"\xa2\x06\x7f\x01", 4, "at byte 0: field 100 claims 127 bytes, but only 1 are left"},
    {"\xa2\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x01", 13,
     "at byte 0: field 100 claims 18446744073709551615 bytes, but only 1 are left"},
    {"\xa2\x06\x02\x08\x01\x0a", 6, "at byte 6: a number that goes beyond the end of its message"},
    {"\x0a\x01\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 14,
     "at byte 3: a number of more than 10 bytes"},
    {"\x0a\x01\x01\x00\x00", 5, "at byte 3: 0 where the number of a field is expected"},
    {"\x0a\x01\x01\x0b\x00", 5, "at byte 3: field 1 has the unknown wire type 3"},
    {"\x0a\x01\x01\x0d\x00\x00\x00", 7, "at byte 3: field 1 claims 4 bytes, but only 3 are left"},
    {"\x0a\x01\x01\x09\x00\x00\x00", 7, "at byte 3: field 1 claims 8 bytes, but only 3 are left"},
    /* three bytes of floats, in a blob of a layer */
    {"\xa2\x06\x07\x3a\x05\x2a\x03\x01\x02\x03", 10,
     "at byte 7: 3 bytes of values, where a value has 4 bytes"},
    {"\xa2\x06\x09\x3a\x07\x3a\x05\x0a\x03\x01\xff\xff", 12,
     "at byte 10: a number that goes beyond the end of its message"},
};

START_TEST(damage_is_named_with_its_place)
{
    const char *path = file_put("damaged", damages[_i].bytes, damages[_i].length);
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
    ck_assert_int_ne(model_file_open(file_put("axes", bytes, 42), &file), 0);
    assert_error("%s: damaged or truncated at byte 41: a blob of more than 32 axes",
                 in_folder("axes"));
}
END_TEST

/* Everything that a reader does with a file. */
static void use(const char *path)
{
    struct model_file *file;
    struct snapshot_state state;
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
    if (snapshot_peek_state(path, &state) == 0)
        snapshot_state_free(&state);
    if (spec_read_net_of(path, NULL, false, &doc) == 0)
        text_free(doc);
}

static const char *const small_files[] = {"today.caffemodel", "v1.caffemodel", "v0.caffemodel",
                                          "odd.caffemodel", "state.solverstate"};

START_TEST(file_cut_anywhere_does_no_harm)
{
    unsigned char bytes[4096];
    size_t length = read_bytes(data(small_files[_i]), bytes, sizeof bytes);

    for (size_t cut = 0; cut < length; cut++)
        use(file_put("cut", bytes, cut));
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
            use(file_put("wrong", bytes, length));
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
    FILE *file = fopen(in_folder("huge"), "wb");
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

    model = open_model(in_folder("huge"));
    layers = model_file_layers(model, &count);
    ck_assert_int_eq(count, 2);
    ck_assert_uint_eq(layers[0].blobs[0].elems, huge / 4);
    ck_assert_str_eq(layers[1].name, "b");
    ck_assert_int_eq(model_file_read(model, &layers[1].blobs[0], &value), 0);
    ck_assert_float_eq(value, 1);
    model_file_close(model);
    unlink(in_folder("huge"));
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

SUITE_IN(folder, "models")
{
    TCase *tcase = suite_case(suite, "files");

    suite_table(tcase, weights_of_every_form_are_found, models);
    suite_table(tcase, net_inside_a_model_is_read_without_its_weights, nets);
    tcase_add_test(tcase, number_without_a_name_in_a_net_is_refused);
    tcase_add_test(tcase, what_is_no_model_is_told_apart);
    suite_table(tcase, damage_is_named_with_its_place, damages);
    tcase_add_test(tcase, blob_has_at_most_32_axes);
    suite_table(tcase, file_cut_anywhere_does_no_harm, small_files);
    suite_table(tcase, file_with_one_wrong_byte_does_no_harm, small_files);
    tcase_add_test(tcase, model_of_more_than_2_GB_is_read);
    tcase_add_test(tcase, real_models_hold_what_protoc_reads_in_them);
}
