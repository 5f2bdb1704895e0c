/* The file of a cluster's figures: what is written is read back to the last bit, what is damaged is
 * refused with file and line. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "plan/probe.h"
#include "tests/suite.h"
#include "util/error.h"

static const struct probe sample = {
    .cluster = {.latency_seconds = 1.0 / 30000,
                .message_seconds = 0,
                .link_Bps = 1.25e9 / 3,
                .local_Bps = 4.1e9,
                .gemm_flops = 2e11 / 7,
                .copy_Bps = 8e9,
                .sum_Bps = 0.1e9,
                .serve_Bps = 2e9 / 3,
                .device_Bps = 1.2e10 / 7,
                .transport_Bps = 1e9 / 3,
                .core_share = 0.25},
    .nranks = 8,
    .ranks_per_node = 2,
};

static char path[] = "/tmp/poseidon-probe-XXXXXX";

static void make_file(void)
{
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

START_TEST(figures_survive_the_file_to_the_last_bit)
{
    struct probe probe;

    ck_assert_msg(probe_write(path, &sample) == 0, "%s", error_text());
    ck_assert_msg(probe_read(path, &probe) == 0, "%s", error_text());
    ck_assert_int_eq(memcmp(&probe.cluster, &sample.cluster, sizeof sample.cluster), 0);
    ck_assert_int_eq(probe.nranks, 8);
    ck_assert_int_eq(probe.ranks_per_node, 2);
    ck_assert(probe.from_file);
}
END_TEST

/* Figures in the file's order, then what replaces line `line` (1 to 13), and the message it must
 * give. */
static const char *const lines[] = {
    "ranks = 8",
    "ranks_per_node = 2",
    "latency_seconds = 3e-5",
    "message_seconds=0",
    "  link_bytes_per_second = 1.25e9  # a comment",
    "local_bytes_per_second = 4e9",
    "gemm_flops = 2e11",
    "copy_bytes_per_second = 8e9\r",
    "sum_bytes_per_second = 4e9",
    "served_bytes_per_second = 0",
    "transport_bytes_per_second = 1e9",
    "core_share = 0",
    "device_bytes_per_second = 1e10",
};

static const struct {
    int line;
    const char *text, *message; /* after the file's name; NULL: it is fine */
} cases[] = {
    {0, "", NULL},
    {4, "message_seconds = 1e-6", NULL},
    {3, "nonsense", ":3: expected KEY = NUMBER, found 'nonsense'"},
    {3, "= 3", ":3: expected KEY = NUMBER, found '= 3'"},
    {5, "link_bytes_per_secnd = 1",
     ":5: unknown figure 'link_bytes_per_secnd'; did you mean 'link_bytes_per_second'?"},
    {2, "zebra = 1", ":2: unknown figure 'zebra'"},
    {7, "gemm_flops = 2e11x", ":7: gemm_flops expects a number, found ' 2e11x'"},
    {7, "gemm_flops =", ":7: gemm_flops expects a number, found ''"},
    {7, "gemm_flops = 0", ":7: gemm_flops must be more than 0, found 0"},
    {7, "gemm_flops = nan", ":7: gemm_flops must be more than 0, found nan"},
    {7, "gemm_flops = inf", ":7: gemm_flops must be more than 0, found inf"},
    {3, "latency_seconds = -1", ":3: latency_seconds must be 0 or more, found -1"},
    {1, "ranks = 2.5", ":1: ranks must be a whole number of at least 1, found 2.5"},
    {1, "ranks = 1e300", ":1: ranks must be a whole number of at least 1, found 1e+300"},
    {1, "ranks = 1", ": 2 ranks per node are more than the 1 ranks in all"},
    {9, "ranks = 8", ":9: ranks is already in line 1"},
    {9, "# left out", ":13: the file ends without sum_bytes_per_second"},
    {10, "served_bytes_per_second = -1",
     ":10: served_bytes_per_second must be 0 or more, found -1"},
    {13, "# of an earlier version", NULL},
    {13, "device_bytes_per_second = -1",
     ":13: device_bytes_per_second must be 0 or more, found -1"},
    {12, "core_share = -0.5", ":12: core_share must be 0 or more, found -0.5"},
    {12, "core_share = 8.5", ":12: core_share must be at most 8, found 8.5"},
};

START_TEST(damage_is_told_with_file_and_line)
{
    struct probe probe;
    char expected[256];
    FILE *to = fopen(path, "w");

    for (int i = 0; i < (int)(sizeof lines / sizeof *lines); i++)
        fprintf(to, "%s\n", cases[_i].line == i + 1 ? cases[_i].text : lines[i]);
    fclose(to);
    if (!cases[_i].message) {
        ck_assert_msg(probe_read(path, &probe) == 0, "%s", error_text());
        return;
    }
    ck_assert_int_ne(probe_read(path, &probe), 0);
    snprintf(expected, sizeof expected, "%s%s", path, cases[_i].message);
    ck_assert_str_eq(error_text(), expected);
}
END_TEST

START_TEST(binary_rubbish_and_absent_files_are_refused)
{
    struct probe probe;
    FILE *to = fopen(path, "w");

    for (int i = 0; i < 5000; i++)
        fputc(1 + i % 9, to);
    fclose(to);
    ck_assert_int_ne(probe_read(path, &probe), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), ":1: a line of more than 510 characters"));
    ck_assert_int_ne(probe_read("/nonexistent/cluster", &probe), 0);
    ck_assert_str_eq(error_text(), "/nonexistent/cluster: no such file");
    ck_assert_int_ne(probe_read("/tmp", &probe), 0); /* a folder */
}
END_TEST

SUITE("probe file")
{
    TCase *tcase = suite_case(suite, "probe file");

    tcase_add_unchecked_fixture(tcase, make_file, remove_file);
    tcase_add_test(tcase, figures_survive_the_file_to_the_last_bit);
    tcase_add_loop_test(tcase, damage_is_told_with_file_and_line, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_test(tcase, binary_rubbish_and_absent_files_are_refused);
}
