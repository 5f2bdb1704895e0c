/* Sizes that operators derive from their arguments. */
#include "engine/op_size.h"

#include "engine/op_check.h"

#include <assert.h>

struct op_axes op_axes_at(const struct shape *shape, int axis)
{
    int at = op_axis(shape, axis);

    assert(at >= 0 && at < shape->naxes);
    return (struct op_axes){.outer = (int64_t)shape_count(shape, 0, at),
                            .length = shape->dim[at],
                            .inner = (int64_t)shape_count(shape, at + 1, shape->naxes)};
}

struct op_axes op_axes_from(const struct shape *shape, int axis)
{
    int from = op_axis(shape, axis);

    assert(from >= 0);
    return (struct op_axes){.outer = (int64_t)shape_count(shape, 0, from),
                            .length = (int64_t)shape_count(shape, from, shape->naxes),
                            .inner = 1};
}

struct op_product op_inner_product_size(const struct op_args *args)
{
    struct op_axes x = op_axes_from(&args->bottoms[0]->value.shape, args->u.inner_product.axis);

    return (struct op_product){.rows = x.outer,
                               .inputs = x.length,
                               .outputs =
                                   (int64_t)shape_elems(&args->tops[0]->value.shape) / x.outer};
}

int64_t op_conv_places(const struct conv_args *a, int i, int64_t size)
{
    int64_t extent = a->dilation[i] * (int64_t)(a->kernel[i] - 1) + 1;
    int64_t room = size + 2 * (int64_t)a->pad[i] - extent;

    return room < 0 ? 0 : room / a->stride[i] + 1;
}

int64_t op_window_places(const int kernel[OP_SPATIAL], int axes)
{
    int64_t places = 1;

    for (int i = 0; i < axes; i++)
        places *= kernel[i];
    return places;
}

struct op_windows op_conv_windows(const struct conv_args *a, const struct shape *image,
                                  const struct shape *places)
{
    struct op_windows w;

    for (int i = 0; i < OP_SPATIAL; i++) {
        int from = i + image->naxes - 2 - OP_SPATIAL; /* axis in the arguments; below 0: none */
        bool exists = from >= 0;

        w.size[i] = exists ? image->dim[2 + from] : 1;
        w.places[i] = exists ? places->dim[2 + from] : 1;
        w.kernel[i] = exists ? a->kernel[from] : 1;
        w.stride[i] = exists ? a->stride[from] : 1;
        w.pad[i] = exists ? a->pad[from] : 0;
        w.dilation[i] = exists ? a->dilation[from] : 1;
    }
    return w;
}

struct op_windows op_pool_windows(const struct pool_args *a, const struct shape *image,
                                  const struct shape *places)
{
    struct conv_args conv = {.group = 1};

    for (int i = 0; i < OP_SPATIAL; i++) {
        conv.kernel[i] = a->kernel[i];
        conv.stride[i] = a->stride[i];
        conv.pad[i] = a->pad[i];
        conv.dilation[i] = 1;
    }
    return op_conv_windows(&conv, image, places);
}

struct op_windows op_spp_windows(const struct shape *image, int level)
{
    struct op_windows w = {.size = {1, image->dim[2], image->dim[3]},
                           .places = {1, (int64_t)1 << level, (int64_t)1 << level},
                           .kernel = {1},
                           .stride = {1}};

    for (int i = 1; i < OP_SPATIAL; i++) {
        w.kernel[i] = w.stride[i] = (int)((w.size[i] + w.places[i] - 1) / w.places[i]);
        w.pad[i] = (int)((w.kernel[i] * w.places[i] - w.size[i] + 1) / 2);
    }
    return w;
}

struct op_axes op_argmax_axes(const struct op_args *args)
{
    const struct argmax_args *a = &args->u.argmax;
    const struct shape *x = &args->bottoms[0]->value.shape;

    return a->has_axis ? op_axes_at(x, a->axis) : op_axes_from(x, 1);
}

int64_t op_mvn_groups(const struct op_args *args)
{
    const struct shape *x = &args->bottoms[0]->value.shape;

    return shape_dim(x, 0) * (args->u.mvn.across ? 1 : shape_dim(x, 1));
}

int64_t op_scale_factors(const struct op_args *args)
{
    const struct scale_args *a = &args->u.scale;

    return (int64_t)shape_count(&args->bottoms[0]->value.shape, a->axis, a->axis + a->naxes);
}

