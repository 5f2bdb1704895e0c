/* What the suites of binary models share: files of the source tree. */
#ifndef POSEIDON_TESTS_SPEC_MODELS_COMMON_H
#define POSEIDON_TESTS_SPEC_MODELS_COMMON_H

#include "tests/files.h"

static inline const char *data(const char *name)
{
    return path_in(TEST_DATA "/spec", name);
}

#endif
