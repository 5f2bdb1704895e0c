/* Reports ranks that are silent or keep all others waiting, and ends a run that lost a rank. */
#include "watch/monitor.h"

#include "exchange/lost.h"
#include "util/clock.h"

#include <stdatomic.h>

enum { SAVING_SECONDS = 600 };

static void warn_of_stall(void *context, const char *text)
{
    struct monitor *monitor = context;

    /* ranks other than 0 log errors only */
    LOG_ERROR(monitor->job->log, "%s", text);
}

/* Waits until rank 0's saved snapshots are on disk, unless the disk does not answer. */
static void save(void *context)
{
    const struct monitor *monitor = context;

    if (monitor->job->rank == 0)
        (void)run_finish_saving(monitor->run, false);
}

/* Ends the run after the loss of a rank. Runs on the wire's thread. */
static void give_up(void *context, const char *text)
{
    const struct exchange_end end = {.program = "poseidon train",
                                     .what = "The run",
                                     .advice = "; --resume continues from its newest snapshot",
                                     .save_seconds = SAVING_SECONDS,
                                     .save = save,
                                     .context = context};

    exchange_lost(&end, text);
}

/* ---- activity of this rank ---- */

void monitor_enter(struct monitor *monitor, int64_t iteration, int phase)
{
    atomic_store_explicit(&monitor->doing.iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&monitor->doing.since, (int64_t)clock_seconds(), memory_order_relaxed);
    atomic_store_explicit(&monitor->doing.phase, phase, memory_order_relaxed);
}

/* Indices into wire_place.place: phase; layer of the phase's net, from 1 (0: none); true in the
 * backward pass. */
enum { AT_PHASE, AT_LAYER, AT_BACKWARD };

static const struct net *net_of(const struct monitor *monitor, int64_t phase)
{
    int64_t test = phase - PHASE_TESTING;

    if (phase == PHASE_TRAINING)
        return monitor->compute->net;
    return test >= 0 && monitor->compute->tests && test < monitor->job->defs.ntests
               ? monitor->compute->tests[test]
               : NULL;
}

/* Reports this rank's activity and progress, on the wire's thread. Saving counts as progress: the
 * last snapshot without limit, earlier ones for SAVING_SECONDS, in case the disk does not
 * answer. */
static void where(void *context, struct wire_place *out)
{
    const struct monitor *monitor = context;
    int64_t phase = atomic_load_explicit(&monitor->doing.phase, memory_order_relaxed);
    int64_t saving = (int64_t)clock_seconds() -
                     atomic_load_explicit(&monitor->doing.since, memory_order_relaxed);
    const struct net *net = net_of(monitor, phase);

    out->place[AT_PHASE] = phase;
    out->iteration = atomic_load_explicit(&monitor->doing.iteration, memory_order_relaxed);
    if (phase == PHASE_LAST_SAVING || (phase == PHASE_SAVING && saving < SAVING_SECONDS))
        out->done += saving;
    if (net) {
        struct net_position at = net_position(net);

        out->place[AT_LAYER] = at.layer + 1;
        out->place[AT_BACKWARD] = at.backward;
        out->done += (int64_t)at.done;
    }
}

static void put_place(void *context, const int64_t place[3], struct strbuf *text)
{
    const struct monitor *monitor = context;
    int64_t phase = place[AT_PHASE], l = place[AT_LAYER];
    const struct net *net = net_of(monitor, phase);
    const struct layer *layer = net && l > 0 && l <= net->nlayers ? &net->layers[l - 1] : NULL;
    const char *path = NULL;

    if (phase == PHASE_SAVING || phase == PHASE_LAST_SAVING)
        strbuf_puts(text, " (saving a snapshot)");
    if (layer)
        layer_records(layer, &path);
    if (layer && path)
        strbuf_printf(text, " (waiting for input of layer '%s' from %s)", layer->def->name, path);
    else if (layer)
        strbuf_printf(text, " (computing layer '%s' %s)", layer->def->name,
                      place[AT_BACKWARD] ? "backward" : "forward");
    else if (net)
        strbuf_puts(text, net == monitor->compute->net ? " (between two passes)" : " (testing)");
}

void monitor_watch_ranks(struct monitor *monitor, struct wire_watch *out)
{
    monitor_enter(monitor, -1, PHASE_TRAINING);
    *out = (struct wire_watch){.stall_seconds = WIRE_SILENCE_SECONDS,
                               .context = monitor,
                               .warn = warn_of_stall,
                               .lost = give_up,
                               .where = where,
                               .put_place = put_place};
}
