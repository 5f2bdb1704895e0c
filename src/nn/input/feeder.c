/* The feeder: threads that read and transform batches into a ring of slots ahead of training.
 *
 * A job is a whole batch for sources of blocks, which have one thread, and one sample for sources
 * of single records, which get another thread whenever training had to wait. One mutex guards what
 * threads share; a slot's state says who owns its memory. A seek only raises the generation: slots
 * of an older generation are dropped. */
#include "input/feeder.h"

#include "input/ahead.h"
#include "input/source_internal.h"
#include "util/clock.h"
#include "util/alloc.h"
#include "util/owner.h"
#include "util/strbuf.h"
#include "util/workers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 64

enum slot_state { SLOT_FREE, SLOT_FILLING, SLOT_READY, SLOT_FAILED, SLOT_BORROWED };

struct slot {
    enum slot_state state;
    float *field[SOURCE_MAX_FIELDS];  /* batch x elems[f]; field[0] may be NULL if o.bytes */
    uint8_t *pixels;                  /* if o.bytes: field 0, batch x elems[0]; else NULL */
    struct engine_window *windows;    /* if o.bytes: window of each image, batch */
    uint64_t generation, pass, first; /* identity of the batch; its first sample */
    int64_t begun;                    /* time at which filling began, on the trace's clock */
    int next, running;                /* next job to be started; number of jobs running */
    int failed_job;                   /* lowest job that failed, -1 for none */
    char failure[2048];
};

struct feeder {
    struct owner owner;    /* owner of the memory below, unless noted */
    struct source *source; /* owned; only the threads use it */
    bool has_transform;
    struct transform transform;
    struct bad_records bad;
    struct ahead ahead;
    struct feeder_options o;
    size_t elems[SOURCE_MAX_FIELDS]; /* floats of one delivered sample, by field */
    size_t bytes[SOURCE_MAX_FIELDS]; /* bytes of one record as read, by field */
    int njobs;                       /* jobs of one batch */

    /* used by the single thread of a block source */
    struct pick *pick; /* `batch` picks; a pick's place is its record's index in staging */
    char *staging[SOURCE_MAX_FIELDS]; /* by field: `batch` records as read, not yet transformed */

    struct workers *workers; /* owned */
    struct record *record;   /* one record per thread */

    /* shared by the threads, guarded by the workers' mutex */
    struct slot *slot;     /* o.depth slots */
    struct slot *filling;  /* slot with jobs not yet started; NULL for none */
    struct slot *borrowed; /* slot of the consumer; NULL for none */
    uint64_t generation;
    uint64_t first_sample;
    uint64_t begin_pass, next_pass; /* pass to be filled next; pass to be delivered next */
    bool failed;
    _Atomic uint64_t records; /* records read so far */

    /* used by the consumer alone */
    bool counting; /* true once a batch was delivered since creation or the last seek */
    uint64_t waits;
    double wait_seconds;
};

static struct order order_of(const struct feeder *f)
{
    return (struct order){f->o.shuffle, f->o.seed, (uint32_t)f->o.order_layer, f->source->nrecords};
}

static uint64_t record_of(const struct feeder *f, uint64_t sample)
{
    struct order order = order_of(f);

    return order_record(&order, sample);
}

static bool outdated(struct feeder *f, uint64_t generation)
{
    bool answer;

    pthread_mutex_lock(&f->workers->mutex);
    answer = f->workers->stop || f->generation != generation;
    pthread_mutex_unlock(&f->workers->mutex);
    return answer;
}

/* Reads the picked records into staging; runs of neighbours take one read. */
static int picks_read(struct feeder *f, uint64_t generation)
{
    int place = 0;

    for (int k = 0; k < f->o.batch;) {
        uint64_t first = f->pick[k].record, last = first;
        void *out[SOURCE_MAX_FIELDS];
        int start = place;

        if (outdated(f, generation))
            return error_set("%s: reading was cancelled", f->source->path);
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
        atomic_fetch_add_explicit(&f->records, last - first + 1, memory_order_relaxed);
    }
    return 0;
}

/* Returns true if labels are planes, which get the image's transform. */
static bool has_planes(const struct feeder *f)
{
    return f->has_transform && f->source->nfields == 3;
}

