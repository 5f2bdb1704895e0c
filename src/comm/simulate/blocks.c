/* Turns the plan's leaders into endpoints and its shares into transfers. Each leader is an endpoint
 * while leaders are few; otherwise neighbouring nodes form a block. */
#include "simulate/simulate_internal.h"

#include <assert.h>
#include <math.h>

/* Most messages to homes, and slices of factors, in an iteration; above, several travel as one. */
#define MOST_MESSAGES 4e6
#define MOST_SLICES   5e5

/* ---- endpoints ---- */

static int endpoint_of(const struct simulation *s, int leader)
{
    int low = 0, high = s->nendpoints - 1;

    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (s->endpoints[middle].first <= leader)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

/* Counts the endpoints of `all` leaders, `each` a node: above `most`, blocks of whole nodes. */
static int count_endpoints(int all, int each, int most)
{
    int hosts = divide_up(all, each);

    return all <= most ? all : hosts < most ? hosts : most;
}

static void make_endpoints(struct simulation *s, int at, int first, int all, int each, int count)
{
    int hosts = divide_up(all, each);

    for (int i = 0; i < count; i++) {
        struct endpoint *a = &s->endpoints[at + i];
        int from = i, to = i + 1;
        *a = (struct endpoint){.hosts = 1, .worker = first == 0, .awaited = -1};
        if (count < all) { /* endpoints are blocks of whole nodes */
            int begin = (int)((long long)i * hosts / count);
            int end = (int)((long long)(i + 1) * hosts / count);
            a->hosts = end - begin;
            from = begin * each;
            to = end * each < all ? end * each : all;
        }
        a->first = first + from;
        a->members = to - from;
    }
}

/* Gives each endpoint the pace of its slowest worker. */
static void pace_endpoints(struct simulation *s)
{
    const struct plan_options *how = &s->plan->options;

    for (int r = 0; r < how->nranks - how->servers; r++) {
        struct endpoint *a = &s->endpoints[endpoint_of(s, s->plan->leader[r])];
        const struct simulate_pace alike = {1, 1};
        const struct simulate_pace *pace = s->options->paces ? &s->options->paces[r] : &alike;
        assert(pace->speed > 0 && pace->share > 0);
        a->slowness = fmax(a->slowness, 1 / pace->speed);
        a->stretch = fmax(a->stretch, pace->share / pace->speed);
    }
}

/* Assigns links: a leader uses its node's link, a block has a link of its own. */
static void join_links(struct simulation *s, bool folded)
{
    for (int i = 0; i < s->nendpoints; i++) {
        struct endpoint *a = &s->endpoints[i];
        a->link = folded ? i : s->plan->world_rank[a->first] / s->options->ranks_per_node;
        s->links[a->link].rate = s->cluster->link_Bps * a->hosts;
    }
}

/* Assigns leaf switches: a block that spans several leaves has their uplinks together. */
static int join_leaves(struct simulation *s)
{
    const struct simulate_options *o = s->options;
    int nodes = s->plan->options.nranks / o->ranks_per_node + 1;

    if (o->leaf_nodes <= 0)
        return 0;
    if (ROOM(s, s->leaves, nodes / o->leaf_nodes + 1))
        return -1;
    for (int i = 0; i < s->nendpoints; i++) {
        struct endpoint *a = &s->endpoints[i];
        int below = a->hosts > o->leaf_nodes ? a->hosts : o->leaf_nodes;
        a->leaf = s->plan->world_rank[a->first] / o->ranks_per_node / o->leaf_nodes;
        s->leaves[a->leaf].rate = below * s->cluster->link_Bps / o->oversubscription;
    }
    return 0;
}

static int open_queues(struct simulation *s)
{
    const struct simulate_options *o = s->options;
    const struct cost_cluster *c = s->cluster;
    double rate = c->thread_Bps > 0 && c->thread_Bps < c->link_Bps ? c->thread_Bps : c->link_Bps;
    size_t window = o->manner.fifo ? 0 : s->plan->options.sizes.window;

    if (s->plan->options.dilate > 1) /* messages are dilated, so the window is, too */
        window /= (size_t)s->plan->options.dilate;
    for (int i = 0; i < s->nendpoints; i++) {
        struct endpoint *a = &s->endpoints[i];
        /* one entry stands for a rank's messages to all ranks of a block */
        struct queue_options options = {.peers = s->nendpoints,
                                        .window = window * (size_t)s->endpoints[0].members,
                                        .bytes_per_second = o->bytes_per_second,
                                        .fifo = o->fifo || o->manner.fifo,
                                        .meter = o->meters ? &a->meter : NULL};

        a->meter = (struct link_meter){.rate = rate, .begin = INFINITY, .end = INFINITY};
        if (queue_open(&a->queue, &s->owner, &options, 0))
            return -1;
    }
    return 0;
}

static int open_endpoints(struct simulation *s)
{
    const struct plan *plan = s->plan;
    int most = s->options->most_endpoints > 0 ? s->options->most_endpoints : SIMULATE_ENDPOINTS;
    int each = plan->options.leaders_per_host > 1 ? plan->options.leaders_per_host : 1;
    int servers = plan->nleaders - plan->nworkers, nservers, links;
    bool folded;

    s->nworkers = count_endpoints(plan->nworkers, each, most);
    nservers = count_endpoints(servers, each, most);
    s->nendpoints = s->nworkers + nservers;
    folded = s->nendpoints < plan->nleaders;
    links = folded ? s->nendpoints : plan->options.nranks / s->options->ranks_per_node + 1;
    if (ROOM(s, s->endpoints, s->nendpoints) || ROOM(s, s->links, links) ||
        ROOM(s, s->progress, (size_t)s->nendpoints * (size_t)plan->nbuckets))
        return -1;
    make_endpoints(s, 0, 0, plan->nworkers, each, s->nworkers);
    make_endpoints(s, s->nworkers, plan->nworkers, servers, each, nservers);
    pace_endpoints(s);
    join_links(s, folded);
    return error_status(join_leaves(s) || open_queues(s));
}

/* ---- transfers ---- */

/* Returns the number of ranks that share a bucket's sums, as the cost model divides the work. */
static int sharing(const struct plan *plan, const struct bucket *bucket)
{
    return bucket->scheme->home == HOME_SERVERS   ? plan->nservers
           : bucket->scheme->home == HOME_WORKERS ? plan->nworkers
                                                  : 1;
}

static void add_share(struct simulation *s, const struct home_share *share, int bucket, double work,
                      bool new)
{
    struct transfer *u;

    if (new)
        s->transfers[s->ntransfers++] =
            (struct transfer){.bucket = bucket, .home = endpoint_of(s, share->home)};
    u = &s->transfers[s->ntransfers - 1];
    u->homes++;
    u->chunks += share->chunks;
    u->gradient_bytes += share->gradient_bytes;
    u->back_bytes += share->back_bytes;
    u->work_seconds += work;
}

/* Makes the transfers. Shares ascend by home, so the shares of an endpoint are neighbours. */
static void find_transfers(struct simulation *s)
{
    const struct plan *plan = s->plan;

    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        const struct home_share *shares = &plan->shares[bucket->first_share];
        double elems = 0, work = s->costs[b].sum_seconds - s->buckets[b].gather;
        s->buckets[b].transfer_first = s->ntransfers;
        for (int i = 0; i < bucket->nshares; i++)
            elems += (double)shares[i].elems;
        for (int i = 0; i < bucket->nshares; i++)
            add_share(
                s, &shares[i], b, work * sharing(plan, bucket) * (double)shares[i].elems / elems,
                i == 0 || endpoint_of(s, shares[i].home) != s->transfers[s->ntransfers - 1].home);
    }
    s->buckets[plan->nbuckets].transfer_first = s->ntransfers;
}

