/* What every engine asks of op_args before it makes an op: none of it depends on the device. Each
 * returns 0, or -1 with a message that names neither layer nor operator: the engine adds them. */
#ifndef POSEIDON_ENGINE_OP_CHECK_H
#define POSEIDON_ENGINE_OP_CHECK_H

#include "engine/engine.h"

struct op_limits {
    int min_bottoms, max_bottoms; /* 0: any number */
    int min_tops, max_tops;
    int params;    /* greatest number; 0: any */
    bool in_place; /* tops[0] may be bottoms[0] */
};

static inline bool op_args_in_place(const struct op_args *args)
{
    return args->ntops > 0 && args->nbottoms > 0 && args->tops[0] == args->bottoms[0];
}

/* Numbers of blobs and parameters, empty blobs, blobs that are bottom and top. */
int op_check_blobs(const struct op_args *args, const struct op_limits *limits);

/* Shapes and settings of one kind. */
int op_check_pool(const struct op_args *args);
int op_check_eltwise(const struct op_args *args);
int op_check_batch_norm(const struct op_args *args);

#endif
