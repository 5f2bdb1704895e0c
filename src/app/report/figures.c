/* Gathers the figures. Every rank sends its figures to rank 0 as they are, with three doubles per
 * bucket. Rank 0 works out what the plan predicts, once per rank and bucket. */
#include "report/figures.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/agree.h"
#include "util/alloc.h"

/* Figures of one rank and one bucket. */
struct bucket_figures {
    double stall, sent, received;
};

static void fill_rank(const struct figures_source *source, struct figures_rank *rank,
                      struct bucket_figures *buckets)
{
    const struct sync_stats *stats = source->stats;
    const struct topology *topology = source->topology;
    double n = source->iterations > 0 ? (double)source->iterations : 1, other_stall;

    *rank = (struct figures_rank){
        .worker = plan_is_worker(source->plan, topology->rank),
        .stall_seconds = source->train_stall / n,
        .input_seconds = source->input_seconds / n,
        .input_total_seconds = source->input_seconds,
        .input_waits = (double)source->input_waits,
        .bad_records = source->bad_records,
        .progress_seconds = stats->wire.cpu_seconds / n,
        .progress_share =
            stats->wire.seconds > 0 ? stats->wire.cpu_seconds / stats->wire.seconds : 0,
        .sent = (double)stats->wire.sent / n,
        .control_sent = (double)stats->wire.control_sent,
        .full_seconds = source->meter->full_seconds / n,
        .longest_full_seconds = source->meter->longest_seconds,
        .most_queued = (double)source->meter->most_queued,
        .left_out = (double)stats->left_out};
    memcpy(rank->host, topology->host[topology->rank], sizeof rank->host);
    rank->compute_seconds = source->train_seconds / n - rank->stall_seconds - rank->input_seconds;
    other_stall = rank->stall_seconds;
    for (int b = 0; b < source->plan->nbuckets; b++) {
        const struct bucket_stats *of = &stats->buckets[b];
        buckets[b] = (struct bucket_figures){.stall = of->stall_seconds / n,
                                             .sent = (double)of->sent / n,
                                             .received = (double)of->received / n};
        other_stall -= buckets[b].stall;
    }
    rank->other_stall_seconds = other_stall > 0 ? other_stall : 0;
}

/* Fills a layer from all ranks' figures of its bucket, and adds the bucket to the ranks' predicted
 * bytes. all: all buckets of rank 0, then of rank 1, and so on. */
static void fill_layer(const struct plan *plan, const struct bucket_figures *all, int bucket,
                       struct figures *figures, struct figures_layer *out)
{
    const struct bucket *b = &plan->buckets[bucket];

    *out = (struct figures_layer){.name = b->name,
                                  .scheme = plan_is_alone(plan) ? "local" : b->label.text,
                                  .predicted_seconds = -1,
                                  .alone_seconds = -1,
                                  .stall_rank = -1,
                                  .bucket = bucket};
    for (int r = 0; r < figures->nranks; r++) {
        const struct bucket_figures *part =
            &all[(size_t)r * (size_t)plan->nbuckets + (size_t)bucket];
        struct traffic traffic = plan_traffic(plan, bucket, r);
        figures->ranks[r].predicted_sent += (double)traffic.sent;
        out->predicted_sent += (double)traffic.sent;
        out->predicted_received += (double)traffic.received;
        out->sent += part->sent;
        out->received += part->received;
        if (!figures->ranks[r].worker)
            continue;
        out->stall_seconds += part->stall / figures->nworkers;
        if (out->stall_rank < 0 || part->stall > out->stall_most) {
            out->stall_most = part->stall;
            out->stall_rank = r;
        }
    }
}

/* Fills *out on rank 0, and takes over `ranks`. */
static int fill_figures(const struct figures_source *source, struct figures_rank *ranks,
                        const struct bucket_figures *all, struct figures *out)
{
    const struct plan *plan = source->plan;
    size_t nbuckets = (size_t)plan->nbuckets;

    *out = (struct figures){.net = source->net->def->name,
                            .iterations = source->iterations,
                            .overlap = source->overlap,
                            .local = plan_is_alone(plan) && source->topology->nranks > 1,
                            .batch = source->batch,
                            .threads = source->threads,
                            .cores = source->cores,
                            .nranks = source->topology->nranks,
                            .ranks = ranks,
                            .layers = alloc_array(nbuckets, sizeof *out->layers, "the report"),
                            .nworkers = plan->ncomputing};
    out->seconds = source->iterations > 0 ? source->train_seconds / (double)source->iterations : 0;
    if (!out->layers) {
        figures_free(out);
        return -1;
    }
    for (int b = 0; b < plan->nbuckets; b++)
        if (plan->buckets[b].scheme)
            fill_layer(plan, all, b, out, &out->layers[out->nlayers++]);
    figures_leave_out_pauses(out);
    return 0;
}

