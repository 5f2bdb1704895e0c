/* What the files that make a plan share. */
#ifndef POSEIDON_PLAN_PLAN_INTERNAL_H
#define POSEIDON_PLAN_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Allocates n elements, all zero, for the array, until the plan is destroyed; -1 with a message. */
#define PLAN_ROOM(plan, array, n) OWN(&(plan)->owner, array, n, "the communication plan")

/* Leaders and buckets are there: cuts buckets into chunks, deals these to their homes, and sums up
 * shares (chunks.c). Fail with a message. */
int plan_cut(struct plan *plan);
int plan_deal(struct plan *plan);
int plan_share_out(struct plan *plan);

/* Chunks have their homes: deals them to rails (rails.c). */
int plan_lay_rails(struct plan *plan);

/* What a leader exchanges in an iteration and keeps for it. */
struct plan_load {
    struct traffic traffic;
    uint64_t bytes;
};

/* Adds the leader's of some of the bucket's chunks, which have one home; part->home -1: homes that
 * are others. */
void plan_add_part(const struct plan *plan, int bucket, int leader, const struct home_share *part,
                   struct plan_load *load);

/* plan_traffic and plan_memory of one of a leader's several ranks, of a bucket that is sliced. */
struct traffic plan_rail_traffic(const struct plan *plan, int bucket, int world_rank);
uint64_t plan_rail_memory(const struct plan *plan, int bucket, int world_rank);

#endif
