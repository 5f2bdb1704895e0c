/* Snapshots that cannot be written at once, and those that stay. */
#define _GNU_SOURCE
#include "tests/snapshot/faults_common.h"

/* A folder that is away, a disk that is full for a while: training goes on, and is told. */
START_TEST(a_folder_that_comes_back_gets_the_snapshot)
{
    struct work work;
    struct snapshot_writer *writer;
    struct log log;
    _Atomic int64_t written = -1;
    char inside[300], away[300], prefix[400], text[4096] = "";
    FILE *said = tmpfile();
    double start;

    open_work(&work);
    log_init(&log, true, said);
    snprintf(inside, sizeof inside, "%s/here", folder);
    snprintf(away, sizeof away, "%s/away", folder);
    snprintf(prefix, sizeof prefix, "%s/run", inside);
    ck_assert_int_eq(mkdir(inside, 0777), 0);
    writer = open_writer(&work, prefix, 0, &log, &written);
    hand_over(&work, writer, 1, 10);
    ck_assert_int_eq(snapshot_writer_finish(writer, 60), 0);
    ck_assert_int_eq(atomic_load(&written), 1);
    ck_assert_int_eq(rename(inside, away), 0);
    fclose(fopen(inside, "w")); /* in its place, so that it cannot be made again */
    start = clock_seconds();
    hand_over(&work, writer, 2, 20);
    ck_assert_double_lt(clock_seconds() - start, 9); /* nobody waits for the next try, in 10 s */
    ck_assert_int_ne(snapshot_writer_finish(writer, 4), 0);
    ck_assert_msg(strstr(error_text(), "Not a directory; no time is left") != NULL, "%s",
                  error_text());
    ck_assert_msg(strstr(error_text(), "--resume continues from ") != NULL, "%s", error_text());
    ck_assert_msg(strstr(error_text(), "run_iter_1.solverstate.h5") != NULL, "%s", error_text());
    snapshot_writer_destroy(writer);
    writer = open_writer(&work, prefix, 0, &log, &written);
    hand_over(&work, writer, 3, 30);
    hand_over(&work, writer, 4, 40); /* in the place of the third, which was tried */
    ck_assert_int_eq(unlink(inside), 0);
    ck_assert_int_eq(rename(away, inside), 0);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    ck_assert_int_eq(atomic_load(&written), 4);
    snapshot_writer_destroy(writer);
    check_saved(&work, prefix, false, 1, 10, "before");
    check_saved(&work, prefix, false, 4, 40, "after");
    rewind(said);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, said), 0);
    ck_assert_msg(strstr(text, "he snapshot of iteration 2 could not be written: ") != NULL, "%s",
                  text);
    ck_assert_msg(strstr(text, "The snapshot of iteration 3, which could not be written, is "
                               "replaced by the one of iteration 4") != NULL,
                  "%s", text);
    fclose(said);
    close_work(&work);
}
END_TEST

/* Nobody else brings a folder back once training is over. */
START_TEST(a_folder_that_is_gone_is_made_again_at_the_end)
{
    struct work work;
    struct snapshot_writer *writer;
    _Atomic int64_t written = -1;
    char inside[300], prefix[400];

    open_work(&work);
    snprintf(inside, sizeof inside, "%s/gone", folder);
    snprintf(prefix, sizeof prefix, "%s/deeper/run", inside);
    ck_assert_int_eq(mkdir(inside, 0777), 0);
    writer = open_writer(&work, prefix, 0, NULL, &written);
    ck_assert_int_eq(rmdir(inside), 0);
    hand_over(&work, writer, 1, 10);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    snapshot_writer_destroy(writer);
    check_saved(&work, prefix, false, 1, 10, "made again");
    close_work(&work);
}
END_TEST

static bool hurries(void *context)
{
    (void)context;
    return true;
}

/* A stop while the disk is waited for. */
START_TEST(who_hurries_waits_for_one_try)
{
    struct work work;
    struct snapshot_writer *writer;
    struct snapshot_writer_options options = {.nhistory = 1, .hurries = hurries};
    char prefix[300];

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/file", folder);
    fclose(fopen(prefix, "w"));
    strcat(prefix, "/run");
    options.prefix = prefix;
    options.net = work.made.net;
    ck_assert_int_eq(snapshot_writer_create(&options, &writer), 0);
    hand_over(&work, writer, 1, 10);
    ck_assert_int_ne(snapshot_writer_finish(writer, 1e9), 0);
    ck_assert_msg(strstr(error_text(), "Not a directory") != NULL, "%s", error_text());
    ck_assert_msg(strstr(error_text(), "There is no snapshot to resume from") != NULL, "%s",
                  error_text());
    ck_assert_int_ne(snapshot_writer_finish(writer, 1e9), 0); /* at once, with the same message */
    snapshot_writer_destroy(writer);
    close_work(&work);
}
END_TEST

