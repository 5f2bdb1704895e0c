/* The layers that read samples from files, in nets: Data over data bases, ImageData. */
#include "input/feeder.h"
#include "tests/input/layers_common.h"
#include "util/file.h"

#include <math.h>
#include <unistd.h>

#define BATCHES 5

START_TEST(data_reads_lmdb_by_content_whatever_the_backend_says)
{
    expect_ok(make("layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: "
                   "'lmdb_raw' batch_size: 7 backend: LEVELDB } transform_param { scale: 0.5 "
                   "mean_value: 4 } }",
                   true, 1, 3, 0));
    ck_assert_str_eq(shape_of(made.net, "data"), "7 1 2 3");
    ck_assert_str_eq(shape_of(made.net, "label"), "7");
    build();
    for (int p = 0; p < BATCHES; p++) {
        pass(0);
        float *data = values_of("data"), *label = values_of("label");
        for (int k = 0; k < 7; k++) {
            int i = ((p * 3 + 1) * 7 + k) % 600;
            ck_assert_float_eq(label[k], (float)(i % 10));
            for (int e = 0; e < 6; e++)
                ck_assert_float_eq(data[6 * k + e], ((float)((7 * i + e) % 256) - 4) * 0.5f);
        }
        free(data);
        free(label);
    }
}
END_TEST

START_TEST(data_reads_leveldb)
{
    int status =
        make("layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: "
             "'leveldb_raw' batch_size: 50 } }",
             true, 0, 1, 0);

    if (status && strstr(error_text(), "built without libleveldb"))
        return;
    expect_ok(status);
    build();
    pass(0);
    pass(50);
    float *label = values_of("label"), *data = values_of("data");
    for (int k = 0; k < 50; k++) {
        ck_assert_float_eq(label[k], (float)((50 + k) % 60 % 10));
        ck_assert_float_eq(data[6 * k], (float)((50 + k) % 60 * 7 % 256));
    }
    free(label);
    free(data);
}
END_TEST

START_TEST(data_decodes_encoded_images_to_the_forced_colours)
{
    static const char *const force[] = {"force_color: true", "force_gray: true"};

    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    for (int k = 0; k < 2; k++) {
        char text[400];
        snprintf(text, sizeof text,
                 "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: "
                 "'lmdb_mixed' batch_size: 4 backend: LMDB } transform_param { %s } }",
                 force[k]);
        expect_ok(make(text, true, 0, 1, 0));
        ck_assert_str_eq(shape_of(made.net, "data"), k ? "4 1 23 37" : "4 3 23 37");
        build();
        pass(0);
        float *data = values_of("data");
        if (!k) /* the grey JPEG has three equal channels */
            ck_assert_mem_eq(data + 3 * 851, data + 4 * 851, 851 * sizeof(float));
        free(data);
    }
    expect_ok(make("layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'lmdb_mixed' "
                   "batch_size: 4 } }",
                   true, 0, 1, 0));
    build();
    expect_error(net_forward(made.net, &(struct pass){.seed = 1}, NULL, NULL), "layer 'd'",
                 "lmdb_mixed", "record 1", "1x23x37", "3x23x37", "force_color");
    expect_error(
        make("layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'lmdb_mixed' "
             "batch_size: 4 } transform_param { force_color: true force_gray: true } }",
             true, 0, 1, 0),
        "layer 'd'", "both force_color and force_gray");
}
END_TEST

START_TEST(data_without_its_source_names_layer_and_path)
{
    expect_error(
        make("layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'nowhere_lmdb' "
             "batch_size: 4 backend: LMDB } }",
             true, 0, 1, 0),
        "test.prototxt:1", "layer 'd' (Data)", "nowhere_lmdb", "no such file");
    expect_error(
        make("layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'lmdb_empty' "
             "batch_size: 4 } }",
             true, 0, 1, 0),
        "layer 'd'", "without records");
    expect_error(make("layer { name: 'd' type: 'Data' top: 'data' data_param { batch_size: 4 } }",
                      true, 0, 1, 0),
                 "source is missing");
    expect_error(
        make("layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'lmdb_raw' } }", true,
             0, 1, 0),
        "batch_size is missing");
}
END_TEST

