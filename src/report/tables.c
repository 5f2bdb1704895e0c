/* Tables of runs in Markdown and CSV. Every row says how its figures were obtained. */
#include "report/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"
#include "util/units.h"

static void put_link(double link_Bps, struct strbuf *out)
{
    if (isnan(link_Bps))
        strbuf_puts(out, "unknown");
    else
        strbuf_printf(out, "%.3g Gb/s", link_Bps * 8e-9);
}

static void put_csv_number(double value, struct strbuf *out)
{
    if (isnan(value))
        strbuf_putc(out, ',');
    else
        strbuf_printf(out, ",%.9g", value);
}

/* A text that a CSV file may hold. */
static void put_csv_text(const char *text, struct strbuf *out)
{
    if (!strpbrk(text, ",\"\n")) {
        strbuf_puts(out, text);
        return;
    }
    strbuf_putc(out, '"');
    for (; *text; text++) {
        if (*text == '"')
            strbuf_putc(out, '"');
        strbuf_putc(out, *text);
    }
    strbuf_putc(out, '"');
}

static void put_csv_run(const struct run_table *table, const struct run *run, struct strbuf *out)
{
    const double values[] = {run->batch,       run->link_Bps * 8e-9,
                             run->seconds,     run->images_per_second,
                             run->speedup,     run->speedup / run->workers,
                             run->stall_share, run->bytes_sent,
                             run->bytes_most,  runs_peak(run)};

    put_csv_text(table->name, out);
    strbuf_putc(out, ',');
    put_csv_text(run->net, out);
    strbuf_printf(out, ",%s,%s,%d,%d", run_how_name(run->how), run->comm, run->nodes, run->workers);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        put_csv_number(values[i], out);
    strbuf_putc(out, '\n');
}

int report_write(const char *folder, const char *name, const char *end, const struct strbuf *text)
{
    struct strbuf path = {.length = 0};
    int status = strbuf_status(text);

    strbuf_printf(&path, "%s/%s%s", folder, name, end);
    if (!status)
        status = strbuf_status(&path);
    if (!status)
        status = file_write(strbuf_text(&path), strbuf_text(text), text->length);
    strbuf_free(&path);
    return status;
}

void tables_csv(const struct tables *tables, struct strbuf *out)
{
    strbuf_puts(out, "table,net,obtained,comm,nodes,workers,images_per_worker,link_gbps,"
                     "seconds_per_iteration,images_per_second,speedup,efficiency,stall_share,"
                     "bytes_sent_by_node,bytes_sent_most,peak_over_mean\n");
    for (int t = 0; t < tables->count; t++)
        for (int i = 0; i < tables->tables[t].nruns; i++)
            put_csv_run(&tables->tables[t], &tables->tables[t].runs[i], out);
}

/* ---- Markdown ---- */

