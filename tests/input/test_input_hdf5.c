/* HDF5 sources against files that h5py wrote (tests/data/input/generate.py). */
#include "input/source.h"
#include "tests/input/test_input_common.h"
#include "tests/suite.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/poseidon_input_XXXXXX";

static uint8_t image_byte(uint64_t record, size_t e)
{
    return (uint8_t)(7 * record + e);
}

static struct source *open_images(const char *name)
{
    struct source *source = NULL;

    expect_ok(source_open_images(fixture(name), true, IMAGE_AS_STORED, &source));
    return source;
}

START_TEST(images_of_bytes_stay_bytes_and_int64_labels_become_floats)
{
    struct source *source = open_images("u8_gzip_int64.h5");
    uint8_t data[7][90];
    float label[7];
    void *out[] = {data, label};

    ck_assert_uint_eq(source->nrecords, 12);
    ck_assert_int_eq(source->nfields, 2);
    ck_assert_int_eq(source->field[0].type, SOURCE_U8);
    ck_assert_int_eq(source->field[0].shape.naxes, 3);
    ck_assert_int_eq(source->field[0].shape.dim[0], 3);
    ck_assert_int_eq(source->field[0].shape.dim[1], 5);
    ck_assert_int_eq(source->field[0].shape.dim[2], 6);
    ck_assert_int_eq(source->field[1].type, SOURCE_F32);
    ck_assert_int_eq(source->field[1].shape.naxes, 0);
    for (uint64_t first = 0; first <= 5; first++) {
        expect_ok(source->i->read(source, first, 7, out));
        for (uint64_t r = 0; r < 7; r++) {
            ck_assert_float_eq(label[r], (float)((first + r) % 10));
            for (size_t e = 0; e < 90; e++)
                ck_assert_uint_eq(data[r][e], image_byte(first + r, e));
        }
    }
    source_close(source);
}
END_TEST

START_TEST(images_of_doubles_and_labels_n_by_1_are_read_as_floats)
{
    struct source *source = open_images("f64_labels_n1.h5");
    float data[12][90], label[12];
    void *out[] = {data, label};

    ck_assert_int_eq(source->field[0].type, SOURCE_F32);
    ck_assert_int_eq(source->field[1].shape.naxes, 0);
    expect_ok(source->i->read(source, 0, 12, out));
    for (uint64_t r = 0; r < 12; r++) {
        ck_assert_float_eq(label[r], (float)(r % 10));
        for (size_t e = 0; e < 90; e++)
            ck_assert_float_eq(data[r][e], (float)image_byte(r, e) / 4 - 10);
    }
    source_close(source);
}
END_TEST

START_TEST(images_of_other_integers_are_read_as_floats)
{
    struct source *source = open_images("i16_u8.h5");
    float data[90], label;
    void *out[] = {data, &label};

    ck_assert_int_eq(source->field[0].type, SOURCE_F32);
    expect_ok(source->i->read(source, 11, 1, out));
    ck_assert_float_eq(label, 1);
    for (size_t e = 0; e < 90; e++)
        ck_assert_float_eq(data[e], (float)image_byte(11, e) - 200);
    source_close(source);
}
END_TEST

START_TEST(images_without_labels_need_no_label_data_set)
{
    struct source *source = NULL;
    uint8_t data[90];
    void *out[] = {data};

    expect_ok(source_open_images(fixture("bad_no_label.h5"), false, IMAGE_AS_STORED, &source));
    ck_assert_int_eq(source->nfields, 1);
    expect_ok(source->i->read(source, 2, 1, out));
    ck_assert_uint_eq(data[5], image_byte(2, 5));
    source_close(source);
}
END_TEST

START_TEST(images_in_chunks_beyond_the_default_cache_are_read_right)
{
    struct source *source = open_images("wide_chunks.h5");
    uint8_t *data = malloc(3 * 128 * 128);
    void *out[] = {data, NULL};

    for (uint64_t r = 0; r < 32; r++) {
        expect_ok(source->i->read(source, r, 1, out));
        for (size_t e = 0; e < 3 * 128 * 128; e++)
            ck_assert_uint_eq(data[e], r);
    }
    free(data);
    source_close(source);
}
END_TEST

