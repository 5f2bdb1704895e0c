/* What schemes ask of a plan: their bytes, their memory, and how what they send is cut. Leaders and
 * buckets go by number. Pure arithmetic. */
#ifndef POSEIDON_PLAN_FOR_SCHEMES_H
#define POSEIDON_PLAN_FOR_SCHEMES_H

#include "plan/plan.h"

/* What travels of a bucket of low rank. The first parameter's gradient M (m x n) is to become the
 * product of P (m x rank) and Q (n x rank, transposed): first P travels, with the gradient of the
 * other parameters behind it, then Q. */
struct low_rank {
    int64_t m, n;    /* dilated, as all of it */
    size_t tail;     /* elements of the other parameters, the bucket's last */
    size_t elems[2]; /* that travel in each of the two turns */
};
struct low_rank plan_low_rank(const struct plan *plan, int bucket);

/* Where the piece of that turn begins which the bucket's chunk number `piece` takes along; piece ==
 * moved: where all end. */
static inline size_t plan_piece_begin(const struct bucket *bucket, const struct low_rank *low,
                                      int turn, int piece)
{
    return low->elems[turn] * (size_t)piece / (size_t)bucket->moved;
}

/* The share of the bucket that the leader is home of; NULL: it has none. */
const struct home_share *plan_share(const struct plan *plan, int bucket, int leader);

/* Of the bucket's chunks the one, counted from its first, whose gradient the leader sends first:
 * the one after its own, or one as far along as the leader is. The others follow in order and
 * around. If all began with the same one, everybody's window would be full of messages to the same
 * few homes while the links to the others stood idle; so every home gets from one after the other.
 */
int plan_first_sent(const struct plan *plan, int bucket, int leader);

/* Traffic of the leader where gradients go to their homes and answers come back, directly or along
 * the tree. */
struct traffic plan_home_traffic(const struct plan *plan, int bucket, int leader);

/* Memory of the leader there: a place for every gradient that comes to it as a home, or for the sum
 * of each of its children in the tree. Where gradients are encoded, also places for all of them
 * decoded, the leader's message and what rounding lost; and the same again of sums that come back
 * encoded. With plan_options.drop a home has values of its own, and one more of them for each
 * worker that may be late to take them. */
uint64_t plan_home_memory(const struct plan *plan, int bucket, int leader);

/* Where slice `slice` of `elems` of a leader's factors begins; slice == slices: where they end. */
static inline size_t plan_slice_begin(const struct bucket *bucket, size_t elems, int slice)
{
    return elems * (size_t)slice / (size_t)bucket->slices;
}

/* Whether what travels of the bucket are bfloat16. */
static inline bool plan_halves(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].wire == WIRE_BF16 && plan->nworkers > 1;
}

/* Bytes of an element of the bucket's factors on the wire. */
static inline size_t plan_factor_size(const struct plan *plan, int bucket)
{
    return plan_halves(plan, bucket) ? sizeof(uint16_t) : sizeof(float);
}

/* Bytes of memory for each element of factors that is kept: as a float, and as it travels. */
static inline size_t plan_factor_room(const struct plan *plan, int bucket)
{
    size_t size = plan_factor_size(plan, bucket);

    return sizeof(float) + (size < sizeof(float) ? size : 0);
}

/* The codec slot of schemes whose gradients may travel as bfloat16. */
const struct codec *plan_wire_codec(const struct plan *plan, int chunk);

/* A product of counts; UINT64_MAX where it is larger. */
uint64_t plan_times(uint64_t a, uint64_t b);

/* Elements of the factors that the leader sends to one rank, and their bytes; leader -1: that all
 * workers do. UINT64_MAX: more than that. */
uint64_t plan_factor_elems(const struct plan *plan, int bucket, int leader);
uint64_t plan_factor_bytes(const struct plan *plan, int bucket, int leader);

#endif
