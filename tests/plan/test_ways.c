/* Ways: what auto chooses among, what --lossy names, and a plan whose buckets have one each. */
#include <check.h>
#include <string.h>

#include "plan/plan.h"
#include "tests/plan/schemes.h"
#include "tests/suite.h"
#include "util/error.h"

/* A way of each kind; neighbours travel together in one form alone. */
START_TEST(every_bucket_has_its_own_way)
{
    static const struct group_param params[] = {{6400, 1, 1}, {6400, 1, 1}};
    struct group layer[6];
    const struct scheme *onebit = scheme_find(sync_schemes, "onebit"),
                        *lowrank = scheme_find(sync_schemes, "lowrank");
    struct way ways[6] = {{&scheme_ps, 0, WIRE_FP32}, {&scheme_ps, 0, WIRE_BF16},
                          {&scheme_ps, 0, WIRE_BF16}, {&scheme_sfb, 0, WIRE_BF16},
                          {lowrank, 2, WIRE_BF16},    {onebit, 0, WIRE_FP32}};
    const char *names[6] = {"ps", "ps/bf16", "ps/bf16", "sfb/bf16", "lowrank:2", "onebit"};
    const char *labels[6] = {"PS", "PS bf16", "PS bf16", "SFB bf16", "low rank 2", "1-bit"};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {.policy = COMM_AUTO},
                                   .ways = ways,
                                   .nranks = 4,
                                   .sizes.chunk = 1 << 20,
                                   .sizes.merge = 1 << 20,
                                   .iter_size = 1};
    struct plan *plan, *other;
    uint64_t sent[4] = {0};

    for (int g = 0; g < 6; g++)
        layer[g] = (struct group){.name = "fc",
                                  .begin = (size_t)g * 6400,
                                  .elems = 6400,
                                  .nparams = 1,
                                  .params = params,
                                  .trains = true,
                                  .factorable = true,
                                  .m = 80,
                                  .n = 80,
                                  .k = 2,
                                  .outputs = 80};
    ck_assert_msg(plan_create(&options, 6, layer, &plan) == 0, "%s", error_text());
    ck_assert_int_eq(plan->nbuckets, 5);
    for (int g = 0; g < 6; g++) {
        struct way way = plan_way(plan, g);
        ck_assert_str_eq(way_name(way).text, names[g]);
        ck_assert_str_eq(plan->buckets[plan->bucket_of[g]].label.text, labels[g]);
    }
    /* by three of four ranks out and back, by bfloat16 half out; of factors to three others */
    for (int b = 0; b < 4; b++)
        for (int r = 0; r < 4; r++)
            sent[b] += plan_traffic(plan, b, r).sent;
    ck_assert_uint_eq(sent[0], 3 * 6400 * (4 + 4));
    ck_assert_uint_eq(sent[1], 3 * 2 * 6400 * (2 + 4));
    ck_assert_uint_eq(sent[2], 4 * 3 * 2 * 160 * 2);
    ck_assert_uint_eq(sent[3], 3 * 2 * 160 * (4 + 4));
    ways[0].wire = WIRE_BF16;
    ck_assert_msg(plan_create(&options, 6, layer, &other) == 0, "%s", error_text());
    ck_assert_int_eq(other->nbuckets, 4);
    ck_assert_uint_ne(plan_digest(other, 0), plan_digest(plan, 0));
    plan_destroy(other);
    plan_destroy(plan);
}
END_TEST

static void refuses_lossy(const char *text, const char *message)
{
    struct ways ways;

    ck_assert_int_ne(ways_parse_lossy(sync_schemes, "--lossy", text, &ways), 0);
    ck_assert_msg(strstr(error_text(), message) != NULL, "%s", error_text());
}

START_TEST(what_is_lossy_comes_after_what_is_not)
{
    const char *all[] = {"ps",       "sfb",      "allreduce",      "lowrank:2",
                         "ps/bf16",  "sfb/bf16", "allreduce/bf16", "onebit",
                         "lowrank:4"};
    struct ways lossy, ways;

    ck_assert_msg(
        !ways_parse_lossy(sync_schemes, "--lossy", "lowrank:2,bf16,onebit,lowrank", &lossy), "%s",
        error_text());
    ck_assert_int_eq(ways_list(sync_schemes, WIRE_FP32, &lossy, &ways), 3);
    ck_assert_int_eq(ways.n, 9);
    for (int w = 0; w < ways.n; w++) {
        ck_assert_str_eq(way_name(ways.way[w]).text, all[w]);
        ck_assert_int_eq(ways_find(&ways, ways.way[w]), w);
    }
    ck_assert_int_eq(ways_parse_lossy(sync_schemes, "--lossy", "bf16+lowrank:2", &lossy), 0);
    ck_assert_int_eq(lossy.n, 2);
    ck_assert_str_eq(way_name(lossy.way[1]).text, "lowrank:2");
    refuses_lossy("bf16+", "unknown word ''");
    refuses_lossy("bf16,fp8", "--lossy=bf16,fp8: unknown word 'fp8'; expected some of "
                              "bf16, onebit, lowrank:R");
    refuses_lossy("ps", "unknown word 'ps'");
    refuses_lossy("bf16,", "unknown word ''");
    refuses_lossy("", "unknown word ''");
    refuses_lossy("onebit:2", "unknown word 'onebit:2'");
    refuses_lossy("lowrank:0",
                  "--lossy=lowrank:0: expected a rank from 1 to 1024 behind the colon");
    refuses_lossy("bf16,onebit,bf16", "'bf16' appears twice");
    refuses_lossy("lowrank,lowrank:4", "'lowrank:4' appears twice");
    refuses_lossy("lowrank:1,lowrank:2,lowrank:3,lowrank:4,lowrank:5,lowrank:6,lowrank:7,lowrank:8,"
                  "bf16",
                  "at most 8 words");
}
END_TEST

SUITE("ways")
{
    TCase *tcase = suite_case(suite, "ways");

    tcase_add_test(tcase, every_bucket_has_its_own_way);
    tcase_add_test(tcase, what_is_lossy_comes_after_what_is_not);
}
