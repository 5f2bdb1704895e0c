/* Writes rows of a CSV file, and the same values as scalars of an event file. */
#include "report/curves.h"

#include "report/event.pb-c.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static const char *const columns[] = {"epoch", "seconds", "images_per_second", "loss", "lr"};

enum { COLUMNS = sizeof columns / sizeof *columns };

struct curves {
    FILE *csv; /* NULL: no file, or failed */
    const char *path;
    FILE *events;      /* TensorBoard's; NULL: no file, or failed */
    char *events_path; /* owned */
    struct log *log;
    double before; /* training seconds of earlier processes */
    char *scores;  /* comma list of nscores names. Owned */
    int nscores;
};

/* ---- the CSV file ---- */

static void put_header(const struct curves *c, struct strbuf *out)
{
    strbuf_puts(out, "iteration");
    for (int i = 0; i < COLUMNS; i++)
        strbuf_printf(out, ",%s", columns[i]);
    strbuf_printf(out, "%s%s\n", c->nscores ? "," : "", c->scores);
}

/* Appends the file's rows of iterations before `first` to the header in `out`. */
static int keep_rows(struct curves *c, int64_t first, struct strbuf *out)
{
    FILE *file = file_open_stream(c->path);
    char *line = NULL;
    size_t size = 0;
    int status = 0;

    if (!file)
        return errno == ENOENT ? 0 : -1;
    if (getline(&line, &size, file) > 0 && strcmp(line, strbuf_text(out)))
        status = error_set("%s has other columns than this run (%.*s): give --curves another name",
                           c->path, (int)strcspn(line, "\n"), line);
    while (!status && getline(&line, &size, file) > 0) {
        char *end, *seconds;
        int64_t iteration = strtoll(line, &end, 10);

        if (*end != ',' || !strchr(line, '\n') || iteration >= first)
            continue; /* a killed run may leave half a line at the end */
        strbuf_puts(out, line);
        seconds = strchr(end + 1, ',');
        if (seconds && strtod(seconds + 1, NULL) > c->before)
            c->before = strtod(seconds + 1, NULL);
    }
    free(line);
    fclose(file);
    return status;
}

static int open_csv(struct curves *c, const struct curves_options *o)
{
    struct strbuf text = {.data = NULL};
    int status;

    put_header(c, &text);
    status = (o->resumed && keep_rows(c, o->first, &text)) || file_write_text(c->path, &text);
    strbuf_free(&text);
    if (!status && !(c->csv = fopen(c->path, "ae")))
        status = error_set("cannot write '%s': %s", c->path, strerror(errno));
    return status ? -1 : 0;
}

static void put_cell(FILE *file, double value)
{
    fputc(',', file);
    if (!isnan(value))
        fprintf(file, "%.9g", value);
}

static void put_row(struct curves *c, const struct curves_row *row, const double *values)
{
    errno = 0;
    fprintf(c->csv, "%" PRId64, row->iteration);
    for (int i = 0; i < COLUMNS; i++)
        put_cell(c->csv, values[i]);
    for (int i = 0; i < c->nscores; i++)
        put_cell(c->csv, row->scores && i >= row->first && i < row->first + row->n
                             ? row->scores[i - row->first]
                             : (double)NAN);
    fputc('\n', c->csv);
    if (fflush(c->csv) == 0 && !ferror(c->csv))
        return;
    LOG_ERROR(c->log, "cannot write '%s': %s; training continues without the file", c->path,
              strerror(errno));
    fclose(c->csv);
    c->csv = NULL;
}

/* ---- TensorBoard's event files: records of a length, data, and a masked CRC-32C of each; the data
 * is TensorFlow's message Event (event.proto), of which scalars need few fields ---- */

/* Stores `bytes` bytes of a number, little-endian. */
static void put_fixed(unsigned char *to, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

/* Returns the CRC-32C (Castagnoli), computed bit by bit and masked as TensorFlow does, because a
 * sum over data that holds sums must not equal one of them. */
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

/* Writes a record: length and its sum, message and its sum. The file may end in half a record,
 * which readers ignore. */
static int write_event(struct curves *c, int64_t step, Event__Event *event)
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
    written = fwrite(record, length + HEAD + TAIL, 1, c->events) == 1 && fflush(c->events) == 0;
    free(record);
    return written ? 0 : error_set("cannot write '%s': %s", c->events_path, strerror(errno));
}

/* Name by which readers know event files: events.out.tfevents.SECONDS.HOST.PROCESS. */
static const char events_name[] = "events.out.tfevents.";

static int is_events(const struct dirent *entry)
{
    return !strncmp(entry->d_name, events_name, sizeof events_name - 1);
}

/* Counts the event files in a folder. clear: removes them; else copies a name to *first. */
static int find_events(const char *folder, bool clear, char first[256])
{
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, is_events, alphasort);

    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];

        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (clear)
            unlink(path);
        else
            snprintf(first, 256, "%s", entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return count;
}

