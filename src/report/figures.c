/* Every rank's figures go to rank 0 as one row of doubles. What the plan predicts is worked out
 * there, once for each rank and bucket. */
#include "report/figures.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "util/agree.h"
#include "util/alloc.h"

/* One row: these, then three values per bucket. */
enum column {
    COLUMN_COMPUTE,
    COLUMN_STALL,
    COLUMN_OTHER_STALL,
    COLUMN_INPUT,
    COLUMN_INPUT_TOTAL,
    COLUMN_INPUT_WAITS,
    COLUMN_PROGRESS,
    COLUMN_PROGRESS_SHARE,
    COLUMN_SENT,
    COLUMN_CONTROL,
    COLUMNS
};
enum { BUCKET_STALL, BUCKET_SENT, BUCKET_RECEIVED, PER_BUCKET };

struct rows {
    double *row;  /* this rank's */
    double *all;  /* rank 0: every rank's, one after another */
    size_t width; /* of one */
};

static const double *row_of_rank(const struct rows *rows, int rank)
{
    return rows->all + (size_t)rank * rows->width;
}

static const double *row_of_bucket(const double *row, int bucket)
{
    return row + COLUMNS + (size_t)bucket * PER_BUCKET;
}

static void fill_row(const struct figures_source *source, double *row)
{
    const struct sync_stats *stats = source->stats;
    double n = source->iterations > 0 ? (double)source->iterations : 1, by_buckets = 0;

    for (int b = 0; b < source->plan->nbuckets; b++) {
        double *of_bucket = row + COLUMNS + (size_t)b * PER_BUCKET;
        of_bucket[BUCKET_STALL] = stats->bucket_stall_seconds[b] / n;
        of_bucket[BUCKET_SENT] = (double)stats->bucket_sent[b] / n;
        of_bucket[BUCKET_RECEIVED] = (double)stats->bucket_received[b] / n;
        by_buckets += of_bucket[BUCKET_STALL];
    }
    row[COLUMN_STALL] = source->train_stall / n;
    row[COLUMN_OTHER_STALL] = row[COLUMN_STALL] > by_buckets ? row[COLUMN_STALL] - by_buckets : 0;
    row[COLUMN_INPUT] = source->input_seconds / n;
    row[COLUMN_INPUT_TOTAL] = source->input_seconds;
    row[COLUMN_INPUT_WAITS] = (double)source->input_waits;
    row[COLUMN_COMPUTE] = source->train_seconds / n - row[COLUMN_STALL] - row[COLUMN_INPUT];
    row[COLUMN_PROGRESS] = stats->wire_cpu_seconds / n;
    row[COLUMN_PROGRESS_SHARE] =
        stats->wire_seconds > 0 ? stats->wire_cpu_seconds / stats->wire_seconds : 0;
    row[COLUMN_SENT] = (double)stats->sent / n;
    row[COLUMN_CONTROL] = (double)stats->control_sent;
}

static void fill_rank(const struct figures_source *source, const double *row, int rank,
                      struct figures_rank *out)
{
    *out = (struct figures_rank){.worker = plan_is_worker(source->plan, rank),
                                 .compute_seconds = row[COLUMN_COMPUTE],
                                 .stall_seconds = row[COLUMN_STALL],
                                 .other_stall_seconds = row[COLUMN_OTHER_STALL],
                                 .input_seconds = row[COLUMN_INPUT],
                                 .input_total_seconds = row[COLUMN_INPUT_TOTAL],
                                 .input_waits = row[COLUMN_INPUT_WAITS],
                                 .progress_seconds = row[COLUMN_PROGRESS],
                                 .progress_share = row[COLUMN_PROGRESS_SHARE],
                                 .sent = row[COLUMN_SENT],
                                 .control_sent = row[COLUMN_CONTROL]};
    memcpy(out->host, source->topology->host[rank], sizeof out->host);
}

/* The bucket's share of every rank's figures, and of the ranks' predicted bytes. */
static void fill_layer(const struct figures_source *source, const struct rows *rows, int bucket,
                       struct figures *figures, struct figures_layer *out)
{
    const struct scheme *scheme = source->plan->buckets[bucket].scheme;

