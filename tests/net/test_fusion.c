/* Fusion: a net whose layers share operators gives what it gives when each has one of its own, in
 * every blob, every gradient of a parameter, and all that forward counts up; and it is seen which
 * layers were fused. The engine is POSEIDON_TEST_ENGINE, else the CPU's, where the bits must agree.
 */
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

#include "util/rng.h"

#include <math.h>

static bool on_cpu(void)
{
    return !getenv("POSEIDON_TEST_ENGINE");
}

/* One of the two nets. */
struct side {
    struct engine engine;
    struct made made;
};

static void open_side(struct side *side, const char *text, bool train, bool fusion, bool keep)
{
    const struct engine_options options = {.threads = 2, .no_fusion = !fusion, .math = MATH_FP32};
    const char *name = on_cpu() ? "cpu" : getenv("POSEIDON_TEST_ENGINE");

    ck_assert_msg(engine_open(name, &options, &side->engine) == 0, "%s", error_text());
    ck_assert_msg(make_net(&side->made, text, train, NULL, NULL) == 0, "%s", error_text());
    if (keep)
        net_keep(side->made.net, NULL);
    ck_assert_msg(net_build(side->made.net, &side->engine, 7) == 0, "%s", error_text());
}

static void close_side(struct side *side)
{
    unmake_net(&side->made);
    engine_close(&side->engine);
}

static float *numbers(const struct shape *shape)
{
    float *values = calloc(shape_elems(shape) + 1, sizeof *values);

    ck_assert_ptr_nonnull(values);
    return values;
}

/* Some are NaN if asked. */
static void fill_input(struct net *net, uint64_t seed, bool nan)
{
    for (int l = 0; l < net->nlayers; l++) {
        struct layer *layer = &net->layers[l];
        if (!layer->i->is_data)
            continue;
        for (int t = 0; t < layer->ntops; t++) {
            struct tensor *top = &layer->tops[t]->value;
            float *values = numbers(&top->shape);
            struct rng rng = rng_make(seed, RNG_DROPOUT, (uint32_t)l, 0);
            for (size_t i = 0; i < shape_elems(&top->shape); i++)
                values[i] =
                    top->shape.naxes < 2 ? (float)(i % 3) : 2 * (float)rng_uniform(&rng, i) - 1;
            if (nan && top->shape.naxes > 1)
                values[5] = NAN;
            ck_assert_int_eq(net->engine->i->write(net->engine->context, top, values), 0);
            free(values);
        }
    }
}

static void pass(struct side *side, uint64_t seed, bool nan)
{
    const struct pass pass = {.seed = 3, .first_sample = 10 * seed};
    struct net *net = side->made.net;

    fill_input(net, seed, nan);
    ck_assert_msg(net_forward(net, &pass, NULL, NULL) == 0, "%s", error_text());
    if (net->train)
        ck_assert_msg(net_backward(net, &pass, true, NULL) == 0, "%s", error_text());
    if (side->engine.device.i->finish)
        ck_assert_int_eq(side->engine.device.i->finish(side->engine.context), 0);
}

static void compare(const char *what, const char *name, const float *a, const float *b, size_t n)
{
    double worst = 0, most = 0;

    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(isnan(a[i]) == isnan(b[i]), "%s of '%s': %g and %g at %zu", what, name,
                      (double)a[i], (double)b[i], i);
        if (isnan(a[i]))
            continue;
        if (on_cpu())
            ck_assert_msg(memcmp(&a[i], &b[i], sizeof *a) == 0, "%s of '%s': %a is not %a at %zu",
                          what, name, (double)a[i], (double)b[i], i);
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        most = fmax(most, fabs((double)b[i]));
    }
    ck_assert_msg(worst <= 1e-5 * most, "%s of '%s' differ by %g of %g", what, name, worst, most);
}

static void compare_tensors(const char *what, const char *name, const struct side sides[2],
                            const struct tensor *a, const struct tensor *b)
{
    float *values[2] = {numbers(&a->shape), numbers(&a->shape)};

    ck_assert_int_eq(sides[0].engine.i->read(sides[0].engine.context, a, values[0]), 0);
    ck_assert_int_eq(sides[1].engine.i->read(sides[1].engine.context, b, values[1]), 0);
    compare(what, name, values[0], values[1], shape_elems(&a->shape));
    free(values[0]);
    free(values[1]);
}

