/* The figures in words. The advice weighs every loss by what it costs per iteration and names the
 * largest: what a change could save at most is what is being lost to its cause now. */
#include "report/report.h"

#include <stdio.h>
#include <stdlib.h>

/* Below this part of an iteration a loss is not worth a word. */
#define NOTABLE 0.02

static double compute_of(const struct report_rank *rank)
{
    return rank->compute_seconds;
}

static double stall_of(const struct report_rank *rank)
{
    return rank->stall_seconds;
}

static double other_of(const struct report_rank *rank)
{
    return rank->other_stall_seconds;
}

static double input_of(const struct report_rank *rank)
{
    return rank->input_seconds;
}

struct report_spread report_spread_of(const struct report *report,
                                      double (*figure)(const struct report_rank *rank))
{
    struct report_spread spread = {.most_rank = -1};

    for (int r = 0; r < report->nranks; r++) {
        double value = figure(&report->ranks[r]);
        if (!report->ranks[r].worker)
            continue;
        spread.mean += value / report->nworkers;
        if (spread.most_rank < 0 || value < spread.least)
            spread.least = value;
        if (spread.most_rank < 0 || value > spread.most) {
            spread.most = value;
            spread.most_rank = r;
        }
    }
    return spread;
}

/* "1.23 ms", "4.5 s". */
static const char *time_text(double seconds, char buffer[32])
{
    if (seconds < 0)
        snprintf(buffer, 32, "-");
    else if (seconds < 0.9995e-3)
        snprintf(buffer, 32, "%.3g us", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(buffer, 32, "%.3g ms", seconds * 1e3);
    else
        snprintf(buffer, 32, "%.4g s", seconds);
    return buffer;
}

static const char *bytes_text(double bytes, char buffer[32])
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB"};
    int u = 0;

    for (; bytes >= 1000 && u < 4; u++)
        bytes /= 1000;
    snprintf(buffer, 32, u == 0 ? "%.0f %s" : "%.2f %s", bytes, units[u]);
    return buffer;
}

static double percent(const struct report *report, double seconds)
{
    return report->seconds > 0 ? 100 * seconds / report->seconds : 0;
}

/* ---- advice ---- */

static int worst_layer(const struct report *report)
{
    int worst = -1;

    for (int i = 0; i < report->nlayers; i++)
        if (worst < 0 || report->layers[i].stall_seconds > report->layers[worst].stall_seconds)
            worst = i;
    return worst;
}

double report_exposed(const struct report_layer *layer)
{
    return layer->stall_seconds < layer->alone_seconds ? layer->stall_seconds
                                                       : layer->alone_seconds;
}

/* Of all layers whose transfers were measured alone. */
static double exposed_in_all(const struct report *report)
{
    double sum = 0;

    for (int i = 0; i < report->nlayers; i++)
        sum += report->layers[i].alone_seconds > 0 ? report_exposed(&report->layers[i]) : 0;
    return sum;
}

static double alone_in_all(const struct report *report)
{
    double sum = 0;

    for (int i = 0; i < report->nlayers; i++)
        sum += report->layers[i].alone_seconds > 0 ? report->layers[i].alone_seconds : 0;
    return sum;
}

static void advise_network(const struct report *report, double stall, double compute,
                           struct report_advice *out)
{
    int worst = worst_layer(report);
    double alone = alone_in_all(report), other = report_spread_of(report, other_of).mean;
    char one[32], two[32], three[32];

