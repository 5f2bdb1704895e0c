/* Checks of operators: counts by each operator's signature, and checks that many share. */
#include "engine/op_check.h"

#include "engine/op_check_internal.h"
#include "util/error.h"

#include <assert.h>
#include <inttypes.h>

int op_check_count(const char *what, int found, struct op_count count)
{
    int min = count.least, max = count.most;

    if (found >= min && (max == OP_ANY || found <= max))
        return 0;
    if (max == OP_ANY)
        return error_set("takes at least %d %s%s, not %d", min, what, min == 1 ? "" : "s", found);
    if (min == max)
        return error_set("takes %d %s%s, not %d", min, what, min == 1 ? "" : "s", found);
    return error_set("takes %d to %d %ss, not %d", min, max, what, found);
}

static int op_check_empty(const char *what, struct blob **blobs, int n)
{
    for (int i = 0; i < n; i++)
        if (shape_elems(&blobs[i]->value.shape) == 0)
            return error_set("%s '%s' has no elements: its shape is %s", what,
                             blobs[i]->name ? blobs[i]->name : "?",
                             shape_text(&blobs[i]->value.shape).text);
    return 0;
}

static int op_check_in_place(const struct op_args *args, const struct op_signature *s)
{
    for (int t = 0; t < args->ntops; t++)
        for (int b = 0; b < args->nbottoms; b++)
            if (args->tops[t] == args->bottoms[b] && !(s->in_place && t == 0 && b == 0))
                return error_set("cannot work in place: top %d is bottom %d", t, b);
    if (s->in_place == OP_UNTRAINED && op_args_in_place(args) && args->train)
        return error_set("cannot be trained in place");
    return 0;
}

static int op_check_gradients(const struct op_args *args, unsigned forbidden)
{
    for (int b = 0; b < args->nbottoms && forbidden >> b; b++)
        if ((forbidden >> b & 1) && op_args_propagates(args, b))
            return error_set("backward cannot write a gradient to bottom %d", b);
    return 0;
}

int op_check_call(const struct op_args *args)
{
    const struct op_signature *s = op_signature(args->kind);

    if (op_check_count("bottom", args->nbottoms, s->bottoms) ||
        op_check_count("top", args->ntops, s->tops) ||
        op_check_count("parameter", args->nparams, s->params) ||
        op_check_empty("bottom", args->bottoms, args->nbottoms) ||
        op_check_empty("top", args->tops, args->ntops) || op_check_in_place(args, s) ||
        op_check_gradients(args, s->no_gradient_to) ||
        (s->like_bottom && op_check_top_like_bottom(args, 0)))
        return -1;
    return s->check ? s->check(args) : 0;
}

const struct op_signature *op_signature(enum op_kind kind)
{
    static const struct op_signature *const signatures[] = {
#define OPERATOR_SIGNATURE(ENUM, name, words, args) &op_signature_##name,
        OPERATORS(OPERATOR_SIGNATURE)
#undef OPERATOR_SIGNATURE
    };

    assert(kind >= 0 && kind < OP_KINDS);
    return signatures[kind];
}

int op_check(const struct op_args *args)
{
    if (args->kind < 0 || args->kind >= OP_KINDS)
        return error_set("there is no operator %d", (int)args->kind);
    if (op_check_call(args))
        return error_context("%s", op_kind_name(args->kind));
    return 0;
}

int op_check_top_like_bottom(const struct op_args *args, int i)
{
    if (shape_equal(op_top_shape(args, i), op_bottom_shape(args, 0)))
        return 0;
    return error_set("top %d must have the bottom's shape %s, not %s", i,
                     shape_text(op_bottom_shape(args, 0)).text,
                     shape_text(op_top_shape(args, i)).text);
}

int op_check_top_elems(const struct op_args *args, int i, int64_t expected)
{
    size_t found = shape_elems(op_top_shape(args, i));

    if (found == (size_t)expected)
        return 0;
    return error_set("top %d has %zu elements, not %" PRId64, i, found, expected);
}

int op_check_bottom_elems(const struct op_args *args, int i, int64_t expected, const char *what)
{
    if (shape_elems(op_bottom_shape(args, i)) == (size_t)expected)
        return 0;
    return error_set("expected %" PRId64 " %s for '%s' of shape %s, found '%s' of shape %s",
                     expected, what, op_bottom_name(args, 0),
                     shape_text(op_bottom_shape(args, 0)).text, op_bottom_name(args, i),
                     shape_text(op_bottom_shape(args, i)).text);
}

int op_check_has_channels(const struct op_args *args)
{
    const struct shape *x = op_bottom_shape(args, 0);

    if (x->naxes >= 2)
        return 0;
    return error_set("expected a bottom of at least 2 axes (N,C), found '%s' of %d: %s",
                     op_bottom_name(args, 0), x->naxes, shape_text(x).text);
}

int op_check_top_k(int top_k, int64_t values, const char *what)
{
    if (top_k >= 1 && top_k <= values)
        return 0;
    return error_set("top_k is %d; expected 1 to the number of %s, %" PRId64, top_k, what, values);
}

/* Checks that bottom and top have `least` to `most` axes, called `words`, and one batch size. */
static int check_axes(const struct op_args *args, int least, int most, const char *words)
{
    const struct shape *x = op_bottom_shape(args, 0), *y = op_top_shape(args, 0);

    if (x->naxes >= least && x->naxes <= most && x->naxes == y->naxes && x->dim[0] == y->dim[0])
        return 0;
    return error_set("expected blobs of %s and one batch; the bottom's shape is %s, the top's %s",
                     words, shape_text(x).text, shape_text(y).text);
}

int op_check_images(const struct op_args *args)
{
    return check_axes(args, 4, 4, "4 axes (N, C, H, W)");
}

int op_check_spatial(const struct op_args *args)
{
    return check_axes(args, 3, 2 + OP_SPATIAL,
                      "3 to 5 axes (N, C, one to three spatial), as many in both,");
}

int op_check_param_count(const struct op_args *args, int expected)
{
    return op_check_count("parameter", args->nparams, (struct op_count){expected, expected});
}

int op_check_param_elems(const struct op_args *args, int i, const char *what, int64_t expected)
{
    size_t found = shape_elems(&args->params[i]->shape);

    if (found == (size_t)expected)
        return 0;
    return error_set("the %s has %zu elements, not %" PRId64, what, found, expected);
}

int op_check_weight_and_bias(const struct op_args *args, int64_t weight, bool bias, int64_t outputs)
{
    return error_status(op_check_param_count(args, bias ? 2 : 1) ||
                        op_check_param_elems(args, 0, "weight", weight) ||
                        (bias && op_check_param_elems(args, 1, "bias", outputs)));
}

int op_check_keeps_channels(const struct op_args *args)
{
    int64_t x = op_bottom_shape(args, 0)->dim[1], y = op_top_shape(args, 0)->dim[1];

    if (x == y)
        return 0;
    return error_set("must keep the channels: the bottom has %" PRId64 ", the top %" PRId64, x, y);
}

int op_check_choice(const char *what, int value, int count)
{
    if (value >= 0 && value < count)
        return 0;
    return error_set("there is no %s %d", what, value);
}
