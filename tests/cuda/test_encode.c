/* Gradients that the engine encodes in its own memory against the host's codecs: the same bits, and
 * the same residuals for the next ones. Emulated here; on a GPU by tests/gpu/run.sh. */
#include "tests/device/codec_rows.h"
#include "tests/suite.h"
#include "cuda/cuda_internal.h"
#include "cuda/kernels.h"
#include "device/codec.h"
#include "util/error.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

enum { MOST_ROWS = 40, MOST_WIDTH = 700, ROUNDS = 3 };
enum { MOST = MOST_ROWS * MOST_WIDTH };

/* What both sides have of one gradient. */
struct bench {
    struct engine engine;
    struct device_ticket *ticket;
    float *x, *residual, *out; /* in the engine's memory; out: MOST floats are enough */
    float *fetched;            /* page-locked */
    float host_x[MOST], host_residual[MOST], host_out[MOST], found[MOST];
};

static float *take_memory(struct bench *b)
{
    void *memory = NULL;

    ck_assert_int_eq(
        b->engine.device.i->alloc(b->engine.context, MOST * sizeof(float), "a test", &memory), 0);
    return memory;
}

static void open_bench(struct bench *b)
{
    const struct engine_options options = {.math = MATH_FP32};
    void *memory = NULL;

    ck_assert_msg(engine_open("cuda", &options, &b->engine) == 0, "%s", error_text());
    b->x = take_memory(b);
    b->residual = take_memory(b);
    b->out = take_memory(b);
    ck_assert_int_eq(b->engine.device.i->copies->host_alloc(b->engine.context, MOST * sizeof(float),
                                                            "a test", &memory),
                     0);
    b->fetched = memory;
    ck_assert_int_eq(b->engine.device.i->copies->ticket_create(b->engine.context, &b->ticket), 0);
}

static void close_bench(struct bench *b)
{
    b->engine.device.i->copies->ticket_destroy(b->engine.context, b->ticket);
    b->engine.device.i->copies->host_free(b->engine.context, b->fetched);
    b->engine.device.i->free(b->engine.context, b->x);
    b->engine.device.i->free(b->engine.context, b->residual);
    b->engine.device.i->free(b->engine.context, b->out);
    engine_close(&b->engine);
    free(b);
}

static struct tensor tensor_at(float *memory, size_t elems)
{
    return (struct tensor){.shape = {.naxes = 1, .dim = {(int64_t)elems}},
                           .bytes = elems * sizeof(float),
                           .data = memory};
}

/* Another gradient on top of what the last ones lost. */
static void check_round(struct bench *b, const struct codec *codec, size_t rows, size_t n)
{
    const struct device_copies_i *copies = b->engine.device.i->copies;
    size_t bytes = codec->bytes(rows, n);
    struct device_rows all = {
        .host = b->fetched, .memory = b->out, .width = bytes / sizeof(float), .rows = 1};
    struct tensor x = tensor_at(b->x, rows * n), residual = tensor_at(b->residual, rows * n);
    int ready;

    memset(b->host_out, 0, bytes);
    codec->encode(b->host_x, b->host_residual, rows, n, b->host_out);
    ck_assert_int_eq(b->engine.i->write(b->engine.context, &x, b->host_x), 0);
    ck_assert_msg(b->engine.device.i->services->encode(b->engine.context, codec->code, b->x,
                                                       b->residual, rows, n, b->out, DEVICE_IN_TURN,
                                                       b->ticket) == 0,
                  "%s", error_text());
    ck_assert_int_eq(copies->copy(b->engine.context, DEVICE_FETCH, &all, DEVICE_IN_TURN, b->ticket),
                     0);
    do
        ready = copies->ready(b->engine.context, b->ticket);
    while (ready == 0);
    ck_assert_int_eq(ready, 1);
    ck_assert_int_eq(b->engine.i->read(b->engine.context, &residual, b->found), 0);
    if (codec == &codec_bf16) /* what fills up the last float is nobody's */
        bytes = rows * n * sizeof(uint16_t);
    ck_assert_msg(memcmp(b->fetched, b->host_out, bytes) == 0, "%s, %zu rows of %zu: other bits",
                  codec->name, rows, n);
    for (size_t i = 0; i < rows * n; i++)
        if (!same_float(b->found[i], b->host_residual[i]))
            ck_abort_msg("%s, %zu rows of %zu: residual %zu is %.9g, not %.9g", codec->name, rows,
                         n, i, (double)b->found[i], (double)b->host_residual[i]);
}

