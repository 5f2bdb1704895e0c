/* The paper's rule against its published and computed figures. */
#include <check.h>

#include "plan/plan.h"
#include "tests/suite.h"

/* Layer shapes of facts computed from the rule P <= 2MN / (K(M+N)): the largest number of nodes at
 * which SFB still wins, every node worker and server. */
static const struct {
    const char *layer;
    int64_t m, n, k;
    double wins_up_to;
} layers[] = {
    {"VGG19 fc6", 25088, 4096, 32, 220.1},  {"VGG19 fc7", 4096, 4096, 32, 128.0},
    {"VGG19 fc8", 4096, 1000, 32, 50.2},    {"VGG19-22K fc8", 4096, 21841, 32, 215.6},
    {"GoogLeNet", 1024, 1000, 128, 7.9},    {"Inception-V3", 2048, 1000, 32, 42.0},
    {"AlexNet fc6", 9216, 4096, 256, 22.2}, {"AlexNet fc7", 4096, 4096, 256, 16.0},
    {"AlexNet fc8", 4096, 1000, 256, 6.3},  {"cifar10_quick ip1", 1024, 64, 100, 1.2},
};

START_TEST(rule_switches_where_the_formula_says)
{
    double exact = 2.0 * (double)layers[_i].m * (double)layers[_i].n /
                   ((double)layers[_i].k * (double)(layers[_i].m + layers[_i].n));

    ck_assert_double_eq_tol(exact, layers[_i].wins_up_to, 0.05);
    for (int p = 2; p <= 256; p++) {
        bool wins = (double)p <= exact;
        ck_assert_msg(plan_prefers_sfb(layers[_i].m, layers[_i].n, layers[_i].k, p, p) == wins,
                      "%s at %d nodes", layers[_i].layer, p);
    }
}
END_TEST

START_TEST(exact_tie_goes_to_sfb)
{
    /* AlexNet fc7 at 16 nodes: both sides are 62.914560 million parameters */
    ck_assert(plan_prefers_sfb(4096, 4096, 256, 16, 16));
    ck_assert(!plan_prefers_sfb(4096, 4096, 257, 16, 16));
    ck_assert(!plan_prefers_sfb(4096, 4096, 256, 17, 17));
}
END_TEST

START_TEST(rule_counts_dedicated_servers)
{
    /* 2K(P1-1)(M+N) <= 2MN(P1+P2-2)/P2 with P1 = 4, P2 = 1: 2*32*3*200 = 38400 <= 2*100*100*3 =
     * 60000 */
    ck_assert(plan_prefers_sfb(100, 100, 32, 4, 1));
    /* P2 = 4: 60000 becomes 2*10000*6/4 = 30000 */
    ck_assert(!plan_prefers_sfb(100, 100, 32, 4, 4));
}
END_TEST

SUITE("paper's rule")
{
    TCase *tcase = suite_case(suite, "rule");

    tcase_add_loop_test(tcase, rule_switches_where_the_formula_says, 0,
                        (int)(sizeof layers / sizeof *layers));
    tcase_add_test(tcase, exact_tie_goes_to_sfb);
    tcase_add_test(tcase, rule_counts_dedicated_servers);
}
