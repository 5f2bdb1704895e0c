/* What an iteration lasts, and the choice of schemes that makes it shortest.
 *
 * One link per rank, one layer on it at a time. The trick: gradients become final from the last
 * layer to the first, and the first layer's parameters are needed first, so under priority whatever
 * becomes ready overtakes all that waits: the link is a stack. All traffic of an iteration is over
 * before the next one's backward starts (its forward needed it), so one iteration's times are all
 * iterations'. */
#include "plan/cost.h"

#include "engine/replay/profile.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORTH_CHANGING 1e-3 /* of an iteration */
#define EQUAL          1e-9 /* of a layer's seconds */

static double moved_bytes(const struct layer *layer)
{
    double bytes = 0;

    for (int b = 0; b < layer->nbottoms; b++)
        bytes += (double)shape_elems(&layer->bottoms[b]->value.shape) * sizeof(float);
    for (int t = 0; t < layer->ntops; t++)
        bytes += (double)shape_elems(&layer->tops[t]->value.shape) * sizeof(float);
    return bytes;
}

/* Backward of a layer with parameters has one product for the weights' gradient and one for the
 * bottoms', each as large as the forward product. */
static double backward_products(const struct layer *layer)
{
    bool weights = false, bottoms = false;

    for (int p = 0; p < layer->nparams; p++)
        weights |= layer->params[p]->wants_grad;
    for (int b = 0; b < layer->nbottoms; b++)
        bottoms |= layer->propagate[b];
    return !layer->needs_backward ? 0
           : layer->nparams == 0  ? 1
                                  : (weights ? 1 : 0) + (bottoms ? 1 : 0);
}

static void find_layers(const struct net *net, struct cost_work *work)
{
    int groups[LAYER_MAX_PARAMS];

    for (int g = 0; g < net->ngroups; g++)
        work->layer[g] = net->groups[g].layer;
    for (int l = net->nlayers - 1; l >= 0; l--) {
        int n = net_groups_of(net, l, groups);
        for (int i = 0; i < n; i++)
            work->layer[groups[i]] = l;
    }
}

static int work_allocate(const struct net *net, struct cost_work *out)
{
    size_t layers = (size_t)net->nlayers + 1, groups = (size_t)net->ngroups + 1;

    *out =
        (struct cost_work){.nlayers = net->nlayers, .ngroups = net->ngroups, .groups = net->groups};
    out->forward = calloc(layers, sizeof *out->forward);
    out->backward = calloc(layers, sizeof *out->backward);
    out->layer = calloc(groups, sizeof *out->layer);
    if (!out->forward || !out->backward || !out->layer) {
        cost_work_free(out);
        return error_memory(layers * 2 * sizeof(double), "the layers' times");
    }
    find_layers(net, out);
    return 0;
}

int cost_work_create(const struct net *net, const struct cost_cluster *cluster,
                     struct cost_work *out)
{
    if (work_allocate(net, out))
        return -1;
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        double products = layer->flops / cluster->gemm_flops;
        double moves =
            moved_bytes(layer) / 2 / cluster->copy_Bps; /* a copy reads and writes each byte */
        out->forward[l] = products > moves ? products : moves;
        out->backward[l] = backward_products(layer) * out->forward[l];
    }
    return 0;
}

/* Layers that the net inserted (splits) may be missing in the file. */
static int take_times(const struct net *net, const struct profile *profile, struct cost_work *work)
{
    for (int l = 0; l < net->nlayers; l++) {
        const struct profile_layer *times = profile_find(profile, net->layers[l].def->name);
        if (!times && net->layers[l].def->inserted)
            continue;
        if (!times)
            return error_set("%s: there is no line for layer '%s' of %s", profile->file,
                             net->layers[l].def->name, net->def->file);
        work->forward[l] = times->forward;
        work->backward[l] = times->backward;
    }
    return cost_work_seconds(work) > 0 ? 0
                                       : error_set("%s: all layers' times are 0", profile->file);
}

int cost_work_profile(const struct net *net, const char *file, struct cost_cluster *cluster,
                      struct cost_work *out)
{
    const struct profile_layer *product, *update;
    struct profile profile;
    int status;

    memset(out, 0, sizeof *out);
    if (profile_read(file, &profile))
        return -1;
    status = work_allocate(net, out) || take_times(net, &profile, out) ? -1 : 0;
    product = profile_find(&profile, PROFILE_GEMM);
    if (!status && product && product->forward > 0)
        cluster->gemm_flops = 1e9 / product->forward;
    update = profile_find(&profile, PROFILE_UPDATE);
    if (!status && update && update->forward > 0)
        cluster->update_Bps = 1e9 * sizeof(float) / update->forward;
    if (status)
        cost_work_free(out);
    profile_free(&profile);
    return status;
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

struct timeline {
    double backward; /* seconds of all of it */
    double *ready;   /* per group: its gradient is final; 0 is the start of backward */
    double *done;    /* its parameters have arrived */
    double *left;    /* of its time on the link */
    int *order;      /* groups as their gradients become final */
    int *stack;      /* groups on the link, the one being served last */
};

static void run_backward(const struct cost_work *work, enum cost_overlap overlap,
                         struct timeline *line)
{
    double now = 0;
    int n = 0;

