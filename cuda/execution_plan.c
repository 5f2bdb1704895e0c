/* Convolutions by cuDNN's graph API, in C. cuDNN lists its candidate kernels for an operation.
 * Kernels that the engine's precision or determinism forbids are dropped, and the rest are timed on
 * the real shapes. The winner's place in the list is kept in a file, so that the next run of the
 * same shape on the same device times nothing. */
#include "execution_plan.h"

#include "util/clock.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* At most TIMED candidates run, REPEATS times each. Some compile for a second or more when built,
 * so after RACE seconds the best so far wins. */
enum { TIMED = 12, REPEATS = 3 };
static const double RACE = 0.5;

/* Choice kept where no plan of a kind is used, because all are slower or lose NaN. */
enum { NEVER = 1000 };

struct cuda_plan {
    cudnnBackendDescriptor_t plan;
    cudnnBackendDescriptor_t pack; /* operands' pointers, which seldom change */
    bool bias;                     /* the pack has a fourth pointer */
    void *at[4], *scratch;
    int64_t workspace;
    double seconds;      /* least time of a run, seconds; 0: not timed */
    double bias_seconds; /* PLAN_FORWARD: least time of adding a bias apart; 0: not timed */
};

/* ---- candidates ---- */

/* Returns true if the engine's precision and determinism allow a candidate. fp32 forbids tensor
 * cores, too, since tensor cores round their inputs. */
