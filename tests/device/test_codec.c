/* What goes through a codec against its definition, computed another way, and what error feedback
 * promises: nothing is lost, only late. */
#include "tests/device/codec_rows.h"
#include "tests/suite.h"
#include "device/codec.h"

#include <check.h>
#include <stdlib.h>

enum { ROWS = 5, N = 77 };

static void decode(const struct codec *codec, const void *in, size_t rows, size_t n, float *out)
{
    memset(out, 0, rows * n * sizeof *out);
    codec->add(in, rows, n, out);
}

/* The nearest number with eight significant bits, ties to the even one: by scaling, not by bits. */
static float nearest_bf16(float x)
{
    int exponent;
    double mantissa = frexp((double)x, &exponent);

    return (float)ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
}

START_TEST(bf16_rounds_to_the_nearest_even)
{
    static const float special[] = {
        0, 1, -1, 1.00390625f, 1.01171875f, -1.00390625f, 3.3895314e38f, 1e-30f, 65504, 0.1f};
    float x[ROWS * N], lost[ROWS * N] = {0}, back[ROWS * N];
    uint16_t wire[ROWS * N + 1];

    rows_fill(x, ROWS * N, 1);
    memcpy(x, special, sizeof special);
    ck_assert_uint_eq(codec_bf16.bytes(ROWS, N), (ROWS * N * 2 + 3) / 4 * 4);
    codec_bf16.encode(x, lost, ROWS, N, wire);
    decode(&codec_bf16, wire, ROWS, N, back);
    for (int i = 0; i < ROWS * N; i++) {
        ck_assert_float_eq(back[i], nearest_bf16(x[i]));
        ck_assert_float_eq(back[i] + lost[i], x[i]);
    }
}
END_TEST

START_TEST(bf16_without_a_residual_leaves_what_travels)
{
    float x[67], expected[67], back[67];
    uint16_t half[67];

    for (int i = 0; i < 67; i++)
        x[i] = expected[i] = sinf((float)i) * ldexpf(1, i - 30);
    x[5] = expected[5] = NAN;
    bf16_round(x, 67, half);
    bf16_expand(half, 67, back);
    for (int i = 0; i < 67; i++) {
        ck_assert_int_eq(memcmp(&x[i], &back[i], sizeof *x), 0);
        if (i == 5)
            ck_assert_float_nan(back[i]);
        else
            ck_assert_float_eq(back[i], nearest_bf16(expected[i]));
    }
}
END_TEST

/* Of every half, by its definition; and of floats at, below and above the middle of two halves. */
START_TEST(halves_are_the_nearest_and_stay_themselves)
{
    for (unsigned h = 0; h < 0x7c00; h++) {
        double value = ldexp((h & 0x3ff) + (h >= 0x400 ? 0x400 : 0),
                             (h >= 0x400 ? (int)(h >> 10) - 1 : 0) - 24);
        double step = ldexp(1, (h >= 0x400 ? (int)(h >> 10) - 1 : 0) - 24);
        float middle = (float)(value + step / 2);
        float x[4] = {(float)value, nextafterf(middle, 0), middle, nextafterf(middle, INFINITY)};
        const uint16_t nearest[4] = {(uint16_t)h, (uint16_t)h, (uint16_t)(h + (h & 1)),
                                     (uint16_t)(h + 1)};
        uint16_t half[8];
        float back[8];
        for (int i = 0; i < 4; i++) {
            elements_take(ELEMENT_FLOAT16, &x[i], 1, &half[i]);
            ck_assert_uint_eq(half[i], nearest[i]);
            x[i] = -x[i];
            elements_take(ELEMENT_FLOAT16, &x[i], 1, &half[4 + i]);
            ck_assert_uint_eq(half[4 + i], 0x8000u | nearest[i]);
        }
        elements_expand(ELEMENT_FLOAT16, half, 5, back);
        ck_assert_double_eq(back[0], value);
        ck_assert_double_eq(back[4], -value);
    }
}
END_TEST

