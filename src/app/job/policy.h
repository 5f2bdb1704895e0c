/* Learning rates over the iterations (Caffe's lr_policy). */
#ifndef POSEIDON_JOB_POLICY_H
#define POSEIDON_JOB_POLICY_H

#include "spec/caffe.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

enum policy_type {
    POLICY_FIXED,     /* base */
    POLICY_STEP,      /* base gamma^floor(t / stepsize) */
    POLICY_EXP,       /* base gamma^t */
    POLICY_INV,       /* base (1 + gamma t)^-power */
    POLICY_MULTISTEP, /* base gamma^(steps passed) */
    POLICY_POLY, /* min_lr + (base - min_lr) (1 - t / max_iter)^power; 0^power from max_iter on */
    POLICY_SIGMOID, /* base / (1 + exp(-gamma (t - stepsize))) */
    POLICY_COSINE,  /* min_lr + (base - min_lr) (1 + cos(pi t / max_iter)) / 2; min_lr from max_iter
                       on */
    POLICY_MULTIFIXED, /* the rate of the first stage whose last iteration is not before t */
    POLICY_PLATEAU,    /* base gamma^(windows in which the loss found no new minimum) */
};

#define POLICY_NAMES "fixed, step, exp, inv, multistep, poly, sigmoid, cosine, multifixed, plateau"

/* Fixed for a run. */
struct policy {
    enum policy_type type;
    const Caffe__SolverParameter *solver; /* all that the type needs besides; borrowed */
    int32_t max_iter;                     /* poly, cosine */
    /* Of every policy: before iteration `warmup` the rate goes straight from warmup_lr to base_lr,
     * and the policy's memory rests. */
    int32_t warmup;
    float warmup_lr;
};

/* What plateau remembers between iterations besides current_step. */
struct policy_memory {
    double least;  /* smoothed loss so far; INFINITY at the start */
    int64_t event; /* the iteration of that loss, or of the last drop if that came later */
};

/* What the solver asks for. Checks what the type needs: stepsize, max_iter, the order of stepvalue.
 */
int policy_from_solver(const Caffe__SolverParameter *solver, struct policy *policy);

/* What of it is hardly meant, in words; NULL: nothing. */
const char *policy_doubt(const struct policy *policy);

/* Whether the rates are others where training ends later: poly, cosine. */
bool policy_follows_end(const struct policy *policy);

/* The policy's memory in iteration t (from 0), saved with a snapshot behind it, of a run that began
 * at iteration `first` with that of a snapshot, or 0: multistep counts the steps passed, at most
 * one more per iteration; step gives floor(t / stepsize); others leave it as it was. */
int32_t policy_step(const struct policy *policy, int64_t first, int32_t step, int64_t t);

/* The rate of iteration t, with policy_step of it, or what policy_follow has counted before. Pure.
 */
float policy_rate(const struct policy *policy, int64_t t, int32_t step);

/* plateau, once per iteration in order, before policy_rate of iteration t + 1: `loss` is the
 * smoothed loss that iteration t ended with, or NAN where none is known then. A window of
 * iterations without a new minimum adds one to *current_step. Returns whether it did. */
bool policy_follow(const struct policy *policy, int64_t t, double loss,
                   struct policy_memory *memory, int32_t *current_step);

#endif
