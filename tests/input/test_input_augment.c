/* Random resized crops and colours against numpy and colorsys (tests/data/input/generate.py), and
 * against what their distributions are to be. */
#include "input/transform.h"
#include "tests/input/test_input_common.h"
#include "tests/suite.h"

#include <math.h>

enum { IMAGES = 12, CROP = 20, LAYER = 7 };
static const uint64_t seed = 0x123456789ABCDEF0u, first = ((uint64_t)1 << 33) - 10;
static const struct shape image = {3, {3, 32, 30}};

struct params {
    Caffe__TransformationParameter t;
    Caffe__RandomAspectRatioParameter window;
    Caffe__DistortionParameter colors;
};

static void params_make(struct params *p, bool window, bool colors)
{
    caffe__transformation_parameter__init(&p->t);
    caffe__random_aspect_ratio_parameter__init(&p->window);
    caffe__distortion_parameter__init(&p->colors);
    p->window.min_area_ratio = 0.08f;
    p->window.aspect_ratio_change = 0.75f;
    p->colors.brightness_prob = p->colors.contrast_prob = p->colors.saturation_prob = 0.7f;
    p->colors.brightness_delta = 40;
    p->colors.contrast_lower = 0.5f;
    p->colors.contrast_upper = 1.5f;
    p->colors.saturation_lower = 0.25f;
    p->colors.saturation_upper = 1.75f;
    p->t.crop_size = window ? CROP : 0;
    p->t.mirror = window;
    p->t.random_aspect_ratio_param = window ? &p->window : NULL;
    p->t.distort_param = colors ? &p->colors : NULL;
}

/* A data set of augment.h5, freed by the caller. */
static void *reference(const char *name, hid_t type, size_t size)
{
    return read_fixture("augment.h5", name, type, size);
}

static void expect_windows(const struct augment *a, const char *name)
{
    int32_t *expected = reference(name, H5T_NATIVE_INT32, sizeof *expected);

    for (uint64_t i = 0; i < IMAGES; i++) {
        struct rng rng = rng_make(seed, RNG_AUGMENT, LAYER, first + i);
        struct image_box w = augment_window(a, &image, &rng);

        ck_assert_int_eq(w.top, expected[4 * i]);
        ck_assert_int_eq(w.left, expected[4 * i + 1]);
        ck_assert_int_eq(w.height, expected[4 * i + 2]);
        ck_assert_int_eq(w.width, expected[4 * i + 3]);
    }
    free(expected);
}

START_TEST(windows_are_those_of_numpy_also_where_no_attempt_fits)
{
    struct params p;
    struct augment a;

    params_make(&p, true, false);
    expect_ok(augment_create(&p.t, 3, &a));
    expect_windows(&a, "places");
    p.window.min_area_ratio = 1;
    p.window.max_attempt = 3;
    expect_ok(augment_create(&p.t, 3, &a));
    expect_windows(&a, "tight");
}
END_TEST

/* Numpy computes in double precision and rounds nothing, the program has bytes in between. */
static void expect_values(const struct params *p, const char *name, double most, double mean_error)
{
    uint8_t *x = reference("x", H5T_NATIVE_UINT8, 1), *cut;
    float *expected = reference(name, H5T_NATIVE_FLOAT, sizeof *expected), *y;
    struct record record = {.shape = image, .type = SOURCE_U8};
    struct engine_window window;
    struct transform t;
    double sum = 0;
    size_t out;

    expect_ok(transform_create(&p->t, &image, true, NULL, &t));
    out = shape_elems(&t.out);
    y = malloc(out * sizeof *y);
    cut = malloc(out);
    for (uint64_t i = 0; i < IMAGES; i++) {
        size_t columns = (size_t)t.out.dim[2];

        record.data = x + i * shape_elems(&image);
        record.mirror = fixture_mirrors(seed, LAYER, first + i);
        expect_ok(transform_apply(&t, &record, seed, LAYER, first + i, y));
        expect_ok(transform_cut(&t, &record, seed, LAYER, first + i, &window, cut));
        for (size_t e = 0; e < out; e++) {
            double off = fabs((double)y[e] - (double)expected[i * out + e]);
            size_t turned = e / columns * columns + columns - 1 - e % columns;

            ck_assert_msg(off <= most, "%s: image %d, value %zu: %g, expected %g", name, (int)i, e,
                          (double)y[e], (double)expected[i * out + e]);
            ck_assert_float_eq(y[e], cut[window.mirror ? turned : e]);
            sum += off / (double)(out * IMAGES);
        }
    }
    ck_assert_msg(sum < mean_error, "%s: %g off on average", name, sum);
    record_free(&record);
    transform_free(&t);
    free(cut);
    free(y);
    free(expected);
    free(x);
}

