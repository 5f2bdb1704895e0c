/* Life of a sync. */
#include "sync/outbox.h"

#include "util/agree.h"
#include "util/error.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Broadcasts at set-up go in pieces: MPI counts are ints, and some transports dislike giants. */
enum { PIECE = 1 << 24 };

/* ---- tags ---- */

int tag_of(const struct sync *sync, bool parameters, int chunk, int64_t iteration)
{
    int64_t slot = iteration % sync->tag_period;

    return (int)((slot * sync->plan->nchunks + chunk) * 2 + (parameters ? 1 : 0));
}

static int fit_tags(struct sync *sync)
{
    int *upper = NULL, found = 0, chunks = sync->plan->nchunks > 0 ? sync->plan->nchunks : 1;

    MPI_TRY(MPI_Comm_get_attr(sync->all, MPI_TAG_UB, &upper, &found));
    sync->tag_period = ((found ? (int64_t)*upper : 32767) + 1) / 2 / chunks;
    if (sync->tag_period > 1 << 16)
        sync->tag_period = 1 << 16;
    if (sync->tag_period < 2 + sync->options.staleness)
        return error_set(
            "%d chunks need more message tags than this MPI has (%d); use a larger --chunk", chunks,
            found ? *upper : 32767);
    return 0;
fail:
    return -1;
}

/* ---- updates ---- */

static int update_piece(struct sync *sync, const struct update *u, const struct param *param,
                        size_t at, size_t n)
{
    const struct engine *engine = sync->net->engine;
    struct engine_update update;

    if (!sync->update.describe)
        return 0;
    if (sync->update.describe(sync->update.context, u->iteration, u->scale, param->lr_mult,
                              param->decay_mult, &update))
        return -1;
    if (u->place != UPDATE_ON_HOST)
        return engine->i->services->update(
            engine->context, &update, u->values + at, u->grad + at, u->history + at, u->stride, n,
            u->place == UPDATE_STORED ? ENGINE_STORED : ENGINE_IN_TURN);
    rule_update(&update, u->values + at, u->grad + at, u->history + at, u->stride, n);
    return 0;
}

int update_range(struct sync *sync, int group, const struct update *u)
{
    const struct plan *plan = sync->plan;
    size_t begin = u->begin, end = begin + u->elems;

    for (int m = plan->first_member[group]; m < plan->first_member[group + 1]; m++) {
        const struct param_group *g = &sync->net->groups[m];
        size_t at = g->begin;
        for (int p = 0; p < g->nparams; p++) {
            const struct param *param = &sync->net->params[g->first + p];
            size_t next = at + shape_elems(&param->shape);
            size_t from = at > begin ? at : begin, to = next < end ? next : end;
            if (from < to && update_piece(sync, u, param, from - begin, to - from))
                return error_context("layer '%s': the update", g->name);
            at = next;
        }
    }
    return 0;
}

int update_group(struct sync *sync, int group, int64_t iteration, float scale, const float *grad,
                 float *history)
{
    const struct param_group *g = &sync->plan->groups[group];
    const struct engine *engine = sync->options.engine;

    if (engine && engine->i->blank)
        return engine->i->services->update(engine->context, &(struct engine_update){.scale = scale},
                                           NULL, NULL, NULL, g->elems, g->elems, ENGINE_IN_TURN);
    return update_range(sync, group,
                        &(struct update){.place = UPDATE_ON_HOST,
                                         .iteration = iteration,
                                         .scale = scale,
                                         .begin = g->begin,
                                         .elems = g->elems,
                                         .values = sync->values + g->begin,
                                         .grad = grad,
                                         .history = history,
                                         .stride = g->elems});
}

/* ---- creation ---- */

static const struct syncer_i *syncer_of(const struct sync *sync, int group)
{
    const struct plan *plan = sync->plan;
    static const struct syncer_i *const table[SCHEMES] = {
        [SCHEME_PS] = &syncer_ps,
        [SCHEME_SFB] = &syncer_sfb,
        [SCHEME_ALLREDUCE] = &syncer_allreduce,
        [SCHEME_ADAM] = &syncer_adam,
        [SCHEME_ONEBIT] = &syncer_onebit,
    };

    if (!sync->speaks && plan_travels(plan, group))
        return plan->scheme[group] == SCHEME_SFB || plan->scheme[group] == SCHEME_ADAM
                   ? &syncer_member_factors
                   : &syncer_member;
    if (sync->remote && plan_is_alone(plan) && plan->groups[group].trains)
        return !sync->team              ? &syncer_resident
               : sync->options.clip > 0 ? &syncer_team_clipped
                                        : &syncer_team;
    if (plan->scheme[group] == SCHEME_NONE && plan->groups[group].trains)
        return &syncer_local;
    return table[plan->scheme[group]];
}

