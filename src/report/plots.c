/* Plots as gnuplot's scripts and data. Colours are Okabe and Ito's, which people tell apart
 * whatever they see of colours; points and dashes differ too. A scheme looks the same in all plots.
 */
#include "report/tables.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"

/* One plot while it is composed. */
struct drawing {
    const char *folder;
    const struct run_table *table;
    struct strbuf data, settings, elements;
    int blocks;
};

static const struct look {
    const char *scheme, *color;
    int points, dashes;
    double size;
} looks[] = {{"poseidon", "#D55E00", 5, 2, 1.4}, {"auto", "#0072B2", 7, 1, 1.8},
             {"paper", "#D55E00", 5, 1, 1.4},    {"ps", "#009E73", 9, 1, 1.1},
             {"wfbp", "#009E73", 8, 2, 1.1},     {"allreduce", "#CC79A7", 11, 1, 1.1},
             {"sfb", "#E69F00", 13, 1, 1.1},     {"adam", "#56B4E9", 15, 1, 1.1},
             {"onebit", "#000000", 4, 1, 1.1},   {"caffe-ps", "#CC79A7", 10, 2, 1.1},
             {"tf-ps", "#000000", 6, 2, 1.1},    {"ring", "#56B4E9", 12, 2, 1.1},
             {"mg-wfbp", "#E69F00", 14, 2, 1.1}, {"p3", "#999999", 2, 1, 1.1},
             {"none", "#999999", 1, 3, 1.1}};
enum { LOOKS = sizeof looks / sizeof *looks };

static const struct look *look_of(const char *scheme)
{
    unsigned sum = 0;

    for (int i = 0; i < LOOKS; i++)
        if (!strcmp(looks[i].scheme, scheme))
            return &looks[i];
    for (; *scheme; scheme++)
        sum += (unsigned char)*scheme;
    return &looks[sum % LOOKS];
}

/* gnuplot's strings in double quotes know escapes. */
static void put_quoted(const char *text, struct strbuf *out)
{
    strbuf_putc(out, '"');
    for (; *text; text++)
        strbuf_putc(out, *text == '"' || *text == '\\' || *text == '\n' ? '\'' : *text);
    strbuf_putc(out, '"');
}

/* ---- composing ---- */

static void drawing_begin(struct drawing *d, const char *folder, const struct run_table *table)
{
    *d = (struct drawing){.folder = folder, .table = table};
}

/* Begins a block of data; its element of the plot command is `using`, then `style`. */
static void drawing_block(struct drawing *d, const char *using, const char *title,
                          const char *style)
{
    strbuf_puts(&d->elements, d->blocks || d->elements.length ? ", \\\n    " : "");
    strbuf_printf(&d->elements, "data index %d using %s title ", d->blocks++, using);
    put_quoted(title, &d->elements);
    strbuf_printf(&d->elements, " %s", style);
    strbuf_printf(&d->data, "%s# %s\n", d->blocks > 1 ? "\n\n" : "", title);
}

static void drawing_series(struct drawing *d, const char *scheme, const char *title)
{
    const struct look *look = look_of(scheme);
    char style[160];

    snprintf(
        style, sizeof style,
        "with linespoints linewidth 2 linecolor rgb '%s' pointtype %d dashtype %d pointsize %g",
        look->color, look->points, look->dashes, look->size);
    drawing_block(d, "1:2", title, style);
}

static void put_script(const struct drawing *d, const char *name, const char *title,
                       struct strbuf *out)
{
    strbuf_printf(out, "# gnuplot %s.gp draws %s.svg and %s.png from %s.dat\n", name, name, name,
                  name);
    strbuf_puts(out, "reset session\nset encoding utf8\ndata = ");
    strbuf_printf(out, "'%s.dat'\n", name);
    strbuf_puts(out, "set grid linecolor rgb '#dddddd'\nset border 3\nset tics nomirror\n"
                     "set key outside bottom center horizontal\nset bmargin 7\nset title ");
    put_quoted(title, out);
    strbuf_printf(out, "\n%s", strbuf_text(&d->settings));
    strbuf_printf(out,
                  "set terminal svg size 760,540 font 'sans-serif,14' background 'white' "
                  "noenhanced\nset output '%s.svg'\nplot %s\n",
                  name, strbuf_text(&d->elements));
    strbuf_printf(out,
                  "set terminal pngcairo size 900,640 font 'sans,12' background 'white' "
                  "noenhanced\nset output '%s.png'\nreplot\nset output\n",
                  name);
}

