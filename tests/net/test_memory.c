/* The blobs' memory: no two pieces that live at once overlap, and nothing depends on what a piece
 * holds before it lives or after. The engine is POSEIDON_TEST_ENGINE, else the CPU's. Memory must
 * be the host's or an emulated device's. */
#include "tests/layers/value_cases.h"
#include "tests/suite.h"

#include <math.h>

static struct engine engine;
static struct value_case *cases; /* of the layers' values */

static bool on_cpu(void)
{
    return !getenv("POSEIDON_TEST_ENGINE");
}

static void open_engine(void)
{
    const struct engine_options options = {.threads = 1};

    ck_assert_msg(
        engine_open(on_cpu() ? "cpu" : getenv("POSEIDON_TEST_ENGINE"), &options, &engine) == 0,
        "%s", error_text());
}

static void close_engine(void)
{
    engine_close(&engine);
}

static void finish(void)
{
    if (engine.device.i->finish)
        ck_assert_int_eq(engine.device.i->finish(engine.context), 0);
}

static void write_blob(struct blob *blob, const float *values)
{
    ck_assert_int_eq(engine.i->write(engine.context, &blob->value, values), 0);
}

static void fill(struct blob *blob, int salt)
{
    struct draw draw = {.kind = DRAW_AWAY, .salt = salt};
    size_t n = shape_elems(&blob->value.shape);
    float *values = calloc(n + 1, sizeof *values);

    ck_assert_ptr_nonnull(values);
    if (blob->value.shape.naxes < 2) { /* labels, indices */
        draw.kind = DRAW_INTEGERS;
        draw.b = 1;
    }
    draw_values(&draw, n, values);
    write_blob(blob, values);
    free(values);
}

static void fill_inputs(struct net *net, const struct value_case *c)
{
    for (int l = 0; l < net->nlayers; l++)
        for (int t = 0; t < net->layers[l].ntops && net->layers[l].i->is_data; t++)
            fill(net->layers[l].tops[t], l + t);
    for (int i = 0; c && i < c->nrecords; i++)
        if (c->records[i].what == VALUE_INPUT || c->records[i].what == VALUE_PLAIN)
            write_blob(net_find_blob(net, c->records[i].name), c->records[i].values);
    finish();
}

static float *arena_of(const struct net *net)
{
    const struct net_piece *piece = &net_memory_plan(net)->pieces[0];
    const struct tensor *tensor = piece->grad ? &piece->blob->grad : &piece->blob->value;

    return tensor->data - piece->offset / sizeof(float);
}

/* Spoils all of the arena that holds nothing between steps `step` and step + 1. -1: before a pass.
 */
static void spoil(const struct net *net, int step)
{
    const struct net_memory_plan *plan = net_memory_plan(net);
    size_t n = plan->bytes / sizeof(float);
    float *arena = arena_of(net);
    char *used = calloc(n + 1, 1);

    ck_assert_ptr_nonnull(used);
    finish();
    for (int i = 0; i < plan->npieces; i++) {
        const struct net_piece *piece = &plan->pieces[i];
        bool always = piece->begin == 0 && piece->end == plan->nsteps - 1;
        bool after = step == plan->nsteps - 1 && piece->end == step;
        if (always || after || (piece->begin <= step && step < piece->end))
            memset(used + piece->offset / sizeof(float), 1, piece->bytes / sizeof(float));
    }
    for (size_t i = 0; i < n; i++)
        if (!used[i])
            arena[i] = NAN;
    free(used);
}

/* What a pass gives: outputs and losses, then the gradients of parameters. */
static float *run_pass(struct net *net, bool spoiled, size_t *count)
{
    const struct pass pass = {.seed = 3, .first_sample = 1000};
    struct tensor grads = {.shape = {.naxes = 1, .dim = {(int64_t)net->elems}},
                           .data = net->engine_grads};
    size_t n = 0, total = 1;
    float *out;

    for (int o = 0; o < net->noutputs; o++)
        total += shape_elems(&net->outputs[o].blob->value.shape);
    out = calloc(total + net->elems, sizeof *out);
    ck_assert_ptr_nonnull(out);
    if (spoiled)
        spoil(net, -1);
    for (int l = 0; l < net->nlayers; l++) {
        ck_assert_msg(net_layer_forward(net, l, &pass) == 0, "%s", error_text());
        if (spoiled)
            spoil(net, l);
    }
    for (int l = net->nlayers - 1; l >= 0 && net->train; l--) {
        ck_assert_msg(net_layer_backward(net, l, &pass) == 0, "%s", error_text());
        if (spoiled)
            spoil(net, 2 * net->nlayers - 1 - l);
    }
    for (int o = 0; o < net->noutputs; o++) {
        ck_assert_int_eq(net_read_blob(net, net->outputs[o].blob, out + n), 0);
        n += shape_elems(&net->outputs[o].blob->value.shape);
    }
    if (net->train && net->elems > 0)
        ck_assert_int_eq(engine.i->read(engine.context, &grads, out + n), 0);
    *count = n + (net->train ? net->elems : 0);
    return out;
}

