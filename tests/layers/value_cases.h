/* The cases of tests/data/layers/values.txt: layers and nets with what they must give, read, and
 * put to work on an engine. Made by generate.py beside that file. */
#ifndef POSEIDON_TESTS_LAYERS_VALUE_CASES_H
#define POSEIDON_TESTS_LAYERS_VALUE_CASES_H

#include "tests/net/test_net_common.h"

#define VALUE_CASES       537 /* how many the file holds: a lost case fails */
#define VALUE_MAX_RECORDS 64

/* How elements are drawn that the file does not list; value_record.py draws the same. */
enum draw_kind {
    DRAW_UNIT,     /* (-1, 1) */
    DRAW_AWAY,     /* the same, at least 1/8 from 0 */
    DRAW_INTEGERS, /* a..b */
    DRAW_DISTINCT  /* multiples of 1/16, each once; a: stride of the permutation */
};

struct draw {
    enum draw_kind kind;
    int a, b, salt;
    double scale, shift; /* of what is drawn; scale 0: 1 */
};

void draw_values(const struct draw *draw, size_t n, float *out);

/* PLAIN: an input that never has another layout. AFTER: a parameter after the forward pass. LOSS:
 * of the whole net. */
enum value_what {
    VALUE_INPUT,
    VALUE_PLAIN,
    VALUE_PARAM,
    VALUE_AFTER,
    VALUE_TOP,
    VALUE_TOP_GRAD,
    VALUE_GRAD,
    VALUE_PARAM_GRAD,
    VALUE_LOSS
};

struct value_record {
    enum value_what what;
    char name[32]; /* blob or layer */
    int index;     /* of the parameter */
    struct shape shape;
    float *values; /* owned */
};

struct value_case {
    char name[96];
    bool train, differences;
    double tolerance; /* relative to a tensor's greatest element */
    char layers[8192];
    int nrecords;
    struct value_record records[VALUE_MAX_RECORDS];
};

/* The cases of a file, VALUE_CASES of them; path NULL: of the source tree's. NULL after a line on
 * standard output. */
struct value_case *value_cases_read(const char *path);
void value_cases_free(struct value_case *cases);

/* The word of a record in the file. */
const char *value_word(enum value_what what);
/* Whether the case says what its gradients are; whether it gives those of its tops, instead of
 * having a loss. */
bool value_case_has(const struct value_case *c, enum value_what what);
bool value_case_has_gradient(const struct value_case *c);
/* The gradient of an input or a parameter; NULL where the case has none. */
const struct value_record *value_case_gradient(const struct value_case *c,
                                               const struct value_record *r);
/* The case's net: inputs, then its layers. `laid_out`: after each input stands a convolution that
 * passes it on, in the layout that a convolution chooses. */
void value_case_text(const struct value_case *c, bool laid_out, char *text, size_t size);

/* A case at work; all functions give the status, with error_text. */
struct value_net {
    const struct value_case *c;
    bool laid_out;
    struct engine *engine;
    struct pass pass;
    struct made made;
    struct net *net; /* = made.net; every blob of it can be read at any time */
};

int value_net_open(struct value_net *n, const struct value_case *c, bool laid_out,
                   struct engine *engine);
void value_net_close(struct value_net *n);
/* Writes the inputs and parameters. */
int value_net_load(struct value_net *n);
int value_net_forward(struct value_net *n, double *loss);
int value_net_backward(struct value_net *n);
/* What the net has now of that which the record expects, of the shape *shape. `out` holds
 * VALUE_MOST elements. */
#define VALUE_MOST (1 << 16)
int value_net_read(struct value_net *n, const struct value_record *r, float *out,
                   struct shape *shape);

#endif
