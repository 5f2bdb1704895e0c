/* Engines by name. A new engine is its table and one line here. */
#include "engine/engine.h"

#include "engine/engine_internal.h"
#include "util/choice.h"
#include "util/error.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const struct engine_i *const engines[] = {
    &engine_cpu,
    &engine_replay,
#ifdef HAVE_CUDA
    &engine_cuda,
#endif
};

#define ENGINES (sizeof engines / sizeof engines[0])

static const char *engine_names(char *buffer, size_t size)
{
    size_t used = 0;

    buffer[0] = '\0';
    for (size_t i = 0; i < ENGINES && used < size; i++)
        used +=
            (size_t)snprintf(buffer + used, size - used, "%s%s", i ? ", " : "", engines[i]->name);
    return buffer;
}

int engine_open(const char *name, const struct engine_options *options, struct engine *out)
{
    char names[256];

    *out = (struct engine){0};
    for (size_t i = 0; i < ENGINES; i++) {
        if (strcmp(engines[i]->name, name) != 0)
            continue;
        assert(engines[i]->copies && engines[i]->services);
        if (engines[i]->open(options, &out->context))
            return error_context("engine '%s'", name);
        out->i = engines[i];
        return 0;
    }
#ifndef HAVE_CUDA
    if (strcmp(name, "cuda") == 0)
        return error_set(
            "this build has no CUDA engine: it was configured --without-cuda, or without "
            "nvcc, cuDNN and cuBLAS at hand");
#endif
    return error_set("unknown engine '%s'; this build has: %s", name,
                     engine_names(names, sizeof names));
}

int engine_math_parse(const char *name, enum engine_math *out)
{
    static const char *const words[] = {"fp32", "tf32", "bf16", NULL}; /* from MATH_FP32 on */
    int found = 0, status = choice_parse("math", name, words, &found);

    *out = (enum engine_math)(MATH_FP32 + found);
    return status;
}

void engine_close(struct engine *engine)
{
    if (engine->i)
        engine->i->close(engine->context);
    *engine = (struct engine){0};
}

bool engine_is_blank(const char *name)
{
    for (size_t i = 0; i < ENGINES; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i]->blank;
    return false;
}

const char *op_kind_name(enum op_kind kind)
{
    static const char *const names[OP_KINDS] = {
        [OP_CONV] = "convolution",
        [OP_INNER_PRODUCT] = "inner product",
        [OP_POOL] = "pooling",
        [OP_RELU] = "ReLU",
        [OP_LRN] = "LRN",
        [OP_DROPOUT] = "dropout",
        [OP_SOFTMAX] = "softmax",
        [OP_SOFTMAX_LOSS] = "softmax loss",
        [OP_ACCURACY] = "accuracy",
        [OP_CONCAT] = "concat",
        [OP_SPLIT] = "split",
        [OP_FLATTEN] = "flatten",
        [OP_ELTWISE] = "eltwise",
        [OP_BATCH_NORM] = "batch normalization",
        [OP_SCALE] = "scale",
        [OP_UNARY] = "unary function",
        [OP_PRELU] = "PReLU",
        [OP_SLICE] = "slice",
        [OP_CROP] = "crop",
        [OP_TILE] = "tile",
        [OP_REDUCE] = "reduction",
        [OP_ARGMAX] = "argmax",
        [OP_MVN] = "MVN",
        [OP_IM2COL] = "im2col",
        [OP_DECONV] = "deconvolution",
        [OP_EMBED] = "embed",
        [OP_SILENCE] = "silence",
        [OP_PARAMETER] = "parameter",
        [OP_BATCH_REINDEX] = "batch reindex",
        [OP_SHUFFLE] = "channel shuffle",
        [OP_INTERP] = "interp",
        [OP_SPP] = "SPP",
        [OP_SIGMOID_LOSS] = "sigmoid loss",
        [OP_EUCLIDEAN_LOSS] = "Euclidean loss",
        [OP_HINGE_LOSS] = "hinge loss",
        [OP_CONTRASTIVE_LOSS] = "contrastive loss",
        [OP_INFOGAIN_LOSS] = "infogain loss",
        [OP_MULTINOMIAL_LOSS] = "multinomial loss",
    };

    return kind >= 0 && kind < OP_KINDS ? names[kind] : "unknown operator";
}