/* Brute force: every pair. */
static void expect_apart(const struct net *net)
{
    const struct net_memory_plan *plan = net_memory_plan(net);
    size_t sum = 0, load = 0;

    for (int i = 0; i < plan->npieces; i++) {
        const struct net_piece *a = &plan->pieces[i];
        ck_assert_int_le(a->begin, a->end);
        ck_assert_uint_le(a->offset + a->bytes, plan->bytes);
        sum += a->bytes;
        for (int k = 0; k < i; k++) {
            const struct net_piece *b = &plan->pieces[k];
            bool together = a->begin <= b->end && b->begin <= a->end;
            bool overlap = a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
            ck_assert_msg(!together || !overlap, "%s of %s and %s of %s overlap",
                          a->grad ? "gradient" : "values", a->blob->name,
                          b->grad ? "gradient" : "values", b->blob->name);
        }
    }
    for (int s = 0; s < plan->nsteps; s++) {
        size_t live = 0;
        for (int i = 0; i < plan->npieces; i++)
            if (plan->pieces[i].begin <= s && s <= plan->pieces[i].end)
                live += plan->pieces[i].bytes;
        load = live > load ? live : load;
    }
    ck_assert_uint_eq(sum, plan->apart);
    ck_assert_uint_eq(load, plan->load);
    ck_assert_uint_le(load, plan->bytes);
    ck_assert_uint_le(plan->bytes, plan->apart);
}

/* Two passes with every blob apart, with sharing, and with all dead memory spoiled, agree to the
 * bit. */
static void expect_same(struct made *apart, struct made *shared, const struct value_case *c,
                        const char *what)
{
    for (int pass = 0; pass < 2; pass++) {
        size_t n, m;
        float *expected, *found;
        fill_inputs(apart->net, c);
        fill_inputs(shared->net, c);
        expected = run_pass(apart->net, false, &n);
        for (int spoiled = 0; spoiled < 2; spoiled++) {
            fill_inputs(shared->net, c); /* nets may work in place on their input */
            found = run_pass(shared->net, spoiled, &m);
            ck_assert_uint_eq(n, m);
            for (size_t i = 0; i < n; i++)
                ck_assert_msg(!memcmp(&expected[i], &found[i], sizeof *found),
                              "%s, pass %d%s: value %zu of %zu is %g, apart %g", what, pass,
                              spoiled ? ", spoiled" : "", i, n, (double)found[i],
                              (double)expected[i]);
            free(found);
        }
        free(expected);
    }
}

/* false: the engine has no such operator. */
static bool build(struct made *made, bool keep)
{
    if (keep)
        net_keep(made->net, NULL);
    if (net_build(made->net, &engine, 1) == 0)
        return true;
    ck_assert_msg(!on_cpu() && strstr(error_text(), "the CUDA engine"), "%s", error_text());
    return false;
}

enum { LENET, CIFAR10_QUICK };

static const struct {
    const char *name;
    int batch;
    int64_t input[3];       /* C, H, W */
    double most, most_test; /* what sharing may leave of the memory apart, training and testing */
    bool emulated;          /* small enough */
} models[] = {
    {"lenet", 4, {1, 28, 28}, 0.85, 0.8, true},
    {"cifar10_quick", 4, {3, 32, 32}, 0.75, 0.75, true},
    {"cifar10_full", 2, {3, 32, 32}, 0.75, 0.65, true},
    {"resnet20_cifar10", 2, {3, 32, 32}, 0.7, 0.3, true},
    {"nin", 1, {3, 224, 224}, 0.7, 0.4, false},
    {"squeezenet_v1.1", 1, {3, 227, 227}, 0.7, 0.4, false},
    {"googlenet", 1, {3, 224, 224}, 0.7, 0.2, false},
    {"mobilenet_v1", 1, {3, 224, 224}, 0.7, 0.3, false},
    {"resnet50", 1, {3, 224, 224}, 0.7, 0.2, false},
};

static void open_model(struct made *made, int model, bool train, int batch)
{
    char path[256];
    struct layer_env env = {.look_only = true,
                            .nranks = 1,
                            .seed = 1,
                            .batch = batch,
                            .input_chw = models[model].input};

    snprintf(path, sizeof path, "models/%s/train_val.prototxt", models[model].name);
    ck_assert_msg(make_net_file(made, source_file(path), train, &env) == 0, "%s", error_text());
}

