/* The keeper's thread and its slots: copies that are filled (full), written (busy) and free again.
 * A copy that waits for its next try may be replaced by a newer one, unless the best is awaited in
 * it: then a second slot takes the newer one. One that was never tried, or is being written, may
 * not. */
#include "snapshot/keeper.h"

#include "snapshot/snapshot.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/file.h"
#include "util/path.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { STEPS_BACK = 10 }; /* of niceness: a tenth of a core where nobody else leaves anything */
/* Seconds between tries: while training goes on, and when it is over; then so often it is told. */
enum {
    FIRST_PAUSE = 10,
    LONGEST_PAUSE = 300,
    FIRST_HASTY = 1,
    LONGEST_HASTY = 10,
    TELL_EVERY = 60
};

struct slot {
    struct checkpoint *copy; /* NULL: it was never needed */
    bool full, tried, only_best;
    double begun; /* the clock when it was filled */
};

struct keeper {
    struct keeper_options options;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    struct slot slots[2];
    bool busy, ends;
    bool hasty;     /* training is over, and somebody waits */
    double until;   /* the clock; so long, if hasty */
    double next;    /* the clock when what failed is tried again */
    double told;    /* the clock when a failure was told of last */
    int pause;      /* seconds after the next failure */
    bool hopeless;  /* no snapshot can be composed, or may be written: with its message */
    char *reason;   /* of the last failure */
    double seconds; /* the last snapshot took */
    struct kept_list kept;
};

/* ---- the keeper's thread ---- */

static void remember_reason(struct keeper *keeper)
{
    char *reason = strdup(error_text());

    free(keeper->reason);
    keeper->reason = reason;
}

/* The names of a snapshot's two files. Owned. */
struct pair {
    char *model, *state;
};

/* NULL, both or one: no memory. */
static struct pair pair_of(const struct keeper *keeper, int64_t iteration)
{
    const struct keeper_options *o = &keeper->options;

    return (struct pair){snapshot_model_path(o->prefix, iteration, o->binary),
                         snapshot_state_path(o->prefix, iteration, o->binary)};
}

static void pair_free(struct pair *pair)
{
    free(pair->model);
    free(pair->state);
}

/* The state first: a state never names a model that is not there. */
static void remove_one(const struct keeper *keeper, int64_t iteration)
{
    struct pair old = pair_of(keeper, iteration);

    if (old.state && old.model && (unlink(old.state) == 0 || errno == ENOENT) &&
        unlink(old.model) != 0 && errno != ENOENT)
        LOG_WARNING(keeper->options.log, "cannot remove '%s': %s", old.model, strerror(errno));
    checkpoint_drop_residuals(keeper->options.prefix, iteration, old.state);
    pair_free(&old);
}

/* Removes what is not to stay. Without the mutex. */
static void prune(struct keeper *keeper)
{
    int64_t iteration;
    bool found;

    do {
        pthread_mutex_lock(&keeper->mutex);
        found = kept_take_surplus(&keeper->kept, &iteration);
        pthread_mutex_unlock(&keeper->mutex);
        if (found)
            remove_one(keeper, iteration);
    } while (found);
}

/* When training is over nobody will bring back a folder that was there when it began. */
static void restore_folder(const struct keeper *keeper)
{
    char *folder = path_folder(keeper->options.prefix);

    if (folder && access(folder, F_OK) != 0 && errno == ENOENT) {
        path_make_folders(folder);
        if (access(folder, F_OK) == 0)
            LOG_WARNING(keeper->options.log, "The folder '%s' is gone; it is made again", folder);
    }
    free(folder);
}

/* Without the mutex: only this thread touches a slot that is tried. Returns 0,
 * CHECKPOINT_NOT_WRITTEN or -1. */
static int write_copy(struct keeper *keeper, const struct slot *slot, bool over)
{
    const struct keeper_options *o = &keeper->options;
    const struct checkpoint *copy = slot->copy;
    int64_t iteration = checkpoint_iteration(copy);
    int status = o->check ? o->check(o->context) : 0;

    if (!status && over)
        restore_folder(keeper);
    if (!status)
        status = checkpoint_write(copy, o->prefix, o->binary, o->log);
    if (!status) {
        pthread_mutex_lock(&keeper->mutex);
        status = kept_written(&keeper->kept, iteration, slot->only_best);
        pthread_mutex_unlock(&keeper->mutex);
    }
    if (!status && o->written && o->written(o->context, iteration))
        status = CHECKPOINT_NOT_WRITTEN;
    if (!status)
        prune(keeper);
    return status;
}

