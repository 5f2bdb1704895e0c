/* Sums over ranks in one fixed order: a binary tree over the ranks' numbers. The same contributions
 * give the same bits in whatever order they arrive, and wherever they are added: at a server, in a
 * node's memory, or by ranks in pairs.
 *
 * The sum of contributions a .. b-1 is
 *     x[a]                                   if b - a = 1
 *     (sum of a .. m-1) + (sum of m .. b-1)  otherwise
 * with m = a + the largest power of two below b - a. At level k, block j so holds contributions
 * j 2^k .. (j+1) 2^k - 1, as far as they exist. A block is the sum of its two halves, the
 * blocks 2j and 2j + 1 of level k - 1, or its first half if the second is empty. For seven:
 *     ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)
 *
 * Each addition is rounded to float once, and swapping its operands changes no bit. An allreduce
 * over 2^k ranks that meets rank r ^ 1 first, then r ^ 2, r ^ 4 and so on therefore adds the same,
 * halving vectors or not. An allreduce that meets the farthest rank first does not.
 *
 * A contribution that is left out makes its block empty. The sum of an empty half and a full half
 * is the full half.
 *
 * A contribution in a codec's bits is decoded into a buffer of floats first: zeros, then
 * codec->add. Decoding rounds nothing, and turns -0 into 0.
 *
 * Not collective; one thread at a time for one sum. */
#ifndef POSEIDON_DEVICE_TREE_SUM_H
#define POSEIDON_DEVICE_TREE_SUM_H

#include <stdbool.h>
#include <stddef.h>

/* A block that waits for the other half of its parent block. */
struct tree_part {
    bool waits;       /* a block waits */
    const float *sum; /* NULL: the block is empty */
    float *writable;  /* the same buffer; NULL if it may only be read */
    int owner;        /* contribution whose buffer holds the sum */
    int level;
};

/* A sum whose contributions arrive in any order, each in a buffer of its own. Two halves of a block
 * are added as soon as both have arrived, in the buffer of one of them.
 *
 * Buffers in use: after r arrivals in the order of ranks, as many as r has bits set, thus log2(n) +
 * 1 at most. In the worst order (all even ranks first): n/2, rounded up, and one more for the next
 * arrival. `spent` tells when a buffer is free again, so that buffers can come from a pool.
 * Additions: n - 1 in all, log2(n) at most within one arrival. */
struct tree_sum {
    int n;
    size_t elems;
    float *out;
    const float *result;     /* NULL until complete */
    struct tree_part *parts; /* [n]: per contribution, the waiting block that begins with it */
    int lent;                /* contributions lent to the present sum so far */
    void (*spent)(void *context, int which);
    void *context;
};

/* Prepares a tree for n contributions (at least 1) and any number of sums, one after another; later
 * calls allocate nothing. spent: called from within tree_sum_give and _lend for each contribution
 * whose buffer is free again; NULL: not called. Returns 0, or -1 with a message. Close the tree
 * either way. */
int tree_sum_open(struct tree_sum *tree, int n, void (*spent)(void *context, int which),
                  void *context);
void tree_sum_close(struct tree_sum *tree);

/* Starts a sum of `elems` floats; drops an incomplete sum and its buffers. out: where the last
 * addition writes, not a contribution's buffer. NULL: the sum stays in a contribution's buffer,
 * which then is not spent. */
void tree_sum_begin(struct tree_sum *tree, size_t elems, float *out);

/* Adds contribution `which`, once for each sum: _give may overwrite the buffer, _lend only reads.
 * At most one contribution may be lent: two in one pair would have no place for their sum. The
 * buffer must stay until it is spent. Returns true when the sum is complete. */
bool tree_sum_give(struct tree_sum *tree, int which, float *x);
/* Adds the sum of a whole block: the block of `level` that begins with contribution `which`. */
bool tree_sum_give_block(struct tree_sum *tree, int which, int level, float *x);
bool tree_sum_lend(struct tree_sum *tree, int which, const float *x);

/* Leaves contribution `which` out; at least one contribution is given. True when complete. */
bool tree_sum_omit(struct tree_sum *tree, int which);

/* Returns the sum; NULL until it is complete. */
static inline const float *tree_sum_result(const struct tree_sum *tree)
{
    return tree->result;
}

/* Sums contributions that are all in this machine's memory, in pieces that stay in the cache: out =
 * the tree's sum of x[0] .. x[n-1], `elems` floats each. out may be x[0], and must not overlap any
 * other. n: at most TREE_SUM_MOST_SLICES. Uses 4 kB of stack for each doubling of n beyond two, 40
 * kB at most. */
enum { TREE_SUM_MOST_SLICES = 1024 };
void tree_sum_slices(const float *const *x, int n, size_t elems, float *out);

#endif
