/* Labels and divisors, shared by the operators on scores of classes. */
#ifndef POSEIDON_ENGINE_CPU_LOSS_H
#define POSEIDON_ENGINE_CPU_LOSS_H

#include "engine/cpu/cpu_internal.h"

/* Bottom 0 as outer x classes x inner scores. Bottom 1 has a class number, as a float, for each of
 * outer x inner places. */
struct scores {
    int64_t outer, classes, inner;
    bool has_ignore;
    int ignore;
};

/* Returns the offset of place i's first score; the next class is `inner` floats away. */
static inline int64_t scores_at(const struct scores *s, int64_t i)
{
    return i / s->inner * s->classes * s->inner + i % s->inner;
}

/* Gets the class of place i; -1: ignore the place. Fails where there is no such class. */
int scores_label(const struct cpu_op *op, const struct scores *s, int64_t i, int64_t *out);

/* First member of every loss. */
struct loss {
    struct cpu_op op;
    double divisor; /* divisor of the last forward */
};

/* Writes sum / divisor to the top, and keeps the divisor for loss_scale. Returns 0. */
int loss_set(struct loss *loss, double sum, double divisor);
/* Returns the gradient of the loss with respect to its sum. */
double loss_scale(const struct loss *loss);
/* Returns the divisor of a sum over `places` places, of which `valid` are not ignored. */
double loss_divisor(enum loss_normalization normalization, int64_t places, int64_t valid,
                    int64_t outer);

#endif
