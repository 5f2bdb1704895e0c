/* Nets and solvers as text: read, upgraded, printed and read again, wired, given shapes. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"

#include "net/net.h"
#include "spec/print.h"
#include "spec/read.h"
#include "spec/upgrade.h"

#include <string.h>

/* What we print has to be read again, to the same message. */
static void check_print(const struct text_doc *doc, const ProtobufCMessageDescriptor *type)
{
    struct strbuf first = {0}, second = {0};
    struct text_doc *again;

    print_message(&first, text_root(doc));
    if (text_read_string("again", strbuf_text(&first), first.length, type, &again))
        abort();
    print_message(&second, text_root(again));
    if (first.length != second.length || strcmp(strbuf_text(&first), strbuf_text(&second)) != 0)
        abort();
    text_free(again);
    strbuf_free(&first);
    strbuf_free(&second);
}

static void wire(const struct text_doc *doc, int phase)
{
    char *notices = NULL;
    struct layer_env env = {.look_only = true, .nranks = 1, .seed = 1, .notices = &notices};
    struct net_def *def;
    struct net *net;

    if (net_def_create(doc, spec_net(doc), phase, NULL, &def) == 0) {
        if (net_create(def, phase == CAFFE__PHASE__TRAIN, &env, NULL, &net) == 0)
            net_destroy(net);
        net_def_destroy(def);
    }
    free(notices);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct text_doc *doc;

    if (text_read_string("net", (const char *)data, length, &caffe__net_parameter__descriptor,
                         &doc) == 0) {
        check_print(doc, &caffe__net_parameter__descriptor);
        if (upgrade_net(spec_net(doc), doc) == 0) {
            check_print(doc, &caffe__net_parameter__descriptor);
            wire(doc, CAFFE__PHASE__TRAIN);
            wire(doc, CAFFE__PHASE__TEST);
        }
        text_free(doc);
    }
    if (text_read_string("solver", (const char *)data, length, &caffe__solver_parameter__descriptor,
                         &doc) == 0) {
        if (upgrade_solver(spec_solver(doc), doc) == 0)
            check_print(doc, &caffe__solver_parameter__descriptor);
        text_free(doc);
    }
    return 0;
}
