/* Every scheme against the plain mathematics, bit for bit, and every byte against the prediction.
 *
 * A net made by hand (values, gradients and factors are formulas of the worker, the iteration and
 * the current values) runs some iterations through sync; each rank also computes serially what all
 * workers together must arrive at. MPI's profiling interface counts what was really put on the
 * wire. Collective; run under mpirun: sync_conformance COMM SERVERS CHUNK_BYTES OVERLAP CLIP
 * ITER_SIZE [WIRE [WINDOW [ORDER [SEEDS [STALENESS [MERGE [NODE]]]]]]] With SEEDS the whole is
 * repeated that often, and the profiling interface delays sends and lets completions be seen late
 * and in random order, another one every time. With STALENESS the gradients do not depend on the
 * values, so that the serial run is still the end; on the way each group must hold the parameters
 * of one of the last S + 1 iterations. With NODE, so many ranks each add up among themselves. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sync/node.h"
#include "solver/groups.h"
#include "sync/sync.h"
#include "util/error.h"
#include "util/rng.h"

enum { GROUPS = 5, ITERATIONS = 12, ROWS = 3 };

/* ---- the profiling shim ---- */

struct counted {
    uint64_t sent[GROUPS], received[GROUPS];
};
static struct counted counted;
static const struct plan
    *_Atomic counted_plan; /* NULL: not counting. Set by one thread, read by the other */

/* -1 where nothing is counted: the other thread may end it at any time. */
static int counted_group(MPI_Datatype type, int tag)
{
    const struct plan *plan = counted_plan;

    return plan && type == MPI_FLOAT ? plan->chunks[tag / 2 % plan->nchunks].bucket : -1;
}

static uint64_t chaos; /* state of the random delays; 0: none. Of the progress thread alone */

static uint64_t chance(void)
{
    chaos ^= chaos << 13;
    chaos ^= chaos >> 7;
    chaos ^= chaos << 17;
    return chaos;
}

int MPI_Isend(const void *from, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int group = counted_group(type, tag);

    if (group >= 0)
        counted.sent[group] += (uint64_t)count * 4;
    if (chaos && chance() % 16 == 0)
        usleep((useconds_t)(chance() % 200));
    return PMPI_Isend(from, count, type, to, tag, comm, request);
}

/* Receives are posted early and some never complete, so they count when they complete: which
 * request is a receive of floats is remembered from its posting. */
static struct {
    MPI_Request request;
    int group;
} receives[8192];
static int nreceives;

int MPI_Irecv(void *to, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    int code = PMPI_Irecv(to, count, type, from, tag, comm, request),
        group = counted_group(type, tag);

    if (group >= 0 && nreceives < 8192) {
        receives[nreceives].request = *request;
        receives[nreceives++].group = group;
    }
    return code;
}

/* Half of the requests, from a random place backwards or forwards: late and out of order. */
static int test_some(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    int code = MPI_SUCCESS, start, step;

    if (!chaos || n == 0)
        return PMPI_Testsome(n, requests, done, which, statuses);
    if (chance() % 16 == 0) /* what does not go through MPI, as a node's adding up, is late too */
        usleep((useconds_t)(chance() % 200));
    start = (int)(chance() % (uint64_t)n);
    step = chance() % 2 ? 1 : n - 1;
    *done = 0;
    for (int i = 0, at = start; i < n && code == MPI_SUCCESS; i++, at = (at + step) % n) {
        int flag = 0;
        if (chance() % 2)
            code = PMPI_Test(&requests[at], &flag, &statuses[*done]);
        if (flag)
            which[(*done)++] = at;
    }
    return code;
}

int MPI_Testsome(int n, MPI_Request *requests, int *done, int *which, MPI_Status *statuses)
{
    static MPI_Request before[65536];

    memcpy(before, requests, (size_t)n * sizeof *before);
    int code = test_some(n, requests, done, which, statuses);
    for (int i = 0; counted_plan && *done != MPI_UNDEFINED && i < *done; i++)
        for (int r = 0; r < nreceives; r++)
            if (receives[r].request == before[which[i]]) {
                int bytes = 0;
                MPI_Get_count(&statuses[i], MPI_BYTE, &bytes);
                counted.received[receives[r].group] += (uint64_t)bytes;
                receives[r] = receives[--nreceives];
                break;
            }
    return code;
}

