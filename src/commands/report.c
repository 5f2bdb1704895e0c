/* poseidon report */
#include "commands/commands.h"
#include "commands/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/tables.h"
#include "util/alloc.h"
#include "util/error.h"

enum { MOST_FOLDERS = 256 };

struct request {
    const char *out, *published;
    char **folders;
    int nfolders;
};

static const char INTRODUCTION[] =
    "# Runs\n\n"
    "Written by `poseidon report`. *measured*: processes, messages and computation were real.\n"
    "*emulated*: real processes and messages, but computation was replayed from a profile, or "
    "hosts\n"
    "and links were made of one machine. *simulated*: played on a virtual clock by `poseidon "
    "simulate`.\n";

static int parse(struct request *r, int argc, char **argv)
{
    const struct option options[] = {
        {"out", OPTION_TEXT, &r->out, "FOLDER", "where to write (default: report)"},
        {"published", OPTION_TEXT, &r->published, "FILE",
         "published figures to compare with, such as docs/published.csv"},
    };
    const struct command_line line = {
        .command = "report",
        .synopsis = "FOLDER... [OPTIONS]",
        .example =
            "  poseidon train --solver=models/lenet/solver.prototxt --summary=runs/one.json\n"
            "  poseidon report runs",
        .options = options,
        .noptions = (int)(sizeof options / sizeof *options),
        .max_words = MOST_FOLDERS,
        .about =
            "Makes tables (report.md, report.csv) and plots (SVG and PNG, by gnuplot) of runs.\n"
            "The runs of a folder make one table: *.json of 'train --summary=FILE' or of\n"
            "'simulate --json'; NAME.trace.json of 'train --trace' beside NAME.json; logs of\n"
            "train, *.log, for losses. about.json may hold what summaries lack:\n"
            "{\"how\": \"emulated\", \"title\": \"...\", \"link_bytes_per_second\": 1.25e9}.",
    };
    int status = options_parse(&line, argc, argv, &r->nfolders);

    if (status)
        return status;
    r->folders = argv + 1;
    return r->nfolders ? 0 : error_set("which runs? poseidon report FOLDER...");
}

static int check_names(const struct tables *tables)
{
    for (int a = 1; a < tables->count; a++)
        for (int b = 0; b < a; b++)
            if (!strcmp(tables->tables[a].name, tables->tables[b].name))
                return error_set("%s and %s would both be table '%s'; rename one folder",
                                 tables->tables[b].folder, tables->tables[a].folder,
                                 tables->tables[a].name);
    return 0;
}

/* Leaves the text empty. */
static int write_file(const char *folder, const char *name, struct strbuf *text)
{
    int status = report_write(folder, name, "", text);

    strbuf_clear(text);
    return status;
}

static int write_tables(const struct request *r, const struct tables *tables,
                        const struct plots *plots)
{
    struct strbuf text = {.length = 0};
    int status;

    tables_csv(tables, &text);
    status = write_file(r->out, "report.csv", &text);
    strbuf_puts(&text, INTRODUCTION);
    for (int t = 0; t < tables->count; t++)
        tables_markdown(&tables->tables[t], &plots[t], &text);
    if (!status)
        status = write_file(r->out, "report.md", &text);
    tables_compare(tables, &text);
    if (!status && r->published)
        status = write_file(r->out, "compare.md", &text);
    strbuf_free(&text);
    return status;
}

static int write_report(const struct request *r, const struct tables *tables, struct plots *plots)
{
    bool missing = false;

    if (mkdir(r->out, 0777) && errno != EEXIST)
        return error_set("%s: %s", r->out, strerror(errno));
    for (int t = 0; t < tables->count; t++)
        if (plots_write(tables, &tables->tables[t], r->out, &plots[t]))
            return -1;
    if (write_tables(r, tables, plots) || plots_draw(r->out, plots, tables->count, &missing))
        return -1;
    printf("%s/report.md, %s/report.csv%s%s%s\n", r->out, r->out, r->published ? ", " : "",
           r->published ? r->out : "", r->published ? "/compare.md" : "");
    if (missing)
        printf("Plots were not drawn: gnuplot is not there (Debian: gnuplot-nox). Their scripts "
               "are: gnuplot NAME.gp\n");
    return 0;
}

static int make(const struct request *r)
{
    struct run_table *all = alloc_array((size_t)r->nfolders, sizeof *all, "tables");
    struct plots *plots = alloc_array((size_t)r->nfolders, sizeof *plots, "plots");
    struct published published = {.count = 0};
    struct tables tables = {.tables = all, .published = &published};
    int status = all && plots ? 0 : -1;

    if (!status && r->published)
        status = published_read(r->published, &published);
    while (!status && tables.count < r->nfolders)
        if (!(status = runs_read(r->folders[tables.count], &all[tables.count])))
            tables.count++;
    if (!status)
        status = check_names(&tables) || write_report(r, &tables, plots) ? -1 : 0;
    for (int t = 0; t < tables.count; t++) {
        runs_free(&all[t]);
        plots_free(&plots[t]);
    }
    published_free(&published);
    free(plots);
    free(all);
    return status;
}

int command_report(int argc, char **argv)
{
    struct request request = {.out = "report"};
    int status = parse(&request, argc, argv);

    if (status > 0)
        return 0;
    return status || make(&request) ? command_fail("report") : 0;
}