int64_t op_spp_places(int levels)
{
    int64_t places = 0;

    for (int l = 0; l < levels; l++)
        places += (int64_t)1 << 2 * l;
    return places;
}

double op_loss_divisor(enum loss_normalization normalization, int64_t places, int64_t outer)
{
    return normalization == LOSS_FULL         ? (double)places
           : normalization == LOSS_VALID      ? 0
           : normalization == LOSS_BATCH_SIZE ? (double)outer
                                              : 1;
}

bool op_unary_from_top(const struct unary_args *args)
{
    switch (args->function) {
#define UNARY_CASE(name, type, from_top)                                                           \
    case UNARY_##name:                                                                             \
        return from_top;
        UNARY_LIST(UNARY_CASE)
#undef UNARY_CASE
    }
    return false;
}

/* ---- work ---- */

/* Numbers read and written by a pass. */
struct traffic {
    double blobs, params;
};

static double blob_elems(const struct blob *blob)
{
    return (double)shape_elems(&blob->value.shape);
}

/* Sums the elements of the blobs that `which` selects; NULL: of all blobs. */
static double blobs_elems(struct blob *const *blobs, int n, const bool *which)
{
    double elems = 0;

    for (int i = 0; i < n; i++)
        elems += !which || which[i] ? blob_elems(blobs[i]) : 0;
    return elems;
}

/* Sums the elements of the bottoms whose gradient is wanted. */
static double written_elems(const struct op_args *args)
{
    return args->propagate ? blobs_elems(args->bottoms, args->nbottoms, args->propagate) : 0;
}

/* Sums the elements of the tops that have a gradient. */
static double gradient_elems(const struct op_args *args)
{
    double elems = 0;

    for (int t = 0; t < args->ntops; t++)
        elems += args->tops[t]->wants_grad ? blob_elems(args->tops[t]) : 0;
    return elems;
}

static double param_elems(const struct op_args *args, bool learnt)
{
    double elems = 0;

    for (int p = 0; p < args->nparams; p++)
        elems += !learnt || args->params[p]->wants_grad
                     ? (double)shape_elems(&args->params[p]->shape)
                     : 0;
    return elems;
}

/* Returns true if tops share the bottom's memory, or a dropout drops nothing. */
static bool moves_nothing(const struct op_args *args)
{
    return args->kind == OP_FLATTEN || args->kind == OP_SPLIT ||
           (args->kind == OP_DROPOUT && args->u.dropout.ratio == 0);
}

static struct traffic forward_traffic(const struct op_args *args)
{
    struct traffic t = {blobs_elems(args->bottoms, args->nbottoms, NULL) +
                            blobs_elems(args->tops, args->ntops, NULL),
                        param_elems(args, false)};

    if (moves_nothing(args))
        t.blobs = 0;
    /* the batch's statistics need all of x before the first y */
    if (args->kind == OP_BATCH_NORM && !args->u.batch_norm.global_stats)
        t.blobs += blob_elems(args->bottoms[0]);
    return t;
}

/* Counts two products, for the gradients of parameters and of bottoms: each reads dy and a second
 * factor. A fused ReLU first reads dy and y, and writes dy. */
static struct traffic product_backward(const struct op_args *args)
{
    double learnt = param_elems(args, true), written = written_elems(args);
    double x = blob_elems(args->bottoms[0]), dy = blob_elems(args->tops[0]);
    bool relu = args->relu && (learnt > 0 || written > 0);

    return (struct traffic){
        (relu ? 3 * dy : 0) + (learnt > 0 ? x + dy : 0) + (written > 0 ? dy + written : 0),
        learnt + (written > 0 ? (double)shape_elems(&args->params[0]->shape) : 0)};
}

static struct traffic batch_norm_backward(const struct op_args *args)
{
    double learnt = param_elems(args, true), written = written_elems(args);
    double x = blob_elems(args->bottoms[0]);
    bool fixed = args->u.batch_norm.global_stats;

    /* sums over dy and x; then dx from dy and x or, with global_stats, from dy alone */
    return (struct traffic){(!fixed || learnt > 0 ? 2 * x : 0) +
                                (written > 0 ? (fixed ? 1 : 2) * x + written : 0),
                            learnt + param_elems(args, false)};
}

static struct traffic backward_traffic(const struct op_args *args)
{
    double written = written_elems(args), dy = gradient_elems(args);
    double learnt = param_elems(args, true);