/* ---- a net made by hand ---- */

static float *factor_bottom, *factor_top; /* of the group being posted */

void net_factors(const struct net *net, int group, const float **bottom, const float **top_grad)
{
    (void)net;
    (void)group;
    *bottom = factor_bottom;
    *top_grad = factor_top;
}

void net_touch(struct net *net, int group)
{
    net->params[net->groups[group].first].version++;
}

float *net_host_value(const struct net *net, const struct param *param)
{
    (void)net;
    return param->value;
}

size_t net_param_begin(const struct net *net, int param)
{
    (void)net;
    (void)param;
    return 0; /* asked for statistics alone, and there are none */
}

/* The values are where the host finds them. */
int net_push_values(struct net *net, int group)
{
    (void)net;
    (void)group;
    return 0;
}

static int plain_gemm(void *context, bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                      const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                      float *c, int64_t ldc)
{
    (void)context;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = beta != 0 ? beta * c[i * ldc + j]
                                  : 0; /* further products sum on in the same order */
            for (int64_t l = 0; l < k; l++)
                sum += alpha * (ta ? a[l * lda + i] : a[i * lda + l]) *
                       (tb ? b[j * ldb + l] : b[l * ldb + j]);
            c[i * ldc + j] = sum;
        }
    return 0;
}

static const struct engine_i plain_engine_i = {.name = "plain", .gemm = plain_gemm};
static struct engine plain_engine = {.i = &plain_engine_i};

/* Groups 1 and 3 are fully connected (with and without a bias); group 2 does not train. first: of
 * group 0. */
static void make_net(struct net *net, int64_t first_elems)
{
    const int64_t sizes[GROUPS][3] = {
        {first_elems, 10, 0}, {23, 40, 23}, {77, 0, 0}, {9, 100, 0}, {1, 5, 0}};
    static struct param params[GROUPS * 2];
    static struct param_group groups[GROUPS];

    memset(params, 0, sizeof params);
    net->params = params;
    net->groups = groups;
    net->ngroups = GROUPS;
    for (int g = 0; g < GROUPS; g++) {
        bool connected = g == 1 || g == 3;
        int64_t first = connected ? sizes[g][0] * sizes[g][1] : sizes[g][0];
        int64_t second = connected ? sizes[g][2] : sizes[g][1];
        groups[g] = (struct param_group){.layer = g,
                                         .name = "layer",
                                         .begin = net->elems,
                                         .first = net->nparams,
                                         .nparams = second ? 2 : 1,
                                         .elems = (size_t)(first + second),
                                         .trains = g != 2,
                                         .factorable = connected,
                                         .k = ROWS,
                                         .m = connected ? sizes[g][0] : 0,
                                         .n = connected ? sizes[g][1] : 0};
        params[net->nparams++] =
            (struct param){.shape = {1, {first}}, .lr_mult = 1, .decay_mult = 1};
        if (second)
            params[net->nparams++] = (struct param){.shape = {1, {second}}, .lr_mult = 2};
        net->elems += (groups[g].elems + 15) / 16 * 16;
    }
    net->engine = &plain_engine;
}

/* Arenas of its own, or the node's. */
static void place_net(struct net *net, bool worker, const struct node *node)
{
    bool alone = !node || node->nranks == 1;

    if (!worker)
        return;
    net->values = alone ? calloc(net->elems, sizeof(float)) : node->values;
    net->grads = alone ? calloc(net->elems, sizeof(float)) : node_grads(node, node->rank);
}

static float draw(int worker, int iteration, int micro, int group, size_t i)
{
    struct rng rng = rng_make(7, RNG_DUMMY, (uint32_t)(worker * 8 + micro),
                              (uint64_t)(iteration * GROUPS + group));
    return rng_uniform(&rng, i) - 0.5f;
}