/* Parameters' gradients, and what forward counts up, as tensors of their own. */
static void compare_params(const struct side sides[2])
{
    const struct net *a = sides[0].made.net, *b = sides[1].made.net;

    for (int p = 0; p < a->nparams; p++) {
        const struct tensor grads[2] = {{.shape = a->params[p].shape, .data = a->params[p].grad},
                                        {.shape = b->params[p].shape, .data = b->params[p].grad}};
        const struct tensor values[2] = {{.shape = a->params[p].shape, .data = a->params[p].value},
                                         {.shape = b->params[p].shape, .data = b->params[p].value}};
        if (grads[0].data && a->params[p].wants_grad)
            compare_tensors("the gradient of a parameter", "net", sides, &grads[0], &grads[1]);
        compare_tensors("a parameter", "net", sides, &values[0], &values[1]);
    }
}

/* Whose gradient a layer's op reads last, and may leave in any state: with a ReLU in place its own
 * is in there, or not. */
static bool is_used_up(const struct net *net, const struct blob *blob)
{
    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].fused && net->layers[l].tops[0] == blob)
            return true;
    return false;
}

static void compare_sides(const struct side sides[2], bool all)
{
    const struct net *a = sides[0].made.net, *b = sides[1].made.net;

    for (int i = 0; i < a->nblobs; i++) {
        if (!all)
            break;
        compare_tensors("values", a->blobs[i]->name, sides, &a->blobs[i]->value,
                        &b->blobs[i]->value);
        if (a->train && a->blobs[i]->wants_grad && !is_used_up(a, a->blobs[i]))
            compare_tensors("the gradient", a->blobs[i]->name, sides, &a->blobs[i]->grad,
                            &b->blobs[i]->grad);
    }
    for (int o = 0; o < a->noutputs; o++)
        compare_tensors("values", a->outputs[o].blob->name, sides, &a->outputs[o].blob->value,
                        &b->outputs[o].blob->value);
    compare_params(sides);
}

/* The name of the layer whose work that one's op does; "" none. */
static const char *fused_into(const struct net *net, const char *name)
{
    const struct layer *layer = net_find_layer(net, name);

    ck_assert_msg(layer != NULL, "no layer %s", name);
    return layer->fused ? layer->fused->def->name : "";
}

#define CONV(name, from, to, outputs)                                                              \
    "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" to                    \
    "' convolution_param { num_output: " outputs                                                   \
    " kernel_size: 3 pad: 1 weight_filler { type: 'msra' } bias_filler { type: 'uniform' min: -1 " \
    "} "                                                                                           \
    "} }\n"
#define NORM(name, blob, to)                                                                       \
    "layer { name: '" name "' type: 'BatchNorm' bottom: '" blob "' top: '" to "' }\n"
#define SCALE(name, blob)                                                                          \
    "layer { name: '" name "' type: 'Scale' bottom: '" blob "' top: '" blob                        \
    "' scale_param { bias_term: true filler { type: 'uniform' min: -1 max: 1 } bias_filler { "     \
    "type: 'uniform' min: -0.5 max: 0.5 } } }\n"
#define RELU(name, blob)                                                                           \
    "layer { name: '" name "' type: 'ReLU' bottom: '" blob "' top: '" blob "' }\n"
#define SUM(name, a, b, to, more)                                                                  \
    "layer { name: '" name "' type: 'Eltwise' bottom: '" a "' bottom: '" b "' top: '" to           \
    "' eltwise_param { operation: SUM " more " } }\n"
#define END(blob)                                                                                  \
    "layer { name: 'ip' type: 'InnerProduct' bottom: '" blob "' top: 'ip' inner_product_param { "  \
    "num_output: 3 weight_filler { type: 'xavier' } } }\n" INPUT(                                  \
        "y", "4") "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'y' top: "    \
                  "'loss' }\n"

