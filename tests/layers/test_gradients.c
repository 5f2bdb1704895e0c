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
#include "tests/layers/value_cases.h"
#include "tests/suite.h"

#include <math.h>

#define STEP         0.015625 /* h: 2h stays below the distance of DISTINCT values, 1/16 */
#define ULPS         8 /* units of 2^-24 in a term: a sum of some hundred roundings of either sign */
#define ULPS_OF_TOPS 2 /* the same where the tops are summed here, in double precision */

struct slope {
    double value, bound;
};

static struct value_case *cases;

static void check(int status)
{
    ck_assert_msg(status == 0, "%s", error_text());
}

/* What the case's gradients are the gradients of: the net's loss, or the sum of the tops times
 * their gradients. `rounding`: how far it may be from what exact arithmetic gives, from the sum of
 * its terms regardless of signs. */
static double objective(struct value_net *n, double *rounding)
{
    static float values[VALUE_MOST];
    const struct value_case *c = n->c;
    struct shape shape;
    double loss, sum = 0, scale = 1;

    check(value_net_load(n));
    check(value_net_forward(n, &loss));
    for (int i = 0; i < c->nrecords; i++) {
        const struct value_record *g = &c->records[i];
        struct value_record top = *g;
        if (g->what != VALUE_TOP_GRAD)
            continue;
        top.what = VALUE_TOP;
        check(value_net_read(n, &top, values, &shape));
        for (size_t e = 0; e < shape_elems(&shape); e++) {
            sum += (double)values[e] * (double)g->values[e];
            scale += fabs((double)values[e] * (double)g->values[e]);
        }
    }
    if (value_case_has(c, VALUE_TOP_GRAD)) {
        *rounding = ULPS_OF_TOPS * 0x1p-24 * scale;
        return sum;
    }
    for (int o = 0; o < n->net->noutputs; o++) {
        const struct net_output *output = &n->net->outputs[o];
        check(n->engine->i->read(n->engine->context, &output->blob->value, values));
        for (size_t e = 0; e < shape_elems(&output->blob->value.shape); e++)
            scale += fabs((double)output->loss_weight * (double)values[e]);
    }
    *rounding = ULPS * 0x1p-24 * scale;
    return loss;
}

static double shifted(struct value_net *n, float *value, double shift)
{
    float kept = *value;
    double rounding;

    *value = (float)((double)kept + shift);
    double loss = objective(n, &rounding);
    *value = kept;
    return loss;
}

/* `middle`: the loss there. */
static struct slope slope_at(struct value_net *n, float *value, double h, double middle,
                             double rounding)
{
    double up = shifted(n, value, h), down = shifted(n, value, -h);
    double up2 = shifted(n, value, 2 * h), down2 = shifted(n, value, -2 * h);
    double near = (up - down) / (2 * h), far = (up2 - down2) / (4 * h);
    double bend = 2 * (up - 2 * middle + down) / h - (up2 - 2 * middle + down2) / (2 * h);

    return (struct slope){.value = (4 * near - far) / 3,
                          .bound = fabs(far - near) + fabs(bend) + rounding / h};
}

struct tally {
    int elements, tight, noticed, noticeable;
};

/* Of an input or a parameter. */
static void check_record(struct value_net *n, const struct value_record *r,
                         const struct value_record *gradient, struct tally *tally)
{
    static float grad[VALUE_MOST];
    struct shape shape;
    double most = 0, rounding, middle = objective(n, &rounding);

    check(value_net_backward(n));
    check(value_net_read(n, gradient, grad, &shape));
    for (size_t e = 0; e < shape_elems(&shape); e++)
        most = fmax(most, fabs((double)grad[e]));
    for (size_t e = 0; e < shape_elems(&shape); e++) {
        struct slope slope = slope_at(n, &r->values[e], STEP, middle, rounding);
        double error = fabs((double)grad[e] - slope.value);
        if (error > slope.bound) {
            slope = slope_at(n, &r->values[e], STEP / 4, middle, rounding);
            error = fabs((double)grad[e] - slope.value);
        }
        ck_assert_msg(error <= slope.bound,
                      "%s: gradient of %s[%zu] is %.7g, by differences %.7g (+-%.2g)", n->c->name,
                      r->name, e, (double)grad[e], slope.value, slope.bound);
        tally->elements++;
        tally->tight += slope.bound <= 0.01 * fmax(1, most);
        if (fabs((double)grad[e]) < 0.5 * most || most < 0.05)
            continue;
        tally->noticeable++;
        tally->noticed += fabs(1.02 * (double)grad[e] - slope.value) > slope.bound &&
                          fabs(0.98 * (double)grad[e] - slope.value) > slope.bound;
    }
}

START_TEST(gradient_is_the_slope_of_the_loss)
{
    const struct engine_options options = {.threads = 1};
    const struct value_case *c = &cases[_i];
    struct engine engine;
    struct value_net n;
    struct tally tally = {0};

    if (!c->differences)
        return;
    check(engine_open("cpu", &options, &engine));
    check(value_net_open(&n, c, false, &engine));
    for (int i = 0; i < c->nrecords; i++) {
        const struct value_record *r = &c->records[i], *gradient = value_case_gradient(c, r);
        if ((r->what == VALUE_INPUT || r->what == VALUE_PARAM) && gradient)
            check_record(&n, r, gradient, &tally);
    }
    ck_assert_int_gt(tally.elements, 0);
    ck_assert_msg(tally.tight >= 0.9 * tally.elements, "%s: only %d of %d bounds are tight",
                  c->name, tally.tight, tally.elements);
    ck_assert_msg(tally.noticed >= 0.5 * tally.noticeable,
                  "%s: an error of 2 %% would pass in %d of %d elements", c->name,
                  tally.noticeable - tally.noticed, tally.noticeable);
    value_net_close(&n);
    engine_close(&engine);
}
END_TEST

SUITE("gradients")
{
    TCase *tests = suite_case(suite, "layers");

    cases = value_cases_read(NULL);
    if (!cases)
        exit(EXIT_FAILURE);
    tcase_add_loop_test(tests, gradient_is_the_slope_of_the_loss, 0, VALUE_CASES);
}
