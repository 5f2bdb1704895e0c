/* Merging: which neighbouring groups of the net travel as one bucket. */
#include <check.h>

#include "plan/plan.h"
#include "tests/plan/schemes.h"
#include "tests/suite.h"
#include "util/error.h"

/* Six neighbours; the fourth is fully connected and the fifth does not train. */
static const struct group row[] = {
    {.name = "a", .begin = 0, .elems = 100, .nparams = 2, .trains = true},
    {.name = "b", .begin = 112, .elems = 100, .nparams = 1, .trains = true},
    {.name = "c", .begin = 224, .elems = 16, .nparams = 2, .trains = true},
    {.name = "d",
     .begin = 240,
     .elems = 500 * 8,
     .nparams = 1,
     .trains = true,
     .factorable = true,
     .m = 500,
     .n = 8,
     .k = 1},
    {.name = "e", .begin = 4240, .elems = 10, .nparams = 1},
    {.name = "f", .begin = 4256, .elems = 10, .nparams = 1, .trains = true},
};

static struct plan *merged(const char *comm, int nranks, size_t bytes, int dilate)
{
    struct plan_options options = {.registry = sync_schemes,
                                   .nranks = nranks,
                                   .sizes.chunk = 1 << 20,
                                   .iter_size = 1,
                                   .sizes.merge = bytes,
                                   .dilate = dilate};
    struct plan *plan = NULL;

    ck_assert_int_eq(comm_parse(sync_schemes, "--comm", comm, &options.comm), 0);
    ck_assert_msg(plan_create(&options, 6, row, &plan) == 0, "%s", error_text());
    return plan;
}

static void expect_buckets(const struct plan *plan, const int bucket[6])
{
    for (int g = 0; g < 6; g++) {
        ck_assert_msg(plan->bucket_of[g] == bucket[g], "group %d: bucket %d, not %d", g,
                      plan->bucket_of[g], bucket[g]);
        ck_assert_int_le(plan->buckets[bucket[g]].first_group, g);
        ck_assert_int_gt(plan->buckets[bucket[g]].first_group + plan->buckets[bucket[g]].ngroups,
                         g);
    }
    ck_assert_int_eq(plan->nbuckets, bucket[5] + 1);
}

START_TEST(neighbours_of_one_scheme_travel_together_until_they_hold_enough)
{
    struct plan *plan = merged("ps", 2, 1 << 20, 0);

    expect_buckets(plan, (const int[]){0, 0, 0, 0, 1, 2}); /* e does not train, f is behind it */
    ck_assert_uint_eq(plan->buckets[0].begin, 0);
    ck_assert_uint_eq(plan->buckets[0].elems, 4240); /* padding between a and b included */
    ck_assert_int_eq(plan->buckets[0].ngroups, 4);
    ck_assert_str_eq(plan->buckets[0].name, "a .. d");
    ck_assert_str_eq(plan->buckets[2].name, "f");
    plan_destroy(plan);
    plan = merged("sfb", 2, 1 << 20, 0); /* d goes its own way */
    expect_buckets(plan, (const int[]){0, 0, 0, 1, 2, 3});
    ck_assert_ptr_eq(plan->buckets[1].scheme, &scheme_sfb);
    ck_assert(plan->buckets[1].factorable);
    plan_destroy(plan);
    plan = merged("allreduce", 2, 464,
                  0); /* from the back, as gradients come: b and c are 464 bytes */
    expect_buckets(plan, (const int[]){0, 1, 1, 2, 3, 4});
    plan_destroy(plan);
    plan = merged("allreduce", 2, 64, 0);
    expect_buckets(plan, (const int[]){0, 1, 2, 3, 4, 5});
    plan_destroy(plan);
}
END_TEST

START_TEST(nothing_is_merged_where_nothing_travels)
{
    struct plan *plan = merged("ps", 1, 1 << 20, 0);

    expect_buckets(plan, (const int[]){0, 1, 2, 3, 4, 5});
    plan_destroy(plan);
    plan = merged("none", 4, 1 << 20, 0);
    expect_buckets(plan, (const int[]){0, 1, 2, 3, 4, 5});
    plan_destroy(plan);
}
END_TEST

START_TEST(dilation_keeps_buckets_and_the_number_of_chunks)
{
    struct plan *full = merged("ps", 2, 1 << 20, 0), *dilated = merged("ps", 2, 1 << 20, 8);

    expect_buckets(dilated, (const int[]){0, 0, 0, 0, 1, 2});
    ck_assert_uint_eq(dilated->buckets[0].elems, 530);
    ck_assert_int_eq(full->nchunks, dilated->nchunks);
    plan_destroy(full);
    plan_destroy(dilated);
}
END_TEST

SUITE("merging")
{
    TCase *tcase = suite_case(suite, "merging");

    tcase_add_test(tcase, neighbours_of_one_scheme_travel_together_until_they_hold_enough);
    tcase_add_test(tcase, nothing_is_merged_where_nothing_travels);
    tcase_add_test(tcase, dilation_keeps_buckets_and_the_number_of_chunks);
}
