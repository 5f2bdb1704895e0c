/* bench_vector [--seconds=S] [NAME...]
 *
 * Nanoseconds that each kernel of src/nn/engine takes for an element, in arrays of 16 kB, which
 * stay in the cache, and of 64 MB, which come from memory. A column is an instruction set that the
 * kernels are compiled for, of those that this processor has; `scalar` takes one element at a time.
 * The program itself uses the last one. The sets take turns, and the fastest of their turns counts,
 * in this thread's processor time: others may be at work on this machine. NAME: only kernels whose
 * name contains it. */
#include "tests/device/kernel_set.h"
#include "tests/bench/bench_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHED = 4096, LARGE = 1 << 24, ROW = 1024, MOST_SETS = 4 };

/* Arrays of LARGE floats, or what a codec makes of one. */
struct arrays {
    float *a, *b, *c, *d;
    void *wire;
};

struct kernel {
    const char *name;
    void (*run)(const struct kernel_set *set, const struct arrays *x, size_t n);
};

static volatile double kept; /* so that no result is for nothing */

static void run_add(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    set->add(x->a, x->b, n);
}

static void run_add_to(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    set->add_to(x->a, x->b, x->c, n);
}

/* Eight contributions that together have n elements, as ranks of a node add up. */
static void run_slices(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    const float *from[8];

    for (size_t r = 0; r < 8; r++)
        from[r] = x->b + r * (n / 8);
    set->slices(from, 8, n / 8, x->a);
}

static void run_sumsq(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    kept = set->sumsq(x->b, n, 0.5f);
}

static void run_bf16_encode(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    set->bf16->encode(x->b, x->c, 1, n, x->wire);
}

static void run_bf16_add(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    set->bf16->add(x->wire, 1, n, x->a);
}

static void run_onebit_encode(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    set->onebit->encode(x->b, x->c, n / ROW, ROW, x->wire);
}

static void run_onebit_add(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    set->onebit->add(x->wire, n / ROW, ROW, x->a);
}

static void run_rule(const struct kernel_set *set, const struct arrays *x, size_t n,
                     enum rule_kind rule)
{
    const struct device_update update = {.rule = rule,
                                         .scale = 1,
                                         .rate = 0.001f,
                                         .decay = 0.0005f,
                                         .momentum = 0.9f,
                                         .momentum2 = 0.999f,
                                         .delta = 1e-4f,
                                         .rms_decay = 0.98f};

    /* the second history is d, LARGE behind c */
    set->update(&update, x->a, x->b, x->c, (size_t)(x->d - x->c), n);
}

static void run_sgd(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    run_rule(set, x, n, RULE_SGD);
}

static void run_nesterov(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    run_rule(set, x, n, RULE_NESTEROV);
}

static void run_adagrad(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    run_rule(set, x, n, RULE_ADAGRAD);
}

static void run_rmsprop(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    run_rule(set, x, n, RULE_RMSPROP);
}

static void run_adadelta(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    run_rule(set, x, n, RULE_ADADELTA);
}

static void run_adam(const struct kernel_set *set, const struct arrays *x, size_t n)
{
    run_rule(set, x, n, RULE_ADAM);
}

static const struct kernel kernels[] = {
    {"add", run_add},
    {"add_to", run_add_to},
    {"tree of 8", run_slices},
    {"sum of squares", run_sumsq},
    {"bf16 encode", run_bf16_encode},
    {"bf16 add", run_bf16_add},
    {"onebit encode", run_onebit_encode},
    {"onebit add", run_onebit_add},
    {"SGD", run_sgd},
    {"Nesterov", run_nesterov},
    {"AdaGrad", run_adagrad},
    {"RMSProp", run_rmsprop},
    {"AdaDelta", run_adadelta},
    {"Adam", run_adam},
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* Values whose sums stay finite however often they are added, and histories that are positive. */
static void fill(const struct arrays *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x->a[i] = (float)(i % 1000) * 1e-3f;
        x->b[i] = ((float)(i * 7 % 1000) - 500) * 1e-6f;
        x->c[i] = (float)(i % 100) * 1e-3f;
        x->d[i] = (float)(i % 10) * 1e-3f;
    }
    memset(x->wire, 0, n * sizeof(uint16_t) + 64);
}

static double turn(const struct kernel *kernel, const struct kernel_set *set,
                   const struct arrays *x, size_t n)
{
    int repeats = n == CACHED ? 50 : 1;
    double start = bench_seconds(1);

    for (int i = 0; i < repeats; i++)
        kernel->run(set, x, n);
    return (bench_seconds(1) - start) / repeats / (double)n;
}

static void measure(const struct kernel *kernel, const struct kernel_set *const *set, int nsets,
                    const struct arrays *x, size_t n, double seconds, double *best)
{
    double start = bench_seconds(1);

    for (int s = 0; s < nsets; s++)
        best[s] = 1;
    fill(x, n);
    for (int round = 0; round < 4 || bench_seconds(1) - start < seconds; round++)
        for (int s = 0; s < nsets; s++) {
            double each = turn(kernel, set[s], x, n);
            if (round > 0 && each < best[s])
                best[s] = each;
        }
}

static int wanted(const char *name, char **names, int n)
{
    int found = n == 0;

    for (int i = 0; i < n; i++)
        found |= strstr(name, names[i]) != NULL;
    return found;
}

static void print_table(const struct arrays *x, double seconds, char **names, int nnames)
{
    const struct kernel_set *all[MOST_SETS] = {kernel_set_scalar(), kernel_set_plain(),
                                               kernel_set_avx2(), kernel_set_avx512f()};
    const struct kernel_set *set[MOST_SETS];
    static const size_t sizes[] = {CACHED, LARGE};
    int nsets = 0;

    for (int s = 0; s < MOST_SETS; s++)
        if (all[s])
            set[nsets++] = all[s];
    for (int size = 0; size < 2; size++) {
        printf("%-18s", size == 0 ? "ns, 16 kB arrays" : "\nns, 64 MB arrays ");
        for (int s = 0; s < nsets; s++)
            printf("%9s", set[s]->name);
        printf("\n");
        for (int k = 0; k < KERNELS; k++) {
            double best[MOST_SETS];
            if (!wanted(kernels[k].name, names, nnames))
                continue;
            measure(&kernels[k], set, nsets, x, sizes[size], seconds, best);
            printf("%-18s", kernels[k].name);
            for (int s = 0; s < nsets; s++)
                printf("%9.3f", best[s] * 1e9);
            printf("\n");
            fflush(stdout);
        }
    }
}

int main(int argc, char **argv)
{
    double seconds = 0.2;
    int first = 1;
    float *memory = aligned_alloc(64, 4 * sizeof(float) * LARGE);
    struct arrays x = {.a = memory, .wire = aligned_alloc(64, sizeof(uint16_t) * LARGE + 64)};

    if (argc > 1 && strncmp(argv[1], "--seconds=", 10) == 0) {
        seconds = atof(argv[1] + 10);
        first = 2;
    }
    if (!memory || !x.wire) {
        fprintf(stderr, "bench_vector: no memory for five arrays of 64 MB\n");
        return EXIT_FAILURE;
    }
    x.b = x.a + LARGE;
    x.c = x.b + LARGE;
    x.d = x.c + LARGE;
    print_table(&x, seconds, argv + first, argc - first);
    free(memory);
    free(x.wire);
    return EXIT_SUCCESS;
}
