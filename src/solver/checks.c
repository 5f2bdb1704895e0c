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
