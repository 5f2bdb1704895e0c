/* Kernels against their definitions, value after value; and that the processor's instruction set,
 * the length and the place in memory change no bit. */
#include "tests/device/codec_rows.h"
#include "tests/device/kernel_set.h"
#include "tests/suite.h"

#include "device/tree_sum.h"
#include "device/vector.h"

#include <stdio.h>

enum { MOST = 3000 };

/* The sets that this processor runs; the last one is what the program itself calls. */
static const struct kernel_set *const *sets(void)
{
    static const struct kernel_set linked = {.name = "the loader's choice",
                                             .add = vector_add,
                                             .add_to = vector_add_to,
                                             .slices = tree_sum_slices,
                                             .sumsq = vector_sumsq,
                                             .bf16 = &codec_bf16,
                                             .onebit = &codec_onebit,
                                             .update = rule_update};
    static const struct kernel_set *found[6];
    const struct kernel_set *all[] = {kernel_set_scalar(), kernel_set_plain(), kernel_set_avx2(),
                                      kernel_set_avx512f(), &linked};
    int n = 0;

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i])
            found[n++] = all[i];
    found[n] = NULL;
    return found;
}

/* Every length around what vectors and lanes hold, then some larger ones. */
static size_t next_length(size_t n)
{
    return n + (n < 150 ? 1 : 233);
}

static void spoil(float *x, size_t n, uint32_t key)
{
    rows_fill(x, n, key);
    for (uint32_t i = 0; n > 0 && i < n / 40 + 1; i++)
        row_spoil(x, n, key + 29 * i);
}

static void assert_same(const struct kernel_set *set, const char *what, size_t n,
                        const float *found, const float *expected)
{
    for (size_t i = 0; i < n; i++)
        if (!same_float(found[i], expected[i]))
            ck_abort_msg("%s, %s, length %zu: element %zu is %.9g, not %.9g", set->name, what, n, i,
                         (double)found[i], (double)expected[i]);
}

START_TEST(sums_are_rounded_once)
{
    static float a[MOST + 4], b[MOST + 4], sum[MOST + 4], out[MOST + 4], expected[MOST + 4];

    for (const struct kernel_set *const *set = sets(); *set; set++)
        for (size_t n = 0; n <= MOST; n = next_length(n)) {
            size_t shift = n % 4; /* from the place where vectors would be aligned */
            spoil(a, MOST + 4, (uint32_t)n + 1);
            spoil(b, MOST + 4, (uint32_t)n + 2);
            for (size_t i = 0; i < MOST + 4; i++) {
                volatile float one = a[i], other = b[i];
                bool inside = i >= shift && i < shift + n;
                expected[i] = inside ? one + other : one;
            }
            memcpy(sum, a, sizeof sum);
            memcpy(out, a, sizeof out);
            (*set)->add(sum + shift, b + shift, n);
            (*set)->add_to(out + shift, a + shift, b + shift, n);
            assert_same(*set, "add", MOST + 4, sum, expected);
            assert_same(*set, "add_to", MOST + 4, out, expected);
        }
}
END_TEST

/* The definition in vector.h word by word: lane after lane. */
static double define_sumsq(const float *x, size_t n, float scale)
{
    double lane[VECTOR_LANES];

    for (size_t l = 0; l < VECTOR_LANES; l++) {
        volatile double sum = 0;
        for (size_t i = l; i < n; i += VECTOR_LANES) {
            volatile double scaled = (double)scale * (double)x[i], square = scaled * scaled;
            sum = sum + square;
        }
        lane[l] = sum;
    }
    for (size_t left = VECTOR_LANES / 2; left > 0; left /= 2)
        for (size_t l = 0; l < left; l++)
            lane[l] += lane[l + left];
    return lane[0];
}

START_TEST(squares_are_summed_in_their_lanes)
{
    static float x[MOST + 4];

    for (const struct kernel_set *const *set = sets(); *set; set++)
        for (size_t n = 0; n <= MOST; n = next_length(n)) {
            float *at = x + n % 4;
            double found, expected;
            rows_fill(x, MOST + 4, (uint32_t)n);
            found = (*set)->sumsq(at, n, 0.3f);
            expected = define_sumsq(at, n, 0.3f);
            ck_assert_msg(memcmp(&found, &expected, sizeof found) == 0,
                          "%s, length %zu: %.17g, not %.17g", (*set)->name, n, found, expected);
        }
}
END_TEST

START_TEST(sum_of_squares_is_exact_where_double_is)
{
    float values[1003];
    double expected = 0;

    for (int i = 0; i < 1003; i++) {
        values[i] = (float)(i - 500);
        expected += (double)(i - 500) * (i - 500);
    }
    ck_assert(vector_sumsq(values, 1003, 1) == expected);
    ck_assert(vector_sumsq(values, 1003, 0.5f) == expected / 4);
    values[0] = 1e30f; /* would overflow in float */
    ck_assert_double_eq_tol(vector_sumsq(values, 1, 1) / 1e60, 1, 1e-6);
    values[0] = NAN;
    ck_assert(isnan(vector_sumsq(values, 1003, 1)));
}
END_TEST

