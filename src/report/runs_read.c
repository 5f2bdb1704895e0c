/* A folder's files into runs. */
#include "report/runs_internal.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/alloc.h"
#include "util/error.h"
#include "util/json_read.h"
#include "util/path.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_CJSON
#include <cJSON.h>

static const char ABOUT[] = "about.json", TRACE[] = ".trace.json";

/* One file as it is read. */
struct source {
    const char *path;
    const cJSON *about; /* of the folder; NULL: there is none */
    struct run_table *table;
};

static char *join(const char *folder, const char *name)
{
    struct strbuf path = {.length = 0};

    strbuf_printf(&path, "%s/%s", folder, name);
    return strbuf_take(&path);
}

/* ---- fields ---- */

static const cJSON *find(const struct source *s, const cJSON *from, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(from, key);

    return item ? item : cJSON_GetObjectItemCaseSensitive(s->about, key);
}

static double number(const struct source *s, const cJSON *from, const char *key)
{
    const cJSON *item = find(s, from, key);

    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

static int need_number(const struct source *s, const cJSON *from, const char *key, double least,
                       double *out)
{
    *out = number(s, from, key);
    if (isnan(*out))
        return error_set("%s: the run has no number \"%s\"; expected what train --summary=FILE or "
                         "simulate --json writes",
                         s->path, key);
    return *out >= least
               ? 0
               : error_set("%s: \"%s\" is %g; expected at least %g", s->path, key, *out, least);
}

static int need_text(const struct source *s, const cJSON *from, const char *key, char **out)
{
    const char *text = cJSON_GetStringValue(find(s, from, key));

    if (!text)
        return error_set("%s: the run has no \"%s\"; expected what train --summary=FILE or "
                         "simulate --json writes",
                         s->path, key);
    *out = strdup(text);
    return *out ? 0 : error_memory(strlen(text), "a run");
}

static int need_count(const struct source *s, const cJSON *from, const char *key, int *out)
{
    double value;

    if (need_number(s, from, key, 1, &value))
        return -1;
    if (value > 1 << 24)
        return error_set("%s: \"%s\" is %g; expected at most %d", s->path, key, value, 1 << 24);
    *out = (int)value;
    return 0;
}

/* ---- runs ---- */

static struct run *add_run(struct run_table *table)
{
    struct run *grown = realloc(table->runs, ((size_t)table->nruns + 1) * sizeof *grown);

    if (!grown) {
        error_memory((size_t)table->nruns * sizeof *grown, "runs");
        return NULL;
    }
    table->runs = grown;
    grown[table->nruns] = (struct run){.speedup = NAN, .bytes_most = NAN};
    return &grown[table->nruns++];
}

/* What summaries and rows have alike. */
static int read_common(const struct source *s, const cJSON *from, struct run *run)
{
    run->file = strdup(s->path);
    if (!run->file)
        return error_memory(strlen(s->path), "a run");
    return need_text(s, from, "comm", &run->comm) || need_count(s, from, "nodes", &run->nodes) ||
                   need_count(s, from, "workers", &run->workers) ||
                   need_number(s, from, "parameters", 1, &run->parameters) ||
                   need_number(s, from, "images_per_second", 0, &run->images_per_second)
               ? -1
               : 0;
}

static int read_how(const struct source *s, const cJSON *from, struct run *run)
{
    const char *engine = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(from, "engine"));
    const char *how = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(s->about, "how"));

    run->how = engine && !strcmp(engine, "replay") ? RUN_EMULATED : RUN_MEASURED;
    if (how && !strcmp(how, "emulated"))
        run->how = RUN_EMULATED;
    else if (how && strcmp(how, "measured"))
        return error_set("%s/%s: \"how\" is \"%s\"; expected \"measured\" or \"emulated\"",
                         s->table->folder, ABOUT, how);
    return 0;
}

static double largest_of(const cJSON *array)
{
    const cJSON *item;
    double most = NAN;

    cJSON_ArrayForEach(item, array) most = fmax(most, item->valuedouble);
    return most;
}