static float feedback = 0.1f; /* how gradients depend on values; 0 with staleness */
static float *versions; /* the serial values after 0, 1, ... iterations; with staleness alone */

/* What a worker's backward leaves behind: factors, or a gradient that depends on the values.
 * `group`: the net's. */
static void make_factors(const struct param_group *g, int group, int worker, int iteration,
                         int micro, const float *values, float *bottom, float *top)
{
    for (int64_t i = 0; i < g->k * g->n; i++)
        bottom[i] = draw(worker, iteration, micro, group, (size_t)i) + values[g->begin];
    for (int64_t i = 0; i < g->k * g->m; i++)
        top[i] = draw(worker, iteration, micro, group, (size_t)(i + g->k * g->n));
}

static void make_gradient(const struct param_group *g, int group, int worker, int iteration,
                          int micro, const float *values, float *gradient, bool add)
{
    for (size_t i = 0; i < g->elems; i++) {
        float x = draw(worker, iteration, micro, group, i) + feedback * values[g->begin + i];
        gradient[i] = add ? gradient[i] + x : x;
    }
}

/* ---- the solver of this test: momentum with a rate that falls ---- */

static void apply(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                  float *value, const float *grad, float *history, size_t stride, size_t n)
{
    (void)context;
    (void)stride;
    float rate = 0.5f / (float)(1 + iteration) * lr_mult;
    for (size_t i = 0; i < n; i++) {
        float g = grad[i] * scale + 0.01f * decay_mult * value[i];
        history[i] = 0.9f * history[i] + rate * g;
        value[i] -= history[i];
    }
}

/* ---- the same, serially ---- */

struct serial {
    float *values, *history, *sum, *one, *rows;
    float *node;      /* the sum of a node's workers */
    size_t elems;     /* of the net */
    float *lost;      /* per speaker: what its codecs rounded away */
    float *lost_home; /* and the homes' */
};

/* These two and what follows: `bucket` is one of the plan's. */
static bool by_factors(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].scheme && plan->buckets[bucket].scheme->factors;
}

static bool trains(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].trains;
}

/* x (a chunk of one worker's gradient, or of the sum) as it comes out of the codec. */
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

static void serial_bucket_sum(struct serial *s, const struct plan *plan, const struct net *net,
                              int bucket, int iteration, int rank)
{
    const struct bucket *g = &plan->buckets[bucket];
    int first = plan->buckets[bucket].first_group,
        end = plan->buckets[bucket].first_group + plan->buckets[bucket].ngroups;
    int64_t width = g->m + g->n, rows = plan->ncomputing * g->k * plan->options.iter_size;
    float *sum = s->sum + g->begin;

    if (by_factors(plan, bucket)) {
        float bottom[ROWS * 100], top[ROWS * 100];
        float *row = s->rows;
        for (int w = 0; w < plan->ncomputing; w++)
            for (int micro = 0; micro < plan->options.iter_size; micro++) {
                make_factors(&net->groups[first], first, w, iteration, micro, s->values, bottom,
                             top);
                for (int64_t k = 0; k < g->k; k++, row += width) {
                    memcpy(row, bottom + k * g->n, (size_t)g->n * 4);
                    memcpy(row + g->n, top + k * g->m, (size_t)g->m * 4);
                }
            }
        plain_gemm(NULL, true, false, g->m, g->n, rows, 1, s->rows + g->n, width, s->rows, width, 0,
                   sum, g->n);
        if (g->elems > (size_t)(g->m * g->n)) {
            memset(sum + g->m * g->n, 0, (size_t)g->m * 4);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t j = 0; j < g->m; j++)
                    sum[g->m * g->n + j] += s->rows[r * width + g->n + j];
        }
        return;
    }
    for (int w = 0; w < plan->ncomputing; w++) {
        int speaker = plan->leader[w];
        bool last = w + 1 == plan->ncomputing || plan->leader[w + 1] != speaker;
        for (int m = first; m < end; m++)
            for (int micro = 0; micro < plan->options.iter_size; micro++)
                make_gradient(&net->groups[m], m, w, iteration, micro, s->values,
                              s->one + (net->groups[m].begin - g->begin), micro > 0);
        for (size_t i = 0; i < g->elems; i++)
            s->node[i] = plan->world_rank[speaker] == w ? s->one[i] : s->node[i] + s->one[i];
        if (!last)
            continue;
        if (!plan->buckets[bucket].scheme) { /* alone */
            if (w == rank)
                memcpy(sum, s->node, g->elems * sizeof *sum);
            continue;
        }
        for (int c = plan->buckets[bucket].first_chunk;
             c < plan->buckets[bucket].first_chunk + plan->buckets[bucket].nchunks; c++)
            through_codec(plan, c, s->node + (plan->chunks[c].begin - g->begin),
                          s->lost + (size_t)speaker * s->elems + plan->chunks[c].begin);
        for (size_t i = 0; i < g->elems; i++)
            sum[i] = speaker == 0 ? s->node[i] : sum[i] + s->node[i];
    }
    for (int c = plan->buckets[bucket].first_chunk;
         c < plan->buckets[bucket].first_chunk + plan->buckets[bucket].nchunks; c++)
        if (plan->buckets[bucket].scheme != &scheme_ps)
            through_codec(plan, c, s->sum + plan->chunks[c].begin,
                          s->lost_home + plan->chunks[c].begin);
}

