/* Runs the writer's thread over two slots, which hold copies: full, then busy while written, then
 * free. A new snapshot replaces a copy that waits for another try. If that copy is the awaited
 * best, the new snapshot takes the other slot. An untried or busy copy is never replaced. */
#include "keep/snapshot_writer.h"

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

enum { STEPS_BACK = 5 }; /* added niceness: about a quarter of a core beside compute threads */
/* Seconds between tries, in training (PAUSE) and after (HASTY); between warnings after training. */
enum {
    FIRST_PAUSE = 10,
    LONGEST_PAUSE = 300,
    FIRST_HASTY = 1,
    LONGEST_HASTY = 10,
    TELL_EVERY = 60
};

struct slot {
    struct checkpoint *copy; /* NULL: the slot was never needed */
    bool full, tried, only_best;
    double begun; /* time at which the slot was filled */
};

struct snapshot_writer {
    struct snapshot_writer_options options;
    pthread_t thread;
    bool started;
    pthread_mutex_t mutex; /* guards all members below */
    pthread_cond_t changed;
    struct slot slots[2];
    bool busy, ends;
    bool hasty;                /* training is over, and snapshot_writer_finish waits */
    double until;              /* time at which a hasty writer gives up */
    double next;               /* time of the next try after a failure */
    double warned;             /* time of the last warning */
    int pause;                 /* seconds to wait after the next failure */
    bool hopeless;             /* later snapshots would fail, too, because of `reason` */
    char *reason;              /* message of the last failure */
    struct snapshot_cost cost; /* `pending` is not set */
    struct kept_list kept;
};

/* ---- the writer's thread ---- */

static void remember_reason(struct snapshot_writer *writer)
{
    char *reason = strdup(error_text());

    free(writer->reason);
    writer->reason = reason;
}

/* Paths of a snapshot's two files. Owned. */
struct pair {
    char *model, *state;
};

/* Returns the paths of a snapshot; NULL in either: no memory. */
static struct pair pair_of(const struct snapshot_writer *writer, int64_t iteration)
{
    const struct snapshot_writer_options *o = &writer->options;

    return (struct pair){snapshot_model_path(o->prefix, iteration, o->binary),
                         snapshot_state_path(o->prefix, iteration, o->binary)};
}

static void pair_free(struct pair *pair)
{
    free(pair->model);
    free(pair->state);
}

/* Removes a snapshot, the state first, so that no state names a missing model. */
static void remove_one(const struct snapshot_writer *writer, int64_t iteration)
{
    struct pair old = pair_of(writer, iteration);

    if (old.state && old.model && (unlink(old.state) == 0 || errno == ENOENT) &&
        unlink(old.model) != 0 && errno != ENOENT)
        LOG_WARNING(writer->options.log, "cannot remove '%s': %s", old.model, strerror(errno));
    if (old.state && old.model && access(old.state, F_OK) != 0)
        checkpoint_drop_average(old.model);
    checkpoint_drop_residuals(writer->options.prefix, iteration, old.state);
    pair_free(&old);
}

/* Locks the mutex: callers must not hold it. */
void snapshot_writer_prune(struct snapshot_writer *writer)
{
    int64_t iteration;
    bool found;

    do {
        pthread_mutex_lock(&writer->mutex);
        found = kept_take_surplus(&writer->kept, &iteration);
        pthread_mutex_unlock(&writer->mutex);
        if (found)
            remove_one(writer, iteration);
    } while (found);
}

/* Creates the prefix's folder if it is missing, after training. */
static void restore_folder(const struct snapshot_writer *writer)
{
    char *folder = path_folder(writer->options.prefix);

    if (folder && access(folder, F_OK) != 0 && errno == ENOENT) {
        path_make_folders(folder);
        if (access(folder, F_OK) == 0)
            LOG_WARNING(writer->options.log, "The folder '%s' is gone; it is made again", folder);
    }
    free(folder);
}

/* Writes a slot's copy. Called without the mutex: while `busy`, no other thread uses the slots.
 * Returns 0, CHECKPOINT_NOT_WRITTEN or -1. */