/* test_codec holds the linked codecs to their definitions; the sets have to follow them. */
START_TEST(codecs_give_the_same_bits_in_every_set)
{
    enum { ROWS = 3 };
    const struct codec *codec = _i ? &codec_onebit : &codec_bf16;
    static float x[ROWS * MOST], lost[ROWS * MOST], sum[ROWS * MOST], kept[ROWS * MOST],
        expected[ROWS * MOST], expected_kept[ROWS * MOST];
    static unsigned char wire[ROWS * (2 * MOST + 12)], expected_wire[sizeof wire];

    for (const struct kernel_set *const *set = sets(); *set; set++) {
        const struct codec *own = _i ? (*set)->onebit : (*set)->bf16;
        for (size_t n = 1; n <= MOST; n = next_length(n)) {
            size_t bytes = codec->bytes(ROWS, n);
            ck_assert_uint_eq(own->bytes(ROWS, n), bytes);
            spoil(x, ROWS * n, (uint32_t)n + 1);
            rows_fill(lost, ROWS * n, (uint32_t)n + 2);
            spoil(sum, ROWS * n, (uint32_t)n + 3);
            memcpy(kept, lost, sizeof kept);
            memcpy(expected_kept, lost, sizeof kept);
            memcpy(expected, sum, sizeof sum);
            memset(wire, 0, sizeof wire);
            memset(expected_wire, 0, sizeof wire);
            codec->encode(x, expected_kept, ROWS, n, expected_wire);
            own->encode(x, kept, ROWS, n, wire);
            ck_assert_msg(memcmp(wire, expected_wire, sizeof wire) == 0, "%s, %s, length %zu",
                          (*set)->name, codec->name, n);
            assert_same(*set, "residual", ROWS * n, kept, expected_kept);
            codec->add(expected_wire, ROWS, n, expected);
            own->add(expected_wire, ROWS, n, sum);
            assert_same(*set, "what was sent", ROWS * n, sum, expected);
        }
    }
}
END_TEST

/* All that 16 bits can be. */
START_TEST(bf16_adds_every_code)
{
    enum { CODES = 1 << 16 };
    static uint16_t wire[CODES];
    static float sum[CODES], expected[CODES];

    for (uint32_t code = 0; code < CODES; code++) {
        uint32_t bits = code << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        wire[code] = (uint16_t)code;
        expected[code] = 0.75f + value;
    }
    for (const struct kernel_set *const *set = sets(); *set; set++) {
        for (int i = 0; i < CODES; i++)
            sum[i] = 0.75f;
        (*set)->bf16->add(wire, 1, CODES, sum);
        assert_same(*set, "every code", CODES, sum, expected);
    }
}
END_TEST

/* test_solver holds the linked rules to their formulas; the sets have to follow them. */
START_TEST(rules_give_the_same_bits_in_every_set)
{
    static float w0[MOST], g[MOST], h0[2 * MOST], w[MOST], h[2 * MOST], expected_w[MOST],
        expected_h[2 * MOST];
    const struct device_update update = {.rule = (enum rule_kind)(_i / 3),
                                         .l1 = _i % 3 == 1,
                                         .scale = 0.37f,
                                         .rate = 0.026f,
                                         .decay = _i % 3 == 2 ? 0 : 0.0005f,
                                         .momentum = 0.9f,
                                         .momentum2 = 0.999f,
                                         .delta = 1e-6f,
                                         .rms_decay = 0.98f};

    for (size_t n = 1; n <= MOST; n = next_length(n)) {
        rows_fill(w0, n, (uint32_t)n);
        rows_fill(g, n, (uint32_t)n + 1);
        rows_fill(h0, 2 * MOST, (uint32_t)n + 2);
        for (size_t i = 0; i < 2 * MOST; i++)
            h0[i] = fabsf(h0[i]); /* under roots */
        memcpy(expected_w, w0, sizeof w);
        memcpy(expected_h, h0, sizeof h);
        kernel_set_scalar()->update(&update, expected_w, g, expected_h, MOST, n);
        for (const struct kernel_set *const *set = sets(); *set; set++) {
            memcpy(w, w0, sizeof w);
            memcpy(h, h0, sizeof h);
            (*set)->update(&update, w, g, h, MOST, n);
            assert_same(*set, rule_kind_name(update.rule), n, w, expected_w);
            assert_same(*set, "history", 2 * MOST, h, expected_h);
        }
    }
}
END_TEST

SUITE("kernels")
{
    TCase *tcase = suite_case(suite, "kernels");

    for (const struct kernel_set *const *set = sets(); *set; set++)
        printf("compiled for: %s\n", (*set)->name);
    tcase_add_test(tcase, sums_are_rounded_once);
    tcase_add_test(tcase, squares_are_summed_in_their_lanes);
    tcase_add_test(tcase, sum_of_squares_is_exact_where_double_is);
    tcase_add_loop_test(tcase, codecs_give_the_same_bits_in_every_set, 0, 2);
    tcase_add_test(tcase, bf16_adds_every_code);
    tcase_add_loop_test(tcase, rules_give_the_same_bits_in_every_set, 0, 18);
}
