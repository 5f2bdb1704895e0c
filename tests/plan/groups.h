/* Three layers' parameters, for tests of plans: a convolution, an inner product of 50 outputs, and
 * a frozen one. */
#ifndef POSEIDON_TESTS_PLAN_GROUPS_H
#define POSEIDON_TESTS_PLAN_GROUPS_H

#include "plan/for_schemes.h"
#include "tests/plan/schemes.h"

static const struct group groups[] = {
    {.name = "conv", .begin = 0, .elems = 1000, .nparams = 2, .trains = true},
    {.name = "fc",
     .begin = 1008,
     .elems = 4100 * 50,
     .nparams = 2,
     .trains = true,
     .factorable = true,
     .m = 50,
     .n = 4099,
     .k = 4},
    {.name = "frozen", .begin = 206016, .elems = 64, .nparams = 1},
};

#endif
