/* Cuts buckets into chunks, chooses the home of each chunk, and counts the bytes on the wire.
 *
 * Chunks are dealt greedily by bytes in a fixed order, so that every rank computes the same homes
 * without talking. A bucket's chunks go to different homes as far as there are some: buckets travel
 * one after another, and all would wait for a home with several chunks of one bucket. */
#include "plan/plan_internal.h"

#include "device/codec.h"
#include "plan/tree.h"
#include "util/error.h"
#include "plan/for_schemes.h"

#include <assert.h>
#include <stdlib.h>

/* ---- cutting ---- */

/* Returns the number of ranks that may be homes of the bucket's chunks, all rails counted; 1: no
 * sum, or one owner. */
static size_t homes_of(const struct plan *plan, const struct bucket *bucket)
{
    size_t rails = bucket->scheme && bucket->scheme->sliced ? (size_t)plan->rails : 1;

    if (bucket->scheme && bucket->scheme->home == HOME_SERVERS)
        return (size_t)plan->nservers * rails;
    if (bucket->scheme && bucket->scheme->home == HOME_WORKERS)
        return (size_t)plan->nworkers * rails;
    return 1;
}

/* Returns the elements of a home's part of a bucket of `elems`: an even share, but no less than
 * makes a message worth its latency. */
static size_t part_of(const struct plan *plan, const struct bucket *bucket, size_t elems)
{
    size_t homes = homes_of(plan, bucket), part;
    size_t dilate = plan->options.dilate > 1 ? (size_t)plan->options.dilate
                                             : 1; /* divisor that keeps the number of parts */
    size_t least = PLAN_LEAST_PART / dilate;
    size_t efficient = 2 * plan->options.sizes.latency / sizeof(float) / dilate;

    if (homes > PLAN_FEW_HOMES && efficient > least && elems / efficient < homes)
        homes = elems < efficient ? 1 : elems / efficient;
    part = (elems + homes - 1) / homes;
    return part < least ? least : part;
}

/* Returns the elements of a chunk out of `elems`, in steps of `unit`: at most sizes.chunk, and so
 * few that all homes get a part, unless parts would be too small to be worth a message. A part
 * larger than sizes.chunk is cut evenly: pieces of just that size would leave a few homes with one
 * more than the others, and a home keeps every worker's gradient of its chunks. */
static size_t piece_of(const struct plan *plan, const struct bucket *bucket, size_t elems,
                       size_t unit)
{
    size_t dilate = plan->options.dilate > 1 ? (size_t)plan->options.dilate : 1;
    size_t part = part_of(plan, bucket, elems),
           most = plan->options.sizes.chunk / sizeof(float) / dilate;

    if (part > most && most > 0 && homes_of(plan, bucket) > 1) {
        size_t pieces = (part + most - 1) / most, even = (part + pieces - 1) / pieces;
        even = (even + unit - 1) / unit * unit;
        most = even < most ? even : most;
    }
    most = (part < most ? part : most) / unit * unit;
    return most ? most : unit;
}

/* Adds the chunks of a range, or only counts them. unit: width of a codec's rows; 0: no rows. */
static void add_chunks(struct plan *plan, int bucket, size_t begin, size_t elems, size_t unit,
                       bool fill)
{
    size_t step = unit ? unit : 1, piece = piece_of(plan, &plan->buckets[bucket], elems, step);

    for (size_t at = 0; at < elems; at += piece) {
        size_t size = elems - at < piece ? elems - at : piece;
        if (fill)
            plan->chunks[plan->nchunks] = (struct chunk){.bucket = bucket,
                                                         .begin = begin + at,
                                                         .elems = size,
                                                         .rows = unit ? size / unit : 1};
        plan->nchunks++;
    }
}

/* Returns the number of low-rank pieces: that of the chunks of a bucket with the same elements. */
static int count_pieces(const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct low_rank low = plan_low_rank(plan, bucket);
    size_t least = low.elems[0] < low.elems[1] ? low.elems[0] : low.elems[1];
    size_t most = low.elems[0] + low.elems[1] - least, piece = piece_of(plan, b, most, 1);
    size_t pieces = (most + piece - 1) / piece;

    pieces = pieces < least ? pieces : least; /* no piece is empty */
    return pieces < (size_t)b->nchunks ? (int)pieces : b->nchunks;
}

