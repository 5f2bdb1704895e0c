/* The kernels of src/nn/engine compiled once for each instruction set, side by side: what the
 * loader would choose elsewhere can be called here, as far as this processor has it. */
#ifndef POSEIDON_TESTS_DEVICE_KERNEL_SET_H
#define POSEIDON_TESTS_DEVICE_KERNEL_SET_H

#include "device/codec.h"
#include "device/rule.h"

struct kernel_set {
    const char *name;
    void (*add)(float *restrict sum, const float *restrict x, size_t n);
    void (*add_to)(float *restrict out, const float *restrict a, const float *restrict b, size_t n);
    void (*slices)(const float *const *x, int n, size_t elems, float *out);
    double (*sumsq)(const float *x, size_t n, float scale);
    const struct codec *bf16, *onebit;
    void (*update)(const struct device_update *update, float *value, const float *grad,
                   float *history, size_t stride, size_t n);
};

/* NULL where the machine is of another family, or the processor lacks the instructions. */
const struct kernel_set *kernel_set_scalar(void); /* always there: no vectors */
const struct kernel_set *kernel_set_plain(void);  /* always there: the compiler's baseline */
const struct kernel_set *kernel_set_avx2(void);
const struct kernel_set *kernel_set_avx512f(void);

#endif
