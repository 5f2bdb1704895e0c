/* The tree by which the ranks [0, n) reduce to one of them, the root, and by which the root's
 * answer comes back, in ceil(log2 n) steps.
 *
 * Each block of 2^i neighbouring ranks, beginning at a multiple of 2^i, makes one sum, which the
 * block's head has. The head is the root if the block holds the root, otherwise the rank at the
 * root's place (its place in its own block), as far as there is one. So the additions are those of
 * the fixed binary tree over the ranks' numbers, whichever rank is the root, and trees of different
 * roots load different ranks. */
#ifndef POSEIDON_PLAN_TREE_H
#define POSEIDON_PLAN_TREE_H

enum { TREE_MOST_CHILDREN = 31 };

/* Returns ceil(log2 n): the messages that follow each other from the farthest rank to the root. */
int tree_steps(int n);

/* Returns the rank to which `rank` sends its sum; -1 for the root. */
int tree_parent(int n, int root, int rank);

/* Lists the ranks whose sums `rank` receives, in the order of addition; returns their number. */
int tree_children(int n, int root, int rank, int out[TREE_MOST_CHILDREN]);

#endif
