/* The feeder over a source in memory that can fail and be slow, and over HDF5. */
#include "input/feeder.h"
#include "tests/input/test_input_common.h"
#include "tests/suite.h"

#include <stdatomic.h>
#include <time.h>

/* Record r: field 0 is 1x4x4 bytes, byte e = 16 (r mod 16) + e; field 1 is the label r. */
struct fake {
    struct source source;
    uint64_t fail_at;     /* reading this record fails; UINT64_MAX: none */
    bool fail_from_there; /* so do all behind it */
    int delay_us;
    _Atomic uint64_t calls;
    bool floats_at_4;    /* record 4 says it has floats */
    _Atomic int *closed; /* counts closings, may be NULL */
};

static void fake_close(struct source *source)
{
    struct fake *fake = (struct fake *)source;

    if (fake->closed)
        atomic_fetch_add(fake->closed, 1);
    free(fake);
}

static int fake_read(struct source *source, uint64_t first, uint64_t count, void *const *out)
{
    struct fake *fake = (struct fake *)source;

    atomic_fetch_add(&fake->calls, 1);
    if (fake->delay_us)
        nanosleep(&(struct timespec){0, 1000L * fake->delay_us}, NULL);
    if (first + count > source->nrecords)
        return error_set("outside the source");
    for (uint64_t k = 0; k < count; k++) {
        uint64_t r = first + k;
        if (r == fake->fail_at || (fake->fail_from_there && r > fake->fail_at))
            return error_set("record %d is damaged", (int)r);
        for (uint64_t e = 0; e < 16; e++)
            ((uint8_t *)out[0])[k * 16 + e] = (uint8_t)(16 * (r % 16) + e);
        ((float *)out[1])[k] = (float)r;
    }
    return 0;
}

/* The same records one by one, in a time of their own each. */
static int fake_read_record(struct source *source, uint64_t number, struct record *out)
{
    struct fake *fake = (struct fake *)source;
    void *fields[2];

    if (number % 5 == 0)
        nanosleep(&(struct timespec){0, (long)(number * 7919 % 40000)}, NULL);
    expect_ok(bytes_reserve(&out->planes, 16, "a record"));
    fields[0] = out->planes.data;
    fields[1] = &out->label;
    out->shape = source->field[0].shape;
    out->type = fake->floats_at_4 && number == 4 ? SOURCE_F32 : SOURCE_U8;
    out->data = out->planes.data;
    return fake_read(&fake->source, number, 1, fields);
}

static const struct source_i fake_i = {.name = "fake", .close = fake_close, .read = fake_read};
static const struct source_i fake_singly_i = {
    .name = "fake", .close = fake_close, .read_record = fake_read_record};

/* Whether fakes give their records one by one; loop tests set it. */
static bool singly;

static struct fake *fake_create(uint64_t nrecords)
{
    struct fake *fake = calloc(1, sizeof *fake);

    fake->source.i = singly ? &fake_singly_i : &fake_i;
    fake->source.path = (char *)"fake";
    fake->source.nrecords = nrecords;
    fake->source.nfields = 2;
    fake->source.field[0] = (struct source_field){(char *)"data", {3, {1, 4, 4}}, SOURCE_U8};
    fake->source.field[1] = (struct source_field){(char *)"label", {0, {0}}, SOURCE_F32};
    fake->fail_at = UINT64_MAX;
    return fake;
}

static struct feeder *feed(struct fake *fake, struct feeder_options o, bool augment)
{
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct transform t;
    struct feeder *feeder = NULL;

    param.crop_size = 2;
    param.mirror = true;
    if (augment)
        expect_ok(transform_create(&param, &fake->source.field[0].shape, true, NULL, &t));
    expect_ok(feeder_create(&fake->source, augment ? &t : NULL, &o, &feeder));
    return feeder;
}

static struct feeder_options options(int batch, int rank, int nranks)
{
    return (struct feeder_options){
        .batch = batch, .rank = rank, .nranks = nranks, .seed = 3, .layer_index = 2, .depth = 3};
}

START_TEST(samples_come_in_order_and_wrap_around)
{
    singly = _i;
    struct feeder *feeder = feed(fake_create(7), options(5, 0, 1), false);
    const float *const *fields;

    for (int pass = 0; pass < 50; pass++) {
        expect_ok(feeder_next(feeder, &fields));
        for (int k = 0; k < 5; k++) {
            int r = (5 * pass + k) % 7;
            ck_assert_float_eq(fields[1][k], (float)r);
            for (int e = 0; e < 16; e++)
                ck_assert_float_eq(fields[0][16 * k + e], (float)(16 * r + e));
        }
    }
    feeder_destroy(feeder);
}
END_TEST

