/* Sums in the tree's order against its definition by recursion, one rounded addition at a time. */
#include "tests/device/codec_rows.h"
#include "tests/suite.h"

#include "device/tree_sum.h"

#include <check.h>
#include <stdlib.h>

enum { MOST = 70, ROOM = 9000, GUARD = 7 };

/* Contributions, what they were before, and the sum as the definition has it. */
static float x[MOST][ROOM + GUARD], before[MOST][ROOM + GUARD], expected[ROOM + GUARD];

/* Of a .. b-1, as tree_sum.h says it. */
static float define_sum(int a, int b, size_t i)
{
    volatile float sum;
    int half = 1;

    if (b - a == 1)
        return before[a][i];
    while (half * 2 < b - a)
        half *= 2;
    sum = define_sum(a, a + half, i) + define_sum(a + half, b, i);
    return sum;
}

/* Values of many magnitudes, so that almost any other order gives other bits. */
static void fill(int n, size_t elems, uint32_t key)
{
    for (int r = 0; r < n; r++) {
        rows_fill(before[r], elems + GUARD, key * 1000 + (uint32_t)r);
        memcpy(x[r], before[r], (elems + GUARD) * sizeof **x);
    }
    for (size_t i = 0; i < elems; i++)
        expected[i] = define_sum(0, n, i);
}

static void assert_sum(const float *found, int n, size_t elems, const char *how)
{
    for (size_t i = 0; i < elems; i++)
        if (memcmp(&found[i], &expected[i], sizeof *found) != 0)
            ck_abort_msg("%s, %d contributions of %zu: element %zu is %.9g, not %.9g", how, n,
                         elems, i, (double)found[i], (double)expected[i]);
}

/* Lengths around vectors and around the pieces of the cache. */
static const size_t lengths[] = {1, 3, 33, 257, 4096, 4099, 8193};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* What became of each buffer of a sum. */
struct buffers {
    size_t elems;
    int arrived, spent;
    int times[MOST];
};

/* A spent buffer is free for anything, at once. */
static void take_back(void *context, int which)
{
    struct buffers *b = context;

    b->spent++;
    b->times[which]++;
    for (size_t i = 0; i < b->elems; i++)
        x[which][i] = NAN;
}

