/* Learning rates. Computed in double precision, so that every rank and machine rounds once. */
#include "solver/policy.h"

#include "util/error.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
    [POLICY_FIXED] = "fixed",
    [POLICY_STEP] = "step",
    [POLICY_EXP] = "exp",
    [POLICY_INV] = "inv",
    [POLICY_POLY] = "poly",
    [POLICY_SIGMOID] = "sigmoid",
    [POLICY_MULTISTEP] = "multistep",
};

int policy_type_from_name(const char *name, enum policy_type *type)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) {
            *type = (enum policy_type)i;
            return 0;
        }
    }
    return error_set("Unknown learning rate policy: %s (known policies: fixed, step, exp, inv, "
                     "multistep, poly, sigmoid)",
                     name);
}

int policy_check(const struct policy *policy)
{
    const char *name = names[policy->type];

    if ((policy->type == POLICY_STEP || policy->type == POLICY_SIGMOID) && policy->stepsize <= 0)
        return error_set("lr_policy \"%s\" needs a positive stepsize, found %d", name,
                         policy->stepsize);
    if (policy->type == POLICY_POLY && policy->max_iter < 0)
        return error_set("lr_policy \"poly\" needs a max_iter of at least 0, found %d",
                         policy->max_iter);
    if (policy->type != POLICY_MULTISTEP)
        return 0;
    for (int i = 1; i < policy->nstepvalues; i++)
        if (policy->stepvalues[i] < policy->stepvalues[i - 1])
            return error_set(
                "lr_policy \"multistep\" needs ascending stepvalues, found %d after %d",
                policy->stepvalues[i], policy->stepvalues[i - 1]);
    return 0;
}

float policy_rate(const struct policy *p, int64_t t, int32_t *current_step)
{
    double base = p->base_lr, time = (double)t, left;

    switch (p->type) {
    case POLICY_FIXED:
        break;
    case POLICY_STEP:
        *current_step = (int32_t)(t / p->stepsize);
        return (float)(base * pow(p->gamma, *current_step));
    case POLICY_EXP:
        return (float)(base * pow(p->gamma, time));
    case POLICY_INV:
        return (float)(base * pow(1 + p->gamma * time, -(double)p->power));
    case POLICY_MULTISTEP:
        if (*current_step < p->nstepvalues && t >= p->stepvalues[*current_step])
            ++*current_step;
        return (float)(base * pow(p->gamma, *current_step));
    case POLICY_POLY:
        left = 1 - time / p->max_iter;
        return (float)(base * pow(left > 0 ? left : 0, p->power));
    case POLICY_SIGMOID:
        return (float)(base / (1 + exp(-(double)p->gamma * (time - p->stepsize))));
    }
    return p->base_lr;
}