static bool plan_allowed(struct cuda_engine *engine, cudnnBackendDescriptor_t config)
{
    const struct cuda_libs *lib = &engine->libs;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t kernel = NULL;
    int64_t count = 0;
    bool fits = false;

    if (cuda_descriptor_make(engine, CUDNN_BACKEND_ENGINE_DESCRIPTOR, &kernel) ||
        lib->cudnnBackendGetAttribute_(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &kernel) ||
        lib->cudnnBackendGetAttribute_(kernel, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                       CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                                       &count, notes))
        goto done;
    fits = true;
    for (int64_t i = 0; i < count; i++) {
        if (engine->math == MATH_FP32 && (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE ||
                                          notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS))
            fits = false;
        if (notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
            fits = false;
        if (engine->deterministic && notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            fits = false;
    }
done:
    cuda_descriptor_drop(engine, &kernel);
    return fits;
}

/* Finds all candidates that cuDNN knows, since its first guesses may be forbidden. Makes *made
 * descriptors, and fills the first *count. The caller frees them, also after a failure. */
static int plan_find(struct cuda_engine *engine, cudnnBackendDescriptor_t heuristics, int64_t *made,
                     int64_t *count, cudnnBackendDescriptor_t **out)
{
    const struct cuda_libs *lib = &engine->libs;

    if (lib->cudnnBackendGetAttribute_(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, made,
                                       NULL) != CUDNN_STATUS_SUCCESS ||
        *made <= 0) {
        *made = 0;
        return 0;
    }
    *out = calloc((size_t)*made, sizeof **out);
    if (!*out)
        return error_memory((size_t)*made * sizeof **out, "a convolution's candidates");
    for (int64_t i = 0; i < *made; i++)
        if (cuda_descriptor_make(engine, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &(*out)[i]))
            return -1;
    if (lib->cudnnBackendGetAttribute_(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                       CUDNN_TYPE_BACKEND_DESCRIPTOR, *made, count,
                                       *out) != CUDNN_STATUS_SUCCESS)
        *count = 0;
    return 0;
}

static int plan_ask(struct cuda_engine *engine, cudnnBackendDescriptor_t graph,
                    cudnnBackendHeurMode_t mode, struct cuda_configs *out)
{
    const struct cuda_libs *lib = &engine->libs;
    cudnnBackendDescriptor_t heuristics = NULL, *found = NULL;
    int64_t made = 0, count = 0;
    int status = -1;

    if (cuda_descriptor_make(engine, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristics) ||
        cuda_descriptor_set_descriptor(engine, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                                       graph) ||
        cuda_descriptor_set(engine, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1,
                            &mode) ||
        cuda_descriptor_set_descriptor(engine, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                                       engine->described))
        goto done;
    status = 0;
    if (lib->cudnnBackendFinalize_(heuristics) != CUDNN_STATUS_SUCCESS)
        goto done; /* cuDNN knows nothing of such a convolution: no error */
    status = plan_find(engine, heuristics, &made, &count, &found);
    for (int64_t i = 0; !status && i < count && out->count < CUDA_CONFIGS; i++)
        if (plan_allowed(engine, found[i])) {
            out->config[out->count++] = found[i];
            found[i] = NULL;
        }
done:
    for (int64_t i = 0; found && i < made; i++)
        cuda_descriptor_drop(engine, &found[i]);
    free(found);
    cuda_descriptor_drop(engine, &heuristics);
    return status;
}

int cuda_configs_list(struct cuda_engine *engine, enum cuda_plan_kind kind,
                      const struct kernel_conv *conv, struct cuda_configs *out)
{
    struct cuda_plan_parts parts = {NULL};
    int status;

    memset(out, 0, sizeof *out);
    status = cuda_plan_parts_make(engine, kind, conv, &parts);
    if (!status)
        status = plan_ask(engine, parts.graph, CUDNN_HEUR_MODE_A, out) ||
                 (out->count == 0 && plan_ask(engine, parts.graph, CUDNN_HEUR_MODE_FALLBACK, out));
    cuda_plan_parts_drop(engine, &parts);
    return status ? error_context("convolution %s", cuda_plan_kind_name(kind)) : 0;
}

void cuda_configs_drop(struct cuda_engine *engine, struct cuda_configs *configs)
{
    for (int i = 0; i < configs->count; i++)
        cuda_descriptor_drop(engine, &configs->config[i]);
    configs->count = 0;
}

int cuda_config_build(struct cuda_engine *engine, cudnnBackendDescriptor_t config,
                      cudnnBackendDescriptor_t *plan, int64_t *workspace)
{
    const struct cuda_libs *lib = &engine->libs;
    int64_t count = 0;

    *workspace = 0;
    if (cuda_descriptor_make(engine, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, plan) ||
        cuda_descriptor_set_descriptor(engine, *plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                       config) ||
        cuda_descriptor_set_descriptor(engine, *plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                       engine->described)) {
        cuda_descriptor_drop(engine, plan);
        return -1;
    }
    if (lib->cudnnBackendFinalize_(*plan) != CUDNN_STATUS_SUCCESS ||
        lib->cudnnBackendGetAttribute_(*plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                       CUDNN_TYPE_INT64, 1, &count,
                                       workspace) != CUDNN_STATUS_SUCCESS ||
        *workspace < 0 || (size_t)*workspace > engine->workspace) {
        cuda_descriptor_drop(engine, plan);
        return 1;
    }
    return 0;
}

/* ---- plans ---- */

static int plan_pack(struct cuda_engine *engine, struct cuda_plan *plan, void *const data[4])
{
    const int64_t uids[4] = {UID_X, UID_W, UID_Y, UID_BIAS};
    int64_t count = plan->bias ? 4 : 3;
    void *workspace = engine->work[WORK_LIBRARY].data;

    if (cuda_descriptor_make(engine, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &plan->pack) ||
        cuda_descriptor_set(engine, plan->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                            CUDNN_TYPE_VOID_PTR, count, data) ||
        cuda_descriptor_set_longs(engine, plan->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, count,
                                  uids) ||
        cuda_descriptor_set(engine, plan->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                            CUDNN_TYPE_VOID_PTR, 1, &workspace) ||
        cuda_descriptor_finalize(engine, plan->pack)) {
        cuda_descriptor_drop(engine, &plan->pack);
        return -1;
    }
    memcpy(plan->at, data, sizeof plan->at);
    plan->scratch = workspace;
    return 0;
}

int cuda_plan_run(struct cuda_engine *engine, struct cuda_plan *plan, const void *x, const void *w,
                  const void *y, const void *bias)
{
    void *const data[4] = {(void *)(uintptr_t)x, (void *)(uintptr_t)w, (void *)(uintptr_t)y,
                           (void *)(uintptr_t)bias};
    bool same = plan->pack && plan->scratch == engine->work[WORK_LIBRARY].data &&
                !memcmp(plan->at, data, sizeof data);

    if (!same) { /* the net has placed its blobs since the last run */
        cuda_descriptor_drop(engine, &plan->pack);
        if (plan_pack(engine, plan, data))
            return -1;
    }
    return cudnn_check(engine,
                       engine->libs.cudnnBackendExecute_(engine->cudnn, plan->plan, plan->pack));
}

void cuda_plan_destroy(struct cuda_engine *engine, struct cuda_plan *plan)
{
    if (!plan)
        return;
    cuda_descriptor_drop(engine, &plan->pack);
    cuda_descriptor_drop(engine, &plan->plan);
    free(plan);
}

/* Runs once what is timed: a plan, or, without a plan, the kernel that adds a bias. */
static int plan_run_once(struct cuda_engine *engine, struct cuda_plan *plan,
                         const struct kernel_conv *c, void *const data[4])
{
    if (plan)
        return cuda_plan_run(engine, plan, data[0], data[1], data[2], data[3]);
    return cuda_check(kernel_add_bias(engine->stream, engine->type, data[2], data[3], true,
                                      (int)cuda_conv_elems(c->samples, 1, c->places), c->outputs));
}

/* Returns the least seconds of REPEATS runs; negative: the plan cannot run. */
static double plan_measure(struct cuda_engine *engine, struct cuda_plan *plan,
                           const struct kernel_conv *conv, void *const data[4])
{
    cudaEvent_t begin = NULL, end = NULL;
    double best = -1;

    if (cuda_check(cudaEventCreate(&begin)) || cuda_check(cudaEventCreate(&end)) ||
        plan_run_once(engine, plan, conv, data))
        goto done;
    for (int i = 0; i < REPEATS; i++) {
        float ms = 0;
        if (cuda_check(cudaEventRecord(begin, engine->stream)) ||
            plan_run_once(engine, plan, conv, data) ||
            cuda_check(cudaEventRecord(end, engine->stream)) ||
            cuda_check(cudaEventSynchronize(end)) ||
            cuda_check(cudaEventElapsedTime(&ms, begin, end)))
            goto done;
        if (best < 0 || (double)ms * 1e-3 < best)
            best = (double)ms * 1e-3;
    }
done:
    if (begin)
        cudaEventDestroy(begin);
    if (end)
        cudaEventDestroy(end);
    return best;
}

static struct cuda_plan *plan_build(struct cuda_engine *engine, enum cuda_plan_kind kind,
                                    cudnnBackendDescriptor_t config)
{
    struct cuda_plan *plan = calloc(1, sizeof *plan);

    if (!plan) {
        error_memory(sizeof *plan, "a convolution's plan");
        return NULL;
    }
    plan->bias = kind == PLAN_FORWARD_BIAS || kind == PLAN_FORWARD_BIAS_RELU;
    if (cuda_config_build(engine, config, &plan->plan, &plan->workspace) ||
        cuda_work_reserve(engine, WORK_LIBRARY, (size_t)plan->workspace)) {
        cuda_plan_destroy(engine, plan);
        return NULL;
    }
    return plan;
}

/* Allocates operands of the real sizes. Zeros do: no kernel's time depends on values. */
static int plan_take_buffers(const struct cuda_engine *engine, const struct kernel_conv *c,
                             void *data[4])
{
    size_t size = cuda_type_bytes(engine->type);
    size_t x = cuda_conv_elems(c->samples, c->channels, c->size);
    size_t w = cuda_conv_elems(c->outputs, c->channels / c->group, c->kernel);
    size_t y = cuda_conv_elems(c->samples, c->outputs, c->places);

    return cuda_alloc(x * size, "timing a convolution", &data[0]) ||
                   cuda_alloc(w * size, "timing a convolution", &data[1]) ||
                   cuda_alloc(y * size, "timing a convolution", &data[2]) ||
                   cuda_alloc((size_t)c->outputs * sizeof(float), "timing a convolution", &data[3])
               ? -1
               : 0;
}

static bool plan_is_nan(enum cuda_type type, const unsigned char bytes[4])
{
    float value = 0;

    memcpy(type == CUDA_BF16 ? (char *)&value + 2 : (char *)&value, bytes, cuda_type_bytes(type));
    return isnan(value);
}

/* Returns true if NaN inputs give NaN outputs. A ReLU that makes NaN 0 would hide lost weights
 * behind finite losses. A trial decides, since cuDNN documents this for some kernels only. */
static bool plan_keeps_nan(struct cuda_engine *engine, struct cuda_plan *plan,
                           const struct kernel_conv *c, void *const data[4])
{
    size_t size = cuda_type_bytes(engine->type), bias = (size_t)c->outputs * sizeof(float);
    size_t last = cuda_conv_elems(c->samples, c->outputs, c->places) - 1;
    unsigned char found[2][4];
    bool ran;

    ran = !cuda_check(cudaMemsetAsync(data[3], 0xFF, bias, engine->stream)) &&
          !cuda_plan_run(engine, plan, data[0], data[1], data[2], data[3]) &&
          !cuda_check(
              cudaMemcpyAsync(found[0], data[2], size, cudaMemcpyDeviceToHost, engine->stream)) &&
          !cuda_check(cudaMemcpyAsync(found[1], (char *)data[2] + last * size, size,
                                      cudaMemcpyDeviceToHost, engine->stream)) &&
          !cuda_check(cudaMemsetAsync(data[3], 0, bias, engine->stream)) &&
          !cuda_check(cudaStreamSynchronize(engine->stream));
    return ran && plan_is_nan(engine->type, found[0]) && plan_is_nan(engine->type, found[1]);
}

/* Returns the number of the fastest candidate, and its plan. -1: none runs. NEVER: all that run
 * lose NaN. Without memory to measure: cuDNN's first guess, with 0 seconds; but no guess with a
 * ReLU, which may lose NaN. */
static int plan_race(struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct cuda_configs *configs, const struct kernel_conv *conv,
                     struct cuda_plan **out)
{
    void *data[4] = {NULL};
    double best = -1, begun = clock_seconds();
    int winner = -1, timed = 0;
    bool loses_nan = false;

    *out = NULL;
    if (plan_take_buffers(engine, conv, data))
        timed = TIMED;
    for (int i = 0; i < configs->count && timed < TIMED; i++) {
        if (winner >= 0 && clock_seconds() - begun > RACE)
            break;
        struct cuda_plan *plan = plan_build(engine, kind, configs->config[i]);
        bool unfit =
            plan && kind == PLAN_FORWARD_BIAS_RELU && !plan_keeps_nan(engine, plan, conv, data);
        double seconds = plan && !unfit ? plan_measure(engine, plan, conv, data) : -1;
        loses_nan |= unfit;
        timed += seconds >= 0;
        if (seconds >= 0 && (best < 0 || seconds < best)) {
            cuda_plan_destroy(engine, *out);
            *out = plan;
            best = seconds;
            winner = i;
        } else {
            cuda_plan_destroy(engine, plan);
        }
    }
    if (*out) {
        (*out)->seconds = best;
        if (kind == PLAN_FORWARD) /* cuda_plan_create_biased compares with this time */
            (*out)->bias_seconds = plan_measure(engine, NULL, conv, data);
    }
    for (int i = 0; i < 4; i++)
        cuda_free(NULL, data[i]);
    if (winner < 0 && loses_nan)
        winner = NEVER;
    for (int i = 0; i < configs->count && winner < 0 && kind != PLAN_FORWARD_BIAS_RELU; i++) {
        *out = plan_build(engine, kind, configs->config[i]);
        winner = *out ? i : -1;
    }
    return winner;
}

/* Returns true for kernels of cuDNN 9.14 that never end: data gradients on tensor cores
 * (sm90_xmma_dgrad..._strided) with a stride and a dilation on one axis. */
static bool plan_hangs(const struct cuda_engine *engine, enum cuda_plan_kind kind,
                       const struct kernel_conv *c)
{
    bool both = false;

    for (int i = 0; i < OP_SPATIAL; i++)
        both |= c->stride[i] > 1 && c->dilation[i] > 1;
    return kind == PLAN_BACK_DATA && engine->math != MATH_FP32 && both;
}

int cuda_plan_create(struct cuda_engine *engine, enum cuda_plan_kind kind,
                     const struct kernel_conv *conv, struct cuda_plan **out)
{
    struct cuda_configs configs;
    int known, winner = -1;

    *out = NULL;
    if (plan_hangs(engine, kind, conv))
        return 0;
    known = cuda_choice_find(engine, kind, conv);
    if (cuda_configs_list(engine, kind, conv, &configs))
        return -1;
    if (known >= 0 && known < configs.count)
        *out = plan_build(engine, kind, configs.config[known]);
    if (!*out && configs.count > 0 && known != NEVER)
        winner = plan_race(engine, kind, &configs, conv, out);
    cuda_configs_drop(engine, &configs);
    if (winner == NEVER ||
        (winner >= 0 && (*out)->seconds > 0)) /* a guess is not kept: the next run may have room */
        cuda_choice_note(engine, kind, conv, winner);
    return 0;
}

int cuda_plan_create_biased(struct cuda_engine *engine, const struct kernel_conv *conv, bool relu,
                            struct cuda_plan **out, bool *biased)
{
    enum cuda_plan_kind kind = relu ? PLAN_FORWARD_BIAS_RELU : PLAN_FORWARD_BIAS;
    struct cuda_plan *apart = NULL;

    *biased = true;
    if (cuda_plan_create(engine, kind, conv, out))
        return -1;
    if (*out && (*out)->seconds <= 0)
        return 0; /* this plan was chosen in an earlier run */
    if (cuda_plan_create(engine, PLAN_FORWARD, conv, &apart)) {
        cuda_plan_destroy(engine, *out);
        *out = NULL;
        return -1;
    }
    if (*out && (!apart || apart->seconds <= 0 || apart->bias_seconds <= 0 ||
                 (*out)->seconds <= apart->seconds + apart->bias_seconds)) {
        cuda_plan_destroy(engine, apart);
        return 0;
    }
    if (*out)
        cuda_choice_note(engine, kind, conv, NEVER);
    cuda_plan_destroy(engine, *out);
    *out = apart;
    *biased = false;
    return 0;
}

int cuda_plans_open(struct cuda_engine *engine)
{
    const int32_t device = engine->device;

    if (cuda_descriptor_make(engine, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &engine->described) ||
        cuda_descriptor_set(engine, engine->described, CUDNN_ATTR_DEVICEPROP_DEVICE_ID,
                            CUDNN_TYPE_INT32, 1, &device) ||
        cuda_descriptor_finalize(engine, engine->described))
        return -1;
    return cuda_choices_open(engine);
}

void cuda_plans_close(struct cuda_engine *engine)
{
    cuda_choices_close(engine);
    cuda_descriptor_drop(engine, &engine->described);
}
