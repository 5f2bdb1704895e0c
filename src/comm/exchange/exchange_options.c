/* Option rows, the parsers of their values, and conflicts between values. */
#include "exchange/exchange_options.h"

#include "util/choice.h"
#include "util/error.h"

#include <stdio.h>
#include <string.h>

struct exchange_options exchange_options_usual(enum exchange_door door)
{
    return (struct exchange_options){.door = door,
                                     .comm = {.policy = COMM_AUTO},
                                     .overlap = COST_OVERLAP_WFBP,
                                     .hierarchy = HIERARCHY_AUTO,
                                     .lowrank_warmup = -1,
                                     .sizes = COST_NO_SIZES,
                                     .stall_timeout = 300};
}

/* ---- parsers of rows ---- */

static int parse_comm(const char *option, const char *text, void *target)
{
    struct exchange_options *o = target;

    return comm_parse(sync_schemes, option, text, &o->comm);
}

static int parse_lossy(const char *option, const char *text, void *target)
{
    struct exchange_options *o = target;

    return ways_parse_lossy(sync_schemes, option, text, &o->lossy);
}

static int parse_order(const char *option, const char *text, void *target)
{
    static const char *const words[] = {"urgency", "fifo", NULL};
    int found = 0, status = choice_parse(option, text, words, &found);

    *(bool *)target = found > 0;
    return status;
}

/* Parses HOW or HOW,L, with L leaders of a node. */
static int parse_hierarchy(const char *option, const char *text, void *target)
{
    static const char *const words[] = {"auto", "off", NULL};
    struct exchange_options *o = target;
    const char *comma = strchr(text, ',');
    char how[16], end;
    int n = 0, leaders = 0, word, length = comma ? (int)(comma - text) : (int)strlen(text);

    snprintf(how, sizeof how, "%.*s", length, text);
    word = choice_find(words, how);
    if ((word < 0 && (sscanf(how, "%5d%c", &n, &end) != 1 || n < 1 || n > 65536)) ||
        (comma && (word == 1 || sscanf(comma, ",%5d%c", &leaders, &end) != 1 || leaders < 1)))
        return error_set("%s=%s: expected auto, off, or a number of ranks per node, 1 to 65536; "
                         "then, after a comma, a number of leaders per node, such as 4,2",
                         option, text);
    o->hierarchy = word == 0 ? HIERARCHY_AUTO : word == 1 ? HIERARCHY_OFF : n;
    if (comma)
        o->leaders = leaders;
    return 0;
}

/* ---- rows ---- */

#define SENDS "is about what ranks send"

enum { TRAIN = 1 << EXCHANGE_TRAIN, PLAN = 1 << EXCHANGE_PLAN, LIBRARY = 1 << EXCHANGE_LIBRARY };

void exchange_add_rows(struct option_rows *rows, struct exchange_options *o, const char *comm_help)
{
    const struct {
        int doors;
        struct option row;
    } all[] = {
        {comm_help ? TRAIN | PLAN | LIBRARY : 0,
         {"comm", OPTION_CALL, o, "HOW", comm_help, .parse = parse_comm}},
        {TRAIN | PLAN | LIBRARY,
         {"lossy", OPTION_CALL, o, "LIST",
          "round gradients: --comm=auto chooses from bf16, lowrank:R and onebit where they make "
          "the iteration shorter; a scheme takes bf16 alone, half the bytes (default: nothing is "
          "rounded)",
          .parse = parse_lossy}},
        {TRAIN | PLAN,
         {"overlap", OPTION_CHOICE, &o->overlap, "HOW",
          "overlap traffic with both passes (wfbp, default), with backward alone (backward), or "
          "not at all (none)",
          cost_overlap_words, .default_words = "wfbp", .not_with = "comm=none", .why = SENDS,
          .flags = OPTION_TUNE}},
        {TRAIN | PLAN | LIBRARY,
         {"wire", OPTION_CHOICE, &o->wire, "FORMAT",
          "send gradients as fp32 (default) or bf16, half the bytes: a gradient's rounding error "
          "is added to the next gradient, that of sufficient factors is lost; factors of low rank "
          "stay fp32",
          wire_words, .default_words = "fp32", .not_with = "comm=none", .why = SENDS,
          .flags = OPTION_TUNE}},
        {TRAIN | PLAN,
         {"servers", OPTION_INT, &o->servers, "K",
          "K dedicated server ranks, the last ones (default: all ranks serve)",
          .default_words = "0"}},
        {TRAIN | PLAN | LIBRARY,
         {"hierarchy", OPTION_CALL, o, "HOW[,L]",
          "ranks of a node add up gradients in shared memory, or by NCCL, and their leader "
          "communicates: auto (default; on one machine only with --comm=auto), off, or N ranks "
          "per node. L of them lead, each for its share of the parameters (default 1; on one node "
          "all)",
          .parse = parse_hierarchy}},
        {TRAIN | PLAN | LIBRARY,
         {"order", OPTION_CALL, &o->fifo, "ORDER",
          "send order: urgency (default: what forward needs first) or fifo", .parse = parse_order,
          .default_words = "urgency", .not_with = "comm=none", .why = SENDS, .flags = OPTION_TUNE}},
        {TRAIN | PLAN | LIBRARY,
         {"window", OPTION_BYTES, &o->sizes.window, "SIZE",
          "limit on bytes in flight, 1/8 of it for each rank; other messages wait in order of "
          "urgency; 0: no limit (default: by the measured network, else 8m)",
          .flags = OPTION_OWN | OPTION_TUNE}},
        {TRAIN | PLAN | LIBRARY,
         {"chunk", OPTION_BYTES, &o->sizes.chunk, "SIZE",
          "bytes of parameters, or of factors, per message (default: by the measured network, "
          "else 512k)",
          .flags = OPTION_TUNE}},
        {TRAIN | PLAN | LIBRARY,
         {"merge", OPTION_BYTES, &o->sizes.merge, "SIZE",
          "send small neighbouring layers together, up to this size; 0: each alone (default: by "
          "the measured network, else 64k)",
          .flags = OPTION_TUNE}},
        {TRAIN | LIBRARY,
         {"cluster-file", OPTION_TEXT, &o->cluster_file, "FILE",
          "--comm=auto: keep the measured figures of this cluster in FILE", .not_with = "comm=none",
          .why = SENDS, .flags = OPTION_TUNE}},
        {TRAIN | LIBRARY,
         {"bandwidth-mbps", OPTION_REAL, &o->mbps, "X",
          "send no more than X Mbit/s per rank (shared clusters); auto chooses schemes for that",
          .not_with = "comm=none", .why = SENDS, .flags = OPTION_OWN | OPTION_TUNE}},
        {TRAIN,
         {"measure", OPTION_FLAG, &o->measure, NULL,
          "--comm=auto: measure the cluster and choose schemes again, ignoring kept figures",
          .not_with = "comm=none", .why = SENDS, .flags = OPTION_TUNE}},
        {TRAIN | LIBRARY,
         {"lowrank-warmup", OPTION_INT, &o->lowrank_warmup, "N",
          "low rank: number of first iterations that send whole gradients (default 10, or the "
          "solver's warm-up if longer)",
          .flags = OPTION_TUNE}},
        {TRAIN,
         {"drop-stragglers", OPTION_COUNT, &o->drop, "K",
          "end an iteration without the gradients of the K slowest workers: the average is over "
          "the other workers, and late workers continue from the newest parameters (--comm=ps; "
          "default: wait for all)",
          .not_with = "staleness", .why = "goes on without the slowest workers",
          .flags = OPTION_TUNE}},
        {TRAIN,
         {"staleness", OPTION_INT, &o->staleness, "S",
          "--comm=ps: a worker may run S iterations ahead of the slowest (default 0)",
          .default_words = "0", .not_with = "lossy wire", .why = "sends exact gradients",
          .flags = OPTION_TUNE}},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].doors >> o->door & 1)
            options_add(rows, &all[i].row, 1);
}