START_TEST(a_batch_larger_than_the_source_repeats_it)
{
    singly = _i;
    for (int n = 1; n <= 3; n++)
        for (int shuffle = 0; shuffle < 2; shuffle++) {
            struct feeder_options o = options(11, 0, 1);
            const float *const *fields;
            int seen[3] = {0};

            o.shuffle = shuffle;
            struct feeder *feeder = feed(fake_create((uint64_t)n), o, false);
            for (int pass = 0; pass < n; pass++) {
                expect_ok(feeder_next(feeder, &fields));
                for (int k = 0; k < 11; k++)
                    seen[(int)fields[1][k]]++;
            }
            for (int r = 0; r < n; r++)
                ck_assert_int_eq(seen[r], 11);
            feeder_destroy(feeder);
        }
}
END_TEST

#define GLOBAL 12
#define PASSES 20

/* labels and pixels of PASSES global batches, put together from nranks ranks. */
static void gather(int nranks, bool shuffle, float label[PASSES * GLOBAL],
                   float pixels[PASSES * GLOBAL][4])
{
    int batch = GLOBAL / nranks;

    for (int rank = 0; rank < nranks; rank++) {
        struct feeder_options o = options(batch, rank, nranks);
        struct feeder *feeder;
        const float *const *fields;

        o.shuffle = shuffle;
        o.first_sample = 5;
        feeder = feed(fake_create(31), o, true);
        for (int pass = 0; pass < PASSES; pass++) {
            int at = pass * GLOBAL + rank * batch;
            expect_ok(feeder_next(feeder, &fields));
            memcpy(label + at, fields[1], (size_t)batch * sizeof *label);
            memcpy(pixels[at], fields[0], (size_t)batch * sizeof *pixels);
        }
        feeder_destroy(feeder);
    }
}

START_TEST(samples_crops_and_mirrors_are_the_same_at_any_number_of_ranks)
{
    singly = _i;
    static float label[2][PASSES * GLOBAL], pixels[2][PASSES * GLOBAL][4];

    for (int shuffle = 0; shuffle < 2; shuffle++) {
        gather(1, shuffle, label[0], pixels[0]);
        for (int nranks = 2; nranks <= 4; nranks++) {
            gather(nranks, shuffle, label[1], pixels[1]);
            ck_assert_mem_eq(label[0], label[1], sizeof label[0]);
            ck_assert_mem_eq(pixels[0], pixels[1], sizeof pixels[0]);
        }
        if (!shuffle)
            for (int k = 0; k < PASSES * GLOBAL; k++)
                ck_assert_float_eq(label[0][k], (float)((5 + k) % 31));
    }
}
END_TEST

START_TEST(shuffling_permutes_every_epoch_differently_and_by_the_seed)
{
    singly = _i;
    static float label[3][4 * 60];
    int same_as_next = 0, same_as_other_seed = 0, in_place = 0;

    for (int run = 0; run < 3; run++) {
        struct feeder_options o = options(24, 0, 1);
        const float *const *fields;

        o.shuffle = true;
        o.seed = run == 2 ? 4 : 3;
        struct feeder *feeder = feed(fake_create(60), o, false);
        for (int pass = 0; pass < 10; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            memcpy(label[run] + 24 * pass, fields[1], 24 * sizeof(float));
            for (int k = 0; k < 24; k++) /* pixels belong to their label */
                ck_assert_float_eq(fields[0][16 * k], (float)(16 * ((int)fields[1][k] % 16)));
        }
        feeder_destroy(feeder);
    }
    ck_assert_mem_eq(label[0], label[1], sizeof label[0]);
    for (int epoch = 0; epoch < 4; epoch++) {
        int seen[60] = {0};
        for (int k = 0; k < 60; k++) {
            seen[(int)label[0][60 * epoch + k]]++;
            same_as_next += epoch < 3 && label[0][60 * epoch + k] == label[0][60 * epoch + 60 + k];
            same_as_other_seed += label[0][60 * epoch + k] == label[2][60 * epoch + k];
            in_place += label[0][60 * epoch + k] == (float)k;
        }
        for (int r = 0; r < 60; r++)
            ck_assert_int_eq(seen[r], 1);
    }
    /* one fixed point per permutation is expected */
    ck_assert_int_lt(same_as_next, 15);
    ck_assert_int_lt(same_as_other_seed, 18);
    ck_assert_int_lt(in_place, 18);
}
END_TEST

