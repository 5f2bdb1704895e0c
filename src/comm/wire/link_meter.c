/* Splits the link's busy time into slots and closes each slot once time has passed it. */
#include "wire/link_meter.h"

#include <assert.h>
#include <math.h>

static void close_slot(struct link_meter *m)
{
    m->stretch = m->busy >= LINK_METER_FULL * LINK_METER_SLOT ? m->stretch + LINK_METER_SLOT : 0;
    m->full_seconds += m->stretch > 0 ? LINK_METER_SLOT : 0;
    m->longest_seconds = fmax(m->longest_seconds, m->stretch);
    m->busy = 0;
    m->slot++;
}

void link_meter_wait(struct link_meter *m, size_t bytes, size_t in_flight)
{
    m->waiting += bytes;
    if (m->waiting + in_flight > m->most_queued)
        m->most_queued = m->waiting + in_flight;
}

void link_meter_give(struct link_meter *m, size_t bytes, double now)
{
    assert(m->rate > 0 && m->waiting >= bytes);
    link_meter_look(m, now);
    m->waiting -= bytes;
    m->free = fmax(m->free, now) + (double)bytes / m->rate;
}

void link_meter_look(struct link_meter *m, double now)
{
    double start = fmax(m->seen - m->begin, 0), end = fmin(fmin(m->free, now), m->end) - m->begin;

    m->seen = now;
    for (int64_t slot = (int64_t)(start / LINK_METER_SLOT); start < end; slot++) {
        double until = fmin(end, LINK_METER_SLOT * (double)(slot + 1));

        if (m->slot < slot)
            close_slot(m);
        if (m->slot < slot) { /* the link was idle in between */
            m->stretch = 0;
            m->slot = slot;
        }
        m->busy += until - start;
        start = until;
    }
}
