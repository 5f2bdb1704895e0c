/* Rows of options, and what parses their values. */
#include "plan/communication.h"

#include "util/choice.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

static int parse_comm(const char *option, const char *text, void *target)
{
    const struct communication_rows *to = target;

    (void)option; /* comm_parse names it */
    return comm_parse(to->registry, text, to->comm);
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

void communication_add_rows(struct option_rows *rows, struct communication_rows *to)
{
    const struct option more[] = {
        {"comm", OPTION_CALL, to, "HOW", to->comm_words,
         .parse = to->parse ? to->parse : parse_comm},
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
        {"window", OPTION_BYTES | OPTION_OWN | OPTION_TUNE, &to->sizes->window, "SIZE",
         "limit on bytes in flight, 1/8 of it for each rank; other messages wait in order of "
         "urgency; 0: no limit (default: by the measured network, else 8m)"},
        {"chunk", OPTION_BYTES | OPTION_TUNE, &to->sizes->chunk, "SIZE",
         "bytes of parameters, or of factors, per message (default: by the measured network, else "
         "512k)"},
        {"merge", OPTION_BYTES | OPTION_TUNE, &to->sizes->merge, "SIZE",
         "send small neighbouring layers together, up to this size; 0: each alone (default: by the "
         "measured "
         "network, else 64k)"},
    };

    comm_help(to->registry, OPTIONS_INDENT, to->comm_words);
    options_add(rows, more, (int)(sizeof more / sizeof *more));
}

int communication_check(const struct communication_rows *given, const char *name)
{
    const struct ways *lossy = given->lossy;

    if (lossy->n > 0 && given->comm->policy != COMM_AUTO)
        return error_set("--lossy=%s says what --comm=auto may choose from, and --comm=%s leaves "
                         "nothing to choose: give one of them",
                         lossy->text, name ? name : comm_name(*given->comm));
    if (lossy->n > 0 && *given->wire != WIRE_FP32)
        return error_set("--wire=%s rounds all gradients, and --lossy=%s those of layers where "
                         "that is faster: give one of them",
                         wire_words[*given->wire], lossy->text);
    return 0;
}
