/* Engines by name. A new engine adds its table and one line here. */
#include "engine/engine.h"

#include "engine/engine_internal.h"
#include "engine/op_check.h"
#include "engine/op_size.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <assert.h>
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
    buffer[0] = '\0';
    for (size_t i = 0; i < ENGINES; i++)
        buffer_list(buffer, size, engines[i]->name);
    return buffer;
}

int engine_open(const char *name, const struct engine_options *options, struct engine *out)
{
    char names[256];

    *out = (struct engine){0};
    for (size_t i = 0; i < ENGINES; i++) {
        if (strcmp(engines[i]->name, name) != 0)
            continue;
        assert(engines[i]->device->copies && engines[i]->device->services);
        if (engines[i]->open(options, &out->context))
            return error_context("engine '%s'", name);
        out->i = engines[i];
        out->device = (struct device){engines[i]->device, out->context};
        return 0;
    }
#ifndef HAVE_CUDA
    if (strcmp(name, "cuda") == 0)
        return error_set(
            "this build has no CUDA engine: configure had --without-cuda, or did not find nvcc, "
            "cuDNN and cuBLAS");
#endif
    return error_set("unknown engine '%s'; this build has: %s", name,
                     engine_names(names, sizeof names));
}

const char *const engine_math_words[] = {[MATH_DEFAULT] = "auto",
                                         [MATH_FP32] = "fp32",
                                         [MATH_TF32] = "tf32",
                                         [MATH_BF16] = "bf16",
                                         NULL};

const char *const engine_convolution_words[] = {[CONVOLUTION_AUTO] = "auto",
                                                [CONVOLUTION_DIRECT] = "direct",
                                                [CONVOLUTION_WINOGRAD] = "winograd",
                                                NULL};

void engine_describe(const struct engine *engine, const struct op *op, char words[ENGINE_OP_WORDS])
{
    words[0] = '\0';
    if (op && engine->i->describe)
        engine->i->describe(op, words);
}

void engine_close(struct engine *engine)
{
    if (engine->i)
        engine->i->close(engine->context);
    *engine = (struct engine){0};
}

static const struct engine_i *find_engine(const char *name)
{
    for (size_t i = 0; i < ENGINES; i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

bool engine_is_blank(const char *name)
{
    const struct engine_i *found = find_engine(name);

    return found && found->device->blank;
}

void engine_processor(const char *name, char words[ENGINE_PROCESSOR_WORDS])
{
    const struct engine_i *found = find_engine(name);

    words[0] = '\0';
    if (found && found->processor)
        found->processor(words);
}

bool engine_fuses(const struct engine *engine, enum op_kind kind, enum op_kind next)
{
    return engine->i->fuses && engine->i->fuses(engine->context, kind, next);
}

int engine_op_create(struct engine *engine, const struct op_args *args, struct op **out)
{
    const struct engine_i *i = engine->i;
    const char *layer = args->layer ? args->layer : "?";

    *out = NULL;
    if (op_check(args))
        return error_context("layer '%s'", layer);
    if (args->relu && !engine_fuses(engine, args->kind, OP_RELU))
        return error_set("engine '%s' cannot fuse a ReLU into a %s, as layer '%s' asks", i->name,
                         op_kind_name(args->kind), layer);
    if (i->op_create(engine->context, args, out))
        return -1;
    assert(*out);
    for (int pass = 0; pass < OP_PASSES; pass++)
        (*out)->work[pass] = op_work(args, (enum op_pass)pass);
    return 0;
}

const char *op_kind_name(enum op_kind kind)
{
    static const char *const names[] = {
#define OPERATOR_WORDS(ENUM, name, words, args) words,
        OPERATORS(OPERATOR_WORDS)
#undef OPERATOR_WORDS
    };

    return kind >= 0 && kind < OP_KINDS ? names[kind] : "unknown operator";
}
