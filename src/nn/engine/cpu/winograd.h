/* Convolutions of stride 1 by Winograd's algorithm, forward and both gradients: windows of 3x3 as
 * F(4x4, 3x3), of 5x5 as F(2x2, 5x5) (Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks", 2016, sections 4 and 5).
 *
 * Tiles of 6x6 pixels become values at 36 points, where a window's transformed weights multiply
 * them: 2.25 products for each output instead of 9, and 9 instead of 25. The points 0, +-5/8, +-3/2
 * and infinity round least: errors in forward are a few times the direct algorithm's, and in
 * gradients of weights smaller than the direct algorithm's.
 *
 * Activations are in blocks of 8 or 16 channels, as oneDNN's direct convolutions make them (nChw8c,
 * nChw16c), zeros behind the last channel; weights are plain. This code knows nothing of oneDNN or
 * of operators. Every sum runs in one order, which depends on the shape alone: not on the threads,
 * the size of scratch or the width of vectors. All processors that round a multiplication and an
 * addition once give the same bits. */
#ifndef POSEIDON_ENGINE_CPU_WINOGRAD_H
#define POSEIDON_ENGINE_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINOGRAD_POINTS = 36, WINOGRAD_SIDE = 6 };

/* A pass as a convolution: `in` channels of height x width become `out`. The bottom's gradient is a
 * convolution of the top's gradient with turned weights and padding of window - 1 - pad. */
struct winograd_shape {
    int images, groups, in, out; /* channels of one group; with several groups, whole blocks */
    int height, width;           /* size of the input */
    int window;                  /* height and width of the window: 3 or 5 */
    int pad[2];                  /* rows and columns of padding: 0 to window - 1 */
    bool turned;                 /* weights are (in, out, window, window), rotated by 180 degrees */
    bool weights;                /* the pass computes the weights' gradient */
    bool half;                   /* activations and their gradients are bfloat16 */
};

struct winograd {
    struct winograd_shape shape;
    const struct winograd_code *code; /* code compiled for this processor and block */
    int in, out; /* channels of a group in whole blocks, zeros behind the last */
    int step;    /* side of a tile's results in pixels: 4 for windows of 3, else 2 */
    int out_height, out_width, down, across, tiles;
    int group, rows;   /* tiles computed at a time; of these, tiles side by side in memory */
    int chunk;         /* weights' gradient: channels at a time; else: outputs at a time */
    size_t vrow, mrow; /* floats from `rows` tiles to the next `rows` */
    size_t vpoint, mpoint, upoint; /* floats between points: of input, output, weights */
};

/* Arrays of one run, all borrowed; the engine's threads share them. */
struct winograd_data {
    const void *x, *dy; /* activations; x: the pass's input */
    void *y;
    const float *weights, *bias; /* bias: NULL: none */
    float *dweights, *dbias;     /* NULL: not wanted */
    float *scratch;              /* winograd_bytes, aligned to 64 bytes */
    float *points; /* weights at the points, kept from run to run: winograd_points_bytes, aligned to
                      64 bytes. NULL: made in scratch */
    bool pointed;  /* points holds the current weights already */
    bool relu;     /* y = max(y, 0); NaN stays NaN */
};

/* The code for one instruction set (winograd_body.h). */
struct winograd_code {
    int block, lanes, rows; /* channels of a block; floats of a vector; tiles whose sums a product
                               has in registers */
    void (*forward)(const struct winograd *p, const struct winograd_data *data);
    void (*weights)(const struct winograd *p, const struct winograd_data *data);
};

extern const struct winograd_code winograd_base, winograd_avx2, winograd_avx512;

/* Fills *out for activations in blocks of `block` channels. Returns false where this processor, the
 * shape or `most` bytes of scratch do not allow the plan. */
bool winograd_plan(const struct winograd_shape *shape, int block, size_t most,
                   struct winograd *out);
/* Plans as winograd_plan does, with code that the caller chooses. */
bool winograd_plan_code(const struct winograd_shape *shape, const struct winograd_code *code,
                        size_t most, struct winograd *out);
/* Returns the bytes of scratch. kept: the weights' points are outside scratch. */
size_t winograd_bytes(const struct winograd *p, bool kept);
size_t winograd_points_bytes(const struct winograd *p);

/* Computes y = x * weights + bias or, with shape.weights, dweights and dbias from x and dy. Uses
 * all of OpenMP's threads. */
void winograd_run(const struct winograd *p, const struct winograd_data *data);

#endif