int curves_check_folder(const char *folder)
{
    char first[256];

    return find_events(folder, false, first) > 0
               ? error_set("--curves=%s holds %s of another run already: expected another folder; "
                           "--force replaces the old files",
                           folder, first)
               : 0;
}

static char *name_events(const char *folder)
{
    struct strbuf path = {.data = NULL};
    char host[128] = "host";
    struct timeval now;

    gettimeofday(&now, NULL);
    gethostname(host, sizeof host - 1);
    strbuf_printf(&path, "%s/%s%lld.%s.%ld", folder, events_name, (long long)now.tv_sec, host,
                  (long)getpid());
    return strbuf_take(&path);
}

/* Creates an event file in `folder`, and makes the folder if missing (not its parent). Readers then
 * drop steps from `first` on of the folder's other files. */
static int open_events(struct curves *c, const struct curves_options *o)
{
    const char *folder = o->tensorboard;
    Event__SessionLog start = EVENT__SESSION_LOG__INIT;
    Event__Event version = EVENT__EVENT__INIT, begin = EVENT__EVENT__INIT;
    bool created;

    if (!o->resumed)
        find_events(folder, true, NULL);
    if (!(c->events_path = name_events(folder)))
        return -1;
    created = mkdir(folder, 0777) == 0;
    if ((!created && errno != EEXIST) || !(c->events = fopen(c->events_path, "wbe"))) {
        error_set("cannot write '%s': %s", c->events_path, strerror(errno));
        goto fail;
    }
    version.file_version = (char[]){"brain.Event:2"};
    start.has_status = 1;
    start.status = EVENT__SESSION_LOG__STATUS__START;
    begin.session_log = &start;
    if (write_event(c, 0, &version) == 0 && write_event(c, o->first, &begin) == 0)
        return 0;
    unlink(c->events_path);
fail:
    if (created)
        rmdir(folder);
    return -1;
}

static void put_scalar(struct curves *c, int64_t iteration, const char *tag, double value)
{
    Event__Value scalar = EVENT__VALUE__INIT, *values[] = {&scalar};
    Event__Summary summary = EVENT__SUMMARY__INIT;
    Event__Event event = EVENT__EVENT__INIT;

    if (!c->events || isnan(value))
        return;
    scalar.tag = (char *)(uintptr_t)tag;
    scalar.has_simple_value = 1;
    scalar.simple_value = (float)value;
    summary.value = values;
    summary.n_value = 1;
    event.summary = &summary;
    if (!write_event(c, iteration, &event))
        return;
    LOG_ERROR(c->log, "%s; training continues without the file", error_text());
    fclose(c->events);
    c->events = NULL;
}

/* ---- both files ---- */

int curves_open(const struct curves_options *o, struct curves **out)
{
    struct curves *c = *out = alloc_array(1, sizeof *c, "curves");

    if (!c)
        return -1;
    c->path = o->csv;
    c->log = o->log;
    if (alloc_text(&c->scores, o->scores ? o->scores : "", "curves"))
        goto fail;
    c->nscores = *c->scores != '\0';
    for (const char *comma = c->scores; (comma = strchr(comma, ',')) != NULL; comma++)
        c->nscores++;
    if ((o->csv && open_csv(c, o)) || (o->tensorboard && open_events(c, o)))
        goto fail;
    return 0;
fail:
    curves_close(c);
    *out = NULL;
    return -1;
}

/* Returns the name of score k, which ends at a comma or with the string. */
static const char *name_of(const struct curves *c, int k)
{
    const char *name = c->scores;

    while (k-- > 0)
        name = strchr(name, ',') + 1;
    return name;
}

void curves_put(struct curves *c, const struct curves_row *row)
{
    const double values[COLUMNS] = {row->epoch, c->before + row->seconds, row->images_per_second,
                                    row->loss, row->rate};
    char tag[1024]; /* longer than any name of an output */

    if (c->csv)
        put_row(c, row, values);
    for (int i = 0; i < COLUMNS; i++) {
        snprintf(tag, sizeof tag, "train/%s", columns[i]);
        put_scalar(c, row->iteration, tag, row->scores && i < 2 ? (double)NAN : values[i]);
    }
    for (int i = 0; row->scores && i < row->n; i++) {
        const char *name = name_of(c, row->first + i);

        snprintf(tag, sizeof tag, "%.*s", (int)strcspn(name, ","), name);
        put_scalar(c, row->iteration, tag, row->scores[i]);
    }
}

void curves_close(struct curves *c)
{
    if (!c)
        return;
    if (c->csv)
        fclose(c->csv);
    if (c->events)
        fclose(c->events);
    free(c->events_path);
    free(c->scores);
    free(c);
}
