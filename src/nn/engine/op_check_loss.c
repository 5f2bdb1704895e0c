/* Checks of softmax, accuracy and losses. */
#include "engine/op_check_internal.h"
#include "engine/op_size.h"
#include "util/error.h"

static int loss_check_normalization(enum loss_normalization normalization)
{
    return op_check_choice("normalization", (int)normalization, LOSS_NONE + 1);
}

/* Checks that bottom 0 has scores along `axis`, bottom 1 a label per place, top 0 one number. */
static int loss_check_scores(const struct op_args *args, int axis)
{
    struct op_axes scores;
    int at;

    if (shape_axis(op_bottom_shape(args, 0), axis, &at))
        return -1;
    scores = op_axes_at(op_bottom_shape(args, 0), at);
    if (op_check_bottom_elems(args, 1, scores.outer * scores.inner, "labels, one for each place,"))
        return -1;
    return op_check_top_elems(args, 0, 1);
}

/* Checks that both bottoms have the same batch and number of elements. */
static int loss_check_pair(const struct op_args *args)
{
    const struct shape *a = op_bottom_shape(args, 0), *b = op_bottom_shape(args, 1);

    if (a->naxes == 0 || b->naxes == 0 || a->dim[0] != b->dim[0] ||
        shape_elems(a) != shape_elems(b))
        return error_set("expected two bottoms of equally many samples and elements: '%s' is %s, "
                         "'%s' is %s",
                         op_bottom_name(args, 0), shape_text(a).text, op_bottom_name(args, 1),
                         shape_text(b).text);
    return op_check_top_elems(args, 0, 1);
}

static int softmax_check(const struct op_args *args)
{
    int axis;

    return shape_axis(op_bottom_shape(args, 0), args->u.softmax.axis, &axis);
}

const struct op_signature op_signature_softmax = {
    {1, 1}, {1, 1}, .like_bottom = true, .check = softmax_check};

static int softmax_loss_check(const struct op_args *args)
{
    const struct loss_args *a = &args->u.softmax_loss;

    if (loss_check_scores(args, a->axis) || loss_check_normalization(a->normalization))
        return -1;
    if (!(a->smoothing >= 0 && a->smoothing < 1))
        return error_set("smoothing is %g; expected 0 to below 1", (double)a->smoothing);
    return args->ntops == 2 ? op_check_top_like_bottom(args, 1) : 0;
}

const struct op_signature op_signature_softmax_loss = {
    {2, 2}, {1, 2}, .no_gradient_to = 1u << 1, .check = softmax_loss_check};

static int accuracy_check(const struct op_args *args)
{
    const struct accuracy_args *a = &args->u.accuracy;
    int64_t classes;

    if (loss_check_scores(args, a->axis))
        return -1;
    classes = op_axes_at(op_bottom_shape(args, 0), a->axis).length;
    if (op_check_top_k(a->top_k, classes, "classes"))
        return -1;
    return args->ntops == 2 ? op_check_top_elems(args, 1, classes) : 0;
}

const struct op_signature op_signature_accuracy = {{2, 2}, {1, 2}, .check = accuracy_check};

static int sigmoid_loss_check(const struct op_args *args)
{
    if (loss_check_pair(args))
        return -1;
    return loss_check_normalization(args->u.sigmoid_loss.normalization);
}

const struct op_signature op_signature_sigmoid_loss = {
    {2, 2}, {1, 1}, .no_gradient_to = 1u << 1, .check = sigmoid_loss_check};

const struct op_signature op_signature_euclidean_loss = {{2, 2}, {1, 1}, .check = loss_check_pair};

/* Checks that bottom 1 has a label per row of bottom 0. */
static int loss_check_rows(const struct op_args *args)
{
    if (op_check_bottom_elems(args, 1, shape_dim(op_bottom_shape(args, 0), 0),
                              "labels, one per sample,"))
        return -1;
    return op_check_top_elems(args, 0, 1);
}

const struct op_signature op_signature_hinge_loss = {
    {2, 2}, {1, 1}, .no_gradient_to = 1u << 1, .check = loss_check_rows};

const struct op_signature op_signature_multinomial_loss = {
    {2, 2}, {1, 1}, .no_gradient_to = 1u << 1, .check = loss_check_rows};

static int contrastive_loss_check(const struct op_args *args)
{
    if (loss_check_pair(args))
        return -1;
    return op_check_bottom_elems(args, 2, shape_dim(op_bottom_shape(args, 0), 0),
                                 "similarities, one per pair,");
}

const struct op_signature op_signature_contrastive_loss = {
    {3, 3}, {1, 1}, .no_gradient_to = 1u << 2, .check = contrastive_loss_check};

static int infogain_loss_check(const struct op_args *args)
{
    const struct loss_args *a = &args->u.infogain_loss;
    int64_t classes;

    if (loss_check_scores(args, a->axis) || loss_check_normalization(a->normalization))
        return -1;
    classes = op_axes_at(op_bottom_shape(args, 0), a->axis).length;
    if (args->nbottoms == 3 &&
        op_check_bottom_elems(args, 2, classes * classes, "values of a classes x classes matrix"))
        return -1;
    if (args->nbottoms == 2 && !a->matrix)
        return error_set("has no matrix: expected a third bottom, or a matrix in the arguments");
    return args->ntops == 2 ? op_check_top_like_bottom(args, 1) : 0;
}

const struct op_signature op_signature_infogain_loss = {
    {2, 3}, {1, 2}, .no_gradient_to = 3u << 1, .check = infogain_loss_check};
