/* Costs of one bucket. Bytes are exact: the scheme gives each rank's, counted over classes of ranks
 * that move the same. Everything else is double, because the cluster's figures are measurements. */
#include "plan/cost.h"

#include "util/alloc.h"
#include "plan/for_schemes.h"

#include <math.h>
#include <stdlib.h>

/* Ratio of words moved: an update with history reads 3 and writes 2, a sum reads 2, writes 1. */
#define UPDATE_PER_SUM (5.0 / 3.0)

const char *const cost_overlap_words[] = {[COST_OVERLAP_NONE] = "none",
                                          [COST_OVERLAP_BACKWARD] = "backward",
                                          [COST_OVERLAP_WFBP] = "wfbp",
                                          NULL};

/* ---- bytes ---- */

static double busier(const struct cost_side *side)
{
    return fmax(side->sent, side->received);
}

/* Leaders of one role that lead as many workers with as many samples. Leaders of a class without a
 * share in a bucket move the same bytes. */
enum { MOST_CLASSES = 64 };

struct classes {
    int count;
    struct {
        int first, members, locals, parts;
        bool worker;
    } all[MOST_CLASSES];
};

static int class_of(const struct classes *classes, const struct plan *plan, int leader)
{
    bool worker = leader < plan->nworkers;

    for (int i = 0; i < classes->count; i++)
        if (classes->all[i].worker == worker && classes->all[i].locals == plan->locals[leader] &&
            classes->all[i].parts == plan->parts[leader])
            return i;
    return -1;
}

/* Sorts leaders into classes; those beyond MOST_CLASSES (hosts of so many sizes) join the last. */
static void find_classes(const struct plan *plan, struct classes *out)
{
    out->count = 0;
    for (int l = 0; l < plan->nleaders; l++) {
        int i = class_of(out, plan, l);
        if (i < 0 && out->count == MOST_CLASSES)
            i = MOST_CLASSES - 1;
        if (i < 0) {
            i = out->count++;
            out->all[i].first = l;
            out->all[i].members = 0;
            out->all[i].locals = plan->locals[l];
            out->all[i].parts = plan->parts[l];
            out->all[i].worker = l < plan->nworkers;
        }
        out->all[i].members++;
    }
}

/* Returns a member of the class without a share in the bucket; -1: all have one. */
static int find_bystander(const struct plan *plan, const struct classes *classes, int class,
                          int bucket)
{
    for (int l = classes->all[class].first; l < plan->nleaders; l++)
        if (class_of(classes, plan, l) == class && !plan_share(plan, bucket, l))
            return l;
    return -1;
}

struct count {
    uint64_t bytes;
    struct cost_side workers, servers; /* sums over ranks */
    int nservers;                      /* number of ranks in `servers` */
};

static void count_leaders(const struct plan *plan, int bucket, int leader, int members,
                          struct count *count, struct cost *cost)
{
    const struct scheme *scheme = plan->buckets[bucket].scheme;
    struct traffic t = scheme->traffic(plan, bucket, leader);
    bool owner = scheme->home == HOME_OWNER && plan_share(plan, bucket, leader);
    bool server = owner || leader >= plan->nworkers;
    struct cost_side *side = server ? &count->servers : &count->workers;
    double sent = (double)t.sent, received = (double)t.received;
    uint64_t all;

    if (__builtin_mul_overflow(t.sent, (uint64_t)members, &all) ||
        __builtin_add_overflow(count->bytes, all, &count->bytes))
        count->bytes = UINT64_MAX;
    side->sent += sent * members;
    side->received += received * members;
    count->nservers += owner ? members : 0;
    cost->busiest = fmax(cost->busiest, fmax(sent, received));
    cost->messages = fmax(cost->messages, (double)t.messages);
}

/* Counts a bucket along trees. Leaders without a share move unlike bytes there, so a worker's bytes
 * are the mean; the busiest leaders are the homes, at the trees' roots. */
static void count_tree(const struct plan *plan, int bucket, struct cost *cost)
{
    enum { ENOUGH = 8 };
    const struct bucket *b = &plan->buckets[bucket];
    struct count count = {0};
    uint64_t bytes = (uint64_t)(plan->nworkers - 1) * (b->gradient_bytes + b->back_bytes);
    double each = (double)bytes / plan->nworkers;

    for (int s = 0; s < b->nshares && s < ENOUGH; s++)
        count_leaders(plan, bucket, plan->shares[b->first_share + s].home, 1, &count, cost);
    cost->bytes = bytes;
    cost->worker = (struct cost_side){each, each};
}

