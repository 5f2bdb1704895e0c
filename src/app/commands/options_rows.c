/* Rows of options that several commands share. */
#include "commands/options_rows.h"

#include "util/error.h"
#include "util/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parsers ---- */

int shape_parse(const char *option, const char *text, void *target)
{
    long long *out = target;
    char end;

    if (sscanf(text, "%lld,%lld,%lld%c", &out[0], &out[1], &out[2], &end) != 3 || out[0] <= 0 ||
        out[1] <= 0 || out[2] <= 0)
        return error_set("%s expects C,H,W such as 3,224,224, found '%s'", option, text);
    return 0;
}

/* ---- rows ---- */

void options_add_model(struct option_rows *rows, const char *names, struct model_options *o)
{
    const struct option more[] = {
        {"model", OPTION_TEXT, &o->model, "FILE",
         "the net: prototxt, or a .caffemodel with its net; required", .need = NEED_MODEL},
        {"weights", OPTION_TEXT, &o->weights, "FILES", "trained weights (comma list); required",
         .need = suggest_lists(names, "parameters") ? NULL : NEED_WEIGHTS},
        {"phase", OPTION_TEXT, &o->phase, "PHASE", "TRAIN (default) or TEST"},
        {"batch", OPTION_COUNT, &o->batch, "N", "samples per pass, instead of the net's"},
        {"stage", OPTION_TEXT, &o->stages, "LIST", "stages of the net's state (comma list)"},
        {"level", OPTION_INT, &o->level, "N", "level of the net's state"},
        {"input-shape", OPTION_LIST, &o->inputs, "C,H,W",
         "size of images (default: from the net or its data); TOP:SIZES sets one input's shape, as "
         "label:1,41,41; may be repeated"},
    };

    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (suggest_lists(names, more[i].name))
            options_add(rows, &more[i], 1);
}

void options_add_engine(struct option_rows *rows, struct engine_options *to)
{
    const struct option more[] = {
        {"math", OPTION_CHOICE, &to->math, "TYPE",
         "number type: fp32; bf16 (blobs, and products on GPUs, AMX and AVX512_BF16); tf32 "
         "(products; cuda); auto (default): tf32 on GPUs from A100 on, else fp32",
         engine_math_words, .engines = "cpu cuda", .default_words = "auto fp32",
         .run = OPTION_OF_JOB},
        {"deterministic", OPTION_FLAG, &to->deterministic, NULL,
         "cuda: every run gives the same bits", .engines = "cuda cpu", .flags = OPTION_TUNE,
         .run = OPTION_FREE}, /* the CPU always is deterministic */
        {"convolution", OPTION_CHOICE, &to->convolution, "HOW",
         "cpu: auto (default: Winograd if it is faster), direct, winograd",
         engine_convolution_words, .engines = "cpu", .default_words = "auto", .flags = OPTION_TUNE,
         .run = OPTION_FREE},
        {"no-fusion", OPTION_FLAG, &to->no_fusion, NULL, "do not fuse layers into one pass",
         .engines = "cpu cuda", .flags = OPTION_TUNE, .run = OPTION_FREE},
        {"no-graphs", OPTION_FLAG, &to->no_graphs, NULL,
         "cuda: launch every kernel separately, without CUDA graphs", .engines = "cuda",
         .flags = OPTION_TUNE, .run = OPTION_FREE},
        {"workspace", OPTION_BYTES, &to->workspace, "SIZE",
         "cuda: temporary memory of one convolution (default 1g)", .engines = "cuda",
         .flags = OPTION_TUNE, .run = OPTION_FREE},
    };

    options_add(rows, more, (int)(sizeof more / sizeof *more));
}

void options_add_computing(struct option_rows *rows, struct computing *to)
{
    const struct option more[] = {
        {"gpu", OPTION_TEXT, &to->gpus, "all|LIST", .flags = OPTION_OWN | OPTION_CAFFE},
        {"engine", OPTION_TEXT, &to->engine, "cpu|cuda", "compute engine (default: cpu)"},
        {"threads", OPTION_THREADS, &to->options.threads, "N", "compute threads per rank",
         .flags = OPTION_OWN},
    };

    options_add(rows, more, (int)(sizeof more / sizeof *more));
    options_add_engine(rows, &to->options);
    options_add_tuning(rows);
}

void options_add_tuning(struct option_rows *rows)
{
    const struct option row = {
        "tune", OPTION_TUNING, NULL, "NAME=VALUE",
        "set a tuning parameter ('poseidon help tuning' lists them); may be repeated"};

    options_add(rows, &row, 1);
}

/* ---- after parsing ---- */

int options_settle_engine(const char *gpus, const char **engine)
{
    const char *seen = getenv("CUDA_VISIBLE_DEVICES");

    if (!gpus) {
        *engine = *engine ? *engine : "cpu";
        return 0;
    }
    if (*engine && strcmp(*engine, "cuda"))
        return error_set("--gpu=%s trains on GPUs, and --engine=%s does not; give one of them",
                         gpus, *engine);
    *engine = "cuda";
    if (!strcmp(gpus, "all"))
        return 0;
    if (!*gpus || gpus[strspn(gpus, "0123456789,")])
        return error_set("--gpu=%s: expected all, or the GPUs' numbers such as 0,1", gpus);
    if (seen && strcmp(seen, gpus))
        return error_set(
            "--gpu=%s and CUDA_VISIBLE_DEVICES=%s choose different GPUs; give one of them", gpus,
            seen);
    return setenv("CUDA_VISIBLE_DEVICES", gpus, 1) ? error_memory(strlen(gpus), "GPUs") : 0;
}
