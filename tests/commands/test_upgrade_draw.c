/* poseidon upgrade and draw. */
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
                 "draw --model='%s/models/%s/train_val.prototxt' out.svg --force",
                 getenv("abs_top_srcdir"), models[m].model);
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
    ran = run("draw --model=net.prototxt out.dot --force");
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
     "poseidon draw: /nowhere/new.svg cannot be written: folder /nowhere: No such file or "
     "directory\n"},
};

START_TEST(drawing_says_what_is_wrong)
{
    write_file("net.prototxt", branches);
    assert_ran(run(draw_errors[_i].arguments), 1, "", draw_errors[_i].err);
}
END_TEST

SUITE_IN(folder, "upgrade_draw")
{
    TCase *tcase = suite_case(suite, "upgrade_draw");

    if (chdir(folder))
        abort();
    tcase_set_timeout(tcase, 60);
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
}