/* Delivers field 0 of one sample, through the transform if there is one, and planes of labels.
 * Layers in one order draw alike. */
static int image_deliver(const struct feeder *f, const struct slot *slot, int sample,
                         uint64_t number, struct record *record)
{
    const struct order order = order_of(f);
    uint64_t global = slot->first + (uint64_t)sample;
    size_t place = (size_t)sample * f->elems[0];
    float *values = slot->field[0] ? slot->field[0] + place : NULL;

    record->mirror = order_mirrors(&order, global, number);
    if (has_planes(f))
        return transform_pair(&f->transform, record, f->o.seed, f->o.order_layer, global, values,
                              slot->field[1] + (size_t)sample * f->elems[1],
                              slot->field[2] + (size_t)sample * f->elems[2]);
    if (f->o.bytes && record->type == SOURCE_U8)
        return transform_cut(&f->transform, record, f->o.seed, f->o.order_layer, global,
                             &slot->windows[sample], slot->pixels + place);
    if (f->o.bytes)
        slot->windows[sample] = (struct engine_window){.values = values};
    if (f->has_transform)
        return transform_apply(&f->transform, record, f->o.seed, f->o.order_layer, global, values);
    if (record_to_planes(record))
        return -1;
    source_floats(record->data, record->type, f->elems[0], values);
    return 0;
}

/* Delivers one sample from staging to its place in the batch. */
static int sample_deliver(const struct feeder *f, const struct pick *pick, const struct slot *slot,
                          struct record *record)
{
    for (int i = 1; i < f->source->nfields; i++)
        source_floats(f->staging[i] + (size_t)pick->place * f->bytes[i], f->source->field[i].type,
                      f->elems[i], slot->field[i] + (size_t)pick->sample * f->elems[i]);
    record->data = f->staging[0] + (size_t)pick->place * f->bytes[0];
    record->shape = f->source->field[0].shape;
    record->type = f->source->field[0].type;
    return image_deliver(f, slot, pick->sample, pick->record, record);
}

static int batch_fill(struct feeder *f, const struct slot *slot, struct record *record)
{
    struct order order = order_of(f);

    order_picks(&order, slot->first, f->o.batch, f->pick);
    if (picks_read(f, slot->generation))
        return -1;
    for (int k = 0; k < f->o.batch; k++)
        if (sample_deliver(f, &f->pick[k], slot, record))
            return -1;
    return 0;
}

/* Reads one sample of a source of single records into the batch. */
static int sample_fill(struct feeder *f, const struct slot *slot, int sample, struct record *record)
{
    uint64_t number = record_of(f, slot->first + (uint64_t)sample);

    if (bad_records_read(&f->bad, f->source, f->has_transform ? &f->transform : NULL,
                         f->o.bytes && !slot->field[0], number, record))
        return -1;
    atomic_fetch_add_explicit(&f->records, 1, memory_order_relaxed);
    if (image_deliver(f, slot, sample, number, record))
        return -1;
    if (f->source->nfields > 1 && !has_planes(f))
        memcpy(slot->field[1] + (size_t)sample * f->elems[1], record_labels(record),
               f->elems[1] * sizeof(float));
    return 0;
}

/* Returns a slot with jobs not yet started, NULL for none. The caller holds the mutex. */
static struct slot *slot_with_jobs(struct feeder *f)
{
    uint64_t row = (uint64_t)f->o.row, pass = f->begin_pass;

    if (f->filling || f->failed)
        return f->filling;
    for (int i = 0; i < f->o.depth; i++) {
        struct slot *slot = &f->slot[i];

        if (slot->state != SLOT_FREE)
            continue;
        slot->state = SLOT_FILLING;
        slot->begun = trace_begin(f->o.trace);
        slot->generation = f->generation;
        slot->pass = f->begin_pass++;
        slot->first = f->first_sample + pass / row * f->o.turn + f->o.before +
                      pass % row * (uint64_t)f->o.batch;
        slot->next = slot->running = 0;
        slot->failed_job = -1;
        f->filling = slot;
        return slot;
    }
    return NULL;
}

