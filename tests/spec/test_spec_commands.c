/* The commands that look at specs, run as a user runs them: standard output, standard error, exit
 * status. None of them may touch data: the sources named here do not exist. */
#include <check.h>
#include <hdf5.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/suite.h"

static char folder[] = "/tmp/poseidon_commands_XXXXXX";

struct ran {
    int status;
    char out[32768], err[8192];
};

static void read_file(const char *name, char *text, size_t size)
{
    FILE *file = fopen(name, "rb");
    size_t length;

    ck_assert_msg(file != NULL, "%s is missing", name);
    length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

/* Runs poseidon with these arguments in the test's own folder. */
static const struct ran *run(const char *arguments)
{
    static struct ran ran;
    const char *program = getenv("POSEIDON");
    char command[2048];
    int status;

    ck_assert_msg(program != NULL, "POSEIDON is not set: run this through make check");
    snprintf(command, sizeof command, "'%s' %s >stdout 2>stderr", program, arguments);
    status = system(command);
    ck_assert_msg(WIFEXITED(status), "%s: ended by signal %d", arguments, WTERMSIG(status));
    ran.status = WEXITSTATUS(status);
    read_file("stdout", ran.out, sizeof ran.out);
    read_file("stderr", ran.err, sizeof ran.err);
    return &ran;
}

static void assert_ran(const struct ran *ran, int status, const char *out, const char *err)
{
    ck_assert_str_eq(ran->err, err);
    ck_assert_str_eq(ran->out, out);
    ck_assert_int_eq(ran->status, status);
}

static const char net[] =
    "name: 'small'\n"
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: '/nowhere/train' batch_size: 4 backend: LMDB }\n"
    "  transform_param { mean_file: '/nowhere/mean' crop_size: 8 } include { phase: TRAIN } }\n"
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: '/nowhere/test' batch_size: 2 } include { phase: TEST } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
    "  convolution_param { num_output: 2 kernel_size: 3 } include { not_stage: 'flat' } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip'\n"
    "  inner_product_param { num_output: 5 } include { not_stage: 'flat' } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 5 } include { stage: 'flat' max_level: 1 } }\n"
    "layer { name: 'acc' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'acc'\n"
    "  include { phase: TEST } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'a_loss' }\n";

START_TEST(summary_is_a_table)
{
    write_file("net.prototxt", net);
    assert_ran(run("summary --model=net.prototxt"), 0,
               "layer  type             top     shape          parameters    FLOPs\n"
               "------------------------------------------------------------------\n"
               "data   Data             data    4 x 3 x 8 x 8\n"
               "                        label   4\n"
               "conv   Convolution      conv    4 x 2 x 6 x 6          56  15.55 k\n"
               "ip     InnerProduct     ip      4 x 5                 365   2.88 k\n"
               "loss   SoftmaxWithLoss  a_loss  scalar                         100\n"
               "------------------------------------------------------------------\n"
               "total                                                 421  18.53 k\n",
               "layer 'data': assuming images of 3 channels, 8 x 8 pixels (crop_size); "
               "--input-shape=C,H,W says otherwise\n");
}
END_TEST

/* A file of the source tree, whole. */
static const char *golden(const char *name)
{
    static char text[32768];
    char path[1024];

    ck_assert_msg(getenv("abs_top_srcdir") != NULL, "abs_top_srcdir is not set");
    snprintf(path, sizeof path, "%s/tests/data/spec/%s", getenv("abs_top_srcdir"), name);
    read_file(path, text, sizeof text);
    return text;
}

START_TEST(summary_as_json_lists_splits_and_sorted_outputs)
{
    write_file("net.prototxt", net);
    assert_ran(run("summary --model net.prototxt --phase TEST --input-shape=1,4,5 --json"), 0,
               golden("summary.json"), "");
}
END_TEST

START_TEST(summary_obeys_stage_level_and_batch)
{
    const char *found;

    write_file("net.prototxt", net);
    found = run("summary --model=net.prototxt --stage=flat,x --level=1 --batch=3 --json")->out;
    ck_assert_ptr_null(strstr(found, "Convolution"));
    ck_assert_ptr_nonnull(strstr(found, "\"shape\": [3, 3, 8, 8]"));
    ck_assert_ptr_nonnull(strstr(found, "\"parameters\": 965,"));
    write_file("net.prototxt", "input: 'a' input: 'b' input_dim: [10, 3, 4, 5, 7, 1, 1, 1]");
    found = run("summary --model=net.prototxt --batch=2 --json")->out;
    ck_assert_ptr_nonnull(strstr(found, "\"shape\": [2, 3, 4, 5]"));
    ck_assert_ptr_nonnull(strstr(found, "\"shape\": [7, 1, 1, 1]"));
}
END_TEST

static const struct {
    const char *arguments, *err;
} summary_errors[] = {
    {"", "poseidon summary: Need a model definition: --model=FILE\n"},
    {"--model=none", "poseidon summary: File not found: none\n"},
    {"--model=net.prototxt --phase=BOTH",
     "poseidon summary: --phase=BOTH is not known (TRAIN or TEST)\n"},
    {"--model=net.prototxt --input-shape=3,224",
     "poseidon summary: --input-shape wants C,H,W such as 3,224,224, found '3,224'\n"},
    {"--model=net.prototxt --level=2 --stage=flat",
     "poseidon summary: net.prototxt:15: layer 'loss': Unknown bottom blob 'ip' (layer 'loss', "
     "bottom index 0); layer 'ip' (line 9) makes it, but only without stage 'flat'; see --stage, "
     "or train_state "
     "and test_state in a solver\n"},
};

START_TEST(summary_says_what_is_wrong_and_prints_nothing)
{
    char arguments[256];

    write_file("net.prototxt", net);
    snprintf(arguments, sizeof arguments, "summary %s", summary_errors[_i].arguments);
    assert_ran(run(arguments), 1, "", summary_errors[_i].err);
}
END_TEST

