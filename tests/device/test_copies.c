/* What every engine offers those who move and change parameters: copies between the host's memory
 * and its own, and its services. The engine is POSEIDON_TEST_ENGINE, else the CPU's. Streams of the
 * emulated GPU (tests/cuda) are worked off as late as can be, so whatever is not ordered shows. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "device/codec.h"
#include "plan/probe.h"
#include "util/error.h"

#include "tests/device/rule_cases.h"
#include "tests/suite.h"

#include <check.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static struct engine engine;
static struct device_ticket *ticket;

static void open_engine(void)
{
    const char *name = getenv("POSEIDON_TEST_ENGINE");
    const struct engine_options options = {.threads = 1, .math = MATH_FP32};

    ck_assert_msg(engine_open(name ? name : "cpu", &options, &engine) == 0, "%s", error_text());
    ck_assert_int_eq(engine.device.i->copies->ticket_create(engine.context, &ticket), 0);
}

static void close_engine(void)
{
    engine.device.i->copies->ticket_destroy(engine.context, ticket);
    engine_close(&engine);
}

static void copy(enum device_direction direction, const struct device_rows *rows,
                 enum device_turn turn)
{
    ck_assert_msg(engine.device.i->copies->copy(engine.context, direction, rows, turn, ticket) == 0,
                  "%s", error_text());
}

static void check_over(void)
{
    int ready;

    while ((ready = engine.device.i->copies->ready(engine.context, ticket)) == 0)
        sched_yield();
    ck_assert_msg(ready == 1, "%s", error_text());
}

static struct tensor tensor_at(float *memory, size_t n)
{
    return (struct tensor){
        .shape = {.naxes = 1, .dim = {(int64_t)n}}, .bytes = n * sizeof *memory, .data = memory};
}

/* Engine memory, and host memory that is another place, of n floats. */
static float *take_memory(size_t n)
{
    void *memory = NULL;

    ck_assert_int_eq(engine.device.i->alloc(engine.context, n * sizeof(float), "a test", &memory),
                     0);
    return memory;
}

static void give_memory(float *memory)
{
    engine.device.i->free(engine.context, memory);
}

static float *take_host(size_t n)
{
    void *memory = NULL;

    ck_assert_int_eq(
        engine.device.i->copies->host_alloc(engine.context, n * sizeof(float), "a test", &memory),
        0);
    return memory;
}

static void give_host(float *memory)
{
    engine.device.i->copies->host_free(engine.context, memory);
}

static void write_memory(float *memory, const float *from, size_t n)
{
    struct tensor tensor = tensor_at(memory, n);

    ck_assert_int_eq(engine.i->write(engine.context, &tensor, from), 0);
    ck_assert(!engine.device.i->finish || engine.device.i->finish(engine.context) == 0);
}

static void read_memory(float *memory, float *to, size_t n)
{
    struct tensor tensor = tensor_at(memory, n);

    ck_assert_int_eq(engine.i->read(engine.context, &tensor, to), 0);
}

/* Other numbers for every seed. */
static void count_up(float *out, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (float)(i + 1) + 1000 * (float)seed;
}

/* ---- copies ---- */

START_TEST(host_memory_is_aligned_and_zeroed_even_when_used_again)
{
    static const size_t sizes[] = {0, 1, 63, 64, 65, 4096, 1 << 20};

    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        size_t bytes = sizes[i / 2];
        void *memory = NULL;
        ck_assert_int_eq(
            engine.device.i->copies->host_alloc(engine.context, bytes, "a test", &memory), 0);
        ck_assert_ptr_nonnull(memory);
        ck_assert_uint_eq((uintptr_t)memory % 64, 0);
        for (size_t b = 0; b < bytes; b++)
            ck_assert_int_eq(((unsigned char *)memory)[b], 0);
        memset(memory, 0xff, bytes);
        engine.device.i->copies->host_free(engine.context, memory);
    }
    engine.device.i->copies->host_free(engine.context, NULL);
}
END_TEST

