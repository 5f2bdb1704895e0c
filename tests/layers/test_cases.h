/* Nets with the values they must give, from data/layers/layer_values.h: loaded, built on an engine
 * and filled, for the tests that compare (test_reference) and differentiate (test_gradients). */
#ifndef POSEIDON_TESTS_LAYERS_TEST_CASES_H
#define POSEIDON_TESTS_LAYERS_TEST_CASES_H

#include "tests/net/test_net_common.h"

/* How an input's or parameter's elements are drawn; the generator draws the same. */
enum value_kind {
    VALUE_UNIT,     /* (-1, 1) */
    VALUE_AWAY,     /* the same, at least 1/8 from 0 */
    VALUE_INTEGERS, /* a..b */
    VALUE_DISTINCT  /* multiples of 1/16, each once; a: stride of the permutation */
};

struct value_spec {
    const char *name;
    int param; /* index in net->params; -1: the blob of that name */
    enum value_kind kind;
    int a, b, salt, n;
};

enum expect_kind { EXPECT_LOSS, EXPECT_TOP, EXPECT_BOTTOM, EXPECT_PARAM };

struct expectation {
    enum expect_kind kind; /* TOP: values; BOTTOM, PARAM: gradients ("p0": net->params[0]) */
    const char *name;
    int at, n; /* range of layer_numbers */
};

struct layer_case {
    const char *name, *net; /* prototxt */
    int first_spec, nspecs, first_expected, nexpected;
};

/* The table. */
int case_count(void);
const struct layer_case *case_get(int i);
const struct value_spec *case_spec(const struct layer_case *c, int i);
const struct expectation *case_expected(const struct layer_case *c, int i);
const float *expectation_values(const struct expectation *expected);
/* Whether the case has a loss to differentiate. */
bool case_has_gradient(const struct layer_case *c);

/* A case at work. */
struct case_net {
    const struct layer_case *c; /* NULL: of a text */
    struct engine engine;
    struct made made;
    struct net *net; /* = made.net */
    struct run run;
    float **values; /* per spec of the case, what case_net_load writes; owned */
};

void value_draw(const struct value_spec *spec, float *out);

/* Nets of a case, with values loaded, or of any text, with what its fillers gave. Fails the test
 * with the error's text. */
void case_net_open(struct case_net *n, const struct layer_case *c, int threads);
void case_net_open_text(struct case_net *n, const char *text, int threads);
void case_net_close(struct case_net *n);
/* Writes all inputs and parameters again: passes may work in place on them. */
void case_net_load(struct case_net *n);
void case_net_load_spec(struct case_net *n, int spec);

double case_net_forward(struct case_net *n);
void case_net_backward(struct case_net *n, bool first);

/* Plain copies; the caller frees. */
float *case_net_read(struct case_net *n, const struct tensor *tensor);
float *case_net_blob(struct case_net *n, const char *name);
float *case_net_blob_grad(struct case_net *n, const char *name);
float *case_net_param_grad(struct case_net *n, int param);
void case_net_write_blob(struct case_net *n, const char *name, const float *values);
void case_net_write_param(struct case_net *n, int param, const float *values);

#endif
