/* Locks a prefix. The one trick: if owner and reader share a kernel and a process namespace, the
 * process's number and start time show if the owner lives, so a restart after a crash need not
 * wait. For other owners only the file's age counts. */
#define _GNU_SOURCE
#include "keep/prefix_lock.h"

#include "keep/run_file.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/strbuf.h"
#include "util/thread.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 512, NAME_BYTES = 128 };

/* Owner of a lock, as its file says. */
struct owner {
    char run[RUN_NAME_BYTES], host[NAME_BYTES];
    char kernel[NAME_BYTES]; /* boot and process namespace; process numbers are comparable if these
                                are equal */
    long pid;
    unsigned long long started; /* start time of the process, in the kernel's ticks */
    struct run_pulse pulse;
};

struct prefix_lock {
    char *path;
    struct owner me;
    struct owner before;     /* owner of the lock while this process waited; .pid 0: none */
    struct owner dead;       /* owner of the stale lock that was taken over; .pid 0: none */
    _Atomic int64_t reached; /* this start's pulse, by the training thread */
    _Atomic double trained, saving;
    _Atomic bool beats; /* the lock's file has this start's pulse, no longer the dead owner's */
    int fd;             /* open file that the link names */
    struct stat file;
    pthread_t toucher;
    bool touching;
};

/* ---- owners ---- */

/* Reads the beginning of a file, up to room - 1 bytes; false: the file cannot be opened. */
static bool read_begin(const char *path, char *text, size_t room)
{
    FILE *in = fopen(path, "r");
    size_t length = in ? fread(text, 1, room - 1, in) : 0;

    text[length] = '\0';
    if (in)
        fclose(in);
    return in != NULL;
}

/* Returns the start time of a process in ticks; 0: no such process. */
static unsigned long long start_of(long pid)
{
    char name[64], text[1024], *behind;
    unsigned long long started = 0;

    snprintf(name, sizeof name, "/proc/%ld/stat", pid);
    if (!read_begin(name, text, sizeof text))
        return 0;
    behind = strrchr(text, ')'); /* skips the program's name, which may contain ')' */
    if (!behind || sscanf(behind + 1,
                          " %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                          "%*s %*s %llu",
                          &started) != 1)
        return 0;
    return behind[2] == 'Z' || behind[2] == 'X' ? 0 : started;
}

static void identify(struct owner *out)
{
    char boot[64], space[64] = "?";
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);

    if (!read_begin("/proc/sys/kernel/random/boot_id", boot, sizeof boot) || !*boot)
        strcpy(boot, "?");
    boot[strcspn(boot, "\n")] = '\0';
    space[length > 0 ? length : 1] = '\0';
    *out = (struct owner){.run = "?", .pid = (long)getpid()};
    out->started = start_of(out->pid);
    snprintf(out->kernel, sizeof out->kernel, "%.60s/%.60s", boot, space);
    if (gethostname(out->host, sizeof out->host - 1))
        strcpy(out->host, "?");
}

static bool read_owner(const char *path, struct owner *out)
{
    char text[TEXT_BYTES];
    struct run_pulse *pulse = &out->pulse;
    int found;

    *out = (struct owner){.pid = 0};
    if (!read_begin(path, text, sizeof text))
        return false;
    found = sscanf(text,
                   "run\t%63s host\t%127s kernel\t%127s process\t%ld started\t%llu "
                   "pulse\t%lf %" SCNd64 " %lf %lf",
                   out->run, out->host, out->kernel, &out->pid, &out->started, &pulse->seen,
                   &pulse->reached, &pulse->trained, &pulse->saving);
    if (found < 9 || !isfinite(pulse->seen + pulse->trained + pulse->saving))
        *pulse = (struct run_pulse){.seen = 0};
    return found >= 5;
}

static bool same_owner(const struct owner *a, const struct owner *b)
{
    return a->pid == b->pid && a->started == b->started && !strcmp(a->kernel, b->kernel) &&
           !strcmp(a->host, b->host);
}

/* ---- the lock's file ---- */

static int write_owner(int fd, const char *path, const struct owner *me)
{
    char text[TEXT_BYTES];
    int length = snprintf(text, sizeof text,
                          "run\t%s\nhost\t%s\nkernel\t%s\nprocess\t%ld\nstarted\t%llu\n"
                          "pulse\t%.3f %" PRId64 " %.3f %.3f\n",
                          me->run, me->host, me->kernel, me->pid, me->started, me->pulse.seen,
                          me->pulse.reached, me->pulse.trained, me->pulse.saving);

    if (pwrite(fd, text, (size_t)length, 0) != length || ftruncate(fd, length))
        return error_set("cannot write '%s': %s", path, strerror(errno));
    return 0;
}

