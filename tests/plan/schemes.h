/* The two schemes of the paper's rule, by name: only tests and the registry know them so. */
#ifndef POSEIDON_TESTS_PLAN_SCHEMES_H
#define POSEIDON_TESTS_PLAN_SCHEMES_H

#include "sync/sync.h"

extern const struct scheme scheme_ps, scheme_sfb;

#endif
