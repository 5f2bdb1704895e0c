/* Writes the layers' table: one row per layer; of many layers, those that cost most. */
#include "report/report.h"

#include "util/units.h"

#include <stdio.h>

/* Returns the text of a time; "-" if unknown. */
static struct units_text known_seconds(double seconds)
{
    return seconds >= 0 ? units_seconds(seconds) : (struct units_text){"-"};
}

static double or_zero(double value)
{
    return value > 0 ? value : 0;
}

static bool costs_more(const struct figures_layer *a, const struct figures_layer *b)
{
    double waits = a->stall_seconds - b->stall_seconds;
    double lasts = or_zero(a->alone_seconds) - or_zero(b->alone_seconds);

    if (waits != 0)
        return waits > 0;
    return lasts != 0 ? lasts > 0 : a->sent > b->sent;
}

/* Returns true if fewer than REPORT_ROWS layers cost more than layer i. */
static bool has_row(const struct figures *figures, int i)
{
    int before = 0;

    for (int k = 0; k < figures->nlayers; k++)
        before += costs_more(&figures->layers[k], &figures->layers[i]) ||
                  (k < i && !costs_more(&figures->layers[i], &figures->layers[k]));
    return before < REPORT_ROWS;
}

/* Returns the sum of two figures, either of which may be unknown. */
static double add_known(double sum, double value)
{
    return value < 0 ? sum : or_zero(sum) + value;
}

static void put_row(const struct figures_layer *layer, double exposed, bool timed,
                    struct strbuf *text)
{
    strbuf_printf(text, "%-24s %-9s %13s %11s", layer->name, layer->scheme,
                  units_bytes(layer->predicted_sent).text, units_bytes(layer->sent).text);
    if (timed)
        strbuf_printf(text, " %14s %10s", known_seconds(layer->predicted_seconds).text,
                      known_seconds(layer->alone_seconds).text);
    strbuf_printf(text, " %11s", known_seconds(layer->stall_seconds).text);
    if (timed && layer->alone_seconds > 0)
        strbuf_printf(text, " %6.0f %%", 100 * exposed / layer->alone_seconds);
    else if (timed)
        strbuf_printf(text, " %8s", "-");
    strbuf_putc(text, '\n');
}

void report_table(const struct figures *figures, struct strbuf *text)
{
    struct figures_layer rest = {.scheme = "", .predicted_seconds = -1, .alone_seconds = -1};
    double rest_exposed = 0;
    bool timed = false, travels = false,
         fold = figures->nlayers > REPORT_ROWS + 1; /* one row is not worth a sum */
    char name[64];
    int folded = 0;

    for (int i = 0; i < figures->nlayers; i++) {
        const struct figures_layer *layer = &figures->layers[i];

        timed |= layer->predicted_seconds >= 0 || layer->alone_seconds >= 0;
        travels |= layer->predicted_sent > 0 || layer->sent > 0;
    }
    if (!travels && !timed)
        return;
    strbuf_printf(text, "%-24s %-9s %13s %11s", "layer", "scheme", "planned bytes", "sent bytes");
    if (timed)
        strbuf_printf(text, " %14s %10s", "predicted time", "time alone");
    strbuf_printf(text, " %11s%s\n", "time waited", timed ? "  exposed" : "");
    for (int i = 0; i < figures->nlayers; i++) {
        const struct figures_layer *layer = &figures->layers[i];
        double exposed = layer->alone_seconds > 0 ? figures_exposed(layer) : 0;
        if (!fold || has_row(figures, i)) {
            put_row(layer, exposed, timed, text);
            continue;
        }
        folded++;
        rest.predicted_sent += layer->predicted_sent;
        rest.sent += layer->sent;
        rest.predicted_seconds = add_known(rest.predicted_seconds, layer->predicted_seconds);
        rest.alone_seconds = add_known(rest.alone_seconds, layer->alone_seconds);
        rest.stall_seconds += layer->stall_seconds;
        rest_exposed += exposed;
    }
    if (folded == 0)
        return;
    snprintf(name, sizeof name, "%s", units_count(folded, "other layer").text);
    rest.name = name;
    rest.scheme = "";
    put_row(&rest, rest_exposed, timed, text);
}
