/* Parses the options of poseidon_create, which train and Caffe's solvers have, too. */
#include "library/library.h"

#include "util/alloc.h"
#include "util/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const results[] = {
    [RESULT_MEAN] = "mean", [RESULT_SUM] = "sum", [RESULT_VALUES] = "values", NULL};

static int parse_type(const char *option, const char *text, void *target)
{
    (void)option; /* unused: the message of rule_kind_from_name names the option itself */
    return rule_kind_from_name(text, target);
}

static int parse_real(const char *option, const char *text, void *target)
{
    float *real = target;
    char *end;

    *real = strtof(text, &end);
    return end != text && !*end && *real >= 0 && *real < INFINITY
               ? 0
               : error_set("%s expects a number of 0 or more, found '%s'", option, text);
}

/* Lists all options in *rows, with targets in *out. */
static void list_words(struct option_rows *rows, struct option_string *out)
{
    const struct option added[] = {
        {"trace", OPTION_TEXT, &out->trace, "FILE"},
        {"stall-timeout", OPTION_CALL, &out->exchange.stall_timeout, .parse = units_parse_pause},
        {"result", OPTION_CHOICE, &out->result, .words = results},
        {"type", OPTION_CALL, &out->rule.kind, .parse = parse_type},
        {"base_lr", OPTION_CALL, &out->rate, .parse = parse_real},
        {"momentum", OPTION_CALL, &out->rule.momentum, .parse = parse_real},
        {"momentum2", OPTION_CALL, &out->rule.momentum2, .parse = parse_real},
        {"rms_decay", OPTION_CALL, &out->rule.rms_decay, .parse = parse_real},
        {"delta", OPTION_CALL, &out->rule.delta, .parse = parse_real},
        {"weight_decay", OPTION_CALL, &out->rule.weight_decay, .parse = parse_real},
        {"local_gw_ratio", OPTION_CALL, &out->trust, .parse = parse_real},
    };

    exchange_add_rows(rows, &out->exchange, "");
    options_add(rows, added, (int)(sizeof added / sizeof *added));
}

/* Fails for the rule's options, whose targets end the struct, without result=values. */
static int check_rule(const struct option_rows *rows, const struct option_string *out)
{
    for (int i = 0; i < rows->n && out->result != RESULT_VALUES; i++) {
        const void *target = rows->row[i].target;
        if (rows->given[i] && target >= (const void *)&out->rule &&
            target < (const void *)(out + 1))
            return error_set("%s= needs result=values: with result=%s the library applies no rule",
                             rows->row[i].name, results[out->result]);
    }
    return 0;
}

int option_string_parse(const char *text, struct option_string *out)
{
    struct option_rows rows = {.n = 0};

    *out = (struct option_string){.exchange = exchange_options_usual(EXCHANGE_LIBRARY),
                                  .rule = {.momentum2 = 0.999f, .rms_decay = 0.99f, .delta = 1e-8f},
                                  .rate = 0.01f};
    if (alloc_text(&out->given, text, "the options") || alloc_text(&out->text, text, "the options"))
        return -1;
    list_words(&rows, out);
    if (options_parse_words(&rows, out->text) || exchange_settle(&out->exchange, NULL) ||
        check_rule(&rows, out))
        return error_context("options \"%s\"", text);
    out->rule.nhistory = rule_kind_histories(out->rule.kind);
    return 0;
}
