/* A short list under a mutex: nothing is looked up where nothing is damaged. */
#include "input/damage.h"

#include "util/alloc.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int damage_open(struct damage *damage, const struct bad_record_policy *care)
{
    assert(care->max_bad >= 0);
    damage->care = *care;
    damage->nrecords = 0;
    pthread_mutex_init(&damage->mutex, NULL);
    damage->record =
        alloc_array((size_t)care->max_bad, sizeof *damage->record, "a list of damaged records");
    return damage->record ? 0 : -1;
}

void damage_close(struct damage *damage)
{
    for (int i = 0; i < damage->nrecords; i++)
        free(damage->record[i].message);
    free(damage->record);
    pthread_mutex_destroy(&damage->mutex);
}

static bool is_listed(const struct damage *damage, uint64_t number)
{
    for (int i = 0; i < damage->nrecords; i++)
        if (damage->record[i].number == number)
            return true;
    return false;
}

/* Any thread. */
static bool is_known(struct damage *damage, uint64_t number)
{
    bool known;

    if (damage->care.max_bad == 0)
        return false;
    pthread_mutex_lock(&damage->mutex);
    known = is_listed(damage, number);
    pthread_mutex_unlock(&damage->mutex);
    return known;
}

/* With the mutex held. 1: it is a new one. */
static int remember(struct damage *damage, uint64_t number, char *message)
{
    int n = damage->nrecords;

    if (is_listed(damage, number))
        return 0;
    if (n == damage->care.max_bad)
        return n == 0
                   ? -1
                   : error_set("%s; %d damaged record%s %s left out before (--max-bad=%d)", message,
                               n, n == 1 ? "" : "s", n == 1 ? "was" : "were", damage->care.max_bad);
    damage->record[n] = (struct damage_record){.number = number, .message = message};
    damage->nrecords++;
    return 1;
}

/* The record is damaged, as this thread's message says: remembers it and tells the user, or fails
 * with the message where there would be too many. */
static int note(struct damage *damage, uint64_t number)
{
    char *message = strdup(error_text());
    char text[1200];
    int status, n;

    if (!message)
        return error_memory(strlen(error_text()), "a message");
    for (char *c = message; *c; c++)
        *c = *c == '\n' ? ' ' : *c;
    pthread_mutex_lock(&damage->mutex);
    status = remember(damage, number, message);
    n = damage->nrecords;
    pthread_mutex_unlock(&damage->mutex);
    if (status > 0 && damage->care.say) {
        snprintf(text, sizeof text,
                 "%.900s: left out; the next record takes its place (%d of --max-bad=%d)", message,
                 n, damage->care.max_bad);
        damage->care.say(damage->care.context, text);
    }
    if (status <= 0)
        free(message);
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

int damage_read(struct damage *damage, struct source *source, const struct transform *transform,
                bool bytes, uint64_t number, struct record *out)
{
    for (uint64_t tried = 0; tried < source->nrecords; tried++) {
        if (!is_known(damage, number)) {
            if (read_one(source, transform, bytes, number, out) == 0)
                return 0;
            if (!out->damaged || note(damage, number))
                return -1;
        }
        number = (number + 1) % source->nrecords;
    }
    return error_set("%s: all of its %llu records are damaged", source->path,
                     (unsigned long long)source->nrecords);
}

void damage_list(struct damage *damage, struct strbuf *out)
{
    pthread_mutex_lock(&damage->mutex);
    for (int i = 0; i < damage->nrecords; i++)
        strbuf_printf(out, "%s\n", damage->record[i].message);
    pthread_mutex_unlock(&damage->mutex);
}
