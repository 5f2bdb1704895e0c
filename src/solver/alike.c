/* What the ranks of one training must have been given alike. Left out is what each may have for
 * itself: where it finds its files, its device, threads, window and cap, and what rank 0 alone does
 * (weights, snapshots' names, summaries). */
#include "solver/trainer_internal.h"

#include "solver/agreement.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Fields of the solver: its nets are compared as nets, wherever they were found; the iterations and
 * the seed as what options made of them. */
static const char *const solver_except[] = {"net",
                                            "net_param",
                                            "train_net",
                                            "train_net_param",
                                            "test_net",
                                            "test_net_param",
                                            "snapshot_prefix",
                                            "weights",
                                            "device_id",
                                            "device_list",
                                            "solver_mode",
                                            "max_iter",
                                            "random_seed",
                                            NULL};

/* Of nets: where files lie, which may be a disk of each node's own. */
static const char *const net_except[] = {
    "source", "mean_file", "meanfile", "root_folder", "file_name", "shared_file_system", NULL};

static void put_size(struct strbuf *list, const char *name, size_t size)
{
    if (size == COST_SIZE_CHOSEN)
        agreement_put(list, name, "not set");
    else
        agreement_put(list, name, "%zu", size);
}

static void put_given(struct strbuf *list, const char *name, bool given)
{
    agreement_put(list, name, "%s", given ? "given" : "not given");
}

static void put_exchange(struct strbuf *list, const struct trainer_options *o)
{
    agreement_put(list, "--comm", "%s", comm_name(o->comm));
    agreement_put(list, "--wire", "%s", wire_name(o->wire));
    agreement_put(list, "--servers", "%d", o->servers);
    agreement_put(list, "--staleness", "%d", o->staleness);
    if (o->hierarchy > 0)
        agreement_put(list, "--hierarchy", "%d", o->hierarchy);
    else
        agreement_put(list, "--hierarchy", "%s", o->hierarchy == HIERARCHY_OFF ? "off" : "auto");
    if (o->leaders > 0)
        agreement_put(list, "--leaders", "%d", o->leaders);
    else
        agreement_put(list, "--leaders", "not given");
    agreement_put(list, "--overlap", "%s", cost_overlap_name(o->overlap));
    agreement_put(list, "--order", "%s", o->fifo ? "fifo" : "urgency");
    put_size(list, "--chunk", o->chunk);
    put_size(list, "--merge", o->merge);
    agreement_put(list, "--keep-best", "%s", o->keep_best ? o->keep_best : "not given");
    agreement_put(list, "--max-bad", "%d", o->max_bad);
    agreement_put(list, "--on-nan", "%s,%d", o->skip_nan > 0 ? "skip" : "stop", o->skip_nan);
    agreement_put(list, "--check-sync", "%d", o->check_sync);
    put_given(list, "--measure", o->measure);
    put_given(list, "--cluster-file", o->cluster_file != NULL);
}

/* Ranks whose engines add up together need the same one; else each may have its own, but for the
 * engine that computes nothing. */
static void put_engine(struct strbuf *list, const struct trainer *t)
{
    const struct trainer_options *o = t->options;
    bool any = !t->blank && o->hierarchy == HIERARCHY_OFF;

    agreement_put(list, "--engine", "%s", any ? "one that computes" : o->engine);
    agreement_put(list, "--convolution", "%s", engine_convolution_name(o->convolution));
    put_given(list, "--share-gpu", o->share_gpu);
    agreement_put(list, "--dilate", "%d", o->dilate > 1 ? o->dilate : 1);
    agreement_put(list, "--input-shape", "%lld,%lld,%lld", o->input_chw[0], o->input_chw[1],
                  o->input_chw[2]);
}

/* What is written at the end is gathered from all ranks. */
static void put_report(struct strbuf *list, const struct trainer_options *o)
{
    put_given(list, "--trace", o->trace != NULL);
    agreement_put(list, "--trace-iterations", "%" PRId64 "-%" PRId64, o->trace_first,
                  o->trace_last);
    put_given(list, "--log", o->log != NULL);
    put_given(list, "--account", o->account);
}

static void put_signals(struct strbuf *list, const struct trainer_options *o)
{
    static const char *const names[SIGNALS] = {"--sigint-effect", "--sighup-effect",
                                               "--sigterm-effect", "--sigusr1-effect",
                                               "--sigxcpu-effect"};

    for (int k = 0; k < SIGNALS; k++)
        agreement_put(list, names[k], "%s", signal_effect_name(o->signals[k]));
}

static void put_nets(struct strbuf *list, const struct solver_nets *nets)
{
    char prefix[32];

    agreement_put_message(list, "net: ", &nets->train->param->base, net_except);
    for (int i = 0; i < nets->ntests; i++) {
        snprintf(prefix, sizeof prefix, "test net #%d: ", i);
        agreement_put_message(list, prefix, &nets->tests[i]->param->base, net_except);
    }
}

int trainer_compare_ranks(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    struct strbuf list = {.data = NULL};
    int status;

    put_exchange(&list, o);
    put_engine(&list, t);
    agreement_put(&list, "--batch", "%d", o->batch);
    agreement_put(&list, "--global-batch", "%d", o->global_batch);
    agreement_put(&list, "max_iter", "%d", t->max_iter);
    agreement_put(&list, "--stop-after", "%d", o->stop_after);
    agreement_put(&list, "random_seed", "%" PRIu64, t->seed);
    put_signals(&list, o);
    put_report(&list, o);
    agreement_put_message(&list, "", &t->solver->base, solver_except);
    put_nets(&list, &t->defs);
    status = agreement_check(t->world, &list);
    strbuf_free(&list);
    return status;
}
