/* Event files, packed by hand: five fields do not pay for a schema. */
#include "report/event_file.h"

#include "util/error.h"
#include "util/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

enum { TAG_MOST = 200, EVENT_MOST = 300 };

struct event_file {
    FILE *file;
    char *path;
};

struct event {
    unsigned char data[EVENT_MOST];
    size_t used;
};

/* ---- protobuf: a key is the field's number times 8, plus how its value is written ---- */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { EVENT_WALL_TIME = 1, EVENT_STEP, EVENT_VERSION, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1 };
enum { VALUE_TAG = 1, VALUE_SCALAR };
enum { SESSION_STATUS = 1, SESSION_START = 1 };

static void put_byte(struct event *e, unsigned byte)
{
    e->data[e->used++] = (unsigned char)byte;
}

/* Little-endian. */
static void put_fixed(struct event *e, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        put_byte(e, (unsigned)(value >> 8 * i) & 0xff);
}

static void put_varint(struct event *e, uint64_t value)
{
    for (; value > 127; value >>= 7)
        put_byte(e, (unsigned)(value & 127) | 128);
    put_byte(e, (unsigned)value);
}

static void put_key(struct event *e, unsigned field, unsigned form)
{
    put_byte(e, field << 3 | form);
}

static void put_bytes(struct event *e, unsigned field, const void *bytes, size_t length)
{
    put_key(e, field, BYTES);
    put_varint(e, length);
    memcpy(e->data + e->used, bytes, length);
    e->used += length;
}

static struct event event_begin(int64_t step)
{
    struct event e = {.used = 0};
    struct timeval now;
    double seconds;
    uint64_t bits;

    gettimeofday(&now, NULL);
    seconds = (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
    memcpy(&bits, &seconds, sizeof bits);
    put_key(&e, EVENT_WALL_TIME, FIXED64);
    put_fixed(&e, bits, 8);
    put_key(&e, EVENT_STEP, VARINT);
    put_varint(&e, (uint64_t)step);
    return e;
}

/* ---- records ---- */

/* CRC-32C (Castagnoli), bit by bit, and masked as TensorFlow does, so that the sum of data that
 * holds sums is none of them. */
static uint32_t masked_sum(const unsigned char *data, size_t length)
{
    uint32_t crc = ~0u;

    for (size_t i = 0; i < length; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

static int write_event(struct event_file *file, const struct event *event)
{
    struct event head = {.used = 0}, tail = {.used = 0};

    put_fixed(&head, event->used, 8);
    put_fixed(&head, masked_sum(head.data, 8), 4);
    put_fixed(&tail, masked_sum(event->data, event->used), 4);
    errno = 0;
    if (fwrite(head.data, 1, head.used, file->file) == head.used &&
        fwrite(event->data, 1, event->used, file->file) == event->used &&
        fwrite(tail.data, 1, tail.used, file->file) == tail.used && fflush(file->file) == 0)
        return 0;
    return error_set("cannot write '%s': %s", file->path, strerror(errno));
}

/* events.out.tfevents.SECONDS.HOST.PROCESS: the name by which readers know such files. */
static char *name_file(const char *folder)
{
    struct strbuf path = {.data = NULL};
    char host[128] = "host";
    struct timeval now;

    gettimeofday(&now, NULL);
    gethostname(host, sizeof host - 1);
    strbuf_printf(&path, "%s/events.out.tfevents.%lld.%s.%ld", folder, (long long)now.tv_sec, host,
                  (long)getpid());
    return strbuf_take(&path);
}

int event_file_open(const char *folder, int64_t first, struct event_file **out)
{
    static const char version[] = "brain.Event:2";
    static const unsigned char start[] = {SESSION_STATUS << 3 | VARINT, SESSION_START};
    struct event_file *file = calloc(1, sizeof *file);
    struct event event = event_begin(0);

    *out = file;
    if (!file)
        return error_memory(sizeof *file, "an event file");
    if (!(file->path = name_file(folder)))
        goto fail;
    if ((mkdir(folder, 0777) && errno != EEXIST) || !(file->file = fopen(file->path, "wbe"))) {
        error_set("cannot write '%s': %s", file->path, strerror(errno));
        goto fail;
    }
    put_bytes(&event, EVENT_VERSION, version, sizeof version - 1);
    if (write_event(file, &event))
        goto fail;
    event = event_begin(first);
    put_bytes(&event, EVENT_SESSION, start, sizeof start);
    if (write_event(file, &event))
        goto fail;
    return 0;
fail:
    event_file_close(file);
    *out = NULL;
    return -1;
}

int event_file_put(struct event_file *file, int64_t step, const char *tag, double value)
{
    struct event event = event_begin(step), summary = {.used = 0}, scalar = {.used = 0};
    float rounded = (float)value;
    uint32_t bits;

    memcpy(&bits, &rounded, sizeof bits);
    put_bytes(&scalar, VALUE_TAG, tag, strnlen(tag, TAG_MOST));
    put_key(&scalar, VALUE_SCALAR, FIXED32);
    put_fixed(&scalar, bits, 4);
    put_bytes(&summary, SUMMARY_VALUE, scalar.data, scalar.used);
    put_bytes(&event, EVENT_SUMMARY, summary.data, summary.used);
    return write_event(file, &event);
}

void event_file_close(struct event_file *file)
{
    if (!file)
        return;
    if (file->file)
        fclose(file->file);
    free(file->path);
    free(file);
}