static void serial_iteration(struct serial *s, const struct plan *plan, const struct net *net,
                             float clip, int iteration, int rank)
{
    float adding = plan->options.comm.policy == COMM_NONE ? 1 : (float)plan->ncomputing;
    float scale = 1.0f / (adding * (float)plan->options.iter_size);
    double total = 0;

    for (int b = 0; b < plan->nbuckets; b++) {
        memset(s->one, 0, net->elems * sizeof *s->one); /* the padding between members */
        if (trains(plan, b))
            serial_bucket_sum(s, plan, net, b, iteration, rank);
    }
    for (int c = 0; c < plan->nchunks; c++) {
        double part = 0;
        for (size_t i = 0; i < plan->chunks[c].elems; i++) {
            double x = (double)s->sum[plan->chunks[c].begin + i] *
                       (double)(1.0f / (float)plan->ncomputing);
            part += x * x;
        }
        if (trains(plan, plan->chunks[c].bucket))
            total += part;
    }
    if (clip > 0 && sqrt(total) > (double)clip)
        scale *= (float)((double)clip / sqrt(total));
    for (int g = 0; g < GROUPS; g++) {
        size_t at = net->groups[g].begin;
        for (int p = 0; net->groups[g].trains && p < net->groups[g].nparams; p++) {
            const struct param *param = &net->params[net->groups[g].first + p];
            size_t n = (size_t)param->shape.dim[0];
            apply(NULL, iteration, scale, param->lr_mult, param->decay_mult, s->values + at,
                  s->sum + at, s->history + at, 0, n);
            at += n;
        }
    }
}

/* ---- the run ---- */

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: ", rank);                                                    \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fprintf(stderr, "\n");                                                                 \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

static bool is_recent(const struct net *net, const struct param_group *g, int iteration,
                      int staleness)
{
    for (int v = iteration; v >= 0 && v >= iteration - staleness; v--)
        if (!memcmp(net->values + g->begin, versions + (size_t)v * net->elems + g->begin,
                    g->elems * sizeof(float)))
            return true;
    return false;
}

static int worker_iteration(struct sync *sync, const struct plan *plan, struct net *net, int rank,
                            int iteration, int staleness)
{
    float bottom[ROWS * 100], top[ROWS * 100];

    for (int g = 0; g < GROUPS; g++)
        if (sync_wait(sync, g))
            return -1;
    for (int g = 0; versions && g < GROUPS; g++)
        REQUIRE(is_recent(net, &net->groups[g], iteration, staleness),
                "iteration %d: group %d is older than %d iterations, or torn", iteration, g,
                staleness);
    for (int micro = 0; micro < plan->options.iter_size; micro++)
        for (int g = GROUPS - 1; g >= 0; g--) {
            const struct param_group *group = &net->groups[g];
            if ((iteration * 7 + rank * 3 + g) % 5 == 0)
                usleep((useconds_t)(300 * ((rank + iteration) % 4))); /* nobody is in step */
            if (by_factors(plan, plan->bucket_of[g])) {
                make_factors(group, g, rank, iteration, micro, net->values, bottom, top);
                factor_bottom = bottom;
                factor_top = top;
            } else if (group->trains) {
                make_gradient(group, g, rank, iteration, micro, net->values,
                              net->grads + group->begin, micro > 0);
            }
            if (sync_post(sync, g, micro == plan->options.iter_size - 1))
                return -1;
        }
    return sync_flush(sync);
}

