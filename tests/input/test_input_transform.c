/* transform_param against closed forms and numpy (tests/data/input/generate.py). */
#include "input/feeder.h"
#include "tests/input/test_input_common.h"
#include "tests/suite.h"

#define SEED  0x123456789ABCDEF0u
#define LAYER 7
#define FIRST (((uint64_t)1 << 33) - 10)

static const struct shape image = {3, {3, 9, 12}};

static Caffe__TransformationParameter param_make(void)
{
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;

    return param;
}

/* A data set of transform.h5, freed by the caller. */
static void *reference(const char *name, hid_t type, size_t size)
{
    return read_fixture("transform.h5", name, type, size);
}

/* All 20 images through the transform equal the reference, to the bit. */
static void expect_reference(const Caffe__TransformationParameter *param, bool train, bool floats,
                             const char *name)
{
    struct transform t;
    size_t in = shape_elems(&image), out;
    char *x = floats ? reference("xf", H5T_NATIVE_FLOAT, sizeof(float))
                     : reference("x", H5T_NATIVE_UINT8, 1);
    float *expected = reference(name, H5T_NATIVE_FLOAT, sizeof(float)), *y;

    expect_ok(transform_create(param, &image, train, NULL, &t));
    out = shape_elems(&t.out);
    y = malloc(out * sizeof *y);
    for (uint64_t i = 0; i < 20; i++) {
        struct record record = {.shape = image,
                                .type = floats ? SOURCE_F32 : SOURCE_U8,
                                .data = x + i * in * (floats ? sizeof(float) : 1),
                                .mirror = fixture_mirrors(SEED, LAYER, FIRST + i)};

        expect_ok(transform_apply(&t, &record, SEED, LAYER, FIRST + i, y));
        for (size_t e = 0; e < out; e++)
            ck_assert_msg(y[e] == expected[i * out + e], "%s: image %d, value %zu: %g, expected %g",
                          name, (int)i, e, (double)y[e], (double)expected[i * out + e]);
    }
    transform_free(&t);
    free(y);
    free(expected);
    free(x);
}

START_TEST(train_crops_and_mirrors_at_random_with_the_mean_cut_at_the_window)
{
    static const char *const means[] = {"mean.h5", "mean_data_1chw.h5", "mean.binaryproto"};

    for (int i = 0; i < 3; i++) {
        Caffe__TransformationParameter param = param_make();
        param.scale = 0.0078125f;
        param.mirror = true;
        param.crop_size = 6;
        param.mean_file = (char *)fixture(means[i]);
        expect_reference(&param, true, false, "train_all");
    }
}
END_TEST

START_TEST(test_crops_at_the_centre_and_still_mirrors)
{
    Caffe__TransformationParameter param = param_make();

    param.scale = 0.0078125f;
    param.mirror = true;
    param.crop_size = 6;
    param.mean_file = (char *)fixture("mean.h5");
    expect_reference(&param, false, false, "test_all");
}
END_TEST

START_TEST(centre_of_an_odd_difference_is_rounded_down)
{
    Caffe__TransformationParameter param = param_make();
    float values[] = {104, 117, 123};

    param.crop_size = 8;
    param.n_mean_value = 3;
    param.mean_value = values;
    expect_reference(&param, false, false, "test_odd_crop");
}
END_TEST

START_TEST(one_mean_value_per_channel)
{
    Caffe__TransformationParameter param = param_make();
    float values[] = {104, 117, 123};

    param.crop_size = 5;
    param.mirror = true;
    param.n_mean_value = 3;
    param.mean_value = values;
    expect_reference(&param, true, false, "train_values");
}
END_TEST

START_TEST(one_mean_value_for_all_channels_of_float_images)
{
    Caffe__TransformationParameter param = param_make();
    float value = 0.5f;

    param.scale = 3;
    param.mirror = true;
    param.n_mean_value = 1;
    param.mean_value = &value;
    expect_reference(&param, true, true, "train_float");
}
END_TEST

START_TEST(a_crop_as_high_as_the_image_moves_sideways_only)
{
    Caffe__TransformationParameter param = param_make();

    param.crop_size = 9;
    expect_reference(&param, true, false, "train_rectangle");
}
END_TEST

