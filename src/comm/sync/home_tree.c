/* Sends sums up a tree, and answers down the same tree. */
#include "sync/home_tree.h"

#include "device/vector.h"
#include "plan/tree.h"
#include "sync/gradient.h"
#include "sync/home.h"
#include "sync/sync_internal.h"

#include <assert.h>

struct home_tree {
    int chunk;
    int64_t iteration; /* iteration being added up */
    int parent;        /* -1: this rank is the chunk's home */
    float *own; /* this rank's gradient plus the first `added` children's sums; NULL: not here */
    int added;
    int sends; /* answers on their way to children */
    int nchildren;
    struct child {
        int rank;
        bool here;  /* the child's sum of the iteration is here */
        float *sum; /* place of the child's sum */
    } children[];   /* in the order of adding */
};

struct home_tree *home_tree_open(struct sync *sync, int chunk)
{
    int ranks[TREE_MOST_CHILDREN], workers = sync->plan->nworkers;
    int home = plan_home(sync->plan, chunk), n = tree_children(workers, home, sync->rank, ranks);
    size_t bytes = sizeof(struct home_tree) + (size_t)n * sizeof(struct child);
    struct home_tree *tree = owner_array(&sync->owner, 1, bytes, "a chunk's tree");
    size_t elems = chunk_of(sync, chunk)->elems;
    float *sums = n > 0 ? gradient_alloc(sync, (size_t)n * elems, "a chunk's sums") : NULL;

    if (!tree || (n > 0 && !sums))
        return NULL;
    tree->chunk = chunk;
    tree->iteration = sync->options.iteration;
    tree->parent = tree_parent(workers, home, sync->rank);
    tree->nchildren = n;
    for (int i = 0; i < n; i++)
        tree->children[i] = (struct child){.rank = ranks[i], .sum = sums + (size_t)i * elems};
    return tree;
}

int home_tree_parent(const struct home_tree *tree)
{
    return tree->parent;
}

static struct home_tree *tree_of(const struct sync *sync, const struct wire_message *message)
{
    return home_part_of(sync, message_chunk(sync, message))->tree;
}

static struct child *find_child(struct home_tree *tree, int rank)
{
    for (int i = 0; i < tree->nchildren; i++)
        if (tree->children[i].rank == rank)
            return &tree->children[i];
    return NULL;
}

/* ---- up ---- */

/* Sends up the complete sum of this rank's part of the tree; children may then send the next. */
static int hand_up(struct sync *sync, struct home_tree *tree)
{
    float *sum = tree->own;
    int64_t iteration = tree->iteration++;

    tree->own = NULL;
    tree->added = 0;
    for (int i = 0; i < tree->nchildren; i++)
        tree->children[i].here = false;
    if (tree->parent < 0)
        return home_summed(sync, tree->chunk, sum);
    return bucket_send_chunk(sync, tree->chunk, false, iteration, sum, tree->parent, 0,
                             bucket_message_over);
}

/* Adds the children's sums that are here, always in the same order: a child's sum covers the ranks
 * after those that `own` covers. */
static int advance(struct sync *sync, struct home_tree *tree)
{
    size_t elems = chunk_of(sync, tree->chunk)->elems;

    if (!tree->own)
        return 0;
    for (; tree->added < tree->nchildren && tree->children[tree->added].here; tree->added++)
        vector_add(tree->own, tree->children[tree->added].sum, elems);
    return tree->added < tree->nchildren || tree->sends > 0 ? 0 : hand_up(sync, tree);
}

int home_tree_post(struct sync *sync, struct home_tree *tree, float *gradient)
{
    assert(!tree->own);
    tree->own = gradient;
    return advance(sync, tree);
}

static int sum_came(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    struct home_tree *tree = tree_of(sync, message);

    find_child(tree, leader_of(sync, message))->here = true;
    return advance(sync, tree);
}

int home_tree_accept(struct sync *sync, struct home_tree *tree, const struct arrival *arrival,
                     struct wire_message *out)
{
    struct child *child = find_child(tree, arrival->peer);
    int64_t iteration = tag_iteration(sync, arrival, tree->iteration);
    int64_t end = child && !child->here ? tree->iteration + 1 : 0;

    if (arrival_check(sync, arrival, iteration, end, plan_gradient_bytes(sync->plan, tree->chunk)))
        return -1;
    out->buffer = child->sum;
    out->done = sum_came;
    return 0;
}

/* ---- down ---- */

static int answer_sent(void *context, const struct wire_message *message)
{
    struct sync *sync = context;
    struct home_tree *tree = tree_of(sync, message);

    assert(tree->sends > 0);
    tree->sends--;
    return advance(sync, tree);
}

/* Sends to the last child first, which has the most ranks below it. */
int home_tree_answer(struct sync *sync, struct home_tree *tree, const void *what, int64_t iteration)
{
    assert(tree->sends == 0);
    for (int i = tree->nchildren - 1; i >= 0; i--) {
        tree->sends++;
        if (bucket_send_chunk(sync, tree->chunk, true, iteration, what, tree->children[i].rank, 0,
                              answer_sent))
            return -1;
    }
    return 0;
}
