/* The replay engine: every op takes the time that a profile says and computes nothing. Parameters
 * and gradients have their real sizes, so that ranks send real messages; activations have no
 * memory.
 *
 * An op sleeps until shortly before its end, then spins. If an op ends late, the next op takes that
 * much less time, so that errors do not add up. Values and gradients are 0: memory that nothing has
 * written to reads as 0 and takes no physical memory. */
#define _GNU_SOURCE
#include "engine/engine_internal.h"

#include "engine/op_size.h"
#include "engine/replay/profile.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

/* Time before an op's end at which the sleep ends; the rest is spun. */
#define SPIN_NS 50000
/* Longest gap before an op that makes up for the last op's oversleep; a longer gap is a wait. */
#define GAP_NS 50000

/* Size of an inner product's weight gradient: m x n. */
struct product {
    int64_t m, n;
};

struct replay_engine {
    struct profile profile;
    int64_t dilate; /* divisor of the wire's bytes, at least 1 */
    double gemm;    /* seconds per GFLOP */
    double update;  /* seconds per 10^9 parameters */
    int64_t end;    /* time of the last op's end, ns */
    int64_t owed;   /* oversleep of the last op, ns */
    float *zeros;   /* factors that replay_factors returns: all 0 */
    size_t nzeros;
    struct product *products; /* sizes of all inner products; owned */
    int nproducts;
};

struct replay_op {
    struct op op;
    struct replay_engine *engine;
    int64_t forward, backward; /* ns */
};

/* Mark in tensor.layout of a tensor without memory. */
static const char blank;

