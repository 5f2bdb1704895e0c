/* LMDB and LevelDB of Datum messages, written by python-lmdb and plyvel
 * (tests/data/input/generate_databases.py). */
#include "input/feeder.h"
#include "input/format/datum.h"
#include "input/format/kv.h"
#include "spec/caffe.pb-c.h"
#include "tests/files.h"
#include "tests/input/test_input_common.h"
#include "util/file.h"
#include "util/rng.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif
#ifdef HAVE_LEVELDB
#include <leveldb/c.h>
#endif

static struct record record;

static void clean_up(void)
{
    record_free(&record);
    folder_remove();
}

static struct source *open_database(const char *name)
{
    struct source *source = NULL;

    expect_ok(source_open_images(fixture(name), true, IMAGE_AS_STORED, &source));
    return source;
}

/* Record i of the raw fixtures. */
static void check_raw(struct source *source, uint64_t i, int64_t c, int64_t h, int64_t w)
{
    expect_ok(source_read_record(source, i, &record));
    check_shape(&record.shape, c, h, w);
    ck_assert_int_eq(record.type, SOURCE_U8);
    ck_assert_float_eq(record.label, (float)(i % 10));
    for (int64_t e = 0; e < c * h * w; e++)
        ck_assert_uint_eq(((const uint8_t *)record.data)[e], (7 * i + (uint64_t)e) % 256);
}

START_TEST(lmdb_records_come_in_the_order_of_their_keys_at_any_place)
{
    struct source *source = open_database("lmdb_raw");

    ck_assert_str_eq(source->i->name, "lmdb");
    ck_assert_uint_eq(source->nrecords, 600);
    ck_assert_int_eq(source->nfields, 2);
    check_shape(&source->field[0].shape, 1, 2, 3);
    for (uint64_t i = 0; i < 600; i++)
        check_raw(source, i, 1, 2, 3);
    for (uint64_t i = 599; i > 0; i = i * 7 / 9)
        check_raw(source, i, 1, 2, 3);
    expect_error(source_read_record(source, 600, &record), "record 600 asked for", "600");
    source_close(source);
}
END_TEST

START_TEST(lmdb_values_on_pages_of_their_own_are_found)
{
    struct source *source = open_database("lmdb_big");

    for (uint64_t i = 0; i < 7; i++)
        check_raw(source, i, 3, 40, 50);
    source_close(source);
    /* the file itself, as MDB_NOSUBDIR makes them */
    expect_ok(source_open_images(fixture("lmdb_big/data.mdb"), false, IMAGE_AS_STORED, &source));
    ck_assert_int_eq(source->nfields, 1);
    check_raw(source, 6, 3, 40, 50);
    source_close(source);
}
END_TEST

START_TEST(float_data_is_read_packed_or_not)
{
    struct source *source = open_database("lmdb_float");

    ck_assert_uint_eq(source->nrecords, 5);
    for (uint64_t i = 0; i < 5; i++) {
        expect_ok(source_read_record(source, i, &record));
        check_shape(&record.shape, 2, 3, 4);
        ck_assert_int_eq(record.type, SOURCE_F32);
        ck_assert_float_eq(record.label, -(float)i);
        for (int e = 0; e < 24; e++)
            ck_assert_float_eq(((const float *)record.data)[e], (float)i + (float)e / 8);
    }
    source_close(source);
}
END_TEST

/* What protobuf-c finds in a message, or that it finds none, and what datum_read does. */
static void expect_like_protobuf(const uint8_t *bytes, size_t length)
{
    Caffe__Datum *datum = caffe__datum__unpack(NULL, length, bytes);
    bool raw = datum && datum->data.len > 0;
    size_t values = raw ? datum->data.len : datum ? datum->n_float_data : 0;
    bool fits =
        datum && !datum->encoded && values > 0 && datum->channels > 0 && datum->height > 0 &&
        datum->width > 0 && (uint64_t)datum->channels * (uint64_t)datum->height <= values &&
        (uint64_t)datum->channels * (uint64_t)datum->height * (uint64_t)datum->width == values;
    float label;

    ck_assert_int_eq(datum_read_label(bytes, length, &label) == 0, datum != NULL);
    if (datum && datum->encoded)
        expect_error(datum_read(bytes, length, IMAGE_COLOR, &record), "image");
    else
        ck_assert_int_eq(datum_read(bytes, length, IMAGE_COLOR, &record) == 0, fits);
    if (datum)
        ck_assert_float_eq(label, (float)datum->label);
    if (fits) {
        check_shape(&record.shape, datum->channels, datum->height, datum->width);
        ck_assert_int_eq(record.type, raw ? SOURCE_U8 : SOURCE_F32);
        ck_assert_mem_eq(record.data, raw ? datum->data.data : (uint8_t *)datum->float_data,
                         values * (raw ? 1 : sizeof(float)));
        if (raw) /* where they lie */
            ck_assert((const uint8_t *)record.data > bytes &&
                      (const uint8_t *)record.data < bytes + length);
    }
    if (datum)
        caffe__datum__free_unpacked(datum, NULL);
}

