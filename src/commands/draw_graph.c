/* The net as a graph for drawing, and as Graphviz's text. */
#include "commands/draw_graph.h"

#include "spec/names.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *fill_of(const char *type)
{
    static const struct {
        const char *part, *fill;
    } kinds[] = {
        {"Data", "#dddddd"},         {"Input", "#dddddd"},       {"Loss", "#f4c7c3"},
        {"Accuracy", "#f4c7c3"},     {"Convolution", "#f8cbad"}, {"Deconvolution", "#f8cbad"},
        {"InnerProduct", "#d9c6ec"}, {"Pooling", "#fce8b2"},     {"Norm", "#cfe2f3"},
        {"LRN", "#cfe2f3"},          {"Scale", "#cfe2f3"},       {"Concat", "#c6e0b4"},
        {"Eltwise", "#c6e0b4"},      {"Slice", "#c6e0b4"},       {"Split", "#c6e0b4"}};

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(type, kinds[i].part) != NULL)
            return kinds[i].fill;
    return "#e8f0e8";
}

static void convolution_detail(const Caffe__ConvolutionParameter *p, char *out, size_t bytes)
{
    uint32_t h = p->has_kernel_h ? p->kernel_h : p->n_kernel_size ? p->kernel_size[0] : 0;
    uint32_t w = p->has_kernel_w        ? p->kernel_w
                 : p->n_kernel_size > 1 ? p->kernel_size[1]
                 : p->n_kernel_size     ? p->kernel_size[0]
                                        : 0;
    uint32_t stride = p->has_stride_h ? p->stride_h : p->n_stride ? p->stride[0] : 1;
    size_t used =
        (size_t)snprintf(out, bytes, "%" PRIu32 ", %" PRIu32 " x %" PRIu32, p->num_output, h, w);

    if (stride != 1)
        used += (size_t)snprintf(out + used, bytes - used, ", stride %" PRIu32, stride);
    if (p->group != 1)
        snprintf(out + used, bytes - used, ", group %" PRIu32, p->group);
}

static void pooling_detail(const Caffe__PoolingParameter *p, char *out, size_t bytes)
{
    static const char *const names[] = {"MAX", "AVE", "STOCHASTIC"};
    const char *name = p->pool >= 0 && p->pool < 3 ? names[p->pool] : "?";

    if (p->global_pooling)
        snprintf(out, bytes, "%s, whole plane", name);
    else
        snprintf(out, bytes, "%s, %" PRIu32 " x %" PRIu32 ", stride %" PRIu32, name,
                 p->has_kernel_h ? p->kernel_h : p->kernel_size,
                 p->has_kernel_w ? p->kernel_w : p->kernel_size,
                 p->has_stride_h ? p->stride_h : p->stride);
}

static void describe(const Caffe__LayerParameter *p, struct draw_node *node)
{
    char *out = node->detail;
    size_t bytes = sizeof node->detail;

    if (p->convolution_param != NULL)
        convolution_detail(p->convolution_param, out, bytes);
    else if (p->pooling_param != NULL)
        pooling_detail(p->pooling_param, out, bytes);
    else if (p->inner_product_param != NULL)
        snprintf(out, bytes, "%" PRIu32, p->inner_product_param->num_output);
    else if (p->dropout_param != NULL)
        snprintf(out, bytes, "%g", (double)p->dropout_param->dropout_ratio);
    else if (p->lrn_param != NULL)
        snprintf(out, bytes, "size %" PRIu32, p->lrn_param->local_size);
    else if (p->data_param != NULL && p->data_param->source != NULL)
        snprintf(out, bytes, "%.80s", p->data_param->source);
}

