/* Memory of chunks at their homes. */
#include "sync/home.h"

#include "sync/gradient.h"
#include "sync/home_tree.h"
#include "sync/sync_internal.h"

#include <stdlib.h>

/* A place for every worker's gradient in every slot. This rank's own is where it lies, but for what
 * travels encoded. */
static int open_places(struct sync *sync, int chunk, struct home_sum *sum)
{
    const struct plan *plan = sync->plan;
    size_t places = (size_t)sum->depth * (size_t)plan->nworkers;
    size_t elems = chunk_of(sync, chunk)->elems, bytes = plan_gradient_bytes(plan, chunk);
    bool codec = plan_codec(plan, chunk) != NULL;
    static const char what[] = "a chunk's gradients";

    if (ALLOC(sum->arrived, places, what) || ALLOC(sum->from, places, what) ||
        (codec && ALLOC(sum->encoded, places, what)) || ALLOC(sum->own, sum->depth, what) ||
        tree_sum_open(&sum->tree, plan->nworkers, NULL, NULL))
        return -1;
    tree_sum_begin(&sum->tree, elems, NULL);
    sum->missing = plan->nworkers;
    for (size_t i = 0; i < places; i++) {
        bool own = sync->worker && (int)(i % (size_t)plan->nworkers) == sync->rank;
        if ((!own || codec) && !(sum->from[i] = gradient_alloc(sync, elems, what)))
            return -1;
        if (!own && codec && !(sum->encoded[i] = alloc_array(bytes, 1, what)))
            return -1;
    }
    return 0;
}

static int open_values(struct sync *sync, int bucket, struct home_part *part)
{
    const struct chunk *c = chunk_of(sync, part->chunk);
    bool on_engine = gradient_serves_on_engine(sync);
    struct home_sum *sum = part->sum;

    sum->values = on_engine ? gradient_served_values(sync, part->chunk) : sync->values + c->begin;
    if (sum->depth > 1 || sync_drops(sync)) {
        size_t elems = (size_t)sum->copies * c->elems;
        if (ALLOC(sum->own_values, elems, "a parameter server's chunk"))
            return -1;
        sum->values = sum->own_values;
    }
    sync->service.chunks++;
    return history_open(sync, bucket_of(sync, bucket)->name, c->elems, on_engine, &part->history);
}

static int open_sum(struct sync *sync, int bucket, const struct home *home, struct home_part *part)
{
    struct home_sum *sum = part->sum = calloc(1, sizeof *sum);
    size_t elems = chunk_of(sync, part->chunk)->elems;

    if (!sum)
        return error_memory(sizeof *sum, "a chunk's sum");
    sum->iteration = sync->options.iteration;
    sum->depth = home->gathers && home->updates ? sync->buckets[bucket].depth : 1;
    sum->cleared = !sync_clips(sync);
    sum->copies = 1 + sync->plan->options.drop;
    if (ALLOC(sum->sends, sum->copies, "a chunk's sum"))
        return -1;
    if (home->gathers && open_places(sync, part->chunk, sum))
        return -1;
    if (home->updates)
        return open_values(sync, bucket, part);
    if (!part->encoded)
        return 0;
    return ALLOC(sum->residual, elems, "an encoded sum");
}

static int open_part(struct sync *sync, int bucket, const struct home *home, struct home_part *part)
{
    size_t bytes = plan_back_bytes(sync->plan, part->chunk);

    part->back = sync->options.iteration;
    if (!home->updates && plan_codec(sync->plan, part->chunk) &&
        !(part->encoded = alloc_array(bytes, 1, "an encoded sum")))
        return -1;
    if (bucket_of(sync, bucket)->log_steps && !(part->tree = home_tree_open(sync, part->chunk)))
        return -1;
    return is_home(sync, part->chunk) ? open_sum(sync, bucket, home, part) : 0;
}

int home_open(struct sync *sync, int bucket, bool gathers, bool updates)
{
    struct home *home = sync->buckets[bucket].scheme_state;
    const struct bucket *b = bucket_of(sync, bucket);
    size_t elems = 0;

    assert(!b->log_steps || (gathers && sync->worker && sync->buckets[bucket].depth == 1));
    home->gathers = gathers && !b->log_steps;
    home->updates = updates;
    if (ALLOC(home->parts, b->nchunks + 1, "a bucket's chunks"))
        return -1;
    home->nparts = b->nchunks;
    for (int i = 0; i < home->nparts; i++) {
        struct home_part *part = &home->parts[i];
        part->chunk = b->first_chunk + i;
        part->leads = leads_chunk(sync, part->chunk);
        elems += part->leads ? chunk_of(sync, part->chunk)->elems : 0;
        if (part->leads && open_part(sync, bucket, home, part))
            return -1;
    }
    home->first = plan_first_sent(sync->plan, bucket, sync->rank);
    if (updates)
        return 0;
    if (ALLOC(home->totals, elems + 1, "a bucket's sum"))
        return -1;
    elems = 0;
    for (int i = 0; i < home->nparts; i++) {
        struct home_part *part = &home->parts[i];
        size_t each = chunk_of(sync, part->chunk)->elems;
        if (!part->leads)
            continue;
        part->total = home->totals + elems;
        if (history_open(sync, b->name, each, false, &part->history))
            return -1;
        elems += each;
    }
    return 0;
}

static void close_sum(struct sync *sync, struct home_sum *sum)
{
    size_t places = (size_t)sum->depth * (size_t)sync->plan->nworkers;

    for (size_t i = 0; sum->from && i < places; i++)
        gradient_free(sync, sum->from[i]);
    for (size_t i = 0; sum->encoded && i < places; i++)
        free(sum->encoded[i]);
    free(sum->from);
    free(sum->encoded);
    free(sum->own);
    free(sum->sends);
    free(sum->arrived);
    tree_sum_close(&sum->tree);
    free(sum->own_values);
    free(sum->residual);
    free(sum);
}

void home_close(struct sync *sync, int bucket)
{
    struct home *home = sync->buckets[bucket].scheme_state;

    for (int i = 0; i < home->nparts; i++) {
        if (home->parts[i].sum)
            close_sum(sync, home->parts[i].sum);
        home_tree_close(sync, home->parts[i].tree);
        free(home->parts[i].encoded);
        history_close(sync, &home->parts[i].history);
    }
    free(home->parts);
    free(home->totals);
}

uint64_t home_count_totals(const struct plan *plan, int bucket, int leader)
{
    uint64_t sum = plan->buckets[bucket].elems * sizeof(float);

    return leader < plan->nworkers ? plan_home_memory(plan, bucket, leader) + sum : 0;
}
