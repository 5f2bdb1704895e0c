/* What the files that make a plan share. */
#ifndef POSEIDON_PLAN_INTERNAL_H
#define POSEIDON_PLAN_INTERNAL_H

#include "plan/plan.h"

/* Leaders and buckets are there: cuts buckets into chunks, deals these to their homes, and sums up
 * shares (chunks.c). Fail with a message. */
int plan_cut(struct plan *plan);
int plan_deal(struct plan *plan);
int plan_share_out(struct plan *plan);

#endif
