/* The replay engine and its profiles: files as written and as people write them, times never too
 * short, no memory for activations, and a wire that shrinks alone. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "device/codec.h"
#include "engine/replay/profile.h"
#include "plan/plan.h"
#include "sync/sync.h"
#include "tests/net/test_net_common.h"
#include "tests/suite.h"
#include "util/clock.h"

static char file[] = "/tmp/poseidon_replay_XXXXXX";

static const char *write_file(const char *text)
{
    int fd;

    strcpy(file + sizeof file - 7, "XXXXXX");
    fd = mkstemp(file);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return file;
}

static int read_text(const char *text, struct profile *profile)
{
    int status = profile_read(write_file(text), profile);

    unlink(file);
    return status;
}

START_TEST(profile_skips_comments_and_blank_lines)
{
    struct profile profile;

    ck_assert_msg(
        read_text("# from a GPU\n\nlayer,type,forward_s,backward_s\r\n"
                  "conv1,Convolution,1e-3,0.002\n# half way\n\"a,\"\"b\"\"\",ReLU,0,0.5\n",
                  &profile) == 0,
        "%s", error_text());
    ck_assert_int_eq(profile.nlayers, 2);
    ck_assert_double_eq(profile_find(&profile, "conv1")->forward, 1e-3);
    ck_assert_double_eq(profile_find(&profile, "conv1")->backward, 0.002);
    ck_assert_double_eq(profile_find(&profile, "a,\"b\"")->backward, 0.5);
    ck_assert_ptr_null(profile_find(&profile, "conv2"));
    profile_free(&profile);
}
END_TEST

static const struct {
    const char *text, *says;
} bad[] = {
    {"", "expected the header 'layer,type,forward_s,backward_s', found an empty file"},
    {"conv1,Convolution,1,2\n", ":1: expected the header"},
    {"layer,type,forward_s,backward_s\nconv1,Convolution,1\n", ":2: expected 4 fields"},
    {"layer,type,forward_s,backward_s\nconv1,Convolution,1,2,3\n", "found 5"},
    {"layer,type,forward_s,backward_s\n#\nconv1,C,fast,2\n",
     ":3: layer 'conv1': forward_s must be seconds from 0 to 100000, found 'fast'"},
    {"# input 0 1 28 28\nlayer,type,forward_s,backward_s\n",
     ":1: the input's first axis must be a batch from 1 to"},
    {"layer,type,forward_s,backward_s\nconv1,C,1,-2\n", "backward_s must be seconds"},
    {"layer,type,forward_s,backward_s\nconv1,C,1,nan\n", "found 'nan'"},
    {"layer,type,forward_s,backward_s\nconv1,C,1,2 s\n", "found '2 s'"},
    {"layer,type,forward_s,backward_s\nconv1,C,1,1e6\n", "found '1e6'"},
    {"layer,type,forward_s,backward_s\na,C,1,2\na,C,1,2\n", ":3: layer 'a' is in line 2 already"},
    {"layer,type,forward_s,backward_s\n,C,1,2\n", "expected a layer's name"},
    {"layer,type,forward_s,backward_s\n\"a,C,1,2\n", "a quoted field must end in a quote"},
    {"layer,type,forward_s,backward_s\n\"a\"b,C,1,2\n", "a quoted field must end in a quote"},
};

START_TEST(profile_knows_its_batch)
{
    struct profile profile;

    ck_assert_int_eq(
        read_text("# input 64 1 28 28 (50176)\nlayer,type,forward_s,backward_s\na,C,1,2\n",
                  &profile),
        0);
    ck_assert_int_eq(profile.batch, 64);
    profile_free(&profile);
    ck_assert_int_eq(
        read_text("# input of my own\nlayer,type,forward_s,backward_s\na,C,1,2\n", &profile), 0);
    ck_assert_int_eq(profile.batch, 0);
    profile_free(&profile);
}
END_TEST

START_TEST(profile_says_what_is_wrong_where)
{
    struct profile profile;

    ck_assert_int_ne(read_text(bad[_i].text, &profile), 0);
    ck_assert_msg(strstr(error_text(), bad[_i].says) != NULL, "'%s' lacks '%s'", error_text(),
                  bad[_i].says);
    ck_assert_msg(strstr(error_text(), file) != NULL, "'%s' lacks the file", error_text());
}
END_TEST

START_TEST(profile_reads_what_it_writes)
{
    static const char *const names[] = {"conv1", "a,b", "say \"hi\"", "#1", "with space", "*"};
    struct strbuf text = {.data = NULL};
    struct profile profile;

    profile_begin(&text);
    for (int i = 0; i < 6; i++)
        profile_add(&text, names[i], "T,\"", 1e-9 * i, 0.123456789);
    ck_assert_msg(read_text(strbuf_text(&text), &profile) == 0, "%s", error_text());
    ck_assert_int_eq(profile.nlayers, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_str_eq(profile.layers[i].name, names[i]);
        ck_assert_str_eq(profile.layers[i].type, "T,\"");
        ck_assert_double_eq_tol(profile.layers[i].forward, 1e-9 * i, 1e-20);
        ck_assert_double_eq(profile.layers[i].backward, 0.123456789);
    }
    profile_free(&profile);
    strbuf_free(&text);
}
END_TEST

/* ---- the engine ---- */

