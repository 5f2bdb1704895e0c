/* The memory of blobs: one arena, in which pieces that are never in use at once share a place.
 *
 * A pass is a row of steps: forward of layer l is step l, its backward step 2 nlayers - 1 - l. A
 * piece (values or gradient of a blob, with all tensors based on that tensor) lives from the first
 * step that touches it to the last. Pieces are placed largest first, each at the lowest offset that
 * is free during its life. */
#include "net/net_internal.h"

#include "util/alloc.h"
#include "util/machine.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

/* Alignment of pieces: suits the widest vectors and a GPU's memory transactions. */
#define PIECE_ALIGN 256

struct planner {
    struct net *net;
    struct net_memory_plan *plan;
    struct tensor **roots; /* per piece: its tensor without a base */
    int last;              /* last step */
};

static struct net_piece *piece_of(const struct planner *p, const struct tensor *tensor)
{
    while (tensor->base)
        tensor = tensor->base;
    for (int i = 0; i < p->plan->npieces; i++)
        if (p->roots[i] == tensor)
            return &p->plan->pieces[i];
    return NULL;
}

static void add_piece(const struct planner *p, const struct blob *blob, struct tensor *tensor,
                      bool grad)
{
    struct net_piece *piece = piece_of(p, tensor);
    struct tensor *root = tensor;
    size_t bytes;

    while (root->base)
        root = root->base;
    bytes = root->bytes ? root->bytes : sizeof(float);
    if (!piece) {
        assert(p->plan->npieces < 2 * p->net->nblobs);
        piece = &p->plan->pieces[p->plan->npieces];
        p->roots[p->plan->npieces++] = root;
        *piece = (struct net_piece){.blob = blob,
                                    .grad = grad,
                                    .begin = p->last + 1,
                                    .end = -1,
                                    .bytes = (bytes + PIECE_ALIGN - 1) / PIECE_ALIGN * PIECE_ALIGN};
    }
    if (root == tensor)
        piece->blob = blob;
    /* padding is zeroed once and must stay zero, so a piece with padding is not shared */
    if (blob->kept || tensor->padded)
        *piece = (struct net_piece){
            .blob = piece->blob, .grad = grad, .bytes = piece->bytes, .begin = 0, .end = p->last};
}

static void live(const struct planner *p, const struct tensor *tensor, int from, int to)
{
    struct net_piece *piece = piece_of(p, tensor);

    assert(piece && 0 <= from && from <= to && to <= p->last);
    if (from < piece->begin)
        piece->begin = from;
    if (to > piece->end)
        piece->end = to;
}

/* Extends the life of a blob's values over the layer's forward step, and over its backward step if
 * backward may read them (`reads`). */
static void live_values(const struct planner *p, const struct layer *layer, const struct blob *blob,
                        bool reads)
{
    int step = layer->index;

    live(p, &blob->value, step, step);
    if (layer->needs_backward && reads)
        live(p, &blob->value, step, p->last - step);
}

static void live_gradient(const struct planner *p, const struct layer *layer,
                          const struct blob *blob)
{
    int step = p->last - layer->index;

    if (layer->needs_backward && blob->wants_grad)
        live(p, &blob->grad, step, step);
}

static bool is_bottom(const struct layer *layer, const struct blob *blob)
{
    for (int b = 0; b < layer->nbottoms; b++)
        if (layer->bottoms[b] == blob)
            return true;
    return false;
}

static bool takes_before(const struct layer *layer)
{
    for (int b = 0; b < layer->nbottoms; b++)
        if (layer->taken[b])
            return true;
    return false;
}

/* Extends the lives of `layer`'s blobs over the steps of layer `at`, whose op does `layer`'s work.
 * Usually `at` is `layer`. */
static void live_layer(const struct planner *p, const struct layer *at, const struct layer *layer)
{
    for (int b = 0; b < layer->nbottoms; b++) {
        live_values(p, at, layer->bottoms[b], !layer->i->ignores_bottoms);
        live_gradient(p, at, layer->bottoms[b]);
        /* a gradient is never written, and stays 0, if no loss depends on that bottom's top */
        if (layer->i->op_per_bottom && layer->propagate[b] && layer->nbottoms > 1)
            live(p, &layer->bottoms[b]->grad, 0, p->last);
    }
    for (int t = 0; t < layer->ntops; t++) {
        bool reads = layer->i->keeps_top || at != layer || layer->merged || layer->fused ||
                     takes_before(layer) || is_bottom(layer, layer->tops[t]);
        live_values(p, at, layer->tops[t], reads);
        live_gradient(p, at, layer->tops[t]);
        /* tops of data layers are written before the pass, or only once */
        if (layer->i->is_data)
            live(p, &layer->tops[t]->value, 0, p->last);
    }
    if (layer->merged)
        live_layer(p, at, layer->merged);
    if (layer->fused)
        live_layer(p, at, layer->fused);
}

