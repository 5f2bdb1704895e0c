/* Why a layer goes as it goes, in words. */
#include "forecast/forecast.h"

#include <stdio.h>

/* Of what auto may choose, the cheapest that is not `chosen`; NULL: there is none. */
static const struct cost *find_runner_up(const struct forecast *f,
                                         const struct forecast_point *point, int g,
                                         const struct scheme *chosen)
{
    const struct cost *best = NULL;

    for (int s = 0; s < f->nschemes; s++) {
        const struct scheme *scheme = f->options->registry[s];
        const struct cost *other = forecast_cost(f, point, g, scheme);
        if (scheme != chosen && scheme->lossless && other->possible &&
            (!best || other->seconds < best->seconds))
            best = other;
    }
    return best;
}

static void explain_faster(const struct cost *mine, const struct cost *other, bool factors,
                           char *out, size_t bytes)
{
    char b0[COST_CELL], b1[COST_CELL], s0[COST_CELL], s1[COST_CELL], c0[COST_CELL] = "";

    cost_print_bytes(mine->busiest, b0);
    cost_print_seconds(mine->seconds, s0);
    cost_print_bytes(other->busiest, b1);
    cost_print_seconds(other->seconds, s1);
    if (mine->compute_seconds > 0.01 * mine->seconds)
        cost_print_seconds(mine->compute_seconds, c0);
    snprintf(out, bytes, "%s%s takes %s and %s%s%s%s, %s %s and %s", factors ? "" : "no factors; ",
             scheme_label(mine->scheme), b0, s0, *c0 ? " (" : "", c0,
             *c0 ? " of it computing)" : "", scheme_label(other->scheme), b1, s1);
}

static void explain_slower(const struct cost *mine, const struct cost *other, char *out,
                           size_t bytes)
{
    char s0[COST_CELL], s1[COST_CELL], c0[COST_CELL];
    double mine_computes = mine->compute_seconds + mine->stolen_seconds;
    double other_computes = other->compute_seconds + other->stolen_seconds;

    cost_print_seconds(mine->seconds, s0);
    cost_print_seconds(other->seconds, s1);
    cost_print_seconds(other_computes, c0);
    if (mine_computes < other_computes) {
        snprintf(out, bytes,
                 "%s alone is faster, %s and not %s, but %s of that is computing: it cannot be "
                 "overlapped",
                 scheme_label(other->scheme), s1, s0, c0);
    } else {
        snprintf(out, bytes,
                 "%s alone is faster, %s and not %s, but keeps the other layers waiting longer",
                 scheme_label(other->scheme), s1, s0);
    }
}

static void explain_choice(const struct forecast *f, const struct forecast_point *point, int g,
                           char *out, size_t bytes)
{
    const struct group *group = &f->groups[g];
    const struct cost *mine = forecast_cost(f, point, g, point->chosen[g]);
    const struct cost *other = find_runner_up(f, point, g, point->chosen[g]);
    char b0[COST_CELL], s0[COST_CELL];

    if (!other) {
        cost_print_bytes(mine->busiest, b0);
        cost_print_seconds(mine->seconds, s0);
        snprintf(out, bytes, "%s is all that is allowed%s: %s, %s", scheme_label(mine->scheme),
                 group->factorable ? "" : " for a layer without factors", b0, s0);
    } else if (mine->seconds <= other->seconds) {
        explain_faster(mine, other, group->factorable, out, bytes);
    } else {
        explain_slower(mine, other, out, bytes);
    }
}

static void explain_rule(const struct forecast *f, const struct forecast_point *point, int g,
                         char *out, size_t bytes)
{
    const struct cost *sfb = forecast_cost(f, point, g, scheme_of_factors(f->options->registry));
    const struct cost *ps = forecast_cost(f, point, g, f->options->registry[0]);

    if (!f->groups[g].factorable || !sfb || !ps) {
        snprintf(out, bytes, "the paper's rule: no factors, so PS");
        return;
    }
    snprintf(out, bytes, "the paper's rule: SFB moves %.4g million parameters a node, PS %.4g",
             (sfb->worker.sent + sfb->worker.received) / 4e6,
             (ps->worker.sent + ps->worker.received + ps->server.sent + ps->server.received) / 4e6);
}

void forecast_reason(const struct forecast *f, const struct forecast_point *point, int g, char *out,
                     size_t bytes)
{
    const struct group *group = &f->groups[g];

    if (!group->trains)
        snprintf(out, bytes, "does not train");
    else if (point->workers == 1 && point->how.servers == 0)
        snprintf(out, bytes, "one worker, nothing to send");
    else if (point->shares)
        snprintf(out, bytes, "one machine, nothing to send: its ranks share memory");
    else if (f->options->comm.policy == COMM_AUTO && point->asks)
        explain_choice(f, point, g, out, bytes);
    else if (f->options->comm.policy == COMM_AUTO || f->options->comm.policy == COMM_PAPER)
        explain_rule(f, point, g, out, bytes);
    else
        snprintf(out, bytes, "as --comm=%s says%s", comm_name(f->options->comm),
                 group->factorable ? "" : ", for a layer without factors");
}
