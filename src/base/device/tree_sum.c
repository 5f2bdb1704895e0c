/* Sums in the order of a fixed tree. A block is known by its first contribution and its level. Of
 * all blocks that begin with the same contribution, at most one waits at a time. */
#include "device/tree_sum.h"

#include "device/vector.h"
#include "util/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1024, DEEPEST = 30 }; /* PIECE: floats. DEEPEST: levels of the largest tree */

int tree_sum_open(struct tree_sum *tree, int n, void (*spent)(void *context, int which),
                  void *context)
{
    assert(n > 0 && n <= 1 << DEEPEST);
    *tree = (struct tree_sum){.n = n, .spent = spent, .context = context};
    return ALLOC(tree->parts, n, "a sum's tree");
}

void tree_sum_close(struct tree_sum *tree)
{
    free(tree->parts);
    tree->parts = NULL;
}

void tree_sum_begin(struct tree_sum *tree, size_t elems, float *out)
{
    for (int i = 0; i < tree->n; i++)
        tree->parts[i].waits = false;
    tree->elems = elems;
    tree->out = out;
    tree->result = NULL;
    tree->lent = 0;
}

/* Walks up the tree from a new block, takes the waiting halves, and appends the halves that are not
 * empty to `chain`, which holds `count`. Returns the new count. *begin, *level: the block where the
 * walk ends, at the top or at a block whose other half is missing. */
static int climb(struct tree_sum *tree, struct tree_part *chain, int count, int *begin, int *level)
{

    for (; 1 << *level < tree->n; ++*level) {
        int sibling = *begin ^ 1 << *level;
        struct tree_part *half;
        if (sibling >= tree->n)
            continue; /* no other half: the block is its own parent */
        half = &tree->parts[sibling];
        if (!half->waits || half->level != *level)
            break;
        if (half->sum)
            chain[count++] = *half;
        half->waits = false;
        *begin = sibling < *begin ? sibling : *begin;
    }
    return count;
}

/* Sets to = chain[0] + chain[1] + ..., from left to right, piece by piece, so that sums stay in the
 * cache. to: chain[0]'s or chain[1]'s buffer, or another place. */
static void add_chain(float *to, const struct tree_part *chain, int count, size_t elems)
{
    for (size_t at = 0; at < elems; at += PIECE) {
        size_t n = elems - at < PIECE ? elems - at : PIECE;
        if (to == chain[0].sum)
            vector_add(to + at, chain[1].sum + at, n);
        else if (to == chain[1].sum)
            vector_add(to + at, chain[0].sum + at, n);
        else
            vector_add_to(to + at, chain[0].sum + at, chain[1].sum + at, n);
        for (int i = 2; i < count; i++)
            vector_add(to + at, chain[i].sum + at, n);
    }
}

static bool arrive(struct tree_sum *tree, int which, int level, const float *x, float *writable)
{
    struct tree_part chain[DEEPEST + 1] = {{.sum = x, .writable = writable, .owner = which}}, sum;
    int begin = which, count;
    bool complete;

    assert(which >= 0 && which < tree->n && (!x || x != tree->out) && !tree->result);
    count = climb(tree, chain, x != NULL, &begin, &level);
    complete = 1 << level >= tree->n;
    sum = count > 1 && !chain[0].writable ? chain[1] : chain[0];
    assert(count > 0 || !complete);
    if (complete && tree->out)
        sum = (struct tree_part){.sum = tree->out, .writable = tree->out, .owner = -1};
    if (count > 1) {
        assert(sum.writable);
        add_chain(sum.writable, chain, count, tree->elems);
    } else if (complete && tree->out) {
        memcpy(tree->out, chain[0].sum, tree->elems * sizeof *tree->out);
    }
    sum.waits = true;
    sum.level = level;
    if (complete)
        tree->result = sum.sum;
    else
        tree->parts[begin] = sum;
    for (int i = 0; i < count && tree->spent; i++)
        if (chain[i].owner != sum.owner)
            tree->spent(tree->context, chain[i].owner);
    return complete;
}

bool tree_sum_give(struct tree_sum *tree, int which, float *x)
{
    return arrive(tree, which, 0, x, x);
}

bool tree_sum_give_block(struct tree_sum *tree, int which, int level, float *x)
{
    return arrive(tree, which, level, x, x);
}

bool tree_sum_omit(struct tree_sum *tree, int which)
{
    return arrive(tree, which, 0, NULL, NULL);
}

bool tree_sum_lend(struct tree_sum *tree, int which, const float *x)
{
    tree->lent++;
    assert(tree->lent == 1);
    return arrive(tree, which, 0, x, NULL);
}

/* ---- all at once ---- */

struct slices {
    const float *const *x;
    size_t at, elems;     /* first element and length of the piece */
    float (*room)[PIECE]; /* sums of right halves, one buffer a level */
};

/* Returns the sum of contributions a .. b-1: x[a] itself, or `to` (which may be x[a]). */
static const float *sum_of(const struct slices *s, int a, int b, float *to, int depth)
{
    const float *left, *right;
    int half = 1;

    if (b - a == 1)
        return s->x[a] + s->at;
    while (2 * half < b - a)
        half *= 2;
    left = sum_of(s, a, a + half, to, depth);
    right = sum_of(s, a + half, b, s->room[depth], depth + 1);
    if (left == to)
        vector_add(to, right, s->elems);
    else
        vector_add_to(to, left, right, s->elems);
    return to;
}

void tree_sum_slices(const float *const *x, int n, size_t elems, float *out)
{
    float room[10][PIECE]; /* the sum touches one row a level of the tree */

    _Static_assert(TREE_SUM_MOST_SLICES == 1 << 10, "one for each halving");
    assert(n > 0 && n <= TREE_SUM_MOST_SLICES);
    for (size_t at = 0; at < elems; at += PIECE) {
        size_t piece = elems - at < PIECE ? elems - at : PIECE;
        struct slices s = {.x = x, .at = at, .elems = piece, .room = room};
        const float *sum = sum_of(&s, 0, n, out + at, 0);
        if (sum != out + at)
            memcpy(out + at, sum, piece * sizeof *out);
    }
}
