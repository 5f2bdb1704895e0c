/* A program that knows nothing of this one but include/poseidon.h, and is linked with the objects
 * of libposeidon.so alone. Run under mpirun by test_library.sh with the name of a case and options;
 * prints what is wrong and ends all ranks. Results are held against sums in double, made of what
 * every rank is known to have. */
#include "tests/library/calls.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* What 1.x keeps (docs/library.md): where a program that was compiled with 1.0 has the fields. */
#define AT(type, field, place)                                                                     \
    _Static_assert(sizeof(void *) != 8 || offsetof(struct type, field) == (place), #field)
AT(poseidon_tensor, elems, 8);
AT(poseidon_tensor, gradient, 16);
AT(poseidon_tensor, values, 24);
AT(poseidon_tensor, rows, 32);
AT(poseidon_tensor, outputs, 40);
AT(poseidon_tensor, inputs, 48);
AT(poseidon_tensor, forward_seconds, 56);
AT(poseidon_tensor, backward_seconds, 64);
AT(poseidon_traffic, first, 40);
AT(poseidon_traffic, tensors, 44);
AT(poseidon_traffic, planned_sent, 48);
AT(poseidon_traffic, planned_received, 56);
AT(poseidon_traffic, sent, 64);
AT(poseidon_traffic, received, 72);
AT(poseidon_traffic, predicted_seconds, 80);
AT(poseidon_traffic, travel_seconds, 88);
AT(poseidon_traffic, waited_seconds, 96);
AT(poseidon_place, memory, 8); /* from 1.1 on */
AT(poseidon_place, type, 12);
_Static_assert(POSEIDON_FLOAT32 == 0 && POSEIDON_FLOAT16 == 1 && POSEIDON_BFLOAT16 == 2, "stay");
_Static_assert(POSEIDON_HOST == 0 && POSEIDON_CUDA == 1, "stay");
_Static_assert(sizeof(void *) != 8 || sizeof(struct poseidon_tensor) == 72, "the size stays");
_Static_assert(sizeof(void *) != 8 || sizeof(struct poseidon_traffic) == 104, "the size stays");

static const size_t elems[TENSORS] = {1, 1000, OUTPUTS *INPUTS, 17, MOST};
static const char *const names[TENSORS] = {"one", "thousand", "product", "bias", "large"};
int rank, nranks;
static float (*gradient)[TENSORS][MOST], (*values)[TENSORS][MOST]; /* of two handles */
static bool values_are_results;
static float *left, *right;

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

struct poseidon_tensor tensor_of(int h, int t)
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

struct poseidon *made(int h, const char *options)
{
    struct poseidon *p;

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options, &p));
    for (int t = 0; t < TENSORS; t++) {
        struct poseidon_tensor tensor = tensor_of(h, t);
        int number;
        for (size_t i = 0; i < elems[t]; i++)
            values[h][t][i] = rank == 0 ? 1 : NAN;
        REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, &number) && number == t);
    }
    return p;
}

struct poseidon *started(int h, const char *options)
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
        memset(left, 0, ROWS * OUTPUTS * sizeof *left); /* they were copied */
        return;
    }
    for (int i = 0; i < (int)elems[t]; i++) {
        gradient[h][t][i] = t == PRODUCT ? 0 : sample(rank, iteration, t, i);
        for (int k = 0; t == PRODUCT && k < ROWS; k++)
            gradient[h][t][i] += left[k * OUTPUTS + i / INPUTS] * right[k * INPUTS + i % INPUTS];
    }
    REQUIRE(!poseidon_post(p, t));
}

void post_all(struct poseidon *p, int h, int iteration)
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
    if (rank == 0 && did.planned_sent + did.planned_received == 0)
        REQUIRE(!strcmp(did.scheme, "-") && !strstr(poseidon_advice(p), "wire=bf16"));
    /* advised is what sends less than the way that is named before it */
    REQUIRE(!strstr(poseidon_advice(p), "wire=bf16") ||
            !(strstr(poseidon_advice(p), " bf16: ") || strstr(poseidon_advice(p), " low rank ")));
    if (rank == 0)
        printf("ok: %s: product by %s; %s\n", options ? options : "(no options)", did.scheme,
               poseidon_advice(p));
    REQUIRE(!poseidon_destroy(p));
}

/* The whole numbers that this rank has in a tensor, which every type holds: the bits of elements.
 */