/* Writes the files, or nothing where no block was begun, and frees the drawing. */
static int drawing_end(struct drawing *d, const char *what, const char *title, struct plots *plots)
{
    struct strbuf name = {.length = 0}, script = {.length = 0};
    int status = 0, at = plots->count;

    if (d->blocks > 0) {
        strbuf_printf(&name, "%s-%s", d->table->name, what);
        strbuf_putc(&d->data, '\n');
        put_script(d, strbuf_text(&name), title, &script);
        status = strbuf_status(&d->elements) || strbuf_status(&d->settings) ||
                 report_write(d->folder, strbuf_text(&name), ".dat", &d->data) ||
                 report_write(d->folder, strbuf_text(&name), ".gp", &script);
    }
    if (d->blocks > 0 && !status && at == PLOTS_MOST)
        status = error_set("%s wants more than %d plots", d->table->folder, PLOTS_MOST);
    if (d->blocks > 0 && !status) {
        plots->about[at] = strdup(title);
        plots->name[at] = strbuf_take(&name);
        plots->count++;
        if (!plots->name[at] || !plots->about[at])
            status = error_memory(strlen(title), "a plot");
    }
    strbuf_free(&name);
    strbuf_free(&script);
    strbuf_free(&d->data);
    strbuf_free(&d->settings);
    strbuf_free(&d->elements);
    return status ? -1 : 0;
}

/* ---- what they say ---- */

/* "ps (simulated)", or "ps" where the title already says how all runs were obtained. */
static void name_series(const struct run_table *table, const struct run *run, char out[96])
{
    bool mixed = false;

    for (int i = 0; i < table->nruns; i++)
        mixed |= table->runs[i].how != run->how;
    snprintf(out, 96, mixed ? "%s (%s)" : "%s", run->comm, run_how_name(run->how));
}

static const char *how_of_all(const struct run_table *table)
{
    for (int i = 1; i < table->nruns; i++)
        if (table->runs[i].how != table->runs[0].how)
            return "mixed";
    return run_how_name(table->runs[0].how);
}

static void name_link(const struct run *run, char out[48])
{
    if (isnan(run->link_Bps))
        snprintf(out, 48, "links of unknown speed");
    else
        snprintf(out, 48, "links of %.3g Gb/s", run->link_Bps * 8e-9);
}

/* ---- the plots ---- */

static void add_published(struct drawing *d, const struct published *published,
                          const struct run *link)
{
    const char *last = "";

    for (int i = 0; i < published->count; i++) {
        const struct published_point *p = &published->points[i];
        if (strcmp(p->table, d->table->name) || !p->speedup ||
            !(fabs(p->link_Bps - link->link_Bps) <= 1e-3 * p->link_Bps))
            continue;
        if (strcmp(p->system, last)) {
            char title[160], style[120];
            snprintf(title, sizeof title, "%s, %s", p->system, p->grade);
            snprintf(style, sizeof style,
                     "with points pointsize 1.8 linewidth 2 pointtype 6 linecolor rgb '%s'",
                     look_of(p->comm)->color);
            drawing_block(d, "1:2", title, style);
        }
        last = p->system;
        strbuf_printf(&d->data, "%d %g\n", p->nodes, p->value);
    }
}