static const struct {
    const char *net, *err;
} input_errors[] = {
    {"name: 'n'\ninput: 'y'\ninput_shape { dim: 1 dim: -3 }",
     "net.prototxt:2: layer 'input' (Input): the shape of 'y' has size -3 on axis 1; expected at "
     "least 1"},
    {"name: 'n'\ninput: 'y'\ninput_dim: [1, 2, -7, 4]",
     "net.prototxt:2: layer 'input' (Input): the shape of 'y' has size -7 on axis 2; expected at "
     "least 1"},
    {"\ninput: 'x'\ninput: 'x'\ninput_shape { dim: 1 }\ninput_shape { dim: 1 }",
     "net.prototxt:3: layer 'input': Top blob 'x' produced by multiple sources: expected one, "
     "found layer "
     "'input' (line 2) before, which names it twice"},
    {"layer { name: 'd' top: 'x' }\ninput: 'x'\ninput_shape { dim: 1 }",
     "net.prototxt:1: layer 'd': Top blob 'x' produced by multiple sources: expected one, found "
     "layer 'input' "
     "(line 2) before"},
    {"\ninput: 'x'\ninput: 'y'\ninput_dim: [1, 2, 3, 4]",
     "net.prototxt:4: expected four input_dim per input (8), found 4"},
    {"\ninput: 'xx'\nlayer { name: 'r' type: 'ReLU' bottom: 'xx' top: 'y' }",
     "net.prototxt:3: layer 'r': Unknown bottom blob 'xx' (layer 'r', bottom index 0); "
     "net.prototxt:2: input "
     "\"xx\" is left out: no input_shape or input_dim gives its size"},
    {"input: 'xx'\nlayer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' }",
     "net.prototxt:2: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0)"},
};

START_TEST(a_solver_given_as_a_net_is_called_one_and_a_net_given_as_a_solver)
{
    write_file("net.prototxt", net);
    write_file("solver.prototxt",
               "net: 'net.prototxt'\nbase_lr: 1\nlr_policy: 'fixed'\ndebug_info: true\n");
    assert_ran(
        run("summary --model=solver.prototxt"), 1, "",
        "poseidon summary: solver.prototxt: expected a net, found a solver, which only names one; "
        "--solver (of poseidon train) takes a solver\n");
    ck_assert_ptr_nonnull(
        strstr(run("train --solver=net.prototxt")->err,
               "net.prototxt: expected a solver, found a net, which a solver names (net: "
               "\"net.prototxt\"); "
               "--model (of poseidon summary, plan, time and others) takes a net\n"));
    write_file("outer.prototxt",
               "net: 'solver.prototxt' base_lr: 1 lr_policy: 'fixed' max_iter: 1\n");
    ck_assert_ptr_nonnull(
        strstr(run("train --solver=outer.prototxt")->err,
               "outer.prototxt: net: solver.prototxt: expected a net, found a solver"));
    /* a mistake in a file of the right kind stays one */
    write_file("solver.prototxt", "net: 'net.prototxt'\nbase_rl: 1\nlayer { }\n");
    ck_assert_ptr_nonnull(
        strstr(run("train --solver=solver.prototxt")->err, "did you mean \"base_lr\"?"));
    assert_ran(run("summary --model=none"), 1, "", "poseidon summary: File not found: none\n");
}
END_TEST

START_TEST(errors_in_net_level_inputs_have_their_line)
{
    char err[512];

    write_file("net.prototxt", input_errors[_i].net);
    snprintf(err, sizeof err, "poseidon summary: %s\n", input_errors[_i].err);
    assert_ran(run("summary --model=net.prototxt"), 1, "", err);
}
END_TEST

/* Their own fields stop the reading before anybody could ask for their type. */
START_TEST(layers_of_forks_are_refused_by_type_and_place_whatever_fields_they_have)
{
    static const char *const commands[] = {
        "summary --model=net.prototxt", "upgrade net.prototxt out",
        "draw --model=net.prototxt out.svg", "train --solver=solver.prototxt"};

    write_file("solver.prototxt",
               "net: 'net.prototxt' base_lr: 1 lr_policy: 'fixed' max_iter: 1\n");
    write_file(
        "net.prototxt",
        "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 dim: 2 } } }\n"
        "layer { name: 'box' type: 'PriorBox' bottom: 'x' top: 'box'\n"
        "  prior_box_param { min_size: 30 } }\n");
    for (int i = 0; i < 4; i++) {
        const struct ran *ran = run(commands[i]);

        ck_assert_int_eq(ran->status, 1);
        ck_assert_ptr_nonnull(strstr(ran->err,
                                     "net.prototxt:3:3: message \"caffe.LayerParameter\" (layer "
                                     "'box' of type PriorBox) has no field "
                                     "\"prior_box_param\""));
        ck_assert_ptr_nonnull(strstr(ran->err,
                                     "\nnet.prototxt:2: layer 'box' (PriorBox): layer type "
                                     "PriorBox is not supported: it belongs to a fork of Caffe for "
                                     "object detection (SSD) (known types: "
                                     "AbsVal, Accuracy, "));
        ck_assert_ptr_nonnull(strstr(ran->err, ", Threshold, Tile)\n"));
    }
}
END_TEST

START_TEST(an_assumed_input_is_named_where_it_does_not_fit)
{
    write_file(
        "net.prototxt",
        "layer { name: 'd' type: 'Data' top: 'pair' data_param { source: 'x' batch_size: 1 } }\n"
        "layer { name: 's' type: 'Slice' bottom: 'pair' top: 'a' top: 'b' }\n");
    assert_ran(
        run("summary --model=net.prototxt"), 1, "",
        "poseidon summary: net.prototxt:2: layer 's' (Slice): 2 tops do not divide axis 1 of size "
        "3 evenly; slice_point would say where to cut\n"
        "layer 'd': assuming images of 3 channels, 224 x 224 pixels; --input-shape=C,H,W says "
        "otherwise\n");
    ck_assert_int_eq(run("summary --model=net.prototxt --input-shape=2,8,8")->status, 0);
}
END_TEST

