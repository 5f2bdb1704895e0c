/* Update rules. Work goes in blocks that stay in the first-level cache: first the block's effective
 * gradient, then the rule. Three gradient loops and six rule loops so serve all combinations.
 *
 * Every loop must give an element the same bits wherever a stretch begins or ends, and on any
 * processor. kernel.h sees to that: no copy of a loop fuses a multiplication with an addition. */
#include "device/rule.h"

#include "util/error.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "device/kernel.h"

#define BLOCK 1024

static const struct {
    const char *name;
    int histories;
    enum rule_kind like; /* first kind whose history has the same meaning */
} kinds[] = {
    [RULE_SGD] = {"SGD", 1, RULE_SGD},
    [RULE_NESTEROV] = {"Nesterov", 1, RULE_SGD},
    [RULE_ADAGRAD] = {"AdaGrad", 1, RULE_ADAGRAD},
    [RULE_RMSPROP] = {"RMSProp", 1, RULE_RMSPROP},
    [RULE_ADADELTA] = {"AdaDelta", 2, RULE_ADADELTA},
    [RULE_ADAM] = {"Adam", 2, RULE_ADAM},
    [RULE_ADAMW] = {"AdamW", 2, RULE_ADAM},
    [RULE_MEAN] = {"mean", 0, RULE_MEAN},
};

int rule_kind_from_name(const char *name, enum rule_kind *kind)
{
    for (size_t i = 0; i < RULE_KINDS; i++) {
        if (strcmp(name, kinds[i].name) == 0) {
            *kind = (enum rule_kind)i;
            return 0;
        }
    }
    const char *near = NULL;
    for (size_t i = 0; i < RULE_KINDS && !near; i++)
        near = strcasecmp(name, kinds[i].name) ? NULL : kinds[i].name;
    return error_set("Unknown solver type: %s%s%s%s (known types: SGD, Nesterov, AdaGrad, RMSProp, "
                     "AdaDelta, Adam, AdamW)",
                     name, near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

const char *rule_kind_name(enum rule_kind kind)
{
    return kinds[kind].name;
}

int rule_kind_histories(enum rule_kind kind)
{
    return kinds[kind].histories;
}

bool rule_kinds_alike(enum rule_kind a, enum rule_kind b)
{
    return kinds[a].like == kinds[b].like;
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

/* rate includes Adam's correction of averages that started at zero. */
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

KERNEL static void shrink(float *restrict w, float decay, size_t n)
{
    for (size_t i = 0; i < n; i++)
        w[i] -= decay * w[i];
}

/* Multiplies Adam's correction, for averages that began at zero, into rate (and AdamW's delta). */
static void correct_averages(const struct rule *rule, int64_t iteration, struct device_update *out)
{
    double t = (double)iteration + 1, second = sqrt(1 - pow(rule->momentum2, t));

    if (rule->kind == RULE_ADAMW) {
        out->decay *= out->rate;
        out->delta *= (float)second;
    }
    out->rate *= (float)(second / (1 - pow(rule->momentum, t)));
}

void rule_describe(const struct rule *rule, int64_t iteration, float rate, float scale,
                   float lr_mult, float decay_mult, struct device_update *out)
{
    *out = (struct device_update){.rule = rule->kind,
                                  .l1 = rule->regularization == RULE_L1,
                                  .scale = scale,
                                  .rate = rate * lr_mult,
                                  .decay = rule->weight_decay * decay_mult,
                                  .momentum = rule->momentum,
                                  .momentum2 = rule->momentum2,
                                  .delta = rule->delta,
                                  .rms_decay = rule->rms_decay};
    if (rule->kind == RULE_ADAM || rule->kind == RULE_ADAMW)
        correct_averages(rule, iteration, out);
}

static void effective_gradient(const struct device_update *u, float *g, const float *grad,
                               const float *w, size_t n)
{
    if (u->decay == 0 || u->rule == RULE_ADAMW)
        plain_gradient(g, grad, u->scale, n);
    else if (u->l1)
        l1_gradient(g, grad, u->scale, w, u->decay, n);
    else
        l2_gradient(g, grad, u->scale, w, u->decay, n);
}

static void update_block(const struct device_update *u, float *w, const float *g, float *h,
                         float *h2, size_t n)
{
    switch (u->rule) {
    case RULE_SGD:
        sgd(w, g, h, u->rate, u->momentum, n);
        break;
    case RULE_NESTEROV:
        nesterov(w, g, h, u->rate, u->momentum, n);
        break;
    case RULE_ADAGRAD:
        adagrad(w, g, h, u->rate, u->delta, n);
        break;
    case RULE_RMSPROP:
        rmsprop(w, g, h, u->rate, u->delta, u->rms_decay, n);
        break;
    case RULE_ADADELTA:
        adadelta(w, g, h, h2, u->rate, u->delta, u->momentum, n);
        break;
    case RULE_ADAM:
        adam(w, g, h, h2, u->rate, u->delta, u->momentum, u->momentum2, n);
        break;
    case RULE_ADAMW:
        shrink(w, u->decay, n);
        adam(w, g, h, h2, u->rate, u->delta, u->momentum, u->momentum2, n);
        break;
    case RULE_MEAN:
        memcpy(w, g, n * sizeof *w);
        break;
    }
}

void rule_update(const struct device_update *update, float *value, const float *grad,
                 float *history, size_t stride, size_t n)
{
    bool two = rule_kind_histories(update->rule) > 1;
    float g[BLOCK];

    assert(update->rule <= RULE_MEAN && (!two || stride >= n));
    for (size_t i = 0; i < n; i += BLOCK) {
        size_t m = n - i < BLOCK ? n - i : BLOCK;

        effective_gradient(update, g, grad + i, value + i, m);
        update_block(update, value + i, g, history + i, two ? history + stride + i : NULL, m);
    }
}
