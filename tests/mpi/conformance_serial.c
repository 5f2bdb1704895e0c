/* The oracle: what all workers together must arrive at, bit for bit, computed by one rank in plain
 * loops. sum_over_ranks is the one place that knows in which order the program promises to add. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/codec.h"
#include "tests/mpi/conformance.h"
#include "util/rng.h"

/* One element of what several ranks bring, in one order whatever the order of arrival: a binary
 * tree over their numbers, whose left half is the largest power of two below their count. */
static float tree_of(const float *x, size_t apart, int count)
{
    int half = 1;

    if (count == 1)
        return *x;
    while (2 * half < count)
        half *= 2;
    return tree_of(x, apart, half) + tree_of(x + (size_t)half * apart, apart, count - half);
}

/* The same where some are left out, a bit each: false where all are. */
static bool tree_without(const float *x, size_t apart, int count, unsigned out, float *sum)
{
    float left = 0, right = 0;
    bool some, more;
    int half = 1;

    if (count == 1) {
        *sum = *x;
        return !(out & 1);
    }
    while (2 * half < count)
        half *= 2;
    some = tree_without(x, apart, half, out, &left);
    more = tree_without(x + (size_t)half * apart, apart, count - half, out >> half, &right);
    *sum = some && more ? left + right : some ? left : right;
    return some || more;
}

/* parts: `count` of them (at least 1), `apart` elements from one to the next; those of a node's
 * workers, or the sums of all nodes. */
static void sum_over_ranks(const float *parts, size_t apart, int count, size_t n, float *sum)
{
    for (size_t i = 0; i < n; i++)
        sum[i] = tree_of(parts + i, apart, count);
}

bool serial_create(const struct plan *plan, const struct made_net *net, struct serial *out)
{
    size_t rows = (size_t)(plan->all_parts * ROWS * plan->options.iter_size);

    *out = (struct serial){.elems = net->elems, .plan = plan, .net = net};
    for (int b = 0; b < plan->nbuckets; b++)
        if (plan->buckets[b].elems > out->most)
            out->most = plan->buckets[b].elems;
    out->values = calloc(net->elems, sizeof(float));
    out->history = calloc(net->elems, sizeof(float));
    out->sum = calloc(net->elems, sizeof(float));
    out->gradients = calloc((size_t)plan->ncomputing * out->most, sizeof(float));
    out->nodes = calloc((size_t)plan->nworkers * out->most, sizeof(float));
    out->rows = calloc(rows * 2 * WIDEST, sizeof(float));
    out->lost = calloc((size_t)plan->nworkers * net->elems, sizeof(float));
    out->lost_home = calloc(net->elems, sizeof(float));
    out->second = calloc(net->elems, sizeof(float));
    for (size_t i = 0; out->values && i < net->elems; i++)
        out->values[i] = conformance_first_value(i);
    return out->values && out->history && out->sum && out->gradients && out->nodes && out->rows &&
           out->lost && out->lost_home && out->second;
}

void serial_free(struct serial *s)
{
    free(s->values);
    free(s->history);
    free(s->sum);
    free(s->gradients);
    free(s->nodes);
    free(s->rows);
    free(s->lost);
    free(s->lost_home);
    free(s->second);
}

/* x (a chunk of one leader's gradient, or of the sum) as it comes out of the codec. */
static void through_codec(const struct plan *plan, int chunk, float *x, float *lost)
{
    const struct codec *codec = plan_codec(plan, chunk);
    const struct chunk *c = &plan->chunks[chunk];
    void *encoded;

    if (!codec)
        return;
    encoded = malloc(plan_gradient_bytes(plan, chunk));
    codec->encode(x, lost, c->rows, c->elems / c->rows, encoded);
    memset(x, 0, c->elems * sizeof *x);
    codec->add(encoded, c->rows, c->elems / c->rows, x);
    free(encoded);
}

/* All chunks of a bucket; x: its first element. lost: an arena. */
static void bucket_through_codec(const struct plan *plan, int bucket, float *x, float *lost)
{
    const struct bucket *b = &plan->buckets[bucket];

    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        through_codec(plan, c, x + (plan->chunks[c].begin - b->begin),
                      lost + plan->chunks[c].begin);
}

