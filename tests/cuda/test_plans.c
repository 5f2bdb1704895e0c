/* Whether the CUDA engine has all that the nets in models/ consist of, and what cuDNN offers for
 * their convolutions, asked of GPUs that are only described: cuDNN builds plans for a device that
 * it is told about, so the graphs that execution_plan.c makes are judged by the library itself on a
 * machine without a GPU. Skipped where cuDNN is not installed. */
#include "cuda/execution_plan.h"
#include "engine/engine_internal.h"
#include "tests/net/test_net_common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct gpu {
    const char *name, *json;
};

/* As cuDNN 9.19 writes them. */
#define DESCRIBE(name, version, sms, shared)                                                       \
    "{\"deviceVer\":" #version                                                                     \
    ",\"driverVer\":13000,\"cudaDeviceId\":0,\"totalGlobalMem\":80000000000,"                      \
    "\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"                    \
    "\"regsPerBlock\":65536,\"multiProcessorCount\":" #sms ",\"warpSize\":32,"                     \
    "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":" #shared ","              \
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"       \
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"    \
    "\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,\"memClockRateKHz\":3201000,"              \
    "\"l2CacheSize\":62914560,\"deviceName\":\"" name "\"}"

static const struct gpu devices[] = {
    {"A100", DESCRIBE("NVIDIA A100-SXM4-80GB", 800, 108, 166912)},
    {"H200", DESCRIBE("NVIDIA H200", 900, 132, 232448)},
};

struct conv_layer {
    const char *name;
    struct kernel_conv conv;
};

#define CONV(n, c, h, o, t, g, f, s, p)                                                            \
    {                                                                                              \
        n, c, {1, h, h}, o, {1, t, t}, g, {1, f, f}, {1, s, s}, {0, p, p},                         \
        {                                                                                          \
            1, 1, 1                                                                                \
        }                                                                                          \
    }
/* The same with a depth. */
#define VOLUME(n, c, d, h, o, f, p)                                                                \
    {                                                                                              \
        n, c, {d, h, h}, o, {d, h, h}, 1, {f, f, f}, {1, 1, 1}, {p, p, p},                         \
        {                                                                                          \
            1, 1, 1                                                                                \
        }                                                                                          \
    }

static const struct conv_layer layers[] = {
    {"lenet conv1", CONV(64, 1, 28, 20, 24, 1, 5, 1, 0)},
    {"lenet conv2", CONV(64, 20, 12, 50, 8, 1, 5, 1, 0)},
    {"cifar10_quick conv1", CONV(100, 3, 32, 32, 32, 1, 5, 1, 2)},
    {"alexnet conv1", CONV(256, 3, 227, 96, 55, 1, 11, 4, 0)},
    {"alexnet conv2", CONV(256, 96, 27, 256, 27, 2, 5, 1, 2)},
    {"googlenet 5x5 reduce", CONV(128, 192, 28, 16, 28, 1, 1, 1, 0)},
    {"vgg conv3", CONV(64, 128, 56, 256, 56, 1, 3, 1, 1)},
    {"resnet conv1", CONV(128, 3, 224, 64, 112, 1, 7, 2, 3)},
    {"resnet downsample", CONV(128, 256, 56, 512, 28, 1, 1, 2, 0)},
    {"c3d conv1", VOLUME(8, 3, 16, 112, 64, 3, 1)},
    {"c3d conv3", VOLUME(8, 256, 8, 28, 256, 3, 1)},
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

static int describe(struct cuda_engine *engine, const struct gpu *device)
{
    const struct cuda_libs *lib = &engine->libs;

    if (cudnn_check(engine, lib->cudnnBackendCreateDescriptor_(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR,
                                                               &engine->described)) ||
        cudnn_check(engine, lib->cudnnBackendSetAttribute_(
                                engine->described, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                CUDNN_TYPE_CHAR, (int64_t)strlen(device->json) + 1, device->json)))
        return -1;
    return cudnn_check(engine, lib->cudnnBackendFinalize_(engine->described));
}

/* Prints what there is for one convolution; returns whether something can be built. */
static int try_layer(struct cuda_engine *engine, const struct conv_layer *layer,
                     enum cuda_plan_kind kind)
{
    static const char *const names[] = {"forward", "data", "weight", "biased", "+ ReLU"};
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

/* Only in fp32 may cuDNN have nothing: conv.cu does it then. */
static int try_device(struct cuda_engine *engine, const struct gpu *device)
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
            for (int kind = PLAN_FORWARD; kind < PLAN_KINDS; kind++)
                if (!try_layer(engine, &layers[l], (enum cuda_plan_kind)kind) &&
                    engine->math != MATH_FP32 && kind < PLAN_FORWARD_BIAS)
                    failed++;
    }
    engine->libs.cudnnBackendDestroyDescriptor_(engine->described);
    return failed;
}

/* ---- the nets in models/ ---- */

