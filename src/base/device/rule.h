/* Update rules: how a gradient changes a parameter, on plain arrays.
 *
 * struct rule holds the solver file's settings for a whole run; struct device_update is one
 * application of a rule, with all factors multiplied in. A worker, a chunk's server or a device
 * needs struct device_update alone, and nothing of the solver. Every operation is elementwise, so
 * any cut into stretches gives the same bits, on the host and on a device. Not collective; no state
 * but the caller's arrays. */
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
    RULE_KINDS, /* number of kinds that a solver may name */
    RULE_MEAN = RULE_KINDS /* replaces the value by the gradient */
};
enum rule_regularization { RULE_L2, RULE_L1 };

/* The solver's rule, fixed for a run. job/job.c fills it from the solver file. */
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

/* One application of a rule to parameters of equal lr_mult and decay_mult. Kernels on devices read
 * this struct: plain numbers only. */
struct device_update {
    enum rule_kind rule;
    bool l1;     /* weight decay works on the sign of the value, not on the value */
    float scale; /* multiplies the gradient first */
    float rate;  /* product of the policy's learning rate, lr_mult and Adam's correction */
    float decay; /* product of weight_decay and decay_mult; AdamW: also of rate and lr_mult */
    float momentum, momentum2, delta, rms_decay; /* copied from the rule */
};

/* Finds a kind by Caffe's name ("SGD", "Nesterov", ...). Returns 0, or -1 with a message that lists
 * the known names. */
int rule_kind_from_name(const char *name, enum rule_kind *kind);

const char *rule_kind_name(enum rule_kind kind);

/* Returns the number of history arrays that the kind needs. */
int rule_kind_histories(enum rule_kind kind);

/* Returns true if rules of kind a can go on with a history of kind b: SGD and Nesterov share
 * histories, and so do Adam and AdamW. */
bool rule_kinds_alike(enum rule_kind a, enum rule_kind b);

/* Computes the update that one iteration applies to parameters of these multipliers.
 *
 * iteration: from 0, counted over the whole training, resumed or not. rate: the policy's, before
 * lr_mult. scale: factor of the gradient (the mean over workers and passes, clipping). The same on
 * every rank. */
void rule_describe(const struct rule *rule, int64_t iteration, float rate, float scale,
                   float lr_mult, float decay_mult, struct device_update *out);

/* Updates n elements of the host's memory, in Caffe's order, with r = update->rate:
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
 *     AdamW     w -= decay w; then Adam, no decay in g, PyTorch's delta sqrt(1 - momentum2^t)
 * Adam's r includes the correction of averages that began at zero (rule_describe):
 * sqrt(1 - momentum2^t) / (1 - momentum^t), t from 1.
 *
 * value and history are changed, grad is not. history: one or two arrays of n elements, `stride`
 * elements apart (h; or h, u; or m, v), as many as rule_kind_histories says. The arrays may not
 * overlap. Any thread. */
void rule_update(const struct device_update *update, float *value, const float *grad,
                 float *history, size_t stride, size_t n);

#endif
