/* Checks of op_args before an engine creates an op: counts of blobs and parameters, shapes, values
 * of arguments. No check depends on the device: engines rely on these checks and add only their own
 * limits. engine_op_create (engine/engine.h) calls op_check. */
#ifndef POSEIDON_ENGINE_OP_CHECK_H
#define POSEIDON_ENGINE_OP_CHECK_H

#include "engine/engine.h"

/* Number of blobs or parameters that an operator takes; most OP_ANY: no upper limit. */
struct op_count {
    int least, most;
};
enum { OP_ANY = -1 };

/* Permission for tops[0] to be bottoms[0]: never; always; unless `train`. */
enum op_in_place { OP_APART, OP_IN_PLACE, OP_UNTRAINED };

/* Signature of one operator, defined as op_signature_NAME in op_check_*.c. */
struct op_signature {
    struct op_count bottoms, tops, params;
    enum op_in_place in_place;
    bool like_bottom;        /* tops[0] has the shape of bottoms[0] */
    unsigned no_gradient_to; /* bit b: backward cannot write the gradient of bottom b */
    bool blind_backward;     /* backward reads gradients alone, no values of bottoms or tops */
    /* Checks shapes and arguments, after the counts. Returns 0, or -1 with a message that names
     * neither layer nor operator. NULL: nothing more to check. */
    int (*check)(const struct op_args *args);
};

#define OPERATOR_SIGNATURE(ENUM, name, words, args)                                                \
    extern const struct op_signature op_signature_##name;
OPERATORS(OPERATOR_SIGNATURE)
#undef OPERATOR_SIGNATURE

const struct op_signature *op_signature(enum op_kind kind);

/* Checks all of args. Returns 0, or -1 with a message that names the operator but not the layer.
 * Reads shapes, parameters' shapes and arguments; touches no data, and asks no engine. */
int op_check(const struct op_args *args);

/* Does the same as op_check, but the caller adds the operator's name to the message. */
int op_check_call(const struct op_args *args);

/* Fails with "takes 1 to 2 bottoms, not 3" unless `count` allows `found`; what: "bottom". */
int op_check_count(const char *what, int found, struct op_count count);

/* Returns true if tops[0] is bottoms[0]. */
static inline bool op_args_in_place(const struct op_args *args)
{
    return args->ntops > 0 && args->nbottoms > 0 && args->tops[0] == args->bottoms[0];
}

/* Returns true if backward must write the gradient of bottom i. */
static inline bool op_args_propagates(const struct op_args *args, int i)
{
    return args->train && args->propagate && args->propagate[i];
}

#endif
