/* What a run trains, as lines "name, value": two runs with the same lines train the same
 * parameters. Left out is what may change from one start to the next: where files lie, how far to
 * train, what is shown, tested and saved, and how the samples of an iteration are shared out (their
 * number is kept beside it). */
#include "solver/trainer_internal.h"

#include "solver/agreement.h"
#include "util/agree.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Of the solver. */
static const char *const solver_except[] = {"net",
                                            "net_param",
                                            "train_net",
                                            "train_net_param",
                                            "test_net",
                                            "test_net_param",
                                            "test_state",
                                            "test_iter",
                                            "test_interval",
                                            "test_compute_loss",
                                            "test_initialization",
                                            "display",
                                            "average_loss",
                                            "debug_info",
                                            "snapshot",
                                            "snapshot_prefix",
                                            "snapshot_diff",
                                            "snapshot_format",
                                            "snapshot_after_train",
                                            "weights",
                                            "device_id",
                                            "device_list",
                                            "solver_mode",
                                            "max_iter",
                                            "iter_size",
                                            "random_seed",
                                            NULL};

/* Of the net. */
static const char *const net_except[] = {
    "source",     "mean_file",  "meanfile", "root_folder", "file_name", "shared_file_system",
    "batch_size", "debug_info", "prefetch", NULL};

/* What a layer reads. Sources that each rank has for itself say nothing of the run. */
static int put_data(struct strbuf *list, const char *net, const struct layer *layer)
{
    struct layer_data_mark mark;
    char name[256];

    if (!layer->i->mark)
        return 0;
    if (layer->i->mark(layer, &mark))
        return error_context("layer '%s'", layer->def->name);
    if (!mark.known || mark.own)
        return 0;
#define PUT(what, ...)                                                                             \
    do {                                                                                           \
        snprintf(name, sizeof name, "%sdata of layer '%.100s': " what, net, layer->def->name);     \
        agreement_put(list, name, __VA_ARGS__);                                                    \
    } while (0)
    PUT("records", "%" PRIu64, mark.nrecords);
    PUT("digest of the first record", "%.16s", mark.first);
    PUT("digest of the last record", "%.16s", mark.last);
    if (mark.mean[0])
        PUT("digest of the mean", "%.16s", mark.mean);
#undef PUT
    return 0;
}

static int put_net_data(struct strbuf *list, const char *name, const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++)
        if (put_data(list, name, &net->layers[l]))
            return -1;
    return 0;
}

/* Test nets are workers' alone, so they are compared where all ranks are workers. */
static int compare_data(struct trainer *t)
{
    struct strbuf list = {.data = NULL};
    char name[32];
    int status = put_net_data(&list, "", t->net);

    for (int i = 0; i < t->defs.ntests && t->nworkers == t->nranks && !status; i++) {
        snprintf(name, sizeof name, "test net #%d: ", i);
        status = put_net_data(&list, name, t->tests[i]);
    }
    status = error_agree(t->world, status);
    if (!status)
        status = agreement_check(t->world, &list);
    strbuf_free(&list);
    return status;
}

static int describe(struct trainer *t)
{
    struct strbuf *about = &t->run.about;
    struct sha256 hash;

    agreement_put_message(about, "", &t->solver->base, solver_except);
    agreement_put(about, "random_seed", "%" PRIu64, t->seed);
    if (t->policy.type == POLICY_POLY || t->policy.type == POLICY_COSINE)
        agreement_put(about, "max_iter", "%d", t->max_iter);
    if (t->policy.type == POLICY_PLATEAU)
        agreement_put(about, "average_loss", "%d", t->solver->average_loss);
    agreement_put_message(about, "net: ", &t->defs.train->param->base, net_except);
    if (put_net_data(about, "", t->net) || strbuf_status(about))
        return -1;
    sha256_init(&hash);
    sha256_update(&hash, about->data, about->length);
    sha256_final_hex(&hash, t->run.digest);
    return 0;
}

/* How many records an epoch has. */
static int find_records(struct trainer *t)
{
    struct layer_data_mark mark = {.known = false};

    for (int l = 0; l < t->net->nlayers && !mark.known; l++) {
        const struct layer *layer = &t->net->layers[l];
        if (layer->i->mark && layer->i->mark(layer, &mark))
            return error_context("layer '%s'", layer->def->name);
    }
    t->records = mark.known && !mark.own ? mark.nrecords : 0;
    return 0;
}

int trainer_identify(struct trainer *t)
{
    if (t->blank)
        return 0;
    if (error_agree(t->world, find_records(t)))
        return -1;
    if (compare_data(t))
        return -1;
    return error_agree(t->world, t->rank == 0 ? describe(t) : 0);
}
