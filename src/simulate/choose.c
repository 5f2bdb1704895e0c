/* The choice of schemes by simulation. The cost model adds averages up, so where the link is nearly
 * full it cannot tell which choice waits for it. Its answer is therefore one candidate among all
 * that the user could have named, and the player alone decides. */
#include "simulate/choose.h"

#include "util/error.h"
#include "util/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EQUAL  1e-9 /* of an iteration: a tie */
#define ENOUGH 5e-4 /* of the passes: nothing that is left to gain is worth looking for */
#define NEAR   0.03 /* of an iteration: what a wider window may make up for */

enum { MOST_PLAYED = 256, MOST_MERGES = 3, SURELY_WIDENED = 3, WIDEST = 4 };

/* No plan is played twice with one window. */
struct played {
    uint64_t digest;
    size_t window;
    double seconds;
};

/* What a row is with a size of merging and the usual window. */
struct tried {
    int row;
    size_t merge_bytes;
    double seconds;
};

struct chooser {
    const struct choose_question *question;
    struct cost_answer found;
    size_t merge[MOST_MERGES];
    int nmerges;
    size_t window; /* the usual one, or the given one */
    struct played played[MOST_PLAYED];
    int nplayed;
    struct tried tried[CHOOSE_ROWS * MOST_MERGES];
    int ntried;
};

/* The row's plan, merged up to that size. */
static int make_plan(const struct chooser *c, const struct choose_row *row, struct plan **out)
{
    const struct cost_question *q = &c->question->cost;
    struct plan_options how = *q->how;

    how.comm = row->comm;
    how.schemes = row->comm.policy == COMM_AUTO ? c->found.scheme : NULL;
    how.merge_bytes = row->merge_bytes;
    return plan_create(&how, q->work->ngroups, q->groups, out);
}

static int play_plan(struct chooser *c, const struct plan *plan, size_t window, double *seconds)
{
    struct simulate_options how = c->question->play;
    uint64_t digest = plan_digest(plan, 0);
    struct simulate_result result;

    for (int i = 0; i < c->nplayed; i++)
        if (c->played[i].digest == digest && c->played[i].window == window) {
            *seconds = c->played[i].seconds;
            return 0;
        }
    how.work = c->question->cost.work;
    how.overlap = c->question->cost.overlap;
    how.plan = plan;
    how.window = window;
    how.iterations = 0;
    if (simulate_run(&how, &result, NULL))
        return -1;
    *seconds = result.seconds;
    assert(c->nplayed < MOST_PLAYED);
    c->played[c->nplayed++] = (struct played){digest, window, *seconds};
    return 0;
}

static bool is_shorter(double seconds, double than)
{
    return seconds < than * (1 - EQUAL);
}

/* Plays the row's scheme with that merging and window; kept where the row has nothing shorter. */
static int try_row(struct chooser *c, struct choose_row *row, size_t merge, size_t window,
                   double *seconds)
{
    struct choose_row tried = {.comm = row->comm, .merge_bytes = merge, .window = window};
    struct plan *plan;
    int status;

    if (make_plan(c, &tried, &plan))
        return -1;
    status = play_plan(c, plan, window, &tried.seconds);
    plan_destroy(plan);
    if (!status && (row->seconds < 0 || is_shorter(tried.seconds, row->seconds)))
        *row = tried;
    *seconds = tried.seconds;
    return status;
}

static int add_row(struct chooser *c, struct comm comm, struct choose_answer *out)
{
    struct choose_row *row = &out->row[out->nrows];

    assert(out->nrows < CHOOSE_ROWS);
    *row = (struct choose_row){.comm = comm, .seconds = -1};
    for (int m = 0; m < c->nmerges; m++) {
        struct tried *tried = &c->tried[c->ntried++];
        *tried = (struct tried){.row = out->nrows, .merge_bytes = c->merge[m]};
        if (try_row(c, row, c->merge[m], c->window, &tried->seconds))
            return -1;
    }
    out->nrows++;
    return 0;
}

static int add_rows(struct chooser *c, struct choose_answer *out)
{
    const struct cost_question *q = &c->question->cost;
    const struct scheme *const *registry = q->how->registry;

    if (cost_may_choose_paper(q) && add_row(c, (struct comm){.policy = COMM_PAPER}, out))
        return -1;
    for (int s = 0; registry[s]; s++)
        if (cost_may_choose(q, registry[s]) &&
            add_row(c, (struct comm){COMM_SCHEME, registry[s]}, out))
            return -1;
    return add_row(c, (struct comm){.policy = COMM_AUTO}, out);
}

