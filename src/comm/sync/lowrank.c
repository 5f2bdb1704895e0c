/* Low rank for every layer: PowerSGD (Vogels, Karimireddy and Jaggi, NeurIPS 2019). The gradient of
 * a matrix, m x n, travels as the product of two thin matrices. A leader adds to its gradient the
 * residual, the part that it could not send before: M' = M + residual. P = M' Q, with the last
 * iteration's Q, is summed over the leaders and made orthonormal; Q = M'^T P is summed, and every
 * rank's update is P Q^T. The new residual is M' minus P times the leader's own Q^T, not the sum's
 * Q^T, which would leave the differences between leaders in each residual. The sum of all leaders'
 * residuals is the part that the update lacks. Other parameters of the layer travel with P, exact.
 *
 * An iteration has two turns, each a sum over the leaders: pieces go to their homes among the
 * workers and come back as sums. The compute thread multiplies between turns (advance, ahead), on
 * the host, and no layer waits for another. Turns are numbered through all iterations, 2 i and 2 i
 * + 1, and tags carry the number. A leader starts a turn only after it has all sums of the turn
 * before, so a home needs one buffer for each leader. Iterations before options.lowrank_warmup have
 * one turn, in which the gradient travels exact.
 *
 * All leaders multiply the same sums, so Q and the update have the same bits everywhere. */
#include "plan/cost.h"
#include "sync/basis.h"
#include "sync/gradient.h"
#include "sync/history.h"
#include "sync/sync_internal.h"

#include "device/tree_sum.h"
#include "device/vector.h"
#include "plan/for_schemes.h"

#include <math.h>
#include <string.h>

enum { USUAL_RANK = 4 };

/* ---- the plan ---- */

/* Returns the bytes of the residual, both factors, their sums, and P orthonormal; on homes also of
 * a buffer for each gradient of the exact iterations. */
static uint64_t count_memory(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct low_rank low = plan_low_rank(plan, bucket);
    uint64_t elems = b->elems + 3 * low.elems[0] + 2 * low.elems[1];

    if (leader >= plan->nworkers)
        return 0;
    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        if (plan_home(plan, c) == leader)
            elems += (uint64_t)(plan->nworkers - 1) * plan->chunks[c].elems;
    return elems * sizeof(float);
}

/* Cost of the products, in copies of the matrix (two words each). */
#define MATRIX_PASSES 4.0

static void estimate(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                     struct cost *out)
{
    const struct bucket *b = &plan->buckets[bucket];
    double bytes = (double)b->elems * sizeof(float);

    out->sum_seconds = plan->nworkers > 1 ? (double)b->gradient_bytes / cluster->sum_Bps : 0;
    out->compute_seconds = MATRIX_PASSES * bytes / cluster->copy_Bps +
                           8.0 * (double)b->elems * b->rank / cluster->gemm_flops +
                           cost_device_update_seconds(cluster, bytes);
}

/* ---- state ---- */

/* One chunk's sums. */
struct piece_sum {
    int64_t *next; /* per worker: turn of its next message */
    float **from;  /* at home: per worker, a buffer for its part; NULL: another rank is home */
    struct tree_sum tree; /* at home: sum of the running turn */
    int came;             /* at home: number of parts of the running turn that are here */
};

struct lowrank {
    struct history history; /* first member: history.c finds it here */
    const struct device *device;
    struct low_rank low;
    int rank;
    float *residual;        /* m x n; in exact iterations the bucket's sum */
    float *factor[2];       /* this leader's own P and tail, and its Q, as sent to the homes */
    float *sum[2];          /* sums of P and tail, and of Q, which the next iteration needs */
    float *basis;           /* P orthonormal */
    struct piece_sum *sums; /* per chunk */
    int64_t turn;           /* latest turn that this rank has sent (wire thread) */
    int summed_here;        /* chunks whose sum of `turn` is here (wire thread) */
    int64_t computed;       /* turns that this rank has multiplied for (compute thread) */
    _Atomic int64_t ready;  /* turns that this rank may multiply for */
};

static bool is_exact(const struct sync *sync, int64_t iteration)
{
    return iteration < sync->options.lowrank_warmup;
}

static int64_t turn_after(const struct sync *sync, int64_t turn)
{
    return turn + (turn % 2 || !is_exact(sync, turn / 2) ? 1 : 2);
}

