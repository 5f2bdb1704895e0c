/* The feeder: one thread that reads, transforms and puts batches into a ring ahead of training.
 *
 * All that the two threads share is guarded by one mutex; a slot's memory belongs to the thread that
 * its state says. A jump only raises the generation: the reader drops what it had for the old one. */
#include "input/feeder.h"

#include "util/error.h"
#include "util/rng.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_BORROWED };

struct slot {
    enum slot_state state;
    float *field[SOURCE_MAX_FIELDS];    /* batch x elems[f] */
};

/* Where one sample of the batch comes from. */
struct pick {
    uint64_t record;
    int sample;      /* 0 .. batch-1 */
    int place;       /* its record's place in the staging buffers */
};

struct feeder {
    struct source *source;               /* owned; used by the reader alone */
    bool has_transform;
    struct transform transform;
    struct feeder_options o;
    size_t elems[SOURCE_MAX_FIELDS];     /* floats of one delivered sample */
    size_t bytes[SOURCE_MAX_FIELDS];     /* one record as the source gives it */

    /* the reader's own */
    struct pick *pick;                   /* batch */
    char *staging[SOURCE_MAX_FIELDS];    /* batch records as the source gives them */
    uint32_t *order;                     /* shuffle: the permutation of epoch `epoch` */
    uint64_t epoch;
    bool order_valid;

    /* shared, under mutex */
    pthread_mutex_t mutex;
    pthread_cond_t changed_for_reader, changed_for_consumer;
    struct slot *slot;                   /* o.depth */
    int *ready;                          /* queue of ready slots, oldest first */
    int nready;
    int borrowed;                        /* slot, -1 for none */
    uint64_t generation;
    uint64_t first_sample, pass;         /* what the reader does next */
    bool stop, failed;
    char failure[2048];
    bool thread_started;
    pthread_t thread;

    /* the consumer's own */
    bool counting;                       /* a batch was delivered since creation or the last jump */
    uint64_t waits;
    double wait_seconds;
};

static double seconds_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Fisher-Yates with counter-based draws: any rank computes any epoch's order alone. */
static void order_make(struct feeder *f, uint64_t epoch)
{
    uint32_t n = (uint32_t)f->source->nrecords;
    struct rng rng = rng_make(f->o.seed, RNG_SHUFFLE, (uint32_t)f->o.layer_index, epoch);

    if (f->order_valid && f->epoch == epoch)
        return;
    for (uint32_t i = 0; i < n; i++)
        f->order[i] = i;
    for (uint32_t i = n - 1; i > 0; i--) {
        uint32_t j = rng_below(&rng, i, i + 1), swap = f->order[i];
        f->order[i] = f->order[j];
        f->order[j] = swap;
    }
    f->epoch = epoch;
    f->order_valid = true;
}

static int pick_compare(const void *a, const void *b)
{
    const struct pick *x = a, *y = b;

    if (x->record != y->record)
        return x->record < y->record ? -1 : 1;
    return x->sample - y->sample;
}

/* Fills pick[] for samples first .. first+batch-1, in the order of reading. Shuffled ones are read in
 * record order, so that a compressed chunk is opened at most once per batch. */
static void picks_make(struct feeder *f, uint64_t first)
{
    uint64_t n = f->source->nrecords;

    for (int k = 0; k < f->o.batch; k++) {
        uint64_t g = first + (uint64_t)k;
        uint64_t record = g % n;

        if (f->o.shuffle) {
            order_make(f, g / n);
            record = f->order[record];
        }
        f->pick[k] = (struct pick){.record = record, .sample = k};
    }
    if (f->o.shuffle)
        qsort(f->pick, (size_t)f->o.batch, sizeof *f->pick, pick_compare);
}

static bool outdated(struct feeder *f, uint64_t generation)
{
    bool answer;

    pthread_mutex_lock(&f->mutex);
    answer = f->stop || f->generation != generation;
    pthread_mutex_unlock(&f->mutex);
    return answer;
}

/* Reads the picked records into staging, neighbours in one go. */
static int picks_read(struct feeder *f, uint64_t generation)
{
    int place = 0;

    for (int k = 0; k < f->o.batch;) {
        uint64_t first = f->pick[k].record, last = first;
        void *out[SOURCE_MAX_FIELDS];
        int start = place;

        if (outdated(f, generation))
            return error_set("%s: reading was called off", f->source->path);
        for (int i = 0; i < f->source->nfields; i++)
            out[i] = f->staging[i] + (size_t)start * f->bytes[i];
        for (; k < f->o.batch; k++) {
            uint64_t record = f->pick[k].record;
            if (record != last && record != last + 1)
                break;
            last = record;
            f->pick[k].place = start + (int)(record - first);
        }
        place = start + (int)(last - first) + 1;
        if (f->source->i->read(f->source, first, last - first + 1, out))
            return -1;
    }
    return 0;
}

