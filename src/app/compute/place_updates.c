/* Decides if servers apply the solver on the host or on their worker's device. Both give the same
 * bits, so each rank may decide by its own measurements. */
#include "compute/net_exchange.h"

#include "util/agree.h"
#include "util/error.h"
#include "util/units.h"

static bool serves_parameters(const struct exchange *exchange)
{
    for (int b = 0; b < exchange->plan->nbuckets; b++) {
        const struct scheme *scheme = exchange->plan->buckets[b].scheme;
        if (scheme && (scheme->home == HOME_SERVERS || scheme->home == HOME_OWNER))
            return !plan_is_alone(exchange->plan);
    }
    return false;
}

/* Returns the cluster's measured figures, or measures this rank if there are none. */
static int measure_servers(const struct exchange *exchange, const struct device *device,
                           struct cost_cluster *out)
{
    *out = exchange->probe.cluster;
    if (exchange->probed)
        return 0;
    return error_status(probe_serving(device, &out->serve_Bps) || probe_sums(&out->sum_Bps));
}

static int decide(const struct net_exchange *mine, const struct exchange *exchange, bool *remotely)
{
    const struct job *job = mine->job;
    const struct engine *engine = &mine->compute->engine;
    struct cost_cluster cluster;

    *remotely = false;
    if (!job->worker || job->options->ps_update == PS_UPDATE_HOST || job->solver->local_lr_auto)
        return 0;
    if (!engine->device.i->own_memory) {
        if (job->options->ps_update == PS_UPDATE_DEVICE)
            return error_set(
                "--tune=ps-update=device: the engine '%s' computes in the host's memory",
                engine->i->name);
        return 0;
    }
    if (job->options->ps_update == PS_UPDATE_DEVICE) {
        *remotely = true;
        return 0;
    }
    if (job_apart(job) || !serves_parameters(exchange))
        return 0;
    if (measure_servers(exchange, &engine->device, &cluster))
        return -1;
    *remotely = cost_updates_remotely(&cluster);
    LOG_INFO(job->log, "Parameter servers update %s: %s there, %s on the %s",
             *remotely ? "in the device's memory" : "on the host",
             units_rate(*remotely ? cluster.serve_Bps : cost_host_update_rate(&cluster)).text,
             units_rate(*remotely ? cost_host_update_rate(&cluster) : cluster.serve_Bps).text,
             *remotely ? "host" : "device");
    return 0;
}

int net_exchange_place_updates_all(const struct net_exchange *mine, const struct exchange *exchange,
                                   bool *on_device)
{
    return error_agree(mine->job->world, decide(mine, exchange, on_device));
}