/* Returns the number of the bucket's chunks that travel in a turn. */
static int count_moved(const struct sync *sync, int bucket, int64_t turn)
{
    return is_exact(sync, turn / 2) ? bucket_of(sync, bucket)->nchunks
                                    : bucket_of(sync, bucket)->moved;
}

struct stretch {
    float *own, *sum;
    size_t elems;
};

static struct stretch find_stretch(const struct sync *sync, int chunk, int64_t turn)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct bucket *b = bucket_of(sync, c->bucket);
    const struct lowrank *lr = sync->buckets[c->bucket].scheme_state;
    int part = (int)(turn % 2);
    size_t begin;

    if (is_exact(sync, turn / 2))
        return (struct stretch){sync->model.grads + c->begin, lr->residual + (c->begin - b->begin),
                                c->elems};
    begin = plan_piece_begin(b, &lr->low, part, chunk - b->first_chunk);
    return (struct stretch){lr->factor[part] + begin, lr->sum[part] + begin,
                            plan_piece_begin(b, &lr->low, part, chunk - b->first_chunk + 1) -
                                begin};
}

static struct piece_sum *piece_sum_of(const struct sync *sync, int chunk)
{
    int bucket = chunk_of(sync, chunk)->bucket;
    struct lowrank *lr = sync->buckets[bucket].scheme_state;

    return lr ? &lr->sums[chunk - bucket_of(sync, bucket)->first_chunk] : NULL;
}

/* ---- life ---- */

static int open_sum(struct sync *sync, int chunk, const struct lowrank *lr, struct piece_sum *sum)
{
    static const char what[] = "a chunk's sum";
    size_t workers = (size_t)sync->plan->nworkers;
    int moved = bucket_of(sync, chunk_of(sync, chunk)->bucket)->moved;
    size_t most =
        (lr->low.elems[0] + lr->low.elems[1]) / (size_t)moved + 1; /* elements of either turn */

    if (is_exact(sync, sync->options.iteration) && chunk_of(sync, chunk)->elems > most)
        most = chunk_of(sync, chunk)->elems;
    if (OWN(&sync->owner, sum->next, workers, what))
        return -1;
    for (size_t w = 0; w < workers; w++)
        sum->next[w] = 2 * sync->options.iteration;
    if (!is_home(sync, chunk))
        return 0;
    if (OWN(&sync->owner, sum->from, workers, what))
        return -1;
    for (size_t w = 0; w < workers; w++)
        if ((int)w != sync->rank && !(sum->from[w] = gradient_alloc(sync, most, what)))
            return -1;
    return gradient_tree_sum(sync, &sum->tree);
}

static int lowrank_open(struct sync *sync, int bucket)
{
    static const char what[] = "factors of low rank";
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    size_t elems;

    lr->low = plan_low_rank(plan, bucket);
    lr->rank = b->rank;
    lr->turn = 2 * sync->options.iteration - 1;
    lr->computed = 2 * sync->options.iteration;
    atomic_init(&lr->ready, lr->computed);
    elems = b->elems + 3 * lr->low.elems[0] + 2 * lr->low.elems[1];
    if (OWN(&sync->owner, lr->sums, b->nchunks, what))
        return -1;
    if (!(lr->device = gradient_host_device(sync)) ||
        !(lr->residual = gradient_alloc(sync, elems, what)) ||
        history_open(sync, b->name, b->elems, true, &lr->history))
        return -1;
    lr->factor[0] = lr->residual + b->elems;
    lr->sum[0] = lr->factor[0] + lr->low.elems[0];
    lr->basis = lr->sum[0] + lr->low.elems[0];
    lr->factor[1] = lr->basis + lr->low.elems[0];
    lr->sum[1] = lr->factor[1] + lr->low.elems[1];
    for (int i = 0; i < b->nchunks; i++)
        if (open_sum(sync, b->first_chunk + i, lr, &lr->sums[i]))
            return -1;
    return 0;
}

/* ---- wire thread: the sums of a turn ---- */

static void wake_compute(struct sync *sync)
{
    atomic_fetch_add_explicit(&sync->turns, 1, memory_order_release);
    wire_wake(sync->wire);
}

static int message_over(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    int bucket = chunk_of(sync, message_chunk(sync, message))->bucket;
    int64_t iteration = (int64_t)message->user / 2;

    if (bucket_finish_one(sync, bucket, iteration))
        return -1;
    if (sync->buckets[bucket].complete > iteration)
        wake_compute(sync);
    return 0;
}

