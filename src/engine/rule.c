/* Update rules. Work goes in blocks that stay in the first-level cache: first the block's effective
 * gradient, then the rule; so three gradient loops and six rule loops serve all combinations.
 *
 * Every loop must give an element the same bits wherever a stretch begins or ends, and on any
 * processor. That holds as long as the compiler does not fuse multiply and add in one copy of a
 * loop and not in another: kernel.h. */
#include "engine/rule.h"

#include "engine/engine.h"
#include "util/error.h"

#include <math.h>
#include <string.h>

#include "engine/kernel.h"

#define BLOCK 1024

static const struct {
    const char *name;
    int histories;
} types[] = {
    [RULE_SGD] = {"SGD", 1},           [RULE_NESTEROV] = {"Nesterov", 1},
    [RULE_ADAGRAD] = {"AdaGrad", 1},   [RULE_RMSPROP] = {"RMSProp", 1},
    [RULE_ADADELTA] = {"AdaDelta", 2}, [RULE_ADAM] = {"Adam", 2},
};

int rule_type_from_name(const char *name, enum rule_type *type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (enum rule_type)i;
            return 0;
        }
    }
    return error_set("Unknown solver type: %s (known types: SGD, Nesterov, AdaGrad, RMSProp, "
                     "AdaDelta, Adam)",
                     name);
}

const char *rule_type_name(enum rule_type type)
{
    return types[type].name;
}

int rule_type_histories(enum rule_type type)
{
    return types[type].histories;
}

KERNEL static void plain_gradient(float *restrict g, const float *restrict grad, float scale,
                                  size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] = grad[i] * scale;
}

KERNEL static void l2_gradient(float *restrict g, const float *restrict grad, float scale,
                               const float *restrict w, float decay, size_t n)
{
    for (size_t i = 0; i < n; i++)
        g[i] = grad[i] * scale + decay * w[i];
}

KERNEL static void l1_gradient(float *restrict g, const float *restrict grad, float scale,
                               const float *restrict w, float decay, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float sign = (float)((w[i] > 0) - (w[i] < 0));

        g[i] = grad[i] * scale + decay * sign;
    }
}

KERNEL static void sgd(float *restrict w, const float *restrict g, float *restrict h, float rate,
                       float momentum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h[i] = momentum * h[i] + rate * g[i];
        w[i] -= h[i];
    }
}

KERNEL static void nesterov(float *restrict w, const float *restrict g, float *restrict h,
                            float rate, float momentum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float old = h[i];

        h[i] = momentum * old + rate * g[i];
        w[i] -= (1 + momentum) * h[i] - momentum * old;
    }
}

KERNEL static void adagrad(float *restrict w, const float *restrict g, float *restrict h,
                           float rate, float delta, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h[i] += g[i] * g[i];
        w[i] -= rate * (g[i] / (sqrtf(h[i]) + delta));
    }
}

KERNEL static void rmsprop(float *restrict w, const float *restrict g, float *restrict h,
                           float rate, float delta, float decay, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h[i] = decay * h[i] + (1 - decay) * (g[i] * g[i]);
        w[i] -= rate * (g[i] / (sqrtf(h[i]) + delta));
    }
}

KERNEL static void adadelta(float *restrict w, const float *restrict g, float *restrict h,
                            float *restrict u, float rate, float delta, float momentum, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float d;

        h[i] = momentum * h[i] + (1 - momentum) * (g[i] * g[i]);
        d = g[i] * sqrtf((u[i] + delta) / (h[i] + delta));
        u[i] = momentum * u[i] + (1 - momentum) * (d * d);
        w[i] -= rate * d;
    }
}

/* rate here includes the correction of the averages' start at zero. */
KERNEL static void adam(float *restrict w, const float *restrict g, float *restrict m,
                        float *restrict v, float rate, float delta, float beta1, float beta2,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        m[i] = beta1 * m[i] + (1 - beta1) * g[i];
        v[i] = beta2 * v[i] + (1 - beta2) * (g[i] * g[i]);
        w[i] -= rate * (m[i] / (sqrtf(v[i]) + delta));
    }
}

static float adam_correction(const struct rule *rule, int64_t iteration)
{
    double t = (double)iteration + 1;

    return (float)(sqrt(1 - pow(rule->momentum2, t)) / (1 - pow(rule->momentum, t)));
}

static void effective_gradient(const struct rule *rule, float scale, float decay, float *g,
                               const float *grad, const float *w, size_t n)
{
    if (decay == 0)
        plain_gradient(g, grad, scale, n);
    else if (rule->regularization == RULE_L2)
        l2_gradient(g, grad, scale, w, decay, n);
    else
        l1_gradient(g, grad, scale, w, decay, n);
}

static void apply_block(const struct rule *r, float rate, float *w, const float *g, float *h,
                        float *h2, size_t n)
{
    switch (r->type) {
    case RULE_SGD:
        sgd(w, g, h, rate, r->momentum, n);
        break;
    case RULE_NESTEROV:
        nesterov(w, g, h, rate, r->momentum, n);
        break;
    case RULE_ADAGRAD:
        adagrad(w, g, h, rate, r->delta, n);
        break;
    case RULE_RMSPROP:
        rmsprop(w, g, h, rate, r->delta, r->rms_decay, n);
        break;
    case RULE_ADADELTA:
        adadelta(w, g, h, h2, rate, r->delta, r->momentum, n);
        break;
    case RULE_ADAM:
        adam(w, g, h, h2, rate, r->delta, r->momentum, r->momentum2, n);
        break;
    }
}

void rule_describe(const struct rule *rule, const struct rule_step *step, float lr_mult,
                   float decay_mult, struct engine_update *out)
{
    static const enum engine_rule rules[] = {
        [RULE_SGD] = ENGINE_SGD,           [RULE_NESTEROV] = ENGINE_NESTEROV,
        [RULE_ADAGRAD] = ENGINE_ADAGRAD,   [RULE_RMSPROP] = ENGINE_RMSPROP,
        [RULE_ADADELTA] = ENGINE_ADADELTA, [RULE_ADAM] = ENGINE_ADAM,
    };

    *out = (struct engine_update){.rule = rules[rule->type],
                                  .l1 = rule->regularization != RULE_L2,
                                  .scale = step->scale,
                                  .rate = step->rate * lr_mult,
                                  .decay = rule->weight_decay * decay_mult,
                                  .momentum = rule->momentum,
                                  .momentum2 = rule->momentum2,
                                  .delta = rule->delta,
                                  .rms_decay = rule->rms_decay};
    if (rule->type == RULE_ADAM)
        out->rate *= adam_correction(rule, step->iteration);
}

void rule_apply(const struct rule *rule, const struct rule_step *step, float lr_mult,
                float decay_mult, float *value, const float *grad, float *history, size_t stride,
                size_t n)
{
    float decay = rule->weight_decay * decay_mult, rate = step->rate * lr_mult;
    float g[BLOCK];

    if (rule->type == RULE_ADAM)
        rate *= adam_correction(rule, step->iteration);
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;

        effective_gradient(rule, step->scale, decay, g, grad + i, value + i, m);
        apply_block(rule, rate, value + i, g, history + i,
                    rule->nhistory > 1 ? history + stride + i : NULL, m);
    }
}

float rule_clip_factor(float clip, double sumsq, double *norm)
{
    double root = sqrt(sumsq);

    if (norm)
        *norm = root;
    return clip >= 0 && root > clip ? (float)(clip / root) : 1.0f;
}
