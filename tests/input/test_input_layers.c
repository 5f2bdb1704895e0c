/* The layers that bring samples, in nets: Data over data bases, ImageData, DummyData, MemoryData,
 * Input, HDF5Output. */
#include "input/feeder.h"
#include "tests/input/test_input_common.h"
#include "tests/net/test_net_common.h"
#include "tests/suite.h"
#include "util/h5.h"

#include <math.h>
#include <unistd.h>

#define BATCHES 5

static struct engine engine;
static struct made made;
static char folder[256];

static void open_all(void)
{
    const struct engine_options o = {.threads = 1};
    const char *base = getenv("TMPDIR");

    expect_ok(engine_open("cpu", &o, &engine));
    snprintf(folder, sizeof folder, "%s/poseidon-layers-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void close_all(void)
{
    char command[300];

    unmake_net(&made);
    engine_close(&engine);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* A net of the printf-style text in that phase, as rank of nranks with that batch (0: its own). */
static int make(const char *text, bool train, int rank, int nranks, int batch)
{
    static char base[1100];
    struct layer_env env = {
        .rank = rank, .nranks = nranks, .seed = 9, .batch = batch, .base_file = base};

    snprintf(base, sizeof base, "%s", fixture("solver.prototxt"));
    unmake_net(&made);
    return make_net(&made, text, train, &env, NULL);
}

static void build(void)
{
    expect_ok(net_build(made.net, &engine, 9));
}

/* Blob values after a pass, row-major; freed by the caller. */
static float *values_of(const char *name)
{
    struct blob *blob = (struct blob *)net_find_blob(made.net, name);
    float *out;

    ck_assert_ptr_nonnull(blob);
    out = malloc(shape_elems(&blob->value.shape) * sizeof *out);
    expect_ok(engine.i->read(engine.context, &blob->value, out));
    return out;
}

static void pass(uint64_t first_sample)
{
    const struct run run = {.seed = 9, .first_sample = first_sample};

    expect_ok(net_forward(made.net, &run, NULL, NULL));
}

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

    if (!image_format_supported(IMAGE_JPEG) || !image_format_supported(IMAGE_PNG))
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
    expect_error(net_forward(made.net, &(struct run){.seed = 1}, NULL, NULL), "layer 'd'",
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
    ck_assert_ptr_nonnull(strstr(made.notices, "layer 'd': data_param's force_encoded_color"));
    ck_assert_ptr_nonnull(strstr(made.notices, "transform_param"));
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
    struct bytes file = {0};
    struct image image = {.channels = 0}, small = {.channels = 0};

    if (!image_format_supported(IMAGE_JPEG) || !image_format_supported(IMAGE_PNG))
        return;
    expect_ok(make_image_data(2, "", 0, 1));
    ck_assert_str_eq(shape_of(made.net, "data"), "2 3 10 12");
    build();
    pass(0);
    float *data = values_of("data"), *label = values_of("label");
    ck_assert(label[0] == 0 && label[1] == 1);
    expect_ok(bytes_load(&file, fixture("images/color.png"), 1 << 20));
    expect_ok(image_decode(file.data, file.length, IMAGE_COLOR, &image));
    expect_ok(image_resize(&image, 10, 12, &small));
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 120; i++)
            ck_assert_float_eq(data[c * 120 + i],
                               (float)small.pixels.data[3 * i + c] - (float)(c + 1));
    free(data);
    free(label);
    bytes_free(&file);
    image_free(&image);
    image_free(&small);
}
END_TEST

START_TEST(image_data_shuffles_every_epoch_the_same_at_any_number_of_ranks)
{
    float one[40], many[40];
    int moved = 0;

    if (!image_format_supported(IMAGE_JPEG) || !image_format_supported(IMAGE_PNG))
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

START_TEST(image_data_grey_and_bad_definitions)
{
    if (!image_format_supported(IMAGE_JPEG) || !image_format_supported(IMAGE_PNG))
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
        "layer 'i'", "nowhere.txt", "No such file");
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
    ck_assert_ptr_nonnull(strstr(made.notices, "assuming images of 1 channels, 224 x 224"));
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

SUITE("input_layers")
{
    TCase *tcase = suite_case(suite, "layers");

    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, data_reads_lmdb_by_content_whatever_the_backend_says);
    tcase_add_test(tcase, data_reads_leveldb);
    tcase_add_test(tcase, data_decodes_encoded_images_to_the_forced_colours);
    tcase_add_test(tcase, data_without_its_source_names_layer_and_path);
    tcase_add_test(tcase, fields_without_effect_are_said_aloud);
    tcase_add_test(tcase, rand_skip_moves_all_ranks_and_jumps_alike);
    tcase_add_test(tcase, without_a_shared_file_system_each_rank_reads_its_own_source);
    tcase_add_test(tcase, image_data_gives_resized_blue_green_red_minus_mean);
    tcase_add_test(tcase, image_data_shuffles_every_epoch_the_same_at_any_number_of_ranks);
    tcase_add_test(tcase, image_data_grey_and_bad_definitions);
    tcase_add_test(tcase, looking_only_takes_shapes_from_the_definition);
    tcase_add_test(tcase, memory_data_is_refused_with_what_to_use_instead);
    tcase_add_test(tcase, dummy_constants_stay_and_random_numbers_change_with_the_sample);
    tcase_add_test(tcase, dummy_samples_are_the_same_at_any_number_of_ranks);
    tcase_add_test(tcase, dummy_takes_old_and_new_shapes_and_the_command_lines_batch);
    tcase_add_test(tcase, dummy_definitions_that_do_not_fit_are_refused);
    tcase_add_test(tcase, hdf5_output_appends_every_pass);
    tcase_add_test(tcase, hdf5_output_that_cannot_be_written_says_so);
    tcase_add_test(tcase, input_shapes_that_do_not_fit_are_refused);
}
