/* Eltwise: the product, sum or maximum of several blobs, element by element. */
#include "layers/layers_internal.h"

#include "util/error.h"

static int eltwise_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__EltwiseParameter *p = layer->param->eltwise_param;
    const struct shape *first = &layer->bottoms[0]->value.shape;
    char expected[SHAPE_TEXT_BYTES], found[SHAPE_TEXT_BYTES];

    (void)env;
    if (p && p->n_coeff > 0 && p->operation != CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM)
        return error_set("coeff goes with operation: SUM only");
    if (p && p->n_coeff > 0 && p->n_coeff != (size_t)layer->nbottoms)
        return error_set("found %zu values of coeff for %d bottoms; expected one each, or none",
                         p->n_coeff, layer->nbottoms);
    for (int b = 1; b < layer->nbottoms; b++) {
        const struct shape *other = &layer->bottoms[b]->value.shape;
        if (!shape_equal(first, other))
            return error_set("bottoms must have one shape: '%s' is %s, '%s' is %s",
                             layer->bottoms[0]->name, shape_text(first, expected, sizeof(expected)),
                             layer->bottoms[b]->name, shape_text(other, found, sizeof(found)));
    }
    layer_tops_like_bottom(layer);
    layer->flops = (double)shape_elems(first) * layer->nbottoms;
    return 0;
}

static int eltwise_arguments(const struct layer *layer, struct op_args *args)
{
    const Caffe__EltwiseParameter *p = layer->param->eltwise_param;

    args->u.eltwise.operation = ELTWISE_SUM;
    if (p && p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD)
        args->u.eltwise.operation = ELTWISE_PROD;
    if (p && p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX)
        args->u.eltwise.operation = ELTWISE_MAX;
    args->u.eltwise.coeff = p && p->n_coeff > 0 ? p->coeff : NULL;
    args->u.eltwise.relu = layer->fused != NULL;
    return 0;
}

static enum op_kind eltwise_takes_relu(const struct layer *layer)
{
    const Caffe__EltwiseParameter *p = layer->param->eltwise_param;

    return p && p->operation != CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM ? OP_KINDS : OP_ELTWISE;
}

const struct layer_i layer_eltwise = {
    .type = "Eltwise",
    .min_bottoms = 2,
    .max_bottoms = -1,
    .min_tops = 1,
    .max_tops = 1,
    .own_top = true,
    .takes_relu = eltwise_takes_relu,
    .setup = eltwise_setup,
    .op = OP_ELTWISE,
    .arguments = eltwise_arguments,
};
