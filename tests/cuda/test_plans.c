/* What cuDNN offers for the convolutions of known nets, asked of GPUs that are only described: cuDNN builds
 * plans for a device that it is told about, so the graphs that plan.c makes are judged by the library itself
 * on a machine without a GPU. Skipped where cuDNN is not installed. */
#include "cuda/plan.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct device {
    const char *name, *json;
};

/* As cuDNN 9.19 writes them. */
#define DESCRIBE(name, version, sms, shared)                                                       \
    "{\"deviceVer\":" #version ",\"driverVer\":13000,\"cudaDeviceId\":0,\"totalGlobalMem\":80000000000," \
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]," \
    "\"regsPerBlock\":65536,\"multiProcessorCount\":" #sms ",\"warpSize\":32," \
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":" #shared "," \
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32," \
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0," \
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000," \
    "\"l2CacheSize\":62914560,\"deviceName\":\"" name "\"}"

static const struct device devices[] = {
    {"A100", DESCRIBE("NVIDIA A100-SXM4-80GB", 800, 108, 166912)},
    {"H200", DESCRIBE("NVIDIA H200", 900, 132, 232448)},
};

struct layer {
    const char *name;
    struct kernel_conv conv;
};

#define CONV(n, c, h, o, t, g, f, s, p)                                                            \
    {n, c, h, h, o, t, t, g, {f, f}, {s, s}, {p, p}, {1, 1}}

static const struct layer layers[] = {
    {"lenet conv1", CONV(64, 1, 28, 20, 24, 1, 5, 1, 0)},
    {"lenet conv2", CONV(64, 20, 12, 50, 8, 1, 5, 1, 0)},
    {"cifar10_quick conv1", CONV(100, 3, 32, 32, 32, 1, 5, 1, 2)},
    {"alexnet conv1", CONV(256, 3, 227, 96, 55, 1, 11, 4, 0)},
    {"alexnet conv2", CONV(256, 96, 27, 256, 27, 2, 5, 1, 2)},
    {"googlenet 5x5 reduce", CONV(128, 192, 28, 16, 28, 1, 1, 1, 0)},
    {"vgg conv3", CONV(64, 128, 56, 256, 56, 1, 3, 1, 1)},
    {"resnet conv1", CONV(128, 3, 224, 64, 112, 1, 7, 2, 3)},
    {"resnet downsample", CONV(128, 256, 56, 512, 28, 1, 1, 2, 0)},
};

static const struct {
    const char *name;
    enum engine_math math;
    enum cuda_type type;
    bool deterministic;
} modes[] = {
    {"fp32 deterministic", MATH_FP32, CUDA_F32, true},
    {"tf32", MATH_TF32, CUDA_F32, false},
    {"bf16", MATH_BF16, CUDA_BF16, false},
};

static int describe(struct cuda_engine *engine, const struct device *device)
{
    const struct cuda_libs *lib = &engine->libs;

    if (cudnn_check(engine, lib->cudnnBackendCreateDescriptor_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                                                               &engine->described)) ||
        cudnn_check(engine, lib->cudnnBackendSetAttribute_(engine->described,
                                                           CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                                           CUDNN_TYPE_CHAR,
                                                           (int64_t)strlen(device->json) + 1,
                                                           device->json)))
        return -1;
    return cudnn_check(engine, lib->cudnnBackendFinalize_(engine->described));
}

/* Prints what there is for one convolution; returns whether something can be built. */
static int try_layer(struct cuda_engine *engine, const struct layer *layer, enum cuda_plan_kind kind)
{
    static const char *const names[] = {"forward", "data", "weight", "biased"};
    struct cuda_configs configs;
    cudnnBackendDescriptor_t plan;
    int64_t workspace = 0;
    int built = 0;

    if (cuda_configs_list(engine, kind, &layer->conv, &configs)) {
        printf("FAIL: %s %s: %s\n", layer->name, names[kind], error_text());
        return 0;
    }
    for (int i = 0; i < configs.count && !built; i++) {
        int status = cuda_config_build(engine, configs.config[i], &plan, &workspace);
        if (status < 0)
            printf("FAIL: %s %s: %s\n", layer->name, names[kind], error_text());
        if (status)
            continue;
        engine->libs.cudnnBackendDestroyDescriptor_(plan);
        built = 1;
    }
    printf("    %-22s %-8s %2d candidates, %s, %.1f MiB of workspace\n", layer->name, names[kind],
           configs.count, built ? "built" : "NONE builds", (double)workspace / 1048576);
    cuda_configs_drop(engine, &configs);
    return built;
}

/* Only in fp32 may cuDNN have nothing: direct.cu does it then. */
static int try_device(struct cuda_engine *engine, const struct device *device)
{
    int failed = 0;

    if (describe(engine, device)) {
        printf("SKIP: this cuDNN does not take the description of a device: %s\n", error_text());
        return -1;
    }
    for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
        engine->math = modes[m].math;
        engine->type = modes[m].type;
        engine->deterministic = modes[m].deterministic;
        printf("%s, %s\n", device->name, modes[m].name);
        for (size_t l = 0; l < sizeof layers / sizeof *layers; l++)
            for (int kind = PLAN_FORWARD; kind <= PLAN_FORWARD_BIAS; kind++)
                if (!try_layer(engine, &layers[l], (enum cuda_plan_kind)kind) &&
                    engine->math != MATH_FP32 && kind != PLAN_FORWARD_BIAS)
                    failed++;
    }
    engine->libs.cudnnBackendDestroyDescriptor_(engine->described);
    return failed;
}

int main(void)
{
    static struct cuda_engine engine = {.workspace = (size_t)1 << 30};
    int failed = 0;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cuda_libs_open(&engine.libs)) {
        printf("SKIP: %s\n", error_text());
        return 77;
    }
    for (size_t d = 0; d < sizeof devices / sizeof *devices && failed >= 0; d++) {
        int status = try_device(&engine, &devices[d]);
        failed = status < 0 ? -1 : failed + status;
    }
    cuda_libs_close(&engine.libs);
    if (failed < 0)
        return 77;
    if (failed)
        printf("FAIL: %d convolutions cannot be built\n", failed);
    return failed ? 1 : 0;
}
