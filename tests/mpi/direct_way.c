/* Whether messages go straight to the memory of an device that has its own: who decides it, in
 * which words, and what is copied to the host all the same. The device is made by hand: its memory
 * is the host's, but another place. What MPI says of itself, and one message, are replaced here.
 * Run under mpirun by test_direct.sh: direct_way WANTED AWARE SERVERS [SPOILT] WANTED as --direct;
 * AWARE: a digit per rank, 1 where MPI says that it reaches that memory; - for an device without.
 * SERVERS: their number; with a t behind it everything travels along trees, with an e servers
 * update in the device's memory.
 * SPOILT: the rank where a trial message arrives wrong. Rank 0 prints the way, or the refusal. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/rule.h"
#include "sync/sync.h"
#include "tests/mpi/require.h"
#include "tests/plan/schemes.h"
#include "util/choice.h"
#include "util/error.h"

enum { ELEMS = 3000, CHUNK_BYTES = 4096, ITERATIONS = 3 };

static int rank, nranks, spoilt = -1;
static const char *aware;

int MPIX_Query_cuda_support(void);
int MPIX_Query_cuda_support(void)
{
    return aware[rank] == '1';
}

int MPI_Sendrecv(const void *from, int sent, MPI_Datatype type, int to, int tag, void *into,
                 int received, MPI_Datatype as, int source, int mark, MPI_Comm comm,
                 MPI_Status *status)
{
    int code =
        PMPI_Sendrecv(from, sent, type, to, tag, into, received, as, source, mark, comm, status);

    if (rank == spoilt)
        ((float *)into)[received - 1] += 1;
    return code;
}

/* ---- the device ---- */

static int alloc(void *context, size_t bytes, const char *what, void **out)
{
    (void)context, (void)what;
    *out = calloc(1, bytes);
    return *out ? 0 : error_memory(bytes, "the test's engine");
}

static void release(void *context, void *memory)
{
    (void)context;
    free(memory);
}

static int update_far(void *context, const struct device_update *update, float *value,
                      const float *grad, float *history, size_t stride, size_t n,
                      enum device_turn turn)
{
    (void)context, (void)turn;
    rule_update(update, value, grad, history, stride, n);
    return 0;
}

static const struct device_services_i services = {.update = update_far};
static const struct device_i table = {.alloc = alloc,
                                      .free = release,
                                      .write = device_host_write,
                                      .read = device_host_read,
                                      .own_memory = true,
                                      .copies = &device_host_copies,
                                      .services = &services};
static const struct device_i near_table = {.copies = &device_host_copies,
                                           .services = &device_host_services};

/* ---- training ---- */

/* values -= grad */
static int describe(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                    struct device_update *out)
{
    (void)context, (void)iteration, (void)scale, (void)lr_mult, (void)decay_mult;
    *out = (struct device_update){.rule = RULE_SGD, .scale = 1, .rate = 1};
    return 0;
}

/* Whole numbers: every sum is exact. */
static float gradient(int worker, int i)
{
    return (float)((worker + 1) * (i % 7 + 1));
}

static float value_after(int iterations, int workers, int i)
{
    return (float)(i - iterations * workers * (workers + 1) / 2 * (i % 7 + 1));
}

static void place(struct sync_model *model, bool far)
{
    float **arrays[] = {&model->values, &model->grads, &model->device_values, &model->device_grads};

    for (int i = 0; i < (far ? 4 : 2); i++) {
        *arrays[i] = malloc(ELEMS * sizeof(float));
        REQUIRE(*arrays[i]);
    }
    if (!far) {
        model->device_values = model->values;
        model->device_grads = model->grads;
    }
    for (int i = 0; i < ELEMS; i++)
        model->values[i] = value_after(0, 1, i);
}

/* Before an iteration the host knows nothing but the parameters that it serves. */
static void forget(struct sync_model *model, const struct plan *plan)
{
    for (int c = 0; c < plan->nchunks; c++)
        for (size_t i = plan->chunks[c].begin; i < plan->chunks[c].begin + plan->chunks[c].elems;
             i++) {
            model->grads[i] = NAN;
            /* along a tree they may still be on their way to others */
            if (plan_home(plan, c) != rank && !plan->buckets[0].log_steps)
                model->values[i] = NAN;
        }
}

