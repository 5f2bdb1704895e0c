/* Shapes of data layers: those of nets that are only looked at, and those of a given batch. */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

#define LOOK                                                                                       \
    "layer { name: 'd' type: 'Data' top: 'x' top: 't' data_param { source: '/nowhere' "            \
    "batch_size: 8 } "

START_TEST(looking_only_takes_the_shape_from_crop_size_with_a_notice)
{
    const struct layer_env env = {.look_only = true};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "transform_param { crop_size: 227 } }", true, &env, NULL),
                     0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 3 227 227");
    ck_assert_str_eq(shape_of(made.net, "t"), "8");
    ck_assert_ptr_nonnull(
        strstr(made.notices, "layer 'd': assuming images of 3 channels, 227 x 227"));
    unmake_net(&made);
}
END_TEST

/* Some tools fill in the sources of nets later. */
START_TEST(looking_only_needs_no_source)
{
    static const char *const texts[] = {
        "layer { name: 'd' type: 'Data' top: 'x' data_param { batch_size: 8 } }",
        "layer { name: 'd' type: 'ImageData' top: 'x' top: 't' image_data_param { batch_size: 8 } "
        "}",
        "layer { name: 'd' type: 'HDF5Data' top: 'x' hdf5_data_param { batch_size: 8 } }"};
    const struct layer_env look = {.look_only = true}, run = {.nranks = 1};
    struct made made;

    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(make_net(&made, texts[i], true, &look, NULL), 0);
        ck_assert_str_eq(shape_of(made.net, "x"), "8 3 224 224");
        unmake_net(&made);
        ck_assert_int_ne(make_net(&made, texts[i], true, &run, NULL), 0);
        ck_assert_ptr_nonnull(strstr(error_text(), "source is missing"));
        unmake_net(&made);
    }
}
END_TEST

START_TEST(looking_only_assumes_3x224x224_and_says_so)
{
    const struct layer_env env = {.look_only = true};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "}", true, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 3 224 224");
    ck_assert_ptr_nonnull(strstr(made.notices, "assuming images of 3 channels, 224 x 224 pixels"));
    unmake_net(&made);
}
END_TEST

START_TEST(looking_only_takes_the_given_input_shape_silently)
{
    const int64_t chw[3] = {1, 28, 30};
    const struct layer_env env = {.look_only = true, .input_chw = chw};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "}", true, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 1 28 30");
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
    ck_assert_int_eq(make_net(&made, LOOK "transform_param { crop_size: 20 } }", true, &env, NULL),
                     0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 1 20 20");
    unmake_net(&made);
    ck_assert_int_ne(make_net(&made, LOOK "transform_param { crop_size: 29 } }", true, &env, NULL),
                     0);
    ck_assert_ptr_nonnull(strstr(error_text(), "crop_size 29 is larger than the input of 28 x 30"));
    unmake_net(&made);
}
END_TEST

START_TEST(mean_values_tell_the_number_of_channels)
{
    const struct layer_env env = {.look_only = true};
    struct made made;

    ck_assert_int_eq(make_net(&made,
                              LOOK "transform_param { crop_size: 9 mean_value: [1, 2, 3, 4] } }",
                              true, &env, NULL),
                     0);
    ck_assert_str_eq(shape_of(made.net, "x"), "8 4 9 9");
    ck_assert_ptr_null(made.notices);
    unmake_net(&made);
}
END_TEST

START_TEST(the_given_batch_replaces_that_of_data)
{
    const struct layer_env env = {.look_only = true, .batch = 5};
    struct made made;

    ck_assert_int_eq(make_net(&made, LOOK "}", true, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "t"), "5");
    unmake_net(&made);
    ck_assert_int_eq(make_net(&made, LOOK "}", false, &env, NULL), 0);
    ck_assert_str_eq(shape_of(made.net, "t"), "5");
    unmake_net(&made);
}
END_TEST

static const struct {
    const char *layer, *x, *y, *z;
} batch_cases[] = {
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { dim: [10, "
     "3, 4, 4] } "
     "shape { dim: 10 } shape { dim: [7, 3] } } }",
     "5 3 4 4", "5", "7 3"},
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { dim: [10, "
     "2] } } }",
     "5 2", "5 2", "5 2"},
    /* a scalar is no batch, neither as the first top nor behind it */
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { } shape { "
     "dim: 1 } "
     "shape { dim: [1, 2] } } }",
     "", "1", "1 2"},
    {"layer { name: 'i' type: 'Input' top: 'x' top: 'y' top: 'z' input_param { shape { dim: [1, 2] "
     "} "
     "shape { } shape { dim: 2 } } }",
     "5 2", "", "2"},
    {"layer { name: 'd' type: 'DummyData' top: 'x' top: 'y' top: 'z' dummy_data_param { shape { "
     "dim: [10, 2] } "
     "shape { dim: 10 } shape { dim: [7, 3] } } }",
     "5 2", "5", "7 3"},
};

START_TEST(the_given_batch_replaces_the_first_axis_of_inputs)
{
    const struct layer_env env = {.look_only = true, .batch = 5};
    struct made made;

    for (int train = 0; train < 2; train++) {
        ck_assert_int_eq(make_net(&made, batch_cases[_i].layer, train, &env, NULL), 0);
        ck_assert_str_eq(shape_of(made.net, "x"), batch_cases[_i].x);
        ck_assert_str_eq(shape_of(made.net, "y"), batch_cases[_i].y);
        ck_assert_str_eq(shape_of(made.net, "z"), batch_cases[_i].z);
        unmake_net(&made);
    }
}
END_TEST

SUITE("layer batches")
{
    TCase *tcase = suite_case(suite, "shapes");

    tcase_add_test(tcase, looking_only_takes_the_shape_from_crop_size_with_a_notice);
    tcase_add_test(tcase, looking_only_assumes_3x224x224_and_says_so);
    tcase_add_test(tcase, looking_only_needs_no_source);
    tcase_add_test(tcase, looking_only_takes_the_given_input_shape_silently);
    tcase_add_test(tcase, mean_values_tell_the_number_of_channels);
    tcase_add_test(tcase, the_given_batch_replaces_that_of_data);
    suite_table(tcase, the_given_batch_replaces_the_first_axis_of_inputs, batch_cases);
}
