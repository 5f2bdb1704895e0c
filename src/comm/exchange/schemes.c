/* Fills the questions to plan_create and choose_comm, from options and shape. */
#include "exchange/schemes.h"

#include "exchange/saved_plan.h"
#include "plan/deal.h"
#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Returns the --comm in effect, without schemes of factors if gradients must stay whole: gradients
 * rebuilt from factors add up in another order. */
static struct comm comm_of(const struct exchange_options *o, const struct exchange_shape *shape)
{
    bool usual = o->comm.policy == COMM_PAPER || (o->comm.policy == COMM_AUTO && !shape->asks);

    if (!usual)
        return o->comm;
    return shape->whole_gradients ? (struct comm){.policy = COMM_SCHEME, .scheme = sync_schemes[0]}
                                  : (struct comm){.policy = COMM_PAPER};
}

void exchange_plan_options(const struct exchange_options *o, const struct exchange_shape *shape,
                           const struct exchange_net *net, int nranks, const struct way *way,
                           struct plan_options *out)
{
    *out = (struct plan_options){.registry = sync_schemes,
                                 .comm = comm_of(o, shape),
                                 .wire = o->wire,
                                 .ways = way,
                                 .nranks = nranks,
                                 .servers = o->servers,
                                 .nodes = shape->nodes.node,
                                 .parts = net->parts,
                                 .batch = net->batch,
                                 .grains = net->grains,
                                 .leaders_per_host = shape->leaders_per_host,
                                 .rails = shape->rails,
                                 .sizes = cost_sizes_keep(COST_USUAL_SIZES, &o->sizes),
                                 .lags = o->staleness > 0 || o->drop > 0,
                                 .drop = o->drop,
                                 .iter_size = net->iter_size,
                                 .dilate = o->dilate};
}

void exchange_cap(const struct exchange_shape *shape, double bytes_per_second,
                  struct cost_cluster *cluster)
{
    cost_cap(cluster, bytes_per_second, shape->leaders_per_host);
}

int exchange_plan(const struct exchange_options *o, const struct exchange_net *net,
                  const struct plan_options *how, struct plan **out)
{
    if (!plan_create(how, net->ngroups, net->groups, out))
        return 0;
    return o->comm.rank > 0 ? error_context("%s=%s", exchange_word(o, "--comm"), comm_name(o->comm))
                            : -1;
}

#define WORTH 0.01 /* fraction of an iteration that new shares must gain */

static int choose(const struct exchange_options *o, const struct exchange_shape *shape,
                  const struct exchange_net *net, const struct exchange_cluster *cluster,
                  const struct plan_options *how, struct choose_answer *out)
{
    struct plan_options open = *how;
    struct choose_question question = {.how = &open,
                                       .lossy = &o->lossy,
                                       .groups = net->groups,
                                       .whole_gradients = shape->whole_gradients,
                                       .play = cluster->play};

    open.sizes = o->sizes;
    open.dilate = cluster->dilate;
    question.play.overlap = o->overlap;
    question.play.fifo = o->fifo;
    if (!choose_comm(&question, out))
        return 0;
    return o->lossy.n > 0 ? error_context("%s=%s", exchange_word(o, "--lossy"), o->lossy.text) : -1;
}

void exchange_set_shares(struct simulate_pace *pace, const int *samples, int n, int batch)
{
    for (int w = 0; w < n; w++)
        pace[w].share = (double)samples[w] / batch;
}

/* Deals the batch by the time of passes and of the chosen schemes. workers: scratch, n places. */
static int deal_anew(const struct exchange_net *net, const struct layer_times *work,
                     double compute_seconds, const struct exchange_deal *deal,
                     struct deal_worker *workers, int n)
{
    double sample_s = layer_times_total(work) / net->batch;
    int64_t samples = 0;

    for (int w = 0; w < n; w++) {
        double speed = deal->pace[w].speed;
        workers[w] = (struct deal_worker){.samples_per_s = speed / sample_s,
                                          .pass_s = compute_seconds / speed,
                                          .most = deal->most ? deal->most[w] : INT32_MAX};
        samples += deal->share[w];
    }
    return deal_samples(workers, n, samples, 1, deal->share);
}

int exchange_choose(const struct exchange_options *o, const struct exchange_shape *shape,
                    const struct exchange_net *net, const struct exchange_cluster *cluster,
                    const struct plan_options *how, struct exchange_deal *deal,
                    struct choose_answer *out)
{
    int n = how->nranks - how->servers, status, *old_share = NULL;
    struct deal_worker *workers = NULL;
    struct choose_answer redealt = {.way = NULL};

    if (choose(o, shape, net, cluster, how, out))
        return -1;
    if (!deal || n == 1)
        return 0;
    deal->before = deal->after = out->seconds;
    status = error_status(ALLOC(workers, n, "shares") || ALLOC(old_share, n, "shares"));
    if (!status)
        memcpy(old_share, deal->share, (size_t)n * sizeof *old_share);
    if (!status)
        status = deal_anew(net, cluster->play.work, out->compute_seconds, deal, workers, n);
    if (!status) {
        exchange_set_shares(deal->pace, deal->share, n, net->batch);
        status = choose(o, shape, net, cluster, how, &redealt);
    }
    if (!status && redealt.seconds < deal->before * (1 - WORTH)) {
        choose_answer_free(out);
        *out = redealt;
        deal->after = redealt.seconds;
    } else if (!status) {
        choose_answer_free(&redealt);
        memcpy(deal->share, old_share, (size_t)n * sizeof *old_share);
        exchange_set_shares(deal->pace, deal->share, n, net->batch);
    }
    if (status)
        choose_answer_free(out);
    free(workers);
    free(old_share);
    return error_status(status);
}

bool exchange_keep(const struct exchange_options *o, const struct exchange_shape *shape,
                   const struct exchange_net *net, const char *saved_plan, struct plan_options *how,
                   struct way *way)
{
    int nodes = shape->nodes.node ? shape->nodes.nnodes : how->nranks - how->servers;

    if (!shape->asks || o->measure ||
        !saved_plan_read(how, nodes, &o->lossy, net->ngroups, net->groups, saved_plan, way))
        return false;
    for (int g = 0; g < net->ngroups; g++)
        if (shape->whole_gradients && way[g].scheme && !scheme_sums_gradients(way[g].scheme))
            return false;
    how->sizes =
        cost_sizes_keep(how->sizes, &o->sizes); /* sizes that options give win over the plan's */
    return true;
}
