/* Whether this processor multiplies bfloat16. */
#ifndef POSEIDON_TESTS_ENGINE_BF16_HERE_H
#define POSEIDON_TESTS_ENGINE_BF16_HERE_H

#include "engine/engine.h"
#include "util/error.h"

#include <stdio.h>

/* Prints the reason if it does not. */
static inline bool bf16_is_here(void)
{
    const struct engine_options options = {.threads = 1, .math = MATH_BF16};
    struct engine engine;

    if (engine_open("cpu", &options, &engine)) {
        printf("products of bfloat16 are left out: %s\n", error_text());
        return false;
    }
    engine_close(&engine);
    return true;
}

#endif