/* However slowly the disk takes them. */
START_TEST(no_snapshot_is_dropped_untried)
{
    struct work work;
    struct snapshot_writer *writer;
    _Atomic int64_t written = -1;
    struct checkpoint_list list;
    char prefix[300];

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/every", folder);
    writer = open_writer(&work, prefix, 0, NULL, &written);
    for (int64_t i = 1; i <= 30; i++)
        hand_over(&work, writer, i, 1);
    ck_assert_int_eq(snapshot_writer_finish(writer, 60), 0);
    snapshot_writer_destroy(writer);
    ck_assert_int_eq(checkpoint_list_create(prefix, false, &list), 0);
    ck_assert_int_eq(list.count, 30);
    checkpoint_list_free(&list);
    close_work(&work);
}
END_TEST

/* The folder is away while the best is to be written, and snapshots come after it. */
START_TEST(the_best_is_never_replaced)
{
    struct work work;
    struct snapshot_writer *writer;
    _Atomic int64_t written = -1;
    int64_t best;
    double score;
    char inside[300], prefix[400];
    struct checkpoint_list list;

    open_work(&work);
    snprintf(inside, sizeof inside, "%s/best", folder);
    snprintf(prefix, sizeof prefix, "%s/run", inside);
    fclose(fopen(inside, "w"));
    writer = open_writer(&work, prefix, 1, NULL, &written);
    snapshot_writer_mark_best(writer, 1, 0.5);
    for (int64_t i = 1; i <= 4; i++)
        hand_over(&work, writer, i, 10 * (float)i);
    ck_assert(!snapshot_writer_best(writer, &best, &score));
    ck_assert_int_eq(unlink(inside), 0);
    ck_assert_int_eq(mkdir(inside, 0777), 0);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    ck_assert(snapshot_writer_best(writer, &best, &score));
    ck_assert_int_eq(best, 1);
    ck_assert_int_eq(checkpoint_list_create(prefix, false, &list), 0);
    ck_assert_int_eq(list.count, 2);
    checkpoint_list_free(&list);
    check_saved(&work, prefix, false, 1, 10, "the best");
    check_saved(&work, prefix, false, 4, 40, "the newest");
    /* and the end looks whether it is there */
    char *path = snapshot_model_path(prefix, 1, false);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_ne(snapshot_writer_finish(writer, 60), 0);
    ck_assert_msg(strstr(error_text(), "the best snapshot, of iteration 1, is not there") != NULL,
                  "%s", error_text());
    free(path);
    snapshot_writer_destroy(writer);
    close_work(&work);
}
END_TEST

static int64_t iteration_of_state(const char *path)
{
    struct snapshot_state state;
    int64_t iteration;

    ck_assert_msg(snapshot_peek_state(path, &state) == 0, "%s", error_text());
    iteration = state.iter;
    snapshot_state_free(&state);
    return iteration;
}

/* PREFIX_best is that iteration, whole, with nothing beside it that is half written; links: how
 * many names its files have. */
static void check_best(const char *prefix, int64_t iteration, nlink_t links)
{
    char *paths[] = {snapshot_state_path(prefix, SNAPSHOT_BEST, false),
                     snapshot_model_path(prefix, SNAPSHOT_BEST, false),
                     snapshot_state_path(prefix, iteration, false),
                     snapshot_model_path(prefix, iteration, false)};

    ck_assert_int_eq(iteration_of_state(paths[0]), iteration);
    for (int i = 0; i < 2; i++) {
        char half[400];
        struct stat best, own;
        snprintf(half, sizeof half, "%s.tmp", paths[i]);
        ck_assert_int_ne(access(half, F_OK), 0);
        ck_assert_int_eq(stat(paths[i], &best), 0);
        ck_assert_int_eq(stat(paths[2 + i], &own), 0);
        ck_assert_int_eq(best.st_size, own.st_size);
        ck_assert_uint_eq(best.st_nlink, links);
        ck_assert_int_eq(best.st_ino == own.st_ino, links == 2);
    }
    for (int i = 0; i < 4; i++)
        free(paths[i]);
}

