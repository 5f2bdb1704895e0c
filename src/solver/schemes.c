/* Which scheme moves which layer. `auto` measures the cluster and lets the cost model choose, and
 * the simulator between that and what could have been named, where there is more than one machine
 * (the ranks of one share its memory; where they exchange messages all the same, it is the paper's
 * rule). It leaves the paper's choice only for a gain worth its name, so that the noise of a
 * measurement does not change the order of sums, and with it the last bits, from one run to the
 * next. (PS and allreduce give the same bits; between them it is free.)
 *
 * Where the GPUs of a node add up, they add up whole gradients: no layer sends factors then. */
#include "solver/trainer_internal.h"

#include "plan/timeline.h"
#include "simulate/simulate.h"
#include "solver/groups.h"
#include "solver/work.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/path.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GAIN_WORTH_CHANGING 0.95 /* of the predicted iteration */

static bool in_teams(const struct trainer *t)
{
    return t->node && t->node->team;
}

/* What is taken where the model has nothing better. */
static struct comm usual_comm(const struct trainer *t)
{
    return in_teams(t) ? (struct comm){.policy = COMM_SCHEME, .scheme = &scheme_ps}
                       : (struct comm){.policy = COMM_PAPER};
}

/* What rank 0 decides for all. */
struct decision {
    bool leaves_usual; /* schemes and merging are the model's */
    size_t merge_bytes, window;
    double seconds; /* predicted, of an iteration */
};

static void take_answer(const struct trainer *t, const struct cost_answer *answer,
                        const struct simulate_choice *choice, struct decision *out, int *scheme)
{
    if (choice->seconds >= GAIN_WORTH_CHANGING * out->seconds)
        return;
    *out = (struct decision){.leaves_usual = true,
                             .merge_bytes = answer->merge_bytes,
                             .window = choice->window,
                             .seconds = choice->seconds};
    for (int g = 0; g < t->net->ngroups; g++)
        scheme[g] = scheme_index(answer->scheme[g]);
}

/* scheme: per group, by their numbers in the registry. */
static int choose(struct trainer *t, const struct plan_options *how, struct decision *out,
                  int *scheme)
{
    struct simulate_options play = {.cluster = &t->probe.cluster,
                                    .ranks_per_node = t->probe.ranks_per_node,
                                    .window = t->options->window,
                                    .fifo = t->options->fifo};
    struct plan_options usual = *how, free = *how;
    struct cost_work work = {0};
    struct cost_question question = {.work = &work,
                                     .cluster = &t->probe.cluster,
                                     .how = &free,
                                     .registry = scheme_registry,
                                     .except = in_teams(t) ? &scheme_sfb : NULL,
                                     .groups = t->groups,
                                     .overlap = t->options->overlap};
    struct cost_answer answer;
    struct simulate_choice choice;
    double base;
    int status;

    usual.comm = usual_comm(t);
    usual.dilate = free.dilate = 1; /* the link is as much faster already */
    if (t->options->merge == COST_SIZE_CHOSEN)
        free.merge_bytes = COST_SIZE_CHOSEN;
    if (t->blank ? work_read(t->net, t->options->profile, &t->probe.cluster, &work)
                 : work_estimate(t->net, &t->probe.cluster, &work))
        return -1;
    if (t->blank)
        t->probe.cluster.device_Bps = 0; /* the profile's device copies, its stand-in does not */
    status = simulate_predict(&question, &play, &usual, &base) ||
             simulate_choose(&question, &play, &answer, &choice);
    if (!status) {
        *out = (struct decision){
            .merge_bytes = how->merge_bytes, .window = t->sizes.window, .seconds = base};
        take_answer(t, &answer, &choice, out, scheme);
        cost_answer_free(&answer);
    }
    cost_work_free(&work);
    return status ? -1 : 0;
}

