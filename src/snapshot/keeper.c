/* The keeper's thread and its one slot: a copy that is filled (full), written (busy) and free
 * again. A copy that waits for its next try may be replaced; one that is being written may not. */
#include "snapshot/keeper.h"

#include "snapshot/snapshot.h"
#include "util/clock.h"
#include "util/error.h"

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
enum { FIRST_PAUSE = 10, LONGEST_PAUSE = 300, HASTY_PAUSE = 1 }; /* seconds between tries */

struct keeper {
    struct keeper_options options;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    struct checkpoint *slot;
    bool full, busy, ends;
    bool hasty;     /* somebody waits for the slot to be written */
    bool hopeless;  /* no snapshot can be composed, or may be written: with its message */
    char *reason;   /* of the last failure */
    double begun;   /* the clock when the slot was filled */
    double seconds; /* the last snapshot took */
    struct best {
        int64_t iteration; /* -1: none */
        double score;
    } best, awaited; /* that is there; that is to be written */
    int64_t *kept;   /* iterations of the snapshots there, the oldest first */
    int nkept, room;
};

/* ---- the keeper's thread ---- */

static void remember_reason(struct keeper *keeper)
{
    char *reason = strdup(error_text());

    free(keeper->reason);
    keeper->reason = reason;
}

static int remember_kept(struct keeper *keeper, int64_t iteration)
{
    if (keeper->nkept > 0 && keeper->kept[keeper->nkept - 1] == iteration)
        return 0;
    if (keeper->nkept == keeper->room) {
        int room = keeper->room > 0 ? 2 * keeper->room : 16;
        int64_t *grown = realloc(keeper->kept, (size_t)room * sizeof *grown);
        if (!grown)
            return error_memory((size_t)room * sizeof *grown, "a list of snapshots");
        keeper->kept = grown;
        keeper->room = room;
    }
    keeper->kept[keeper->nkept++] = iteration;
    return 0;
}

/* The state first: a state never names a model that is not there. */
static void remove_one(const struct keeper *keeper, int64_t iteration)
{
    const struct keeper_options *o = &keeper->options;
    char *state = o->binary ? snapshot_state_path_binary(o->prefix, iteration)
                            : snapshot_state_path(o->prefix, iteration);
    char *model = o->binary ? snapshot_model_path_binary(o->prefix, iteration)
                            : snapshot_model_path(o->prefix, iteration);

    if (state && model && (unlink(state) == 0 || errno == ENOENT) && unlink(model) != 0 &&
        errno != ENOENT)
        LOG_WARNING(o->log, "cannot remove '%s': %s", model, strerror(errno));
    free(state);
    free(model);
}

static void prune(struct keeper *keeper)
{
    int64_t best = -1;
    double score;
    int surplus = keeper->nkept - keeper->options.keep, stay = 0;

    if (keeper_best(keeper, &best, &score))
        for (int i = 0; i < keeper->nkept; i++)
            surplus -= keeper->kept[i] == best; /* besides */
    if (keeper->options.keep <= 0 || surplus <= 0)
        return;
    for (int i = 0; i < keeper->nkept; i++)
        if (surplus > 0 && keeper->kept[i] != best) {
            remove_one(keeper, keeper->kept[i]);
            surplus--;
        } else
            keeper->kept[stay++] = keeper->kept[i];
    keeper->nkept = stay;
}

/* What was to be the best is there. */
static void take_best(struct keeper *keeper, int64_t iteration)
{
    pthread_mutex_lock(&keeper->mutex);
    if (keeper->awaited.iteration == iteration)
        keeper->best = keeper->awaited;
    pthread_mutex_unlock(&keeper->mutex);
}

/* Without the mutex: only this thread touches the slot while it is busy, and the list of kept ones.
 * Returns 0, CHECKPOINT_NOT_WRITTEN or -1. */
static int write_slot(struct keeper *keeper)
{
    const struct keeper_options *o = &keeper->options;
    int64_t iteration = checkpoint_iteration(keeper->slot);
    int status = o->check ? o->check(o->context) : 0;

    if (!status)
        status = checkpoint_write(keeper->slot, o->prefix, o->binary, o->log);
    if (!status)
        take_best(keeper, iteration);
    if (!status && o->written && o->written(o->context, iteration))
        status = CHECKPOINT_NOT_WRITTEN;
    if (!status && remember_kept(keeper, iteration) == 0)
        prune(keeper);
    return status;
}

static void pause_for(struct keeper *keeper, int pause)
{
    struct timespec until;
    double begun = clock_seconds();

    while (keeper->full && !keeper->ends &&
           clock_seconds() - begun < (keeper->hasty ? HASTY_PAUSE : pause)) {
        double left = (keeper->hasty ? HASTY_PAUSE : pause) - (clock_seconds() - begun);
        struct checkpoint *slot = keeper->slot;
        double filled = keeper->begun;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(1e9 * (left - (double)(long)left));
        until.tv_sec += (long)left + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &until);
        if (slot != keeper->slot || filled != keeper->begun)
            return; /* a newer one is in its place */
    }
}

