/* Checks during training: finds where a value stopped being finite, and compares the ranks'
 * parameters. */
#include "watch/monitor.h"

#include "report/outputs.h"
#include "sync/sync.h"
#include "job/rates.h"
#include "keep/scores.h"
#include "util/alloc.h"
#include "util/finite.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- NaN and infinity ---- */

/* Appends to `out` where a NaN or infinity arose, if found. Returns true if the data has it.
 * Searches without other ranks. Sets running averages that the pass made NaN or infinite to 0. */
static bool find_nonfinite(struct monitor *monitor, const struct pass *pass, struct strbuf *out)
{
    struct net *net = monitor->compute->net;
    struct grains *grains = &monitor->compute->grains;
    const struct layer *source;

    monitor->alone = true;
    if (net_pull_values(net))
        return false;
    if (checkpoint_look(net, true)) {
        strbuf_printf(out, "an earlier update made it: %s", error_text());
        return false;
    }
    compute_statistics(monitor->compute, grains->mean, false);
    for (size_t i = 0; i < grains->nstatistics; i++)
        grains->mean[i] = isfinite(grains->mean[i]) ? grains->mean[i] : 0;
    if (compute_put_statistics(monitor->compute, monitor->job))
        return false;
    source = net_find_nonfinite(net, pass, out);
    return source && source->i->is_data;
}

/* Returns true if another rank reports the NaN within 2 s; --sync-bn spreads a NaN to all ranks. */
static bool another_found(const struct monitor *monitor, struct sync *sync)
{
    const struct timespec tenth = {.tv_nsec = 100000000};
    bool found = false;

    for (int i = 0; i < 20 && monitor->job->options->sync_bn && !found; i++) {
        found = sync_wait_all(sync, 0) != 0;
        nanosleep(&tenth, NULL);
    }
    return found;
}

int monitor_report_divergence(struct monitor *monitor, const struct rates *rates, int64_t iteration,
                              const struct pass *pass, struct sync *sync, double loss)
{
    struct strbuf where = {.data = NULL}, row = {.data = NULL};
    bool in_data = find_nonfinite(monitor, pass, &where);

    if (!where.length && another_found(monitor, sync))
        goto out;                           /* sync_close will return the other rank's message */
    loss = isnan(loss) ? fabs(loss) : loss; /* prints "nan", not "-nan" */
    if (monitor->job->options->skip_nan > 0)
        strbuf_printf(&row, ", and %d updates in a row were to be left out (--on-nan=skip)",
                      monitor->bad_losses);
    if (in_data)
        error_set("iteration %" PRId64 ": loss = %g%s: %s: fix the data%s", iteration, loss,
                  strbuf_text(&row), strbuf_text(&where),
                  row.length ? "" : ", or let --on-nan=skip leave such updates out");
    else if (iteration == 0)
        error_set(
            "iteration 0: loss = %g%s, before any update: check data, fillers and weights%s%s",
            loss, strbuf_text(&row), where.length ? "; " : "", strbuf_text(&where));
    else
        error_set("iteration %" PRId64 ": loss = %g%s: training has diverged; lower base_lr (the "
                  "rate is %g now), or set clip_gradients%s%s",
                  iteration, loss, strbuf_text(&row), (double)rates_of(rates, iteration),
                  where.length ? "; " : "", strbuf_text(&where));
out:
    strbuf_free(&row);
    strbuf_free(&where);
    return -1;
}

/* Losses use log(FLT_MIN), -87.3365, for log(0). */
void monitor_explain_loss(struct monitor *monitor, double loss)
{
    double times = -loss / log((double)FLT_MIN);

    if (monitor->explained || !(times > 0.5) || fabs(times - round(times)) > 1e-5 * times)
        return;
    monitor->explained = true;
    LOG_WARNING(
        monitor->job->log,
        "The loss %g is %.0f times 87.3365, the -log of the smallest float: the net gives every "
        "right class the probability 0. Usual causes: base_lr is too high, the data are not scaled "
        "(transform_param { scale: 0.00390625 }), or labels do not match the outputs",
        loss, round(times));
}

int monitor_check_outcome(struct monitor *monitor, const struct rates *rates,
                          const struct scores *scores, int64_t end)
{
    double loss = 0;

    if (scores->iteration == end)
        loss = scores->values[outputs_count(monitor->compute->tests[0])];
    if (run_check_values(monitor->run, rates, end))
        return -1;
    if (!isfinite(loss))
        return error_set("after iteration %" PRId64
                         ": the test's loss is %g, and all parameters are finite: check the test "
                         "data, lower base_lr, or set clip_gradients",
                         end, loss);
    return 0;
}