/* ---- conflicts ---- */

const char *exchange_word(const struct exchange_options *o, const char *word)
{
    if (o->door != EXCHANGE_LIBRARY)
        return word;
    return word + (strncmp(word, "--tune=", 7) ? 2 : 7);
}

static bool is_ps(const struct exchange_options *o)
{
    return o->comm.policy == COMM_SCHEME && o->comm.scheme == sync_schemes[0];
}

static int check_lossy(const struct exchange_options *o, const char *comm)
{
    bool low_rank = o->comm.scheme && o->comm.scheme->rank > 0;

    for (int i = 0; i < o->lossy.n; i++)
        low_rank = low_rank || o->lossy.way[i].rank > 0;
    if (o->lowrank_warmup >= 0 && !low_rank)
        return error_set("%s=%d needs %s=lowrank or %s=lowrank: no other scheme begins exact and "
                         "becomes lossy",
                         exchange_word(o, "--tune=lowrank-warmup"), o->lowrank_warmup,
                         exchange_word(o, "--comm"), exchange_word(o, "--lossy"));
    if (o->lossy.n > 0 && o->comm.policy != COMM_AUTO)
        return error_set("%s=%s lists schemes for %s=auto to choose from, but %s=%s leaves no "
                         "choice: give one of them",
                         exchange_word(o, "--lossy"), o->lossy.text, exchange_word(o, "--comm"),
                         exchange_word(o, "--comm"), comm ? comm : comm_name(o->comm));
    if (o->lossy.n > 0 && o->wire != WIRE_FP32)
        return error_set("%s=%s rounds all gradients, but %s=%s only gradients of layers where "
                         "this is faster: give one of them",
                         exchange_word(o, "--tune=wire"), wire_words[o->wire],
                         exchange_word(o, "--lossy"), o->lossy.text);
    return 0;
}

/* Checks the options by which workers go on without each other. */
static int check_apart(const struct exchange_options *o)
{
    int apart = o->drop > 0 ? o->drop : o->staleness;

    if (o->staleness > 64)
        return error_set("--tune=staleness=%d is out of range: 0 to 64", o->staleness);
    return apart == 0 || is_ps(o) ? 0
                                  : error_set("--tune=%s=%d needs --comm=ps: in the other schemes "
                                              "every worker waits for all workers",
                                              o->drop > 0 ? "drop-stragglers" : "staleness", apart);
}

int exchange_settle(struct exchange_options *o, const char *comm)
{
    bool chosen = o->comm.policy == COMM_AUTO || o->comm.policy == COMM_NONE;

    if (!chosen && o->lossy.n == 1 && !o->lossy.way[0].scheme) { /* bf16 alone: all gradients */
        o->wire = WIRE_BF16;
        o->lossy.n = 0;
    }
    if (o->sizes.chunk < sizeof(float))
        return error_set("%s=%zu: a chunk holds at least one parameter, %zu bytes",
                         exchange_word(o, "--tune=chunk"), o->sizes.chunk, sizeof(float));
    return error_status(check_apart(o) || check_lossy(o, comm));
}
