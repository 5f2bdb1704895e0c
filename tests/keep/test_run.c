/* Who owns a prefix: the file of a run, and the lock. Other hosts are played by locks that name
 * another kernel. */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "keep/prefix_lock.h"
#include "keep/run.h"
#include "keep/run_file.h"
#include "snapshot/snapshot.h"
#include "tests/files.h"
#include "util/clock.h"
#include "util/error.h"

START_TEST(a_run_file_comes_back_as_it_was_written)
{
    char about[] = "base_lr\t0.01\nnet: layer 'a'\tx\n";
    struct run_file file = {.run = "slurm-12.a_b",
                            .digest = "00ff",
                            .about = about,
                            .end = RUN_STOPPED,
                            .iteration = 400,
                            .begun = 200,
                            .starts = 2,
                            .global_batch = 256,
                            .ranks = 4};
    struct run_file back;
    bool found;

    ck_assert_int_eq(run_file_read(in_folder("none.run"), &back, &found), 0);
    ck_assert(!found);
    ck_assert_int_eq(run_file_write(in_folder("a.run"), &file), 0);
    ck_assert_msg(run_file_read(in_folder("a.run"), &back, &found) == 0, "%s", error_text());
    ck_assert(found);
    ck_assert_str_eq(back.run, file.run);
    ck_assert_str_eq(back.digest, file.digest);
    ck_assert_str_eq(back.about, file.about);
    ck_assert_int_eq(back.end, RUN_STOPPED);
    ck_assert_int_eq(back.iteration, 400);
    ck_assert_int_eq(back.begun, 200);
    ck_assert_int_eq(back.starts, 2);
    ck_assert_int_eq(back.global_batch, 256);
    ck_assert_int_eq(back.ranks, 4);
    run_file_free(&back);
}
END_TEST

static const struct {
    const char *text, *says;
} damaged[] = {
    {"", "run names no run"},
    {"run\ta b\n", ":1: expected a run's figure"},
    {"run\tx\niteration\tmany\n", ":2: expected a run's figure"},
    {"run\tx\nend\tsoon\n", ":2: expected a run's figure"},
    {"run\tx\nstarts\n", ":2: expected a run's figure"},
};

START_TEST(a_damaged_run_file_is_refused_by_line)
{
    struct run_file file;
    FILE *out = fopen(in_folder("bad.run"), "w");
    bool found;

    fputs(damaged[_i].text, out);
    fclose(out);
    ck_assert_int_ne(run_file_read(in_folder("bad.run"), &file, &found), 0);
    ck_assert_msg(strstr(error_text(), damaged[_i].says) != NULL, "%s", error_text());
    ck_assert_msg(strstr(error_text(), "bad.run") != NULL, "%s", error_text());
}
END_TEST

START_TEST(names_of_runs_are_plain)
{
    char name[RUN_NAME_BYTES], other[RUN_NAME_BYTES];

    ck_assert_int_eq(run_check_name("slurm-12.a_B"), 0);
    ck_assert_int_ne(run_check_name(""), 0);
    ck_assert_int_ne(run_check_name("../x"), 0);
    ck_assert_int_ne(run_check_name("-x"), 0);
    ck_assert_int_ne(run_check_name("a\nb"), 0);
    ck_assert_int_ne(
        run_check_name("0123456789012345678901234567890123456789012345678901234567890123"), 0);
    ck_assert_int_eq(run_new_name(name), 0);
    ck_assert_int_eq(run_new_name(other), 0);
    ck_assert_int_eq(run_check_name(name), 0);
    ck_assert_str_ne(name, other);
}
END_TEST

static void write_lock(const char *name, const char *kernel, long pid, unsigned long long started,
                       long age)
{
    FILE *out = fopen(in_folder(name), "w");
    struct timespec times[2];

    fprintf(out, "run\told\nhost\tn7\nkernel\t%s\nprocess\t%ld\nstarted\t%llu\n", kernel, pid,
            started);
    fclose(out);
    clock_gettime(CLOCK_REALTIME, &times[0]);
    times[0].tv_sec -= age;
    times[1] = times[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder(name), times, 0), 0);
}

