/* Every system call of the writer of snapshots failing once. The functions below stand in the place
 * of libc's in this program: they pass calls on to the kernel, but for the one that is to fail. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/net/test_net_common.h"

#include "snapshot/checkpoint.h"
#include "snapshot/keeper.h"
#include "snapshot/snapshot.h"
#include "tests/suite.h"
#include "util/clock.h"
#include "util/log.h"

static char folder[] = "/tmp/poseidon-faults-XXXXXX";

/* ---- the system calls ---- */

enum call { OPEN, WRITE, FSYNC, RENAME, CLOSE, CALLS };

#define SHORT_WRITE (-1) /* in the place of an error */

static const char *const call_names[] = {"open", "write", "fsync", "rename", "close"};
static _Atomic int armed = CALLS; /* which call is to fail; CALLS: none */
static _Atomic int countdown;     /* at which one of its kind */
static _Atomic int error;         /* with what */
static _Atomic int failed;        /* how many did */

static bool fails(enum call call)
{
    if (atomic_load(&armed) != (int)call || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_fetch_add(&failed, 1);
    errno = atomic_load(&error);
    return true;
}

static _Atomic bool linkless; /* the file system has no hard links */

int link(const char *from, const char *to)
{
    if (!atomic_load(&linkless))
        return (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
    errno = EPERM;
    return -1;
}

int open(const char *path, int flags, ...)
{
    va_list args;
    int mode = 0;

    va_start(args, flags);
    if (flags & O_CREAT)
        mode = va_arg(args, int);
    va_end(args);
    if (strstr(path, folder + 5) && fails(OPEN))
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *data, size_t length)
{
    if (fd > 2 && fails(WRITE)) {
        if (atomic_load(&error) != SHORT_WRITE)
            return -1;
        length = length > 1 ? length / 2 : length;
    }
    return syscall(SYS_write, fd, data, length);
}

int fsync(int fd)
{
    return fails(FSYNC) ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return fails(RENAME) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int close(int fd)
{
    int status = (int)syscall(SYS_close, fd);

    return fd > 2 && fails(CLOSE) ? -1 : status;
}

static void arm(enum call call, int which, int with)
{
    atomic_store(&failed, 0);
    atomic_store(&countdown, which);
    atomic_store(&error, with);
    atomic_store(&armed, (int)call);
}

static void disarm(void)
{
    atomic_store(&armed, CALLS);
}

/* ---- a net to save ---- */

static const char net_text[] =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 dim: 3 } } }"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
    "num_output: "
    "4 } }";

struct work {
    struct made made;
    struct engine engine;
    float *history;
};

static void set_values(struct work *work, float value)
{
    for (size_t i = 0; i < work->made.net->elems; i++) {
        work->made.net->values[i] = value + (float)i;
        work->history[i] = -value - (float)i;
    }
}

static void open_work(struct work *work)
{
    struct engine_options options = {.threads = 1};

    ck_assert_msg(make_net(&work->made, net_text, true, NULL, NULL) == 0, "%s", error_text());
    ck_assert_int_eq(engine_open("cpu", &options, &work->engine), 0);
    ck_assert_int_eq(net_build(work->made.net, &work->engine, 1), 0);
    work->history = calloc(work->made.net->elems, sizeof(float));
}

static void close_work(struct work *work)
{
    unmake_net(&work->made);
    engine_close(&work->engine);
    free(work->history);
}

static struct snapshot_owner owner(void)
{
    static char run[] = "r";

    return (struct snapshot_owner){.run = run, .global_batch = 8};
}

/* The state of that iteration is whole and holds the values that begin with `value`. */
static void check_saved(struct work *work, const char *prefix, bool binary, int64_t iteration,
                        float value, const char *what)
{
    struct train_state state;
    char *path = snapshot_state_path(prefix, iteration, binary);

    set_values(work, -1000);
    ck_assert_msg(checkpoint_resume(path, work->made.net, 1, work->history, &state, NULL) == 0,
                  "%s: %s", what, error_text());
    ck_assert_int_eq(state.iteration, iteration);
    for (int p = 0; p < work->made.net->nparams; p++) {
        size_t begin = net_param_begin(work->made.net, p);
        ck_assert_float_eq(work->made.net->values[begin], value + (float)begin);
        ck_assert_float_eq(work->history[begin], -value - (float)begin);
    }
    free(path);
}

static int save(struct work *work, struct checkpoint *checkpoint, const char *prefix, bool binary,
                int64_t iteration, float value)
{
    struct train_state state = {.iteration = iteration, .cursor = 7};
    struct snapshot_owner whose = owner();

    set_values(work, value);
    ck_assert_int_eq(checkpoint_fill(checkpoint, work->history, &state, &whose), 0);
    return checkpoint_write(checkpoint, prefix, binary, NULL);
}

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
    ck_assert_int_eq(checkpoint_create(work.made.net, 1, &checkpoint), 0);
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