static int plot_speedup(const struct tables *tables, const struct run_table *table,
                        const struct run *link, bool alone, const char *folder, struct plots *plots)
{
    struct drawing d;
    char title[160], speed[48], name[96], what[48];
    int most = 1;
    double slope = 1;

    drawing_begin(&d, folder, table);
    for (int i = 0; i < table->nruns; i++) {
        const struct run *run = &table->runs[i];
        if (!runs_same_link(run, link))
            continue;
        if (i == 0 || !runs_same_series(run, run - 1)) {
            name_series(table, run, name);
            drawing_series(&d, run->comm, name);
        }
        strbuf_printf(&d.data, "%d %.6g\n", run->size, run->speedup);
        most = run->size > most ? run->size : most;
        slope = fmax(slope, (double)run->workers / run->size);
    }
    add_published(&d, tables->published, link);
    strbuf_printf(&d.settings, "set xlabel '%ss'\n", runs_unit(table));
    strbuf_puts(&d.settings, "set ylabel 'speed-up over one worker'\n"
                             "set key outside bottom center horizontal maxcols 3 Left reverse "
                             "samplen 2 font ',12'\nset bmargin 9\n");
    if (most > 64)
        strbuf_puts(&d.settings, "set logscale xy 2\n");
    else
        strbuf_printf(&d.settings, "set xrange [0:%g]\nset yrange [0:%g]\n", most * 1.03,
                      most * slope * 1.05);
    strbuf_printf(
        &d.elements,
        ", \\\n    [1:%d] %g*x with lines linecolor rgb '#555555' dashtype 4 title 'ideal'", most,
        slope);
    name_link(link, speed);
    snprintf(title, sizeof title, "%s: speed-up, %s, %s", table->name, speed, how_of_all(table));
    snprintf(what, sizeof what, alone ? "speedup" : "speedup-%.3gg", link->link_Bps * 8e-9);
    return drawing_end(&d, what, title, plots);
}

static int plot_speedups(const struct tables *tables, const struct run_table *table,
                         const char *folder, struct plots *plots)
{
    int links = 0;

    if (runs_all_sweeps(table))
        return 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < table->nruns; i++) {
            const struct run *run = &table->runs[i];
            if ((i > 0 && runs_same_link(run, run - 1)) || !runs_link_scales(table, run))
                continue;
            if (pass == 0)
                links++;
            else if (plot_speedup(tables, table, run, links == 1, folder, plots))
                return -1;
        }
    return 0;
}

static int plot_bandwidth(const struct run_table *table, int nodes, const char *folder,
                          struct plots *plots)
{
    struct drawing d;
    char title[160], name[96], what[48];

    drawing_begin(&d, folder, table);
    for (int i = 0; i < table->nruns; i++) {
        const struct run *of = &table->runs[i];
        if (!runs_begins_sweep(table, of, nodes))
            continue;
        name_series(table, of, name);
        drawing_series(&d, of->comm, name);
        for (int k = i; k < table->nruns; k++)
            if (table->runs[k].size == nodes && runs_same_scheme(&table->runs[k], of) &&
                !isnan(table->runs[k].link_Bps))
                strbuf_printf(&d.data, "%.6g %.6g\n", table->runs[k].link_Bps * 8e-9,
                              table->runs[k].images_per_second);
    }
    strbuf_puts(&d.settings, "set logscale x 2\nset xlabel 'speed of a node''s link, Gb/s'\n"
                             "set ylabel 'images/s'\nset yrange [0:*]\n");
    snprintf(title, sizeof title, "%s: images/s over bandwidth, %d %ss, %s", table->name, nodes,
             runs_unit(table), how_of_all(table));
    snprintf(what, sizeof what, runs_all_sweeps(table) ? "bandwidth-%d" : "bandwidth", nodes);
    return drawing_end(&d, what, title, plots);
}

static int plot_bandwidths(const struct run_table *table, const char *folder, struct plots *plots)
{
    for (int i = 0; i < table->nruns; i++) {
        int before = 0;
        while (table->runs[before].size != table->runs[i].size)
            before++;
        if (before == i && runs_is_sweep(table, table->runs[i].size) &&
            plot_bandwidth(table, table->runs[i].size, folder, plots))
            return -1;
    }
    return 0;
}

