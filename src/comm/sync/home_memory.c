/* Memory of chunks at their homes. */
#include "sync/home.h"

#include "sync/gradient.h"
#include "sync/home_tree.h"
#include "sync/sync_internal.h"
#include "plan/for_schemes.h"

#include <assert.h>

/* Makes a buffer for each gradient in every slot; for this rank's own gradient only if encoded. */
static int open_places(struct sync *sync, int chunk, struct home_sum *sum)
{
    const struct plan *plan = sync->plan;
    size_t places = (size_t)sum->depth * (size_t)plan->nworkers;
    size_t elems = chunk_of(sync, chunk)->elems, bytes = plan_gradient_bytes(plan, chunk);
    bool codec = plan_codec(plan, chunk) != NULL;
    static const char what[] = "a chunk's gradients";

    if (OWN(&sync->owner, sum->arrived, places, what) ||
        OWN(&sync->owner, sum->from, places, what) ||
        (codec && OWN(&sync->owner, sum->encoded, places, what)) ||
        gradient_tree_sum(sync, &sum->tree))
        return -1;
    tree_sum_begin(&sum->tree, elems, NULL);
    sum->missing = plan->nworkers;
    for (size_t i = 0; i < places; i++) {
        int worker = (int)(i % (size_t)plan->nworkers);
        bool own = sync->worker && worker == sync->rank;
        size_t all = elems * (size_t)plan_branches(plan, worker);
        if ((!own || codec) && !(sum->from[i] = gradient_alloc(sync, all, what)))
            return -1;
        if (!own && codec && !(sum->encoded[i] = owner_array(&sync->owner, bytes, 1, what)))
            return -1;
    }
    return 0;
}

static int open_values(struct sync *sync, int bucket, struct home_part *part)
{
    const struct chunk *c = chunk_of(sync, part->chunk);
    bool on_device = gradient_serves_on_device(sync);
    struct home_sum *sum = part->sum;

    sum->values = on_device ? gradient_served_values(sync, part->chunk) : sync->values + c->begin;
    if (sum->depth > 1 || sync_drops(sync)) {
        size_t elems = (size_t)sum->copies * c->elems;
        if (OWN(&sync->owner, sum->own_values, elems, "a parameter server's chunk"))
            return -1;
        sum->values = sum->own_values;
    }
    sync->service.chunks++;
    return history_open(sync, bucket_of(sync, bucket)->name, c->elems, on_device, &part->history);
}

static int open_sum(struct sync *sync, int bucket, const struct home *home, struct home_part *part)
{
    struct home_sum *sum;
    size_t elems = chunk_of(sync, part->chunk)->elems;

    if (OWN(&sync->owner, sum, 1, "a chunk's sum"))
        return -1;
    part->sum = sum;
    sum->iteration = sync->options.iteration;
    sum->depth = home->gathers && home->updates ? sync->buckets[bucket].depth : 1;
    sum->cleared = !sync_clips(sync);
    sum->copies = 1 + sync->plan->options.drop;
    if (OWN(&sync->owner, sum->sends, sum->copies, "a chunk's sum"))
        return -1;
    if (home->gathers && open_places(sync, part->chunk, sum))
        return -1;
    if (home->updates)
        return open_values(sync, bucket, part);
    if (!part->encoded)
        return 0;
    return OWN(&sync->owner, sum->residual, elems, "an encoded sum");
}

static int open_part(struct sync *sync, int bucket, const struct home *home, struct home_part *part)
{
    size_t bytes = plan_back_bytes(sync->plan, part->chunk);
    const struct bucket *b = bucket_of(sync, bucket);
    size_t elems = chunk_of(sync, part->chunk)->elems;

    part->back = sync->options.iteration;
    if (!home->updates &&
        (history_open(sync, b->name, elems, false, &part->history) ||
         (plan_codec(sync->plan, part->chunk) &&
          !(part->encoded = owner_array(&sync->owner, bytes, 1, "an encoded sum")))))
        return -1;
    if (b->log_steps && !(part->tree = home_tree_open(sync, part->chunk)))
        return -1;
    return is_home(sync, part->chunk) ? open_sum(sync, bucket, home, part) : 0;
}

int home_open(struct sync *sync, int bucket)
{
    struct home *home = sync->buckets[bucket].scheme_state;
    const struct bucket *b = bucket_of(sync, bucket);
    bool gathers = !b->scheme->factors, updates = sync->buckets[bucket].steps->serves;
    size_t elems = 0;
    float *total = NULL;

    assert(!b->log_steps || (gathers && sync->worker && sync->buckets[bucket].depth == 1));
    home->gathers = gathers && !b->log_steps;
    home->updates = updates;
    for (int c = b->first_chunk; c < b->first_chunk + b->nchunks; c++)
        elems += leads_chunk(sync, c) ? chunk_of(sync, c)->elems : 0;
    if (OWN(&sync->owner, home->parts, b->nchunks + 1, "a bucket's chunks") ||
        (!updates && OWN(&sync->owner, total, elems + 1, "a bucket's sum")))
        return -1;
    home->nparts = b->nchunks;
    for (int i = 0; i < home->nparts; i++) {
        struct home_part *part = &home->parts[i];
        part->chunk = b->first_chunk + i;
        part->leads = leads_chunk(sync, part->chunk);
        if (!part->leads)
            continue;
        part->total = total; /* one array for all: separate arrays would each take whole pages */
        total += total ? chunk_of(sync, part->chunk)->elems : 0;
        if (open_part(sync, bucket, home, part))
            return -1;
    }
    home->first = plan_first_sent(sync->plan, bucket, sync->rank);
    return 0;
}

uint64_t home_count_totals(const struct plan *plan, int bucket, int leader)
{
    uint64_t sum = plan->buckets[bucket].elems * sizeof(float);

    return leader < plan->nworkers ? plan_home_memory(plan, bucket, leader) + sum : 0;
}
