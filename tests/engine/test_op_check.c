/* Every operator's refusals, without any engine: a call that is right, and for each message a
 * change that makes it wrong. And what a pass of it reads, writes and computes. */
#include "tests/engine/op_calls.h"
#include "engine/op_size.h"
#include "tests/suite.h"

#include "util/error.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BLOBS = 8 };

/* A call as op_check sees it. */
struct made {
    struct op_args args;
    struct blob bottom[MOST_BLOBS], top[MOST_BLOBS];
    struct blob *bottoms[MOST_BLOBS], *tops[MOST_BLOBS];
    struct param param[MOST_BLOBS], *params[MOST_BLOBS];
    bool propagate[MOST_BLOBS];
};

/* The shapes of a text; returns their number. */
static int read_shapes(const char *text, struct shape shapes[MOST_BLOBS])
{
    int n = 0;

    while (*text) {
        struct shape *shape = &shapes[n++];
        *shape = (struct shape){0};
        for (; *text && *text != '|'; text += *text == ' ' || *text == '-')
            if (*text >= '0' && *text <= '9') {
                char *end;
                shape->dim[shape->naxes++] = strtol(text, &end, 10);
                text = end;
            }
        text += *text == '|';
    }
    return n;
}

static void make(struct made *m, const struct call *call)
{
    struct shape shapes[MOST_BLOBS];

    memset(m, 0, sizeof *m);
    if (call->u)
        m->args = *call->u;
    m->args.kind = call->kind;
    m->args.layer = "l";
    m->args.train = true;
    m->args.nbottoms = read_shapes(call->bottoms, shapes);
    for (int i = 0; i < m->args.nbottoms; i++)
        m->bottom[i].value.shape = shapes[i];
    m->args.ntops = read_shapes(call->tops, shapes);
    for (int i = 0; i < m->args.ntops; i++)
        m->top[i].value.shape = shapes[i];
    m->args.nparams = read_shapes(call->params, shapes);
    for (int i = 0; i < m->args.nparams; i++)
        m->param[i].shape = shapes[i];
    for (int i = 0; i < MOST_BLOBS; i++) {
        m->bottom[i].name = "x";
        m->top[i].name = "y";
        m->bottoms[i] = &m->bottom[i];
        m->tops[i] = &m->top[i];
        m->params[i] = &m->param[i];
    }
    m->args.bottoms = m->bottoms;
    m->args.tops = m->tops;
    m->args.params = m->params;
    m->args.propagate = m->propagate;
}

static const struct call *right_call(enum op_kind kind)
{
    for (int i = 0; i < RIGHT; i++)
        if (right[i].kind == kind)
            return &right[i];
    ck_abort_msg("there is no right call of %s", op_kind_name(kind));
    return NULL;
}

/* Blobs beyond those that the call has are scalars. */
static void make_right(struct made *m, enum op_kind kind)
{
    make(m, right_call(kind));
}

static void expect(const struct op_args *args, const char *says)
{
    char expected[512];

    error_clear();
    snprintf(expected, sizeof expected, "%s: ", op_kind_name(args->kind));
    ck_assert_msg(op_check(args) == -1, "%s: nobody said '%s'", op_kind_name(args->kind), says);
    ck_assert_msg(strncmp(error_text(), expected, strlen(expected)) == 0,
                  "'%s' does not begin with '%s'", error_text(), expected);
    ck_assert_msg(strstr(error_text(), says) != NULL, "'%s' lacks '%s'", error_text(), says);
}

START_TEST(a_right_call_passes)
{
    struct made m;

    make_right(&m, (enum op_kind)_i);
    for (int b = 0; b < m.args.nbottoms; b++)
        m.propagate[b] = b == 0 && _i != OP_EMBED;
    ck_assert_msg(op_check(&m.args) == 0, "%s", error_text());
    m.args.train = false; /* nothing is asked of a test net that was not asked in training */
    ck_assert_msg(op_check(&m.args) == 0, "%s", error_text());
}
END_TEST

START_TEST(a_wrong_call_is_refused_with_its_reason)
{
    const struct wrong *w = &wrong[_i];
    struct call call = *right_call(w->kind);
    struct made m;

    call.bottoms = w->bottoms ? w->bottoms : call.bottoms;
    call.tops = w->tops ? w->tops : call.tops;
    call.params = w->params ? w->params : call.params;
    call.u = w->u ? w->u : call.u;
    make(&m, &call);
    if (w->in_place)
        m.tops[0] = m.bottoms[0];
    for (int b = 0; b < m.args.nbottoms; b++)
        m.propagate[b] = w->gradient >> b & 1;
    expect(&m.args, w->says);
}
END_TEST

