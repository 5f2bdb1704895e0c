/* Who adds up together, and whether the cluster's figures are asked: a table of options and facts.
 * `plan`, training and libposeidon have no other answer. */
#include <check.h>
#include <string.h>

#include "exchange/saved_plan.h"
#include "exchange/shape.h"
#include "tests/suite.h"
#include "util/error.h"

#define KEPT_APART "ranks 4 servers 0 nodes 4 chunk 524288 merge 65536 latency 32768\n"
#define KEPT_NODE  "ranks 4 servers 0 nodes 1 chunk 524288 merge 65536 latency 32768\n"

enum { NOBODY, ONLY, NODES, TEAM, REFUSED };

static const struct row {
    const char *words;    /* the options, as libposeidon's */
    const char *machines; /* per rank: a digit */
    int shape;
    int asks, rails, hosts; /* the latter: leaders_per_host */
    const char *kept;
    int servers, drop, staleness;
    bool measure, blank, capped, reproducible, own_memory;
    const char *no_team;
} rows[] = {
    /* one machine: memory, unless something asks for messages */
    {"", "0000", ONLY, 0, 4, 1},
    {"", "0", NOBODY, 0, 1, 1},
    {"hierarchy=off", "0000", NOBODY, 0, 1, 4},
    {"hierarchy=auto", "0000", ONLY, 0, 4, 1},
    {"hierarchy=2", "0000", NODES, 0, 1, 2},
    {"hierarchy=4", "0000", ONLY, 0, 4, 1},
    {"comm=ps", "0000", NOBODY, 0, 1, 4},
    {"comm=paper", "0000", NOBODY, 0, 1, 4},
    {"comm=allreduce,hierarchy=4", "0000", ONLY, 0, 4, 1},
    {"wire=bf16", "0000", NOBODY, 0, 1, 4},
    {"lossy=bf16", "0000", ONLY, 0, 4, 1},
    {"cluster-file=f", "0000", NOBODY, 1, 1, 4},
    {"cluster-file=f", "0", NOBODY, 0, 1, 1},
    {"comm=ps,cluster-file=f", "0000", NOBODY, 0, 1, 4},
    {"cluster-file=f,hierarchy=4", "0000", ONLY, 1, 4, 1},
    {"bandwidth-mbps=100", "0000", NOBODY, 0, 1, 4, .capped = true},
    {"", "0000", NOBODY, 0, 1, 4, .capped = true}, /* another rank's */
    {"", "0000", NOBODY, 0, 1, 4, .blank = true},
    {"", "0000", NOBODY, 0, 1, 4, .servers = 1},
    {"hierarchy=3", "0000", NODES, 0, 1, 2, .servers = 1},
    {"", "0000", NOBODY, 0, 1, 4, .kept = KEPT_APART},
    {"", "0000", ONLY, 0, 4, 1, .kept = KEPT_APART, .measure = true},
    {"", "0000", ONLY, 0, 4, 1, .kept = KEPT_NODE},
    {"", "00", ONLY, 0, 2, 1, .kept = KEPT_APART}, /* of other ranks */
    {"", "0000", ONLY, 0, 4, 1, .kept = ""},
    /* several machines: the workers of each, and auto asks */
    {"", "0011", NODES, 1, 1, 1},
    {"", "0101", NODES, 1, 1, 1},
    {"", "0123", NOBODY, 1, 1, 1},
    {"", "0001", NODES, 1, 1, 1},
    {"comm=sfb", "0011", NODES, 0, 1, 1},
    {"comm=sfb,hierarchy=off", "0011", NOBODY, 0, 1, 2},
    {"wire=bf16", "0011", NODES, 1, 1, 1},
    {"hierarchy=2", "000000001111", NODES, 1, 1, 4},
    {"", "0011", NODES, 1, 1, 2, .servers = 1}, /* the server shares the link of a node's leader */
    {"", "0011", NODES, 1, 1, 1, .blank = true},
    {"", "0011", NODES, 1, 1, 1, .capped = true},
    {"", "0011", NODES, 1, 1, 1, .kept = KEPT_APART},
    /* what hinders */
    {"comm=none", "0011", NOBODY, 0, 1, 2},
    {"comm=none,hierarchy=2", "0011", REFUSED},
    {"comm=ps", "0011", NOBODY, 0, 1, 2, .staleness = 1},
    {"comm=ps,hierarchy=2", "0011", REFUSED, .staleness = 1},
    {"comm=ps", "0011", NOBODY, 0, 1, 2, .drop = 1},
    {"comm=ps,hierarchy=2", "0011", REFUSED, .drop = 1},
    /* one tree over all workers */
    {"", "0011", NODES, 1, 1, 1, .reproducible = true},
    {"", "000111", NOBODY, 1, 1, 3, .reproducible = true},
    {"", "0101", NOBODY, 1, 1, 2, .reproducible = true},
    {"", "000", ONLY, 0, 3, 1, .reproducible = true},
    {"hierarchy=3", "000111", REFUSED, .reproducible = true},
    /* engines with memory of their own */
    {"", "0000", TEAM, 0, 1, 1, .own_memory = true},
    {"", "0011", TEAM, 1, 1, 1, .own_memory = true},
    {"comm=ps", "0000", TEAM, 0, 1, 1, .own_memory = true},
    {"comm=sfb", "0011", NOBODY, 0, 1, 2, .own_memory = true},
    {"comm=sfb,hierarchy=2", "0011", REFUSED, .own_memory = true},
    {"", "0011", NOBODY, 1, 1, 2, .own_memory = true, .no_team = "no NCCL"},
    {"hierarchy=2", "0011", REFUSED, .own_memory = true, .no_team = "no NCCL"},
};