static int count_written(void *context, int64_t iteration)
{
    *(_Atomic int64_t *)context = iteration;
    return 0;
}

static struct keeper *open_keeper(struct work *work, const char *prefix, int kept, struct log *log,
                                  _Atomic int64_t *written)
{
    struct keeper_options options = {.prefix = prefix,
                                     .net = work->made.net,
                                     .nhistory = 1,
                                     .keep = kept,
                                     .log = log,
                                     .context = written,
                                     .written = count_written};
    struct keeper *keeper;

    ck_assert_msg(keeper_create(&options, &keeper) == 0, "%s", error_text());
    return keeper;
}

static void hand_over(struct work *work, struct keeper *keeper, int64_t iteration, float value)
{
    struct train_state state = {.iteration = iteration};
    struct snapshot_owner whose = owner();

    set_values(work, value);
    ck_assert_msg(keeper_save(keeper, work->history, &state, &whose) == 0, "%s", error_text());
}

/* A folder that is away, a disk that is full for a while: training goes on, and is told. */
START_TEST(a_folder_that_comes_back_gets_the_snapshot)
{
    struct work work;
    struct keeper *keeper;
    struct log log;
    _Atomic int64_t written = -1;
    char inside[300], away[300], prefix[400], text[4096] = "";
    FILE *said = tmpfile();
    double start;

    open_work(&work);
    log_init(&log, true, said, NULL);
    snprintf(inside, sizeof inside, "%s/here", folder);
    snprintf(away, sizeof away, "%s/away", folder);
    snprintf(prefix, sizeof prefix, "%s/run", inside);
    ck_assert_int_eq(mkdir(inside, 0777), 0);
    keeper = open_keeper(&work, prefix, 0, &log, &written);
    hand_over(&work, keeper, 1, 10);
    ck_assert_int_eq(keeper_finish(keeper, 60), 0);
    ck_assert_int_eq(atomic_load(&written), 1);
    ck_assert_int_eq(rename(inside, away), 0);
    fclose(fopen(inside, "w")); /* in its place, so that it cannot be made again */
    start = clock_seconds();
    hand_over(&work, keeper, 2, 20);
    ck_assert_double_lt(clock_seconds() - start, 9); /* nobody waits for the next try, in 10 s */
    ck_assert_int_ne(keeper_finish(keeper, 4), 0);
    ck_assert_msg(strstr(error_text(), "Not a directory; it was tried as long") != NULL, "%s",
                  error_text());
    ck_assert_msg(strstr(error_text(), "--resume continues from ") != NULL, "%s", error_text());
    ck_assert_msg(strstr(error_text(), "run_iter_1.solverstate.h5") != NULL, "%s", error_text());
    keeper_destroy(keeper);
    keeper = open_keeper(&work, prefix, 0, &log, &written);
    hand_over(&work, keeper, 3, 30);
    hand_over(&work, keeper, 4, 40); /* in the place of the third, which was tried */
    ck_assert_int_eq(unlink(inside), 0);
    ck_assert_int_eq(rename(away, inside), 0);
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    ck_assert_int_eq(atomic_load(&written), 4);
    keeper_destroy(keeper);
    check_saved(&work, prefix, false, 1, 10, "before");
    check_saved(&work, prefix, false, 4, 40, "after");
    rewind(said);
    ck_assert_uint_gt(fread(text, 1, sizeof text - 1, said), 0);
    ck_assert_msg(strstr(text, "he snapshot of iteration 2 is not written: ") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "The snapshot of iteration 3, which could not be written, is "
                               "replaced by that of iteration 4") != NULL,
                  "%s", text);
    fclose(said);
    close_work(&work);
}
END_TEST

/* Nobody else brings a folder back once training is over. */
START_TEST(a_folder_that_is_gone_is_made_again_at_the_end)
{
    struct work work;
    struct keeper *keeper;
    _Atomic int64_t written = -1;
    char inside[300], prefix[400];

    open_work(&work);
    snprintf(inside, sizeof inside, "%s/gone", folder);
    snprintf(prefix, sizeof prefix, "%s/deeper/run", inside);
    ck_assert_int_eq(mkdir(inside, 0777), 0);
    keeper = open_keeper(&work, prefix, 0, NULL, &written);
    ck_assert_int_eq(rmdir(inside), 0);
    hand_over(&work, keeper, 1, 10);
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    keeper_destroy(keeper);
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
    struct keeper *keeper;
    struct keeper_options options = {.nhistory = 1, .hurries = hurries};
    char prefix[300];

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/file", folder);
    fclose(fopen(prefix, "w"));
    strcat(prefix, "/run");
    options.prefix = prefix;
    options.net = work.made.net;
    ck_assert_int_eq(keeper_create(&options, &keeper), 0);
    hand_over(&work, keeper, 1, 10);
    ck_assert_int_ne(keeper_finish(keeper, 1e9), 0);
    ck_assert_msg(strstr(error_text(), "Not a directory") != NULL, "%s", error_text());
    ck_assert_msg(strstr(error_text(), "There is no snapshot to resume from") != NULL, "%s",
                  error_text());
    ck_assert_int_ne(keeper_finish(keeper, 1e9), 0); /* at once, with the same message */
    keeper_destroy(keeper);
    close_work(&work);
}
END_TEST

