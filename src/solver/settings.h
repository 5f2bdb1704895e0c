/* From a solver file to what the training loop computes with. */
#ifndef POSEIDON_SOLVER_SETTINGS_H
#define POSEIDON_SOLVER_SETTINGS_H

#include "solver/policy.h"
#include "engine/rule.h"
#include "spec/caffe.pb-c.h"

/* The update rule of a solver. Fails on an unknown type or regularization_type (where weight_decay
 * is not 0, as in Caffe), and on settings that the type does not allow. */
int rule_from_solver(const Caffe__SolverParameter *solver, struct rule *rule);

/* The learning rate policy; checked. policy->stepvalues is borrowed from `solver`. Fails where
 * base_lr or lr_policy is not set: Caffe would train with rate 0 or abort later. */
int policy_from_solver(const Caffe__SolverParameter *solver, struct policy *policy);

#endif
