/* engine_conformance [--engine=NAME] [--seed=S] [--cases=N] [--threads=N] [--op=NAME] [--math=TYPE]
 *                    [--float-products] [--each]
 *
 * Holds an engine's operators, forward and backward, against plain loops in double, over random
 * shapes and options, and prints the worst errors, one line per operator; --float-products: the
 * CPU's --math=bf16 as on processors without products of bfloat16; --each names every case
 * before it runs, for one that does not end. Exit status: 0 all within
 * bounds, 1 not, 2 wrong usage, 77 this build or machine has no such engine (the CPU's is always
 * there: for it, 1). */
#include "tests/engine/engine_check.h"

#include "util/choice.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* Sums here have up to 32 x 25 terms, each rounded to 6e-8 of its size. Found on the CPU: 1.2e-6.
 * In bfloat16 and TF32 factors are rounded to 2e-3 and 2.4e-4 of their size; what goes in is exact
 * in both. */
static const double limits[] = {[MATH_FP32] = 2e-5, [MATH_TF32] = 2e-3, [MATH_BF16] = 2e-2};
struct settings {
    const char *engine, *op;
    enum engine_math math;
    uint64_t seed;
    int cases, threads;
    bool each, float_products;
};

/* The CPU sums in single precision with --math=bf16, too, and rounds blobs when it stores them. */
static struct check_tally tally_start(const struct settings *s)
{
    const bool cpu = strcmp(s->engine, "cpu") == 0;

    return (struct check_tally){.limit = limits[cpu ? MATH_FP32 : s->math],
                                .rounding = cpu && s->math == MATH_BF16 ? 0x1p-8 : 0};
}

static bool take(const char *argument, const char *name, const char **value)
{
    size_t n = strlen(name);

    if (strncmp(argument, name, n) != 0)
        return false;
    *value = argument + n;
    return true;
}

static bool number(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return end != text && *end == '\0';
}

static int read_settings(int argc, char **argv, struct settings *s)
{
    *s = (struct settings){
        .engine = "cpu", .math = MATH_FP32, .seed = 1701, .cases = 100, .threads = 2};
    for (int i = 1; i < argc; i++) {
        const char *text = NULL;
        uint64_t value = 0;
        if (take(argv[i], "--engine=", &s->engine) || take(argv[i], "--op=", &s->op))
            continue;
        if (strcmp(argv[i], "--float-products") == 0) {
            s->float_products = true;
            continue;
        }
        if (strcmp(argv[i], "--each") == 0) {
            s->each = true;
            continue;
        }
        if (take(argv[i], "--math=", &text)) {
            if (choice_parse("--math", text, engine_math_words, (int *)&s->math) == 0)
                continue;
            fprintf(stderr, "engine_conformance: %s\n", error_text());
            return -1;
        }
        if (take(argv[i], "--seed=", &text) && number(text, &s->seed))
            continue;
        if (take(argv[i], "--cases=", &text) && number(text, &value) && value <= 1000000) {
            s->cases = (int)value;
            continue;
        }
        if (take(argv[i], "--threads=", &text) && number(text, &value) && value <= 1024) {
            s->threads = (int)value;
            continue;
        }
        fprintf(stderr,
                "engine_conformance: do not understand '%s'; expected --engine=NAME, --op=NAME, "
                "--seed=S, --cases=N, --threads=N, --math=TYPE, --each\n",
                argv[i]);
        return -1;
    }
    return 0;
}

static void print_head(void)
{
    printf("%-19s %6s %8s  %9s %9s %9s   %s\n", "operator", "cases", "tensors", "top", "bottom'",
           "param'", "reference' by differences");
}

static void print_tally(const char *name, int cases, const struct check_tally *tally)
{
    int tensors = 0;

    for (int i = 0; i < CHECK_COLUMNS; i++)
        tensors += tally->tensors[i];
    printf("%-19s %6d %8d ", name, cases, tensors);
    for (int i = 0; i < CHECK_COLUMNS; i++) {
        if (tally->tensors[i])
            printf(" %9.1e", tally->worst[i]);
        else
            printf(" %9s", "-");
    }
    printf("%s\n", tally->failed ? "  FAILED" : "");
}