/* The number of the shortest row, the first of equal ones. */
static int find_shortest(const struct choose_answer *answer)
{
    int best = 0;

    for (int i = 1; i < answer->nrows; i++)
        if (is_shorter(answer->row[i].seconds, answer->row[best].seconds))
            best = i;
    return best;
}

/* Whether what lasts so long with the usual window may become the answer with a wider one; n: of
 * the first plans played, which are those of the usual window. */
static bool is_near(const struct chooser *c, int n, double seconds, double best)
{
    int before = 0;

    for (int i = 0; i < n; i++)
        before += is_shorter(c->played[i].seconds, seconds);
    return before < SURELY_WIDENED || seconds <= best * (1 + NEAR);
}

static int widen_windows(struct chooser *c, struct choose_answer *out)
{
    double best = out->row[find_shortest(out)].seconds, seconds;
    int n = c->nplayed;

    if (best <= cost_work_seconds(c->question->cost.work) * (1 + ENOUGH))
        return 0;
    for (int i = 0; i < c->ntried; i++) {
        const struct tried *t = &c->tried[i];
        bool widen = is_near(c, n, t->seconds, best);
        for (size_t times = 2; times <= WIDEST && widen; times *= 2)
            if (try_row(c, &out->row[t->row], t->merge_bytes, times * c->window, &seconds))
                return -1;
    }
    return 0;
}

static void add_merge(struct chooser *c, size_t bytes)
{
    for (int m = 0; m < c->nmerges; m++)
        if (c->merge[m] == bytes)
            return;
    c->merge[c->nmerges++] = bytes;
}

/* What is the same of all rows. */
static int prepare(struct chooser *c)
{
    const struct choose_question *q = c->question;

    c->window = q->play.window == COST_SIZE_CHOSEN ? cost_sizes_for(q->play.cluster).window
                                                   : q->play.window;
    if (cost_search(&q->cost, &c->found))
        return -1;
    if (q->cost.how->merge_bytes != COST_SIZE_CHOSEN) {
        add_merge(c, q->cost.how->merge_bytes);
        return 0;
    }
    add_merge(c, cost_sizes_for(q->cost.cluster).merge);
    add_merge(c, c->found.merge_bytes);
    add_merge(c, 0);
    return 0;
}

static int take(const struct chooser *c, struct choose_answer *out)
{
    const struct choose_row *best = &out->row[out->taken = find_shortest(out)];
    struct plan *plan;

    if (make_plan(c, best, &plan))
        return -1;
    for (int g = 0; g < plan->ngroups; g++)
        out->scheme[g] = plan->buckets[plan->bucket_of[g]].scheme;
    plan_destroy(plan);
    out->merge_bytes = best->merge_bytes;
    out->window = best->window;
    out->seconds = best->seconds;
    return 0;
}

int choose_comm(const struct choose_question *question, struct choose_answer *out)
{
    size_t groups = (size_t)question->cost.work->ngroups + 1;
    struct chooser c = {.question = question};
    int status;

    *out = (struct choose_answer){.scheme = calloc(groups, sizeof *out->scheme)};
    if (!out->scheme)
        return error_memory(groups * sizeof *out->scheme, "the choice of schemes");
    status = prepare(&c) || add_rows(&c, out) ? -1 : 0;
    if (!status && question->play.window == COST_SIZE_CHOSEN && question->cost.how->nranks > 1)
        status = widen_windows(&c, out);
    if (!status)
        status = take(&c, out);
    cost_answer_free(&c.found);
    if (status)
        choose_answer_free(out);
    return status;
}

void choose_answer_free(struct choose_answer *answer)
{
    free(answer->scheme);
    memset(answer, 0, sizeof *answer);
}

void choose_print_rows(const struct choose_answer *answer, char out[CHOOSE_WORDS])
{
    size_t at = 0;
    char cell[UNITS_CELL];

    out[0] = '\0';
    for (int i = 0; i < answer->nrows && at < CHOOSE_WORDS; i++) {
        const struct choose_row *row = &answer->row[i];
        const char *name = row->comm.policy == COMM_AUTO ? "mixed" : comm_name(row->comm);
        units_print_seconds(row->seconds, cell);
        at += (size_t)snprintf(out + at, CHOOSE_WORDS - at, "%s%s %s%s", i > 0 ? ", " : "", name,
                               cell, i == answer->taken ? " (taken)" : "");
    }
}

bool choose_is_asked(int nmachines, int nworkers, bool given_cluster)
{
    return nworkers > 1 && (nmachines > 1 || given_cluster);
}