/* Starts no more jobs of this slot. The caller holds the mutex. */
static void slot_exhaust(struct feeder *f, struct slot *slot)
{
    slot->next = f->njobs;
    if (f->filling == slot)
        f->filling = NULL;
}

/* Sets the slot's state if its last job has ended. The caller holds the mutex. */
static void slot_settle(struct feeder *f, struct slot *slot)
{
    if (slot->state != SLOT_FILLING || slot->running > 0 || slot->next < f->njobs)
        return;
    if (slot->generation != f->generation)
        slot->state = SLOT_FREE;
    else
        slot->state = slot->failed_job < 0 ? SLOT_READY : SLOT_FAILED;
    trace_span_shared(f->o.trace, TRACE_READ, f->o.layer_index, slot->begun);
    pthread_cond_broadcast(slot->state == SLOT_FREE ? &f->workers->wanted : &f->workers->told);
}

/* Records that a job of `slot` failed with this thread's message. The caller holds the mutex. Jobs
 * start in order, so the lowest job that fails is found whatever the threads' speed. */
static void job_failed(struct feeder *f, struct slot *slot, int job)
{
    if (slot->generation != f->generation)
        return;
    f->failed = true;
    slot_exhaust(f, slot);
    if (f->filling) /* this slot is later than the failed one and would never be delivered */
        slot_exhaust(f, f->filling);
    if (slot->failed_job < 0 || job < slot->failed_job) {
        slot->failed_job = job;
        snprintf(slot->failure, sizeof slot->failure, "%.*s", (int)sizeof slot->failure - 1,
                 error_text());
    }
}

/* Does one job. The caller holds the mutex, which is released meanwhile. */
static void job_do(struct feeder *f, struct slot *slot, struct record *record)
{
    uint64_t start = f->first_sample;
    int job = slot->next++, status;

    if (slot->next == f->njobs)
        slot_exhaust(f, slot);
    slot->running++;
    pthread_mutex_unlock(&f->workers->mutex);
    if (job == 0)
        ahead_ask(&f->ahead, start, slot->first);
    status = (job == 0 && watch_look(&f->source->watch, f->o.care.say, f->o.care.context)) ||
             (f->source->i->read_record ? sample_fill(f, slot, job, record)
                                        : batch_fill(f, slot, record));
    pthread_mutex_lock(&f->workers->mutex);
    assert(slot->state == SLOT_FILLING && slot->running > 0);
    slot->running--;
    if (status)
        job_failed(f, slot, job);
    slot_settle(f, slot);
}

static bool feeder_step(void *context, int thread)
{
    struct feeder *f = context;
    struct slot *slot = slot_with_jobs(f);

    if (slot)
        job_do(f, slot, &f->record[thread]);
    return slot != NULL;
}

static int feeder_options_check(const struct feeder *f)
{
    const struct feeder_options *o = &f->o;
    const struct source *source = f->source;

    if (o->batch < 1)
        return error_set("%s: batch_size %d; expected at least 1", source->path, o->batch);
    if (o->nranks < 1 || o->rank < 0 || o->rank >= o->nranks)
        return error_set("%s: rank %d of %d ranks cannot be fed", source->path, o->rank, o->nranks);
    if (o->depth < 2)
        return error_set("%s: %d batches kept ready; expected at least 2", source->path, o->depth);
    if (o->shuffle && source->nrecords > ORDER_MAX_RECORDS)
        return error_set("%s: %llu records cannot be shuffled; at most %llu can", source->path,
                         (unsigned long long)source->nrecords,
                         (unsigned long long)ORDER_MAX_RECORDS);
    if (o->bytes && (!f->has_transform || source->field[0].type != SOURCE_U8))
        return error_set("%s: only images of bytes with a transform can be fed as bytes",
                         source->path);
    if (f->has_transform && !shape_equal(&f->transform.in, &source->field[0].shape))
        return error_set("%s: the transform was made for records of another shape", source->path);
    return 0;
}