static int compare_counts(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* The numbers of nodes on that link (NULL: on any), sorted, each once; the caller frees. NULL: no
 * memory. */
static int *list_nodes(const struct run_table *table, const struct run *link, int *count)
{
    int *nodes = malloc((size_t)table->nruns * sizeof *nodes), kept = 0;

    *count = 0;
    if (!nodes)
        return NULL;
    for (int i = 0; i < table->nruns; i++)
        if (!link || runs_same_link(&table->runs[i], link))
            nodes[(*count)++] = table->runs[i].size;
    qsort(nodes, (size_t)*count, sizeof *nodes, compare_counts);
    for (int i = 0; i < *count; i++)
        if (i == 0 || nodes[i] != nodes[kept - 1])
            nodes[kept++] = nodes[i];
    *count = kept;
    return nodes;
}

static void put_rule(int columns, struct strbuf *out)
{
    strbuf_puts(out, "\n|---|---|");
    for (int i = 0; i < columns; i++)
        strbuf_puts(out, "---:|");
    strbuf_putc(out, '\n');
}

/* One row: a series over its nodes, which are sorted as the columns are. */
static const struct run *put_series(const struct run *run, const struct run *end, const int *nodes,
                                    int count, struct strbuf *out)
{
    const struct run *first = run;

    strbuf_printf(out, "| %s | %s |", run->comm, run_how_name(run->how));
    for (int c = 0; c < count; c++)
        if (run < end && runs_same_series(run, first) && run->size == nodes[c])
            strbuf_printf(out, " %.2f |", (run++)->speedup);
        else
            strbuf_puts(out, " |");
    strbuf_putc(out, '\n');
    return run;
}

static void put_speedups(const struct run_table *table, const struct run *begin,
                         const struct run *end, struct strbuf *out)
{
    int count, *nodes = list_nodes(table, begin, &count);

    strbuf_puts(out, "\nSpeed-up over one worker; links: ");
    put_link(begin->link_Bps, out);
    strbuf_puts(out, ".\n\n| scheme | obtained |");
    for (int c = 0; c < count; c++)
        strbuf_printf(out, " %d %s%s |", nodes[c], runs_unit(table), nodes[c] == 1 ? "" : "s");
    put_rule(count, out);
    for (const struct run *run = begin; nodes && run < end;)
        run = put_series(run, end, nodes, count, out);
    out->failed |= !nodes;
    free(nodes);
}

static void put_bytes(double bytes, struct strbuf *out)
{
    char cell[UNITS_CELL];

    strbuf_printf(out, " %s |", isnan(bytes) ? "" : units_print_bytes(bytes, cell));
}

static void put_iterations(const struct run_table *table, const struct run *begin,
                           const struct run *end, struct strbuf *out)
{
    int nodes = runs_common_nodes(table, begin);
    char cell[UNITS_CELL];

    if (!nodes)
        return;
    strbuf_printf(out,
                  "\nAn iteration on %d %s%s.\n\n| scheme | obtained | iteration | images/s | "
                  "busy | stalled | a node sends | busiest rank sends | peak / mean |",
                  nodes, runs_unit(table), nodes == 1 ? "" : "s");
    put_rule(7, out);
    for (const struct run *run = begin; run < end; run++) {
        if (run->size != nodes)
            continue;
        strbuf_printf(out, "| %s | %s | %s | %.1f | %.1f %% | %.1f %% |", run->comm,
                      run_how_name(run->how), units_print_seconds(run->seconds, cell),
                      run->images_per_second, 100 - 100 * run->stall_share, 100 * run->stall_share);
        put_bytes(run->bytes_sent, out);
        put_bytes(run->bytes_most, out);
        if (!isnan(runs_peak(run)))
            strbuf_printf(out, " %.2f |\n", runs_peak(run));
        else
            strbuf_puts(out, " |\n");
    }
}

static bool begins_link(const struct run_table *table, const struct run *run, int nodes)
{
    for (const struct run *r = table->runs; r < run; r++)
        if (r->size == nodes && runs_same_link(r, run))
            return false;
    return run->size == nodes;
}

static void put_sweep_row(const struct run_table *table, const struct run *of, struct strbuf *out)
{
    const struct run *end = table->runs + table->nruns;

    strbuf_printf(out, "| %s | %s |", of->comm, run_how_name(of->how));
    for (const struct run *link = table->runs; link < end; link++) {
        const struct run *run = table->runs;
        if (!begins_link(table, link, of->size))
            continue;
        while (run < end &&
               !(run->size == of->size && runs_same_link(run, link) && runs_same_scheme(run, of)))
            run++;
        if (run < end)
            strbuf_printf(out, " %.1f |", run->images_per_second);
        else
            strbuf_puts(out, " |");
    }
    strbuf_putc(out, '\n');
}

static void put_sweep(const struct run_table *table, int nodes, struct strbuf *out)
{
    const struct run *end = table->runs + table->nruns;
    int columns = 0;

    strbuf_printf(out, "\nImages/s on %d %ss over the speed of links.\n\n| scheme | obtained |",
                  nodes, runs_unit(table));
    for (const struct run *run = table->runs; run < end; run++)
        if (begins_link(table, run, nodes)) {
            strbuf_putc(out, ' ');
            put_link(run->link_Bps, out);
            strbuf_puts(out, " |");
            columns++;
        }
    put_rule(columns, out);
    for (const struct run *run = table->runs; run < end; run++)
        if (runs_begins_sweep(table, run, nodes))
            put_sweep_row(table, run, out);
}

void tables_markdown(const struct run_table *table, const struct plots *plots, struct strbuf *out)
{
    const struct run *end = table->runs + table->nruns;
    int count = 0, *nodes = table->nruns ? list_nodes(table, NULL, &count) : NULL;
    bool sweeps = false;

    strbuf_printf(out, "\n## %s\n", table->name);
    if (table->title)
        strbuf_printf(out, "\n%s\n", table->title);
    if (table->nruns)
        strbuf_printf(out, "\nNet %s: %.0f parameters, %g images a worker and iteration.\n",
                      table->runs->net, table->runs->parameters, table->runs->batch);
    for (int c = 0; c < count; c++)
        sweeps |= runs_is_sweep(table, nodes[c]);
    for (const struct run *begin = table->runs, *next; begin < end; begin = next) {
        for (next = begin; next < end && runs_same_link(next, begin);)
            next++;
        if (runs_all_sweeps(table) || (sweeps && !runs_link_scales(table, begin)))
            continue;
        put_speedups(table, begin, next, out);
        put_iterations(table, begin, next, out);
    }
    for (int c = 0; c < count; c++)
        if (runs_is_sweep(table, nodes[c]))
            put_sweep(table, nodes[c], out);
    out->failed |= table->nruns && !nodes;
    free(nodes);
    for (int i = 0; i < plots->count; i++)
        strbuf_printf(out, "\n![%s](%s.svg)\n", plots->about[i], plots->name[i]);
}

/* ---- theirs and ours ---- */

static void put_point(const struct published_point *point, const struct run *run,
                      struct strbuf *out)
{
    int digits = point->speedup ? 2 : 1;

    strbuf_printf(out, "| %s | %s | %d | %.3g Gb/s | %s | ", point->table, point->system,
                  point->nodes, point->link_Bps * 8e-9, point->speedup ? "speed-up" : "images/s");
    strbuf_printf(out, "%.*f | %s, %s | ", digits, point->value, point->grade, point->source);
    if (!run) {
        strbuf_printf(out, "| not obtained | | %s |\n", point->note);
        return;
    }
    double ours = point->speedup ? run->speedup : run->images_per_second;
    strbuf_printf(out, "%.*f | %s, `%s` | %+.1f %% | %s |\n", digits, ours, run_how_name(run->how),
                  run->comm, 100 * (ours / point->value - 1), point->note);
}

static const struct run_table *find_table(const struct tables *tables, const char *name)
{
    for (int t = 0; t < tables->count; t++)
        if (!strcmp(tables->tables[t].name, name))
            return &tables->tables[t];
    return NULL;
}

void tables_compare(const struct tables *tables, struct strbuf *out)
{
    strbuf_puts(out, "\n| table | system | nodes | links | figure | theirs | source | ours | "
                     "obtained | error | note |\n"
                     "|---|---|---:|---:|---|---:|---|---:|---|---:|---|\n");
    for (int i = 0; i < tables->published->count; i++) {
        const struct published_point *point = &tables->published->points[i];
        const struct run_table *table = find_table(tables, point->table);
        bool found = false;
        for (int r = 0; table && r < table->nruns; r++)
            if (published_is_of(point, &table->runs[r])) {
                put_point(point, &table->runs[r], out);
                found = true;
            }
        if (!found)
            put_point(point, NULL, out);
    }
}
