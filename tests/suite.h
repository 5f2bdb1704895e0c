/* The program of one Check suite, without the lines that all of them would repeat.
 *
 *     SUITE("units")
 *     {
 *         TCase *tcase = suite_case(suite, "units");
 *
 *         tcase_add_test(tcase, times_have_units);
 *     }
 *
 * is a whole main: it runs what the body adds to `suite`, each test in a process of its own, prints
 * as much as CK_VERBOSITY asks for, and ends with 0 if none failed. */
#ifndef POSEIDON_TESTS_SUITE_H
#define POSEIDON_TESTS_SUITE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>

/* Check writes the place of every assertion that holds into a pipe, to name the last one before a
 * crash. In a loop over values that takes longer than the values, so places that were among the
 * last four are not written again. */
static inline void suite_mark(const char *file, int line)
{
    static int last[4];
    static unsigned next;

    if (line == last[0] || line == last[1] || line == last[2] || line == last[3])
        return;
    last[next++ % 4] = line;
    (_mark_point)(file, line);
}
#define _mark_point(file, line) suite_mark(file, line)

/* The body adds the tests. Stands after them, once in a program. */
#define SUITE(name) SUITE_IN(NULL, name)

/* The same with a folder for the tests' files: `folder`, an array of characters that ends in
 * XXXXXX, names it before the body runs; it is removed with all it holds after the last test. */
#define SUITE_IN(folder, name)                                                                     \
    static void suite_fill(Suite *suite);                                                          \
    int main(void)                                                                                 \
    {                                                                                              \
        return suite_run(name, folder, suite_fill);                                                \
    }                                                                                              \
    static void suite_fill(Suite *suite)

#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* Runs the test for each row of a table: row _i. */
#define suite_table(tcase, test, table) tcase_add_loop_test(tcase, test, 0, COUNT(table))

/* A new case of the suite, which owns it. A test that takes ten minutes hangs; how fast a machine
 * is ends none. */
static inline TCase *suite_case(Suite *suite, const char *name)
{
    TCase *tcase = tcase_create(name);

    tcase_set_timeout(tcase, 600);
    suite_add_tcase(suite, tcase);
    return tcase;
}

/* What SUITE's main does; the program's exit status. */
static inline int suite_run(const char *name, char *folder, void (*fill)(Suite *suite))
{
    Suite *suite = suite_create(name);
    SRunner *runner = srunner_create(suite);
    char command[512];
    int failed;

    if (folder && !mkdtemp(folder)) {
        perror(folder);
        return EXIT_FAILURE;
    }
    fill(suite);
    srunner_run_all(runner, CK_ENV);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    if (folder) {
        snprintf(command, sizeof command, "rm -rf '%s'", folder);
        if (system(command) != 0)
            return EXIT_FAILURE;
    }
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
