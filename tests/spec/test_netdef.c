/* Which layers are in a net, and how they are wired. The rules, and the names of the Splits, are
 * Caffe's: the cases follow what its own tests of nets and splits state. */
#include "spec/netdef.h"
#include "spec/read.h"
#include "tests/suite.h"
#include "util/alloc.h"
#include "util/strbuf.h"

#include <check.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct made {
    struct text_doc *doc;
    struct net_def *def;
};

/* Reads a net and makes its definition for a state of comma-listed stages. */
static int make(struct made *made, const char *text, int phase, int level, const char *stages)
{
    Caffe__NetState more = CAFFE__NET_STATE__INIT;
    int n, status;

    *made = (struct made){0};
    more.has_level = true;
    more.level = level;
    ck_assert_int_eq(alloc_split(&more.stage, &n, stages, "stages"), 0);
    more.n_stage = (size_t)n;
    ck_assert_msg(text_read_string("F", text, strlen(text), &caffe__net_parameter__descriptor,
                                   &made->doc) == 0,
                  "%s", error_text());
    status = net_def_create(made->doc, spec_net(made->doc), phase, &more, &made->def);
    alloc_free_list(more.stage, n);
    if (status)
        text_free(made->doc);
    return status;
}

static void unmake(struct made *made)
{
    net_def_destroy(made->def);
    text_free(made->doc);
}

/* "name(bottom,bottom>top,top*2)": with a star before loss weights that are not zero. */
static char *show(const struct net_def *def)
{
    struct strbuf out = {0};

    for (int i = 0; i < def->nlayers; i++) {
        const struct layer_def *layer = &def->layers[i];

        strbuf_printf(&out, "%s%s(", i ? " " : "", layer->name);
        for (int k = 0; k < layer->nbottoms; k++)
            strbuf_printf(&out, "%s%s", k ? "," : "", layer->bottoms[k]);
        strbuf_puts(&out, ">");
        for (int k = 0; k < layer->ntops; k++)
            strbuf_printf(&out, "%s%s", k ? "," : "", layer->tops[k]);
        for (int k = 0; k < layer->nweights; k++)
            if (layer->loss_weights[k] != 0)
                strbuf_printf(&out, "*%d:%g", k, (double)layer->loss_weights[k]);
        strbuf_puts(&out, ")");
    }
    return strbuf_take(&out);
}

static const struct {
    const char *rules;
    int phase, level;
    const char *stages;
    int kept; /* -1: an error */
} filters[] = {
    {"", CAFFE__PHASE__TRAIN, 0, "", 1},
    {"", CAFFE__PHASE__TEST, 5, "a", 1},
    {"phase: TEST", CAFFE__PHASE__TRAIN, 0, "", 1}, /* the layer's own phase is no rule */
    {"include { phase: TRAIN }", CAFFE__PHASE__TRAIN, 0, "", 1},
    {"include { phase: TRAIN }", CAFFE__PHASE__TEST, 0, "", 0},
    {"exclude { phase: TRAIN }", CAFFE__PHASE__TRAIN, 0, "", 0},
    {"exclude { phase: TRAIN }", CAFFE__PHASE__TEST, 0, "", 1},
    {"include { }", CAFFE__PHASE__TEST, 3, "x", 1},
    {"exclude { }", CAFFE__PHASE__TEST, 3, "x", 0},
    {"include { min_level: 2 }", CAFFE__PHASE__TRAIN, 1, "", 0},
    {"include { min_level: 2 }", CAFFE__PHASE__TRAIN, 2, "", 1},
    {"include { min_level: 2 }", CAFFE__PHASE__TRAIN, 3, "", 1},
    {"include { max_level: 2 }", CAFFE__PHASE__TRAIN, 2, "", 1},
    {"include { max_level: 2 }", CAFFE__PHASE__TRAIN, 3, "", 0},
    {"include { max_level: -2 }", CAFFE__PHASE__TRAIN, -2, "", 1},
    {"include { min_level: 1 max_level: 2 }", CAFFE__PHASE__TRAIN, 0, "", 0},
    {"include { min_level: 0 }", CAFFE__PHASE__TRAIN, -1, "", 0},
    {"include { stage: 'a' }", CAFFE__PHASE__TRAIN, 0, "", 0},
    {"include { stage: 'a' }", CAFFE__PHASE__TRAIN, 0, "a", 1},
    {"include { stage: 'a' }", CAFFE__PHASE__TRAIN, 0, "A", 0},
    {"include { stage: 'a' stage: 'b' }", CAFFE__PHASE__TRAIN, 0, "a", 0}, /* all are needed */
    {"include { stage: 'a' stage: 'b' }", CAFFE__PHASE__TRAIN, 0, "c,b,a", 1},
    {"include { stage: 'a' } include { stage: 'b' }", CAFFE__PHASE__TRAIN, 0, "b",
     1}, /* any rule */
    {"include { not_stage: 'a' }", CAFFE__PHASE__TRAIN, 0, "", 1},
    {"include { not_stage: 'a' }", CAFFE__PHASE__TRAIN, 0, "b,a", 0},
    {"include { stage: 'a' not_stage: 'b' }", CAFFE__PHASE__TRAIN, 0, "a", 1},
    {"include { stage: 'a' not_stage: 'b' }", CAFFE__PHASE__TRAIN, 0, "a,b", 0},
    {"exclude { stage: 'a' } exclude { stage: 'b' }", CAFFE__PHASE__TRAIN, 0, "b", 0},
    {"exclude { stage: 'a' phase: TEST }", CAFFE__PHASE__TRAIN, 0, "a", 1},
    {"exclude { not_stage: 'a' }", CAFFE__PHASE__TRAIN, 0, "", 0},
    {"include { phase: TRAIN stage: 'a' min_level: 1 }", CAFFE__PHASE__TRAIN, 1, "a", 1},
    {"include { phase: TRAIN stage: 'a' min_level: 1 }", CAFFE__PHASE__TEST, 1, "a", 0},
    {"include { phase: TRAIN } exclude { phase: TEST }", CAFFE__PHASE__TRAIN, 0, "", -1},
};