/* Sleeps until `end`; returns the time at which it really woke. */
static int64_t nap_until(int64_t end)
{
    int64_t at = clock_ns(), wake = end - SPIN_NS;

    if (wake > at) {
        struct timespec until = {.tv_sec = wake / 1000000000, .tv_nsec = wake % 1000000000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
    }
    while ((at = clock_ns()) < end)
        ;
    return at;
}

static int nap_pass(struct replay_engine *engine, int64_t duration)
{
    int64_t start = clock_ns(), end;

    if (duration == 0)
        return 0;
    /* An op that begins right after the last op ends earlier by that op's oversleep. After a longer
     * gap, such as a wait for parameters, the oversleep does not count. */
    end = start + duration - (start - engine->end < GAP_NS ? engine->owed : 0);
    engine->end = nap_until(end);
    engine->owed = engine->end - end;
    return 0;
}

static int replay_forward(struct op *op, const struct pass *pass)
{
    struct replay_op *replay = (struct replay_op *)op;

    (void)pass;
    return nap_pass(replay->engine, replay->forward);
}

static int replay_backward(struct op *op, const struct pass *pass)
{
    struct replay_op *replay = (struct replay_op *)op;

    (void)pass;
    return nap_pass(replay->engine, replay->backward);
}

static void replay_destroy(struct op *op)
{
    free(op);
}

static const struct op_i train_table = {replay_forward, replay_backward, replay_destroy};
static const struct op_i test_table = {replay_forward, NULL, replay_destroy};

/* ---- memory ---- */

/* Bytes in front of an allocation, a cache line, which hold its size. */
enum { MEMORY_HEAD = 64 };

static int replay_alloc(void *context, size_t bytes, const char *what, void **out)
{
    size_t all = bytes + MEMORY_HEAD;
    char *memory;

    (void)context;
    memory =
        mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return error_memory(all, what);
    memcpy(memory, &all, sizeof all);
    *out = memory + MEMORY_HEAD;
    return 0;
}

static void replay_free(void *context, void *memory)
{
    char *start = memory ? (char *)memory - MEMORY_HEAD : NULL;
    size_t all;

    (void)context;
    if (!start)
        return;
    memcpy(&all, start, sizeof all);
    munmap(start, all);
}

/* Does nothing: a blank device's values mean nothing. */
static int replay_write(void *context, struct tensor *to, const float *from)
{
    (void)context;
    (void)to;
    (void)from;
    return 0;
}

static int replay_read(void *context, const struct tensor *from, float *to)
{
    (void)context;
    memset(to, 0, shape_elems(&from->shape) * sizeof *to);
    return 0;
}

static int replay_write_plain(void *context, float *to, const float *from, size_t n)
{
    (void)context, (void)to, (void)from, (void)n;
    return 0;
}

static int replay_read_plain(void *context, const float *from, float *to, size_t n)
{
    (void)context, (void)from;
    memset(to, 0, n * sizeof *to);
    return 0;
}

static void replay_release(void *context, struct tensor *tensor)
{
    (void)context;
    tensor->layout = NULL;
}

/* ---- ops ---- */

static void make_blank(struct tensor *tensor)
{
    tensor->layout = (void *)(uintptr_t)&blank; /* a mark: nothing writes to it */
    tensor->bytes = 0;
    tensor->base = NULL;
}

static int grow_zeros(struct replay_engine *engine, size_t elems)
{
    void *zeros = NULL;

    if (elems <= engine->nzeros)
        return 0;
    replay_free(engine, engine->zeros);
    engine->zeros = NULL;
    engine->nzeros = 0;
    if (replay_alloc(engine, elems * sizeof(float), "sufficient factors", &zeros))
        return -1;
    engine->zeros = zeros;
    engine->nzeros = elems;
    return 0;
}

/* Records an inner product's size for replay_gemm, and makes room for its zero factors. */
static int add_product(struct replay_engine *engine, const struct op_args *args)
{
    const struct shape *bottom = &args->bottoms[0]->value.shape, *top = &args->tops[0]->value.shape;
    struct op_product size = op_inner_product_size(args);

    if (grow_zeros(engine, shape_elems(bottom)) || grow_zeros(engine, shape_elems(top)))
        return -1;
    if (ALLOC_ROOM(engine->products, engine->nproducts, "a replayed operator"))
        return -1;
    engine->products[engine->nproducts++] = (struct product){.m = size.outputs, .n = size.inputs};
    return 0;
}

static int find_times(struct replay_engine *engine, const struct op_args *args,
                      struct replay_op *op)
{
    const struct profile_layer *layer = profile_find(&engine->profile, args->layer);

    if (!layer &&
        args->kind != OP_SPLIT) /* the net itself adds splits, which take almost no time */
        return error_set("profile %s has no line for layer '%s' (%s); poseidon time --profile=FILE "
                         "writes one for every layer",
                         engine->profile.file, args->layer, op_kind_name(args->kind));
    for (int i = 0; i < 2;
         i++, layer = args->with ? profile_find(&engine->profile, args->with) : NULL) {
        op->forward += layer ? (int64_t)(layer->forward * 1e9 + 0.5) : 0;
        op->backward += layer ? (int64_t)(layer->backward * 1e9 + 0.5) : 0;
    }
    return 0;
}

static int replay_op_create(void *context, const struct op_args *args, struct op **out)
{
    struct replay_engine *engine = context;
    struct replay_op *op = calloc(1, sizeof *op);

    *out = NULL;
    if (!op)
        return error_memory(sizeof *op, "a replayed operator");
    op->op.i = args->train ? &train_table : &test_table;
    op->engine = engine;
    if (find_times(engine, args, op))
        goto fail;
    if (args->kind == OP_INNER_PRODUCT && add_product(engine, args))
        goto fail;
    for (int t = 0; t < args->ntops; t++) {
        make_blank(&args->tops[t]->value);
        make_blank(&args->tops[t]->grad);
    }
    *out = &op->op;
    return 0;
fail:
    free(op);
    return -1;
}

static void replay_factors(struct op *op, const float **bottom, const float **top_grad)
{
    *bottom = *top_grad = ((struct replay_op *)op)->engine->zeros;
}

/* Returns a product's undilated size. A dilated wire divides both sizes of a gradient that is
 * rebuilt from factors, but the time to rebuild is that of the layer's own size. */
static struct product undilated(const struct replay_engine *engine, int64_t m, int64_t n)
{
    int64_t by = engine->dilate;

    for (int i = 0; i < engine->nproducts && by > 1; i++) {
        const struct product *p = &engine->products[i];
        if (m == (p->m + by - 1) / by && n == (p->n + by - 1) / by)
            return *p;
    }
    return (struct product){m, n};
}

static int replay_gemm(void *context, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k,
                       float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                       float beta, float *c, int64_t ldc)
{
    const struct replay_engine *engine = context;
    struct product size = undilated(engine, m, n);
    double gflop = 2e-9 * (double)size.m * (double)size.n * (double)k;

    (void)trans_a, (void)trans_b, (void)alpha, (void)a, (void)lda, (void)b, (void)ldb, (void)beta;
    (void)c, (void)ldc;
    if (engine->gemm > 0)
        nap_until(clock_ns() + (int64_t)(engine->gemm * gflop * 1e9));
    return 0;
}

/* Takes the profile's time for n parameters. */
static int replay_update(void *context, const struct device_update *update, float *value,
                         const float *grad, float *history, size_t stride, size_t n,
                         enum device_turn turn)
{
    const struct replay_engine *engine = context;

    (void)update, (void)value, (void)grad, (void)history, (void)stride, (void)turn;
    if (engine->update > 0) /* seconds for 10^9 parameters are ns for one */
        nap_until(clock_ns() + (int64_t)(engine->update * (double)n * (double)engine->dilate));
    return 0;
}

/* Services of the replayed device. The host encodes gradients and sums squares in real time, even
 * where the profile is a GPU's. */
static const struct device_services_i services = {
    .update = replay_update, .sumsq = device_host_sumsq, .encode = device_host_encode};

/* ---- the engine ---- */

static void replay_close(void *context)
{
    struct replay_engine *engine = context;

    if (!engine)
        return;
    replay_free(engine, engine->zeros);
    free(engine->products);
    profile_free(&engine->profile);
    free(engine);
}

static int replay_open(const struct engine_options *options, void **context)
{
    struct replay_engine *engine;
    const struct profile_layer *gemm, *update;

    *context = NULL;
    if (!options || !options->profile)
        return error_set("needs a profile of the net: --tune=profile=FILE.csv (poseidon time "
                         "--profile=FILE.csv writes one)");
    if (ALLOC(engine, 1, "the replay engine"))
        return -1;
    engine->dilate = options->dilate > 1 ? options->dilate : 1;
    if (profile_read(options->profile, &engine->profile)) {
        free(engine);
        return -1;
    }
    gemm = profile_find(&engine->profile, PROFILE_GEMM);
    engine->gemm = gemm ? gemm->forward : 0;
    update = profile_find(&engine->profile, PROFILE_UPDATE);
    engine->update = update ? update->forward : 0;
    prctl(PR_SET_TIMERSLACK, 1UL); /* timer slack of this thread, which will compute: wake up on
                                      time */
    *context = engine;
    return 0;
}

static const struct device_i replay_device = {
    .blank = true,
    .alloc = replay_alloc,
    .free = replay_free,
    .write = replay_write_plain,
    .read = replay_read_plain,
    .gemm = replay_gemm,
    .copies = &device_host_copies,
    .services = &services,
};

const struct engine_i engine_replay = {
    .name = "replay",
    .device = &replay_device,
    .open = replay_open,
    .close = replay_close,
    .write = replay_write,
    .read = replay_read,
    .release = replay_release,
    .op_create = replay_op_create,
    .factors = replay_factors,
};
