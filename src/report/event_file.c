/* Event files: packed messages (event.proto), each as a record with two sums. */
#include "report/event_file.h"

#include "report/event.pb-c.h"
#include "util/alloc.h"
#include "util/strbuf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

struct event_file {
    FILE *file;
    char *path;
};

/* Little-endian. */
static void put_fixed(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

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

/* A record: length and its sum, the message and its. */
static int write_event(struct event_file *file, int64_t step, Event__Event *event)
{
    enum { HEAD = 12, TAIL = 4 };
    struct timeval now;
    unsigned char *record;
    size_t length;
    bool written;

    gettimeofday(&now, NULL);
    event->has_wall_time = event->has_step = 1;
    event->wall_time = (double)now.tv_sec + 1e-6 * (double)now.tv_usec;
    event->step = step;
    length = event__event__get_packed_size(event);
    if (ALLOC(record, length + HEAD + TAIL, "an event"))
        return -1;
    put_fixed(record, length, 8);
    put_fixed(record + 8, masked_sum(record, 8), 4);
    event__event__pack(event, record + HEAD);
    put_fixed(record + HEAD + length, masked_sum(record + HEAD, length), TAIL);
    errno = 0;
    written = fwrite(record, length + HEAD + TAIL, 1, file->file) == 1 && fflush(file->file) == 0;
    free(record);
    return written ? 0 : error_set("cannot write '%s': %s", file->path, strerror(errno));
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
    struct event_file *file = calloc(1, sizeof *file);
    Event__SessionLog start = EVENT__SESSION_LOG__INIT;
    Event__Event version = EVENT__EVENT__INIT, begin = EVENT__EVENT__INIT;

    *out = file;
    if (!file)
        return error_memory(sizeof *file, "an event file");
    if (!(file->path = name_file(folder)))
        goto fail;
    if ((mkdir(folder, 0777) && errno != EEXIST) || !(file->file = fopen(file->path, "wbe"))) {
        error_set("cannot write '%s': %s", file->path, strerror(errno));
        goto fail;
    }
    version.file_version = (char[]){"brain.Event:2"};
    start.has_status = 1;
    start.status = EVENT__SESSION_LOG__STATUS__START;
    begin.session_log = &start;
    if (write_event(file, 0, &version) || write_event(file, first, &begin))
        goto fail;
    return 0;
fail:
    event_file_close(file);
    *out = NULL;
    return -1;
}

int event_file_put(struct event_file *file, int64_t step, const char *tag, double value)
{
    Event__Value scalar = EVENT__VALUE__INIT, *values[] = {&scalar};
    Event__Summary summary = EVENT__SUMMARY__INIT;
    Event__Event event = EVENT__EVENT__INIT;

    scalar.tag = (char *)(uintptr_t)tag;
    scalar.has_simple_value = 1;
    scalar.simple_value = (float)value;
    summary.value = values;
    summary.n_value = 1;
    event.summary = &summary;
    return write_event(file, step, &event);
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
