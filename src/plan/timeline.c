/* What an iteration lasts.
 *
 * One link per rank, one bucket on it at a time. The trick: gradients become final from the last
 * layer to the first, and the first layer's parameters are needed first, so under priority whatever
 * becomes ready overtakes all that waits: the link is a stack. All traffic of an iteration is over
 * before the next one's backward starts (its forward needed it), so one iteration's times are all
 * iterations'. */
#include "plan/timeline.h"

#include "util/error.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cost_overlap_words[] = {[COST_OVERLAP_NONE] = "none",
                                          [COST_OVERLAP_BACKWARD] = "backward",
                                          [COST_OVERLAP_WFBP] = "wfbp",
                                          NULL};

const char *cost_overlap_name(enum cost_overlap overlap)
{
    return cost_overlap_words[overlap];
}

/* ---- work ---- */

int cost_work_create(int nlayers, int ngroups, struct cost_work *out)
{
    size_t layers = (size_t)nlayers + 1, groups = (size_t)ngroups + 1;

    *out = (struct cost_work){.nlayers = nlayers, .ngroups = ngroups};
    out->forward = calloc(layers, sizeof *out->forward);
    out->backward = calloc(layers, sizeof *out->backward);
    out->layer = calloc(groups, sizeof *out->layer);
    if (out->forward && out->backward && out->layer)
        return 0;
    cost_work_free(out);
    return error_memory(layers * 2 * sizeof(double), "the layers' times");
}

double cost_work_seconds(const struct cost_work *work)
{
    double total = 0;

    for (int l = 0; l < work->nlayers; l++)
        total += work->forward[l] + work->backward[l];
    return total;
}

void cost_work_scale(struct cost_work *work, double seconds)
{
    double factor = seconds / cost_work_seconds(work);

    for (int l = 0; l < work->nlayers; l++) {
        work->forward[l] *= factor;
        work->backward[l] *= factor;
    }
}

void cost_work_free(struct cost_work *work)
{
    free(work->forward);
    free(work->backward);
    free(work->layer);
    memset(work, 0, sizeof *work);
}

/* ---- timeline ---- */

struct timeline {
    const struct cost_work *work;
    enum cost_overlap overlap;
    int nitems;
    int *layer;       /* per item */
    double backward;  /* seconds of all of it */
    double *ready;    /* per item: its gradient is final; 0 is the start of backward */
    double *done;     /* its parameters have arrived */
    double *left;     /* of its time on the link */
    int *order;       /* items as their gradients become final */
    int *stack;       /* items on the link, the one being served last */
    double copied_in; /* when the device has got all that has come so far */
};

/* Descending by layer, of one layer by number: as gradients become final. */
static void sort_items(struct timeline *line)
{
    for (int i = 0; i < line->nitems; i++) {
        int item = line->nitems - 1 - i, at = i;
        while (at > 0 && line->layer[line->order[at - 1]] < line->layer[item]) {
            line->order[at] = line->order[at - 1];
            at--;
        }
        line->order[at] = item;
    }
}

/* The backward pass is the same whatever is chosen: it is run here, once. */
static void run_backward(struct timeline *line)
{
    const struct cost_work *work = line->work;
    double now = 0;
    int next = 0;

    sort_items(line);
    for (int l = work->nlayers - 1; l >= 0; l--) {
        now += work->backward[l];
        for (; next < line->nitems && line->layer[line->order[next]] == l; next++)
            line->ready[line->order[next]] = now;
    }
    line->backward = now;
    for (int i = 0; i < line->nitems && line->overlap == COST_OVERLAP_NONE; i++)
        line->ready[i] = now;
}

int timeline_create(const struct cost_work *work, int nitems, const int *layer,
                    enum cost_overlap overlap, struct timeline **out)
{
    size_t n = (size_t)nitems + 1;
    struct timeline *line = *out = calloc(1, sizeof *line);

    if (!line)
        return error_memory(sizeof *line, "the timeline");
    line->work = work;
    line->overlap = overlap;
    line->nitems = nitems;
    line->ready = calloc(3 * n, sizeof *line->ready);
    line->order = calloc(3 * n, sizeof *line->order);
    if (!line->ready || !line->order) {
        timeline_destroy(line);
        *out = NULL;
        return error_memory(3 * n * sizeof *line->ready, "the timeline");
    }
    line->done = line->ready + n;
    line->left = line->done + n;
    line->stack = line->order + n;
    line->layer = line->stack + n;
    for (int i = 0; i < nitems; i++) {
        assert(layer[i] >= 0 && layer[i] < work->nlayers);
        line->layer[i] = layer[i];
    }
    run_backward(line);
    return 0;
}

void timeline_destroy(struct timeline *line)
{
    if (!line)
        return;
    free(line->ready);
    free(line->order);
    free(line);
}

/* The item has come to the host: one after the other goes to the device. */
static void copy_in(struct timeline *line, const struct cost *cost, int item, double came)
{
    double start = cost->copy_in_seconds > 0 && line->copied_in > came ? line->copied_in : came;

    line->done[item] = start + cost->copy_in_seconds;
    line->copied_in = line->done[item];
}

