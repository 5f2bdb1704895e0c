/* A program that knows nothing of this one but include/poseidon.h, and is linked with the objects
 * of libposeidon.so alone. Run under mpirun by test_library.sh with the name of a case and options;
 * prints what is wrong and ends all ranks. Results are held against sums in double, made of what
 * every rank is known to have. */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "include/poseidon.h"

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", rank, __LINE__, #condition,              \
                    poseidon_error());                                                             \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* A failure whose message has all of these. */
#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        const char *const parts_[] = {__VA_ARGS__};                                                \
        REQUIRE((call) == -1);                                                                     \
        for (size_t i_ = 0; i_ < sizeof parts_ / sizeof *parts_; i_++)                             \
            if (!strstr(poseidon_error(), parts_[i_])) {                                           \
                fprintf(stderr, "line %d: '%s' expected in: %s\n", __LINE__, parts_[i_],           \
                        poseidon_error());                                                         \
                MPI_Abort(MPI_COMM_WORLD, 1);                                                      \
            }                                                                                      \
        if (rank == 0)                                                                             \
            printf("ok: %s\n", poseidon_error());                                                  \
    } while (0)

enum { TENSORS = 5, ROWS = 3, OUTPUTS = 40, INPUTS = 70, PRODUCT = 2, MOST = 30000 };

static const size_t elems[TENSORS] = {1, 1000, OUTPUTS *INPUTS, 17, MOST};
static const char *const names[TENSORS] = {"one", "thousand", "product", "bias", "large"};
static int rank, nranks;
static float gradient[2][TENSORS][MOST], values[2][TENSORS][MOST];
static bool values_are_results;
static float left[ROWS * OUTPUTS], right[ROWS * INPUTS];

/* What rank r has at place i of tensor t, and of the factors (t < 0), in that iteration. */
static float sample(int r, int iteration, int t, int i)
{
    unsigned x = (unsigned)r * 7919 + (unsigned)iteration * 104729 + (unsigned)(t + 3) * 1299709 +
                 (unsigned)i * 15485863;

    x ^= x >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    x *= 0x297a2d39u;
    x ^= x >> 15;
    return (float)(x >> 8) / (float)(1 << 23) - 1;
}

static bool skips(int r, int iteration, int t)
{
    return (r + iteration + t) % 4 == 3;
}

static double expected(int iteration, int t, int i)
{
    double sum = 0;

    for (int r = 0; r < nranks; r++)
        for (int k = 0; k < (t == PRODUCT ? ROWS : 1) && !skips(r, iteration, t); k++)
            sum += t == PRODUCT ? (double)sample(r, iteration, -1, k * OUTPUTS + i / INPUTS) *
                                      (double)sample(r, iteration, -2, k * INPUTS + i % INPUTS)
                                : (double)sample(r, iteration, t, i);
    return sum;
}

static struct poseidon_tensor tensor_of(int h, int t)
{
    struct poseidon_tensor tensor = {
        .name = names[t], .elems = elems[t], .gradient = gradient[h][t], .values = values[h][t]};

    /* unlike on unlike ranks, as whoever measures has it */
    tensor.forward_seconds = 1e-3 * (1 + rank * (t + 1));
    tensor.backward_seconds = 2 * tensor.forward_seconds;
    if (t == PRODUCT) {
        tensor.rows = ROWS;
        tensor.outputs = OUTPUTS;
        tensor.inputs = INPUTS;
    }
    return tensor;
}

/* values: rank 0's are all 1, the others' are noise, which nobody may see. */
static struct poseidon *made(int h, const char *options)
{
    struct poseidon *p;

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options, &p));
    for (int t = 0; t < TENSORS; t++) {
        struct poseidon_tensor tensor = tensor_of(h, t);
        int number;
        for (size_t i = 0; i < elems[t]; i++)
            values[h][t][i] = rank == 0 ? 1 : NAN;
        REQUIRE(!poseidon_add(p, &tensor, &number) && number == t);
    }
    return p;
}