/* What MPI saw against the prediction, per group, and against what the program counted. */
static void check_bytes(const struct plan *plan, struct sync *sync, const struct counted *measured,
                        int rank)
{
    uint64_t sent = 0;

    for (int g = 0; g < plan->nbuckets; g++) {
        struct traffic t = plan_traffic(plan, g, rank);
        REQUIRE(measured->sent[g] == t.sent * ITERATIONS &&
                    measured->received[g] == t.received * ITERATIONS,
                "group %d (%s): %llu bytes sent and %llu received, predicted %llu and %llu", g,
                scheme_label(plan->buckets[g].scheme), (unsigned long long)measured->sent[g],
                (unsigned long long)measured->received[g], (unsigned long long)t.sent * ITERATIONS,
                (unsigned long long)t.received * ITERATIONS);
        sent += measured->sent[g];
    }
    REQUIRE(sync_stats(sync)->sent == sent, "the program counted %llu bytes sent, MPI %llu",
            (unsigned long long)sync_stats(sync)->sent, (unsigned long long)sent);
}

/* One training from start to end. */
static void run(struct plan_options *options, struct sync_options *sync_options, int each, int rank)
{
    bool worker = rank < options->nranks - options->servers;
    struct node_map map = {.node = NULL};
    struct node *node = NULL;
    struct sync_update update = {.nhistory = 1, .apply = apply};
    struct net net = {0};
    struct serial serial;
    struct group *groups;
    struct plan *plan;
    struct sync *sync;

    make_net(&net, each > 0 ? 20000 : 300); /* worth adding up in slices */
    if (each > 0) {
        REQUIRE(!node_map_create(MPI_COMM_WORLD, options->nranks - options->servers, each, &map) &&
                    !node_create(MPI_COMM_WORLD, &map, net.elems, &node),
                "%s", error_text());
        options->nodes = map.node;
        sync_options->node = node;
    }
    place_net(&net, worker, node);
    REQUIRE((groups = groups_create(&net)) && !plan_create(options, GROUPS, groups, &plan), "%s",
            error_text());
    REQUIRE(!sync_create(MPI_COMM_WORLD, plan, &net, &update, sync_options, &sync), "%s",
            error_text());
    float **arrays[] = {&serial.values, &serial.history, &serial.sum,
                        &serial.one,    &serial.node,    &serial.lost_home};
    for (int i = 0; i < 6; i++)
        *arrays[i] = calloc(net.elems, sizeof(float));
    serial.rows =
        calloc((size_t)(plan->ncomputing * ROWS * options->iter_size) * 200, sizeof(float));
    serial.lost = calloc((size_t)plan->nworkers * net.elems, sizeof(float));
    serial.elems = net.elems;
    for (size_t i = 0; i < net.elems; i++)
        serial.values[i] = draw(99, 0, 0, 0, i);
    if (rank == 0)
        memcpy(net.values, serial.values, net.elems * sizeof(float));
    REQUIRE(options->merge_bytes < 1 << 20 || plan->nbuckets <= 4, "nothing was merged");
    REQUIRE(!sync_share_values(sync), "%s", error_text());
    REQUIRE(!sync_load_history(sync, serial.history), "%s", error_text());
    feedback = sync_options->staleness > 0 ? 0 : 0.1f;
    versions = sync_options->staleness > 0 ? malloc((ITERATIONS + 1) * net.elems * sizeof *versions)
                                           : NULL;
    for (int t = 0; versions && t <= ITERATIONS; t++) {
        memcpy(versions + (size_t)t * net.elems, serial.values, net.elems * sizeof(float));
        if (t < ITERATIONS)
            serial_iteration(&serial, plan, &net, 0, t, rank);
    }
    memset(&counted, 0, sizeof counted);
    nreceives = 0;
    counted_plan = plan;
    REQUIRE(!sync_start(sync), "%s", error_text());
    for (int t = 0; t < ITERATIONS; t++) {
        if (plan_is_worker(plan, rank))
            REQUIRE(!worker_iteration(sync, plan, &net, rank, t, sync_options->staleness), "%s",
                    error_text());
        else
            REQUIRE(!sync_wait_all(sync, t), "%s", error_text());
        if (!versions)
            serial_iteration(&serial, plan, &net, sync_options->clip, t, rank);
    }
    REQUIRE(!sync_wait_all(sync, ITERATIONS - 1) || !plan_is_worker(plan, rank), "%s",
            error_text());
    if (plan_is_worker(plan, rank)) {
        double ones[3] = {1, rank == 0, 2};
        REQUIRE(memcmp(net.values, serial.values, net.elems * sizeof(float)) == 0,
                "parameters differ from the serial run");
        REQUIRE(!sync_sum(sync, ones, 3) && ones[0] == plan->ncomputing && ones[1] == 1,
                "sum is wrong");
    }
    float *history = rank == 0 ? calloc(net.elems, sizeof(float)) : NULL;
    struct counted measured = counted;
    counted_plan = NULL; /* history is control traffic */
    REQUIRE(!sync_gather_history(sync, history), "%s", error_text());
    REQUIRE(rank != 0 || memcmp(history, serial.history, net.elems * sizeof(float)) == 0,
            "history differs from the serial run");
    check_bytes(plan, sync, &measured, rank);
    REQUIRE(!sync_close(sync, 0), "%s", error_text());
    sync_destroy(sync);
    plan_destroy(plan);
    free(groups);
    for (int i = 0; i < 6; i++)
        free(*arrays[i]);
    free(versions);
    free(serial.rows);
    free(serial.lost);
    free(history);
    if (!node || node->nranks == 1) {
        free(net.values);
        free(net.grads);
    }
    node_destroy(node);
    node_map_free(&map);
}

