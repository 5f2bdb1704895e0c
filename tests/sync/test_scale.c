/* What one rank of a large run keeps and sends: opens the real buffers and the real wire of rank r
 * of P, without the other ranks, and measures what was allocated. sync finds r and P by asking MPI,
 * whose answers this program replaces; nothing travels. Run on one rank:
 *
 *     test_scale FOLDER      where models are
 *
 * prints the table of tests/bench/RESULTS.md and fails where a bound does not hold. Exits with 77
 * where the C library does not tell what is allocated. */
#include <malloc.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "engine/engine.h"
#include "layers/layer.h"
#include "net/net.h"
#include "plan/cost.h"
#include "spec/netdef.h"
#include "spec/read.h"
#include "sync/steps.h"
#include "sync/sync.h"
#include "util/error.h"
#include "plan/for_schemes.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__) ||        \
    !__GLIBC_PREREQ(2, 33)
int main(void)
{
    return 77;
}
#else

/* What a rank may keep for communication beside parameters, gradients and history: twice the
 * parameters and this, whatever the scheme. */
#define FREE_BYTES      ((double)PLAN_MEMORY_FREE)
/* What the plan does not count: the wire, lists of chunks, tags and the like. */
#define UNCOUNTED_BYTES ((double)(4 << 20))

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "FAILED: " __VA_ARGS__);                                               \
            fprintf(stderr, "\n");                                                                 \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* ---- a rank of many ---- */

static int pretended_rank, pretended_ranks;

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
    int code = PMPI_Comm_rank(comm, rank);

    *rank = pretended_rank;
    return code;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
    int code = PMPI_Comm_size(comm, size);

    *size = pretended_ranks;
    return code;
}

static double allocated_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

/* ---- nets ---- */

struct model {
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    float *arena; /* nobody touches it: parameters and gradients */
};

static void model_open(const char *folder, const char *name, struct model *out)
{
    struct layer_env env = {.look_only = true, .nranks = 1};
    char path[4096];

    snprintf(path, sizeof path, "%s/%s/train_val.prototxt", folder, name);
    REQUIRE(!spec_read_net_of(path, layer_check_type, false, &out->doc) &&
                !net_def_create(out->doc, (const Caffe__NetParameter *)text_root(out->doc),
                                CAFFE__PHASE__TRAIN, NULL, &out->def) &&
                !net_create(out->def, true, &env, NULL, &out->net),
            "%s", error_text());
    out->arena = mmap(NULL, out->net->elems * sizeof(float), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(out->arena != MAP_FAILED, "no room for %zu parameters", out->net->elems);
}

static void model_close(struct model *model)
{
    munmap(model->arena, model->net->elems * sizeof(float));
    net_destroy(model->net);
    net_def_destroy(model->def);
    text_free(model->doc);
}

static struct plan *plan_of(const struct model *model, const char *comm, int ranks)
{
    struct plan_options options = {.registry = sync_schemes,
                                   .nranks = ranks,
                                   .iter_size = 1,
                                   .sizes.chunk = COST_USUAL_SIZES.chunk,
                                   .sizes.merge = COST_USUAL_SIZES.merge};
    struct plan *plan;

    REQUIRE(!comm_parse(sync_schemes, "--comm", comm, &options.comm) &&
                !plan_create(&options, model->net->ngroups, model->net->groups, &plan),
            "%s", error_text());
    return plan;
}

/* ---- one rank ---- */

static double history_bytes(const struct plan *plan, int rank)
{
    double elems = 0;

    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        const struct home_share *own = bucket->scheme ? plan_share(plan, b, rank) : NULL;
        if (bucket->scheme && bucket->scheme->steps->everywhere)
            elems += (double)bucket->elems;
        else if (own)
            elems += (double)own->elems;
    }
    return elems * sizeof(float);
}

/* Bytes that the rank's sync allocates beside the history. */
static double measure(const struct model *model, const struct plan *plan,
                      const struct device *device, int rank)
{
    struct sync_model arenas = {.elems = model->net->elems,
                                .values = model->arena,
                                .grads = model->arena,
                                .device_values = model->arena,
                                .device_grads = model->arena,
                                .device = device};
    struct sync_update update = {.nhistory = 1};
    struct sync_options options = {.overlap = true, .sends.window = COST_USUAL_SIZES.window};
    struct sync *sync;
    double before, bytes;

    pretended_rank = rank;
    pretended_ranks = plan->options.nranks;
    before = allocated_bytes();
    REQUIRE(!sync_create(MPI_COMM_SELF, plan, &arenas, &update, &options, &sync), "%s",
            error_text());
    bytes = allocated_bytes() - before - history_bytes(plan, rank);
    sync_destroy(sync);
    REQUIRE(allocated_bytes() - before < UNCOUNTED_BYTES / 4, "rank %d leaves %.0f bytes behind",
            rank, allocated_bytes() - before);
    return bytes;
}