/* Rows of factors that a leader sends of a factorable bucket; leader -1: that all workers do. */
static int64_t count_rows(const struct plan *plan, int bucket, int leader)
{
    return plan->buckets[bucket].k * plan->options.iter_size *
           (leader < 0 ? plan->all_parts : plan->parts[leader]);
}

/* Rows in the order of ranks and of micro-batches into the order in which they are added: round by
 * round, in each so many of every leader, in the order of ranks. */
static void order_by_rounds(struct serial *s, int bucket, int64_t width)
{
    const struct plan *plan = s->plan;
    int64_t rows = count_rows(plan, bucket, -1), each = plan_round_rows(plan, bucket), first,
            at = 0;
    size_t row = (size_t)width * sizeof(float);
    float *ordered = malloc((size_t)rows * row);

    if (!ordered)
        abort();
    for (int round = 0; round < plan->buckets[bucket].rounds; round++) {
        first = 0;
        for (int leader = 0; leader < plan->nworkers; leader++) {
            int64_t mine = count_rows(plan, bucket, leader);
            for (int64_t r = round * each; r < (round + 1) * each && r < mine; r++)
                memcpy(ordered + at++ * width, s->rows + (first + r) * width, row);
            first += mine;
        }
    }
    memcpy(s->rows, ordered, (size_t)rows * row);
    free(ordered);
}

/* To the nearest bfloat16, of two the even one; the net's factors are finite. */
static void round_row(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
        memcpy(&x[i], &bits, sizeof bits);
    }
}

/* The product of the factors of all workers, in the order of ranks and of micro-batches; of several
 * rounds, in that of rounds. */
static void sum_by_factors(struct serial *s, int bucket, int iteration)
{
    const struct plan *plan = s->plan;
    const struct bucket *b = &plan->buckets[bucket];
    const struct group *g = &plan->groups[b->first_group];
    int64_t width = g->m + g->n, rows = count_rows(plan, bucket, -1);
    float *sum = s->sum + g->begin, *row = s->rows;
    float bottom[MOST_PARTS * ROWS * WIDEST], top[MOST_PARTS * ROWS * WIDEST];

    for (int w = 0; w < plan->ncomputing; w++)
        for (int micro = 0; micro < plan->options.iter_size; micro++) {
            int64_t own = g->k * plan->part[w];

            conformance_factors(g, b->first_group, w, iteration, micro, own, s->values, bottom,
                                top);
            for (int64_t k = 0; k < own; k++, row += width) {
                memcpy(row, bottom + k * g->n, (size_t)g->n * 4);
                memcpy(row + g->n, top + k * g->m, (size_t)g->m * 4);
                if (b->wire == WIRE_BF16 && plan->nworkers > 1)
                    round_row(row, (size_t)width);
            }
        }
    order_by_rounds(s, bucket, width);
    conformance_gemm(NULL, true, false, g->m, g->n, rows, 1, s->rows + g->n, width, s->rows, width,
                     0, sum, g->n);
    if (g->elems == (size_t)(g->m * g->n))
        return;
    memset(sum + g->m * g->n, 0, (size_t)g->m * 4);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < g->m; j++)
            sum[g->m * g->n + j] += s->rows[r * width + g->n + j];
    conformance_freeze(g, sum);
}

/* One worker's gradient of a bucket, summed over its micro-batches; zeros between the groups. */
static void worker_gradient(const struct serial *s, int bucket, int iteration, int worker,
                            float *gradient)
{
    const struct plan *plan = s->plan;

    const struct bucket *b = &plan->buckets[bucket];

    memset(gradient, 0, b->elems * sizeof *gradient);
    for (int g = b->first_group; g < b->first_group + b->ngroups; g++) {
        const struct group *group = &s->net->groups[g];
        for (int micro = 0; micro < plan->options.iter_size; micro++)
            conformance_gradient(group, g, worker, iteration, micro, s->values,
                                 gradient + (group->begin - b->begin), micro > 0);
    }
}