START_TEST(a_skipped_field_is_not_written)
{
    struct source *source = open_images("u8_gzip_int64.h5");
    float label[3];
    void *out[] = {NULL, label};

    expect_ok(source->i->read(source, 9, 3, out));
    ck_assert_float_eq(label[0], 9);
    ck_assert_float_eq(label[2], 1);
    source_close(source);
}
END_TEST

START_TEST(records_beyond_the_end_are_refused)
{
    struct source *source = open_images("u8_gzip_int64.h5");
    float label[3];
    void *out[] = {NULL, label};

    expect_error(source->i->read(source, 10, 3, out), "u8_gzip_int64.h5", "10..12", "has 12");
    expect_error(source->i->read(source, UINT64_MAX, 2, out), "has 12");
    source_close(source);
}
END_TEST

START_TEST(bad_image_files_say_what_is_wrong)
{
    static const struct {
        const char *file, *expected[3];
    } cases[] = {
        {"bad_no_label.h5", {"no data set 'label'", "'data', 'labels', 'other'"}},
        {"bad_rank3.h5", {"'data' has shape 12x5x6", "N x C x H x W"}},
        {"bad_scalar.h5", {"'data' is a scalar"}},
        {"bad_counts.h5", {"'data' has 12 records", "'label' has 11"}},
        {"bad_no_records.h5", {"no records", "0x3x5x6"}},
        {"bad_empty_records.h5", {"empty records", "12x3x0x6"}},
        {"bad_many_labels.h5", {"'label' has shape 12x4", "one label per record"}},
        {"bad_text.h5", {"'label' holds text", "expected integers or floats"}},
        {"bad_filter.h5", {"'data' is compressed by filter 32015 (zst)", "h5repack -f GZIP=1"}},
        {"bad_group.h5", {"'data' cannot be opened as a data set"}},
        {"bad_driver_block.h5",
         {"truncated HDF5 file of 49 bytes", "information block of 4022206472"}},
        {"list.txt", {"is not an HDF5 file"}},
        {"nowhere.h5", {"no such file"}},
        {"", {"is a folder; expected an HDF5 file"}},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct source *source = NULL;

        expect_error(source_open_images(fixture(cases[i].file), true, IMAGE_AS_STORED, &source),
                     cases[i].file, cases[i].expected[0]);
        for (int k = 1; k < 3 && cases[i].expected[k]; k++)
            ck_assert_msg(strstr(error_text(), cases[i].expected[k]) != NULL, "%s", error_text());
        ck_assert_ptr_null(source);
    }
}
END_TEST

START_TEST(a_relative_name_that_is_missing_names_the_current_folder)
{
    struct source *source = NULL;
    char here[1024];

    ck_assert_ptr_nonnull(getcwd(here, sizeof here));
    expect_error(source_open_images("nowhere.h5", true, IMAGE_AS_STORED, &source),
                 "nowhere.h5: no such file", here);
}
END_TEST

START_TEST(lzf_of_h5py_is_decoded)
{
    struct source *source = open_images("lzf.h5");
    uint8_t data[12 * 90];
    float label[12];
    void *out[] = {data, label};

    expect_ok(source->i->read(source, 0, 12, out));
    for (int e = 0; e < 12 * 90; e++)
        ck_assert_uint_eq(data[e], (7 * (e / 90) + e % 90) % 256);
    source_close(source);
}
END_TEST

START_TEST(booleans_of_numpy_are_0_and_1)
{
    struct source *source = open_images("bool.h5");
    float data[12 * 90], label[12];
    void *out[] = {data, label};

    ck_assert_int_eq(source->field[0].type, SOURCE_F32);
    expect_ok(source->i->read(source, 0, 12, out));
    for (int e = 0; e < 12 * 90; e++) /* the byte is over 3 */
        ck_assert_float_eq(data[e], (7 * (e / 90) + e % 90) % 256 > 3);
    source_close(source);
}
END_TEST

/* Copies a fixture up to `length` bytes, with one byte inverted at `damage` (-1: none). */
static const char *copy(const char *name, long length, long damage)
{
    static char path[256];
    char *bytes = malloc(1 << 20);
    FILE *in = fopen(fixture(name), "rb"), *out;
    long got;

    snprintf(path, sizeof path, "%s/copy.h5", folder);
    out = fopen(path, "wb");
    got = (long)fread(bytes, 1, 1 << 20, in);
    if (length < 0 || length > got)
        length = got;
    if (damage >= 0)
        bytes[damage] = (char)~bytes[damage];
    ck_assert_uint_eq(fwrite(bytes, 1, (size_t)length, out), (size_t)length);
    fclose(in);
    fclose(out);
    free(bytes);
    return path;
}

