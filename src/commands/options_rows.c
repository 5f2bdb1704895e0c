/* Rows that several commands have. */
#include "commands/options_rows.h"

#include "train/trainer.h"
#include "util/choice.h"
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
        return error_set("--%s expects C,H,W such as 3,224,224, found '%s'", option, text);
    return 0;
}

static int parse_comm(const char *option, const char *text, void *target)
{
    const struct communication_rows *to = target;

    (void)option; /* comm_parse names it */
    return to->system ? systems_parse(to->registry, text, to->comm, to->system)
                      : comm_parse(to->registry, text, to->comm);
}

static int parse_lossy(const char *option, const char *text, void *target)
{
    const struct communication_rows *to = target;

    (void)option; /* ways_parse_lossy names it */
    return ways_parse_lossy(to->registry, text, to->lossy);
}

static int parse_order(const char *option, const char *text, void *target)
{
    static const char *const words[] = {"urgency", "fifo", NULL};
    int found = 0, status = choice_parse(option, text, words, &found);

    *(bool *)target = found > 0;
    return status;
}

/* HOW or HOW,L: L leaders of a node. */
static int parse_hierarchy(const char *option, const char *text, void *target)
{
    static const char *const words[] = {"auto", "off", NULL};
    const struct communication_rows *to = target;
    const char *comma = strchr(text, ',');
    char how[16], end;
    int n = 0, leaders = 0, word, length = comma ? (int)(comma - text) : (int)strlen(text);

    snprintf(how, sizeof how, "%.*s", length, text);
    word = choice_find(words, how);
    if ((word < 0 && (sscanf(how, "%5d%c", &n, &end) != 1 || n < 1 || n > 65536)) ||
        (comma && (word == 1 || sscanf(comma, ",%5d%c", &leaders, &end) != 1 || leaders < 1)))
        return error_set(
            "--%s=%s: expected auto, off, or the number of a node's ranks, 1 to 65536; behind "
            "a comma how many of them lead it, as 4,2",
            option, text);
    *to->hierarchy = word == 0 ? HIERARCHY_AUTO : word == 1 ? HIERARCHY_OFF : n;
    if (comma)
        *to->leaders = leaders;
    return 0;
}

/* ---- rows ---- */

void options_add_communication(struct option_rows *rows, struct communication_rows *to)
{
    const struct option more[] = {
        {"comm", OPTION_CALL, to, "HOW", to->comm_words, .parse = parse_comm},
        {"lossy", OPTION_CALL, to, "LIST",
         "--comm=auto: also choose from these, where rounded gradients make the iteration shorter: "
         "bf16, lowrank:R, onebit (default: nothing is rounded)",
         .parse = parse_lossy},
        {"overlap", OPTION_CHOICE, to->overlap, "HOW",
         "overlap traffic with both passes (wfbp, default), with backward alone (backward), or not "
         "at all (none)",
         cost_overlap_words},
        {"wire", OPTION_CHOICE, to->wire, "FORMAT",
         "send gradients as fp32 (default) or bf16, half the bytes: a gradient's rounding error is "
         "added to the next gradient, that of sufficient factors is lost; factors of low rank stay "
         "fp32",
         wire_words},
        {"servers", OPTION_INT, to->servers, "K",
         "K dedicated server ranks, the last ones (default: all ranks serve)"},
        {"hierarchy", OPTION_CALL, to, "HOW[,L]",
         "ranks of a node add up gradients in shared memory, or by NCCL, and their leader "
         "communicates: auto (default; on one machine only with --comm=auto), off, or N ranks per "
         "node. L of them lead, each for its share of the parameters (default 1; on one node all)",
         .parse = parse_hierarchy},
        {"leaders", OPTION_COUNT | OPTION_OLD, to->leaders, "L", "--hierarchy=HOW,L"},
        {"order", OPTION_CALL | OPTION_TUNE, to->fifo, "ORDER",
         "send order: urgency (default: what forward needs first) or fifo", .parse = parse_order},
        {"window", OPTION_BYTES | OPTION_OWN | OPTION_TUNE, to->window, "SIZE",
         "limit on bytes in flight, 1/8 of it for each rank; other messages wait in order of "
         "urgency; 0: no limit (default: by the measured network, else 8m)"},
        {"chunk", OPTION_BYTES | OPTION_TUNE, to->chunk, "SIZE",
         "bytes of parameters, or of factors, per message (default: by the measured network, else "
         "512k)"},
        {"merge", OPTION_BYTES | OPTION_TUNE, to->merge, "SIZE",
         "send small neighbouring layers together, up to this size; 0: each alone (default: by the "
         "measured "
         "network, else 64k)"},
    };

    comm_help(to->registry, OPTIONS_INDENT, to->comm_words);
    if (to->system)
        systems_help(OPTIONS_INDENT, to->comm_words);
    options_add(rows, more, (int)(sizeof more / sizeof *more));
}