/* ---- --on-nan ---- */

enum { SKIPS_IN_A_ROW = 10 };

int on_nan_parse(const char *option, const char *text, void *target)
{
    int *skips = target;
    char end;

    *skips = 0;
    if (!strcmp(text, "stop"))
        return 0;
    *skips = SKIPS_IN_A_ROW;
    if (!strcmp(text, "skip") || (sscanf(text, "skip,%d%c", skips, &end) == 1 && *skips > 0))
        return 0;
    return error_set("%s expects stop, skip, or skip,N with the number of updates in a row "
                     "that end training (skip is skip,%d), found '%s'",
                     option, SKIPS_IN_A_ROW, text);
}

int monitor_open_skips(struct monitor *monitor, const struct plan *plan)
{
    const struct trainer_options *o = monitor->job->options;
    size_t count = monitor->job->worker && !monitor->job->blank
                       ? compute_statistics(monitor->compute, NULL, false)
                       : 0;

    if (o->skip_nan <= 0)
        return 0;
    for (int b = 0; b < plan->nbuckets; b++)
        for (int c = plan->buckets[b].first_chunk, n = plan->buckets[b].nchunks; n > 0; c++, n--)
            if (plan->buckets[b].scheme && plan_codec(plan, c))
                return error_set("--on-nan=skip: layer '%s' travels with error feedback (onebit, "
                                 "bf16), whose residual would carry NaN and infinity into later "
                                 "updates; use another --comm without --lossy",
                                 plan->buckets[b].name);
    if (count == 0 || job_shares(monitor->job) > 1) /* each grain keeps its own running averages */
        return 0;
    if (monitor->compute->engine.device.i->describe)
        return error_set("--on-nan=skip: the running averages of BatchNorm are in the memory of "
                         "--engine=%s and cannot be restored; use --engine=cpu",
                         o->engine);
    return OWN(monitor->job->owner, monitor->statistics, 2 * count, "running averages");
}

void monitor_keep_statistics(struct monitor *monitor)
{
    if (monitor->statistics)
        compute_statistics(monitor->compute, monitor->statistics, false);
}

void monitor_restore_statistics(struct monitor *monitor)
{
    size_t count = monitor->statistics ? compute_statistics(monitor->compute, NULL, false) : 0;
    float *now;

    if (count == 0)
        return;
    now = monitor->statistics + count;
    compute_statistics(monitor->compute, now, false);
    if (finite_begin(now, count) < count)
        compute_statistics(monitor->compute, monitor->statistics, true);
}

void monitor_tell_skips(struct monitor *monitor, const struct plan *plan, struct sync *sync)
{
    struct sync_skips skips;

    if (monitor->job->options->skip_nan <= 0 || monitor->job->rank != 0)
        return;
    skips = sync_skips(sync);
    if (skips.count == monitor->skips_told)
        return;
    monitor->skips_told = skips.count;
    LOG_WARNING(monitor->job->log,
                "The update of iteration %" PRId64 " is left out: the gradient of layer '%s' is "
                "not finite (%" PRId64 " in a row, %" PRId64 " in all; %d in a row end training)",
                skips.iteration, plan->buckets[skips.bucket].name, skips.in_a_row, skips.count,
                monitor->job->options->skip_nan);
}

/* ---- --check-sync ---- */

/* Returns the digest's first 52 bits of the parameters that all ranks share; a double holds 52. */
static double digest_values(const struct net *net)
{
    char hex[SHA256_HEX];

    checkpoint_hash(net, false, hex);
    hex[13] = '\0';
    return (double)strtoull(hex, NULL, 16);
}

int checks_compare_values(const struct job *job, const struct compute *compute, struct sync *sync,
                          int64_t iteration)
{
    double *digests;
    int status, differing = -1;

    if (sync_wait_all(sync, iteration - 1))
        return -1;
    if (!job->worker)
        return 0;
    if (ALLOC(digests, job->nworkers, "--tune=check-sync"))
        return -1;
    status = net_pull_values(compute->net);
    digests[job->rank] = digest_values(compute->net);
    if (!status)
        status = sync_sum(sync, digests, job->nworkers);
    for (int r = 1; r < job->nworkers && !status && differing < 0; r++)
        if (digests[r] != digests[0])
            differing = r;
    free(digests);
    if (!status && differing >= 0)
        return error_set("iteration %" PRId64
                         ": --tune=check-sync: the parameters of rank %d on %s differ from those "
                         "of rank 0 on %s: memory or a link is damaged, or poseidon has a defect; "
                         "--resume continues from the newest snapshot",
                         iteration, differing, job->topology.host[differing],
                         job->topology.host[0]);
    return status;
}
