/* Convolutions of stride 1 by Winograd's algorithm: of 3x3 weights as F(4x4, 3x3), of 5x5 ones as
 * F(2x2, 5x5), forward, to the bottom and to the weights (Lavin and Gray, "Fast Algorithms for
 * Convolutional Neural Networks", 2016, sections 4 and 5).
 *
 * Tiles of 6x6 pixels become their values at 36 points, which is where a window's weights meet
 * them: 2.25 products for each output instead of 9, and 9 instead of 25. The points 0, +-5/8,
 * +-3/2 and infinity round least: errors are a few times the direct algorithm's forward, and less
 * than its in gradients of weights.
 *
 * Activations are in blocks of 8 or 16 channels, as oneDNN's direct convolutions hand them on
 * (nChw8c, nChw16c), zeros behind the last channel; weights are plain. Nothing of oneDNN or of
 * operators is known here. Every sum runs in one order, which depends on the shape alone: not on
 * the threads, the memory lent or the width of vectors. Processors that round a multiplication and
 * an addition once give the same bits.
 */
#ifndef POSEIDON_ENGINE_CPU_WINOGRAD_H
#define POSEIDON_ENGINE_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WINOGRAD_POINTS = 36, WINOGRAD_SIDE = 6 };

/* A pass as a convolution: `in` channels of height x width become `out`. The gradient of the bottom
 * is one of the top's with weights turned, and window - 1 - pad around it. */
struct winograd_shape {
    int images, groups, in, out; /* channels: of one group; of several groups whole blocks */
    int height, width;           /* of what goes in */
    int window;                  /* 3 or 5, both ways */
    int pad[2];                  /* 0 to window - 1: rows, columns */
    bool turned;                 /* weights are (in, out, window, window), half a circle round */
    bool weights;                /* their gradient is asked for, not what comes out */
};

struct winograd {
    struct winograd_shape shape;
    const struct winograd_code *code; /* compiled for this processor and block */
    int in, out; /* channels of a group in whole blocks, zeros behind the last */
    int step;    /* pixels of a tile's results: 4 of a window of 3, else 2 */
    int out_height, out_width, down, across, tiles;
    int group, rows;               /* tiles computed at a time; of those, side by side in memory */
    int chunk;                     /* weights: channels at a time; else: outputs */
    size_t vrow, mrow;             /* floats from `rows` tiles to the next */
    size_t vpoint, mpoint, upoint; /* floats between points: of what goes in, comes out, weights */
};

/* What is computed with. All of it is borrowed, and shared by the engine's threads. */
struct winograd_data {
    const float *x, *weights, *bias, *dy; /* x: what goes in, dy too; bias: NULL where none */
    float *y, *dweights, *dbias;          /* NULL: not wanted */
    float *scratch;                       /* winograd_bytes, at 64 bytes */
    float *points; /* winograd_points_bytes, at 64 bytes: the weights at the points, kept from run
                      to run; NULL: they are made in scratch */
    bool pointed;  /* the points are there, of these weights */
    bool relu;     /* y = max(y, 0), NaN where it was NaN */
};

/* One set of instructions (winograd_body.h). */
struct winograd_code {
    int block, lanes, rows; /* channels of a block; floats of a vector; tiles that a product has in
                               registers */
    void (*forward)(const struct winograd *p, const struct winograd_data *data);
    void (*weights)(const struct winograd *p, const struct winograd_data *data);
};

extern const struct winograd_code winograd_base, winograd_avx2, winograd_avx512;

/* Fills out for activations in blocks of `block` channels; false where this processor, the shape
 * or `most` bytes of scratch do not allow it. */
bool winograd_plan(const struct winograd_shape *shape, int block, size_t most,
                   struct winograd *out);
/* The same with a code of one's own. */
bool winograd_plan_code(const struct winograd_shape *shape, const struct winograd_code *code,
                        size_t most, struct winograd *out);
/* Of scratch; kept: the weights' points are not in it. */
size_t winograd_bytes(const struct winograd *p, bool kept);
size_t winograd_points_bytes(const struct winograd *p);

/* y = x * weights + bias, or with shape.weights dweights and dbias from x and dy. By all threads
 * that OpenMP has. */
void winograd_run(const struct winograd *p, const struct winograd_data *data);

#endif