/* The ranks with the least and the most memory and messages, the first, and the last. */
enum { SOME = 6 };

static void choose_ranks(const struct plan *plan, int out[SOME])
{
    int ranks = plan->options.nranks, extreme[SOME] = {0, ranks - 1, 0, 0, 0, 0};

    for (int r = 0; r < ranks; r++) {
        uint64_t memory = plan_memory(plan, r), messages = plan_messages(plan, r);
        extreme[2] = memory > plan_memory(plan, extreme[2]) ? r : extreme[2];
        extreme[3] = memory < plan_memory(plan, extreme[3]) ? r : extreme[3];
        extreme[4] = messages > plan_messages(plan, extreme[4]) ? r : extreme[4];
        extreme[5] = messages < plan_messages(plan, extreme[5]) ? r : extreme[5];
    }
    for (int i = 0; i < SOME; i++)
        out[i] = extreme[i];
}

static void run(const char *name, const struct model *model, const char *comm, int ranks,
                const struct device *device)
{
    struct plan *plan = plan_of(model, comm, ranks);
    double parameters = (double)model->net->elems * sizeof(float), least = 1e30, most = 0;
    uint64_t fewest = UINT64_MAX, many = 0;
    int chosen[SOME], trees = 0;

    choose_ranks(plan, chosen);
    for (int b = 0; b < plan->nbuckets; b++)
        trees += plan->buckets[b].log_steps;
    for (int i = 0; i < SOME; i++) {
        double bytes = measure(model, plan, device, chosen[i]);
        double planned = (double)plan_memory(plan, chosen[i]);
        uint64_t messages = plan_messages(plan, chosen[i]);
        REQUIRE(bytes >= planned && bytes <= planned + UNCOUNTED_BYTES,
                "%s, %s: rank %d of %d keeps %.0f bytes, the plan says %.0f", name, comm, chosen[i],
                ranks, bytes, planned);
        REQUIRE(bytes <= 2 * parameters + FREE_BYTES,
                "%s, %s: rank %d of %d keeps %.0f bytes for %.0f of parameters", name, comm,
                chosen[i], ranks, bytes, parameters);
        /* a gradient and an answer for each 64 kB and each bucket, and at most two homes' answers
         */
        REQUIRE(!strcmp(comm, "sfb") || /* sends to every rank, for each of its layers */
                    (double)messages <=
                        2 * (parameters / (64 << 10) + plan->nbuckets) + 2 * (double)ranks,
                "%s, %s: rank %d of %d sends %llu messages", name, comm, chosen[i], ranks,
                (unsigned long long)messages);
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
        fewest = messages < fewest ? messages : fewest;
        many = messages > many ? messages : many;
    }
    printf("| %s | %s | %d | %d (%d) | %d | %llu to %llu | %.1f to %.1f | %.2f |\n", name, comm,
           ranks, plan->nbuckets, trees, plan->nchunks, (unsigned long long)fewest,
           (unsigned long long)many, least / (1 << 20), most / (1 << 20), most / parameters);
    fflush(stdout);
    plan_destroy(plan);
}

int main(int argc, char **argv)
{
    static const char *const nets[] = {"resnet50", "vgg16"}, *const comms[] = {"ps", "allreduce",
                                                                               "sfb"};
    struct engine_options options = {.threads = 1};
    struct engine engine = {0};
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    REQUIRE(argc == 2, "the models' folder is missing");
    REQUIRE(!engine_open("cpu", &options, &engine), "%s", error_text());
    printf(
        "| net | scheme | ranks | buckets (along trees) | chunks | messages a rank sends | MiB a "
        "rank keeps | of the parameters |\n|---|---|---|---|---|---|---|---|\n");
    for (int n = 0; n < 2; n++) {
        struct model model = {0};
        model_open(argv[1], nets[n], &model);
        for (int c = 0; c < 3; c++)
            for (int ranks = 64; ranks <= 1024; ranks *= 4)
                run(nets[n], &model, comms[c], ranks, &engine.device);
        model_close(&model);
    }
    engine_close(&engine);
    MPI_Finalize();
    return 0;
}
#endif
