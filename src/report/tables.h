/* Runs as the paper's tables and figures: Markdown, CSV, and plots that gnuplot draws. */
#ifndef POSEIDON_REPORT_TABLES_H
#define POSEIDON_REPORT_TABLES_H

#include "report/published.h"
#include "report/runs.h"
#include "util/strbuf.h"

struct tables {
    int count;
    const struct run_table *tables; /* borrowed */
    const struct published *published;
};

/* A table's plots: what stands before ".gp", ".dat", ".svg" and ".png", and what they show. */
enum { PLOTS_MOST = 64 };
struct plots {
    int count;
    char *name[PLOTS_MOST];  /* owned */
    char *about[PLOTS_MOST]; /* owned */
};

/* Writes the text as FOLDER/NAMEEND, whole or not at all; fails where the text could not be
 * composed. */
int report_write(const char *folder, const char *name, const char *end, const struct strbuf *text);

/* All runs, one a line. */
void tables_csv(const struct tables *tables, struct strbuf *out);

/* One table with its plots; then what was published beside what is here. */
void tables_markdown(const struct run_table *table, const struct plots *plots, struct strbuf *out);
void tables_compare(const struct tables *tables, struct strbuf *out);

/* Writes NAME.dat and NAME.gp of all plots that the table has runs for into the folder. */
int plots_write(const struct tables *tables, const struct run_table *table, const char *folder,
                struct plots *out);
void plots_free(struct plots *plots);

/* Draws: runs gnuplot (or what $GNUPLOT names) on the scripts, in the folder. *missing: it is not
 * there, and nothing was drawn. */
int plots_draw(const char *folder, const struct plots *plots, int nplots, bool *missing);

#endif