START_TEST(host_memory_that_is_not_there_is_asked_for_in_vain)
{
    const size_t sizes[] = {(size_t)1 << 50,
                            SIZE_MAX - 7}; /* more than addresses; than sums hold */

    for (int i = 0; i < (engine.device.i->own_memory ? 1 : 2); i++) {
        void *memory = &memory;
        ck_assert_int_eq(engine.device.i->copies->host_alloc(engine.context, sizes[i],
                                                             "a test's plans", &memory),
                         -1);
        ck_assert_ptr_null(memory);
        ck_assert_ptr_nonnull(strstr(error_text(), "a test's plans"));
    }
}
END_TEST

enum { ROWS = 5, WIDTH = 4, HERE = 9, THERE = 7 };

/* Rows at other strides on either side; what lies between them is left alone. from, to: which of
 * both places holds the rows. */
static void check_rows(enum device_direction direction, enum device_turn turn, float *host,
                       float *host_view, float *memory)
{
    bool to_host = direction != DEVICE_STORE;
    struct device_rows rows = {.host = host,
                               .host_stride = HERE,
                               .memory = memory,
                               .stride = THERE,
                               .width = WIDTH,
                               .rows = ROWS};
    float here[ROWS * HERE], there[ROWS * THERE], after[ROWS * HERE];
    size_t to_stride = to_host ? HERE : THERE, from_stride = to_host ? THERE : HERE;
    const float *from = to_host ? there : here, *to = to_host ? here : there;

    count_up(here, ROWS * HERE, 1);
    count_up(there, ROWS * THERE, 2);
    if (host_view)
        memcpy(host_view, here, sizeof here);
    else
        write_memory(host, here, ROWS * HERE);
    write_memory(memory, there, ROWS * THERE);
    copy(direction, &rows, turn);
    check_over();
    if (to_host && host_view)
        memcpy(after, host_view, sizeof here);
    else
        read_memory(to_host ? host : memory, after, ROWS * to_stride);
    for (size_t i = 0; i < ROWS * to_stride; i++) {
        size_t row = i / to_stride, column = i % to_stride;
        float expected = column < WIDTH ? from[row * from_stride + column] : to[i];
        ck_assert_msg(after[i] == expected, "number %zu is %g, not %g", i, (double)after[i],
                      (double)expected);
    }
}

START_TEST(rows_are_copied_at_their_strides_and_nothing_between_them)
{
    float *host = take_host(ROWS * HERE), *memory = take_memory(ROWS * THERE);
    float *near = take_memory(ROWS * HERE);

    check_rows(DEVICE_FETCH, DEVICE_IN_TURN, host, host, memory);
    check_rows(DEVICE_FETCH, DEVICE_STORED, host, host, memory);
    check_rows(DEVICE_STORE, DEVICE_STORED, host, host, memory);
    check_rows(DEVICE_STORE, DEVICE_IN_TURN, host, host, memory);
    check_rows(DEVICE_WITHIN, DEVICE_IN_TURN, near, NULL, memory);
    give_memory(near);
    give_memory(memory);
    give_host(host);
}
END_TEST

START_TEST(a_copy_without_rows_is_a_mark_that_is_reached)
{
    const struct device_rows none = {.rows = 0};

    copy(DEVICE_FETCH, &none, DEVICE_STORED);
    check_over();
    copy(DEVICE_WITHIN, &none, DEVICE_IN_TURN);
    check_over();
    ck_assert_int_eq(engine.device.i->copies->order(engine.context, ticket), 0);
}
END_TEST

START_TEST(tickets_are_there_where_copies_last)
{
    ck_assert_int_eq(ticket != NULL, engine.device.i->own_memory);
    ck_assert_int_eq(engine.device.i->copies->enter(engine.context), 0);
    engine.device.i->copies->ticket_destroy(engine.context, NULL);
}
END_TEST

