/* Gradients and parameters on their way between device memory, host memory and messages. */
#include "sync/gradient_internal.h"

#include "device/vector.h"
#include "plan/for_schemes.h"

#include <assert.h>
#include <string.h>

/* ---- life ---- */

int gradient_open(struct sync *sync)
{
    const struct device *device = sync->model.device;
    struct gradient *g;

    if (OWN(&sync->owner, sync->gradient, 1, "gradients"))
        return -1;
    g = sync->gradient;
    if (!sync->worker)
        return 0;
    g->copies = device->i->copies;
    g->context = device->context;
    g->own_memory = device->i->own_memory;
    return direct_find(sync, &g->direct, g->way, sizeof g->way);
}

static bool has_slots(const struct sync *sync, int bucket)
{
    return sync->worker && sync->buckets[bucket].depth > 1;
}

/* Returns the number of sums of gradients that this worker sends for the bucket. */
static int count_branches(const struct sync *sync, int bucket)
{
    bool travels = sync->worker && sync->leads && bucket_of(sync, bucket)->scheme;

    return travels ? plan_branches(sync->plan, sync->leader) : 1;
}

const char *gradient_way(const struct sync *sync)
{
    return sync->gradient->way[0] ? sync->gradient->way : NULL;
}

bool gradient_is_direct(const struct sync *sync)
{
    return sync->gradient->direct;
}

bool gradient_on_host(const struct sync *sync)
{
    return !sync->gradient->own_memory;
}

bool gradient_serves_on_device(const struct sync *sync)
{
    /* a worker that may lag behind has values of its own */
    return sync->gradient->own_memory && sync->options.update_on_device &&
           sync->options.staleness == 0 && !sync_drops(sync);
}

const struct device *gradient_host_device(const struct sync *sync)
{
    assert(gradient_on_host(sync) || sync->model.host_device);
    return gradient_on_host(sync) ? sync->model.device : sync->model.host_device;
}

float *gradient_alloc(struct sync *sync, size_t elems, const char *what)
{
    return device_own_host(sync->gradient->copies ? sync->model.device : NULL, &sync->owner,
                           elems * sizeof(float), what);
}

float *gradient_alloc_on(struct sync *sync, const struct device *device, size_t elems,
                         const char *what)
{
    return device_own(device, &sync->owner, elems * sizeof(float), what);
}

static void destroy_ticket(void *context, void *ticket)
{
    const struct device *device = context;

    device->i->copies->ticket_destroy(device->context, ticket);
}

int gradient_ticket(struct sync *sync, struct device_ticket **out)
{
    const struct device *device = sync->model.device;

    return error_status(device->i->copies->ticket_create(device->context, out) ||
                        owner_take(&sync->owner, destroy_ticket, (void *)(uintptr_t)device, *out));
}

static void close_tree_sum(void *context, void *tree)
{
    (void)context;
    tree_sum_close(tree);
}

int gradient_tree_sum(struct sync *sync, struct tree_sum *out)
{
    return error_status(tree_sum_open(out, sync->plan->leaves, NULL, NULL) ||
                        owner_take(&sync->owner, close_tree_sum, NULL, out));
}

/* ---- forms ---- */

/* True if messages to and from the chunk's home use device memory without the host's. Own chunks
 * have no messages; sums along a tree and low-rank factors are made on the host. */
bool gradient_goes_straight(const struct sync *sync, int chunk)
{
    int bucket = chunk_of(sync, chunk)->bucket;

    return sync->gradient->direct && sync->buckets[bucket].depth == 1 &&
           !bucket_of(sync, bucket)->log_steps && bucket_of(sync, bucket)->rank == 0 &&
           !is_home(sync, chunk);
}

/* True if the host does not use the gradient itself. */
static bool gradient_stays(const struct sync *sync, int chunk)
{
    return gradient_goes_straight(sync, chunk) ||
           (sync->gradient->own_memory && encode_wanted(sync, chunk));
}

/* True if the answers are parameters that arrive in device memory. */
static bool values_straight(const struct sync *sync, int chunk)
{
    const struct scheme *scheme = bucket_of(sync, chunk_of(sync, chunk)->bucket)->scheme;

    return gradient_goes_straight(sync, chunk) && !scheme->codec_back;
}

/* True if the new parameters are in device memory when the bucket's messages are over. */
static bool values_there(const struct sync *sync, int chunk)
{
    return values_straight(sync, chunk) ||
           (gradient_serves_on_device(sync) && is_home(sync, chunk) &&
            !bucket_of(sync, chunk_of(sync, chunk)->bucket)->scheme->codec_back);
}

