/* What ranks must have alike, and what makes two runs the same, on solvers and nets given as text.
 * No MPI is linked. */
#include "job/agree_job.h"
#include "util/agreement.h"
#include "spec/read.h"
#include "tests/suite.h"
#include "util/error.h"

#include <check.h>
#include <string.h>

static const char solver_text[] = "base_lr: 0.1 lr_policy: 'fixed' max_iter: 10 display: 5 "
                                  "net: 'a.prototxt' snapshot_prefix: 'a'";
static const char net_text[] = "layer { name: 'data' type: 'Data' top: 'data' "
                               "data_param { source: 'here' batch_size: 8 } }"
                               "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
                               "inner_product_param { num_output: 3 } }";

/* A job of those files, without what agreeing does not look at. */
struct made {
    struct text_doc *solver, *net;
    struct net_def def;
    struct trainer_options options;
    struct job job;
    struct layer_i reads;
    struct layer_def layer_def;
    struct layer layer;
    struct net built;
};

static struct layer_data_mark found;

static int mark(const struct layer *layer, struct layer_data_mark *out)
{
    (void)layer;
    *out = found;
    return 0;
}

/* solver, net: the text, with `was` replaced by `is` in it. */
static struct text_doc *parse(const char *text, const char *was, const char *is,
                              const ProtobufCMessageDescriptor *descriptor)
{
    const char *at = was ? strstr(text, was) : NULL;
    char changed[1024];
    struct text_doc *doc;

    if (at)
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, is, at + strlen(was));
    else
        snprintf(changed, sizeof changed, "%s", text);
    ck_assert_int_eq(text_read_string("test", changed, strlen(changed), descriptor, &doc), 0);
    return doc;
}

static void make(struct made *m, const char *was, const char *is)
{
    *m = (struct made){
        .options.engine = "cpu", .options.of_run = "", .options.exchange.hierarchy = HIERARCHY_OFF};
    found = (struct layer_data_mark){.known = true, .nrecords = 100, .first = "aa", .last = "bb"};
    ck_assert(!was || strstr(solver_text, was) || strstr(net_text, was));
    m->solver = parse(solver_text, was, is, &caffe__solver_parameter__descriptor);
    m->net = parse(net_text, was, is, &caffe__net_parameter__descriptor);
    m->def.param = spec_net(m->net);
    m->job = (struct job){.options = &m->options,
                          .solver = spec_solver(m->solver),
                          .defs.train = &m->def,
                          .max_iter = 10,
                          .seed = 1};
    m->reads.mark = mark;
    m->layer_def.name = (char *)"data";
    m->layer = (struct layer){.i = &m->reads, .def = &m->layer_def};
    m->built = (struct net){.nlayers = 1, .layers = &m->layer};
}

static void done(struct made *m)
{
    text_free(m->solver);
    text_free(m->net);
}

/* In what the files of two ranks differ, or two runs; the digests say the same. */
static const char *difference(struct made *a, struct made *b, bool runs)
{
    static char text[512];
    struct strbuf there = {0}, here = {0}, out = {0};
    char digests[2][SHA256_HEX];

    if (runs) {
        ck_assert_int_eq(agree_job_describe(&a->job, &a->built, &there, digests[0]), 0);
        ck_assert_int_eq(agree_job_describe(&b->job, &b->built, &here, digests[1]), 0);
        ck_assert_int_eq(strcmp(digests[0], digests[1]) != 0,
                         strcmp(strbuf_text(&there), strbuf_text(&here)) != 0);
    } else {
        agree_job_put_files(&a->job, &there);
        agree_job_put_files(&b->job, &here);
    }
    agreement_difference(strbuf_text(&there), strbuf_text(&here), &out);
    snprintf(text, sizeof text, "%s", strbuf_text(&out));
    strbuf_free(&there);
    strbuf_free(&here);
    strbuf_free(&out);
    return text;
}

/* What is said where one has `was` and the other `is`. */
static void check_change(const char *was, const char *is, const char *of_ranks, const char *of_runs)
{
    struct made a, b;

    make(&a, NULL, NULL);
    make(&b, was, is);
    ck_assert_str_eq(difference(&a, &b, false), of_ranks);
    ck_assert_str_eq(difference(&a, &b, true), of_runs);
    done(&a);
    done(&b);
}

START_TEST(what_is_trained_is_the_same_on_ranks_and_in_runs)
{
    check_change("base_lr: 0.1", "base_lr: 0.2", "base_lr: 0.1 there, 0.2 here",
                 "base_lr: 0.1 there, 0.2 here");
    check_change("num_output: 3", "num_output: 4",
                 "net: layer 'ip' inner_product_param.num_output: 3 there, 4 here",
                 "net: layer 'ip' inner_product_param.num_output: 3 there, 4 here");
}
END_TEST

START_TEST(each_rank_may_have_files_of_its_own)
{
    check_change("net: 'a.prototxt'", "net: 'b.prototxt'", "", "");
    check_change("source: 'here'", "source: 'there'", "", "");
    check_change("snapshot_prefix: 'a'", "snapshot_prefix: 'b'", "", "");
}
END_TEST