static int send_piece(struct sync *sync, int chunk, bool back, int64_t turn, int peer)
{
    struct stretch stretch = find_stretch(sync, chunk, turn);

    return bucket_send(sync, chunk_of(sync, chunk)->bucket, turn / 2,
                       (struct wire_message){.buffer = back ? stretch.sum : stretch.own,
                                             .bytes = stretch.elems * sizeof(float),
                                             .peer = peer,
                                             .tag = tag_of(sync, back, chunk, turn),
                                             .done = message_over,
                                             .user = (uint64_t)turn});
}

/* Lets the compute thread multiply for that turn. */
static void make_ready(struct sync *sync, struct lowrank *lr, int64_t turn)
{
    atomic_store_explicit(&lr->ready, turn + 1, memory_order_release);
    wake_compute(sync);
}

/* Counts a chunk's sum; the last of an iteration's first turn lets the second turn begin. */
static void note_sum(struct sync *sync, int bucket)
{
    struct lowrank *lr = sync->buckets[bucket].scheme_state;

    if (++lr->summed_here < count_moved(sync, bucket, lr->turn))
        return;
    lr->summed_here = 0;
    if (turn_after(sync, lr->turn) / 2 == lr->turn / 2)
        make_ready(sync, lr, lr->turn + 1);
}

/* Adds a leader's part at home. After the last part, sends the sum to all leaders, beginning with
 * the next rank. */
static int add_part(struct sync *sync, int chunk, int64_t turn, int worker)
{
    struct piece_sum *sum = piece_sum_of(sync, chunk);
    struct stretch stretch = find_stretch(sync, chunk, turn);
    int workers = sync->plan->nworkers;

    if (sum->came++ == 0)
        tree_sum_begin(&sum->tree, stretch.elems, stretch.sum);
    if (!(worker == sync->rank ? tree_sum_lend(&sum->tree, worker, stretch.own)
                               : tree_sum_give(&sum->tree, worker, sum->from[worker])))
        return 0;
    sum->came = 0;
    for (int i = 1; i < workers; i++)
        if (send_piece(sync, chunk, true, turn, (sync->rank + i) % workers))
            return -1;
    note_sum(sync, chunk_of(sync, chunk)->bucket);
    return 0;
}

static int part_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    return add_part(sync, message_chunk(sync, message), (int64_t)message->user,
                    leader_of(sync, message));
}

static int sum_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;

    note_sum(sync, chunk_of(sync, message_chunk(sync, message))->bucket);
    return message_over(context, message);
}

static int lowrank_accept(struct sync *sync, const struct arrival *arrival,
                          struct wire_message *out)
{
    const struct lowrank *lr = sync->buckets[arrival->bucket].scheme_state;
    struct piece_sum *sum = piece_sum_of(sync, arrival->chunk);
    bool wanted = arrival->back
                      ? lr && !sum->from && arrival->peer == plan_home(sync->plan, arrival->chunk)
                      : lr && sum->from && arrival->peer < sync->plan->nworkers;
    int64_t turn = wanted ? sum->next[arrival->peer] : 0;
    int piece = arrival->chunk - bucket_of(sync, arrival->bucket)->first_chunk;
    struct stretch stretch = {0};

    wanted = wanted && tag_iteration(sync, arrival, turn) == turn &&
             piece < count_moved(sync, arrival->bucket, turn) &&
             (!arrival->back || turn == lr->turn);
    if (wanted)
        stretch = find_stretch(sync, arrival->chunk, turn);
    if (arrival_check(sync, arrival, turn, wanted ? turn + 1 : 0, stretch.elems * sizeof(float)))
        return -1;
    out->buffer = arrival->back ? stretch.sum : sum->from[arrival->peer];
    out->done = arrival->back ? sum_came : part_came;
    out->user = (uint64_t)turn;
    sum->next[arrival->peer] = turn_after(sync, turn);
    return 0;
}

