/* Layers that apply one function to each element. In training, only functions whose derivative
 * follows from the result work in place. */
#include "layers/layers_internal.h"

#include "util/error.h"

#include <math.h>
#include <string.h>

/* Sets the constants of Exp: base^(shift + scale x) = e^(a x + b). */
static int unary_read_exp(const Caffe__ExpParameter *p, struct unary_args *args)
{
    double log_base = 1; /* log of base e */

    if (p->base_value > 0)
        log_base = log((double)p->base_value);
    else if (p->base_value != -1)
        return error_set("exp_param base is %g; expected -1 (for e) or a number above 0",
                         (double)p->base_value);
    args->a = (float)(log_base * (double)p->scale);
    args->b = (float)(log_base * (double)p->shift);
    return 0;
}

static int unary_read_log(const Caffe__LogParameter *p, struct unary_args *args)
{
    if (p->base_value != -1 && !(p->base_value > 0 && p->base_value != 1))
        return error_set("log_param base is %g; expected -1 (for e) or a number above 0, not 1",
                         (double)p->base_value);
    args->a = p->scale;
    args->b = p->shift;
    args->c = p->base_value == -1 ? 1 : (float)(1 / log((double)p->base_value));
    return 0;
}

static int unary_read_clip(const Caffe__ClipParameter *p, struct unary_args *args)
{
    if (!p || !p->has_min || !p->has_max)
        return error_set("clip_param %s is missing", p && p->has_min ? "max" : "min");
    args->a = p->min;
    args->b = p->max;
    return 0;
}

static int unary_setup(struct layer *layer)
{
#define UNARY_TYPE(name, type, from_top) type,
    static const char *const types[] = {UNARY_LIST(UNARY_TYPE)};
#undef UNARY_TYPE
    const Caffe__LayerParameter *p = layer->param;
    const Caffe__PowerParameter *power =
        LAYER_PARAM(layer, power_param, PowerParameter, POWER_PARAMETER);
    struct unary_args *args = &layer->u.unary;

    args->function = UNARY_ABS;
    while (strcmp(types[args->function], layer->i->type) != 0)
        args->function++;
    layer->flops = (double)shape_elems(&layer->bottoms[0]->value.shape);
    switch (args->function) {
    case UNARY_CLIP:
        return unary_read_clip(p->clip_param, args);
    case UNARY_ELU:
        args->a = p->elu_param ? p->elu_param->alpha : 1;
        return 0;
    case UNARY_EXP:
        return unary_read_exp(LAYER_PARAM(layer, exp_param, ExpParameter, EXP_PARAMETER), args);
    case UNARY_GELU:
        args->a = p->gelu_param && p->gelu_param->approximate;
        return 0;
    case UNARY_LOG:
        return unary_read_log(LAYER_PARAM(layer, log_param, LogParameter, LOG_PARAMETER), args);
    case UNARY_POWER:
        args->a = power->scale;
        args->b = power->shift;
        args->c = power->power;
        return 0;
    case UNARY_SWISH:
        args->a = p->swish_param ? p->swish_param->beta : 1;
        return 0;
    case UNARY_THRESHOLD:
        args->a = p->threshold_param ? p->threshold_param->threshold : 0;
        return 0;
    case UNARY_ABS:
    case UNARY_BNLL:
    case UNARY_RELU6:
    case UNARY_SIGMOID:
    case UNARY_TANH:
        break;
    }
    return 0;
}

static bool unary_elu_wants_own_top(const struct layer *layer)
{
    const Caffe__ELUParameter *p = layer->param->elu_param;

    return p && !(p->alpha >= 0);
}

static bool unary_power_wants_own_top(const struct layer *layer)
{
    const Caffe__PowerParameter *p = layer->param->power_param;

    return p && p->power != 1;
}

#define UNARY(variable, name, ...)                                                                 \
    const struct layer_i variable = {                                                              \
        .type = name,                                                                              \
        .setup = unary_setup,                                                                      \
        .op = OP_UNARY,                                                                            \
        __VA_ARGS__,                                                                               \
    }

UNARY(layer_absval, "AbsVal", .no_in_place = true);
UNARY(layer_bnll, "BNLL", .wants_own_top = layer_always);
UNARY(layer_clip, "Clip", .wants_own_top = layer_always);
UNARY(layer_elu, "ELU", .wants_own_top = unary_elu_wants_own_top, .keeps_top_in_place = true);
UNARY(layer_exp, "Exp", .keeps_top_in_place = true);
UNARY(layer_gelu, "GELU", .wants_own_top = layer_always);
UNARY(layer_log, "Log", .wants_own_top = layer_always);
UNARY(layer_power, "Power", .wants_own_top = unary_power_wants_own_top);
UNARY(layer_relu6, "ReLU6", .keeps_top_in_place = true);
UNARY(layer_sigmoid, "Sigmoid", .keeps_top_in_place = true);
UNARY(layer_swish, "Swish", .wants_own_top = layer_always);
UNARY(layer_tanh, "TanH", .keeps_top_in_place = true);
UNARY(layer_threshold, "Threshold", .no_gradient_to = 1u, .no_gradient_from = 1u);