    out->saves = stall;
    if (!report->overlap) {
        out->change = CHANGE_OVERLAP;
        out->saves = stall < compute ? stall : compute;
        snprintf(
            out->text, sizeof out->text,
            "--overlap=wfbp: up to %s of the %s spent waiting could pass while the net computes",
            time_text(out->saves, one), time_text(stall, two));
    } else if (alone > compute) {
        out->change = CHANGE_TRAFFIC;
        snprintf(out->text, sizeof out->text,
                 "less traffic per computation: transfers alone take %s, computation hides at most "
                 "%s; a "
                 "batch of %.0f per rank instead of %d would balance them where it costs no "
                 "accuracy, and "
                 "so would a network %.2g times as fast",
                 time_text(alone, one), time_text(compute, two),
                 report->batch * alone / compute + 0.5, report->batch, alone / compute);
    } else if (alone > 0 && stall > 2 * exposed_in_all(report)) {
        out->change = CHANGE_SKEW;
        out->saves = stall - exposed_in_all(report);
        snprintf(
            out->text, sizeof out->text,
            "ranks in step: of %s waited only %s are transfers, the rest is for ranks that were "
            "later, "
            "now this one, now that; a core for each compute thread and one to spare, bound ranks, "
            "nothing else on the machines",
            time_text(stall, one), time_text(exposed_in_all(report), two));
    } else if (report->nranks > 1 && other > 0.5 * stall) {
        out->change = CHANGE_SKEW;
        out->saves = other;
        snprintf(out->text, sizeof out->text,
                 "ranks in step: %s of %s waited are for sums of losses and norms, for which the "
                 "first to come "
                 "waits until the last one does; a larger display, bound ranks, nothing else on "
                 "the machines",
                 time_text(other, one), time_text(stall, two));
    } else if (report->nranks > 1 && worst >= 0 && report->layers[worst].stall_seconds > 0) {
        const struct report_layer *layer = &report->layers[worst];
        out->change = CHANGE_LAYER;
        out->which = worst;
        int n = snprintf(
            out->text, sizeof out->text,
            "layer '%s' (%s, %s an iteration): training waits %s for it, the longest of all",
            layer->name, layer->scheme, bytes_text(layer->sent, three),
            time_text(layer->stall_seconds, one));
        if (layer->alone_seconds >= 0 && n < (int)sizeof out->text)
            n += snprintf(out->text + n, sizeof out->text - (size_t)n,
                          "; its transfer alone takes %s", time_text(layer->alone_seconds, two));
        if (n < (int)sizeof out->text)
            snprintf(out->text + n, sizeof out->text - (size_t)n,
                     ". Another scheme or chunk size for it, or a lower latency");
    } else {
        out->change = CHANGE_NOTHING;
        out->saves = 0;
    }
}

void report_advise(const struct report *report, struct report_advice *out)
{
    struct report_spread compute = report_spread_of(report, compute_of);
    struct report_spread input = report_spread_of(report, input_of);
    double stall = report_spread_of(report, stall_of).mean, behind = compute.most - compute.mean;
    char one[32], two[32];

    *out = (struct report_advice){.change = CHANGE_NOTHING, .which = -1};
    if (stall > NOTABLE * report->seconds)
        advise_network(report, stall, compute.mean, out);
    /* who waits for a straggler waits for it in the network's name */
    if (behind > NOTABLE * report->seconds && behind > 0.5 * out->saves) {
        *out = (struct report_advice){
            .change = CHANGE_STRAGGLER, .which = compute.most_rank, .saves = behind};
        snprintf(out->text, sizeof out->text,
                 "rank %d on %s computes %s an iteration where the mean is %s: all others wait for "
                 "it; see "
                 "what else runs there, and how its threads are bound",
                 compute.most_rank, report->ranks[compute.most_rank].host,
                 time_text(compute.most, one), time_text(compute.mean, two));
    }
    if (input.mean > NOTABLE * report->seconds && input.mean > out->saves) {
        *out = (struct report_advice){
            .change = CHANGE_INPUT, .which = input.most_rank, .saves = input.mean};
        snprintf(out->text, sizeof out->text,
                 "input: training waits %s an iteration for it; data on a local disk or in memory, "
                 "stored "
                 "uncompressed, or less transformation",
                 time_text(input.mean, one));
    }
    if (out->change == CHANGE_NOTHING)
        snprintf(out->text, sizeof out->text,
                 "nothing but faster computation: %.0f %% of the time is computing, so more ranks, "
                 "or more "
                 "threads per rank, shorten training almost in proportion",
                 percent(report, compute.mean + (report->nranks == 1 ? stall : 0)));
}

/* ---- words ---- */