START_TEST(no_parameter_means_plain_floats)
{
    struct transform t;
    struct shape shape = {3, {1, 2, 3}};
    uint8_t x[] = {0, 1, 2, 253, 254, 255};
    struct record record = {.shape = shape, .type = SOURCE_U8, .data = x};
    float y[6];

    expect_ok(transform_create(NULL, &shape, true, NULL, &t));
    ck_assert(shape_equal(&t.out, &shape));
    expect_ok(transform_apply(&t, &record, 1, 0, 0, y));
    for (int i = 0; i < 6; i++)
        ck_assert_float_eq(y[i], x[i]);
    transform_free(&t);
}
END_TEST

/* The decoder's form, and that of an image which is yet to be resized, against planes. */
START_TEST(interleaved_images_give_the_values_of_their_planes)
{
    for (int i = 0; i < 48; i++) {
        const int height = 9 + i % 5, width = 12 + i % 7;
        const int64_t dim[3] = {i % 2 ? 3 : 1, height, width};
        Caffe__TransformationParameter param = param_make();
        Caffe__RandomAspectRatioParameter window = CAFFE__RANDOM_ASPECT_RATIO_PARAMETER__INIT;
        struct record record = {.mirror = i & 1}, planes = {.mirror = i & 1};
        float y[3 * 13 * 18], expected[3 * 13 * 18];
        struct shape shape;
        struct transform t;

        param.mirror = true;
        param.scale = 0.5f;
        param.crop_size = i % 3 ? 7 : 0;
        if (i % 3 == 2)
            param.random_aspect_ratio_param = &window;
        expect_ok(shape_set(&shape, 3, dim, "an image"));
        expect_ok(transform_create(&param, &shape, true, NULL, &t));
        for (int k = 0; k < 2; k++) {
            struct record *r = k ? &planes : &record;

            expect_ok(image_set_size(&r->decoded, (int)dim[0], (uint64_t)(i < 24 ? height : 11),
                                     (uint64_t)(i < 24 ? width : 17)));
            for (size_t e = 0; e < r->decoded.pixels.length; e++)
                r->decoded.pixels.bytes[e] = (uint8_t)(e * e + 31 * e);
            expect_ok(record_set_image(r, &r->decoded, height, width));
        }
        expect_ok(record_to_planes(&planes));
        ck_assert(!planes.image && record.image);
        expect_ok(transform_apply(&t, &planes, SEED, LAYER, (uint64_t)i, expected));
        expect_ok(transform_apply(&t, &record, SEED, LAYER, (uint64_t)i, y));
        ck_assert_mem_eq(y, expected, shape_elems(&t.out) * sizeof *y);
        record_free(&planes);
        record_free(&record);
    }
}
END_TEST

START_TEST(scale_comes_after_the_mean)
{
    struct transform t;
    Caffe__TransformationParameter param = param_make();
    struct shape shape = {3, {1, 1, 2}};
    uint8_t x[] = {10, 20};
    struct record record = {.shape = shape, .type = SOURCE_U8, .data = x};
    float y[2], mean = 8;

    param.scale = 3;
    param.n_mean_value = 1;
    param.mean_value = &mean;
    expect_ok(transform_create(&param, &shape, true, NULL, &t));
    expect_ok(transform_apply(&t, &record, 1, 0, 0, y));
    ck_assert_float_eq(y[0], 6);
    ck_assert_float_eq(y[1], 36);
    transform_free(&t);
}
END_TEST

START_TEST(every_window_and_both_mirrors_occur_equally_often)
{
    struct transform t;
    Caffe__TransformationParameter param = param_make();
    struct shape shape = {3, {1, 3, 4}};
    uint8_t x[12];
    struct record record = {.shape = shape, .type = SOURCE_U8, .data = x};
    float y[4];
    int seen[12][2] = {{0}};

    for (int i = 0; i < 12; i++)
        x[i] = (uint8_t)i;
    param.crop_size = 2;
    param.mirror = true;
    expect_ok(transform_create(&param, &shape, true, NULL, &t));
    for (uint64_t g = 0; g < 12000; g++) {
        record.mirror = g & 1;
        expect_ok(transform_apply(&t, &record, 5, 1, g, y));
        int left = (int)(y[0] < y[1] ? y[0] : y[1]);
        seen[left][y[0] > y[1]]++;
    }
    /* 2 x 3 windows, mirrored or not: 1000 of each expected, sigma 30 */
    for (int i = 0; i < 12; i++)
        for (int m = 0; m < 2; m++) {
            bool corner = i == 0 || i == 1 || i == 2 || i == 4 || i == 5 || i == 6;
            ck_assert_int_ge(seen[i][m], corner ? 850 : 0);
            ck_assert_int_le(seen[i][m], corner ? 1150 : 0);
        }
    transform_free(&t);
}
END_TEST

