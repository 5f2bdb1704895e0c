/* Sums over grains against the tree's definition by recursion. The sum over the workers is this
 * program's: no MPI is linked. */
#include "compute/grains.h"
#include "plan/plan.h"
#include "tests/suite.h"

#include <check.h>
#include <string.h>

static const struct trainer_options reproducible = {.reproducible = true};

enum { MOST = 40, ELEMS = 48, WORKERS = 8, WIDTH = 3 };

/* Of a .. b-1, as device/tree_sum.h says it. */
static float define_sum(const float *x, int a, int b)
{
    volatile float sum;
    int half = 1;

    if (b - a == 1)
        return x[a];
    while (half * 2 < b - a)
        half *= 2;
    sum = define_sum(x, a, a + half) + define_sum(x, a + half, b);
    return sum;
}

/* Of so different magnitudes that another order gives other bits. */
static float value_of(int pass, size_t i)
{
    return (float)((pass * 7919 + (int)i * 104729) % 1009 - 504) * (pass % 3 ? 1.1F : 1e-4F);
}

START_TEST(gradients_of_passes_are_added_along_the_tree)
{
    static float arena[ELEMS], expected[MOST];
    struct group groups[] = {{.begin = 0, .elems = 16, .trains = false},
                             {.begin = 16, .elems = 31, .trains = true}};
    const struct net net = {.groups = groups, .ngroups = 2, .elems = ELEMS, .grads = arena};

    for (int n = 1; n <= MOST; n++) {
        struct owner owner = {NULL};
        const struct job job = {.owner = &owner,
                                .options = &reproducible,
                                .worker = true,
                                .nworkers = 1,
                                .batch = 1,
                                .turn = n,
                                .iter_size = n};
        struct grains grains;

        ck_assert_int_eq(grains_open(&grains, &job, &net, NULL, 0), 0);
        for (int iteration = 0; iteration < 2; iteration++)
            for (grains.pass = 0; grains.pass < n; grains.pass++) {
                for (size_t i = 0; i < ELEMS; i++)
                    arena[i] = value_of(grains.pass + iteration, i);
                for (int g = 1; g >= 0; g--)
                    grains_add(&grains, &job, &net, g);
            }
        for (size_t i = 0; i < ELEMS; i++) {
            bool trains = i >= 16 && i < 47;
            for (int pass = 0; pass < n; pass++)
                expected[pass] = value_of(pass + 1, i);
            ck_assert_float_eq(arena[i], trains ? define_sum(expected, 0, n) : expected[n - 1]);
        }
        owner_free(&owner);
    }
}
END_TEST

/* Five and three of eight grains are four branches: 0 to 3, 4; 5, 6 to 7. */
START_TEST(unlike_shares_are_branches_of_the_tree)
{
    static float arena[ELEMS], x[8];
    struct group groups[] = {{.begin = 0, .elems = ELEMS, .trains = true}};
    const struct net net = {.groups = groups, .ngroups = 1, .elems = ELEMS, .grads = arena};
    int samples[] = {5, 3}, first_branch[] = {0, 2, 4};
    struct plan_branch branches[] = {{0, 2}, {4, 0}, {5, 0}, {6, 1}};
    const struct plan plan = {.first_branch = first_branch, .branches = branches};
    const int cut[2][3] = {{0, 4, 5}, {5, 6, 8}};

    for (int rank = 0; rank < 2; rank++) {
        struct owner owner = {NULL};
        const struct job job = {.owner = &owner,
                                .options = &reproducible,
                                .rank = rank,
                                .worker = true,
                                .nworkers = 2,
                                .samples = samples,
                                .batch = 1,
                                .before = rank * 5,
                                .turn = 8,
                                .iter_size = samples[rank]};
        struct grains grains;

        ck_assert_int_eq(grains_open(&grains, &job, &net, &plan, 0), 0);
        ck_assert_int_eq(grains.nbranches, 2);
        for (grains.pass = 0; grains.pass < job.iter_size; grains.pass++) {
            for (size_t i = 0; i < ELEMS; i++)
                arena[i] = value_of((int)job.before + grains.pass, i);
            grains_add(&grains, &job, &net, 0);
        }
        for (size_t i = 0; i < ELEMS; i++) {
            for (int grain = 0; grain < 8; grain++)
                x[grain] = value_of(grain, i);
            ck_assert_float_eq(grains.arenas[0][i], define_sum(x, cut[rank][0], cut[rank][1]));
            ck_assert_float_eq(arena[i], define_sum(x, cut[rank][1], cut[rank][2]));
        }
        owner_free(&owner);
    }
}
END_TEST

struct sync {
    double *sums; /* over the workers that came so far */
};

int sync_sum(struct sync *sync, double *values, int count)
{
    for (int i = 0; i < count; i++)
        sync->sums[i] += values[i];
    memcpy(values, sync->sums, (size_t)count * sizeof *values);
    return 0;
}

START_TEST(numbers_of_shares_have_the_same_sum_on_any_number_of_workers)
{
    static const int deals[][WORKERS] = {{8},    {4, 4},   {2, 2, 2, 2}, {1, 1, 1, 1, 1, 1, 1, 1},
                                         {5, 3}, {1, 5, 2}};
    double one[WIDTH];

    for (size_t d = 0; d < sizeof deals / sizeof *deals; d++) {
        double sums[WORKERS * WIDTH] = {0}, rows[WORKERS * WIDTH], table[WORKERS * WIDTH];
        struct grains grains = {.table = table};
        struct sync sync = {.sums = sums};

        int workers = 0, before = WORKERS;

        while (workers < WORKERS && deals[d][workers] > 0)
            workers++;
        for (int rank = workers - 1; rank >= 0; rank--) { /* the last to come has all of it */
            const struct job job = {.options = &reproducible,
                                    .rank = rank,
                                    .worker = true,
                                    .nworkers = workers,
                                    .batch = 1,
                                    .before = before -= deals[d][rank],
                                    .turn = WORKERS,
                                    .iter_size = deals[d][rank]};
            int count = job.iter_size * WIDTH;
            for (int i = 0, all = before * WIDTH; i < count; i++, all++)
                rows[i] = 1.0 / (1 + all) * (all % 2 ? 1e9 : -1);
            ck_assert_int_eq(grains_mean(&grains, &job, &sync, rows, WIDTH), 0);
        }
        if (d == 0)
            memcpy(one, rows, sizeof one);
        ck_assert_mem_eq(one, rows, sizeof one);
    }
}
END_TEST

SUITE("grains")
{
    TCase *tcase = suite_case(suite, "grains");

    tcase_add_test(tcase, gradients_of_passes_are_added_along_the_tree);
    tcase_add_test(tcase, unlike_shares_are_branches_of_the_tree);
    tcase_add_test(tcase, numbers_of_shares_have_the_same_sum_on_any_number_of_workers);
}
