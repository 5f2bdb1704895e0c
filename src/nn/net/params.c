/* Parameters: each layer's declared parameters, unless shared by name within the net, or by layer
 * name with the training net. */
#include "net/net_internal.h"

#include "util/alloc.h"
#include "util/units.h"

#include <stdlib.h>
#include <string.h>

/* A named parameter, which later layers may share. */
struct shared {
    const char *name;
    struct param *param;    /* this net's or the training net's */
    int index;              /* in net->params, or -1 */
    int layer;              /* layer that owns the parameter */
    bool has_lr, has_decay; /* the definition gives lr_mult, decay_mult */
};

struct sharing {
    struct net *net;
    const struct layer_env *env;
    int nshared;
    struct shared *shared;
};

static const Caffe__ParamSpec *spec_of(const struct layer *layer, int p)
{
    return (size_t)p < layer->param->n_param ? layer->param->param[p] : NULL;
}

static const char *share_name(const struct layer *layer, int p)
{
    const Caffe__ParamSpec *spec = spec_of(layer, p);

    return spec && spec->name && spec->name[0] ? spec->name : NULL;
}

static struct shared *find_shared(struct sharing *sharing, const char *name)
{
    for (int i = 0; name && i < sharing->nshared; i++)
        if (strcmp(sharing->shared[i].name, name) == 0)
            return &sharing->shared[i];
    return NULL;
}

static void remember_name(struct sharing *sharing, const struct layer *layer, int p)
{
    const Caffe__ParamSpec *spec = spec_of(layer, p);

    if (!share_name(layer, p))
        return;
    sharing->shared[sharing->nshared++] = (struct shared){
        .name = spec->name,
        .param = layer->params[p],
        .index = sharing->net->internals->param_of_layer[layer->index][p],
        .layer = layer->index,
        .has_lr = spec->has_lr_mult,
        .has_decay = spec->has_decay_mult,
    };
}

static void add_param(struct sharing *sharing, struct layer *layer, int p)
{
    struct net *net = sharing->net;
    const Caffe__ParamSpec *spec = spec_of(layer, p);
    struct param *param = &net->params[net->nparams];

    param->shape = layer->param_defs[p].shape;
    param->statistic = layer->param_defs[p].statistic;
    param->lr_mult = param->statistic ? 0 : spec ? spec->lr_mult : 1;
    param->decay_mult = spec ? spec->decay_mult : 1;
    layer->params[p] = param;
    net->internals->layer_of_param[net->nparams] = layer->index;
    net->internals->param_of_layer[layer->index][p] = net->nparams++;
    remember_name(sharing, layer, p);
}

static int check_shared_shape(const struct sharing *sharing, const struct layer *layer, int p,
                              const struct shared *owner)
{
    const struct shape *shape = &layer->param_defs[p].shape;
    bool permissive =
        spec_of(layer, p)->share_mode == CAFFE__PARAM_SPEC__DIM_CHECK_MODE__PERMISSIVE;
    const char *owner_name = sharing->net->layers[owner->layer].def->name;

    if (permissive && shape_elems(shape) == shape_elems(&owner->param->shape))
        return 0;
    if (!permissive && shape_equal(shape, &owner->param->shape))
        return 0;
    return error_set("parameter %d shares '%s' with layer '%s', whose %s is %s; here it is %s", p,
                     owner->name, owner_name, permissive ? "number of elements" : "shape",
                     shape_text(&owner->param->shape).text, shape_text(shape).text);
}

/* Fails if a given multiplier differs from one given before; the first given value holds. */
static int agree(const struct shared *owner, const char *field, bool has, float value,
                 bool *owner_has, float *owner_value)
{
    if (!has || (*owner_has && *owner_value == value))
        return 0;
    if (*owner_has)
        return error_set("shared parameter '%s' has %s %g here, but %g before", owner->name, field,
                         (double)value, (double)*owner_value);
    *owner_value = value;
    *owner_has = true;
    return 0;
}

static void add_view(struct net *net, struct layer *layer, int p, int owner)
{
    struct net_internals *internals = net->internals;
    struct param *view = &internals->views[internals->nviews];

    *view = net->params[owner];
    view->shape = layer->param_defs[p].shape;
    internals->view_of[internals->nviews++] = owner;
    layer->params[p] = view;
}

