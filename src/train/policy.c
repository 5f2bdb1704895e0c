/* Learning rates. Computed in double precision, so that every rank and machine rounds once. */
#include "train/policy.h"

#include "util/choice.h"
#include "util/error.h"

#include <math.h>

static const char *const names[] = {[POLICY_FIXED] = "fixed",
                                    [POLICY_STEP] = "step",
                                    [POLICY_EXP] = "exp",
                                    [POLICY_INV] = "inv",
                                    [POLICY_POLY] = "poly",
                                    [POLICY_SIGMOID] = "sigmoid",
                                    [POLICY_MULTISTEP] = "multistep",
                                    [POLICY_COSINE] = "cosine",
                                    [POLICY_MULTIFIXED] = "multifixed",
                                    [POLICY_PLATEAU] = "plateau",
                                    NULL};

int policy_type_from_name(const char *name, enum policy_type *type)
{
    int found = choice_find(names, name);

    if (found < 0)
        return error_set("Unknown learning rate policy: %s (known policies: " POLICY_NAMES ")",
                         name);
    *type = (enum policy_type)found;
    return 0;
}

static int check_ascending(const struct policy *policy, const char *what, const int32_t *values,
                           int count)
{
    for (int i = 1; i < count; i++)
        if (values[i] < values[i - 1])
            return error_set("lr_policy \"%s\" needs ascending %s, found %d after %d",
                             names[policy->type], what, values[i], values[i - 1]);
    return 0;
}

static int check_windows(const struct policy *policy)
{
    if (policy->nwindows == 0)
        return error_set("lr_policy \"plateau\" needs plateau_winsize: after how many iterations "
                         "without a new minimum of the loss the rate drops, once for each drop");
    for (int i = 0; i < policy->nwindows; i++)
        if (policy->windows[i] < 1)
            return error_set("lr_policy \"plateau\" needs positive plateau_winsize, found %d",
                             policy->windows[i]);
    return 0;
}

int policy_check(const struct policy *policy)
{
    const char *name = names[policy->type];

    if ((policy->type == POLICY_STEP || policy->type == POLICY_SIGMOID) && policy->stepsize <= 0)
        return error_set("lr_policy \"%s\" needs a positive stepsize, found %d", name,
                         policy->stepsize);
    if ((policy->type == POLICY_POLY || policy->type == POLICY_COSINE) && policy->max_iter < 0)
        return error_set("lr_policy \"%s\" needs a max_iter of at least 0, found %d", name,
                         policy->max_iter);
    if (policy->warmup < 0)
        return error_set("a warm-up takes at least 0 iterations, found %d", policy->warmup);
    if (policy->type == POLICY_MULTISTEP)
        return check_ascending(policy, "stepvalues", policy->stepvalues, policy->nstepvalues);
    if (policy->type == POLICY_PLATEAU)
        return check_windows(policy);
    if (policy->type == POLICY_MULTIFIXED && policy->nstages == 0)
        return error_set("lr_policy \"multifixed\" needs stagelr and stageiter, of each stage the "
                         "rate and the last iteration");
    return policy->type == POLICY_MULTIFIXED
               ? check_ascending(policy, "stageiter", policy->stage_ends, policy->nstages)
               : 0;
}

/* From base to least: the part of the way that is left. */
static float fall(const struct policy *p, double left)
{
    return (float)((double)p->least + ((double)p->base_lr - (double)p->least) * left);
}

static float stage_rate(const struct policy *p, int64_t t)
{
    int stage = 0;

    while (stage < p->nstages - 1 && t > p->stage_ends[stage])
        stage++;
    return p->stage_rates[stage];
}

int32_t policy_step(const struct policy *p, int64_t first, int32_t step, int64_t t)
{
    int64_t next = first > p->warmup ? first : p->warmup; /* may pass a step */

    if (t < p->warmup)
        return step;
    if (p->type == POLICY_STEP)
        return (int32_t)(t / p->stepsize);
    while (p->type == POLICY_MULTISTEP && step < p->nstepvalues) {
        if (next < p->stepvalues[step])
            next = p->stepvalues[step];
        if (next++ > t)
            break;
        step++;
    }
    return step;
}

float policy_rate(const struct policy *p, int64_t t, int32_t step)
{
    double base = p->base_lr, time = (double)t, left = 1 - time / p->max_iter;

    if (t < p->warmup)
        return (float)((base * time + (double)p->warmup_lr * (p->warmup - time)) / p->warmup);
    left = left > 0 ? left : 0;
    switch (p->type) {
    case POLICY_FIXED:
        break;
    case POLICY_STEP:
    case POLICY_MULTISTEP:
    case POLICY_PLATEAU:
        return (float)(base * pow(p->gamma, step));
    case POLICY_EXP:
        return (float)(base * pow(p->gamma, time));
    case POLICY_INV:
        return (float)(base * pow(1 + p->gamma * time, -(double)p->power));
    case POLICY_POLY:
        return fall(p, pow(left, p->power));
    case POLICY_SIGMOID:
        return (float)(base / (1 + exp(-(double)p->gamma * (time - p->stepsize))));
    case POLICY_COSINE:
        return fall(p, (1 - cos(M_PI * left)) / 2);
    case POLICY_MULTIFIXED:
        return stage_rate(p, t);
    }
    return p->base_lr;
}

bool policy_follow(const struct policy *p, int64_t t, double loss, struct policy_memory *memory,
                   int32_t *current_step)
{
    if (p->type != POLICY_PLATEAU || t < p->warmup)
        return false;
    if (loss < memory->least) {
        memory->least = loss;
        memory->event = t;
    }
    if (*current_step >= p->nwindows || t < memory->event + p->windows[*current_step])
        return false;
    ++*current_step;
    memory->event = t;
    return true;
}