START_TEST(values_are_those_of_numpy_and_the_bytes_for_engines_the_same)
{
    struct params p;

    params_make(&p, true, false);
    expect_values(&p, "resized", 1.1, 0.35);
    params_make(&p, false, true);
    expect_values(&p, "colored", 0.6, 0.3);
    params_make(&p, true, true);
    expect_values(&p, "both", 1.5 * 1.75 + 0.6, 0.5); /* a byte off, then contrast, saturation */
}
END_TEST

START_TEST(areas_and_aspects_are_spread_evenly_over_their_range)
{
    enum { DRAWS = 20000 };
    struct params p;
    struct augment a;
    const struct shape large = {3, {3, 1000, 1000}};
    double area = 0, area2 = 0;
    int tall = 0, left = 0, quarter[4] = {0};

    params_make(&p, true, false);
    p.window.max_area_ratio = 0.48f; /* any of these fits at the first attempt */
    p.window.aspect_ratio_change = sqrtf(0.75f);
    expect_ok(augment_create(&p.t, 3, &a));
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct rng rng = rng_make(3, RNG_AUGMENT, 1, i);
        struct image_box w = augment_window(&a, &large, &rng);
        double part = w.height * w.width / 1e6, aspect = (double)w.width / w.height;

        ck_assert(part > 0.079 && part <= 0.48);
        ck_assert(aspect > 0.745 && aspect < 1.342);
        ck_assert(w.top >= 0 && w.top + w.height <= 1000 && w.left >= 0 &&
                  w.left + w.width <= 1000);
        area += part / DRAWS;
        area2 += part * part / DRAWS;
        tall += w.height > w.width;
        left += 2 * w.left < 1000 - w.width;
        quarter[(int)fmin(3, fmax(0, (part - 0.08) / 0.1))]++;
    }
    ck_assert_double_eq_tol(area, 0.28, 0.004);                           /* sigma 0.0008 */
    ck_assert_double_eq_tol(area2 - area * area, 0.4 * 0.4 / 12, 0.0005); /* uniform's */
    ck_assert_int_eq(abs(tall - DRAWS / 2) < 350, 1);                     /* sigma 71 */
    ck_assert_int_eq(abs(left - DRAWS / 2) < 350, 1);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(abs(quarter[i] - DRAWS / 4) < 310, 1); /* sigma 61 */
}
END_TEST

START_TEST(the_test_phase_and_probability_0_leave_images_alone)
{
    uint8_t *x = reference("x", H5T_NATIVE_UINT8, 1);
    struct record record = {.shape = image, .type = SOURCE_U8, .data = x};
    float *plain = malloc(3 * CROP * CROP * sizeof *plain);
    float *y = malloc(3 * CROP * CROP * sizeof *y);
    struct transform t;
    struct params p;

    for (int train = 0; train < 2; train++) {
        params_make(&p, true, true);
        p.t.random_aspect_ratio_param = NULL;
        p.t.distort_param = NULL;
        expect_ok(transform_create(&p.t, &image, train, NULL, &t));
        expect_ok(transform_apply(&t, &record, seed, LAYER, first, plain));
        params_make(&p, true, true);
        if (train) {
            p.t.random_aspect_ratio_param = NULL;
            p.colors.brightness_prob = p.colors.contrast_prob = p.colors.saturation_prob = 0;
        }
        expect_ok(transform_create(&p.t, &image, train, NULL, &t));
        expect_ok(transform_apply(&t, &record, seed, LAYER, first, y));
        ck_assert_mem_eq(y, plain, 3 * CROP * CROP * sizeof *y);
        expect_ok(transform_takes(&t, SOURCE_F32));
    }
    free(y);
    free(plain);
    free(x);
}
END_TEST

static void expect_refused(const struct params *p, const char *field, const char *bounds)
{
    struct transform t;

    expect_error(transform_create(&p->t, &image, true, NULL, &t), "transform_param: ", field,
                 bounds);
    expect_error(transform_create(&p->t, &image, false, NULL, &t), field);
}

