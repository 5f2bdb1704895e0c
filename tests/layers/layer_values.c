/* layer_values [--engine=NAME] [--case=PART-OF-NAME] [FILE]
 *
 * Runs the layers and nets of tests/data/layers/values.txt and compares tops, losses, gradients and
 * statistics with PyTorch's values there. Each case runs with its inputs plain and in the layout
 * that a convolution before it chooses; and each twice: the second pass finds memory full of the
 * first one's values. Exit 77 where there is no such engine. */
#include "tests/layers/value_cases.h"

#include <math.h>

static int failures, compared;

static void compare(const struct value_net *n, const struct value_record *r, const float *found)
{
    size_t count = shape_elems(&r->shape);
    double most = r->what == VALUE_LOSS ? 1 : 1e-3, worst = 0; /* a loss has terms of about 1 */
    size_t at = 0;

    for (size_t i = 0; i < count; i++)
        if (fabs((double)r->values[i]) > most)
            most = fabs((double)r->values[i]);
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - (double)r->values[i]) / most;
        if (!(error <= worst)) {
            worst = error;
            at = i;
        }
        if (isnan(found[i]))
            break;
    }
    compared++;
    if (worst <= n->c->tolerance)
        return;
    failures++;
    printf("FAIL %s%s: %s %s %d: element %zu is %.9g, expected %.9g (relative error %g)\n",
           n->c->name, n->laid_out ? " (laid out)" : "", value_word(r->what), r->name, r->index, at,
           (double)found[at], (double)r->values[at], worst);
}

static int compare_record(struct value_net *n, const struct value_record *r)
{
    static float found[VALUE_MOST];
    struct shape shape;

    if (value_net_read(n, r, found, &shape))
        return -1;
    if (shape_equal(&r->shape, &shape)) {
        compare(n, r, found);
        return 0;
    }
    failures++;
    printf("FAIL %s: %s %s has the shape %s, expected %s\n", n->c->name, value_word(r->what),
           r->name, shape_text(&shape).text, shape_text(&r->shape).text);
    return 0;
}

static int compare_forward(struct value_net *n, double loss)
{
    for (int i = 0; i < n->c->nrecords; i++) {
        const struct value_record *r = &n->c->records[i];
        if (r->what == VALUE_LOSS)
            compare(n, r, &(float){(float)loss});
        if ((r->what == VALUE_TOP || r->what == VALUE_AFTER) && compare_record(n, r))
            return -1;
    }
    return 0;
}

static int compare_backward(struct value_net *n)
{
    for (int i = 0; i < n->c->nrecords; i++) {
        const struct value_record *r = &n->c->records[i];
        if ((r->what == VALUE_GRAD || r->what == VALUE_PARAM_GRAD) && compare_record(n, r))
            return -1;
    }
    return 0;
}

static int pass(struct value_net *n)
{
    double loss;

    if (value_net_load(n) || value_net_forward(n, &loss) || compare_forward(n, loss))
        return -1;
    if (!value_case_has_gradient(n->c))
        return 0;
    return value_net_backward(n) ? -1 : compare_backward(n);
}

static void run_case(const struct value_case *c, bool laid_out, struct engine *engine)
{
    struct value_net n;

    if (value_net_open(&n, c, laid_out, engine) || pass(&n) || pass(&n)) {
        failures++;
        printf("FAIL %s%s: %s\n", c->name, laid_out ? " (laid out)" : "", error_text());
    }
    value_net_close(&n);
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, strlen(name)) == 0)
            return argv[i] + strlen(name);
    return otherwise;
}

int main(int argc, char **argv)
{
    const char *name = option(argc, argv, "--engine=", "cpu");
    const char *part = option(argc, argv, "--case=", "");
    const char *path = argc > 1 && argv[argc - 1][0] != '-' ? argv[argc - 1] : NULL;
    const struct engine_options options = {.threads = 2, .math = MATH_FP32, .deterministic = true};
    struct value_case *cases;
    struct engine engine;
    int ran = 0;

    if (engine_open(name, &options, &engine)) {
        printf("SKIP: %s\n", error_text());
        return 77;
    }
    cases = value_cases_read(path);
    for (int i = 0; cases && i < VALUE_CASES; i++) {
        if (!strstr(cases[i].name, part))
            continue;
        ran++;
        run_case(&cases[i], false, &engine);
        run_case(&cases[i], true, &engine);
    }
    value_cases_free(cases);
    engine_close(&engine);
    printf("engine %s: %d cases, %d comparisons, %d failures\n", name, ran, compared, failures);
    return failures || ran == 0 ? 1 : 0;
}