bool sync_settles(const struct sync *sync, int group)
{
    const struct syncer_i *syncer = sync->groups[group].syncer;

    /* a sum that was made at one rank's home is applied when it comes, unless clipping has to wait
     */
    return syncer->settle && (!syncer->norms_at_home || sync->options.clip > 0);
}

static int open_groups(struct sync *sync)
{
    const struct plan *plan = sync->plan;

    for (int g = 0; g < plan->ngroups; g++) {
        struct group_state *state = &sync->groups[g];
        state->posted = state->told = state->settled = state->running = sync->options.iteration;
        atomic_init(&state->done, sync->options.iteration);
        state->syncer = syncer_of(sync, g);
        state->lag = state->syncer == &syncer_ps ? sync->options.staleness : 0;
        if (state->syncer && state->syncer->open && state->syncer->open(sync, g))
            return -1;
    }
    return ps_open(sync);
}

/* Whether this rank adds the chunk up and gives its norm. */
static bool own_norm(struct sync *sync, int chunk)
{
    const struct syncer_i *syncer = sync->groups[sync->plan->chunks[chunk].group].syncer;

    return ps_serves(sync, chunk) ||
           (syncer && syncer->norms_at_home && plan_home(sync->plan, chunk) == sync->rank);
}

static int open_clip(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    struct clip_state *clip = &sync->clip;

    clip->scale = 1;
    atomic_init(&clip->done, sync->options.iteration);
    clip->own = calloc((size_t)plan->nchunks + 1, sizeof *clip->own);
    clip->all = calloc((size_t)plan->nchunks + 1, sizeof *clip->all);
    if (!clip->own || !clip->all)
        return error_memory((size_t)plan->nchunks * sizeof *clip->own, "clipping norms");
    for (int c = 0; c < plan->nchunks; c++)
        clip->own_chunks += own_norm(sync, c);
    clip->local = clip->own_chunks;
    for (int g = 0; g < plan->ngroups; g++)
        clip->has_factors |= plan->scheme[g] == SCHEME_SFB;
    return 0;
}

static int open_queues(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    size_t ring = 64, blocks = sync_history_blocks(sync);
    size_t served = 0, capacity;

    while (ring < (size_t)plan->ngroups * (size_t)(2 + sync->options.staleness) + 16)
        ring *= 2;
    for (int c = 0; c < plan->nchunks; c++)
        served += own_norm(sync, c);
    capacity = (size_t)plan->nchunks * (2 + 2 * (size_t)sync->options.staleness + blocks) +
               served * (size_t)(2 + sync->options.staleness) * (size_t)plan->nworkers +
               (size_t)plan->ngroups * 3 * (size_t)plan->nworkers + (size_t)sync->nranks + 16;
    if (capacity > INT_MAX)
        return error_set("%d chunks over %d workers are too many transfers; use a larger --chunk",
                         plan->nchunks, plan->nworkers);
    sync->capacity = (int)capacity;
    sync->ring_mask = ring - 1;
    sync->ring = calloc(ring, sizeof *sync->ring);
    sync->requests = calloc(capacity, sizeof *sync->requests);
    sync->transfers = calloc(capacity, sizeof *sync->transfers);
    sync->finished = calloc(capacity, sizeof *sync->finished);
    sync->completed = calloc(capacity, sizeof *sync->completed);
    sync->statuses = calloc(capacity, sizeof *sync->statuses);
    if (!sync->ring || !sync->requests || !sync->transfers || !sync->finished || !sync->completed ||
        !sync->statuses)
        return error_memory(capacity * sizeof *sync->transfers, "the transfers in flight");
    return sendq_open(sync, capacity, plan->nworkers + (plan->dedicated ? plan->nservers : 0));
}

/* The same digest everywhere, or the first rank that differs from rank 0 says so. */
static int check_digest(struct sync *sync)
{
    uint64_t mine = plan_digest(sync->plan, sync->options.digest), root = mine;

    MPI_TRY(MPI_Bcast(&root, 1, MPI_UINT64_T, 0, sync->all));
    if (mine != root)
        return error_set(
            "this rank's net, solver or options differ from rank 0's: start all ranks with "
            "the same files and the same command line");
    return 0;
fail:
    return -1;
}

static int split_communicators(struct sync *sync, MPI_Comm world)
{
    const struct {
        MPI_Comm *comm;
        bool member;
    } all[] = {{&sync->data, sync->speaks}, {&sync->control, sync->speaks},
               {&sync->sums, sync->worker}, {&sync->all, true},
               {&sync->asking, true},       {&sync->closing, true}};

    for (int i = 0; i < 6; i++) {
        MPI_TRY(MPI_Comm_split(world, all[i].member ? 0 : MPI_UNDEFINED, sync->world_rank,
                               all[i].comm));
        if (all[i].member)
            MPI_TRY(MPI_Comm_set_errhandler(*all[i].comm, MPI_ERRORS_RETURN));
    }
    return 0;
fail:
    return -1;
}

