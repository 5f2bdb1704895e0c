/* What a net is made of. */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

#define TOP(name) " top: '" name "'"

START_TEST(what_nobody_reads_is_an_output_in_the_order_of_bytes)
{
    static const char *const expected[] = {"B", "a", "a/x", "a_1", "r"};
    struct made made;

    ck_assert_msg(
        make_net(&made,
                 "layer { name: 'd' type: 'DummyData'" TOP("b") TOP("B") TOP("a_1") TOP("a")
                     TOP("a/x") " dummy_data_param { shape { dim: 2 } } } "
                                "layer { name: 'r' type: 'ReLU' bottom: 'b' top: 'r' } ",
                 false, NULL, NULL) == 0,
        "%s", error_text());
    ck_assert_int_eq(made.net->noutputs, 5);
    for (int i = 0; i < 5; i++)
        ck_assert_str_eq(made.net->outputs[i].blob->name, expected[i]);
    unmake_net(&made);
}
END_TEST

SUITE("net")
{
    tcase_add_test(suite_case(suite, "net"), what_nobody_reads_is_an_output_in_the_order_of_bytes);
}