static int read_summary(const struct source *s, const cJSON *from)
{
    struct run *run = add_run(s->table);
    double global, stall, sent;

    if (!run || need_text(s, from, "net", &run->net) || read_common(s, from, run) ||
        read_how(s, from, run) || need_number(s, from, "global_batch", 1, &global) ||
        need_number(s, from, "stall_seconds_per_iteration", 0, &stall) ||
        need_number(s, from, "bytes_sent_per_iteration", 0, &sent))
        return -1;
    if (run->images_per_second <= 0)
        return error_set("%s: no images per second: the run trained no iteration", s->path);
    run->link_Bps = number(s, from, "link_bytes_per_second");
    run->batch = global / run->workers;
    run->seconds = global / run->images_per_second;
    run->stall_share = stall / run->seconds;
    run->bytes_sent = sent / run->nodes;
    run->bytes_most =
        largest_of(cJSON_GetObjectItemCaseSensitive(from, "bytes_sent_per_iteration_by_rank"));
    return 0;
}

static int read_intervals(const cJSON *array, struct run *run)
{
    const cJSON *item;
    int i = 0, count = cJSON_GetArraySize(array);

    if (!count)
        return 0;
    run->wire = alloc_array((size_t)count, sizeof *run->wire, "intervals");
    if (!run->wire)
        return -1;
    run->nwire = count;
    cJSON_ArrayForEach(item, array) run->wire[i++] = item->valuedouble;
    return 0;
}

static int read_row(const struct source *s, const cJSON *from)
{
    struct run *run = add_run(s->table);

    if (!run || need_text(s, from, "model", &run->net) || read_common(s, from, run) ||
        need_number(s, from, "batch", 1, &run->batch) ||
        need_number(s, from, "bandwidth", 1, &run->link_Bps) ||
        need_number(s, from, "seconds", 0, &run->seconds) ||
        need_number(s, from, "speedup", 0, &run->speedup) ||
        need_number(s, from, "stall_share", 0, &run->stall_share) ||
        need_number(s, from, "bytes_sent", 0, &run->bytes_sent))
        return -1;
    run->how = RUN_SIMULATED;
    run->bytes_most = number(s, from, "bytes_sent_most");
    return read_intervals(cJSON_GetObjectItemCaseSensitive(from, "bytes_sent_by_interval"), run);
}

static int read_run(const struct source *s, const cJSON *document)
{
    const cJSON *row;

    if (cJSON_IsArray(document) && cJSON_GetArraySize(document) > 0) {
        cJSON_ArrayForEach(row, document) if (read_row(s, row)) return -1;
        return 0;
    }
    if (!cJSON_IsObject(document))
        return error_set("%s: expected an object of train --summary=FILE or the rows of simulate "
                         "--json",
                         s->path);
    return read_summary(s, document);
}

/* a.trace.json is of the run a.json. */
static int read_trace(const struct source *s, const cJSON *document)
{
    size_t stem = strlen(s->path) - strlen(TRACE);

    for (int i = 0; i < s->table->nruns; i++) {
        struct run *run = &s->table->runs[i];
        if (!strncmp(run->file, s->path, stem) && !strcmp(run->file + stem, ".json") && !run->wire)
            return runs_read_trace(document, s->path, run);
    }
    return error_set("%s: there is no summary %.*s.json of the run that it shows", s->path,
                     (int)stem, s->path);
}

/* ---- a table ---- */

static int check_pair(const struct run *a, const struct run *b)
{
    if (strcmp(a->net, b->net) || fabs(a->parameters - b->parameters) >= 1)
        return error_set("%s is a run of net '%s' (%.0f parameters), %s of '%s' (%.0f); put each "
                         "net's runs into a folder of their own",
                         a->file, a->net, a->parameters, b->file, b->net, b->parameters);
    if (fabs(a->batch - b->batch) > 1e-6)
        return error_set("%s is a run with %g images a worker, %s with %g; put them into folders "
                         "of their own",
                         a->file, a->batch, b->file, b->batch);
    return 0;
}

