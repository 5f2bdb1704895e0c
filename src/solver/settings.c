/* From a solver file to rule and policy. The checks and the sentences are Caffe's where it has
 * them; what was found is added. */
#include "solver/settings.h"

#include "util/error.h"

#include <string.h>

/* type is a string today; old files have the number solver_type in its place. */
static int rule_kind_of(const Caffe__SolverParameter *solver, enum rule_kind *kind)
{
    static const enum rule_kind old[] = {
        [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__SGD] = RULE_SGD,
        [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__NESTEROV] = RULE_NESTEROV,
        [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADAGRAD] = RULE_ADAGRAD,
        [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__RMSPROP] = RULE_RMSPROP,
        [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADADELTA] = RULE_ADADELTA,
        [CAFFE__SOLVER_PARAMETER__SOLVER_TYPE__ADAM] = RULE_ADAM,
    };
    unsigned number = (unsigned)solver->solver_type;

    if (solver->has_solver_type && strcmp(solver->type, "SGD") == 0) {
        if (number >= sizeof old / sizeof *old)
            return error_set("Unknown solver type: %u (solver_type goes from 0 to 5)", number);
        *kind = old[number];
        return 0;
    }
    return rule_kind_from_name(solver->type, kind);
}

static int check_rule(const struct rule *rule)
{
    const char *name = rule_kind_name(rule->kind);

    if ((rule->kind == RULE_ADAGRAD || rule->kind == RULE_RMSPROP) && rule->momentum != 0)
        return error_set("Momentum cannot be used with %s. (momentum is %g)", name,
                         (double)rule->momentum);
    if (rule->kind == RULE_RMSPROP && !(rule->rms_decay >= 0 && rule->rms_decay < 1))
        return error_set("rms_decay should lie between 0 and 1. (rms_decay is %g)",
                         (double)rule->rms_decay);
    if (rule->kind == RULE_ADAM && !(rule->momentum >= 0 && rule->momentum < 1))
        return error_set("momentum must be at least 0 and below 1 with Adam, found %g",
                         (double)rule->momentum);
    if (rule->kind == RULE_ADAM && !(rule->momentum2 >= 0 && rule->momentum2 < 1))
        return error_set("momentum2 must be at least 0 and below 1 with Adam, found %g",
                         (double)rule->momentum2);
    return 0;
}

int rule_from_solver(const Caffe__SolverParameter *solver, struct rule *rule)
{
    *rule = (struct rule){
        .momentum = solver->momentum,
        .momentum2 = solver->momentum2,
        .rms_decay = solver->rms_decay,
        .delta = solver->delta,
        .weight_decay = solver->weight_decay,
    };
    if (rule_kind_of(solver, &rule->kind))
        return -1;
    rule->nhistory = rule_kind_histories(rule->kind);
    if (strcmp(solver->regularization_type, "L1") == 0)
        rule->regularization = RULE_L1;
    else if (strcmp(solver->regularization_type, "L2") != 0 && rule->weight_decay != 0)
        return error_set("Unknown regularization type: %s (known types: L1, L2)",
                         solver->regularization_type);
    return check_rule(rule);
}

int policy_from_solver(const Caffe__SolverParameter *solver, struct policy *policy)
{
    *policy = (struct policy){
        .base_lr = solver->base_lr,
        .gamma = solver->gamma,
        .power = solver->power,
        .stepsize = solver->stepsize,
        .max_iter = solver->max_iter,
        .stepvalues = solver->stepvalue,
        .nstepvalues = (int)solver->n_stepvalue,
        .stage_ends = solver->stageiter,
        .stage_rates = solver->stagelr,
        .nstages = (int)solver->n_stagelr,
        .windows = solver->plateau_winsize,
        .nwindows = (int)solver->n_plateau_winsize,
        .least = solver->min_lr,
        .warmup = solver->has_warmup_iter ? solver->warmup_iter : solver->rampup_interval,
        .warmup_lr = solver->has_warmup_iter ? solver->warmup_start_lr : solver->rampup_lr,
    };
    if (!solver->has_base_lr)
        return error_set("the solver has no base_lr; expected the learning rate to start with");
    if (solver->lr_policy == NULL || solver->lr_policy[0] == '\0')
        return error_set("the solver has no lr_policy; expected one of " POLICY_NAMES);
    if (policy_type_from_name(solver->lr_policy, &policy->type))
        return -1;
    if (solver->n_stageiter != solver->n_stagelr)
        return error_set("expected as many stageiter as stagelr, found %zu and %zu",
                         solver->n_stageiter, solver->n_stagelr);
    if (solver->has_warmup_iter && solver->has_rampup_interval)
        return error_set("warmup_iter and rampup_interval say the same: expected one of them");
    return policy_check(policy);
}