/* An altered chunk gives an error or other values, and nothing is written beyond the chunk. */
START_TEST(damaged_lzf_is_an_error_or_other_values)
{
    int refused = 0;

    for (long at = 5056; at < 5459; at++) { /* the three chunks */
        struct source *source;
        uint8_t data[12 * 90 + 1];
        float label[12];
        void *out[] = {data, label};

        data[12 * 90] = 77;
        expect_ok(source_open_images(copy("lzf.h5", -1, at), true, IMAGE_AS_STORED, &source));
        refused += source->i->read(source, 0, 12, out) != 0;
        ck_assert_uint_eq(data[12 * 90], 77);
        source_close(source);
    }
    ck_assert_int_gt(refused, 20);
}
END_TEST

START_TEST(truncated_files_say_so)
{
    static const long lengths[] = {8, 40, 95, 96, 800, 2048, 7000, 7375};
    struct source *source = NULL;

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        expect_error(source_open_images(copy("u8_gzip_int64.h5", lengths[i], -1), true,
                                        IMAGE_AS_STORED, &source),
                     "copy.h5", "truncated");
    expect_error(
        source_open_images(copy("u8_gzip_int64.h5", 0, -1), true, IMAGE_AS_STORED, &source),
        "copy.h5", "empty");
    expect_error(
        source_open_images(copy("u8_gzip_int64.h5", 7, -1), true, IMAGE_AS_STORED, &source),
        "copy.h5", "not an HDF5 file");
}
END_TEST

/* Wherever one byte is wrong: an error or data, never a crash. */
START_TEST(damaged_files_never_crash)
{
    for (long at = 8; at < 7376; at += 13) {
        struct source *source = NULL;

        if (source_open_images(copy("u8_gzip_int64.h5", -1, at), true, IMAGE_AS_STORED, &source)) {
            ck_assert_ptr_nonnull(strstr(error_text(), "copy.h5"));
            continue;
        }
        size_t bytes = shape_elems(&source->field[0].shape) * sizeof(float);
        if (source->nrecords <= 1000 && bytes < 100000) {
            void *out[] = {malloc(source->nrecords * bytes),
                           malloc(source->nrecords * sizeof(float))};
            if (source->i->read(source, 0, source->nrecords, out))
                ck_assert_ptr_nonnull(strstr(error_text(), "cannot be read"));
            free(out[0]);
            free(out[1]);
        }
        source_close(source);
    }
}
END_TEST

static const char *const names[] = {"data", "label", "label2", "flat"};

/* The conformance case: 0..2399 as 10x8x6x5, then 2400.. in a gzip file; batches over the end. */
START_TEST(hdf5_data_runs_over_the_ends_of_its_files)
{
    static const char *const lists[] = {"list.txt", "list_same_line.txt"};

    for (int l = 0; l < 2; l++) {
        struct source *source = NULL;
        static float data[20][240], label[20], label2[20], flat[20];
        void *out[] = {data, label, label2, flat};

        expect_ok(source_open_hdf5_list(fixture(lists[l]), 4, names, &source));
        ck_assert_uint_eq(source->nrecords, 20);
        ck_assert_int_eq(source->nfields, 4);
        ck_assert_int_eq(source->field[0].shape.naxes, 3);
        ck_assert_int_eq(source->field[1].shape.naxes, 1);
        ck_assert_int_eq(source->field[1].shape.dim[0], 1);
        ck_assert_int_eq(source->field[3].shape.naxes, 0);
        for (uint64_t first = 0; first < 20; first++)
            for (uint64_t n = 1; first + n <= 20; n += 3) {
                expect_ok(source->i->read(source, first, n, out));
                for (uint64_t r = 0; r < n; r++) {
                    ck_assert_float_eq(label[r], (float)(1 + first + r));
                    ck_assert_float_eq(label2[r], (float)(2 + first + r));
                    ck_assert_float_eq(flat[r], (float)((first + r) % 10));
                    for (int e = 0; e < 240; e++)
                        ck_assert_float_eq(data[r][e], (float)((first + r) * 240 + (uint64_t)e));
                }
            }
        source_close(source);
    }
}
END_TEST