/* One sample from staging to its place in the batch. */
static void sample_deliver(const struct feeder *f, const struct pick *pick, uint64_t first,
                           struct slot *slot)
{
    for (int i = 0; i < f->source->nfields; i++) {
        const void *from = f->staging[i] + (size_t)pick->place * f->bytes[i];
        float *to = slot->field[i] + (size_t)pick->sample * f->elems[i];
        enum source_type type = f->source->field[i].type;

        if (i == 0 && f->has_transform)
            transform_apply(&f->transform, from, type, f->o.seed, f->o.layer_index,
                            first + (uint64_t)pick->sample, to);
        else if (type == SOURCE_F32)
            memcpy(to, from, f->bytes[i]);
        else
            for (size_t e = 0; e < f->elems[i]; e++)
                to[e] = (float)((const uint8_t *)from)[e];
    }
}

static int batch_fill(struct feeder *f, uint64_t first, uint64_t generation, struct slot *slot)
{
    picks_make(f, first);
    if (picks_read(f, generation))
        return -1;
    for (int k = 0; k < f->o.batch; k++)
        sample_deliver(f, &f->pick[k], first, slot);
    return 0;
}

static struct slot *slot_free(struct feeder *f)
{
    for (int i = 0; i < f->o.depth; i++)
        if (f->slot[i].state == SLOT_FREE)
            return &f->slot[i];
    return NULL;
}

/* Entered and left with the mutex held; fills one slot without it. */
static void reader_step(struct feeder *f, struct slot *slot)
{
    uint64_t generation = f->generation;
    uint64_t blocks = f->pass * (uint64_t)f->o.nranks + (uint64_t)f->o.rank;
    uint64_t first = f->first_sample + blocks * (uint64_t)f->o.batch;
    int status;

    slot->state = SLOT_FILLING;
    pthread_mutex_unlock(&f->mutex);
    status = batch_fill(f, first, generation, slot);
    pthread_mutex_lock(&f->mutex);
    slot->state = SLOT_FREE;
    if (f->stop || f->generation != generation)
        return;
    if (status) {
        f->failed = true;
        snprintf(f->failure, sizeof f->failure, "%.*s", (int)sizeof f->failure - 1, error_text());
    } else {
        slot->state = SLOT_READY;
        f->ready[f->nready++] = (int)(slot - f->slot);
        f->pass++;
    }
    pthread_cond_signal(&f->changed_for_consumer);
}

static void *reader_main(void *argument)
{
    struct feeder *f = argument;

    pthread_mutex_lock(&f->mutex);
    while (!f->stop) {
        struct slot *slot = f->failed ? NULL : slot_free(f);
        if (slot)
            reader_step(f, slot);
        else
            pthread_cond_wait(&f->changed_for_reader, &f->mutex);
    }
    pthread_mutex_unlock(&f->mutex);
    return NULL;
}

static int options_check(const struct feeder *f)
{
    const struct feeder_options *o = &f->o;
    const struct source *source = f->source;

    if (o->batch < 1)
        return error_set("%s: batch_size %d; expected at least 1", source->path, o->batch);
    if (o->nranks < 1 || o->rank < 0 || o->rank >= o->nranks)
        return error_set("%s: rank %d of %d ranks cannot be fed", source->path, o->rank, o->nranks);
    if (o->depth < 2)
        return error_set("%s: %d batches kept ready; expected at least 2", source->path, o->depth);
    if (o->shuffle && source->nrecords > UINT32_MAX)
        return error_set("%s: %llu records cannot be shuffled; at most %lu can", source->path,
                         (unsigned long long)source->nrecords, (unsigned long)UINT32_MAX);
    if (f->has_transform && !shape_equal(&f->transform.in, &source->field[0].shape))
        return error_set("%s: the transform was made for records of another shape", source->path);
    return 0;
}

/* calloc for `count` items of `size` bytes with a message. */
static void *allocate(size_t count, size_t size, const char *what)
{
    void *memory = calloc(count ? count : 1, size);

    if (!memory)
        error_memory((unsigned long long)count * size, what);
    return memory;
}

static int buffers_create(struct feeder *f)
{
    size_t batch = (size_t)f->o.batch, depth = (size_t)f->o.depth;

    f->slot = allocate(depth, sizeof *f->slot, "the feeder's slots");
    f->ready = allocate(depth, sizeof *f->ready, "the feeder's queue");
    f->pick = allocate(batch, sizeof *f->pick, "the feeder's picks");
    if (!f->slot || !f->ready || !f->pick)
        return -1;
    if (f->o.shuffle) {
        f->order = allocate(f->source->nrecords, sizeof *f->order, "the shuffled order");
        if (!f->order)
            return -1;
    }
    for (int i = 0; i < f->source->nfields; i++) {
        const struct source_field *field = &f->source->field[i];
        size_t elems = shape_elems(&field->shape);

        f->bytes[i] = elems * (field->type == SOURCE_U8 ? 1 : sizeof(float));
        f->elems[i] = i == 0 && f->has_transform ? shape_elems(&f->transform.out) : elems;
        if (f->elems[i] > (size_t)INT32_MAX / batch)
            return error_set("%s: a batch of %d times %zu values of '%s' exceeds INT_MAX (%d)",
                             f->source->path, f->o.batch, f->elems[i], field->name, INT32_MAX);
        f->staging[i] = allocate(batch, f->bytes[i], "a batch as read");
        if (!f->staging[i])
            return -1;
        for (int s = 0; s < f->o.depth; s++) {
            f->slot[s].field[i] = allocate(batch, f->elems[i] * sizeof(float), "a batch");
            if (!f->slot[s].field[i])
                return -1;
        }
    }
    return 0;
}

