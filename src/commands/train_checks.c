/* What is to be said of the options of poseidon train once all are known: which do not go together.
 */
#include "commands/train_options.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "snapshot/run_file.h"
#include "util/error.h"
#include "util/path.h"

struct given {
    const char *option;
    bool is;
};

/* NULL: none of them is. */
static const char *first_given(const struct given *options, int n)
{
    for (int i = 0; i < n; i++)
        if (options[i].is)
            return options[i].option;
    return NULL;
}

/* The text of --fake-data, and what is of no use with it. */
static int settle_fake_data(struct train_request *r)
{
    struct trainer_options *o = &r->options;
    const struct given keeps[] = {{"snapshot", o->snapshot != NULL},
                                  {"resume", o->resume},
                                  {"run", o->run != NULL},
                                  {"snapshot-prefix", o->snapshot_prefix != NULL},
                                  {"snapshot-every", o->snapshot_every > 0},
                                  {"max-bad", o->max_bad > 0},
                                  {"keep", o->keep > 0},
                                  {"keep-best", o->keep_best != NULL},
                                  {"stop-after", o->stop_after > 0},
                                  {"epochs", o->epochs > 0},
                                  {"shuffle", o->shuffle}};
    const char *stray = first_given(keeps, (int)(sizeof keeps / sizeof *keeps));

    o->fake_data = r->fake_data != NULL;
    if (o->fake_data && stray)
        return error_set("--fake-data has no records, tests and snapshots: --%s does not apply",
                         stray);
    return o->fake_data && *r->fake_data ? shape_parse("--fake-data", r->fake_data, o->input_chw)
                                         : 0;
}

static int check_reports(const struct trainer_options *o, const char *rank_log)
{
    const struct given reports[] = {{"summary", o->summary || o->json},
                                    {"curves", o->csv || o->tensorboard},
                                    {"trace", o->trace},
                                    {"tune=log", o->log},
                                    {"tune=rank-log", rank_log}};
    const char *stray = first_given(reports, (int)(sizeof reports / sizeof *reports));

    if (o->dry_run && stray)
        return error_set("--dry-run trains nothing: there is nothing for --%s", stray);
    return 0;
}

/* What concerns the exchange, where there is none. */
static int check_none(const struct exchange_options *o)
{
    const struct given exchanges[] = {{"tune=wire", o->wire != WIRE_FP32},
                                      {"tune=overlap", o->overlap != COST_OVERLAP_WFBP},
                                      {"tune=cluster-file", o->cluster_file != NULL},
                                      {"tune=measure", o->measure},
                                      {"tune=bandwidth-mbps", o->mbps > 0},
                                      {"tune=order", o->fifo}};
    const char *stray = first_given(exchanges, (int)(sizeof exchanges / sizeof *exchanges));

    return o->comm.policy == COMM_NONE && stray
               ? error_set("--comm=none exchanges nothing: --%s does not apply", stray)
               : 0;
}

/* What needs workers in step, with the same parameters. */
static int check_in_step(const struct trainer_options *o)
{
    const char *apart = o->exchange.staleness > 0              ? "--tune=staleness"
                        : o->exchange.comm.policy == COMM_NONE ? "--comm=none"
                                                               : NULL;

    if (apart && o->skip_nan > 0)
        return error_set("--on-nan=skip decides for all ranks before any update: not with %s",
                         apart);
    if (apart && o->check_sync > 0)
        return error_set("--tune=check-sync compares parameters that are kept alike: not with %s",
                         apart);
    apart = o->exchange.drop > 0 ? "--tune=drop-stragglers" : apart;
    return apart && o->sync_bn
               ? error_set(
                     "--sync-bn adds up the statistics of all ranks in every pass: not with %s",
                     apart)
               : 0;
}

/* Of updates that are taken back. */
static int check_skips(const struct trainer_options *o)
{
    const struct exchange_options *e = &o->exchange;

    for (int i = 0; i < e->lossy.n && o->skip_nan > 0; i++)
        if (e->lossy.way[i].rank == 0)
            return error_set(
                "--on-nan=skip takes an update back, and what --lossy=%s rounds away of "
                "it would be sent later: leave out one of them (low rank may stay)",
                e->lossy.text);
    if (e->drop > 0 && o->skip_nan > 0 && e->servers > 0)
        /* the servers alone know, and rank 0 is none of them */
        return error_set("--tune=drop-stragglers=%d with --servers=%d: nobody could count what "
                         "--on-nan=skip leaves out; give two of the three",
                         e->drop, e->servers);
    return 0;
}

