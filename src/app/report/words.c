/* Writes the figures in words. The advice weighs every loss by its cost per iteration and names the
 * largest: a change saves at most what its cause costs now. */
#include "report/report.h"

#include "util/units.h"

#include <stdio.h>

/* Fraction of an iteration below which a loss is not mentioned. */
#define NOTABLE 0.02

static double percent(const struct figures *figures, double seconds)
{
    return figures->seconds > 0 ? 100 * seconds / figures->seconds : 0;
}

/* ---- advice ---- */

#define ADD(out, ...) buffer_printf((out)->text, sizeof(out)->text, __VA_ARGS__)

/* Returns the time of a transfer alone, measured or else predicted; negative: unknown. */
static double transfer_seconds(const struct figures_layer *layer)
{
    return layer->alone_seconds >= 0 ? layer->alone_seconds : layer->predicted_seconds;
}

/* Sums over all layers. */
struct layers {
    int worst;             /* layer that training waited longest for; -1: no layers */
    double stall;          /* wait for layers */
    double alone, exposed; /* transfers measured alone; training's wait for these transfers */
    double transfers;      /* part of the wait that transfers explain; negative: unknown */
};

static struct layers add_layers(const struct figures *figures)
{
    struct layers sum = {.worst = -1};
    bool known = true;

    for (int i = 0; i < figures->nlayers; i++) {
        const struct figures_layer *layer = &figures->layers[i];
        double seconds = transfer_seconds(layer);

        if (sum.worst < 0 || layer->stall_seconds > figures->layers[sum.worst].stall_seconds)
            sum.worst = i;
        sum.stall += layer->stall_seconds;
        sum.alone += layer->alone_seconds > 0 ? layer->alone_seconds : 0;
        sum.exposed += layer->alone_seconds > 0 ? figures_exposed(layer) : 0;
        sum.transfers += seconds < layer->stall_seconds ? seconds : layer->stall_seconds;
        known = known && seconds >= 0;
    }
    if (!known)
        sum.transfers = -1;
    return sum;
}

/* Advises on ranks that come later: transfers explain only a part of the wait. */
static void advise_balance(const struct figures *figures, double stall, double transfers,
                           struct report_advice *out)
{
    /* the worker with the least waiting is the one that the others waited for */
    int last = figures_spread(figures, FIGURE(stall_seconds)).least_rank;

    out->change = CHANGE_SKEW;
    out->which = last;
    out->saves = stall - (transfers > 0 ? transfers : 0);
    if (figures->local)
        ADD(out, "training waits %s for ranks of this machine that finish later; ",
            units_seconds(stall).text);
    else if (transfers >= 0)
        ADD(out, "load imbalance: of %s waiting only %s is transfer; ", units_seconds(stall).text,
            units_seconds(transfers).text);
    else
        ADD(out,
            "training waits %s, for transfers or for ranks that finish later (--tune=log shows "
            "which); ",
            units_seconds(stall).text);
    ADD(out,
        "rank %d (host %s, waited only %s) is usually the slowest; check for other jobs on its "
        "host, bind ranks to cores, and leave a core free per rank",
        last, figures->ranks[last].host, units_seconds(figures->ranks[last].stall_seconds).text);
}

static void advise_network(const struct figures *figures, double stall, double compute,
                           struct report_advice *out)
{
    struct layers sum = add_layers(figures);
    const struct figures_layer *worst = sum.worst >= 0 ? &figures->layers[sum.worst] : NULL;
    double other_stall = figures_spread(figures, FIGURE(other_stall_seconds)).mean;

