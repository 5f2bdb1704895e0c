/* What is asked of op_args before an engine makes an op of them: counts of blobs and parameters,
 * shapes, values of arguments. None of it depends on the device, so engines rely on it and check
 * only what they themselves cannot do. engine_op_create (engine/engine.h) calls it. */
#ifndef POSEIDON_ENGINE_OP_CHECK_H
#define POSEIDON_ENGINE_OP_CHECK_H

#include "engine/engine.h"

/* How many blobs or parameters an operator takes; most OP_ANY: no upper limit. */
struct op_count {
    int least, most;
};
enum { OP_ANY = -1 };

/* Whether tops[0] may be bottoms[0]: never; always; where `train` is not. */
enum op_in_place { OP_APART, OP_IN_PLACE, OP_UNTRAINED };

/* What one operator takes. Defined per operator, as op_signature_NAME, in op_check_*.c. */
struct op_signature {
    struct op_count bottoms, tops, params;
    enum op_in_place in_place;
    bool like_bottom;        /* tops[0] has the shape of bottoms[0] */
    unsigned no_gradient_to; /* bit b: backward cannot write the gradient of bottom b */
    bool blind_backward;     /* backward reads gradients alone, no values of bottoms or tops */
    /* Shapes and arguments; counts are right already. 0, or -1 with a message that names neither
     * layer nor operator. NULL: nothing more to check. */
    int (*check)(const struct op_args *args);
};

#define OPERATOR_SIGNATURE(ENUM, name, words, args)                                                \
    extern const struct op_signature op_signature_##name;
OPERATORS(OPERATOR_SIGNATURE)
#undef OPERATOR_SIGNATURE

const struct op_signature *op_signature(enum op_kind kind);

/* 0, or -1 with a message that names the operator but not the layer. Reads shapes, parameters'
 * shapes and arguments; touches no data, and asks no engine. */
int op_check(const struct op_args *args);

/* The same without the operator's name, for who says whose arguments they are. */
int op_check_call(const struct op_args *args);

/* Fails with "takes 1 to 2 bottoms, not 3" unless `count` allows `found`; what: "bottom". */
int op_check_count(const char *what, int found, struct op_count count);

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