START_TEST(an_assumed_shape_of_labels_is_named_where_it_does_not_fit)
{
#define LABELS                                                                                     \
    "assuming one value a sample for 'label': the HDF5 files, which are not opened here, may "     \
    "tell another shape"
    static const char text[] =
        "layer { name: 'd' type: 'HDF5Data' top: 'x' top: 'label' hdf5_data_param { source: 'x' "
        "batch_size: 4 } }\n"
        "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param { "
        "num_output: %d } }\n"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'l' }\n";
    char file[1024];

    snprintf(file, sizeof file, text, 2);
    write_file("net.prototxt", file);
    assert_ran(run("summary --model=net.prototxt --input-shape=1,2,2"), 1, "",
               "poseidon summary: net.prototxt:3: layer 'l' (EuclideanLoss): expected two bottoms "
               "with as many "
               "samples and elements: 'ip' is 4 2 (8), 'label' is 4 (4)\nlayer 'd': " LABELS "\n");
    ck_assert_ptr_nonnull(strstr(run("summary --model=net.prototxt")->err,
                                 "--input-shape=C,H,W says otherwise\nlayer 'd': " LABELS "\n"));
    snprintf(file, sizeof file, text, 1);
    write_file("net.prototxt", file);
    ck_assert_str_eq(run("summary --model=net.prototxt --input-shape=1,2,2")->err,
                     "layer 'd': " LABELS "\n");
    write_file("net.prototxt",
               "layer { name: 'd' type: 'HDF5Data' top: 'x' top: 'a' top: 'b' hdf5_data_param { "
               "source: 'x' batch_size: 4 } }\n");
    ck_assert_ptr_nonnull(strstr(run("summary --model=net.prototxt --input-shape=1,2,2")->err,
                                 "a sample for 'a' and the tops behind it: "));
}
END_TEST

/* It may have nothing to do with the error, and is no part of its message. */
START_TEST(assumed_inputs_stand_on_lines_of_their_own)
{
    const struct ran *ran;
    const char *ends;

    write_file(
        "net.prototxt",
        "layer { name: 'a' type: 'Data' top: 'a' data_param { source: 'x' batch_size: 1 } }\n"
        "layer { name: 'b' type: 'Data' top: 'b' data_param { source: 'x' batch_size: 1 }\n"
        "  transform_param { crop_size: 8 } }\n"
        "layer { name: 'l' type: 'L1Loss' bottom: 'a' bottom: 'b' }\n");
    ran = run("summary --model=net.prototxt");
    ck_assert_int_eq(ran->status, 1);
    ends = strstr(ran->err, ", Threshold, Tile)\n");
    ck_assert_ptr_nonnull(ends);
    ck_assert_str_eq(
        ends + strlen(", Threshold, Tile)\n"),
        "layer 'a': assuming images of 3 channels, 224 x 224 pixels; --input-shape=C,H,W "
        "says otherwise\n"
        "layer 'b': assuming images of 3 channels, 8 x 8 pixels (crop_size); "
        "--input-shape=C,H,W says otherwise\n");
}
END_TEST

START_TEST(stages_of_the_file_itself_count)
{
    write_file("net.prototxt",
               "state { stage: 'a' level: 5 phase: TEST }\n"
               "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 1 "
               "} } include { stage: 'a' stage: 'b' max_level: 0 phase: TRAIN } }");
    ck_assert_ptr_nonnull(strstr(run("summary --model=net.prototxt --stage=b")->out, "Input"));
}
END_TEST

START_TEST(net_inside_a_model_is_shown)
{
    const char *top = getenv("abs_top_srcdir");
    char arguments[1024], err[4096];

    snprintf(arguments, sizeof arguments, "summary --model='%s/tests/data/spec/v1.caffemodel'",
             top);
    snprintf(
        err, sizeof err,
        "%s/tests/data/spec/v1.caffemodel: upgraded from the old form of Caffe's nets (layers)\n"
        "%s/tests/data/spec/v1.caffemodel: net-level input fields became a layer of type Input\n",
        top, top);
    assert_ran(run(arguments), 0,
               "layer  type          top   shape          parameters  FLOPs\n"
               "-----------------------------------------------------------\n"
               "input  Input         data  1 x 1 x 4 x 4\n"
               "conv   Convolution   conv  1 x 2 x 2 x 2          20    144\n"
               "ip     InnerProduct  ip    1 x 1                   9     16\n"
               "-----------------------------------------------------------\n"
               "total                                             29    160\n",
               err);
}
END_TEST

START_TEST(model_without_a_complete_net_asks_for_the_prototxt)
{
    char arguments[1024], err[2048];

    snprintf(arguments, sizeof arguments, "summary --model='%s/tests/data/spec/odd.caffemodel'",
             getenv("abs_top_srcdir"));
    snprintf(
        err, sizeof err,
        "poseidon summary: %s/tests/data/spec/odd.caffemodel: layer 'odd' (Odd): unknown layer "
        "type: Odd",
        getenv("abs_top_srcdir"));
    ck_assert_int_eq(run(arguments)->status, 1);
    ck_assert_msg(strncmp(run(arguments)->err, err, strlen(err)) == 0, "%s", run(arguments)->err);
    ck_assert_ptr_nonnull(strstr(
        run(arguments)->err, "(this weight file carries no complete net: give its prototxt)\n"));
}
END_TEST

static const char *of_source(const char *format)
{
    static char text[1024];
    const char *top = getenv("abs_top_srcdir");

    snprintf(text, sizeof text, format, top, top);
    return text;
}