    out->saves = stall;
    if (!figures->overlap) {
        out->change = CHANGE_OVERLAP;
        out->saves = stall < compute ? stall : compute;
        ADD(out,
            "--tune=overlap=wfbp: up to %s of the %s spent waiting could overlap with computation",
            units_seconds(out->saves).text, units_seconds(stall).text);
    } else if (figures->local) {
        advise_balance(figures, stall, 0, out);
    } else if (sum.alone > compute) {
        out->change = CHANGE_TRAFFIC;
        ADD(out,
            "reduce traffic per step: transfers alone take %s, and computation hides at most %s; a "
            "batch of %.0f per rank instead of %d, if it costs no accuracy, or a network %.2g "
            "times as fast would balance them",
            units_seconds(sum.alone).text, units_seconds(compute).text,
            figures->batch * sum.alone / compute + 0.5, figures->batch, sum.alone / compute);
    } else if (sum.alone > 0 && stall > 2 * sum.exposed) {
        advise_balance(figures, stall, sum.exposed, out);
    } else if (figures->nranks > 1 && other_stall > 0.5 * stall) {
        out->change = CHANGE_SKEW;
        out->saves = other_stall;
        ADD(out,
            "load imbalance: %s of %s waiting is for sums of losses and norms, where every rank "
            "waits for the last rank; display less often, bind ranks, run nothing else on the "
            "machines",
            units_seconds(other_stall).text, units_seconds(stall).text);
    } else if (figures->nranks == 1 || !worst || worst->stall_seconds <= 0) {
        out->saves = 0;
    } else if (figures->nworkers > 1 && 2 * transfer_seconds(worst) < worst->stall_seconds) {
        advise_balance(figures, stall, sum.transfers, out);
    } else {
        out->change = CHANGE_LAYER;
        out->which = sum.worst;
        ADD(out, "layer '%s' (%s, %s per iteration): training waits %s for it, the longest of all",
            worst->name, worst->scheme, units_bytes(worst->sent).text,
            units_seconds(worst->stall_seconds).text);
        if (worst->alone_seconds >= 0)
            ADD(out, "; its transfer alone takes %s", units_seconds(worst->alone_seconds).text);
        ADD(out, ". Try another scheme or chunk size for the layer, or a lower latency");
    }
}

/* ---- late ranks ---- */

static double late_seconds(const struct figures_late *late, enum late_cause *cause)
{
    double sum = 0;

    *cause = LATE_COMPUTING;
    for (enum late_cause c = 0; c < LATE_CAUSES; c++) {
        sum += late->seconds[c];
        if (late->seconds[c] > late->seconds[*cause])
            *cause = c;
    }
    return sum;
}

/* Puts advice on a late rank before all other advice: no scheme and no chunk size helps there. */
static void advise_late(const struct figures *figures, struct report_advice *out)
{
    static const char *const words[] = {
        [LATE_COMPUTING] = "computing; check for other jobs there, its clock and its cooling",
        [LATE_INPUT] = "input; check the disk or the file server that it reads from",
        [LATE_NETWORK] = "network; check its link and switch port, and other traffic there"};
    enum late_cause cause, why = LATE_COMPUTING;
    double most = 0;
    int latest = -1;

    for (int r = 0; r < figures->nranks; r++) {
        double seconds =
            late_seconds(&figures->ranks[r].late, &cause) / (double)figures->iterations;
        if (seconds > most) {
            most = seconds;
            latest = r;
            why = cause;
        }
    }
    if (latest < 0 || most < NOTABLE * figures->seconds || 4 * most < out->saves)
        return;
    *out = (struct report_advice){.change = CHANGE_STRAGGLER, .which = latest, .saves = most};
    ADD(out,
        "host %s: rank %d there was late %d of %d times, and other ranks waited %s an iteration "
        "for its %s",
        figures->ranks[latest].host, latest, figures->ranks[latest].late.times, figures->looks,
        units_seconds(most).text, words[why]);
}

