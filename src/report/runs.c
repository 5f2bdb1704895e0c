/* Order, checks and speed-ups of a folder's runs.
 *
 * Simulated rows bring their speed-up. Of the others it is images/s over those of the same
 * scheme's run on the fewest workers, times that number: a base of two workers is taken for twice
 * one. `none` on one worker serves a scheme that has no run on one. */
#include "report/runs_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *run_how_name(enum run_how how)
{
    static const char *const names[] = {"measured", "emulated", "simulated"};

    return names[how];
}

bool runs_same_link(const struct run *a, const struct run *b)
{
    if (isnan(a->link_Bps) || isnan(b->link_Bps))
        return isnan(a->link_Bps) && isnan(b->link_Bps);
    return fabs(a->link_Bps - b->link_Bps) <= 1e-6 * b->link_Bps;
}

const char *runs_unit(const struct run_table *table)
{
    return table->by_workers ? "rank" : "node";
}

bool runs_same_scheme(const struct run *a, const struct run *b)
{
    return a->how == b->how && !strcmp(a->comm, b->comm);
}

bool runs_same_series(const struct run *a, const struct run *b)
{
    return runs_same_scheme(a, b) && runs_same_link(a, b);
}

double runs_peak(const struct run *run)
{
    double most = 0, sum = 0;

    for (int i = 0; i < run->nwire; i++) {
        sum += run->wire[i];
        most = fmax(most, run->wire[i]);
    }
    return sum > 0 ? most * run->nwire / sum : NAN;
}

static const struct run *find_point(const struct run_table *table, const struct run *of, int nodes)
{
    for (int i = 0; i < table->nruns; i++)
        if (table->runs[i].size == nodes && runs_same_series(&table->runs[i], of))
            return &table->runs[i];
    return NULL;
}

static bool all_have(const struct run_table *table, const struct run *link, int nodes)
{
    for (int i = 0; i < table->nruns; i++)
        if (strcmp(table->runs[i].comm, "none") && runs_same_link(&table->runs[i], link) &&
            !find_point(table, &table->runs[i], nodes))
            return false;
    return true;
}

int runs_common_nodes(const struct run_table *table, const struct run *link)
{
    int most = 0;

    for (int i = 0; i < table->nruns; i++) {
        const struct run *run = &table->runs[i];
        if (runs_same_link(run, link) && run->size > most && all_have(table, link, run->size))
            most = run->size;
    }
    return most;
}

/* Runs are sorted by link. */
static int count_links(const struct run_table *table, int nodes)
{
    const struct run *last = NULL;
    int count = 0;

    for (int i = 0; i < table->nruns; i++) {
        const struct run *run = &table->runs[i];
        if (run->size != nodes || isnan(run->link_Bps) || (last && runs_same_link(run, last)))
            continue;
        last = run;
        count++;
    }
    return count;
}

/* The run that is the first on its number of nodes. */
static bool begins_nodes(const struct run_table *table, int at)
{
    for (int i = 0; i < at; i++)
        if (table->runs[i].size == table->runs[at].size)
            return false;
    return true;
}

bool runs_all_sweeps(const struct run_table *table)
{
    int links = 0, counts = 0;

    for (int i = 0; i < table->nruns; i++) {
        const struct run *run = &table->runs[i];
        counts += begins_nodes(table, i);
        links += (i == 0 || !runs_same_link(run, run - 1)) && runs_link_scales(table, run);
    }
    return links > counts;
}

bool runs_is_sweep(const struct run_table *table, int nodes)
{
    int links = count_links(table, nodes);

    for (int i = 0; i < table->nruns && !runs_all_sweeps(table); i++) {
        int others = count_links(table, table->runs[i].size);
        if (others > links || (others == links && table->runs[i].size > nodes))
            return false;
    }
    return links > 1;
}

bool runs_begins_sweep(const struct run_table *table, const struct run *run, int nodes)
{
    const struct run *first = NULL;
    int count = 0;

    for (int i = 0; i < table->nruns; i++) {
        if (table->runs[i].size != nodes || !runs_same_scheme(&table->runs[i], run))
            continue;
        first = first ? first : &table->runs[i];
        count++;
    }
    return first == run && count > 1;
}

bool runs_link_scales(const struct run_table *table, const struct run *link)
{
    for (int i = 0; i < table->nruns; i++)
        if (runs_same_link(&table->runs[i], link) && table->runs[i].size != link->size)
            return true;
    return false;
}

/* Links that are not known come last. */
static int compare_links(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int compare(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    int order = compare_links(x->link_Bps, y->link_Bps);

    order = order ? order : (x->how > y->how) - (x->how < y->how);
    order = order ? order : strcmp(x->comm, y->comm);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

static const struct run *find_base(const struct run_table *table, const struct run *of)
{
    const struct run *own = of, *alone = NULL;

    for (int i = 0; i < table->nruns; i++) {
        const struct run *run = &table->runs[i];
        if (runs_same_series(run, of) && run->workers < own->workers)
            own = run;
        if (run->workers == 1 && run->how == of->how && !strcmp(run->comm, "none"))
            alone = run;
    }
    return own->workers > 1 && alone ? alone : own;
}

/* Ranks of one machine scale, too. */
static void set_sizes(struct run_table *table)
{
    for (int i = 0; i < table->nruns; i++)
        for (int k = 0; k < i; k++)
            table->by_workers |= runs_same_series(&table->runs[i], &table->runs[k]) &&
                                 table->runs[i].nodes == table->runs[k].nodes &&
                                 table->runs[i].workers != table->runs[k].workers;
    for (int i = 0; i < table->nruns; i++)
        table->runs[i].size = table->by_workers ? table->runs[i].workers : table->runs[i].nodes;
}

void runs_order(struct run_table *table)
{
    set_sizes(table);
    if (table->nruns == 0)
        return;
    qsort(table->runs, (size_t)table->nruns, sizeof *table->runs, compare);
    for (int i = 0; i < table->nruns; i++) {
        struct run *run = &table->runs[i];
        const struct run *base = find_base(table, run);
        if (isnan(run->speedup) && base->images_per_second > 0)
            run->speedup = run->images_per_second / base->images_per_second * base->workers;
    }
}

void runs_free(struct run_table *table)
{
    for (int i = 0; i < table->nruns; i++) {
        free(table->runs[i].file);
        free(table->runs[i].net);
        free(table->runs[i].comm);
        free(table->runs[i].wire);
    }
    for (int i = 0; i < table->ncurves; i++) {
        free(table->curves[i].name);
        free(table->curves[i].iteration);
        free(table->curves[i].seconds);
        free(table->curves[i].loss);
    }
    free(table->runs);
    free(table->curves);
    free(table->folder);
    free(table->name);
    free(table->title);
    *table = (struct run_table){.nruns = 0};
}