static int field_create(struct feeder *f, int i, struct slot *slot)
{
    const struct device *device = f->o.device;
    bool bytes = i == 0 && f->o.bytes;
    /* Records read singly may hold floats as well as bytes. Unused memory for floats is never
     * touched. */
    bool floats =
        !bytes || (f->source->i->read_record && device && device->i->copies == &device_host_copies);
    size_t batch = (size_t)f->o.batch, n = batch * f->elems[i];

    if (floats &&
        !(slot->field[i] = device_own_host(device, &f->owner, n * sizeof(float), "a batch")))
        return -1;
    if (!bytes)
        return 0;
    slot->pixels = device_own_host(device, &f->owner, n, "a batch");
    slot->windows = device_own_host(device, &f->owner, batch * sizeof *slot->windows, "a batch");
    return slot->pixels && slot->windows ? 0 : -1;
}

static int buffers_create(struct feeder *f)
{
    const struct order order = order_of(f);
    size_t batch = (size_t)f->o.batch;

    if (OWN(&f->owner, f->slot, f->o.depth, "the feeder's slots") ||
        OWN(&f->owner, f->pick, batch, "the feeder's picks") ||
        ahead_open(&f->ahead, &f->owner, f->source, &order, &f->o))
        return -1;
    for (int i = 0; i < f->source->nfields; i++) {
        const struct source_field *field = &f->source->field[i];
        size_t elems = shape_elems(&field->shape);

        f->bytes[i] = source_field_bytes(field);
        f->elems[i] = i == 0 && f->has_transform ? shape_elems(&f->transform.out) : elems;
        if (f->elems[i] > (size_t)INT32_MAX / batch)
            return error_set("%s: a batch of %d times %zu values of '%s' exceeds INT_MAX (%d)",
                             f->source->path, f->o.batch, f->elems[i], field->name, INT32_MAX);
        if (f->njobs == 1 &&
            !(f->staging[i] = owner_array(&f->owner, batch, f->bytes[i], "a batch as read")))
            return -1;
        for (int s = 0; s < f->o.depth; s++)
            if (field_create(f, i, &f->slot[s]))
                return -1;
    }
    return 0;
}

/* Returns the limit of threads, by default at least two: network files gain even on one core. */
static int threads_limit(const struct feeder *f)
{
    int most = f->o.max_threads;

    if (!f->source->i->read_record)
        return 1;
    if (most < 1)
        most = workers_usual();
    if (f->o.max_threads < 1 && most < 2)
        most = 2;
    return most < MAX_THREADS ? most : MAX_THREADS;
}

static int threads_start(struct feeder *f)
{
    const struct workers_options options = {.threads = 1,
                                            .most = threads_limit(f),
                                            .name = "feeder",
                                            .step = feeder_step,
                                            .context = f};

    if (OWN(&f->owner, f->record, options.most, "the feeder's records"))
        return -1;
    return workers_create(&options, &f->workers) ? error_context("%s", f->source->path) : 0;
}

int feeder_create(struct source *source, const struct transform *transform,
                  const struct feeder_options *o, struct feeder **out)
{
    struct feeder *f = alloc_array(1, sizeof *f, "a feeder");

    *out = NULL;
    if (!f) {
        struct transform mine = transform ? *transform : (struct transform){0};
        transform_free(&mine);
        source_close(source);
        return -1;
    }
    f->source = source;
    source->scattered = o->shuffle != SHUFFLE_NONE;
    f->o = *o;
    f->has_transform = transform != NULL;
    if (transform)
        f->transform = *transform;
    f->o.row = o->row > 0 ? o->row : 1;
    if (o->turn == 0) {
        uint64_t each = (uint64_t)f->o.row * (uint64_t)o->batch;
        f->o.before = each * (uint64_t)o->rank;
        f->o.turn = each * (uint64_t)o->nranks;
    }
    f->first_sample = o->first_sample;
    f->njobs = source->i->read_record ? o->batch : 1;
    if (bad_records_open(&f->bad, &o->care) || feeder_options_check(f) || buffers_create(f) ||
        threads_start(f)) {
        feeder_destroy(f);
        return -1;
    }
    *out = f;
    return 0;
}

/* Gives the borrowed slot back to the threads. The caller holds the mutex. */
static void borrowed_return(struct feeder *f)
{
    if (!f->borrowed)
        return;
    f->borrowed->state = SLOT_FREE;
    f->borrowed = NULL;
    pthread_cond_broadcast(&f->workers->wanted);
}