static uint16_t bits_of(int type, int number)
{
    union {
        float value;
        uint32_t bits;
    } u = {.value = (float)number};
    int exponent = (int)(u.bits >> 23 & 255) - 127 + 15;

    return (uint16_t)(type == POSEIDON_BFLOAT16 ? u.bits >> 16
                      : number == 0             ? 0
                                    : (u.bits >> 16 & 0x8000) | (uint32_t)exponent << 10 |
                                          (u.bits >> 13 & 0x3ff));
}

/* Sums of half precision, which are of floats on the way: whole numbers up to 64 * 3, and exact. */
static void case_types(const char *options)
{
    enum { MOST_TYPES = 2, ELEMS = 5000 };
    uint16_t(*halves)[ELEMS] = array_new(MOST_TYPES * sizeof *halves);
    float *whole = array_new(ELEMS * sizeof *whole);
    struct poseidon *p;

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options, &p));
    for (int t = 0; t <= MOST_TYPES; t++) {
        struct poseidon_tensor tensor = {
            .name = names[t], .elems = ELEMS, .gradient = t ? (void *)halves[t - 1] : whole};
        REQUIRE(!add(p, &tensor, t, NULL));
    }
    REQUIRE(!poseidon_start(p));
    for (int iteration = 0; iteration < 3; iteration++) {
        for (int t = 0; t <= MOST_TYPES; t++) {
            for (int i = 0; i < ELEMS; i++) {
                int number = (i + 17 * rank + iteration) % 63 - 31;
                whole[i] = (float)number;
                if (t)
                    halves[t - 1][i] = bits_of(t, number);
            }
            REQUIRE(t == iteration && rank == 0 ? !poseidon_skip(p, t) : !poseidon_post(p, t));
        }
        REQUIRE(!poseidon_wait_all(p));
        for (int t = 0; t <= MOST_TYPES; t++)
            for (int i = 0; i < ELEMS; i++) {
                int sum = 0;
                for (int r = t == iteration; r < nranks; r++)
                    sum += (i + 17 * r + iteration) % 63 - 31;
                REQUIRE(t ? halves[t - 1][i] == bits_of(t, sum) : whole[i] == (float)sum);
            }
    }
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
    REFUSED(poseidon_state_set(p, state, bytes - 1), "give the whole state");
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
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
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
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
    REQUIRE(!poseidon_start(p));
    for (int t = 0; t <= TENSORS; t++)
        REQUIRE(!poseidon_skip(p, t));
    state = state_of(p, &bytes);
    REFUSED(poseidon_state_set(p, state, bytes), "called already");
    REQUIRE(!poseidon_destroy(p));

    refuse_state(options, 1, NULL, 0, false, "not a state");
    refuse_state(options, 1, "poseidon state 2", 16, false, "not a state");
    refuse_state(options, 1, state, bytes - 1, false, "give the whole state");
    refuse_state(options, 2, state, bytes, true, "tensor 5: 'last' of 1 elements");
    refuse_state("comm=ps,wire=bf16,result=values,momentum=0.5", 1, state, bytes, true,
                 "another job with options");
    if (nranks > 1)
        refuse_state("wire=bf16,comm=allreduce", 1, state, bytes, true, "its tensors");
    for (size_t at = 0; at < bytes; at += bytes / 5) {
        state[at] ^= 4;
        refuse_state(options, 1, state, bytes, false, at < 16 ? "not a state" : "damaged");
        state[at] ^= 4;
    }

    REQUIRE(!poseidon_create(MPI_COMM_SELF, "comm=ps", &p));
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL) && !poseidon_start(p));
    REQUIRE((few = poseidon_state_size(p)) && (alone = malloc(few)));
    REQUIRE(!poseidon_state_get(p, alone, few));
    REFUSED(poseidon_state_get(p, alone, few - 1), "poseidon_state_size");
    REFUSED(poseidon_state_get(p, alone, few), "poseidon_state_size");
    REQUIRE(poseidon_destroy(p));
    if (nranks > 1)
        refuse_state(options, 1, alone, few, true, "ranks: 1 there");
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

/* A matrix that is no inner product's weight has no factors of its own, but a low rank: a gradient
 * of rank 1 arrives whole. */