    for (int l = work->nlayers - 1; l >= 0; l--) {
        now += work->backward[l];
        for (int g = work->ngroups - 1; g >= 0; g--)
            if (work->layer[g] == l) {
                line->ready[g] = now;
                line->order[n++] = g;
            }
    }
    line->backward = now;
    for (int g = 0; g < work->ngroups && overlap == COST_OVERLAP_NONE; g++)
        line->ready[g] = now;
}

static void timeline_free(struct timeline *line)
{
    free(line->ready);
    free(line->order);
}

/* The backward pass is the same whatever is chosen: it is run here, once. */
static int timeline_create(const struct cost_work *work, enum cost_overlap overlap,
                           struct timeline *out)
{
    size_t n = (size_t)work->ngroups + 1;

    out->ready = calloc(3 * n, sizeof *out->ready);
    out->order = calloc(2 * n, sizeof *out->order);
    if (!out->ready || !out->order) {
        timeline_free(out);
        return error_memory(3 * n * sizeof *out->ready, "the timeline");
    }
    out->done = out->ready + n;
    out->left = out->done + n;
    out->stack = out->order + n;
    run_backward(work, overlap, out);
    return 0;
}

/* Until `until`, the link serves what lies on top of the stack. Returns the stack's new height. */
static int serve_stack(struct timeline *line, const struct cost *chosen, int height, double *now,
                       double until)
{
    while (height > 0 && *now < until) {
        int g = line->stack[height - 1];
        double slice = line->left[g] < until - *now ? line->left[g] : until - *now;
        *now += slice;
        line->left[g] -= slice;
        if (line->left[g] > 0)
            break;
        line->done[g] =
            *now + chosen[g].seconds - chosen[g].compute_seconds - chosen[g].busy_seconds;
        height--;
    }
    return height;
}

static void run_link(const struct cost_work *work, const struct cost *chosen, bool urgent_first,
                     struct timeline *line)
{
    double now = 0;
    int height = 0;

    for (int i = 0; i < work->ngroups; i++) {
        int g = line->order[i];
        if (now < line->ready[g]) {
            height = serve_stack(line, chosen, height, &now, line->ready[g]);
            now = line->ready[g];
        }
        line->left[g] = chosen[g].busy_seconds;
        line->stack[height++] = g;
        if (!urgent_first)
            height = serve_stack(line, chosen, height, &now, HUGE_VAL);
    }
    serve_stack(line, chosen, height, &now, HUGE_VAL);
}

/* Forward of the next iteration, from the end of backward; returns its end. */
static double run_forward(const struct cost_work *work, const struct cost *chosen,
                          enum cost_overlap overlap, const struct timeline *line)
{
    double now = line->backward;
    int next = work->ngroups - 1;

    for (int g = 0; g < work->ngroups && overlap != COST_OVERLAP_FULL; g++)
        now = line->done[g] > now ? line->done[g] : now;
    for (int l = 0; l < work->nlayers; l++) {
        for (; next >= 0 && work->layer[line->order[next]] == l; next--) {
            int g = line->order[next];
            now = line->done[g] > now ? line->done[g] : now;
            now += chosen[g].compute_seconds;
        }
        now += work->forward[l];
    }
    return now;
}

static void sum_costs(const struct cost_work *work, const struct cost *chosen,
                      struct cost_iteration *out)
{
    struct cost_side worker = {0, 0}, server = {0, 0};
    const struct cost_side *most;

    out->compute_seconds = cost_work_seconds(work);
    for (int g = 0; g < work->ngroups; g++) {
        out->compute_seconds += chosen[g].compute_seconds + chosen[g].stolen_seconds;
        out->wire_seconds += chosen[g].wire_seconds;
        if (__builtin_add_overflow(out->bytes, chosen[g].bytes, &out->bytes))
            out->bytes = UINT64_MAX;
        worker.sent += chosen[g].worker.sent;
        worker.received += chosen[g].worker.received;
        server.sent += chosen[g].server.sent;
        server.received += chosen[g].server.received;
    }
    most = server.sent + server.received > worker.sent + worker.received ? &server : &worker;
    out->sent = most->sent;
    out->received = most->received;
}

static void play(const struct cost_work *work, const struct cost *chosen, enum cost_overlap overlap,
                 struct timeline *line, struct cost_iteration *out)
{
    memset(out, 0, sizeof *out);
    run_link(work, chosen, overlap == COST_OVERLAP_FULL, line);
    out->seconds = run_forward(work, chosen, overlap, line);
    sum_costs(work, chosen, out);
    if (out->seconds < out->compute_seconds) /* nothing is stolen while the passes wait */
        out->seconds = out->compute_seconds;
    out->exposed_seconds = out->seconds - out->compute_seconds;
    if (out->exposed_seconds < 1e-12 * out->seconds) /* sums in another order differ by that much */
        out->exposed_seconds = 0;
}

int cost_iterate(const struct cost_work *work, const struct cost *chosen, enum cost_overlap overlap,
                 struct cost_iteration *out)
{
    struct timeline line;

