/* Checks that many operators share. Each op_check_* returns 0, or -1 with a message that names
 * neither layer nor operator. */
#ifndef POSEIDON_ENGINE_OP_CHECK_INTERNAL_H
#define POSEIDON_ENGINE_OP_CHECK_INTERNAL_H

#include "engine/op_check.h"

static inline const struct shape *op_bottom_shape(const struct op_args *args, int i)
{
    return &args->bottoms[i]->value.shape;
}

/* Returns the blob's name, for messages. */
static inline const char *op_bottom_name(const struct op_args *args, int i)
{
    return args->bottoms[i]->name ? args->bottoms[i]->name : "?";
}

static inline const struct shape *op_top_shape(const struct op_args *args, int i)
{
    return &args->tops[i]->value.shape;
}

/* Checks that top i has the first bottom's shape. */
int op_check_top_like_bottom(const struct op_args *args, int i);
/* Checks that top i has `expected` elements. */
int op_check_top_elems(const struct op_args *args, int i, int64_t expected);
/* Checks that bottom i has `expected` elements. what: "labels, one per sample,", for messages. */
int op_check_bottom_elems(const struct op_args *args, int i, int64_t expected, const char *what);
/* Checks that the first bottom and top have axes N, C, H and W, and one batch size. */
int op_check_images(const struct op_args *args);
/* Checks that the first bottom and top have N, C, one to three spatial axes, and one batch size. */
int op_check_spatial(const struct op_args *args);
/* Checks that there are `expected` parameters. */
int op_check_param_count(const struct op_args *args, int expected);
/* Checks that the parameters are a weight of `weight` elements and, if `bias`, a bias of
 * `outputs`. */
int op_check_weight_and_bias(const struct op_args *args, int64_t weight, bool bias,
                             int64_t outputs);
/* Checks that the first bottom has channels. */
int op_check_has_channels(const struct op_args *args);
/* Checks that top_k is in 1 .. values; what: name of the values, in the plural. */
int op_check_top_k(int top_k, int64_t values, const char *what);
/* Checks that the top has as many channels as the first bottom. */
int op_check_keeps_channels(const struct op_args *args);
/* Checks that parameter i, called `what`, has `expected` elements. */
int op_check_param_elems(const struct op_args *args, int i, const char *what, int64_t expected);
/* Checks that an enumeration's value is in 0 .. count - 1; what: the enumeration's name. */
int op_check_choice(const char *what, int value, int count);
#endif
