/* A net of a text on the CPU engine, filled, passed and read by tests that fail with the error's
 * text. */
#ifndef POSEIDON_TESTS_LAYERS_CASE_NET_H
#define POSEIDON_TESTS_LAYERS_CASE_NET_H

#include "tests/layers/value_cases.h"

struct case_net {
    struct engine engine;
    struct made made;
    struct net *net; /* = made.net */
    struct pass pass;
};

void case_net_open_text(struct case_net *n, const char *text, int threads);
void case_net_close(struct case_net *n);

double case_net_forward(struct case_net *n);
void case_net_backward(struct case_net *n, bool first);

/* Plain copies; the caller frees. */
float *case_net_read(struct case_net *n, const struct tensor *tensor);
float *case_net_blob(struct case_net *n, const char *name);
float *case_net_blob_grad(struct case_net *n, const char *name);
float *case_net_param_grad(struct case_net *n, int param);
void case_net_write_blob(struct case_net *n, const char *name, const float *values);

#endif