START_TEST(fields_without_effect_are_said_aloud)
{
    expect_ok(make("layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'lmdb_raw' "
                   "batch_size: 4 force_encoded_color: true scale: 2 } }",
                   true, 0, 1, 0));
    ck_assert_ptr_nonnull(strstr(made.notices, "layer 'd': force_encoded_color of data_param"));
    ck_assert_ptr_nonnull(strstr(made.notices, "have no effect in data_param, as in Caffe; they "
                                               "belong in transform_param"));
    struct layer_env look = {.nranks = 1, .look_only = true};
    unmake_net(&made);
    expect_ok(make_net(&made,
                       "layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' "
                       "image_data_param { batch_size: 4 crop_size: 2 } }",
                       true, &look, NULL));
    ck_assert_ptr_nonnull(strstr(made.notices, "layer 'i': scale, mean_file, crop_size and mirror "
                                               "have no effect in image_data_param, as in Caffe"));
    unmake_net(&made);
    expect_ok(make_net(&made,
                       "layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' "
                       "memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 } "
                       "transform_param { crop_size: 2 } blobs { data: 1 } }",
                       true, &look, NULL));
    ck_assert_str_eq(made.notices, "layer 'm': the values in blobs { } are not used: "
                                   "--weights=FILE starts from weights\n"
                                   "layer 'm': transform_param has no effect in a layer of type "
                                   "MemoryData\n");
}
END_TEST

START_TEST(rand_skip_moves_all_ranks_and_jumps_alike)
{
    float first[2][2];

    for (int rank = 0; rank < 2; rank++) {
        expect_ok(
            make("layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: "
                 "'lmdb_raw' batch_size: 4 rand_skip: 500 } }",
                 true, rank, 2, 0));
        build();
        for (int round = 0; round < 2; round++) {
            pass(0);
            float *data = values_of("data");
            first[rank][round] = data[0];
            free(data);
            expect_ok(net_seek(made.net, 0));
        }
        ck_assert_float_eq(first[rank][0], first[rank][1]);
    }
    ck_assert_float_ne(first[0][0], 0); /* record 0 begins with 0 */
    ck_assert_int_eq((int)(first[0][0] + 28) % 256, (int)first[1][0]);
}
END_TEST

START_TEST(without_a_shared_file_system_each_rank_reads_its_own_source)
{
    static const char text[] =
        "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: '%s/part' "
        "batch_size: 4 shared_file_system: false } }";
    char net[600], from[400], to[400];

    for (int rank = 0; rank < 2; rank++) {
        snprintf(from, sizeof from, "%s", fixture(rank ? "lmdb_float" : "lmdb_raw"));
        snprintf(to, sizeof to, "%s/part_%d", folder, rank);
        ck_assert_int_eq(symlink(from, to), 0);
    }
    snprintf(net, sizeof net, text, folder);
    for (int rank = 0; rank < 2; rank++) {
        expect_ok(make(net, true, rank, 2, 0));
        ck_assert_str_eq(shape_of(made.net, "data"), rank ? "4 2 3 4" : "4 1 2 3");
        build();
        pass(0);
        pass(0);
        float *label = values_of("label"); /* of its own samples 4 to 7 */
        for (int k = 0; k < 4; k++)
            ck_assert_float_eq(label[k], rank ? -(float)((4 + k) % 5) : (float)(4 + k));
        free(label);
        expect_ok(net_seek(made.net, 16)); /* two passes of two ranks */
        pass(0);
        label = values_of("label");
        ck_assert_float_eq(label[0], rank ? -3.0f : 8.0f);
        free(label);
    }
    expect_error(make(net, true, 2, 3, 0), "layer 'd'", "part_2", "no such file");
}
END_TEST

static const char image_data[] =
    "layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' image_data_param { source: "
    "'%s/list.txt' batch_size: %d root_folder: 'images/' new_height: 10 new_width: 12 %s } "
    "transform_param { mean_value: 1 mean_value: 2 mean_value: 3 } }";