START_TEST(neighbours_are_read_in_one_call)
{
    struct fake *fake = fake_create(1000);
    struct feeder *feeder = feed(fake, options(100, 0, 1), false);
    const float *const *fields;

    expect_ok(feeder_next(feeder, &fields));
    expect_ok(feeder_next(feeder, &fields));
    ck_assert_uint_le(atomic_load(&fake->calls), 2 + 3);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(seek_starts_over_at_the_sample_for_every_rank)
{
    singly = _i;
    struct feeder *feeder = feed(fake_create(100), options(4, 1, 3), false);
    const float *const *fields;

    for (uint64_t round = 0; round < 100; round++) {
        uint64_t first = round * 37 % 1000;
        ck_assert_int_eq(feeder_seek(feeder, first), 0);
        for (uint64_t pass = 0; pass < round % 5; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            for (uint64_t k = 0; k < 4; k++)
                ck_assert_float_eq(fields[1][k], (float)((first + (pass * 3 + 1) * 4 + k) % 100));
        }
    }
    feeder_destroy(feeder);
}
END_TEST

START_TEST(a_borrowed_batch_survives_a_seek)
{
    singly = _i;
    struct feeder *feeder = feed(fake_create(100), options(4, 0, 1), false);
    const float *const *fields;

    for (int round = 0; round < 200; round++) {
        expect_ok(feeder_next(feeder, &fields));
        float first = fields[1][0];
        feeder_seek(feeder, (uint64_t)round * 3);
        nanosleep(&(struct timespec){0, 20000}, NULL);
        for (int k = 0; k < 4; k++)
            ck_assert_float_eq(fields[1][k], (float)(((int)first + k) % 100));
    }
    feeder_destroy(feeder);
}
END_TEST

START_TEST(an_error_comes_after_the_good_batches_and_ends_with_a_seek)
{
    singly = _i;
    struct fake *fake = fake_create(100);
    const float *const *fields;

    fake->fail_at = 33;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);
    for (int round = 0; round < 3; round++) {
        for (int pass = 0; pass < 3; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            ck_assert_float_eq(fields[1][9], (float)(10 * pass + 9));
        }
        expect_error(feeder_next(feeder, &fields), "record 33 is damaged");
        error_clear();
        expect_error(feeder_next(feeder, &fields), "record 33 is damaged");
        feeder_seek(feeder, 40);
        expect_ok(feeder_next(feeder, &fields));
        ck_assert_float_eq(fields[1][0], 40);
        feeder_seek(feeder, 0);
    }
    feeder_destroy(feeder);
}
END_TEST