static void shuffle(int *order, int n, const struct rng *rng, uint64_t *draws)
{
    for (int i = 0; i < n; i++)
        order[i] = i;
    for (int i = n - 1; i > 0; i--) {
        int j = (int)rng_below(rng, (*draws)++, (uint32_t)i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
}

/* One sum in the order given. lent: contribution that may not be written, or -1. */
static void sum_up(struct tree_sum *tree, struct buffers *b, int n, const int *order, int lent,
                   float *out)
{
    *b = (struct buffers){.elems = b->elems};
    tree_sum_begin(tree, b->elems, out);
    for (int i = 0; i < n; i++) {
        int which = order[i];
        bool complete;
        ck_assert_ptr_null(tree_sum_result(tree));
        b->arrived++;
        complete = which == lent ? tree_sum_lend(tree, which, x[which])
                                 : tree_sum_give(tree, which, x[which]);
        ck_assert_int_eq(complete, i == n - 1);
        ck_assert_msg(b->arrived - b->spent <= (n + 1) / 2, "%d of %d arrived, %d spent",
                      b->arrived, n, b->spent);
    }
}

START_TEST(any_order_of_arrival_gives_the_tree_s_bits)
{
    int n = _i, order[MOST];
    static float out[ROOM];
    struct rng rng = rng_make(9, RNG_DUMMY, (uint32_t)n, 0);
    struct buffers b;
    struct tree_sum tree;
    uint64_t draws = 0;

    ck_assert_int_eq(tree_sum_open(&tree, n, take_back, &b), 0);
    for (uint32_t trial = 0; trial < 12; trial++) {
        int lent = trial % 3 == 0 ? -1 : (int)rng_below(&rng, draws++, (uint32_t)n);
        float *to = trial % 2 ? out : NULL;
        b.elems = lengths[(trial + (uint32_t)n) % LENGTHS];
        fill(n, b.elems, (uint32_t)n * 100 + trial);
        shuffle(order, n, &rng, &draws);
        if (trial == 5) { /* a sum that was given up leaves nothing behind */
            tree_sum_begin(&tree, b.elems, NULL);
            for (int i = 0; i < n - 1; i += 2)
                tree_sum_give(&tree, order[i], x[order[i]]);
            fill(n, b.elems, (uint32_t)n * 100 + trial);
        }
        sum_up(&tree, &b, n, order, lent, to);
        assert_sum(tree_sum_result(&tree), n, b.elems, "one by one");
        ck_assert(!to || tree_sum_result(&tree) == out);
        ck_assert_int_eq(b.spent, to ? n : n - 1);
        for (int r = 0; r < n; r++) {
            ck_assert_int_eq(b.times[r], to || tree_sum_result(&tree) != x[r]);
            ck_assert_int_eq(memcmp(x[r] + b.elems, before[r] + b.elems, GUARD * sizeof **x), 0);
        }
    }
    tree_sum_close(&tree);
}
END_TEST

/* As define_sum, of those that are not left out; false: there are none. */
static bool define_without(int a, int b, size_t i, uint64_t out, float *sum)
{
    float left, right;
    bool some, more;
    int half = 1;

    if (b - a == 1) {
        *sum = before[a][i];
        return !(out >> a & 1);
    }
    while (half * 2 < b - a)
        half *= 2;
    some = define_without(a, a + half, i, out, &left);
    more = define_without(a + half, b, i, out, &right);
    *sum = some && more ? left + right : some ? left : right;
    return some || more;
}

START_TEST(what_is_left_out_is_in_no_sum_and_no_buffer)
{
    int n = _i, order[MOST];
    static float out[ROOM];
    struct rng rng = rng_make(11, RNG_DUMMY, (uint32_t)n, 0);
    struct tree_sum tree;
    uint64_t draws = 0;

    ck_assert_int_eq(tree_sum_open(&tree, n, NULL, NULL), 0);
    for (int trial = 0; trial < 30; trial++) {
        int least = (int)rng_below(&rng, draws++, (uint32_t)n); /* this one is given */
        uint64_t omitted = 0;
        fill(n, 35, (uint32_t)(n + trial));
        shuffle(order, n, &rng, &draws);
        tree_sum_begin(&tree, 35, trial % 2 ? out : NULL);
        for (int i = 0; i < n; i++) {
            int which = order[i];
            bool omit = which != least && rng_below(&rng, draws++, 3) > 0, complete;
            omitted |= (uint64_t)omit << which;
            complete = omit ? tree_sum_omit(&tree, which) : tree_sum_give(&tree, which, x[which]);
            ck_assert_int_eq(complete, i == n - 1);
        }
        for (size_t i = 0; i < 35; i++)
            ck_assert(define_without(0, n, i, omitted, &expected[i]));
        assert_sum(tree_sum_result(&tree), n, 35, "some of");
        for (int w = 0; w < n; w++)
            if (omitted >> w & 1)
                ck_assert_int_eq(memcmp(x[w], before[w], 35 * sizeof **x), 0);
    }
    tree_sum_close(&tree);
}
END_TEST

START_TEST(what_is_lent_is_not_written)
{
    int n = _i, order[MOST];
    struct rng rng = rng_make(10, RNG_DUMMY, (uint32_t)n, 0);
    struct tree_sum tree;
    uint64_t draws = 0;

    ck_assert_int_eq(tree_sum_open(&tree, n, NULL, NULL), 0);
    for (int lent = 0; lent < n; lent++) {
        fill(n, 35, (uint32_t)(n + lent));
        shuffle(order, n, &rng, &draws);
        tree_sum_begin(&tree, 35, NULL);
        for (int i = 0; i < n; i++)
            if (order[i] == lent)
                tree_sum_lend(&tree, lent, x[lent]);
            else
                tree_sum_give(&tree, order[i], x[order[i]]);
        ck_assert_int_eq(memcmp(x[lent], before[lent], (35 + GUARD) * sizeof **x), 0);
        assert_sum(tree_sum_result(&tree), n, 35, "one lent");
    }
    tree_sum_close(&tree);
}
END_TEST

START_TEST(in_the_order_of_ranks_few_buffers_live)
{
    int n = _i;
    struct buffers b = {.elems = 5};
    struct tree_sum tree;

    fill(n, b.elems, (uint32_t)n);
    ck_assert_int_eq(tree_sum_open(&tree, n, take_back, &b), 0);
    tree_sum_begin(&tree, b.elems, NULL);
    for (int r = 0; r < n; r++) {
        tree_sum_give(&tree, r, x[r]);
        ck_assert_int_eq(r + 1 - b.spent, r == n - 1 ? 1 : __builtin_popcount((unsigned)r + 1));
    }
    assert_sum(tree_sum_result(&tree), n, b.elems, "in order");
    tree_sum_close(&tree);
}
END_TEST

/* What an allreduce does that meets the nearest rank first: after each step both have the sum. */
START_TEST(pairs_at_doubled_distances_add_the_same)
{
    enum { ELEMS = 50 };
    int n = 1 << _i;
    float sum[64][ELEMS], next[64][ELEMS];

    fill(n, ELEMS, (uint32_t)n);
    for (int r = 0; r < n; r++)
        memcpy(sum[r], before[r], sizeof sum[r]);
    for (int distance = 1; distance < n; distance *= 2) {
        for (int r = 0; r < n; r++)
            for (int i = 0; i < ELEMS; i++)
                next[r][i] = sum[r][i] + sum[r ^ distance][i];
        memcpy(sum, next, sizeof sum);
    }
    for (int r = 0; r < n; r++)
        assert_sum(sum[r], n, ELEMS, "in pairs");
}
END_TEST

START_TEST(slices_are_summed_in_the_tree_s_order)
{
    int n = _i;
    static float out[ROOM + GUARD];
    const float *from[MOST];

    for (int r = 0; r < n; r++)
        from[r] = x[r];
    for (size_t l = 0; l < LENGTHS; l++) {
        size_t elems = lengths[l], bytes = (elems + GUARD) * sizeof *out;
        fill(n, elems, (uint32_t)n + (uint32_t)elems);
        memcpy(out, before[n - 1], bytes);
        tree_sum_slices(from, n, elems, out);
        assert_sum(out, n, elems, "slices");
        ck_assert_int_eq(memcmp(out + elems, before[n - 1] + elems, GUARD * sizeof *out), 0);
        for (int r = 0; r < n; r++)
            ck_assert_int_eq(memcmp(x[r], before[r], bytes), 0);
        tree_sum_slices(from, n, elems, x[0]);
        assert_sum(x[0], n, elems, "slices in place");
        ck_assert_int_eq(memcmp(x[0] + elems, before[0] + elems, GUARD * sizeof *out), 0);
        for (int r = 1; r < n; r++)
            ck_assert_int_eq(memcmp(x[r], before[r], bytes), 0);
    }
}
END_TEST

START_TEST(as_many_slices_as_promised)
{
    static float in[TREE_SUM_MOST_SLICES];
    const float *from[TREE_SUM_MOST_SLICES];
    float out = -1;

    for (int r = 0; r < TREE_SUM_MOST_SLICES; r++) {
        in[r] = (float)r;
        from[r] = &in[r];
    }
    tree_sum_slices(from, TREE_SUM_MOST_SLICES, 1, &out);
    ck_assert(out == (float)TREE_SUM_MOST_SLICES * (TREE_SUM_MOST_SLICES - 1) / 2);
}
END_TEST

SUITE("tree_sum")
{
    TCase *tcase = suite_case(suite, "tree_sum");

    tcase_add_loop_test(tcase, any_order_of_arrival_gives_the_tree_s_bits, 1, MOST + 1);
    tcase_add_loop_test(tcase, what_is_left_out_is_in_no_sum_and_no_buffer, 1, 65);
    tcase_add_loop_test(tcase, what_is_lent_is_not_written, 1, MOST + 1);
    tcase_add_loop_test(tcase, in_the_order_of_ranks_few_buffers_live, 1, MOST + 1);
    tcase_add_loop_test(tcase, pairs_at_doubled_distances_add_the_same, 0, 7);
    tcase_add_loop_test(tcase, slices_are_summed_in_the_tree_s_order, 1, MOST + 1);
    tcase_add_test(tcase, as_many_slices_as_promised);
}
