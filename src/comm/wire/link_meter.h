/* Measures how bursty traffic is: simulates a link of a given rate that sends what a queue hands
 * out, one message at a time. Counts the busy time of each millisecond in constant memory. The
 * caller passes the time, so that the wire and a simulator are measured alike. */
#ifndef POSEIDON_WIRE_LINK_METER_H
#define POSEIDON_WIRE_LINK_METER_H

#include <stddef.h>
#include <stdint.h>

#define LINK_METER_SLOT 1e-3 /* seconds */
#define LINK_METER_FULL 0.9  /* fraction of a slot's time from which the slot counts as full */

struct link_meter {
    double rate;       /* bytes per second, above 0 */
    double begin, end; /* seconds: the interval that is measured */
    /* results */
    double full_seconds, longest_seconds; /* total time of full slots; longest run of full slots */
    size_t most_queued; /* largest number of bytes that waited or were on their way */
    /* private to the meter */
    double free; /* time at which the link will have sent all bytes given so far */
    double seen; /* time up to which the link's work is counted */
    int64_t slot;
    double busy, stretch; /* seconds: busy time in `slot`; run of full slots before `slot` */
    size_t waiting;
};

/* Adds `bytes` to the waiting bytes. in_flight: bytes that are on their way already. */
void link_meter_wait(struct link_meter *meter, size_t bytes, size_t in_flight);

/* Gives waiting bytes to the link. `now` never decreases from call to call. */
void link_meter_give(struct link_meter *meter, size_t bytes, double now);

/* Counts the link's work until `now`. Must be called before the results are read. */
void link_meter_look(struct link_meter *meter, double now);

#endif