/* Gathers what homes have dropped, per worker. Collective. */
static int gather_dropped(MPI_Comm world, const struct figures_source *source,
                          struct figures_rank *ranks)
{
    const struct plan *plan = source->plan;
    int n = source->topology->nranks, chunks = 0;
    uint64_t *dropped = plan->options.drop > 0 ? source->stats->dropped : NULL;

    if (!dropped)
        return 0;
    if (MPI_STATUS(MPI_Reduce(ranks ? MPI_IN_PLACE : dropped, ranks ? dropped : NULL, n,
                              MPI_UINT64_T, MPI_SUM, 0, world)))
        return -1;
    for (int b = 0; b < plan->nbuckets; b++)
        chunks += plan->buckets[b].trains ? plan->buckets[b].nchunks : 0;
    for (int r = 0; ranks && r < n && chunks > 0; r++)
        ranks[r].unused = ranks[r].left_out + (double)dropped[r] / chunks;
    return 0;
}

int figures_gather(MPI_Comm world, const struct figures_source *source, struct figures *out)
{
    size_t bytes = (size_t)source->plan->nbuckets * sizeof(struct bucket_figures);
    struct bucket_figures *buckets = alloc_array(bytes, 1, "the report");
    struct figures_rank mine;
    void *ranks = NULL, *all = NULL;
    int status = error_agree(world, buckets ? 0 : -1);

    assert(source->iterations >= 0);
    *out = (struct figures){.nranks = 0};
    if (!status) {
        fill_rank(source, &mine, buckets);
        status = agree_gather(world, &mine, sizeof mine, "the report", &ranks) ||
                 agree_gather(world, buckets, bytes, "the report", &all) ||
                 gather_dropped(world, source, ranks);
    }
    if (!status && ranks) {
        status = fill_figures(source, ranks, all, out);
        ranks = NULL;
    }
    free(buckets);
    free(ranks);
    free(all);
    return error_agree(world, status);
}

void figures_free(struct figures *figures)
{
    free(figures->ranks);
    free(figures->layers);
    *figures = (struct figures){.nranks = 0};
}

double figures_of_rank(const struct figures *figures, int rank, size_t figure)
{
    double value;

    assert(rank >= 0 && rank < figures->nranks && figure <= sizeof *figures->ranks - sizeof value);
    memcpy(&value, (const char *)&figures->ranks[rank] + figure, sizeof value);
    return value;
}

struct figures_spread figures_spread(const struct figures *figures, size_t figure)
{
    struct figures_spread spread = {.least_rank = -1, .most_rank = -1};

    for (int r = 0; r < figures->nranks; r++) {
        double value = figures_of_rank(figures, r, figure);
        if (!figures->ranks[r].worker)
            continue;
        spread.mean += value / figures->nworkers;
        if (spread.least_rank < 0 || value < spread.least) {
            spread.least = value;
            spread.least_rank = r;
        }
        if (spread.most_rank < 0 || value > spread.most) {
            spread.most = value;
            spread.most_rank = r;
        }
    }
    return spread;
}

/* Returns the part of the rank's wait that is within iterations, 0 to 1. */
static double share_within(const struct figures *figures, const struct figures_rank *rank)
{
    double within = figures->seconds - rank->compute_seconds - rank->input_seconds;

    if (!rank->worker || rank->stall_seconds <= within)
        return 1;
    return within > 0 ? within / rank->stall_seconds : 0;
}

void figures_leave_out_pauses(struct figures *figures)
{
    double before = figures_spread(figures, FIGURE(stall_seconds)).mean, after;

    for (int i = 0; i < figures->nlayers; i++)
        if (figures->layers[i].stall_rank >= 0)
            figures->layers[i].stall_most *=
                share_within(figures, &figures->ranks[figures->layers[i].stall_rank]);
    for (int r = 0; r < figures->nranks; r++) {
        double share = share_within(figures, &figures->ranks[r]);
        figures->ranks[r].stall_seconds *= share;
        figures->ranks[r].other_stall_seconds *= share;
    }
    after = figures_spread(figures, FIGURE(stall_seconds)).mean;
    for (int i = 0; i < figures->nlayers && before > 0; i++)
        figures->layers[i].stall_seconds *= after / before;
}

double figures_sum(const struct figures *figures, size_t figure)
{
    double sum = 0;

    for (int r = 0; r < figures->nranks; r++)
        sum += figures_of_rank(figures, r, figure);
    return sum;
}

double figures_exposed(const struct figures_layer *layer)
{
    return layer->stall_seconds < layer->alone_seconds ? layer->stall_seconds
                                                       : layer->alone_seconds;
}