START_TEST(weights_tell_the_size_of_an_input_that_nothing_else_tells)
{
    const char *command = of_source("summary --model='%s/tests/data/spec/sized.caffemodel'");
    const struct ran *ran = run(command);

    ck_assert_str_eq(ran->err,
                     "layer 'd': taking images of 3 channels, 28 x 28 pixels, which the weights "
                     "fit; --input-shape=C,H,W says otherwise\n");
    ck_assert_ptr_nonnull(strstr(ran->out, "data  5 x 3 x 28 x 28\n"));
    ck_assert_ptr_nonnull(strstr(ran->out, "2352"));
    ran =
        run(of_source("summary --model='%s/tests/data/spec/sized.caffemodel' --input-shape=1,8,8"));
    ck_assert_ptr_nonnull(strstr(ran->out, "data  5 x 1 x 8 x 8\n"));
    ck_assert_str_eq(ran->err, "");
}
END_TEST

START_TEST(layers_without_settings_are_told_of)
{
    static const char told[] =
        "bare.caffemodel: its layers came without their settings: no complete net "
        "(layer 'conv' has no convolution_param)\n";

    ck_assert_ptr_nonnull(strstr(
        run(of_source("upgrade '%s/tests/data/spec/bare.caffemodel' bare.prototxt"))->err, told));
    ck_assert_ptr_nonnull(strstr(
        run(of_source("draw --model='%s/tests/data/spec/bare.caffemodel' bare.svg"))->err,
        "Unknown bottom blob 'data' (layer 'conv', bottom index 0) (this weight file carries no "
        "complete net: give its prototxt)\n"));
}
END_TEST

static const struct {
    const char *in, *out, *err;
} upgrades[] = {
    {"layers { name: 'r' type: RELU bottom: 'x' top: 'x' blobs_lr: 2 }\n",
     "layer {\n  name: \"r\"\n  type: \"ReLU\"\n  bottom: \"x\"\n  top: \"x\"\n  param {\n    "
     "lr_mult: 2\n"
     "  }\n}\n",
     "in: upgraded from the old form of Caffe's nets (layers)\nout: written as a net in today's "
     "form\n"},
    {"# a solver, although it has a net inside\nsolver_type: ADAM net_param { layers { type: TANH "
     "} "
     "layers { type: RELU } } base_lr: 0.1",
     "base_lr: 0.1\nnet_param {\n  layer {\n    type: \"TanH\"\n  }\n  layer {\n    type: "
     "\"ReLU\"\n  "
     "}\n}\ntype: \"Adam\"\n",
     "in: solver_type became type: \"Adam\"\nin: upgraded from the old form of Caffe's nets "
     "(layers)\n"
     "out: written as a solver in today's "
     "form\n"},
    {"", "", "out: written as a net in today's form\n"},
    {"name: 'n' debug_info: true", "name: \"n\"\ndebug_info: true\n",
     "out: written as a net in today's form\n"},
};

START_TEST(upgrade_writes_todays_form)
{
    char text[4096];

    write_file("in", upgrades[_i].in);
    assert_ran(run("upgrade in out"), 0, "", upgrades[_i].err);
    read_file("out", text, sizeof text);
    ck_assert_str_eq(text, upgrades[_i].out);
}
END_TEST

START_TEST(upgrade_takes_the_net_out_of_a_model)
{
    char arguments[1024], text[4096];

    snprintf(arguments, sizeof arguments, "upgrade '%s/tests/data/spec/v0.caffemodel' new.prototxt",
             getenv("abs_top_srcdir"));
    ck_assert_int_eq(run(arguments)->status, 0);
    read_file("new.prototxt", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "type: \"Convolution\""));
    ck_assert_ptr_null(strstr(text, "blobs"));
}
END_TEST

static const struct {
    const char *in, *arguments, *err;
} upgrade_errors[] = {
    {"", "upgrade in", "poseidon upgrade: expected two files, IN and OUT, found 1\n"},
    {"", "upgrade none new", "poseidon upgrade: File not found: none\n"},
    {"naem: 'x'", "upgrade in new",
     "poseidon upgrade: in:1:1: message \"caffe.NetParameter\" has no field \"naem\"; did you mean "
     "\"name\"?\n"},
    {"base_lr: 1\nnte: 'x'", "upgrade in new",
     "poseidon upgrade: in:2:1: message \"caffe.SolverParameter\" has no field \"nte\"; did you "
     "mean "
     "\"net\"?\n"},
    {"", "upgrade in new.caffemodel",
     "poseidon upgrade: new.caffemodel: the new form is written as text, without weights; expected "
     "a "
     "name such as net.prototxt\n"},
    {"", "upgrade in /nowhere/new",
     "poseidon upgrade: cannot write '/nowhere/new': No such file or directory\n"},
};

START_TEST(upgrade_says_what_is_wrong_and_writes_nothing)
{
    write_file("in", upgrade_errors[_i].in);
    assert_ran(run(upgrade_errors[_i].arguments), 1, "", upgrade_errors[_i].err);
    ck_assert_int_ne(access("new", F_OK), 0);
}
END_TEST

static const char branches[] =
    "name: 'a \"b\" <c>'\n"
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [1, 2, 4, 4] } } }\n"
    "layer { name: 'c<1>' type: 'Convolution' bottom: 'x' top: 'c1' convolution_param { "
    "num_output: 3 "
    "kernel_size: 3 pad: 1 } }\n"
    "layer { name: 'r\"1\"' type: 'ReLU' bottom: 'c1' top: 'c1' }\n"
    "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE "
    "global_pooling: "
    "true } }\n"
    "layer { name: 'cat' type: 'Concat' bottom: 'c1' bottom: 'x' top: 'cat' }\n";