    if (timeline_create(work, overlap, &line))
        return -1;
    play(work, chosen, overlap, &line, out);
    timeline_free(&line);
    return 0;
}

/* Alone; see cost_choose on ties. */
static bool cheaper(const struct cost *a, const struct cost *b)
{
    double limit = EQUAL * (a->seconds > b->seconds ? a->seconds : b->seconds);

    if (a->seconds < b->seconds - limit || b->seconds < a->seconds - limit)
        return a->seconds < b->seconds;
    return a->bytes < b->bytes;
}

struct chooser {
    const struct cost_work *work;
    enum cost_overlap overlap;
    struct cost *table; /* SCHEMES per group */
    struct cost *now;   /* per group */
    struct cost *best;  /* per group */
    struct timeline line;
    double seconds; /* of best; < 0: none yet */
};

static void offer(struct chooser *c)
{
    struct cost_iteration iteration;

    play(c->work, c->now, c->overlap, &c->line, &iteration);
    if (c->seconds >= 0 && iteration.seconds > c->seconds * (1 - WORTH_CHANGING))
        return;
    c->seconds = iteration.seconds;
    memcpy(c->best, c->now, (size_t)c->work->ngroups * sizeof *c->now);
}

static bool allows(cost_schemes_t allowed, int scheme)
{
    return (allowed >> scheme & 1u) != 0;
}

/* Every layer by what is cheapest for it alone, among `allowed`. */
static void offer_cheapest(struct chooser *c, cost_schemes_t allowed)
{
    for (int g = 0; g < c->work->ngroups; g++) {
        const struct cost *row = c->table + (size_t)g * SCHEMES;
        c->now[g] = row[SCHEME_NONE];
        for (int s = SCHEME_PS; s < SCHEMES; s++)
            if (allows(allowed, s) && row[s].possible &&
                (c->now[g].scheme == SCHEME_NONE || cheaper(&row[s], &c->now[g])))
                c->now[g] = row[s];
    }
    offer(c);
}

/* `scheme` where it can be, else what is cheapest. */
static void offer_single(struct chooser *c, cost_schemes_t allowed, int scheme)
{
    for (int g = 0; g < c->work->ngroups; g++) {
        const struct cost *row = c->table + (size_t)g * SCHEMES;
        c->now[g] = row[SCHEME_NONE];
        if (row[scheme].possible)
            c->now[g] = row[scheme];
        for (int s = SCHEME_PS; s < SCHEMES && !row[scheme].possible; s++)
            if (allows(allowed, s) && row[s].possible &&
                (c->now[g].scheme == SCHEME_NONE || cheaper(&row[s], &c->now[g])))
                c->now[g] = row[s];
    }
    offer(c);
}

static void change_single_layers(struct chooser *c, cost_schemes_t allowed)
{
    double before;

    do {
        before = c->seconds;
        for (int g = 0; g < c->work->ngroups; g++)
            for (int s = SCHEME_PS; s < SCHEMES; s++) {
                const struct cost *other = c->table + (size_t)g * SCHEMES + s;
                if (!allows(allowed, s) || !other->possible || c->best[g].scheme == other->scheme)
                    continue;
                memcpy(c->now, c->best, (size_t)c->work->ngroups * sizeof *c->now);
                c->now[g] = *other;
                offer(c);
            }
    } while (c->seconds < before);
}

int cost_choose(const struct cost_work *work, const struct cost_cluster *cluster,
                const struct cost_setup *setup, enum cost_overlap overlap, cost_schemes_t allowed,
                enum scheme *scheme, struct cost_iteration *out)
{
    size_t groups = (size_t)work->ngroups;
    struct chooser c = {.work = work, .overlap = overlap, .seconds = -1};
    int status = -1;

    if (timeline_create(work, overlap, &c.line))
        return -1;
    c.table = calloc((groups + 1) * (SCHEMES + 2), sizeof *c.table);
    if (!c.table) {
        error_memory((groups + 1) * (SCHEMES + 2) * sizeof *c.table, "the costs of all schemes");
        goto done;
    }
    c.now = c.table + groups * SCHEMES;
    c.best = c.now + groups;
    for (size_t g = 0; g < groups; g++)
        for (int s = 0; s < SCHEMES; s++)
            c.table[g * SCHEMES + (size_t)s] =
                cost_of(cluster, setup, &work->groups[g], (enum scheme)s);
    offer_cheapest(&c, allowed);
    for (int s = SCHEME_PS; s < SCHEMES; s++)
        if (allows(allowed, s))
            offer_single(&c, allowed, s);
    change_single_layers(&c, allowed);
    for (size_t g = 0; g < groups; g++)
        scheme[g] = c.best[g].scheme;
    play(work, c.best, overlap, &c.line, out);
    status = 0;
done:
    free(c.table);
    timeline_free(&c.line);
    return status;
}
