/* Which known word is offered for an unknown one. */
#include "util/suggest.h"
#include "tests/suite.h"

#include <check.h>
#include <stdbool.h>

START_TEST(distance_counts_edits_and_swaps)
{
    static const struct {
        const char *word, *known;
        int distance; /* more than 63: too far to be offered */
    } cases[] = {
        {"", "", 0},
        {"kernel", "kernel", 0},
        {"Kernel", "kernel", 0},
        {"kenrel", "kernel", 1},
        {"kernl", "kernel", 1},
        {"kernels", "kernel", 1},
        {"kernal_sise", "kernel_size", 2},
        {"kitten", "sitting", 64},
        {"", "abc", 64},
    };

    for (int i = 0; i < COUNT(cases); i++) {
        struct suggest near = suggest_start(cases[i].word);

        suggest_offer(&near, cases[i].known);
        ck_assert_int_eq(near.distance, cases[i].distance);
    }
}
END_TEST

START_TEST(only_a_word_that_is_near_is_offered)
{
    static const struct {
        const char *word, *known;
        bool near;
    } cases[] = {
        {"kernal_sise", "kernel_size", true},
        {"Convolutoin", "Convolution", true},
        {"convolutions", "Convolution", true},
        {"BatchNormal", "BatchNorm", true},
        {"Convalutiom", "Convolution", true},
        {"SoftmaxLoss", "SoftmaxWithLoss", false}, /* four letters */
        {"DenseImageData", "ImageData", false},
        {"stride_shape", "stride_h", false},
        {"ab", "a", true},
        {"abcdef", "abXXef", true}, /* a third */
        {"abcdef", "aXXXef", false},
        {"a", "b", false}, /* all of it */
        {"xReLU", "ReLU", true},
        /* longer words are others */
        {"Unpooling", "Pooling", false},
        {"RBMInnerProduct", "InnerProduct", false},
        {"LRN_MAP", "LRN", false},
        {"Convolution3D", "Convolution", false},
        {"ConvolutionND", "Convolution", false},
        {"InnerProductive", "InnerProduct", false},
        {"LOCAL_WEIGHTED_CONVOLUTION", "CONVOLUTION", false},
        /* their ending makes them no more alike */
        {"bn_param", "lrn_param", false},
        {"permute_param", "reshape_param", false},
        {"elv_param", "elu_param", true},
        {"concta_param", "concat_param", true},
        {"", "a", false},
    };

    for (int i = 0; i < COUNT(cases); i++) {
        struct suggest near = suggest_start(cases[i].word);

        suggest_offer(&near, cases[i].known);
        ck_assert_msg((near.nearest != NULL) == cases[i].near, "%s -> %s", cases[i].word,
                      cases[i].known);
    }
}
END_TEST

SUITE("suggest")
{
    TCase *tcase = suite_case(suite, "suggest");

    tcase_add_test(tcase, distance_counts_edits_and_swaps);
    tcase_add_test(tcase, only_a_word_that_is_near_is_offered);
}
