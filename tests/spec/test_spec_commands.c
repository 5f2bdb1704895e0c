/* poseidon summary. It may not need data: the sources named here do not exist. */
#include <stdbool.h>
#include <unistd.h>

#include "tests/commands/command_runner.h"
#include "tests/suite.h"

static char folder[] = "/tmp/poseidon_commands_XXXXXX";

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
               "data   Data             data    4 x 3 x 8 x 8                       assumed\n"
               "                        label   4                                   assumed\n"
               "conv   Convolution      conv    4 x 2 x 6 x 6          56  15.55 k  assumed\n"
               "ip     InnerProduct     ip      4 x 5                 365   2.88 k  assumed\n"
               "loss   SoftmaxWithLoss  a_loss  scalar                         100  assumed\n"
               "------------------------------------------------------------------\n"
               "total                                                 421  18.53 k  assumed\n",
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
    assert_ran(run("summary --model net.prototxt --phase Test --input-shape=1,4,5 --json"), 0,
               golden("summary.json"), "");
}
END_TEST

START_TEST(definition_is_of_a_net_that_cannot_be_built)
{
    write_file("net.prototxt", "name: 'odd' layer { name: 'x' type: 'Input' top: 'x' }"
                               "layer { name: 'm' type: 'Mystery' bottom: 'x' top: 'y'"
                               "  lrn_param { alpha: 0.1 norm_region: WITHIN_CHANNEL } }");
    assert_ran(run("summary --model=net.prototxt --definition"), 0,
               "{\n  \"name\": \"odd\",\n  \"layers\": [{\n"
               "      \"name\": \"x\",\n      \"type\": \"Input\",\n"
               "      \"place\": \"net.prototxt:1: layer 'x'\",\n      \"inserted\": false,\n"
               "      \"bottoms\": [],\n      \"tops\": [{\n          \"name\": \"x\"\n        }]\n"
               "    }, {\n"
               "      \"name\": \"m\",\n      \"type\": \"Mystery\",\n"
               "      \"place\": \"net.prototxt:1: layer 'm'\",\n      \"inserted\": false,\n      "
               "\"bottoms\": [\"x\"],\n"
               "      \"tops\": [{\n          \"name\": \"y\"\n        }],\n"
               "      \"lrn_param\": {\n        \"alpha\": 0.1,\n"
               "        \"norm_region\": \"WITHIN_CHANNEL\"\n      }\n    }]\n}\n",
               "");
    assert_ran(run("summary --model=net.prototxt --definition --phase=BOTH"), 1, "",
               "poseidon summary: --phase=BOTH: expected TRAIN or TEST\n");
}
END_TEST

