/* Inside of plan.c, for its own test: which kernels cuDNN offers can be asked of a device that is
 * only described, with no GPU at hand. */
#ifndef POSEIDON_CUDA_PLAN_H
#define POSEIDON_CUDA_PLAN_H

#include "cuda_internal.h"

enum { CUDA_CONFIGS = 24 };

/* The candidates for one convolution, best guess first, forbidden ones dropped. Empty where cuDNN
 * has none. To be dropped by cuda_configs_drop. */
struct cuda_configs {
    int count;
    cudnnBackendDescriptor_t config[CUDA_CONFIGS];
};
int cuda_configs_list(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, struct cuda_configs *out);
void cuda_configs_drop(struct cuda_engine *engine, struct cuda_configs *configs);
/* An executable plan of a candidate and its workspace. Fails quietly (1) where the candidate cannot
 * be built or wants more workspace than the engine allows. */
int cuda_config_build(struct cuda_engine *engine, cudnnBackendDescriptor_t config,
                      cudnnBackendDescriptor_t *plan, int64_t *workspace);

#endif