typedef int (*choose_function)(struct engine_case *, struct engine *, enum op_kind, uint64_t, bool);

static int check_kind(const struct settings *s, struct engine *engine, enum op_kind kind,
                      const char *name, choose_function choose,
                      int (*check)(struct check_tally *, struct engine_case *))
{
    static struct engine_case c; /* large, and must not move */
    struct check_tally tally = tally_start(s);

    for (int i = 0; i < s->cases; i++) {
        if (s->each)
            printf("%s, seed %llu\n", name, (unsigned long long)s->seed + (unsigned)i);
        if (choose(&c, engine, kind, s->seed + (uint64_t)i, s->math != MATH_FP32) ||
            check(&tally, &c)) {
            printf("FAIL: %s in\n  ", error_text());
            case_print(&c, stdout);
            tally.failed++;
        }
        case_finish(&c);
    }
    print_tally(name, s->cases, &tally);
    return tally.failed;
}

static bool chosen(const struct settings *s, const char *name)
{
    return !s->op || strcmp(s->op, name) == 0;
}

/* The CPU's convolutions by Winograd's algorithm, however small: an engine of its own. */
static int check_winograd(const struct settings *s)
{
    struct engine_options options = {.threads = s->threads,
                                     .math = s->math,
                                     .float_products = s->float_products,
                                     .convolution = CONVOLUTION_WINOGRAD};
    struct engine engine;
    int failed;

    if (engine_open("cpu", &options, &engine)) {
        printf("FAIL: %s\n", error_text());
        return 1;
    }
    failed = check_kind(s, &engine, OP_CONV, "Winograd", case_choose_winograd, check_case);
    engine_close(&engine);
    return failed;
}

static int check_engine(const struct settings *s, struct engine *engine)
{
    int failed = 0, run = 0;

    print_head();
    for (int k = 0; k < OP_KINDS; k++) {
        enum op_kind kind = (enum op_kind)k;
        bool elsewhere =
            kind == OP_BATCH_NORM || kind == OP_SCALE || kind == OP_UNARY; /* layer_values */
        if (elsewhere || !chosen(s, op_kind_name(kind)))
            continue;
        run++;
        failed += check_kind(s, engine, kind, op_kind_name(kind), case_choose, check_case);
    }
    if (strcmp(s->engine, "cpu") == 0 && chosen(s, "Winograd") && ++run)
        failed += check_winograd(s);
    if (chosen(s, "factors") && ++run)
        failed += check_kind(s, engine, OP_INNER_PRODUCT, "factors", case_choose, check_factors);
    if (chosen(s, "matrix product") && ++run) {
        struct check_tally tally = tally_start(s);
        check_gemm(&tally, engine, s->seed, s->cases, s->math != MATH_FP32);
        print_tally("matrix product", s->cases, &tally);
        failed += tally.failed;
    }
    if (run == 0)
        printf("FAIL: no operator is called '%s'\n", s->op);
    return failed || run == 0;
}

int main(int argc, char **argv)
{
    struct settings s;
    struct engine engine;
    int failed;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (read_settings(argc, argv, &s))
        return 2;
    struct engine_options options = {.threads = s.threads,
                                     .math = s.math,
                                     .deterministic = true,
                                     .float_products = s.float_products};
    if (engine_open(s.engine, &options, &engine)) {
        bool expected = strcmp(s.engine, "cpu") == 0;
        printf("%s: %s\n", expected ? "FAIL" : "SKIP", error_text());
        return expected ? 1 : 77;
    }
    printf("engine %s, %d threads, seed %llu: worst difference over the greatest element\n",
           s.engine, s.threads, (unsigned long long)s.seed);
    failed = check_engine(&s, &engine);
    engine_close(&engine);
    return failed ? 1 : 0;
}
