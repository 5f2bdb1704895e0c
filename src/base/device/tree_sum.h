/* One order of additions for whatever is summed over ranks: a fixed binary tree over their numbers.
 * The same contributions give the same bits in whatever order they arrive, in one go or one by one,
 * and wherever they are added, at a server, in a node's memory or by ranks in pairs.
 *
 * The sum of contributions a .. b-1 is
 *     x[a]                                 where b - a = 1, and else
 *     (sum of a .. m-1) + (sum of m .. b-1)
 * with m = a + the largest power of two below b - a. So at level k, block j holds contributions
 * j 2^k .. (j+1) 2^k - 1 as far as there are that many, and is the sum of its two halves, the
 * blocks 2j and 2j + 1 of level k - 1; where the second one is empty, it is the first. For seven:
 *     ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)
 *
 * Each addition is rounded to float once, and which of the two is the left one changes no bit.
 * Hence an allreduce over 2^k ranks that meets rank r ^ 1 first, then r ^ 2, r ^ 4 and so on,
 * halving vectors or not, adds the same; one that meets the farthest first does not.
 *
 * A contribution that is left out makes its block empty; the sum of an empty half and another is
 * the other.
 *
 * What came through a codec is decoded into a buffer of floats first: zeros, then codec->add. That
 * is rounded to nothing, and turns -0 into 0.
 *
 * Not collective; one thread at a time for one sum. */
#ifndef POSEIDON_DEVICE_TREE_SUM_H
#define POSEIDON_DEVICE_TREE_SUM_H

#include <stdbool.h>
#include <stddef.h>

/* A block that waits for its other half. */
struct tree_part {
    bool here;        /* one waits */
    const float *sum; /* NULL: nothing is in it */
    float *writable;  /* the same; NULL where it may only be read */
    int owner;        /* whose buffer it is */
    int level;
};

/* A sum whose contributions arrive in any order, each in a buffer of its own. Two halves of a block
 * are added as soon as both are there, in the buffer of one of them.
 *
 * Live buffers, which hold what is still needed: after r arrivals in the order of ranks, as many as
 * r has bits set, thus log2(n) + 1 at most; in the worst order (all the even ones first) n/2,
 * rounded up, and one more for the next to arrive in. `spent` says when one is free again, so that
 * buffers can come from a pool. Additions: n - 1 in all, log2(n) at most within one arrival. */
struct tree_sum {
    int n;
    size_t elems;
    float *out;
    const float *result;     /* NULL until complete */
    struct tree_part *parts; /* per contribution: the block that begins with it */
    int lent;                /* contributions that may only be read, so far */
    void (*spent)(void *context, int which);
    void *context;
};

/* A tree for n contributions (at least 1), for any number of sums one after the other; nothing is
 * allocated later. spent: called from within tree_sum_give and _lend for each contribution whose
 * buffer is needed no more; NULL: nobody wants to know. Returns 0, or -1 with a message. Close it
 * either way. */
int tree_sum_open(struct tree_sum *tree, int n, void (*spent)(void *context, int which),
                  void *context);
void tree_sum_close(struct tree_sum *tree);

/* Starts a sum of `elems` floats; one that is not complete is dropped, and its buffers with it.
 * out: where the last addition writes, none of the contributions; NULL: the sum stays in one of
 * their buffers, which then is not spent. */
void tree_sum_begin(struct tree_sum *tree, size_t elems, float *out);

/* Contribution number `which` is here, once for each sum: given, to be overwritten, or lent, to be
 * read only. One at most may be lent: two in one pair would have no place for their sum. The buffer
 * must stay until it is spent. Returns whether the sum is complete. */
bool tree_sum_give(struct tree_sum *tree, int which, float *x);
/* The sum of a whole block, that of `level` which begins with contribution `which`. */
bool tree_sum_give_block(struct tree_sum *tree, int which, int level, float *x);
bool tree_sum_lend(struct tree_sum *tree, int which, const float *x);

/* Contribution number `which` is left out of this sum; of one at least is given. Returns the same.
 */
bool tree_sum_omit(struct tree_sum *tree, int which);

/* The sum; NULL until it is complete. */
static inline const float *tree_sum_result(const struct tree_sum *tree)
{
    return tree->result;
}

/* All at once, for contributions that are all in this machine's memory: out = the tree's sum of
 * x[0] .. x[n-1], `elems` floats each, in pieces that stay in the cache. out may be x[0], and must
 * not overlap any other. n: at most TREE_SUM_MOST_SLICES. Uses 4 kB of stack for each doubling of n
 * beyond two, 40 kB at most. */
enum { TREE_SUM_MOST_SLICES = 1024 };
void tree_sum_slices(const float *const *x, int n, size_t elems, float *out);

#endif