START_TEST(drawing_for_graphviz_has_layers_and_blobs_but_no_splits)
{
    char text[8192];

    write_file("net.prototxt", branches);
    assert_ran(run("draw --model=net.prototxt out.dot"), 0, "", "");
    read_file("out.dot", text, sizeof text);
    ck_assert_str_eq(text,
                     "digraph \"a \\\"b\\\" <c>\" {\n"
                     "  node [shape=box, style=\"filled,rounded\", fontname=\"sans-serif\"];\n"
                     "  edge [fontname=\"sans-serif\", fontsize=10];\n"
                     "  n0 [fillcolor=\"#dddddd\", label=\"in\\nInput\"];\n"
                     "  n1 [fillcolor=\"#f8cbad\", label=\"c<1>\\nConvolution\\n3, 3 x 3\"];\n"
                     "  n2 [fillcolor=\"#e8f0e8\", label=\"r\\\"1\\\"\\nReLU\"];\n"
                     "  n3 [fillcolor=\"#fce8b2\", label=\"p\\nPooling\\nAVE, whole plane\"];\n"
                     "  n4 [fillcolor=\"#c6e0b4\", label=\"cat\\nConcat\"];\n"
                     "  n0 -> n1 [label=\"1 x 2 x 4 x 4\"];\n"
                     "  n1 -> n2 [label=\"1 x 3 x 4 x 4\"];\n"
                     "  n0 -> n3 [label=\"1 x 2 x 4 x 4\"];\n"
                     "  n2 -> n4 [label=\"1 x 3 x 4 x 4\"];\n"
                     "  n0 -> n4 [label=\"1 x 2 x 4 x 4\"];\n"
                     "}\n");
}
END_TEST

struct box {
    double x, y, width, height;
};

/* Boxes of an SVG file of ours; returns how many there are. */
static int read_boxes(const char *name, struct box *boxes, int most)
{
    FILE *file = fopen(name, "r");
    char line[4096];
    int count = 0;

    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) != NULL)
        if (count < most &&
            sscanf(line, "<rect x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"", &boxes[count].x,
                   &boxes[count].y, &boxes[count].width, &boxes[count].height) == 4)
            count++;
    fclose(file);
    return count;
}

START_TEST(picture_is_well_formed_and_names_every_layer)
{
    char text[32768];

    write_file("net.prototxt", branches);
    assert_ran(run("draw --model=net.prototxt out.svg"), 0, "", "");
    read_file("out.svg", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "<title>a \"b\" &lt;c&gt;</title>"));
    ck_assert_ptr_nonnull(strstr(text, ">c&lt;1&gt;</text>"));
    ck_assert_ptr_nonnull(strstr(text, ">1 x 3 x 4 x 4</text>"));
    if (system("python3 -c 'import xml.dom.minidom' 2>stderr") == 0)
        ck_assert_int_eq(system("python3 -c 'import xml.dom.minidom as x; x.parse(\"out.svg\")'"),
                         0);
}
END_TEST

START_TEST(boxes_of_a_picture_do_not_overlap)
{
    static const struct {
        const char *model;
        int boxes;
    } models[] = {{"googlenet", 159}, {"inception_v3", 416}, {"squeezenet_v1.0", 67}};
    struct box boxes[500];
    char arguments[1024];

    for (int m = 0; m < 3; m++) {
        int count;

        snprintf(arguments, sizeof arguments,
                 "draw --model='%s/models/%s/train_val.prototxt' out.svg", getenv("abs_top_srcdir"),
                 models[m].model);
        ck_assert_int_eq(run(arguments)->status, 0);
        count = read_boxes("out.svg", boxes, 500);
        ck_assert_int_eq(count, models[m].boxes);
        for (int i = 0; i < count; i++)
            for (int k = 0; k < i; k++)
                ck_assert_msg(boxes[i].x + boxes[i].width <= boxes[k].x ||
                                  boxes[k].x + boxes[k].width <= boxes[i].x ||
                                  boxes[i].y + boxes[i].height <= boxes[k].y ||
                                  boxes[k].y + boxes[k].height <= boxes[i].y,
                              "%s: boxes %d and %d overlap", models[m].model, i, k);
    }
}
END_TEST

START_TEST(net_of_unknown_layers_is_drawn_without_shapes)
{
    const struct ran *ran;
    char text[8192];

    write_file("net.prototxt",
               "layer { name: 'd' type: 'Python' top: 'blob' } layer { name: 'l' type: "
               "'Mystery' bottom: 'blob' }");
    ran = run("draw --model=net.prototxt out.dot");
    ck_assert_int_eq(ran->status, 0);
    ck_assert_ptr_nonnull(
        strstr(ran->err, "drawn without shapes: net.prototxt:1: layer 'd' (Python)"));
    read_file("out.dot", text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "n0 -> n1 [label=\"blob\"];"));
}
END_TEST

static const struct {
    const char *arguments, *err;
} draw_errors[] = {
    {"draw out.svg", "poseidon draw: Need a model definition: --model=FILE\n"},
    {"draw --model=net.prototxt",
     "poseidon draw: expected one file to write, OUT.svg or OUT.dot\n"},
    {"draw --model=net.prototxt new.png",
     "poseidon draw: expected a file name that ends with .svg or .dot, found 'new.png'\n"},
    {"draw --model=none new.svg", "poseidon draw: File not found: none\n"},
    {"draw --model=net.prototxt /nowhere/new.svg",
     "poseidon draw: cannot write '/nowhere/new.svg': No such file or directory\n"},
};

START_TEST(drawing_says_what_is_wrong)
{
    write_file("net.prototxt", branches);
    assert_ran(run(draw_errors[_i].arguments), 1, "", draw_errors[_i].err);
}
END_TEST

