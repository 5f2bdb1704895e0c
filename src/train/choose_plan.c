/* In which way each layer travels. `auto` measures the cluster and asks choose_comm, as plan does,
 * where there is more than one machine (the ranks of one share its memory; where they exchange
 * messages all the same, it is the paper's rule). That the noise of a measurement does not change
 * the order of sums, and with it the last bits, from one run to the next, is seen to by the figures
 * that are kept of a cluster, and by the plan that a snapshot keeps.
 *
 * Where the GPUs of a node add up, they add up whole gradients: no layer sends factors then. */
#include "train/exchange.h"

#include "simulate/choose.h"
#include "forecast/layer_times.h"
#include "plan/kept_plan.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/path.h"
#include "util/sha256.h"
#include "util/strbuf.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What factors are multiplied to is summed in another order than gradients. */
static bool sums_gradients(const struct exchange *exchange, const struct job *job)
{
    return job->options->reproducible || (exchange->node && exchange->node->team);
}

/* What is taken where nobody asks. */
static struct comm usual_comm(const struct exchange *exchange, const struct job *job)
{
    return sums_gradients(exchange, job)
               ? (struct comm){.policy = COMM_SCHEME, .scheme = sync_schemes[0]}
               : (struct comm){.policy = COMM_PAPER};
}

static int find_work(struct exchange *exchange, const struct job *job,
                     const struct compute *compute, struct layer_times *out)
{
    struct cost_cluster *cluster = &exchange->probe.cluster;

    if (job->blank ? layer_times_read(job->owner, compute->net, job->options->profile, cluster, out)
                   : layer_times_estimate(job->owner, compute->net, cluster, out))
        return -1;
    if (job->blank)
        cluster->device_Bps = 0; /* the profile's device copies, its stand-in does not */
    layer_times_repeat(out, job->iter_size);
    return 0;
}

/* way: per group, by their numbers in the list of all. */
static int choose(struct exchange *exchange, const struct job *job, const struct compute *compute,
                  struct plan_options *how, const struct ways *ways, int *way)
{
    const struct trainer_options *o = job->options;
    struct plan_options free = *how;
    struct layer_times work;
    const struct choose_question question = {
        .cluster = &exchange->probe.cluster,
        .how = &free,
        .lossy = &o->lossy,
        .whole_gradients = sums_gradients(exchange, job),
        .groups = compute->net->groups,
        .play = {.work = &work,
                 .overlap = o->overlap,
                 .cluster = &exchange->probe.cluster,
                 .ranks_per_node = exchange->probe.ranks_per_node,
                 .fifo = o->fifo,
                 .bytes_per_second = exchange->cap * (o->dilate > 1 ? o->dilate : 1)}};
    struct choose_answer answer;
    char words[CHOOSE_WORDS];

    free.dilate = 1; /* the link is as much faster already */
    free.sizes = o->sizes;
    if (find_work(exchange, job, compute, &work) || choose_comm(&question, &answer))
        return -1;
    choose_print_rows(&answer, words);
    LOG_INFO(job->log, "Simulated time of an iteration by --comm: %s", words);
    if (o->lossy.n > 0) {
        choose_print_lossy(&answer, compute->net->ngroups, words);
        LOG_INFO(job->log, "%s", words);
    }
    how->sizes = answer.sizes;
    for (int g = 0; g < compute->net->ngroups; g++)
        way[g] = ways_find(ways, answer.way[g]);
    choose_answer_free(&answer);
    return 0;
}

/* Of hosts, the ranks on each, and what chooses links between them; rank 0's. */
static void hash_cluster(const struct job *job, char hex[SHA256_HEX])
{
    static const char *const links[] = {"OMPI_MCA_btl",    "OMPI_MCA_btl_tcp_if_include",
                                        "OMPI_MCA_pml",    "OMPI_MCA_btl_tcp_if_exclude",
                                        "UCX_NET_DEVICES", "UCX_TLS"};
    struct strbuf text = {.data = NULL};
    struct sha256 hash;

    for (int r = 0; r < job->nranks; r++)
        strbuf_printf(&text, "%s\n", job->topology.host[r]);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        strbuf_printf(&text, "%s=%s\n", links[i], getenv(links[i]) ? getenv(links[i]) : "");
    sha256_init(&hash);
    sha256_update(&hash, strbuf_text(&text), text.length);
    sha256_final_hex(&hash, hex);
    strbuf_free(&text);
}

