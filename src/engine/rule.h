/* Update rules: how a gradient changes a parameter, on plain arrays.
 *
 * Whoever holds a stretch of parameters (a worker, or the server of a chunk) calls rule_apply on it
 * and needs to know nothing of the solver. Every operation is elementwise, so any cut into
 * stretches gives the same bits. Not collective; no state but the caller's arrays. */
#ifndef POSEIDON_SOLVER_RULE_H
#define POSEIDON_SOLVER_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rule_type { RULE_SGD, RULE_NESTEROV, RULE_ADAGRAD, RULE_RMSPROP, RULE_ADADELTA, RULE_ADAM };
enum rule_regularization { RULE_L2, RULE_L1 };

#define RULE_MAX_HISTORY 2

/* Fixed for a run; settings.h makes one of a solver file. */
struct rule {
    enum rule_type type;
    enum rule_regularization regularization;
    float momentum;  /* also the decay of AdaDelta's averages, and Adam's beta1 */
    float momentum2; /* Adam's beta2 */
    float rms_decay; /* RMSProp */
    float delta;     /* keeps divisions finite */
    float weight_decay;
    int nhistory; /* arrays of state per parameter, all zero at the start: 1 or 2 */
};

/* What changes from one iteration to the next; the same on every rank. */
struct rule_step {
    int64_t iteration; /* from 0, counted over the whole training, resumed or not */
    float rate;        /* of the policy, before lr_mult */
    float scale;       /* multiplies the gradient first: 1/iter_size times the clipping factor */
};

/* The type by Caffe's name ("SGD", "Nesterov", ...): 0, or -1 with a message naming those known. */
int rule_type_from_name(const char *name, enum rule_type *type);

/* Caffe's name of the type. */
const char *rule_type_name(enum rule_type type);

/* How many history arrays the type needs. */
int rule_type_histories(enum rule_type type);

/* One update of n elements, in this order (Caffe's):
 *     g = grad * scale;  g += weight_decay * decay_mult * (L2: w, L1: sign(w))
 *     the rule, with r = rate * lr_mult:
 *     SGD       h = momentum h + r g;  w -= h
 *     Nesterov  h' = momentum h + r g;  w -= (1 + momentum) h' - momentum h
 *     AdaGrad   h += g^2;  w -= r g / (sqrt(h) + delta)
 *     RMSProp   h = rms_decay h + (1 - rms_decay) g^2;  w -= r g / (sqrt(h) + delta)
 *     AdaDelta  h = momentum h + (1 - momentum) g^2;  d = g sqrt((u + delta) / (h + delta));
 *               u = momentum u + (1 - momentum) d^2;  w -= r d
 *     Adam      m = momentum m + (1 - momentum) g;  v = momentum2 v + (1 - momentum2) g^2;
 *               w -= r sqrt(1 - momentum2^t) / (1 - momentum^t) m / (sqrt(v) + delta), t from 1
 *
 * grad: the gradient averaged over the workers and summed over the iter_size passes; unchanged.
 * history: nhistory arrays of n elements, `stride` elements apart (h; or h, u; or m, v).
 * The arrays may not overlap. */
void rule_apply(const struct rule *rule, const struct rule_step *step, float lr_mult,
                float decay_mult, float *value, const float *grad, float *history, size_t stride,
                size_t n);

/* The same update as an engine with memory of its own takes it: everything multiplied in. */
struct engine_update;
void rule_describe(const struct rule *rule, const struct rule_step *step, float lr_mult,
                   float decay_mult, struct engine_update *out);

/* The factor that brings a gradient of squared norm `sumsq` to at most `clip`: 1 where it is
 * within, or where clip is negative (off). The norm is that of the raw gradient of the whole net:
 * averaged over workers, summed over iter_size passes, before scale and decay. *norm, if not NULL:
 * the root. */
float rule_clip_factor(float clip, double sumsq, double *norm);

#endif
