/* Quantities with units: every accepted form, and refusals that say what was wanted. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/suite.h"
#include "util/units.h"
#include "util/error.h"

static const struct {
    const char *text;
    double bytes_per_second; /* < 0: refused */
} rates[] = {
    {"10Gb", 1.25e9},     {"10gb", 1.25e9},  {"10Gbit/s", 1.25e9},
    {"200Mbps", 25e6},    {"200mbit", 25e6}, {"1.25GB", 1.25e9},
    {"1.25GB/s", 1.25e9}, {"800kB", 8e5},    {"8b", 1},
    {"3Tb", 3.75e11},     {"5B", 5},         {"10Gbyte/s", 1e10},
    {"1e9B", 1e9},        {"10", -1},        {"10G", -1},
    {"fast", -1},         {"", -1},          {"-1Gb", -1},
    {"0Gb", -1},          {"10Gbx", -1},     {"10 Gb", -1},
    {"nanGb", -1},        {"infGb", -1},     {"1e400Gb", -1},
    {"10Xb", -1},
};

START_TEST(rates_are_bits_or_bytes_and_never_guessed)
{
    double value = -2;
    char expected[200];

    if (rates[_i].bytes_per_second < 0) {
        ck_assert_int_ne(units_parse_rate("--bandwidth", rates[_i].text, &value), 0);
        snprintf(expected, sizeof expected,
                 "--bandwidth expects a rate with its unit, bits such as 10Gb or bytes such as "
                 "1.25GB, found '%s'",
                 rates[_i].text);
        ck_assert_str_eq(error_text(), expected);
        return;
    }
    ck_assert_msg(units_parse_rate("--bandwidth", rates[_i].text, &value) == 0, "%s", error_text());
    ck_assert_double_eq_tol(value, rates[_i].bytes_per_second, 1e-9 * value);
}
END_TEST

static const struct {
    const char *text;
    double seconds;
} times[] = {
    {"30us", 30e-6}, {"30\xc2\xb5s", 30e-6},
    {"0.1ms", 1e-4}, {"250ns", 250e-9},
    {"2s", 2},       {"0s", 0},
    {"30", -1},      {"us", -1},
    {"-1us", -1},    {"30usec", -1},
    {"", -1},        {"1e999s", -1},
};

static const struct {
    const char *text;
    double seconds;
} durations[] = {
    {"90s", 90},       {"30min", 1800}, {"4h", 14400},          {"2d", 172800}, {"1.5h", 5400},
    {"1:30:00", 5400}, {"0:00:07", 7},  {"1-12:00:00", 129600}, {"30", -1},     {"0s", -1},
    {"0:00:00", -1},   {"1:60:00", -1}, {"90:00", -1},          {"-4h", -1},    {"4hours", -1},
    {"", -1},          {"1:2:3x", -1},
};

START_TEST(counts_of_one_are_in_the_singular)
{
    ck_assert_str_eq(units_count(1, "image").text, "1 image");
    ck_assert_str_eq(units_count(0, "image").text, "0 images");
    ck_assert_str_eq(units_count(1, "class").text, "1 class");
    ck_assert_str_eq(units_count(17, "class").text, "17 classes");
    ck_assert_str_eq(units_count(1, "axis").text, "1 axis");
    ck_assert_str_eq(units_count(4, "axis").text, "4 axes");
    ck_assert_str_eq(units_count(3, "compute thread").text, "3 compute threads");
}
END_TEST

START_TEST(durations_have_units_or_are_clocks)
{
    double value;

    if (durations[_i].seconds < 0) {
        ck_assert_int_ne(units_parse_duration("--time-limit", durations[_i].text, &value), 0);
        ck_assert_msg(strstr(error_text(), "--time-limit expects a duration with its unit") != NULL,
                      "%s", error_text());
        return;
    }
    ck_assert_msg(units_parse_duration("--time-limit", durations[_i].text, &value) == 0, "%s",
                  error_text());
    ck_assert_double_eq(value, durations[_i].seconds);
}
END_TEST