static float *slot_of(const struct sync *sync, float *slots, int bucket, int64_t iteration)
{
    size_t slot = (size_t)(iteration % sync->buckets[bucket].depth);

    assert(slots && iteration >= 0);
    return slots + slot * bucket_of(sync, bucket)->elems;
}

/* Copies chunks [begin, end) of the bucket unless `left_out`; neighbouring chunks share one copy.
 * host, memory: begin of the bucket in the host's and the device's arena. */
static int copy_others(struct sync *sync, int bucket, int begin, int end,
                       bool (*left_out)(const struct sync *sync, int chunk), float *host,
                       float *memory, enum device_direction direction, enum device_turn turn,
                       struct device_ticket *ticket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct gradient *g = sync->gradient;

    end += b->first_chunk;
    for (int c = b->first_chunk + begin; c < end;) {
        size_t at = chunk_of(sync, c)->begin - b->begin;
        struct device_rows rows = {.host = host + at, .memory = memory + at, .rows = 1};
        bool skip = left_out(sync, c);

        for (; c < end && left_out(sync, c) == skip; c++)
            rows.width += chunk_of(sync, c)->elems;
        if (!skip && g->copies->copy(g->context, direction, &rows, turn, ticket))
            return -1;
    }
    return 0;
}

/* Fetches the pieces of a bucket in the order of sending. host, memory: as in copy_others. */
static int fetch_pieces(struct sync *sync, int bucket, float *host, float *memory,
                        enum device_turn turn)
{
    const struct bucket_copies *copies = &sync->gradient->buckets[bucket];
    int n = bucket_of(sync, bucket)->nchunks,
        first = plan_first_sent(sync->plan, bucket, sync->rank);

    for (int piece = 0; piece < sync->buckets[bucket].pieces; piece++) {
        int begin, end, inside;
        bucket_piece(sync, bucket, piece, &begin, &end);
        begin += first;
        end += first;
        inside = begin < n ? (end < n ? end : n) : n; /* numbers from n on wrap around */
        if ((begin < n && copy_others(sync, bucket, begin, inside, gradient_stays, host, memory,
                                      DEVICE_FETCH, turn, copies->pieces[piece])) ||
            (end > n &&
             copy_others(sync, bucket, begin < n ? 0 : begin - n, end - n, gradient_stays, host,
                         memory, DEVICE_FETCH, turn, copies->pieces[piece])))
            return -1;
    }
    return 0;
}

/* ---- the way out ---- */

static float *branches_of(const struct sync *sync, int chunk)
{
    const struct chunk *c = chunk_of(sync, chunk);
    size_t before = c->begin - bucket_of(sync, c->bucket)->begin;

    return sync->gradient->buckets[c->bucket].branches +
           before * (size_t)count_branches(sync, c->bucket);
}

/* Copies all sums of a chunk side by side, as the chunk's message needs them. */
static void join_branches(const struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    int last = count_branches(sync, bucket) - 1;

    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++) {
        const struct chunk *chunk = chunk_of(sync, c);
        float *to = branches_of(sync, c);
        for (int i = 0; i <= last; i++, to += chunk->elems)
            memcpy(to, (i < last ? sync->model.branches[i] : sync->model.grads) + chunk->begin,
                   chunk->elems * sizeof *to);
    }
}

int gradient_depart(struct sync *sync, int bucket, enum device_turn turn)
{
    const struct device_rows none = {.rows = 0};
    const struct bucket *b = bucket_of(sync, bucket);
    struct sync_bucket *state = &sync->buckets[bucket];
    struct gradient *g = sync->gradient;
    struct bucket_copies *copies = &g->buckets[bucket];
    struct device_ticket *ticket = copies->down;
    float *host = sync->model.grads + b->begin;

    if (state->steps->local || b->scheme == NULL || b->scheme->factors)
        return 0;
    if (copies->branches)
        join_branches(sync, bucket);
    if (has_slots(sync, bucket)) {
        host = slot_of(sync, copies->gradients, bucket, state->posted);
        ticket = copies->fetches[state->posted % state->depth];
    } else if (!g->own_memory) {
        return 0;
    }
    /* marks the end of the computation, even if nothing is fetched */
    if (g->direct &&
        g->copies->copy(g->context, turn == DEVICE_STORED ? DEVICE_FETCH : DEVICE_WITHIN, &none,
                        turn, ticket))
        return -1;
    if (encode_on_device(sync, bucket, turn, ticket))
        return -1;
    return state->pieces > 1
               ? fetch_pieces(sync, bucket, host, sync->model.device_grads + b->begin, turn)
               : copy_others(sync, bucket, 0, b->nchunks, gradient_stays, host,
                             sync->model.device_grads + b->begin, DEVICE_FETCH, turn, ticket);
}

