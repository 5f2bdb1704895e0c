/* A plan for people, at most 100 columns wide. */
#include "commands/plan_request.h"

#include "util/error.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 100, NAME_WIDTH = 22, CELL = 24 };

/* 25690112 -> "25.7M"; at most 5 characters below 10^18. */
static const char *short_count(double value, char out[CELL])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P"};
    int unit = 0;

    for (; unit < 5 && value >= 999.5; unit++)
        value /= 1000;
    snprintf(out, CELL, unit > 0 && value < 99.95 ? "%.3g%s" : "%.0f%s", value, units[unit]);
    return out;
}

/* 0.0451 -> "45.1ms" */
static const char *short_seconds(double seconds, char out[CELL])
{
    char *space;

    cost_print_seconds(seconds, out);
    space = strchr(out, ' ');
    if (space)
        memmove(space, space + 1, strlen(space));
    return out;
}

/* Long names keep their ends: that is where layers of a block differ. */
static const char *short_name(const char *name, char out[NAME_WIDTH + 1])
{
    size_t length = strlen(name);

    if (length <= NAME_WIDTH)
        snprintf(out, NAME_WIDTH + 1, "%s", name);
    else
        snprintf(out, NAME_WIDTH + 1, "~%s", name + length - NAME_WIDTH + 1);
    return out;
}

static void print_line(FILE *to, int width)
{
    while (width-- > 0)
        fputc('-', to);
    fputc('\n', to);
}

