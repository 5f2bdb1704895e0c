/* The words of poseidon_create, which are those of train and of Caffe's solvers. */
#include "library/library.h"

#include "util/choice.h"
#include "util/error.h"
#include "util/suggest.h"
#include "util/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const results[] = {
    [RESULT_MEAN] = "mean", [RESULT_SUM] = "sum", [RESULT_VALUES] = "values", NULL};

static const struct word {
    const char *name;
    enum { COMM, LOSSY, CHOICE, BYTES, RATE, COUNT, NODES, DURATION, TEXT, REAL, TYPE } kind;
    size_t at; /* in struct words */
    const char *const *words;
} known[] = {
    {"comm", COMM, offsetof(struct words, comm), NULL},
    {"lossy", LOSSY, offsetof(struct words, lossy), NULL},
    {"wire", CHOICE, offsetof(struct words, wire), wire_words},
    {"hierarchy", NODES, offsetof(struct words, hierarchy), NULL},
    {"merge", BYTES, offsetof(struct words, sizes.merge), NULL},
    {"chunk", BYTES, offsetof(struct words, sizes.chunk), NULL},
    {"window", BYTES, offsetof(struct words, sizes.window), NULL},
    {"bandwidth-mbps", RATE, offsetof(struct words, mbps), NULL},
    {"cluster-file", TEXT, offsetof(struct words, cluster_file), NULL},
    {"trace", TEXT, offsetof(struct words, trace), NULL},
    {"lowrank-warmup", COUNT, offsetof(struct words, lowrank_warmup), NULL},
    {"stall-timeout", DURATION, offsetof(struct words, stall_timeout), NULL},
    {"result", CHOICE, offsetof(struct words, result), results},
    {"type", TYPE, offsetof(struct words, rule.kind), NULL},
    {"base_lr", REAL, offsetof(struct words, rate), NULL},
    {"momentum", REAL, offsetof(struct words, rule.momentum), NULL},
    {"momentum2", REAL, offsetof(struct words, rule.momentum2), NULL},
    {"rms_decay", REAL, offsetof(struct words, rule.rms_decay), NULL},
    {"delta", REAL, offsetof(struct words, rule.delta), NULL},
    {"weight_decay", REAL, offsetof(struct words, rule.weight_decay), NULL},
    {"local_gw_ratio", REAL, offsetof(struct words, trust), NULL},
};

static int store(const struct word *word, const char *text, void *target)
{
    long long whole = 0;
    float *real = target;
    char *end;

    switch (word->kind) {
    case COMM:
        return comm_parse(sync_schemes, text, target);
    case LOSSY:
        return ways_parse_lossy(sync_schemes, text, target);
    case CHOICE:
        return choice_parse(word->name, text, word->words, target);
    case BYTES:
        return units_parse_bytes(word->name, text, target);
    case RATE:
        return units_parse_positive(word->name, text, target);
    case TYPE:
        return rule_kind_from_name(text, target);
    case DURATION:
        *(double *)target = 0;
        return strcmp(text, "none") ? units_parse_duration(word->name, text, target) : 0;
    case TEXT:
        *(const char **)target = text;
        return 0;
    case REAL:
        *real = strtof(text, &end);
        return end != text && !*end && *real >= 0 && *real < INFINITY
                   ? 0
                   : error_set("--%s expects a number of 0 or more, found '%s'", word->name, text);
    default: /* a count; of nodes, 0 and -1 are HIERARCHY_AUTO and _OFF */
        if (word->kind == NODES && !strcmp(text, "off"))
            whole = HIERARCHY_OFF;
        else if ((word->kind != NODES || strcmp(text, "auto")) &&
                 units_parse_whole(word->name, text, 0, INT32_MAX, &whole))
            return -1;
        *(int *)target = (int)whole;
        return 0;
    }
}

/* NAME=VALUE, which is cut apart. */
static int parse_word(char *text, struct words *out)
{
    char *value = strchr(text, '=');
    struct suggest near;

    if (!value)
        return error_set("'%s' has no value: expected NAME=VALUE", text);
    *value++ = '\0';
    near = suggest_start(text);
    for (const struct word *w = known; w < known + sizeof known / sizeof *known; w++) {
        if (!strcmp(text, w->name))
            return store(w, value, (char *)out + w->at);
        suggest_offer(&near, w->name);
    }
    return error_set("'%s' is no option%s%s", text, near.nearest ? "; did you mean " : "",
                     near.nearest ? near.nearest : "");
}

int words_restate(void)
{
    char text[2048], before = ' ';
    size_t n = 0;

    for (const char *at = error_text(); *at && n < sizeof text - 1; before = *at++) {
        if (before == ' ' && !strncmp(at, "--", 2))
            at += strncmp(at, "--tune ", 7) ? 2 : 7;
        text[n++] = *at;
    }
    text[n] = '\0';
    return error_set("%s", text);
}

int words_parse(const char *text, struct words *out)
{
    char *rest, *word;

    *out = (struct words){.comm = {.policy = COMM_AUTO},
                          .sizes = COST_NO_SIZES,
                          .lowrank_warmup = 10,
                          .stall_timeout = 300,
                          .rule = {.momentum2 = 0.999f, .rms_decay = 0.99f, .delta = 1e-8f},
                          .rate = 0.01f,
                          .given = strdup(text),
                          .text = strdup(text)};
    if (!out->given || !out->text)
        return error_memory(strlen(text), "the options");
    rest = out->text;
    while ((word = strsep(&rest, ",")))
        if (*word && parse_word(word, out))
            goto fail;
    if (ways_check_lossy(&out->lossy, comm_name(out->comm), out->comm.policy == COMM_AUTO,
                         (enum wire_format)out->wire))
        goto fail;
    out->rule.nhistory = rule_kind_histories(out->rule.kind);
    return 0;
fail:
    words_restate();
    return error_context("options \"%s\"", text);
}