/* Extends lives to the end of the pass, for outputs and for factors that are sent during the next
 * pass. Also extends them to the steps at which losses seed gradients. */
static void live_on(const struct planner *p)
{
    const struct net *net = p->net;

    for (int o = 0; o < net->noutputs; o++)
        live(p, &net->outputs[o].blob->value, p->last, p->last);
    for (int i = 0; i < net->internals->nlosses; i++) {
        const struct net_loss *loss = &net->internals->losses[i];
        /* the loss layer's own step, even if another layer's op does its work */
        int step = p->last - loss->layer;
        live(p, &loss->blob->value, p->last, p->last);
        if (net->layers[loss->layer].needs_backward)
            live(p, &loss->blob->grad, step, step);
    }
    for (int g = 0; net->train && g < net->ngroups; g++) {
        const struct layer *layer = &net->layers[net->groups[g].layer];
        if (!net->groups[g].factorable)
            continue;
        live(p, &layer->bottoms[0]->value, 0, p->last);
        if (layer->tops[0]->wants_grad)
            live(p, &layer->tops[0]->grad, 0, p->last);
    }
}

static bool overlap(const struct net_piece *a, const struct net_piece *b)
{
    return a->begin <= b->end && b->begin <= a->end;
}

static int compare_size(const void *a, const void *b)
{
    const struct net_piece *x = *(struct net_piece *const *)a, *y = *(struct net_piece *const *)b;

    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* Returns the lowest offset that is free while the piece lives. `placed` is sorted by offset. */
static size_t find_gap(const struct net_piece *piece, struct net_piece *const *placed, int nplaced)
{
    size_t at = 0;

    for (int i = 0; i < nplaced; i++) {
        if (!overlap(piece, placed[i]))
            continue;
        if (at + piece->bytes <= placed[i]->offset)
            break;
        if (placed[i]->offset + placed[i]->bytes > at)
            at = placed[i]->offset + placed[i]->bytes;
    }
    return at;
}

static int arrange(struct net_memory_plan *plan)
{
    size_t n = (size_t)plan->npieces + 1;
    struct net_piece **order, **placed;

    if (ALLOC(order, 2 * n, "the memory plan"))
        return -1;
    placed = order + n;
    for (int i = 0; i < plan->npieces; i++)
        order[i] = &plan->pieces[i];
    qsort(order, (size_t)plan->npieces, sizeof *order, compare_size);
    for (int i = 0; i < plan->npieces; i++) {
        struct net_piece *piece = order[i];
        int k = i;
        piece->offset = find_gap(piece, placed, i);
        assert(piece->begin <= piece->end && piece->offset % PIECE_ALIGN == 0);
        for (; k > 0 && placed[k - 1]->offset > piece->offset; k--)
            placed[k] = placed[k - 1];
        placed[k] = piece;
        plan->apart += piece->bytes;
        if (piece->offset + piece->bytes > plan->bytes)
            plan->bytes = piece->offset + piece->bytes;
    }
    free(order);
    return 0;
}

/* Finds the step with the most memory in use. */
static void find_peak(struct net_memory_plan *plan)
{
    for (int step = 0; step < plan->nsteps; step++) {
        size_t load = 0;
        for (int i = 0; i < plan->npieces; i++)
            if (plan->pieces[i].begin <= step && step <= plan->pieces[i].end)
                load += plan->pieces[i].bytes;
        if (load > plan->load) {
            plan->load = load;
            plan->peak = step;
        }
    }
}

static void find_lives(const struct planner *p)
{
    for (int i = 0; i < p->net->nblobs; i++) {
        struct blob *blob = p->net->blobs[i];
        add_piece(p, blob, &blob->value, false);
        if (blob->wants_grad)
            add_piece(p, blob, &blob->grad, true);
    }
    for (int l = 0; l < p->net->nlayers; l++)
        if (!p->net->layers[l].idle)
            live_layer(p, &p->net->layers[l], &p->net->layers[l]);
    live_on(p);
}

/* Returns the bytes of one batch of input. */
static size_t input_bytes(const struct net *net)
{
    size_t bytes = 0;

    for (int l = 0; l < net->nlayers; l++)
        for (int t = 0; t < net->layers[l].ntops && net->layers[l].i->is_data; t++)
            bytes += net->layers[l].tops[t]->value.bytes;
    return bytes;
}

/* Returns the bytes that net_limit_memory leaves for blobs; 0: no limit. */
static size_t limited_room(const struct net *net)
{
    const struct net_internals *internals = net->internals;

    if (internals->limit == 0 || net->engine->device.i->own_memory)
        return 0;
    return internals->limit > internals->bytes ? internals->limit - internals->bytes : 1;
}

/* Adds to the error how much memory blobs need, how much is free, and which batch would fit, as
 * memory grows with the batch. */
static int no_room(const struct net *net)
{
    const struct engine *engine = net->engine;
    size_t need = net->internals->plan.bytes, room = limited_room(net);
    size_t input = input_bytes(net);
    int batch = net_batch(net);
    double fits;

    if (room == 0 && engine->device.i->room)
        room = engine->device.i->room(engine->context);
    if (!engine->device.i->own_memory && (room == 0 || room >= need))
        room = (size_t)machine_free_memory(1);
    if (room == 0 || room >= need || batch == 0)
        return error_context("the net's blobs need %.1f MiB", (double)need / 1048576);
    /* a GPU gets the next batch of input during a pass */
    fits = (double)batch * (double)room / (double)(need + 2 * input);
    return error_context("the net's blobs need %.1f MiB at batch %d, and %.1f MiB are free: %s"
                         "batch %.0f would fit",
                         (double)need / 1048576, batch, (double)room / 1048576,
                         fits < 1 ? "not even " : "about ", fits < 1 ? 1 : floor(fits));
}

static bool lies_within(const struct planner *p, const struct tensor *tensor)
{
    const struct net_piece *piece = piece_of(p, tensor);

    return piece && piece->offset + tensor->bytes <= p->plan->bytes;
}

/* Sets `data` of all tensors to their place in the arena. */
static void point(const struct planner *p, float *arena)
{
    for (int i = 0; i < p->net->nblobs; i++) {
        struct blob *blob = p->net->blobs[i];
        assert(lies_within(p, &blob->value) && (!blob->wants_grad || lies_within(p, &blob->grad)));
        blob->value.data = arena + piece_of(p, &blob->value)->offset / sizeof *arena;
        if (blob->wants_grad)
            blob->grad.data = arena + piece_of(p, &blob->grad)->offset / sizeof *arena;
    }
    for (int i = 0; i < p->plan->npieces; i++)
        p->roots[i]->data = arena + p->plan->pieces[i].offset / sizeof *arena;
}

int net_place_blobs(struct net *net)
{
    size_t most = 2 * (size_t)net->nblobs + 1;
    struct net_memory_plan *plan = &net->internals->plan;
    struct planner p = {.net = net, .plan = plan};
    float *arena;
    int status = -1;

    plan->nsteps = net->train ? 2 * net->nlayers : net->nlayers;
    p.last = plan->nsteps - 1;
    if (OWN(&net->internals->owner, plan->pieces, most, "the memory plan") ||
        ALLOC(p.roots, most, "the memory plan"))
        goto done;
    find_lives(&p);
    if (arrange(plan))
        goto done;
    find_peak(plan);
    assert(plan->load <= plan->bytes && plan->bytes <= plan->apart);
    if (limited_room(net) && plan->bytes > limited_room(net)) {
        error_set("nothing was allocated");
        no_room(net);
        goto done;
    }
    if (plan->npieces > 0 && net_allocate(net, plan->bytes, "the arena of blobs", &arena)) {
        no_room(net);
        goto done;
    }
    if (plan->npieces > 0)
        point(&p, arena);
    status = 0;
done:
    free(p.roots);
    return status;
}

const struct net_memory_plan *net_memory_plan(const struct net *net)
{
    return &net->internals->plan;
}

void net_keep(struct net *net, const struct blob *blob)
{
    for (int i = 0; i < net->nblobs; i++)
        if (!blob || net->blobs[i] == blob)
            net->blobs[i]->kept = true;
}