int main(int argc, char **argv)
{
    struct plan_options options = {.iter_size = argc > 6 ? atoi(argv[6]) : 1};
    struct sync_options sync_options = {.stall_seconds = 20, .engine = &plain_engine};
    int rank, level, seeds = argc > 10 ? atoi(argv[10]) : 0, node = argc > 13 ? atoi(argv[13]) : 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &options.nranks);
    REQUIRE(argc >= 6,
            "usage: sync_conformance COMM SERVERS CHUNK OVERLAP CLIP [ITER_SIZE [WIRE [WINDOW "
            "[ORDER [SEEDS [STALENESS [MERGE [NODE]]]]]]]]");
    REQUIRE(!comm_parse(scheme_registry, argv[1], &options.comm), "%s", error_text());
    options.servers = atoi(argv[2]);
    options.chunk_bytes = (size_t)atol(argv[3]);
    sync_options.overlap = atoi(argv[4]) > 0;
    sync_options.forward_waits_all = atoi(argv[4]) > 1;
    sync_options.clip = (float)atof(argv[5]);
    REQUIRE(argc <= 7 || !wire_parse(argv[7], &options.wire), "%s", error_text());
    sync_options.window = argc > 8 ? (size_t)atol(argv[8]) : 0;
    sync_options.fifo = argc > 9 && !strcmp(argv[9], "fifo");
    sync_options.staleness = argc > 11 ? atoi(argv[11]) : 0;
    options.merge_bytes = argc > 12 ? (size_t)atol(argv[12]) : 0;
    if (seeds == 0)
        run(&options, &sync_options, node, rank);
    for (int seed = 1; seed <= seeds; seed++) {
        chaos = (uint64_t)seed * 1000003 + (uint64_t)rank + 1;
        run(&options, &sync_options, node, rank);
    }
    MPI_Finalize();
    return 0;
}