static int open_local(struct sync *sync)
{
    sync->groups = calloc((size_t)sync->plan->ngroups + 1, sizeof *sync->groups);
    sync->group_stalls = calloc((size_t)sync->plan->ngroups + 1, sizeof *sync->group_stalls);
    sync->group_sent = calloc((size_t)sync->plan->ngroups + 1, sizeof *sync->group_sent);
    sync->group_received = calloc((size_t)sync->plan->ngroups + 1, sizeof *sync->group_received);
    sync->values = sync->net->values;
    if (!sync->values) {
        sync->values = calloc(sync->net->elems + 1, sizeof *sync->values);
        sync->owns_values = true;
    }
    if (!sync->groups || !sync->group_stalls || !sync->group_sent || !sync->group_received ||
        !sync->values)
        return error_memory(sync->net->elems * sizeof *sync->values, "parameters");
    if (remote_open(sync) || fit_tags(sync) || open_groups(sync) || outbox_open(sync) ||
        open_clip(sync) || open_queues(sync))
        return -1;
    return 0;
}

int sync_create(MPI_Comm world, const struct plan *plan, struct net *net,
                const struct sync_update *update, const struct sync_options *options,
                struct sync **out)
{
    struct sync *sync = calloc(1, sizeof *sync);
    int status;

    *out = NULL;
    status = sync ? 0 : error_memory(sizeof *sync, "synchronisation");
    if (error_agree(world, status)) {
        free(sync);
        return -1;
    }
    MPI_Comm_rank(world, &sync->world_rank);
    MPI_Comm_size(world, &sync->nranks);
    sync->data = sync->control = sync->closing = sync->sums = sync->all = sync->asking =
        MPI_COMM_NULL;
    sync->plan = plan;
    sync->speaker = plan->speaker[sync->world_rank];
    sync->speaks = plan_speaks(plan, sync->world_rank);
    sync->rank = sync->speaks ? sync->speaker : -1;
    sync->net = net;
    sync->update = *update;
    sync->options = *options;
    sync->worker = plan_is_worker(plan, sync->world_rank);
    sync->remote =
        sync->worker && net->engine && net->engine->i->own_memory ? net->engine->i->copies : NULL;
    sync->scale = 1.0f / ((float)plan->ncomputing * (float)plan->options.iter_size);
    sync->my_failing = sync->lowest_failing = INT_MAX;
    sem_init(&sync->bell, 0, 0);
    sem_init(&sync->wake, 0, 0);
    atomic_init(&sync->served, options->iteration);
    if (error_agree(world, split_communicators(sync, world)) ||
        error_agree(world, check_digest(sync)) || node_open(sync, world) ||
        team_open(sync, world) || error_agree(world, direct_open(sync)) ||
        error_agree(world, open_local(sync))) {
        sync_destroy(sync);
        return -1;
    }
    *out = sync;
    return 0;
}

static int broadcast(MPI_Comm comm, float *values, size_t elems)
{
    for (size_t at = 0; at < elems; at += PIECE) {
        size_t n = elems - at < PIECE ? elems - at : PIECE;
        MPI_TRY(MPI_Bcast(values + at, (int)n, MPI_FLOAT, 0, comm));
    }
    return 0;
fail:
    return -1;
}

/* The nodes' arenas are in place before anybody reads them. Ranks of a team have their own. */
static int share_arenas(struct sync *sync)
{
    if (sync->options.node && sync->options.node->team)
        return broadcast(sync->all, sync->values, sync->net->elems);
    if (sync->speaks && broadcast(sync->control, sync->values, sync->net->elems))
        return -1;
    if (sync->node)
        MPI_TRY(MPI_Barrier(sync->options.node->comm));
    return 0;
fail:
    return -1;
}

/* Ranks of a node have their own, outside the arena (net_use_arenas). */
static int share_statistics(struct sync *sync)
{
    for (int p = 0; sync->plan->most_locals > 1 && p < sync->net->nparams; p++) {
        const struct param *param = &sync->net->params[p];
        float *values = param->value ? net_host_value(sync->net, param)
                                     : sync->values + net_param_begin(sync->net, p);
        if (param->statistic && broadcast(sync->all, values, shape_elems(&param->shape)))
            return -1;
    }
    return 0;
}

int sync_share_values(struct sync *sync)
{
    if (share_arenas(sync) || share_statistics(sync))
        return -1;
    for (int g = 0; g < sync->net->ngroups && sync->worker; g++) {
        if (net_push_values(sync->net, g))
            return -1;
        net_touch(sync->net, g);
    }
    return 0;
}