START_TEST(layer_is_kept_by_its_include_and_exclude_rules)
{
    struct made made;
    char text[512];
    int status;

    snprintf(text, sizeof text,
             "layer { name: 'd' type: 'Input' top: 'd' }\n"
             "layer { name: 'l' bottom: 'd' top: 'e' %s }",
             filters[_i].rules);
    status = make(&made, text, filters[_i].phase, filters[_i].level, filters[_i].stages);
    if (filters[_i].kept < 0) {
        ck_assert_int_ne(status, 0);
        ck_assert_str_eq(error_text(),
                         "F:2: layer 'l': expected include rules or exclude rules, found both");
        return;
    }
    ck_assert_msg(status == 0, "%s", error_text());
    ck_assert_int_eq(made.def->nlayers, 1 + filters[_i].kept);
    unmake(&made);
}
END_TEST

START_TEST(states_merge_as_solver_and_net_give_them)
{
    struct net_state state = {.phase = CAFFE__PHASE__TRAIN};
    const char text[] = "state { phase: TEST stage: 'a' }";
    const char later[] = "state { level: -3 stage: 'b' }";
    struct text_doc *first, *second;

    ck_assert_int_eq(
        text_read_string("F", text, strlen(text), &caffe__net_parameter__descriptor, &first), 0);
    ck_assert_int_eq(
        text_read_string("F", later, strlen(later), &caffe__net_parameter__descriptor, &second), 0);
    ck_assert_int_eq(net_state_merge(&state, NULL), 0);
    ck_assert_int_eq(net_state_merge(&state, spec_net(first)->state), 0);
    ck_assert_int_eq(net_state_merge(&state, spec_net(second)->state), 0);
    ck_assert_int_eq(state.phase, CAFFE__PHASE__TEST);
    ck_assert_int_eq(state.level, -3);
    ck_assert_uint_eq(state.nstages, 2);
    ck_assert_str_eq(state.stages[0], "a");
    ck_assert_str_eq(state.stages[1], "b");
    net_state_free(&state);
    text_free(first);
    text_free(second);
}
END_TEST

#define DATA "layer { name: 'data' type: 'Data' top: 'data' top: 'label' } "
#define IP(name, bottom, top)                                                                      \
    "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' top: '" top "' } "
#define RELU(name, blob)                                                                           \
    "layer { name: '" name "' type: 'ReLU' bottom: '" blob "' top: '" blob "' } "
#define LOSS(name, bottoms) "layer { name: '" name "' type: 'EuclideanLoss' " bottoms " } "

