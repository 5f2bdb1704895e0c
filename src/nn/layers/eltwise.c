/* Eltwise: the product, sum or maximum of several blobs, element by element. */
#include "layers/layers_internal.h"

#include "util/error.h"
#include "util/units.h"

static int eltwise_setup(struct layer *layer)
{
    const Caffe__EltwiseParameter *p =
        LAYER_PARAM(layer, eltwise_param, EltwiseParameter, ELTWISE_PARAMETER);

    if (p->n_coeff > 0 && p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD)
        return error_set("coeff needs operation: SUM");
    if (p->n_coeff > 0 && p->n_coeff != (size_t)layer->nbottoms)
        return error_set("found %s of coeff for %s; expected one each, or none",
                         units_count((long long)p->n_coeff, "value").text,
                         units_count(layer->nbottoms, "bottom").text);
    if (layer_expect_one_shape(layer))
        return -1;
    layer->u.eltwise = (struct eltwise_args){
        .operation = p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD  ? ELTWISE_PROD
                     : p->operation == CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX ? ELTWISE_MAX
                                                                                 : ELTWISE_SUM,
    };
    if (layer->u.eltwise.operation == ELTWISE_SUM && p->n_coeff > 0) /* MAX ignores coeff */
        layer->u.eltwise.coeff = p->coeff;
    layer->flops = (double)shape_elems(&layer->bottoms[0]->value.shape) * layer->nbottoms;
    return 0;
}

static bool eltwise_takes_relu(const struct layer *layer)
{
    return layer->u.eltwise.operation == ELTWISE_SUM;
}

const struct layer_i layer_eltwise = {
    .type = "Eltwise",
    .bottoms = {2, OP_ANY},
    .tops = {1, 1},
    .own_top = true,
    .takes_relu = eltwise_takes_relu,
    .setup = eltwise_setup,
    .op = OP_ELTWISE,
};