/* Memory that nobody may read or write: a copy that is one would end the test. */
START_TEST(what_lies_in_one_place_is_not_touched)
{
    const size_t bytes = 1 << 20;
    float *closed = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct device_rows rows = {.host = closed,
                               .host_stride = 256,
                               .memory = closed,
                               .stride = 256,
                               .width = 256,
                               .rows = bytes / 1024};

    ck_assert(closed != MAP_FAILED);
    for (int d = DEVICE_FETCH; !engine.device.i->own_memory && d <= DEVICE_WITHIN; d++) {
        copy((enum device_direction)d, &rows, DEVICE_IN_TURN);
        check_over();
        copy((enum device_direction)d, &rows, DEVICE_STORED);
        check_over();
    }
    munmap(closed, bytes);
}
END_TEST

/* C = 1 x A x B of one number each. */
static void multiply(const float *a, const float *b, float *c)
{
    ck_assert_int_eq(
        engine.device.i->gemm(engine.context, false, false, 1, 1, 1, 1, a, 1, b, 1, 0, c, 1), 0);
}

START_TEST(what_runs_after_order_finds_what_was_stored)
{
    float *host = take_host(1), *memory = take_memory(3), numbers[3] = {2, 3, 0};
    struct device_rows rows = {.host = host, .memory = memory + 1, .width = 1, .rows = 1};

    write_memory(memory, numbers, 3);
    *host = 5;
    copy(DEVICE_STORE, &rows, DEVICE_STORED);
    ck_assert_int_eq(engine.device.i->copies->order(engine.context, ticket), 0);
    multiply(memory, memory + 1, memory + 2);
    read_memory(memory, numbers, 3);
    ck_assert(numbers[2] == 10);
    give_memory(memory);
    give_host(host);
}
END_TEST

START_TEST(copies_in_turn_come_after_what_was_run_and_its_memory_is_read)
{
    float *host = take_host(2), *memory = take_memory(3), numbers[3] = {2, 3, 0};
    struct device_rows down = {.host = host, .memory = memory + 2, .width = 1, .rows = 1};
    struct device_rows up = {.host = host + 1, .memory = memory, .width = 1, .rows = 1};

    write_memory(memory, numbers, 3);
    host[1] = 7;
    multiply(memory, memory + 1, memory + 2);
    copy(DEVICE_FETCH, &down, DEVICE_IN_TURN);
    check_over();
    ck_assert(host[0] == 6);
    multiply(memory, memory + 1, memory + 2);
    copy(DEVICE_STORE, &up, DEVICE_IN_TURN);
    check_over();
    read_memory(memory, numbers, 3);
    ck_assert(numbers[2] == 6 && numbers[0] == 7);
    give_memory(memory);
    give_host(host);
}
END_TEST

/* ---- services ---- */

enum { MOST = 5000 };

/* Values, gradient and two blocks of history, one behind the other, in the engine's memory. */
static void update(const struct device_update *u, float *all, size_t n, enum device_turn turn)
{
    ck_assert_msg(engine.device.i->services->update(engine.context, u, all, all + n, all + 2 * n, n,
                                                    n, turn) == 0,
                  "%s", error_text());
}

START_TEST(every_rule_gives_the_values_of_numpy_and_pytorch)
{
    const struct rule_case *c = &rule_cases[_i];
    const struct rule rule = rule_of(c);
    float found[4 * CASE_N] = {0}, *all = take_memory(4 * CASE_N);
    struct device_update u;

    for (int i = 0; i < CASE_N; i++)
        found[i] = (float)c->w0[i];
    write_memory(all, found, 4 * CASE_N);
    for (int t = 0; t < CASE_STEPS; t++) {
        float gradient[CASE_N];
        for (int i = 0; i < CASE_N; i++)
            gradient[i] = (float)c->grads[t][i];
        write_memory(all + CASE_N, gradient, CASE_N);
        rule_describe(&rule, t, (float)c->rates[t], (float)c->scale, (float)c->lr_mult,
                      (float)c->decay_mult, &u);
        update(&u, all, CASE_N, DEVICE_IN_TURN);
    }
    read_memory(all, found, 4 * CASE_N);
    for (int i = 0; i < CASE_N; i++)
        ck_assert_msg(fabs(found[i] - c->w[i]) <= 2e-5 * fmax(fabs(c->w[i]), 1e-2),
                      "%s %s %s: value %d is %.9g, not %.9g", c->source, c->type, c->regularization,
                      i, (double)found[i], c->w[i]);
    for (int h = 0; h < c->nhistories && h < rule.nhistory; h++)
        for (int i = 0; i < CASE_N; i++)
            ck_assert_double_eq_tol(found[(2 + h) * CASE_N + i], c->history[h][i],
                                    2e-5 * fmax(fabs(c->history[h][i]), 1e-2));
    give_memory(all);
}
END_TEST