/* Cuts a bucket; the part in units (rows of the weight) is cut apart from the rest (the bias). */
static void cut_bucket(struct plan *plan, int number, bool fill)
{
    struct bucket *bucket = &plan->buckets[number];
    size_t unit = bucket->scheme && bucket->scheme->unit ? bucket->scheme->unit(bucket) : 0;
    size_t weight = unit ? (size_t)(bucket->m * bucket->n) : 0;

    bucket->first_chunk = plan->nchunks;
    if (weight)
        add_chunks(plan, number, bucket->begin, weight, unit, fill);
    add_chunks(plan, number, bucket->begin + weight, bucket->elems - weight, 0, fill);
    bucket->nchunks = bucket->moved = plan->nchunks - bucket->first_chunk;
    if (bucket->rank > 0)
        bucket->moved = count_pieces(plan, number);
}

int plan_cut(struct plan *plan)
{
    size_t most = plan->options.sizes.chunk / sizeof(float), least = 0;

    for (int b = 0; b < plan->nbuckets; b++)
        least += plan->buckets[b].elems / most + 2;
    if (least > INT32_MAX / 8)
        return error_set(
            "chunks of %zu bytes cut the parameters into %zu pieces; choose a larger chunk",
            plan->options.sizes.chunk, least);
    for (int b = 0; b < plan->nbuckets; b++)
        cut_bucket(plan, b, false);
    if (PLAN_ROOM(plan, plan->chunks, plan->nchunks + 1))
        return -1;
    plan->nchunks = 0;
    for (int b = 0; b < plan->nbuckets; b++)
        cut_bucket(plan, b, true);
    return 0;
}

/* ---- dealing ---- */

/* Leaders in the order in which they get chunks: the least load first, then the lowest number. The
 * first `given` leaders hold a chunk of the bucket that is being dealt. */
struct dealer {
    int first, count, given;
    struct load {
        uint64_t load;
        int leader;
    } * order, *spare; /* arrays of `count` places, in the plan's memory */
};

static int open_dealer(struct plan *plan, struct dealer *dealer, int first, int count)
{
    *dealer = (struct dealer){.first = first, .count = count};
    if (PLAN_ROOM(plan, dealer->order, 2 * count))
        return -1;
    dealer->spare = dealer->order + count;
    for (int i = 0; i < count; i++)
        dealer->order[i].leader = first + i;
    return 0;
}

static int compare_loads(const void *left, const void *right)
{
    const struct load *a = left, *b = right;

    if (a->load != b->load)
        return a->load < b->load ? -1 : 1;
    return a->leader < b->leader ? -1 : a->leader > b->leader;
}

/* Sorts the `given` leaders back into the order, so that all leaders may get chunks again. */
static void restore_order(struct dealer *dealer)
{
    struct load *order = dealer->order;
    int given = dealer->given, rest = given, at = 0;

    qsort(order, (size_t)given, sizeof *order, compare_loads);
    for (int i = 0; i < given; i++)
        dealer->spare[i] = order[i];
    for (int i = 0; i < given;)
        if (rest < dealer->count && compare_loads(&order[rest], &dealer->spare[i]) < 0)
            order[at++] = order[rest++];
        else
            order[at++] = dealer->spare[i++];
    dealer->given = 0;
}

/* Adds `elems` to the leader with the least load, which gets nothing else until the order is
 * restored or every leader has got something. Returns the leader. */
static int assign_least_loaded(struct dealer *dealer, uint64_t elems)
{
    struct load *next;

    if (dealer->given == dealer->count)
        restore_order(dealer);
    next = &dealer->order[dealer->given++];
    assert(next->load + elems >= next->load);
    next->load += elems;
    return next->leader;
}

/* Orders buckets by the size of their chunks, the largest first; so all ranks deal alike. */
static int compare_buckets(const void *left, const void *right)
{
    const struct bucket *a = *(const struct bucket *const *)left,
                        *b = *(const struct bucket *const *)right;
    size_t chunk_a = a->elems / (size_t)a->nchunks, chunk_b = b->elems / (size_t)b->nchunks;

    if (chunk_a != chunk_b)
        return chunk_a < chunk_b ? 1 : -1;
    return a < b ? -1 : a > b;
}

/* Returns the server whose turn it is at the bucket's first parameter, among all parameters of the
 * net, trained or not. */
static int assign_in_turn(const struct plan *plan, const struct bucket *bucket,
                          const struct dealer *dealer)
{
    int turn = 0;

    for (int g = 0; g < bucket->first_group; g++)
        turn += plan->groups[g].nparams;
    return dealer->first + turn % dealer->count;
}

