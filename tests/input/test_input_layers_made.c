/* The layers whose samples are in no file, in nets, and the one that writes them: DummyData,
 * MemoryData, Input, HDF5Output. */
#include "tests/input/layers_common.h"
#include "spec/h5.h"

#include <math.h>
#include <unistd.h>

START_TEST(memory_data_is_refused_with_what_to_use_instead)
{
    expect_error(make("layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' "
                      "memory_data_param { batch_size: 2 channels: 3 height: 4 width: 5 } }",
                      true, 0, 1, 0),
                 "layer 'm' (MemoryData)", "Caffe's interface", "HDF5Data");
    expect_error(make("layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' "
                      "memory_data_param { batch_size: 2 channels: 3 } }",
                      true, 0, 1, 0),
                 "batch_size, channels, height and width");
}
END_TEST

START_TEST(dummy_constants_stay_and_random_numbers_change_with_the_sample)
{
    float *a, *b, *c;

    expect_ok(
        make("layer { name: 'd' type: 'DummyData' top: 'a' top: 'b' top: 'c' dummy_data_param { "
             "shape { dim: 4 dim: 2 dim: 3 dim: 3 } shape { dim: 4 dim: 500 } shape { dim: 4 } "
             "data_filler { type: 'constant' value: 2.5 } data_filler { type: 'gaussian' std: 2 "
             "mean: 1 } data_filler { type: 'uniform' min: 3 max: 5 } } }",
             true, 0, 1, 0));
    ck_assert_str_eq(shape_of(made.net, "a"), "4 2 3 3");
    ck_assert_str_eq(shape_of(made.net, "c"), "4");
    build();
    float before[2000] = {0};
    for (int p = 0; p < 3; p++) {
        double sum = 0, squares = 0;
        pass((uint64_t)p * 4);
        a = values_of("a");
        b = values_of("b");
        c = values_of("c");
        for (int i = 0; i < 72; i++)
            ck_assert_float_eq(a[i], 2.5f);
        for (int i = 0; i < 2000; i++) {
            sum += b[i];
            squares += (b[i] - 1) * (b[i] - 1);
        }
        ck_assert_double_eq_tol(sum / 2000, 1, 0.2);
        ck_assert_double_eq_tol(squares / 2000, 4, 0.6);
        for (int i = 0; i < 4; i++)
            ck_assert(c[i] >= 3 && c[i] < 5);
        ck_assert(memcmp(before, b, sizeof before) != 0);
        memcpy(before, b, sizeof before);
        free(a);
        free(b);
        free(c);
    }
}
END_TEST

START_TEST(dummy_samples_are_the_same_at_any_number_of_ranks)
{
    static const char text[] = "layer { name: 'd' type: 'DummyData' top: 'a' dummy_data_param { "
                               "num: %d channels: 3 height: "
                               "2 width: 2 data_filler { type: 'xavier' } } }";
    float whole[2][48];

    for (int nranks = 1; nranks <= 2; nranks++)
        for (int rank = 0; rank < nranks; rank++) {
            char net[300];

            snprintf(net, sizeof net, text, 4 / nranks);
            expect_ok(make(net, true, rank, nranks, 0));
            build();
            pass((uint64_t)(100 + rank * (4 / nranks)));
            float *a = values_of("a");
            memcpy(whole[nranks - 1] + rank * 24, a, (size_t)(48 / nranks) * sizeof *a);
            free(a);
        }
    ck_assert_mem_eq(whole[0], whole[1], sizeof whole[0]);
    for (int i = 0; i < 48; i++) /* xavier with fan-in 12 */
        ck_assert(fabsf(whole[0][i]) <= 0.5f);
}
END_TEST

START_TEST(dummy_takes_old_and_new_shapes_and_the_command_lines_batch)
{
    expect_ok(
        make("layer { name: 'd' type: 'DummyData' top: 'a' top: 'b' dummy_data_param { num: 5 "
             "channels: 3 channels: 1 height: 2 height: 1 width: 4 width: 1 } }",
             true, 0, 1, 0));
    ck_assert_str_eq(shape_of(made.net, "a"), "5 3 2 4");
    ck_assert_str_eq(shape_of(made.net, "b"), "5 1 1 1");
    build();
    pass(0);
    float *a = values_of("a");
    for (int i = 0; i < 120; i++)
        ck_assert_float_eq(a[i], 0);
    free(a);
    expect_ok(
        make("layer { name: 'd' type: 'DummyData' top: 'a' top: 'b' top: 'c' dummy_data_param { "
             "shape { dim: 5 dim: 3 } shape { dim: 5 } shape { dim: 1 dim: 5 } } }",
             true, 0, 1, 2));
    ck_assert_str_eq(shape_of(made.net, "a"), "2 3");
    ck_assert_str_eq(shape_of(made.net, "b"), "2");
    ck_assert_str_eq(shape_of(made.net, "c"), "1 5");
}
END_TEST

