/* LRN's blocked code compiled for one set of instructions. */
#ifndef POSEIDON_TESTS_ENGINE_LRN_SET_H
#define POSEIDON_TESTS_ENGINE_LRN_SET_H

#include "engine/cpu/lrn_blocked.h"

struct lrn_set {
    const char *name;
    void (*forward)(const struct lrn_blocked *a, int64_t n, const float *x, float *y);
    void (*backward)(const struct lrn_blocked *a, int64_t n, const float *x, const float *dy,
                     float *dx);
};

/* NULL where the machine is of another family, or the processor lacks the instructions. */
const struct lrn_set *lrn_set_avx2(void);
const struct lrn_set *lrn_set_avx512(void);

#endif