START_TEST(pieces_that_live_at_once_lie_apart)
{
    struct made made;

    for (int train = 0; train < 2; train++) {
        const struct net_memory_plan *plan;
        double most = train ? models[_i].most : models[_i].most_test;
        if (!on_cpu() && !models[_i].emulated)
            return;
        open_model(&made, _i, train, models[_i].batch);
        if (!build(&made, false)) {
            unmake_net(&made);
            return;
        }
        plan = net_memory_plan(made.net);
        expect_apart(made.net);
        ck_assert_msg((double)plan->bytes <= most * (double)plan->apart, "%s, %s: %zu of %zu bytes",
                      models[_i].name, train ? "training" : "testing", plan->bytes, plan->apart);
        /* first fit comes close to what cannot be undercut */
        ck_assert_msg((double)plan->bytes <= 1.15 * (double)plan->load,
                      "%s: %zu bytes for a load of %zu", models[_i].name, plan->bytes, plan->load);
        ck_assert_uint_eq(net_memory(made.net),
                          (train ? 2 : 1) * made.net->elems * sizeof(float) + plan->bytes);
        unmake_net(&made);
    }
}
END_TEST

START_TEST(models_compute_the_same_in_shared_memory)
{
    struct made apart, shared;

    for (int train = 0; train < 2; train++) {
        int batch = models[_i].emulated ? 2 : 1;
        if (!models[_i].emulated && strcmp(models[_i].name, "squeezenet_v1.1") != 0)
            return; /* googlenet and resnet50 have no kinds of layers that these lack */
        if (!on_cpu() && _i != LENET)
            return;
        if (!train && _i > CIFAR10_QUICK)
            continue; /* the net's own test batch is too much work here */
        open_model(&apart, _i, train, batch);
        open_model(&shared, _i, train, batch);
        if (build(&apart, true) && build(&shared, false))
            expect_same(&apart, &shared, NULL, models[_i].name);
        unmake_net(&apart);
        unmake_net(&shared);
    }
}
END_TEST

/* One net for every case of the layers' values. */
START_TEST(layers_compute_the_same_in_shared_memory)
{
    const struct value_case *c = &cases[_i];
    static char text[16384];

    value_case_text(c, false, text, sizeof text);
    for (int train = 0; train < 2; train++) {
        struct made apart, shared;
        ck_assert_msg(make_net(&apart, text, train, NULL, NULL) == 0, "%s", error_text());
        ck_assert_msg(make_net(&shared, text, train, NULL, NULL) == 0, "%s", error_text());
        if (build(&apart, true) && build(&shared, false)) {
            expect_apart(shared.net);
            expect_same(&apart, &shared, c, c->name);
        }
        unmake_net(&apart);
        unmake_net(&shared);
    }
}
END_TEST

#define CONV(name, bottom, top)                                                                    \
    "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" top "' "            \
    "convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } "  \
    "}\n"
#define LAYER(type, rest) "layer { name: 'l' type: '" type "' bottom: 'a' top: 'b' " rest " }\n"
#define SUM(bottom)                                                                                \
    "layer { name: 's" bottom "' type: 'Reduction' bottom: '" bottom "' top: 's" bottom "' "       \
    "loss_weight: 1 reduction_param { operation: SUMSQ } }\n"
/* x -> conv -> a -> the layer -> b -> conv -> c -> loss */
#define CHAIN(type, rest)                                                                          \
    INPUT("x", "2, 3, 6, 6") CONV("c1", "x", "a") LAYER(type, rest) CONV("c2", "b", "c") SUM("c")