static int check(const struct run_table *table)
{
    if (table->nruns + table->ncurves == 0)
        return error_set("%s: there is no run here; expected files that train --summary=FILE.json "
                         "or simulate --json wrote, or logs of train (*.log)",
                         table->folder);
    for (int i = 1; i < table->nruns; i++) {
        const struct run *a = &table->runs[i - 1], *b = &table->runs[i];
        if (check_pair(&table->runs[0], b))
            return -1;
        if (runs_same_series(a, b) && a->size == b->size)
            return error_set("%s and %s are both runs of %s on %d %ss; keep one of them", a->file,
                             b->file, b->comm, b->size, runs_unit(table));
    }
    return 0;
}

static int read_json(struct run_table *table, const char *name, const cJSON *about)
{
    struct source source = {.about = about, .table = table};
    char *path = join(table->folder, name);
    cJSON *document = NULL;
    int status = path ? json_read_file(path, &document) : -1;

    source.path = path;
    if (!status)
        status =
            path_ends(name, TRACE) ? read_trace(&source, document) : read_run(&source, document);
    cJSON_Delete(document);
    free(path);
    return status;
}

static int read_curve(struct run_table *table, const char *name)
{
    struct run_curve curve = {.count = 0}, *grown;
    char *path = join(table->folder, name);
    int status = path ? runs_read_log(path, &curve) : -1;

    free(path);
    if (status || curve.count == 0)
        return status;
    grown = realloc(table->curves, ((size_t)table->ncurves + 1) * sizeof *grown);
    curve.name = strndup(name, strlen(name) - strlen(".log"));
    if (grown)
        table->curves = grown;
    if (!grown || !curve.name)
        return error_memory(sizeof *grown, "a curve");
    grown[table->ncurves++] = curve;
    return 0;
}

static int read_about(struct run_table *table, cJSON **about)
{
    char *path = join(table->folder, ABOUT);
    const char *title;
    int status = path ? 0 : -1;

    if (path && access(path, F_OK) == 0) {
        status = json_read_file(path, about);
        title = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(*about, "title"));
        table->title = title ? strdup(title) : NULL;
    }
    free(path);
    return status;
}

/* Traces last: each looks for its run. */
static int read_files(struct run_table *table, struct dirent **names, int count, const cJSON *about)
{
    for (int traces = 0; traces < 2; traces++)
        for (int i = 0; i < count; i++) {
            const char *name = names[i]->d_name;
            bool trace = path_ends(name, TRACE);
            if (name[0] == '.' || !strcmp(name, ABOUT) || trace != traces)
                continue;
            if (path_ends(name, ".json") ? read_json(table, name, about)
                                         : path_ends(name, ".log") && read_curve(table, name))
                return -1;
        }
    return 0;
}

static int name_table(const char *folder, struct run_table *table)
{
    size_t length = strlen(folder);
    const char *base;

    while (length > 1 && folder[length - 1] == '/')
        length--;
    table->folder = strndup(folder, length);
    if (!table->folder)
        return error_memory(length, "a folder's name");
    base = path_base(table->folder);
    table->name = strdup(*base ? base : table->folder);
    return table->name ? 0 : error_memory(length, "a folder's name");
}

int runs_read(const char *folder, struct run_table *out)
{
    struct dirent **names = NULL;
    cJSON *about = NULL;
    int count = 0, status;

    *out = (struct run_table){.nruns = 0};
    status = name_table(folder, out);
    if (!status) {
        count = scandir(out->folder, &names, NULL, alphasort);
        status = count < 0 ? error_set("%s: %s", folder, strerror(errno)) : read_about(out, &about);
    }
    if (!status)
        status = read_files(out, names, count, about);
    if (!status) {
        runs_order(out);
        status = check(out);
    }
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    cJSON_Delete(about);
    if (status)
        runs_free(out);
    return status;
}

#else
int runs_read(const char *folder, struct run_table *out)
{
    *out = (struct run_table){.nruns = 0};
    return error_set("%s cannot be read: this poseidon was built without cJSON (Debian: "
                     "libcjson-dev, Spack: cjson)",
                     folder);
}
#endif