static const struct model {
    const char *name;
    int batch;
    int64_t input[3]; /* 0: as the definition says */
} models[] = {
    {"alexnet", 256, {3, 227, 227}},
    {"caffenet", 256, {3, 227, 227}},
    {"cifar10_full", 100, {3, 32, 32}},
    {"cifar10_quick", 100, {3, 32, 32}},
    {"googlenet", 128, {3, 224, 224}},
    {"inception_v3", 32, {3, 299, 299}},
    {"lenet", 64, {1, 28, 28}},
    {"mobilenet_v1", 64, {3, 224, 224}},
    {"nin", 64, {3, 224, 224}},
    {"resnet152", 32, {3, 224, 224}},
    {"resnet20_cifar10", 128, {3, 32, 32}},
    {"resnet50", 128, {3, 224, 224}},
    {"squeezenet_v1.0", 64, {3, 227, 227}},
    {"squeezenet_v1.1", 64, {3, 227, 227}},
    {"vgg16", 64, {3, 224, 224}},
    {"vgg19", 64, {3, 224, 224}},
    {"vgg19_22k", 32, {3, 224, 224}},
};

/* What the nets ask for. Convolutions of one shape are kept once. */
static struct asked {
    int nconvs, nops;
    struct conv_layer layers[1024];
} asked;

static bool known(const struct kernel_conv *conv)
{
    for (int i = 0; i < asked.nconvs; i++)
        if (memcmp(&asked.layers[i].conv, conv, sizeof *conv) == 0)
            return true;
    return false;
}

static void note_conv(const struct op_args *args)
{
    struct kernel_conv conv =
        cuda_conv_shape(&args->u.conv, &args->bottoms[0]->value.shape, &args->tops[0]->value.shape);

    if (asked.nconvs < (int)(sizeof asked.layers / sizeof *asked.layers) && !known(&conv))
        asked.layers[asked.nconvs++] = (struct conv_layer){"", conv};
}

static void destroy_nothing(struct op *op)
{
    free(op);
}

static int note_op(void *context, const struct op_args *args, struct op **out)
{
    static const struct op_i table = {.destroy = destroy_nothing};

    (void)context;
    *out = malloc(sizeof **out);
    if (!*out)
        return error_memory(sizeof **out, "an operator");
    (*out)->i = &table;
    asked.nops++;
    if (args->kind == OP_CONV)
        note_conv(args);
    return 0;
}

static int give_nothing(void *context, size_t bytes, const char *what, void **out)
{
    static float nowhere[16];

    (void)context;
    (void)bytes;
    (void)what;
    *out = nowhere;
    return 0;
}

static void take_nothing(void *context, void *memory)
{
    (void)context;
    (void)memory;
}

static void release_nothing(void *context, struct tensor *tensor)
{
    (void)context;
    tensor->layout = NULL;
}

/* Builds the net on an engine that only writes down what it is asked for. */
static int ask_model(const struct model *model)
{
    static const struct device_i memory = {.blank = true,
                                           .alloc = give_nothing,
                                           .free = take_nothing,
                                           .copies = &device_host_copies,
                                           .services = &device_host_services};
    static const struct engine_i table = {
        .device = &memory, .release = release_nothing, .op_create = note_op};
    const char *folder = getenv("abs_top_srcdir");
    struct engine engine = {.i = &table, .device = {.i = &memory}};
    struct layer_env env = {.look_only = true,
                            .nranks = 1,
                            .seed = 1,
                            .batch = model->batch,
                            .input_chw = model->input};
    struct made made = {0};
    struct text_doc *doc;
    char path[1024];
    int status;

    snprintf(path, sizeof path, "%s/models/%s/train_val.prototxt", folder ? folder : ".",
             model->name);
    status = text_read_file(path, &caffe__net_parameter__descriptor, &doc) ||
             made_from(&made, doc, true, &env, NULL) || net_build(made.net, &engine, 1);
    if (status)
        printf("FAIL: %s: %s\n", path, error_text());
    unmake_net(&made);
    return status;
}

/* All of their convolutions, on one device: there are many. */
static int try_models(struct cuda_engine *engine)
{
    const struct gpu *device = &devices[sizeof devices / sizeof *devices - 1];
    int failed = 0;

    if (describe(engine, device))
        return -1;
    for (size_t m = 1; m < sizeof modes / sizeof *modes; m++) {
        engine->math = modes[m].math;
        engine->type = modes[m].type;
        engine->deterministic = true;
        printf("%s, %s, deterministic, all models\n", device->name, modes[m].name);
        for (int l = 0; l < asked.nconvs; l++)
            for (int kind = PLAN_FORWARD; kind <= PLAN_BACK_WEIGHT; kind++)
                failed += !try_layer(engine, &asked.layers[l], (enum cuda_plan_kind)kind);
    }
    printf("%d convolutions of %d nets\n", asked.nconvs, (int)(sizeof models / sizeof *models));
    engine->libs.cudnnBackendDestroyDescriptor_(engine->described);
    return failed;
}

int main(void)
{
    static struct cuda_engine engine = {.workspace = (size_t)1 << 30};
    int failed = 0;

    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        failed += ask_model(&models[m]) ? 1 : 0;
    if (failed)
        return 1;
    printf("%d operators of %d nets\n", asked.nops, (int)(sizeof models / sizeof *models));

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (cuda_libs_open(&engine.libs, true)) {
        printf("SKIP: %s\n", error_text());
        return 77;
    }
    for (size_t d = 0; d < sizeof devices / sizeof *devices && failed >= 0; d++) {
        int status = try_device(&engine, &devices[d]);
        failed = status < 0 ? -1 : failed + status;
    }
    if (failed >= 0) {
        int status = try_models(&engine);
        failed = status < 0 ? -1 : failed + status;
    }
    cuda_libs_close(&engine.libs);
    if (failed < 0)
        return 77;
    if (failed)
        printf("FAIL: %d convolutions cannot be built\n", failed);
    return failed ? 1 : 0;
}
