/* The net table. All rows are made before printing: columns are as wide as their widest cells. */
#include "report/net_table.h"

#include "util/alloc.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define COLUMNS    7
#define CELL_BYTES 160

enum column { LAYER, TYPE, TOP, SHAPE, PARAMETERS, FLOPS, SCHEME };

static const char *const titles[COLUMNS] = {"layer",      "type",  "top",   "shape",
                                            "parameters", "FLOPs", "scheme"};

struct row {
    char cell[COLUMNS][CELL_BYTES];
};

const struct group *net_table_owned(const struct net *net, int layer)
{
    for (int g = 0; g < net->ngroups; g++)
        if (net->groups[g].layer == layer)
            return &net->groups[g];
    return NULL;
}

/* Returns the label of the group's scheme. */
static const char *scheme_of_group(const struct plan *plan, ptrdiff_t group)
{
    const struct bucket *bucket = &plan->buckets[plan->bucket_of[group]];

    if (plan->groups[group].trains && (plan_is_alone(plan) || !bucket->scheme))
        return "local";
    if (plan->groups[group].decays)
        return "decays";
    return bucket->label.text;
}

/* Prints 576000 as "576.00 k". */
static void print_table_flops(double flops, char *cell)
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    size_t unit = 0;

    while (flops >= 1000 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        flops /= 1000;
        unit++;
    }
    if (flops > 0)
        snprintf(cell, CELL_BYTES, "%.*f%s", unit ? 2 : 0, flops, units[unit]);
}

static void print_table_layer(const struct net *net, int l, const struct plan *plan,
                              struct row *row)
{
    const struct layer *layer = &net->layers[l];
    const struct group *group = net_table_owned(net, l);

    snprintf(row->cell[LAYER], CELL_BYTES, "%s", layer->def->name);
    snprintf(row->cell[TYPE], CELL_BYTES, "%s", layer->def->type);
    if (group)
        snprintf(row->cell[PARAMETERS], CELL_BYTES, "%zu", group->elems);
    print_table_flops(layer->flops, row->cell[FLOPS]);
    if (plan && group)
        snprintf(row->cell[SCHEME], CELL_BYTES, "%s", scheme_of_group(plan, group - net->groups));
}

static size_t print_table_rows(const struct net *net, const struct plan *plan, struct row *rows)
{
    size_t n = 0;

    for (int c = 0; c < COLUMNS; c++)
        strcpy(rows[0].cell[c], titles[c]);
    n++;
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        if (layer->def->inserted)
            continue;
        print_table_layer(net, l, plan, &rows[n]);
        for (int t = 0; t < layer->ntops; t++) {
            const struct shape *shape = &layer->tops[t]->value.shape;

            snprintf(rows[n + (size_t)t].cell[TOP], CELL_BYTES, "%s", layer->tops[t]->name);
            snprintf(rows[n + (size_t)t].cell[SHAPE], CELL_BYTES, "%.150s",
                     shape->naxes ? shape_product(shape).text : "scalar");
        }
        n += layer->ntops ? (size_t)layer->ntops : 1;
    }
    strcpy(rows[n].cell[LAYER], "total");
    snprintf(rows[n].cell[PARAMETERS], CELL_BYTES, "%zu", net->nlearnable);
    print_table_flops(net->flops, rows[n].cell[FLOPS]);
    return n + 1;
}

/* Prints a row. mark: a word behind the row, or "". */
static void print_row(const struct row *row, const int width[COLUMNS], int columns,
                      const char *mark, FILE *to)
{
    char line[COLUMNS * (CELL_BYTES + 2) + 16] = "";
    size_t used;

    for (int c = 0; c < columns; c++) {
        bool number = c == PARAMETERS || c == FLOPS;
        buffer_printf(line, sizeof line, number ? "%*s  " : "%-*s  ", width[c], row->cell[c]);
    }
    buffer_printf(line, sizeof line, "%s", mark);
    used = strlen(line);
    while (used > 0 && line[used - 1] == ' ')
        used--;
    line[used] = '\0';
    fprintf(to, "%s\n", line);
}

static void print_table_line(const int width[COLUMNS], int columns, FILE *to)
{
    int total = -2;

    for (int c = 0; c < columns; c++)
        total += width[c] + 2;
    while (total-- > 0)
        fputc('-', to);
    fputc('\n', to);
}

int net_table_print(const struct net *net, const struct plan *plan, FILE *to)
{
    int columns = plan ? COLUMNS : COLUMNS - 1;
    int width[COLUMNS] = {0};
    size_t most = 2, n;
    struct row *rows;

    for (int l = 0; l < net->nlayers; l++)
        most += net->layers[l].ntops ? (size_t)net->layers[l].ntops : 1;
    if (ALLOC(rows, most, "the net table"))
        return -1;
    n = print_table_rows(net, plan, rows);
    for (size_t r = 0; r < n; r++)
        for (int c = 0; c < columns; c++)
            if ((int)strlen(rows[r].cell[c]) > width[c])
                width[c] = (int)strlen(rows[r].cell[c]);
    for (size_t r = 0; r < n; r++) {
        if (r == 1 || r == n - 1)
            print_table_line(width, columns, to);
        print_row(&rows[r], width, columns, r > 0 && net_is_assumed(net) ? "assumed" : "", to);
    }
    free(rows);
    return ferror(to) ? error_set("the net table could not be written") : 0;
}
