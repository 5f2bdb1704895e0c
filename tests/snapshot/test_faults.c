/* Every system call of the writer of snapshots failing once, and values that are not finite. */
#define _GNU_SOURCE
#include <math.h>
#include <sys/wait.h>

#include "tests/snapshot/faults_common.h"

static const char *const call_names[] = {"open", "write", "fsync", "rename", "close"};
static const int errors[] = {ENOSPC, EIO, EINTR, ESTALE, SHORT_WRITE};
enum { ERRORS = sizeof errors / sizeof *errors };

static bool is_survived(int with)
{
    return with == EINTR || with == SHORT_WRITE;
}

/* _i: the call, then the form. */
START_TEST(every_system_call_may_fail_once)
{
    enum call call = (enum call)(_i / 2);
    bool binary = _i % 2;
    struct work work;
    struct checkpoint *checkpoint;
    char prefix[256], what[64];
    int faults = 0, refused = 0;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/%s-%s", folder, call_names[call], binary ? "b" : "h");
    ck_assert_int_eq(checkpoint_create(work.made.net, 1, NULL, &checkpoint), 0);
    for (int e = 0; e < ERRORS; e++) {
        if (errors[e] == SHORT_WRITE && call != WRITE)
            continue;
        for (int which = 1;; which++) {
            int status;
            snprintf(what, sizeof what, "%s %d: error %d", call_names[call], which, errors[e]);
            ck_assert_int_eq(save(&work, checkpoint, prefix, binary, 1, 10), 0);
            arm(call, which, errors[e]);
            status = save(&work, checkpoint, prefix, binary, 2, 20);
            disarm();
            if (atomic_load(&failed) == 0)
                break;
            faults++;
            /* whoever says that it is written is right; some calls' failures do no harm */
            ck_assert_msg(status == 0 ||
                              (status == CHECKPOINT_NOT_WRITTEN && !is_survived(errors[e])),
                          "%s: status %d (%s)", what, status, error_text());
            refused += status != 0;
            if (status == 0)
                check_saved(&work, prefix, binary, 2, 20, what);
            check_saved(&work, prefix, binary, 1, 10, what);
            ck_assert_int_eq(save(&work, checkpoint, prefix, binary, 2, 30), 0);
            check_saved(&work, prefix, binary, 2, 30, what);
        }
    }
    /* both files are opened, written, forced and named at least once with each of the errors */
    ck_assert_int_ge(faults, 2 * (ERRORS - 1));
    ck_assert_int_gt(refused, 0);
    printf(
        "counted: %s fails once while a snapshot is written (%s): ENOSPC, EIO, EINTR, ESTALE%s | "
        "%d | %d, %d of them by the next try | 0\n",
        call_names[call], binary ? "binary" : "HDF5", call == WRITE ? ", a short write" : "",
        faults, faults, refused);
    checkpoint_destroy(checkpoint);
    close_work(&work);
}
END_TEST

/* Killed while the first of its files is forced to the disk, a snapshot is there already. _i: the
 * form. */
START_TEST(a_snapshot_counts_before_the_disk_has_it)
{
    struct work work;
    struct checkpoint *checkpoint;
    char prefix[256];
    int status = 0;
    pid_t child;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/early-%d", folder, _i);
    ck_assert_int_eq(checkpoint_create(work.made.net, 1, NULL, &checkpoint), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        arm(FSYNC, 1, KILLED);
        _exit(save(&work, checkpoint, prefix, _i, 2, 20));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    check_saved(&work, prefix, _i, 2, 20, "killed before the disk has it");
    checkpoint_destroy(checkpoint);
    close_work(&work);
}
END_TEST

static const float nothings[] = {NAN, INFINITY, -INFINITY};

/* _i: which, and where: in a parameter, in the history. */
START_TEST(what_is_not_finite_is_neither_written_nor_read)
{
    struct work work;
    struct checkpoint *checkpoint;
    struct train_state state = {.iteration = 1};
    struct snapshot_owner whose = owner();
    bool history = _i % 2;
    float *place;
    char *path, prefix[300];

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/nan-%d", folder, _i);
    ck_assert_int_eq(checkpoint_create(work.made.net, 1, NULL, &checkpoint), 0);
    set_values(&work, 1);
    place = (history ? work.history : work.made.net->values) + net_param_begin(work.made.net, 1);
    place[2] = nothings[_i / 2];
    ck_assert_int_eq(checkpoint_fill(checkpoint, work.history, &state, &whose),
                     CHECKPOINT_NOT_FINITE);
    ck_assert_msg(strstr(error_text(), history ? "layer 'ip', history of blob 1: 1 of 4 values is "
                                                 "not finite, the first of them "
                                               : "layer 'ip', blob 1: 1 of 4 values is not finite, "
                                                 "the first of them ") != NULL,
                  "%s", error_text());
    ck_assert_int_eq(checkpoint_look(work.made.net, false), history ? 0 : -1);
    /* a file of another program */
    struct snapshot_blob blob = {.shape = &work.made.net->params[1].shape, .data = place};
    struct snapshot_blob weight = {.shape = &work.made.net->params[0].shape,
                                   .data = work.made.net->values};
    struct snapshot_layer layer = {"ip", 2, {weight, blob}};
    path = snapshot_model_path(prefix, 1, false);
    ck_assert_int_eq(snapshot_write_model(path, NULL, &layer, 1), 0);
    set_values(&work, 1);
    ck_assert_int_ne(checkpoint_load_weights(path, true, work.made.net, NULL), 0);
    ck_assert_msg(strstr(error_text(), ".caffemodel.h5: training had diverged; use an earlier "
                                       "snapshot: layer 'ip', blob 1: 1 of 4 values") != NULL,
                  "%s", error_text());
    free(path);
    checkpoint_destroy(checkpoint);
    close_work(&work);
}
END_TEST

SUITE_IN(folder, "faults")
{
    TCase *tcase = suite_case(suite, "faults");

    tcase_add_loop_test(tcase, every_system_call_may_fail_once, 0, 2 * CALLS);
    tcase_add_loop_test(tcase, a_snapshot_counts_before_the_disk_has_it, 0, 2);
    tcase_add_loop_test(tcase, what_is_not_finite_is_neither_written_nor_read, 0, 6);
}
