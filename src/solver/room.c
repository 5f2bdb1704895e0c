/* What cannot come to an end is refused before it begins: nets that no memory holds, and a rate of
 * sending at which an iteration would take for ever. */
#include "solver/trainer_internal.h"

#include "util/error.h"
#include "util/machine.h"
#include "util/units.h"

/* Seconds that one iteration's messages may take. A rate is limited to share a network with others,
 * not to train for ever. */
#define LONGEST_ITERATION 600.0

int trainer_check_room(struct trainer *t)
{
    uint64_t left = machine_free_memory();
    int locals = t->topology.local_ranks;
    double params = (double)t->net->elems * sizeof(float), need;
    char needed[UNITS_CELL], free_now[UNITS_CELL];

    t->room = 0;
    if (!t->options->dry_run || !t->worker || t->engine.i->own_memory || left == 0)
        return 0;
    /* values, which ranks of a machine may share, a gradient each, and their part of the history */
    need = params * (1 + locals + (double)t->rule.nhistory * locals / t->nranks);
    if (need > (double)left)
        return error_set("not fit to train: the net's %zu parameters, their gradients and the "
                         "solver's history take at least %s on host %s with its %d rank%s, and %s "
                         "of memory are left there",
                         t->net->nlearnable, units_print_bytes(need, needed),
                         t->topology.host[t->rank], locals, locals == 1 ? "" : "s",
                         units_print_bytes((double)left, free_now));
    t->room = (size_t)left / (size_t)locals;
    return 0;
}

int trainer_check_pace(const struct trainer *t)
{
    double dilate = t->options->dilate > 1 ? t->options->dilate : 1,
           rate = t->options->mbps * 1e6 / 8 * dilate;
    char bytes[UNITS_CELL], seconds[UNITS_CELL];

    for (int r = 0; rate > 0 && r < t->nranks; r++) {
        double sent = 0;

        for (int b = 0; b < t->plan->nbuckets; b++)
            sent += (double)plan_traffic(t->plan, b, r).sent;
        if (sent > LONGEST_ITERATION * rate)
            return error_set("--bandwidth-mbps=%g: rank %d sends %s an iteration, which takes %s "
                             "at that rate; expected at least %.2g, at which it takes %g minutes",
                             t->options->mbps, r, units_print_bytes(sent, bytes),
                             units_print_seconds(sent / rate, seconds),
                             sent / LONGEST_ITERATION * 8e-6 / dilate, LONGEST_ITERATION / 60);
    }
    return 0;
}