static int make_image_data(int batch, const char *more, int rank, int nranks)
{
    char text[800], path[300];
    FILE *file;

    snprintf(path, sizeof path, "%s/list.txt", folder);
    file = fopen(path, "w");
    fputs("color.png 0\ncolor.jpg 1\ngray.jpg 2\npalette.png 3\nalpha.png 4\n", file);
    fclose(file);
    snprintf(text, sizeof text, image_data, folder, batch, more);
    return make(text, true, rank, nranks, 0);
}

START_TEST(image_data_gives_resized_blue_green_red_minus_mean)
{
    struct strbuf file = {0};
    struct image image = {.channels = 0}, small = {.channels = 0};

    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    expect_ok(make_image_data(2, "", 0, 1));
    ck_assert_str_eq(shape_of(made.net, "data"), "2 3 10 12");
    build();
    pass(0);
    float *data = values_of("data"), *label = values_of("label");
    ck_assert(label[0] == 0 && label[1] == 1);
    expect_ok(file_load(&file, fixture("images/color.png"), 1 << 20));
    expect_ok(image_decode(file.bytes, file.length, IMAGE_COLOR, &image));
    expect_ok(image_resize(&image, 10, 12, &small));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 120; i++)
            ck_assert_float_eq(data[c * 120 + i],
                               (float)small.pixels.bytes[3 * i + c] - (float)(c + 1));
    free(data);
    free(label);
    strbuf_free(&file);
    image_free(&image);
    image_free(&small);
}
END_TEST

START_TEST(image_data_shuffles_every_epoch_the_same_at_any_number_of_ranks)
{
    float one[40], many[40];
    int moved = 0;

    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    for (int nranks = 1; nranks <= 2; nranks++)
        for (int rank = 0; rank < nranks; rank++) {
            int batch = 4 / nranks;

            expect_ok(make_image_data(batch, "shuffle: true", rank, nranks));
            build();
            for (int p = 0; p < 10; p++) {
                pass(0);
                float *label = values_of("label");
                memcpy((nranks == 1 ? one : many) + p * 4 + rank * batch, label,
                       (size_t)batch * sizeof *label);
                free(label);
            }
        }
    ck_assert_mem_eq(one, many, sizeof one);
    for (int epoch = 0; epoch < 8; epoch++) {
        int seen = 0;
        for (int k = 0; k < 5; k++) {
            seen |= 1 << (int)one[5 * epoch + k];
            moved += one[5 * epoch + k] != (float)k;
        }
        ck_assert_int_eq(seen, 31);
    }
    ck_assert_int_gt(moved, 15);
}
END_TEST

START_TEST(image_data_with_a_label_size_gives_as_many_reals)
{
    static const float expected[] = {0.3F, 12, -1, 1e-3F, 0, 16777216, 0.5F, 0.25F, 4};
    char text[800], path[300];
    FILE *file;

    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    snprintf(path, sizeof path, "%s/list.txt", folder);
    file = fopen(path, "w");
    fputs("color.png 0.3 12 -1\n\"color.jpg\"\t1e-3 0  16777216\ngray.jpg .5 0.25 4 \r\n", file);
    fclose(file);
    snprintf(text, sizeof text, image_data, folder, 2, "label_size: 3");
    expect_ok(make(text, true, 0, 1, 0));
    ck_assert_str_eq(shape_of(made.net, "label"), "2 3");
    build();
    for (int p = 0; p < 6; p++) {
        pass(0);
        float *label = values_of("label");
        for (int i = 0; i < 6; i++)
            ck_assert_float_eq(label[i], expected[(6 * p + i) % 9]);
        free(label);
    }
}
END_TEST

START_TEST(image_data_grey_and_bad_definitions)
{
    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    expect_error(make_image_data(2, "is_color: false", 0, 1), "3 mean_value for 1 channels");
    expect_error(
        make("layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' image_data_param { "
             "source: 'x' new_height: 5 } }",
             true, 0, 1, 0),
        "new_height is 5 and new_width 0", "both or neither");
    expect_error(
        make("layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' }", true, 0, 1, 0),
        "source is missing");
    expect_error(
        make("layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' image_data_param { "
             "source: 'nowhere.txt' } }",
             true, 0, 1, 0),
        "layer 'i'", "nowhere.txt", "no such file");
}
END_TEST