/* Columns of x (rows x rank) one after the other: what the former ones have of it is taken away,
 * and the rest becomes 1 long; where none is left, a normal draw takes its place. */
static void make_orthonormal(float *x, int64_t rows, int rank, struct rng draws)
{
    for (int c = 0, drawn = 0; c < rank; c++) {
        double before = 0, after = 0;
        for (int64_t r = 0; r < rows; r++)
            before += (double)x[r * rank + c] * (double)x[r * rank + c];
        for (int times = 0; times < 2 * c; times++) { /* by each twice */
            int i = times % c;
            double along = 0;
            for (int64_t r = 0; r < rows; r++)
                along += (double)x[r * rank + i] * (double)x[r * rank + c];
            for (int64_t r = 0; r < rows; r++)
                x[r * rank + c] =
                    (float)((double)x[r * rank + c] - along * (double)x[r * rank + i]);
        }
        for (int64_t r = 0; r < rows; r++)
            after += (double)x[r * rank + c] * (double)x[r * rank + c];
        if (!drawn && after <= 1e-10 * before) {
            for (int64_t r = 0; r < rows; r++)
                x[r * rank + c] = rng_normal(&draws, (uint64_t)(r * rank + c));
            drawn = 1;
            c--; /* once more */
            continue;
        }
        drawn = 0;
        for (int64_t r = 0; r < rows; r++)
            x[r * rank + c] = (float)((double)x[r * rank + c] / sqrt(after));
    }
}

/* PowerSGD (Vogels et al., NeurIPS 2019): of every node's matrix with what it has not sent yet, the
 * first factor is summed, then the second; each node keeps what its part of the product leaves. */
static void sum_by_low_rank(struct serial *s, int bucket, int iteration)
{
    const struct plan *plan = s->plan;
    const struct bucket *b = &plan->buckets[bucket];
    const struct group *g = &plan->groups[b->first_group];
    int64_t m = g->outputs, n = (int64_t)g->params[0].elems / m, rank = b->rank;
    size_t matrix = (size_t)(m * n), rest = g->elems - matrix, nodes = (size_t)plan->nworkers;
    float *sum = s->sum + b->begin, *q = s->second + b->begin, *p = calloc((size_t)(m * rank), 4);
    float *parts = calloc(nodes * (size_t)((m + n) * rank), 4);
    uint64_t turn = 2 * (uint64_t)iteration;

    if (!p || !parts)
        abort();
    make_orthonormal(q, n, b->rank,
                     rng_make(CONFORMANCE_SEED, RNG_LOW_RANK, (uint32_t)b->layer, turn + 1));
    for (size_t node = 0; node < nodes; node++) {
        float *left = s->lost + node * s->elems + b->begin;
        for (size_t i = 0; i < matrix; i++)
            left[i] += s->nodes[node * s->most + i];
        conformance_gemm(NULL, false, false, m, rank, n, 1, left, n, q, rank, 0,
                         parts + node * (size_t)(m * rank), rank);
    }
    sum_over_ranks(parts, (size_t)(m * rank), plan->nworkers, (size_t)(m * rank), p);
    make_orthonormal(p, m, b->rank,
                     rng_make(CONFORMANCE_SEED, RNG_LOW_RANK, (uint32_t)b->layer, turn));
    for (size_t node = 0; node < nodes; node++)
        conformance_gemm(NULL, true, false, n, rank, m, 1, s->lost + node * s->elems + b->begin, n,
                         p, rank, 0, parts + node * (size_t)(n * rank), rank);
    sum_over_ranks(parts, (size_t)(n * rank), plan->nworkers, (size_t)(n * rank), q);
    conformance_gemm(NULL, false, true, m, n, rank, 1, p, rank, q, rank, 0, sum, n);
    sum_over_ranks(s->nodes + matrix, s->most, plan->nworkers, rest, sum + matrix);
    for (size_t node = 0; node < nodes; node++)
        conformance_gemm(NULL, false, true, m, n, rank, -1, p, rank,
                         parts + node * (size_t)(n * rank), rank, 1,
                         s->lost + node * s->elems + b->begin, n);
    free(p);
    free(parts);
}