static const char *const nets[] = {
    CHAIN("MVN", ""),
    CHAIN("Deconvolution", "convolution_param { num_output: 4 kernel_size: 2 stride: 2 }"),
    CHAIN("PReLU", ""),
    CHAIN("ELU", ""),
    CHAIN("TanH", ""),
    CHAIN("Sigmoid", ""),
    CHAIN("Exp", ""),
    CHAIN("Swish", ""),
    CHAIN("ReLU6", ""),
    CHAIN("BNLL", ""),
    CHAIN("Clip", "clip_param { min: -1 max: 1 }"),
    CHAIN("AbsVal", ""),
    CHAIN("Power", "power_param { power: 2 scale: 0.5 shift: 1 }"),
    CHAIN("Power", "power_param { scale: 0.5 }"),
    CHAIN("LRN", "lrn_param { local_size: 3 alpha: 0.5 }"),
    CHAIN("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"),
    CHAIN("BatchNorm", ""),
    CHAIN("Scale", "scale_param { bias_term: true }"),
    CHAIN("Bias", ""),
    CHAIN("Dropout", ""),
    CHAIN("Softmax", ""),
    CHAIN("Pooling", "pooling_param { kernel_size: 3 stride: 2 }"),
    CHAIN("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }"),
    CHAIN("Tile", "tile_param { tiles: 2 }"),
    CHAIN("Interp", "interp_param { height: 9 width: 9 }"),
    CHAIN("ShuffleChannel", "shuffle_channel_param { group: 2 }"),
    CHAIN("Im2col", "convolution_param { kernel_size: 2 }"),
    CHAIN("Reshape", "reshape_param { shape { dim: 0 dim: 3 dim: -1 dim: 6 } }"),
    /* in place, one behind the other */
    INPUT("x", "2, 3, 6, 6")
        CONV("c1", "x", "a") "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'a' }\n"
                             "layer { name: 'g' type: 'Scale' bottom: 'a' top: 'a' scale_param { "
                             "bias_term: true } }\n"
                             "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'a' }\n"
                             "layer { name: 'd' type: 'Dropout' bottom: 'a' top: 'a' }\n" CONV(
                                 "c2", "a", "c") SUM("c"),
    /* a BatchNorm whose top is another */
    INPUT("x", "2, 3, 6, 6")
        CONV("c1", "x", "a") "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'b' }\n"
                             "layer { name: 'g' type: 'Scale' bottom: 'b' top: 'b' scale_param { "
                             "bias_term: true } }\n" CONV("c2", "b", "c") SUM("c"),
    /* branches: sums, concatenations, slices, one that nobody learns from */
    INPUT("x", "2, 3, 6, 6") CONV("c1", "x", "a") CONV("c2", "a", "b") CONV(
        "c3", "a", "d") "layer { name: 'e' type: 'Eltwise' bottom: 'b' bottom: 'd' top: 'e' }\n"
                        "layer { name: 'r' type: 'ReLU' bottom: 'e' top: 'e' }\n"
                        "layer { name: 'k' type: 'Concat' bottom: 'a' bottom: 'e' top: 'k' }\n"
                        "layer { name: 'v' type: 'Slice' bottom: 'k' top: 'v1' top: 'v2' "
                        "slice_param { slice_point: 5 } }\n"
                        "layer { name: 'q' type: 'Silence' bottom: 'v1' }\n" CONV("c4", "v2", "c")
                            SUM("c") SUM("k"),
    INPUT("x", "2, 3, 6, 6") CONV("c1", "x", "a")
        CONV("c2", "a", "b") "layer { name: 'e' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'e' "
                             "eltwise_param { operation: PROD } }\n"
                             "layer { name: 'm' type: 'Eltwise' bottom: 'e' bottom: 'b' top: 'm' "
                             "eltwise_param { operation: MAX } }\n" CONV("c4", "m", "c") SUM("c"),
    /* a convolution of two blobs, of which only one matters */
    INPUT("x", "2, 3, 6, 6") CONV("c1", "x", "a") CONV(
        "c2", "x",
        "b") "layer { name: 'two' type: 'Convolution' bottom: 'a' bottom: 'b' top: 'a2' top: 'b2' "
             "convolution_param { num_output: 6 kernel_size: 3 pad: 1 weight_filler { type: "
             "'xavier' } } }\n" CONV("c3", "a2", "c") SUM("c"),
    /* a window, gathered samples, the pyramid, a fully connected end with its factors */
    INPUT("x", "2, 3, 6, 6") INPUT("w", "2, 1, 4, 4") INPUT("i", "3") INPUT("label", "3")
        CONV("c1", "x",
             "a") "layer { name: 'w2' type: 'Crop' bottom: 'a' bottom: 'w' top: 'b' crop_param { "
                  "offset: 1 } }\n"
                  "layer { name: 'i2' type: 'BatchReindex' bottom: 'b' bottom: 'i' top: 'd' }\n"
                  "layer { name: 'p' type: 'SPP' bottom: 'd' top: 'p' spp_param { pyramid_height: "
                  "2 } }\n"
                  "layer { name: 'f' type: 'InnerProduct' bottom: 'p' top: 'f' inner_product_param "
                  "{ num_output: 7 "
                  "weight_filler { type: 'xavier' } } }\n"
                  "layer { name: 'fr' type: 'ReLU' bottom: 'f' top: 'f' }\n"
                  "layer { name: 'f2' type: 'InnerProduct' bottom: 'f' top: 'y' "
                  "inner_product_param { num_output: 2 "
                  "weight_filler { type: 'xavier' } } }\n"
                  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'y' bottom: 'label' top: "
                  "'loss' }\n"
                  "layer { name: 'acc' type: 'Accuracy' bottom: 'y' bottom: 'label' top: 'acc' }\n"
                  "layer { name: 'h' type: 'HingeLoss' bottom: 'y' bottom: 'label' top: 'h' }\n"
                  "layer { name: 'z' type: 'ArgMax' bottom: 'y' top: 'z' }\n",
    INPUT("i", "5") INPUT(
        "t", "5, 4") "layer { name: 'e' type: 'Embed' bottom: 'i' top: 'e' embed_param { "
                     "num_output: 4 input_dim: 2 "
                     "weight_filler { type: 'xavier' } } }\n"
                     "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: "
                     "5 dim: 4 } } }\n"
                     "layer { name: 'm' type: 'Eltwise' bottom: 'e' bottom: 'p' top: 'm' }\n"
                     "layer { name: 'c' type: 'SigmoidCrossEntropyLoss' bottom: 'm' bottom: 't' "
                     "top: 'c' }\n"
                     "layer { name: 'u' type: 'EuclideanLoss' bottom: 'm' bottom: 't' top: 'u' }\n",
};