START_TEST(a_mean_file_is_found_beside_the_file_that_names_it)
{
    struct transform t;
    Caffe__TransformationParameter param = param_make();

    param.mean_file = (char *)"mean.h5";
    expect_ok(transform_create(&param, &image, true, fixture("net.prototxt"), &t));
    transform_free(&t);
}
END_TEST

static void expect_mean_error(const char *name, const char *first, const char *second)
{
    struct transform t;
    Caffe__TransformationParameter param = param_make();

    param.mean_file = (char *)fixture(name);
    expect_error(transform_create(&param, &image, true, NULL, &t), "mean_file", name, first,
                 second);
    ck_assert_ptr_null(t.mean);
}

START_TEST(bad_mean_files_say_what_is_wrong)
{
    expect_mean_error("mean_other_size.h5", "3x8x12", "3x9x12");
    expect_mean_error("mean_other_size.h5", "mean_value", "one per channel");
    expect_mean_error("mean_named_otherwise.h5", "no data set 'mean'", "'average'");
    expect_mean_error("mean_short.binaryproto", "neither an HDF5 file", "binaryproto");
    expect_mean_error("mean_garbage.binaryproto", "neither an HDF5 file", "binaryproto");
    expect_mean_error("nowhere.h5", "no such file", "");
    expect_mean_error("", "is a folder", "");
}
END_TEST

START_TEST(impossible_parameters_say_what_is_wrong)
{
    struct transform t;
    struct shape flat = {1, {100}};
    float values[] = {1, 2};
    Caffe__TransformationParameter param = param_make();

    param.crop_size = 10;
    expect_error(transform_create(&param, &image, true, NULL, &t), "crop_size 10", "9 x 12");
    param.crop_size = 4000000000u;
    expect_error(transform_create(&param, &image, true, NULL, &t), "crop_size 4000000000",
                 "9 x 12");
    param.crop_size = 0;
    param.n_mean_value = 2;
    param.mean_value = values;
    expect_error(transform_create(&param, &image, true, NULL, &t), "2 mean_value for 3 channels",
                 "1 or one per channel");
    param.mean_file = (char *)"mean.h5";
    expect_error(transform_create(&param, &image, true, NULL, &t), "both mean_file ('mean.h5')",
                 "mean_value");
    expect_error(transform_create(NULL, &flat, true, NULL, &t), "1 axes", "C x H x W");
}
END_TEST

SUITE("input: transform")
{
    TCase *tcase = suite_case(suite, "transform");

    tcase_add_test(tcase, train_crops_and_mirrors_at_random_with_the_mean_cut_at_the_window);
    tcase_add_test(tcase, test_crops_at_the_centre_and_still_mirrors);
    tcase_add_test(tcase, centre_of_an_odd_difference_is_rounded_down);
    tcase_add_test(tcase, one_mean_value_per_channel);
    tcase_add_test(tcase, one_mean_value_for_all_channels_of_float_images);
    tcase_add_test(tcase, a_crop_as_high_as_the_image_moves_sideways_only);
    tcase_add_test(tcase, no_parameter_means_plain_floats);
    tcase_add_test(tcase, interleaved_images_give_the_values_of_their_planes);
    tcase_add_test(tcase, scale_comes_after_the_mean);
    tcase_add_test(tcase, every_window_and_both_mirrors_occur_equally_often);
    tcase_add_test(tcase, a_mean_file_is_found_beside_the_file_that_names_it);
    tcase_add_test(tcase, bad_mean_files_say_what_is_wrong);
    tcase_add_test(tcase, impossible_parameters_say_what_is_wrong);
}