static void count_bytes(const struct plan *plan, const struct classes *classes, int bucket,
                        struct cost *cost)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct count count = {0};
    int homes[MOST_CLASSES] = {0}, workers;

    if (b->log_steps) {
        count_tree(plan, bucket, cost);
        return;
    }
    for (int s = b->first_share; s < b->first_share + b->nshares; s++) {
        int home = plan->shares[s].home, class = class_of(classes, plan, home);
        homes[class < 0 ? MOST_CLASSES - 1 : class]++;
        count_leaders(plan, bucket, home, 1, &count, cost);
    }
    for (int i = 0; i < classes->count; i++) {
        int bystanders = classes->all[i].members - homes[i];
        int bystander = bystanders > 0 ? find_bystander(plan, classes, i, bucket) : -1;
        if (bystander >= 0)
            count_leaders(plan, bucket, bystander, bystanders, &count, cost);
    }
    if (b->scheme->home != HOME_OWNER)
        count.nservers = plan->dedicated ? plan->nservers : 0;
    workers = plan->nworkers - (b->scheme->home == HOME_OWNER && !plan->dedicated);
    cost->bytes = count.bytes;
    if (workers > 0)
        cost->worker =
            (struct cost_side){count.workers.sent / workers, count.workers.received / workers};
    if (count.nservers > 0)
        cost->server = (struct cost_side){count.servers.sent / count.nservers,
                                          count.servers.received / count.nservers};
}

/* ---- processors ---- */

double cost_host_update_rate(const struct cost_cluster *cluster)
{
    return cluster->sum_Bps / UPDATE_PER_SUM;
}

bool cost_updates_remotely(const struct cost_cluster *cluster)
{
    return cluster->serve_Bps > cost_host_update_rate(cluster);
}

double cost_update_seconds(const struct cost_cluster *cluster, double bytes)
{
    return bytes / cost_host_update_rate(cluster);
}

double cost_worker_update_seconds(const struct cost_cluster *cluster, double bytes)
{
    return cost_updates_remotely(cluster) ? bytes / cluster->serve_Bps
                                          : cost_update_seconds(cluster, bytes);
}

double cost_device_update_seconds(const struct cost_cluster *cluster, double bytes)
{
    return cluster->update_Bps > 0 ? bytes / cluster->update_Bps
                                   : cost_worker_update_seconds(cluster, bytes);
}

/* Returns the rows of an average worker's factors. */
static double own_rows(const struct plan *plan, int bucket)
{
    return (double)plan->buckets[bucket].k * plan->options.iter_size * plan->all_parts /
           plan->ncomputing;
}

double cost_stage_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];

    return own_rows(plan, bucket) * ((double)b->m + (double)b->n) * sizeof(float) /
           cluster->copy_Bps;
}

double cost_decode_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket)
{
    if (!plan_halves(plan, bucket))
        return 0;
    return (double)plan_factor_elems(plan, bucket, -1) * sizeof(float) / cluster->copy_Bps;
}

double cost_rebuild_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];

    return 2.0 * (double)b->m * (double)b->n * own_rows(plan, bucket) * (plan->ncomputing - 1) /
           cluster->gemm_flops;
}

struct cost_side cost_device_bytes(const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];
    double whole = (double)b->elems * sizeof(float), all_bytes, own_bytes;

    if (!b->scheme)
        return (struct cost_side){0, 0};
    if (!b->scheme->factors)
        return (struct cost_side){whole, whole};
    all_bytes = (double)plan_factor_elems(plan, bucket, -1) * sizeof(float);
    own_bytes = all_bytes / plan->ncomputing;
    return (struct cost_side){own_bytes,
                              b->scheme->home == HOME_NOBODY ? all_bytes - own_bytes : whole};
}

/* ---- costs ---- */

double cost_node_seconds(const struct cost_cluster *cluster, const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];
    double share = (double)(plan->most_locals - 1) / plan->most_locals;

    if (!b->scheme || b->scheme->factors)
        return 0;
    return share * (double)b->elems * sizeof(float) / cluster->sum_Bps;
}

/* Divides messages and sums, but no dedicated server's, among the leaders of a node. */
static void share_among_leaders(const struct plan *plan, int bucket, struct cost *cost)
{
    const struct scheme *scheme = plan->buckets[bucket].scheme;

    if (plan->rails == 1 || !scheme->sliced || (plan->dedicated && scheme->home == HOME_SERVERS))
        return;
    cost->messages /= plan->rails;
    cost->sum_seconds /= plan->rails;
    cost->compute_seconds /= plan->rails;
}