/* PREFIX_best becomes a name of that snapshot, the state last: until then, and where it ends in
 * between, each names a model that is there. Then the former one may go. Without the mutex. */
static int name_best(struct keeper *keeper, int64_t iteration)
{
    const struct keeper_options *o = &keeper->options;
    struct pair from = pair_of(keeper, iteration), to = pair_of(keeper, SNAPSHOT_BEST);
    int status = o->check ? o->check(o->context) : 0;

    if (!status &&
        (!from.model || !from.state || !to.model || !to.state || file_link(from.model, to.model) ||
         file_link(from.state, to.state) || (o->written && o->written(o->context, iteration))))
        status = CHECKPOINT_NOT_WRITTEN;
    pair_free(&from);
    pair_free(&to);
    if (status)
        return status;
    pthread_mutex_lock(&keeper->mutex);
    kept_name_best(&keeper->kept, iteration);
    pthread_mutex_unlock(&keeper->mutex);
    prune(keeper);
    return 0;
}

/* The mutex is held in what follows, but for the writing. */

static void put_off(struct keeper *keeper, int64_t iteration)
{
    int longest = keeper->hasty ? LONGEST_HASTY : LONGEST_PAUSE;
    double now = clock_seconds();

    keeper->next = now + keeper->pause;
    if (!keeper->hasty) {
        LOG_WARNING(keeper->options.log,
                    "The snapshot of iteration %" PRId64
                    " could not be written: %s. Training continues; the next try is in %d s, and "
                    "older snapshots stay",
                    iteration, error_text(), keeper->pause);
    } else if (now - keeper->told >= TELL_EVERY && now < keeper->until) {
        LOG_WARNING(keeper->options.log,
                    "Training is over, and the snapshot of iteration %" PRId64
                    " could not be written: %s. Trying for %.0f s more; older snapshots stay",
                    iteration, error_text(), keeper->until - now);
        keeper->told = now;
    }
    keeper->pause = keeper->pause < longest / 2 ? 2 * keeper->pause : longest;
}

/* One try, and what becomes of it. slot: what is written; NULL: the best gets its name. */
static void try_once(struct keeper *keeper, struct slot *slot)
{
    int64_t iteration = slot ? checkpoint_iteration(slot->copy) : keeper->kept.best.iteration;
    bool over = keeper->hasty;
    int status;

    assert((!slot || slot->full) && !keeper->busy);
    keeper->busy = true;
    pthread_mutex_unlock(&keeper->mutex);
    status = slot ? write_copy(keeper, slot, over) : name_best(keeper, iteration);
    pthread_mutex_lock(&keeper->mutex);
    keeper->busy = false;
    if (slot) {
        slot->tried = true;
        slot->full = status == CHECKPOINT_NOT_WRITTEN;
    }
    if (status)
        remember_reason(keeper);
    else
        keeper->pause = FIRST_PAUSE;
    if (slot && !status)
        keeper->seconds = clock_seconds() - slot->begun;
    keeper->hopeless |= status && status != CHECKPOINT_NOT_WRITTEN;
    if (status == CHECKPOINT_NOT_WRITTEN && !keeper->ends)
        put_off(keeper, iteration);
    pthread_cond_broadcast(&keeper->changed);
}

/* The one that was never tried, else the oldest whose time has come; NULL: none. */
static struct slot *next_slot(struct keeper *keeper)
{
    struct slot *oldest = NULL;

    for (int s = 0; s < 2; s++) {
        struct slot *slot = &keeper->slots[s];
        if (slot->full && !slot->tried)
            return slot;
        if (slot->full && clock_seconds() >= keeper->next &&
            (!oldest || checkpoint_iteration(slot->copy) < checkpoint_iteration(oldest->copy)))
            oldest = slot;
    }
    return oldest;
}

static bool is_unnamed(const struct keeper *keeper)
{
    return kept_is_unnamed(&keeper->kept) && !keeper->hopeless;
}

/* Something is to be written, or named. */
static bool is_behind(const struct keeper *keeper)
{
    return keeper->slots[0].full || keeper->slots[1].full || is_unnamed(keeper);
}

/* Until something changes, or that moment comes. */
static void wait_until(struct keeper *keeper, double moment)
{
    struct timespec until = {.tv_sec = (time_t)moment};

    until.tv_nsec = (long)(1e9 * (moment - (double)until.tv_sec));
    pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &until);
}

/* The compute threads come first where all cores are theirs: what their waits leave of the cores is
 * enough. For this thread alone, as Linux has it. */
static void step_back(void)
{
    id_t self = (id_t)syscall(SYS_gettid);

    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + STEPS_BACK);
}

