/* train --dry-run: everything is set up as for training, so that every message of set-up comes, and
 * nothing is written; then this says what would be trained and whether it can. */
#include "solver/trainer_internal.h"

#include "util/agree.h"
#include "util/error.h"
#include "util/machine.h"
#include "util/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A rank grows a little while it trains: tables, messages of the MPI library, a snapshot. */
#define ROOM_TO_GROW_BYTES 32e6

/* Of one rank, gathered on rank 0: everything is allocated and, by fillers, mostly touched. */
struct rank_needs {
    double nets, communication, history; /* bytes; of the history at most so many */
    double resident, free;               /* bytes: of the process now; the machine has left */
    int threads;
    char cores[CORES_TEXT_BYTES];
};

static void find_needs(const struct trainer *t, struct rank_needs *out)
{
    *out = (struct rank_needs){.communication = (double)plan_memory(t->plan, t->rank),
                               .history = (double)t->net->elems * sizeof(float) * t->rule.nhistory,
                               .resident = (double)machine_resident(),
                               .free = (double)machine_free_memory(),
                               .threads = t->threads};
    if (t->worker)
        out->nets = (double)net_memory(t->net);
    for (int i = 0; t->worker && !t->blank && i < t->defs.ntests; i++)
        out->nets += (double)net_memory(t->tests[i]);
    cores_list(&t->cores, CORES_COMPUTE, out->cores);
}

static void put_reason(struct trainer *t, const char *reason)
{
    strbuf_printf(&t->unfit, "%s%s", t->unfit.length ? "; " : "", reason);
}

static void put_training(const struct trainer *t, struct strbuf *out)
{
    int samples = t->nworkers * t->batch * t->iter_size;

    strbuf_printf(out, "%-10s  %s: iterations %" PRId64 " to %d of %d samples (%d worker%s x %d",
                  "training", t->options->solver, t->at.iteration, t->max_iter, samples,
                  t->nworkers, t->nworkers == 1 ? "" : "s", t->batch);
    strbuf_printf(out, t->iter_size > 1 ? " x iter_size %d)\n" : ")\n", t->iter_size);
    strbuf_printf(out, "%-10s  %s: %d layers, %zu parameters\n", "net", t->net->def->file,
                  t->net->nlayers, t->net->nlearnable);
}

static void put_weights(const struct trainer *t, struct strbuf *out)
{
    const char *given = t->options->weights;

    strbuf_printf(out, "%-10s  ", "weights");
    if (t->resumed)
        strbuf_printf(out, "of run '%s' after iteration %" PRId64 "\n", t->run.file.run,
                      t->at.iteration);
    else if (given || t->solver->n_weights > 0)
        strbuf_printf(out, "%s\n", given ? given : t->solver->weights[0]);
    else
        strbuf_printf(out, "by the net's fillers, seed %" PRIu64 "\n", t->seed);
}

static void put_snapshots(struct trainer *t, struct strbuf *out)
{
    const Caffe__SolverParameter *s = t->solver;
    double each = (double)t->net->nlearnable * sizeof(float) * (1 + t->rule.nhistory);
    char size[UNITS_CELL], left[UNITS_CELL], reason[256];
    int known;
    double free_bytes;
    int64_t count = s->snapshot > 0 ? (t->max_iter - t->at.iteration) / s->snapshot : 0;

    if (!t->run.keeps) {
        strbuf_printf(out, "%-10s  none are written\n", "snapshots");
        return;
    }
    count += s->snapshot_after_train && (s->snapshot <= 0 || t->max_iter % s->snapshot != 0);
    if (t->options->keep > 0 && count > t->options->keep)
        count = t->options->keep;
    free_bytes = (double)machine_free_disk(s->snapshot_prefix, &known);
    units_print_bytes(each, size);
    units_print_bytes(free_bytes, left);
    strbuf_printf(out, "%-10s  %s_iter_*: %" PRId64 " of %s each", "snapshots", s->snapshot_prefix,
                  count, size);
    strbuf_printf(out, known ? "; %s free\n" : "\n", left);
    snprintf(reason, sizeof reason,
             "the disk of snapshot_prefix has %s left, and %" PRId64 " snapshot%s of %s are to be "
             "written there (--keep=N keeps the newest)",
             left, count, count == 1 ? "" : "s", size);
    if (known && free_bytes < each * (double)count)
        put_reason(t, reason);
}

