/* Chunks of few homes among many ranks: gradients are added up along a tree on their way to the
 * chunk's home, and the answer comes back along the same tree (struct bucket.log_steps). The tree
 * is plan/tree.h's: a rank adds its children's sums to its own gradient in the order of
 * device/tree_sum.h, so the bits equal those of sending straight.
 *
 * The tree makes the sum in place of home.c (home_summed), and every rank passes the answer on to
 * its children. A rank that sends an answer holds back its next sum until the send is over, so no
 * answer arrives in memory still being sent. Ranks compute only with complete data; no thread
 * waits. */
#ifndef POSEIDON_SYNC_HOME_TREE_H
#define POSEIDON_SYNC_HOME_TREE_H

#include <stdint.h>

struct arrival;
struct sync;
struct wire_message;

/* A chunk's tree as one rank, a worker, sees it. */
struct home_tree;

/* Opens a chunk's tree, with room for the sums of this rank's children: at most log2 of the ranks
 * times the chunk, on average one chunk. NULL with a message. Not collective. */
struct home_tree *home_tree_open(struct sync *sync, int chunk);

/* Returns the rank that the answer comes from; -1 at home. */
int home_tree_parent(const struct home_tree *tree);

/* Wire thread: takes this rank's final gradient, and adds its children's sums to it, in place. The
 * result goes to the parent (an end that the bucket waits for), at home to home_summed. */
int home_tree_post(struct sync *sync, struct home_tree *tree, float *gradient);

/* Accepts a child's sum (scheme_steps.accept). Wire thread. */
int home_tree_accept(struct sync *sync, struct home_tree *tree, const struct arrival *arrival,
                     struct wire_message *out);

/* Sends the answer of that iteration to the children; `what` must be the same buffer in every
 * iteration. No bucket waits for these sends. Wire thread. */
int home_tree_answer(struct sync *sync, struct home_tree *tree, const void *what,
                     int64_t iteration);

#endif
