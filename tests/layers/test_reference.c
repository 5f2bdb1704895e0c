/* Layers and nets against PyTorch: outputs, loss, gradients of inputs and parameters. The values
 * come from data/layers/generate_layers.py, made in double precision. */
#include "tests/layers/test_cases.h"
#include "tests/suite.h"

#include <math.h>

/* Errors are relative to the tensor's greatest element. The longest sum here has some hundred
 * terms; rounding each to float (6e-8) adds up to 100 x 6e-8 at the very worst. Found in fact:
 * 5e-7, 1e-6 for a loss. */
#define LIMIT 3e-6

static void compare(const struct layer_case *c, const char *what, const struct expectation *e,
                    const float *found)
{
    const float *expected = expectation_values(e);
    double most = e->kind == EXPECT_LOSS ? 1 : 1e-2; /* a loss has terms of about 1 */

    for (int i = 0; i < e->n; i++)
        most = fmax(most, fabs((double)expected[i]));
    for (int i = 0; i < e->n; i++) {
        double error = fabs((double)found[i] - (double)expected[i]);
        ck_assert_msg(error <= LIMIT * most, "%s: %s %s[%d] is %.9g, expected %.9g (+-%g)", c->name,
                      what, e->name, i, (double)found[i], (double)expected[i], LIMIT * most);
    }
}

static void compare_case(struct case_net *n, double loss)
{
    const struct layer_case *c = n->c;

    for (int i = 0; i < c->nexpected; i++) {
        const struct expectation *e = case_expected(c, i);
        const float as_float = (float)loss;
        float *found = NULL;
        switch (e->kind) {
        case EXPECT_LOSS:
            compare(c, "the", e, &as_float);
            break;
        case EXPECT_TOP:
            found = case_net_blob(n, e->name);
            compare(c, "blob", e, found);
            break;
        case EXPECT_BOTTOM:
            found = case_net_blob_grad(n, e->name);
            compare(c, "gradient of blob", e, found);
            break;
        case EXPECT_PARAM:
            found = case_net_param_grad(n, atoi(e->name + 1));
            compare(c, "gradient of parameter", e, found);
            break;
        }
        free(found);
    }
}

/* Twice: the second pass finds memory full of the first one's values. */
START_TEST(layer_gives_the_values_and_gradients_of_the_reference)
{
    struct case_net n;

    case_net_open(&n, case_get(_i), 2);
    for (int pass = 0; pass < 2; pass++) {
        case_net_load(&n);
        double loss = case_net_forward(&n);
        if (case_has_gradient(n.c))
            case_net_backward(&n, true);
        compare_case(&n, loss);
    }
    case_net_close(&n);
}
END_TEST

/* The formula that the generator shares. */
START_TEST(values_are_the_generators)
{
    struct value_spec spec = {.kind = VALUE_AWAY, .param = -1, .salt = 5, .n = 3};
    float drawn[3];

    ck_assert_int_gt(case_count(), 100);
    value_draw(&spec, drawn);
    for (int i = 0; i < 3; i++)
        ck_assert(fabsf(drawn[i]) >= 0.125f && fabsf(drawn[i]) < 1);
}
END_TEST

SUITE("reference")
{
    TCase *tests = suite_case(suite, "reference");

    tcase_add_test(tests, values_are_the_generators);
    tcase_add_loop_test(tests, layer_gives_the_values_and_gradients_of_the_reference, 0,
                        case_count());
}