static const char net_text[] =
    "name: 'n' layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 4 dim: 6 } } } "
    "layer { name: 'l' type: 'Input' top: 'l' input_param { shape { dim: 4 } } } "
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'd' top: 'ip1' "
    "  inner_product_param { num_output: 50000 weight_filler { type: 'gaussian' } } } "
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' } "
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' "
    "  inner_product_param { num_output: 3 } } "
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'l' top: 'loss' } ";

static const char times[] = "layer,type,forward_s,backward_s\n"
                            "ip1,InnerProduct,0.0003,0.002\nrelu,ReLU,0.00001,0.00001\n"
                            "ip2,InnerProduct,0.00002,0.00003\nloss,SoftmaxWithLoss,0,0\n";
#define PASS_SECONDS (0.0003 + 0.002 + 2 * 0.00001 + 0.00002 + 0.00003)

static void open_replay(const char *text, struct engine *engine)
{
    struct engine_options options = {.profile = write_file(text)};

    ck_assert_msg(engine_open("replay", &options, engine) == 0, "%s", error_text());
    unlink(file);
}

START_TEST(engine_wants_a_profile)
{
    struct engine_options options = {.threads = 1};
    struct engine engine;

    ck_assert_int_ne(engine_open("replay", &options, &engine), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "--profile=FILE.csv"));
    options.profile = "/nowhere/profile.csv";
    ck_assert_int_ne(engine_open("replay", &options, &engine), 0);
    ck_assert_ptr_nonnull(strstr(error_text(), "profile: /nowhere/profile.csv: no such file"));
    ck_assert(engine_is_blank("replay"));
    ck_assert(!engine_is_blank("cpu"));
    ck_assert(!engine_is_blank("none such"));
}
END_TEST

START_TEST(engine_names_the_layer_that_the_profile_lacks)
{
    struct engine engine;
    struct made made;

    open_replay("layer,type,forward_s,backward_s\nip1,InnerProduct,0,0\nip2,InnerProduct,0,0\n",
                &engine);
    ck_assert_int_eq(make_net(&made, net_text, true, NULL, NULL), 0);
    ck_assert_int_ne(net_build(made.net, &engine, 1), 0);
    ck_assert_msg(strstr(error_text(), "no line for layer 'relu' (ReLU)") != NULL, "%s",
                  error_text());
    unmake_net(&made);
    engine_close(&engine);
}
END_TEST

START_TEST(passes_take_no_less_than_the_profile_says)
{
    enum { PASSES = 20 };
    struct pass pass = {.seed = 1};
    struct engine engine;
    struct made made;
    double loss, start;

    open_replay(times, &engine);
    ck_assert_int_eq(make_net(&made, net_text, true, NULL, NULL), 0);
    ck_assert_msg(net_build(made.net, &engine, 1) == 0, "%s", error_text());
    start = clock_seconds();
    for (int i = 0; i < PASSES; i++) {
        ck_assert_int_eq(net_forward(made.net, &pass, NULL, &loss), 0);
        ck_assert_double_eq(loss, 0);
        ck_assert_int_eq(net_backward(made.net, &pass, true, NULL), 0);
    }
    /* a nap that ends late shortens the next one, never by more than it was late */
    ck_assert_double_ge(clock_seconds() - start, PASSES * PASS_SECONDS);
    unmake_net(&made);
    engine_close(&engine);
}
END_TEST

