/* A net made by hand: values, gradients and factors are formulas of the worker, the iteration and
 * the current values. Stands in for what sync asks of a net, and for the engine that multiplies
 * factors. */
#include <string.h>
#include <unistd.h>

#include "tests/mpi/conformance.h"
#include "util/rng.h"

static float *factor_bottom, *factor_top; /* of the group being posted */

static void model_factors(void *context, int group, const float **bottom, const float **top_grad)
{
    (void)context;
    (void)group;
    *bottom = factor_bottom;
    *top_grad = factor_top;
}

int conformance_gemm(void *context, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                     const float *a, int64_t lda, const float *b, int64_t ldb, float beta, float *c,
                     int64_t ldc)
{
    (void)context;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = beta != 0 ? beta * c[i * ldc + j]
                                  : 0; /* further products sum on in the same order */
            for (int64_t l = 0; l < k; l++)
                sum += alpha * (ta ? a[l * lda + i] : a[i * lda + l]) *
                       (tb ? b[j * ldb + l] : b[l * ldb + j]);
            c[i * ldc + j] = sum;
        }
    return 0;
}

static int plain_alloc(void *context, size_t bytes, const char *what, void **out)
{
    (void)context;
    *out = calloc(1, bytes ? bytes : 1);
    return *out ? 0 : error_memory(bytes, what);
}