static void deal_bucket(struct plan *plan, const struct bucket *bucket, struct dealer *dealer)
{
    bool whole = bucket->scheme->home == HOME_OWNER;
    int owner = !whole                  ? -1
                : plan->options.in_turn ? assign_in_turn(plan, bucket, dealer)
                                        : assign_least_loaded(dealer, bucket->elems);

    for (int c = bucket->first_chunk; c < bucket->first_chunk + bucket->nchunks; c++)
        plan->chunks[c].home = whole ? owner : assign_least_loaded(dealer, plan->chunks[c].elems);
    restore_order(dealer);
}

int plan_deal(struct plan *plan)
{
    struct dealer workers = {0}, servers = {0};
    const struct bucket **order;
    int owned = 0, n = 0;

    if (PLAN_ROOM(plan, order, plan->nbuckets) || open_dealer(plan, &workers, 0, plan->nworkers) ||
        (plan->dedicated && open_dealer(plan, &servers, plan->nworkers, plan->nservers)))
        return -1;
    /* buckets with one owner go first, because they cannot be evened out later */
    for (int pass = 0; pass < 2; pass++) {
        for (int b = 0; b < plan->nbuckets; b++) {
            const struct scheme *scheme = plan->buckets[b].scheme;
            if (scheme && scheme->home != HOME_NOBODY && plan->buckets[b].nchunks > 0 &&
                (scheme->home == HOME_OWNER) == (pass == 0))
                order[n++] = &plan->buckets[b];
        }
        owned = pass == 0 ? n : owned;
    }
    qsort(order + owned, (size_t)(n - owned), sizeof *order, compare_buckets);
    for (int i = 0; i < n; i++)
        deal_bucket(plan, order[i],
                    plan->dedicated && order[i]->scheme->home != HOME_WORKERS ? &servers
                                                                              : &workers);
    return 0;
}

/* ---- shares ---- */

static int compare_shares(const void *left, const void *right)
{
    const struct home_share *a = left, *b = right;

    return a->home < b->home ? -1 : a->home > b->home;
}

/* True if the bucket may be added up along a tree. A codec would round every partial sum; workers
 * in different iterations would need memory for each. */
static bool allows_tree(const struct plan *plan, const struct bucket *bucket)
{
    bool allowed = bucket->scheme->trees && plan->nworkers > 1 && !plan->dedicated &&
                   !plan->options.lags && !plan->options.grains;

    for (int c = bucket->first_chunk; c < bucket->first_chunk + bucket->nchunks; c++)
        allowed = allowed && !plan_codec(plan, c);
    return allowed;
}

/* True if direct messages to and from the homes take longer than a tree's successive steps.
 * Directly, a home's link carries one message per worker, and each worker's link one per home.
 * Along trees each link carries about one per home, too, and every step waits for its latency and
 * its message. Leaders that are all homes load all links alike, so a tree gains nothing. */
static bool prefers_tree(const struct plan *plan, const struct bucket *bucket)
{
    double latency = (double)plan->options.sizes.latency, straight, tree, largest = 0;

    if (plan->options.tree_leaders > 0)
        return plan->nleaders >= plan->options.tree_leaders;
    if (plan->nleaders < PLAN_LOG_LEADERS)
        return false;
    for (int s = bucket->first_share; s < bucket->first_share + bucket->nshares; s++)
        if ((double)plan->shares[s].gradient_bytes > largest)
            largest = (double)plan->shares[s].gradient_bytes;
    straight = latency + (plan->nworkers - 1 + bucket->nshares) * largest;
    tree = tree_steps(plan->nworkers) * (latency + largest) + bucket->nshares * largest;
    return straight > 2 * tree; /* each step also waits for a rank to add and to send on */
}

static void share_bucket(struct plan *plan, struct bucket *bucket)
{
    struct home_share *shares = plan->shares + plan->nshares;
    int n = 0;

    for (int c = bucket->first_chunk; c < bucket->first_chunk + bucket->moved; c++)
        shares[n++] = (struct home_share){.home = plan->chunks[c].home,
                                          .chunks = 1,
                                          .elems = plan->chunks[c].elems,
                                          .gradient_bytes = plan_gradient_bytes(plan, c),
                                          .back_bytes = plan_back_bytes(plan, c)};
    qsort(shares, (size_t)n, sizeof *shares, compare_shares);
    bucket->first_share = plan->nshares;
    for (int i = 0; i < n; i++) {
        struct home_share *last = &shares[bucket->nshares - 1];
        bucket->gradient_bytes += shares[i].gradient_bytes;
        bucket->back_bytes += shares[i].back_bytes;
        if (bucket->nshares == 0 || last->home != shares[i].home) {
            shares[bucket->nshares++] = shares[i];
            continue;
        }
        last->chunks++;
        last->elems += shares[i].elems;
        last->gradient_bytes += shares[i].gradient_bytes;
        last->back_bytes += shares[i].back_bytes;
    }
    plan->nshares += bucket->nshares;
}