static void cost_bucket(const struct cost_cluster *cluster, const struct plan *plan,
                        const struct classes *classes, int bucket, struct cost *out)
{
    const struct bucket *b = &plan->buckets[bucket];
    double link;

    *out = (struct cost){.scheme = b->scheme, .possible = b->trains};
    if (!b->trains)
        return;
    if (b->scheme) {
        count_bytes(plan, classes, bucket, out);
        b->scheme->cost(cluster, plan, bucket, out);
        share_among_leaders(plan, bucket, out);
    } else {
        out->sum_seconds = cost_update_seconds(cluster, (double)b->elems * sizeof(float));
    }
    out->sum_seconds += cost_node_seconds(cluster, plan, bucket);
    link = fmax(busier(&out->worker), busier(&out->server)) / cluster->link_Bps +
           out->messages * cluster->message_seconds;
    out->busy_seconds = fmax(link, out->sum_seconds);
    out->stolen_seconds =
        cluster->core_share * (out->sum_seconds + busier(&out->worker) / cluster->transport_Bps);
}

void cost_plan(const struct cost_cluster *cluster, const struct plan *plan, struct cost *out)
{
    struct classes classes;

    find_classes(plan, &classes);
    for (int b = 0; b < plan->nbuckets; b++)
        cost_bucket(cluster, plan, &classes, b, &out[b]);
}

int cost_table(const struct cost_cluster *cluster, const struct plan_options *how,
               const struct ways *ways, int ngroups, const struct group *groups, struct cost *out)
{
    struct cost *column = alloc_array((size_t)ngroups, sizeof *column, "the costs of all schemes");
    struct way *way_of = alloc_array((size_t)ngroups, sizeof *way_of, "the costs of all schemes");
    struct plan_options options = *how;
    int status = column && way_of ? 0 : -1;

    options.comm = (struct comm){.policy = COMM_AUTO};
    options.ways = way_of;
    options.sizes.merge = 0;
    for (int w = 0; w < ways->n && !status; w++) {
        const struct way way = ways->way[w];
        struct plan *plan;
        for (int g = 0; g < ngroups; g++)
            way_of[g] = way;
        status = plan_create(&options, ngroups, groups, &plan);
        if (status)
            break;
        cost_plan(cluster, plan, column);
        for (int g = 0; g < ngroups; g++) {
            bool possible = scheme_can_move(way.scheme, &plan->groups[g], way.rank);
            out[g * ways->n + w] = possible ? column[g] : (struct cost){0};
            out[g * ways->n + w].scheme = way.scheme;
        }
        plan_destroy(plan);
    }
    free(column);
    free(way_of);
    return status;
}

/* ---- sizes ---- */

static size_t bounded(double bytes, double least, double most)
{
    return (size_t)fmin(fmax(bytes, least), most) & ~(size_t)4095;
}

static size_t chunk_of(double trip)
{
    return bounded(20 * trip, 64 << 10, 4 << 20);
}

void cost_cap(struct cost_cluster *cluster, double bytes_per_second, int leaders_per_host)
{
    double link = bytes_per_second * leaders_per_host;

    if (bytes_per_second <= 0)
        return;
    cluster->link_Bps = fmin(link, cluster->link_Bps);
    cluster->local_Bps = fmin(bytes_per_second, cluster->local_Bps);
}

static size_t keep(size_t given, size_t size)
{
    return given == COST_SIZE_CHOSEN ? size : given;
}

struct plan_sizes cost_sizes_keep(struct plan_sizes sizes, const struct plan_sizes *given)
{
    return (struct plan_sizes){.chunk = keep(given->chunk, sizes.chunk),
                               .merge = keep(given->merge, sizes.merge),
                               .window = keep(given->window, sizes.window),
                               .latency = keep(given->latency, sizes.latency)};
}

struct plan_sizes cost_sizes_for(const struct cost_cluster *cluster)
{
    double seconds = cluster->latency_seconds + cluster->message_seconds;
    double link = seconds * cluster->link_Bps, thread = seconds * cluster->thread_Bps;
    double trip = thread > 0 ? fmin(link, thread) : link;

    return (struct plan_sizes){.chunk = chunk_of(trip),
                               .merge = bounded(4 * trip, 32 << 10, 256 << 10),
                               .window = 16 * chunk_of(link),
                               .latency = bounded(trip, 16 << 10, 128 << 10)};
}