START_TEST(every_operator_has_a_call_that_is_refused)
{
    bool seen = false;

    for (int i = 0; i < WRONG; i++)
        seen |= wrong[i].kind == (enum op_kind)_i;
    ck_assert_msg(seen, "no wrong call of %s is tried", op_kind_name((enum op_kind)_i));
}
END_TEST

/* One bottom, top or parameter more than it takes, and one less. */
START_TEST(a_wrong_number_of_blobs_is_refused)
{
    const struct op_signature *s = op_signature((enum op_kind)_i);
    const int least[] = {s->bottoms.least, s->tops.least, s->params.least};
    const int most[] = {s->bottoms.most, s->tops.most, s->params.most};
    static const char *const what[] = {"bottom", "top", "parameter"};
    struct made m;
    char says[64];

    for (int i = 0; i < 3; i++) {
        for (int more = 0; more < 2; more++) {
            int n = more ? most[i] + 1 : least[i] - 1;
            if (more ? most[i] == OP_ANY : n < 0)
                continue;
            make_right(&m, (enum op_kind)_i);
            *(i == 0 ? &m.args.nbottoms : i == 1 ? &m.args.ntops : &m.args.nparams) = n;
            snprintf(says, sizeof says, ", not %d", n);
            expect(&m.args, says);
            ck_assert_msg(strstr(error_text(), what[i]), "'%s' lacks '%s'", error_text(), what[i]);
        }
    }
}
END_TEST

START_TEST(an_empty_blob_is_refused)
{
    struct made m;

    make_right(&m, (enum op_kind)_i);
    if (m.args.nbottoms > 0) {
        m.bottom[m.args.nbottoms - 1].value.shape = (struct shape){.naxes = 2, .dim = {3, 0}};
        expect(&m.args, "bottom 'x' has no elements: its shape is 3 0 (0)");
    }
    make_right(&m, (enum op_kind)_i);
    if (m.args.ntops > 0) {
        m.top[m.args.ntops - 1].value.shape = (struct shape){.naxes = 1};
        expect(&m.args, "top 'y' has no elements: its shape is 0 (0)");
    }
}
END_TEST

START_TEST(only_the_first_top_may_be_the_first_bottom)
{
    struct made m;

    make_right(&m, OP_ELTWISE);
    m.tops[0] = m.bottoms[0];
    ck_assert_msg(op_check(&m.args) == 0, "%s", error_text());
    m.tops[0] = m.bottoms[1];
    expect(&m.args, "cannot work in place: top 0 is bottom 1");
}
END_TEST

/* ---- the way through engine_op_create ---- */

static int created;

static int count_op(void *context, const struct op_args *args, struct op **out)
{
    static struct op op;

    (void)context;
    (void)args;
    *out = &op;
    created++;
    return 0;
}

START_TEST(an_engine_is_asked_for_right_calls_alone)
{
    static const struct engine_i table = {.name = "counter", .op_create = count_op};
    struct engine engine = {.i = &table};
    struct op *op;
    struct made m;

    created = 0;
    make_right(&m, OP_RELU);
    ck_assert_msg(engine_op_create(&engine, &m.args, &op) == 0, "%s", error_text());
    ck_assert_int_eq(created, 1);
    ck_assert_double_eq(op->work[OP_FORWARD].blob_bytes, 12 * sizeof(float));
    m.args.ntops = 2;
    ck_assert_int_eq(engine_op_create(&engine, &m.args, &op), -1);
    ck_assert_str_eq(error_text(), "layer 'l': ReLU: takes 1 top, not 2");
    make_right(&m, OP_CONV);
    m.args.relu = true;
    ck_assert_int_eq(engine_op_create(&engine, &m.args, &op), -1);
    ck_assert_str_eq(error_text(),
                     "engine 'counter' cannot fuse a ReLU into a convolution, as layer 'l' asks");
    m.args.kind = OP_KINDS;
    ck_assert_int_eq(engine_op_create(&engine, &m.args, &op), -1);
    ck_assert_msg(strstr(error_text(), "there is no operator"), "%s", error_text());
    ck_assert_int_eq(created, 1);
}
END_TEST