static void plain_free(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static const struct device_i plain_device_i = {.gemm = conformance_gemm,
                                               .alloc = plain_alloc,
                                               .free = plain_free,
                                               .write = device_host_write,
                                               .copies = &device_host_copies,
                                               .services = &device_host_services};
struct device conformance_device = {.i = &plain_device_i};

void conformance_net_make(struct made_net *net, int64_t first_elems, bool frozen)
{
    const int64_t sizes[GROUPS][3] = {
        {first_elems, 10, 0}, {23, 40, 23}, {77, 0, 0}, {9, 100, 0}, {1, 5, 0}};
    static struct group_param params[GROUPS][2];
    static struct group groups[GROUPS];

    net->groups = groups;
    for (int g = 0; g < GROUPS; g++) {
        bool connected = g == 1 || g == 3;
        int64_t first = connected ? sizes[g][0] * sizes[g][1] : sizes[g][0];
        int64_t second = connected ? sizes[g][2] : sizes[g][1];
        groups[g] = (struct group){.layer = g,
                                   .name = "layer",
                                   .begin = net->elems,
                                   .nparams = second ? 2 : 1,
                                   .params = params[g],
                                   .elems = (size_t)(first + second),
                                   .trains = g != 2,
                                   .decays = g == 2 && !frozen,
                                   .factorable = connected,
                                   .k = ROWS,
                                   .m = connected ? sizes[g][0] : 0,
                                   .n = connected ? sizes[g][1] : 0,
                                   .outputs = connected ? sizes[g][0]
                                              : g == 0  ? 20
                                                        : 0};
        params[g][0] = (struct group_param){.elems = (size_t)first, .lr_mult = 1, .decay_mult = 1};
        params[g][1] =
            (struct group_param){.elems = (size_t)second, .lr_mult = frozen && g == 1 ? 0 : 2};
        net->elems += (groups[g].elems + 15) / 16 * 16;
    }
}

struct sync_model conformance_model(const struct made_net *net)
{
    return (struct sync_model){.elems = net->elems,
                               .values = net->values,
                               .grads = net->grads,
                               .device_values = net->values,
                               .device_grads = net->grads,
                               .device = &conformance_device,
                               .factors = model_factors};
}

static bool shares(const struct node *node)
{
    return node && node->nranks > 1;
}

void conformance_net_place(struct made_net *net, const struct node *node)
{
    net->values = shares(node) ? node->values : calloc(net->elems, sizeof(float));
    net->grads = shares(node) ? node_grads(node, node->rank) : calloc(net->elems, sizeof(float));
}

void conformance_net_free(struct made_net *net, const struct node *node)
{
    if (!shares(node)) {
        free(net->values);
        free(net->grads);
    }
}

static float draw(int worker, int iteration, int micro, int group, size_t i)
{
    struct rng rng = rng_make(7, RNG_DUMMY, (uint32_t)(worker * 8 + micro),
                              (uint64_t)(iteration * GROUPS + group));
    return rng_uniform(&rng, i) - 0.5f;
}

float conformance_first_value(size_t i)
{
    return draw(99, 0, 0, 0, i);
}

static float feedback = 0.1f;

void conformance_feedback(float new_feedback)
{
    feedback = new_feedback;
}

void conformance_factors(const struct group *g, int group, int worker, int iteration, int micro,
                         int64_t rows, const float *values, float *bottom, float *top)
{
    for (int64_t i = 0; i < rows * g->n; i++)
        bottom[i] = draw(worker, iteration, micro, group, (size_t)i) + values[g->begin];
    for (int64_t i = 0; i < rows * g->m; i++)
        top[i] = draw(worker, iteration, micro, group, (size_t)(i + rows * g->n));
}

void conformance_freeze(const struct group *g, float *gradient)
{
    for (int p = 0; p < g->nparams; gradient += g->params[p++].elems)
        if (g->params[p].lr_mult == 0)
            memset(gradient, 0, g->params[p].elems * sizeof *gradient);
}

void conformance_gradient(const struct group *g, int group, int worker, int iteration, int micro,
                          const float *values, float *gradient, bool add)
{
    for (size_t i = 0; i < g->elems; i++) {
        float x = draw(worker, iteration, micro, group, i) + feedback * values[g->begin + i];
        gradient[i] = add ? gradient[i] + x : x;
    }
    conformance_freeze(g, gradient);
}

static float rate_of(int64_t iteration, float lr_mult)
{
    return 0.5f / (float)(1 + iteration) * lr_mult;
}

int conformance_describe(void *context, int64_t iteration, float scale, float lr_mult,
                         float decay_mult, struct device_update *out)
{
    (void)context;
    *out = (struct device_update){.rule = RULE_SGD,
                                  .scale = scale,
                                  .rate = rate_of(iteration, lr_mult),
                                  .decay = 0.01f * decay_mult,
                                  .momentum = 0.9f};
    return 0;
}

void conformance_apply(int64_t iteration, float scale, float lr_mult, float decay_mult,
                       float *value, const float *grad, float *history, size_t n)
{
    float rate = rate_of(iteration, lr_mult), decay = 0.01f * decay_mult;

    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale;
        g += decay * value[i];
        history[i] = 0.9f * history[i] + rate * g;
        value[i] -= history[i];
    }
}

int conformance_backward(struct sync *sync, const struct plan *plan, struct made_net *net, int rank,
                         int iteration)
{
    float bottom[MOST_PARTS * ROWS * WIDEST], top[MOST_PARTS * ROWS * WIDEST];

    for (int micro = 0; micro < plan->options.iter_size; micro++)
        for (int g = GROUPS - 1; g >= 0; g--) {
            const struct group *group = &net->groups[g];
            if ((iteration * 7 + rank * 3 + g) % 5 == 0)
                usleep((useconds_t)(300 * ((rank + iteration) % 4))); /* nobody is in step */
            if (conformance_by_factors(plan, plan->bucket_of[g])) {
                conformance_factors(group, g, rank, iteration, micro, group->k * plan->part[rank],
                                    net->values, bottom, top);
                factor_bottom = bottom;
                factor_top = top;
            } else if (group->trains) {
                conformance_gradient(group, g, rank, iteration, micro, net->values,
                                     net->grads + group->begin, micro > 0);
            }
            if (sync_post(sync, g, micro == plan->options.iter_size - 1))
                return -1;
        }
    return sync_flush(sync);
}