static struct poseidon *started(int h, const char *options)
{
    struct poseidon *p = made(h, options);

    REQUIRE(!poseidon_start(p));
    for (int t = 0; t < TENSORS; t++)
        REQUIRE(values[h][t][elems[t] - 1] == 1);
    REQUIRE(!poseidon_wait_all(p));
    return p;
}

static void post_one(struct poseidon *p, int h, int iteration, int t)
{
    int factors = poseidon_takes_factors(p, t);

    REQUIRE(factors >= 0 && (!factors || t == PRODUCT));
    if (skips(rank, iteration, t)) {
        REQUIRE(!poseidon_skip(p, t));
        return;
    }
    for (int i = 0; t == PRODUCT && i < ROWS * OUTPUTS; i++)
        left[i] = sample(rank, iteration, -1, i);
    for (int i = 0; t == PRODUCT && i < ROWS * INPUTS; i++)
        right[i] = sample(rank, iteration, -2, i);
    if (factors) {
        REQUIRE(!poseidon_post_factors(p, t, ROWS, left, right));
        memset(left, 0, sizeof left); /* they were copied */
        return;
    }
    for (int i = 0; i < (int)elems[t]; i++) {
        gradient[h][t][i] = t == PRODUCT ? 0 : sample(rank, iteration, t, i);
        for (int k = 0; t == PRODUCT && k < ROWS; k++)
            gradient[h][t][i] += left[k * OUTPUTS + i / INPUTS] * right[k * INPUTS + i % INPUTS];
    }
    REQUIRE(!poseidon_post(p, t));
}

static void post_all(struct poseidon *p, int h, int iteration)
{
    for (int t = 0; t < TENSORS; t++) /* in an order of each rank's own */
        post_one(p, h, iteration, (t * 2 + rank + iteration) % TENSORS);
}