/* The states under the prefix, the newest first. */
static void check_states(const char *prefix, const int64_t *iterations, int count)
{
    struct checkpoint_list list;

    ck_assert_int_eq(checkpoint_list_create(prefix, false, &list), 0);
    ck_assert_int_eq(list.count, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(list.entries[i].iteration, iterations[i]);
    checkpoint_list_free(&list);
}

/* _i: whether the file system has no hard links. */
START_TEST(the_best_has_a_name_and_former_ones_do_not_pile_up)
{
    struct work work;
    struct snapshot_writer *writer;
    _Atomic int64_t written = -1;
    char prefix[300], *best;
    nlink_t links = _i ? 1 : 2;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/named%d", folder, _i);
    atomic_store(&linkless, _i);
    writer = open_writer(&work, prefix, 0, NULL, &written);
    hand_over(&work, writer, 1, 10);
    ck_assert_int_eq(snapshot_writer_finish(writer, 60), 0);
    snapshot_writer_mark_best(writer, 1, 0.1); /* which was due */
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    check_best(prefix, 1, links);
    for (int64_t i = 2; i <= 3; i++) { /* which were not */
        snapshot_writer_mark_best(writer, i, 0.1 * (double)i);
        hand_over(&work, writer, i, 10 * (float)i);
        ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
        check_best(prefix, i, links);
    }
    check_states(prefix, (const int64_t[]){3, 1}, 2);
    hand_over(&work, writer, 4, 40);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    snapshot_writer_destroy(writer);
    check_states(prefix, (const int64_t[]){4, 3, 1}, 3);
    /* another start, after a kill between the names of two files: the model's is gone */
    best = snapshot_model_path(prefix, SNAPSHOT_BEST, false);
    ck_assert_int_eq(unlink(best), 0);
    free(best);
    writer = open_writer(&work, prefix, 1, NULL, &written);
    ck_assert_int_eq(snapshot_writer_add(writer, 1, false), 0);
    ck_assert_int_eq(snapshot_writer_add(writer, 3, true), 0);
    ck_assert_int_eq(snapshot_writer_add(writer, 4, false), 0);
    snapshot_writer_mark_best(writer, 3, 0.3);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    check_best(prefix, 3, links);
    check_states(prefix, (const int64_t[]){4, 3}, 2);
    hand_over(&work, writer, 5, 50);
    snapshot_writer_mark_best(writer, 5, 0.5); /* as it is being written: it was due */
    snapshot_writer_mark_best(writer, 6, 0.6);
    hand_over(&work, writer, 6, 60);
    ck_assert_msg(snapshot_writer_finish(writer, 60) == 0, "%s", error_text());
    check_best(prefix, 6, links);
    check_states(prefix, (const int64_t[]){6, 5}, 2);
    /* the name that is gone is missed at the end */
    best = snapshot_state_path(prefix, SNAPSHOT_BEST, false);
    ck_assert_int_eq(unlink(best), 0);
    ck_assert_int_ne(snapshot_writer_finish(writer, 60), 0);
    ck_assert_msg(strstr(error_text(), best) != NULL, "%s", error_text());
    free(best);
    snapshot_writer_destroy(writer);
    atomic_store(&linkless, false);
    close_work(&work);
}
END_TEST

START_TEST(so_many_snapshots_stay)
{
    struct work work;
    struct snapshot_writer *writer;
    _Atomic int64_t written = -1;
    char prefix[300];
    struct checkpoint_list list;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/kept", folder);
    writer = open_writer(&work, prefix, 0, NULL, &written);
    for (int64_t i = 1; i <= 3; i++) {
        hand_over(&work, writer, i, 1);
        ck_assert_int_eq(snapshot_writer_finish(writer, 60), 0);
    }
    snapshot_writer_destroy(writer);
    /* another start knows of 2 and 3; the first is not its own */
    writer = open_writer(&work, prefix, 2, NULL, &written);
    ck_assert_int_eq(snapshot_writer_add(writer, 2, false), 0);
    ck_assert_int_eq(snapshot_writer_add(writer, 3, false), 0);
    for (int64_t i = 4; i <= 5; i++) {
        hand_over(&work, writer, i, 1);
        ck_assert_int_eq(snapshot_writer_finish(writer, 60), 0);
    }
    snapshot_writer_destroy(writer);
    ck_assert_int_eq(checkpoint_list_create(prefix, false, &list), 0);
    ck_assert_int_eq(list.count, 3);
    ck_assert_int_eq(list.entries[0].iteration, 5);
    ck_assert_int_eq(list.entries[1].iteration, 4);
    ck_assert_int_eq(list.entries[2].iteration, 1);
    checkpoint_list_free(&list);
    close_work(&work);
}
END_TEST

SUITE_IN(folder, "snapshot writer")
{
    TCase *tcase = suite_case(suite, "snapshot writer");

    tcase_add_test(tcase, a_folder_that_comes_back_gets_the_snapshot);
    tcase_add_test(tcase, a_folder_that_is_gone_is_made_again_at_the_end);
    tcase_add_test(tcase, who_hurries_waits_for_one_try);
    tcase_add_test(tcase, no_snapshot_is_dropped_untried);
    tcase_add_test(tcase, the_best_is_never_replaced);
    tcase_add_loop_test(tcase, the_best_has_a_name_and_former_ones_do_not_pile_up, 0, 2);
    tcase_add_test(tcase, so_many_snapshots_stay);
}