/* Five images of 4 x 4 counting on from 0, with labels 0 to 4, and a list that names them. */
static void write_images(void)
{
    const hsize_t dim[] = {5, 1, 4, 4}, count = 5;
    hid_t file = H5Fcreate("images.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space, set;
    float values[80], labels[5];

    for (int i = 0; i < 80; i++)
        values[i] = (float)i;
    for (int i = 0; i < 5; i++)
        labels[i] = (float)i;
    space = H5Screate_simple(4, dim, NULL);
    set = H5Dcreate2(file, "data", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Dclose(set);
    H5Sclose(space);
    space = H5Screate_simple(1, &count, NULL);
    set = H5Dcreate2(file, "label", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels), 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Fclose(file);
    write_file("list", "images.h5\n");
}

static void read_set(const char *name, int rank, const hsize_t *expected, float *values)
{
    hid_t file = H5Fopen("out.h5", H5F_ACC_RDONLY, H5P_DEFAULT), set, space;
    hsize_t dim[8];

    ck_assert_int_ge(file, 0);
    set = H5Dopen2(file, name, H5P_DEFAULT);
    space = H5Dget_space(set);
    ck_assert_int_eq(H5Sget_simple_extent_dims(space, dim, NULL), rank);
    for (int i = 0; i < rank; i++)
        ck_assert_uint_eq(dim[i], expected[i]);
    ck_assert_int_ge(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

static const char features[] =
    "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: 'list' "
    "batch_size: 3 } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'a/conv' convolution_param { "
    "num_output: 2 kernel_size: 3 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'a/conv' top: 'ip' inner_product_param { "
    "num_output: 1 } }\n";

/* Weights 1..9 and bias 1/2, then their negatives and -1/4; all ones and 3: see generate_models.py.
 */
START_TEST(extracted_features_are_those_of_the_net)
{
    const hsize_t conv_dim[] = {6, 2, 2, 2}, ip_dim[] = {6, 1}, label_dim[] = {6};
    float conv[48], ip[6], label[6];
    char arguments[1024];

    write_images();
    write_file("net.prototxt", features);
    snprintf(arguments, sizeof arguments,
             "extract --model=net.prototxt --weights='%s/tests/data/spec/today.caffemodel' "
             "--blobs=a/conv,ip,label --iterations=2 --json out.h5",
             getenv("abs_top_srcdir"));
    ck_assert_str_eq(run(arguments)->out,
                     "{\n  \"file\": \"out.h5\",\n  \"blobs\": {\n    \"a/conv\": [6, "
                     "2, 2, 2],\n    \"ip\": [6, 1],\n    \"label\": [6]\n  }\n}\n");
    read_set("a/conv", 4, conv_dim, conv);
    read_set("ip", 2, ip_dim, ip);
    read_set("label", 1, label_dim, label);
    for (int n = 0; n < 6; n++) {
        ck_assert_float_eq(label[n], (float)(n % 5)); /* the sixth image is the first again */
        for (int i = 0; i < 4; i++) {
            /* 45 is the sum of the weights, 303 what they make of 0 1 2, 4 5 6, 8 9 10 */
            float sum = 303 + 45 * (float)(16 * (n % 5) + 4 * (i / 2) + i % 2);

            ck_assert_float_eq_tol(conv[8 * n + i], sum + 0.5f, 1e-2);
            ck_assert_float_eq_tol(conv[8 * n + 4 + i], -sum - 0.25f, 1e-2);
        }
        ck_assert_float_eq_tol(ip[n], 4 * (0.5f - 0.25f) + 3, 5e-2);
    }
    ck_assert_int_ne(access("out.h5.tmp", F_OK), 0);
}
END_TEST

START_TEST(training_an_old_net_says_so_once)
{
    const char *notice = "net.prototxt: upgraded from the old form of Caffe's nets (layers)\n",
               *found;

    write_images();
    write_file(
        "net.prototxt",
        "layers { name: 'd' type: HDF5_DATA top: 'data' top: 'label' hdf5_data_param { source: "
        "'list' batch_size: 5 } }\n"
        "layers { name: 'ip' type: INNER_PRODUCT bottom: 'data' top: 'ip' blobs_lr: 1 "
        "inner_product_param { num_output: 1 } }\n"
        "layers { name: 'loss' type: EUCLIDEAN_LOSS bottom: 'ip' bottom: 'label' top: 'l' }\n");
    write_file("solver.prototxt",
               "net: 'net.prototxt' solver_type: NESTEROV base_lr: 1e-5 lr_policy: "
               "'fixed' max_iter: 1 test_iter: 1 test_interval: 1");
    ck_assert_int_eq(run("train --solver=solver.prototxt")->status, 0);
    found = strstr(run("train --solver=solver.prototxt")->err, notice);
    ck_assert_ptr_nonnull(found);
    ck_assert_ptr_null(strstr(found + 1, notice));
    /* and, where nothing is said, snapshots have Caffe's binary form */
    ck_assert_int_eq(access("solver_iter_1.caffemodel", F_OK), 0);
    ck_assert_ptr_nonnull(strstr(run("test --model=net.prototxt --weights=solver_iter_1.caffemodel "
                                     "--iterations=1")
                                     ->err,
                                 notice));
}
END_TEST

static const struct {
    const char *arguments, *err;
} extract_errors[] = {
    {"", "poseidon extract: Need a model definition: --model=FILE\n"},
    {"--model=net.prototxt", "poseidon extract: Need model weights: --weights=FILE\n"},
    {"--model=net.prototxt --weights=w",
     "poseidon extract: Need the names of blobs: --blobs=LIST\n"},
    {"--model=net.prototxt --weights=w --blobs=ip",
     "poseidon extract: expected one file to write, OUT.h5\n"},
    {"--model=net.prototxt --weights=w --blobs=ip new.h5", "poseidon extract: w: no such file"},
    {"--model=net.prototxt --weights=W --blobs=pi new.h5",
     "poseidon extract: --blobs: the net's TEST phase has no blob 'pi' (poseidon summary "
     "--phase=TEST "
     "lists them)\n"},
    {"--model=net.prototxt --weights=W --blobs=, new.h5",
     "poseidon extract: --blobs names no blob\n"},
    {"--model=net.prototxt --weights=W --blobs=ip,ip new.h5",
     "poseidon extract: new.h5: cannot make data set 'ip'"},
    {"--model=net.prototxt --weights=W --blobs=ip /nowhere/new.h5",
     "poseidon extract: /nowhere/new.h5: cannot write '/nowhere/new.h5.tmp'"},
};

/* Copies the small weights to "W". */
static void copy_weights(void)
{
    char command[1024];

    snprintf(command, sizeof command, "cp '%s/tests/data/spec/today.caffemodel' W",
             getenv("abs_top_srcdir"));
    ck_assert_int_eq(system(command), 0);
}

START_TEST(extract_says_what_is_wrong_and_writes_nothing)
{
    const struct ran *ran;
    char arguments[256];

    write_images();
    write_file("net.prototxt", features);
    copy_weights();
    snprintf(arguments, sizeof arguments, "extract %s", extract_errors[_i].arguments);
    ran = run(arguments);
    ck_assert_int_eq(ran->status, 1);
    ck_assert_str_eq(ran->out, "");
    ck_assert_msg(strstr(ran->err, extract_errors[_i].err) != NULL, "%s", ran->err);
    ck_assert_int_ne(access("new.h5", F_OK), 0);
    ck_assert_int_ne(access("new.h5.tmp", F_OK), 0);
}
END_TEST

/* Class scores are the mean blue, green and red of the picture, by global pooling; no weights. */
static const char colours[] =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 3, 4, 4] } } }\n"
    "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE "
    "global_pooling: "
    "true } }\n"
    "layer { name: 's' type: 'Softmax' bottom: 'p' top: 's' }\n";