/* Until `until`, the link serves what lies on top of the stack. Returns the stack's new height. */
static int serve_stack(struct timeline *line, const struct cost *costs, int height, double *now,
                       double until)
{
    while (height > 0 && *now < until) {
        int i = line->stack[height - 1];
        double slice = line->left[i] < until - *now ? line->left[i] : until - *now;
        *now += slice;
        line->left[i] -= slice;
        if (line->left[i] > 0)
            break;
        copy_in(line, &costs[i], i,
                *now + costs[i].seconds - costs[i].busy_seconds - costs[i].compute_seconds -
                    costs[i].copy_out_seconds - costs[i].copy_in_seconds);
        height--;
    }
    return height;
}

/* Gradients leave the device one after the other as they become final. */
static void run_link(struct timeline *line, const struct cost *costs)
{
    double now = 0, copied_out = 0;
    int height = 0;

    line->copied_in = 0;
    for (int next = 0; next < line->nitems; next++) {
        int i = line->order[next];
        copied_out =
            (copied_out > line->ready[i] ? copied_out : line->ready[i]) + costs[i].copy_out_seconds;
        if (now < copied_out) {
            height = serve_stack(line, costs, height, &now, copied_out);
            now = copied_out;
        }
        line->left[i] = costs[i].busy_seconds;
        line->stack[height++] = i;
        if (line->overlap != COST_OVERLAP_WFBP)
            height = serve_stack(line, costs, height, &now, HUGE_VAL);
    }
    serve_stack(line, costs, height, &now, HUGE_VAL);
}

/* Forward of the next iteration, from the end of backward; returns its end. */
static double run_forward(const struct timeline *line, const struct cost *costs)
{
    double now = line->backward;
    int next = line->nitems - 1;

    for (int i = 0; i < line->nitems && line->overlap != COST_OVERLAP_WFBP; i++)
        now = line->done[i] > now ? line->done[i] : now;
    for (int l = 0; l < line->work->nlayers; l++) {
        for (; next >= 0 && line->layer[line->order[next]] == l; next--) {
            int i = line->order[next];
            now = line->done[i] > now ? line->done[i] : now;
            now += costs[i].compute_seconds;
        }
        now += line->work->forward[l];
    }
    return now;
}

static void sum_costs(const struct timeline *line, const struct cost *costs,
                      struct cost_iteration *out)
{
    struct cost_side worker = {0, 0}, server = {0, 0};
    const struct cost_side *most;

    out->compute_seconds = cost_work_seconds(line->work);
    for (int i = 0; i < line->nitems; i++) {
        out->compute_seconds += costs[i].compute_seconds + costs[i].stolen_seconds;
        out->wire_seconds += costs[i].wire_seconds;
        if (__builtin_add_overflow(out->bytes, costs[i].bytes, &out->bytes))
            out->bytes = UINT64_MAX;
        worker.sent += costs[i].worker.sent;
        worker.received += costs[i].worker.received;
        server.sent += costs[i].server.sent;
        server.received += costs[i].server.received;
    }
    most = server.sent + server.received > worker.sent + worker.received ? &server : &worker;
    out->sent = most->sent;
    out->received = most->received;
}

void timeline_play(struct timeline *line, const struct cost *costs, struct cost_iteration *out)
{
    memset(out, 0, sizeof *out);
    run_link(line, costs);
    out->seconds = run_forward(line, costs);
    sum_costs(line, costs, out);
    if (out->seconds < out->compute_seconds) /* nothing is stolen while the passes wait */
        out->seconds = out->compute_seconds;
    out->exposed_seconds = out->seconds - out->compute_seconds;
    if (out->exposed_seconds < 1e-12 * out->seconds) /* sums in another order differ by that much */
        out->exposed_seconds = 0;
}

int cost_layer_of(const struct cost_work *work, const struct plan *plan, int bucket)
{
    const struct bucket *b = &plan->buckets[bucket];
    int layer = work->layer[b->first_group];

    for (int g = 1; g < b->ngroups; g++)
        if (work->layer[b->first_group + g] < layer)
            layer = work->layer[b->first_group + g];
    return layer;
}

/* costs: one per bucket (cost_plan). */
static int iterate(const struct cost_work *work, const struct plan *plan, const struct cost *costs,
                   enum cost_overlap overlap, struct cost_iteration *out)
{
    int *layer = calloc((size_t)plan->nbuckets + 1, sizeof *layer);
    struct timeline *line;

    assert(plan->ngroups == work->ngroups);
    if (!layer)
        return error_memory((uint64_t)plan->nbuckets * sizeof *layer, "the timeline");
    for (int b = 0; b < plan->nbuckets; b++)
        layer[b] = cost_layer_of(work, plan, b);
    if (timeline_create(work, plan->nbuckets, layer, overlap, &line)) {
        free(layer);
        return -1;
    }
    timeline_play(line, costs, out);
    timeline_destroy(line);
    free(layer);
    return 0;
}

int cost_predict(const struct cost_work *work, const struct cost_cluster *cluster,
                 const struct plan_options *how, const struct group *groups,
                 enum cost_overlap overlap, struct cost_iteration *out)
{
    struct plan *plan;
    struct cost *costs;
    int status;

    if (plan_create(how, work->ngroups, groups, &plan))
        return -1;
    costs = calloc((size_t)plan->nbuckets + 1, sizeof *costs);
    if (!costs) {
        plan_destroy(plan);
        return error_memory((uint64_t)work->ngroups * sizeof *costs, "the plan's costs");
    }
    cost_plan(cluster, plan, costs);
    status = iterate(work, plan, costs, overlap, out);
    free(costs);
    plan_destroy(plan);
    return status;
}
