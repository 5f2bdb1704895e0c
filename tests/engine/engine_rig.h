/* One operator with its blobs and parameters, on any engine: what the engine's tests are made of.
 */
#ifndef POSEIDON_TESTS_ENGINE_ENGINE_RIG_H
#define POSEIDON_TESTS_ENGINE_ENGINE_RIG_H

#include "engine/engine.h"

#define RIG_BLOBS  4
#define RIG_PARAMS 5

struct rig {
    struct engine *engine; /* borrowed */
    struct op_args args;   /* kind, u, ... to be filled before rig_create */
    struct blob bottom[RIG_BLOBS], top[RIG_BLOBS];
    struct blob *bottoms[RIG_BLOBS], *tops[RIG_BLOBS];
    struct param param[RIG_PARAMS];
    struct param *params[RIG_PARAMS];
    bool propagate[RIG_BLOBS];
    bool in_place; /* tops[0] is bottoms[0] */
    struct op *op;
    struct pass pass;
};

/* Starts a rig for an op of that kind, TRAIN, everything propagating. */
void rig_start(struct rig *rig, struct engine *engine, enum op_kind kind);
void rig_bottom(struct rig *rig, int naxes, const int64_t *dims);
void rig_top(struct rig *rig, int naxes, const int64_t *dims);
void rig_param(struct rig *rig, int naxes, const int64_t *dims);
/* Gives bottom i (four axes) the layout that the engine's convolution would give it. */
int rig_lay_out(struct rig *rig, int i);
/* Creates the op and places all memory. */
int rig_create(struct rig *rig);
void rig_finish(struct rig *rig);

int rig_forward(struct rig *rig);
int rig_backward(struct rig *rig);

/* Plain values to and from the engine. */
int rig_write(struct rig *rig, struct tensor *tensor, const float *values);
int rig_read(struct rig *rig, const struct tensor *tensor, float *values);
/* A new value for parameter i, version counted up. */
int rig_param_write(struct rig *rig, int i, const float *values);
int rig_param_read_grad(struct rig *rig, int i, float *values);

#endif
