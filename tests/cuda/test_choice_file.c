/* The file of measured choices: what is kept, what ranks tell each other, what damage does. */
#include "cuda/choice_file.h"
#include "tests/suite.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/choices_XXXXXX";

/* A cache folder of this test's own. */
static void use(const char *name, char *file, size_t size)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s/deep", folder, name);
    setenv("POSEIDON_CACHE", path, 1);
    snprintf(file, size, "%s/convolutions", path);
}

START_TEST(a_choice_is_found_again_by_the_next_run)
{
    struct choices *choices;
    char file[256];

    use("again", file, sizeof file);
    ck_assert(choices_open(&choices) == 0);
    ck_assert_int_eq(choices_find(choices, "my cpu|shape 1"), -1);
    ck_assert(choices_note(choices, "my cpu|shape 1", 1) == 0);
    ck_assert(choices_note(choices, "my cpu|shape 2", 0) == 0);
    choices_close(choices);
    ck_assert(choices_open(&choices) == 0);
    ck_assert_int_eq(choices_find(choices, "my cpu|shape 1"), 1);
    ck_assert_int_eq(choices_find(choices, "my cpu|shape 2"), 0);
    ck_assert_int_eq(choices_find(choices, "my other cpu|shape 1"), -1);
    choices_close(choices);
}
END_TEST

START_TEST(a_damaged_file_is_read_as_far_as_it_goes)
{
    struct choices *choices;
    char file[256];
    FILE *out;

    use("damaged", file, sizeof file);
    ck_assert(choices_open(&choices) == 0 && choices_note(choices, "a", 1) == 0);
    choices_close(choices);
    out = fopen(file, "a");
    ck_assert_ptr_nonnull(out);
    fputs("b not-a-number\nc 3\n", out);
    fclose(out);
    ck_assert(choices_open(&choices) == 0);
    ck_assert_int_eq(choices_find(choices, "a"), 1);
    ck_assert_int_eq(choices_find(choices, "c"), -1);
    choices_close(choices);
}
END_TEST

START_TEST(without_a_place_choices_hold_for_this_run)
{
    struct choices *choices;

    setenv("POSEIDON_CACHE", "", 1);
    ck_assert(choices_open(&choices) == 0);
    ck_assert(choices_note(choices, "a", 1) == 0);
    ck_assert_int_eq(choices_find(choices, "a"), 1);
    choices_close(choices);
    setenv("POSEIDON_CACHE", "/proc/no/such/place", 1);
    ck_assert(choices_open(&choices) == 0);
    ck_assert(choices_note(choices, "a", 1) == 0);
    ck_assert_int_eq(choices_find(choices, "a"), 1);
    choices_close(choices);
}
END_TEST

SUITE_IN(folder, "choices")
{
    TCase *tcase = suite_case(suite, "choices");

    tcase_add_test(tcase, a_choice_is_found_again_by_the_next_run);
    tcase_add_test(tcase, a_damaged_file_is_read_as_far_as_it_goes);
    tcase_add_test(tcase, without_a_place_choices_hold_for_this_run);
}
