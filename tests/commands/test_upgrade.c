/* poseidon upgrade. */
#include <stdbool.h>
#include <unistd.h>

#include "tests/commands/command_runner.h"
#include "tests/suite.h"

static char folder[] = "/tmp/poseidon_upgrade_XXXXXX";

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
    assert_ran(run("upgrade in out --force"), 0, "", upgrades[_i].err);
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
    {"", "upgrade /nowhere/in new", "poseidon upgrade: /nowhere/in: no such file\n"},
    {"naem: 'x'", "upgrade in new",
     "poseidon upgrade: in:1:1: message \"caffe.NetParameter\" has no field \"naem\"; did you mean "
     "\"name\"?\n('poseidon help layers' lists all types; \"My net is refused\" in man poseidon "
     "says "
     "what to do)\n"},
    {"base_lr: 1\nnte: 'x'", "upgrade in new",
     "poseidon upgrade: in:2:1: message \"caffe.SolverParameter\" has no field \"nte\"; did you "
     "mean "
     "\"net\"?\n"},
    {"", "upgrade in new.caffemodel",
     "poseidon upgrade: new.caffemodel: the new form is written as text, without weights; expected "
     "a "
     "name such as net.prototxt\n"},
    {"", "upgrade in /nowhere/new",
     "poseidon upgrade: /nowhere/new cannot be written: folder /nowhere: No such file or "
     "directory\n"},
};

START_TEST(upgrade_says_what_is_wrong_and_writes_nothing)
{
    write_file("in", upgrade_errors[_i].in);
    assert_ran(run(upgrade_errors[_i].arguments), 1, "", upgrade_errors[_i].err);
    ck_assert_int_ne(access("new", F_OK), 0);
}
END_TEST

SUITE_IN(folder, "upgrade")
{
    TCase *tcase = suite_case(suite, "upgrade");

    if (chdir(folder))
        abort();
    tcase_add_loop_test(tcase, upgrade_writes_todays_form, 0,
                        (int)(sizeof upgrades / sizeof *upgrades));
    tcase_add_test(tcase, upgrade_takes_the_net_out_of_a_model);
    tcase_add_loop_test(tcase, upgrade_says_what_is_wrong_and_writes_nothing, 0,
                        (int)(sizeof upgrade_errors / sizeof *upgrade_errors));
}