/* However slowly the disk takes them. */
START_TEST(no_snapshot_is_dropped_untried)
{
    struct work work;
    struct keeper *keeper;
    _Atomic int64_t written = -1;
    struct checkpoint_list list;
    char prefix[300];

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/every", folder);
    keeper = open_keeper(&work, prefix, 0, NULL, &written);
    for (int64_t i = 1; i <= 30; i++)
        hand_over(&work, keeper, i, 1);
    ck_assert_int_eq(keeper_finish(keeper, 60), 0);
    keeper_destroy(keeper);
    ck_assert_int_eq(checkpoint_list_create(prefix, &list), 0);
    ck_assert_int_eq(list.count, 30);
    checkpoint_list_free(&list);
    close_work(&work);
}
END_TEST

/* The folder is away while the best is to be written, and snapshots come after it. */
START_TEST(the_best_is_never_replaced)
{
    struct work work;
    struct keeper *keeper;
    _Atomic int64_t written = -1;
    int64_t best;
    double score;
    char inside[300], prefix[400];
    struct checkpoint_list list;

    open_work(&work);
    snprintf(inside, sizeof inside, "%s/best", folder);
    snprintf(prefix, sizeof prefix, "%s/run", inside);
    fclose(fopen(inside, "w"));
    keeper = open_keeper(&work, prefix, 1, NULL, &written);
    keeper_mark_best(keeper, 1, 0.5);
    for (int64_t i = 1; i <= 4; i++)
        hand_over(&work, keeper, i, 10 * (float)i);
    ck_assert(!keeper_best(keeper, &best, &score));
    ck_assert_int_eq(unlink(inside), 0);
    ck_assert_int_eq(mkdir(inside, 0777), 0);
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    ck_assert(keeper_best(keeper, &best, &score));
    ck_assert_int_eq(best, 1);
    ck_assert_int_eq(checkpoint_list_create(prefix, &list), 0);
    ck_assert_int_eq(list.count, 2);
    checkpoint_list_free(&list);
    check_saved(&work, prefix, false, 1, 10, "the best");
    check_saved(&work, prefix, false, 4, 40, "the newest");
    /* and the end looks whether it is there */
    char *path = snapshot_model_path(prefix, 1, false);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_ne(keeper_finish(keeper, 60), 0);
    ck_assert_msg(strstr(error_text(), "the best snapshot, of iteration 1, is not there") != NULL,
                  "%s", error_text());
    free(path);
    keeper_destroy(keeper);
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
    ck_assert_int_eq(checkpoint_create(work.made.net, 1, &checkpoint), 0);
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
    ck_assert_int_eq(checkpoint_look(work.made.net), history ? 0 : -1);
    /* a file of another program */
    struct snapshot_blob blob = {.shape = &work.made.net->params[1].shape, .data = place};
    struct snapshot_blob weight = {.shape = &work.made.net->params[0].shape,
                                   .data = work.made.net->values};
    struct snapshot_layer layer = {"ip", 2, {weight, blob}};
    path = snapshot_model_path(prefix, 1, false);
    ck_assert_int_eq(snapshot_write_model(path, NULL, &layer, 1), 0);
    set_values(&work, 1);
    ck_assert_int_ne(checkpoint_load_weights(path, true, work.made.net, NULL), 0);
    ck_assert_msg(strstr(error_text(), ".caffemodel.h5: training had diverged, take an earlier "
                                       "snapshot: layer 'ip', blob 1: 1 of 4 values") != NULL,
                  "%s", error_text());
    free(path);
    checkpoint_destroy(checkpoint);
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

    ck_assert_int_eq(checkpoint_list_create(prefix, &list), 0);
    ck_assert_int_eq(list.count, count);
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(list.entries[i].iteration, iterations[i]);
    checkpoint_list_free(&list);
}

