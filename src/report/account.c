/* Collecting: every rank's figures go to rank 0 as one row of doubles.
 *
 * How long a transfer takes by itself is asked of the syncers themselves, through a second life of
 * src/sync with a rule that changes nothing, so whatever scheme there is needs no model here. */
#include "report/account.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/agree.h"
#include "util/error.h"

enum { ROUNDS = 3 }; /* the quickest counts: the first one warms up */

/* One row: these, then three per group. */
enum { COMPUTE, STALL, OTHER_STALL, INPUT, PROGRESS, PROGRESS_SHARE, SINGLES };
enum { GROUP_STALL, GROUP_SENT, GROUP_RECEIVED, PER_GROUP };

static void fill_row(const struct account *a, double *row)
{
    double n = (double)a->iterations, by_groups = 0;

    for (int g = 0; g < a->plan->nbuckets; g++) {
        double *of_group = row + SINGLES + (size_t)g * PER_GROUP;
        of_group[GROUP_STALL] = a->stats->group_stall_seconds[g] / n;
        of_group[GROUP_SENT] = (double)a->stats->group_sent[g] / n;
        of_group[GROUP_RECEIVED] = (double)a->stats->group_received[g] / n;
        by_groups += of_group[GROUP_STALL];
    }
    row[STALL] = a->train_stall / n;
    row[OTHER_STALL] = row[STALL] > by_groups ? row[STALL] - by_groups : 0;
    row[INPUT] = a->input_seconds / n;
    row[COMPUTE] = a->train_seconds / n - row[STALL] - row[INPUT];
    row[PROGRESS] = a->stats->progress_cpu_seconds / n;
    row[PROGRESS_SHARE] = a->stats->progress_seconds > 0
                              ? a->stats->progress_cpu_seconds / a->stats->progress_seconds
                              : 0;
}

static void fill_ranks(struct report *report, const struct plan *plan, const double *rows,
                       size_t width, const char (*hosts)[64])
{
    for (int r = 0; r < report->nranks; r++) {
        const double *row = rows + (size_t)r * width;
        struct report_rank *rank = &report->ranks[r];
        *rank = (struct report_rank){.worker = plan_is_worker(plan, r),
                                     .compute_seconds = row[COMPUTE],
                                     .stall_seconds = row[STALL],
                                     .other_stall_seconds = row[OTHER_STALL],
                                     .input_seconds = row[INPUT],
                                     .progress_seconds = row[PROGRESS],
                                     .progress_share = row[PROGRESS_SHARE]};
        memcpy(rank->host, hosts[r], sizeof rank->host);
        rank->host[sizeof rank->host - 1] = '\0';
    }
}

static void fill_layer(const struct account *a, const struct report *report, int group,
                       const double *rows, size_t width, struct report_layer *out)
{
    *out = (struct report_layer){.name = a->plan->buckets[group].name,
                                 .scheme = scheme_label(a->plan->buckets[group].scheme),
                                 .predicted_seconds = a->predicted ? a->predicted[group] : -1,
                                 .alone_seconds = -1,
                                 .stall_rank = -1,
                                 .group = group};
    for (int r = 0; r < report->nranks; r++) {
        const double *row = rows + (size_t)r * width + SINGLES + (size_t)group * PER_GROUP;
        struct traffic traffic = plan_traffic(a->plan, group, r);
        out->predicted_sent += (double)traffic.sent;
        out->predicted_received += (double)traffic.received;
        out->sent += row[GROUP_SENT];
        out->received += row[GROUP_RECEIVED];
        if (!report->ranks[r].worker)
            continue;
        out->stall_seconds += row[GROUP_STALL] / report->nworkers;
        if (out->stall_rank < 0 || row[GROUP_STALL] > out->stall_most) {
            out->stall_most = row[GROUP_STALL];
            out->stall_rank = r;
        }
    }
}

static int fill_report(const struct account *a, int nranks, const double *rows, size_t width,
                       const char (*hosts)[64], struct report *out)
{
    *out = (struct report){.net = a->net->def->name,
                           .iterations = a->iterations,
                           .overlap = a->overlap,
                           .seconds = a->train_seconds / (double)a->iterations,
                           .batch = a->batch,
                           .nranks = nranks,
                           .nworkers = a->plan->ncomputing};
    out->ranks = calloc((size_t)nranks, sizeof *out->ranks);
    out->layers = calloc((size_t)a->plan->nbuckets + 1, sizeof *out->layers);
    if (!out->ranks || !out->layers) {
        report_free(out);
        return error_memory((size_t)a->plan->nbuckets * sizeof *out->layers, "the report");
    }
    fill_ranks(out, a->plan, rows, width, hosts);
    for (int g = 0; g < a->plan->nbuckets; g++)
        if (a->plan->buckets[g].scheme)
            fill_layer(a, out, g, rows, width, &out->layers[out->nlayers++]);
    return 0;
}