/* Of layers that share, those that own it have it in a file of weights. */
START_TEST(summary_as_json_says_where_parameters_are_stored)
{
    const char *found;

    write_file("net.prototxt",
               "layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: [2, 3] } } }"
               "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }"
               "  param { name: 'b' } inner_product_param { num_output: 4 } }"
               "layer { name: 'n' type: 'BatchNorm' bottom: 'a' top: 'n' }"
               "layer { name: 'c' type: 'InnerProduct' bottom: 'x' top: 'c' param { name: 'w' }"
               "  inner_product_param { num_output: 4 } }"
               "layer { name: 's' type: 'Bias' bottom: 'c' top: 's' param { name: 'b' } }");
    found = strstr(run("summary --model=net.prototxt --json")->out, "\"layer\": \"n\"");
    ck_assert_ptr_nonnull(found);
    found = strstr(found, "\"blobs\": [{\n"
                          "          \"shape\": [4, 3],\n          \"layer\": \"a\",\n"
                          "          \"index\": 0\n        }, {\n"
                          "          \"shape\": [4],\n          \"layer\": \"c\",\n"
                          "          \"index\": 1\n        }]");
    ck_assert_ptr_nonnull(found);
    found = strstr(found, "\"blobs\": [{\n"
                          "          \"shape\": [4],\n          \"layer\": \"a\",\n"
                          "          \"index\": 1\n        }]");
    ck_assert_ptr_nonnull(found);
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
    {"--model=/nowhere/net", "poseidon summary: /nowhere/net: no such file\n"},
    {"--model=net.prototxt --phase=BOTH",
     "poseidon summary: --phase=BOTH: expected TRAIN or TEST\n"},
    {"--model=net.prototxt --input-shape=3,224",
     "poseidon summary: --input-shape expects C,H,W such as 3,224,224, or TOP:SIZES such as "
     "label:1,41,41, found '3,224'\n"},
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
        "poseidon summary: solver.prototxt: expected a net, found a solver; use the net that it "
        "names, net.prototxt; 'poseidon train --solver=solver.prototxt' takes the solver\n");
    write_file("inlined.prototxt", "base_lr: 1 lr_policy: 'fixed' max_iter: 1 net_param { }\n");
    assert_ran(run("summary --model=inlined.prototxt"), 1, "",
               "poseidon summary: inlined.prototxt: expected a net, found a solver that holds its "
               "net in net_param { }: write what is between the braces into a file of its own; "
               "'poseidon train --solver=inlined.prototxt' takes the solver\n");
    ck_assert_ptr_nonnull(
        strstr(run("train --solver=net.prototxt")->err,
               "net.prototxt: expected a solver, found a net; use the solver that names it, or "
               "write one (net: \"net.prototxt\"); poseidon summary, plan, time and others take "
               "the net by --model\n"));
    write_file("outer.prototxt",
               "net: 'solver.prototxt' base_lr: 1 lr_policy: 'fixed' max_iter: 1\n");
    ck_assert_ptr_nonnull(
        strstr(run("train --solver=outer.prototxt")->err,
               "outer.prototxt: net: solver.prototxt: expected a net, found a solver"));
    /* a mistake in a file of the right kind stays one */
    write_file("solver.prototxt", "net: 'net.prototxt'\nbase_rl: 1\nlayer { }\n");
    ck_assert_ptr_nonnull(
        strstr(run("train --solver=solver.prototxt")->err, "did you mean \"base_lr\"?"));
    ck_assert_ptr_nonnull(strstr(run("summary --model=none")->err,
                                 "poseidon summary: none: no such file (the current folder is "));
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
        "summary --definition --model=net.prototxt", "train --solver=solver.prototxt"};

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
        ck_assert_ptr_nonnull(strstr(ran->err, "net.prototxt:3:3: layer 'box' (PriorBox): message "
                                               "\"caffe.LayerParameter\" has no field "
                                               "\"prior_box_param\""));
        ck_assert_ptr_nonnull(strstr(ran->err,
                                     "\nnet.prototxt:2: layer 'box' (PriorBox): layer type "
                                     "PriorBox is not supported: it belongs to a fork of Caffe for "
                                     "object detection (SSD)\n('poseidon help layers' lists all "
                                     "types; \"My net is refused\" in man poseidon says what to "
                                     "do)\n"));
    }
}
END_TEST

START_TEST(an_assumed_input_is_named_where_it_does_not_fit)
{
    write_file(
        "net.prototxt",
        "layer { name: 'd' type: 'Data' top: 'pair' data_param { source: 'x' batch_size: 1 } }\n"
        "layer { name: 's' type: 'Slice' bottom: 'pair' top: 'a' top: 'b' }\n");
    assert_ran(run("summary --model=net.prototxt"), 1, "",
               "poseidon summary: layer 'd': assuming images of 3 channels, 224 x 224 pixels; "
               "--input-shape=C,H,W says otherwise\n"
               "net.prototxt:2: layer 's' (Slice): 2 tops do not divide axis 1 of size 3 evenly; "
               "set slice_point to where to cut\n");
    ck_assert_int_eq(run("summary --model=net.prototxt --input-shape=2,8,8")->status, 0);
}
END_TEST

