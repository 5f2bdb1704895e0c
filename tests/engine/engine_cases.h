/* Random cases of every operator: shapes, options and values, all from one seed. */
#ifndef POSEIDON_TESTS_ENGINE_ENGINE_CASES_H
#define POSEIDON_TESTS_ENGINE_ENGINE_CASES_H

#include "tests/engine/engine_reference.h"
#include "tests/engine/engine_rig.h"

#include <stdio.h>

struct engine_case {
    struct rig rig;
    struct reference reference; /* bottom, param, top_grad filled; the rest is room */
    float coeff[RIG_BLOBS];     /* Eltwise */
    bool relu[RIG_BLOBS];       /* Concat, per bottom */
    float matrix[81];           /* Infogain loss */
    int integers[RIG_BLOBS];    /* per bottom: holds integers in [0, this); 0: any numbers */
    bool positive;              /* bottom 0 is */
    bool ties;                  /* values repeat: no finite differences */
    bool coarse;                /* values are multiples of 1/64 */
    bool inexact;               /* backward is not quite the derivative: none either */
    uint64_t seed;
    uint64_t draws;
};

/* From low to high, both included. */
int case_draw(struct engine_case *c, int low, int high);
/* Maybe gives bottom i, if it has four axes, another layout. */
int case_lay_out(struct engine_case *c, int i);
/* What chooses a case of that kind, of those in engine_cases_move_loss.c; NULL: none. */
int (*case_chooser_move_loss(enum op_kind kind))(struct engine_case *);

/* Chooses a case and fills the reference's inputs; nothing is created on the engine yet, but a
 * bottom may have been given a layout. The case must not move in memory. coarse: values that
 * bfloat16 holds exactly. */
int case_choose(struct engine_case *c, struct engine *engine, enum op_kind kind, uint64_t seed,
                bool coarse);
/* The same of convolutions that Winograd's algorithm takes. */
int case_choose_winograd(struct engine_case *c, struct engine *engine, enum op_kind kind,
                         uint64_t seed, bool coarse);
/* Creates the op and its memory. */
int case_create(struct engine_case *c);
/* Writes the reference's bottoms and parameters, its top gradients, to the engine. */
int case_write(struct engine_case *c);
int case_write_top_grads(struct engine_case *c);
void case_finish(struct engine_case *c);

/* What was chosen, for messages. */
void case_print(const struct engine_case *c, FILE *out);

#endif
