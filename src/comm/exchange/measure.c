/* The cluster's figures: read from a file that the user named, or for several hosts from the user's
 * cache, or measured now. Cached figures, and the plan in a snapshot, keep the schemes, and so the
 * order of sums and the last bits, from one noisy measurement to the next. */
#include "exchange/exchange.h"

#include "util/agree.h"
#include "util/path.h"
#include "util/sha256.h"
#include "util/strbuf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Hashes the hosts, the ranks on each, and the variables that choose links. On rank 0 alone. */
static void hash_cluster(const struct topology *topology, char hex[SHA256_HEX])
{
    static const char *const links[] = {"OMPI_MCA_btl",    "OMPI_MCA_btl_tcp_if_include",
                                        "OMPI_MCA_pml",    "OMPI_MCA_btl_tcp_if_exclude",
                                        "UCX_NET_DEVICES", "UCX_TLS"};
    struct strbuf text = {.data = NULL};
    struct sha256 hash;

    for (int r = 0; r < topology->nranks; r++)
        strbuf_printf(&text, "%s\n", topology->host[r]);
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        strbuf_printf(&text, "%s=%s\n", links[i], getenv(links[i]) ? getenv(links[i]) : "");
    sha256_init(&hash);
    sha256_update(&hash, strbuf_text(&text), text.length);
    sha256_final_hex(&hash, hex);
    strbuf_free(&text);
}

/* Returns the path of several hosts' figures in the user's cache, by hosts and links, or NULL. */
static char *cached_file(const struct exchange *e)
{
    char name[sizeof "cluster-" + 16], key[SHA256_HEX];

    if (e->facts.nmachines == 1 || e->options->dilate > 1)
        return NULL;
    hash_cluster(e->member.topology, key);
    snprintf(name, sizeof name, "cluster-%.16s", key);
    return path_in_cache(name);
}

/* Finds the file of figures, which rank 0 reads and writes. *out is the caller's to free; NULL: no
 * file, or a dry run with --tune=measure, which must not change the file. Collective. */
static int find_file(const struct exchange *e, char **out)
{
    const char *given = e->options->cluster_file;

    *out = NULL;
    if (e->options->measure && e->member.dry_run)
        return 0;
    if (e->member.topology->rank == 0)
        *out = given ? strdup(given) : cached_file(e);
    if (*out && e->options->measure)
        unlink(*out);
    return agree_share_text(e->member.world, out);
}

/* Computes the most bytes per second that a rank sends: the lowest limit of all ranks; 0: no limit.
 * Collective. */
static int find_cap(const struct exchange *e, double *out)
{
    double least = e->options->mbps > 0 ? -e->options->mbps * 1e6 / 8 : -INFINITY;
    int status = agree_max(e->member.world, &least, 1);

    *out = isinf(least) ? 0 : -least;
    return status;
}

static int measure(struct exchange *e, const char *file)
{
    const struct exchange_member *m = &e->member;
    const struct device *device = m->device;
    int rank = m->topology->rank, nworkers = e->facts.nranks - e->options->servers;
    int status = error_agree(m->world, m->measure ? m->measure(m->context, true, &device) : 0);

    if (!status)
        status = probe_cluster(m->world, m->topology, rank < nworkers ? device : NULL, file,
                               !m->dry_run, &e->probe);
    if (m->measure)
        (void)m->measure(m->context, false, &device);
    return status;
}

/* Adapts measured figures to the plan: a cap, a replay, direct messages, dilation. */
static void adapt(struct exchange *e)
{
    struct cost_cluster *cluster = &e->probe.cluster;
    int dilate = e->options->dilate;

    exchange_cap(&e->shape, e->cap, cluster);
    if (e->member.blank)
        cluster->core_share = 0; /* in a replay nobody computes, so traffic takes nothing away */
    if (e->options->direct == SYNC_DIRECT_ON)
        cluster->device_Bps = 0; /* MPI reads and writes device memory itself */
    if (dilate > 1) {            /* links are faster by the factor that shortens messages */
        cluster->link_Bps *= dilate;
        cluster->local_Bps *= dilate;
        cluster->transport_Bps *= dilate;
    }
}

int exchange_measure_all(struct exchange *e)
{
    const struct probe *probe = &e->probe;
    char text[160], *file = NULL;
    int status;

    if (e->probed)
        return 0;
    status = find_file(e, &file) || measure(e, file) || find_cap(e, &e->cap);
    free(file);
    if (status)
        return -1;
    snprintf(text, sizeof text,
             "Measured this cluster in %.1f s: latency %.0f us, %.3g MB/s per rank, %.3g GFLOP/s",
             probe->took_seconds, probe->cluster.latency_seconds * 1e6,
             probe->cluster.link_Bps * 1e-6, probe->cluster.gemm_flops * 1e-9);
    if (!probe->from_file)
        e->member.say(e->member.context, false, text);
    adapt(e);
    e->probed = true;
    return 0;
}
