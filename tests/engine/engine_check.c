/* Comparisons; the values come from engine_cases, the truth from engine_reference. */
#include "tests/engine/engine_check.h"

#include "util/error.h"
#include "util/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Central differences in double. The step stays below the distance of two values, 1e-6, so that no
 * maximum changes hands; rounding is then 1e-16 / 4e-7 of the sum. */
static const double difference_step = 4e-7;
static const double difference_limit = 1e-5;

static void tally_add(struct check_tally *tally, struct engine_case *c, enum check_column column,
                      const char *what, int i, double error, double allowed)
{
    tally->tensors[column]++;
    tally->worst[column] = fmax(tally->worst[column], error);
    if (error <= allowed)
        return;
    tally->failed++;
    printf("FAIL: %s %d differs by %g, more than %g, in\n  ", what, i, error, allowed);
    if (c)
        case_print(c, stdout);
}

/* NaN differs from everything. */
static double worst_error(const float *found, const double *expected, size_t n, double times,
                          double rounding)
{
    double most = 1e-3, error = 0;

    for (size_t e = 0; e < n; e++) {
        double size = fabs(times * expected[e]), off = fabs((double)found[e] - times * expected[e]);
        most = fmax(most, size);
        error = fmax(error, off - rounding * size);
        if (isnan(found[e]))
            error = INFINITY;
    }
    return error / most;
}

static int compare_tensor(struct check_tally *tally, struct engine_case *c,
                          enum check_column column, const char *what, int i,
                          const struct tensor *tensor, const double *expected)
{
    size_t n = shape_elems(&tensor->shape);
    float *found = malloc(n * sizeof *found);
    int status = -1;

    if (found && rig_read(&c->rig, tensor, found) == 0) {
        tally_add(tally, c, column, what, i, worst_error(found, expected, n, 1, tally->rounding),
                  tally->limit);
        status = 0;
    }
    free(found);
    return status;
}

static int compare_param(struct check_tally *tally, struct engine_case *c, int i, double times)
{
    size_t n = shape_elems(&c->rig.param[i].shape);
    float *found = malloc(n * sizeof *found);
    int status = -1;

    if (found && rig_param_read_grad(&c->rig, i, found) == 0) {
        tally_add(tally, c, CHECK_PARAM_GRAD, "parameter gradient", i,
                  worst_error(found, c->reference.param_grad[i], n, times, 0), tally->limit);
        status = 0;
    }
    free(found);
    return status;
}

/* Whether the gradient's memory is a top's, too. */
static bool grad_is_shared(const struct rig *rig, int i)
{
    for (int t = 0; t < rig->args.ntops; t++)
        if (rig->tops[t]->grad.data == rig->bottom[i].grad.data)
            return true;
    return false;
}

/* Bottoms' gradients as others may have left their memory: an element that backward forgets shows.
 */
static int soil(struct engine_case *c)
{
    struct rig *rig = &c->rig;

    for (int i = 0; i < rig->args.nbottoms; i++) {
        size_t n = shape_elems(&rig->bottom[i].value.shape);
        float *dirt = malloc(n * sizeof *dirt);
        int status = dirt ? 0 : error_memory(n * sizeof *dirt, "a test's values");
        for (size_t e = 0; dirt && e < n; e++)
            dirt[e] = 1e6f;
        if (status == 0 && rig->propagate[i] && !grad_is_shared(rig, i))
            status = rig_write(rig, &rig->bottom[i].grad, dirt);
        free(dirt);
        if (status)
            return -1;
    }
    return 0;
}

static int check_backward(struct check_tally *tally, struct engine_case *c, bool add)
{
    struct rig *rig = &c->rig;

    if (soil(c))
        return -1;
    for (int i = 0; i < rig->args.nparams; i++)
        rig->param[i].accumulate = add;
    if (rig_backward(rig))
        return -1;
    for (int i = 0; i < rig->args.nbottoms; i++)
        if (rig->propagate[i] && compare_tensor(tally, c, CHECK_BOTTOM_GRAD, "bottom gradient", i,
                                                &rig->bottom[i].grad, c->reference.bottom_grad[i]))
            return -1;
    for (int i = 0; i < rig->args.nparams; i++)
        if (compare_param(tally, c, i, add ? 2 : 1))
            return -1;
    return 0;
}

static double reference_loss(struct engine_case *c)
{
    double sum = 0;

    reference_forward(&c->reference);
    for (int t = 0; t < c->rig.args.ntops; t++) {
        /* masks, probabilities: no gradient */
        bool flows = t == 0 || c->rig.args.kind == OP_SPLIT || c->rig.args.kind == OP_SLICE;
        for (size_t i = 0; flows && i < shape_elems(&c->rig.tops[t]->value.shape); i++)
            if (fabs(c->reference.top[t][i]) < 1e30) /* an empty window has the lowest float */
                sum += c->reference.top_grad[t][i] * c->reference.top[t][i];
    }
    return sum;
}