static void put_spread(const struct report *report, struct strbuf *text)
{
    struct report_spread compute = report_spread_of(report, compute_of);
    char one[32], two[32], three[32];

    if (report->nworkers < 2)
        return;
    strbuf_printf(text,
                  "Ranks: computing takes %s to %s, mean %s; slowest is rank %d (%s), %.1f %% over "
                  "the mean\n",
                  time_text(compute.least, one), time_text(compute.most, two),
                  time_text(compute.mean, three), compute.most_rank,
                  report->ranks[compute.most_rank].host,
                  compute.mean > 0 ? 100 * (compute.most / compute.mean - 1) : 0);
}

static void put_stalls(const struct report *report, struct strbuf *text)
{
    double other = report_spread_of(report, other_of).mean,
           stall = report_spread_of(report, stall_of).mean;
    char one[32];
    int said = 0;

    if (stall <= 0)
        return;
    strbuf_puts(text, "Waiting by layer:");
    for (int i = 0; i < report->nlayers; i++) {
        const struct report_layer *layer = &report->layers[i];
        if (layer->stall_seconds > 0.01 * stall)
            strbuf_printf(text, "%s %s %s (%.0f %%)", said++ ? "," : "", layer->name,
                          time_text(layer->stall_seconds, one), 100 * layer->stall_seconds / stall);
    }
    if (other > 0.01 * stall)
        strbuf_printf(text, "%s losses and norms %s (%.0f %%)", said++ ? "," : "",
                      time_text(other, one), 100 * other / stall);
    strbuf_puts(text, said ? "\n" : " none stands out\n");
}

static void put_hidden(const struct report *report, struct strbuf *text)
{
    double alone = alone_in_all(report), exposed = exposed_in_all(report), stall = 0;
    char one[32], two[32], three[32];

    for (int i = 0; i < report->nlayers; i++)
        stall += report->layers[i].stall_seconds;
    if (alone <= 0)
        return;
    if (!report->overlap) {
        strbuf_printf(text,
                      "Communication alone, layer after layer, takes %s; all at once after each "
                      "backward pass, training waited %s\n",
                      time_text(alone, one), time_text(stall, two));
        return;
    }
    strbuf_printf(
        text,
        "Communication alone, layer after layer, takes %s; training hid %.0f %% of it and "
        "waited %s for it, and %s for ranks that came later\n",
        time_text(alone, one), 100 * (1 - exposed / alone), time_text(exposed, two),
        time_text(stall - exposed, three));
}

double report_progress_share(const struct report *report, int *most_rank)
{
    double sum = 0;

    *most_rank = 0;
    for (int r = 0; r < report->nranks; r++) {
        sum += report->ranks[r].progress_share;
        if (report->ranks[r].progress_share > report->ranks[*most_rank].progress_share)
            *most_rank = r;
    }
    return report->nranks > 0 ? sum / report->nranks : 0;
}

/* It takes its time from the passes where it has no core of its own. */
static void put_progress(const struct report *report, struct strbuf *text)
{
    int most;
    double share = report_progress_share(report, &most);

    if (report->nranks < 2)
        return;
    strbuf_printf(
        text,
        "The progress thread used %.1f %% of a core, mean of the ranks; most on rank %d (%s), "
        "%.1f %%\n",
        100 * share, most, report->ranks[most].host, 100 * report->ranks[most].progress_share);
}

void report_words(const struct report *report, struct strbuf *text)
{
    double compute = report_spread_of(report, compute_of).mean;
    double stall = report_spread_of(report, stall_of).mean,
           input = report_spread_of(report, input_of).mean;
    struct report_advice advice;
    char one[32], two[32], three[32], four[32];

    strbuf_printf(text,
                  "An iteration took %s: %s computing (%.1f %%), %s waiting for %s (%.1f %%), "
                  "%s for input (%.1f %%)%s\n",
                  time_text(report->seconds, one), time_text(compute, two),
                  percent(report, compute), time_text(stall, three),
                  report->nranks > 1 ? "the network" : "the update of parameters",
                  percent(report, stall), time_text(input, four), percent(report, input),
                  report->nworkers > 1 ? "; mean of the workers" : "");
    put_stalls(report, text);
    put_hidden(report, text);
    put_spread(report, text);
    put_progress(report, text);
    report_advise(report, &advice);
    strbuf_printf(text, "What would help most: %s", advice.text);
    if (advice.saves > 0)
        strbuf_printf(text, " (at most %s, %.1f %%)", time_text(advice.saves, one),
                      percent(report, advice.saves));
    strbuf_putc(text, '\n');
}