static void check_result(const float *got, int iteration, int t, double scale, double tolerance)
{
    for (int i = 0; i < (int)elems[t]; i++) {
        double wanted = expected(iteration, t, i) * scale;
        if (!(fabs((double)got[i] - wanted) <= tolerance * nranks)) {
            fprintf(stderr, "rank %d, iteration %d: '%s'[%d] is %.8g, expected %.8g\n", rank,
                    iteration, names[t], i, (double)got[i], wanted);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
    }
}

/* Means or sums of several iterations; the tolerance follows the format. */
static void case_results(const char *options)
{
    struct poseidon *p = started(0, options);
    double scale = options && strstr(options, "sum") ? 1 : 1.0 / nranks;
    double tolerance = options && strstr(options, "bf16") ? 3e-2 : 3e-6;
    struct poseidon_traffic did;

    for (int iteration = 0; iteration < 6; iteration++) {
        post_all(p, 0, iteration);
        for (int t = TENSORS - 1; t >= 0; t--) {
            REQUIRE(!poseidon_wait(p, t));
            check_result(gradient[0][t], iteration, t, scale, tolerance);
        }
    }
    for (int t = 0; t < TENSORS; t++) {
        REQUIRE(!poseidon_report(p, t, &did));
        REQUIRE(did.travel_seconds > 0 || nranks == 1);
        REQUIRE(did.first <= t && t < did.first + did.tensors);
        /* what is sent of an iteration may not be over yet */
        REQUIRE(did.sent <= 6 * did.planned_sent && did.sent >= 5 * did.planned_sent);
    }
    REQUIRE(!poseidon_report(p, PRODUCT, &did));
    if (rank == 0)
        printf("ok: %s: product by %s; %s\n", options ? options : "(no options)", did.scheme,
               poseidon_advice(p));
    REQUIRE(!poseidon_destroy(p));
}

/* SGD with momentum and weight decay, and a rate that changes; memory of the library's. */
static void case_values(const char *options)
{
    static float history[TENSORS][MOST], mine[TENSORS][MOST];
    struct poseidon *p = started(0, options);

    for (int t = 0; t < TENSORS; t++)
        for (size_t i = 0; i < elems[t]; i++)
            mine[t][i] = 1;
    for (int iteration = 0; iteration < 5; iteration++) {
        float rate = iteration < 2 ? 0.5f : 0.25f;
        if (iteration == 2)
            REQUIRE(!poseidon_set_rate(p, rate));
        post_all(p, 0, iteration);
        REQUIRE(!poseidon_wait_all(p));
        for (int t = 0; t < TENSORS; t++)
            for (int i = 0; i < (int)elems[t]; i++) {
                float mean = (float)(expected(iteration, t, i) / nranks);
                history[t][i] = 0.9f * history[t][i] + rate * (mean + 0.01f * mine[t][i]);
                mine[t][i] -= history[t][i];
                REQUIRE(fabsf(mine[t][i] - values[0][t][i]) < 1e-5f);
            }
    }
    REQUIRE(!poseidon_destroy(p));
}

/* The results of some more iterations, or values; into `out`. */
static void run_on(struct poseidon *p, int first, int end, float out[TENSORS][MOST])
{
    bool rule = values_are_results;

    for (int iteration = first; iteration < end; iteration++) {
        post_all(p, 0, iteration);
        REQUIRE(!poseidon_wait_all(p));
    }
    for (int t = 0; t < TENSORS; t++)
        memcpy(out[t], rule ? values[0][t] : gradient[0][t], elems[t] * sizeof(float));
}

static void *state_of(struct poseidon *p, size_t *bytes)
{
    void *state;

    *bytes = poseidon_state_size(p);
    REQUIRE((*bytes > 0) == (rank == 0));
    MPI_Bcast(bytes, sizeof *bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    state = calloc(*bytes, 1);
    REQUIRE(state && !poseidon_state_get(p, state, *bytes));
    return state;
}

/* A run that stops in the middle and goes on ends in the bits of the one that does not. */
static void case_state(const char *options)
{
    static float then[TENSORS][MOST], whole[TENSORS][MOST], resumed[TENSORS][MOST];
    struct poseidon *p = started(0, options);
    struct poseidon_traffic one, other;
    size_t bytes;
    void *state;

    values_are_results = options && strstr(options, "values");
    run_on(p, 0, 4, then);
    REQUIRE(!poseidon_set_rate(p, 0.125f));
    state = state_of(p, &bytes);
    run_on(p, 4, 9, whole);
    REQUIRE(!poseidon_report(p, PRODUCT, &one) && !poseidon_destroy(p));

    p = made(0, options);
    for (int t = 0; t < TENSORS; t++)
        if (rank == 0 && values_are_results)
            memcpy(values[0][t], then[t], elems[t] * sizeof(float));
    REQUIRE(!poseidon_state_set(p, state, bytes)); /* the last one counts */
    REFUSED(poseidon_state_set(p, state, bytes - 1), "give all of it");
    REQUIRE(!poseidon_state_set(p, state, bytes));
    memset(state, 0xff, bytes); /* it was copied */
    REQUIRE(!poseidon_start(p) && !poseidon_wait_all(p));
    run_on(p, 4, 9, resumed);
    for (int t = 0; t < TENSORS; t++)
        REQUIRE(!memcmp(whole[t], resumed[t], elems[t] * sizeof(float)));
    REQUIRE(!poseidon_report(p, PRODUCT, &other) && !strcmp(one.scheme, other.scheme));
    REQUIRE(!poseidon_destroy(p));

    p = started(0, options); /* what was owed is missed, or nothing was, and nothing is tested */
    run_on(p, 4, 9, resumed);
    REQUIRE(memcmp(whole, resumed, sizeof whole) != 0);
    REQUIRE(!poseidon_destroy(p));
    free(state);
    if (rank == 0)
        printf("ok: %s: %zu bytes, product by %s\n", options, bytes, one.scheme);
}

/* A state that a handle with those options and that many elements of the last tensor has to refuse;
 * by poseidon_state_set, or not before the start. */
static void refuse_state(const char *options, size_t last, const void *state, size_t bytes,
                         bool starts, const char *part)
{
    struct poseidon_tensor tensor = tensor_of(0, 0);
    struct poseidon *p = made(0, options);

    tensor.name = "last";
    tensor.elems = last;
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    if (starts)
        REQUIRE(!poseidon_state_set(p, state, bytes));
    REFUSED(starts ? poseidon_start(p) : poseidon_state_set(p, state, bytes), part);
    REQUIRE(poseidon_destroy(p) == (starts ? -1 : 0));
}

static void case_states(const char *options)
{
    struct poseidon_tensor tensor = tensor_of(0, 0);
    struct poseidon *p = made(0, options);
    size_t bytes, few;
    char *state, *alone;

    tensor.name = "last";
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REQUIRE(!poseidon_start(p));
    for (int t = 0; t <= TENSORS; t++)
        REQUIRE(!poseidon_skip(p, t));
    state = state_of(p, &bytes);
    REFUSED(poseidon_state_set(p, state, bytes), "called already");
    REQUIRE(!poseidon_destroy(p));

    refuse_state(options, 1, NULL, 0, false, "no state");
    refuse_state(options, 1, "poseidon state 1", 16, false, "no state");
    refuse_state(options, 1, state, bytes - 1, false, "give all of it");
    refuse_state(options, 2, state, bytes, true, "tensor 5: 'last' of 1 elements");
    if (nranks > 1)
        refuse_state("wire=bf16,comm=allreduce", 1, state, bytes, true, "comm=allreduce");
    for (size_t at = 0; at < bytes; at += bytes / 5) {
        state[at] ^= 4;
        refuse_state(options, 1, state, bytes, false, at < 16 ? "no state" : "damaged");
        state[at] ^= 4;
    }

    REQUIRE(!poseidon_create(MPI_COMM_SELF, "comm=ps", &p));
    REQUIRE(!poseidon_add(p, &tensor, NULL) && !poseidon_start(p));
    REQUIRE((few = poseidon_state_size(p)) && (alone = malloc(few)));
    REQUIRE(!poseidon_state_get(p, alone, few));
    REFUSED(poseidon_state_get(p, alone, few - 1), "poseidon_state_size");
    REFUSED(poseidon_state_get(p, alone, few), "poseidon_state_size");
    REQUIRE(poseidon_destroy(p));
    if (nranks > 1)
        refuse_state(options, 1, alone, few, false, "ranks: 1, and here");
    free(state);
    free(alone);
}

/* Two handles at once, of other schemes, one iteration apart. */
static void case_two(const char *options)
{
    struct poseidon *a = started(0, options), *b = started(1, "comm=allreduce,merge=0");

    post_all(a, 0, 0);
    for (int iteration = 0; iteration < 4; iteration++) {
        post_all(b, 1, iteration);
        REQUIRE(!poseidon_wait_all(a));
        for (int t = 0; t < TENSORS; t++)
            check_result(gradient[0][t], iteration, t, 1.0 / nranks, 3e-6);
        post_all(a, 0, iteration + 1);
        REQUIRE(!poseidon_wait_all(b));
        for (int t = 0; t < TENSORS; t++)
            check_result(gradient[1][t], iteration, t, 1.0 / nranks, 3e-6);
    }
    REQUIRE(!poseidon_destroy(a)); /* what is posted arrives, waited for or not */
    REQUIRE(!poseidon_destroy(b));
}

/* What no rank may ask before the start, or at all. */
static void case_refusals(const char *options)
{
    struct poseidon_tensor tensor = tensor_of(0, 1);
    struct poseidon *p;

    (void)options;
    REFUSED(poseidon_create(MPI_COMM_WORLD, NULL, NULL), "NULL");
    REFUSED(poseidon_create(MPI_COMM_NULL, NULL, &p), "MPI_COMM_NULL");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "wier=bf16", &p), "wier", "did you mean wire");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "comm=auto,wire=half", &p), "half", "fp32 or bf16");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "comm=quick", &p), "quick", "ps, ");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "lossy=ps", &p), ": lossy=ps: 'ps' is no word");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "lossy=bf16+onebit,comm=sfb", &p),
            ": lossy=bf16+onebit says what comm=auto may choose from, and comm=sfb leaves");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "wire=bf16,lossy=lowrank:2", &p),
            ": wire=bf16 rounds all gradients, and lossy=lowrank:2 those");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "lossy=bf16+bf16", &p), "appears twice");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "merge=much", &p), "much", "512k");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "hierarchy=2.5", &p), "2.5", "number of a node");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "stall-timeout=5", &p), "stall-timeout");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "merge", &p), "merge", "NAME=VALUE");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "type=Sgd", &p), "Sgd", "SGD");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "momentum=-1", &p), "momentum", "0 or more");
    REQUIRE(!poseidon_destroy(NULL));
    REFUSED(poseidon_add(NULL, &tensor, NULL), "NULL");
    REFUSED(poseidon_start(NULL), "NULL");
    REFUSED(poseidon_post(NULL, 0), "NULL");
    REFUSED(poseidon_wait_all(NULL), "NULL");
    REFUSED(poseidon_skip(NULL, 0), "NULL");

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "result=values", &p));
    REFUSED(poseidon_add(p, NULL, NULL), "NULL");
    tensor.name = NULL;
    REFUSED(poseidon_add(p, &tensor, NULL), "name");
    tensor = tensor_of(0, 1);
    tensor.values = NULL;
    REFUSED(poseidon_add(p, &tensor, NULL), "thousand", "values");
    tensor = tensor_of(0, 1);
    tensor.elems = 0;
    REFUSED(poseidon_add(p, &tensor, NULL), "thousand", "0 elements");
    tensor = tensor_of(0, PRODUCT);
    tensor.inputs++;
    REFUSED(poseidon_add(p, &tensor, NULL), "product", "71 inputs", "2800");
    tensor.inputs--;
    tensor.rows = -1;
    REFUSED(poseidon_add(p, &tensor, NULL), "product", "-1 rows");
    tensor = tensor_of(0, 1);
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_add(p, &tensor, NULL), "thousand", "added already");
    REFUSED(poseidon_post(p, 0), "poseidon_start");
    REFUSED(poseidon_wait(p, 0), "poseidon_start");
    REFUSED(poseidon_takes_factors(p, 0), "poseidon_start");
    REFUSED(poseidon_fail(p, "x"), "poseidon_start");
    REFUSED(poseidon_share(p, NULL, 4), "poseidon_share");
    REQUIRE(!poseidon_gradient(p, 7));
    REQUIRE(!poseidon_start(p));
    REFUSED(poseidon_add(p, &tensor, NULL), "already");
    REFUSED(poseidon_start(p), "already");
    REFUSED(poseidon_report(p, 0, NULL), "NULL");
    REFUSED(poseidon_report(p, 1, NULL), "no tensor 1");
    REQUIRE(!poseidon_post(p, 0) && !poseidon_wait(p, 0)); /* none of that did any harm */
    REQUIRE(!poseidon_destroy(p));

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "", &p));
    REFUSED(poseidon_start(p), "no tensor was added");
    REFUSED(poseidon_destroy(p), "no tensor was added");
    p = made(0, "comm=lowrank:30");
    REFUSED(poseidon_start(p), "comm=lowrank:30: no layer's gradient is large enough");
    REFUSED(poseidon_destroy(p), "use a smaller rank, or comm=ps");
}

