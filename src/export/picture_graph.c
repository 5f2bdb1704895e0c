/* The net as a graph for drawing: what its boxes and edges say. */
#include "export/picture_internal.h"

#include "layers/spatial.h"
#include "spec/names.h"
#include "util/alloc.h"
#include "util/strbuf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "3 x 3", for so many axes; "?" where a value is missing. */
static void put_window(struct strbuf *out, const struct spatial_field *field, int axes)
{
    for (int i = 0; i < axes; i++) {
        int64_t value = spatial_at(field, i);

        strbuf_puts(out, i > 0 ? " x " : "");
        strbuf_printf(out, value < 0 ? "?" : "%" PRId64, value);
    }
}

/* How many values say it: as many as the net lists, and one where height and width are alike. */
static int window_values(const struct spatial_field *field, int axes)
{
    if (field->n > 1)
        return axes;
    for (int i = 1; i < axes; i++)
        if (spatial_at(field, i) != spatial_at(field, 0))
            return axes;
    return 1;
}

static void put_convolution(struct strbuf *out, const Caffe__ConvolutionParameter *p, int axes)
{
    const struct spatial_field kernel = spatial_of(&p->base, SPATIAL_KERNEL);
    const struct spatial_field stride = spatial_of(&p->base, SPATIAL_STRIDE);
    int strides = window_values(&stride, axes);

    strbuf_printf(out, "%" PRIu32 ", ", p->num_output);
    put_window(out, &kernel, axes);
    if (strides > 1 || spatial_at(&stride, 0) != 1) {
        strbuf_puts(out, ", stride ");
        put_window(out, &stride, strides);
    }
    if (p->group != 1)
        strbuf_printf(out, ", group %" PRIu32, p->group);
}

static void put_pooling(struct strbuf *out, const Caffe__PoolingParameter *p, int axes)
{
    static const char *const names[] = {"MAX", "AVE", "STOCHASTIC"};
    const struct spatial_field kernel = spatial_of(&p->base, SPATIAL_KERNEL);
    const struct spatial_field stride = spatial_of(&p->base, SPATIAL_STRIDE);

    strbuf_printf(out, "%s, ", p->pool >= 0 && p->pool < 3 ? names[p->pool] : "?");
    if (p->global_pooling) {
        strbuf_puts(out, "whole plane");
        return;
    }
    put_window(out, &kernel, axes);
    strbuf_puts(out, ", stride ");
    put_window(out, &stride, window_values(&stride, axes));
}

/* The axes behind batch and channels of what the layer reads; two where that is not known. */
static int spatial_axes(const struct net *net, const struct layer_def *layer)
{
    const struct blob *blob =
        net != NULL && layer->nbottoms > 0 ? net_find_blob(net, layer->bottoms[0]) : NULL;
    int axes = blob != NULL ? blob->value.shape.naxes - 2 : 2;

    return axes > 0 && axes <= OP_SPATIAL ? axes : 2;
}

static void describe(const Caffe__LayerParameter *p, int axes, struct picture_node *node)
{
    struct strbuf out = {0};

    if (p->convolution_param)
        put_convolution(&out, p->convolution_param, axes);
    else if (p->pooling_param)
        put_pooling(&out, p->pooling_param, axes);
    else if (p->inner_product_param)
        strbuf_printf(&out, "%" PRIu32, p->inner_product_param->num_output);
    else if (p->dropout_param)
        strbuf_printf(&out, "%g", (double)p->dropout_param->dropout_ratio);
    else if (p->lrn_param)
        strbuf_printf(&out, "size %" PRIu32, p->lrn_param->local_size);
    else if (p->data_param && p->data_param->source)
        strbuf_printf(&out, "%.80s", p->data_param->source);
    snprintf(node->detail, sizeof node->detail, "%s", strbuf_text(&out));
    strbuf_free(&out);
}

static void describe_blob(const struct net *net, struct picture_blob *blob)
{
    const struct blob *found = net != NULL ? net_find_blob(net, blob->name) : NULL;

    if (found)
        snprintf(blob->shape, sizeof blob->shape, "%.54s%s",
                 shape_product(&found->value.shape).text,
                 found->value.shape.naxes > 0 && net_is_assumed(net) ? " assumed" : "");
}