int options_check_communication(const struct communication_rows *given)
{
    const struct system *system = given->system ? *given->system : NULL;

    return ways_check_lossy(given->lossy, system ? system->name : comm_name(*given->comm),
                            given->comm->policy == COMM_AUTO, *given->wire);
}

void options_add_model(struct option_rows *rows, const char *names, struct model_options *o)
{
    const struct option more[] = {
        {"model", OPTION_TEXT, &o->model, "FILE",
         "the net (prototxt, or a .caffemodel that has it); required", .need = NEED_MODEL},
        {"weights", OPTION_TEXT, &o->weights, "FILES", "trained weights (comma list); required",
         .need = NEED_WEIGHTS},
        {"phase", OPTION_TEXT, &o->phase, "PHASE", "TRAIN (default) or TEST"},
        {"batch", OPTION_COUNT, &o->batch, "N", "samples per pass, instead of the net's"},
        {"stage", OPTION_TEXT, &o->stages, "LIST", "stages of the net's state (comma list)"},
        {"level", OPTION_INT, &o->level, "N", "level of the net's state"},
        {"input-shape", OPTION_CALL, o->input_chw, "C,H,W",
         "input size, if neither the net nor its data gives it", .parse = shape_parse},
    };

    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (suggest_lists(names, more[i].name))
            options_add(rows, &more[i], 1);
}

void options_add_engine(struct option_rows *rows, struct engine_options *to)
{
    const struct option more[] = {
        {"math", OPTION_CHOICE, &to->math, "TYPE",
         "cuda: auto (default: tf32 on A100 and later), fp32, tf32 or bf16", engine_math_words},
        {"deterministic", OPTION_FLAG | OPTION_TUNE, &to->deterministic, NULL,
         "cuda: the same bits at every run"},
        {"convolution", OPTION_CHOICE | OPTION_TUNE, &to->convolution, "HOW",
         "cpu: auto (default: Winograd if it is faster), direct, winograd",
         engine_convolution_words},
        {"no-fusion", OPTION_FLAG | OPTION_TUNE, &to->no_fusion, NULL,
         "do not fuse layers into one pass"},
        {"no-graphs", OPTION_FLAG | OPTION_TUNE, &to->no_graphs, NULL,
         "cuda: launch every kernel separately, without CUDA graphs"},
        {"workspace", OPTION_BYTES | OPTION_TUNE, &to->workspace, "SIZE",
         "cuda: temporary memory of one convolution (default 1g)"},
    };

    options_add(rows, more, (int)(sizeof more / sizeof *more));
}

void options_add_computing(struct option_rows *rows, struct computing *to)
{
    const struct option more[] = {
        {"gpu", OPTION_TEXT | OPTION_OWN, &to->gpus, "all|LIST",
         "as --engine=cuda, on the GPUs of the list"},
        {"engine", OPTION_TEXT, &to->engine, "NAME", "compute engine: cpu (default) or cuda"},
        {"threads", OPTION_THREADS | OPTION_OWN, &to->options.threads, "N",
         "compute threads per rank"},
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