START_TEST(an_assumed_shape_of_labels_is_named_where_it_does_not_fit)
{
#define LABELS                                                                                     \
    "assuming one value per sample for 'label': the HDF5 files are missing, and may have "         \
    "another shape"
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
               "poseidon summary: layer 'd': " LABELS "\n"
               "net.prototxt:3: layer 'l' (EuclideanLoss): expected two bottoms of equally many "
               "samples and elements: 'ip' is 4 2 (8), 'label' is 4 (4)\n");
    ck_assert_ptr_nonnull(strstr(run("summary --model=net.prototxt")->err,
                                 "--input-shape=C,H,W says otherwise\nlayer 'd': " LABELS "\n"));
    ck_assert_int_eq(
        run("summary --model=net.prototxt --input-shape=1,2,2 --input-shape=label:2")->status, 0);
    snprintf(file, sizeof file, text, 1);
    write_file("net.prototxt", file);
    ck_assert_str_eq(run("summary --model=net.prototxt --input-shape=1,2,2")->err,
                     "layer 'd': " LABELS "\n");
    write_file("net.prototxt",
               "layer { name: 'd' type: 'HDF5Data' top: 'x' top: 'a' top: 'b' hdf5_data_param { "
               "source: 'x' batch_size: 4 } }\n");
    ck_assert_ptr_nonnull(strstr(run("summary --model=net.prototxt --input-shape=1,2,2")->err,
                                 "per sample for 'a' and the tops behind it: "));
}
END_TEST

/* Each may have nothing to do with the error, and stands before its message. */
START_TEST(assumed_inputs_stand_on_lines_of_their_own)
{
    const struct ran *ran;
    static const char begin[] =
        "poseidon summary: layer 'a': assuming images of 3 channels, 224 x 224 pixels; "
        "--input-shape=C,H,W says otherwise\n"
        "layer 'b': assuming images of 3 channels, 8 x 8 pixels (crop_size); "
        "--input-shape=C,H,W says otherwise\n"
        "net.prototxt:4: ";

    write_file(
        "net.prototxt",
        "layer { name: 'a' type: 'Data' top: 'a' data_param { source: 'x' batch_size: 1 } }\n"
        "layer { name: 'b' type: 'Data' top: 'b' data_param { source: 'x' batch_size: 1 }\n"
        "  transform_param { crop_size: 8 } }\n"
        "layer { name: 'l' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' }\n");
    ran = run("summary --model=net.prototxt");
    ck_assert_int_eq(ran->status, 1);
    ck_assert_msg(!strncmp(ran->err, begin, strlen(begin)), "%s", ran->err);
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
        run(arguments)->err, "(this weight file has no complete net: give the net's prototxt)\n"));
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
                     "layer 'd': taking images of 3 channels, 28 x 28 pixels, to fit the weights; "
                     "--input-shape=C,H,W says otherwise\n");
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
    const struct ran *ran =
        run(of_source("upgrade '%s/tests/data/spec/bare.caffemodel' bare.prototxt"));

    ck_assert_int_eq(ran->status, 1);
    ck_assert_ptr_nonnull(strstr(ran->err, "bare.caffemodel: not a complete net: its layers "
                                           "lack their settings (layer 'conv' has no "
                                           "convolution_param); give its prototxt\n"));
    ck_assert_int_eq(access("bare.prototxt", F_OK), -1);
    ck_assert_ptr_nonnull(
        strstr(run(of_source("summary --model='%s/tests/data/spec/bare.caffemodel'"))->err,
               "Unknown bottom blob 'data' (layer 'conv', bottom index 0) (this weight file has no "
               "complete net: give the net's prototxt)\n"));
}
END_TEST

SUITE_IN(folder, "commands")
{
    TCase *tcase = suite_case(suite, "commands");

    if (chdir(folder))
        abort();
    tcase_add_test(tcase, summary_is_a_table);
    tcase_add_test(tcase, summary_as_json_lists_splits_and_sorted_outputs);
    tcase_add_test(tcase, summary_as_json_says_where_parameters_are_stored);
    tcase_add_test(tcase, definition_is_of_a_net_that_cannot_be_built);
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
}
