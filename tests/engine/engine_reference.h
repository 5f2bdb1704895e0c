/* Every operator again, as plain loops in double over plain row-major arrays: what engines are held
 * against. Shapes come from args->bottoms/tops/params; no layouts, no tricks. */
#ifndef POSEIDON_TESTS_ENGINE_REFERENCE_H
#define POSEIDON_TESTS_ENGINE_REFERENCE_H

#include "engine/engine.h"

struct reference {
    const struct op_args *args;
    struct run run;
    double *bottom[8], *top[8], *param[2];
    double *bottom_grad[8], *top_grad[8], *param_grad[2];
};

/* Fills top[] from bottom[] and param[]. */
void reference_forward(struct reference *r);
/* Fills bottom_grad[] and param_grad[] from top_grad[] and what forward saw. */
void reference_backward(struct reference *r);

/* Those in engine_reference_more.c; false: not one of them. Gradients must be 0 before. */
bool reference_run_more(struct reference *r, bool backward);

#endif
