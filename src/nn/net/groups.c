/* Groups: the parameters that one layer owns, contiguous in the arenas, as the syncer sees them. */
#include "net/net_internal.h"

#include <assert.h>
#include <string.h>

static int group_of_param(const struct net *net, int param)
{
    for (int g = 0; g < net->ngroups; g++)
        if (param >= net->groups[g].first && param < net->groups[g].first + net->groups[g].nparams)
            return g;
    return -1;
}

int net_groups_of(const struct net *net, int layer, int out[LAYER_MAX_PARAMS])
{
    int count = 0;

    for (int p = 0; p < net->layers[layer].nparams; p++) {
        int group = group_of_param(net, net->internals->param_of_layer[layer][p]);
        int i = 0;
        while (i < count && out[i] < group)
            i++;
        if (group < 0 || (i < count && out[i] == group))
            continue;
        assert(count < LAYER_MAX_PARAMS);
        memmove(out + i + 1, out + i, (size_t)(count - i) * sizeof(int));
        out[i] = group;
        count++;
    }
    return count;
}

static void collect_params(struct net *net, struct group_param *params)
{
    size_t end = 0;

    for (int i = 0; i < net->nparams; i++) {
        int owner = net->internals->layer_of_param[i];
        const struct param *param = &net->params[i];
        struct group *group = net->ngroups ? &net->groups[net->ngroups - 1] : NULL;
        if (!group || group->layer != owner) {
            group = &net->groups[net->ngroups++];
            end = (end + NET_GROUP_ALIGN - 1) / NET_GROUP_ALIGN * NET_GROUP_ALIGN;
            *group = (struct group){.layer = owner,
                                    .name = net->layers[owner].def->name,
                                    .begin = end,
                                    .first = i,
                                    .params = params + i,
                                    .outputs = param->shape.naxes > 1 ? param->shape.dim[0] : 0};
            assert(net->ngroups <= net->nlayers);
        }
        params[i] =
            (struct group_param){shape_elems(&param->shape), param->lr_mult, param->decay_mult};
        group->nparams++;
        group->elems += params[i].elems;
        end += params[i].elems;
        net->nlearnable += params[i].elems;
    }
    net->elems = (end + NET_GROUP_ALIGN - 1) / NET_GROUP_ALIGN * NET_GROUP_ALIGN;
}

/* True if the update rule alone changes the group: it has weight decay but no gradient. */
static bool decays(const struct net *net, const struct group *group)
{
    for (int p = group->first; p < group->first + group->nparams; p++)
        if (net->params[p].lr_mult != 0 && net->params[p].decay_mult != 0)
            return !group->trains;
    return false;
}

/* Sets wants_grad of parameters, and each group's last contributor: the last layer to add to its
 * gradient. For a group that only decays, the syncer is called at its owner. */
static void find_contributors(struct net *net)
{
    struct net_internals *internals = net->internals;

    for (int l = net->nlayers - 1; l >= 0; l--) {
        const struct layer *layer = &net->layers[l];
        int groups[LAYER_MAX_PARAMS], ngroups = net_groups_of(net, l, groups);
        if (!layer->needs_backward)
            continue;
        for (int i = 0; i < ngroups; i++) {
            bool adds = false;
            for (int p = 0; p < layer->nparams; p++) {
                int param = internals->param_of_layer[l][p];
                if (group_of_param(net, param) != groups[i] || net->params[param].lr_mult == 0)
                    continue;
                net->params[param].wants_grad = true;
                adds = true;
            }
            if (!adds)
                continue;
            net->groups[groups[i]].trains = true;
            internals->last_contributor[groups[i]] = l;
        }
    }
    for (int g = 0; g < net->ngroups && net->train; g++) {
        net->groups[g].decays = decays(net, &net->groups[g]);
        if (net->groups[g].decays)
            internals->last_contributor[g] = net->groups[g].layer;
    }
}

static int count_readers(const struct net *net, int group)
{
    int readers = 0;

    for (int l = 0; l < net->nlayers; l++) {
        int groups[LAYER_MAX_PARAMS], ngroups = net_groups_of(net, l, groups);
        for (int i = 0; i < ngroups; i++)
            readers += groups[i] == group;
    }
    return readers;
}

static void find_factors(struct net *net, struct group *group)
{
    const struct layer *layer = &net->layers[group->layer];
    const struct shape *top = &layer->tops[0]->value.shape;

    if (!layer->i->factorable)
        return;
    group->m = top->dim[top->naxes - 1];
    group->n = (int64_t)shape_elems(&layer->params[0]->shape) / group->m;
    group->k = (int64_t)shape_count(top, 0, top->naxes - 1);
    assert(group->m > 0 && group->m * group->n == (int64_t)shape_elems(&layer->params[0]->shape));
    group->factorable = layer->i->factorable(layer) && group->nparams == layer->nparams &&
                        layer->params[0]->wants_grad &&
                        count_readers(net, (int)(group - net->groups)) == 1;
}

int net_make_groups(struct net *net)
{
    struct net_internals *internals = net->internals;
    size_t nlayers = (size_t)net->nlayers + 1;
    struct group_param *params;
    int groups[LAYER_MAX_PARAMS];

    if (OWN(&net->internals->owner, net->groups, nlayers, "the parameter groups") ||
        OWN(&net->internals->owner, params, net->nparams + 1, "the parameter groups") ||
        OWN(&net->internals->owner, net->group_of_layer, nlayers, "the parameter groups") ||
        OWN(&net->internals->owner, internals->last_contributor, nlayers, "the parameter groups"))
        return -1;
    collect_params(net, params);
    for (int g = 0; g < net->ngroups; g++)
        internals->last_contributor[g] = -1;
    for (int l = 0; l < net->nlayers; l++)
        net->group_of_layer[l] = net_groups_of(net, l, groups) > 0 ? groups[0] : -1;
    find_contributors(net);
    for (int g = 0; g < net->ngroups; g++)
        find_factors(net, &net->groups[g]);
    return 0;
}