START_TEST(times_have_units)
{
    double value;

    if (times[_i].seconds < 0) {
        ck_assert_int_ne(units_parse_time("--latency", times[_i].text, &value), 0);
        ck_assert_ptr_nonnull(
            strstr(error_text(), "--latency expects a time with its unit such as 30us"));
        return;
    }
    ck_assert_msg(units_parse_time("--latency", times[_i].text, &value) == 0, "%s", error_text());
    ck_assert_double_eq_tol(value, times[_i].seconds, 1e-15);
}
END_TEST

START_TEST(counts_are_a_list_without_repetition)
{
    static const char *const wrong[] = {"",    ",",   "1,",        "0",
                                        "-1",  "65",  "1,2,2",     "1,2,x",
                                        "1;2", "1.5", "1,2,3,4,5", "99999999999999999999"};
    int counts[4];

    ck_assert_int_eq(units_parse_counts("--nodes", "1,64,2", 64, 4, counts), 3);
    ck_assert_int_eq(counts[0], 1);
    ck_assert_int_eq(counts[1], 64);
    ck_assert_int_eq(counts[2], 2);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(units_parse_counts("--nodes", wrong[i], 64, 4, counts) == -1, "'%s'",
                      wrong[i]);
        ck_assert_msg(strstr(error_text(), "--nodes") == error_text(), "%s", error_text());
    }
}
END_TEST

START_TEST(numbers_are_above_0)
{
    static const char *const wrong[] = {"0", "-1", "x", "", "1x", "nan", "inf"};
    double value;

    ck_assert_int_eq(units_parse_positive("--gflops", "12.5", &value), 0);
    ck_assert_double_eq(value, 12.5);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_ne(units_parse_positive("--gflops", wrong[i], &value), 0);
        ck_assert_ptr_nonnull(strstr(error_text(), "--gflops expects a number above 0, found '"));
    }
}
END_TEST

START_TEST(printed_quantities_have_three_digits_and_a_unit)
{
    static const struct {
        double value;
        const char *bytes, *rate, *seconds;
    } cases[] = {
        {0, "0 B", "0 B/s", "0 ns"},
        {3.47e-7, "3.47e-07 B", "3.47e-07 B/s", "347 ns"},
        {0.0123, "0.0123 B", "0.0123 B/s", "12.3 ms"},
        {0.9999, "1 B", "1 B/s", "1 s"},
        {99.96, "100 B", "100 B/s", "100 s"},
        {999.6, "1 kB", "1 kB/s", "1000 s"},
        {147456, "147 kB", "147 kB/s", "147456 s"},
        {1.2345e9, "1.23 GB", "1.23 GB/s", "1234500000 s"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_str_eq(units_bytes(cases[i].value).text, cases[i].bytes);
        ck_assert_str_eq(units_rate(cases[i].value).text, cases[i].rate);
        ck_assert_str_eq(units_seconds(cases[i].value).text, cases[i].seconds);
    }
}
END_TEST

SUITE("units")
{
    TCase *tcase = suite_case(suite, "units");

    tcase_add_loop_test(tcase, rates_are_bits_or_bytes_and_never_guessed, 0,
                        (int)(sizeof rates / sizeof *rates));
    tcase_add_loop_test(tcase, times_have_units, 0, (int)(sizeof times / sizeof *times));
    tcase_add_test(tcase, counts_of_one_are_in_the_singular);
    tcase_add_loop_test(tcase, durations_have_units_or_are_clocks, 0,
                        sizeof durations / sizeof *durations);
    tcase_add_test(tcase, counts_are_a_list_without_repetition);
    tcase_add_test(tcase, numbers_are_above_0);
    tcase_add_test(tcase, printed_quantities_have_three_digits_and_a_unit);
}
