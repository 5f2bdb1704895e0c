/* Estimates or reads the compute times of a net's layers. */
#include "forecast/layer_times.h"

#include "engine/replay/profile.h"
#include "util/owner.h"

static double moved_bytes(const struct layer *layer)
{
    double bytes = 0;

    for (int b = 0; b < layer->nbottoms; b++)
        bytes += (double)shape_elems(&layer->bottoms[b]->value.shape) * sizeof(float);
    for (int t = 0; t < layer->ntops; t++)
        bytes += (double)shape_elems(&layer->tops[t]->value.shape) * sizeof(float);
    return bytes;
}

/* Returns the products of a layer's backward, each as large as the forward product: one for the
 * weights' gradient and one for the bottoms'. */
static double backward_products(const struct layer *layer)
{
    bool weights = false, bottoms = false;

    for (int p = 0; p < layer->nparams; p++)
        weights |= layer->params[p]->wants_grad;
    for (int b = 0; b < layer->nbottoms; b++)
        bottoms |= layer->propagate[b];
    return !layer->needs_backward ? 0
           : layer->nparams == 0  ? 1
                                  : (weights ? 1 : 0) + (bottoms ? 1 : 0);
}

static void find_layers(const struct net *net, struct layer_times *work)
{
    int groups[LAYER_MAX_PARAMS];

    for (int g = 0; g < net->ngroups; g++)
        work->layer[g] = net->groups[g].layer;
    for (int l = net->nlayers - 1; l >= 0; l--) {
        int n = net_groups_of(net, l, groups);
        for (int i = 0; i < n; i++)
            work->layer[groups[i]] = l;
    }
}

/* Finds the sums over all workers: of two values per BatchNorm channel, and at first the count. */
static int find_joins(struct owner *owner, const struct net *net, struct layer_times *work)
{
    int n = net->nlayers;

    for (int l = 0; l < n; l++) {
        const struct layer *layer = &net->layers[l];
        if (!layer->joins)
            continue;
        if (!work->join && OWN(owner, work->join, 2 * (size_t)n, "the layers' times"))
            return -1;
        double bytes = 2 * (double)shape_elems(&layer->params[0]->shape) * sizeof(double);
        work->join[l] = (struct layer_join){1, bytes + sizeof(double)};
        if (layer->propagate[0])
            work->join[2 * n - 1 - l] = (struct layer_join){1, bytes};
    }
    return 0;
}

static int allocate(struct owner *owner, const struct net *net, struct layer_times *out)
{
    size_t layers = (size_t)net->nlayers, groups = (size_t)net->ngroups;

    *out = (struct layer_times){.nlayers = net->nlayers, .ngroups = net->ngroups};
    if (OWN(owner, out->forward, layers, "the layers' times") ||
        OWN(owner, out->backward, layers, "the layers' times") ||
        OWN(owner, out->layer, groups, "the layers' times"))
        return -1;
    find_layers(net, out);
    return find_joins(owner, net, out);
}

int layer_times_estimate(struct owner *owner, const struct net *net,
                         const struct cost_cluster *cluster, struct layer_times *out)
{
    if (allocate(owner, net, out))
        return -1;
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        double products = layer->flops / cluster->gemm_flops;
        double moves =
            moved_bytes(layer) / 2 / cluster->copy_Bps; /* a copy reads and writes each byte */
        out->forward[l] = products > moves ? products : moves;
        out->backward[l] = backward_products(layer) * out->forward[l];
    }
    return 0;
}

/* Takes the layers' times from a profile, which may lack layers that the net inserted (splits). */
static int take_times(const struct net *net, const struct profile *profile,
                      struct layer_times *work)
{
    for (int l = 0; l < net->nlayers; l++) {
        const struct profile_layer *times = profile_find(profile, net->layers[l].def->name);
        if (!times && net->layers[l].def->inserted)
            continue;
        if (!times)
            return error_set("%s: there is no line for layer '%s' of %s", profile->file,
                             net->layers[l].def->name, net->def->file);
        work->forward[l] = times->forward;
        work->backward[l] = times->backward;
    }
    return layer_times_total(work) > 0 ? 0
                                       : error_set("%s: all layers' times are 0", profile->file);
}

int layer_times_read(struct owner *owner, const struct net *net, const char *file,
                     struct cost_cluster *cluster, struct layer_times *out)
{
    const struct profile_layer *product, *update, *copy;
    struct profile profile;
    int status;

    if (profile_read(file, &profile))
        return -1;
    status = error_status(allocate(owner, net, out) || take_times(net, &profile, out));
    product = profile_find(&profile, PROFILE_GEMM);
    if (!status && product && product->forward > 0)
        cluster->gemm_flops = 1e9 / product->forward;
    update = profile_find(&profile, PROFILE_UPDATE);
    if (!status && update && update->forward > 0)
        cluster->update_Bps = 1e9 * sizeof(float) / update->forward;
    copy = profile_find(&profile, PROFILE_COPY);
    if (!status && copy && copy->forward > 0 && cluster->device_Bps <= 0)
        cluster->device_Bps = 2e9 / (copy->forward + copy->backward);
    profile_free(&profile);
    return status;
}

void layer_times_stretch(struct layer_times *times, double seconds)
{
    double factor = seconds / layer_times_total(times);

    for (int l = 0; l < times->nlayers; l++) {
        times->forward[l] *= factor;
        times->backward[l] *= factor;
    }
}

/* Adds passes as one long layer on top: only the first pass's forward waits for parameters, and
 * only the last pass's backward makes gradients final. */
void layer_times_repeat(struct layer_times *work, int iter_size)
{
    int last = work->nlayers - 1;
    struct layer_join all = {0};

    work->forward[last] += (iter_size - 1) * layer_times_total(work);
    for (int i = 0; i < 2 * work->nlayers && work->join; i++) {
        all.sums += work->join[i].sums;
        all.bytes += work->join[i].bytes;
    }
    if (work->join) {
        work->join[last].sums += (iter_size - 1) * all.sums;
        work->join[last].bytes += (iter_size - 1) * all.bytes;
    }
}