/* What goes straight leaves no trace on the host. A home adds up in the place of its own gradient.
 */
static void check(const struct sync_model *model, const struct plan *plan, bool direct,
                  int iterations)
{
    const float *values = model->device_values;
    bool far = values != model->values;

    if (plan->buckets[0].log_steps) /* sums and answers pass through the host on their way */
        far = false;

    for (int i = 0; i < ELEMS; i++)
        REQUIRE(values[i] == value_after(iterations, plan->nworkers, i));
    for (int c = 0; c < plan->nchunks && far; c++)
        for (size_t i = plan->chunks[c].begin; i < plan->chunks[c].begin + plan->chunks[c].elems;
             i++) {
            bool home = plan_home(plan, c) == rank, here = home || !direct;
            REQUIRE(here == !isnan(model->grads[i]) && here == !isnan(model->values[i]));
            REQUIRE(home || !here || model->grads[i] == gradient(rank, (int)i));
            REQUIRE(!here || model->values[i] == values[i]);
        }
}

static void train(struct sync *sync, const struct plan *plan, struct sync_model *model)
{
    bool direct = sync_way(sync) && !strncmp(sync_way(sync), "straight", 8);

    REQUIRE(!sync_share_values(sync));
    if (model->device_values != model->values)
        memcpy(model->device_values, model->values, ELEMS * sizeof(float));
    REQUIRE(!sync_start(sync));
    for (int t = 0; t < ITERATIONS; t++) {
        if (!plan_is_worker(plan, rank)) {
            REQUIRE(!sync_wait_all(sync, t));
            continue;
        }
        if (model->device_grads != model->grads)
            forget(model, plan);
        for (int i = 0; i < ELEMS; i++)
            model->device_grads[i] = gradient(rank, i);
        REQUIRE(!sync_post(sync, 0, true) && !sync_flush(sync) && !sync_wait(sync, 0));
        check(model, plan, direct, t + 1);
    }
    REQUIRE(!sync_close(sync, 0));
}

int main(int argc, char **argv)
{
    struct device device = {.i = &table};
    struct group_param param = {.elems = ELEMS, .lr_mult = 1};
    struct group group = {
        .name = "all", .elems = ELEMS, .nparams = 1, .params = &param, .trains = true};
    struct sync_model model = {.elems = ELEMS};
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = {COMM_SCHEME, &scheme_ps},
                                   .iter_size = 1,
                                   .sizes.chunk = CHUNK_BYTES};
    struct sync_options how = {.overlap = true};
    struct sync_update update = {.nhistory = 1, .describe = describe};
    struct plan *plan;
    struct sync *sync;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    REQUIRE(argc > 3 && !choice_parse("--direct", argv[1], sync_direct_words, (int *)&how.direct));
    aware = argv[2];
    options.servers = atoi(argv[3]);
    options.tree_leaders = strchr(argv[3], 't') ? 2 : 0;
    how.update_on_device = strchr(argv[3], 'e') != NULL;
    spoilt = argc > 4 ? atoi(argv[4]) : -1;
    options.nranks = nranks;
    REQUIRE(aware[0] == '-' || (int)strlen(aware) == nranks);
    REQUIRE(!plan_create(&options, 1, &group, &plan));
    REQUIRE(plan->buckets[0].log_steps == (options.tree_leaders > 0));
    if (aware[0] == '-')
        device.i = &near_table;
    if (plan_is_worker(plan, rank)) {
        model.device = &device;
        place(&model, aware[0] != '-');
    }
    if (!sync_create(MPI_COMM_WORLD, plan, &model, &update, &how, &sync)) {
        train(sync, plan, &model);
        if (rank == 0)
            printf("way: %s\n", sync_way(sync) ? sync_way(sync) : "none");
        sync_destroy(sync);
    } else if (rank == 0) {
        printf("refused: %s\n", error_text());
    }
    plan_destroy(plan);
    if (model.device_values != model.values) {
        free(model.device_values);
        free(model.device_grads);
    }
    free(model.values);
    free(model.grads);
    MPI_Finalize();
    return 0;
}