START_TEST(bad_lists_say_what_is_wrong)
{
    static const char *const absent[] = {"data", "labels"};
    struct source *source = NULL;

    expect_error(source_open_hdf5_list(fixture("part0.h5"), 2, names, &source), "part0.h5",
                 "expected a list of HDF5 files, found an HDF5 file");
    expect_error(source_open_hdf5_list(fixture("nowhere.txt"), 2, names, &source), "nowhere.txt",
                 "no such file");
    expect_error(source_open_hdf5_list(fixture(""), 2, names, &source), "list of HDF5 files",
                 "folder");
    expect_error(source_open_hdf5_list(fixture("list_empty.txt"), 2, names, &source),
                 "list_empty.txt", "lists no files");
    expect_error(source_open_hdf5_list(fixture("list_missing.txt"), 2, names, &source),
                 "list_missing.txt:3: 'nowhere.h5'", "neither as given nor beside the list");
    expect_error(source_open_hdf5_list(fixture("list_other_shape.txt"), 2, names, &source),
                 "part_other_shape.h5", "'data'", "8 6 4", "8 6 5", "part0.h5");
    expect_error(source_open_hdf5_list(fixture("list_counts.txt"), 2, names, &source),
                 "part_counts.h5", "'data' has 4 records", "'label' has 5");
    expect_error(source_open_hdf5_list(fixture("list.txt"), 2, absent, &source), "part0.h5",
                 "no data set 'labels'", "'label2'");
    expect_error(source_open_hdf5_list(fixture("list.txt"), 0, names, &source), "0 data sets");
    expect_error(source_open_hdf5_list(copy("mean.binaryproto", -1, -1), 2, names, &source),
                 "not a text file");
}
END_TEST

START_TEST(a_listed_file_that_changes_afterwards_is_noticed)
{
    char list[300], command[3000];
    struct source *source = NULL;
    float label[20];
    void *out[] = {label};
    const char *const label_only[] = {"label"};

    snprintf(list, sizeof list, "%s/changing.txt", folder);
    snprintf(command, sizeof command, "cp %s %s/a.h5; cp %s %s/b.h5; echo a.h5 b.h5 > %s",
             fixture("part0.h5"), folder, fixture("part1.h5"), folder, list);
    ck_assert_int_eq(system(command), 0);
    expect_ok(source_open_hdf5_list(list, 1, label_only, &source));
    snprintf(command, sizeof command, "cp %s %s/a.h5", fixture("u8_gzip_int64.h5"), folder);
    ck_assert_int_eq(system(command), 0);
    expect_error(source->i->read(source, 8, 4, out), "a.h5", "label");
    source_close(source);
}
END_TEST

SUITE_IN(folder, "input: HDF5 sources")
{
    TCase *tcase = suite_case(suite, "hdf5");

    tcase_add_test(tcase, images_of_bytes_stay_bytes_and_int64_labels_become_floats);
    tcase_add_test(tcase, images_of_doubles_and_labels_n_by_1_are_read_as_floats);
    tcase_add_test(tcase, images_of_other_integers_are_read_as_floats);
    tcase_add_test(tcase, images_without_labels_need_no_label_data_set);
    tcase_add_test(tcase, images_in_chunks_beyond_the_default_cache_are_read_right);
    tcase_add_test(tcase, a_skipped_field_is_not_written);
    tcase_add_test(tcase, records_beyond_the_end_are_refused);
    tcase_add_test(tcase, bad_image_files_say_what_is_wrong);
    tcase_add_test(tcase, a_relative_name_that_is_missing_names_the_current_folder);
    tcase_add_test(tcase, lzf_of_h5py_is_decoded);
    tcase_add_test(tcase, damaged_lzf_is_an_error_or_other_values);
    tcase_add_test(tcase, booleans_of_numpy_are_0_and_1);
    tcase_add_test(tcase, truncated_files_say_so);
    tcase_add_test(tcase, damaged_files_never_crash);
    tcase_add_test(tcase, hdf5_data_runs_over_the_ends_of_its_files);
    tcase_add_test(tcase, bad_lists_say_what_is_wrong);
    tcase_add_test(tcase, a_listed_file_that_changes_afterwards_is_noticed);
}