/* The link whose runs bars show: of most runs on a common number of nodes; NULL: there is none. */
static const struct run *main_link(const struct run_table *table)
{
    const struct run *best = NULL;
    int most = 0;

    for (int i = 0; i < table->nruns; i++) {
        int count = 0;
        for (int k = 0; k < table->nruns; k++)
            count += runs_same_link(&table->runs[k], &table->runs[i]);
        if (count > most && runs_common_nodes(table, &table->runs[i])) {
            best = &table->runs[i];
            most = count;
        }
    }
    return best;
}

/* One row a scheme: its name in quotes, then numbers. */
static void put_bar(struct drawing *d, const struct run *run, double first, double second)
{
    char name[96];

    name_series(d->table, run, name);
    put_quoted(name, &d->data);
    strbuf_printf(&d->data, " %.6g ", first);
    if (isnan(second))
        strbuf_puts(&d->data, "-\n");
    else
        strbuf_printf(&d->data, "%.6g\n", second);
}

static const char bars[] =
    "set style data histograms\nset style histogram %s\nset boxwidth 0.8\n"
    "set style fill solid border rgb '#333333'\nset datafile missing '-'\nset yrange [0:*]\n"
    "unset grid\nset grid y linecolor rgb '#dddddd'\nset xtics noenhanced\n";

static int plot_busy(const struct run_table *table, const struct run *link, const char *folder,
                     struct plots *plots)
{
    struct drawing d;
    char title[160], speed[48];
    int nodes = runs_common_nodes(table, link);

    drawing_begin(&d, folder, table);
    drawing_block(&d, "2:xtic(1)", "busy", "linecolor rgb '#0072B2'");
    for (int i = 0; i < table->nruns; i++)
        if (table->runs[i].size == nodes && runs_same_link(&table->runs[i], link))
            put_bar(&d, &table->runs[i], 100 - 100 * table->runs[i].stall_share,
                    100 * table->runs[i].stall_share);
    strbuf_puts(&d.elements, ", \\\n    data index 0 using 3 title 'waiting for the network' "
                             "linecolor rgb '#E69F00'");
    strbuf_printf(&d.settings, bars, "rowstacked");
    strbuf_puts(&d.settings, "set yrange [0:100]\nset ylabel 'share of an iteration, %'\n");
    name_link(link, speed);
    snprintf(title, sizeof title, "%s: where time goes, %d %ss, %s, %s", table->name, nodes,
             runs_unit(table), speed, how_of_all(table));
    return drawing_end(&d, "busy", title, plots);
}

static int plot_bytes(const struct run_table *table, const struct run *link, const char *folder,
                      struct plots *plots)
{
    struct drawing d;
    char title[160];
    int nodes = runs_common_nodes(table, link);

    drawing_begin(&d, folder, table);
    drawing_block(&d, "2:xtic(1)", "a node, mean", "linecolor rgb '#0072B2'");
    for (int i = 0; i < table->nruns; i++)
        if (table->runs[i].size == nodes && runs_same_link(&table->runs[i], link) &&
            strcmp(table->runs[i].comm, "none"))
            put_bar(&d, &table->runs[i], table->runs[i].bytes_sent * 1e-6,
                    table->runs[i].bytes_most * 1e-6);
    strbuf_puts(&d.elements, ", \\\n    data index 0 using 3 title 'the rank that sends most' "
                             "linecolor rgb '#E69F00'");
    strbuf_printf(&d.settings, bars, "clustered gap 1");
    strbuf_puts(&d.settings, "set ylabel 'MB sent in an iteration'\n");
    snprintf(title, sizeof title, "%s: bytes sent, %d %ss, %s", table->name, nodes,
             runs_unit(table), how_of_all(table));
    return drawing_end(&d, "bytes", title, plots);
}

static int plot_wire(const struct run_table *table, const struct run *link, const char *folder,
                     struct plots *plots)
{
    struct drawing d;
    char title[160], name[96], text[140], speed[48];
    int nodes = runs_common_nodes(table, link);

