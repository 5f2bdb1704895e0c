/* What the CUDA engine's kernels read and write of activations, counted element by element, is what
 * op_work says of the operators: so tests/net/test_fusion's count of a net's passes over memory
 * holds for it. */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

size_t emulated_bytes(const char *prefix); /* emulated_blocks.cpp */

#define CONV(name, from, to)                                                                       \
    "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" to                    \
    "' convolution_param { num_output: 8 kernel_size: 1 bias_term: false weight_filler { type: "   \
    "'msra' } } }\n"
#define NORM(name, blob)                                                                           \
    "layer { name: 'n" name "' type: 'BatchNorm' bottom: '" blob "' top: '" blob                   \
    "' }\nlayer { name: 's" name "' type: 'Scale' bottom: '" blob "' top: '" blob                  \
    "' scale_param { bias_term: true } }\n"
#define RELU(name, blob)                                                                           \
    "layer { name: 'r" name "' type: 'ReLU' bottom: '" blob "' top: '" blob "' }\n"
/* A residual block, whose weights are few beside its activations. */
/* clang-format off */
static const char block[] =
    "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 4 dim: 3 dim: 16 dim: 16 } } }\n"
    "layer { name: 'y' type: 'Input' top: 'y' input_param { shape { dim: 4 } } }\n"
    CONV("c0", "x", "c0") NORM("0", "c0") RELU("0", "c0")
    CONV("c1", "c0", "c1") NORM("1", "c1") RELU("1", "c1") CONV("c2", "c1", "c2") NORM("2", "c2")
    "layer { name: 'sum' type: 'Eltwise' bottom: 'c0' bottom: 'c2' top: 'sum' }\n" RELU("2", "sum")
    CONV("c3", "sum", "c3") NORM("3", "c3")
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'c3' top: 'ip' inner_product_param { num_output: 2 "
    "weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: 'loss' }\n";
/* clang-format on */

static const char *const products[] = {"Input", "Convolution", "InnerProduct", "SoftmaxWithLoss"};

static double expected_bytes(const struct net *net)
{
    double bytes = 0;

    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        bool is_product = false;
        for (size_t i = 0; i < sizeof products / sizeof *products; i++)
            is_product = is_product || strcmp(layer->i->type, products[i]) == 0;
        if (!is_product)
            bytes += layer_work(layer, OP_FORWARD).blob_bytes +
                     layer_work(layer, OP_BACKWARD).blob_bytes;
    }
    return bytes;
}

/* Products' own kernels apart, and what lays weights and input out for them. */
static double moved_bytes(void)
{
    emulated_bytes("conv");
    emulated_bytes("transpose");
    emulated_bytes("layout_add_bias");
    return (double)emulated_bytes("");
}

static void pass(struct net *net)
{
    const struct pass pass = {.seed = 3};

    ck_assert_msg(net_forward(net, &pass, NULL, NULL) == 0, "%s", error_text());
    ck_assert_msg(net_backward(net, &pass, true, NULL) == 0, "%s", error_text());
    ck_assert_int_eq(net->engine->device.i->finish(net->engine->context), 0);
}

static void check_passes(bool fusion)
{
    const struct engine_options options = {.math = MATH_FP32, .no_fusion = !fusion};
    struct engine engine;
    struct made made;
    double expected, moved;

    ck_assert_msg(engine_open("cuda", &options, &engine) == 0, "%s", error_text());
    ck_assert_msg(make_net(&made, block, true, NULL, NULL) == 0, "%s", error_text());
    ck_assert_msg(net_build(made.net, &engine, 7) == 0, "%s", error_text());
    pass(made.net);
    moved_bytes();
    pass(made.net);
    moved = moved_bytes();
    expected = expected_bytes(made.net);
    printf("%s: %.0f bytes moved, %.0f expected\n", fusion ? "fused" : "apart", moved, expected);
    ck_assert_double_gt(expected, 0);
    ck_assert_double_le(moved, 1.01 * expected); /* the gradient of a bias of two */
    ck_assert_double_ge(moved, expected);
    unmake_net(&made);
    engine_close(&engine);
}

START_TEST(kernels_move_what_operators_say)
{
    check_passes(_i);
}
END_TEST

SUITE("passes over activations on the emulated GPU")
{
    TCase *tests = suite_case(suite, "passes");

    tcase_add_loop_test(tests, kernels_move_what_operators_say, 0, 2);
}
