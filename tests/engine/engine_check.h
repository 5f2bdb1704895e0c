/* One case of an operator on an engine, held against the reference, and the reference against
 * finite differences. */
#ifndef POSEIDON_TESTS_ENGINE_ENGINE_CHECK_H
#define POSEIDON_TESTS_ENGINE_ENGINE_CHECK_H

#include "tests/engine/engine_cases.h"

/* Errors are the greatest difference of a tensor's elements over the tensor's greatest element. */
enum check_column {
    CHECK_TOP,
    CHECK_BOTTOM_GRAD,
    CHECK_PARAM_GRAD,
    CHECK_REFERENCE, /* reference's gradients against differences of its forward, in double */
    CHECK_COLUMNS
};

struct check_tally {
    double limit; /* of the error, CHECK_REFERENCE excepted */
    /* What storage may round off an element of a blob, of the element's size: no part of the error.
     * An element that was rounded twice, of what was rounded, is further off. */
    double rounding;
    double worst[CHECK_COLUMNS];
    int tensors[CHECK_COLUMNS];
    int failed;
};

/* Forward and backward, twice, the second time with other values and adding to the gradients of
 * parameters. Failures are printed and counted; -1 where an operator itself failed. */
int check_case(struct check_tally *tally, struct engine_case *c);

/* What engines offer besides operators: products of matrices in all forms, the factors of an inner
 * product, writing and reading in every layout; coarse: of values that TF32 and bfloat16 hold. */
void check_gemm(struct check_tally *tally, struct engine *engine, uint64_t seed, int cases,
                bool coarse);
int check_factors(struct check_tally *tally, struct engine_case *c);

#endif
