/* Learning rates over the iterations (Caffe's lr_policy). */
#ifndef POSEIDON_SOLVER_POLICY_H
#define POSEIDON_SOLVER_POLICY_H

#include <stdint.h>

enum policy_type {
    POLICY_FIXED,     /* base */
    POLICY_STEP,      /* base gamma^floor(t / stepsize) */
    POLICY_EXP,       /* base gamma^t */
    POLICY_INV,       /* base (1 + gamma t)^-power */
    POLICY_MULTISTEP, /* base gamma^(steps passed) */
    POLICY_POLY,      /* base (1 - t / max_iter)^power; 0^power from max_iter on */
    POLICY_SIGMOID,   /* base / (1 + exp(-gamma (t - stepsize))) */
};

/* Fixed for a run; settings.h makes one of a solver file. */
struct policy {
    enum policy_type type;
    float base_lr, gamma, power;
    int32_t stepsize;          /* step: iterations; sigmoid: the middle */
    int32_t max_iter;          /* poly */
    const int32_t *stepvalues; /* multistep, ascending; borrowed */
    int nstepvalues;
};

/* The type by Caffe's name ("fixed", "step", ...): 0, or -1 with a message naming those known. */
int policy_type_from_name(const char *name, enum policy_type *type);

/* Checks what the type needs: stepsize, max_iter, the order of stepvalues. */
int policy_check(const struct policy *policy);

/* The rate of iteration t (from 0), to be called once per iteration in order. *current_step is the
 * policy's memory, saved with a snapshot, 0 at the start: multistep counts in it the steps passed,
 * at most one more per iteration; step leaves floor(t / stepsize) there; others leave it alone. */
float policy_rate(const struct policy *policy, int64_t t, int32_t *current_step);

#endif