int plan_share_out(struct plan *plan)
{
    if (PLAN_ROOM(plan, plan->shares, plan->nchunks))
        return -1;
    for (int b = 0; b < plan->nbuckets; b++) {
        struct bucket *bucket = &plan->buckets[b];
        if (!bucket->scheme || bucket->scheme->home == HOME_NOBODY)
            continue;
        share_bucket(plan, bucket);
        bucket->log_steps = allows_tree(plan, bucket) && prefers_tree(plan, bucket);
    }
    return 0;
}

const struct home_share *plan_share(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    struct home_share key = {.home = leader};

    return bsearch(&key, plan->shares + b->first_share, (size_t)b->nshares, sizeof key,
                   compare_shares);
}

/* ---- traffic ---- */

int plan_first_sent(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];

    for (int c = 0; c < b->nchunks; c++)
        if (plan->chunks[b->first_chunk + c].home == leader)
            return (c + 1) % b->nchunks;
    return (int)((int64_t)leader * b->nchunks / plan->nworkers % b->nchunks);
}

const struct codec *plan_wire_codec(const struct plan *plan, int chunk)
{
    return plan_halves(plan, plan->chunks[chunk].bucket) ? &codec_bf16 : NULL;
}

const struct codec *plan_codec(const struct plan *plan, int chunk)
{
    const struct scheme *scheme = plan->buckets[plan->chunks[chunk].bucket].scheme;

    return scheme && scheme->codec ? scheme->codec(plan, chunk) : NULL;
}

/* Returns the bytes of a low-rank piece in both turns. */
static size_t piece_bytes(const struct plan *plan, int chunk)
{
    int bucket = plan->chunks[chunk].bucket;
    const struct bucket *b = &plan->buckets[bucket];
    struct low_rank low = plan_low_rank(plan, bucket);
    int piece = chunk - b->first_chunk;
    size_t elems = 0;

    for (int turn = 0; turn < 2 && piece < b->moved; turn++)
        elems +=
            plan_piece_begin(b, &low, turn, piece + 1) - plan_piece_begin(b, &low, turn, piece);
    return elems * sizeof(float);
}

size_t plan_gradient_bytes(const struct plan *plan, int chunk)
{
    const struct codec *codec = plan_codec(plan, chunk);
    const struct chunk *c = &plan->chunks[chunk];

    if (plan->buckets[c->bucket].rank > 0)
        return piece_bytes(plan, chunk);
    return codec ? codec->bytes(c->rows, c->elems / c->rows) : c->elems * sizeof(float);
}

size_t plan_back_bytes(const struct plan *plan, int chunk)
{
    const struct scheme *scheme = plan->buckets[plan->chunks[chunk].bucket].scheme;

    return scheme && scheme->codec_back ? plan_gradient_bytes(plan, chunk)
                                        : plan->chunks[chunk].elems * sizeof(float);
}

/* Returns the number of leaders whose gradients come to this leader on their way to `home`, and
 * whose answers go back through it. */
static uint64_t count_below(const struct plan *plan, int bucket, int leader, int home)
{
    int children[TREE_MOST_CHILDREN];

    if (plan->buckets[bucket].log_steps)
        return (uint64_t)tree_children(plan->nworkers, home, leader, children);
    return home == leader ? (uint64_t)(plan->nworkers - (leader < plan->nworkers)) : 0;
}

void plan_add_part(const struct plan *plan, int bucket, int leader, const struct home_share *part,
                   struct plan_load *load)
{
    const struct bucket *b = &plan->buckets[bucket];
    bool at_home = part->home == leader, worker = leader < plan->nworkers;
    bool encoded = b->gradient_bytes != b->elems * sizeof(float);
    uint64_t below = count_below(plan, bucket, leader, part->home), up = worker && !at_home;
    uint64_t floats = part->elems * sizeof(float);
    uint64_t sums = worker ? (uint64_t)plan_branches(plan, leader) : 0;
    uint64_t sums_below =
        b->log_steps || !below ? below : (uint64_t)plan->first_branch[plan->nworkers] - sums;