/* A few elements of one tensor. */
static void differentiate(struct check_tally *tally, struct engine_case *c, const char *what, int i,
                          double *values, const double *grad, size_t n)
{
    const double h = difference_step;
    size_t step = n / 5 + 1;
    double error = 0, most = 1;

    for (size_t e = 0; e < n; e += step) {
        double kept = values[e];
        values[e] = kept + h;
        double up = reference_loss(c);
        values[e] = kept - h;
        double down = reference_loss(c);
        values[e] = kept;
        error = fmax(error, fabs((up - down) / (2 * h) - grad[e]));
        most = fmax(most, fabs(grad[e]));
    }
    tally_add(tally, c, CHECK_REFERENCE, what, i, error / most, difference_limit);
}

static void check_reference(struct check_tally *tally, struct engine_case *c)
{
    struct reference *r = &c->reference;

    for (int i = 0; i < c->rig.args.nbottoms; i++)
        if (c->rig.propagate[i])
            differentiate(tally, c, "the reference's bottom gradient", i, r->bottom[i],
                          r->bottom_grad[i], shape_elems(&c->rig.bottom[i].value.shape));
    for (int i = 0; i < c->rig.args.nparams; i++)
        differentiate(tally, c, "the reference's parameter gradient", i, r->param[i],
                      r->param_grad[i], shape_elems(&c->rig.param[i].shape));
    reference_forward(r); /* tops as they were */
}

/* Other weights for the second pass: a copy that was not renewed would show. Gradients of
 * parameters do not depend on them. */
static void change_params(struct engine_case *c)
{
    double factor = c->inexact ? 0.5 : -0.5; /* a fused ReLU cuts where it did */

    for (int p = 0; p < c->rig.args.nparams; p++)
        for (size_t i = 0; i < shape_elems(&c->rig.param[p].shape); i++)
            c->reference.param[p][i] *= factor;
    reference_forward(&c->reference);
    if (c->rig.args.train)
        reference_backward(&c->reference);
}

int check_case(struct check_tally *tally, struct engine_case *c)
{
    struct rig *rig = &c->rig;
    bool backward;

    if (case_create(c))
        return -1;
    backward = rig->args.train && rig->op->i->backward;
    reference_forward(&c->reference);
    if (backward) {
        reference_backward(&c->reference);
        if (!c->ties && !c->coarse && !c->inexact && c->seed % 4 == 0)
            check_reference(tally, c);
    }
    for (int pass = 0; pass < 2; pass++) {
        if (pass > 0 && rig->args.nparams > 0)
            change_params(c);
        if (case_write(c) || rig_forward(rig))
            return -1;
        for (int i = 0; i < rig->args.ntops; i++)
            if (compare_tensor(tally, c, CHECK_TOP, "top", i, &rig->tops[i]->value,
                               c->reference.top[i]))
                return -1;
        if (backward && (case_write_top_grads(c) || check_backward(tally, c, pass > 0)))
            return -1;
    }
    return 0;
}

int check_factors(struct check_tally *tally, struct engine_case *c)
{
    const float *bottom, *top_grad;
    struct tensor found[2] = {c->rig.bottom[0].value, c->rig.tops[0]->grad};

    if (case_create(c))
        return -1;
    for (int p = 0; p < c->rig.args.nparams; p++)
        c->rig.param[p].factored = true;
    if (case_write(c) || rig_forward(&c->rig) || case_write_top_grads(c) || rig_backward(&c->rig))
        return -1;
    c->rig.engine->i->factors(c->rig.op, &bottom, &top_grad);
    found[0].data = (float *)(uintptr_t)bottom;
    found[1].data = (float *)(uintptr_t)top_grad;
    for (int i = 0; i < 2; i++) { /* factors are plain whatever the blob is */
        found[i].layout = NULL;
        found[i].base = NULL;
        found[i].bytes = shape_elems(&found[i].shape) * sizeof(float);
    }
    if (compare_tensor(tally, c, CHECK_TOP, "factor", 0, &found[0], c->reference.bottom[0]))
        return -1;
    return compare_tensor(tally, c, CHECK_TOP, "factor", 1, &found[1], c->reference.top_grad[0]);
}

/* A matrix of engine memory with its values at home; coarse: values that TF32 and bfloat16 hold. */
struct matrix {
    struct tensor tensor;
    float *values;
};