/* The text of --reproducible, and what adds up in another order, or not all. */
static int settle_reproducible(struct train_request *r)
{
    struct trainer_options *o = &r->options;
    const struct scheme *scheme = o->exchange.comm.scheme;
    bool whole =
        scheme ? scheme->lossless && !scheme->factors : o->exchange.comm.policy == COMM_AUTO;
    const struct given others[] = {{"--tune=staleness", o->exchange.staleness > 0},
                                   {"--sync-bn", o->sync_bn},
                                   {"--tune=drop-stragglers", o->exchange.drop > 0},
                                   {comm_name(o->exchange.comm), !whole},
                                   {"gradients in bf16", o->exchange.wire != WIRE_FP32},
                                   {"--lossy", o->exchange.lossy.n > 0},
                                   {o->engine, strcmp(o->engine, "cpu") != 0},
                                   {"--math=bf16", o->computing.math == MATH_BF16}};
    const char *stray = first_given(others, 8);
    char end;

    o->reproducible = r->reproducible != NULL;
    if (!o->reproducible)
        return 0;
    if (*r->reproducible &&
        (sscanf(r->reproducible, "%9d%c", &o->grain, &end) != 1 || o->grain < 1))
        return error_set("--reproducible expects the samples of a grain, at least 1, found '%s'",
                         r->reproducible);
    return stray ? error_set("--reproducible adds up whole gradients of ranks in step: with "
                             "--engine=cpu and --comm=ps, allreduce or auto, not with %s",
                             stray)
                 : 0;
}

/* The files of --curves, and the JSON that --summary=- prints. */
static int settle_outputs(struct train_request *r)
{
    struct trainer_options *o = &r->options;

    o->json = o->summary && !strcmp(o->summary, "-");
    o->summary = o->json ? NULL : o->summary;
    for (int i = 0; i < r->curves.n; i++) {
        const char *path = r->curves.item[i];
        const char **to = path_ends(path, ".csv") ? &o->csv : &o->tensorboard;

        if (*to)
            return error_set("--curves=%s and --curves=%s: expected one FILE.csv and one folder",
                             *to, path);
        *to = path;
    }
    return 0;
}

/* --balance and what has no mean over samples. */
static int check_balance(const struct trainer_options *o)
{
    const struct given others[] = {{"--tune=drop-stragglers", o->exchange.drop > 0},
                                   {"--comm=none", o->exchange.comm.policy == COMM_NONE}};
    const char *stray = first_given(others, 2);

    return o->balance && stray
               ? error_set("--balance deals one batch to all workers: not with %s", stray)
               : 0;
}

int train_options_settle(struct train_request *r)
{
    struct trainer_options *o = &r->options;

    if (!o->solver)
        return error_set("Need a solver definition to train: --solver=FILE");
    o->overrides.settings = r->settings.item;
    o->overrides.nsettings = r->settings.n;
    if ((o->exchange.staleness > 0 || o->exchange.drop > 0) && o->exchange.comm.policy == COMM_AUTO)
        o->exchange.comm = (struct comm){.policy = COMM_SCHEME, .scheme = sync_schemes[0]};
    if ((o->run && run_check_name(o->run)) || (!o->deadline.whence && deadline_find(&o->deadline)))
        return -1;
    if (o->epochs > 0 && o->max_iter > 0)
        return error_set("--epochs=%g and --max-iter=%d both say when training ends: give one of "
                         "them",
                         o->epochs, o->max_iter);
    return error_status(exchange_settle(&o->exchange, NULL) || settle_reproducible(r) ||
                        check_balance(o) || settle_fake_data(r) || settle_outputs(r) ||
                        check_reports(o, r->rank_log) || check_none(&o->exchange) ||
                        check_in_step(o) || check_skips(o));
}