START_TEST(elements_without_a_number_are_one_nan_and_the_rest_infinite)
{
    static const uint16_t wanted[2][5] = {{0x7c00, 0xfc00, 0x7e00, 0x7c00, 0x0000},
                                          {0x7f80, 0xff80, 0x7fc0, 0x7f80, 0x0000}};
    const float x[5] = {INFINITY, -INFINITY, -NAN, 3.4e38f, 1e-45f};
    uint16_t out[5];
    float back[5];

    for (int t = 0; t < 2; t++) {
        elements_take(ELEMENT_FLOAT16 + t, x, 5, out);
        ck_assert_mem_eq(out, wanted[t], sizeof out);
        elements_expand(ELEMENT_FLOAT16 + t, out, 5, back);
        ck_assert(back[0] == INFINITY && back[1] == -INFINITY && back[4] == 0);
        ck_assert_float_nan(back[2]);
    }
}
END_TEST

START_TEST(bf16_keeps_what_is_no_number)
{
    float x[3] = {INFINITY, -INFINITY, NAN}, lost[3] = {0}, back[3];
    uint16_t wire[4];

    codec_bf16.encode(x, lost, 1, 3, wire);
    decode(&codec_bf16, wire, 1, 3, back);
    ck_assert(back[0] == INFINITY && back[1] == -INFINITY && isnan(back[2]));
    x[0] = -NAN;
    memcpy(&x[1], &(uint32_t){0xff800001}, sizeof x[1]);
    memset(lost, 0, sizeof lost);
    codec_bf16.encode(x, lost, 1, 3, wire);
    for (int i = 0; i < 3; i++)
        ck_assert_uint_eq(wire[i], 0x7fc0);
}
END_TEST

START_TEST(onebit_sends_the_means_of_each_row)
{
    float x[ROWS * N], lost[ROWS * N] = {0}, back[ROWS * N];
    char wire[4096];

    rows_fill(x, ROWS * N, 2);
    memset(x + N, 0, N * sizeof *x); /* a row of zeros: only one mean has values */
    ck_assert_uint_eq(codec_onebit.bytes(ROWS, N), ROWS * (8 + 3 * 4));
    codec_onebit.encode(x, lost, ROWS, N, wire);
    decode(&codec_onebit, wire, ROWS, N, back);
    for (int r = 0; r < ROWS; r++) {
        double negative = 0, other = 0;
        int count = 0;
        for (int j = 0; j < N; j++) {
            negative += x[r * N + j] < 0 ? (double)x[r * N + j] : 0;
            other += x[r * N + j] < 0 ? 0 : (double)x[r * N + j];
            count += x[r * N + j] < 0;
        }
        for (int j = 0; j < N; j++) {
            double mean = x[r * N + j] < 0 ? negative / count : other / (N - count);
            ck_assert_double_eq_tol((double)back[r * N + j], mean, 1e-6 * fabs(mean) + 1e-30);
        }
    }
}
END_TEST

/* The definition in codec.h word by word: lane after lane, value after value. */
static void define_row(const float *x, float *kept, size_t n, float mean[2], uint32_t *words)
{
    for (int sign = 0; sign < 2; sign++) {
        double part[CODEC_LANES] = {0};
        size_t count = 0;
        for (size_t lane = 0; lane < CODEC_LANES; lane++)
            for (size_t j = lane; j < n; j += CODEC_LANES) {
                float value = x[j] + kept[j];
                if ((value < 0) == (sign == 0)) {
                    part[lane] += (double)value;
                    count++;
                }
            }
        for (size_t left = CODEC_LANES / 2; left > 0; left /= 2)
            for (size_t lane = 0; lane < left; lane++)
                part[lane] += part[lane + left];
        mean[sign] = count > 0 ? (float)(part[0] / (double)count) : 0;
    }
    memset(words, 0, (n + 31) / 32 * sizeof *words);
    for (size_t j = 0; j < n; j++) {
        float value = x[j] + kept[j];
        if (!(value < 0))
            words[j / 32] |= 1u << j % 32;
        kept[j] = value - mean[value < 0 ? 0 : 1];
    }
}