static int write_copy(struct snapshot_writer *writer, const struct slot *slot, bool over)
{
    const struct snapshot_writer_options *o = &writer->options;
    const struct checkpoint *copy = slot->copy;
    int64_t iteration = checkpoint_iteration(copy);
    int status = o->check ? o->check(o->context) : 0;

    if (!status && over)
        restore_folder(writer);
    if (!status)
        status = checkpoint_write(copy, o->prefix, o->binary, o->log);
    if (!status) {
        pthread_mutex_lock(&writer->mutex);
        status = kept_written(&writer->kept, iteration, slot->only_best);
        pthread_mutex_unlock(&writer->mutex);
    }
    if (!status && o->written && o->written(o->context, iteration))
        status = CHECKPOINT_NOT_WRITTEN;
    if (!status)
        snapshot_writer_prune(writer);
    return status;
}

/* Links the average's model beside `from`, if any, to the name beside `to`; else unlinks the
 * name. */
static int name_average(const char *from, const char *to)
{
    char *average = snapshot_average_path(from), *name = snapshot_average_path(to);
    int status = !average || !name;

    if (!status && access(average, F_OK) == 0)
        status = file_link(average, name);
    else
        checkpoint_drop_average(to);
    free(average);
    free(name);
    return error_status(status);
}

/* Makes PREFIX_best name the snapshot, the state last, so that PREFIX_best's state always names an
 * existing model. Then removes the former best. Called without the mutex. */
static int name_best(struct snapshot_writer *writer, int64_t iteration)
{
    const struct snapshot_writer_options *o = &writer->options;
    struct pair from = pair_of(writer, iteration), to = pair_of(writer, SNAPSHOT_BEST);
    int status = o->check ? o->check(o->context) : 0;

    assert(iteration >= 0);
    if (!status &&
        (!from.model || !from.state || !to.model || !to.state || file_link(from.model, to.model) ||
         name_average(from.model, to.model) || file_link(from.state, to.state) ||
         (o->written && o->written(o->context, iteration))))
        status = CHECKPOINT_NOT_WRITTEN;
    pair_free(&from);
    pair_free(&to);
    if (status)
        return status;
    pthread_mutex_lock(&writer->mutex);
    kept_name_best(&writer->kept, iteration);
    pthread_mutex_unlock(&writer->mutex);
    snapshot_writer_prune(writer);
    return 0;
}

/* Functions from here on are called with the mutex held; try_once releases it while it writes. */

static void put_off(struct snapshot_writer *writer, int64_t iteration)
{
    int longest = writer->hasty ? LONGEST_HASTY : LONGEST_PAUSE;
    double now = clock_seconds();

    assert(writer->pause > 0); /* without a pause the tries never end */
    writer->next = now + writer->pause;
    if (!writer->hasty) {
        LOG_WARNING(writer->options.log,
                    "The snapshot of iteration %" PRId64
                    " could not be written: %s. Training continues; the next try is in %d s, and "
                    "older snapshots stay",
                    iteration, error_text(), writer->pause);
    } else if (now - writer->warned >= TELL_EVERY && now < writer->until) {
        LOG_WARNING(writer->options.log,
                    "Training is over, and the snapshot of iteration %" PRId64
                    " could not be written: %s. Tries go on for %.0f s; older snapshots stay",
                    iteration, error_text(), writer->until - now);
        writer->warned = now;
    }
    writer->pause = writer->pause < longest / 2 ? 2 * writer->pause : longest;
}

/* Writes a slot's copy once, or for slot NULL names the best snapshot, and records the result. */
static void try_once(struct snapshot_writer *writer, struct slot *slot)
{
    int64_t iteration = slot ? checkpoint_iteration(slot->copy) : writer->kept.best.iteration;
    bool over = writer->hasty;
    double work = clock_thread_seconds();
    int status;

    assert((!slot || slot->full) && !writer->busy);
    writer->busy = true;
    pthread_mutex_unlock(&writer->mutex);
    status = slot ? write_copy(writer, slot, over) : name_best(writer, iteration);
    pthread_mutex_lock(&writer->mutex);
    writer->busy = false;
    if (slot) {
        slot->tried = true;
        slot->full = status == CHECKPOINT_NOT_WRITTEN;
    }
    if (status)
        remember_reason(writer);
    else
        writer->pause = FIRST_PAUSE;
    if (slot && !status)
        writer->cost = (struct snapshot_cost){.seconds = clock_seconds() - slot->begun,
                                              .work = clock_thread_seconds() - work};
    writer->hopeless |= status && status != CHECKPOINT_NOT_WRITTEN;
    if (status == CHECKPOINT_NOT_WRITTEN && !writer->ends)
        put_off(writer, iteration);
    pthread_cond_broadcast(&writer->changed);
}