START_TEST(messages_are_taken_and_refused_as_protobuf_c_does)
{
    static const uint8_t pieces[][14] = {
        {"\x02\x08\x01"},     /* channels, height, width */
        {"\x03\x10\x82\x00"}, /* in more bytes than needed */
        {"\x02\x18\x02"},     /* */
        {"\x06\x22\x04"
         "abcd"},                                             /* data */
        {"\x02\x22\x00"},                                     /* none */
        {"\x0b\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}, /* label -1 */
        {"\x0a\x32\x08"
         "\1\2\3\4\5\6\7\x40"}, /* two floats at once */
        {"\x05\x35"
         "\0\0\x80\x3f"},     /* one by itself */
        {"\x02\x38\x00"},     /* not encoded */
        {"\x03\x38\x80\x01"}, /* encoded */
        {"\x09\x49"
         "unknown8"},                     /* a field that Caffe does not know */
        {"\x06\xa2\x80\x80\x80\x10\x00"}, /* one whose number is 4 but for high bits */
    };
    const int npieces = sizeof pieces / sizeof *pieces;
    const struct rng rng = rng_make(20, RNG_DUMMY, 4, 0);
    uint64_t draw = 0;

    for (int i = 0; i < 60000; i++) {
        int n = (int)rng_below(&rng, draw++, 8), damage = (int)rng_below(&rng, draw++, 3);
        size_t length = 0;
        uint8_t *bytes, message[8 * 14] = {0};

        for (int k = 0; k < n; k++) {
            const uint8_t *piece = pieces[rng_below(&rng, draw++, (uint32_t)npieces)];
            memcpy(message + length, piece + 1, piece[0]);
            length += piece[0];
        }
        for (; damage > 0 && length > 0; damage--) {
            uint32_t at = rng_below(&rng, draw++, (uint32_t)length);
            message[at] = (uint8_t)rng_below(&rng, draw++, 256);
        }
        bytes = malloc(length + 1); /* so that a checker of memory sees what is read behind it */
        memcpy(bytes, message, length);
        expect_like_protobuf(bytes, length);
        free(bytes);
    }
    record_free(&record);
}
END_TEST

/* Labels of lmdb_float are 0 to -4 in its order; of lmdb_raw 600 records, with the time for all. */
START_TEST(a_survey_has_the_range_of_the_labels_that_were_read)
{
    struct source *source = open_database("lmdb_float");
    struct source_survey survey;
    float least = 0, most = 0;

    for (int seconds = 0; seconds <= 60; seconds += 60) {
        expect_ok(source_look(source, seconds, &survey));
        ck_assert_uint_eq(survey.nrecords, 5);
        ck_assert(survey.labelled && !survey.fraction);
        ck_assert_uint_eq(survey.nread, seconds ? 5 : 2); /* the first and the last at least */
        ck_assert_float_eq(survey.first, 0);
        ck_assert_float_eq(survey.last, -4);
        ck_assert_float_eq(survey.least, -4);
        ck_assert_float_eq(survey.most, 0);
    }
    source_close(source);
    source = open_database("lmdb_raw");
    for (uint64_t i = 0; i < 600; i++) {
        expect_ok(source_read_record(source, i, &record));
        least = i == 0 || record.label < least ? record.label : least;
        most = i == 0 || record.label > most ? record.label : most;
    }
    expect_ok(source_look(source, 60, &survey));
    ck_assert_uint_eq(survey.nread, 600);
    ck_assert_float_eq(survey.least, least);
    ck_assert_float_eq(survey.most, most);
    source_close(source);
    expect_ok(source_open_images(fixture("lmdb_raw"), false, IMAGE_AS_STORED, &source));
    expect_ok(source_look(source, 60, &survey));
    ck_assert(!survey.labelled && survey.nread == 0);
    source_close(source);
}
END_TEST

START_TEST(encoded_images_are_decoded_as_stored_or_as_asked)
{
    static const int channels[3][4] = {{3, 1, 1, 3}, {3, 3, 3, 3}, {1, 1, 1, 1}};
    static const char *const names[] = {"color.jpg", "gray.jpg", "gray.png", "palette.png"};
    struct source *source;

    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    for (int color = IMAGE_AS_STORED; color <= IMAGE_GRAY; color++) {
        expect_ok(
            source_open_images(fixture("lmdb_mixed"), true, (enum image_color)color, &source));
        for (uint64_t i = 0; i < 4; i++) {
            struct image image = {.channels = 0};
            struct strbuf file = {0}, planes = {0};
            char path[100];

            expect_ok(source_read_record(source, i, &record));
            check_shape(&record.shape, channels[color][i], 23, 37);
            ck_assert_float_eq(record.label, (float)i);
            snprintf(path, sizeof path, "images/%s", names[i]);
            expect_ok(file_load(&file, fixture(path), 1 << 20));
            expect_ok(image_decode(file.bytes, file.length, (enum image_color)color, &image));
            expect_ok(strbuf_reserve(&planes, image.pixels.length, "planes"));
            image_to_planes(&image, planes.bytes);
            ck_assert_mem_eq(record.data, planes.bytes, image.pixels.length);
            image_free(&image);
            strbuf_free(&file);
            strbuf_free(&planes);
        }
        source_close(source);
    }
}
END_TEST

START_TEST(leveldb_is_read_from_table_and_log_and_left_as_it_was)
{
    struct source *first, *second;

#ifndef HAVE_LEVELDB
    expect_error(source_open_images(fixture("leveldb_raw"), true, IMAGE_AS_STORED, &first),
                 "leveldb_raw", "LevelDB", "built without libleveldb");
    return;
#endif
    first = open_database("leveldb_raw");
    second = open_database("leveldb_raw"); /* as another rank would */
    ck_assert_str_eq(first->i->name, "leveldb");
    ck_assert_uint_eq(first->nrecords, 60);
    for (uint64_t i = 0; i < 60; i++) {
        check_raw(first, i, 1, 2, 3);
        check_raw(second, 59 - i, 1, 2, 3);
    }
    source_close(first);
    source_close(second);
    /* nothing was added, not even a lock */
    DIR *stream = opendir(fixture("leveldb_raw"));
    int files = 0;
    ck_assert_ptr_nonnull(stream);
    for (struct dirent *entry; (entry = readdir(stream));)
        files += entry->d_name[0] != '.';
    closedir(stream);
    ck_assert_int_eq(files, 4);
}
END_TEST

START_TEST(leveldb_leaves_no_temporary_folder)
{
    struct source *source;

    setenv("TMPDIR", folder, 1);
    source = open_database("leveldb_raw");
    source_close(source);
    ck_assert_int_eq(rmdir(folder), 0); /* empty */
    ck_assert_int_eq(mkdir(folder, 0700), 0);
    unsetenv("TMPDIR");
}
END_TEST

#ifdef HAVE_LEVELDB
START_TEST(leveldb_gives_the_records_of_its_opening_while_another_program_writes_to_it)
{
    static const char *const names[] = {"000004.log", "000005.ldb", "CURRENT", "MANIFEST-000002"};
    leveldb_options_t *options = leveldb_options_create();
    leveldb_writeoptions_t *writing = leveldb_writeoptions_create();
    char from[64], to[1400], *failure = NULL;
    struct source *source;
    leveldb_t *db;

    snprintf(to, sizeof to, "%s/db", folder);
    ck_assert_int_eq(mkdir(to, 0700), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(from, sizeof from, "leveldb_raw/%s", names[i]);
        snprintf(to, sizeof to, "%s/db/%s", folder, names[i]);
        expect_ok(file_copy(fixture(from), to));
    }
    snprintf(to, sizeof to, "%s/db", folder);
    expect_ok(source_open_images(to, true, IMAGE_AS_STORED, &source));
    db = leveldb_open(options, to, &failure);
    ck_assert_ptr_null(failure);
    for (int i = 0; i < 60; i++) {
        snprintf(from, sizeof from, "%08d", i);
        leveldb_put(db, writing, from, 8, "other", 5, &failure);
        ck_assert_ptr_null(failure);
    }
    leveldb_compact_range(db, NULL, 0, NULL, 0); /* removes the table that was read */
    leveldb_close(db);
    leveldb_options_destroy(options);
    leveldb_writeoptions_destroy(writing);
    snprintf(to, sizeof to, "%s/db/%s", folder, names[1]);
    ck_assert_int_ne(access(to, F_OK), 0);
    for (uint64_t i = 0; i < 60; i++)
        check_raw(source, i, 1, 2, 3);
    source_close(source);
}
END_TEST
#endif

START_TEST(a_bad_datum_names_file_record_and_key)
{
    struct source *source = open_database("lmdb_bad");

    expect_ok(source_read_record(source, 1, &record));
    expect_error(source_read_record(source, 2, &record), "lmdb_bad", "record 2", "key '00000002'",
                 "3 x 4 x 5", "5 values", "expected 60");
    expect_ok(source_read_record(source, 3, &record));
    source_close(source);
}
END_TEST

START_TEST(databases_that_cannot_be_used_say_why)
{
    static const uint8_t swapped[24] = {[16] = 0xbe, 0xef, 0xc0, 0xde}, zeros[256];
    struct source *source;

    expect_error(source_open_images(fixture("lmdb_empty"), true, IMAGE_AS_STORED, &source),
                 "lmdb_empty", "without records");
    ck_assert_int_eq(mkdir(in_folder("x"), 0700), 0);
    file_put("x/data.mdb", "", 0);
    expect_error(source_open_images(in_folder("x"), true, IMAGE_AS_STORED, &source), "x/data.mdb",
                 "expected an LMDB file, found an empty file", "");
    file_put("x/data.mdb", zeros, sizeof zeros);
    expect_error(source_open_images(in_folder("x"), true, IMAGE_AS_STORED, &source),
                 "not an LMDB file", "offset 16", "expected 0xbeefc0de");
    uint8_t page[4096] = {0};
    memcpy(page, swapped, sizeof swapped);
    file_put("y.mdb", page, sizeof page);
    expect_error(source_open_images(in_folder("y.mdb"), true, IMAGE_AS_STORED, &source), "y.mdb",
                 "other byte order");
}
END_TEST

/* A prefix of a good file is refused at once or while it is read, or it has all that is needed:
 * pages at the end may be free ones. */
START_TEST(lmdb_cut_anywhere_is_an_error_and_no_crash)
{
    struct strbuf whole = {0};
    struct source *source;
    int good = 0;

    expect_ok(file_load(&whole, fixture("lmdb_big/data.mdb"), 1 << 20));
    for (size_t cut = 0; cut < whole.length; cut += cut < 200 ? 1 : 509) {
        int status = 0;

        file_put("data.mdb", whole.bytes, cut);
        if (source_open_images(folder, true, IMAGE_AS_STORED, &source)) {
            expect_error(-1, "data.mdb", "LMDB");
            continue;
        }
        for (uint64_t i = 0; i < source->nrecords && status == 0; i++)
            status = source_read_record(source, i, &record);
        if (status)
            expect_error(status, "data.mdb", "truncated");
        for (uint64_t i = 0; i < 7 && status == 0; i++)
            check_raw(source, i, 3, 40, 50);
        good += status == 0;
        source_close(source);
    }
    ck_assert_int_lt(good, 20);
    strbuf_free(&whole);
}
END_TEST

START_TEST(damaged_lmdb_never_crashes)
{
    struct strbuf whole = {0};
    struct source *source;

    expect_ok(file_load(&whole, fixture("lmdb_raw/data.mdb"), 1 << 20));
    for (size_t at = 0; at < whole.length; at += at % 4096 < 160 ? 1 : 61) {
        uint8_t before = whole.bytes[at];

        whole.bytes[at] = (uint8_t)(at % 3 ? ~before : before + 1);
        file_put("data.mdb", whole.bytes, whole.length);
        whole.bytes[at] = before;
        if (source_open_images(folder, true, IMAGE_AS_STORED, &source))
            continue;
        ck_assert_uint_le(source->nrecords, 600);
        for (uint64_t i = 0; i < source->nrecords; i += 23)
            (void)source_read_record(source, i, &record);
        source_close(source);
    }
    strbuf_free(&whole);
}
END_TEST

START_TEST(sizes_may_vary_with_a_crop_alone)
{
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct feeder_options o = {.batch = 6, .nranks = 1, .depth = 2};
    float value[] = {1, 2, 3};
    const float *const *fields;
    struct feeder *feeder;
    struct transform t;

    for (int crop = 0; crop <= 10; crop += 10) {
        struct source *source = open_database("lmdb_sizes");

        param.has_crop_size = crop > 0;
        param.crop_size = (uint32_t)crop;
        param.n_mean_value = 3;
        param.mean_value = value;
        expect_ok(transform_create(&param, &source->field[0].shape, false, NULL, &t));
        expect_ok(feeder_create(source, &t, &o, &feeder));
        if (crop) {
            expect_ok(feeder_next(feeder, &fields));
            for (int i = 0; i < 6; i++) {
                int h = 10 + i, w = 12 + 2 * i, top = i / 2, left = 1 + i;
                for (int e = 0; e < 300; e++) {
                    int c = e / 100, y = e / 10 % 10 + top, x = e % 10 + left;
                    ck_assert_float_eq(fields[0][300 * i + e],
                                       (float)((7 * i + (c * h + y) * w + x) % 256 - (c + 1)));
                }
            }
        } else {
            expect_error(feeder_next(feeder, &fields), "lmdb_sizes", "record 1", "3x11x14",
                         "3x10x12", "only with crop_size");
        }
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(records_too_small_for_the_crop_or_of_other_channels_are_named)
{
    struct transform t = {.scale = 1, .crops = true, .in = {3, {3, 8, 8}}, .out = {3, {3, 5, 5}}};
    const struct shape small = {3, {3, 8, 4}}, gray = {3, {1, 8, 8}}, large = {3, {3, 9, 9}};

    expect_error(transform_accepts(&t, &small), "crop_size 5", "8 x 4");
    expect_error(transform_accepts(&t, &gray), "1x8x8", "3x8x8", "force_color");
    expect_ok(transform_accepts(&t, &large));
    t.mean = &t.scale;
    expect_error(transform_accepts(&t, &large), "3x9x9", "mean image", "mean_value");
}
END_TEST

SUITE("input_database")
{
    TCase *tcase = suite_case(suite, "databases");

    tcase_add_checked_fixture(tcase, folder_make, clean_up);
    tcase_add_test(tcase, lmdb_records_come_in_the_order_of_their_keys_at_any_place);
    tcase_add_test(tcase, lmdb_values_on_pages_of_their_own_are_found);
    tcase_add_test(tcase, float_data_is_read_packed_or_not);
    tcase_add_test(tcase, messages_are_taken_and_refused_as_protobuf_c_does);
    tcase_add_test(tcase, a_survey_has_the_range_of_the_labels_that_were_read);
    tcase_add_test(tcase, encoded_images_are_decoded_as_stored_or_as_asked);
    tcase_add_test(tcase, leveldb_is_read_from_table_and_log_and_left_as_it_was);
#ifdef HAVE_LEVELDB
    tcase_add_test(tcase, leveldb_leaves_no_temporary_folder);
    tcase_add_test(tcase,
                   leveldb_gives_the_records_of_its_opening_while_another_program_writes_to_it);
#else
    (void)leveldb_leaves_no_temporary_folder;
#endif
    tcase_add_test(tcase, a_bad_datum_names_file_record_and_key);
    tcase_add_test(tcase, databases_that_cannot_be_used_say_why);
    tcase_add_test(tcase, lmdb_cut_anywhere_is_an_error_and_no_crash);
    tcase_add_test(tcase, damaged_lmdb_never_crashes);
    tcase_add_test(tcase, sizes_may_vary_with_a_crop_alone);
    tcase_add_test(tcase, records_too_small_for_the_crop_or_of_other_channels_are_named);
}
