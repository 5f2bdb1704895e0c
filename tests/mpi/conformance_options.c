/* The options of sync_conformance: one row each. */
#include <stddef.h>
#include <string.h>

#include "tests/mpi/conformance.h"
#include "util/choice.h"

enum kind { COUNT, NUMBER, WORD, COMM, WAYS, WIRE };

/* Where a row's words stand in an array in the order of an enum, the field is the place of the
 * word. */
static const char *const overlaps[] = {"none", "wfbp", "backward", NULL};
static const char *const nets[] = {"auto", "small", "large", NULL};
static const char *const orders[] = {"urgency", "fifo", NULL};
static const char *const biases[] = {"learns", "frozen", NULL};
static const char *const lates[] = {"held", "stuck", "random", NULL};
static const char *const ends[] = {"history", "failure", NULL};

static const struct row {
    const char *name;
    enum kind kind;
    size_t at;
    const char *const *words;
    const char *standard, *help;
} rows[] = {
#define AT(field) offsetof(struct conformance, field)
    {"comm", COMM, AT(comm), NULL, "ps", "communication scheme, as --comm of poseidon train"},
    {"ways", WAYS, AT(ways), NULL, "",
     "as lowrank:2,ps/bf16: instead, a scheme for each group, over and over"},
    {"servers", COUNT, AT(servers), NULL, "0", "dedicated server ranks, the last ones"},
    {"chunk", COUNT, AT(chunk), NULL, "1024", "most bytes of a chunk"},
    {"overlap", WORD, AT(overlap), overlaps, "wfbp", "as --overlap of poseidon train"},
    {"clip", NUMBER, AT(clip), NULL, "0", "largest norm of the gradient; 0: any"},
    {"iter-size", COUNT, AT(iter_size), NULL, "1", "micro-batches of an iteration"},
    {"wire", WIRE, AT(wire), NULL, "fp32", "fp32 or bf16: what gradients are sent as"},
    {"window", COUNT, AT(window), NULL, "0", "bytes in flight; 0: any number"},
    {"order", WORD, AT(fifo), orders, "urgency", "what is sent first"},
    {"merge", COUNT, AT(merge), NULL, "0", "bytes up to which neighbours travel together"},
    {"node", COUNT, AT(node), NULL, "0", "workers that add up among themselves; 0: none do"},
    {"leaders", COUNT, AT(leaders), NULL, "1", "of them that lead, each for its chunks"},
    {"net", WORD, AT(net), nets, "auto",
     "first group of 300 or 20000 parameters; auto: large with nodes"},
    {"bias", WORD, AT(frozen), biases, "learns",
     "of a fully connected group: frozen: its gradient is in no norm, and nothing decays"},
    {"staleness", COUNT, AT(staleness), NULL, "0", "iterations that parameters may be old"},
    {"drop", COUNT, AT(drop), NULL, "0", "workers whose gradients no iteration waits for"},
    {"late", WORD, AT(late), lates, "held",
     "who they are: held: one after the other; stuck: likewise, some before they are answered; "
     "random: whoever is delayed"},
    {"tree", COUNT, AT(tree), NULL, "0",
     "leaders from which on everything that can travels along trees; 0: where that is faster"},
    {"factors", COUNT, AT(factors), NULL, "0",
     "most bytes of a bucket's factors, more come in rounds; 0: the plan's"},
    {"warmup", COUNT, AT(warmup), NULL, "0", "iterations before low rank begins"},
    {"owed", COUNT, AT(owed), NULL, "0",
     "leaders whose residuals the run begins with; 0: as many as it has"},
    {"parts", COUNT, AT(parts), NULL, "1",
     "workers have once, twice ... so often the rows of factors"},
    {"threads", COUNT, AT(threads), NULL, "1", "of a dedicated server"},
    {"seeds", COUNT, AT(seeds), NULL, "0",
     "repetitions with transfers delayed at random; 0: one without"},
    {"iterations", COUNT, AT(iterations), NULL, "12", "of each training"},
    {"end", WORD, AT(fails), ends, "history",
     "rank 0 collects the history, or the last rank fails instead of giving its own"},
    {"limit", COUNT, AT(limit), NULL, "600", "seconds after which a case counts as hanging"},
#undef AT
};
enum { ROWS_OF_OPTIONS = sizeof rows / sizeof *rows };