static void label_edge(const struct net *net, const char *blob, struct draw_edge *edge)
{
    const struct blob *found = net != NULL ? net_find_blob(net, blob) : NULL;
    size_t used = 0;

    if (found == NULL) {
        snprintf(edge->label, sizeof edge->label, "%.60s", blob);
        return;
    }
    for (int i = 0; i < found->value.shape.naxes && used < sizeof edge->label; i++)
        used += (size_t)snprintf(edge->label + used, sizeof edge->label - used, "%s%" PRId64,
                                 i > 0 ? " x " : "", found->value.shape.dim[i]);
    if (net_is_assumed(net) && used < sizeof edge->label)
        snprintf(edge->label + used, sizeof edge->label - used, " assumed");
}

/* Follows the blobs through the layers: `producer` says which node made the latest one of a name.
 */
static int connect(const struct net_def *def, const struct net *net, struct names *producer,
                   struct draw_graph *graph)
{
    for (int l = 0; l < def->nlayers; l++) {
        const struct layer_def *layer = &def->layers[l];
        int node = layer->inserted ? names_get(producer, layer->bottoms[0]) : graph->nnodes;

        if (!layer->inserted) {
            graph->nodes[node] = (struct draw_node){
                .name = layer->name, .type = layer->type, .fill = fill_of(layer->type)};
            describe(layer->param, &graph->nodes[node]);
            graph->nnodes++;
            for (int b = 0; b < layer->nbottoms; b++) {
                struct draw_edge *edge = &graph->edges[graph->nedges++];

                *edge =
                    (struct draw_edge){.from = names_get(producer, layer->bottoms[b]), .to = node};
                label_edge(net, layer->bottoms[b], edge);
            }
        }
        for (int t = 0; t < layer->ntops; t++)
            if (names_set(producer, layer->tops[t], node))
                return -1;
    }
    return 0;
}

int draw_graph_make(const struct net_def *def, const struct net *net, struct draw_graph *out)
{
    struct names producer = {0};
    size_t nedges = 0;
    int status;

    *out = (struct draw_graph){.title = def->name};
    for (int l = 0; l < def->nlayers; l++)
        nedges += (size_t)def->layers[l].nbottoms;
    out->nodes = calloc((size_t)def->nlayers + 1, sizeof *out->nodes);
    out->edges = calloc(nedges + 1, sizeof *out->edges);
    if (out->nodes == NULL || out->edges == NULL)
        status = error_memory(nedges * sizeof *out->edges, "the picture's edges");
    else
        status = connect(def, net, &producer, out);
    names_free(&producer);
    if (status)
        draw_graph_free(out);
    return status;
}

void draw_graph_free(struct draw_graph *graph)
{
    free(graph->nodes);
    free(graph->edges);
    *graph = (struct draw_graph){0};
}

/* Inside double quotes of Graphviz's language. */
static void put_quoted(struct strbuf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            strbuf_putc(out, '\\');
        strbuf_putc(out, *text == '\n' ? ' ' : *text);
    }
}

void draw_dot(const struct draw_graph *graph, struct strbuf *out)
{
    strbuf_puts(out, "digraph \"");
    put_quoted(out, graph->title);
    strbuf_puts(out,
                "\" {\n  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\"];\n"
                "  edge [fontname=\"sans-serif\", fontsize=10];\n");
    for (int i = 0; i < graph->nnodes; i++) {
        const struct draw_node *node = &graph->nodes[i];

        strbuf_printf(out, "  n%d [fillcolor=\"%s\", label=\"", i, node->fill);
        put_quoted(out, node->name);
        strbuf_puts(out, "\\n");
        put_quoted(out, node->type);
        if (node->detail[0] != '\0') {
            strbuf_puts(out, "\\n");
            put_quoted(out, node->detail);
        }
        strbuf_puts(out, "\"];\n");
    }
    for (int i = 0; i < graph->nedges; i++) {
        strbuf_printf(out, "  n%d -> n%d [label=\"", graph->edges[i].from, graph->edges[i].to);
        put_quoted(out, graph->edges[i].label);
        strbuf_puts(out, "\"];\n");
    }
    strbuf_puts(out, "}\n");
}
