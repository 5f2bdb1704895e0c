/* Functions that the files which make a plan share. */
#ifndef POSEIDON_PLAN_PLAN_INTERNAL_H
#define POSEIDON_PLAN_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Allocates a zeroed array of n elements for the plan's lifetime; -1 with a message. */
#define PLAN_ROOM(plan, array, n) OWN(&(plan)->owner, array, n, "the communication plan")

/* Cut buckets into chunks, deal the chunks to homes, and sum up shares (chunks.c), once leaders and
 * buckets exist. Fail with a message. */
int plan_cut(struct plan *plan);
int plan_deal(struct plan *plan);
int plan_share_out(struct plan *plan);

/* Deals chunks, whose homes are known, to rails (rails.c). */
int plan_lay_rails(struct plan *plan);

/* Traffic of a leader in an iteration, and its bytes of memory. */
struct plan_load {
    struct traffic traffic;
    uint64_t bytes;
};

/* Adds the leader's load for some of the bucket's chunks, all with one home; part->home -1: several
 * homes, none of them the leader. */
void plan_add_part(const struct plan *plan, int bucket, int leader, const struct home_share *part,
                   struct plan_load *load);

/* Return plan_traffic and plan_memory of one of a leader's several ranks, for a sliced bucket. */
struct traffic plan_rail_traffic(const struct plan *plan, int bucket, int world_rank);
uint64_t plan_rail_memory(const struct plan *plan, int bucket, int world_rank);

#endif
