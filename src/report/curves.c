/* Rows of a CSV file, and the same values as scalars of an event file. */
#include "report/curves.h"

#include "report/event_file.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const columns[] = {"epoch", "seconds", "images_per_second", "loss", "lr"};

enum { COLUMNS = sizeof columns / sizeof *columns };

struct curves {
    FILE *csv; /* NULL: none, or no longer */
    const char *path;
    struct event_file *events; /* likewise */
    struct log *log;
    double before; /* seconds of the processes before this one */
    char *scores;  /* a comma list of so many names. Owned */
    int nscores;
};

static void put_header(const struct curves *c, struct strbuf *out)
{
    strbuf_puts(out, "iteration");
    for (int i = 0; i < COLUMNS; i++)
        strbuf_printf(out, ",%s", columns[i]);
    strbuf_printf(out, "%s%s\n", c->nscores ? "," : "", c->scores);
}

/* The file's rows of iterations before `first` behind the header, into `out`. */
static int keep_rows(struct curves *c, int64_t first, struct strbuf *out)
{
    FILE *file = fopen(c->path, "re");
    char *line = NULL;
    size_t size = 0;
    int status = 0;

    if (!file)
        return errno == ENOENT ? 0 : error_set("cannot read '%s': %s", c->path, strerror(errno));
    if (getline(&line, &size, file) > 0 && strcmp(line, strbuf_text(out)))
        status = error_set("%s has other columns than this run (%.*s): give --csv another name",
                           c->path, (int)strcspn(line, "\n"), line);
    while (!status && getline(&line, &size, file) > 0) {
        char *end, *seconds;
        int64_t iteration = strtoll(line, &end, 10);

        if (*end != ',' || !strchr(line, '\n') || iteration >= first)
            continue; /* the last line of a killed run may be half a one */
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
    if ((o->csv && open_csv(c, o)) ||
        (o->tensorboard && event_file_open(o->tensorboard, o->first, &c->events)))
        goto fail;
    return 0;
fail:
    curves_close(c);
    *out = NULL;
    return -1;
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
    LOG_ERROR(c->log, "cannot write '%s': %s; training goes on without it", c->path,
              strerror(errno));
    fclose(c->csv);
    c->csv = NULL;
}

static void put_scalar(struct curves *c, int64_t iteration, const char *tag, double value)
{
    if (!c->events || isnan(value) || !event_file_put(c->events, iteration, tag, value))
        return;
    LOG_ERROR(c->log, "%s; training goes on without it", error_text());
    event_file_close(c->events);
    c->events = NULL;
}

/* Of column k, up to its comma or the end. */
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
    char tag[1024]; /* no name of an output is nearly that long */

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
    event_file_close(c->events);
    free(c->scores);
    free(c);
}