/* Sends this leader's part of the next turn to the homes. */
static int start_turn(void *context, int64_t bucket)
{
    struct sync *sync = context;
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    int first = bucket_of(sync, (int)bucket)->first_chunk, moved;
    int start = plan_first_sent(sync->plan, (int)bucket, sync->rank);

    lr->turn = turn_after(sync, lr->turn);
    moved = count_moved(sync, (int)bucket, lr->turn);
    for (int i = 0; i < moved; i++) {
        int chunk = first + (start + i) % moved;
        if (is_home(sync, chunk)
                ? add_part(sync, chunk, lr->turn, sync->rank)
                : send_piece(sync, chunk, false, lr->turn, plan_home(sync->plan, chunk)))
            return -1;
    }
    return 0;
}

/* Adds the snapshot's residuals, which another scheme may have left, to the first gradient.
 * Residuals cover all parameters of the bucket, not only the matrix. */
static void pay_debts(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct lowrank *lr = sync->buckets[bucket].scheme_state;

    vector_add(sync->model.grads + b->begin, lr->residual, b->elems);
    memset(lr->residual, 0, b->elems * sizeof(float));
}

/* Posts the gradient. For each piece, the home waits for its sends of the sum to all other leaders,
 * and a leader that is not the home for its send and for the sum. */
static int lowrank_post(struct sync *sync, int bucket, int64_t iteration)
{
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    int first = bucket_of(sync, bucket)->first_chunk, waits = 0;
    bool exact = is_exact(sync, iteration);

    if (iteration == sync->options.iteration)
        pay_debts(sync, bucket);
    for (int c = first; c < first + count_moved(sync, bucket, 2 * iteration); c++)
        waits += is_home(sync, c) ? sync->plan->nworkers - 1 : 2;
    bucket_expect(sync, bucket, iteration, exact ? waits : 2 * waits);
    if (exact)
        return start_turn(sync, bucket);
    make_ready(sync, lr, 2 * iteration);
    return 0;
}

/* ---- compute thread ---- */

/* Makes a factor's columns orthonormal. A column that depends linearly on earlier columns becomes a
 * random draw, so that a layer whose gradient was 0 can recover. The first Q is random. */
static void make_basis(struct sync *sync, int bucket, int64_t turn, float *x, int64_t rows)
{
    struct rng rng = rng_make(sync->options.seed, RNG_LOW_RANK,
                              (uint32_t)bucket_of(sync, bucket)->layer, (uint64_t)turn);

    basis_make(x, rows, bucket_of(sync, bucket)->rank, &rng);
}

/* Computes P = M' Q, and appends the tail: the layer's other parameters. */
static int multiply_right(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    const float *gradient = sync->model.grads + b->begin;
    int64_t m = lr->low.m, n = lr->low.n;

    make_basis(sync, bucket, lr->computed + 1, lr->sum[1], n);
    vector_add(lr->residual, gradient, (size_t)(m * n));
    memcpy(lr->factor[0] + m * lr->rank, gradient + b->elems - lr->low.tail,
           lr->low.tail * sizeof(float));
    return lr->device->i->gemm(lr->device->context, false, false, m, lr->rank, n, 1, lr->residual,
                               n, lr->sum[1], lr->rank, 0, lr->factor[0], lr->rank);
}

/* Computes Q = M'^T P. */
static int multiply_left(struct sync *sync, int bucket)
{
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    int64_t m = lr->low.m, n = lr->low.n;

    memcpy(lr->basis, lr->sum[0], (size_t)(m * lr->rank) * sizeof(float));
    make_basis(sync, bucket, lr->computed - 1, lr->basis, m);
    return lr->device->i->gemm(lr->device->context, true, false, n, lr->rank, m, 1, lr->residual, n,
                               lr->basis, lr->rank, 0, lr->factor[1], lr->rank);
}

/* Computes the next turn's factor if the sums that it needs are here, and starts the turn. */
static int lowrank_advance(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    int64_t start;

    if (!lr || lr->computed >= atomic_load_explicit(&lr->ready, memory_order_acquire))
        return 0;
    start = trace_begin(sync->options.trace);
    if (lr->computed % 2 ? multiply_left(sync, bucket) : multiply_right(sync, bucket))
        return error_context("layer '%s': its factors of low rank", b->name);
    lr->computed++;
    wire_call(sync->wire, start_turn, sync, bucket);
    trace_span(sync->options.trace, TRACE_COMPUTE, TRACE_UPDATE, b->layer, start);
    return 0;
}

/* Waits until the bucket is done, and meanwhile computes other layers' products, for which other
 * ranks wait. */