/* The parameters that layer `l` owns, and how they travel. */
static void add_params(const struct net *net, int l, const struct picture_plan *plan,
                       struct picture_node *node)
{
    for (int g = 0; net && g < net->ngroups; g++) {
        struct way_text way;

        if (net->groups[g].layer != l)
            continue;
        node->params += net->groups[g].elems;
        if (!plan)
            continue;
        way = way_name(plan->chosen[g]);
        if (!strstr(node->scheme, way.text))
            buffer_list(node->scheme, sizeof node->scheme, way.text);
    }
}

static bool is_in_place(const struct layer_def *layer)
{
    return !layer->inserted && layer->nbottoms == 1 && layer->ntops == 1 &&
           !strcmp(layer->bottoms[0], layer->tops[0]);
}

static void add_in_place(const struct layer_def *layer, const struct net *net,
                         struct picture_node *node)
{
    struct picture_node alone = {.name = layer->name};
    char words[128];

    describe(layer->param, spatial_axes(net, layer), &alone);
    snprintf(words, sizeof words, "%s%s%s", layer->type, *alone.detail ? " " : "", alone.detail);
    buffer_list(node->inside, sizeof node->inside, words);
    buffer_list(node->inside_names, sizeof node->inside_names, layer->name);
}

/* A layer with a box of its own. `maker` says which blob is the latest of a name. */
static int add_node(const struct layer_def *layer, const struct net *net, struct names *maker,
                    struct picture_graph *graph)
{
    struct picture_node *node = &graph->nodes[graph->nnodes];

    *node = (struct picture_node){.name = layer->name,
                                  .type = layer->type,
                                  .first_blob = graph->nblobs,
                                  .nblobs = layer->ntops,
                                  .first_edge = graph->nedges,
                                  .nedges = layer->nbottoms,
                                  .shown = graph->nnodes,
                                  .first = graph->nnodes};
    describe(layer->param, spatial_axes(net, layer), node);
    for (int b = 0; b < layer->nbottoms; b++)
        graph->edges[graph->nedges++] =
            (struct picture_edge){names_get(maker, layer->bottoms[b]), graph->nnodes};
    for (int t = 0; t < layer->ntops; t++) {
        graph->blobs[graph->nblobs] =
            (struct picture_blob){.name = layer->tops[t], .node = graph->nnodes};
        describe_blob(net, &graph->blobs[graph->nblobs]);
        if (names_set(maker, layer->tops[t], graph->nblobs++))
            return -1;
    }
    graph->nnodes++;
    return 0;
}

static int add_layers(const struct net_def *def, const struct net *net,
                      const struct picture_plan *plan, struct names *maker,
                      struct picture_graph *graph)
{
    for (int l = 0; l < def->nlayers; l++) {
        const struct layer_def *layer = &def->layers[l];
        int node = graph->nnodes;

        if (layer->inserted) {
            for (int t = 0; t < layer->ntops; t++)
                if (names_set(maker, layer->tops[t], names_get(maker, layer->bottoms[0])))
                    return -1;
            continue;
        }
        if (is_in_place(layer)) {
            node = graph->blobs[names_get(maker, layer->bottoms[0])].node;
            add_in_place(layer, net, &graph->nodes[node]);
        } else if (add_node(layer, net, maker, graph)) {
            return -1;
        }
        add_params(net, l, plan, &graph->nodes[node]);
    }
    return 0;
}

int picture_graph_make(const struct net_def *def, const struct net *net,
                       const struct picture_plan *plan, struct picture_graph *out)
{
    struct names maker = {0};
    size_t nedges = 0, nblobs = 0, nlayers = (size_t)def->nlayers;
    int status = -1;

    *out = (struct picture_graph){.title = def->name,
                                  .plan_nodes = plan ? plan->nodes : 0,
                                  .assumed = net && net_is_assumed(net),
                                  .params = net ? net->nlearnable : 0};
    for (int l = 0; l < def->nlayers; l++) {
        nedges += (size_t)def->layers[l].nbottoms;
        nblobs += (size_t)def->layers[l].ntops;
    }
    out->nodes = alloc_array(nlayers, sizeof *out->nodes, "the picture's boxes");
    out->blobs = alloc_array(nblobs, sizeof *out->blobs, "the picture's blobs");
    out->edges = alloc_array(nedges, sizeof *out->edges, "the picture's edges");
    if (out->nodes && out->blobs && out->edges)
        status = add_layers(def, net, plan, &maker, out);
    names_free(&maker);
    if (status)
        picture_graph_free(out);
    return status;
}

void picture_graph_free(struct picture_graph *graph)
{
    free(graph->nodes);
    free(graph->blobs);
    free(graph->edges);
    *graph = (struct picture_graph){0};
}
