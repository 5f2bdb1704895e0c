#include "commands/scaling.h"

#include "util/strbuf.h"
#include "util/units.h"

#include <math.h>
#include <stdlib.h>

void scaling_free(struct scaling *scaling)
{
    for (int i = 0; i < scaling->n; i++) {
        free(scaling->times[i].forward);
        free(scaling->times[i].backward);
    }
}

static double seconds_of(const struct scaling_times *times, int layer, enum op_pass pass)
{
    return (pass == OP_FORWARD ? times->forward : times->backward)[layer];
}

static double times_as_fast(double first, double now)
{
    return now > 0 ? first / now : 0;
}

/* What is lost with the last number of threads: seconds more than if they were shared out evenly.
 */
static double lost(const struct scaling *scaling, int layer)
{
    const struct scaling_times *first = scaling->times, *last = &scaling->times[scaling->n - 1];
    double seconds = 0;

    for (int pass = 0; pass < OP_PASSES; pass++)
        seconds += seconds_of(last, layer, (enum op_pass)pass) -
                   seconds_of(first, layer, (enum op_pass)pass) * first->threads / last->threads;
    return seconds;
}

/* ": 12.3 ms, 1.95, 3.7" */
static void put_pass(const struct scaling *scaling, int layer, enum op_pass pass,
                     struct strbuf *text)
{
    const double first = seconds_of(scaling->times, layer, pass);

    strbuf_printf(text, "%s: %g ms", pass == OP_FORWARD ? "forward" : "; backward", first * 1e3);
    for (int i = 1; i < scaling->n; i++)
        strbuf_printf(text, ", %.3g",
                      times_as_fast(first, seconds_of(&scaling->times[i], layer, pass)));
}

/* The layer with the largest loss below `than` seconds; -1: no layer loses anything below that. */
static int next_worst(const struct scaling *scaling, const struct net *net, double than)
{
    int worst = -1;

    for (int i = 0; i < net->nlayers; i++)
        if (lost(scaling, i) < than && lost(scaling, i) > 0 &&
            (worst < 0 || lost(scaling, i) > lost(scaling, worst)))
            worst = i;
    return worst;
}

static void print_losses(const struct scaling *scaling, const struct net *net, struct log *log)
{
    enum { WORST = 3 };
    struct strbuf text = {.data = NULL};
    int layer = next_worst(scaling, net, INFINITY);

    for (int i = 0; i < WORST && layer >= 0; i++) {
        strbuf_printf(&text, "%s%s %s", i ? ", " : "", net->layers[layer].def->name,
                      units_seconds(lost(scaling, layer)).text);
        layer = next_worst(scaling, net, lost(scaling, layer));
    }
    if (text.data)
        LOG_INFO(log, "Most is lost with %s, beside an even share: %s",
                 units_count(scaling->times[scaling->n - 1].threads, "thread").text,
                 strbuf_text(&text));
    strbuf_free(&text);
}

void scaling_print(const struct scaling *scaling, const struct net *net, struct log *log)
{
    const struct scaling_times *first = scaling->times;
    struct strbuf text = {.data = NULL};

    for (int i = 1; i < scaling->n; i++)
        strbuf_printf(&text, "%s%d", i > 1 ? ", " : "", scaling->times[i].threads);
    LOG_INFO(log, "Time per layer with %s, and how many times as fast with %s:",
             units_count(first->threads, "thread").text, strbuf_text(&text));
    for (int i = 0; i < net->nlayers; i++) {
        strbuf_clear(&text);
        for (int pass = 0; pass < (net->train ? OP_PASSES : 1); pass++)
            put_pass(scaling, i, (enum op_pass)pass, &text);
        LOG_INFO(log, "%10s\t%s", net->layers[i].def->name, strbuf_text(&text));
    }
    strbuf_clear(&text);
    for (int i = 1; i < scaling->n; i++)
        strbuf_printf(&text, ", %.3g", times_as_fast(first->total, scaling->times[i].total));
    LOG_INFO(log, "Forward-Backward: %g ms%s", first->total * 1e3, strbuf_text(&text));
    strbuf_free(&text);
    print_losses(scaling, net, log);
}

static void json_pass(const struct scaling *scaling, int i, int layer, enum op_pass pass,
                      struct json *json)
{
    const double first = seconds_of(scaling->times, layer, pass),
                 now = seconds_of(&scaling->times[i], layer, pass);

    json_put_double(json, pass == OP_FORWARD ? "forward_ms" : "backward_ms", now * 1e3);
    json_put_double(json, pass == OP_FORWARD ? "forward_speed_up" : "backward_speed_up",
                    times_as_fast(first, now));
}

void scaling_json(const struct scaling *scaling, int layer, struct json *json)
{
    if (scaling->n == 0)
        return;
    json_put_array(json, "threads");
    for (int i = 0; i < scaling->n; i++) {
        const struct scaling_times *times = &scaling->times[i];

        json_object_begin(json);
        json_put_int(json, "threads", times->threads);
        if (layer < 0) {
            json_put_double(json, "forward_backward_ms", times->total * 1e3);
            json_put_double(json, "speed_up", times_as_fast(scaling->times->total, times->total));
        }
        for (int pass = 0; pass < OP_PASSES && layer >= 0; pass++)
            json_pass(scaling, i, layer, (enum op_pass)pass, json);
        json_object_end(json);
    }
    json_array_end(json);
}
