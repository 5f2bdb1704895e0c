/* A disk that takes no more: each file is told of once, and nothing else happens. */
#include "report/curves.h"
#include "tests/suite.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static int count(const char *text, const char *part)
{
    int n = 0;

    for (; (text = strstr(text, part)) != NULL; text++)
        n++;
    return n;
}

static void remove_events(const char *folder)
{
    char path[512];
    struct dirent *entry;
    DIR *dir = opendir(folder);

    while (dir && (entry = readdir(dir)) != NULL) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

START_TEST(a_full_disk_costs_one_message_a_file)
{
    char folder[] = "/tmp/poseidon-curves.XXXXXX", csv[64], events[64], *said = NULL;
    size_t bytes = 0;
    FILE *copy = open_memstream(&said, &bytes);
    struct log log;
    struct curves *curves;
    const struct rlimit full = {.rlim_cur = 1024, .rlim_max = RLIM_INFINITY};
    struct rlimit before;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(csv, sizeof csv, "%s/c.csv", folder);
    snprintf(events, sizeof events, "%s/events", folder);
    log_init(&log, true, copy);
    ck_assert_int_eq(
        curves_open(&(struct curves_options){.csv = csv, .tensorboard = events, .log = &log},
                    &curves),
        0);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    setrlimit(RLIMIT_FSIZE, &full);
    for (int i = 0; i < 100; i++)
        curves_put(curves, &(struct curves_row){.iteration = i, .loss = 1.0 / 3, .epoch = NAN});
    setrlimit(RLIMIT_FSIZE, &before);
    curves_close(curves);
    fclose(copy);
    ck_assert_int_eq(count(said, "training continues without the file"), 2);
    ck_assert_int_eq(count(said, "c.csv': File too large; training continues without the file"), 1);
    ck_assert_int_eq(count(said, "cannot write '"), 2);
    free(said);
    unlink(csv);
    remove_events(events);
    rmdir(folder);
}
END_TEST

SUITE("curves")
{
    tcase_add_test(suite_case(suite, "curves"), a_full_disk_costs_one_message_a_file);
}
