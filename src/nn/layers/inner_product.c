/* InnerProduct: top (rows x O) = bottom (rows x K) W^T + b. Rows are the axes before `axis`, K the
 * product of the axes from there on. */
#include "layers/layers_internal.h"

#include "util/error.h"

static int inner_product_setup(struct layer *layer)
{
    const Caffe__InnerProductParameter *p = layer->param->inner_product_param;
    const struct shape *bottom = &layer->bottoms[0]->value.shape;
    struct shape *top = &layer->tops[0]->value.shape;
    struct shape outer = *bottom;
    int axis;

    if (!p)
        return error_set("inner_product_param is missing; it must give num_output");
    if (!p->has_num_output || p->num_output == 0 || p->num_output > INT32_MAX)
        return error_set("num_output is %s; expected at least 1",
                         p->has_num_output ? "out of range" : "missing");
    if (layer_resolve_axis(layer, "axis", p->axis, &axis))
        return -1;
    int64_t inputs = (int64_t)shape_count(bottom, axis, bottom->naxes);
    int64_t outputs = outer.dim[axis] = p->num_output;
    int64_t weight[2] = {p->transpose ? inputs : outputs, p->transpose ? outputs : inputs};
    if (shape_set(top, axis + 1, outer.dim, layer->tops[0]->name))
        return -1;
    layer->flops = 2.0 * (double)shape_elems(top) * (double)inputs;
    layer->u.inner_product = (struct inner_product_args){axis, p->bias_term, p->transpose};
    return layer_declare_weights(layer, 2, weight, p->weight_filler, p->bias_term, outputs,
                                 p->bias_filler);
}

static bool inner_product_factorable(const struct layer *layer)
{
    return !layer->param->inner_product_param->transpose && layer->tops[0]->value.shape.naxes == 2;
}

const struct layer_i layer_inner_product = {
    .type = "InnerProduct",
    .no_in_place = true,
    .factorable = inner_product_factorable,
    .setup = inner_product_setup,
    .op = OP_INNER_PRODUCT,
};
