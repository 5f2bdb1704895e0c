/* Interior of execution_plan.c and plan_graph.c, also for their test: cuDNN lists its kernels for a
 * device that is only described, without a GPU. */
#ifndef POSEIDON_CUDA_EXECUTION_PLAN_H
#define POSEIDON_CUDA_EXECUTION_PLAN_H

#include "cuda_internal.h"

/* plan_graph.c: cuDNN's descriptors. A failed call's text is in the message. */
int cuda_descriptor_make(struct cuda_engine *engine, cudnnBackendDescriptorType_t type,
                         cudnnBackendDescriptor_t *out);
void cuda_descriptor_drop(struct cuda_engine *engine, cudnnBackendDescriptor_t *descriptor);
int cuda_descriptor_finalize(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor);
int cuda_descriptor_set(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor,
                        cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                        int64_t count, const void *values);
int cuda_descriptor_set_longs(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor,
                              cudnnBackendAttributeName_t name, int64_t count,
                              const int64_t *values);
int cuda_descriptor_set_descriptor(struct cuda_engine *engine, cudnnBackendDescriptor_t descriptor,
                                   cudnnBackendAttributeName_t name,
                                   cudnnBackendDescriptor_t value);

/* Names of tensors in a graph. */
enum { UID_X = 'x', UID_W = 'w', UID_Y = 'y', UID_BIAS = 'b', UID_SUM = 's', UID_BIASED = 't' };

/* Descriptors of one graph. cuda_plan_parts_drop drops all of them, also after a failure, and skips
 * NULL members. */
struct cuda_plan_parts {
    cudnnBackendDescriptor_t x, w, y, conv, operation, graph;
    cudnnBackendDescriptor_t bias, sum, add, addition;    /* with a bias */
    cudnnBackendDescriptor_t biased, relu, rectification; /* with a bias and a ReLU */
};
int cuda_plan_parts_make(struct cuda_engine *engine, enum cuda_plan_kind kind,
                         const struct kernel_conv *c, struct cuda_plan_parts *p);
void cuda_plan_parts_drop(struct cuda_engine *engine, struct cuda_plan_parts *p);
const char *cuda_plan_kind_name(enum cuda_plan_kind kind);

enum { CUDA_CONFIGS = 24 };

/* The allowed candidates for one convolution, cuDNN's best guess first; empty where cuDNN has none.
 * The caller drops them by cuda_configs_drop. */
struct cuda_configs {
    int count;
    cudnnBackendDescriptor_t config[CUDA_CONFIGS];
};
int cuda_configs_list(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, struct cuda_configs *out);
void cuda_configs_drop(struct cuda_engine *engine, struct cuda_configs *configs);
/* Builds a candidate's plan, and gives its workspace in bytes. Returns 1, without a message, where
 * the candidate cannot be built or wants more workspace than the engine allows. */
int cuda_config_build(struct cuda_engine *engine, cudnnBackendDescriptor_t config,
                      cudnnBackendDescriptor_t *plan, int64_t *workspace);

#endif
