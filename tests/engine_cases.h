/* Random cases of every operator: shapes, options and values, all from one seed. */
#ifndef POSEIDON_TESTS_ENGINE_CASES_H
#define POSEIDON_TESTS_ENGINE_CASES_H

#include "engine_reference.h"
#include "engine_rig.h"

#include <stdio.h>

struct engine_case {
    struct rig rig;
    struct reference reference; /* bottom, param, top_grad filled; the rest is room */
    float coeff[RIG_BLOBS];     /* Eltwise */
    bool ties;                  /* values repeat: no finite differences */
    uint64_t seed;
    uint64_t draws;
};

/* Chooses a case and fills the reference's inputs; nothing is created on the engine yet, but a
 * bottom may have been given a layout. The case must not move in memory. */
int case_choose(struct engine_case *c, struct engine *engine, enum op_kind kind, uint64_t seed);
/* Creates the op and its memory. */
int case_create(struct engine_case *c);
/* Writes the reference's bottoms and parameters, its top gradients, to the engine. */
int case_write(struct engine_case *c);
int case_write_top_grads(struct engine_case *c);
void case_finish(struct engine_case *c);

/* What was chosen, for messages. */
void case_print(const struct engine_case *c, FILE *out);

#endif
