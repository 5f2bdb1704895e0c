/* Checks that many operators share. Each returns 0, or -1 with a message that names neither layer
 * nor operator. */
#ifndef POSEIDON_ENGINE_OP_CHECK_INTERNAL_H
#define POSEIDON_ENGINE_OP_CHECK_INTERNAL_H

#include "engine/op_check.h"

static inline const struct shape *op_bottom_shape(const struct op_args *args, int i)
{
    return &args->bottoms[i]->value.shape;
}

/* For messages. */
static inline const char *op_bottom_name(const struct op_args *args, int i)
{
    return args->bottoms[i]->name ? args->bottoms[i]->name : "?";
}

static inline const struct shape *op_top_shape(const struct op_args *args, int i)
{
    return &args->tops[i]->value.shape;
}

/* Top i has the first bottom's shape. */
int op_check_top_like_bottom(const struct op_args *args, int i);
/* Top i has that many elements. */
int op_check_top_elems(const struct op_args *args, int i, int64_t expected);
/* Bottom i has that many elements for the first bottom, `what` in plural: "labels, one per
 * sample,". */
int op_check_bottom_elems(const struct op_args *args, int i, int64_t expected, const char *what);
/* The first bottom and top have four axes, N, C, H and W, and one batch. */
int op_check_images(const struct op_args *args);
/* The same with one to three spatial axes. */
int op_check_spatial(const struct op_args *args);
/* There are `expected` parameters. */
int op_check_param_count(const struct op_args *args, int expected);
/* The parameters are a weight of that many elements and, if `bias`, one of that many. */
int op_check_weight_and_bias(const struct op_args *args, int64_t weight, bool bias,
                             int64_t outputs);
/* The first bottom has channels. */
int op_check_has_channels(const struct op_args *args);
/* There are at least top_k values; what: their name, in plural. */
int op_check_top_k(int top_k, int64_t values, const char *what);
/* The top has as many channels as the first bottom. */
int op_check_keeps_channels(const struct op_args *args);
/* Parameter i, called `what`, has that many elements. */
int op_check_param_elems(const struct op_args *args, int i, const char *what, int64_t expected);
/* An enumeration's value is one of 0 .. count - 1. */
int op_check_choice(const char *what, int value, int count);
#endif