/* Two layers of one data base: `second` is in place of the second one's transform. */
static void make_two(const char *second)
{
    char text[800];

    snprintf(text, sizeof text,
             "layer { name: 'a' type: 'Data' top: 'a' data_param { source: 'lmdb_raw' batch_size: "
             "9 } transform_param { crop_size: 2 mirror: true } }\n"
             "layer { name: 'b' type: 'Data' top: 'b' data_param { source: 'lmdb_raw' batch_size: "
             "9 rand_skip: 40 } transform_param { %s } }",
             second);
    expect_ok(make(text, true, 0, 1, 0));
    build();
}

START_TEST(layers_side_by_side_draw_alike)
{
    int apart = 0;

    make_two("crop_size: 2 mirror: true scale: 2 mean_value: 1");
    for (int p = 0; p < BATCHES; p++) {
        pass(0);
        float *a = values_of("a"), *b = values_of("b");
        for (int i = 0; i < 36; i++)
            ck_assert_float_eq((a[i] - 1) * 2, b[i]);
        free(a);
        free(b);
    }
    make_two("crop_size: 2"); /* the same window, not mirrored */
    for (int p = 0; p < BATCHES; p++) {
        pass(0);
        float *a = values_of("a"), *b = values_of("b");
        for (int i = 0; i < 36; i += 2) {
            bool mirrored = a[i] != b[i];
            ck_assert_float_eq(a[i], b[i + mirrored]);
            ck_assert_float_eq(a[i + 1], b[i + !mirrored]);
            apart += mirrored;
        }
        free(a);
        free(b);
    }
    ck_assert_int_gt(apart, 9);
}
END_TEST

START_TEST(looking_only_takes_shapes_from_the_definition)
{
    struct layer_env env = {.nranks = 1, .seed = 1, .look_only = true};

    expect_ok(make_net(&made,
                       "layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' "
                       "image_data_param { source: 'nowhere' new_height: 30 new_width: 40 } }",
                       true, &env, NULL));
    ck_assert_str_eq(shape_of(made.net, "data"), "1 3 30 40");
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
    expect_ok(make_net(&made,
                       "layer { name: 'i' type: 'ImageData' top: 'data' top: 'label' "
                       "image_data_param { source: 'nowhere' is_color: false } }",
                       true, &env, NULL));
    ck_assert_str_eq(shape_of(made.net, "data"), "1 1 224 224");
    ck_assert_ptr_nonnull(strstr(made.notices, "assuming images of 1 channel, 224 x 224"));
    unmake_net(&made);
    expect_ok(make_net(&made,
                       "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'none' "
                       "batch_size: 3 } transform_param { crop_size: 50 force_gray: true } }",
                       true, &env, NULL));
    ck_assert_str_eq(shape_of(made.net, "data"), "3 1 50 50");
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
    expect_ok(make_net(&made,
                       "layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' "
                       "memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 } }",
                       true, &env, NULL));
    ck_assert_str_eq(shape_of(made.net, "data"), "2 3 4 5");
    ck_assert_str_eq(shape_of(made.net, "label"), "2");
}
END_TEST

SUITE("input_layers")
{
    TCase *tcase = suite_case(suite, "layers");

    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_test(tcase, data_reads_lmdb_by_content_whatever_the_backend_says);
    tcase_add_test(tcase, data_reads_leveldb);
    tcase_add_test(tcase, data_decodes_encoded_images_to_the_forced_colours);
    tcase_add_test(tcase, data_without_its_source_names_layer_and_path);
    tcase_add_test(tcase, fields_without_effect_are_said_aloud);
    tcase_add_test(tcase, rand_skip_moves_all_ranks_and_jumps_alike);
    tcase_add_test(tcase, without_a_shared_file_system_each_rank_reads_its_own_source);
    tcase_add_test(tcase, image_data_gives_resized_blue_green_red_minus_mean);
    tcase_add_test(tcase, image_data_shuffles_every_epoch_the_same_at_any_number_of_ranks);
    tcase_add_test(tcase, image_data_with_a_label_size_gives_as_many_reals);
    tcase_add_test(tcase, image_data_grey_and_bad_definitions);
    tcase_add_test(tcase, layers_side_by_side_draw_alike);
    tcase_add_test(tcase, looking_only_takes_shapes_from_the_definition);
}
