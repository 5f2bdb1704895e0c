/* Checks options of poseidon train that depend on other options, after parsing. */
#include "commands/train_options.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "keep/run_file.h"
#include "util/error.h"
#include "util/path.h"
#include "watch/deadline.h"

/* Settles --fake-data, with its optional size of images. */
static int settle_fake_data(struct train_request *r)
{
    struct trainer_options *o = &r->options;

    o->fake_data = r->fake_data != NULL;
    return o->fake_data && *r->fake_data ? shape_parse("--fake-data", r->fake_data, o->input_chw)
                                         : 0;
}

/* Fails if --on-nan=skip cannot take updates back with the other options. */
static int check_skips(const struct trainer_options *o)
{
    const struct exchange_options *e = &o->exchange;

    for (int i = 0; i < e->lossy.n && o->skip_nan > 0; i++)
        if (e->lossy.way[i].rank == 0)
            return error_set("--on-nan=skip takes an update back, but --lossy=%s would still send "
                             "its rounding errors later: leave out one option (low rank may stay)",
                             e->lossy.text);
    if (e->drop > 0 && o->skip_nan > 0 && e->servers > 0)
        /* only servers know the updates left out, and rank 0, which reports them, is no server */
        return error_set("--tune=drop-stragglers=%d with --servers=%d: no rank could count the "
                         "updates that --on-nan=skip leaves out; give two of the three options",
                         e->drop, e->servers);
    return 0;
}

/* Fails if nothing bounds the number of snapshots that --snapshot-every=P% writes. */
static int check_keep(const struct trainer_options *o)
{
    return o->snapshot_every.share > 0 && o->keep == 0
               ? error_set("--snapshot-every=%g%% may write a snapshot every few seconds: expected "
                           "--keep=N, at least 1, which removes old snapshots",
                           100 * o->snapshot_every.share)
               : 0;
}

/* Settles --reproducible; fails if gradients are not sent whole, or computed elsewhere than on the
 * CPU. */
static int settle_reproducible(struct train_request *r)
{
    struct trainer_options *o = &r->options;
    const struct scheme *scheme = o->exchange.comm.scheme;
    bool whole =
        scheme ? scheme->lossless && !scheme->factors : o->exchange.comm.policy == COMM_AUTO;
    const char *stray = !whole                     ? comm_name(o->exchange.comm)
                        : strcmp(o->engine, "cpu") ? o->engine
                                                   : NULL;
    char end;

    o->reproducible = r->reproducible != NULL;
    if (!o->reproducible)
        return 0;
    if (*r->reproducible &&
        (sscanf(r->reproducible, "%9d%c", &o->grain, &end) != 1 || o->grain < 1))
        return error_set(
            "--reproducible expects the number of samples in a grain, at least 1, found '%s'",
            r->reproducible);
    return stray ? error_set("--reproducible adds up whole gradients: it needs --engine=cpu and "
                             "--comm=ps, allreduce or auto, found %s",
                             stray)
                 : 0;
}

/* Settles the files of --curves, and --summary=-, which prints JSON. */
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

int train_options_settle(struct train_request *r)
{
    struct trainer_options *o = &r->options;

    o->overrides.settings = r->settings.item;
    o->overrides.nsettings = r->settings.n;
    if ((o->exchange.staleness > 0 || o->exchange.drop > 0) && o->exchange.comm.policy == COMM_AUTO)
        o->exchange.comm = (struct comm){.policy = COMM_SCHEME, .scheme = sync_schemes[0]};
    if ((o->run && run_check_name(o->run)) || (!o->deadline.whence && deadline_find(&o->deadline)))
        return -1;
    o->of_run = strbuf_text(&r->run);
    return error_status(strbuf_status(&r->run) || exchange_settle(&o->exchange, NULL) ||
                        settle_reproducible(r) || settle_fake_data(r) || settle_outputs(r) ||
                        check_skips(o) || check_keep(o));
}