START_TEST(a_lock_is_one_process_s_and_gone_after_it)
{
    struct prefix_lock *lock, *second;
    struct stat file;

    ck_assert_msg(prefix_lock_take(in_folder("one"), false, NULL, &lock) == 0, "%s", error_text());
    ck_assert_int_eq(prefix_lock_name(lock, "mine"), 0);
    ck_assert_int_eq(prefix_lock_check(lock), 0);
    ck_assert_int_ne(prefix_lock_take(in_folder("one"), false, NULL, &second), 0);
    ck_assert_msg(strstr(error_text(), "one.lock: run 'mine' on ") != NULL, "%s", error_text());
    prefix_lock_release(lock);
    ck_assert_int_ne(stat(in_folder("one.lock"), &file), 0);
}
END_TEST

START_TEST(a_lock_of_a_dead_process_is_taken_over_at_once)
{
    struct prefix_lock *lock;
    double start = clock_seconds();
    pid_t child = fork();

    if (child == 0) {
        if (prefix_lock_take(in_folder("dead"), false, NULL, &lock))
            _exit(1);
        _exit(0); /* without its release */
    }
    waitpid(child, NULL, 0);
    ck_assert_int_eq(access(in_folder("dead.lock"), F_OK), 0);
    ck_assert_msg(prefix_lock_take(in_folder("dead"), false, NULL, &lock) == 0, "%s", error_text());
    ck_assert_double_lt(clock_seconds() - start, PREFIX_LOCK_STALE - 10);
    prefix_lock_release(lock);
}
END_TEST

START_TEST(a_lock_of_another_host_is_stale_after_a_minute)
{
    struct prefix_lock *lock;

    write_lock("far.lock", "other/pid", 1, 1, PREFIX_LOCK_STALE + 10);
    ck_assert_msg(prefix_lock_take(in_folder("far"), false, NULL, &lock) == 0, "%s", error_text());
    prefix_lock_release(lock);
}
END_TEST

/* A clock was set back since, on this host or on the file server. */
START_TEST(a_lock_from_the_future_is_no_older_than_it_looks)
{
    struct prefix_lock *lock;
    double start = clock_seconds();

    write_lock("future.lock", "other/pid", 1, 1, -3600);
    ck_assert_msg(prefix_lock_take(in_folder("future"), false, NULL, &lock) == 0, "%s",
                  error_text());
    ck_assert_double_ge(clock_seconds() - start, PREFIX_LOCK_STALE - 1);
    prefix_lock_release(lock);
}
END_TEST

START_TEST(a_dead_process_s_lock_from_the_future_is_taken_over_at_once)
{
    struct prefix_lock *lock;
    struct timespec later[2];
    double start = clock_seconds();
    pid_t child = fork();

    if (child == 0)
        _exit(prefix_lock_take(in_folder("later"), false, NULL, &lock) ? 1 : 0);
    waitpid(child, NULL, 0);
    clock_gettime(CLOCK_REALTIME, &later[0]);
    later[0].tv_sec += 3600;
    later[1] = later[0];
    ck_assert_int_eq(utimensat(AT_FDCWD, in_folder("later.lock"), later, 0), 0);
    ck_assert_msg(prefix_lock_take(in_folder("later"), false, NULL, &lock) == 0, "%s",
                  error_text());
    ck_assert_double_lt(clock_seconds() - start, PREFIX_LOCK_STALE - 10);
    prefix_lock_release(lock);
}
END_TEST