START_TEST(a_layer_that_another_takes_in_takes_its_time)
{
    static const char text[] =
        "name: 'n' layer { name: 'd' type: 'Input' top: 'd' input_param { shape { dim: 4 dim: 2 "
        "  dim: 3 dim: 3 } } } "
        "layer { name: 'bn' type: 'BatchNorm' bottom: 'd' top: 'd' } "
        "layer { name: 'scale' type: 'Scale' bottom: 'd' top: 's' scale_param { bias_term: true } "
        "} ";
    struct pass pass = {.seed = 1};
    struct engine engine;
    struct made made;
    double loss, start;

    open_replay("layer,type,forward_s,backward_s\nbn,BatchNorm,0.004,0\nscale,Scale,0.002,0\n",
                &engine);
    ck_assert_int_eq(make_net(&made, text, true, NULL, NULL), 0);
    ck_assert_msg(net_build(made.net, &engine, 1) == 0, "%s", error_text());
    start = clock_seconds();
    ck_assert_int_eq(net_forward(made.net, &pass, NULL, &loss), 0);
    ck_assert_double_ge(clock_seconds() - start, 0.006);
    unmake_net(&made);
    engine_close(&engine);
}
END_TEST

START_TEST(only_parameters_have_memory)
{
    struct engine engine;
    struct made made;
    const float *bottom, *top_grad;
    size_t bytes;

    open_replay(times, &engine);
    ck_assert_int_eq(make_net(&made, net_text, true, NULL, NULL), 0);
    ck_assert_int_eq(net_build(made.net, &engine, 1), 0);
    bytes = net_memory(made.net) - 2 * made.net->elems * sizeof(float);
    ck_assert_uint_lt(bytes, 4 * 50000); /* less than one activation of ip1 for one sample */
    for (int g = 0; g < made.net->ngroups; g++) {
        const struct group *group = &made.net->groups[g];
        ck_assert(group->factorable);
        net_factors(made.net, g, &bottom, &top_grad);
        for (int64_t i = 0; i < group->k * group->n; i++)
            ck_assert_float_eq(bottom[i], 0);
        for (int64_t i = 0; i < group->k * group->m; i++)
            ck_assert_float_eq(top_grad[i], 0);
    }
    for (size_t i = 0; i < made.net->elems; i++)
        ck_assert(made.net->values[i] == 0 && made.net->grads[i] == 0);
    unmake_net(&made);
    engine_close(&engine);
}
END_TEST

START_TEST(product_takes_the_time_of_its_flops)
{
    struct engine engine;
    double start;

    /* 1 s per GFLOP: 2 * 100 * 100 * 100 flops are 2 ms */
    open_replay("layer,type,forward_s,backward_s\n*,GEMM,1,0\n", &engine);
    start = clock_seconds();
    ck_assert_int_eq(engine.device.i->gemm(engine.context, true, false, 100, 100, 100, 1, NULL, 100,
                                           NULL, 100, 0, NULL, 100),
                     0);
    ck_assert_double_ge(clock_seconds() - start, 0.002);
    engine_close(&engine);
}
END_TEST

START_TEST(update_takes_the_time_of_its_parameters)
{
    struct engine engine;
    double start;

    /* 2 s for 10^9 parameters: 2 ms for a million, wherever they would be */
    open_replay("layer,type,forward_s,backward_s\n*update,SGD,2,0\n", &engine);
    start = clock_seconds();
    ck_assert_int_eq(engine.device.i->services->update(engine.context, NULL, NULL, NULL, NULL, 0,
                                                       1000000, DEVICE_IN_TURN),
                     0);
    ck_assert_double_ge(clock_seconds() - start, 0.002);
    engine_close(&engine);
}
END_TEST

START_TEST(gradients_are_copied_encoded_and_measured_as_on_the_host)
{
    float x[32], residual[32] = {0}, expected_residual[32] = {0}, out[16], expected[16];
    double sum = 0, expected_sum = 0;
    struct engine engine;

    open_replay("layer,type,forward_s,backward_s\n*update,SGD,2,0\n", &engine);
    for (int i = 0; i < 32; i++)
        x[i] = 1 + (float)i / 1000;
    ck_assert(engine.device.i->copies == &device_host_copies && !engine.device.i->own_memory);
    codec_bf16.encode(x, expected_residual, 1, 32, expected);
    ck_assert_int_eq(engine.device.i->services->encode(engine.context, DEVICE_BF16, x, residual, 1,
                                                       32, out, DEVICE_IN_TURN, NULL),
                     0);
    ck_assert_int_eq(memcmp(out, expected, sizeof out), 0);
    ck_assert_int_eq(memcmp(residual, expected_residual, sizeof residual), 0);
    ck_assert_int_eq(engine.device.i->services->sumsq(engine.context, x, 0.5f, 32, &sum), 0);
    ck_assert_int_eq(device_host_services.sumsq(NULL, x, 0.5f, 32, &expected_sum), 0);
    ck_assert(sum == expected_sum && sum > 8);
    engine_close(&engine);
}
END_TEST