    switch (args->kind) {
    case OP_CONV:
    case OP_DECONV:
    case OP_INNER_PRODUCT:
        return product_backward(args);
    case OP_BATCH_NORM:
        return batch_norm_backward(args);
    case OP_FLATTEN:
        return (struct traffic){0, 0};
    case OP_SPLIT: /* the gradient of a single top is the bottom's already */
        return (struct traffic){written > 0 && dy > blob_elems(args->tops[0]) ? dy + written : 0,
                                0};
    default:
        break;
    }
    if (moves_nothing(args) || (written == 0 && learnt == 0))
        return (struct traffic){0, 0};
    if (args->kind == OP_ELTWISE ? args->u.eltwise.operation == ELTWISE_PROD
                                 : !op_signature(args->kind)->blind_backward)
        dy += blobs_elems(args->bottoms, args->nbottoms, NULL);
    if (args->relu) /* backward reads y: dx is 0 where y is not positive */
        dy += blob_elems(args->tops[0]);
    for (int b = 0; args->kind == OP_CONCAT && args->u.concat.relu && b < args->nbottoms; b++)
        dy += args->u.concat.relu[b] && args->propagate[b] ? blob_elems(args->bottoms[b]) : 0;
    return (struct traffic){written + dy, learnt + param_elems(args, false)};
}

/* Returns the multiply-adds of a product's forward pass, or the elements of all windows; else 0. */
static double product_size(const struct op_args *args)
{
    struct op_product product;
    int spatial;

    switch (args->kind) {
    case OP_CONV:
    case OP_DECONV: /* each weight is used at every place of the smaller plane */
        return blob_elems(args->kind == OP_CONV ? args->tops[0] : args->bottoms[0]) *
               (double)shape_elems(&args->params[0]->shape) /
               (double)shape_dim(&args->params[0]->shape, 0);
    case OP_INNER_PRODUCT:
        product = op_inner_product_size(args);
        return (double)product.rows * (double)product.inputs * (double)product.outputs;
    case OP_POOL:
        spatial = args->bottoms[0]->value.shape.naxes - 2;
        return blob_elems(args->tops[0]) * (double)op_window_places(args->u.pool.kernel, spatial);
    case OP_IM2COL:
        spatial = args->bottoms[0]->value.shape.naxes - 2;
        return blob_elems(args->bottoms[0]) *
               (double)op_window_places(args->u.conv.kernel, spatial);
    default:
        return 0;
    }
}

static double backward_flops(const struct op_args *args, double size)
{
    if (args->kind == OP_POOL || args->kind == OP_IM2COL)
        return written_elems(args) > 0 ? size : 0;
    return 2 * size * ((param_elems(args, true) > 0) + (written_elems(args) > 0));
}

/* Adds up the elements of blobs, and their bytes: of bfloat16 where the engine stores that. */
static void add_blobs(struct blob *const *blobs, int n, double *elems, double *bytes)
{
    for (int i = 0; i < n; i++) {
        const struct tensor *value = &blobs[i]->value;
        size_t floats = shape_elems(&value->shape) * sizeof(float);

        *elems += blob_elems(blobs[i]);
        *bytes += (double)(value->bytes > 0 && value->bytes < floats ? value->bytes : floats);
    }
}

/* Returns the mean bytes of an element of the operator's blobs. */
static double element_bytes(const struct op_args *args)
{
    double elems = 0, bytes = 0;

    add_blobs(args->bottoms, args->nbottoms, &elems, &bytes);
    add_blobs(args->tops, args->ntops, &elems, &bytes);
    return elems > 0 ? bytes / elems : sizeof(float);
}

struct op_work op_work(const struct op_args *args, enum op_pass pass)
{
    struct traffic traffic = pass == OP_FORWARD ? forward_traffic(args) : backward_traffic(args);
    double size = product_size(args);
    struct op_work work = {.flops = traffic.blobs + traffic.params,
                           .blob_bytes = traffic.blobs * element_bytes(args),
                           .param_bytes = traffic.params * sizeof(float)};

    if (pass == OP_BACKWARD && !args->train)
        return (struct op_work){0};
    if (size > 0 && pass == OP_FORWARD)
        work.flops = args->kind == OP_POOL || args->kind == OP_IM2COL ? size : 2 * size;
    else if (size > 0)
        work.flops = backward_flops(args, size);
    return work;
}
