/* Ranks of which nothing is heard, or that keep all others waiting: what is said of them while
 * training runs, and how a run ends that cannot go on without them. */
#include "watch/monitor.h"

#include "exchange/lost.h"
#include "util/clock.h"

#include <stdatomic.h>

enum { SAVING_SECONDS = 600 };

static void warn_of_stall(void *context, const char *text)
{
    struct monitor *monitor = context;

    /* from whichever rank waits: its own log is off unless it is rank 0 */
    LOG_ERROR(monitor->job->log, "%s", text);
}

/* What rank 0 has handed to the writer is still written, unless it is the disk that does not
 * answer. */
static void save(void *context)
{
    const struct monitor *monitor = context;

    if (monitor->job->rank == 0)
        (void)run_finish_saving(monitor->run, false);
}

/* On the wire's thread: a rank is gone. */
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

/* ---- where this rank is ---- */

void monitor_enter(struct monitor *monitor, int64_t iteration, int phase)
{
    atomic_store_explicit(&monitor->doing.iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&monitor->doing.since, (int64_t)clock_seconds(), memory_order_relaxed);
    atomic_store_explicit(&monitor->doing.phase, phase, memory_order_relaxed);
}

/* A wire_place's: what it does, which layer of that net (0: none) in which pass. */
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

/* On the wire's thread. Saving has limits of its own where the disk refuses, and the last one is
 * tried for as long as the job may last; before, a disk that does not answer is given some time. */
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
