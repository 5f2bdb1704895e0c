/* Functions that schemes call on a plan: bytes, memory, and cuts of messages. Leaders and buckets
 * are given by number. Pure arithmetic. */
#ifndef POSEIDON_PLAN_FOR_SCHEMES_H
#define POSEIDON_PLAN_FOR_SCHEMES_H

#include "plan/plan.h"

/* Messages of a low-rank bucket. The first parameter's gradient M (m x n) becomes the product of P
 * (m x rank) and Q (n x rank, transposed). First P travels, with the gradient of the other
 * parameters behind it, then Q. */
struct low_rank {
    int64_t m, n;    /* size of M; dilated, like the counts below */
    size_t tail;     /* elements of the other parameters, which end the bucket */
    size_t elems[2]; /* elements that travel in each of the two turns */
};
struct low_rank plan_low_rank(const struct plan *plan, int bucket);

/* Returns where a turn's elements begin that the bucket's chunk number `piece` takes along; piece
 * == moved: where all end. */
static inline size_t plan_piece_begin(const struct bucket *bucket, const struct low_rank *low,
                                      int turn, int piece)
{
    return low->elems[turn] * (size_t)piece / (size_t)bucket->moved;
}

/* Returns the share of the bucket whose home is the leader; NULL: none. */
const struct home_share *plan_share(const struct plan *plan, int bucket, int leader);

/* Returns the chunk whose gradient the leader sends first, counted from the bucket's first chunk:
 * the one after its own, or one as far along as the leader. The others follow in order and around.
 * If all leaders began with the same chunk, every window would be full of messages to the same few
 * homes while links to others stood idle. */
int plan_first_sent(const struct plan *plan, int bucket, int leader);

/* Returns the leader's traffic where gradients go to homes and answers come back, directly or along
 * the tree. */
struct traffic plan_home_traffic(const struct plan *plan, int bucket, int leader);

/* Returns the leader's memory where gradients go to homes: a place for every gradient that arrives
 * at it as a home, or for each child's sum in the tree. Encoded gradients also need places for all
 * of them decoded, the leader's message and the rounding error, and the same again if answers are
 * encoded. With plan_options.drop a home has values of its own, and a copy per late worker. */
uint64_t plan_home_memory(const struct plan *plan, int bucket, int leader);

/* Returns where slice `slice` of `elems` elements of factors begins; slice == slices: the end. */
static inline size_t plan_slice_begin(const struct bucket *bucket, size_t elems, int slice)
{
    return elems * (size_t)slice / (size_t)bucket->slices;
}

/* True if the bucket's messages are bfloat16. */
static inline bool plan_halves(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].wire == WIRE_BF16 && plan->nworkers > 1;
}

/* Returns the bytes of an element of factors on the wire. */
static inline size_t plan_factor_size(const struct plan *plan, int bucket)
{
    return plan_halves(plan, bucket) ? sizeof(uint16_t) : sizeof(float);
}

/* Returns the bytes of memory for an element of factors: as a float, and as it travels. */
static inline size_t plan_factor_room(const struct plan *plan, int bucket)
{
    size_t size = plan_factor_size(plan, bucket);

    return sizeof(float) + (size < sizeof(float) ? size : 0);
}

/* Returns codec_bf16 or NULL; the codec slot of schemes whose gradients may travel as bfloat16. */
const struct codec *plan_wire_codec(const struct plan *plan, int chunk);

/* Returns the product of counts; UINT64_MAX where that is larger. */
uint64_t plan_times(uint64_t a, uint64_t b);

/* Return the elements, and the bytes, of the factors that the leader sends to one rank; leader -1:
 * of all workers together. UINT64_MAX: more than that. */
uint64_t plan_factor_elems(const struct plan *plan, int bucket, int leader);
uint64_t plan_factor_bytes(const struct plan *plan, int bucket, int leader);

#endif