static int lowrank_ahead(struct sync *sync, int bucket, int64_t iteration)
{
    const _Atomic int64_t *done = &sync->buckets[bucket].done;

    while (atomic_load_explicit(done, memory_order_acquire) <= iteration) {
        int64_t seen = atomic_load_explicit(&sync->turns, memory_order_acquire);
        if (compute_advance(sync) ||
            (atomic_load_explicit(done, memory_order_acquire) <= iteration &&
             compute_wait(sync, &sync->turns, seen + 1, bucket)))
            return -1;
    }
    return 0;
}

/* Computes the update of all leaders, and the residual. If the update is not finite, clears Q and
 * the residual, which would spoil all later updates. */
static int rebuild_product(struct sync *sync, int bucket, float *out)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    const struct device *device = lr->device;
    int64_t m = lr->low.m, n = lr->low.n, rank = lr->rank;

    memcpy(out + b->elems - lr->low.tail, lr->sum[0] + m * rank, lr->low.tail * sizeof(float));
    if (device->i->gemm(device->context, false, true, m, n, rank, 1, lr->basis, rank, lr->sum[1],
                        rank, 0, out, n))
        return -1;
    if (!isfinite(vector_sumsq(lr->sum[1], lr->low.elems[1], 1))) {
        memset(lr->residual, 0, (size_t)(m * n) * sizeof(float));
        memset(lr->sum[1], 0, lr->low.elems[1] * sizeof(float));
        return 0;
    }
    return device->i->gemm(device->context, false, true, m, n, rank, -1, lr->basis, rank,
                           lr->factor[1], rank, 1, lr->residual, n);
}

static int lowrank_rebuild(struct sync *sync, int bucket, int64_t iteration)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct device *device = sync->model.device;
    struct lowrank *lr = sync->buckets[bucket].scheme_state;
    bool on_host = gradient_on_host(sync);
    float *out = (on_host ? sync->model.device_grads : sync->model.grads) + b->begin;

    lr->computed = 2 * (iteration + 1);
    if (is_exact(sync, iteration)) {
        memcpy(out, lr->residual, b->elems * sizeof *out);
        memset(lr->residual, 0, b->elems * sizeof *out);
    } else if (rebuild_product(sync, bucket, out)) {
        return error_context("layer '%s': the product of its factors", b->name);
    }
    return on_host ? 0
                   : device->i->write(device->context, sync->model.device_grads + b->begin, out,
                                      b->elems);
}

/* Applies the rule. If this update is left out, clears the residual, which holds a part of its
 * gradient. */
static int lowrank_settle(struct sync *sync, int bucket, int64_t iteration)
{
    struct lowrank *lr = sync->buckets[bucket].scheme_state;

    if (sync->clip.skips)
        memset(lr->residual, 0, bucket_of(sync, bucket)->elems * sizeof(float));
    return history_settle(sync, bucket, iteration);
}

static size_t lowrank_residual(struct sync *sync, int chunk, enum kept kept, float **out)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct bucket *b = bucket_of(sync, c->bucket);
    const struct lowrank *lr = sync->buckets[c->bucket].scheme_state;
    bool basis = kept == KEPT_BASES && chunk == b->first_chunk;

    if (kept != KEPT_GRADIENTS && !basis)
        return 0;
    if (out)
        *out = basis ? lr->sum[1] : lr->residual + (c->begin - b->begin);
    return basis ? plan_low_rank(sync->plan, c->bucket).elems[1] : c->elems;
}

static const struct scheme_steps steps_lowrank = {
    .state_bytes = sizeof(struct lowrank),
    .open = lowrank_open,
    .post = lowrank_post,
    .accept = lowrank_accept,
    .ahead = lowrank_ahead,
    .advance = lowrank_advance,
    .rebuild = lowrank_rebuild,
    .settle = lowrank_settle,
    .history = history_view_chunk,
    .restore = history_restore_bucket,
    .residual = lowrank_residual,
    .everywhere = true,
    .stays = true,
};

const struct scheme scheme_lowrank = {
    .name = "lowrank",
    .label = "low rank",
    .help = "factors of low rank of every layer, with error feedback (PowerSGD); lowrank:R for a "
            "rank other than 4",
    .home = HOME_WORKERS,
    .rank = USUAL_RANK,
    .lossy = true,
    .codec_back = true,
    .traffic = plan_home_traffic,
    .memory = count_memory,
    .cost = estimate,
    .steps = &steps_lowrank,
};