/* A block as in a residual net. 20 channels: blocks of 8 and 16 are padded. */
/* clang-format off */
#define BLOCK(channels, coefficients)                                                              \
    CONV("c0", "x", "c0", channels) NORM("n0", "c0", "c0") SCALE("s0", "c0") RELU("r0", "c0")       \
    CONV("c1", "c0", "c1", channels) NORM("n1", "c1", "n1") SCALE("s1", "n1") RELU("r1", "n1")      \
    CONV("c2", "n1", "c2", channels) NORM("n2", "c2", "n2") SCALE("s2", "n2")                       \
    SUM("sum", "c0", "n2", "sum", coefficients) RELU("r2", "sum")                                   \
    CONV("c3", "sum", "c3", channels) NORM("n3", "c3", "n3") RELU("r3", "n3")                       \
    SUM("sum3", "sum", "n3", "sum3", "") RELU("r4", "sum3")
/* Branches as in GoogLeNet: two that end in a ReLU in place, one that does not. */
#define MODULE(first, second, concat)                                                              \
    INPUT("x", "4, 3, 9, 7") CONV("c", "x", "c", "16") RELU("rc", "c")                              \
    CONV("b0", "c", "b0", first) RELU("r0", "b0") CONV("b1", "c", "b1", second)                     \
    CONV("b2", "c", "b2", first) CONV("b3", "b2", "b3", first) RELU("r3", "b3")                     \
    "layer { name: 'cat' type: 'Concat' bottom: 'b0' bottom: 'b1' bottom: 'b3' top: 'cat' " concat  \
    " }\n"
/* clang-format on */

static const char *const nets[] = {
    INPUT("x", "4, 3, 9, 7") BLOCK("16", "") END("sum3"),
    INPUT("x", "4, 3, 9, 7") BLOCK("20", "coeff: 0.5 coeff: -2") END("sum3"),
    INPUT("x", "4, 3, 9, 7") BLOCK("5", "coeff: 1 coeff: 0.25") END("sum3"),
    MODULE("16", "32", "") END("cat"),
    MODULE("8", "20", "") END("cat"),
    MODULE("16", "16", "concat_param { axis: 2 }") END("cat"),
    /* its top is read twice, its gradient is a sum; Dropout leaves the sign alone */
    MODULE("16", "16", "") "layer { name: 'd' type: 'Dropout' bottom: 'cat' top: 'cat' }\n" CONV(
        "e0", "cat", "e0", "16") CONV("e1", "cat", "e1", "16") SUM("f", "e0", "e1", "f", "")
        END("f"),
    /* one piece gets no gradient */
    MODULE("16", "16", "propagate_down: true propagate_down: false propagate_down: true")
        END("cat"),
    /* a chain as in VGG */
    INPUT("x", "4, 3, 9, 7") CONV("c0", "x", "c0", "16") RELU("r0", "c0")
        CONV("c1", "c0", "c1", "20") RELU("r1", "c1") END("c1"),
    /* without an image: plain memory, one number for each channel */
    INPUT("x",
          "4, 13") "layer { name: 'ip0' type: 'InnerProduct' bottom: 'x' top: 'ip0' "
                   "inner_product_param { num_output: 11 weight_filler { type: 'xavier' } } }" NORM(
                       "n0", "ip0", "n0") SCALE("s0", "n0") RELU("r0", "n0") END("n0"),
};

static void compare_nets(const char *text, bool train, bool keep, bool nan)
{
    struct side sides[2];

    for (int s = 0; s < 2; s++) {
        open_side(&sides[s], text, train, s == 0, keep);
        for (uint64_t i = 1; i <= 2; i++)
            pass(&sides[s], i, nan);
    }
    compare_sides(sides, keep);
    for (int s = 0; s < 2; s++)
        close_side(&sides[s]);
}

START_TEST(a_fused_net_gives_what_the_layers_give_one_by_one)
{
    for (int train = 0; train < 2; train++)
        for (int keep = 0; keep < 2; keep++)
            compare_nets(nets[_i], train, keep, false);
}
END_TEST

START_TEST(nan_passes_through_fused_operators)
{
    compare_nets(nets[_i], true, true, true);
}
END_TEST