static void case_matrix(const char *options)
{
    struct poseidon_tensor tensor = tensor_of(0, PRODUCT);
    struct poseidon_traffic did;
    struct poseidon *p;

    tensor.rows = 0;
    REQUIRE(!poseidon_create(MPI_COMM_WORLD, options, &p));
    REQUIRE(!add(p, &tensor, POSEIDON_FLOAT32, NULL));
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

/* The options that poseidon.h lists, which 1.x keeps. */
static void case_options(const char *options)
{
    static const char *const kept[] = {
        "comm=auto",
        "comm=paper",
        "comm=ps",
        "comm=sfb",
        "comm=allreduce",
        "comm=lowrank:4",
        "lossy=bf16+lowrank:4+onebit",
        "wire=fp32",
        "wire=bf16",
        "hierarchy=auto",
        "hierarchy=off",
        "hierarchy=2",
        "merge=64k",
        "chunk=64k",
        "window=0",
        "window=1m",
        "bandwidth-mbps=80",
        "cluster-file=figures",
        "comm=lowrank:2,lowrank-warmup=3",
        "trace=t.json",
        "stall-timeout=5min",
        "stall-timeout=none",
        "result=mean",
        "result=sum",
        "result=values,type=SGD,base_lr=0.1,momentum=0.9,weight_decay=0.01,local_gw_ratio=0.001",
        "result=values,type=Nesterov",
        "result=values,type=AdaGrad,delta=1e-6",
        "result=values,type=RMSProp,rms_decay=0.9",
        "result=values,type=AdaDelta",
        "result=values,type=Adam,momentum2=0.99"};
    struct poseidon *p;

    (void)options;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        REQUIRE(!poseidon_create(MPI_COMM_WORLD, kept[i], &p) && !poseidon_destroy(p));
}

static const struct {
    const char *name;
    void (*run)(const char *options);
    int level; /* -1: MPI is left alone */
} cases[] = {{"results", case_results, MPI_THREAD_MULTIPLE},
             {"types", case_types, MPI_THREAD_MULTIPLE},
             {"streams", case_streams, MPI_THREAD_MULTIPLE},
             {"pieces", case_pieces, MPI_THREAD_MULTIPLE},
             {"devices", case_devices, MPI_THREAD_MULTIPLE},
             {"full", case_full, MPI_THREAD_MULTIPLE},
             {"no_driver", case_no_driver, MPI_THREAD_MULTIPLE},
             {"values", case_values, MPI_THREAD_MULTIPLE},
             {"state", case_state, MPI_THREAD_MULTIPLE},
             {"states", case_states, MPI_THREAD_MULTIPLE},
             {"two", case_two, MPI_THREAD_MULTIPLE},
             {"options", case_options, MPI_THREAD_MULTIPLE},
             {"refusals", case_refusals, MPI_THREAD_MULTIPLE},
             {"matrix", case_matrix, MPI_THREAD_MULTIPLE},
             {"differ", case_differ, MPI_THREAD_MULTIPLE},
             {"ends", case_ends, MPI_THREAD_MULTIPLE},
             {"silent", case_silent, MPI_THREAD_MULTIPLE},
             {"unstarted", case_unstarted, MPI_THREAD_MULTIPLE},
             {"early", case_early, MPI_THREAD_MULTIPLE},
             {"unwritable", case_unwritable, MPI_THREAD_MULTIPLE},
             {"finalized", case_finalized, MPI_THREAD_MULTIPLE},
             {"launched", case_launched, MPI_THREAD_MULTIPLE},
             {"single", case_single, MPI_THREAD_SINGLE},
             {"uninitialised", case_uninitialised, -1}};

int main(int argc, char **argv)
{
    int level, finalized = 0, status = 2;

    for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(argv[1], cases[i].name))
            continue;
        if (cases[i].level >= 0) {
            MPI_Init_thread(&argc, &argv, cases[i].level, &level);
            MPI_Comm_rank(MPI_COMM_WORLD, &rank);
            MPI_Comm_size(MPI_COMM_WORLD, &nranks);
        }
        device_open();
        gradient = array_new(2 * sizeof *gradient);
        values = array_new(2 * sizeof *values);
        left = array_new(ROWS * OUTPUTS * sizeof *left);
        right = array_new(ROWS * INPUTS * sizeof *right);
        cases[i].run(argc > 2 ? argv[2] : NULL);
        if (cases[i].level >= 0 && !MPI_Finalized(&finalized) && !finalized)
            MPI_Finalize();
        status = 0;
    }
    return status;
}