/* Returns the slot of the next batch, NULL if it is not complete. The caller holds the mutex. */
static struct slot *slot_due(struct feeder *f)
{
    for (int i = 0; i < f->o.depth; i++)
        if ((f->slot[i].state == SLOT_READY || f->slot[i].state == SLOT_FAILED) &&
            f->slot[i].pass == f->next_pass)
            return &f->slot[i];
    return NULL;
}

/* Waits for the next batch or a failure. Counts the wait and sets *waited, except for the first
 * batch after creation or a seek. The caller holds the mutex. */
static struct slot *slot_wait(struct feeder *f, bool *waited)
{
    struct slot *slot = slot_due(f);
    double start;

    *waited = false;
    if (slot)
        return slot;
    start = clock_seconds();
    while (!(slot = slot_due(f)))
        pthread_cond_wait(&f->workers->told, &f->workers->mutex);
    if (f->counting) {
        f->waits++;
        f->wait_seconds += clock_seconds() - start;
        *waited = true;
    }
    return slot;
}

int feeder_next(struct feeder *f, const float *const **fields)
{
    struct slot *slot;
    bool waited;
    int status = 0;

    pthread_mutex_lock(&f->workers->mutex);
    borrowed_return(f);
    slot = slot_wait(f, &waited);
    if (slot->state == SLOT_READY) {
        slot->state = SLOT_BORROWED;
        f->borrowed = slot;
        f->next_pass++;
        f->counting = true;
        *fields = (const float *const *)slot->field;
    } else {
        status = error_set("%s", slot->failure);
    }
    pthread_mutex_unlock(&f->workers->mutex);
    if (!status && f->source->i->check)
        status = f->source->i->check(f->source);
    if (waited && status == 0)         /* the present threads are too slow */
        (void)workers_add(f->workers); /* on failure, the present threads go on alone */
    return status;
}

void feeder_bytes(const struct feeder *f, const uint8_t **pixels,
                  const struct engine_window **windows)
{
    assert(f->borrowed && f->o.bytes);
    *pixels = f->borrowed->pixels;
    *windows = f->borrowed->windows;
}

void feeder_tell(const struct feeder *f, uint64_t sample, struct strbuf *out)
{
    if (f->borrowed)
        strbuf_printf(out, "record %" PRIu64 " of %s", record_of(f, f->borrowed->first + sample),
                      f->source->path);
}

int feeder_seek(struct feeder *f, uint64_t first_sample)
{
    pthread_mutex_lock(&f->workers->mutex);
    f->generation++;
    if (f->filling)
        slot_exhaust(f, f->filling);
    for (int i = 0; i < f->o.depth; i++) {
        if (f->slot[i].state == SLOT_READY || f->slot[i].state == SLOT_FAILED)
            f->slot[i].state = SLOT_FREE;
        slot_settle(f, &f->slot[i]);
    }
    f->first_sample = first_sample;
    f->begin_pass = f->next_pass = 0;
    f->failed = false;
    f->counting = false;
    pthread_cond_broadcast(&f->workers->wanted);
    pthread_mutex_unlock(&f->workers->mutex);
    return 0;
}

void feeder_waits(const struct feeder *f, uint64_t *times, double *seconds)
{
    *times = f->waits;
    *seconds = f->wait_seconds;
}

uint64_t feeder_records(const struct feeder *f, const char **path)
{
    *path = f->source->path;
    return atomic_load_explicit(&f->records, memory_order_relaxed);
}

int feeder_threads(const struct feeder *f)
{
    return f->workers->count;
}

void feeder_destroy(struct feeder *f)
{
    int nthreads;

    if (!f)
        return;
    nthreads = f->workers ? f->workers->count : 0;
    workers_destroy(f->workers);
    for (int t = 0; t < nthreads; t++)
        record_free(&f->record[t]);
    bad_records_close(&f->bad);
    ahead_close(&f->ahead);
    owner_free(&f->owner);
    transform_free(&f->transform);
    source_close(f->source);
    free(f);
}