/* Numbers; rows whose sums tell their order; what is no number, and what that leaves behind. */
static void check_shape(struct bench *b, const struct codec *codec, size_t rows, size_t n)
{
    struct tensor residual = tensor_at(b->residual, rows * n);

    memset(b->host_residual, 0, rows * n * sizeof(float));
    ck_assert_int_eq(b->engine.i->write(b->engine.context, &residual, b->host_residual), 0);
    for (size_t r = 0; r < rows; r++)
        if (n >= 16)
            row_sharpen(b->host_x + r * n, n, (uint32_t)r);
        else
            rows_fill(b->host_x + r * n, n, (uint32_t)r);
    check_round(b, codec, rows, n);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        rows_fill(b->host_x, rows * n, (uint32_t)n + round);
        for (size_t r = round; round > 0 && r < rows; r += 2)
            row_spoil(b->host_x + r * n, n, (uint32_t)r + round);
        check_round(b, codec, rows, n);
    }
}

START_TEST(the_bits_are_those_of_the_host)
{
    const struct codec *codec = _i ? &codec_onebit : &codec_bf16;
    struct bench *b = calloc(1, sizeof *b);

    open_bench(b);
    for (size_t n = 1; n <= 100; n++)
        check_shape(b, codec, 1 + n % 9, n);
    for (size_t n = 101; n <= MOST_WIDTH; n += 13)
        check_shape(b, codec, 1 + n % MOST_ROWS, n);
    check_shape(b, codec, MOST_ROWS, MOST_WIDTH);
    check_shape(b, codec, MOST_ROWS * 30, 16);
    close_bench(b);
}
END_TEST

/* Every upper half of a float, with lower halves near and far from a tie. */
START_TEST(bfloat16_is_that_of_the_host_for_every_float)
{
    struct bench *b = calloc(1, sizeof *b);
    struct rng rng = rng_make(8, RNG_DUMMY, 0, 0);

    open_bench(b);
    for (uint64_t all = 0, draws = 0; all < 1 << 17; all += MOST) {
        struct tensor residual = tensor_at(b->residual, MOST);
        memset(b->host_residual, 0, sizeof b->host_residual);
        ck_assert_int_eq(b->engine.i->write(b->engine.context, &residual, b->host_residual), 0);
        for (uint64_t i = 0; i < MOST; i++) {
            uint32_t low = rng_below(&rng, draws++, 3) << 14 | (all + i < 1 << 16 ? 0 : 0x3fff);
            uint32_t bits = (uint32_t)(all + i) << 16 | low;
            memcpy(&b->host_x[i], &bits, sizeof bits);
        }
        check_round(b, &codec_bf16, 1, MOST);
    }
    close_bench(b);
}
END_TEST

/* Every half of either type, as a float, and every such float and its neighbour as a half. */
START_TEST(elements_are_those_of_the_host)
{
    const enum element_type type = _i ? ELEMENT_FLOAT16 : ELEMENT_BFLOAT16;
    struct bench *b = calloc(1, sizeof *b);
    uint16_t *halves = (uint16_t *)b->host_out, *found = (uint16_t *)b->found;
    const struct cuda_engine *engine;

    open_bench(b);
    engine = b->engine.context;
    for (int first = 0; first < 1 << 16; first += MOST) {
        struct tensor x = tensor_at(b->x, MOST), out = tensor_at(b->out, MOST);
        for (int i = 0; i < MOST; i++)
            halves[i] = (uint16_t)(first + i);
        ck_assert_int_eq(b->engine.i->write(b->engine.context, &out, b->host_out), 0);
        ck_assert_int_eq(kernel_expand(engine->stream, type == ELEMENT_FLOAT16, b->out, b->x, MOST),
                         0);
        ck_assert_int_eq(b->engine.i->read(b->engine.context, &x, b->found), 0);
        elements_expand(type, halves, MOST, b->host_x);
        for (int i = 0; i < MOST; i++)
            ck_assert_msg(same_float(b->found[i], b->host_x[i]), "%04x", (unsigned)first + i);

        for (int i = 0; i < MOST; i++)
            b->host_x[i] = nextafterf(b->host_x[i], i % 2 ? INFINITY : b->host_x[i]);
        ck_assert_int_eq(b->engine.i->write(b->engine.context, &x, b->host_x), 0);
        ck_assert_int_eq(kernel_take(engine->stream, type == ELEMENT_FLOAT16, b->x, b->out, MOST),
                         0);
        ck_assert_int_eq(b->engine.i->read(b->engine.context, &out, b->found), 0);
        elements_take(type, b->host_x, MOST, halves);
        ck_assert_mem_eq(found, halves, MOST * sizeof *halves);
    }
    close_bench(b);
}
END_TEST

SUITE("cuda codec")
{
    TCase *tcase = suite_case(suite, "cuda codec");

    tcase_add_loop_test(tcase, the_bits_are_those_of_the_host, 0, 2);
    tcase_add_test(tcase, bfloat16_is_that_of_the_host_for_every_float);
    tcase_add_loop_test(tcase, elements_are_those_of_the_host, 0, 2);
}
