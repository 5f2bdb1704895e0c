/* A convolution of stride 1 and window 3x3 on the CPU engine, with its tensors on the host: what
 * tests of Winograd's algorithm in the engine are made of. */
#ifndef POSEIDON_TESTS_ENGINE_WINOGRAD_CASE_H
#define POSEIDON_TESTS_ENGINE_WINOGRAD_CASE_H

#include "tests/engine/engine_rig.h"

enum { WINOGRAD_CASE_WINDOW = 3 };

struct winograd_shape_case {
    int64_t n, c, o, h, w;
    int pad, group;
    bool bias;
};

/* All tensors of a case, on the host; its engine and operator while it is open. */
struct winograd_case {
    struct winograd_shape_case s;
    int64_t oh, ow;
    struct engine_options options; /* of its engine, but threads and convolution */
    int threads;                   /* 0: two */
    bool relu, test;               /* test: in TEST, forward alone */
    struct engine engine;
    struct rig rig;
    char words[ENGINE_OP_WORDS]; /* the engine's of the op */
    float *x, *w, *dy, *b, *y, *dx, *dw, *db;
};

/* Draws what goes in. */
void winograd_case_make(struct winograd_case *d, const struct winograd_shape_case *s);
void winograd_case_free(struct winograd_case *d);

size_t winograd_case_count(int64_t a, int64_t b, int64_t c, int64_t d);

/* An engine and the op, with the parameters that the case has. */
void winograd_case_open(struct winograd_case *d, enum engine_convolution convolution);
/* Forward and backward, from x and dy to y, dx, dw and db. */
void winograd_case_pass(struct winograd_case *d);
void winograd_case_close(struct winograd_case *d);
/* All three; says whether it went by Winograd's algorithm. */
bool winograd_case_run(struct winograd_case *d, enum engine_convolution convolution);

/* n values against sums in double, to 1e-5 of the largest. */
void winograd_case_check(const char *what, const float *found, const double *expected, size_t n);

/* As on a processor without more than "AVX2": activations in blocks of 8; or "AVX": plain ones in
 * oneDNN's backward passes. Before the process's first use of oneDNN. */
void winograd_case_be(const char *isa);
bool winograd_case_has_avx2(void);

#endif