/* ---- table ---- */

static double known(double value)
{
    return value > 0 ? value : 0;
}

static bool costs_more(const struct report_layer *a, const struct report_layer *b)
{
    double waits = a->stall_seconds - b->stall_seconds;
    double lasts = known(a->alone_seconds) - known(b->alone_seconds);

    if (waits != 0)
        return waits > 0;
    return lasts != 0 ? lasts > 0 : a->sent > b->sent;
}

/* Whether fewer than REPORT_ROWS layers cost more than this one. */
static bool has_row(const struct report *report, int i)
{
    int before = 0;

    for (int k = 0; k < report->nlayers; k++)
        before += costs_more(&report->layers[k], &report->layers[i]) ||
                  (k < i && !costs_more(&report->layers[i], &report->layers[k]));
    return before < REPORT_ROWS;
}

/* The sum of two figures, of which one may be unknown. */
static double plus(double sum, double value)
{
    return value < 0 ? sum : known(sum) + value;
}

static void put_row(const struct report_layer *layer, double exposed, bool timed,
                    struct strbuf *text)
{
    char bytes[2][32], times[3][32];

    strbuf_printf(text, "%-24s %-9s %13s %11s", layer->name, layer->scheme,
                  bytes_text(layer->predicted_sent, bytes[0]), bytes_text(layer->sent, bytes[1]));
    if (timed)
        strbuf_printf(text, " %14s %10s", time_text(layer->predicted_seconds, times[0]),
                      time_text(layer->alone_seconds, times[1]));
    strbuf_printf(text, " %11s", time_text(layer->stall_seconds, times[2]));
    if (timed && layer->alone_seconds > 0)
        strbuf_printf(text, " %6.0f %%", 100 * exposed / layer->alone_seconds);
    else if (timed)
        strbuf_printf(text, " %8s", "-");
    strbuf_putc(text, '\n');
}

void report_table(const struct report *report, struct strbuf *text)
{
    struct report_layer rest = {.scheme = "", .predicted_seconds = -1, .alone_seconds = -1};
    double rest_exposed = 0;
    bool timed = false, fold = report->nlayers > REPORT_ROWS + 1; /* one row is not worth a sum */
    char name[64];
    int folded = 0;

    for (int i = 0; i < report->nlayers; i++)
        timed |= report->layers[i].predicted_seconds >= 0 || report->layers[i].alone_seconds >= 0;
    strbuf_printf(text, "%-24s %-9s %13s %11s", "layer", "scheme", "planned bytes", "sent bytes");
    if (timed)
        strbuf_printf(text, " %14s %10s", "predicted time", "time alone");
    strbuf_printf(text, " %11s%s\n", "time waited", timed ? "  exposed" : "");
    for (int i = 0; i < report->nlayers; i++) {
        const struct report_layer *layer = &report->layers[i];
        double exposed = layer->alone_seconds > 0 ? report_exposed(layer) : 0;
        if (!fold || has_row(report, i)) {
            put_row(layer, exposed, timed, text);
            continue;
        }
        folded++;
        rest.predicted_sent += layer->predicted_sent;
        rest.sent += layer->sent;
        rest.predicted_seconds = plus(rest.predicted_seconds, layer->predicted_seconds);
        rest.alone_seconds = plus(rest.alone_seconds, layer->alone_seconds);
        rest.stall_seconds += layer->stall_seconds;
        rest_exposed += exposed;
    }
    if (folded == 0)
        return;
    snprintf(name, sizeof name, "%d layers that cost less", folded);
    rest.name = name;
    rest.scheme = "";
    put_row(&rest, rest_exposed, timed, text);
}

void report_free(struct report *report)
{
    free(report->ranks);
    free(report->layers);
    *report = (struct report){.nranks = 0};
}
