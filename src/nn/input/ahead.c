/* Asks for the next window in step with training: half of it after half of the present one. */
#include "input/ahead.h"

#include "input/shuffle.h"

int ahead_open(struct ahead *ahead, struct owner *owner, struct source *source,
               const struct order *order, const struct feeder_options *o)
{
    if (order->shuffle != SHUFFLE_WINDOWS || !source->i->expect)
        return 0;
    if (OWN(owner, ahead->pick, ORDER_WINDOW, "the records to be asked for"))
        return -1;
    pthread_mutex_init(&ahead->mutex, NULL);
    ahead->order = *order;
    ahead->o = *o;
    ahead->start = UINT64_MAX;
    ahead->source = source;
    return 0;
}

static bool is_own(const struct ahead *ahead, uint64_t start, uint64_t sample)
{
    uint64_t at = (sample - start) % ahead->o.turn;

    return at >= ahead->o.before &&
           at < ahead->o.before + (uint64_t)ahead->o.row * (uint64_t)ahead->o.batch;
}

/* Lists this rank's records of the window that begins at sample `window`, from sample `from` on. */
static void look_at(struct ahead *ahead, uint64_t start, uint64_t window, uint64_t from)
{
    uint64_t size;

    order_window(&ahead->order, window, &size);
    order_picks(&ahead->order, window, (int)size, ahead->pick);
    ahead->start = start;
    ahead->window = window;
    ahead->npicks = ahead->asked = 0;
    for (int k = 0; k < (int)size; k++) {
        uint64_t sample = window + (uint64_t)ahead->pick[k].sample;

        if (sample >= from && is_own(ahead, start, sample))
            ahead->pick[ahead->npicks++] = ahead->pick[k];
    }
}

/* Asks for picks up to number `until`; runs of neighbours take one request. */
static void ask_until(struct ahead *ahead, uint64_t until)
{
    const struct pick *pick = ahead->pick;

    while ((uint64_t)ahead->asked < until) {
        int first = ahead->asked++;

        while (ahead->asked < ahead->npicks &&
               pick[ahead->asked].record == pick[ahead->asked - 1].record + 1)
            ahead->asked++;
        ahead->source->i->expect(ahead->source, pick[first].record,
                                 (uint64_t)(ahead->asked - first));
    }
}

void ahead_ask(struct ahead *ahead, uint64_t start, uint64_t first)
{
    uint64_t size, window, done, all;

    if (!ahead->source)
        return;
    window = order_window(&ahead->order, first, &size);
    done = first - window + ahead->o.turn;
    pthread_mutex_lock(&ahead->mutex);
    if (ahead->start != start || ahead->window < window + size) {
        if (ahead->start != start || ahead->window != window)
            look_at(ahead, start, window, first);
        ask_until(ahead, (uint64_t)ahead->npicks);
        look_at(ahead, start, window + size, first);
    }
    all = (uint64_t)ahead->npicks;
    if (ahead->window == window + size)
        ask_until(ahead, done < size ? all * done / size : all);
    pthread_mutex_unlock(&ahead->mutex);
}

void ahead_close(struct ahead *ahead)
{
    if (ahead->source)
        pthread_mutex_destroy(&ahead->mutex);
}
