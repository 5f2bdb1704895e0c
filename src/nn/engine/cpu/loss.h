/* What the operators on scores of classes share: labels, and what a loss is divided by. */
#ifndef POSEIDON_ENGINE_CPU_LOSS_H
#define POSEIDON_ENGINE_CPU_LOSS_H

#include "engine/cpu/cpu_internal.h"

/* Bottom 0 as outer x classes x inner scores; bottom 1 has a class number for each of outer x inner
 * places, as floats. */
struct scores {
    int64_t outer, classes, inner;
    bool has_ignore;
    int ignore;
};

/* Where the scores of place i begin; the next class is `inner` floats away. */
static inline int64_t scores_at(const struct scores *s, int64_t i)
{
    return i / s->inner * s->classes * s->inner + i % s->inner;
}

/* The class of place i; -1 if it is to be ignored. Fails where there is no such class. */
int scores_label(const struct cpu_op *op, const struct scores *s, int64_t i, int64_t *out);

/* First member of every loss. */
struct loss {
    struct cpu_op op;
    double divisor; /* of the last forward */
};

/* Divides the sum and makes it the top. Returns 0. */
int loss_set(struct loss *loss, double sum, double divisor);
/* The gradient of the loss by that sum. */
double loss_scale(const struct loss *loss);
/* The divisor of a sum over `places` places. */
double loss_divisor(enum loss_normalization normalization, int64_t places, int64_t valid,
                    int64_t outer);

#endif