/* _i: the run that waited is the one that left. */
START_TEST(whoever_waited_does_not_write_over_another_run)
{
    const char *prefix = in_folder(_i ? "left-own" : "left");
    struct prefix_lock *lock;
    int held[2];
    char byte = 0;
    pid_t child;

    ck_assert(!pipe(held));
    child = fork();
    if (child == 0) {
        if (prefix_lock_take(prefix, false, NULL, &lock) || prefix_lock_name(lock, "first") ||
            write(held[1], &byte, 1) != 1)
            _exit(1);
        sleep(2);
        prefix_lock_release(lock);
        _exit(0);
    }
    ck_assert_int_eq(read(held[0], &byte, 1), 1);
    ck_assert_msg(prefix_lock_take(prefix, true, NULL, &lock) == 0, "%s", error_text());
    waitpid(child, NULL, 0);
    ck_assert_int_eq(prefix_lock_name(lock, _i ? "first" : "second") == 0, _i);
    if (!_i)
        ck_assert_msg(strstr(error_text(), "left.lock: run 'first' on ") != NULL &&
                          strstr(error_text(), "run 'second' would overwrite them") != NULL,
                      "%s", error_text());
    prefix_lock_release(lock);
    /* whoever comes later starts anew, as ever */
    ck_assert_int_eq(prefix_lock_take(prefix, true, NULL, &lock), 0);
    ck_assert_int_eq(prefix_lock_name(lock, "third"), 0);
    prefix_lock_release(lock);
}
END_TEST

START_TEST(a_lock_that_another_host_touches_is_held)
{
    struct prefix_lock *lock;
    double start = clock_seconds();
    pid_t child;

    write_lock("alive.lock", "other/pid", 1, 1, 30);
    child = fork();
    if (child == 0) {
        sleep(2);
        utimensat(AT_FDCWD, in_folder("alive.lock"), NULL, 0);
        _exit(0);
    }
    ck_assert_int_ne(prefix_lock_take(in_folder("alive"), false, NULL, &lock), 0);
    waitpid(child, NULL, 0);
    ck_assert_msg(strstr(error_text(), "run 'old' on n7 (process 1) writes snapshots") != NULL,
                  "%s", error_text());
    ck_assert_double_lt(clock_seconds() - start, PREFIX_LOCK_STALE - 10);
    ck_assert_int_eq(access(in_folder("alive.lock"), F_OK), 0);
}
END_TEST

START_TEST(whoever_lost_its_lock_is_told_by_whom)
{
    struct prefix_lock *lock;

    ck_assert_int_eq(prefix_lock_take(in_folder("lost"), false, NULL, &lock), 0);
    ck_assert_int_eq(unlink(in_folder("lost.lock")), 0);
    ck_assert_int_eq(prefix_lock_check(lock), 0);
    write_lock("lost.lock", "other/pid", 1, 1, 0);
    ck_assert_int_ne(prefix_lock_check(lock), 0);
    ck_assert_msg(strstr(error_text(), "run 'old' on n7 (process 1) has taken over") != NULL, "%s",
                  error_text());
    prefix_lock_release(lock);
    ck_assert_int_eq(access(in_folder("lost.lock"), F_OK), 0); /* the other's stays */
}
END_TEST

/* Of many that find a stale lock at the same time, one gets it. */
START_TEST(one_of_many_takes_over)
{
    enum { MANY = 8 };
    int winners = 0, looked[2], end[2];
    pid_t children[MANY];
    char byte = 0;

    ck_assert(!pipe(looked) && !pipe(end));
    write_lock("many.lock", "other/pid", 1, 1, PREFIX_LOCK_STALE + 10);
    for (int i = 0; i < MANY; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct prefix_lock *lock;
            bool mine = prefix_lock_take(in_folder("many"), false, NULL, &lock) == 0;
            close(end[1]);
            if (write(looked[1], &byte, 1) != 1 || read(end[0], &byte, 1) != 0)
                _exit(1);
            _exit(mine && prefix_lock_check(lock) == 0 ? 7 : 0);
        }
    }
    for (int i = 0; i < MANY; i++)
        ck_assert_int_eq(read(looked[0], &byte, 1), 1);
    close(end[1]); /* all have looked */
    for (int i = 0; i < MANY; i++) {
        int status;
        waitpid(children[i], &status, 0);
        winners += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    }
    ck_assert_int_eq(winners, 1);
}
END_TEST

