/* Reads a solver's nets. A net that is legal for TRAIN may be illegal for TEST, so each net is made
 * from the file separately, with its own state. */
#include "job/nets.h"

#include "layers/layer.h"
#include "spec/read.h"
#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

struct origin { /* source of a net's definition */
    const Caffe__NetParameter *param;
    struct text_doc *doc;
};

static int from_file(struct solver_nets *nets, const struct text_doc *solver_doc, const char *path,
                     struct origin *out)
{
    char *found = NULL;
    int status =
        error_status(ALLOC_ROOM(nets->docs, nets->ndocs, "the files of nets") ||
                     spec_find_file(path, text_name(solver_doc), &found) ||
                     spec_read_net_of(found, layer_check_type, false, &nets->docs[nets->ndocs]));

    free(found);
    if (status)
        return -1;
    out->doc = nets->docs[nets->ndocs++];
    out->param = (const Caffe__NetParameter *)text_root(out->doc);
    return 0;
}

/* Finds a net inside the solver (`param`) or in file `path`. field: solver field, for messages. */
static int find_net(struct solver_nets *nets, const struct text_doc *doc, const char *path,
                    const Caffe__NetParameter *param, const char *field, struct origin *out)
{
    *out = (struct origin){.param = param, .doc = (struct text_doc *)doc};
    return !param && from_file(nets, doc, path, out)
               ? error_context("%s: %s", text_name(doc), field)
               : 0;
}

static int load_train(struct solver_nets *nets, const struct text_doc *doc,
                      const Caffe__SolverParameter *s, struct origin *shared)
{
    bool shares = s->net || s->net_param;
    struct origin train = {.doc = NULL};
    int given = (s->net != NULL) + (s->net_param != NULL) + (s->train_net != NULL) +
                (s->train_net_param != NULL);

    if (given != 1)
        return error_set(
            "%s: SolverParameter must specify a train net using one of these fields: net, "
            "net_param, train_net, train_net_param (found %d of them)",
            text_name(doc), given);
    if (shares ? find_net(nets, doc, s->net, s->net_param, "net", shared)
               : find_net(nets, doc, s->train_net, s->train_net_param, "train_net", &train))
        return -1;
    if (shares)
        train = *shared;
    return net_def_create(train.doc, train.param, CAFFE__PHASE__TRAIN, s->train_state,
                          &nets->train);
}

static int load_tests(struct solver_nets *nets, const struct text_doc *doc,
                      const Caffe__SolverParameter *s, const struct origin *shared)
{
    size_t named = s->n_test_net_param + s->n_test_net, total = s->n_test_iter;

    if (!shared->param && named != total)
        return error_set(
            "%s: test_iter must be specified for each test network: %zu test nets, %zu "
            "test_iter",
            text_name(doc), named, total);
    if (named > total)
        return error_set(
            "%s: test_iter must be specified for each test network: at least %zu, found %zu",
            text_name(doc), named, total);
    if (s->n_test_state && s->n_test_state != total)
        return error_set(
            "%s: test_state must be given for no test net or for each of the %zu, found %zu",
            text_name(doc), total, s->n_test_state);
    if (total > 0 && s->test_interval <= 0)
        return error_set("%s: test_interval must be > 0 where there are test nets, found %d",
                         text_name(doc), s->test_interval);
    if (ALLOC(nets->tests, total + 1, "test nets") ||
        ALLOC(nets->test_iter, total + 1, "test nets"))
        return -1;
    for (size_t i = 0; i < total; i++) {
        struct origin origin = *shared;
        bool inside = i < s->n_test_net_param;
        if (i < named && find_net(nets, doc, inside ? NULL : s->test_net[i - s->n_test_net_param],
                                  inside ? s->test_net_param[i] : NULL, "test_net", &origin))
            return -1;
        if (s->test_iter[i] < 0)
            return error_set("%s: test_iter must not be negative, found %d", text_name(doc),
                             s->test_iter[i]);
        nets->test_iter[i] = s->test_iter[i];
        if (net_def_create(origin.doc, origin.param, CAFFE__PHASE__TEST,
                           s->n_test_state ? s->test_state[i] : NULL, &nets->tests[i]))
            return -1;
        nets->ntests++;
    }
    return 0;
}

int solver_nets_load(const struct text_doc *doc, const Caffe__SolverParameter *solver, bool tests,
                     struct solver_nets *out)
{
    struct origin shared = {.param = NULL};

    memset(out, 0, sizeof *out);
    if (load_train(out, doc, solver, &shared) || (tests && load_tests(out, doc, solver, &shared))) {
        solver_nets_free(out);
        return -1;
    }
    return 0;
}

void solver_nets_free(struct solver_nets *nets)
{
    net_def_destroy(nets->train);
    for (int i = 0; i < nets->ntests; i++)
        net_def_destroy(nets->tests[i]);
    for (int i = 0; i < nets->ndocs; i++)
        text_free(nets->docs[i]);
    free(nets->tests);
    free(nets->test_iter);
    free(nets->docs);
    memset(nets, 0, sizeof *nets);
}