static void *keep(void *argument)
{
    struct keeper *keeper = argument;
    struct slot *slot;

    prctl(PR_SET_NAME, "keeper");
    step_back();
    pthread_mutex_lock(&keeper->mutex);
    while (!keeper->ends) {
        if ((slot = next_slot(keeper)) != NULL)
            try_once(keeper, slot);
        else if (is_unnamed(keeper) && clock_seconds() >= keeper->next)
            try_once(keeper, NULL);
        else if (is_behind(keeper))
            wait_until(keeper, keeper->next);
        else
            pthread_cond_wait(&keeper->changed, &keeper->mutex);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

/* ---- the compute thread ---- */

int keeper_create(const struct keeper_options *options, struct keeper **out)
{
    struct keeper *keeper;
    pthread_condattr_t attributes;

    *out = NULL;
    if (ALLOC(keeper, 1, "snapshots"))
        return -1;
    keeper->options = *options;
    kept_open(&keeper->kept, options->keep);
    keeper->pause = FIRST_PAUSE;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (checkpoint_create(options->net, options->nhistory, &keeper->slots[0].copy)) {
        keeper_destroy(keeper);
        return -1;
    }
    if (thread_start(&keeper->thread, NULL, keep, keeper)) {
        keeper_destroy(keeper);
        return error_set("the thread that writes snapshots cannot be started");
    }
    keeper->started = true;
    *out = keeper;
    return 0;
}

int keeper_add(struct keeper *keeper, int64_t iteration, bool only_best)
{
    return kept_add(&keeper->kept, iteration, only_best);
}

void keeper_prune(struct keeper *keeper)
{
    prune(keeper);
}

void keeper_mark_best(struct keeper *keeper, int64_t iteration, double score)
{

    pthread_mutex_lock(&keeper->mutex);
    while (keeper->busy)
        pthread_cond_wait(&keeper->changed, &keeper->mutex);
    kept_mark_best(&keeper->kept, iteration, score);
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->mutex);
}

bool keeper_best(struct keeper *keeper, int64_t *iteration, double *score)
{
    bool there;

    pthread_mutex_lock(&keeper->mutex);
    there = keeper->kept.best.iteration >= 0;
    *iteration = keeper->kept.best.iteration;
    *score = keeper->kept.best.score;
    pthread_mutex_unlock(&keeper->mutex);
    return there;
}

/* The mutex is held. */
static int report_hopeless(const struct keeper *keeper)
{
    return error_set("%s", keeper->reason ? keeper->reason : "snapshots cannot be written");
}

static bool is_untried(const struct slot *slot)
{
    return slot->full && !slot->tried;
}

static bool holds_best(const struct keeper *keeper, const struct slot *slot)
{
    return slot->full && kept_is_awaited(&keeper->kept, checkpoint_iteration(slot->copy));
}

/* What was not written will not be: its residuals are of no use. */
static void drop(const struct keeper *keeper, struct slot *slot)
{
    struct pair files = {.state = NULL};

    if (slot->full) {
        files = pair_of(keeper, checkpoint_iteration(slot->copy));
        checkpoint_drop_residuals(keeper->options.prefix, checkpoint_iteration(slot->copy),
                                  files.state);
    }
    pair_free(&files);
    slot->full = false;
}

/* The copy that the next snapshot goes into: not the one in which the best is awaited. What could
 * not be written there before makes room, in memory and on the disk. */
static struct slot *slot_for(struct keeper *keeper, int64_t iteration)
{
    struct slot *slot;

    while (keeper->busy || is_untried(&keeper->slots[0]) || is_untried(&keeper->slots[1]))
        pthread_cond_wait(&keeper->changed, &keeper->mutex);
    slot = &keeper->slots[holds_best(keeper, &keeper->slots[0])];
    if (slot->full)
        LOG_WARNING(keeper->options.log,
                    "The snapshot of iteration %" PRId64 ", which could not be written, is "
                    "replaced by that of iteration %" PRId64,
                    checkpoint_iteration(slot->copy), iteration);
    drop(keeper, slot);
    return slot;
}

void keeper_make_room(struct keeper *keeper, int64_t iteration)
{
    pthread_mutex_lock(&keeper->mutex);
    (void)slot_for(keeper, iteration);
    pthread_mutex_unlock(&keeper->mutex);
}

static int fill(struct keeper *keeper, const float *history, const struct train_state *state,
                const struct snapshot_owner *owner)
{
    const struct keeper_options *o = &keeper->options;
    struct slot *slot = slot_for(keeper, state->iteration);
    int status;

    if (keeper->hopeless)
        return report_hopeless(keeper);
    if (!slot->copy && checkpoint_create(o->net, o->nhistory, &slot->copy))
        return -1;
    assert(!keeper->busy); /* else the copy is changed while it is written */
    slot->begun = clock_seconds();
    slot->tried = false;
    slot->only_best = kept_is_awaited(&keeper->kept, state->iteration);
    status = checkpoint_fill(slot->copy, history, state, owner);
    slot->full = status == 0;
    pthread_cond_broadcast(&keeper->changed);
    return status;
}

int keeper_save(struct keeper *keeper, const float *history, const struct train_state *state,
                const struct snapshot_owner *owner)
{
    int status;

    pthread_mutex_lock(&keeper->mutex);
    status = fill(keeper, history, state, owner);
    pthread_mutex_unlock(&keeper->mutex);
    return status;
}

/* The mutex is held. */
static char *newest_path(const struct keeper *keeper)
{
    int64_t newest = kept_newest(&keeper->kept);

    return newest < 0 ? NULL
                      : snapshot_state_path(keeper->options.prefix, newest, keeper->options.binary);
}

char *keeper_newest(struct keeper *keeper)
{
    char *path;

    pthread_mutex_lock(&keeper->mutex);
    while (keeper->busy)
        pthread_cond_wait(&keeper->changed, &keeper->mutex);
    path = newest_path(keeper);
    pthread_mutex_unlock(&keeper->mutex);
    return path;
}

/* What is not written now never is: the reason, with the snapshot that was. */
static void give_up(struct keeper *keeper)
{
    char *newest = newest_path(keeper);

    error_set("%s; no time is left for another try. %s%s",
              keeper->reason ? keeper->reason : "the snapshot cannot be written",
              newest ? "--resume continues from " : "There is no snapshot to resume from",
              newest ? newest : "");
    remember_reason(keeper);
    free(newest);
    keeper->hopeless = true;
    drop(keeper, &keeper->slots[0]);
    drop(keeper, &keeper->slots[1]);
}

/* Whether what was named the best is what is on the disk, by that iteration's name or as
 * SNAPSHOT_BEST. */
static int check_best(const struct keeper *keeper, int64_t name)
{
    int64_t iteration = keeper->kept.awaited.iteration;
    struct pair best = pair_of(keeper, name);
    int status = 0;

    if (!best.state || !best.model)
        status = -1;
    else if (iteration >= 0 && (keeper->kept.best.iteration != iteration ||
                                access(best.state, F_OK) != 0 || access(best.model, F_OK) != 0))
        status = error_set("the best snapshot, of iteration %" PRId64
                           ", is not there: expected %s and %s",
                           iteration, best.model, best.state);
    pair_free(&best);
    return status;
}

int keeper_finish(struct keeper *keeper, double seconds)
{
    const struct keeper_options *o;
    int status;

    if (!keeper)
        return 0;
    o = &keeper->options;
    pthread_mutex_lock(&keeper->mutex);
    keeper->hasty = true;
    keeper->until = clock_seconds() + seconds;
    keeper->pause = FIRST_HASTY;
    keeper->next = 0;
    keeper->told = -TELL_EVERY;
    pthread_cond_broadcast(&keeper->changed);
    while (keeper->busy ||
           (is_behind(keeper) && (keeper->next == 0 || (clock_seconds() < keeper->until &&
                                                        !(o->hurries && o->hurries(o->context))))))
        wait_until(keeper, clock_seconds() + 1);
    keeper->hasty = false;
    if (is_behind(keeper))
        give_up(keeper);
    status = keeper->hopeless ? report_hopeless(keeper)
             : check_best(keeper, keeper->kept.awaited.iteration)
                 ? -1
                 : check_best(keeper, SNAPSHOT_BEST);
    pthread_mutex_unlock(&keeper->mutex);
    return status;
}

double keeper_seconds(struct keeper *keeper)
{
    double seconds;

    pthread_mutex_lock(&keeper->mutex);
    seconds = keeper->seconds;
    pthread_mutex_unlock(&keeper->mutex);
    return seconds;
}

void keeper_destroy(struct keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->started) {
        pthread_mutex_lock(&keeper->mutex);
        keeper->ends = true;
        pthread_cond_broadcast(&keeper->changed);
        pthread_mutex_unlock(&keeper->mutex);
        pthread_join(keeper->thread, NULL);
    }
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->mutex);
    checkpoint_destroy(keeper->slots[0].copy);
    checkpoint_destroy(keeper->slots[1].copy);
    free(keeper->reason);
    kept_free(&keeper->kept);
    free(keeper);
}
