/* Update rules: how a gradient changes a parameter, on plain arrays.
 *
 * struct rule is what the solver file says, for a whole run; struct device_update is one
 * application of it, with all factors multiplied in. Whoever holds a stretch of parameters (a
 * worker, the server of a chunk, an engine) needs the latter alone, and nothing of the solver.
 * Every operation is elementwise, so any cut into stretches gives the same bits, on the host and on
 * a device. Not collective; no state but the caller's arrays. */
#ifndef POSEIDON_DEVICE_RULE_H
#define POSEIDON_DEVICE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rule_kind {
    RULE_SGD,
    RULE_NESTEROV,
    RULE_ADAGRAD,
    RULE_RMSPROP,
    RULE_ADADELTA,
    RULE_ADAM,
    RULE_ADAMW, /* not Caffe's: Loshchilov and Hutter, "Decoupled weight decay regularization" */
    RULE_KINDS, /* that a solver may name */
    RULE_MEAN = RULE_KINDS /* the gradient takes the value's place */
};
enum rule_regularization { RULE_L2, RULE_L1 };

/* Fixed for a run; job/job.c makes one of a solver file. */
struct rule {
    enum rule_kind kind;
    enum rule_regularization regularization;
    float momentum;  /* also the decay of AdaDelta's averages, and Adam's beta1 */
    float momentum2; /* Adam's beta2 */
    float rms_decay; /* RMSProp */
    float delta;     /* keeps divisions finite */
    float weight_decay;
    int nhistory; /* arrays of state per parameter, all zero at the start: 1 or 2 */
};

/* One application of a rule to parameters of the same multipliers. Read by kernels on devices:
 * plain numbers only. */
struct device_update {
    enum rule_kind rule;
    bool l1;     /* weight decay works on the sign of the value, not on the value */
    float scale; /* multiplies the gradient first */
    float rate;  /* the policy's learning rate, lr_mult and Adam's correction multiplied */
    float decay; /* weight_decay and decay_mult multiplied; AdamW: by the policy's rate, too */
    float momentum, momentum2, delta, rms_decay; /* the rule's */
};

/* The kind by its name, Caffe's ("SGD", "Nesterov", ...): 0, or -1 with a message naming those
 * known. */
int rule_kind_from_name(const char *name, enum rule_kind *kind);

/* The name of the kind. */
const char *rule_kind_name(enum rule_kind kind);

/* How many history arrays the kind needs. */
int rule_kind_histories(enum rule_kind kind);

/* Whether rules of kind a can go on with a history that rules of kind b made, as SGD and Nesterov
 * can, and Adam and AdamW. */
bool rule_kinds_alike(enum rule_kind a, enum rule_kind b);

/* The rule as it is applied in one iteration to parameters with these multipliers.
 *
 * iteration: from 0, counted over the whole training, resumed or not. rate: the policy's, before
 * lr_mult. scale: what multiplies the gradient (the mean over workers and passes, clipping). The
 * same on every rank. */
void rule_describe(const struct rule *rule, int64_t iteration, float rate, float scale,
                   float lr_mult, float decay_mult, struct device_update *out);

/* One update of n elements of the host's memory, in this order (Caffe's), r being update->rate:
 *     g = grad * scale;  g += decay * (L2: w, L1: sign(w))
 *     SGD       h = momentum h + r g;  w -= h
 *     Nesterov  h' = momentum h + r g;  w -= (1 + momentum) h' - momentum h
 *     AdaGrad   h += g^2;  w -= r g / (sqrt(h) + delta)
 *     RMSProp   h = rms_decay h + (1 - rms_decay) g^2;  w -= r g / (sqrt(h) + delta)
 *     AdaDelta  h = momentum h + (1 - momentum) g^2;  d = g sqrt((u + delta) / (h + delta));
 *               u = momentum u + (1 - momentum) d^2;  w -= r d
 *     Adam      m = momentum m + (1 - momentum) g;  v = momentum2 v + (1 - momentum2) g^2;
 *               w -= r m / (sqrt(v) + delta)
 *     Mean      w = g
 *     AdamW     w -= decay w, and g is without it; then as Adam, with delta sqrt(1 - momentum2^t)
 * in the place of delta, as PyTorch has it Adam's correction, of averages that began at zero, is in
 * r (rule_describe): sqrt(1 - momentum2^t) / (1 - momentum^t), t from 1.
 *
 * value and history are changed, grad is not. history: one or two arrays of n elements, `stride`
 * elements apart (h; or h, u; or m, v), as many as rule_kind_histories says. The arrays may not
 * overlap. Any thread. */
void rule_update(const struct device_update *update, float *value, const float *grad,
                 float *history, size_t stride, size_t n);

#endif