START_TEST(what_can_be_fused_is)
{
    struct side side;

    open_side(&side, nets[0], true, true, false);
    ck_assert_str_eq(fused_into(side.made.net, "s0"), "r0");
    ck_assert_str_eq(fused_into(side.made.net, "s1"), "r1");
    ck_assert_str_eq(fused_into(side.made.net, "s2"), "");
    ck_assert_str_eq(fused_into(side.made.net, "sum"), "r2");
    ck_assert_str_eq(fused_into(side.made.net, "n3"), "r3");
    ck_assert_str_eq(fused_into(side.made.net, "sum3"), "r4");
    ck_assert_str_eq(fused_into(side.made.net, "c1"), "");
    close_side(&side);
    open_side(&side, nets[0], true, false, false);
    for (int l = 0; l < side.made.net->nlayers; l++)
        ck_assert_ptr_null(side.made.net->layers[l].fused);
    close_side(&side);
}
END_TEST

/* Behind a Split that leads to a Concat, too. */
START_TEST(a_convolution_takes_a_relu_that_no_concat_takes)
{
    struct side side;

    open_side(&side, MODULE("16", "32", "") END("cat"), true, true, false);
    ck_assert_str_eq(fused_into(side.made.net, "c"), "rc");
    ck_assert_str_eq(fused_into(side.made.net, "b0"), ""); /* the Concat has it */
    ck_assert_str_eq(fused_into(side.made.net, "b3"), "");
    close_side(&side);
}
END_TEST

/* The name of the layer in front of a bottom of 'cat' whose work its op does; "" none. */
static const char *taken_by_cat(const struct net *net, int bottom)
{
    const struct layer *layer = net_find_layer(net, "cat");

    ck_assert_ptr_nonnull(layer);
    return layer->taken[bottom] ? layer->taken[bottom]->def->name : "";
}

static const char *const taken_nets[] = {
    MODULE("16", "32", "") END("cat"),
    MODULE("16", "32",
           "") "layer { name: 'd' type: 'Dropout' bottom: 'cat' top: 'cat' }\n" END("cat"),
};

START_TEST(concat_takes_the_relus_on_its_bottoms)
{
    struct side side;

    open_side(&side, taken_nets[_i], true, true, false);
    ck_assert_str_eq(taken_by_cat(side.made.net, 0), "r0");
    ck_assert_str_eq(taken_by_cat(side.made.net, 1), "");
    ck_assert_str_eq(taken_by_cat(side.made.net, 2), "r3");
    ck_assert(net_find_layer(side.made.net, "r3")->idle);
    ck_assert(net_find_layer(side.made.net, "rc")->idle); /* the convolution has it */
    close_side(&side);
    open_side(&side, taken_nets[_i], true, false, false);
    ck_assert_str_eq(taken_by_cat(side.made.net, 0), "");
    close_side(&side);
}
END_TEST

/* Somebody reads the blob after the pass; a slope; the signs are lost before backward, twice. */
START_TEST(concat_leaves_relus_alone_that_it_must)
{
    static const struct {
        const char *slope, *concat, *behind;
        bool keep;
    } cases[] = {
        {"", "", "", true},
        {"relu_param { negative_slope: 0.1 }", "", "", false},
        {"", "",
         "layer { name: 'p' type: 'Power' bottom: 'cat' top: 'cat' power_param { shift: 1 } }\n",
         false},
        {"", "",
         "layer { name: 'p' type: 'Flatten' bottom: 'cat' top: 'p' }\n"
         "layer { name: 'q' type: 'Power' bottom: 'p' top: 'p' power_param { shift: 1 "
         "} }\n",
         false},
    };
    char text[2048];
    struct side side;

    snprintf(text, sizeof text,
             "%s%slayer { name: 'r0' type: 'ReLU' bottom: 'b0' top: 'b0' %s }\nlayer { name: 'cat' "
             "type: 'Concat' bottom: 'b0' top: 'cat' %s }\n%s%s",
             INPUT("x", "4, 3, 5, 5"), CONV("b0", "x", "b0", "16"), cases[_i].slope,
             cases[_i].concat, cases[_i].behind,
             strstr(cases[_i].behind, "top: 'p'") ? END("p") : END("cat"));
    open_side(&side, text, true, true, cases[_i].keep);
    ck_assert_str_eq(taken_by_cat(side.made.net, 0), "");
    ck_assert_str_eq(fused_into(side.made.net, "b0"), cases[_i].slope[0] ? "" : "r0");
    close_side(&side);
}
END_TEST