static const bool forms[] = {false, true};

START_TEST(a_state_says_whose_it_is)
{
    const char *path = in_folder(forms[_i] ? "s.solverstate" : "s.solverstate.h5");
    char model[] = "m.caffemodel", run[] = "r1", digest[] = "abcd", plan[] = "conv1 ps";
    struct snapshot_state state = {.iter = 12,
                                   .learned_net = model,
                                   .owner.run = run,
                                   .owner.digest = digest,
                                   .owner.plan = plan,
                                   .owner.global_batch = 1 << 20};
    struct snapshot_state back;

    ck_assert_int_eq(forms[_i] ? snapshot_write_state_binary(path, &state, NULL, 0)
                               : snapshot_write_state(path, &state, NULL, 0),
                     0);
    ck_assert_msg(snapshot_peek_state(path, &back) == 0, "%s", error_text());
    ck_assert_int_eq(back.iter, 12);
    ck_assert_str_eq(back.owner.run, run);
    ck_assert_str_eq(back.owner.digest, digest);
    ck_assert_str_eq(back.owner.plan, plan);
    ck_assert_int_eq(back.owner.global_batch, 1 << 20);
    snapshot_state_free(&back);
}
END_TEST

/* The square root of twice a snapshot's cost times the training between faults, five minutes of
 * which are assumed. */
START_TEST(snapshots_come_as_often_as_they_cost_and_faults_ask)
{
    struct run_ledger sum = {.launches = 1};

    ck_assert_double_eq_tol(saving_apart(0.01, 0.5, &sum), 17.32, 0.01); /* 50 by the share */
    ck_assert_double_eq_tol(saving_apart(0.01, 0.005, &sum), 0.5, 1e-9); /* the share alone */
    ck_assert_double_eq_tol(saving_apart(0.001, 0.5, &sum), 125, 1e-9);  /* a quarter of 500 */
    sum.trained = 2000;
    sum.repeated = 100;
    ck_assert_double_eq_tol(saving_apart(0.01, 0.5, &sum), 48.99, 0.01);
    sum.trained = 3000;
    ck_assert_double_eq_tol(saving_apart(0.01, 0.5, &sum), 50, 1e-9);
    sum.launches = 34; /* 100 s between them */
    ck_assert_double_eq_tol(saving_apart(0.01, 0.5, &sum), 10, 1e-9);
    ck_assert_double_eq_tol(saving_apart(0.001, 0.5, &sum), 10, 1e-9);
}
END_TEST

SUITE_IN(folder, "run")
{
    TCase *tcase = suite_case(suite, "run");

    tcase_add_test(tcase, a_run_file_comes_back_as_it_was_written);
    tcase_add_loop_test(tcase, a_damaged_run_file_is_refused_by_line, 0,
                        sizeof damaged / sizeof *damaged);
    tcase_add_test(tcase, names_of_runs_are_plain);
    tcase_add_test(tcase, a_lock_is_one_process_s_and_gone_after_it);
    tcase_add_test(tcase, a_lock_of_a_dead_process_is_taken_over_at_once);
    tcase_add_test(tcase, a_lock_of_another_host_is_stale_after_a_minute);
    tcase_add_test(tcase, a_lock_from_the_future_is_no_older_than_it_looks);
    tcase_add_test(tcase, a_dead_process_s_lock_from_the_future_is_taken_over_at_once);
    tcase_add_loop_test(tcase, whoever_waited_does_not_write_over_another_run, 0, 2);
    tcase_add_test(tcase, a_lock_that_another_host_touches_is_held);
    tcase_add_test(tcase, whoever_lost_its_lock_is_told_by_whom);
    tcase_add_test(tcase, one_of_many_takes_over);
    tcase_add_loop_test(tcase, a_state_says_whose_it_is, 0, 2);
    tcase_add_test(tcase, snapshots_come_as_often_as_they_cost_and_faults_ask);
}
