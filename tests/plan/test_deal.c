/* Shares of a batch by speed, against all deals that there are. */
#include <check.h>
#include <math.h>

#include "plan/deal.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/rng.h"

enum { MOST_WORKERS = 4 };

/* The earliest end of any deal of `grains` to the workers from the first on; INFINITY: there is
 * none. */
static double best_end(const struct deal_worker *workers, int n, int64_t grains, int64_t grain)
{
    double best = INFINITY;

    if (n == 0)
        return grains == 0 ? 0 : INFINITY;
    for (int64_t mine = 1; mine <= grains && mine * grain <= workers[0].most; mine++)
        best = fmin(best, fmax(deal_seconds(&workers[0], mine * grain),
                               best_end(workers + 1, n - 1, grains - mine, grain)));
    return best;
}

/* Speeds and overheads are of few values, so that many of the times are the same. */
START_TEST(no_deal_ends_earlier)
{
    struct rng rng = rng_make(1, RNG_DUMMY, 0, (uint64_t)_i);
    struct deal_worker workers[MOST_WORKERS];
    int64_t sum = 0, grain = 1 + rng_below(&rng, 0, 3), grains = 1 + rng_below(&rng, 1, 14);
    int share[MOST_WORKERS];
    int n = 1 + (int)rng_below(&rng, 2, MOST_WORKERS);
    double end = 0, best;

    for (int i = 0; i < n; i++)
        workers[i] = (struct deal_worker){
            .samples_per_s = 0.25 * (1 + rng_below(&rng, 3 + 3 * (uint64_t)i, 8)),
            .pass_s = rng_below(&rng, 4 + 3 * (uint64_t)i, 4),
            .most = 1 + (int)rng_below(&rng, 5 + 3 * (uint64_t)i, 30),
        };
    best = best_end(workers, n, grains, grain);
    if (isinf(best)) {
        ck_assert_int_ne(deal_samples(workers, n, grains * grain, grain, share), 0);
        return;
    }
    ck_assert_msg(deal_samples(workers, n, grains * grain, grain, share) == 0, "%s", error_text());
    for (int i = 0; i < n; i++) {
        ck_assert(share[i] >= grain && share[i] % grain == 0 && share[i] <= workers[i].most);
        end = fmax(end, deal_seconds(&workers[i], share[i]));
        sum += share[i];
    }
    ck_assert_int_eq(sum, grains * grain);
    ck_assert_double_eq(end, best);
}
END_TEST

START_TEST(equal_workers_share_equally_and_the_first_have_what_is_left)
{
    struct deal_worker workers[4];
    int share[4];

    for (int i = 0; i < 4; i++)
        workers[i] = (struct deal_worker){.samples_per_s = 3, .pass_s = 0.1, .most = 100};
    ck_assert_int_eq(deal_samples(workers, 4, 64, 1, share), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(share[i], 16);
    ck_assert_int_eq(deal_samples(workers, 4, 22, 2, share), 0);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(share[i], i < 3 ? 6 : 4);
}
END_TEST

START_TEST(a_worker_of_half_the_speed_has_half_the_samples)
{
    static const struct deal_worker workers[] = {{2, 0, 1000}, {2, 0, 1000}, {1, 0, 1000}};
    int share[3];

    ck_assert_int_eq(deal_samples(workers, 3, 320, 1, share), 0);
    ck_assert_int_eq(share[0], 128);
    ck_assert_int_eq(share[1], 128);
    ck_assert_int_eq(share[2], 64);
}
END_TEST

/* A cluster's size: a second of scans would be felt in every forecast. */
START_TEST(many_samples_are_dealt_to_many_workers)
{
    enum { N = 1024, EACH = 1024 };
    static struct deal_worker workers[N];
    static int share[N];

    for (int i = 0; i < N; i++)
        workers[i] = (struct deal_worker){.samples_per_s = i % 2 ? 1 : 3, .most = 2 * EACH};
    ck_assert_int_eq(deal_samples(workers, N, (int64_t)N * EACH, 1, share), 0);
    for (int i = 0; i < N; i++)
        ck_assert_int_eq(share[i], i % 2 ? EACH / 2 : 3 * EACH / 2);
}
END_TEST

static const struct refused {
    int n;
    int64_t samples, grain;
    const char *text;
} refused[] = {
    {3, 10, 4, "a batch of 10 samples is not a multiple of the grain of 4"},
    {3, 2, 1, "a batch of 2 samples cannot be dealt to 3 workers: each needs 1 or more"},
    {2, 4, 4, "a batch of 4 samples cannot be dealt to 2 workers: each needs 4 or more"},
    {3, 24, 8, "worker 1 has memory for 6 samples, but each needs 8 or more"},
    {3, 22, 1, "a batch of 22 samples does not fit: the workers have memory for 21"},
    {3, 24, 4, "a batch of 24 samples does not fit: the workers have memory for 16"},
};

START_TEST(what_cannot_be_dealt_is_refused)
{
    static const struct deal_worker workers[] = {{1, 0, 10}, {1, 0, 6}, {1, 0, 5}};
    const struct refused *row = &refused[_i];
    int share[3];

    ck_assert_int_ne(deal_samples(workers, row->n, row->samples, row->grain, share), 0);
    ck_assert_str_eq(error_text(), row->text);
}
END_TEST

SUITE("deal")
{
    TCase *tcase = suite_case(suite, "deal");

    tcase_add_loop_test(tcase, no_deal_ends_earlier, 0, 500);
    tcase_add_test(tcase, equal_workers_share_equally_and_the_first_have_what_is_left);
    tcase_add_test(tcase, a_worker_of_half_the_speed_has_half_the_samples);
    tcase_add_test(tcase, many_samples_are_dealt_to_many_workers);
    suite_table(tcase, what_cannot_be_dealt_is_refused, refused);
}
