/* Who sends what to whom, out of the plan and what a scheme's table says of itself: gradients or
 * factors to the homes of chunks and answers back, directly or along trees, or factors to all. */
#include "plan/tree.h"
#include "simulate/simulate_internal.h"

static bool to_all(const struct bucket *bucket)
{
    return bucket->scheme && bucket->scheme->home == HOME_NOBODY;
}

/* Factors come to a home whole, and only of all of them it makes the sum. */
static int parts_up(const struct bucket *bucket, const struct unit *unit)
{
    return bucket->scheme->factors ? 1 : unit->pieces;
}

static uint64_t cut(uint64_t bytes, int piece, int pieces)
{
    return bytes * (uint64_t)(piece + 1) / (uint64_t)pieces -
           bytes * (uint64_t)piece / (uint64_t)pieces;
}

static int *came_of(struct simulation *s, const struct unit *unit, int actor, int piece,
                    int iteration)
{
    int row = s->plan->buckets[unit->bucket].log_steps ? actor : 0;

    return &s->came[unit->first_came + (row * unit->pieces + piece) * 2 + (iteration & 1)];
}

static void occupy_thread(struct simulation *s, int actor, double seconds)
{
    busy(&s->actors[actor].thread_free, s->now, seconds);
}

static uint64_t factor_bytes(const struct simulation *s, const struct actor *a, int bucket)
{
    uint64_t bytes = 0;

    for (int l = a->first; l < a->first + a->members; l++)
        bytes += plan_factor_bytes(s->plan, bucket, l);
    return bytes;
}

/* ---- to homes ---- */

/* How many sums the actor adds up in the tree: its own gradient and its children's. */
static int tree_sums(const struct simulation *s, const struct unit *unit, int actor)
{
    int children[TREE_MOST_CHILDREN];

    return 1 + tree_children(s->nworkers, unit->home, actor, children);
}

/* Through a block's part of a tree, up before its sum leaves; at the root also down, once for all
 * blocks. */
static double inner_seconds(const struct simulation *s, const struct unit *unit, int actor)
{
    double bytes = (double)unit->gradient_bytes, messages = unit->chunks;
    double hop;

    if (unit->home == actor) {
        bytes += (double)unit->back_bytes;
        messages *= 2;
    }
    hop = messages / unit->chunks * s->cluster->latency_seconds +
          (messages * s->cluster->message_seconds + bytes / s->cluster->link_Bps) / unit->pieces;
    return hop * tree_steps(s->actors[actor].members);
}

/* A gradient, or the sum of a part of a tree, has come to where it is added up. */
static int give(struct simulation *s, int actor, int unit, int piece, int iteration)
{
    const struct unit *u = &s->units[unit];
    const struct bucket *b = &s->plan->buckets[u->bucket];
    const struct actor *a = &s->actors[actor];
    int *came = came_of(s, u, actor, piece, iteration);
    int sums = b->log_steps ? tree_sums(s, u, actor) : s->nworkers;
    double seconds = u->work_seconds / s->nworkers / parts_up(b, u), later;

    if (!b->scheme->factors)
        occupy_thread(s, actor, seconds / a->members);
    if (++*came < sums)
        return 0;
    *came = 0;
    if (b->scheme->factors) {
        seconds = u->work_seconds;
        occupy_thread(s, actor, seconds / a->members);
    }
    /* what came last takes longer where its homes are fewer than the actor's threads */
    later = b->log_steps ? inner_seconds(s, u, actor) : seconds / u->homes - seconds / a->members;
    return events_put(&s->events, (struct event){.time = a->thread_free + later,
                                                 .kind = EVENT_SUM,
                                                 .actor = actor,
                                                 .index = unit,
                                                 .piece = piece,
                                                 .iteration = iteration});
}

static int send_gradient(struct simulation *s, int actor, int unit, int piece, int iteration)
{
    const struct unit *u = &s->units[unit];
    const struct bucket *b = &s->plan->buckets[u->bucket];
    const struct actor *a = &s->actors[actor];
    bool mine = actor == u->home;
    uint64_t one = cut(u->gradient_bytes, piece, u->pieces), all = one * (uint64_t)a->members;
    double count = (double)u->chunks / u->pieces * a->members;

    if (b->scheme->factors) { /* one owner */
        all = factor_bytes(s, a, u->bucket);
        one = plan_factor_bytes(s->plan, u->bucket, a->first);
        count = a->members;
    }
    if (mine && a->members == 1)
        return give(s, actor, unit, piece, iteration);
    return fabric_send(s, &(struct parcel){.from = actor,
                                           .to = u->home,
                                           .bucket = u->bucket,
                                           .unit = unit,
                                           .piece = piece,
                                           .iteration = iteration,
                                           .bytes = all - (mine ? one : 0),
                                           .count = count,
                                           .narrow = u->homes});
}