/* Several hosts' figures are kept in the user's cache, by hosts and links; NULL where there is
 * none.
 */
static char *cached_file(const struct job *job)
{
    char name[sizeof "cluster-" + 16], key[SHA256_HEX];

    if (job->topology.nmachines == 1 || job->options->dilate > 1)
        return NULL;
    hash_cluster(job, key);
    snprintf(name, sizeof name, "cluster-%.16s", key);
    return path_in_cache(name);
}

/* Rank 0's, which reads and writes it. *out is freed by the caller; NULL: none, or a dry run, which
 * changes no file, is not to go by it. Collective. */
static int find_cluster_file(const struct job *job, char **out)
{
    const char *given = job->options->cluster_file;

    *out = NULL;
    if (job->options->measure && job->options->dry_run)
        return 0;
    if (job->rank == 0)
        *out = given ? strdup(given) : cached_file(job);
    if (*out && job->options->measure)
        unlink(*out);
    return agree_share_text(job->world, out);
}

/* Bytes per second that a rank sends at most: who may send least decides. 0: no limit.
 * Collective. */
static int find_cap(const struct job *job, double *out)
{
    double least = job->options->mbps > 0 ? -job->options->mbps * 1e6 / 8 : -INFINITY;
    int status = agree_most(job->world, &least, 1);

    *out = isinf(least) ? 0 : -least;
    return status;
}

/* The replay engine multiplies nothing: the product's rate is the CPU's, the link as much faster as
 * the messages are shorter. */
int schemes_probe_all(struct exchange *exchange, const struct job *job, struct compute *compute)
{
    struct probe *probe = &exchange->probe;
    struct engine_options options = {.threads = 0};
    struct engine cpu = {.i = NULL};
    const struct engine *engine = job->blank ? &cpu : &compute->engine;
    char *file = NULL;
    int status;

    if (exchange->probed)
        return 0;
    status = error_agree(job->world, job->blank ? engine_open("cpu", &options, &cpu) : 0);
    if (!status)
        status = find_cluster_file(job, &file);
    if (!status) {
        cores_enter(&job->cores, CORES_ALL); /* the thread that sends meanwhile has a core, too */
        status = probe_cluster(job->world, &job->topology, job->worker ? engine : NULL, file,
                               !job->options->dry_run, probe);
        cores_enter(&job->cores, CORES_COMPUTE);
    }
    free(file);
    if (cpu.i)
        engine_close(&cpu);
    if (!status && !probe->from_file)
        LOG_INFO(
            job->log,
            "Measured this cluster in %.1f s: latency %.0f us, %.3g MB/s per rank, %.3g GFLOP/s",
            probe->took_seconds, probe->cluster.latency_seconds * 1e6,
            probe->cluster.link_Bps * 1e-6, probe->cluster.gemm_flops * 1e-9);
    if (!status)
        status = find_cap(job, &exchange->cap);
    cost_cap(&probe->cluster, exchange->cap, schemes_leaders_per_host(exchange));
    if (job->blank)
        probe->cluster.core_share = 0; /* nobody computes: traffic takes nothing away */
    if (job->options->direct == SYNC_DIRECT_ON)
        probe->cluster.device_Bps = 0; /* MPI reaches the devices */
    if (job->options->dilate > 1) {
        probe->cluster.link_Bps *= job->options->dilate;
        probe->cluster.local_Bps *= job->options->dilate;
        probe->cluster.transport_Bps *= job->options->dilate;
    }
    exchange->probed = !status;
    return status;
}

int schemes_leaders_per_host(const struct exchange *exchange)
{
    return exchange->nodes.node ? exchange->nodes.leaders_per_host : exchange->probe.ranks_per_node;
}

/* Rank 0 decides for all: the same figures give the same choice, but nobody should have to prove
 * it. What it decides goes into options and `way`, of as many places as there are groups. */
static int choose_together(struct exchange *exchange, const struct job *job,
                           struct compute *compute, struct plan_options *options, struct way *way)
{
    size_t ngroups = (size_t)compute->net->ngroups;
    int *index = alloc_array(ngroups, sizeof *index, "schemes");
    struct ways ways;
    int status =
        error_agree(job->world, index ? 0 : -1) || schemes_probe_all(exchange, job, compute);