int gradient_arrived(struct sync *sync, int bucket)
{
    const struct sync_bucket *state = &sync->buckets[bucket];
    struct gradient *g = sync->gradient;
    struct bucket_copies *copies = &g->buckets[bucket];

    return g->copies->ready(g->context, has_slots(sync, bucket)
                                            ? copies->fetches[state->started % state->depth]
                                        : state->pieces > 1 ? copies->pieces[state->there]
                                                            : copies->down);
}

void *gradient_message(struct sync *sync, int chunk, int64_t iteration)
{
    const struct chunk *c = chunk_of(sync, chunk);
    struct gradient *g = sync->gradient;

    if (has_slots(sync, c->bucket))
        return slot_of(sync, g->buckets[c->bucket].gradients, c->bucket, iteration) +
               (c->begin - bucket_of(sync, c->bucket)->begin);
    if (encode_wanted(sync, chunk))
        return encode_message(sync, chunk);
    if (g->buckets[c->bucket].branches)
        return branches_of(sync, chunk);
    return (gradient_goes_straight(sync, chunk) ? sync->model.device_grads : sync->model.grads) +
           c->begin;
}

int gradient_sumsq(const struct sync *sync, bool on_device, const float *x, size_t elems,
                   float scale, double *out)
{
    const struct device *device = sync->model.device;

    if (on_device && device->i->services->sumsq)
        return device->i->services->sumsq(device->context, x, scale, elems, out);
    *out = vector_sumsq(x, elems, scale);
    return 0;
}

/* ---- the way back ---- */

float *gradient_values(struct sync *sync, int chunk, int64_t iteration)
{
    const struct chunk *c = chunk_of(sync, chunk);

    if (has_slots(sync, c->bucket))
        return slot_of(sync, sync->gradient->buckets[c->bucket].values, c->bucket, iteration) +
               (c->begin - bucket_of(sync, c->bucket)->begin);
    return (values_straight(sync, chunk) ? sync->model.device_values : sync->values) + c->begin;
}

const float *gradient_newest(struct sync *sync, int chunk)
{
    int bucket = chunk_of(sync, chunk)->bucket;
    int64_t complete = sync->buckets[bucket].complete;

    return has_slots(sync, bucket) && complete > sync->options.iteration
               ? gradient_values(sync, chunk, complete - 1)
               : NULL;
}

/* True if parameters are stored chunk by chunk, as they arrive. */
static bool stores_chunks(const struct sync *sync, int bucket)
{
    const struct sync_bucket *state = &sync->buckets[bucket];

    return state->pieces > 1 && !state->steps->settle && !sync_drops(sync);
}

int gradient_store_chunk(struct sync *sync, int chunk)
{
    const struct chunk *c = chunk_of(sync, chunk);
    const struct gradient *g = sync->gradient;
    const struct device_rows rows = {.host = sync->model.values + c->begin,
                                     .memory = sync->model.device_values + c->begin,
                                     .width = c->elems,
                                     .rows = 1};

    return stores_chunks(sync, c->bucket) && !values_there(sync, chunk)
               ? g->copies->copy(g->context, DEVICE_STORE, &rows, DEVICE_STORED,
                                 g->buckets[c->bucket].up)
               : 0;
}

int gradient_store(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    const struct scheme_steps *steps = sync->buckets[bucket].steps;
    struct gradient *g = sync->gradient;

    if (!g->own_memory || steps->stays || steps->local || stores_chunks(sync, bucket))
        return 0;
    return copy_others(sync, bucket, 0, b->nchunks, values_there, sync->model.values + b->begin,
                       sync->model.device_values + b->begin, DEVICE_STORE, DEVICE_STORED,
                       g->buckets[bucket].up);
}

int gradient_order(struct sync *sync, int bucket)
{
    struct gradient *g = sync->gradient;

    if (sync->buckets[bucket].steps->local)
        return 0;
    return g->copies->order(g->context, g->buckets[bucket].up);
}