static int slices_of(const struct bucket *bucket)
{
    bool to_all = bucket->scheme && bucket->scheme->home == HOME_NOBODY;

    return to_all ? bucket->rounds * bucket->slices : 0;
}

static void cut_factors(struct simulation *s)
{
    double messages = 0, together;

    for (int b = 0; b < s->plan->nbuckets; b++)
        messages += (double)s->nworkers * s->nworkers * slices_of(&s->plan->buckets[b]);
    together = fmax(1, messages / MOST_SLICES);
    for (int b = 0; b < s->plan->nbuckets; b++)
        s->buckets[b].slices = (int)ceil(slices_of(&s->plan->buckets[b]) / together);
}

/* Cuts transfers into a slice per chunk of a home, or fewer to stay below MOST_MESSAGES. */
static int cut_transfers(struct simulation *s)
{
    double messages = 0, together;
    size_t came = 0;

    for (int u = 0; u < s->ntransfers; u++)
        messages += 2.0 * s->nworkers * divide_up(s->transfers[u].chunks, s->transfers[u].homes);
    together = fmax(1, messages / MOST_MESSAGES);
    for (int u = 0; u < s->ntransfers; u++) {
        struct transfer *transfer = &s->transfers[u];
        size_t rows = s->plan->buckets[transfer->bucket].log_steps ? (size_t)s->nworkers : 1;
        transfer->slices = (int)(divide_up(transfer->chunks, transfer->homes) / together);
        transfer->slices = transfer->slices > 1 ? transfer->slices : 1;
        transfer->first_came = (int)came;
        came += 2 * rows * (size_t)transfer->slices;
        s->buckets[transfer->bucket].needs += transfer->slices;
        s->nsums += transfer->slices;
    }
    return ROOM(s, s->came, came);
}