static const struct {
    const char *text, *net;
} nets[] = {
    {DATA IP("ip", "data", "ip") LOSS("loss", "bottom: 'ip' bottom: 'label'"),
     "data(>data,label) ip(data>ip) loss(ip,label>*0:1)"},
    /* one blob read by two layers */
    {DATA IP("a", "data", "a") IP("b", "data", "b")
         LOSS("loss", "bottom: 'a' bottom: 'b' top: 'l'"),
     "data(>data,label) data_data_0_split(data>data_data_0_split_0,data_data_0_split_1) "
     "a(data_data_0_split_0>a) b(data_data_0_split_1>b) loss(a,b>l*0:1)"},
    /* the second top, three users, two of them in one layer */
    {DATA LOSS("x", "bottom: 'label' bottom: 'label'") LOSS("y", "bottom: 'data' bottom: 'label'"),
     "data(>data,label) label_data_1_split(label>label_data_1_split_0,label_data_1_split_1,"
     "label_data_1_split_2) x(label_data_1_split_0,label_data_1_split_1>*0:1) "
     "y(data,label_data_1_split_2>*0:1)"},
    /* behind an in-place layer, the Split carries that layer's name */
    {DATA IP("ip1", "data", "ip1") RELU("relu1", "ip1") IP("ip2", "ip1", "ip2")
         LOSS("loss", "bottom: 'ip1' bottom: 'ip2'"),
     "data(>data,label) ip1(data>ip1) relu1(ip1>ip1) "
     "ip1_relu1_0_split(ip1>ip1_relu1_0_split_0,ip1_relu1_0_split_1) "
     "ip2(ip1_relu1_0_split_0>ip2) loss(ip1_relu1_0_split_1,ip2>*0:1)"},
    /* readers before and after an in-place layer read different versions */
    {DATA IP("a", "data", "a") IP("b", "a", "b") IP("c", "a", "c"),
     "data(>data,label) a(data>a) a_a_0_split(a>a_a_0_split_0,a_a_0_split_1) b(a_a_0_split_0>b) "
     "c(a_a_0_split_1>c)"},
    /* an explicit loss weight is one more user and moves to the Split */
    {DATA "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' loss_weight: 2.5 } " IP(
         "ip2", "ip", "ip2"),
     "data(>data,label) ip(data>ip) ip_ip_0_split(ip>ip_ip_0_split_0,ip_ip_0_split_1*0:2.5) "
     "ip2(ip_ip_0_split_1>ip2)"},
    {DATA "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' loss_weight: 2.5 } ",
     "data(>data,label) ip(data>ip*0:2.5)"},
    {DATA "layer { name: 'l' type: 'EuclideanLoss' bottom: 'data' bottom: 'label' top: 'l' "
          "loss_weight: 0 } ",
     "data(>data,label) l(data,label>l)"},
    {DATA "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' top: 'l' "
          "top: 'p' loss_weight: [3, 0] } ",
     "data(>data,label) l(data,label>l,p*0:3)"},
    /* names that are used twice, empty names */
    {"layer { top: 'x' } layer { name: 'n' bottom: 'x' top: 'y' } layer { name: 'n' bottom: 'x' "
     "top: 'z' }",
     "(>x) x__0_split(x>x__0_split_0,x__0_split_1) n(x__0_split_0>y) n(x__0_split_1>z)"},
};

START_TEST(net_is_wired_with_splits_where_blobs_are_shared)
{
    struct made made;
    char *shown;

    ck_assert_msg(make(&made, nets[_i].text, CAFFE__PHASE__TRAIN, 0, "") == 0, "%s", error_text());
    shown = show(made.def);
    ck_assert_str_eq(shown, nets[_i].net);
    free(shown);
    unmake(&made);
}
END_TEST