/* Rows of every width that a vector or a lane may end in, some with what is no number. */
START_TEST(onebit_keeps_its_order_of_sums)
{
    enum { MOST = 700, ROWS_EACH = 6 };
    static float x[ROWS_EACH * MOST], found[ROWS_EACH * MOST], kept[ROWS_EACH * MOST];
    static uint32_t wire[ROWS_EACH * (2 + (MOST + 31) / 32)], words[(MOST + 31) / 32];

    for (size_t n = 1; n <= MOST; n += n < 300 ? 1 : 37) {
        rows_fill(kept, ROWS_EACH * n, 900);
        memset(kept, 0, n >= 16 ? (ROWS_EACH - 1) * n * sizeof *kept : 0);
        memcpy(found, kept, sizeof found);
        for (uint32_t round = 0; round < 2; round++) {
            rows_fill(x, ROWS_EACH * n, (uint32_t)n + round);
            for (size_t r = 0; round == 0 && n >= 16 && r < ROWS_EACH - 1; r++)
                row_sharpen(x + r * n, n, (uint32_t)r);
            for (size_t r = 2; round == 1 && r < ROWS_EACH; r++) /* the first rows stay numbers */
                row_spoil(x + r * n, n, (uint32_t)r);
            codec_onebit.encode(x, found, ROWS_EACH, n, wire);
            for (size_t r = 0; r < ROWS_EACH; r++) {
                const uint32_t *row = wire + r * (2 + (n + 31) / 32);
                float mean[2], sent[2];
                define_row(x + r * n, kept + r * n, n, mean, words);
                memcpy(sent, row, sizeof sent);
                for (int sign = 0; sign < 2; sign++)
                    ck_assert_msg(same_float(sent[sign], mean[sign]),
                                  "width %zu, row %zu: mean %d is %.9g, not %.9g", n, r, sign,
                                  (double)sent[sign], (double)mean[sign]);
                ck_assert_int_eq(memcmp(row + 2, words, (n + 31) / 32 * sizeof *words), 0);
                if (isnan(sent[1]))
                    ck_assert_uint_eq(row[1], 0x7fc00000);
                for (size_t j = r * n; j < (r + 1) * n; j++)
                    if (!same_float(found[j], kept[j]))
                        ck_abort_msg("width %zu, row %zu: residual %zu is %.9g, not %.9g", n, r,
                                     j - r * n, (double)found[j], (double)kept[j]);
            }
        }
    }
}
END_TEST

/* The sum of all that arrived and what is still kept is the sum of all that was sent. */
START_TEST(error_feedback_loses_nothing)
{
    const struct codec *codec = _i ? &codec_onebit : &codec_bf16;
    float x[ROWS * N], lost[ROWS * N] = {0}, back[ROWS * N];
    double sent[ROWS * N] = {0}, arrived[ROWS * N] = {0};
    char wire[4096];

    for (uint32_t round = 0; round < 200; round++) {
        rows_fill(x, ROWS * N, 10 + round);
        codec->encode(x, lost, ROWS, N, wire);
        decode(codec, wire, ROWS, N, back);
        for (int i = 0; i < ROWS * N; i++) {
            sent[i] += (double)x[i];
            arrived[i] += (double)back[i];
        }
    }
    for (int i = 0; i < ROWS * N; i++)
        ck_assert_double_eq_tol(arrived[i] + (double)lost[i], sent[i], 1e-4);
}
END_TEST

START_TEST(adding_adds)
{
    const struct codec *codec = _i ? &codec_onebit : &codec_bf16;
    float x[ROWS * N], lost[ROWS * N] = {0}, one[ROWS * N], two[ROWS * N];
    char wire[4096];

    rows_fill(x, ROWS * N, 5);
    codec->encode(x, lost, ROWS, N, wire);
    decode(codec, wire, ROWS, N, one);
    memcpy(two, one, sizeof two);
    codec->add(wire, ROWS, N, two);
    for (int i = 0; i < ROWS * N; i++)
        ck_assert_float_eq(two[i], one[i] + one[i]);
}
END_TEST

SUITE("codec")
{
    TCase *tcase = suite_case(suite, "codec");

    tcase_add_test(tcase, bf16_rounds_to_the_nearest_even);
    tcase_add_test(tcase, bf16_without_a_residual_leaves_what_travels);
    tcase_add_test(tcase, halves_are_the_nearest_and_stay_themselves);
    tcase_add_test(tcase, elements_without_a_number_are_one_nan_and_the_rest_infinite);
    tcase_add_test(tcase, bf16_keeps_what_is_no_number);
    tcase_add_test(tcase, onebit_sends_the_means_of_each_row);
    tcase_add_test(tcase, onebit_keeps_its_order_of_sums);
    tcase_add_loop_test(tcase, error_feedback_loses_nothing, 0, 2);
    tcase_add_loop_test(tcase, adding_adds, 0, 2);
}