START_TEST(dilated_product_takes_the_time_of_its_layer)
{
    struct engine_options options = {.profile = write_file(times), .dilate = 10};
    struct engine engine;
    struct made made;
    FILE *more = fopen(file, "a");
    double start;

    ck_assert_ptr_nonnull(more);
    fputs("*,GEMM,1,0\n", more);
    fclose(more);
    ck_assert_msg(engine_open("replay", &options, &engine) == 0, "%s", error_text());
    unlink(file);
    ck_assert_int_eq(make_net(&made, net_text, true, NULL, NULL), 0);
    ck_assert_int_eq(net_build(made.net, &engine, 1), 0);
    /* ip1 is 50000 x 6, which a wire of a tenth makes 5000 x 1: still 2 * 50000 * 6 * 8 flops */
    start = clock_seconds();
    ck_assert_int_eq(engine.device.i->gemm(engine.context, true, false, 5000, 1, 8, 1, NULL, 6,
                                           NULL, 6, 0, NULL, 1),
                     0);
    ck_assert_double_ge(clock_seconds() - start, 2e-9 * 50000 * 6 * 8);
    unmake_net(&made);
    engine_close(&engine);
}
END_TEST

/* ---- dilation ---- */

static const struct group groups[] = {
    {.name = "conv", .begin = 0, .elems = 100000, .nparams = 1, .trains = true},
    {.name = "fc",
     .begin = 100000,
     .elems = 4000 * 2001,
     .nparams = 2,
     .trains = true,
     .factorable = true,
     .m = 4000,
     .n = 2000,
     .k = 32},
    {.name = "odd", .begin = 8104000, .elems = 7, .nparams = 1, .trains = true},
};

static struct plan *plan_of(const char *comm, int by)
{
    struct plan_options options = {.registry = sync_schemes,
                                   .nranks = 4,
                                   .sizes.chunk = 1 << 16,
                                   .iter_size = 1,
                                   .dilate = by};
    struct plan *plan;

    ck_assert_int_eq(comm_parse(sync_schemes, "--comm", comm, &options.comm), 0);
    ck_assert_int_eq(plan_create(&options, 3, groups, &plan), 0);
    return plan;
}

START_TEST(dilation_divides_bytes_and_keeps_schemes)
{
    static const char *const modes[] = {"ps", "sfb", "paper"};
    struct plan *full = plan_of(modes[_i], 1), *dilated = plan_of(modes[_i], 50);

    for (int g = 0; g < 3; g++) {
        double whole = 0, part = 0;
        ck_assert_ptr_eq(full->buckets[g].scheme, dilated->buckets[g].scheme);
        ck_assert_uint_eq(full->buckets[g].begin, dilated->buckets[g].begin);
        for (int r = 0; r < 4; r++) {
            whole += (double)plan_traffic(full, g, r).sent;
            part += (double)plan_traffic(dilated, g, r).sent;
        }
        if (g < 2)
            ck_assert_double_eq_tol(part / whole, 1.0 / 50, 1e-3 / 50);
        else
            ck_assert_uint_eq(dilated->buckets[g].elems, 1); /* never nothing */
    }
    plan_destroy(full);
    plan_destroy(dilated);
}
END_TEST

SUITE("replay")
{
    TCase *tests = suite_case(suite, "replay");

    tcase_add_test(tests, profile_skips_comments_and_blank_lines);
    tcase_add_test(tests, profile_knows_its_batch);
    tcase_add_loop_test(tests, profile_says_what_is_wrong_where, 0, sizeof bad / sizeof *bad);
    tcase_add_test(tests, profile_reads_what_it_writes);
    tcase_add_test(tests, engine_wants_a_profile);
    tcase_add_test(tests, engine_names_the_layer_that_the_profile_lacks);
    tcase_add_test(tests, passes_take_no_less_than_the_profile_says);
    tcase_add_test(tests, a_layer_that_another_takes_in_takes_its_time);
    tcase_add_test(tests, only_parameters_have_memory);
    tcase_add_test(tests, product_takes_the_time_of_its_flops);
    tcase_add_test(tests, update_takes_the_time_of_its_parameters);
    tcase_add_test(tests, gradients_are_copied_encoded_and_measured_as_on_the_host);
    tcase_add_test(tests, dilated_product_takes_the_time_of_its_layer);
    tcase_add_loop_test(tests, dilation_divides_bytes_and_keeps_schemes, 0, 3);
}