START_TEST(nets_compute_the_same_in_shared_memory)
{
    for (int train = 0; train < 2; train++) {
        struct made apart, shared;
        ck_assert_msg(make_net(&apart, nets[_i], train, NULL, NULL) == 0, "%s", error_text());
        ck_assert_msg(make_net(&shared, nets[_i], train, NULL, NULL) == 0, "%s", error_text());
        if (build(&apart, true) && build(&shared, false)) {
            expect_apart(shared.net);
            expect_same(&apart, &shared, NULL, nets[_i]);
        }
        unmake_net(&apart);
        unmake_net(&shared);
    }
}
END_TEST

static const struct net_piece *find_piece(const struct net *net, const char *blob, bool grad)
{
    const struct net_memory_plan *plan = net_memory_plan(net);

    for (int i = 0; i < plan->npieces; i++)
        if (plan->pieces[i].grad == grad && !strcmp(plan->pieces[i].blob->name, blob))
            return &plan->pieces[i];
    ck_abort_msg("no piece of %s", blob);
    return NULL;
}

static void expect_always(const struct net *net, const char *blob, bool grad, bool always)
{
    const struct net_piece *piece = find_piece(net, blob, grad);

    ck_assert_msg((piece->begin == 0 && piece->end == net_memory_plan(net)->nsteps - 1) == always,
                  "%s lives from %d to %d", blob, piece->begin, piece->end);
}

/* Other ranks may still be sent them when the next pass runs. */
START_TEST(factors_share_their_memory_with_nobody)
{
    struct made made;

    open_model(&made, CIFAR10_QUICK, true, 2);
    ck_assert(build(&made, false));
    expect_always(made.net, "pool3", false, true); /* the input of ip1 */
    expect_always(made.net, "ip1", true, true);
    expect_always(made.net, "ip2", true, true);
    expect_always(made.net, "data", false, true);
    expect_always(made.net, "conv2", true, false);
    unmake_net(&made);
}
END_TEST

START_TEST(what_is_kept_or_put_out_lives_to_the_end)
{
    struct made made;

    open_model(&made, CIFAR10_QUICK, false, 0);
    net_keep(made.net, net_find_blob(made.net, "pool1"));
    ck_assert(build(&made, false));
    expect_always(made.net, "pool1", false, true);
    expect_always(made.net, "pool2", false, false);
    ck_assert_int_eq(find_piece(made.net, "accuracy", false)->end, made.net->nlayers - 1);
    ck_assert_int_eq(find_piece(made.net, "loss", false)->end, made.net->nlayers - 1);
    unmake_net(&made);
}
END_TEST

SUITE("memory of blobs")
{
    TCase *tc = suite_case(suite, "memory of blobs");

    cases = value_cases_read(NULL);
    if (!cases)
        exit(EXIT_FAILURE);
    tcase_add_checked_fixture(tc, open_engine, close_engine);
    suite_table(tc, pieces_that_live_at_once_lie_apart, models);
    suite_table(tc, models_compute_the_same_in_shared_memory, models);
    tcase_add_loop_test(tc, layers_compute_the_same_in_shared_memory, 0, VALUE_CASES);
    suite_table(tc, nets_compute_the_same_in_shared_memory, nets);
    tcase_add_test(tc, factors_share_their_memory_with_nobody);
    tcase_add_test(tc, what_is_kept_or_put_out_lives_to_the_end);
}
