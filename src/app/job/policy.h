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
    POLICY_MULTIFIXED, /* rate of the first stage that ends at t or later */
    POLICY_PLATEAU,    /* base gamma^(windows in which the loss found no new minimum) */
};

#define POLICY_NAMES "fixed, step, exp, inv, multistep, poly, sigmoid, cosine, multifixed, plateau"

/* Learning-rate policy; constant during a run. */
struct policy {
    enum policy_type type;
    const Caffe__SolverParameter *solver; /* the type's other parameters; borrowed */
    int32_t max_iter;                     /* poly, cosine */
    /* Warm-up of any policy: before iteration `warmup` the rate goes linearly from warmup_lr to
     * base_lr, and policy_memory does not change. */
    int32_t warmup;
    float warmup_lr;
};

/* State of policy plateau, besides current_step. */
struct policy_memory {
    double least;  /* least smoothed loss so far; INFINITY at the start */
    int64_t event; /* iteration of `least`, or of the last fall of the rate if later */
};

/* Reads the solver's policy. Checks what the type needs: stepsize, max_iter, the order of
 * stepvalue. */
int policy_from_solver(const Caffe__SolverParameter *solver, struct policy *policy);

/* Returns a warning about a setting that is probably a mistake; NULL: none. */
const char *policy_doubt(const struct policy *policy);

/* Returns true if rates depend on max_iter: policies poly and cosine. */
bool policy_follows_end(const struct policy *policy);

/* Returns current_step of iteration t (from 0), which a snapshot after t saves. first: iteration at
 * which this run began; step: current_step of the snapshot that it began with, or 0. multistep
 * counts the steps passed, at most one more per iteration; step gives floor(t / stepsize); all
 * other policies return `step`. */
int32_t policy_step(const struct policy *policy, int64_t first, int32_t step, int64_t t);

/* Returns the rate of iteration t. step: policy_step of t, or the count of policy_follow. Pure. */
float policy_rate(const struct policy *policy, int64_t t, int32_t step);

/* Takes the loss of iteration t, for plateau: once per iteration in order, before the next
 * policy_rate. loss: smoothed loss at the end of iteration t; NAN: unknown. A window of iterations
 * without a new minimum adds one to *current_step. Returns true if it did. */
bool policy_follow(const struct policy *policy, int64_t t, double loss,
                   struct policy_memory *memory, int32_t *current_step);

#endif