/* Breaks text at spaces; lines after the first are indented. *column: where the text starts. */
static void print_wrapped(FILE *to, const char *text, int column, int indent)
{
    for (bool first = true; *text; first = false) {
        int word = (int)strcspn(text, " ");
        if (column + !first + word > WIDTH) {
            fprintf(to, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', to);
            column++;
        }
        fprintf(to, "%.*s", word, text);
        column += word;
        text += word + (text[word] == ' ');
    }
    fputc('\n', to);
}

/* What matters, first. */
static void print_advice(const struct forecast *f, FILE *to)
{
    char words[1024];

    forecast_advice_words(f, &f->points[f->options->npoints - 1], &f->advice, words, sizeof words);
    print_wrapped(to, words, 0, 0);
    fputc('\n', to);
}

static void print_head(const struct forecast *f, FILE *to)
{
    char a[COST_CELL], b[COST_CELL], c[COST_CELL];
    const char *name = f->net->def->name,
               *assumed = net_is_assumed(f->net) ? " (assumed input)" : "";

    cost_print_bytes((double)f->net->nlearnable * sizeof(float), a);
    fprintf(to, "%s: %zu parameters, %s; %d images per rank per iteration%s\n",
            name && *name ? name : f->net->def->file, f->net->nlearnable, a, f->batch, assumed);
    cost_print_bytes(f->cluster.link_Bps, a);
    cost_print_seconds(f->cluster.latency_seconds, b);
    cost_print_seconds(f->cluster.message_seconds, c);
    fprintf(to, "link      %s/s per node and direction, latency %s, %s per additional message\n", a,
            b, c);
    cost_print_bytes(f->cluster.copy_Bps, a);
    cost_print_bytes(f->cluster.sum_Bps, b);
    fprintf(to, "rank      %.4g GFLOP/s in products, copies %s/s, sums %s/s; %d on each node\n",
            f->cluster.gemm_flops / 1e9, a, b, f->options->ranks_per_node);
    if (f->cluster.device_Bps > 0) {
        cost_print_bytes(f->cluster.device_Bps, a);
        fprintf(to, "device    %s/s from and to the host\n", a);
    }
    if (f->cluster.core_share > 0)
        fprintf(
            to,
            "          no core to spare: %.0f %% of what the communication thread works delays the "
            "passes\n",
            100 * f->cluster.core_share);
    cost_print_seconds(f->forward_seconds, a);
    cost_print_seconds(f->backward_seconds, b);
    cost_print_seconds(f->alone_seconds, c);
    fprintf(to, "one rank  %s per iteration, %.4g images/s: forward %s, backward %s%s\n", c,
            f->batch / f->alone_seconds, a, b, assumed);
}

/* What one scheme costs one layer, 13 columns. */
static const char *cost_cell(const struct cost *cost, bool trains, bool chosen, char out[CELL])
{
    char bytes[CELL], seconds[CELL];

    if (cost->possible)
        snprintf(out, CELL, "%5.5s %6.6s%s", short_count(cost->busiest, bytes),
                 short_seconds(cost->seconds, seconds), chosen ? "*" : "");
    else
        snprintf(out, CELL, "%12s", trains ? "-" : "frozen");
    return out;
}

static void print_layer(const struct forecast *f, const struct forecast_point *point, int g,
                        FILE *to)
{
    const struct group *group = &f->groups[g];
    char name[NAME_WIDTH + 1], cell[CELL];

    fprintf(to, "%-*s %5s", NAME_WIDTH, short_name(group->name, name),
            short_count((double)group->elems, cell));
    for (int s = 0; s < f->nschemes; s++)
        fprintf(to, s + 1 < f->nschemes ? " %-13s" : " %s",
                cost_cell(&point->table[g * f->nschemes + s], group->trains,
                          point->chosen[g] == f->options->registry[s], cell));
    fputc('\n', to);
}

/* How the layers travel together, and what that asks of one rank. */
static void print_plan(const struct forecast_point *point, FILE *to)
{
    char a[COST_CELL], b[COST_CELL];

    if (point->messages == 0)
        return;
    cost_print_bytes((double)point->merge_bytes, a);
    cost_print_bytes((double)point->memory, b);
    fprintf(to,
            "\nPlan: %d bucket%s (merged up to %s) in %d chunk%s; a rank sends at most %llu "
            "messages and\nkeeps at most %s for communication.\n",
            point->buckets, point->buckets == 1 ? "" : "s", a, point->chunks,
            point->chunks == 1 ? "" : "s", (unsigned long long)point->messages, b);
}

static void print_layers(const struct forecast *f, const struct forecast_point *point, FILE *to)
{
    fprintf(to, "\n%d node%s, %d worker%s, ", point->nodes, point->nodes == 1 ? "" : "s",
            point->workers, point->workers == 1 ? "" : "s");
    if (point->shares)
        fprintf(to, "which add up in the memory that they share: nothing is sent");
    else if (point->locals > 1 && point->leaders > 1)
        fprintf(to, "%d of them add up and %d send for all, ", point->locals, point->leaders);
    else if (point->locals > 1)
        fprintf(to, "%d of them add up and one sends for all, ", point->locals);
    if (point->how.servers > 0)
        fprintf(to, "%d dedicated server%s", point->servers, point->servers == 1 ? "" : "s");
    else if (!point->shares)
        fprintf(to, "every %s serves", point->locals > 1 ? "node" : "worker");
    fputc('\n', to);
    fprintf(to, "%-*s %5s", NAME_WIDTH, "layer", "param");
    for (int s = 0; s < f->nschemes; s++)
        fprintf(to, s + 1 < f->nschemes ? " %12s " : " %12s",
                scheme_label(f->options->registry[s]));
    fputc('\n', to);
    print_line(to, NAME_WIDTH + 6 + 14 * f->nschemes);
    for (int g = 0; g < f->work.ngroups; g++)
        print_layer(f, point, g, to);
    fprintf(to,
            "Bytes: what the busiest rank sends or receives in an iteration, the larger of both. "
            "Time: the\n"
            "layer alone, from its gradient to its new parameters. *: chosen (--comm=%s).\n",
            comm_name(f->options->comm));
}

/* Fully connected layers one by one; of the others, per scheme, the largest speaks for all. */
static void print_reasons(const struct forecast *f, const struct forecast_point *point, FILE *to)
{
    char reason[256], text[400], name[NAME_WIDTH + 1];

    fprintf(to, "\nWhy:\n");
    for (int g = 0; g < f->work.ngroups; g++) {
        if (!f->groups[g].factorable || !f->groups[g].trains)
            continue;
        forecast_reason(f, point, g, reason, sizeof reason);
        fprintf(to, "  %-*s ", NAME_WIDTH, short_name(f->groups[g].name, name));
        print_wrapped(to, reason, NAME_WIDTH + 3, NAME_WIDTH + 3);
    }
    for (int s = -1; s < f->nschemes; s++) {
        const struct scheme *scheme = s < 0 ? NULL : f->options->registry[s];
        int count = 0, largest = -1;
        for (int g = 0; g < f->work.ngroups; g++)
            if (!(f->groups[g].factorable && f->groups[g].trains) && point->chosen[g] == scheme) {
                count++;
                if (largest < 0 || f->groups[g].elems > f->groups[largest].elems)
                    largest = g;
            }
        if (!count)
            continue;
        forecast_reason(f, point, largest, reason, sizeof reason);
        snprintf(text, sizeof text, "%s: %s", f->groups[largest].name, reason);
        snprintf(name, sizeof name, count == 1 ? "1 other" : "%d others", count);
        fprintf(to, "  %-*s ", NAME_WIDTH, name);
        print_wrapped(to, text, NAME_WIDTH + 3, NAME_WIDTH + 3);
    }
}

static void print_choices(const struct forecast *f, FILE *to)
{
    char name[NAME_WIDTH + 1];
    int shown = f->options->npoints < 7 ? f->options->npoints : 7;
    bool any = false;

    for (int g = 0; g < f->work.ngroups; g++)
        any |= f->groups[g].factorable && f->groups[g].trains;
    if (!any || shown < 2)
        return;
    fprintf(to, "\nChoice by number of nodes\n%-*s", NAME_WIDTH, "layer");
    for (int i = 0; i < shown; i++)
        fprintf(to, " %9d", f->points[i].nodes);
    fputc('\n', to);
    print_line(to, NAME_WIDTH + 10 * shown);
    for (int g = 0; g < f->work.ngroups; g++) {
        if (!f->groups[g].factorable || !f->groups[g].trains)
            continue;
        fprintf(to, "%-*s", NAME_WIDTH, short_name(f->groups[g].name, name));
        for (int i = 0; i < shown; i++)
            fprintf(to, " %9s", scheme_label(f->points[i].chosen[g]));
        fputc('\n', to);
    }
}

static void print_totals(const struct forecast *f, FILE *to)
{
    char a[CELL], b[CELL], c[CELL], d[CELL], e[CELL], h[CELL];

    fprintf(to, "\nOne iteration, --comm=%s\n", comm_name(f->options->comm));
    fprintf(to, "%5s %7s %8s %8s %8s %9s %9s %9s %9s %8s %10s\n", "nodes", "workers", "sent",
            "received", "on wire", "computing", "waiting", "iteration", "images/s", "speed-up",
            "efficiency");
    print_line(to, 100);
    for (int i = 0; i < f->options->npoints; i++) {
        const struct forecast_point *point = &f->points[i];
        const struct cost_iteration *it = &point->chosen_iteration;
        double speedup = forecast_speedup(f, point, it);
        fprintf(to, "%5d %7d %8s %8s %8s %9s %9s %9s %9.4g %8.2f %9.0f%%\n", point->nodes,
                point->workers, short_count(it->sent, a), short_count(it->received, b),
                short_seconds(it->wire_seconds, c), short_seconds(it->compute_seconds, d),
                short_seconds(it->exposed_seconds, e), short_seconds(it->seconds, h),
                forecast_images(f, point, it), speedup, 100 * speedup / point->workers);
    }
    fprintf(
        to,
        "Sent, received: bytes of the rank that moves most. The iteration is simulated layer by "
        "layer: a\n"
        "layer's traffic starts when backward has made its gradient; the link serves one layer "
        "at a time%s.\n"
        "Its length is the larger of compute and traffic time, plus what could not be "
        "overlapped (waiting).\n",
        f->options->overlap == COST_OVERLAP_WFBP
            ? ",\nmost urgent first: what the next forward pass needs"
            : "");
}

static void print_speedups(const struct forecast *f, FILE *to)
{
    fprintf(to, "\nSpeed-up against one rank by what --comm could be\n%5s", "nodes");
    for (int c = 0; c < f->ncomms; c++)
        fprintf(to, " %9s", comm_name(f->comms[c]));
    fprintf(to, "\n");
    print_line(to, 85);
    for (int i = 0; i < f->options->npoints; i++) {
        fprintf(to, "%5d", f->points[i].nodes);
        for (int c = 0; c < f->ncomms; c++)
            fprintf(to, " %9.2f", forecast_speedup(f, &f->points[i], &f->points[i].by_comm[c]));
        fprintf(to, "\n");
    }
    fprintf(to, "\nSpeed-up by what --overlap could be, --comm=%s\n%5s",
            comm_name(f->options->comm), "nodes");
    for (int o = COST_OVERLAP_NONE; o < COST_OVERLAPS; o++)
        fprintf(to, " %9s", cost_overlap_name((enum cost_overlap)o));
    fprintf(to, "\n");
    print_line(to, 35);
    for (int i = 0; i < f->options->npoints; i++) {
        fprintf(to, "%5d", f->points[i].nodes);
        for (int o = COST_OVERLAP_NONE; o < COST_OVERLAPS; o++)
            fprintf(to, " %9.2f", forecast_speedup(f, &f->points[i], &f->points[i].by_overlap[o]));
        fprintf(to, "\n");
    }
}

int plan_print(const struct forecast *f, FILE *to)
{
    int last = f->options->npoints - 1;

    print_advice(f, to);
    print_head(f, to);
    for (int i = f->options->all_tables ? 0 : last; i <= last; i++) {
        print_layers(f, &f->points[i], to);
        print_plan(&f->points[i], to);
        print_reasons(f, &f->points[i], to);
    }
    print_choices(f, to);
    print_totals(f, to);
    print_speedups(f, to);
    return fflush(to) || ferror(to) ? error_set("the plan could not be written") : 0;
}
