/* Computes learning rates in double precision, and rounds a rate once, at the end. */
#include "job/policy.h"

#include "util/choice.h"
#include "util/error.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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

static int check_ascending(const char *name, const char *what, const int32_t *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (values[i] < (i > 0 ? values[i - 1] : 0))
            return error_set("lr_policy \"%s\" needs ascending %s, found %d after %d", name, what,
                             values[i], i > 0 ? values[i - 1] : 0);
    return 0;
}

static int check_windows(const Caffe__SolverParameter *s)
{
    if (s->n_plateau_winsize == 0)
        return error_set("lr_policy \"plateau\" needs plateau_winsize for each drop of the rate: "
                         "iterations without a new minimum of the loss");
    for (size_t i = 0; i < s->n_plateau_winsize; i++)
        if (s->plateau_winsize[i] < 1)
            return error_set("lr_policy \"plateau\" needs positive plateau_winsize, found %d",
                             s->plateau_winsize[i]);
    return 0;
}

bool policy_follows_end(const struct policy *policy)
{
    return policy->type == POLICY_POLY || policy->type == POLICY_COSINE;
}

static int check(const struct policy *policy)
{
    const Caffe__SolverParameter *s = policy->solver;
    const char *name = names[policy->type];

    if ((policy->type == POLICY_STEP || policy->type == POLICY_SIGMOID) && s->stepsize <= 0)
        return error_set("lr_policy \"%s\" needs a positive stepsize, found %d", name, s->stepsize);
    if (policy_follows_end(policy) && policy->max_iter < 0)
        return error_set("lr_policy \"%s\" needs a max_iter of at least 0, found %d", name,
                         policy->max_iter);
    if (policy->warmup < 0)
        return error_set("a warm-up takes at least 0 iterations, found %d", policy->warmup);
    if (policy->type == POLICY_MULTISTEP)
        return check_ascending(name, "stepvalues", s->stepvalue, s->n_stepvalue);
    if (policy->type == POLICY_PLATEAU)
        return check_windows(s);
    if (policy->type == POLICY_MULTIFIXED && s->n_stagelr == 0)
        return error_set("lr_policy \"multifixed\" needs stagelr and stageiter: rate and last "
                         "iteration of each stage");
    return policy->type == POLICY_MULTIFIXED
               ? check_ascending(name, "stageiter", s->stageiter, s->n_stageiter)
               : 0;
}

const char *policy_doubt(const struct policy *policy)
{
    const Caffe__SolverParameter *s = policy->solver;
    bool gamma = s->gamma != 0, power = s->power != 0;

    switch (policy->type) {
    case POLICY_MULTISTEP:
        if (s->n_stepvalue == 0)
            return "stepvalue is not set: the rate never falls";
        /* fallthrough */
    case POLICY_STEP:
    case POLICY_EXP:
    case POLICY_PLATEAU:
        return gamma ? NULL : "gamma is 0 or not set: the rate falls to 0";
    case POLICY_INV:
        return gamma && power ? NULL : "gamma or power is 0 or not set: the rate never falls";
    case POLICY_POLY:
        return power ? NULL : "power is 0 or not set: the rate never falls";
    case POLICY_SIGMOID:
        return gamma ? NULL : "gamma is 0 or not set: the rate never falls";
    default:
        return NULL;
    }
}

int policy_from_solver(const Caffe__SolverParameter *solver, struct policy *policy)
{
    int type;

    *policy = (struct policy){
        .solver = solver,
        .max_iter = solver->max_iter,
        .warmup = solver->has_warmup_iter ? solver->warmup_iter : solver->rampup_interval,
        .warmup_lr = solver->has_warmup_iter ? solver->warmup_start_lr : solver->rampup_lr,
    };
    if (!solver->has_base_lr)
        return error_set("the solver has no base_lr; expected the learning rate to start with");
    if (solver->lr_policy == NULL || solver->lr_policy[0] == '\0')
        return error_set("the solver has no lr_policy; expected one of " POLICY_NAMES);
    if ((type = choice_find(names, solver->lr_policy)) < 0)
        return error_set("Unknown learning rate policy: %s (known policies: " POLICY_NAMES ")%s",
                         solver->lr_policy,
                         strcmp(solver->lr_policy, "stepearly") == 0
                             ? "; plateau lowers the rate where the loss stops falling, too"
                             : "");
    policy->type = (enum policy_type)type;
    if (solver->n_stageiter != solver->n_stagelr)
        return error_set("expected as many stageiter as stagelr, found %zu and %zu",
                         solver->n_stageiter, solver->n_stagelr);
    if (solver->has_warmup_iter && solver->has_rampup_interval)
        return error_set("warmup_iter and rampup_interval mean the same: expected only one");
    return check(policy);
}

/* Returns the rate between min_lr (left 0) and base_lr (left 1). */
static float fall(const Caffe__SolverParameter *s, double left)
{
    return (float)((double)s->min_lr + ((double)s->base_lr - (double)s->min_lr) * left);
}

static float stage_rate(const Caffe__SolverParameter *s, int64_t t)
{
    size_t stage = 0;

    while (stage + 1 < s->n_stagelr && t > s->stageiter[stage])
        stage++;
    return s->stagelr[stage];
}

int32_t policy_step(const struct policy *p, int64_t first, int32_t step, int64_t t)
{
    const Caffe__SolverParameter *s = p->solver;
    int64_t next = first > p->warmup ? first : p->warmup; /* first possible step */

    assert(first >= 0 && step >= 0 && t >= 0);
    if (t < p->warmup)
        return step;
    if (p->type == POLICY_STEP)
        return (int32_t)(t / s->stepsize);
    while (p->type == POLICY_MULTISTEP && (size_t)step < s->n_stepvalue) {
        if (next < s->stepvalue[step])
            next = s->stepvalue[step];
        if (next++ > t)
            break;
        step++;
    }
    return step;
}

float policy_rate(const struct policy *p, int64_t t, int32_t step)
{
    const Caffe__SolverParameter *s = p->solver;
    double base = s->base_lr, time = (double)t, left = 1 - time / p->max_iter;

    if (t < p->warmup)
        return (float)((base * time + (double)p->warmup_lr * (p->warmup - time)) / p->warmup);
    left = left > 0 ? left : 0;
    switch (p->type) {
    case POLICY_FIXED:
        break;
    case POLICY_STEP:
    case POLICY_MULTISTEP:
    case POLICY_PLATEAU:
        return (float)(base * pow(s->gamma, step));
    case POLICY_EXP:
        return (float)(base * pow(s->gamma, time));
    case POLICY_INV:
        return (float)(base * pow(1 + s->gamma * time, -(double)s->power));
    case POLICY_POLY:
        return fall(s, pow(left, s->power));
    case POLICY_SIGMOID:
        return (float)(base / (1 + exp(-(double)s->gamma * (time - s->stepsize))));
    case POLICY_COSINE:
        return fall(s, (1 - cos(M_PI * left)) / 2);
    case POLICY_MULTIFIXED:
        return stage_rate(s, t);
    }
    return s->base_lr;
}

bool policy_follow(const struct policy *p, int64_t t, double loss, struct policy_memory *memory,
                   int32_t *current_step)
{
    assert(*current_step >= 0 && memory->event <= t);
    if (p->type != POLICY_PLATEAU || t < p->warmup)
        return false;
    if (loss < memory->least) {
        memory->least = loss;
        memory->event = t;
    }
    if ((size_t)*current_step >= p->solver->n_plateau_winsize ||
        t < memory->event + p->solver->plateau_winsize[*current_step])
        return false;
    ++*current_step;
    memory->event = t;
    return true;
}