static bool is_untried(const struct slot *slot)
{
    return slot->full && !slot->tried;
}

/* Returns true if a snapshot waits for its first try, or is being written. */
static bool has_untried(const struct snapshot_writer *writer)
{
    return writer->busy || is_untried(&writer->slots[0]) || is_untried(&writer->slots[1]);
}

/* Returns an untried slot, else the oldest slot whose next try is due; NULL: none. */
static struct slot *next_slot(struct snapshot_writer *writer)
{
    struct slot *oldest = NULL;

    assert(!is_untried(&writer->slots[0]) || !is_untried(&writer->slots[1]));
    for (int s = 0; s < 2; s++) {
        struct slot *slot = &writer->slots[s];
        if (is_untried(slot))
            return slot;
        if (slot->full && clock_seconds() >= writer->next &&
            (!oldest || checkpoint_iteration(slot->copy) < checkpoint_iteration(oldest->copy)))
            oldest = slot;
    }
    return oldest;
}

static bool is_unnamed(const struct snapshot_writer *writer)
{
    return kept_is_unnamed(&writer->kept) && !writer->hopeless;
}

/* Returns true if a snapshot is still to be written or named. */
static bool is_behind(const struct snapshot_writer *writer)
{
    return writer->slots[0].full || writer->slots[1].full || is_unnamed(writer);
}

/* Waits until the writer's state changes, or until `moment`. */
static void wait_until(struct snapshot_writer *writer, double moment)
{
    struct timespec until = {.tv_sec = (time_t)moment};

    until.tv_nsec = (long)(1e9 * (moment - (double)until.tv_sec));
    pthread_cond_timedwait(&writer->changed, &writer->mutex, &until);
}

/* Lowers this thread's priority below that of compute threads (Linux sets it per thread); their
 * waits leave the writer time enough. */
static void lower_priority(void)
{
    id_t self = (id_t)syscall(SYS_gettid);

    setpriority(PRIO_PROCESS, self, getpriority(PRIO_PROCESS, self) + STEPS_BACK);
}

static void *writer_main(void *argument)
{
    struct snapshot_writer *writer = argument;
    struct slot *slot;

    prctl(PR_SET_NAME, "snapshot");
    lower_priority();
    pthread_mutex_lock(&writer->mutex);
    while (!writer->ends) {
        if ((slot = next_slot(writer)) != NULL)
            try_once(writer, slot);
        else if (is_unnamed(writer) && clock_seconds() >= writer->next)
            try_once(writer, NULL);
        else if (is_behind(writer))
            wait_until(writer, writer->next);
        else
            pthread_cond_wait(&writer->changed, &writer->mutex);
    }
    pthread_mutex_unlock(&writer->mutex);
    return NULL;
}

/* ---- the compute thread ---- */

int snapshot_writer_create(const struct snapshot_writer_options *options,
                           struct snapshot_writer **out)
{
    struct snapshot_writer *writer;
    pthread_condattr_t attributes;

