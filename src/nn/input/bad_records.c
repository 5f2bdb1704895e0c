/* Damaged records: a short list guarded by a mutex, not looked up without --max-bad. */
#include "input/bad_records.h"

#include "input/source.h"
#include "input/transform.h"
#include "util/alloc.h"
#include "util/units.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

int bad_records_open(struct bad_records *bad, const struct bad_record_policy *policy)
{
    assert(policy->max_bad >= 0);
    bad->policy = *policy;
    bad->nrecords = 0;
    pthread_mutex_init(&bad->mutex, NULL);
    bad->record =
        alloc_array((size_t)policy->max_bad, sizeof *bad->record, "a list of damaged records");
    return bad->record ? 0 : -1;
}

void bad_records_close(struct bad_records *bad)
{
    free(bad->record);
    pthread_mutex_destroy(&bad->mutex);
}

static bool is_listed(const struct bad_records *bad, uint64_t number)
{
    for (int i = 0; i < bad->nrecords; i++)
        if (bad->record[i] == number)
            return true;
    return false;
}

/* Returns true if the record was already left out. Any thread. */
static bool is_known(struct bad_records *bad, uint64_t number)
{
    bool known;

    if (bad->policy.max_bad == 0)
        return false;
    pthread_mutex_lock(&bad->mutex);
    known = is_listed(bad, number);
    pthread_mutex_unlock(&bad->mutex);
    return known;
}

/* Adds a damaged record. The caller holds the mutex. Returns 1 if new, 0 if known, -1 if full. */
static int remember(struct bad_records *bad, uint64_t number, const char *message)
{
    int n = bad->nrecords;

    if (is_listed(bad, number))
        return 0;
    if (n == bad->policy.max_bad)
        return n == 0
                   ? -1
                   : error_set("%s; %d damaged record%s %s left out before (--max-bad=%d)", message,
                               n, n == 1 ? "" : "s", n == 1 ? "was" : "were", bad->policy.max_bad);
    bad->record[bad->nrecords++] = number;
    return 1;
}

/* Adds a damaged record to the list, and tells the user. Fails with this thread's error message if
 * too many records are damaged. */
static int note(struct bad_records *bad, uint64_t number)
{
    char message[1000], text[1200];
    int status, n;

    snprintf(message, sizeof message, "%s", error_text());
    for (char *c = message; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    pthread_mutex_lock(&bad->mutex);
    status = remember(bad, number, message);
    n = bad->nrecords;
    pthread_mutex_unlock(&bad->mutex);
    if (status > 0 && bad->policy.left_out)
        atomic_fetch_add(bad->policy.left_out, 1);
    if (status > 0 && bad->policy.say) {
        snprintf(text, sizeof text,
                 "%.900s: left out; the next record takes its place (%d of --max-bad=%d)", message,
                 n, bad->policy.max_bad);
        bad->policy.say(bad->policy.context, text);
    }
    return status < 0 ? -1 : 0;
}

static int read_one(struct source *source, const struct transform *transform, bool bytes,
                    uint64_t number, struct record *out)
{
    unsigned long long n = number;

    if (source->i->read_record(source, number, out))
        return -1;
    out->damaged = true;
    if (transform && transform_accepts(transform, &out->shape))
        return error_context("%s: record %llu", source->path, n);
    if (bytes && out->type != SOURCE_U8)
        return error_set(
            "%s: record %llu holds floats, but the first one bytes; --engine=cpu takes both",
            source->path, n);
    if (!transform && !shape_equal(&out->shape, &source->field[0].shape))
        return error_set("%s: record %llu has another shape than the first", source->path, n);
    out->damaged = false;
    return 0;
}

int bad_records_read(struct bad_records *bad, struct source *source,
                     const struct transform *transform, bool bytes, uint64_t number,
                     struct record *out)
{
    for (uint64_t tried = 0; tried < source->nrecords; tried++) {
        if (!is_known(bad, number)) {
            if (read_one(source, transform, bytes, number, out) == 0)
                return 0;
            if (!out->damaged || note(bad, number))
                return -1;
        }
        number = (number + 1) % source->nrecords;
    }
    return error_set("%s: %s damaged, and none is left", source->path,
                     units_count((long long)source->nrecords, "record").text);
}