START_TEST(dummy_definitions_that_do_not_fit_are_refused)
{
    static const struct {
        const char *param, *says;
    } cases[] = {
        {"", "dummy_data_param has 0 values of num for 3 tops"},
        {"shape { dim: 1 } shape { dim: 1 }", "2 shapes for 3 tops"},
        {"shape { dim: 1 } num: 2", "both shape and num"},
        {"shape { dim: 0 }", "size 0 on axis 0"},
        {"shape { dim: 1 } data_filler { } data_filler { }", "2 data_filler for 3 tops"},
        {"num: 1 num: 2 channels: 1 height: 1 width: 1", "2 values of num for 3 tops"},
        {"num: 1 channels: 1 height: 1", "0 values of width for 3 tops"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[400];

        snprintf(text, sizeof text,
                 "layer { name: 'd' type: 'DummyData' top: 'a' top: 'b' top: 'c' "
                 "dummy_data_param { %s } }",
                 cases[i].param);
        expect_error(make(text, true, 0, 1, 0), "layer 'd'", cases[i].says);
    }
    expect_ok(
        make("layer { name: 'd' type: 'DummyData' top: 'a' dummy_data_param { shape { dim: 2 } "
             "data_filler { type: 'random' } } }",
             true, 0, 1, 0));
    expect_error(net_build(made.net, &engine, 1), "layer 'd'", "unknown filler name: random");
}
END_TEST

/* Data set `name` of the file that HDF5Output wrote. */
static void check_written(const char *name, int rows, int columns, float offset, int first)
{
    char path[300];
    struct h5_dataset dataset;
    float *values = malloc((size_t)rows * (size_t)columns * sizeof *values);
    hid_t file;

    snprintf(path, sizeof path, "%s/out.h5", folder);
    h5_lock();
    expect_ok(h5_file_open(path, &file));
    expect_ok(h5_dataset_open(file, path, name, &dataset));
    ck_assert_int_eq(dataset.naxes, 4); /* as Caffe's, whatever the bottom has */
    ck_assert_uint_eq(dataset.dim[0], (hsize_t)rows);
    expect_ok(h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, values));
    for (int r = 0; r < rows; r++)
        for (int e = 0; e < columns; e++) {
            int i = first + r;
            ck_assert_float_eq(values[r * columns + e], columns == 1
                                                            ? (float)(i % 10)
                                                            : (float)((7 * i + e) % 256) + offset);
        }
    h5_dataset_close(&dataset);
    H5Fclose(file);
    h5_unlock();
    free(values);
}

START_TEST(hdf5_output_appends_every_pass)
{
    char text[800];

    snprintf(
        text, sizeof text,
        "layer { name: 'd' type: 'Data' top: 'data' top: 'label' data_param { source: 'lmdb_raw' "
        "batch_size: 7 } transform_param { mean_value: 4 } } layer { name: 'o' type: 'HDF5Output' "
        "bottom: 'data' bottom: 'label' hdf5_output_param { file_name: '%s/out.h5' } }",
        folder);
    expect_ok(make(text, false, 0, 1, 0));
    build();
    for (int p = 0; p < 3; p++)
        pass(0);
    unmake_net(&made);
    check_written("data", 21, 6, -4, 0);
    check_written("label", 21, 1, 0, 0);
    /* other ranks write beside it, and the file starts anew */
    expect_ok(make(text, false, 1, 2, 0));
    build();
    pass(0);
    unmake_net(&made);
    check_written("data", 21, 6, -4, 0);
    snprintf(text, sizeof text, "%s/out.h5.rank1", folder);
    ck_assert_int_eq(access(text, R_OK), 0);
}
END_TEST

START_TEST(hdf5_output_that_cannot_be_written_says_so)
{
    expect_ok(
        make("layer { name: 'a' type: 'DummyData' top: 'a' top: 'b' dummy_data_param { shape { "
             "dim: 2 } } } layer { name: 'o' type: 'HDF5Output' bottom: 'a' bottom: 'b' "
             "hdf5_output_param { file_name: '/nowhere/x.h5' } }",
             false, 0, 1, 0));
    expect_error(net_build(made.net, &engine, 1), "layer 'o'", "/nowhere/x.h5", "cannot be written",
                 "No such file");
    expect_error(
        make("layer { name: 'a' type: 'DummyData' top: 'a' top: 'b' dummy_data_param { shape "
             "{ dim: 2 } } } layer { name: 'o' type: 'HDF5Output' bottom: 'a' bottom: 'b' }",
             false, 0, 1, 0),
        "file_name is missing");
    expect_error(
        make("layer { name: 'a' type: 'DummyData' top: 'a' top: 'b' dummy_data_param { shape "
             "{ dim: 2 } shape { dim: 3 } } } layer { name: 'o' type: 'HDF5Output' bottom: "
             "'a' bottom: 'b' hdf5_output_param { file_name: 'x' } }",
             false, 0, 1, 0),
        "'a' has 2 samples, but 'b' has 3");
}
END_TEST

START_TEST(input_shapes_that_do_not_fit_are_refused)
{
    expect_error(
        make("layer { name: 'i' type: 'Input' top: 'a' top: 'b' top: 'c' input_param { shape { "
             "dim: 1 } shape { dim: 2 } } }",
             true, 0, 1, 0),
        "2 shapes for 3 tops");
    expect_error(make("layer { name: 'i' type: 'Input' top: 'a' input_param { shape { dim: 0 } } }",
                      true, 0, 1, 0),
                 "size 0 on axis 0");
    expect_ok(
        make("layer { name: 'i' type: 'Input' top: 'a' top: 'b' input_param { shape { dim: 1 dim: "
             "7 } } }",
             true, 0, 1, 0));
    ck_assert_str_eq(shape_of(made.net, "b"), "1 7");
}
END_TEST

SUITE("input_layers_made")
{
    TCase *tcase = suite_case(suite, "layers");

    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_test(tcase, memory_data_is_refused_with_what_to_use_instead);
    tcase_add_test(tcase, dummy_constants_stay_and_random_numbers_change_with_the_sample);
    tcase_add_test(tcase, dummy_samples_are_the_same_at_any_number_of_ranks);
    tcase_add_test(tcase, dummy_takes_old_and_new_shapes_and_the_command_lines_batch);
    tcase_add_test(tcase, dummy_definitions_that_do_not_fit_are_refused);
    tcase_add_test(tcase, hdf5_output_appends_every_pass);
    tcase_add_test(tcase, hdf5_output_that_cannot_be_written_says_so);
    tcase_add_test(tcase, input_shapes_that_do_not_fit_are_refused);
}
