/* How bursty traffic is: what a link of a given rate would do with all that a queue hands out. It
 * sends one message after the other, without a pause while it has any. Of each millisecond it is
 * known how much of it the link is busy; the memory that this takes does not grow. Clocks are those
 * of whoever takes from the queue, so that the wire and a simulator are measured alike. */
#ifndef POSEIDON_WIRE_LINK_METER_H
#define POSEIDON_WIRE_LINK_METER_H

#include <stddef.h>
#include <stdint.h>

#define LINK_METER_SLOT 1e-3 /* seconds */
#define LINK_METER_FULL 0.9  /* of a slot: the link counts as full in it */

struct link_meter {
    double rate;       /* bytes per second, above 0 */
    double begin, end; /* seconds: what the link does before and after is not counted */
    /* what came of it */
    double full_seconds, longest_seconds; /* in all; of the longest stretch */
    size_t most_queued;                   /* bytes that waited or were on their way, at worst */
    /* the meter's own */
    double free; /* when the link has sent all that it was given */
    double seen; /* until when that is counted */
    int64_t slot;
    double busy, stretch; /* seconds of that slot; of the full ones before it */
    size_t waiting;
};

/* The bytes wait from now on, beside in_flight that are on their way. */
void link_meter_wait(struct link_meter *meter, size_t bytes, size_t in_flight);

/* The link is given bytes that waited. `now` never goes back from one call to the next. */
void link_meter_give(struct link_meter *meter, size_t bytes, double now);

/* Counts what the link has done until `now`: before the results are read. */
void link_meter_look(struct link_meter *meter, double now);

#endif