/* Floats of many magnitudes, and some zeros. */
static void fill_random(float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = rand() % 16 == 0 ? 0 : ldexpf((float)(rand() % 20001 - 10000), rand() % 20 - 20);
}

static void check_bits(const struct rule *rule, size_t n, enum device_turn turn)
{
    static float host[4 * MOST], found[4 * MOST];
    float *all = take_memory(4 * n), *staging = take_host(n);
    struct device_rows up = {.host = staging, .memory = all + n, .width = n, .rows = 1};
    struct device_rows down = {.host = staging, .memory = all, .width = n, .rows = 1};
    struct device_update u;

    fill_random(host, 4 * n);
    for (size_t i = 2 * n; i < 4 * n; i++)
        host[i] = fabsf(host[i]);
    write_memory(all, host, 4 * n);
    for (int t = 0; t < 3; t++) {
        fill_random(host + n, n);
        memcpy(staging, host + n, n * sizeof *host);
        rule_describe(rule, t, 0.01f, 0.3f, 2, 1, &u);
        rule_update(&u, host, host + n, host + 2 * n, n, n);
        /* stored: the gradient and then the update follow each other without being waited for */
        if (turn == DEVICE_STORED)
            copy(DEVICE_STORE, &up, DEVICE_STORED);
        else
            write_memory(all + n, host + n, n);
        update(&u, all, n, turn);
        copy(DEVICE_FETCH, &down, turn);
        check_over();
        ck_assert_msg(memcmp(staging, host, n * sizeof *host) == 0,
                      "%s, %zu elements, step %d: other values than the host's",
                      rule_kind_name(rule->kind), n, t);
    }
    read_memory(all, found, 4 * n);
    ck_assert_msg(memcmp(found, host, 4 * n * sizeof *host) == 0, "%s: other history",
                  rule_kind_name(rule->kind));
    give_host(staging);
    give_memory(all);
}

START_TEST(an_update_has_the_bits_of_the_hosts)
{
    static const size_t sizes[] = {1, 31, 1024, 1025, MOST};
    struct rule rule = {.kind = (enum rule_kind)(_i / 3),
                        .regularization = _i % 3 == 1 ? RULE_L1 : RULE_L2,
                        .momentum = 0.9f,
                        .momentum2 = 0.999f,
                        .rms_decay = 0.98f,
                        .delta = 1e-6f,
                        .weight_decay = _i % 3 == 2 ? 0 : 5e-4f};

    srand(1701 + (unsigned)_i);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_bits(&rule, sizes[i], DEVICE_IN_TURN);
        check_bits(&rule, sizes[i], DEVICE_STORED);
    }
}
END_TEST

START_TEST(the_sum_of_squares_is_that_of_long_doubles)
{
    static float x[MOST];
    float *memory = take_memory(MOST);
    long double expected = 0;
    double found = -1;

    srand(7);
    fill_random(x, MOST);
    write_memory(memory, x, MOST);
    for (int i = 0; i < MOST; i++)
        expected += (long double)x[i] * 0.25L * x[i] * 0.25L;
    ck_assert_int_eq(engine.device.i->services->sumsq(engine.context, memory, 0.25f, MOST, &found),
                     0);
    ck_assert_double_eq_tol(found, (double)expected, 1e-13 * (double)expected);
    ck_assert_int_eq(engine.device.i->services->sumsq(engine.context, memory, 0.25f, 0, &found), 0);
    ck_assert(found == 0);
    x[0] = 1e30f; /* its square is no float */
    write_memory(memory, x, 1);
    ck_assert_int_eq(engine.device.i->services->sumsq(engine.context, memory, 1, 1, &found), 0);
    ck_assert_double_eq_tol(found / ((double)1e30f * (double)1e30f), 1, 1e-15);
    give_memory(memory);
}
END_TEST

