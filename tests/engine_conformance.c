/* engine_conformance --engine=NAME [--seed=S] [--cases=N]
 *
 * Holds an engine's operators, forward and backward, against plain loops in double, over random shapes
 * and options. One line per operator with its worst relative error: the greatest difference of a
 * tensor's elements over the tensor's greatest element. Exit 77 where there is no such engine. */
#include "engine_cases.h"

#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct tally {
    double worst;
    int compared, failed;
};

static void compare(struct tally *tally, struct engine_case *c, const char *what, int i,
                    const float *found, const double *expected, size_t n, double limit)
{
    double most = 0, error = 0;

    for (size_t e = 0; e < n; e++) {
        most = fmax(most, fabs(expected[e]));
        error = fmax(error, fabs((double)found[e] - expected[e]));
        if (isnan(found[e]))
            error = INFINITY;
    }
    error /= fmax(most, 1e-3);
    tally->compared++;
    tally->worst = fmax(tally->worst, error);
    if (error <= limit)
        return;
    tally->failed++;
    printf("FAIL: %s %d differs by %g, more than %g, in\n  ", what, i, error, limit);
    case_print(c, stdout);
}

static int compare_tensor(struct tally *tally, struct engine_case *c, const char *what, int i,
                          const struct tensor *tensor, const double *expected, double limit)
{
    size_t n = shape_elems(&tensor->shape);
    float *found = malloc(n * sizeof *found);
    int status = -1;

    if (found && rig_read(&c->rig, tensor, found) == 0) {
        compare(tally, c, what, i, found, expected, n, limit);
        status = 0;
    }
    free(found);
    return status;
}

static int compare_param(struct tally *tally, struct engine_case *c, int i, double times,
                         double limit)
{
    size_t n = shape_elems(&c->rig.param[i].shape);
    float *found = malloc(n * sizeof *found);
    int status = -1;

    for (size_t e = 0; e < n; e++)
        c->reference.param_grad[i][e] *= times;
    if (found && rig_param_read_grad(&c->rig, i, found) == 0) {
        compare(tally, c, "parameter gradient", i, found, c->reference.param_grad[i], n, limit);
        status = 0;
    }
    for (size_t e = 0; e < n; e++)
        c->reference.param_grad[i][e] /= times;
    free(found);
    return status;
}

static int backward_check(struct tally *tally, struct engine_case *c, double limit)
{
    struct rig *rig = &c->rig;

    reference_backward(&c->reference);
    if (rig_backward(rig))
        return -1;
    for (int i = 0; i < rig->args.nbottoms; i++)
        if (rig->propagate[i] &&
            compare_tensor(tally, c, "bottom gradient", i, &rig->bottom[i].grad,
                           c->reference.bottom_grad[i], limit))
            return -1;
    for (int i = 0; i < rig->args.nparams; i++)
        if (compare_param(tally, c, i, 1, limit))
            return -1;
    if (rig->args.nparams == 0)
        return 0;
    /* once more, adding */
    for (int i = 0; i < rig->args.nparams; i++)
        rig->param[i].accumulate = true;
    if (rig_backward(rig))
        return -1;
    for (int i = 0; i < rig->args.nparams; i++)
        if (compare_param(tally, c, i, 2, limit))
            return -1;
    return 0;
}

static int case_check(struct tally *tally, struct engine_case *c, double limit)
{
    struct rig *rig = &c->rig;

    if (case_create(c) || rig_forward(rig))
        return -1;
    reference_forward(&c->reference);
    for (int i = 0; i < rig->args.ntops; i++)
        if (compare_tensor(tally, c, "top", i, &rig->tops[i]->value, c->reference.top[i], limit))
            return -1;
    if (!rig->args.train || !rig->op->i->backward)
        return 0;
    return backward_check(tally, c, limit);
}

static int kind_check(struct engine *engine, enum op_kind kind, uint64_t seed, int cases)
{
    struct tally tally = {0};
    const double limit = 2e-5;
    static struct engine_case c;

    for (int i = 0; i < cases; i++) {
        if (case_choose(&c, engine, kind, seed + (uint64_t)i) || case_check(&tally, &c, limit)) {
            printf("FAIL: %s in\n  ", error_text());
            case_print(&c, stdout);
            tally.failed++;
        }
        case_finish(&c);
    }
    printf("%-14s %4d cases, %5d tensors, worst relative error %.2e%s\n", op_kind_name(kind),
           cases, tally.compared, tally.worst, tally.failed ? "  FAILED" : "");
    return tally.failed;
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t n = strlen(name);

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, n) == 0)
            return argv[i] + n;
    return otherwise;
}

int main(int argc, char **argv)
{
    const char *name = option(argc, argv, "--engine=", "cpu");
    uint64_t seed = strtoull(option(argc, argv, "--seed=", "1701"), NULL, 10);
    int cases = atoi(option(argc, argv, "--cases=", "100"));
    struct engine_options options = {.threads = 2};
    struct engine engine;
    int failed = 0;

    if (engine_open(name, &options, &engine)) {
        printf("SKIP: %s\n", error_text());
        return 77;
    }
    printf("engine %s, seed %llu\n", name, (unsigned long long)seed);
    /* the kinds behind these: tests/layer_values */
    for (int kind = 0; kind <= OP_ELTWISE; kind++) {
        if (!engine.i->supports(engine.context, (enum op_kind)kind))
            printf("%-14s not supported\n", op_kind_name((enum op_kind)kind));
        else
            failed += kind_check(&engine, (enum op_kind)kind, seed, cases);
    }
    engine_close(&engine);
    return failed ? 1 : 0;
}