static int word_read(const struct row *row, const char *value, int *out)
{
    for (int i = 0; row->words[i]; i++)
        if (!strcmp(value, row->words[i])) {
            *out = i;
            return 0;
        }
    return error_set("--%s=%s is not known; --help lists the words", row->name, value);
}

static int comm_read(const char *value, struct comm *out)
{
    if (comm_parse(sync_schemes, "--comm", value, out))
        return -1;
    return out->policy == COMM_AUTO
               ? error_set("--comm=auto: nothing is measured here that could choose")
               : 0;
}

static int ways_read(const char *value, struct conformance *c)
{
    const char *at = value;
    char word[32];

    for (int g = 0; g < GROUPS && *value; g++) {
        struct comm comm;
        char *form;
        snprintf(word, sizeof word, "%.*s", (int)strcspn(at, ","), at);
        form = strchr(word, '/');
        if (form && strcmp(form, "/bf16"))
            return error_set("--ways=%s: '%s' is not known", value, form);
        if (form)
            *form = '\0';
        if (comm_parse(sync_schemes, "--comm", word, &comm) || !comm.scheme)
            return -1;
        c->ways[g] =
            (struct way){comm.scheme, scheme_rank(comm.scheme, comm), form ? WIRE_BF16 : WIRE_FP32};
        c->comm = (struct comm){.policy = COMM_AUTO};
        at = strchr(at, ',') ? strchr(at, ',') + 1 : value;
    }
    return 0;
}

static int wire_read(const char *value, int *out)
{
    return choice_parse("--wire", value, wire_words, out);
}

static int value_read(const struct row *row, const char *value, struct conformance *c)
{
    char *field = (char *)c + row->at, *end;
    double number;

    if (row->kind == WORD)
        return word_read(row, value, (int *)(void *)field);
    if (row->kind == COMM)
        return comm_read(value, (struct comm *)(void *)field);
    if (row->kind == WAYS)
        return ways_read(value, c);
    if (row->kind == WIRE)
        return wire_read(value, (int *)(void *)field);
    number = strtod(value, &end);
    if (end == value || *end || !(number >= 0 && number <= 1 << 30) ||
        (row->kind == COUNT && number != (double)(long)number))
        return error_set("--%s=%s: not a %s", row->name, value,
                         row->kind == COUNT ? "count" : "number from 0 up");
    if (row->kind == COUNT)
        *(long *)(void *)field = (long)number;
    else
        *(double *)(void *)field = number;
    return 0;
}

int conformance_option(struct conformance *c, const char *argument)
{
    for (int i = 0; i < ROWS_OF_OPTIONS; i++) {
        size_t length = strlen(rows[i].name);
        if (!strncmp(argument, "--", 2) && !strncmp(argument + 2, rows[i].name, length) &&
            argument[2 + length] == '=')
            return value_read(&rows[i], argument + 2 + length + 1, c);
    }
    return error_set("%s: no such option, or no value; --help lists them", argument);
}

void conformance_defaults(struct conformance *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < ROWS_OF_OPTIONS; i++)
        if (value_read(&rows[i], rows[i].standard, out))
            abort();
}

void conformance_options_help(FILE *out)
{
    for (int i = 0; i < ROWS_OF_OPTIONS; i++) {
        fprintf(out, "  --%s=%s  %s", rows[i].name, rows[i].standard, rows[i].help);
        for (int w = 0; rows[i].words && rows[i].words[w]; w++)
            fprintf(out, "%s%s", w ? ", " : " (", rows[i].words[w]);
        fprintf(out, rows[i].words ? ")\n" : "\n");
    }
}
