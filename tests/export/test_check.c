/* What a graph of ONNX must be before it is written, seen on broken ones: no onnx needed. */
#include "export/onnx.h"
#include "tests/suite.h"

#include <string.h>
#include <unistd.h>

#include "util/error.h"

static const float ones[64] = {1};

static const struct shape image = {4, {1, 2, 5, 5}}, filters = {4, {3, 2, 3, 3}};

/* data -> Conv "y" of 3 x 3 x 3, which comes out. */
static struct onnx conv(const struct shape *weights)
{
    static const int64_t three[] = {3, 3};
    struct onnx graph = {.failed = false};

    onnx_init(&graph, "net");
    onnx_prefix(&graph, "c");
    onnx_node_to(&graph, "Conv",
                 (const char *const[]){"data", onnx_floats(&graph, "weight", weights, ones), NULL},
                 (const char *const[]){"y", NULL});
    onnx_ints(&graph, "kernel_shape", 2, three);
    onnx_tell(&graph, ONNX_INPUT, "data", &image, true);
    return graph;
}

/* Its last node and what it gives, of that shape, are told; then it is checked, and freed. */
static void expect(struct onnx *graph, const char *out, const struct shape *shape,
                   const char *message)
{
    onnx_tell(graph, ONNX_OUTPUT, out, shape, true);
    if (message) {
        ck_assert_int_ne(onnx_check(graph), 0);
        ck_assert_msg(strstr(error_text(), message) != NULL, "%s", error_text());
        ck_assert_int_ne(onnx_save(graph, "broken.onnx"), 0);
        ck_assert_int_ne(access("broken.onnx", F_OK), 0);
    } else {
        ck_assert_msg(onnx_check(graph) == 0, "%s", error_text());
    }
    onnx_free(graph);
}

static const struct shape conv_out = {4, {1, 3, 3, 3}};

START_TEST(whole_graph_passes)
{
    struct onnx graph = conv(&filters);

    expect(&graph, "y", &conv_out, NULL);
}
END_TEST

START_TEST(input_that_nothing_makes_is_named_with_its_node)
{
    struct onnx graph = conv(&filters);
    const char *sum = ONNX_NODE(&graph, "Add", "y", "data/d");

    expect(&graph, sum, &conv_out,
           "node 'c:2' (Add): it reads 'data/d', which nothing in front of it makes");
}
END_TEST

START_TEST(input_that_is_made_later_is_an_error)
{
    struct onnx graph = conv(&filters);
    const char *later = ONNX_NODE(&graph, "Relu", "c:3");

    (void)ONNX_NODE(&graph, "Relu", "y");
    expect(&graph, later, &conv_out, "it reads 'c:3', which nothing in front of it makes");
}
END_TEST

START_TEST(name_made_twice_is_an_error)
{
    struct onnx graph = conv(&filters);

    onnx_node_to(&graph, "Relu", (const char *const[]){"y", NULL},
                 (const char *const[]){"data", NULL});
    expect(&graph, "y", &conv_out, "node 'c:2' (Relu): 'data' is made twice");
}
END_TEST

START_TEST(output_that_nothing_makes_is_an_error)
{
    struct onnx graph = conv(&filters);

    expect(&graph, "z", &conv_out, "nothing makes 'z'");
}
END_TEST

START_TEST(shape_that_is_not_the_nets_is_an_error)
{
    struct onnx graph = conv(&filters);

    expect(&graph, "y", &(struct shape){4, {1, 3, 4, 3}},
           "'y' would have the shape 1 3 3 3 (27), and the net's is 1 3 4 3 (36)");
}
END_TEST

START_TEST(weights_of_other_channels_are_an_error)
{
    struct onnx graph = conv(&(struct shape){4, {3, 1, 3, 3}});

    expect(&graph, "y", &conv_out,
           "node 'c:1' (Conv): the shapes 1 2 5 5 (50) and 3 1 3 3 (27) do not go together");
}
END_TEST

START_TEST(operands_that_do_not_stretch_are_an_error)
{
    struct onnx graph = conv(&filters);
    const char *product =
        ONNX_NODE(&graph, "Mul", "y", onnx_floats(&graph, "f", &(struct shape){1, {2}}, ones));

    expect(&graph, product, &conv_out, "(Mul): the shapes 1 3 3 3 (27) and 2 (2) do not go");
}
END_TEST

START_TEST(reshape_that_loses_elements_is_an_error)
{
    struct onnx graph = conv(&filters);
    const int64_t to[] = {-1, 5};
    const char *flat = ONNX_NODE(&graph, "Reshape", "y", onnx_ints_value(&graph, "to", 2, to));

    expect(&graph, flat, &(struct shape){2, {5, 5}},
           "(Reshape): the shapes 1 3 3 3 (27) and 2 (2)");
}
END_TEST

SUITE("export/check")
{
    TCase *tcase = suite_case(suite, "check");

    tcase_add_test(tcase, whole_graph_passes);
    tcase_add_test(tcase, input_that_nothing_makes_is_named_with_its_node);
    tcase_add_test(tcase, input_that_is_made_later_is_an_error);
    tcase_add_test(tcase, name_made_twice_is_an_error);
    tcase_add_test(tcase, output_that_nothing_makes_is_an_error);
    tcase_add_test(tcase, shape_that_is_not_the_nets_is_an_error);
    tcase_add_test(tcase, weights_of_other_channels_are_an_error);
    tcase_add_test(tcase, operands_that_do_not_stretch_are_an_error);
    tcase_add_test(tcase, reshape_that_loses_elements_is_an_error);
}