    ways_list(sync_schemes, job->options->wire, &job->options->lossy, &ways);
    if (!status) {
        options->leaders_per_host = schemes_leaders_per_host(exchange);
        status = error_agree(
            job->world, job->rank == 0 ? choose(exchange, job, compute, options, &ways, index) : 0);
    }
    if (!status)
        status = agree_share(job->world, &options->sizes, sizeof options->sizes) ||
                 agree_share(job->world, index, ngroups * sizeof *index);
    for (size_t g = 0; g < ngroups && !status; g++)
        way[g] = index[g] >= 0 ? ways.way[index[g]] : (struct way){.scheme = NULL};
    free(index);
    return status ? -1 : 0;
}

/* Whether the cluster is to be measured and the model asked. */
static bool asks_model(const struct job *job)
{
    return job->options->comm.policy == COMM_AUTO &&
           choose_is_asked(job->topology.nmachines, job->nworkers,
                           job->options->cluster_file != NULL);
}

/* The plan of the run that is resumed, where it fits; the same on all ranks. */
static bool keep_plan(struct exchange *exchange, const struct job *job,
                      const struct compute *compute, const char *kept, struct plan_options *options,
                      struct way *way)
{
    if (!asks_model(job) || job->options->measure ||
        !kept_plan_read(options, exchange->nodes.node ? exchange->nodes.nnodes : job->nworkers,
                        &job->options->lossy, compute->net->ngroups, compute->net->groups, kept,
                        way))
        return false;
    for (int g = 0; g < compute->net->ngroups; g++)
        if (sums_gradients(exchange, job) && way[g].scheme && !scheme_sums_gradients(way[g].scheme))
            return false;
    LOG_INFO(job->log, "Using the resumed run's schemes; --tune=measure chooses again");
    return true;
}

/* What was asked for and has no effect. */
static void log_unused(const struct exchange *exchange, const struct job *job)
{
    const struct plan *plan = exchange->plan;
    const struct comm *comm = &job->options->comm;
    int used = 0, others = 0;

    for (int b = 0; b < plan->nbuckets; b++) {
        used += plan->buckets[b].scheme == comm->scheme;
        others += plan->buckets[b].scheme == sync_schemes[0];
    }
    if (comm->policy == COMM_SCHEME && plan->nworkers > 1 && used == 0 && others > 0)
        LOG_WARNING(job->log, "--comm=%s can move no layer of this net: all travel by --comm=%s",
                    comm_name(*comm), sync_schemes[0]->name);
    if (job->options->lossy.n > 0 && !asks_model(job))
        LOG_INFO(job->log, "--lossy: nothing is rounded: %s",
                 plan_is_alone(plan) ? "no gradient leaves this machine's memory"
                                     : "on one machine --comm=auto follows the paper's rule, "
                                       "unless --cluster-file has figures");
}

int schemes_plan_all(struct exchange *exchange, const struct job *job, struct compute *compute,
                     const char *kept)
{
    struct way *way = alloc_array((size_t)compute->net->ngroups, sizeof *way, "schemes");
    struct plan_options options = {.registry = sync_schemes,
                                   .comm = job->options->comm,
                                   .wire = job->options->wire,
                                   .ways = way,
                                   .sizes = cost_sizes_keep(COST_USUAL_SIZES, &job->options->sizes),
                                   .nranks = job->nranks,
                                   .servers = job->options->servers,
                                   .nodes = exchange->nodes.node,
                                   .rails = nodes_leaders(exchange, job),
                                   .lags = job_apart(job) != NULL,
                                   .drop = job->options->drop,
                                   .iter_size = job->iter_size,
                                   .dilate = job->options->dilate};
    bool asks = asks_model(job);
    int status;

    status = error_agree(job->world, way ? 0 : -1);
    if (!status && asks && !keep_plan(exchange, job, compute, kept, &options, way))
        status = choose_together(exchange, job, compute, &options, way);
    if ((!asks && options.comm.policy == COMM_AUTO) || options.comm.policy == COMM_PAPER)
        options.comm = usual_comm(exchange, job);
    if (!status)
        status = error_agree(job->world, plan_create(&options, compute->net->ngroups,
                                                     compute->net->groups, &exchange->plan) ||
                                                 exchange_check_pace(exchange, job)
                                             ? -1
                                             : 0);
    if (!status)
        log_unused(exchange, job);
    free(way);
    return status;
}
