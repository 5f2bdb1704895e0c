/* Computes the average by the engine's own update, in any memory that the engine has: SGD without
 * momentum at rate 1, gradient (decay - 1) w, weight decay 1 - decay. */
#include "compute/average.h"

#include "util/agree.h"
#include "util/alloc.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int average_create(struct average *average, const struct job *job, const struct layer_env *env,
                   struct net *of)
{
    struct layer_env look = *env;
    char *repeated = NULL; /* notices that the net to train has given, too */
    int status;

    average->of = of;
    average->decay = job_rehearses(job) ? 0 : job->solver->average_decay;
    if (average->decay == 0 || !job->worker)
        return 0;
    look.look_only = true;
    look.ranks = NULL;
    look.trace = NULL;
    look.notices = &repeated;
    status = net_create(job->defs.train, false, &look, NULL, &average->net);
    free(repeated);
    return error_status(status || OWN(&average->owner, average->updates, average->net->ngroups + 1,
                                      "the average of the weights"));
}

int average_build(struct average *average, struct engine *engine)
{
    struct net *net = average->net;
    size_t largest = 1;

    if (!net)
        return 0;
    assert(net->elems == average->of->elems && net->ngroups == average->of->ngroups);
    for (int g = 0; g < net->ngroups; g++)
        if (net->groups[g].elems > largest)
            largest = net->groups[g].elems;
    if (net_hold(net, engine))
        return -1;
    average->scratch = device_own(&engine->device, &average->owner, largest * sizeof(float),
                                  "the average of the weights");
    return average->scratch ? 0 : -1;
}

static bool is_measured(const struct net *net, int group)
{
    return net->params[net->groups[group].first].statistic;
}

/* Updates a group's average from its weights; `first`: copies the weights. */
static int take_in(struct average *average, int group, bool first)
{
    const struct group *g = &average->net->groups[group];
    const struct engine *engine = average->net->engine;
    const float rest = 1 - average->decay;
    const struct device_update update = {.rule = first ? RULE_MEAN : RULE_SGD,
                                         .scale = first ? 1 : -rest,
                                         .rate = 1,
                                         .decay = first ? 0 : rest};

    return engine->device.i->services->update(engine->context, &update,
                                              average->net->engine_values + g->begin,
                                              average->of->engine_values + g->begin,
                                              average->scratch, g->elems, g->elems, DEVICE_IN_TURN);
}

int average_follow(struct average *average, int group)
{
    int64_t *updates;

    if (!average->net || is_measured(average->net, group))
        return 0;
    updates = &average->updates[group];
    if (*updates == average->now && average->now > 0)
        return 0;
    assert(average->now <= *updates + 1);
    *updates = average->now;
    return take_in(average, group, average->now <= 1);
}

/* Copies BatchNorm's statistics. Each rank has its own, even if ranks share an arena. */
static int take_measured(struct average *average)
{
    struct net *net = average->net, *of = average->of;
    bool pulled = false;

    for (int g = 0; g < net->ngroups; g++) {
        if (!is_measured(net, g))
            continue;
        if (!pulled && net_pull_values(of))
            return -1;
        pulled = true;
        for (int p = net->groups[g].first; p < net->groups[g].first + net->groups[g].nparams; p++)
            memcpy(net_host_value(net, &net->params[p]), net_host_value(of, &of->params[p]),
                   shape_elems(&of->params[p].shape) * sizeof(float));
        if (net_push_values(net, g))
            return -1;
    }
    return 0;
}

int average_settle(struct average *average, int64_t updates)
{
    average->now = updates;
    for (int g = 0; average->net && g < average->net->ngroups; g++) {
        if (average_follow(average, g))
            return -1;
        net_touch(average->net, g);
    }
    return average->net ? take_measured(average) : 0;
}

int average_fetch(const struct average *average)
{
    return average->net ? net_pull_values(average->net) : 0;
}

int average_begin_all(struct average *average, const struct job *job, int64_t updates, bool resumed,
                      const float *values)
{
    struct net *net = average->net;
    float *all;
    int status;

    average->now = updates;
    for (int g = 0; net && g < net->ngroups; g++)
        average->updates[g] = updates;
    if (average->decay == 0 || !resumed)
        return 0;
    all = alloc_array(average->of->elems, sizeof *all, "the average of the weights");
    status = error_agree(job->world, all ? 0 : -1);
    if (!status && values)
        memcpy(all, values, average->of->elems * sizeof *all);
    if (!status)
        status = agree_share(job->world, all, average->of->elems * sizeof *all);
    if (!status && net)
        memcpy(net->values, all, net->elems * sizeof *all);
    for (int g = 0; net && g < net->ngroups && !status; g++)
        status = net_push_values(net, g);
    free(all);
    return error_agree(job->world, status);
}

void average_close(struct average *average)
{
    owner_free(&average->owner);
    net_destroy(average->net);
}