/* _i: whether the file system has no hard links. */
START_TEST(the_best_has_a_name_and_former_ones_do_not_pile_up)
{
    struct work work;
    struct keeper *keeper;
    _Atomic int64_t written = -1;
    char prefix[300], *best;
    nlink_t links = _i ? 1 : 2;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/named%d", folder, _i);
    atomic_store(&linkless, _i);
    keeper = open_keeper(&work, prefix, 0, NULL, &written);
    hand_over(&work, keeper, 1, 10);
    ck_assert_int_eq(keeper_finish(keeper, 60), 0);
    keeper_mark_best(keeper, 1, 0.1); /* which was due */
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    check_best(prefix, 1, links);
    for (int64_t i = 2; i <= 3; i++) { /* which were not */
        keeper_mark_best(keeper, i, 0.1 * (double)i);
        hand_over(&work, keeper, i, 10 * (float)i);
        ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
        check_best(prefix, i, links);
    }
    check_states(prefix, (const int64_t[]){3, 1}, 2);
    hand_over(&work, keeper, 4, 40);
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    keeper_destroy(keeper);
    check_states(prefix, (const int64_t[]){4, 3, 1}, 3);
    /* another start, after a kill between the names of two files: the model's is gone */
    best = snapshot_model_path(prefix, SNAPSHOT_BEST, false);
    ck_assert_int_eq(unlink(best), 0);
    free(best);
    keeper = open_keeper(&work, prefix, 1, NULL, &written);
    ck_assert_int_eq(keeper_add(keeper, 1, false), 0);
    ck_assert_int_eq(keeper_add(keeper, 3, true), 0);
    ck_assert_int_eq(keeper_add(keeper, 4, false), 0);
    keeper_mark_best(keeper, 3, 0.3);
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    check_best(prefix, 3, links);
    check_states(prefix, (const int64_t[]){4, 3}, 2);
    hand_over(&work, keeper, 5, 50);
    keeper_mark_best(keeper, 5, 0.5); /* as it is being written: it was due */
    keeper_mark_best(keeper, 6, 0.6);
    hand_over(&work, keeper, 6, 60);
    ck_assert_msg(keeper_finish(keeper, 60) == 0, "%s", error_text());
    check_best(prefix, 6, links);
    check_states(prefix, (const int64_t[]){6, 5}, 2);
    /* the name that is gone is missed at the end */
    best = snapshot_state_path(prefix, SNAPSHOT_BEST, false);
    ck_assert_int_eq(unlink(best), 0);
    ck_assert_int_ne(keeper_finish(keeper, 60), 0);
    ck_assert_msg(strstr(error_text(), best) != NULL, "%s", error_text());
    free(best);
    keeper_destroy(keeper);
    atomic_store(&linkless, false);
    close_work(&work);
}
END_TEST

START_TEST(so_many_snapshots_stay)
{
    struct work work;
    struct keeper *keeper;
    _Atomic int64_t written = -1;
    char prefix[300];
    struct checkpoint_list list;

    open_work(&work);
    snprintf(prefix, sizeof prefix, "%s/kept", folder);
    keeper = open_keeper(&work, prefix, 0, NULL, &written);
    for (int64_t i = 1; i <= 3; i++) {
        hand_over(&work, keeper, i, 1);
        ck_assert_int_eq(keeper_finish(keeper, 60), 0);
    }
    keeper_destroy(keeper);
    /* another start knows of 2 and 3; the first is not its own */
    keeper = open_keeper(&work, prefix, 2, NULL, &written);
    ck_assert_int_eq(keeper_add(keeper, 2, false), 0);
    ck_assert_int_eq(keeper_add(keeper, 3, false), 0);
    for (int64_t i = 4; i <= 5; i++) {
        hand_over(&work, keeper, i, 1);
        ck_assert_int_eq(keeper_finish(keeper, 60), 0);
    }
    keeper_destroy(keeper);
    ck_assert_int_eq(checkpoint_list_create(prefix, &list), 0);
    ck_assert_int_eq(list.count, 3);
    ck_assert_int_eq(list.entries[0].iteration, 5);
    ck_assert_int_eq(list.entries[1].iteration, 4);
    ck_assert_int_eq(list.entries[2].iteration, 1);
    checkpoint_list_free(&list);
    close_work(&work);
}
END_TEST

SUITE_IN(folder, "faults")
{
    TCase *tcase = suite_case(suite, "faults");

    tcase_add_loop_test(tcase, every_system_call_may_fail_once, 0, 2 * CALLS);
    tcase_add_test(tcase, a_folder_that_comes_back_gets_the_snapshot);
    tcase_add_test(tcase, a_folder_that_is_gone_is_made_again_at_the_end);
    tcase_add_test(tcase, who_hurries_waits_for_one_try);
    tcase_add_test(tcase, no_snapshot_is_dropped_untried);
    tcase_add_test(tcase, the_best_is_never_replaced);
    tcase_add_loop_test(tcase, what_is_not_finite_is_neither_written_nor_read, 0, 6);
    tcase_add_loop_test(tcase, the_best_has_a_name_and_former_ones_do_not_pile_up, 0, 2);
    tcase_add_test(tcase, so_many_snapshots_stay);
}
