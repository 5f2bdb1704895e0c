/* What the suites of faults share: system calls that fail when they are told to, a net to save, and
 * a snapshot writer of it. The functions below stand in the place of libc's in these programs: they
 * pass calls on to the kernel, but for the one that is to fail. */
#ifndef POSEIDON_TESTS_SNAPSHOT_FAULTS_COMMON_H
#define POSEIDON_TESTS_SNAPSHOT_FAULTS_COMMON_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
#include "keep/snapshot_writer.h"
#include "snapshot/snapshot.h"
#include "tests/suite.h"
#include "util/clock.h"
#include "util/log.h"

static char folder[] = "/tmp/poseidon-faults-XXXXXX";

/* ---- the system calls ---- */

enum call { OPEN, WRITE, FSYNC, RENAME, CLOSE, CALLS };

#define SHORT_WRITE (-1) /* in the place of an error */
#define KILLED      (-2) /* likewise: the process ends in this call */

static _Atomic int armed = CALLS; /* which call is to fail; CALLS: none */
static _Atomic int countdown;     /* at which one of its kind */
static _Atomic int error;         /* with what */
static _Atomic int failed;        /* how many did */

static inline bool fails(enum call call)
{
    if (atomic_load(&armed) != (int)call || atomic_fetch_sub(&countdown, 1) != 1)
        return false;
    atomic_fetch_add(&failed, 1);
    errno = atomic_load(&error);
    if (atomic_load(&error) == KILLED)
        raise(SIGKILL);
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

static inline void arm(enum call call, int which, int with)
{
    atomic_store(&failed, 0);
    atomic_store(&countdown, which);
    atomic_store(&error, with);
    atomic_store(&armed, (int)call);
}

static inline void disarm(void)
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

static inline void set_values(struct work *work, float value)
{
    for (size_t i = 0; i < work->made.net->elems; i++) {
        work->made.net->values[i] = value + (float)i;
        work->history[i] = -value - (float)i;
    }
}

static inline void open_work(struct work *work)
{
    struct engine_options options = {.threads = 1};

    ck_assert_msg(make_net(&work->made, net_text, true, NULL, NULL) == 0, "%s", error_text());
    ck_assert_int_eq(engine_open("cpu", &options, &work->engine), 0);
    ck_assert_int_eq(net_build(work->made.net, &work->engine, 1), 0);
    work->history = calloc(work->made.net->elems, sizeof(float));
}

static inline void close_work(struct work *work)
{
    unmake_net(&work->made);
    engine_close(&work->engine);
    free(work->history);
}

static inline struct snapshot_owner owner(void)
{
    static char run[] = "r";

    return (struct snapshot_owner){.run = run, .global_batch = 8};
}

/* The state of that iteration is whole and holds the values that begin with `value`. */
static inline void check_saved(struct work *work, const char *prefix, bool binary,
                               int64_t iteration, float value, const char *what)
{
    struct train_state state;
    char *path = snapshot_state_path(prefix, iteration, binary), *model;

    set_values(work, -1000);
    ck_assert_msg(checkpoint_resume(path, work->made.net, 1, work->history, &state, &model, NULL) ==
                      0,
                  "%s: %s", what, error_text());
    free(model);
    ck_assert_int_eq(state.iteration, iteration);
    for (int p = 0; p < work->made.net->nparams; p++) {
        size_t begin = net_param_begin(work->made.net, p);
        ck_assert_float_eq(work->made.net->values[begin], value + (float)begin);
        ck_assert_float_eq(work->history[begin], -value - (float)begin);
    }
    free(path);
}

static inline int save(struct work *work, struct checkpoint *checkpoint, const char *prefix,
                       bool binary, int64_t iteration, float value)
{
    struct train_state state = {.iteration = iteration, .cursor = 7};
    struct snapshot_owner whose = owner();

    set_values(work, value);
    ck_assert_int_eq(checkpoint_fill(checkpoint, work->history, &state, &whose), 0);
    return checkpoint_write(checkpoint, prefix, binary, NULL);
}

static inline int count_written(void *context, int64_t iteration)
{
    *(_Atomic int64_t *)context = iteration;
    return 0;
}

static inline struct snapshot_writer *open_writer(struct work *work, const char *prefix, int kept,
                                                  struct log *log, _Atomic int64_t *written)
{
    struct snapshot_writer_options options = {.prefix = prefix,
                                              .net = work->made.net,
                                              .nhistory = 1,
                                              .keep = kept,
                                              .log = log,
                                              .context = written,
                                              .written = count_written};
    struct snapshot_writer *writer;

    ck_assert_msg(snapshot_writer_create(&options, &writer) == 0, "%s", error_text());
    return writer;
}

static inline void hand_over(struct work *work, struct snapshot_writer *writer, int64_t iteration,
                             float value)
{
    struct train_state state = {.iteration = iteration};
    struct snapshot_owner whose = owner();

    set_values(work, value);
    ck_assert_msg(snapshot_writer_save(writer, work->history, &state, &whose) == 0, "%s",
                  error_text());
}

#endif
