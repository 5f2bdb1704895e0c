/* Chunks of few homes among many ranks: gradients are added up along a tree on their way to the
 * chunk's home, and its answer comes back along the same tree (struct bucket.log_steps). The tree
 * is plan/tree.h's: a rank adds its children's sums to its own gradient in the order that makes the
 * additions those of device/tree_sum.h, so the bits are the same as straight.
 *
 * Seen from home.c, the home's sum is one that is made otherwise (home_summed), and every rank
 * hands the answer on to its children. A rank that sends an answer holds back its next sum until
 * that is over: so no answer can come to where one still leaves from. Nobody computes meanwhile but
 * with what is complete, and no thread waits. */
#ifndef POSEIDON_SYNC_HOME_TREE_H
#define POSEIDON_SYNC_HOME_TREE_H

#include <stdint.h>

struct arrival;
struct sync;
struct wire_message;

/* A chunk's tree as one rank sees it; of a worker. */
struct home_tree;

/* Room for the sums of the rank's children: log2 of the ranks times the chunk at most, once the
 * chunk on average. NULL with a message. Not collective. */
struct home_tree *home_tree_open(struct sync *sync, int chunk);

/* Whom the answer comes from; -1 at home. */
int home_tree_parent(const struct home_tree *tree);

/* Wire thread. This rank's gradient is final: the sum of its part of the tree is made in its place,
 * and goes to the parent (one end of what the bucket waits for), or at home to home_summed. */
int home_tree_post(struct sync *sync, struct home_tree *tree, float *gradient);

/* Wire thread: a child's sum comes (scheme_steps.accept). */
int home_tree_accept(struct sync *sync, struct home_tree *tree, const struct arrival *arrival,
                     struct wire_message *out);

/* Wire thread: the answer of that iteration is at `what`, the same place in every iteration, and
 * goes to the children. Nobody waits for that. */
int home_tree_answer(struct sync *sync, struct home_tree *tree, const void *what,
                     int64_t iteration);

#endif