/* Hosts, the ranks on each, and what chooses links between them; rank 0's. */
static char *cluster_key(const struct trainer *t)
{
    static const char *const links[] = {"OMPI_MCA_btl",    "OMPI_MCA_btl_tcp_if_include",
                                        "OMPI_MCA_pml",    "OMPI_MCA_btl_tcp_if_exclude",
                                        "UCX_NET_DEVICES", "UCX_TLS"};
    struct strbuf text = {.data = NULL};
    char *hex = malloc(SHA256_HEX);
    struct sha256 hash;

    for (int r = 0; r < t->nranks; r++)
        strbuf_printf(&text, "%s\n", t->topology.host[r]);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        strbuf_printf(&text, "%s=%s\n", links[i], getenv(links[i]) ? getenv(links[i]) : "");
    sha256_init(&hash);
    sha256_update(&hash, strbuf_text(&text), text.length);
    if (hex)
        sha256_final_hex(&hash, hex);
    strbuf_free(&text);
    return hex;
}

/* Several hosts' figures are kept in the user's cache, by hosts and links; NULL where there is
 * none.
 */
static char *cached_file(const struct trainer *t)
{
    char name[sizeof "cluster-" + 16], *key, *path;

    if (t->topology.nmachines == 1 || t->options->dilate > 1)
        return NULL;
    key = cluster_key(t);
    snprintf(name, sizeof name, "cluster-%.16s", key ? key : "0");
    path = path_in_cache(name);
    free(key);
    return path;
}

/* Rank 0 reads and writes it; the others need a name, any. *out is freed by the caller; NULL: none.
 * Collective. */
static int find_cluster_file(const struct trainer *t, char **out)
{
    const char *given = t->options->cluster_file;
    int there;

    *out = given ? strdup(given) : t->rank == 0 ? cached_file(t) : NULL;
    there = *out != NULL;
    if (t->rank == 0 && there && t->options->measure)
        unlink(*out);
    MPI_TRY(MPI_Bcast(&there, 1, MPI_INT, 0, t->world));
    if (there && !*out)
        *out = strdup("cluster");
    return 0;
fail:
    return -1;
}

/* The replay engine multiplies nothing: the product's rate is the CPU's, the link as much faster as
 * the messages are shorter. */
int trainer_probe(struct trainer *t)
{
    struct probe *probe = &t->probe;
    struct engine_options options = {.threads = 0};
    struct engine cpu = {.i = NULL};
    const struct engine *engine = t->blank ? &cpu : &t->engine;
    char *file = NULL;
    int status;

    if (t->probed)
        return 0;
    status = error_agree(t->world, t->blank ? engine_open("cpu", &options, &cpu) : 0);
    if (!status)
        status = find_cluster_file(t, &file);
    if (!status) {
        cores_enter(&t->cores, CORES_ALL); /* the thread that sends meanwhile has a core, too */
        status = probe_cluster(t->world, &t->topology, t->worker ? engine : NULL, file, probe);
        cores_enter(&t->cores, CORES_COMPUTE);
    }
    free(file);
    if (cpu.i)
        engine_close(&cpu);
    if (t->blank)
        probe->cluster.core_share = 0; /* nobody computes: traffic takes nothing away */
    if (t->options->direct == SYNC_DIRECT_ON)
        probe->cluster.device_Bps = 0; /* MPI reaches the devices */
    if (t->options->dilate > 1) {
        probe->cluster.link_Bps *= t->options->dilate;
        probe->cluster.local_Bps *= t->options->dilate;
        probe->cluster.transport_Bps *= t->options->dilate;
    }
    t->probed = !status;
    return status;
}

int trainer_leaders_per_host(const struct trainer *t)
{
    return t->nodes.node ? t->nodes.leaders_per_host : t->probe.ranks_per_node;
}

/* Sizes that the user gave hold. */
static void keep_wishes(struct trainer *t)
{
    const struct trainer_options *o = t->options;

    t->sizes.chunk = o->chunk != COST_SIZE_CHOSEN ? o->chunk : t->sizes.chunk;
    t->sizes.merge = o->merge != COST_SIZE_CHOSEN ? o->merge : t->sizes.merge;
    t->sizes.window = o->window != COST_SIZE_CHOSEN ? o->window : t->sizes.window;
}

static void use_sizes(const struct trainer *t, struct plan_options *options)
{
    options->chunk_bytes = t->sizes.chunk;
    options->merge_bytes = t->sizes.merge;
    options->latency_bytes = t->sizes.latency;
}

/* Rank 0 decides for all: the same figures give the same choice, but nobody should have to prove
 * it. What it decides goes into options and `scheme`, of as many places as there are groups. */