/* The gradient is stored, encoded and fetched without a wait between them. */
static void check_code(const struct codec *codec, enum device_turn turn)
{
    enum { HIGH = 6, WIDE = 70, ALL = HIGH * WIDE };
    float x[ALL], residual[ALL] = {0}, out[ALL] = {0}, found[ALL];
    float *memory = take_memory(3 * ALL), *staging = take_host(ALL);
    size_t bytes = codec->bytes(HIGH, WIDE);
    struct device_rows up = {.host = staging, .memory = memory, .width = ALL, .rows = 1};
    struct device_rows down = {
        .host = staging, .memory = memory + 2 * ALL, .width = bytes / sizeof(float), .rows = 1};

    for (int t = 0; t < 3; t++) {
        fill_random(x, ALL);
        codec->encode(x, residual, HIGH, WIDE, out);
        memcpy(staging, x, sizeof x);
        copy(DEVICE_STORE, &up, DEVICE_STORED);
        if (turn == DEVICE_IN_TURN)
            ck_assert_int_eq(engine.device.i->copies->order(engine.context, ticket), 0);
        ck_assert_int_eq(engine.device.i->services->encode(engine.context, codec->code, memory,
                                                           memory + ALL, HIGH, WIDE,
                                                           memory + 2 * ALL, turn, ticket),
                         0);
        copy(DEVICE_FETCH, &down, turn);
        check_over();
        ck_assert_msg(memcmp(staging, out, bytes) == 0, "%s, step %d: other bits", codec->name, t);
    }
    read_memory(memory + ALL, found, ALL);
    ck_assert_int_eq(memcmp(found, residual, sizeof residual), 0);
    give_host(staging);
    give_memory(memory);
}

START_TEST(a_message_has_the_bits_of_the_hosts_codec)
{
    srand(11);
    check_code(_i ? &codec_onebit : &codec_bf16, DEVICE_IN_TURN);
    check_code(_i ? &codec_onebit : &codec_bf16, DEVICE_STORED);
}
END_TEST

START_TEST(copying_is_measured_where_the_engines_memory_is_its_own)
{
    double Bps = -1;

    ck_assert_msg(probe_copying(&engine.device, &Bps) == 0, "%s", error_text());
    if (engine.device.i->own_memory)
        ck_assert_msg(Bps > 1e6 && Bps < 1e12, "%g B/s", Bps);
    else
        ck_assert_double_eq(Bps, 0);
}
END_TEST

SUITE("copies and services")
{
    TCase *tcase = suite_case(suite, "copies and services");

    tcase_add_checked_fixture(tcase, open_engine, close_engine);
    tcase_add_test(tcase, host_memory_is_aligned_and_zeroed_even_when_used_again);
    tcase_add_test(tcase, host_memory_that_is_not_there_is_asked_for_in_vain);
    tcase_add_test(tcase, rows_are_copied_at_their_strides_and_nothing_between_them);
    tcase_add_test(tcase, a_copy_without_rows_is_a_mark_that_is_reached);
    tcase_add_test(tcase, tickets_are_there_where_copies_last);
    tcase_add_test(tcase, what_lies_in_one_place_is_not_touched);
    tcase_add_test(tcase, what_runs_after_order_finds_what_was_stored);
    tcase_add_test(tcase, copies_in_turn_come_after_what_was_run_and_its_memory_is_read);
    suite_table(tcase, every_rule_gives_the_values_of_numpy_and_pytorch, rule_cases);
    tcase_add_loop_test(tcase, an_update_has_the_bits_of_the_hosts, 0, 3 * RULE_KINDS);
    tcase_add_test(tcase, the_sum_of_squares_is_that_of_long_doubles);
    tcase_add_loop_test(tcase, a_message_has_the_bits_of_the_hosts_codec, 0, 2);
    tcase_add_test(tcase, copying_is_measured_where_the_engines_memory_is_its_own);
}