    load->traffic.sent += up * sums * part->gradient_bytes + below * part->back_bytes;
    load->traffic.received += up * part->back_bytes + sums_below * part->gradient_bytes;
    load->traffic.messages += (up + below) * (uint64_t)part->chunks * (b->rank > 0 ? 2 : 1);
    load->bytes += sums_below * part->gradient_bytes + (sums > 1 ? sums * floats : 0);
    if (at_home && plan->options.drop > 0)
        load->bytes += (uint64_t)(plan->options.drop + 1) * floats;
    if (at_home && encoded)
        load->bytes += (uint64_t)plan->nworkers * floats;
    if (worker && encoded)
        load->bytes += floats + part->gradient_bytes;
    if (worker && encoded && b->scheme->codec_back)
        load->bytes += part->back_bytes + (at_home ? floats : 0);
}

/* Returns the leader's load. Without a tree, all chunks of other homes count at once. */
static struct plan_load find_load(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    const struct home_share *share = plan_share(plan, bucket, leader);
    struct home_share others = {.home = -1,
                                .chunks = b->moved,
                                .elems = b->elems,
                                .gradient_bytes = b->gradient_bytes,
                                .back_bytes = b->back_bytes};
    struct plan_load load = {.bytes = 0};

    for (int s = 0; s < b->nshares && b->log_steps; s++)
        plan_add_part(plan, bucket, leader, &plan->shares[b->first_share + s], &load);
    if (b->log_steps)
        return load;
    if (share) {
        plan_add_part(plan, bucket, leader, share, &load);
        others.chunks -= share->chunks;
        others.elems -= share->elems;
        others.gradient_bytes -= share->gradient_bytes;
        others.back_bytes -= share->back_bytes;
    }
    plan_add_part(plan, bucket, leader, &others, &load);
    return load;
}

struct traffic plan_home_traffic(const struct plan *plan, int bucket, int leader)
{
    return find_load(plan, bucket, leader).traffic;
}

uint64_t plan_home_memory(const struct plan *plan, int bucket, int leader)
{
    return find_load(plan, bucket, leader).bytes;
}

uint64_t plan_times(uint64_t a, uint64_t b)
{
    uint64_t product;

    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

uint64_t plan_factor_elems(const struct plan *plan, int bucket, int leader)
{
    const struct bucket *b = &plan->buckets[bucket];
    uint64_t parts = (uint64_t)(leader < 0 ? plan->all_parts : plan->parts[leader]);
    uint64_t rows = plan_times((uint64_t)b->k, (uint64_t)plan->options.iter_size);

    return plan_times(plan_times(rows, parts), (uint64_t)(b->m + b->n));
}

uint64_t plan_factor_bytes(const struct plan *plan, int bucket, int leader)
{
    return plan_times(plan_factor_elems(plan, bucket, leader), plan_factor_size(plan, bucket));
}

struct traffic plan_traffic(const struct plan *plan, int bucket, int world_rank)
{
    const struct scheme *scheme = plan->buckets[bucket].scheme;

    if (!scheme)
        return (struct traffic){0};
    if (plan->rails > 1 && scheme->sliced)
        return plan_rail_traffic(plan, bucket, world_rank);
    if (!plan_leads_chunk(plan, plan->buckets[bucket].first_chunk, world_rank))
        return (struct traffic){0};
    return scheme->traffic(plan, bucket, plan->leader[world_rank]);
}

uint64_t plan_messages(const struct plan *plan, int world_rank)
{
    uint64_t messages = 0;

    for (int b = 0; b < plan->nbuckets; b++)
        messages += plan_traffic(plan, b, world_rank).messages;
    return messages;
}

uint64_t plan_memory(const struct plan *plan, int world_rank)
{
    uint64_t bytes = 0;

    for (int b = 0; b < plan->nbuckets; b++) {
        const struct scheme *scheme = plan->buckets[b].scheme;
        if (!scheme || !scheme->memory)
            continue;
        if (plan->rails > 1 && scheme->sliced)
            bytes += plan_rail_memory(plan, b, world_rank);
        else if (plan_leads_chunk(plan, plan->buckets[b].first_chunk, world_rank))
            bytes += scheme->memory(plan, b, plan->leader[world_rank]);
    }
    return bytes;
}