START_TEST(a_run_may_go_on_further_and_show_and_share_out_otherwise)
{
    check_change("max_iter: 10", "max_iter: 20", "max_iter: 10 there, 20 here", "");
    check_change("display: 5", "display: 6", "display: 5 there, 6 here", "");
    check_change("batch_size: 8", "batch_size: 4",
                 "net: layer 'data' data_param.batch_size: 8 there, 4 here", "");
}
END_TEST

START_TEST(engines_may_differ_unless_ranks_add_up_together)
{
    struct made a, b;

    make(&a, NULL, NULL);
    make(&b, NULL, NULL);
    b.options.engine = "cuda";
    ck_assert_str_eq(difference(&a, &b, false), "");
    a.options.exchange.hierarchy = b.options.exchange.hierarchy = HIERARCHY_AUTO;
    ck_assert_str_eq(difference(&a, &b, false), "--engine: cpu there, cuda here");
    done(&a);
    done(&b);
}
END_TEST

START_TEST(a_policy_that_looks_at_the_end_is_of_the_run)
{
    struct made a, b;

    make(&a, NULL, NULL);
    make(&b, NULL, NULL);
    b.job.max_iter = 20;
    ck_assert_str_eq(difference(&a, &b, true), "");
    a.job.policy.type = b.job.policy.type = POLICY_COSINE;
    ck_assert_str_eq(difference(&a, &b, true), "max_iter: 10 there, 20 here");
    done(&a);
    done(&b);
}
END_TEST

START_TEST(data_are_told_by_their_records_where_all_ranks_read_the_same)
{
    struct made m;
    struct strbuf list = {0};

    make(&m, NULL, NULL);
    ck_assert_int_eq(agree_job_put_data(&list, "test net #0: ", &m.built), 0);
    ck_assert_str_eq(strbuf_text(&list),
                     "test net #0: data of layer 'data': records\t100\n"
                     "test net #0: data of layer 'data': digest of the first record\taa\n"
                     "test net #0: data of layer 'data': digest of the last record\tbb\n");
    strbuf_free(&list);
    found.own = true;
    ck_assert_int_eq(agree_job_put_data(&list, "", &m.built), 0);
    ck_assert_str_eq(strbuf_text(&list), "");
    strbuf_free(&list);
    done(&m);
}
END_TEST

/* What is said of five ranks whose lists are `usual`, but for the rank whose list is `other`. */
static void check_words(const char *usual, int rank, const char *other, const char *expected)
{
    char lists[5][64];

    for (int r = 0; r < 5; r++)
        snprintf(lists[r], sizeof lists[r], "%s", r == rank ? other : usual);
    ck_assert_int_eq(agreement_describe(lists[0], sizeof lists[0], 5, AGREEMENT_START), -1);
    ck_assert_msg(!strncmp(error_text(), expected, strlen(expected)), "%s", error_text());
    ck_assert_str_eq(error_text() + strlen(expected),
                     "; start all ranks with the same files and the same command line");
}

START_TEST(a_message_names_the_first_difference_and_the_ranks_that_have_a_value)
{
    check_words("net\ta\nbase_lr\t0.1\nx\t1\n", 1, "net\ta\nbase_lr\t0.2\nx\t2\n",
                "base_lr differs: 0.1 on ranks 0, 2-4; 0.2 on rank 1");
    check_words("a\t1\nb\t2\n", 0, "a\t1\n", "b differs: not set on rank 0; 2 on ranks 1-4");
    check_words("a\t1\n", 4, "a\t1\nb\t2\n", "b differs: not set on ranks 0-3; 2 on rank 4");
    check_words("a\t1\nb\t2\n", 2, "b\t2\n", "a differs: 1 on ranks 0-1, 3-4; not set on rank 2");
    check_words("b\t2\n", 3, "a\t1\nb\t2\n", "a differs: not set on ranks 0-2, 4; 1 on rank 3");
}
END_TEST

START_TEST(products_of_rounded_operands_are_of_the_run)
{
    struct made a, b;

    make(&a, NULL, NULL);
    make(&b, NULL, NULL);
    a.options.computing.math = MATH_BF16;
    ck_assert_str_eq(difference(&a, &b, true), "--math: bf16 there, not set here");
    a.options.computing.math = MATH_FP32;
    ck_assert_str_eq(difference(&a, &b, true), "");
    done(&a);
    done(&b);
}
END_TEST

SUITE("agree_job")
{
    TCase *tcase = suite_case(suite, "agreeing");

    tcase_add_test(tcase, what_is_trained_is_the_same_on_ranks_and_in_runs);
    tcase_add_test(tcase, each_rank_may_have_files_of_its_own);
    tcase_add_test(tcase, a_run_may_go_on_further_and_show_and_share_out_otherwise);
    tcase_add_test(tcase, engines_may_differ_unless_ranks_add_up_together);
    tcase_add_test(tcase, a_policy_that_looks_at_the_end_is_of_the_run);
    tcase_add_test(tcase, data_are_told_by_their_records_where_all_ranks_read_the_same);
    tcase_add_test(tcase, a_message_names_the_first_difference_and_the_ranks_that_have_a_value);
    tcase_add_test(tcase, products_of_rounded_operands_are_of_the_run);
}
