/* The search for schemes and a size of merging by the cost model alone: one candidate of
 * simulate/choose.h, which also plays what could have been named. Single groups are tried against a
 * table of what each costs by itself, which is cheap; the size of merging is settled on real
 * plans. */
#include "plan/timeline.h"

#include "util/error.h"

#include <stdlib.h>
#include <string.h>

#define WORTH_CHANGING 1e-3 /* of an iteration */
#define WORTH_MERGING  2e-2 /* the same, of another size of merging: less is the model's error */
#define EQUAL          1e-9 /* of a layer's seconds */

/* Sizes of merging that are tried beside what suits the network. */
static const size_t merges[] = {0, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};

struct chooser {
    const struct cost_question *question;
    int ngroups, nschemes;
    struct cost *table; /* nschemes per group */
    struct cost *now;   /* per group */
    struct cost *best;  /* per group */
    struct timeline *line;
    double seconds; /* of best; < 0: none yet */
};

bool cost_may_choose(const struct cost_question *question, const struct scheme *scheme)
{
    return scheme->lossless && !(question->whole_gradients && scheme->factors);
}

bool cost_may_choose_paper(const struct cost_question *question)
{
    const struct scheme *factors = scheme_of_factors(question->how->registry);

    return factors && cost_may_choose(question, factors) &&
           cost_may_choose(question, question->how->registry[0]);
}

/* Alone; see cost_search on ties. */
static bool is_cheaper(const struct cost *a, const struct cost *b)
{
    double limit = EQUAL * (a->seconds > b->seconds ? a->seconds : b->seconds);

    if (a->seconds < b->seconds - limit || b->seconds < a->seconds - limit)
        return a->seconds < b->seconds;
    return a->bytes < b->bytes;
}

static bool is_allowed(const struct chooser *c, int scheme)
{
    return cost_may_choose(c->question, c->question->how->registry[scheme]);
}

/* Whether what lasts so long is better than what is best so far. */
static bool improves(const struct chooser *c, double seconds, double worth)
{
    return c->seconds < 0 || seconds <= c->seconds * (1 - worth);
}

static void offer(struct chooser *c)
{
    struct cost_iteration iteration;

    timeline_play(c->line, c->now, &iteration);
    if (!improves(c, iteration.seconds, WORTH_CHANGING))
        return;
    c->seconds = iteration.seconds;
    memcpy(c->best, c->now, (size_t)c->ngroups * sizeof *c->now);
}

/* The cheapest of what is allowed for the group by itself; all zero: it does not train. */
static struct cost find_cheapest(const struct chooser *c, int group)
{
    const struct cost *row = c->table + (size_t)group * (size_t)c->nschemes;
    struct cost best = {0};

    for (int s = 0; s < c->nschemes; s++)
        if (is_allowed(c, s) && row[s].possible && (!best.scheme || is_cheaper(&row[s], &best)))
            best = row[s];
    return best;
}

static void offer_cheapest(struct chooser *c)
{
    for (int g = 0; g < c->ngroups; g++)
        c->now[g] = find_cheapest(c, g);
    offer(c);
}

/* `scheme` where it can be, else what is cheapest. */
static void offer_single(struct chooser *c, int scheme)
{
    for (int g = 0; g < c->ngroups; g++) {
        const struct cost *cost = &c->table[(size_t)g * (size_t)c->nschemes + (size_t)scheme];
        c->now[g] = cost->possible ? *cost : find_cheapest(c, g);
    }
    offer(c);
}

static void change_single_groups(struct chooser *c)
{
    double before;

    do {
        before = c->seconds;
        for (int g = 0; g < c->ngroups; g++)
            for (int s = 0; s < c->nschemes; s++) {
                const struct cost *other = c->table + (size_t)g * (size_t)c->nschemes + s;
                if (!is_allowed(c, s) || !other->possible || c->best[g].scheme == other->scheme)
                    continue;
                memcpy(c->now, c->best, (size_t)c->ngroups * sizeof *c->now);
                c->now[g] = *other;
                offer(c);
            }
    } while (c->seconds < before);
}

static int open_chooser(struct chooser *c, const struct cost_question *q)
{
    size_t groups = (size_t)q->work->ngroups, schemes;

    *c = (struct chooser){.question = q,
                          .ngroups = q->work->ngroups,
                          .nschemes = cost_count_schemes(q->how->registry),
                          .seconds = -1};
    schemes = (size_t)c->nschemes;
    c->table = calloc((groups + 1) * (schemes + 2), sizeof *c->table);
    if (!c->table)
        return error_memory((groups + 1) * (schemes + 2) * sizeof *c->table,
                            "the costs of all schemes");
    c->now = c->table + groups * schemes;
    c->best = c->now + groups;
    if (timeline_create(q->work, c->ngroups, q->work->layer, q->overlap, &c->line))
        return -1;
    return cost_table(q->cluster, q->how, c->ngroups, q->groups, c->table);
}

/* ---- on real plans ---- */

/* What was found, merged up to that size; taken where it promises more than the model errs. */
static int offer_merge(struct chooser *c, size_t merge, struct cost_answer *out)
{
    const struct cost_question *q = c->question;
    struct plan_options options = *q->how;
    struct cost_iteration iteration;

    options.comm = (struct comm){.policy = COMM_AUTO};
    options.schemes = out->scheme;
    options.merge_bytes = merge;
    if (cost_predict(q->work, q->cluster, &options, q->groups, q->overlap, &iteration))
        return -1;
    if (!improves(c, iteration.seconds, WORTH_MERGING))
        return 0;
    out->merge_bytes = merge;
    out->iteration = iteration;
    c->seconds = iteration.seconds;
    return 0;
}

static int settle(struct chooser *c, struct cost_answer *out)
{
    bool chosen = c->question->how->merge_bytes == COST_SIZE_CHOSEN;
    size_t merge =
        chosen ? cost_sizes_for(c->question->cluster).merge : c->question->how->merge_bytes;
    int status;

    for (int g = 0; g < c->ngroups; g++)
        out->scheme[g] = c->best[g].scheme;
    c->seconds = -1;
    status = offer_merge(c, merge, out);
    for (size_t i = 0; chosen && !status && i < sizeof merges / sizeof *merges; i++)
        status = offer_merge(c, merges[i], out);
    return status;
}

int cost_search(const struct cost_question *question, struct cost_answer *out)
{
    struct chooser c;
    int status;

    *out = (struct cost_answer){
        .scheme = calloc((size_t)question->work->ngroups + 1, sizeof *out->scheme)};
    if (!out->scheme)
        return error_memory((uint64_t)question->work->ngroups * sizeof *out->scheme,
                            "the choice of schemes");
    status = open_chooser(&c, question);
    if (!status) {
        offer_cheapest(&c);
        for (int s = 0; s < c.nschemes; s++)
            if (is_allowed(&c, s))
                offer_single(&c, s);
        change_single_groups(&c);
        status = settle(&c, out);
    }
    timeline_destroy(c.line);
    free(c.table);
    if (status)
        cost_answer_free(out);
    return status;
}

void cost_answer_free(struct cost_answer *answer)
{
    free(answer->scheme);
    memset(answer, 0, sizeof *answer);
}