/* Signals are for the main thread: the reader is started with all of them blocked. */
static int thread_start(struct feeder *f)
{
    sigset_t all, old;
    int status;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    status = pthread_create(&f->thread, NULL, reader_main, f);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (status)
        return error_set("%s: the reading thread cannot be started: %s", f->source->path,
                         strerror(status));
    f->thread_started = true;
    return 0;
}

int feeder_create(struct source *source, const struct transform *transform,
                  const struct feeder_options *o, struct feeder **out)
{
    struct feeder *f = allocate(1, sizeof *f, "a feeder");

    *out = NULL;
    if (!f) {
        struct transform mine = transform ? *transform : (struct transform){0};
        transform_free(&mine);
        source_close(source);
        return -1;
    }
    f->source = source;
    f->o = *o;
    f->has_transform = transform != NULL;
    if (transform)
        f->transform = *transform;
    f->borrowed = -1;
    f->first_sample = o->first_sample;
    pthread_mutex_init(&f->mutex, NULL);
    pthread_cond_init(&f->changed_for_reader, NULL);
    pthread_cond_init(&f->changed_for_consumer, NULL);
    if (options_check(f) || buffers_create(f) || thread_start(f)) {
        feeder_destroy(f);
        return -1;
    }
    *out = f;
    return 0;
}

/* With the mutex held: the borrowed slot goes back to the reader. */
static void borrowed_return(struct feeder *f)
{
    if (f->borrowed < 0)
        return;
    f->slot[f->borrowed].state = SLOT_FREE;
    f->borrowed = -1;
    pthread_cond_signal(&f->changed_for_reader);
}

/* With the mutex held: sleeps until a batch or a failure is there, and counts how long. */
static void ready_wait(struct feeder *f)
{
    double start;

    if (f->nready > 0 || f->failed)
        return;
    start = seconds_now();
    while (f->nready == 0 && !f->failed)
        pthread_cond_wait(&f->changed_for_consumer, &f->mutex);
    if (f->counting) {
        f->waits++;
        f->wait_seconds += seconds_now() - start;
    }
}

int feeder_next(struct feeder *f, const float *const **fields)
{
    int status = 0;

    pthread_mutex_lock(&f->mutex);
    borrowed_return(f);
    ready_wait(f);
    if (f->nready > 0) {
        f->borrowed = f->ready[0];
        f->nready--;
        memmove(f->ready, f->ready + 1, (size_t)f->nready * sizeof *f->ready);
        f->slot[f->borrowed].state = SLOT_BORROWED;
        *fields = (const float *const *)f->slot[f->borrowed].field;
        f->counting = true;
    } else {
        status = error_set("%s", f->failure);
    }
    pthread_mutex_unlock(&f->mutex);
    return status;
}

int feeder_seek(struct feeder *f, uint64_t first_sample)
{
    pthread_mutex_lock(&f->mutex);
    for (int i = 0; i < f->nready; i++)
        f->slot[f->ready[i]].state = SLOT_FREE;
    f->nready = 0;
    f->generation++;
    f->first_sample = first_sample;
    f->pass = 0;
    f->failed = false;
    f->counting = false;
    pthread_cond_signal(&f->changed_for_reader);
    pthread_mutex_unlock(&f->mutex);
    return 0;
}

void feeder_waits(const struct feeder *f, uint64_t *times, double *seconds)
{
    *times = f->waits;
    *seconds = f->wait_seconds;
}

void feeder_destroy(struct feeder *f)
{
    if (!f)
        return;
    if (f->thread_started) {
        pthread_mutex_lock(&f->mutex);
        f->stop = true;
        pthread_cond_signal(&f->changed_for_reader);
        pthread_mutex_unlock(&f->mutex);
        pthread_join(f->thread, NULL);
    }
    pthread_cond_destroy(&f->changed_for_consumer);
    pthread_cond_destroy(&f->changed_for_reader);
    pthread_mutex_destroy(&f->mutex);
    for (int i = 0; i < f->source->nfields; i++) {
        for (int s = 0; f->slot && s < f->o.depth; s++)
            free(f->slot[s].field[i]);
        free(f->staging[i]);
    }
    free(f->order);
    free(f->pick);
    free(f->ready);
    free(f->slot);
    transform_free(&f->transform);
    source_close(f->source);
    free(f);
}
