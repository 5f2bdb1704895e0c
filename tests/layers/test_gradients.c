/* Layers and nets against finite differences of their own loss.
 *
 * The loss L is read at x, x +- h and x +- 2h. D(h) = (L(x+h) - L(x-h)) / 2h errs by h^2 L'''/6 +
 * ..., D(2h) by four times that, so (4 D(h) - D(2h)) / 3 is right up to h^4, and |D(2h) - D(h)| is
 * more than what the better of the two errs by: the scheme measures its own error. A kink (a ReLU
 * at 0, two equal maxima) right at x escapes that, being symmetric, but not the second differences
 * S(h) = (L(x+h) - 2 L(x) + L(x-h)) / h, where |2 S(h) - S(2h)| is of order h^3 if L is smooth and
 * the change of slope if it has a kink; for a kink anywhere within 2h the two together exceed the
 * error. Two kinks may cancel: an element out of bounds is looked at again at h / 4, before it
 * counts. Besides, L is a sum of floats: each term is known to some units of 2^-24 of its size,
 * which the differences divide by h. The bound is the sum of the three. So that wide bounds do not
 * become the rule, nine of ten must be tight, and half of the gradients must be told from ones 2 %
 * off. */
#include "tests/layers/test_cases.h"
#include "tests/suite.h"

#include <math.h>

#define STEP 0.015625 /* h: 2h stays below the distance of DISTINCT values, 1/16 */
#define ULPS 8        /* units of 2^-24 in a term: a sum of some hundred roundings of either sign */

struct slope {
    double value, bound;
};

/* Sum of what the loss adds up, regardless of signs: the scale of its rounding. */
static double loss_scale(struct case_net *n)
{
    double sum = 1;

    for (int o = 0; o < n->net->noutputs; o++) {
        const struct net_output *output = &n->net->outputs[o];
        float *values = case_net_read(n, &output->blob->value);
        for (size_t i = 0; i < shape_elems(&output->blob->value.shape); i++)
            sum += fabs((double)output->loss_weight * (double)values[i]);
        free(values);
    }
    return sum;
}

static double loss_at(struct case_net *n, int spec, int i, double shift)
{
    float *value = &n->values[spec][i], kept = *value;

    *value = (float)((double)kept + shift);
    case_net_load(n);
    double loss = case_net_forward(n);
    *value = kept;
    return loss;
}

/* `middle`: the loss there, `scale` that of its terms. */
static struct slope slope_at(struct case_net *n, int spec, int i, double h, double middle,
                             double scale)
{
    double up = loss_at(n, spec, i, h), down = loss_at(n, spec, i, -h);
    double up2 = loss_at(n, spec, i, 2 * h), down2 = loss_at(n, spec, i, -2 * h);
    double near = (up - down) / (2 * h), far = (up2 - down2) / (4 * h);
    double bend = 2 * (up - 2 * middle + down) / h - (up2 - 2 * middle + down2) / (2 * h);

    return (struct slope){.value = (4 * near - far) / 3,
                          .bound = fabs(far - near) + fabs(bend) + ULPS * 0x1p-24 * scale / h};
}

struct tally {
    int elements, tight, noticed, noticeable;
};

static void check_spec(struct case_net *n, int i, const float *grad, double middle, double scale,
                       struct tally *tally)
{
    const struct value_spec *spec = case_spec(n->c, i);
    double most = 0;

    for (int e = 0; e < spec->n; e++)
        most = fmax(most, fabs((double)grad[e]));
    for (int e = 0; e < spec->n; e++) {
        struct slope slope = slope_at(n, i, e, STEP, middle, scale);
        double error = fabs((double)grad[e] - slope.value);
        if (error > slope.bound) {
            slope = slope_at(n, i, e, STEP / 4, middle, scale);
            error = fabs((double)grad[e] - slope.value);
        }
        ck_assert_msg(error <= slope.bound,
                      "%s: gradient of %s[%d] is %.7g, by differences %.7g (+-%.2g)", n->c->name,
                      spec->name, e, (double)grad[e], slope.value, slope.bound);
        tally->elements++;
        tally->tight += slope.bound <= 0.01 * fmax(1, most);
        if (fabs((double)grad[e]) < 0.5 * most || most < 0.05)
            continue;
        tally->noticeable++;
        tally->noticed += fabs(1.02 * (double)grad[e] - slope.value) > slope.bound &&
                          fabs(0.98 * (double)grad[e] - slope.value) > slope.bound;
    }
}

/* Labels and values with ties have no slope; the weights r of the loss tell nothing new. */
static bool has_slope(const struct value_spec *spec)
{
    return spec->kind != VALUE_INTEGERS && spec->name[0] != 'r';
}

START_TEST(gradient_is_the_slope_of_the_loss)
{
    struct case_net n;
    struct tally tally = {0};

    if (!case_has_gradient(case_get(_i)))
        return;
    case_net_open(&n, case_get(_i), 1);
    for (int i = 0; i < n.c->nspecs; i++) {
        const struct value_spec *spec = case_spec(n.c, i);
        if (!has_slope(spec))
            continue;
        case_net_load(&n);
        double middle = case_net_forward(&n);
        case_net_backward(&n, true);
        double scale = loss_scale(&n);
        float *grad = spec->param >= 0 ? case_net_param_grad(&n, spec->param)
                                       : case_net_blob_grad(&n, spec->name);
        check_spec(&n, i, grad, middle, scale, &tally);
        free(grad);
    }
    ck_assert_msg(tally.tight >= 0.9 * tally.elements, "%s: only %d of %d bounds are tight",
                  n.c->name, tally.tight, tally.elements);
    ck_assert_msg(tally.noticed >= 0.5 * tally.noticeable,
                  "%s: an error of 2 %% would pass in %d of %d elements", n.c->name,
                  tally.noticeable - tally.noticed, tally.noticeable);
    case_net_close(&n);
}
END_TEST

SUITE("gradients")
{
    TCase *tests = suite_case(suite, "layers");

    tcase_add_loop_test(tests, gradient_is_the_slope_of_the_loss, 0, case_count());
}