/* A matrix that is no inner product's weight has no factors of its own, but a low rank: a gradient
 * of rank 1 arrives whole. */
static void case_matrix(const char *options)
{
    struct poseidon_tensor tensor = tensor_of(0, PRODUCT);
    struct poseidon_traffic did;
    struct poseidon *p;

    tensor.rows = 0;
    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options, &p) && !poseidon_add(p, &tensor, NULL));
    REQUIRE(!poseidon_start(p) && poseidon_takes_factors(p, 0) == 0);
    for (int i = 0; i < OUTPUTS * INPUTS; i++)
        gradient[0][PRODUCT][i] = (float)((rank + 1) * (1 + i / INPUTS) * (1 + i % INPUTS));
    REQUIRE(!poseidon_post(p, 0) && !poseidon_wait(p, 0));
    for (int i = 0; i < OUTPUTS * INPUTS; i++) {
        double mean = (nranks + 1) / 2.0 * (1 + i / INPUTS) * (1 + i % INPUTS);
        REQUIRE(fabs((double)gradient[0][PRODUCT][i] - mean) < 1e-5 * mean);
    }
    REQUIRE(!poseidon_report(p, 0, &did) && did.planned_sent < elems[PRODUCT] * sizeof(float) / 2);
    REQUIRE(did.sent == did.planned_sent && !poseidon_destroy(p));
}