/* First over the workers of each node, then over the nodes; what travels goes through the codec. */
static void sum_by_gradients(struct serial *s, int bucket, int iteration, int rank)
{
    const struct plan *plan = s->plan;
    const struct bucket *g = &plan->buckets[bucket];
    bool travels = g->scheme != NULL, low_rank = g->rank > 0 && iteration >= s->warmup;
    float *sum = s->sum + g->begin;

    for (int w = 0; w < plan->ncomputing; w++)
        worker_gradient(s, bucket, iteration, w, s->gradients + (size_t)w * s->most);
    for (int node = 0; node < plan->nworkers; node++) {
        float *mine = s->nodes + (size_t)node * s->most;
        sum_over_ranks(s->gradients + (size_t)plan->world_rank[node] * s->most, s->most,
                       plan->locals[node], g->elems, mine);
        /* what was owed before goes along with the first gradient */
        for (size_t i = 0; i < g->elems && g->rank > 0 && iteration == 0; i++) {
            mine[i] += s->lost[(size_t)node * s->elems + g->begin + i];
            s->lost[(size_t)node * s->elems + g->begin + i] = 0;
        }
        if (travels && !low_rank && (!(s->late >> node & 1) || s->posts_late))
            bucket_through_codec(plan, bucket, mine, s->lost + (size_t)node * s->elems);
    }
    if (!travels && rank < plan->ncomputing)
        memcpy(sum, s->nodes + (size_t)plan->leader[rank] * s->most, g->elems * sizeof *sum);
    if (low_rank)
        sum_by_low_rank(s, bucket, iteration);
    if (!travels || low_rank)
        return;
    for (size_t i = 0; i < g->elems && s->late; i++)
        tree_without(s->nodes + i, s->most, plan->nworkers, s->late, &sum[i]);
    if (!s->late)
        sum_over_ranks(s->nodes, s->most, plan->nworkers, g->elems, sum);
    if (g->scheme->codec_back && g->rank == 0)
        bucket_through_codec(plan, bucket, sum, s->lost_home);
}

/* Of the mean gradient, as the shards compute it: chunk by chunk. */
static double squared_norm(const struct serial *s)
{
    const struct plan *plan = s->plan;
    double total = 0;

    for (int c = 0; c < plan->nchunks; c++) {
        double part = 0;
        for (size_t i = 0; i < plan->chunks[c].elems; i++) {
            double x = (double)s->sum[plan->chunks[c].begin + i] *
                       (double)(1.0f / (float)(plan->ncomputing - plan->options.drop));
            part += x * x;
        }
        if (plan->buckets[plan->chunks[c].bucket].trains)
            total += part;
    }
    return total;
}

/* Where nothing trains the sum stays 0: then the rule decays. */
static void update(struct serial *s, float scale, int iteration)
{
    for (int g = 0; g < GROUPS; g++) {
        const struct group *group = &s->net->groups[g];
        size_t at = group->begin;
        for (int p = 0; (group->trains || group->decays) && p < group->nparams; p++) {
            const struct group_param *param = &group->params[p];
            conformance_apply(iteration, scale, param->lr_mult, param->decay_mult, s->values + at,
                              s->sum + at, s->history + at, param->elems);
            at += param->elems;
        }
    }
}

void serial_iteration(struct serial *s, float clip, int iteration, int rank)
{
    const struct plan *plan = s->plan;
    float adding =
        plan->options.comm.policy == COMM_NONE ? 1 : (float)(plan->ncomputing - plan->options.drop);
    float scale = 1.0f / (adding * (float)plan->options.iter_size);
    double norm;

    for (int b = 0; b < plan->nbuckets; b++) {
        if (!plan->buckets[b].trains)
            continue;
        if (conformance_by_factors(plan, b))
            sum_by_factors(s, b, iteration);
        else
            sum_by_gradients(s, b, iteration, rank);
    }
    norm = sqrt(squared_norm(s));
    if (clip > 0 && norm > (double)clip)
        scale *= (float)((double)clip / norm);
    update(s, scale, iteration);
}