/* Chunk after chunk from where training begins, too; where several travel as one, from there
 * about. */
static int send_gradients(struct simulation *s, int actor, int bucket, int iteration)
{
    const struct bucket *b = &s->plan->buckets[bucket];
    const struct turn *turns = &s->turns[s->turn_first[bucket]];
    int n = s->turn_first[bucket + 1] - s->turn_first[bucket];
    int64_t first = plan_first_sent(s->plan, bucket, s->actors[actor].first);
    int start = (int)(first * n / b->nchunks);

    for (int i = 0; i < n; i++) {
        const struct turn *turn = &turns[(start + i) % n];
        if (turn->piece >= parts_up(b, &s->units[turn->unit]))
            continue;
        if (b->log_steps ? give(s, actor, turn->unit, turn->piece, iteration)
                         : send_gradient(s, actor, turn->unit, turn->piece, iteration))
            return -1;
    }
    return 0;
}

static int send_answer(struct simulation *s, int actor, int to, int unit, int piece, int iteration)
{
    const struct unit *u = &s->units[unit];
    const struct actor *peer = &s->actors[to];
    uint64_t bytes = cut(u->back_bytes, piece, u->pieces);
    uint64_t times = (uint64_t)peer->members - (to == actor ? 1 : 0);

    if (times == 0)
        return passes_arrived(s, actor, u->bucket, iteration);
    return fabric_send(s, &(struct parcel){.from = actor,
                                           .to = to,
                                           .bucket = u->bucket,
                                           .unit = unit,
                                           .piece = piece,
                                           .iteration = iteration,
                                           .back = true,
                                           .bytes = bytes * times,
                                           .count = (double)u->chunks / u->pieces * peer->members,
                                           .narrow = u->homes});
}

static int send_answers(struct simulation *s, int actor, int unit, int piece, int iteration)
{
    int start = actor < s->nworkers ? actor + 1 : actor;

    for (int i = 0; i < s->nworkers; i++)
        if (send_answer(s, actor, (start + i) % s->nworkers, unit, piece, iteration))
            return -1;
    return 0;
}

/* ---- along trees, whose ranks are the actors ---- */

/* What the ranks of a block send each other: between its nodes it takes their links. */
static void carry_inside(struct simulation *s, struct actor *a, uint64_t bytes, int iteration)
{
    struct link *link = &s->links[a->link];
    double seconds = (double)bytes * (a->hosts - 1) / link->rate;

    busy(&link->out_free, s->now, seconds);
    busy(&link->in_free, s->now, seconds);
    if (iteration == 0) {
        a->sent += bytes * (uint64_t)(a->members - 1);
        a->received += bytes * (uint64_t)(a->members - 1);
    }
}

static int send_along(struct simulation *s, int actor, int to, int unit, int piece, int iteration,
                      bool back)
{
    const struct unit *u = &s->units[unit];
    uint64_t bytes = cut(back ? u->back_bytes : u->gradient_bytes, piece, u->pieces);
    /* the block at the lower end of the edge hands it on inside: it is counted with the edge */
    int inner = back ? to : actor;
    struct actor *below = &s->actors[inner];
    double count = (double)u->chunks / u->pieces;

    carry_inside(s, below, bytes, iteration);
    return fabric_send(s, &(struct parcel){.from = actor,
                                           .to = to,
                                           .bucket = u->bucket,
                                           .unit = unit,
                                           .piece = piece,
                                           .iteration = iteration,
                                           .back = back,
                                           .bytes = bytes,
                                           .count = count,
                                           .narrow = 1});
}

static int answer_children(struct simulation *s, int actor, int unit, int piece, int iteration)
{
    const struct unit *u = &s->units[unit];
    int children[TREE_MOST_CHILDREN];
    int n = tree_children(s->nworkers, u->home, actor, children);

    for (int i = n - 1; i >= 0; i--)
        if (send_along(s, actor, children[i], unit, piece, iteration, true))
            return -1;
    return passes_arrived(s, actor, u->bucket, iteration);
}

static int go_up_or_answer(struct simulation *s, int actor, int unit, int piece, int iteration)
{
    const struct unit *u = &s->units[unit];
    struct actor *a = &s->actors[actor];
    int parent = tree_parent(s->nworkers, u->home, actor);

    if (parent >= 0)
        return send_along(s, actor, parent, unit, piece, iteration, false);
    carry_inside(s, a,
                 cut(u->gradient_bytes, piece, u->pieces) + cut(u->back_bytes, piece, u->pieces),
                 iteration);
    return answer_children(s, actor, unit, piece, iteration);
}