/* Creates this process's own file beside the lock, for linking, with the file system's time. */
static int make_own_file(const char *path, const struct owner *me, char **name, int *fd)
{
    struct strbuf own_path = {0};
    int status = -1;

    strbuf_printf(&own_path, "%s.%s.%ld", path, me->host, me->pid);
    *name = strbuf_take(&own_path);
    if (!*name)
        return -1;
    *fd = open(*name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (*fd < 0)
        error_set("cannot write '%s': %s", *name, strerror(errno));
    else
        status = write_owner(*fd, *name, me);
    if (status && *fd >= 0)
        unlink(*name);
    return status;
}

/* Returns true if this process now holds the lock. The number of links decides, because a file
 * server may report failure for a link that it made. */
static bool try_link(const char *own_path, const char *path, int fd)
{
    struct stat file;
    int place;

    if (link(own_path, path) == 0)
        return true;
    if (errno != EPERM && errno != ENOTSUP && errno != ENOSYS)
        return fstat(fd, &file) == 0 && file.st_nlink > 1;
    /* without hard links, the process that creates the path has the lock and moves its file
     * there */
    place = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (place < 0)
        return false;
    close(place);
    return rename(own_path, path) == 0;
}

/* Last touch of a lock by the file system's clock, and time by our clock when the touch was first
 * seen. */
struct sight {
    struct timespec touched;
    double since;
};

/* Returns the lock's age in seconds by the file system's clock, at least the time since the touch
 * was first seen by our clock; negative: the lock is gone. */
static double age_of(const char *path, int own_fd, struct sight *sight)
{
    struct stat lock, now;
    double age, seen;

    if (futimens(own_fd, NULL) || fstat(own_fd, &now) || stat(path, &lock))
        return -1;
    if (memcmp(&sight->touched, &lock.st_mtim, sizeof lock.st_mtim)) {
        sight->touched = lock.st_mtim;
        sight->since = clock_seconds();
    }
    age = (double)(now.st_mtim.tv_sec - lock.st_mtim.tv_sec) +
          1e-9 * (double)(now.st_mtim.tv_nsec - lock.st_mtim.tv_nsec);
    seen = clock_seconds() - sight->since;
    return age > seen ? age : seen;
}

enum verdict { FREE, HELD, STALE, PERHAPS };

static enum verdict judge(const struct owner *owner, const struct owner *me, double age)
{
    if (age < 0)
        return FREE;
    if (!strcmp(owner->kernel, me->kernel))
        return start_of(owner->pid) == owner->started && owner->started > 0 ? HELD : STALE;
    return age > PREFIX_LOCK_STALE ? STALE : PERHAPS;
}

/* Removes a stale lock, unless another process has replaced it. */
static void remove_stale(const char *path, const char *own_path, const struct owner *stale)
{
    struct strbuf aside = {0};
    struct owner moved;

    strbuf_printf(&aside, "%s.stale", own_path);
    if (!strbuf_status(&aside) && rename(path, strbuf_text(&aside)) == 0) {
        if (read_owner(strbuf_text(&aside), &moved) && !same_owner(&moved, stale) &&
            link(strbuf_text(&aside), path) != 0)
            error_clear(); /* a third process has the lock, and the next round finds it */
        unlink(strbuf_text(&aside));
    }
    strbuf_free(&aside);
}

static int refuse(const char *path, const struct owner *owner, double age)
{
    return error_set(
        "%s: run '%s' on %s (process %ld) writes snapshots under this prefix, last seen %.0f s "
        "ago: end that run first, or give the solver another snapshot_prefix",
        path, owner->run, owner->host, owner->pid, age > 0 ? age : 0);
}

static void pause_a_second(void)
{
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
}

/* Tries to take the lock until this process has it, or another process surely holds it. *before:
 * owner that released the lock while this process waited. *dead: owner of a stale lock. */
static int contend(const char *path, const char *own_path, int fd, const struct owner *me,
                   bool patient, struct log *log, struct owner *before, struct owner *dead)
{
    struct owner owner;
    struct sight sight = {.since = 0};
    double age, last = 0;
    int waited = 0;

    for (int round = 0; !try_link(own_path, path, fd); round++) {
        if (!read_owner(path, &owner) && access(path, F_OK) == 0 && errno == EACCES)
            return error_set("cannot read '%s': %s", path, strerror(errno));
        age = age_of(path, fd, &sight);
        switch (judge(&owner, me, age)) {
        case FREE:
            if (access(path, F_OK) != 0 && round > PREFIX_LOCK_STALE)
                return error_set("cannot make '%s': %s", path, strerror(errno));
            if (round == 3)
                LOG_INFO(log, "Waiting up to %d s until %s can be made", PREFIX_LOCK_STALE, path);
            pause_a_second();
            break;
        case STALE:
            LOG_WARNING(
                log, "%s: the lock of run '%s' on %s (process %ld) is stale: taking the lock over",
                path, owner.run, owner.host, owner.pid);
            remove_stale(path, own_path, &owner);
            *dead = owner;
            before->pid = 0;
            break;
        case HELD:
            if (!patient || waited >= PREFIX_LOCK_PATIENCE)
                return refuse(path, &owner, age);
            if (waited++ == 0)
                LOG_INFO(log, "Waiting up to %d s for run '%s', process %ld, to leave %s",
                         PREFIX_LOCK_PATIENCE, owner.run, owner.pid, path);
            *before = owner;
            pause_a_second();
            break;
        case PERHAPS:
            /* touched since the last look: the owner lives */
            if (same_owner(&owner, before) && age < last)
                return refuse(path, &owner, age);
            if (!same_owner(&owner, before))
                LOG_INFO(log,
                         "Waiting up to %d s to see whether run '%s' on %s (process %ld), owner of "
                         "%s, still lives",
                         PREFIX_LOCK_STALE, owner.run, owner.host, owner.pid, path);
            *before = owner;
            last = age;
            pause_a_second();
            break;
        }
    }
    return 0;
}

/* ---- touching ---- */

/* Touches the lock and writes the pulse, until the thread is cancelled. */
static void *touch(void *argument)
{
    struct prefix_lock *lock = argument;

    for (;;) {
        nanosleep(&(struct timespec){.tv_sec = PREFIX_LOCK_TOUCH}, NULL);
        if (lock->beats) {
            lock->me.pulse =
                (struct run_pulse){clock_date(), lock->trained, lock->saving, lock->reached};
            (void)write_owner(lock->fd, lock->path, &lock->me);
            error_clear();
        }
        (void)futimens(lock->fd, NULL); /* a failure shows in prefix_lock_check */
    }
    return NULL;
}

void prefix_lock_beat(struct prefix_lock *lock, const struct run_pulse *pulse)
{
    if (!lock)
        return;
    lock->reached = pulse->reached;
    lock->trained = pulse->trained;
    lock->saving = pulse->saving;
    lock->beats = true;
}

struct run_pulse prefix_lock_dead(const struct prefix_lock *lock)
{
    return lock && lock->dead.pid && !strcmp(lock->dead.run, lock->me.run)
               ? lock->dead.pulse
               : (struct run_pulse){.seen = 0};
}

double prefix_lock_process_age(void)
{
    struct timespec now = {0};
    double started = (double)start_of((long)getpid()) / (double)sysconf(_SC_CLK_TCK);

    clock_gettime(CLOCK_BOOTTIME, &now);
    return fmax(0, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - started);
}

int prefix_lock_take(const char *prefix, bool patient, struct log *log, struct prefix_lock **out)
{
    struct prefix_lock *lock = calloc(1, sizeof *lock);
    struct strbuf path = {0};
    char *own_path = NULL;
    int status;

    *out = NULL;
    if (!lock)
        return error_memory(sizeof *lock, "a lock");
    lock->fd = -1;
    strbuf_printf(&path, "%s.lock", prefix);
    lock->path = strbuf_take(&path);
    identify(&lock->me);
    status = lock->path ? make_own_file(lock->path, &lock->me, &own_path, &lock->fd) : -1;
    if (!status) {
        status = contend(lock->path, own_path, lock->fd, &lock->me, patient, log, &lock->before,
                         &lock->dead);
        unlink(own_path);
        if (!status && fstat(lock->fd, &lock->file))
            status = error_set("cannot look at '%s': %s", lock->path, strerror(errno));
        if (!status) {
            lock->touching = thread_start(&lock->toucher, NULL, touch, lock) == 0;
            if (!lock->touching)
                status = error_set("%s: cannot start the thread that renews the lock", lock->path);
        }
        if (status && lock->file.st_ino)
            unlink(lock->path);
    }
    free(own_path);
    if (status) {
        if (lock->fd >= 0)
            close(lock->fd);
        free(lock->path);
        free(lock);
        return -1;
    }
    *out = lock;
    return 0;
}

int prefix_lock_name(struct prefix_lock *lock, const char *run)
{
    if (!lock)
        return 0;
    if (lock->before.pid && strcmp(lock->before.run, "?") && strcmp(lock->before.run, run))
        return error_set("%s: run '%s' on %s (process %ld) wrote snapshots under this prefix until "
                         "just now, and run '%s' would overwrite them: give the solver another "
                         "snapshot_prefix, or start again to overwrite them",
                         lock->path, lock->before.run, lock->before.host, lock->before.pid, run);
    snprintf(lock->me.run, sizeof lock->me.run, "%s", run);
    lock->me.pulse = prefix_lock_dead(lock); /* a start that dies in its set-up hands it on */
    return write_owner(lock->fd, lock->path, &lock->me);
}

int prefix_lock_check(const struct prefix_lock *lock)
{
    struct owner owner;
    struct stat now;

    if (!lock)
        return 0;
    if (stat(lock->path, &now) != 0)
        return 0; /* the file was removed, so no other process has the lock */
    if (now.st_dev == lock->file.st_dev && now.st_ino == lock->file.st_ino)
        return 0;
    if (!read_owner(lock->path, &owner))
        strcpy(owner.host, "?");
    return error_set("%s: run '%s' on %s (process %ld) has taken over this run's prefix; nothing "
                     "more is written there",
                     lock->path, owner.run, owner.host, owner.pid);
}

void prefix_lock_release(struct prefix_lock *lock)
{
    if (!lock)
        return;
    if (lock->touching) {
        pthread_cancel(lock->toucher);
        pthread_join(lock->toucher, NULL);
    }
    if (prefix_lock_check(lock) == 0)
        unlink(lock->path);
    else
        error_clear();
    close(lock->fd);
    free(lock->path);
    free(lock);
}