static int choose_together(struct trainer *t, struct plan_options *options,
                           const struct scheme **scheme)
{
    const struct probe *probe = &t->probe;
    struct decision decision = {0};
    int *index, status;

    if (trainer_probe(t))
        return -1;
    t->sizes = cost_sizes_for(&probe->cluster);
    MPI_TRY(MPI_Bcast(&t->sizes, (int)sizeof t->sizes, MPI_BYTE, 0, t->world));
    keep_wishes(t);
    use_sizes(t, options);
    options->leaders_per_host = trainer_leaders_per_host(t);
    index = calloc((size_t)t->net->ngroups + 1, sizeof *index);
    status = index ? 0 : error_memory(sizeof *index * (size_t)t->net->ngroups, "schemes");
    if (!status && t->rank == 0)
        status = choose(t, options, &decision, index);
    status = error_agree(t->world, status);
    if (!status)
        status = MPI_Bcast(&decision, (int)sizeof decision, MPI_BYTE, 0, t->world) ||
                 MPI_Bcast(index, t->net->ngroups, MPI_INT, 0, t->world);
    for (int g = 0; g < t->net->ngroups && !status; g++)
        scheme[g] = scheme_at(index[g]);
    free(index);
    if (status)
        return -1;
    t->predicted_seconds = decision.seconds;
    t->sizes.merge = options->merge_bytes = decision.merge_bytes;
    t->sizes.window = decision.window;
    if (decision.leaves_usual)
        options->schemes = scheme;
    else
        options->comm = usual_comm(t);
    if (!probe->from_file)
        LOG_INFO(
            t->log,
            "Measured this cluster in %.1f s: latency %.0f us, %.3g MB/s per rank, %.3g GFLOP/s",
            probe->took_seconds, probe->cluster.latency_seconds * 1e6,
            probe->cluster.link_Bps * 1e-6, probe->cluster.gemm_flops * 1e-9);
    return 0;
fail:
    return -1;
}

/* Whether the cluster is to be measured and the model asked. */
static bool asks_model(const struct trainer *t)
{
    /* ranks of one machine have no network between them: what they measured would be memory and
     * each other's computation, and the next run might decide otherwise */
    return t->options->comm.policy == COMM_AUTO && t->nworkers > 1 &&
           (t->topology.nmachines > 1 || t->options->cluster_file);
}

/* The plan of the run that is resumed, where it fits; the same on all ranks. */
static bool keep_plan(struct trainer *t, struct plan_options *options, const struct scheme **scheme)
{
    if (!asks_model(t) || t->options->measure ||
        !trainer_read_plan(t, t->run.kept_plan, &t->sizes, scheme))
        return false;
    use_sizes(t, options);
    options->schemes = scheme;
    LOG_INFO(t->log,
             "The layers' schemes are those of the run that goes on; --measure chooses them "
             "anew");
    return true;
}

int trainer_plan(struct trainer *t)
{
    struct plan_options options = {.comm = t->options->comm,
                                   .wire = t->options->wire,
                                   .nranks = t->nranks,
                                   .servers = t->options->servers,
                                   .nodes = t->nodes.node,
                                   .rails = trainer_leaders(t),
                                   .lags = t->options->staleness > 0,
                                   .iter_size = t->iter_size,
                                   .dilate = t->options->dilate};
    const struct scheme **scheme = calloc((size_t)t->net->ngroups + 1, sizeof *scheme);
    bool asks = asks_model(t);
    int status;

    t->groups = groups_create(t->net);
    status = error_agree(t->world, !t->groups ? -1
                                   : scheme   ? 0
                                              : error_memory(sizeof *scheme, "schemes"));
    t->sizes = COST_USUAL_SIZES;
    keep_wishes(t);
    use_sizes(t, &options);
    if (!status && asks && !keep_plan(t, &options, scheme))
        status = choose_together(t, &options, scheme);
    if ((!asks && options.comm.policy == COMM_AUTO) || options.comm.policy == COMM_PAPER)
        options.comm = usual_comm(t);
    if (!status)
        status = error_agree(t->world, plan_create(&options, t->net->ngroups, t->groups, &t->plan));
    free(scheme);
    return status;
}
