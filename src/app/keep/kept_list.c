/* Implements the list of kept_list.h. */
#include "keep/kept_list.h"

#include "util/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void kept_open(struct kept_list *list, int keep)
{
    assert(keep >= 0);
    *list = (struct kept_list){
        .keep = keep, .best.iteration = -1, .awaited.iteration = -1, .named = -1};
}

void kept_free(struct kept_list *list)
{
    free(list->entries);
    kept_open(list, list->keep);
}

/* Returns the index of `iteration`, or the index at which to insert it. */
static int place_of(const struct kept_list *list, int64_t iteration)
{
    int at = list->count; /* search from the end: the best may be written after a newer snapshot */

    while (at > 0 && list->entries[at - 1].iteration >= iteration)
        at--;
    return at;
}

static bool has(const struct kept_list *list, int64_t iteration)
{
    int at = place_of(list, iteration);

    return at < list->count && list->entries[at].iteration == iteration;
}

int kept_add(struct kept_list *list, int64_t iteration, bool only_best)
{
    int at = place_of(list, iteration);

    assert(iteration >= 0);
    if (has(list, iteration))
        return 0;
    if (ALLOC_ROOM(list->entries, list->count, "a list of snapshots"))
        return -1;
    memmove(list->entries + at + 1, list->entries + at,
            (size_t)(list->count++ - at) * sizeof *list->entries);
    list->entries[at] = (struct kept){.iteration = iteration, .only_best = only_best};
    assert((at == 0 || iteration > list->entries[at - 1].iteration) &&
           (at + 1 == list->count || iteration < list->entries[at + 1].iteration));
    return 0;
}

void kept_mark_best(struct kept_list *list, int64_t iteration, double score)
{
    assert(iteration >= list->awaited.iteration && iteration >= 0); /* tests come in order */
    list->awaited = (struct kept_best){.iteration = iteration, .score = score};
    if (has(list, iteration))
        list->best = list->awaited;
}

bool kept_is_awaited(const struct kept_list *list, int64_t iteration)
{
    return list->awaited.iteration == iteration;
}

int kept_written(struct kept_list *list, int64_t iteration, bool only_best)
{
    if (kept_is_awaited(list, iteration))
        list->best = list->awaited;
    assert(list->best.iteration <= list->awaited.iteration);
    return kept_add(list, iteration, only_best);
}

bool kept_is_unnamed(const struct kept_list *list)
{
    return list->best.iteration != list->named;
}

void kept_name_best(struct kept_list *list, int64_t iteration)
{
    assert(has(list, iteration));
    list->named = iteration;
}

bool kept_take_surplus(struct kept_list *list, int64_t *iteration)
{
    int surplus = -list->keep;

    if (list->named < 0 && list->best.iteration >= 0)
        return false; /* PREFIX_best may still name any snapshot of an earlier start */
    for (int pass = 0; pass < 2; pass++) /* counts the surplus, then takes the oldest */
        for (int i = 0; i < list->count; i++) {
            struct kept entry = list->entries[i];
            if (entry.iteration == list->best.iteration || entry.iteration == list->named)
                continue;
            if (pass == 0) {
                surplus += !entry.only_best;
            } else if (entry.only_best || (list->keep > 0 && surplus > 0)) {
                *iteration = entry.iteration;
                memmove(list->entries + i, list->entries + i + 1,
                        (size_t)(--list->count - i) * sizeof entry);
                return true;
            }
        }
    return false;
}

int64_t kept_newest(const struct kept_list *list)
{
    return list->count > 0 ? list->entries[list->count - 1].iteration : -1;
}
