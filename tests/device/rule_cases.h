/* The update rules of data/solver/rule_values.h as the engine takes them. */
#ifndef POSEIDON_TESTS_DEVICE_RULE_CASES_H
#define POSEIDON_TESTS_DEVICE_RULE_CASES_H

#include "device/rule.h"
#include "tests/suite.h"

#include <string.h>

#include "tests/data/solver/rule_values.h"

static inline struct rule rule_of(const struct rule_case *c)
{
    struct rule rule = {
        .regularization = strcmp(c->regularization, "L1") == 0 ? RULE_L1 : RULE_L2,
        .momentum = (float)c->momentum,
        .momentum2 = (float)c->momentum2,
        .rms_decay = (float)c->rms_decay,
        .delta = (float)c->delta,
        .weight_decay = (float)c->weight_decay,
    };

    ck_assert_int_eq(rule_kind_from_name(c->type, &rule.kind), 0);
    rule.nhistory = rule_kind_histories(rule.kind);
    return rule;
}

#endif
