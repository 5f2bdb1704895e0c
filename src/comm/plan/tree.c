/* Computes the tree of a logarithmic reduction. */
#include "plan/tree.h"

/* Returns the head of the block of 2^level ranks that holds `rank`. Goes down from halves to
 * halves: the half at the root's place has the head, unless no rank is there. */
static int head_of(int n, int level, int root, int rank)
{
    int head = rank >> level << level;

    for (int i = level - 1; i >= 0; i--)
        if ((head | (root & 1 << i)) < n)
            head |= root & 1 << i;
    return head;
}

int tree_steps(int n)
{
    int steps = 0;

    while ((n - 1) >> steps)
        steps++;
    return steps;
}

int tree_parent(int n, int root, int rank)
{
    for (int level = 1; rank != root && (n - 1) >> (level - 1); level++) {
        int head = head_of(n, level, root, rank);
        if (head != rank)
            return head;
    }
    return -1;
}

int tree_children(int n, int root, int rank, int out[TREE_MOST_CHILDREN])
{
    int count = 0;

    for (int level = 0; (n - 1) >> level && head_of(n, level + 1, root, rank) == rank; level++) {
        int sibling = (rank >> level ^ 1) << level;
        if (sibling < n)
            out[count++] = head_of(n, level, root, sibling);
    }
    return count;
}