START_TEST(waiting_is_counted_but_for_the_first_batch)
{
    singly = _i;
    struct fake *fake = fake_create(100);
    const float *const *fields;
    uint64_t times;
    double seconds;

    fake->delay_us = 20000;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);
    expect_ok(feeder_next(feeder, &fields));
    feeder_waits(feeder, &times, &seconds);
    ck_assert_uint_eq(times, 0);
    ck_assert_double_eq(seconds, 0);
    for (int pass = 0; pass < 9; pass++)
        expect_ok(feeder_next(feeder, &fields));
    feeder_waits(feeder, &times, &seconds);
    ck_assert_uint_ge(times, 8);
    ck_assert_double_ge(seconds, 0.1);
    ck_assert_double_le(seconds, 30);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(a_reader_that_is_ahead_is_not_waited_for)
{
    struct fake *fake = fake_create(100);
    const float *const *fields;
    uint64_t times;
    double seconds;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);

    expect_ok(feeder_next(feeder, &fields));
    for (int pass = 0; pass < 5; pass++) {
        uint64_t before = atomic_load(&fake->calls);
        for (int k = 0; k < 1000 && atomic_load(&fake->calls) < (uint64_t)pass + 3; k++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        nanosleep(&(struct timespec){0, 20000000}, NULL);
        ck_assert_uint_ge(atomic_load(&fake->calls), before);
        expect_ok(feeder_next(feeder, &fields));
    }
    feeder_waits(feeder, &times, &seconds);
    ck_assert_uint_eq(times, 0);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(it_reads_no_further_than_its_depth)
{
    struct fake *fake = fake_create(100);
    const float *const *fields;
    struct feeder *feeder = feed(fake, options(10, 0, 1), false);

    expect_ok(feeder_next(feeder, &fields));
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    ck_assert_uint_eq(atomic_load(&fake->calls), 3); /* one borrowed, two ahead */
    feeder_destroy(feeder);
}
END_TEST

START_TEST(it_reads_single_records_no_further_than_its_depth)
{
    struct fake *fake;
    const float *const *fields;
    struct feeder *feeder;

    singly = true;
    fake = fake_create(100);
    feeder = feed(fake, options(10, 0, 1), false);
    expect_ok(feeder_next(feeder, &fields));
    nanosleep(&(struct timespec){0, 200000000}, NULL);
    ck_assert_uint_eq(atomic_load(&fake->calls), 30);
    feeder_destroy(feeder);
}
END_TEST

START_TEST(a_thread_is_added_for_every_wait_up_to_the_limit)
{
    struct feeder_options o = options(4, 0, 1);
    const float *const *fields;
    struct feeder *feeder;
    struct fake *fake;

    for (int most = 1; most <= 5; most += 2) {
        singly = true;
        fake = fake_create(100);
        fake->delay_us = 3000;
        o.max_threads = most;
        feeder = feed(fake, o, false);
        ck_assert_int_eq(feeder_threads(feeder), 1);
        for (int pass = 0; pass < 20; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            for (int k = 0; k < 4; k++)
                ck_assert_float_eq(fields[1][k], (float)((4 * pass + k) % 100));
        }
        ck_assert_int_eq(feeder_threads(feeder), most);
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(a_source_that_keeps_ahead_stays_with_one_thread)
{
    const float *const *fields;
    struct feeder *feeder;

    singly = true;
    feeder = feed(fake_create(100), options(4, 0, 1), false);
    for (int pass = 0; pass < 10; pass++) {
        expect_ok(feeder_next(feeder, &fields));
        nanosleep(&(struct timespec){0, 30000000}, NULL);
    }
    ck_assert_int_eq(feeder_threads(feeder), 1);
    feeder_destroy(feeder);
}
END_TEST

/* The lowest record that fails is reported, however the threads hurry. */
START_TEST(the_first_failing_sample_is_the_one_reported)
{
    for (int round = 0; round < 30; round++) {
        struct feeder_options o = options(32, 0, 1);
        const float *const *fields;
        struct feeder *feeder;
        struct fake *fake;

        singly = true;
        o.max_threads = 4;
        fake = fake_create(1000);
        fake->delay_us = 1; /* rounded up by the system to some 50 */
        fake->fail_at = 333;
        fake->fail_from_there = true;
        feeder = feed(fake, o, false);
        for (int pass = 0; pass < 10; pass++)
            expect_ok(feeder_next(feeder, &fields));
        ck_assert_int_eq(feeder_threads(feeder), 4);
        expect_error(feeder_next(feeder, &fields), "record 333 is damaged");
        expect_error(feeder_next(feeder, &fields), "record 333 is damaged");
        feeder_seek(feeder, 320);
        expect_error(feeder_next(feeder, &fields), "record 333 is damaged");
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(it_can_be_destroyed_at_any_moment)
{
    singly = _i;
    _Atomic int closed = 0;
    const float *const *fields;

    for (int round = 0; round < 200; round++) {
        struct fake *fake = fake_create(50);
        struct feeder_options o = options(8, 0, 1);

        fake->closed = &closed;
        fake->delay_us = round % 3 * 50;
        fake->fail_at = round % 7 == 0 ? 20 : UINT64_MAX;
        o.shuffle = round % 2;
        struct feeder *feeder = feed(fake, o, true);
        for (int k = 0; k < round % 5; k++)
            if (feeder_next(feeder, &fields))
                break;
        if (round % 4 == 1)
            feeder_seek(feeder, 3);
        if (round % 5 == 2)
            nanosleep(&(struct timespec){0, 1000L * round}, NULL);
        feeder_destroy(feeder);
    }
    ck_assert_int_eq(atomic_load(&closed), 200);
    feeder_destroy(NULL);
}
END_TEST

START_TEST(impossible_options_are_refused_and_everything_is_freed)
{
    static const struct {
        struct feeder_options o;
        uint64_t nrecords;
        const char *expected;
    } cases[] = {
        {{.batch = 0, .nranks = 1, .depth = 2}, 10, "batch_size 0"},
        {{.batch = 1, .nranks = 2, .rank = 2, .depth = 2}, 10, "rank 2 of 2"},
        {{.batch = 1, .nranks = 1, .depth = 1}, 10, "1 batches kept ready; expected at least 2"},
        {{.batch = 1, .nranks = 1, .depth = 2, .shuffle = true},
         ((uint64_t)1 << 40) + 1,
         "cannot be shuffled"},
        {{.batch = 1 << 28, .nranks = 1, .depth = 2}, 10, "exceeds INT_MAX"},
        {{.batch = 1, .nranks = 1, .depth = 2, .bytes = true},
         10,
         "only images of bytes with a transform"},
    };
    _Atomic int closed = 0;
    int n = sizeof cases / sizeof *cases;

    for (int i = 0; i < n; i++) {
        struct fake *fake = fake_create(cases[i].nrecords);
        struct feeder *feeder = NULL;

        fake->closed = &closed;
        expect_error(feeder_create(&fake->source, NULL, &cases[i].o, &feeder), "fake",
                     cases[i].expected);
        ck_assert_ptr_null(feeder);
    }
    ck_assert_int_eq(atomic_load(&closed), n);
}
END_TEST

/* What an engine that makes the values itself is given, against what the feeder makes. */
START_TEST(bytes_turned_at_their_windows_are_the_transformed_values)
{
    singly = _i;
    struct feeder_options o = options(5, 1, 2);
    o.shuffle = true;
    struct feeder *values = feed(fake_create(23), o, true);
    o.bytes = true;
    struct feeder *bytes = feed(fake_create(23), o, true);

    for (int pass = 0; pass < 8; pass++) {
        const float *const *expected, *const *found;
        const struct engine_window *windows;
        const uint8_t *pixels;
        expect_ok(feeder_next(values, &expected));
        expect_ok(feeder_next(bytes, &found));
        feeder_bytes(bytes, &pixels, &windows);
        ck_assert_ptr_null(found[0]);
        for (int k = 0; k < 5; k++) {
            ck_assert(found[1][k] == expected[1][k]);
            for (int e = 0; e < 4; e++)
                ck_assert((float)pixels[4 * k + (windows[k].mirror ? e ^ 1 : e)] ==
                          expected[0][4 * k + e]);
        }
    }
    feeder_destroy(values);
    feeder_destroy(bytes);
    singly = false;
}
END_TEST

START_TEST(floats_among_bytes_are_refused_where_bytes_are_fed)
{
    struct feeder_options o = options(5, 0, 1);
    const float *const *fields;
    struct feeder *feeder;
    struct fake *fake;

    singly = true;
    o.bytes = true;
    fake = fake_create(23);
    fake->floats_at_4 = true;
    feeder = feed(fake, o, true);
    expect_error(feeder_next(feeder, &fields),
                 "fake: record 4 holds floats, but the first one bytes", "--engine=cpu takes both");
    feeder_destroy(feeder);
    singly = false;
}
END_TEST

START_TEST(hdf5_data_in_batches_of_five_over_the_ends_of_the_files)
{
    static const char *const names[] = {"data", "label", "label2"};
    static const char *const lists[] = {"list.txt", "list_one.txt"};

    for (int l = 0; l < 2; l++) {
        struct source *source = NULL;
        struct feeder *feeder = NULL;
        struct feeder_options o = options(5, 0, 1);
        const float *const *fields;
        int n = l ? 10 : 20;

        expect_ok(source_open_hdf5_list(fixture(lists[l]), 3, names, &source));
        expect_ok(feeder_create(source, NULL, &o, &feeder));
        for (int pass = 0; pass < 10; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            for (int k = 0; k < 5; k++) {
                int r = (5 * pass + k) % n;
                ck_assert_float_eq(fields[1][k], (float)(1 + r));
                ck_assert_float_eq(fields[2][k], (float)(2 + r));
                for (int e = 0; e < 240; e++)
                    ck_assert_float_eq(fields[0][240 * k + e], (float)(240 * r + e));
            }
        }
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(hdf5_data_skips_what_belongs_to_the_other_eight_ranks)
{
    static const char *const names[] = {"label"};

    for (int rank = 0; rank < 8; rank++) {
        struct source *source = NULL;
        struct feeder *feeder = NULL;
        struct feeder_options o = options(5, rank, 8);
        const float *const *fields;

        expect_ok(source_open_hdf5_list(fixture("list.txt"), 1, names, &source));
        expect_ok(feeder_create(source, NULL, &o, &feeder));
        for (int pass = 0; pass < 10; pass++) {
            expect_ok(feeder_next(feeder, &fields));
            for (int k = 0; k < 5; k++)
                ck_assert_float_eq(fields[0][k], (float)(1 + (40 * pass + 5 * rank + k) % 20));
        }
        feeder_destroy(feeder);
    }
}
END_TEST

START_TEST(images_are_fed_transformed_with_float_labels)
{
    struct source *source = NULL;
    struct feeder *feeder = NULL;
    struct feeder_options o = options(8, 0, 1);
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct transform t;
    const float *const *fields;

    expect_ok(source_open_images(fixture("u8_gzip_int64.h5"), true, IMAGE_AS_STORED, &source));
    param.scale = 0.5f;
    param.crop_size = 4;
    expect_ok(transform_create(&param, &source->field[0].shape, false, NULL, &t));
    o.shuffle = true;
    expect_ok(feeder_create(source, &t, &o, &feeder));
    for (int pass = 0; pass < 30; pass++) {
        int matches = 0;
        expect_ok(feeder_next(feeder, &fields));
        for (int k = 0; k < 8; k++)
            for (int r = 0; r < 12;
                 r++) /* the record is known by its first pixel, the crop's at 0, 1 */
                if (fields[0][k * 48] == 0.5f * (float)(7 * r + 1)) {
                    matches++;
                    ck_assert_float_eq(fields[1][k], (float)(r % 10));
                    for (int c = 0; c < 3; c++)
                        for (int h = 0; h < 4; h++)
                            for (int w = 0; w < 4; w++)
                                ck_assert_float_eq(fields[0][((k * 3 + c) * 4 + h) * 4 + w],
                                                   0.5f * (float)(7 * r + c * 30 + h * 6 + w + 1));
                }
        ck_assert_int_eq(matches, 8);
    }
    feeder_destroy(feeder);
}
END_TEST

SUITE("input: feeder")
{
    TCase *tcase = suite_case(suite, "feeder");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, samples_come_in_order_and_wrap_around, 0, 2);
    tcase_add_loop_test(tcase, a_batch_larger_than_the_source_repeats_it, 0, 2);
    tcase_add_loop_test(tcase, samples_crops_and_mirrors_are_the_same_at_any_number_of_ranks, 0, 2);
    tcase_add_loop_test(tcase, shuffling_permutes_every_epoch_differently_and_by_the_seed, 0, 2);
    tcase_add_test(tcase, neighbours_are_read_in_one_call);
    tcase_add_loop_test(tcase, seek_starts_over_at_the_sample_for_every_rank, 0, 2);
    tcase_add_loop_test(tcase, a_borrowed_batch_survives_a_seek, 0, 2);
    tcase_add_loop_test(tcase, an_error_comes_after_the_good_batches_and_ends_with_a_seek, 0, 2);
    tcase_add_loop_test(tcase, waiting_is_counted_but_for_the_first_batch, 0, 2);
    tcase_add_test(tcase, a_reader_that_is_ahead_is_not_waited_for);
    tcase_add_test(tcase, it_reads_no_further_than_its_depth);
    tcase_add_loop_test(tcase, it_can_be_destroyed_at_any_moment, 0, 2);
    tcase_add_test(tcase, it_reads_single_records_no_further_than_its_depth);
    tcase_add_test(tcase, a_thread_is_added_for_every_wait_up_to_the_limit);
    tcase_add_test(tcase, a_source_that_keeps_ahead_stays_with_one_thread);
    tcase_add_test(tcase, the_first_failing_sample_is_the_one_reported);
    tcase_add_test(tcase, impossible_options_are_refused_and_everything_is_freed);
    tcase_add_loop_test(tcase, bytes_turned_at_their_windows_are_the_transformed_values, 0, 2);
    tcase_add_test(tcase, floats_among_bytes_are_refused_where_bytes_are_fed);
    tcase_add_test(tcase, hdf5_data_in_batches_of_five_over_the_ends_of_the_files);
    tcase_add_test(tcase, hdf5_data_skips_what_belongs_to_the_other_eight_ranks);
    tcase_add_test(tcase, images_are_fed_transformed_with_float_labels);
}