/* ---- to all ---- */

static int send_slice(struct simulation *s, int actor, int bucket, int slice, int iteration)
{
    const struct bucket *b = &s->plan->buckets[bucket];
    const struct actor *a = &s->actors[actor];
    int slices = s->slices[bucket];
    uint64_t bytes = cut(factor_bytes(s, a, bucket), slice, slices);
    double each = (double)b->rounds * b->slices / slices * a->members;

    for (int i = 1; i <= s->nworkers; i++) {
        int to = (actor + i) % s->nworkers;
        const struct actor *peer = &s->actors[to];
        uint64_t times = (uint64_t)peer->members - (to == actor ? 1 : 0);
        if (times == 0) { /* its own */
            if (passes_arrived(s, actor, bucket, iteration))
                return -1;
            continue;
        }
        if (fabric_send(s, &(struct parcel){.from = actor,
                                            .to = to,
                                            .bucket = bucket,
                                            .iteration = iteration,
                                            .bytes = bytes * times,
                                            .count = each * (double)times,
                                            .narrow = a->hosts}))
            return -1;
    }
    return 0;
}

static int send_to_all(struct simulation *s, int actor, int bucket, int iteration)
{
    for (int slice = 0; slice < s->slices[bucket]; slice++)
        if (send_slice(s, actor, bucket, slice, iteration))
            return -1;
    return 0;
}

/* What no message decides: an update, of who is alone. */
static int work_alone(struct simulation *s, int actor, int bucket, int iteration)
{
    occupy_thread(s, actor, s->costs[bucket].sum_seconds - s->gather[bucket]);
    return events_put(&s->events, (struct event){.time = s->actors[actor].thread_free,
                                                 .kind = EVENT_WORK,
                                                 .actor = actor,
                                                 .index = bucket,
                                                 .iteration = iteration});
}

/* ---- events ---- */

int traffic_post(struct simulation *s, int actor, int bucket, int iteration)
{
    double bytes = s->bytes_out[bucket];

    if (s->cluster->device_Bps <= 0 || bytes <= 0 || s->options->manner.copies_wait)
        return traffic_copied(s, actor, bucket, iteration);
    return events_put(&s->events,
                      (struct event){.time = busy(&s->actors[actor].copy_out_free, s->now,
                                                  bytes / s->cluster->device_Bps),
                                     .kind = EVENT_COPIED,
                                     .actor = actor,
                                     .index = bucket,
                                     .iteration = iteration});
}

int traffic_copied(struct simulation *s, int actor, int bucket, int iteration)
{
    if (s->gather[bucket] <= 0)
        return traffic_gathered(s, actor, bucket, iteration);
    occupy_thread(s, actor, s->gather[bucket]);
    return events_put(&s->events, (struct event){.time = s->actors[actor].thread_free,
                                                 .kind = EVENT_GATHER,
                                                 .actor = actor,
                                                 .index = bucket,
                                                 .iteration = iteration});
}

int traffic_gathered(struct simulation *s, int actor, int bucket, int iteration)
{
    const struct bucket *b = &s->plan->buckets[bucket];

    if (b->scheme && s->options->manner.ring && s->plan->nworkers > 1)
        return ring_post(s, bucket, iteration);
    if (!b->scheme)
        return work_alone(s, actor, bucket, iteration);
    if (to_all(b))
        return send_to_all(s, actor, bucket, iteration) || work_alone(s, actor, bucket, iteration)
                   ? -1
                   : 0;
    return send_gradients(s, actor, bucket, iteration);
}

int traffic_summed(struct simulation *s, int actor, int unit, int piece, int iteration)
{
    const struct unit *u = &s->units[unit];
    const struct bucket *b = &s->plan->buckets[u->bucket];

    if (b->log_steps)
        return go_up_or_answer(s, actor, unit, piece, iteration);
    if (!b->scheme->factors)
        return send_answers(s, actor, unit, piece, iteration);
    for (int p = 0; p < u->pieces; p++)
        if (send_answers(s, actor, unit, p, iteration))
            return -1;
    return 0;
}

int traffic_arrived(struct simulation *s, const struct message *m)
{
    const struct bucket *b = &s->plan->buckets[m->bucket];

    if (to_all(b))
        return passes_arrived(s, m->to, m->bucket, m->iteration);
    if (!m->back)
        return give(s, m->to, m->unit, m->piece, m->iteration);
    return b->log_steps ? answer_children(s, m->to, m->unit, m->piece, m->iteration)
                        : passes_arrived(s, m->to, m->bucket, m->iteration);
}