/* A slope, another top, a maximum, a layer in between. */
START_TEST(what_cannot_be_fused_is_not)
{
    static const struct {
        const char *first, *second;
    } pairs[] = {
        {NORM("a", "x", "a"), "layer { name: 'b' type: 'ReLU' bottom: 'a' top: 'a' relu_param { "
                              "negative_slope: 0.1 } }\n"},
        {NORM("a", "x", "a0"), "layer { name: 'b' type: 'ReLU' bottom: 'a0' top: 'a' }\n"},
        {"layer { name: 'a' type: 'Eltwise' bottom: 'x' bottom: 'z' top: 'a' eltwise_param { "
         "operation: MAX } }\n",
         RELU("b", "a")},
        {NORM("a", "x", "a") "layer { name: 'd' type: 'Dropout' bottom: 'a' top: 'a' }\n",
         RELU("b", "a")},
    };
    char text[2048];
    struct side side;

    snprintf(text, sizeof text, "%s%s%s%s%s", INPUT("x", "4, 3, 5, 5"), INPUT("z", "4, 3, 5, 5"),
             pairs[_i].first, pairs[_i].second, END("a"));
    open_side(&side, text, true, true, false);
    ck_assert_str_eq(fused_into(side.made.net, "a"), "");
    close_side(&side);
}
END_TEST

/* What ResNet-50's operators other than products read and write of blobs, forward and backward,
 * over the outputs of its convolutions: how often they pass over the activations. */
static double passes_of_resnet50(bool fusion)
{
    static const int64_t image[] = {3, 224, 224};
    const struct layer_env env = {
        .look_only = true, .batch = 1, .input_chw = image, .nranks = 1, .seed = 1};
    const struct engine_options options = {
        .threads = 1, .no_fusion = !fusion, .convolution = CONVOLUTION_DIRECT};
    struct side side = {.engine = {0}};
    double passed = 0, activations = 0;

    ck_assert_int_eq(engine_open("cpu", &options, &side.engine), 0);
    ck_assert_msg(make_net_file(&side.made, source_file("models/resnet50/train_val.prototxt"), true,
                                &env) == 0,
                  "%s", error_text());
    ck_assert_msg(net_build(side.made.net, &side.engine, 1) == 0, "%s", error_text());
    for (int l = 0; l < side.made.net->nlayers; l++) {
        const struct layer *layer = &side.made.net->layers[l];
        if (strcmp(layer->i->type, "Convolution") == 0)
            activations += (double)shape_elems(&layer->tops[0]->value.shape) * sizeof(float);
        else if (strcmp(layer->i->type, "InnerProduct") != 0)
            passed += layer_work(layer, OP_FORWARD).blob_bytes +
                      layer_work(layer, OP_BACKWARD).blob_bytes;
    }
    close_side(&side);
    return passed / activations;
}

START_TEST(resnet50_passes_over_its_activations_at_most_14_times)
{
    double fused, apart;

    if (!on_cpu())
        return; /* the same operators, with memory that only a real device has */
    fused = passes_of_resnet50(true);
    apart = passes_of_resnet50(false);
    printf("ResNet-50 passes %.2f times over its activations, %.2f times unfused\n", fused, apart);
    ck_assert_double_le(fused, 14);
    ck_assert_double_ge(apart, 17);
}
END_TEST

SUITE("fusion")
{
    TCase *tests = suite_case(suite, "fused operators");

    tcase_add_loop_test(tests, a_fused_net_gives_what_the_layers_give_one_by_one, 0,
                        (int)(sizeof nets / sizeof *nets));
    tcase_add_loop_test(tests, nan_passes_through_fused_operators, 0,
                        (int)(sizeof nets / sizeof *nets));
    tcase_add_test(tests, what_can_be_fused_is);
    tcase_add_test(tests, a_convolution_takes_a_relu_that_no_concat_takes);
    tcase_add_test(tests, resnet50_passes_over_its_activations_at_most_14_times);
    tcase_add_loop_test(tests, what_cannot_be_fused_is_not, 0, 4);
    tcase_add_loop_test(tests, concat_takes_the_relus_on_its_bottoms, 0, 2);
    tcase_add_loop_test(tests, concat_leaves_relus_alone_that_it_must, 0, 4);
}
