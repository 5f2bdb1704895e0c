/* Checks while training: where a value stopped being a number, and whether the ranks still have the
 * same parameters. */
#include "solver/trainer_internal.h"

#include "util/error.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- NaN and infinity ---- */

/* The first value that is none; -1: all are finite. */
static int64_t find_nonfinite(const float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return (int64_t)i;
    return -1;
}

/* Puts into `out` where parameters hold one; false: they do not. */
static bool find_in_params(const struct trainer *t, struct strbuf *out)
{
    for (int g = 0; g < t->net->ngroups; g++) {
        const struct param_group *group = &t->net->groups[g];
        for (int p = group->first; p < group->first + group->nparams; p++) {
            const float *values = net_host_value(t->net, &t->net->params[p]);
            int64_t at = find_nonfinite(values, shape_elems(&t->net->params[p].shape));
            if (at < 0)
                continue;
            strbuf_printf(
                out, "parameter %d of layer '%s' holds %g at %" PRId64 ": an update before made it",
                p - group->first, group->name, (double)values[at], at);
            return true;
        }
    }
    return false;
}

/* What a layer has just made. */
static bool find_in_tops(const struct trainer *t, const struct layer *layer, struct strbuf *out)
{
    for (int b = 0; b < layer->ntops; b++) {
        size_t count = shape_elems(&layer->tops[b]->value.shape);
        float *values = malloc((count + 1) * sizeof *values);
        int64_t at = values && net_read_blob(t->net, layer->tops[b], values) == 0
                         ? find_nonfinite(values, count)
                         : -1;
        if (at >= 0)
            strbuf_printf(out, "it arose in layer '%s', blob '%s': %g at %" PRId64 " of %zu",
                          layer->def->name, layer->tops[b]->name, (double)values[at], at, count);
        free(values);
        if (at >= 0)
            return true;
    }
    return false;
}

/* Most blobs share memory, so what stood in them is made once more, layer by layer; data layers' is
 * there still. */
void trainer_find_nonfinite(struct trainer *t, const struct run *run, struct strbuf *out)
{
    if (net_pull_values(t->net) || find_in_params(t, out))
        return;
    for (int l = 0; l < t->net->nlayers; l++) {
        const struct layer *layer = &t->net->layers[l];
        if (!layer->i->is_data && net_layer_forward(t->net, l, run))
            return;
        if (find_in_tops(t, layer, out))
            return;
    }
}

/* ---- --on-nan ---- */

enum { SKIPS_IN_A_ROW = 10 };

int on_nan_parse(const char *text, int *skips)
{
    char end;

    *skips = 0;
    if (!strcmp(text, "stop"))
        return 0;
    *skips = SKIPS_IN_A_ROW;
    if (!strcmp(text, "skip") || (sscanf(text, "skip,%d%c", skips, &end) == 1 && *skips > 0))
        return 0;
    return error_set("--on-nan expects stop, skip, or skip,N with the number of updates in a row "
                     "that end training (skip is skip,%d), found '%s'",
                     SKIPS_IN_A_ROW, text);
}

static size_t count_statistics(const struct net *net)
{
    size_t count = 0;

    for (int p = 0; p < net->nparams; p++)
        count += net->params[p].statistic ? shape_elems(&net->params[p].shape) : 0;
    return count;
}

int trainer_open_skips(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    size_t count = t->worker && !t->blank ? count_statistics(t->net) : 0;

    if (o->skip_nan <= 0)
        return 0;
    for (int b = 0; b < t->plan->nbuckets; b++)
        for (int c = t->plan->buckets[b].first_chunk, n = t->plan->buckets[b].nchunks; n > 0;
             c++, n--)
            if (t->plan->buckets[b].scheme && plan_codec(t->plan, c))
                return error_set("--on-nan=skip: layer '%s' travels with error feedback (onebit, "
                                 "--wire=bf16), whose residual would keep what is not finite for "
                                 "later updates; use another --comm, or --wire=fp32",
                                 t->plan->buckets[b].name);
    if (count == 0)
        return 0;
    if (t->engine.i->device)
        return error_set("--on-nan=skip: the running averages of BatchNorm are in the memory of "
                         "--engine=%s and cannot be taken back; use --engine=cpu",
                         o->engine);
    t->statistics = malloc(count * sizeof *t->statistics);
    return t->statistics ? 0 : error_memory(count * sizeof *t->statistics, "running averages");
}