/* Orders the bucket's slices by first chunk. transfer_of: scratch, per endpoint its transfer of the
 * bucket. chunks: per transfer, the number of chunks met so far. */
static void order_bucket(struct simulation *s, int bucket, int *transfer_of, int *chunks)
{
    const struct bucket *b = &s->plan->buckets[bucket];
    int n = s->buckets[bucket].order_first;

    for (int u = s->buckets[bucket].transfer_first; u < s->buckets[bucket + 1].transfer_first; u++)
        transfer_of[s->transfers[u].home] = u;
    for (int c = b->first_chunk; b->nshares > 0 && c < b->first_chunk + b->moved; c++) {
        int u = transfer_of[endpoint_of(s, s->plan->chunks[c].home)];
        const struct transfer *transfer = &s->transfers[u];
        int64_t before = chunks[u]++;
        if (before * transfer->slices % transfer->chunks < transfer->slices)
            s->order[n++] =
                (struct order_entry){u, (int)(before * transfer->slices / transfer->chunks)};
    }
    s->buckets[bucket + 1].order_first = n;
}

static int order_transfers(struct simulation *s)
{
    int *transfer_of, *chunks;
    size_t order = 0;

    for (int u = 0; u < s->ntransfers; u++)
        order += (size_t)s->transfers[u].slices;
    if (ROOM(s, transfer_of, s->nendpoints + 1) || ROOM(s, chunks, s->ntransfers + 1) ||
        ROOM(s, s->order, order + 1))
        return -1;
    for (int b = 0; b < s->plan->nbuckets; b++)
        order_bucket(s, b, transfer_of, chunks);
    return 0;
}

/* ---- buckets ---- */

/* Returns the lowest layer of the bucket's groups, whose backward completes the gradient. */
static int layer_of(const struct layer_times *times, const struct bucket *bucket)
{
    int layer = times->nlayers;

    for (int g = bucket->first_group; g < bucket->first_group + bucket->ngroups; g++)
        layer = times->layer[g] < layer ? times->layer[g] : layer;
    return layer;
}

static int open_buckets(struct simulation *s)
{
    const struct plan *plan = s->plan;
    const struct layer_times *work = s->options->work;

    if (ROOM(s, s->costs, plan->nbuckets) || ROOM(s, s->buckets, plan->nbuckets + 1) ||
        ROOM(s, s->layer_first, work->nlayers) || ROOM(s, s->transfers, plan->nshares))
        return -1;
    cost_plan(s->cluster, plan, s->costs);
    for (int l = 0; l < work->nlayers; l++)
        s->layer_first[l] = -1;
    for (int b = 0; b < plan->nbuckets; b++) {
        const struct bucket *bucket = &plan->buckets[b];
        s->buckets[b].layer = bucket->trains ? layer_of(work, bucket) : -1;
        if (!bucket->trains)
            continue;
        s->buckets[b].gather = cost_node_seconds(s->cluster, plan, b);
        s->buckets[b].next = s->layer_first[s->buckets[b].layer];
        s->layer_first[s->buckets[b].layer] = b;
    }
    return 0;
}

/* Computes the bytes that a worker copies from its device to the host and back. A single worker
 * copies nothing unless manner.syncs_alone. */
static void find_copies(struct simulation *s)
{
    const struct plan *plan = s->plan;

    if (plan_is_alone(plan) && !s->options->manner.syncs_alone)
        return;
    for (int b = 0; b < plan->nbuckets; b++) {
        struct cost_side bytes = cost_device_bytes(plan, b);
        s->buckets[b].bytes_out = bytes.sent;
        s->buckets[b].bytes_in = bytes.received;
        s->all_out += bytes.sent;
        s->all_in += bytes.received;
    }
}

/* Sets the arrivals of buckets without home: factors of all workers, and the rank's own work. */
static void add_needs(struct simulation *s)
{
    for (int b = 0; b < s->plan->nbuckets; b++) {
        const struct scheme *scheme = s->plan->buckets[b].scheme;
        if (!scheme || (s->options->manner.ring && s->plan->nworkers > 1))
            s->buckets[b].needs = 1;
        else if (scheme->home == HOME_NOBODY)
            s->buckets[b].needs = 1 + s->nworkers * s->buckets[b].slices;
        assert(s->buckets[b].needs > 0);
    }
}

int blocks_open(struct simulation *s)
{
    if (open_endpoints(s) || open_buckets(s))
        return -1;
    find_transfers(s);
    cut_factors(s);
    if (cut_transfers(s) || order_transfers(s))
        return -1;
    add_needs(s);
    find_copies(s);
    return ring_open(s);
}
