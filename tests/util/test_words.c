/* Words of options, ranks in messages, paths that files name, where measurements are kept, and how
 * an HDF5 file begins. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/suite.h"
#include "util/choice.h"
#include "util/error.h"
#include "util/file.h"
#include "util/path.h"
#include "util/ranks.h"
#include "util/topology.h"

static char folder[] = "/tmp/poseidon_words_XXXXXX";

static void enter_folder(void)
{
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(mkdir("near", 0700), 0);
}

static void write_file(const char *path, const char *bytes, size_t length)
{
    ck_assert_int_eq(file_write(path, bytes, length), 0);
}

START_TEST(a_word_has_its_place_and_others_are_refused_with_the_list)
{
    static const char *const words[] = {"auto", "on", "off", NULL}, *const one[] = {"only", NULL};
    int found = 7;
    char list[64];

    ck_assert_int_eq(choice_parse("--direct", "off", words, &found), 0);
    ck_assert_int_eq(found, 2);
    ck_assert_int_eq(choice_parse("--direct", "OFF", words, &found), -1);
    ck_assert_int_eq(found, 2);
    ck_assert_str_eq(error_text(), "--direct=OFF: expected auto, on or off");
    ck_assert_int_eq(choice_find(words, "of"), -1);
    ck_assert_str_eq(choice_list(one, list, sizeof list), "only");
    ck_assert_str_eq(choice_list(words, list, 8), "auto, o");
}
END_TEST

/* So many ranks on hosts of their own, or of unknown hosts. */
static void check_ranks(int count, const char *host, const char *expected)
{
    struct strbuf text = {0};
    struct ranks ranks = {.text = &text};

    for (int r = 0; r < count; r++)
        ranks_name(&ranks, r, host);
    ranks_end(&ranks);
    ck_assert_int_eq(ranks.count, count);
    ck_assert_str_eq(strbuf_text(&text), expected);
    strbuf_free(&text);
}

START_TEST(of_many_ranks_eight_are_named_and_the_others_counted)
{
    char hosts[2][TOPOLOGY_HOST_BYTES] = {"n0", "n1"};
    const struct topology topology = {.nranks = 2, .host = hosts};
    struct strbuf text = {0};

    check_ranks(0, NULL, "");
    check_ranks(2, "n3", "0 on n3, 1 on n3");
    check_ranks(8, NULL, "0, 1, 2, 3, 4, 5, 6, 7");
    check_ranks(11, NULL, "0, 1, 2, 3, 4, 5, 6, 7 and 3 more");
    ranks_put(&text, &topology, 1);
    ranks_put(&text, NULL, 5);
    ck_assert_str_eq(strbuf_text(&text), "rank 1 on n1rank 5");
    strbuf_free(&text);
}
END_TEST

START_TEST(ranks_with_one_text_stand_together)
{
    static const char texts[6][4] = {"a", "b", "a", "b", "b", "c"};
    struct strbuf text = {0};

    ck_assert(!ranks_were_said(texts[0], 4, 1) && ranks_were_said(texts[0], 4, 2));
    ck_assert_int_eq(ranks_put_alike(&text, "rank", texts[0], 4, 6, 1), 3);
    ck_assert_int_eq(ranks_put_alike(&text, "; rank", texts[0], 4, 6, 5), 1);
    ck_assert_str_eq(strbuf_text(&text), "ranks 1, 3-4; rank 5");
    strbuf_free(&text);
}
END_TEST

START_TEST(a_path_holds_as_named_and_else_beside_the_file_that_names_it)
{
    static const struct {
        const char *path, *named_by, *expected;
        bool found;
    } cases[] = {
        {"here", "near/list", "here", true},        {"both", "near/list", "both", true},
        {"there", "near/list", "near/there", true}, {"none", "near/list", "none", false},
        {"there", "list", "there", false},          {"there", NULL, "there", false},
        {"/there", "near/list", "/there", false},
    };

    write_file("here", "", 0);
    write_file("both", "", 0);
    write_file("near/both", "", 0);
    write_file("near/there", "", 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool found = !cases[i].found;
        char *path = path_find(cases[i].path, cases[i].named_by, &found);
        ck_assert_str_eq(path, cases[i].expected);
        ck_assert_int_eq(found, cases[i].found);
        free(path);
    }
    ck_assert_str_eq(path_base("a/b/c"), "c");
    ck_assert_str_eq(path_base("c"), "c");
    ck_assert_str_eq(path_base("a/"), "");
}
END_TEST

static void check_folder(const char *path, const char *expected)
{
    char *found = path_folder(path);

    ck_assert_str_eq(found, expected);
    free(found);
}

START_TEST(a_path_has_a_folder)
{
    check_folder("a/b/c", "a/b");
    check_folder("a/", "a");
    check_folder("c", ".");
    check_folder("/c", "/");
    check_folder("/", "/");
}
END_TEST

static void check_cache(const char *expected)
{
    char *found = path_in_cache("what");

    if (expected)
        ck_assert_str_eq(found, expected);
    else
        ck_assert_ptr_null(found);
    free(found);
}

/* The first that is set, made where it is missing; nothing where it cannot be. */
START_TEST(what_is_measured_once_has_a_place)
{
    setenv("POSEIDON_CACHE", "own/deep", 1);
    setenv("XDG_CACHE_HOME", "cache", 1);
    setenv("HOME", "home", 1);
    check_cache("own/deep/what");
    ck_assert_int_eq(access("own/deep", W_OK), 0);
    unsetenv("POSEIDON_CACHE");
    check_cache("cache/poseidon/what");
    setenv("XDG_CACHE_HOME", "", 1);
    check_cache("home/.cache/poseidon/what");
    setenv("HOME", "", 1);
    check_cache(NULL);
    write_file("file", "", 0);
    setenv("POSEIDON_CACHE", "file/below", 1);
    check_cache(NULL);
    setenv("POSEIDON_CACHE", "", 1);
    check_cache(NULL);
}
END_TEST

START_TEST(an_hdf5_file_may_begin_behind_a_block_of_the_user)
{
    static const char signature[] = "\211HDF\r\n\032\n";
    char bytes[2100] = "";

    for (int at = 0; at <= 2048; at = at ? 2 * at : 512) {
        memset(bytes, 'x', sizeof bytes);
        memcpy(bytes + at, signature, 8);
        write_file("file", bytes, sizeof bytes);
        ck_assert_msg(file_is_hdf5("file"), "at %d", at);
        write_file("file", bytes, (size_t)at + 7);
        ck_assert_msg(!file_is_hdf5("file"), "cut at %d", at + 7);
    }
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes + 256, signature, 8);
    write_file("file", bytes, sizeof bytes);
    ck_assert(!file_is_hdf5("file"));
    ck_assert(!file_is_hdf5("near"));
    ck_assert(!file_is_hdf5("nowhere"));
}
END_TEST

SUITE_IN(folder, "words")
{
    TCase *tcase = suite_case(suite, "words");

    tcase_add_unchecked_fixture(tcase, enter_folder, NULL);
    tcase_add_test(tcase, a_word_has_its_place_and_others_are_refused_with_the_list);
    tcase_add_test(tcase, of_many_ranks_eight_are_named_and_the_others_counted);
    tcase_add_test(tcase, ranks_with_one_text_stand_together);
    tcase_add_test(tcase, a_path_holds_as_named_and_else_beside_the_file_that_names_it);
    tcase_add_test(tcase, a_path_has_a_folder);
    tcase_add_test(tcase, what_is_measured_once_has_a_place);
    tcase_add_test(tcase, an_hdf5_file_may_begin_behind_a_block_of_the_user);
}