/* How many layers train by each scheme; and the bytes of rank 0. */
static void put_plan(const struct trainer *t, struct strbuf *out)
{
    const struct plan *plan = t->plan;
    uint64_t sent = 0;
    char bytes[UNITS_CELL];

    strbuf_printf(out, "%-10s  ", "plan");
    if (plan_is_alone(plan)) {
        strbuf_printf(out, "%s, nothing travels\n",
                      plan->ncomputing == 1 ? "one worker"
                      : t->nodes.team       ? "workers add up on their GPUs"
                                            : "workers add up in the memory that they share");
        return;
    }
    for (int b = 0; b < plan->nbuckets; b++)
        sent += plan_traffic(plan, b, t->rank).sent;
    for (int i = 0; scheme_registry[i]; i++) {
        int layers = 0;

        for (int b = 0; b < plan->nbuckets; b++)
            if (plan->buckets[b].trains && plan->buckets[b].scheme == scheme_registry[i])
                layers += plan->buckets[b].ngroups;
        if (layers > 0)
            strbuf_printf(out, "%d layer%s by %s, ", layers, layers == 1 ? "" : "s",
                          scheme_label(scheme_registry[i]));
    }
    strbuf_printf(out, "%s sent by rank 0 an iteration\n", units_print_bytes((double)sent, bytes));
}

static void put_memory(const struct rank_needs *needs, struct strbuf *out)
{
    char cell[4][UNITS_CELL];

    strbuf_printf(out,
                  "%-10s  rank 0 holds %s: net %s, communication %s, solver's history at most %s, "
                  "batches, libraries\n",
                  "memory", units_print_bytes(needs->resident, cell[0]),
                  units_print_bytes(needs->nets, cell[1]),
                  units_print_bytes(needs->communication, cell[2]),
                  units_print_bytes(needs->history, cell[3]));
}

/* One machine: its ranks, cores and memory. */
static void put_machine(struct trainer *t, const struct rank_needs *ranks, int machine,
                        struct strbuf *out)
{
    const struct rank_needs *first = ranks; /* every machine has a rank */
    double held = 0;
    int count = 0, number = 0;
    char holds[UNITS_CELL], left[UNITS_CELL], reason[256];

    for (int r = t->nranks - 1; r >= 0; r--) {
        if (t->topology.machine[r] != machine)
            continue;
        first = &ranks[r];
        number = r;
        count++;
        held += ranks[r].resident;
    }
    units_print_bytes(held, holds);
    units_print_bytes(first->free, left);
    strbuf_printf(out,
                  "%-10s  %s: %d rank%s from rank %d on, %d compute thread%s each on cores %s; ",
                  "host", t->topology.host[number], count, count == 1 ? "" : "s", number,
                  first->threads, first->threads == 1 ? "" : "s", first->cores);
    strbuf_printf(out, "%s of memory held, %s left\n", holds, left);
    snprintf(reason, sizeof reason,
             "host %s has %s of memory left beside the %s that its %d rank%s hold%s (start fewer "
             "there, or make the batch smaller)",
             t->topology.host[number], left, holds, count, count == 1 ? "" : "s",
             count == 1 ? "s" : "");
    if (first->free > 0 && first->free < ROOM_TO_GROW_BYTES * count)
        put_reason(t, reason);
}

static void put_all(struct trainer *t, const struct rank_needs *ranks, struct strbuf *out)
{
    bool trains = false;

    for (int g = 0; g < t->net->ngroups; g++)
        trains |= t->net->groups[g].trains;
    if (!trains)
        put_reason(t, "nothing trains: every lr_mult of the net is 0, or it has no parameters");
    if (t->at.iteration >= t->max_iter)
        put_reason(t, "nothing is left to do: the snapshot's iteration is not below max_iter");
    put_training(t, out);
    strbuf_puts(out, strbuf_text(&t->survey));
    put_weights(t, out);
    put_snapshots(t, out);
    put_plan(t, out);
    put_memory(&ranks[0], out);
    for (int m = 0; m < t->topology.nmachines; m++)
        put_machine(t, ranks, m, out);
}

int trainer_dry_run(struct trainer *t, struct strbuf *out)
{
    size_t room = t->rank == 0 ? (size_t)t->nranks : 1;
    struct rank_needs mine, *ranks = calloc(room, sizeof *ranks);
    int status = ranks ? 0 : error_memory(room * sizeof *ranks, "the ranks' ranks");

    if (error_agree(t->world, status))
        goto fail;
    find_needs(t, &mine);
    MPI_TRY(MPI_Gather(&mine, (int)sizeof mine, MPI_BYTE, ranks, (int)sizeof mine, MPI_BYTE, 0,
                       t->world));
    if (t->rank == 0) {
        put_all(t, ranks, out);
        status = strbuf_status(out) || strbuf_status(&t->unfit);
        if (!status && t->unfit.length)
            status = error_set("not fit to train: %s", strbuf_text(&t->unfit));
    }
    free(ranks);
    return error_agree(t->world, status);
fail:
    free(ranks);
    return -1;
}