/* One try, and what becomes of it. The mutex is held, but for the writing. */
static void try_once(struct keeper *keeper, int *pause)
{
    int status;

    keeper->busy = true;
    pthread_mutex_unlock(&keeper->mutex);
    status = write_slot(keeper);
    pthread_mutex_lock(&keeper->mutex);
    keeper->busy = false;
    if (status)
        remember_reason(keeper);
    if (!status) {
        keeper->seconds = clock_seconds() - keeper->begun;
        *pause = FIRST_PAUSE;
    }
    keeper->hopeless |= status && status != CHECKPOINT_NOT_WRITTEN;
    keeper->full = status == CHECKPOINT_NOT_WRITTEN;
    pthread_cond_broadcast(&keeper->changed);
    if (status != CHECKPOINT_NOT_WRITTEN || keeper->ends)
        return;
    LOG_WARNING(keeper->options.log,
                "The snapshot of iteration %" PRId64 " is not written: %s. Training goes on; it is "
                "tried again in %d s, and what was written before stays",
                checkpoint_iteration(keeper->slot), error_text(),
                keeper->hasty ? HASTY_PAUSE : *pause);
    pause_for(keeper, *pause);
    *pause = *pause < LONGEST_PAUSE / 2 ? 2 * *pause : LONGEST_PAUSE;
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
    int pause = FIRST_PAUSE;

    prctl(PR_SET_NAME, "keeper");
    step_back();
    pthread_mutex_lock(&keeper->mutex);
    while (!keeper->ends) {
        if (keeper->full)
            try_once(keeper, &pause);
        else
            pthread_cond_wait(&keeper->changed, &keeper->mutex);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

/* ---- the compute thread ---- */

int keeper_create(const struct keeper_options *options, struct keeper **out)
{
    struct keeper *keeper = calloc(1, sizeof *keeper);
    pthread_condattr_t attributes;

    *out = NULL;
    if (!keeper)
        return error_memory(sizeof *keeper, "snapshots");
    keeper->options = *options;
    keeper->best.iteration = keeper->awaited.iteration = -1;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (checkpoint_create(options->net, options->nhistory, &keeper->slot)) {
        keeper_destroy(keeper);
        return -1;
    }
    if (pthread_create(&keeper->thread, NULL, keep, keeper)) {
        keeper_destroy(keeper);
        return error_set("the thread that writes snapshots cannot be started");
    }
    keeper->started = true;
    *out = keeper;
    return 0;
}

int keeper_add(struct keeper *keeper, int64_t iteration)
{
    return remember_kept(keeper, iteration);
}

void keeper_mark_best(struct keeper *keeper, int64_t iteration, double score)
{
    struct best best = {.iteration = iteration, .score = score};

    pthread_mutex_lock(&keeper->mutex);
    while (keeper->busy)
        pthread_cond_wait(&keeper->changed, &keeper->mutex);
    for (int i = 0; i < keeper->nkept; i++)
        if (keeper->kept[i] == iteration)
            keeper->best = best;
    keeper->awaited = best;
    pthread_mutex_unlock(&keeper->mutex);
}

bool keeper_best(struct keeper *keeper, int64_t *iteration, double *score)
{
    bool there;

    pthread_mutex_lock(&keeper->mutex);
    there = keeper->best.iteration >= 0;
    *iteration = keeper->best.iteration;
    *score = keeper->best.score;
    pthread_mutex_unlock(&keeper->mutex);
    return there;
}

/* The mutex is held. */
static int report_hopeless(const struct keeper *keeper)
{
    return error_set("%s", keeper->reason ? keeper->reason : "snapshots cannot be written");
}

int keeper_save(struct keeper *keeper, const float *history, const struct train_state *state,
                const struct checkpoint_owner *owner)
{
    int status = 0;

    pthread_mutex_lock(&keeper->mutex);
    while (keeper->busy)
        pthread_cond_wait(&keeper->changed, &keeper->mutex);
    if (keeper->hopeless) {
        status = report_hopeless(keeper);
    } else {
        keeper->begun = clock_seconds();
        status = checkpoint_fill(keeper->slot, history, state, owner);
        keeper->full = status == 0;
        pthread_cond_broadcast(&keeper->changed);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return status;
}

int keeper_finish(struct keeper *keeper, double seconds)
{
    double begun = clock_seconds();
    struct timespec until;
    int status = 0;

    if (!keeper)
        return 0;
    pthread_mutex_lock(&keeper->mutex);
    keeper->hasty = true;
    pthread_cond_broadcast(&keeper->changed);
    while (keeper->busy || (keeper->full && clock_seconds() - begun < seconds)) {
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &until);
    }
    keeper->hasty = false;
    if (keeper->full || keeper->hopeless)
        status = report_hopeless(keeper);
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
    checkpoint_destroy(keeper->slot);
    free(keeper->reason);
    free(keeper->kept);
    free(keeper);
}