    *out = NULL;
    if (ALLOC(writer, 1, "snapshots"))
        return -1;
    writer->options = *options;
    kept_open(&writer->kept, options->keep);
    writer->pause = FIRST_PAUSE;
    pthread_mutex_init(&writer->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (checkpoint_create(options->net, options->nhistory, options->average,
                          &writer->slots[0].copy)) {
        snapshot_writer_destroy(writer);
        return -1;
    }
    if (thread_start(&writer->thread, NULL, writer_main, writer)) {
        snapshot_writer_destroy(writer);
        return error_set("the thread that writes snapshots cannot be started");
    }
    writer->started = true;
    *out = writer;
    return 0;
}

int snapshot_writer_add(struct snapshot_writer *writer, int64_t iteration, bool only_best)
{
    assert(!writer->busy && !is_untried(&writer->slots[0])); /* before the first save */
    return kept_add(&writer->kept, iteration, only_best);
}

void snapshot_writer_mark_best(struct snapshot_writer *writer, int64_t iteration, double score)
{
    pthread_mutex_lock(&writer->mutex);
    while (writer->busy)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    kept_mark_best(&writer->kept, iteration, score);
    pthread_cond_broadcast(&writer->changed);
    pthread_mutex_unlock(&writer->mutex);
}

bool snapshot_writer_best(struct snapshot_writer *writer, int64_t *iteration, double *score)
{
    bool found;

    pthread_mutex_lock(&writer->mutex);
    found = writer->kept.best.iteration >= 0;
    *iteration = writer->kept.best.iteration;
    *score = writer->kept.best.score;
    pthread_mutex_unlock(&writer->mutex);
    return found;
}

/* Fails with `reason` as the error. Called with the mutex held. */
static int report_hopeless(const struct snapshot_writer *writer)
{
    return error_set("%s", writer->reason ? writer->reason : "snapshots cannot be written");
}

static bool holds_best(const struct snapshot_writer *writer, const struct slot *slot)
{
    return slot->full && kept_is_awaited(&writer->kept, checkpoint_iteration(slot->copy));
}

/* Drops a copy that will never be written, with its residuals. */
static void drop(const struct snapshot_writer *writer, struct slot *slot)
{
    struct pair files = {.state = NULL};

    if (slot->full) {
        files = pair_of(writer, checkpoint_iteration(slot->copy));
        checkpoint_drop_residuals(writer->options.prefix, checkpoint_iteration(slot->copy),
                                  files.state);
    }
    pair_free(&files);
    slot->full = false;
}

/* Returns the slot for the next snapshot, never the slot with the awaited best. Drops an unwritten
 * snapshot in the slot, in memory and on disk. */
static struct slot *slot_for(struct snapshot_writer *writer, int64_t iteration)
{
    struct slot *slot;