void trainer_keep_statistics(struct trainer *t)
{
    float *to = t->statistics;

    for (int p = 0; to && p < t->net->nparams; p++)
        if (t->net->params[p].statistic) {
            size_t n = shape_elems(&t->net->params[p].shape);
            memcpy(to, net_host_value(t->net, &t->net->params[p]), n * sizeof *to);
            to += n;
        }
}

void trainer_restore_statistics(struct trainer *t)
{
    const float *from = t->statistics;
    bool bad = false;

    for (int p = 0; from && p < t->net->nparams && !bad; p++)
        bad = t->net->params[p].statistic &&
              find_nonfinite(net_host_value(t->net, &t->net->params[p]),
                             shape_elems(&t->net->params[p].shape)) >= 0;
    for (int p = 0; bad && p < t->net->nparams; p++)
        if (t->net->params[p].statistic) {
            size_t n = shape_elems(&t->net->params[p].shape);
            memcpy(net_host_value(t->net, &t->net->params[p]), from, n * sizeof *from);
            from += n;
        }
}

void trainer_tell_skips(struct trainer *t)
{
    struct sync_skips skips;

    if (t->options->skip_nan <= 0 || t->rank != 0)
        return;
    skips = sync_skips(t->sync);
    if (skips.count == t->skips_told)
        return;
    t->skips_told = skips.count;
    LOG_WARNING(t->log,
                "The update of iteration %" PRId64 " is left out: the gradient of layer '%s' is "
                "not finite (%" PRId64 " in a row, %" PRId64 " in all; %d in a row end training)",
                skips.iteration, t->plan->buckets[skips.bucket].name, skips.in_a_row, skips.count,
                t->options->skip_nan);
}

/* ---- --check-sync ---- */

/* 52 bits, which a double holds, of the parameters that training keeps alike. */
static double digest_values(const struct net *net)
{
    struct sha256 hash;
    unsigned char digest[32];
    uint64_t bits = 0;

    sha256_init(&hash);
    for (int p = 0; p < net->nparams; p++)
        if (!net->params[p].statistic)
            sha256_update(&hash, net_host_value(net, &net->params[p]),
                          shape_elems(&net->params[p].shape) * sizeof(float));
    sha256_final(&hash, digest);
    for (int i = 0; i < 6; i++)
        bits = bits << 8 | digest[i];
    return (double)bits;
}

int trainer_check_sync(struct trainer *t, int64_t iteration)
{
    double *digests;
    int status, other = -1;

    if (sync_wait_all(t->sync, iteration - 1))
        return -1;
    if (!t->worker)
        return 0;
    digests = calloc((size_t)t->nworkers, sizeof *digests);
    if (!digests)
        return error_memory((size_t)t->nworkers * sizeof *digests, "--check-sync");
    status = net_pull_values(t->net);
    digests[t->rank] = digest_values(t->net);
    if (!status)
        status = sync_sum(t->sync, digests, t->nworkers);
    for (int r = 1; r < t->nworkers && !status && other < 0; r++)
        if (digests[r] != digests[0])
            other = r;
    free(digests);
    if (!status && other >= 0)
        return error_set("iteration %" PRId64 ": --check-sync: the parameters of rank %d on %s are "
                         "not those of rank 0 on %s: memory or a link is damaged, or this is a "
                         "defect; --resume goes on from the newest snapshot",
                         iteration, other, t->topology.host[other], t->topology.host[0]);
    return status;
}