/* ---- what a pass reads, writes and computes ---- */

/* Counted by hand from the formulas of engine/ops.h. Shapes as in the right calls; bit i of
 * propagate and learns: bottom i gets its gradient, parameter i learns. Blobs and parameters in
 * floats. */
static const bool relu_of_first[] = {true, false};

static const struct counted {
    enum op_kind kind;
    unsigned propagate, learns;
    const struct op_args *u;
    double flops, blobs, params;                /* forward */
    double back_flops, back_blobs, back_params; /* backward */
} counted[] = {
    /* x 280, y 180, w 108, b 6; 18 products for each y. Backward: x and dy give dw, dy and w dx */
    {OP_CONV, 1, 3, NULL, 2 * 18 * 180, 280 + 180, 114, 4 * 18 * 180, 2 * (280 + 180), 114 + 108},
    {OP_CONV, 0, 3, NULL, 2 * 18 * 180, 280 + 180, 114, 2 * 18 * 180, 280 + 180, 114},
    {OP_CONV, 1, 0, NULL, 2 * 18 * 180, 280 + 180, 114, 2 * 18 * 180, 280 + 180, 108},
    /* backward cuts dy first, where y tells it to */
    {OP_CONV, 1, 3, U(CONV_ARGS(.group = 2, .bias = true), .relu = true), 2 * 18 * 180, 280 + 180,
     114, 4 * 18 * 180, 2 * (280 + 180) + 3 * 180, 114 + 108},
    {OP_DECONV, 1, 3, NULL, 2 * 18 * 180, 280 + 180, 112, 4 * 18 * 180, 2 * (280 + 180), 112 + 108},
    /* 2 x 12 by 12 x 5 */
    {OP_INNER_PRODUCT, 1, 3, NULL, 2 * 120, 24 + 10, 65, 4 * 120, 2 * (24 + 10), 65 + 60},
    /* x 180, y 36 and as many places; windows of 6 */
    {OP_POOL, 1, 0, NULL, 216, 180 + 36 + 36, 0, 216, 180 + 36, 0},
    {OP_RELU, 1, 0, NULL, 12, 6 + 6, 0, 18, 6 + 6 + 6, 0},
    {OP_FLATTEN, 1, 0, NULL, 0, 0, 0, 0, 0, 0},
    {OP_CONCAT, 3, 0, NULL, 28, 6 + 8 + 14, 0, 28, 6 + 8 + 14, 0},
    {OP_CONCAT, 1, 0, NULL, 28, 6 + 8 + 14, 0, 20, 6 + 14, 0},
    /* backward sees by the top's values where the ReLU of bottom 0 cut */
    {OP_CONCAT, 3, 0, U(concat = {.axis = 1, .relu = relu_of_first}), 28, 6 + 8 + 14, 0, 34,
     6 + 8 + 14 + 6, 0},
    {OP_SPLIT, 1, 0, NULL, 0, 0, 0, 18, 6 + 6 + 6, 0},
    {OP_ELTWISE, 3, 0, NULL, 18, 6 + 6 + 6, 0, 18, 6 + 6 + 6, 0},
    {OP_ELTWISE, 3, 0, U(eltwise = {.operation = ELTWISE_PROD}), 18, 18, 0, 30, 12 + 6 + 12, 0},
    /* x 24: read for the statistics, and again; backward the same for x and dy */
    {OP_BATCH_NORM, 1, 24, NULL, 85, 3 * 24, 13, 139, 5 * 24, 6 + 13},
    {OP_BATCH_NORM, 1, 0, U(batch_norm = {.global_stats = true, .scale = true, .bias = true}), 61,
     2 * 24, 13, 61, 2 * 24, 13},
    {OP_DROPOUT, 1, 0, NULL, 12, 6 + 6, 0, 12, 6 + 6, 0},
    {OP_DROPOUT, 1, 0, U(dropout = {.ratio = 0}), 0, 0, 0, 0, 0, 0},
};

#define VOLUME_WINDOW .kernel = {3, 2, 2}, .stride = {1, 1, 1}, .pad = {0, 0, 0}
#define VOLUME        VOLUME_WINDOW, .dilation = {1, 1, 1}, .group = 1

/* The same over other numbers of spatial axes, with calls of their own. Over one: x 24, y 18, w 27,
 * 9 products for each y. Over three: x 192, y 54, w 108, 36 products for each y; windows of 12, x
 * 64, y 18. */