    while (has_untried(writer))
        pthread_cond_wait(&writer->changed, &writer->mutex);
    slot = &writer->slots[holds_best(writer, &writer->slots[0])];
    assert(!holds_best(writer, slot)); /* at most one slot holds the best */
    if (slot->full)
        LOG_WARNING(writer->options.log,
                    "The snapshot of iteration %" PRId64
                    ", which could not be written, is replaced by the one of iteration %" PRId64,
                    checkpoint_iteration(slot->copy), iteration);
    drop(writer, slot);
    return slot;
}

void snapshot_writer_make_room(struct snapshot_writer *writer, int64_t iteration)
{
    pthread_mutex_lock(&writer->mutex);
    (void)slot_for(writer, iteration);
    pthread_mutex_unlock(&writer->mutex);
}

static int fill(struct snapshot_writer *writer, const float *history,
                const struct train_state *state, const struct snapshot_owner *owner)
{
    const struct snapshot_writer_options *o = &writer->options;
    struct slot *slot = slot_for(writer, state->iteration);
    int status;

    if (writer->hopeless)
        return report_hopeless(writer);
    if (!slot->copy && checkpoint_create(o->net, o->nhistory, o->average, &slot->copy))
        return -1;
    assert(!writer->busy && !slot->full); /* the copy must not change while it is written */
    slot->begun = clock_seconds();
    slot->tried = false;
    slot->only_best = kept_is_awaited(&writer->kept, state->iteration);
    status = checkpoint_fill(slot->copy, history, state, owner);
    slot->full = status == 0;
    pthread_cond_broadcast(&writer->changed);
    return status;
}

int snapshot_writer_save(struct snapshot_writer *writer, const float *history,
                         const struct train_state *state, const struct snapshot_owner *owner)
{
    int status;

    pthread_mutex_lock(&writer->mutex);
    status = fill(writer, history, state, owner);
    pthread_mutex_unlock(&writer->mutex);
    return status;
}

/* Returns the newest state's path, or NULL. Called with the mutex held. */
static char *newest_path(const struct snapshot_writer *writer)
{
    int64_t newest = kept_newest(&writer->kept);

    return newest < 0 ? NULL
                      : snapshot_state_path(writer->options.prefix, newest, writer->options.binary);
}

char *snapshot_writer_newest(struct snapshot_writer *writer)
{
    char *path;

    pthread_mutex_lock(&writer->mutex);
    while (writer->busy)
        pthread_cond_wait(&writer->changed, &writer->mutex);
    path = newest_path(writer);
    pthread_mutex_unlock(&writer->mutex);
    return path;
}

/* Drops the unwritten snapshots, and adds the newest snapshot on disk to `reason`. */
static void give_up(struct snapshot_writer *writer)
{
    char *newest = newest_path(writer);

    assert(!writer->busy); /* no copy is dropped while it is written */
    error_set("%s; no time is left for another try. %s%s",
              writer->reason ? writer->reason : "the snapshot cannot be written",
              newest ? "--resume continues from " : "There is no snapshot to resume from",
              newest ? newest : "");
    remember_reason(writer);
    free(newest);
    writer->hopeless = true;
    drop(writer, &writer->slots[0]);
    drop(writer, &writer->slots[1]);
}

/* Fails unless the best snapshot is on disk under `name`, its iteration or SNAPSHOT_BEST. */
static int check_best(const struct snapshot_writer *writer, int64_t name)
{
    int64_t iteration = writer->kept.awaited.iteration;
    struct pair best = pair_of(writer, name);
    int status = 0;

    if (!best.state || !best.model)
        status = -1;
    else if (iteration >= 0 && (writer->kept.best.iteration != iteration ||
                                access(best.state, F_OK) != 0 || access(best.model, F_OK) != 0))
        status = error_set("the best snapshot, of iteration %" PRId64
                           ", is not there: expected %s and %s",
                           iteration, best.model, best.state);
    pair_free(&best);
    return status;
}

int snapshot_writer_finish(struct snapshot_writer *writer, double seconds)
{
    const struct snapshot_writer_options *o;
    int status;

    if (!writer)
        return 0;
    o = &writer->options;
    pthread_mutex_lock(&writer->mutex);
    writer->hasty = true;
    writer->until = clock_seconds() + seconds;
    writer->pause = FIRST_HASTY;
    writer->next = 0;
    writer->warned = -TELL_EVERY;
    pthread_cond_broadcast(&writer->changed);
    while (writer->busy ||
           (is_behind(writer) && (writer->next == 0 || (clock_seconds() < writer->until &&
                                                        !(o->hurries && o->hurries(o->context))))))
        wait_until(writer, clock_seconds() + 1);
    writer->hasty = false;
    if (is_behind(writer))
        give_up(writer);
    status = writer->hopeless ? report_hopeless(writer)
             : check_best(writer, writer->kept.awaited.iteration)
                 ? -1
                 : check_best(writer, SNAPSHOT_BEST);
    pthread_mutex_unlock(&writer->mutex);
    return status;
}

struct snapshot_cost snapshot_writer_cost(struct snapshot_writer *writer)
{
    struct snapshot_cost cost = {.seconds = 0};

    if (!writer)
        return cost;
    pthread_mutex_lock(&writer->mutex);
    cost = writer->cost;
    cost.pending = has_untried(writer);
    pthread_mutex_unlock(&writer->mutex);
    return cost;
}

void snapshot_writer_destroy(struct snapshot_writer *writer)
{
    if (!writer)
        return;
    if (writer->started) {
        pthread_mutex_lock(&writer->mutex);
        writer->ends = true;
        pthread_cond_broadcast(&writer->changed);
        pthread_mutex_unlock(&writer->mutex);
        pthread_join(writer->thread, NULL);
    }
    assert(!writer->busy);
    pthread_cond_destroy(&writer->changed);
    pthread_mutex_destroy(&writer->mutex);
    checkpoint_destroy(writer->slots[0].copy);
    checkpoint_destroy(writer->slots[1].copy);
    free(writer->reason);
    kept_free(&writer->kept);
    free(writer);
}