/* Three images of one colour each, by Python; false where there is no way to make them. */
static bool write_pictures(void)
{
    static const char script[] =
        "import struct, zlib\n"
        "def chunk(kind, data):\n"
        "    return (struct.pack('>I', len(data)) + kind + data +\n"
        "            struct.pack('>I', zlib.crc32(kind + data)))\n"
        "for name, colour in (('red', b'\\x04\\x02\\x01'), ('green', b'\\x02\\x03\\x00'),\n"
        "                     ('blue', b'\\x00\\x00\\x02')):\n"
        "    with open(name + '.png', 'wb') as f:\n"
        "        f.write(b'\\x89PNG\\r\\n\\x1a\\n' +\n"
        "                chunk(b'IHDR', struct.pack('>IIBBBBB', 9, 7, 8, 2, 0, 0, 0)) +\n"
        "                chunk(b'IDAT', zlib.compress((b'\\0' + colour * 9) * 7)) + chunk(b'IEND', "
        "b''))\n";

    write_file("make.py", script);
    return system("python3 make.py 2>stderr") == 0;
}

/* This build may be without PNG. */
static bool can_classify(void)
{
    if (!write_pictures()) {
        puts("no python3 to make pictures with: not tested");
        return false;
    }
    write_file("net.prototxt", colours);
    write_file("labels", "the blue\nthe green\nthe red\n");
    copy_weights();
    if (strstr(run("classify --model=net.prototxt --weights=W red.png")->err, "not built in") !=
        NULL) {
        puts("this build reads no PNG: not tested");
        return false;
    }
    return true;
}

START_TEST(classes_are_printed_with_their_probabilities)
{
    /* softmax of (1, 2, 4), (0, 3, 2) and (2, 0, 0) */
    if (can_classify())
        ck_assert_str_eq(run("classify --model=net.prototxt --weights=W --labels=labels red.png "
                             "green.png blue.png --top=2")
                             ->out,
                         "---------- Prediction for red.png ----------\n"
                         "0.8438 - \"the red\"\n0.1142 - \"the green\"\n"
                         "---------- Prediction for green.png ----------\n"
                         "0.7054 - \"the green\"\n0.2595 - \"the red\"\n"
                         "---------- Prediction for blue.png ----------\n"
                         "0.7870 - \"the blue\"\n0.1065 - \"the green\"\n");
}
END_TEST

START_TEST(pixels_lose_the_mean_and_are_scaled)
{
    if (!can_classify())
        return;
    /* (1, 2, 4) - (1, 2, 3) = (0, 0, 1), halved */
    ck_assert_str_eq(
        run("classify --model=net.prototxt --weights=W --mean=1,2,3 --scale=0.5 --top=1 "
            "--squeeze red.png")
            ->out,
        "---------- Prediction for red.png ----------\n0.4519 - class 2\n");
    /* red, green, blue: (4, 2, 1) - 4 */
    ck_assert_str_eq(run("classify --model=net.prototxt --weights=W --mean=4 --top=1 --rgb "
                         "red.png")
                         ->out,
                     "---------- Prediction for red.png ----------\n0.8438 - class 0\n");
}
END_TEST

START_TEST(channels_means_come_from_a_mean_image)
{
    if (!can_classify())
        return;
    /* one blob of 3 x 1 x 1: 1, 2, 3 */
    ck_assert_int_eq(
        system("printf 'num: 1 channels: 3 height: 1 width: 1 data: [1, 2, 3]' >mean.txt"), 0);
    if (system("protoc --version >/dev/null 2>&1") == 0) {
        char command[1024];

        snprintf(command, sizeof command,
                 "protoc -I'%s/src/spec' --encode=caffe.BlobProto caffe.proto <mean.txt "
                 ">mean.binaryproto",
                 getenv("abs_top_srcdir"));
        ck_assert_int_eq(system(command), 0);
        ck_assert_str_eq(run("classify --model=net.prototxt --weights=W --mean=mean.binaryproto "
                             "--scale=0.5 --top=1 red.png")
                             ->out,
                         "---------- Prediction for red.png ----------\n0.4519 - class 2\n");
    }
    ck_assert_ptr_nonnull(strstr(run("classify --model=net.prototxt --weights=W --mean=mean.txt "
                                     "red.png")
                                     ->err,
                                 "mean.txt: expected a blob (.binaryproto), found a text\n"));
}
END_TEST

START_TEST(images_that_cannot_be_read_are_named_and_the_others_classified)
{
    const struct ran *ran;

    if (!can_classify())
        return;
    ran =
        run("classify --model=net.prototxt --weights=W none.png red.png labels green.png blue.png "
            "--top=1 --json");
    ck_assert_int_eq(ran->status, 1);
    for (int i = 0; i < 3; i++) {
        static const char *const parts[] = {"[{\n    \"image\": \"red.png\",\n    \"top\": [{\n    "
                                            "    \"class\": 2,\n        \"label\": "
                                            "null,\n        \"probability\": 0.8437",
                                            "\"green.png\",\n    \"top\": [{\n        \"class\": "
                                            "1,\n        \"label\": null,\n        "
                                            "\"probability\": 0.7053",
                                            "\"blue.png\",\n    \"top\": [{\n        \"class\": "
                                            "0,\n        \"label\": null,\n        "
                                            "\"probability\": 0.7869"};

        ck_assert_msg(strstr(ran->out, parts[i]) != NULL, "%s", ran->out);
    }
    ck_assert_ptr_nonnull(strstr(ran->err, "none.png"));
    ck_assert_ptr_nonnull(strstr(ran->err, "labels: not an image"));
    ck_assert_ptr_nonnull(strstr(ran->err, "poseidon classify: 2 of 5 images could not be read\n"));
}
END_TEST