    *out = (struct figures_layer){.name = source->plan->buckets[bucket].name,
                                  .scheme = figures->local ? "local" : scheme_label(scheme),
                                  .predicted_seconds = -1,
                                  .alone_seconds = -1,
                                  .stall_rank = -1,
                                  .bucket = bucket};
    for (int r = 0; r < figures->nranks; r++) {
        const double *row = row_of_bucket(row_of_rank(rows, r), bucket);
        struct traffic traffic = plan_traffic(source->plan, bucket, r);
        figures->ranks[r].predicted_sent += (double)traffic.sent;
        out->predicted_sent += (double)traffic.sent;
        out->predicted_received += (double)traffic.received;
        out->sent += row[BUCKET_SENT];
        out->received += row[BUCKET_RECEIVED];
        if (!figures->ranks[r].worker)
            continue;
        out->stall_seconds += row[BUCKET_STALL] / figures->nworkers;
        if (out->stall_rank < 0 || row[BUCKET_STALL] > out->stall_most) {
            out->stall_most = row[BUCKET_STALL];
            out->stall_rank = r;
        }
    }
}

static int fill_figures(const struct figures_source *source, const struct rows *rows,
                        struct figures *out)
{
    int nbuckets = source->plan->nbuckets;

    *out = (struct figures){.net = source->net->def->name,
                            .iterations = source->iterations,
                            .overlap = source->overlap,
                            .local = plan_is_alone(source->plan) && source->topology->nranks > 1,
                            .batch = source->batch,
                            .nranks = source->topology->nranks,
                            .nworkers = source->plan->ncomputing};
    out->seconds = source->iterations > 0 ? source->train_seconds / (double)source->iterations : 0;
    out->ranks = alloc_array((size_t)out->nranks, sizeof *out->ranks, "the report");
    out->layers = alloc_array((size_t)nbuckets, sizeof *out->layers, "the report");
    if (!out->ranks || !out->layers) {
        figures_free(out);
        return -1;
    }
    for (int r = 0; r < out->nranks; r++)
        fill_rank(source, row_of_rank(rows, r), r, &out->ranks[r]);
    for (int b = 0; b < nbuckets; b++)
        if (source->plan->buckets[b].scheme)
            fill_layer(source, rows, b, out, &out->layers[out->nlayers++]);
    figures_leave_out_pauses(out);
    return 0;
}

static int gather_rows(MPI_Comm world, const struct rows *rows)
{
    int width = (int)rows->width;

    MPI_TRY(MPI_Gather(rows->row, width, MPI_DOUBLE, rows->all, width, MPI_DOUBLE, 0, world));
    return 0;
fail:
    return -1;
}

int figures_gather(MPI_Comm world, const struct figures_source *source, struct figures *out)
{
    struct rows rows = {.width = COLUMNS + (size_t)source->plan->nbuckets * PER_BUCKET};
    size_t nrows = source->topology->rank == 0 ? (size_t)source->topology->nranks : 0;
    int status;

    assert(source->iterations >= 0);
    *out = (struct figures){.nranks = 0};
    rows.row = alloc_array(rows.width, sizeof *rows.row, "the report");
    rows.all = alloc_array(nrows * rows.width, sizeof *rows.all, "the report");
    status = error_agree(world, rows.row && rows.all ? 0 : -1);
    if (!status) {
        fill_row(source, rows.row);
        status = error_agree(world, gather_rows(world, &rows));
    }
    if (!status)
        status = error_agree(world, nrows > 0 ? fill_figures(source, &rows, out) : 0);
    free(rows.row);
    free(rows.all);
    return status;
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
    struct figures_spread spread = {.most_rank = -1};

    for (int r = 0; r < figures->nranks; r++) {
        double value = figures_of_rank(figures, r, figure);
        if (!figures->ranks[r].worker)
            continue;
        spread.mean += value / figures->nworkers;
        if (spread.most_rank < 0 || value < spread.least)
            spread.least = value;
        if (spread.most_rank < 0 || value > spread.most) {
            spread.most = value;
            spread.most_rank = r;
        }
    }
    return spread;
}

/* Of what the rank waited, the part that is within iterations. */
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

double figures_progress_share(const struct figures *figures, int *most_rank)
{
    double sum = 0;

    *most_rank = 0;
    for (int r = 0; r < figures->nranks; r++) {
        sum += figures->ranks[r].progress_share;
        if (figures->ranks[r].progress_share > figures->ranks[*most_rank].progress_share)
            *most_rank = r;
    }
    return figures->nranks > 0 ? sum / figures->nranks : 0;
}