START_TEST(inserted_split_says_where_it_comes_from_and_how_to_save_it)
{
    struct made made;
    const struct layer_def *split;

    ck_assert_int_eq(make(&made,
                          "name: 'n'\n\n" DATA "\n" IP("a", "data", "a") IP("b", "data", "b"),
                          CAFFE__PHASE__TRAIN, 0, ""),
                     0);
    split = &made.def->layers[1];
    ck_assert(split->inserted);
    ck_assert_int_eq(split->line, 3);
    ck_assert_str_eq(split->type, "Split");
    ck_assert_str_eq(split->param->type, "Split");
    ck_assert_str_eq(split->param->name, "data_data_0_split");
    ck_assert_str_eq(split->param->bottom[0], "data");
    ck_assert_str_eq(split->param->top[1], "data_data_0_split_1");
    ck_assert_uint_eq(split->param->n_loss_weight, 0);
    ck_assert(!made.def->layers[2].inserted);
    ck_assert_int_eq(made.def->layers[2].line, 4);
    ck_assert_str_eq(made.def->name, "n");
    ck_assert_str_eq(layer_def_place(split).text, "F:3: layer 'data_data_0_split'");
    unmake(&made);
}
END_TEST

static const struct {
    const char *text, *message;
} errors[] = {
    {DATA "\n" IP("ip", "dta", "ip"),
     "F:2: layer 'ip': Unknown bottom blob 'dta' (layer 'ip', bottom index 0); did you mean "
     "'data'?"},
    {"layer { name: 'l' bottom: 'nothing' }",
     "F:1: layer 'l': Unknown bottom blob 'nothing' (layer 'l', bottom index 0)"},
    {DATA IP("a", "b", "a") "\n" IP("mid", "a", "b"),
     "F:1: layer 'a': Unknown bottom blob 'b' (layer 'a', bottom index 0); layer 'mid' produces it "
     "only afterwards"},
    {DATA LOSS("l", "bottom: 'data' bottom: 'lable'"),
     "F:1: layer 'l': Unknown bottom blob 'lable' (layer 'l', bottom index 1); did you mean "
     "'label'?"},
    {DATA IP("a", "data", "x") "\n" IP("b", "label", "x"),
     "F:2: layer 'b': Top blob 'x' produced by multiple sources: expected one, found layer 'a' "
     "(line 1) before"},
    {"layer { name: 'd' top: 'x' top: 'x' }",
     "F:1: layer 'd': Top blob 'x' produced by multiple sources: expected one, found layer 'd' "
     "(line 1) before, which names it twice"},
    /* in place at another index is no in-place layer */
    {DATA "\nlayer { name: 'l' bottom: 'data' bottom: 'label' top: 'label' }",
     "F:2: layer 'l': Top blob 'label' produced by multiple sources: expected one, found layer "
     "'data' (line 1) before"},
    {DATA IP("ip", "data", "x") IP("ip2", "x", "y") "\n" RELU("r", "x"),
     "F:2: layer 'r': Top blob 'x' produced by multiple sources: expected one, found layer 'ip' "
     "(line 1) before; it cannot work in place, because another layer reads the same version of "
     "its bottom: give the top another name"},
    {DATA "layer { name: 'l' bottom: 'data' top: 'x' loss_weight: [1, 2] }",
     "F:1: layer 'l': expected loss_weight once per top (1) or not at all, found 2"},
    {DATA "layer { name: 'l' bottom: 'data' top: 'x' propagate_down: [true, false] }",
     "F:1: layer 'l': expected propagate_down once per bottom (1) or not at all, found 2"},
    /* whoever makes it is left out of this net, TRAIN without stages */
    {"layer { name: 'd' top: 'x' include { phase: TEST } }\n" RELU("r", "x"),
     "F:2: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'd' (line 1) "
     "makes it, but only "
     "in phase TEST; with --phase=TEST, summary and others take the net of that phase"},
    /* of several the one that an option would bring in */
    {"layer { name: 'd' top: 'x' include { phase: TEST stage: 'b' } }\n"
     "layer { name: 'e' top: 'x' include { phase: TRAIN stage: 'a' } }\n" RELU("r", "x"),
     "F:3: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'e' (line 2) "
     "makes it, but only "
     "in phase TRAIN, with stage 'a'; see --stage, or train_state and test_state in a solver"},
    {"layer { name: 'd' top: 'x' include { phase: TEST stage: 'b' } }\n" RELU("r", "x"),
     "F:2: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'd' (line 1) "
     "makes it, but only "
     "in phase TEST, with stage 'b'; with --phase=TEST, summary and others take the net of that "
     "phase"},
    {"layer { name: 'd' top: 'X' }" RELU("r",
                                         "x") "\nlayer { name: 'e' top: 'x' include { stage: 'a' "
                                              "stage: 'b' not_stage: 'c' } include { min_level: 2 "
                                              "max_level: 3 } }",
     "F:1: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'e' (line 2) "
     "makes it, but only "
     "with stage 'a', with stage 'b', without stage 'c' or at level 2 and above, at level 3 and "
     "below; see "
     "--stage, --level, or train_state and test_state in a solver"},
    {"layer { name: 'd' top: 'x' exclude { stage: 'a' } exclude { max_level: 0 } }\n" RELU("r",
                                                                                           "x"),
     "F:2: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'd' (line 1) "
     "makes it, but not "
     "at level 0 and below; see --level, or train_state and test_state in a solver"},
    {"layer { name: 'd' top: 'x' exclude { } }\n" RELU("r", "x"),
     "F:2: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'd' (line 1) "
     "makes it, but not "
     "in any net"},
    {"layer { name: 'd' top: 'x' include { phase: TEST } }\n" RELU(
         "r", "x") "\nlayer { name: 'l' top: 'x' }",
     "F:2: layer 'r': Unknown bottom blob 'x' (layer 'r', bottom index 0); layer 'l' produces it "
     "only afterwards"},
    {"layer { name: 'l' include { phase: TEST } }",
     "F: the net's include and exclude rules leave no layer in phase TRAIN; for phase TEST, use "
     "--phase=TEST"},
    {"name: 'l'", "F: expected a net, found no layer"},
    {"layers { }", "F: expected a net in today's form, found fields of an old one"},
    {"input: 'x'", "F: expected a net in today's form, found fields of an old one"},
};