int sync_load_history(struct sync *sync, const float *history)
{
    const struct plan *plan = sync->plan;
    size_t largest = 1;
    float *piece, *whole = NULL;
    int status = 0;

    for (int c = 0; c < plan->nchunks; c++)
        largest = plan->chunks[c].elems > largest ? plan->chunks[c].elems : largest;
    piece = malloc(largest * sizeof *piece);
    if (error_agree(sync->all, piece ? 0 : error_memory(largest * sizeof *piece, "history"))) {
        free(piece);
        return -1;
    }
    for (int c = 0; c < plan->nchunks && !status; c++) {
        const struct chunk *chunk = &plan->chunks[c];
        const struct param_group *group = &plan->groups[chunk->group];
        const struct group_state *state = &sync->groups[chunk->group];
        float *mine = NULL;
        size_t stride = chunk->elems;

        if (ps_serves(sync, c) && !(mine = ps_history(sync, c)))
            status = -1;
        if (state->syncer && state->syncer->history && sync->worker) {
            if (c == plan->first_chunk[chunk->group]) /* once: fetching again would undo what was
                                                         written */
                whole = state->syncer->history(sync, chunk->group);
            if (!whole)
                status = -1;
            mine = whole ? whole + (chunk->begin - group->begin) : NULL;
            stride = group->elems;
        }
        for (int b = 0; b < sync->update.nhistory && !status; b++) {
            if (sync->rank == 0)
                memcpy(piece, history + (size_t)b * sync->net->elems + chunk->begin,
                       chunk->elems * sizeof *piece);
            status = broadcast(sync->all, piece, chunk->elems);
            if (mine && !status)
                memcpy(mine + (size_t)b * stride, piece, chunk->elems * sizeof *piece);
        }
    }
    free(piece);
    for (int g = 0; g < plan->ngroups && !status && sync->worker; g++)
        if (sync->groups[g].syncer && sync->groups[g].syncer->restore)
            status = sync->groups[g].syncer->restore(sync, g);
    if (!status)
        status = ps_restore(sync);
    return error_agree(sync->all, status);
}

int sync_start(struct sync *sync)
{
    if (pthread_create(&sync->thread, NULL, progress_main, sync))
        return error_set("the progress thread cannot be started");
    sync->started = true;
    return 0;
}

int sync_close(struct sync *sync, int status)
{
    char *mine = NULL;
    int lowest;

    if (!sync->started)
        return error_agree(sync->closing, status);
    if (status) {
        mine = strdup(error_text());
        if (!atomic_load(&sync->failed))
            ring_push(sync, EVENT_FAIL, -1);
    }
    ring_push(sync, EVENT_CLOSE, -1);
    pthread_join(sync->thread, NULL);
    sync->started = false;
    lowest = sync->lowest_failing;
    if (lowest == INT_MAX) {
        free(mine);
        return 0;
    }
    if (lowest == sync->world_rank)
        error_set("%s", sync->local_failure ? sync->failure : mine ? mine : "unknown failure");
    free(mine);
    return error_spread(sync->closing, lowest);
}

const struct sync_stats *sync_stats(struct sync *sync)
{
    clockid_t clock;
    struct timespec used;

    sync->stats.group_stall_seconds = sync->group_stalls;
    sync->stats.group_sent = sync->group_sent;
    sync->stats.group_received = sync->group_received;
    sync->stats.sent = atomic_load(&sync->sent);
    sync->stats.received = atomic_load(&sync->received);
    sync->stats.control_sent = atomic_load(&sync->control_sent);
    if (sync->started && !pthread_getcpuclockid(sync->thread, &clock) &&
        !clock_gettime(clock, &used))
        sync->stats.progress_cpu_seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    return &sync->stats;
}

void sync_destroy(struct sync *sync)
{
    MPI_Comm *all[] = {&sync->data, &sync->control, &sync->sums,
                       &sync->all,  &sync->asking,  &sync->closing};

    for (int g = 0; sync->groups && g < sync->plan->ngroups; g++)
        if (sync->groups[g].syncer && sync->groups[g].syncer->close)
            sync->groups[g].syncer->close(sync, g);
    ps_close(sync);
    outbox_close(sync);
    remote_close(sync);
    node_close(sync);
    team_close(sync);
    for (int i = 0; i < 6; i++)
        if (*all[i] != MPI_COMM_NULL)
            MPI_Comm_free(all[i]);
    sem_destroy(&sync->bell);
    sem_destroy(&sync->wake);
    if (sync->owns_values)
        free(sync->values);
    free(sync->groups);
    free(sync->group_stalls);
    free(sync->group_sent);
    free(sync->group_received);
    free(sync->clip.own);
    free(sync->clip.all);
    sendq_close(sync);
    free(sync->ring);
    free(sync->requests);
    free(sync->transfers);
    free(sync->finished);
    free(sync->completed);
    free(sync->statuses);
    free(sync->sum_values);
    free(sync->sum_result);
    free(sync);
}
