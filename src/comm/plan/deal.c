/* Shares of a batch by speed. Each grain goes to the worker that would end it first. A worker ends
 * its grains at rising times, so the first k grains dealt are the k that end earliest of all
 * possible; any other deal of k grains has one that ends at that time or later. */
#include "plan/deal.h"

#include <assert.h>
#include <stdlib.h>

#include "util/alloc.h"

/* Heap of the workers that have room; the next to take a grain is on top. */
struct queue {
    const struct deal_worker *workers;
    const int *share;
    int64_t grain;
    int *item, count;
};

static bool comes_before(const struct queue *queue, int a, int b)
{
    double end_a = deal_seconds(&queue->workers[a], queue->share[a] + queue->grain),
           end_b = deal_seconds(&queue->workers[b], queue->share[b] + queue->grain);

    return end_a != end_b ? end_a < end_b : a < b;
}

/* Restores the heap: the worker at `place` sinks below all workers that come before it. */
static void sift_down(struct queue *queue, int place)
{
    int *item = queue->item, moved = item[place], child;

    for (; (child = 2 * place + 1) < queue->count; place = child) {
        if (child + 1 < queue->count && comes_before(queue, item[child + 1], item[child]))
            child++;
        if (!comes_before(queue, item[child], moved))
            break;
        item[place] = item[child];
    }
    item[place] = moved;
}

static bool has_room(const struct queue *queue, int worker)
{
    return queue->workers[worker].most - queue->share[worker] >= queue->grain;
}

/* Deals the grains that are left after every worker's first. */
static void deal_rest(struct queue *queue, int n, int64_t grains, int *share)
{
    for (int i = 0; i < n; i++)
        if (has_room(queue, i))
            queue->item[queue->count++] = i;
    for (int place = queue->count / 2 - 1; place >= 0; place--)
        sift_down(queue, place);
    for (; grains > 0; grains--) {
        assert(queue->count > 0);
        share[queue->item[0]] += (int)queue->grain;
        if (!has_room(queue, queue->item[0]))
            queue->item[0] = queue->item[--queue->count];
        if (queue->count > 0)
            sift_down(queue, 0);
    }
}

int deal_samples(const struct deal_worker *workers, int n, int64_t samples, int64_t grain,
                 int *share)
{
    struct queue queue = {.workers = workers, .share = share, .grain = grain};
    int64_t grains = samples / grain, room = 0;

    assert(n > 0 && samples > 0 && grain > 0);
    if (samples % grain != 0)
        return error_set("a batch of %lld samples is not a multiple of the grain of %lld",
                         (long long)samples, (long long)grain);
    if (grains < n)
        return error_set("a batch of %lld samples cannot be dealt to %d workers: each needs %lld "
                         "or more",
                         (long long)samples, n, (long long)grain);
    for (int i = 0; i < n; i++) {
        int64_t most = workers[i].most / grain;
        assert(workers[i].samples_per_s > 0 && workers[i].pass_s >= 0);
        if (most < 1)
            return error_set("worker %d has memory for %d samples, but each needs %lld or more", i,
                             workers[i].most, (long long)grain);
        room += most < grains - room ? most : grains - room;
        share[i] = (int)grain;
    }
    if (room < grains)
        return error_set("a batch of %lld samples does not fit: the workers have memory for %lld",
                         (long long)samples, (long long)(room * grain));
    if (ALLOC(queue.item, n, "the shares of a batch"))
        return -1;
    deal_rest(&queue, n, grains - n, share);
    free(queue.item);
    return 0;
}