int gradient_order_staged(struct sync *sync, int bucket)
{
    struct gradient *g = sync->gradient;

    return g->copies->order(g->context, g->buckets[bucket].down);
}

int gradient_note_stored(struct sync *sync, int bucket)
{
    const struct device_rows none = {.rows = 0};
    struct gradient *g = sync->gradient;

    return g->copies->copy(g->context, DEVICE_FETCH, &none, DEVICE_STORED, g->buckets[bucket].up);
}

/* The copy ends before the slot is filled again: the slot's next parameters, of iteration newest -
 * 1 + depth, come after this rank's gradient of that iteration, which the device computes after the
 * copy. */
int64_t gradient_take(struct sync *sync, int bucket)
{
    const struct bucket *b = bucket_of(sync, bucket);
    struct sync_bucket *state = &sync->buckets[bucket];
    struct gradient *g = sync->gradient;
    struct bucket_copies *copies = &g->buckets[bucket];
    int64_t newest = atomic_load_explicit(&state->done, memory_order_acquire);
    struct device_rows rows = {
        .memory = sync->model.device_values + b->begin, .width = b->elems, .rows = 1};

    assert(state->posted > 0); /* before the first post there is no fetch */
    /* the next gradient overwrites the memory that this fetch reads */
    if (g->copies->order(g->context, copies->fetches[(state->posted - 1) % state->depth]))
        return -1;
    if (newest <= state->applied)
        return newest;
    rows.host = slot_of(sync, copies->values, bucket, newest - 1);
    if (g->copies->copy(g->context, DEVICE_STORE, &rows, DEVICE_IN_TURN, copies->up) ||
        g->copies->order(g->context, copies->up))
        return -1;
    return newest;
}

/* ---- buckets ---- */

/* Returns the number of pieces in which the bucket's gradient reaches the host, each with a ticket:
 * messages of the first pieces leave while the others are copied. */
static int count_pieces(const struct sync *sync, int bucket)
{
    enum { MOST = 8 };
    const struct bucket *b = bucket_of(sync, bucket);
    const struct sync_bucket *state = &sync->buckets[bucket];
    const struct gradient *g = sync->gradient;

    if (!g->own_memory || g->direct || state->depth > 1 || !state->steps || !state->steps->go_on)
        return 1;
    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        if (gradient_stays(sync, c))
            return 1;
    return b->nchunks < MOST ? b->nchunks : MOST;
}

static int open_bucket(struct sync *sync, int bucket)
{
    static const char what[] = "the copies that staleness needs";
    struct bucket_copies *copies = &sync->gradient->buckets[bucket];
    size_t depth = (size_t)sync->buckets[bucket].depth;
    size_t elems = depth * bucket_of(sync, bucket)->elems;

    if (gradient_ticket(sync, &copies->down) || gradient_ticket(sync, &copies->up))
        return -1;
    sync->buckets[bucket].pieces = count_pieces(sync, bucket);
    if (OWN(&sync->owner, copies->pieces, sync->buckets[bucket].pieces, "gradients"))
        return -1;
    for (int i = 0; i < sync->buckets[bucket].pieces && sync->buckets[bucket].pieces > 1; i++)
        if (gradient_ticket(sync, &copies->pieces[i]))
            return -1;
    if (count_branches(sync, bucket) > 1 &&
        OWN(&sync->owner, copies->branches,
            (size_t)count_branches(sync, bucket) * bucket_of(sync, bucket)->elems,
            "a worker's gradients"))
        return -1;
    if (!has_slots(sync, bucket))
        return 0;
    if (OWN(&sync->owner, copies->fetches, depth, what))
        return -1;
    for (size_t i = 0; i < depth; i++)
        if (gradient_ticket(sync, &copies->fetches[i]))
            return -1;
    copies->gradients = gradient_alloc(sync, elems, what);
    copies->values = copies->gradients ? gradient_alloc(sync, elems, what) : NULL;
    return copies->values ? 0 : -1;
}

int gradient_place(struct sync *sync)
{
    size_t buckets = (size_t)sync->plan->nbuckets + 1;
    struct gradient *g = sync->gradient;

    if (OWN(&sync->owner, g->buckets, buckets, "gradients"))
        return -1;
    for (int b = 0; b < sync->plan->nbuckets && sync->worker; b++)
        if (open_bucket(sync, b))
            return -1;
    return error_status(encode_open(sync) || serve_open(sync));
}