/* Ranks that disagree: the first difference is named on all. */
static void case_differ(const char *options)
{
    bool last = rank == nranks - 1;
    struct poseidon_tensor tensor = tensor_of(0, 0);
    struct poseidon *p;
    int shared = rank;

    (void)options;
    REQUIRE(!poseidon_create(MPI_COMM_WORLD, last ? "comm=sfb" : "comm=ps", &p));
    REQUIRE(!poseidon_share(p, &shared, sizeof shared) && shared == 0);
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_start(p), "options differs: \"comm=ps\" on rank", "\"comm=sfb\" on rank");
    REFUSED(poseidon_post(p, 0), "comm=sfb");
    REFUSED(poseidon_destroy(p), "comm=sfb");

    p = made(0, NULL);
    tensor = tensor_of(1, 1);
    tensor.name = "more";
    if (last)
        REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_start(p), "tensor 5 differs: not set on rank", "'more' of 1000 elements",
            "add the same tensors");
    REFUSED(poseidon_destroy(p), "more");

    p = made(0, NULL);
    tensor.elems += last;
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_start(p), "'more' of 1001 elements", "1000 elements");
    REFUSED(poseidon_destroy(p), "more");
}

/* One rank does something wrong in the second iteration; all get its message. */
static void end_by(const char *what, const char *part, int wrong(struct poseidon *p))
{
    struct poseidon *p = started(0, "comm=sfb,hierarchy=off,merge=0");
    char who[32];
    int status = 0;

    snprintf(who, sizeof who, nranks > 1 ? "rank %d (" : "", nranks - 1);
    post_all(p, 0, 0);
    REQUIRE(!poseidon_wait_all(p));
    MPI_Barrier(MPI_COMM_WORLD); /* nobody is in the first one any more */
    if (rank == nranks - 1) {
        status = wrong(p);
    } else {
        for (int i = 0; i < 3 * TENSORS && !status; i++) { /* it may be an iteration ahead */
            status = poseidon_skip(p, i % TENSORS);
            if (!status && i % TENSORS == TENSORS - 1)
                status = poseidon_wait_all(p);
        }
    }
    REQUIRE(status == -1);
    if (rank < nranks - 1 || strcmp(what, "destroyed")) {
        REFUSED(poseidon_post(p, 0), part, who);
        REFUSED(poseidon_destroy(p), part, who);
    }
}