START_TEST(bad_wiring_names_the_layer_its_line_and_the_way_out)
{
    struct made made;

    ck_assert_int_ne(make(&made, errors[_i].text, CAFFE__PHASE__TRAIN, 0, ""), 0);
    ck_assert_str_eq(error_text(), errors[_i].message);
}
END_TEST

START_TEST(net_without_a_document_is_made_as_well)
{
    Caffe__NetParameter net = CAFFE__NET_PARAMETER__INIT;
    Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT, *layers[] = {&layer};
    char *bottoms[] = {"x"};
    struct net_def *def;

    net.n_layer = 1;
    net.layer = layers;
    ck_assert_int_eq(net_def_create(NULL, &net, CAFFE__PHASE__TEST, NULL, &def), 0);
    ck_assert_str_eq(def->layers[0].name, "");
    ck_assert_str_eq(def->layers[0].type, "");
    ck_assert_str_eq(layer_def_place(&def->layers[0]).text, "net: layer ''");
    net_def_destroy(def);
    layer.n_bottom = 1;
    layer.bottom = bottoms;
    ck_assert_int_ne(net_def_create(NULL, &net, CAFFE__PHASE__TEST, NULL, &def), 0);
    ck_assert_str_eq(error_text(),
                     "net: layer '': Unknown bottom blob 'x' (layer '', bottom index 0)");
    net_def_destroy(NULL);
}
END_TEST

START_TEST(thousands_of_layers_are_wired_quickly)
{
    struct strbuf text = {0};
    struct made made;

    strbuf_puts(&text, "layer { name: 'd' top: 'x0' }\n");
    for (int i = 0; i < 20000; i++)
        strbuf_printf(&text, "layer { name: 'l%d' bottom: 'x%d' bottom: 'x0' top: 'x%d' }\n", i, i,
                      i + 1);
    ck_assert_msg(make(&made, strbuf_text(&text), CAFFE__PHASE__TRAIN, 0, "") == 0, "%s",
                  error_text());
    ck_assert_int_eq(made.def->nlayers, 20002);
    ck_assert_int_eq(made.def->layers[1].ntops, 20001);
    unmake(&made);
    strbuf_free(&text);
}
END_TEST

SUITE("netdef")
{
    TCase *tcase = suite_case(suite, "netdef");

    suite_table(tcase, layer_is_kept_by_its_include_and_exclude_rules, filters);
    tcase_add_test(tcase, states_merge_as_solver_and_net_give_them);
    suite_table(tcase, net_is_wired_with_splits_where_blobs_are_shared, nets);
    tcase_add_test(tcase, inserted_split_says_where_it_comes_from_and_how_to_save_it);
    suite_table(tcase, bad_wiring_names_the_layer_its_line_and_the_way_out, errors);
    tcase_add_test(tcase, net_without_a_document_is_made_as_well);
    tcase_add_test(tcase, thousands_of_layers_are_wired_quickly);
}
