/* The tree by which the ranks [0, n) reduce to one of them, the root, and by which the root's
 * answer comes back, in ceil(log2 n) steps.
 *
 * Blocks of 2^i neighbouring ranks, beginning at multiples of 2^i, make one sum each; the block's
 * head has it: the root where the block holds it, else the rank that lies in the block where the
 * root lies in its own (as far as there is one). So the additions are those of the fixed binary
 * tree over the ranks' numbers, whichever rank is the root, and trees of different roots load
 * different ranks. */
#ifndef POSEIDON_PLAN_TREE_H
#define POSEIDON_PLAN_TREE_H

enum { TREE_MOST_CHILDREN = 31 };

/* ceil(log2 n): how many messages follow each other from the farthest rank to the root. */
int tree_steps(int n);

/* The rank to which `rank` sends its sum; -1 for the root. */
int tree_parent(int n, int root, int rank);

/* The ranks whose sums `rank` receives, in the order in which they are added to its own; returns
 * how many. */
int tree_children(int n, int root, int rank, int out[TREE_MOST_CHILDREN]);

#endif