static int use_shared(struct sharing *sharing, struct layer *layer, int p, struct shared *owner)
{
    const Caffe__ParamSpec *spec = spec_of(layer, p);
    struct net *net = sharing->net;
    bool theirs = owner->index < 0; /* the training net's parameter, not to be changed */

    if (check_shared_shape(sharing, layer, p, owner))
        return -1;
    if (theirs && !shape_equal(&owner->param->shape, &layer->param_defs[p].shape))
        return error_set("parameter %d shares '%s' of the training net under another shape", p,
                         owner->name);
    if (!theirs && (agree(owner, "lr_mult", spec->has_lr_mult, spec->lr_mult, &owner->has_lr,
                          &owner->param->lr_mult) ||
                    agree(owner, "decay_mult", spec->has_decay_mult, spec->decay_mult,
                          &owner->has_decay, &owner->param->decay_mult)))
        return -1;
    layer->params[p] = owner->param;
    net->internals->param_of_layer[layer->index][p] = owner->index;
    if (!theirs && !shape_equal(&owner->param->shape, &layer->param_defs[p].shape))
        add_view(net, layer, p, owner->index);
    return 0;
}

static bool is_named_twice(const struct net *net, const struct layer *layer)
{
    int count = 0;

    for (int l = 0; l < net->nlayers; l++)
        count += !strcmp(net->layers[l].def->name, layer->def->name);
    return count > 1;
}

/* Finds the training net's layer of that name and checks for the same parameters. *out NULL:
 * none. */
static int find_trained(const struct net *net, const struct layer *layer, const struct layer **out)
{
    const struct layer *trained = NULL;

    *out = NULL;
    if (net->owner_of_params && layer->nparams > 0)
        trained = net_find_layer(net->owner_of_params, layer->def->name);
    if (!trained)
        return 0;
    if (trained->nparams != layer->nparams)
        return error_set("expected %s, as this layer has in the training net, found %d",
                         units_count(trained->nparams, "parameter").text, layer->nparams);
    for (int p = 0; p < layer->nparams; p++) {
        const struct shape *theirs = &trained->params[p]->shape;
        const struct shape *ours = &layer->param_defs[p].shape;
        if (!shape_equal(theirs, ours))
            return error_set("parameter %d has shape %s in the training net, but here it is %s%s",
                             p, shape_text(theirs).text, shape_text(ours).text,
                             is_named_twice(net, layer)
                                 ? "; several layers have this name, and the last is compared: "
                                   "give each its own name"
                                 : "");
    }
    *out = trained;
    return 0;
}

static int make_layer_params(struct sharing *sharing, struct layer *layer)
{
    struct net *net = sharing->net;
    const struct layer *trained;
    bool own = false;

    if (layer->param->n_param > (size_t)layer->nparams)
        return error_set("found %zu param { } for a layer of %s", layer->param->n_param,
                         units_count(layer->nparams, "parameter").text);
    if (find_trained(net, layer, &trained))
        return -1;
    for (int p = 0; p < layer->nparams; p++) {
        struct shared *owner = find_shared(sharing, share_name(layer, p));
        if (trained) {
            layer->params[p] = trained->params[p];
            net->internals->param_of_layer[layer->index][p] = -1;
            if (!owner)
                remember_name(sharing, layer, p);
        } else if (owner) {
            if (use_shared(sharing, layer, p, owner))
                return -1;
        } else {
            add_param(sharing, layer, p);
            own = true;
        }
    }
    if (own && net->owner_of_params)
        return layer_notice(layer, sharing->env,
                            "not in the training net: its parameters keep the fillers' values");
    return 0;
}

int net_make_params(struct net *net, const struct layer_env *env)
{
    static const char what[] = "the parameters";
    struct sharing sharing = {.net = net, .env = env};
    struct net_internals *internals = net->internals;
    size_t declared = 0;
    int status = 0;

    for (int l = 0; l < net->nlayers; l++)
        declared += (size_t)net->layers[l].nparams;
    if (OWN(&net->internals->owner, net->params, declared + 1, what) ||
        OWN(&net->internals->owner, internals->views, declared + 1, what) ||
        OWN(&net->internals->owner, internals->view_of, declared + 1, what) ||
        OWN(&net->internals->owner, internals->layer_of_param, declared + 1, what) ||
        OWN(&net->internals->owner, internals->written, declared + 1, what) ||
        OWN(&net->internals->owner, internals->param_of_layer, net->nlayers + 1, what) ||
        ALLOC(sharing.shared, declared + 1, what))
        status = -1;
    for (int l = 0; !status && l < net->nlayers; l++)
        if (make_layer_params(&sharing, &net->layers[l]))
            status = net_layer_error(net, l);
    for (int p = 0; env->no_bias_decay && p < net->nparams; p++)
        if (net->params[p].shape.naxes < 2)
            net->params[p].decay_mult = 0;
    free(sharing.shared);
    return status;
}