static void read_options(const struct row *row, char *words, struct exchange_options *out)
{
    struct option_rows all = {.n = 0};

    *out = exchange_options_usual(EXCHANGE_LIBRARY);
    exchange_add_rows(&all, out, "");
    strcpy(words, row->words);
    ck_assert_msg(options_parse_words(&all, words) == 0, "%s: %s", row->words, error_text());
    out->servers = row->servers;
    out->drop = row->drop;
    out->staleness = row->staleness;
    out->measure = row->measure;
}

START_TEST(every_row_has_its_shape)
{
    const struct row *row = &rows[_i];
    struct exchange_options options;
    struct exchange_shape shape;
    int machine[16], nranks = (int)strlen(row->machines), on[16] = {0}, most = 0, last = 0, status;
    struct exchange_facts facts = {.nranks = nranks,
                                   .machine = machine,
                                   .blank = row->blank,
                                   .capped = row->capped,
                                   .reproducible = row->reproducible,
                                   .own_memory = row->own_memory,
                                   .no_team = row->no_team,
                                   .saved_plan = row->kept};
    char words[128];

    for (int r = 0; r < nranks; r++) {
        machine[r] = row->machines[r] - '0';
        most = ++on[machine[r]] > most ? on[machine[r]] : most;
        last = machine[r] > last ? machine[r] : last;
    }
    facts.nmachines = last + 1;
    facts.ranks_per_host = most;
    read_options(row, words, &options);
    status = exchange_shape(&options, &facts, &shape);
    ck_assert_msg((status != 0) == (row->shape == REFUSED), "row %d, %s: %d", _i, row->words,
                  status);
    if (status) {
        ck_assert_ptr_nonnull(strstr(error_text(), "hierarchy="));
        ck_assert_ptr_null(strstr(error_text(), "--hierarchy")); /* as a program writes it */
        return;
    }
    ck_assert_msg((shape.nodes.node != NULL) == (row->shape != NOBODY), "row %d, %s", _i,
                  row->words);
    ck_assert_msg(shape.only == (row->shape == ONLY), "row %d, %s", _i, row->words);
    ck_assert_msg(!shape.nodes.node || shape.nodes.team == (row->shape == TEAM), "row %d", _i);
    ck_assert_msg(shape.asks == row->asks, "row %d, %s: asks %d", _i, row->words, shape.asks);
    ck_assert_msg(shape.rails == row->rails, "row %d, %s: %d rails", _i, row->words, shape.rails);
    ck_assert_msg(shape.leaders_per_host == row->hosts, "row %d, %s: %d leaders a host", _i,
                  row->words, shape.leaders_per_host);
    ck_assert_int_eq(shape.whole_gradients, row->reproducible || row->shape == TEAM);
    exchange_shape_free(&shape);
}
END_TEST

START_TEST(leaders_are_ranks_of_a_node)
{
    static const int machine[] = {0, 0, 1, 1};
    const struct exchange_facts facts = {
        .nranks = 4, .machine = machine, .nmachines = 2, .ranks_per_host = 2};
    struct exchange_options options = exchange_options_usual(EXCHANGE_TRAIN);
    struct exchange_shape shape;

    options.leaders = 2;
    ck_assert_int_eq(exchange_shape(&options, &facts, &shape), 0);
    ck_assert_int_eq(shape.rails, 2);
    ck_assert_int_eq(exchange_check_leaders(&options, &shape), 0);
    options.leaders = 3;
    ck_assert_int_ne(exchange_check_leaders(&options, &shape), 0);
    ck_assert_str_eq(error_text(), "--hierarchy: 3 leaders per node: the largest node has 2 ranks");
    exchange_shape_part(&shape, &facts);
    ck_assert_int_eq(shape.leaders_per_host, 2);
    ck_assert_int_ne(exchange_check_leaders(&options, &shape), 0);
    ck_assert_str_eq(error_text(),
                     "--hierarchy: 3 leaders per node need ranks that add up together; found none");
    exchange_shape_free(&shape);
}
END_TEST

START_TEST(options_that_do_not_go_together_are_named_as_they_were_given)
{
    struct exchange_options options = exchange_options_usual(EXCHANGE_LIBRARY);

    ck_assert_int_eq(exchange_settle(&options, NULL), 0);
    options.lowrank_warmup = 3;
    ck_assert_int_ne(exchange_settle(&options, NULL), 0);
    ck_assert_str_eq(error_text(), "lowrank-warmup=3 needs comm=lowrank or lossy=lowrank: no other "
                                   "scheme begins exact and becomes lossy");
    options.sizes.chunk = 3;
    ck_assert_int_ne(exchange_settle(&options, NULL), 0);
    ck_assert_str_eq(error_text(), "chunk=3: a chunk holds at least one parameter, 4 bytes");
    options.door = EXCHANGE_PLAN;
    ck_assert_int_ne(exchange_settle(&options, NULL), 0);
    ck_assert_str_eq(error_text(), "--tune=chunk=3: a chunk holds at least one parameter, 4 bytes");
}
END_TEST

SUITE("shape")
{
    TCase *tcase = suite_case(suite, "shape");

    tcase_add_loop_test(tcase, every_row_has_its_shape, 0, (int)(sizeof rows / sizeof *rows));
    tcase_add_test(tcase, leaders_are_ranks_of_a_node);
    tcase_add_test(tcase, options_that_do_not_go_together_are_named_as_they_were_given);
}