static const struct {
    const char *net, *arguments, *err;
} classify_errors[] = {
    {colours, "", "Need a model definition: --model=FILE"},
    {colours, "--model=net.prototxt", "Need model weights: --weights=FILE"},
    {colours, "--model=net.prototxt --weights=W", "expected images to classify, found none"},
    {colours, "--model=net.prototxt --weights=W --blob=z x.png",
     "--blob: the net's TEST phase has no blob 'z'"},
    {colours, "--model=net.prototxt --weights=W --labels=short x.png",
     "short: expected a label for each of the 3 classes, one a line, found 1"},
    {colours, "--model=net.prototxt --weights=W --labels=none x.png", "File not found: none"},
    {colours, "--model=net.prototxt --weights=W --mean=x,y x.png",
     "--mean wants one number, or three such as 104,117,123, or the file of a mean image; found "
     "'x,y'"},
    {"layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 5] } } }",
     "--model=net.prototxt --weights=W x.png",
     "expected an input of N x 1 or 3 x H x W, found 'x' of shape 2 5 (10)"},
    {"layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 1, 4, 4] } } }",
     "--model=net.prototxt --weights=W x.png",
     "the net has no Softmax: say with --blob=NAME where its scores are"},
    {"", "--model=net.prototxt --weights=W x.png",
     "expected a net that begins with its input, a layer of type Input"},
};

START_TEST(classify_says_what_is_wrong)
{
    const struct ran *ran;
    char arguments[256];

    write_file("net.prototxt", classify_errors[_i].net);
    write_file("short", "one\n");
    copy_weights();
    snprintf(arguments, sizeof arguments, "classify %s", classify_errors[_i].arguments);
    ran = run(arguments);
    ck_assert_int_eq(ran->status, 1);
    ck_assert_str_eq(ran->out, "");
    ck_assert_msg(strstr(ran->err, classify_errors[_i].err) != NULL, "%s", ran->err);
}
END_TEST

SUITE_IN(folder, "commands")
{
    TCase *tcase = suite_case(suite, "commands");

    if (chdir(folder))
        abort();
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, summary_is_a_table);
    tcase_add_test(tcase, summary_as_json_lists_splits_and_sorted_outputs);
    tcase_add_test(tcase, summary_obeys_stage_level_and_batch);
    tcase_add_loop_test(tcase, summary_says_what_is_wrong_and_prints_nothing, 0,
                        (int)(sizeof summary_errors / sizeof *summary_errors));
    tcase_add_test(tcase, a_solver_given_as_a_net_is_called_one_and_a_net_given_as_a_solver);
    tcase_add_loop_test(tcase, errors_in_net_level_inputs_have_their_line, 0,
                        (int)(sizeof input_errors / sizeof *input_errors));
    tcase_add_test(tcase, layers_of_forks_are_refused_by_type_and_place_whatever_fields_they_have);
    tcase_add_test(tcase, weights_tell_the_size_of_an_input_that_nothing_else_tells);
    tcase_add_test(tcase, layers_without_settings_are_told_of);
    tcase_add_test(tcase, an_assumed_shape_of_labels_is_named_where_it_does_not_fit);
    tcase_add_test(tcase, stages_of_the_file_itself_count);
    tcase_add_test(tcase, an_assumed_input_is_named_where_it_does_not_fit);
    tcase_add_test(tcase, assumed_inputs_stand_on_lines_of_their_own);
    tcase_add_test(tcase, net_inside_a_model_is_shown);
    tcase_add_test(tcase, model_without_a_complete_net_asks_for_the_prototxt);
    tcase_add_loop_test(tcase, upgrade_writes_todays_form, 0,
                        (int)(sizeof upgrades / sizeof *upgrades));
    tcase_add_test(tcase, upgrade_takes_the_net_out_of_a_model);
    tcase_add_loop_test(tcase, upgrade_says_what_is_wrong_and_writes_nothing, 0,
                        (int)(sizeof upgrade_errors / sizeof *upgrade_errors));
    tcase_add_test(tcase, drawing_for_graphviz_has_layers_and_blobs_but_no_splits);
    tcase_add_test(tcase, picture_is_well_formed_and_names_every_layer);
    tcase_add_test(tcase, boxes_of_a_picture_do_not_overlap);
    tcase_add_test(tcase, net_of_unknown_layers_is_drawn_without_shapes);
    tcase_add_loop_test(tcase, drawing_says_what_is_wrong, 0,
                        (int)(sizeof draw_errors / sizeof *draw_errors));
    tcase_add_test(tcase, extracted_features_are_those_of_the_net);
    tcase_add_test(tcase, training_an_old_net_says_so_once);
    tcase_add_loop_test(tcase, extract_says_what_is_wrong_and_writes_nothing, 0,
                        (int)(sizeof extract_errors / sizeof *extract_errors));
    tcase_add_test(tcase, classes_are_printed_with_their_probabilities);
    tcase_add_test(tcase, pixels_lose_the_mean_and_are_scaled);
    tcase_add_test(tcase, channels_means_come_from_a_mean_image);
    tcase_add_test(tcase, images_that_cannot_be_read_are_named_and_the_others_classified);
    tcase_add_loop_test(tcase, classify_says_what_is_wrong, 0,
                        (int)(sizeof classify_errors / sizeof *classify_errors));
}