START_TEST(fields_out_of_range_are_named_with_their_bounds)
{
    struct params p;

    params_make(&p, true, true);
    p.t.crop_size = 0;
    expect_refused(&p, "random_aspect_ratio_param needs crop_size", "the size that");
    params_make(&p, true, true);
    p.t.mean_file = (char *)"mean.h5";
    expect_refused(&p, "random_aspect_ratio_param does not work with a mean image ('mean.h5')",
                   "mean_value");
#define REFUSED(part, name, value, bounds)                                                         \
    params_make(&p, true, true);                                                                   \
    p.part.name = (value);                                                                         \
    expect_refused(&p, #name " is ", "expected " bounds)
    REFUSED(window, max_area_ratio, 1.5f, "0.0001 to 1");
    REFUSED(window, max_area_ratio, 0, "0.0001 to 1");
    REFUSED(window, min_area_ratio, 0, "0.0001 to 1");
    REFUSED(window, min_area_ratio, 2, "0.0001 to 1");
    REFUSED(window, aspect_ratio_change, 0, "0.0001 to 1");
    REFUSED(window, aspect_ratio_change, 1.33f, "0.0001 to 1");
    REFUSED(window, aspect_ratio_change, NAN, "0.0001 to 1");
    REFUSED(window, max_attempt, 0, "1 to 1000");
    REFUSED(window, max_attempt, 4000000000u, "1 to 1000");
    REFUSED(colors, brightness_prob, 1.5f, "0 to 1");
    REFUSED(colors, brightness_delta, -1, "0 to 255");
    REFUSED(colors, brightness_delta, INFINITY, "0 to 255");
    REFUSED(colors, contrast_prob, -0.1f, "0 to 1");
    REFUSED(colors, contrast_upper, 0, "0.01 to 100");
    REFUSED(colors, contrast_lower, 1.6f, "0 to 1.5");
    REFUSED(colors, contrast_lower, -1, "0 to 1.5");
    REFUSED(colors, saturation_prob, NAN, "0 to 1");
    REFUSED(colors, saturation_upper, 1000, "0.01 to 100");
    REFUSED(colors, saturation_lower, 2, "0 to 1.75");
}
END_TEST

START_TEST(floats_are_refused_and_grey_images_have_no_saturation)
{
    const struct shape grey = {3, {1, 32, 30}};
    float x[960] = {0}, y[960];
    struct record record = {.shape = grey, .type = SOURCE_F32, .data = x};
    struct transform t;
    struct params p;

    params_make(&p, false, true);
    expect_ok(transform_create(&p.t, &image, true, NULL, &t));
    expect_error(transform_apply(&t, &record, 1, 1, 1, y), "distort_param",
                 "images of bytes, found floats");
    expect_error(transform_create(&p.t, &grey, true, NULL, &t), "saturation_prob", "1 channel;",
                 "expected 3");
    p.colors.saturation_prob = 0;
    expect_ok(transform_create(&p.t, &grey, true, NULL, &t));
    p.colors.brightness_prob = 1;
    p.colors.contrast_prob = 0;
    expect_ok(transform_create(&p.t, &grey, true, NULL, &t));
    memset(x, 100, sizeof x);
    record.type = SOURCE_U8;
    expect_ok(transform_apply(&t, &record, 1, 1, 1, y));
    record_free(&record);
    ck_assert_float_ne(y[0], 100);
    ck_assert(y[0] >= 60 && y[0] <= 140 && y[0] == y[959]);
}
END_TEST

START_TEST(memory_is_kept_from_one_sample_to_the_next)
{
    uint8_t *x = reference("x", H5T_NATIVE_UINT8, 1);
    struct record record = {.shape = image, .type = SOURCE_U8, .data = x};
    const uint8_t *cut, *made, *work;
    float y[3 * CROP * CROP];
    struct transform t;
    struct params p;

    params_make(&p, true, true);
    p.window.min_area_ratio = p.window.max_area_ratio = 0.3f; /* windows that must be resized */
    expect_ok(transform_create(&p.t, &image, true, NULL, &t));
    expect_ok(transform_apply(&t, &record, seed, LAYER, first, y));
    cut = record.cut.bytes;
    made = record.resized.pixels.bytes;
    work = record.resized.work.bytes;
    ck_assert(cut && made && work);
    for (uint64_t i = 1; i < IMAGES; i++)
        expect_ok(transform_apply(&t, &record, seed, LAYER, first + i, y));
    ck_assert(record.cut.bytes == cut && record.resized.pixels.bytes == made &&
              record.resized.work.bytes == work);
    record_free(&record);
    free(x);
}
END_TEST

SUITE("input: augment")
{
    TCase *tcase = suite_case(suite, "augment");

    tcase_add_test(tcase, windows_are_those_of_numpy_also_where_no_attempt_fits);
    tcase_add_test(tcase, values_are_those_of_numpy_and_the_bytes_for_engines_the_same);
    tcase_add_test(tcase, areas_and_aspects_are_spread_evenly_over_their_range);
    tcase_add_test(tcase, the_test_phase_and_probability_0_leave_images_alone);
    tcase_add_test(tcase, memory_is_kept_from_one_sample_to_the_next);
    tcase_add_test(tcase, fields_out_of_range_are_named_with_their_bounds);
    tcase_add_test(tcase, floats_are_refused_and_grey_images_have_no_saturation);
}
