/* Explains in words why a layer uses its scheme, and how fast the nodes train. */
#include "forecast/forecast.h"

#include "util/units.h"

#include <stdio.h>

/* Finds the cheapest of auto's candidates besides the chosen way; false: there is none. */
static bool find_runner_up(const struct forecast *f, const struct forecast_point *point, int g,
                           struct way *out)
{
    const struct cost *best = NULL;

    for (int w = 0; w < f->ways.n; w++) {
        const struct cost *candidate = forecast_cost(f, point, g, f->ways.way[w]);
        if (!way_is(f->ways.way[w], point->chosen[g]) && candidate->possible &&
            (!best || candidate->seconds < best->seconds)) {
            best = candidate;
            *out = f->ways.way[w];
        }
    }
    return best != NULL;
}

static void explain_choice(const struct forecast *f, const struct forecast_point *point, int g,
                           char *out, size_t bytes)
{
    const struct cost *mine = forecast_cost(f, point, g, point->chosen[g]), *runner_up;
    struct way_text chosen_label = way_label(point->chosen[g]), runner_label;
    struct way way;
    double computes;

    if (!find_runner_up(f, point, g, &way)) {
        snprintf(out, bytes, "%s is the only scheme possible%s", chosen_label.text,
                 f->groups[g].factorable ? "" : " for a layer without factors");
        return;
    }
    runner_up = forecast_cost(f, point, g, way);
    runner_label = way_label(way);
    computes = runner_up->compute_seconds + runner_up->stolen_seconds;
    if (mine->seconds <= runner_up->seconds)
        snprintf(out, bytes, "%s%s takes %s, %s %s", f->groups[g].factorable ? "" : "no factors; ",
                 chosen_label.text, units_seconds(mine->seconds).text, runner_label.text,
                 units_seconds(runner_up->seconds).text);
    else if (mine->compute_seconds + mine->stolen_seconds < computes)
        snprintf(out, bytes,
                 "%s alone is faster, %s instead of %s, but %s of it is compute time, which cannot "
                 "overlap",
                 runner_label.text, units_seconds(runner_up->seconds).text,
                 units_seconds(mine->seconds).text, units_seconds(computes).text);
    else
        snprintf(out, bytes,
                 "%s alone is faster, %s instead of %s, but other layers would wait longer",
                 runner_label.text, units_seconds(runner_up->seconds).text,
                 units_seconds(mine->seconds).text);
}

static void explain_rule(const struct forecast *f, const struct forecast_point *point, int g,
                         char *out, size_t bytes)
{
    const struct plan_options *how = &point->how;
    const struct cost *sfb = forecast_cost(
        f, point, g, (struct way){.scheme = scheme_of_factors(how->registry), .wire = how->wire});
    const struct cost *ps =
        forecast_cost(f, point, g, (struct way){.scheme = how->registry[0], .wire = how->wire});

    if (!f->groups[g].factorable || !sfb || !ps)
        snprintf(out, bytes, "the paper's rule: no factors, so PS");
    else
        snprintf(out, bytes, "the paper's rule: SFB moves %.4g million parameters a node, PS %.4g",
                 (sfb->worker.sent + sfb->worker.received) / 4e6,
                 (ps->worker.sent + ps->worker.received + ps->server.sent + ps->server.received) /
                     4e6);
}

void forecast_reason(const struct forecast *f, const struct forecast_point *point, int g, char *out,
                     size_t bytes)
{
    const struct group *group = &f->groups[g];

    if (!group->trains)
        snprintf(out, bytes, "does not train");
    else if (point->workers == 1 && point->how.servers == 0)
        snprintf(out, bytes, "one worker, nothing to send");
    else if (point->shape.only)
        snprintf(out, bytes, "one machine, nothing to send: its ranks share memory");
    else if (point->shape.asks)
        explain_choice(f, point, g, out, bytes);
    else if (point->how.comm.policy == COMM_PAPER)
        explain_rule(f, point, g, out, bytes);
    else
        snprintf(out, bytes, "chosen by --comm=%s%s", forecast_comm_name(f),
                 group->factorable ? "" : ", for a layer without factors");
}

void forecast_result(const struct forecast *f, char *out, size_t bytes)
{
    const struct forecast_point *point = &f->points[f->options->npoints - 1];
    char train[128], lossy[CHOOSE_WORDS] = "";

    snprintf(train, sizeof train,
             "%d workers on %d node%s train %.2f times as fast as one%s (%.0f %% of %.7g)",
             point->workers, point->nodes, point->nodes == 1 ? "" : "s", point->speedup,
             point->pace ? " of speed 1" : "", 100 * point->speedup / point->capacity,
             point->capacity);
    if (point->workers > 1 && point->shape.asks && f->options->exchange.lossy.n > 0)
        choose_print_lossy(&point->answer, f->work.ngroups, lossy);
    if (point->workers < 2)
        snprintf(out, bytes, "One worker has nothing to send: ask for more --nodes.");
    else
        snprintf(out, bytes, "%s%s (--comm=%s).%s%s", train,
                 point->shape.only ? ": they add up gradients in shared memory, and nothing is sent"
                                   : "",
                 forecast_comm_name(f), *lossy ? " --lossy: " : "", lossy);
}
