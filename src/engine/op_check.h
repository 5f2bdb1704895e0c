/* What is asked of op_args before an engine makes an op of them: counts of blobs and parameters,
 * shapes, values of arguments. None of it depends on the device, so engines rely on it and check
 * only what they themselves cannot do. engine_op_create (engine/engine.h) calls it. */
#ifndef POSEIDON_ENGINE_OP_CHECK_H
#define POSEIDON_ENGINE_OP_CHECK_H

#include "engine/engine.h"

/* Most blobs where any number is allowed. */
enum { OP_ANY = -1 };

/* What one operator takes. Defined per operator, as op_signature_NAME, in op_check_*.c. */
struct op_signature {
    int min_bottoms, max_bottoms; /* OP_ANY: no upper limit */
    int min_tops, max_tops;
    int min_params, max_params;
    bool in_place;           /* tops[0] may be bottoms[0] */
    unsigned no_gradient_to; /* bit b: backward cannot write the gradient of bottom b */
    /* Shapes and arguments; counts are right already. 0, or -1 with a message that names neither
     * layer nor operator. NULL: nothing more to check. */
    int (*check)(const struct op_args *args);
};

#define OPERATOR_SIGNATURE(ENUM, name, words, args)                                                \
    extern const struct op_signature op_signature_##name;
OPERATORS(OPERATOR_SIGNATURE)
#undef OPERATOR_SIGNATURE

/* 0, or -1 with a message that names the operator but not the layer. Reads shapes, parameters'
 * shapes and arguments; touches no data, and asks no engine. */
int op_check(const struct op_args *args);

/* tops[0] is bottoms[0]. */
static inline bool op_args_in_place(const struct op_args *args)
{
    return args->ntops > 0 && args->nbottoms > 0 && args->tops[0] == args->bottoms[0];
}

/* Whether backward is to write the gradient of bottom i. */
static inline bool op_args_propagates(const struct op_args *args, int i)
{
    return args->train && args->propagate && args->propagate[i];
}

#endif