int account_collect(MPI_Comm world, const struct account *account, struct report *out)
{
    size_t width = SINGLES + (size_t)account->plan->nbuckets * PER_GROUP;
    char host[64] = "?", (*hosts)[64] = NULL;
    double *row = calloc(width, sizeof *row), *rows = NULL;
    int rank, nranks, status = 0;

    *out = (struct report){.nranks = 0};
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &nranks);
    if (rank == 0) {
        rows = calloc((size_t)nranks * width, sizeof *rows);
        hosts = calloc((size_t)nranks, sizeof *hosts);
    }
    if (!row || (rank == 0 && (!rows || !hosts)))
        status = error_memory((size_t)nranks * width * sizeof *row, "the report");
    if (error_agree(world, status))
        goto done;
    status = -1;
    gethostname(host, sizeof host - 1);
    fill_row(account, row);
    MPI_TRY(MPI_Gather(row, (int)width, MPI_DOUBLE, rows, (int)width, MPI_DOUBLE, 0, world));
    MPI_TRY(MPI_Gather(host, sizeof host, MPI_CHAR, hosts, sizeof host, MPI_CHAR, 0, world));
    status =
        rank == 0 ? fill_report(account, nranks, rows, width, (const char(*)[64])hosts, out) : 0;
fail:
    status = error_agree(world, status);
done:
    free(row);
    free(rows);
    free(hosts);
    return status;
}

/* ---- alone ---- */

static void apply_nothing(void *context, int64_t iteration, float scale, float lr_mult,
                          float decay_mult, float *value, const float *grad, float *history,
                          size_t stride, size_t n)
{
    (void)context, (void)iteration, (void)scale, (void)lr_mult, (void)decay_mult;
    (void)value, (void)grad, (void)history, (void)stride, (void)n;
}

static int apply_nothing_remote(void *context, int64_t iteration, float scale, float lr_mult,
                                float decay_mult, float *value, const float *grad, float *history,
                                size_t stride, size_t n, bool stored)
{
    (void)stored;
    apply_nothing(context, iteration, scale, lr_mult, decay_mult, value, grad, history, stride, n);
    return 0;
}

/* The wait follows the post at once, so what it lasts is the transfer. */
static int time_group(struct sync *sync, const struct plan *plan, int group, double *seconds)
{
    int first = plan->buckets[group].first_group, end = first + plan->buckets[group].ngroups;
    double start, nothing = 0;

    if (sync_sum(sync, &nothing, 1)) /* all start together */
        return -1;
    start = sync_stats(sync)->group_stall_seconds[group];
    for (int m = end - 1; m >= first; m--)
        if (sync_post(sync, m, true))
            return -1;
    if (sync_wait(sync, first))
        return -1;
    *seconds = sync_stats(sync)->group_stall_seconds[group] - start;
    return 0;
}

static int time_round(struct sync *sync, const struct plan *plan, int round, double *alone)
{
    for (int g = plan->nbuckets - 1; g >= 0; g--) {
        double seconds;
        if (!plan->buckets[g].scheme)
            continue;
        if (time_group(sync, plan, g, &seconds))
            return -1;
        if (round == 0 || seconds < alone[g])
            alone[g] = seconds;
    }
    return sync_flush(sync);
}

/* alone: per group, 0 where nothing is moved. Collective. */
static int time_groups(MPI_Comm world, const struct plan *plan, struct net *net,
                       const struct sync_options *like, double *alone)
{
    struct sync_update nothing = {.apply = apply_nothing, .apply_remote = apply_nothing_remote};
    struct sync_options options = *like;
    struct sync *sync;
    int rank, status;

    options.overlap = true;
    options.clip = 0;
    options.iteration = 0;
    options.trace = NULL;
    MPI_Comm_rank(world, &rank);
    if (sync_create(world, plan, net, &nothing, &options, &sync))
        return -1;
    status = error_agree(world, sync_start(sync));
    for (int i = 0; i < ROUNDS && !status; i++)
        status =
            plan_is_worker(plan, rank) ? time_round(sync, plan, i, alone) : sync_wait_all(sync, i);
    status = sync_close(sync, status);
    sync_destroy(sync);
    if (status)
        return -1;
    MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, alone, plan->nbuckets, MPI_DOUBLE, MPI_MAX, world));
    return 0;
fail:
    return -1;
}

int account_alone(MPI_Comm world, const struct plan *plan, struct net *net,
                  const struct sync_options *like, struct report *report)
{
    double *alone = calloc((size_t)plan->nbuckets + 1, sizeof *alone);
    int status;

    status = alone ? 0 : error_memory((size_t)plan->nbuckets * sizeof *alone, "the report");
    status = error_agree(world, status) || time_groups(world, plan, net, like, alone) ? -1 : 0;
    for (int i = 0; i < report->nlayers && !status; i++)
        report->layers[i].alone_seconds = alone[report->layers[i].group];
    free(alone);
    return status;
}
