/* Where parameter servers apply the solver: on the host, or in the memory of the device that their
 * worker trains on. Both give the same bits, so each rank may decide by what it measures. */
#include "solver/trainer.h"

#include "util/agree.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

int ps_update_parse(const char *name, enum ps_update *out)
{
    static const char *const names[] = {
        [PS_UPDATE_AUTO] = "auto", [PS_UPDATE_HOST] = "host", [PS_UPDATE_DEVICE] = "device"};

    for (int i = 0; i <= PS_UPDATE_DEVICE; i++)
        if (!strcmp(name, names[i])) {
            *out = (enum ps_update)i;
            return 0;
        }
    return error_set("--ps-update=%s is not known (auto, host or device)", name);
}

static bool serves(const struct trainer *t)
{
    for (int b = 0; b < t->plan->nbuckets; b++) {
        const struct scheme *scheme = t->plan->buckets[b].scheme;
        if (scheme && (scheme->home == HOME_SERVERS || scheme->home == HOME_OWNER))
            return !plan_is_alone(t->plan);
    }
    return false;
}

/* The cluster's figures where it was measured, else this rank's own. */
static int measure(struct trainer *t, struct cost_cluster *out)
{
    *out = t->probe.cluster;
    if (t->probed)
        return 0;
    return probe_serving(&t->engine, &out->serve_Bps) || probe_sums(&out->sum_Bps) ? -1 : 0;
}

static int decide(struct trainer *t, bool *remotely)
{
    struct cost_cluster cluster;

    *remotely = false;
    if (t->options->ps_update == PS_UPDATE_DEVICE && t->options->staleness > 0)
        return error_set(
            "--ps-update=device does not go with --staleness=%d: a server whose worker lags behind "
            "has parameters of its own, on the host",
            t->options->staleness);
    if (!t->worker || t->options->ps_update == PS_UPDATE_HOST)
        return 0;
    if (!t->engine.i->remote) {
        if (t->options->ps_update == PS_UPDATE_DEVICE)
            return error_set("--ps-update=device: the engine '%s' computes in the host's memory",
                             t->engine.i->name);
        return 0;
    }
    if (t->options->ps_update == PS_UPDATE_DEVICE) {
        *remotely = true;
        return 0;
    }
    if (t->options->staleness > 0 || !serves(t))
        return 0;
    if (measure(t, &cluster))
        return -1;
    *remotely = cost_updates_remotely(&cluster);
    LOG_INFO(t->log, "Parameter servers update %s: %.3g GB/s there, %.3g GB/s on the %s",
             *remotely ? "in the device's memory" : "on the host",
             (*remotely ? cluster.serve_Bps : cost_host_update_rate(&cluster)) * 1e-9,
             (*remotely ? cost_host_update_rate(&cluster) : cluster.serve_Bps) * 1e-9,
             *remotely ? "host" : "device");
    return 0;
}

int trainer_place_updates(struct trainer *t)
{
    return error_agree(t->world, decide(t, &t->update_remotely));
}
