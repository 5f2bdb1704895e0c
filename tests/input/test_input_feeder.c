/* Which samples a feeder gives, and in which order: over a source in memory and over HDF5. */
#include "tests/input/fake_source.h"
#include "tests/suite.h"

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

/* labels and pixels of PASSES global batches, put together from nranks ranks that take `row` passes
 * for each. */
static void gather(int nranks, int row, enum shuffle shuffle, float label[PASSES * GLOBAL],
                   float pixels[PASSES * GLOBAL][4])
{
    int batch = GLOBAL / nranks / row;

    for (int rank = 0; rank < nranks; rank++) {
        struct feeder_options o = options(batch, rank, nranks);
        struct feeder *feeder;
        const float *const *fields;

        o.row = row;
        o.shuffle = shuffle;
        o.first_sample = 5;
        feeder = feed(fake_create(31), o, true);
        for (int pass = 0; pass < PASSES * row; pass++) {
            int at = pass / row * GLOBAL + (rank * row + pass % row) * batch;
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

    for (enum shuffle shuffle = SHUFFLE_NONE; shuffle <= SHUFFLE_ALL; shuffle++) {
        gather(1, 1, shuffle, label[0], pixels[0]);
        for (int nranks = 1; nranks <= 4; nranks++) {
            gather(nranks, 1 + nranks % 2, shuffle, label[1], pixels[1]);
            ck_assert_mem_eq(label[0], label[1], sizeof label[0]);
            ck_assert_mem_eq(pixels[0], pixels[1], sizeof pixels[0]);
        }
        if (!shuffle)
            for (int k = 0; k < PASSES * GLOBAL; k++)
                ck_assert_float_eq(label[0][k], (float)((5 + k) % 31));
    }
}
END_TEST

START_TEST(every_record_is_mirrored_in_every_second_epoch)
{
    static float label[PASSES * GLOBAL], pixels[PASSES * GLOBAL][4];
    int first[2] = {0}, last[31];

    singly = _i;
    for (enum shuffle shuffle = SHUFFLE_NONE; shuffle <= SHUFFLE_ALL; shuffle++) {
        gather(1, 1, shuffle, label, pixels);
        for (int k = 31 - 5; k < PASSES * GLOBAL; k++) { /* from the second epoch on */
            int r = (int)label[k], mirrored = pixels[k][0] > pixels[k][1];

            if (k < 31 - 5 + 31)
                first[mirrored]++;
            else
                ck_assert_int_eq(mirrored, !last[r]);
            last[r] = mirrored;
        }
    }
    ck_assert_int_eq(first[0] + first[1], 3 * 31);
    ck_assert(first[0] >= 25 && first[1] >= 25);
}
END_TEST

START_TEST(windows_hold_whole_blocks_in_another_order_every_epoch)
{
    static const uint64_t counts[] = {1, 15, 17, 2048, 2049, 5000, 40961};
    uint64_t n = counts[_i], same = 0;
    struct order order = {SHUFFLE_WINDOWS, 3, 2, n}, other = {SHUFFLE_WINDOWS, 3, 7, n};
    char *seen = calloc(n, 1);

    for (uint64_t g = 0; g < 3 * n; g++) {
        uint64_t record = order_record(&order, g);

        ck_assert(record < n && seen[record]++ == (char)(g / n));
        ck_assert(record == order_record(&other, g)); /* layers stay in step */
        same += record == order_record(&order, g + n);
    }
    ck_assert(n < 15 || same < 3 * n / 2);
    free(seen);
    for (uint64_t g = 0, size; g < n; g += size) {
        static bool block[40961 / ORDER_BLOCK + 1];
        uint64_t blocks = 0, next = 0;

        memset(block, 0, sizeof block);
        ck_assert_uint_eq(order_window(&order, g, &size), g);
        for (uint64_t k = 0; k < size; k++) {
            uint64_t record = order_record(&order, g + k);

            blocks += !block[record / ORDER_BLOCK];
            block[record / ORDER_BLOCK] = true;
            next += k > 0 && record == order_record(&order, g + k - 1) + 1;
        }
        /* one more where the file's short block came into it, whose place it takes */
        ck_assert_uint_le(blocks, (size + ORDER_BLOCK - 1) / ORDER_BLOCK + 2);
        ck_assert(size < 100 || next < size / 10);
    }
}
END_TEST

#define EXPECTED 5000
static _Atomic int expected[EXPECTED], expected_calls;

static void fake_expect(struct source *source, uint64_t first, uint64_t count)
{
    ck_assert(first + count <= source->nrecords);
    atomic_fetch_add(&expected_calls, 1);
    for (uint64_t k = 0; k < count; k++)
        atomic_fetch_add(&expected[first + k], 1);
}

/* Of one rank whole blocks, but for those that a window's end cuts; of two, each one's own. */
START_TEST(records_of_a_window_are_asked_for_ahead_in_the_order_of_the_file)
{
    static const struct source_i asked_i = {.name = "fake",
                                            .close = fake_close,
                                            .read_record = fake_read_record,
                                            .expect = fake_expect};
    const int nranks = _i + 1, passes = 5 * EXPECTED / 2 / 40 / nranks;
    struct feeder_options o = options(40, nranks - 1, nranks);
    const float *const *fields;
    struct fake *fake;
    int left = 0;

    singly = true;
    fake = fake_create(EXPECTED);
    fake->source.i = &asked_i;
    o.shuffle = SHUFFLE_WINDOWS;
    o.first_sample = 300;
    memset(expected, 0, sizeof expected);
    atomic_store(&expected_calls, 0);
    struct feeder *feeder = feed(fake, o, false);
    for (int pass = 0; pass < passes; pass++) {
        expect_ok(feeder_next(feeder, &fields));
        for (int k = 0; k < 40; k++)
            ck_assert_int_ge(atomic_fetch_sub(&expected[(int)fields[1][k]], 1), 1);
    }
    feeder_destroy(feeder);
    for (int r = 0; r < EXPECTED; r++)
        left += expected[r];
    ck_assert_int_le(left, (3 * 40 + 2 * ORDER_WINDOW) / nranks + 80);
    if (nranks == 1)
        ck_assert_int_le(expected_calls, (passes * 40 + left) / (ORDER_BLOCK - 4));
    singly = false;
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

/* The next batch of a feeder of values, and of one of bytes. */
struct both {
    const float *const *expected, *const *found;
    const uint8_t *pixels;
    const struct engine_window *windows;
};

static struct both next_both(struct feeder *values, struct feeder *bytes)
{
    struct both b;

    expect_ok(feeder_next(values, &b.expected));
    expect_ok(feeder_next(bytes, &b.found));
    feeder_bytes(bytes, &b.pixels, &b.windows);
    return b;
}

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
        const struct both b = next_both(values, bytes);

        ck_assert_ptr_null(b.found[0]);
        for (int k = 0; k < 5; k++) {
            ck_assert(b.found[1][k] == b.expected[1][k]);
            for (int e = 0; e < 4; e++)
                ck_assert((float)b.pixels[4 * k + (b.windows[k].mirror ? e ^ 1 : e)] ==
                          b.expected[0][4 * k + e]);
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

/* To the bit those that the feeder makes by itself, also of floats among the bytes. */
START_TEST(the_cpu_engine_makes_values_of_bytes_and_takes_floats_among_them)
{
    const struct engine_options one = {.threads = 2};
    const struct engine_images_i *table;
    struct feeder_options o = options(5, 0, 1);
    const float mean[] = {3.25f};
    const struct engine_images_args args = {
        .channels = 1, .height = 2, .width = 2, .channel_mean = mean, .scale = 0.3f};
    struct blob top = {.name = "data", .value.shape = {4, {5, 1, 2, 2}}};
    float y[20];
    struct engine_images *images;
    struct fake *fakes[2];
    struct feeder *values, *bytes;
    struct engine engine;

    singly = true;
    expect_ok(engine_open("cpu", &one, &engine));
    table = engine.i->images;
    expect_ok(table->create(engine.context, &args, &top, &images));
    top.value.data = y;
    for (int i = 0; i < 2; i++) {
        fakes[i] = fake_create(23);
        fakes[i]->floats_at_4 = true;
    }
    values = feed(fakes[0], o, true);
    o.bytes = true;
    o.device = &engine.device;
    bytes = feed(fakes[1], o, true);
    for (int pass = 0; pass < 8; pass++) {
        const struct both b = next_both(values, bytes);

        expect_ok(table->write(engine.context, images, &top.value, b.pixels, b.windows));
        for (int e = 0; e < 20; e++)
            if ((5 * pass + e / 4) % 23 == 4)
                ck_assert(y[e] == b.expected[0][e] && y[e] - floorf(y[e]) == 0.5f);
            else
                ck_assert_float_eq(y[e], (b.expected[0][e] - mean[0]) * args.scale);
    }
    feeder_destroy(values);
    feeder_destroy(bytes);
    table->destroy(engine.context, images);
    engine_close(&engine);
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

    tcase_add_loop_test(tcase, samples_come_in_order_and_wrap_around, 0, 2);
    tcase_add_loop_test(tcase, a_batch_larger_than_the_source_repeats_it, 0, 2);
    tcase_add_loop_test(tcase, samples_crops_and_mirrors_are_the_same_at_any_number_of_ranks, 0, 2);
    tcase_add_loop_test(tcase, every_record_is_mirrored_in_every_second_epoch, 0, 2);
    tcase_add_loop_test(tcase, windows_hold_whole_blocks_in_another_order_every_epoch, 0, 7);
    tcase_add_loop_test(tcase, records_of_a_window_are_asked_for_ahead_in_the_order_of_the_file, 0,
                        2);
    tcase_add_loop_test(tcase, shuffling_permutes_every_epoch_differently_and_by_the_seed, 0, 2);
    tcase_add_loop_test(tcase, seek_starts_over_at_the_sample_for_every_rank, 0, 2);
    tcase_add_loop_test(tcase, a_borrowed_batch_survives_a_seek, 0, 2);
    tcase_add_loop_test(tcase, bytes_turned_at_their_windows_are_the_transformed_values, 0, 2);
    tcase_add_test(tcase, floats_among_bytes_are_refused_where_bytes_are_fed);
    tcase_add_test(tcase, the_cpu_engine_makes_values_of_bytes_and_takes_floats_among_them);
    tcase_add_test(tcase, hdf5_data_in_batches_of_five_over_the_ends_of_the_files);
    tcase_add_test(tcase, hdf5_data_skips_what_belongs_to_the_other_eight_ranks);
    tcase_add_test(tcase, images_are_fed_transformed_with_float_labels);
}