static int post_twice(struct poseidon *p)
{
    return poseidon_skip(p, 1) ? -2 : poseidon_skip(p, 1);
}

static int wait_early(struct poseidon *p)
{
    return poseidon_skip(p, 1) || poseidon_skip(p, 0) ? -2 : poseidon_wait(p, 1);
}

/* All but one, and then the next iteration. */
static int forget_one(struct poseidon *p)
{
    for (int t = 0; t < TENSORS; t++)
        if (t != 3 && poseidon_skip(p, t))
            return -2;
    return poseidon_skip(p, 4);
}

static int wrong_rows(struct poseidon *p)
{
    return poseidon_post_factors(p, PRODUCT, ROWS - 1, left, right);
}

static int no_factors(struct poseidon *p)
{
    return poseidon_post_factors(p, PRODUCT, ROWS, NULL, right);
}

static int post_whole(struct poseidon *p)
{
    return poseidon_post(p, nranks > 1 ? PRODUCT : TENSORS);
}

static int post_unknown(struct poseidon *p)
{
    return poseidon_post(p, -1);
}

static int not_waited(struct poseidon *p)
{
    for (int t = 0; t < TENSORS; t++)
        if (poseidon_skip(p, t))
            return -2;
    return poseidon_skip(p, 3);
}

static int say_so(struct poseidon *p)
{
    return poseidon_fail(p, "the disk is full");
}