    drawing_begin(&d, folder, table);
    for (int i = 0; i < table->nruns; i++) {
        const struct run *run = &table->runs[i];
        char style[96];
        if (run->size != nodes || !run->wire || isnan(runs_peak(run)) || !runs_same_link(run, link))
            continue;
        name_series(table, run, name);
        snprintf(text, sizeof text, "%s, peak %.1f times the mean", name, runs_peak(run));
        /* Schemes that send alike lie on one another: those below are wider, each second dashed */
        snprintf(style, sizeof style, "with steps linewidth %g linecolor rgb '%s' dashtype %d",
                 d.blocks < 3 ? 4.0 - d.blocks : 1.5, look_of(run->comm)->color, 1 + d.blocks % 2);
        drawing_block(&d, "1:2", text, style);
        for (int k = 0; k <= run->nwire; k++)
            strbuf_printf(&d.data, "%.6g %.6g\n", 100.0 * k / run->nwire,
                          run->wire[k < run->nwire ? k : k - 1] * 8e-9 * run->nwire / run->seconds);
    }
    strbuf_puts(&d.settings, "set xlabel 'time since the iteration began, % of it'\n"
                             "set ylabel 'sent by a node, Gb/s'\nset xrange [0:100]\n"
                             "set yrange [0:*]\nset bmargin 8\n"
                             "set key maxcols 2 Left reverse samplen 3 font ',12'\n");
    name_link(link, speed);
    snprintf(title, sizeof title, "%s: bytes on the wire, %d %ss, %s, %s", table->name, nodes,
             runs_unit(table), speed, how_of_all(table));
    return drawing_end(&d, "wire", title, plots);
}

static int plot_loss(const struct run_table *table, bool over_time, const char *folder,
                     struct plots *plots)
{
    /* Okabe and Ito's, and a grey: told apart by everybody, without the dashes that PNG lacks */
    static const char *const colors[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                         "#E69F00", "#56B4E9", "#000000", "#999999"};
    enum { COLORS = sizeof colors / sizeof *colors };
    struct drawing d;
    char title[160];

    drawing_begin(&d, folder, table);
    for (int c = 0; c < table->ncurves; c++) {
        const struct run_curve *curve = &table->curves[c];
        char style[96];
        snprintf(style, sizeof style, "with lines linewidth 2 linecolor rgb '%s' dashtype %d",
                 colors[c % COLORS], c / COLORS + 1);
        drawing_block(&d, "1:2", curve->name, style);
        for (int i = 0; i < curve->count; i++)
            strbuf_printf(&d.data, "%.9g %.9g\n",
                          over_time ? curve->seconds[i] : curve->iteration[i], curve->loss[i]);
    }
    strbuf_printf(&d.settings, "set xlabel '%s'\nset ylabel 'training loss'\nset yrange [0:*]\n",
                  over_time ? "seconds of training" : "iteration");
    snprintf(title, sizeof title, "%s: loss over %s", table->name,
             over_time ? "time" : "iterations");
    return drawing_end(&d, over_time ? "loss-seconds" : "loss-iterations", title, plots);
}

int plots_write(const struct tables *tables, const struct run_table *table, const char *folder,
                struct plots *out)
{
    const struct run *link = runs_all_sweeps(table) ? NULL : main_link(table);

    *out = (struct plots){.count = 0};
    if (plot_speedups(tables, table, folder, out) || plot_bandwidths(table, folder, out) ||
        (link && (plot_busy(table, link, folder, out) || plot_bytes(table, link, folder, out) ||
                  plot_wire(table, link, folder, out))) ||
        plot_loss(table, false, folder, out) || plot_loss(table, true, folder, out)) {
        plots_free(out);
        return -1;
    }
    return 0;
}

void plots_free(struct plots *plots)
{
    for (int i = 0; i < plots->count; i++) {
        free(plots->name[i]);
        free(plots->about[i]);
    }
    *plots = (struct plots){.count = 0};
}
