/* Images that reach the engine as bytes against the host's own transform: the same bits. */
#include "input/feeder.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { CASES = 60, SAMPLES = 3 };

static uint64_t draws;

static int draw(int low, int high)
{
    struct rng rng = rng_make(1701, RNG_DUMMY, 5, 0);

    return low + (int)rng_below(&rng, draws++, (uint32_t)(high - low + 1));
}

/* Records of any size that a crop makes alike, or of one; a mean image, one mean per channel, or
 * none. */
static void choose_transform(struct transform *t, struct shape record[SAMPLES])
{
    const int64_t in[3] = {draw(1, 4), draw(4, 12), draw(4, 12)};
    int kind = draw(0, 2);

    *t = (struct transform){
        .scale = 1.0f / (float)draw(1, 300), .mirror = draw(0, 1), .random_crop = draw(0, 1)};
    ck_assert_int_eq(shape_set(&t->in, 3, in, "a record"), 0);
    t->out = t->in;
    t->crops = draw(0, 1);
    if (t->crops)
        t->out.dim[1] = t->out.dim[2] = draw(1, 4);
    for (int i = 0; i < SAMPLES; i++) {
        record[i] = t->in;
        if (t->crops && kind != 0)
            record[i].dim[1] = draw(4, 12);
    }
    if (kind == 0) {
        t->mean = malloc(shape_elems(&t->in) * sizeof *t->mean);
        for (size_t e = 0; e < shape_elems(&t->in); e++)
            t->mean[e] = (float)draw(0, 25500) / 100;
    } else if (kind == 1) {
        t->channel_mean = malloc((size_t)in[0] * sizeof *t->channel_mean);
        for (int64_t c = 0; c < in[0]; c++)
            t->channel_mean[c] = (float)draw(0, 25500) / 100;
    }
}

/* One batch: what the host makes of it goes to `expected`, what is cut out of it to the others. */
static void make_batch(const struct transform *t, const struct shape record[SAMPLES],
                       uint64_t first, float *expected, uint8_t *pixels,
                       struct engine_window *windows)
{
    size_t each = shape_elems(&t->out);

    for (int i = 0; i < SAMPLES; i++) {
        uint8_t *bytes = malloc(shape_elems(&record[i]));
        for (size_t e = 0; e < shape_elems(&record[i]); e++)
            bytes[e] = (uint8_t)draw(0, 255);
        struct record image = {
            .shape = record[i], .type = SOURCE_U8, .data = bytes, .mirror = draw(0, 1)};
        ck_assert_int_eq(
            0, transform_apply(t, &image, 9, 2, first + (uint64_t)i, expected + (size_t)i * each));
        ck_assert_int_eq(0, transform_cut(t, &image, 9, 2, first + (uint64_t)i, &windows[i],
                                          pixels + (size_t)i * each));
        record_free(&image);
        free(bytes);
    }
}

static void start_top(const struct transform *t, struct blob *top)
{
    const int64_t dim[4] = {SAMPLES, t->out.dim[0], t->out.dim[1], t->out.dim[2]};

    *top = (struct blob){.name = "data"};
    ck_assert_int_eq(shape_set(&top->value.shape, 4, dim, "data"), 0);
    top->value.bytes = shape_elems(&top->value.shape) * sizeof(float);
    top->grad = top->value;
}

/* Two batches one behind the other, the second over the host's memory of the first. */
static void check_case(struct engine *engine, int number)
{
    struct shape record[SAMPLES];
    struct transform t;
    struct blob top;
    struct engine_images *images;
    struct engine_window windows[SAMPLES];
    void *memory = NULL;

    choose_transform(&t, record);
    start_top(&t, &top);
    const struct engine_images_args args = {.channels = t.out.dim[0],
                                            .height = t.out.dim[1],
                                            .width = t.out.dim[2],
                                            .mean = t.mean,
                                            .mean_height = t.in.dim[1],
                                            .mean_width = t.in.dim[2],
                                            .channel_mean = t.channel_mean,
                                            .scale = t.scale};
    size_t n = shape_elems(&top.value.shape);
    uint8_t *pixels = malloc(n);
    float *expected = malloc(n * sizeof *expected), *found = malloc(n * sizeof *found);
    const struct engine_images_i *table = engine->i->images;
    ck_assert_msg(table->create(engine->context, &args, &top, &images) == 0, "%s", error_text());
    ck_assert_int_eq(engine->device.i->alloc(engine->context, top.value.bytes, "data", &memory), 0);
    top.value.data = memory;
    for (uint64_t batch = 0; batch < 5; batch++) {
        make_batch(&t, record, 100 + batch * SAMPLES, expected, pixels, windows);
        ck_assert_msg(table->write(engine->context, images, &top.value, pixels, windows) == 0, "%s",
                      error_text());
        memset(pixels, 0xAA, n); /* it may be */
        memset(windows, 0, sizeof windows);
        if (batch % 2 == 1)
            continue; /* the next one overtakes none */
        ck_assert_int_eq(engine->i->read(engine->context, &top.value, found), 0);
        for (size_t e = 0; e < n; e++)
            ck_assert_msg(memcmp(&found[e], &expected[e], sizeof found[e]) == 0,
                          "case %d, batch %d: value %zu is %.9g, not %.9g", number, (int)batch, e,
                          (double)found[e], (double)expected[e]);
    }
    table->destroy(engine->context, images);
    engine->device.i->free(engine->context, memory);
    engine->i->release(engine->context, &top.value);
    transform_free(&t);
    free(pixels);
    free(expected);
    free(found);
}

START_TEST(bytes_become_the_values_that_the_host_makes)
{
    const struct engine_options options = {.math = MATH_FP32, .deterministic = true};
    struct engine engine;

    ck_assert_msg(engine_open("cuda", &options, &engine) == 0, "%s", error_text());
    for (int i = 0; i < CASES; i++)
        check_case(&engine, i);
    engine_close(&engine);
}
END_TEST

SUITE("images")
{
    TCase *tcase = suite_case(suite, "images");

    tcase_add_test(tcase, bytes_become_the_values_that_the_host_makes);
}
