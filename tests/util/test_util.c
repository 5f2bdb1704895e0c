/* JSON, SHA-256, CRC-32C, growing texts, whole files, the log, owners. */
#include "tests/files.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/json.h"
#include "util/log.h"
#include "util/median.h"
#include "util/owner.h"
#include "util/crc32c.h"
#include "util/sha256.h"
#include "util/strbuf.h"

#include <check.h>
#include <math.h>
#include <regex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *read_stream(FILE *stream)
{
    static char text[8192];
    size_t n;

    rewind(stream);
    n = fread(text, 1, sizeof text - 1, stream);
    text[n] = '\0';
    return text;
}

static char *read_path(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text;

    ck_assert_ptr_nonnull(file);
    text = read_stream(file);
    fclose(file);
    return text;
}

static void assert_matches(const char *text, const char *pattern)
{
    regex_t regex;

    ck_assert_int_eq(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
    ck_assert_msg(regexec(&regex, text, 0, NULL, 0) == 0, "'%s' does not match '%s'", text,
                  pattern);
    regfree(&regex);
}

static void digest_of(const char *text, size_t length, char hex[SHA256_HEX])
{
    struct sha256 hash;

    sha256_init(&hash);
    sha256_update(&hash, text, length);
    sha256_final_hex(&hash, hex);
}

START_TEST(sha256_gives_the_published_digests)
{
    static const struct {
        const char *text, *hex;
    } vectors[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mno"
         "pqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    char hex[SHA256_HEX];

    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        digest_of(vectors[i].text, strlen(vectors[i].text), hex);
        ck_assert_str_eq(hex, vectors[i].hex);
    }
}
END_TEST

START_TEST(sha256_of_a_million_a_in_odd_pieces)
{
    struct sha256 hash;
    char piece[257], hex[SHA256_HEX];
    size_t left = 1000000, step = 1;

    memset(piece, 'a', sizeof piece);
    sha256_init(&hash);
    while (left > 0) {
        size_t take = step < left ? step : left;

        sha256_update(&hash, piece, take);
        left -= take;
        step = step % sizeof piece + 1;
    }
    sha256_final_hex(&hash, hex);
    ck_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

/* RFC 3720, B.4, and the usual check of a CRC's parameters. */
START_TEST(crc32c_gives_the_published_sums)
{
    unsigned char bytes[4][32];
    static const uint32_t sums[4] = {0x8a9136aa, 0x62a8ab43, 0x46dd794e, 0x113fdb5c};

    for (int i = 0; i < 32; i++) {
        bytes[0][i] = 0;
        bytes[1][i] = 0xff;
        bytes[2][i] = (unsigned char)i;
        bytes[3][i] = (unsigned char)(31 - i);
    }
    for (int v = 0; v < 4; v++) {
        ck_assert_uint_eq(crc32c_plain(0, bytes[v], 32), sums[v]);
        for (size_t cut = 0; cut <= 32; cut++)
            ck_assert_uint_eq(crc32c(crc32c_plain(0, bytes[v], cut), bytes[v] + cut, 32 - cut),
                              sums[v]);
    }
    ck_assert_uint_eq(crc32c(0, "123456789", 9), 0xe3069283);
    ck_assert_uint_eq(crc32c_plain(0, "123456789", 9), 0xe3069283);
}
END_TEST

START_TEST(json_writes_every_kind_of_value)
{
    struct json json = {0};
    const char *text;

    json_object_begin(&json);
    json_key(&json, "ranks");
    json_int(&json, -4);
    json_put_uint(&json, "big", UINT64_MAX);
    json_key(&json, "loss");
    json_double(&json, 0.1);
    json_key(&json, "bad");
    json_array_begin(&json);
    json_double(&json, NAN);
    json_double(&json, INFINITY);
    json_double(&json, 1e300);
    json_array_end(&json);
    json_key(&json, "test");
    json_object_begin(&json);
    json_put_bool(&json, "ok", true);
    json_key(&json, "none");
    json_string(&json, NULL);
    json_object_end(&json);
    json_key(&json, "empty");
    json_object_begin(&json);
    json_object_end(&json);
    json_object_end(&json);
    ck_assert_int_eq(json_text(&json, &text), 0);
    ck_assert_str_eq(text, "{\n"
                           "  \"ranks\": -4,\n"
                           "  \"big\": 18446744073709551615,\n"
                           "  \"loss\": 0.1,\n"
                           "  \"bad\": [null, null, 1e+300],\n"
                           "  \"test\": {\n"
                           "    \"ok\": true,\n"
                           "    \"none\": null\n"
                           "  },\n"
                           "  \"empty\": {}\n"
                           "}\n");
    json_free(&json);
}
END_TEST

START_TEST(json_keeps_every_bit_of_a_float)
{
    struct json json = {0};
    const char *text;
    float value = 0.1f + 1e-8f;

    json_double(&json, value);
    ck_assert_int_eq(json_text(&json, &text), 0);
    ck_assert(strtof(text, NULL) == value);
    json_free(&json);
}
END_TEST

START_TEST(json_escapes_strings_and_repairs_what_is_not_utf8)
{
    struct json json = {0};
    const char *text;

    json_array_begin(&json);
    json_string(&json, "a\"b\\c\n\t\x01");
    json_string(&json, "gr\xc3\xb6\xc3\x9f"
                       "e \xe2\x82\xac \xf0\x9f\x90\x9f");
    json_string(&json, "\xff|\xc0\x80|\xed\xa0\x80|\xe2\x82");
    json_string(&json, NULL);
    json_array_end(&json);
    ck_assert_int_eq(json_text(&json, &text), 0);
    ck_assert_str_eq(text,
                     "[\"a\\\"b\\\\c\\n\\t\\u0001\", "
                     "\"gr\xc3\xb6\xc3\x9f"
                     "e \xe2\x82\xac \xf0\x9f\x90\x9f\", "
                     "\"\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd|"
                     "\xef\xbf\xbd\xef\xbf\xbd\", null]\n");
    json_free(&json);
}
END_TEST

/* The process's own words about an assertion are expected, and hidden. */
START_TEST(json_takes_no_wrong_nesting)
{
    struct json json = {0};
    const char *text;

    ck_assert_ptr_nonnull(freopen("/dev/null", "w", stderr));
    if (_i == 0)
        (void)json_text(&json, &text); /* nothing written */
    else if (_i == 1)
        json_key(&json, "outside an object");
    else if (_i == 2)
        for (int i = 0; i < 33; i++)
            json_array_begin(&json);
    else if (_i == 3)
        for (int i = 0; i < 2; i++)
            json_int(&json, 1); /* a second value at the top */
    json_object_begin(&json);
    if (_i == 4)
        json_int(&json, 1); /* without a key */
    else if (_i == 5)
        json_array_end(&json);
    else
        (void)json_text(&json, &text); /* not closed */
    exit(0);                           /* nothing of it was found */
}
END_TEST

START_TEST(json_goes_to_a_file_and_to_a_stream)
{
    struct json json = {0};
    FILE *stream = tmpfile();

    json_int(&json, 7);
    ck_assert_int_eq(json_write_file(&json, in_folder("report.json")), 0);
    ck_assert_str_eq(read_path(in_folder("report.json")), "7\n");
    ck_assert_int_eq(json_print(&json, stream), 0);
    ck_assert_str_eq(read_stream(stream), "7\n");
    fclose(stream);
    json_free(&json);
}
END_TEST

START_TEST(json_to_a_missing_folder_names_the_path)
{
    struct json json = {0};
    char expected[512];

    json_int(&json, 7);
    ck_assert_int_ne(json_write_file(&json, in_folder("nowhere/report.json")), 0);
    snprintf(expected, sizeof expected, "cannot write '%s': No such file or directory",
             in_folder("nowhere/report.json"));
    ck_assert_str_eq(error_text(), expected);
    json_free(&json);
}
END_TEST

START_TEST(json_to_a_full_stream_says_so)
{
    struct json json = {0};
    FILE *full = fopen("/dev/full", "w");

    ck_assert_ptr_nonnull(full);
    json_int(&json, 7);
    ck_assert_int_ne(json_print(&json, full), 0);
    ck_assert_str_eq(error_text(), "cannot write the JSON report: No space left on device");
    fclose(full);
    json_free(&json);
}
END_TEST

START_TEST(strbuf_grows_and_hands_over)
{
    struct strbuf text = {0};
    char *taken;

    ck_assert_str_eq(strbuf_text(&text), "");
    for (int i = 0; i < 1000; i++)
        strbuf_printf(&text, "%03d%s", i, "x");
    ck_assert_int_eq(strbuf_status(&text), 0);
    ck_assert_uint_eq(text.length, 4000);
    taken = strbuf_take(&text);
    ck_assert_int_eq(strncmp(taken + 3996, "999x", 5), 0);
    ck_assert_ptr_null(text.data);
    free(taken);
    taken = strbuf_take(&text);
    ck_assert_str_eq(taken, "");
    free(taken);
}
END_TEST

START_TEST(strbuf_remembers_that_memory_ran_out)
{
    struct strbuf text = {0};

    strbuf_append(&text, "x", SIZE_MAX / 2);
    strbuf_puts(&text, "later");
    ck_assert_int_ne(strbuf_status(&text), 0);
    ck_assert_str_eq(error_text(),
                     "out of memory: a text of more than 0 bytes could not be composed");
    ck_assert_ptr_null(strbuf_take(&text));
}
END_TEST

START_TEST(file_write_replaces_whole_files)
{
    const char *path = in_folder("whole");
    struct stat status;

    ck_assert_int_eq(file_write(path, "first version", 13), 0);
    ck_assert_int_eq(file_write(path, "second", 6), 0);
    ck_assert_str_eq(read_path(path), "second");
    ck_assert_int_ne(stat(in_folder("whole.tmp"), &status), 0);
}
END_TEST

START_TEST(file_commit_that_fails_leaves_the_old_file_and_no_temporary_one)
{
    const char *temp = in_folder("c.tmp");
    struct stat status;
    char expected[512];
    FILE *file;

    ck_assert_int_eq(mkdir(in_folder("target"), 0777), 0);
    file = fopen(temp, "w");
    fclose(file);
    ck_assert_int_ne(file_commit(temp, in_folder("target")), 0);
    snprintf(expected, sizeof expected, "cannot rename '%s' to '%s': Is a directory", temp,
             in_folder("target"));
    ck_assert_str_eq(error_text(), expected);
    ck_assert_int_ne(stat(temp, &status), 0);
    ck_assert_int_ne(file_commit(temp, in_folder("other")), 0);
    snprintf(expected, sizeof expected, "cannot force '%s' to the disk: No such file or directory",
             temp);
    ck_assert_str_eq(error_text(), expected);
}
END_TEST

#define PREFIX "[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6} +[0-9]+ test_util\\.c:[0-9]+\\] "

START_TEST(log_lines_have_the_glog_form)
{
    FILE *to = tmpfile();
    struct log log;
    char long_text[6000];

    log_init(&log, true, to);
    ck_assert(!log.terminal);
    LOG_INFO(&log, "Iteration %d, lr = %g", 100, 0.01);
    assert_matches(read_stream(to), "^I" PREFIX "Iteration 100, lr = 0.01\n$");
    fclose(to);

    to = tmpfile();
    log_init(&log, true, to);
    LOG_WARNING(&log, "careful");
    LOG_ERROR(&log, "bad");
    assert_matches(read_stream(to), "^W" PREFIX "careful\nE" PREFIX "bad\n$");
    fclose(to);

    to = tmpfile();
    log_init(&log, true, to);
    memset(long_text, 'x', sizeof long_text);
    long_text[sizeof long_text - 1] = '\0';
    LOG_INFO(&log, "%s", long_text);
    ck_assert_uint_gt(strlen(read_stream(to)), 6000);
    fclose(to);
}
END_TEST

START_TEST(log_of_other_ranks_prints_errors_only)
{
    FILE *to = tmpfile();
    struct log log;

    log_init(&log, false, to);
    LOG_INFO(&log, "quiet");
    LOG_WARNING(&log, "quiet");
    log_progress(&log, &(struct log_progress){.iteration = 1});
    ck_assert_str_eq(read_stream(to), "");
    LOG_ERROR(&log, "rank 3 lost its disk");
    assert_matches(read_stream(to), "^E" PREFIX "rank 3 lost its disk\n$");
    LOG_INFO((struct log *)NULL, "nowhere");
    fclose(to);
}
END_TEST

START_TEST(log_redraws_the_progress_line_below_new_lines)
{
    static const char line[] = "\r\033[K"
                               "10/100  1234 images/s  ETA 1:02:05  loss 2.303";
    FILE *to = tmpfile();
    struct log_progress progress = {10, 100, 1234.4, 3725, 2.3026, 0, 0};
    struct log log;
    char *text;

    log_init(&log, true, to);
    log_progress(&log, &progress);
    ck_assert_str_eq(read_stream(to), "");
    log.terminal = true;
    log_progress(&log, &progress);
    progress.iteration = 11; /* too soon to be drawn */
    log_progress(&log, &progress);
    ck_assert_str_eq(read_stream(to), line);
    LOG_INFO(&log, "saved");
    text = read_stream(to) + strlen(line);
    ck_assert_int_eq(strncmp(text, "\r\033[KI", 5), 0);
    ck_assert_ptr_nonnull(strstr(text, "] saved\n"));
    ck_assert_str_eq(strstr(text, "saved\n") + 6, line);
    log_progress_end(&log);
    text = read_stream(to);
    ck_assert_str_eq(text + strlen(text) - 4, "\r\033[K");
    ck_assert(!log.progress);
    fclose(to);
}
END_TEST

START_TEST(log_progress_shows_unknown_times_and_days)
{
    FILE *to = tmpfile();
    struct log_progress progress = {1, 2, 0, -1, NAN, 0, 0};
    struct log log;

    log_init(&log, true, to);
    log.terminal = true;
    log_progress(&log, &progress);
    ck_assert_ptr_nonnull(strstr(read_stream(to), "ETA --:--  loss nan"));
    log_progress_end(&log);
    progress.eta_seconds = 2 * 86400 + 5 * 3600;
    log_progress(&log, &progress);
    ck_assert_ptr_nonnull(strstr(read_stream(to), "ETA 2d05h"));
    log_progress_end(&log);
    progress.eta_seconds = 65;
    log_progress(&log, &progress);
    ck_assert_ptr_nonnull(strstr(read_stream(to), "ETA 1:05 "));
    log_progress_end(&log);
    progress.epochs = 0.5;
    progress.max_epochs = 62.5;
    log_progress(&log, &progress);
    ck_assert_ptr_nonnull(strstr(read_stream(to), "1/2  epoch 0.5/62.5  0 images/s"));
    fclose(to);
}
END_TEST

START_TEST(clock_goes_forward_in_seconds)
{
    double start = clock_seconds(), passed;

    usleep(20000);
    passed = clock_seconds() - start;
    ck_assert_double_ge(passed, 0.02);
    ck_assert_double_lt(passed, 10);
}
END_TEST

START_TEST(median_is_in_the_middle_or_on_either_side_of_it)
{
    double odd[] = {3, -1, 2, 9, 2.5}, even[] = {7, 1, 5, 3}, pair[] = {4, 2}, one[] = {6};
    static const double in_order[] = {1, 3, 5, 7};

    ck_assert_double_eq(median_lower(odd, 5), 2.5);
    ck_assert_double_eq(median_upper(odd, 5), 2.5);
    ck_assert_double_eq(median_upper(even, 4), 5);
    ck_assert_mem_eq(even, in_order, sizeof even);
    ck_assert_double_eq(median_lower(even, 4), 3);
    ck_assert_double_eq(median_lower(pair, 2), 2);
    ck_assert_double_eq(median_upper(pair, 2), 4);
    ck_assert_double_eq(median_lower(one, 1), 6);
    ck_assert_double_eq(median_upper(one, 1), 6);
    ck_assert_double_eq(median_lower(one, 0), 0);
    ck_assert_double_eq(median_upper(one, 0), 0);
}
END_TEST

static void note_freed(void *context, void *thing)
{
    strcat(context, thing);
}

START_TEST(owner_frees_the_latest_first)
{
    static char first[] = "a", second[] = "b";
    struct owner owner = {NULL};
    char freed[8] = "";
    max_align_t *aligned;
    int *numbers;

    owner_free(&owner);
    ck_assert_int_eq(owner_take(&owner, note_freed, freed, first), 0);
    ck_assert_int_eq(OWN(&owner, numbers, 1000, "numbers"), 0);
    for (int i = 0; i < 1000; i++)
        ck_assert_int_eq(numbers[i], 0);
    ck_assert_int_eq(OWN(&owner, aligned, 0, "nothing"), 0);
    ck_assert_uint_eq((uintptr_t)aligned % _Alignof(max_align_t), 0);
    ck_assert_int_eq(owner_take(&owner, note_freed, freed, second), 0);
    ck_assert_str_eq(freed, "");
    owner_free(&owner);
    ck_assert_str_eq(freed, "ba");
    ck_assert_ptr_null(owner.last);
}
END_TEST

START_TEST(owner_of_too_much_names_what_it_was_for)
{
    struct owner owner = {NULL};
    double *numbers;

    ck_assert_int_ne(OWN(&owner, numbers, SIZE_MAX / 4, "too much"), 0);
    ck_assert_ptr_null(numbers);
    ck_assert_ptr_null(owner.last);
    ck_assert_ptr_nonnull(strstr(error_text(), "too much"));
    ck_assert_int_ne(OWN(&owner, numbers, SIZE_MAX / 16, "as much"), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "as much"));
}
END_TEST

/* What the kernel writes of an x86, an Arm, and of one without names. */
SUITE_IN(folder, "util")
{
    TCase *tcase = suite_case(suite, "util");

    tcase_add_test(tcase, sha256_gives_the_published_digests);
    tcase_add_test(tcase, sha256_of_a_million_a_in_odd_pieces);
    tcase_add_test(tcase, crc32c_gives_the_published_sums);
    tcase_add_test(tcase, json_writes_every_kind_of_value);
    tcase_add_test(tcase, json_keeps_every_bit_of_a_float);
    tcase_add_test(tcase, json_escapes_strings_and_repairs_what_is_not_utf8);
    tcase_add_loop_test_raise_signal(tcase, json_takes_no_wrong_nesting, SIGABRT, 0, 7);
    tcase_add_test(tcase, json_goes_to_a_file_and_to_a_stream);
    tcase_add_test(tcase, json_to_a_missing_folder_names_the_path);
    tcase_add_test(tcase, json_to_a_full_stream_says_so);
    tcase_add_test(tcase, strbuf_grows_and_hands_over);
    tcase_add_test(tcase, strbuf_remembers_that_memory_ran_out);
    tcase_add_test(tcase, file_write_replaces_whole_files);
    tcase_add_test(tcase, file_commit_that_fails_leaves_the_old_file_and_no_temporary_one);
    tcase_add_test(tcase, log_lines_have_the_glog_form);
    tcase_add_test(tcase, log_of_other_ranks_prints_errors_only);
    tcase_add_test(tcase, log_redraws_the_progress_line_below_new_lines);
    tcase_add_test(tcase, log_progress_shows_unknown_times_and_days);
    tcase_add_test(tcase, clock_goes_forward_in_seconds);
    tcase_add_test(tcase, median_is_in_the_middle_or_on_either_side_of_it);
    tcase_add_test(tcase, owner_frees_the_latest_first);
    tcase_add_test(tcase, owner_of_too_much_names_what_it_was_for);
}