static const struct {
    struct counted counted;
    struct call call;
} counted_spatial[] = {
    {{OP_CONV, 1, 1, NULL, 2 * 9 * 18, 24 + 18, 27, 4 * 9 * 18, 2 * (24 + 18), 27 + 27},
     {OP_CONV, "1 3 8", "1 3 6", "3 3 3", CONV(.pad = {0}, .group = 1)}},
    {{OP_CONV, 1, 1, NULL, 2 * 36 * 54, 192 + 54, 108, 4 * 36 * 54, 2 * (192 + 54), 108 + 108},
     {OP_CONV, "1 3 4 4 4", "1 3 2 3 3", "3 3 3 2 2", CONV(VOLUME)}},
    {{OP_DECONV, 1, 1, NULL, 2 * 36 * 54, 192 + 54, 108, 4 * 36 * 54, 2 * (192 + 54), 108 + 108},
     {OP_DECONV, "1 3 2 3 3", "1 3 4 4 4", "3 3 3 2 2", CONV(VOLUME)}},
    {{OP_POOL, 1, 0, NULL, 12 * 18, 64 + 18, 0, 12 * 18, 64 + 18, 0},
     {OP_POOL, "1 1 4 4 4", "1 1 2 3 3", "", POOL(VOLUME_WINDOW)}},
    {{OP_IM2COL, 1, 0, NULL, 12 * 64, 64 + 216, 0, 12 * 64, 64 + 216, 0},
     {OP_IM2COL, "1 1 4 4 4", "1 12 2 3 3", "", CONV(VOLUME)}},
};

static void check_counted(const struct counted *c, const struct call *call)
{
    struct op_work forward, backward;
    struct made m;

    make(&m, call);
    ck_assert_msg(op_check(&m.args) == 0, "%s", error_text());
    for (int i = 0; i < MOST_BLOBS; i++) {
        m.propagate[i] = c->propagate >> i & 1;
        m.param[i].wants_grad = c->learns >> i & 1;
        m.top[i].wants_grad = i == 0 || c->kind == OP_SPLIT;
    }
    forward = op_work(&m.args, OP_FORWARD);
    backward = op_work(&m.args, OP_BACKWARD);
    ck_assert_double_eq(forward.flops, c->flops);
    ck_assert_double_eq(forward.blob_bytes, 4 * c->blobs);
    ck_assert_double_eq(forward.param_bytes, 4 * c->params);
    ck_assert_double_eq(backward.flops, c->back_flops);
    ck_assert_double_eq(backward.blob_bytes, 4 * c->back_blobs);
    ck_assert_double_eq(backward.param_bytes, 4 * c->back_params);
    m.args.train = false;
    ck_assert_double_eq(op_work(&m.args, OP_BACKWARD).blob_bytes, 0);
}

START_TEST(a_pass_is_what_was_counted_by_hand)
{
    const struct counted *c = &counted[_i];
    struct call call = *right_call(c->kind);

    call.u = c->u ? c->u : call.u;
    check_counted(c, &call);
}
END_TEST

START_TEST(a_pass_over_one_and_three_axes_is_what_was_counted_by_hand)
{
    check_counted(&counted_spatial[_i].counted, &counted_spatial[_i].call);
}
END_TEST

SUITE("op_check")
{
    TCase *tests = suite_case(suite, "checks of operators");

    tcase_add_loop_test(tests, a_right_call_passes, 0, OP_KINDS);
    tcase_add_loop_test(tests, a_wrong_call_is_refused_with_its_reason, 0, WRONG);
    tcase_add_loop_test(tests, every_operator_has_a_call_that_is_refused, 0, OP_KINDS);
    tcase_add_loop_test(tests, a_wrong_number_of_blobs_is_refused, 0, OP_KINDS);
    tcase_add_loop_test(tests, an_empty_blob_is_refused, 0, OP_KINDS);
    tcase_add_test(tests, only_the_first_top_may_be_the_first_bottom);
    tcase_add_test(tests, an_engine_is_asked_for_right_calls_alone);
    tcase_add_loop_test(tests, a_pass_is_what_was_counted_by_hand, 0,
                        (int)(sizeof counted / sizeof *counted));
    tcase_add_loop_test(tests, a_pass_over_one_and_three_axes_is_what_was_counted_by_hand, 0,
                        (int)(sizeof counted_spatial / sizeof *counted_spatial));
}