static int destroy_within(struct poseidon *p)
{
    return poseidon_skip(p, 1) ? -2 : poseidon_destroy(p);
}

static void case_ends(const char *options)
{
    (void)options;
    end_by("twice", "'thousand' was posted or skipped twice in iteration 1, and 'one' not",
           post_twice);
    end_by("forgotten", "'large' was posted or skipped twice in iteration 1, and 'bias' not at all",
           forget_one);
    end_by("early", "'product' was neither posted nor skipped in iteration 1", wait_early);
    end_by("unknown", "no tensor -1", post_unknown);
    if (nranks > 1) {
        end_by("rows", "'product': factors of 2 rows", wrong_rows);
        end_by("no factors", "'product': factors of 3 rows", no_factors);
        end_by("whole", "'product' travels as factors", post_whole);
    }
    end_by("not waited", "'bias' is posted in iteration 2", not_waited);
    end_by("failed", "the disk is full", say_so);
    end_by("destroyed", "'one' was neither posted nor skipped in iteration 1", destroy_within);
}

/* The last rank forgets a tensor, and does something else for ever. */
static void case_silent(const char *options)
{
    struct poseidon *p = started(0, options);

    for (int t = 0; t < TENSORS; t++)
        if (t != 3 || rank < nranks - 1)
            REQUIRE(!poseidon_skip(p, t));
    if (rank == nranks - 1)
        sleep(600);
    (void)poseidon_wait_all(p);
}

static void case_unwritable(const char *options)
{
    struct poseidon *p = made(0, options);

    REFUSED(poseidon_start(p), "trace=nowhere/trace", "No such file");
    REFUSED(poseidon_destroy(p), "No such file");
}

static void case_uninitialised(const char *options)
{
    struct poseidon *p;

    REFUSED(poseidon_create(MPI_COMM_WORLD, options, &p), "MPI is not initialised");
}

static void case_single(const char *options)
{
    struct poseidon *p;

    REFUSED(poseidon_create(MPI_COMM_WORLD, options, &p), "MPI_THREAD_MULTIPLE");
}

static const struct {
    const char *name;
    void (*run)(const char *options);
    int level; /* -1: MPI is left alone */
} cases[] = {{"results", case_results, MPI_THREAD_MULTIPLE},
             {"values", case_values, MPI_THREAD_MULTIPLE},
             {"state", case_state, MPI_THREAD_MULTIPLE},
             {"states", case_states, MPI_THREAD_MULTIPLE},
             {"two", case_two, MPI_THREAD_MULTIPLE},
             {"refusals", case_refusals, MPI_THREAD_MULTIPLE},
             {"matrix", case_matrix, MPI_THREAD_MULTIPLE},
             {"differ", case_differ, MPI_THREAD_MULTIPLE},
             {"ends", case_ends, MPI_THREAD_MULTIPLE},
             {"silent", case_silent, MPI_THREAD_MULTIPLE},
             {"unwritable", case_unwritable, MPI_THREAD_MULTIPLE},
             {"single", case_single, MPI_THREAD_SINGLE},
             {"uninitialised", case_uninitialised, -1}};

int main(int argc, char **argv)
{
    int level, status = 2;

    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name))
            continue;
        if (cases[i].level >= 0) {
            MPI_Init_thread(&argc, &argv, cases[i].level, &level);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &nranks);
        }
        cases[i].run(argc > 2 ? argv[2] : NULL);
        if (cases[i].level >= 0)
            MPI_Finalize();
        status = 0;
    }
    return status;
}