static int matrix_make(struct engine *engine, struct matrix *m, bool coarse, struct rng rng,
                       int64_t rows, int64_t stride)
{
    void *memory = NULL;

    *m = (struct matrix){0};
    if (shape_set(&m->tensor.shape, 2, (int64_t[]){rows, stride}, "a matrix"))
        return -1;
    m->tensor.bytes = shape_elems(&m->tensor.shape) * sizeof(float);
    m->values = malloc(m->tensor.bytes);
    if (!m->values)
        return error_memory(m->tensor.bytes, "a matrix");
    for (size_t i = 0; i < shape_elems(&m->tensor.shape); i++)
        m->values[i] =
            coarse ? (float)((int)rng_below(&rng, i, 129) - 64) / 64 : 2 * rng_uniform(&rng, i) - 1;
    if (engine->device.i->alloc(engine->context, m->tensor.bytes, "a matrix", &memory))
        return -1;
    m->tensor.data = memory;
    return engine->i->write(engine->context, &m->tensor, m->values);
}

static void matrix_free(struct engine *engine, struct matrix *m)
{
    engine->device.i->free(engine->context, m->tensor.data);
    free(m->values);
}

struct gemm_case {
    bool trans_a, trans_b;
    int64_t m, n, k, lda, ldb, ldc;
    float alpha, beta;
};

static struct gemm_case gemm_choose(uint64_t seed)
{
    static const float factors[] = {0, 1, -0.5f};
    struct rng rng = rng_make(seed, RNG_DUMMY, 99, 0);
    struct gemm_case g = {.trans_a = rng_below(&rng, 0, 2),
                          .trans_b = rng_below(&rng, 1, 2),
                          .m = 1 + rng_below(&rng, 2, 40),
                          .n = 1 + rng_below(&rng, 3, 40),
                          .k = 1 + rng_below(&rng, 4, 70),
                          .alpha = factors[1 + rng_below(&rng, 5, 2)],
                          .beta = factors[rng_below(&rng, 6, 3)]};

    g.lda = (g.trans_a ? g.m : g.k) + rng_below(&rng, 7, 3);
    g.ldb = (g.trans_b ? g.k : g.n) + rng_below(&rng, 8, 3);
    g.ldc = g.n + rng_below(&rng, 9, 3);
    return g;
}

/* Errors over the whole of C, the gap between its rows included: it must stay. */
static double gemm_error(const struct gemm_case *g, const struct matrix *a, const struct matrix *b,
                         const struct matrix *c, const float *found)
{
    double error = 0;

    for (int64_t i = 0; i < g->m; i++)
        for (int64_t j = 0; j < g->ldc; j++) {
            double old = (double)c->values[i * g->ldc + j], sum = 0;
            for (int64_t l = 0; j < g->n && l < g->k; l++)
                sum += (double)a->values[g->trans_a ? l * g->lda + i : i * g->lda + l] *
                       (double)b->values[g->trans_b ? j * g->ldb + l : l * g->ldb + j];
            double expected = j < g->n ? (double)g->alpha * sum + (double)g->beta * old : old;
            error = fmax(error, fabs((double)found[i * g->ldc + j] - expected));
        }
    return error;
}

static int gemm_check(struct check_tally *tally, struct engine *engine, uint64_t seed, bool coarse)
{
    struct gemm_case g = gemm_choose(seed);
    struct matrix a = {0}, b = {0}, c = {0};
    float *found = malloc((size_t)(g.m * g.ldc) * sizeof *found);
    int status = -1;

    if (!found ||
        matrix_make(engine, &a, coarse, rng_make(seed, RNG_DUMMY, 100, 0), g.trans_a ? g.k : g.m,
                    g.lda) ||
        matrix_make(engine, &b, coarse, rng_make(seed, RNG_DUMMY, 101, 0), g.trans_b ? g.n : g.k,
                    g.ldb) ||
        matrix_make(engine, &c, coarse, rng_make(seed, RNG_DUMMY, 102, 0), g.m, g.ldc))
        goto done;
    if (engine->device.i->gemm(engine->context, g.trans_a, g.trans_b, g.m, g.n, g.k, g.alpha,
                               a.tensor.data, g.lda, b.tensor.data, g.ldb, g.beta, c.tensor.data,
                               g.ldc) ||
        engine->i->read(engine->context, &c.tensor, found))
        goto done;
    tally_add(tally, NULL, CHECK_TOP, "C of matrix product", (int)(seed % 1000),
              gemm_error(&g, &a, &b, &c, found), tally->limit);
    status = 0;
done:
    matrix_free(engine, &a);
    matrix_free(engine, &b);
    matrix_free(engine, &c);
    free(found);
    return status;
}

void check_gemm(struct check_tally *tally, struct engine *engine, uint64_t seed, int cases,
                bool coarse)
{
    for (int i = 0; i < cases; i++)
        if (gemm_check(tally, engine, seed + (uint64_t)i, coarse)) {
            printf("FAIL: %s in matrix product, seed %llu\n", error_text(),
                   (unsigned long long)seed + (unsigned long long)i);
            tally->failed++;
        }
}