void report_advise(const struct figures *figures, struct report_advice *out)
{
    struct figures_spread compute = figures_spread(figures, FIGURE(compute_seconds));
    struct figures_spread input = figures_spread(figures, FIGURE(input_seconds));
    double stall = figures_spread(figures, FIGURE(stall_seconds)).mean,
           behind = compute.most - compute.mean;

    *out = (struct report_advice){.change = CHANGE_NOTHING, .which = -1};
    if (stall > NOTABLE * figures->seconds)
        advise_network(figures, stall, compute.mean, out);
    /* waits for a straggler look like waits for the network */
    if (behind > NOTABLE * figures->seconds && behind > 0.5 * out->saves) {
        *out = (struct report_advice){
            .change = CHANGE_STRAGGLER, .which = compute.most_rank, .saves = behind};
        ADD(out,
            "host %s: rank %d there computes for %s an iteration, the mean is %s, and all ranks "
            "wait for this rank; check for other jobs there, and how its threads are bound",
            figures->ranks[compute.most_rank].host, compute.most_rank,
            units_seconds(compute.most).text, units_seconds(compute.mean).text);
    }
    advise_late(figures, out);
    if (input.mean > NOTABLE * figures->seconds && input.mean > out->saves) {
        *out = (struct report_advice){
            .change = CHANGE_INPUT, .which = input.most_rank, .saves = input.mean};
        ADD(out,
            "input: training waits %s an iteration for it; keep the data on a local disk or "
            "in memory, store it uncompressed, or transform less",
            units_seconds(input.mean).text);
    }
    if (out->change == CHANGE_NOTHING)
        ADD(out,
            "faster computation: training is compute-bound (%.0f %% of the time%s), so more ranks, "
            "or more threads per rank, shorten it almost in proportion",
            percent(figures, compute.mean + (figures->nranks == 1 ? stall : 0)),
            figures->nranks == 1 ? ", updates included" : "");
    if (figures->threads > figures->cores && figures->cores > 0)
        ADD(out,
            "; and fewer compute threads: %d take turns on %d core%s of host %s (--threads, or "
            "fewer ranks)",
            figures->threads, figures->cores, figures->cores == 1 ? "" : "s",
            figures->ranks[0].host);
}

/* ---- words ---- */

static void put_hidden(const struct figures *figures, struct strbuf *text)
{
    struct layers sum = add_layers(figures);

    if (sum.alone <= 0)
        return;
    if (!figures->overlap) {
        strbuf_printf(text,
                      "Communication alone, layer after layer, takes %s; all at once after each "
                      "backward pass, training waited %s\n",
                      units_seconds(sum.alone).text, units_seconds(sum.stall).text);
        return;
    }
    strbuf_printf(text,
                  "Communication alone, layer after layer, takes %s; training hid %.0f %% of that "
                  "time, and waited %s for transfers and %s for later ranks\n",
                  units_seconds(sum.alone).text, 100 * (1 - sum.exposed / sum.alone),
                  units_seconds(sum.exposed).text, units_seconds(sum.stall - sum.exposed).text);
}

/* Appends whose gradients were dropped, and how many. */
static void put_dropped(const struct figures *figures, struct strbuf *text)
{
    const char *before = "Dropped:";

    for (int r = 0; r < figures->nranks; r++) {
        const struct figures_rank *rank = &figures->ranks[r];
        if (rank->unused == 0)
            continue;
        strbuf_printf(text, "%s rank %d on %s %.4g of %lld iterations (%.4g not computed)", before,
                      r, rank->host, rank->unused, (long long)figures->iterations, rank->left_out);
        before = ";";
    }
    strbuf_puts(text, *before == ';' ? "\n" : "");
}

void report_words(const struct figures *figures, struct strbuf *text)
{
    double compute = figures_spread(figures, FIGURE(compute_seconds)).mean;
    double stall = figures_spread(figures, FIGURE(stall_seconds)).mean,
           input = figures_spread(figures, FIGURE(input_seconds)).mean;
    struct report_advice advice;

    strbuf_printf(text,
                  "An iteration took %s: %s computing (%.1f %%), %s waiting for %s (%.1f %%), "
                  "%s for input (%.1f %%)%s\n",
                  units_seconds(figures->seconds).text, units_seconds(compute).text,
                  percent(figures, compute), units_seconds(stall).text,
                  figures->local        ? "other ranks"
                  : figures->nranks > 1 ? "the network"
                                        : "the update of parameters",
                  percent(figures, stall), units_seconds(input).text, percent(figures, input),
                  figures->nworkers > 1 ? "; mean of the workers" : "");
    put_hidden(figures, text);
    put_dropped(figures, text);
    report_advise(figures, &advice);
    strbuf_printf(text, "What would help most: %s", advice.text);
    if (advice.saves > 0)
        strbuf_printf(text, " (at most %s, %.1f %%)", units_seconds(advice.saves).text,
                      percent(figures, advice.saves));
    strbuf_putc(text, '\n');
}
