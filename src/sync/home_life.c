/* Memory of chunks at their homes. */
#include "sync/home.h"

#include "sync/gradient.h"
#include "sync/home_tree.h"
#include "sync/sync_internal.h"

#include <stdlib.h>
#include <string.h>

/* A place for every worker's gradient in every slot. This rank's own is where it lies, but for what
 * travels encoded. */
static int open_places(struct sync *sync, int chunk, struct home_sum *sum)
{
    const struct plan *plan = sync->plan;
    size_t places = (size_t)sum->depth * (size_t)plan->nworkers;
    size_t elems = chunk_of(sync, chunk)->elems, bytes = plan_gradient_bytes(plan, chunk);
    bool codec = plan_codec(plan, chunk) != NULL;

    sum->arrived = calloc(places, 1);
    sum->from = calloc(places, sizeof *sum->from);
    sum->encoded = codec ? calloc(places, sizeof *sum->encoded) : NULL;
    sum->own = calloc((size_t)sum->depth, sizeof *sum->own);
    if (!sum->arrived || !sum->from || (codec && !sum->encoded) || !sum->own)
        return error_memory(places * sizeof *sum->from, "a chunk's sum");
    if (tree_sum_open(&sum->tree, plan->nworkers, NULL, NULL))
        return -1;
    tree_sum_begin(&sum->tree, elems, NULL);
    for (size_t i = 0; i < places; i++) {
        bool own = sync->worker && (int)(i % (size_t)plan->nworkers) == sync->rank;
        if ((!own || codec) && !(sum->from[i] = gradient_alloc(sync, elems, "a chunk's gradients")))
            return -1;
        if (!own && codec && !(sum->encoded[i] = malloc(bytes)))
            return error_memory(bytes, "a chunk's encoded gradients");
    }
    return 0;
}

static int open_values(struct sync *sync, int bucket, int chunk, struct home_sum *sum)
{
    const struct chunk *c = chunk_of(sync, chunk);
    bool on_engine = gradient_serves_on_engine(sync);

    sum->values = on_engine ? gradient_served_values(sync, chunk) : sync->values + c->begin;
    if (sum->depth > 1) {
        sum->values = sum->own_values = malloc(c->elems * sizeof *sum->values);
        if (!sum->values)
            return error_memory(c->elems * sizeof *sum->values, "a parameter server's chunk");
    }
    sync->served_chunks++;
    return history_open(sync, bucket_of(sync, bucket)->name, c->elems, on_engine, &sum->history);
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
    if (home->gathers && open_places(sync, part->chunk, sum))
        return -1;
    if (home->updates)
        return open_values(sync, bucket, part->chunk, sum);
    if (!part->encoded)
        return 0;
    sum->residual = calloc(elems, sizeof *sum->residual);
    return sum->residual ? 0 : error_memory(elems * sizeof *sum->residual, "an encoded sum");
}

int home_open(struct sync *sync, int bucket, bool gathers, bool updates, struct home *home)
{
    const struct plan *plan = sync->plan;
    const struct bucket *b = bucket_of(sync, bucket);

    assert(!b->log_steps || (gathers && sync->worker && sync->buckets[bucket].depth == 1));
    home->gathers = gathers && !b->log_steps;
    home->updates = updates;
    home->parts = calloc((size_t)b->nchunks + 1, sizeof *home->parts);
    if (!home->parts)
        return error_memory((size_t)b->nchunks * sizeof *home->parts, "a bucket's chunks");
    home->nparts = b->nchunks;
    for (int i = 0; i < home->nparts; i++) {
        struct home_part *part = &home->parts[i];
        part->chunk = b->first_chunk + i;
        part->back = sync->options.iteration;
        if (!updates && plan_codec(plan, part->chunk) &&
            !(part->encoded = malloc(plan_back_bytes(plan, part->chunk))))
            return error_memory(plan_back_bytes(plan, part->chunk), "an encoded sum");
        if (b->log_steps && !(part->tree = home_tree_open(sync, part->chunk)))
            return -1;
        if (plan_home(plan, part->chunk) == sync->rank && open_sum(sync, bucket, home, part))
            return -1;
    }
    if (updates)
        return 0;
    home->total = calloc(b->elems, sizeof *home->total);
    if (!home->total)
        return error_memory(b->elems * sizeof *home->total, "a bucket's sum");
    return history_open(sync, b->name, b->elems, false, &home->history);
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
    free(sum->arrived);
    tree_sum_close(&sum->tree);
    free(sum->own_values);
    free(sum->residual);
    history_close(sync, &sum->history);
    free(sum);
}

void home_close(struct sync *sync, struct home *home)
{
    for (int i = 0; i < home->nparts; i++) {
        if (home->parts[i].sum)
            close_sum(sync, home->parts[i].sum);
        home_tree_close(sync, home->parts[i].tree);
        free(home->parts[i].encoded);
    }
    free(home->parts);
    free(home->total);
    history_close(sync, &home->history);
}
