/* Every operator again, as plain loops in double over plain row-major arrays: what engines are held
 * against. Shapes come from args->bottoms/tops/params; no layouts, no tricks. */
#ifndef POSEIDON_TESTS_ENGINE_ENGINE_REFERENCE_H
#define POSEIDON_TESTS_ENGINE_ENGINE_REFERENCE_H

#include "engine/engine.h"

struct reference {
    const struct op_args *args;
    struct pass pass;
    double *bottom[8], *top[8], *param[2];
    double *bottom_grad[8], *top_grad[8], *param_grad[2];
};

/* Fills top[] from bottom[] and param[]. */
void reference_forward(struct reference *r);
/* Fills bottom_grad[] and param_grad[] from top_grad[] and what forward saw. */
void reference_backward(struct reference *r);

/* Windows over spatial axes, as many as the image has. The pixel, as its number in one channel's
 * plane, that a place of the kernel (`tap`) meets in the window of that number; -1: in the padding.
 */
int64_t reference_pixel(const struct conv_args *a, const struct shape *image,
                        const struct shape *places, int64_t place, int64_t tap);
/* Pixels of one channel; places of the kernel. */
int64_t reference_pixels(const struct shape *shape);
int64_t reference_taps(const struct conv_args *a, const struct shape *image);

/* Those in engine_reference_move_loss.c; false: not one of them. Gradients must be 0 before. */
bool reference_run_move_loss(struct reference *r, bool backward);

#endif
