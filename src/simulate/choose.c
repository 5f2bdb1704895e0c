/* The choice of schemes by simulation. The cost model adds averages up, so where the link is nearly
 * full it cannot tell which choice waits for it. So it only says which scheme is cheapest for each
 * group by itself, which gives a few mixes beside what the user could have named; the player alone
 * decides. */
#include "simulate/choose.h"

#include "util/alloc.h"
#include "util/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EQUAL  1e-9 /* of the seconds that are compared: a tie */
#define ENOUGH 5e-4 /* of the passes: nothing that is left to gain is worth looking for */
#define NEAR   0.03 /* of an iteration: what a wider window may make up for */

enum { MERGES = 2, MIXES = 10, MOST_TRIED = 512, SURELY_WIDENED = 3, WIDEST = 4 };

/* A row's scheme as it was played. */
struct tried {
    int row;
    struct choose_row how;
    uint64_t digest; /* of its plan */
    bool again;      /* that plan had been played with that window */
};

struct chooser {
    const struct choose_question *question;
    struct choose_answer *answer;
    const struct scheme **mix; /* nmixes rows of one per group; NULL where it does not train */
    int nmixes;
    size_t merge[MERGES];
    int nmerges;
    size_t window; /* the usual one, or the given one */
    struct tried tried[MOST_TRIED];
    int ntried;
};

static bool is_less(double a, double b)
{
    return a < b * (1 - EQUAL);
}

/* ---- candidates ---- */

static bool may_choose(const struct choose_question *question, const struct scheme *scheme)
{
    return scheme->lossless && !(question->whole_gradients && scheme->factors);
}

static bool may_choose_paper(const struct choose_question *question)
{
    const struct scheme *factors = scheme_of_factors(question->how->registry);

    return factors && may_choose(question, factors) &&
           may_choose(question, question->how->registry[0]);
}

static double passes_of(const struct cost *cost)
{
    return cost->compute_seconds + cost->stolen_seconds;
}

/* Of seconds of the link, and of the passes with their weight; < 0: of the group by itself. */
static double price_of(const struct cost *cost, double weight)
{
    return weight < 0 ? cost->seconds : cost->busy_seconds + weight * passes_of(cost);
}

/* Equal prices go to fewer bytes, then to the earlier in the registry. */
static bool is_cheaper(const struct cost *a, const struct cost *b, double weight)
{
    double pa = price_of(a, weight), pb = price_of(b, weight);

    return is_less(pa, pb) || (!is_less(pb, pa) && a->bytes < b->bytes);
}

/* row: a group's costs, by scheme; NULL: it does not train. */
static const struct cost *find_cheapest(const struct choose_question *question,
                                        const struct cost *row, double weight)
{
    int schemes = cost_count_schemes(question->how->registry);
    const struct cost *best = NULL;

    for (const struct cost *cost = row; cost < row + schemes; cost++)
        if (cost->possible && may_choose(question, cost->scheme) &&
            (!best || is_cheaper(cost, best, weight)))
            best = cost;
    return best;
}

/* The weight at which the group is as cheap by what takes least of the link as by what takes least
 * of the passes; < 0: one scheme does both. */
static double find_balance(const struct choose_question *question, const struct cost *row)
{
    const double only_passes = 1e12;
    const struct cost *link = find_cheapest(question, row, 0);
    const struct cost *passes = find_cheapest(question, row, only_passes);

    if (!link || passes_of(link) <= passes_of(passes))
        return -1;
    return (passes->busy_seconds - link->busy_seconds) / (passes_of(link) - passes_of(passes));
}

static int find_mixes(struct chooser *c)
{
    const struct choose_question *q = c->question;
    int groups = q->work->ngroups, schemes = cost_count_schemes(q->how->registry);
    struct cost *table =
        alloc_array((size_t)groups * (size_t)schemes, sizeof *table, "the costs of all schemes");
    double weight[MIXES] = {-1, 0};
    int status;

    c->nmixes = 2;
    c->mix = alloc_array((size_t)MIXES * (size_t)groups, sizeof *c->mix, "the choice of schemes");
    status = table && c->mix ? cost_table(q->cluster, q->how, groups, q->groups, table) : -1;
    for (int g = groups - 1; g >= 0 && c->nmixes < MIXES && !status; g--) {
        weight[c->nmixes] = find_balance(q, table + g * schemes);
        c->nmixes += weight[c->nmixes] > 0;
    }
    for (int i = 0; i < c->nmixes * groups && !status; i++) {
        const struct cost *best =
            find_cheapest(q, table + i % groups * schemes, weight[i / groups]);
        c->mix[i] = best ? best->scheme : NULL;
    }
    free(table);
    return status;
}

static void find_sizes(struct chooser *c)
{
    const struct choose_question *q = c->question;
    size_t given = q->how->merge_bytes;

    c->window = q->play.window == COST_SIZE_CHOSEN ? cost_sizes_for(q->play.cluster).window
                                                   : q->play.window;
    c->merge[c->nmerges++] = given == COST_SIZE_CHOSEN ? cost_sizes_for(q->cluster).merge : given;
    if (given == COST_SIZE_CHOSEN && !q->quick)
        c->merge[c->nmerges++] = 0;
}

/* ---- playing ---- */

static int make_plan(const struct chooser *c, const struct choose_row *row, struct plan **out)
{
    const struct choose_question *q = c->question;
    struct plan_options how = *q->how;

    how.comm = row->comm;
    how.schemes = c->mix + (size_t)row->mix * (size_t)q->work->ngroups;
    how.merge_bytes = row->merge_bytes;
    return plan_create(&how, q->work->ngroups, q->groups, out);
}

static int play(const struct choose_question *question, const struct plan *plan, size_t window,
                double *seconds)
{
    struct simulate_options how = question->play;
    struct simulate_result result;

    how.work = question->work;
    how.overlap = question->overlap;
    how.plan = plan;
    how.window = window;
    how.iterations = 0;
    if (simulate_run(&how, &result, NULL))
        return -1;
    *seconds = result.seconds;
    return 0;
}

/* Plays the row's scheme in that way; kept where the row has nothing shorter. */
static int try_row(struct chooser *c, int row, struct choose_row how)
{
    struct choose_row *best = &c->answer->row[row];
    struct tried *tried = &c->tried[c->ntried];
    struct plan *plan;
    int status = 0;

    assert(c->ntried < MOST_TRIED);
    if (make_plan(c, &how, &plan))
        return -1;
    *tried = (struct tried){.row = row, .how = how, .digest = plan_digest(plan, 0)};
    for (int i = 0; i < c->ntried && !tried->again; i++)
        if (c->tried[i].digest == tried->digest && c->tried[i].how.window == how.window) {
            tried->how.seconds = c->tried[i].how.seconds;
            tried->again = true;
        }
    if (!tried->again)
        status = play(c->question, plan, how.window, &tried->how.seconds);
    plan_destroy(plan);
    if (!status && (best->seconds < 0 || is_less(tried->how.seconds, best->seconds)))
        *best = tried->how;
    c->ntried++;
    return status;
}

static int add_row(struct chooser *c, struct comm comm)
{
    struct choose_row how = {.comm = comm, .window = c->window};
    int row = c->answer->nrows++;

    assert(row < CHOOSE_ROWS);
    c->answer->row[row].seconds = -1;
    for (; how.mix < (comm.policy == COMM_AUTO ? c->nmixes : 1); how.mix++)
        for (int m = 0; m < c->nmerges; m++) {
            how.merge_bytes = c->merge[m];
            if (try_row(c, row, how))
                return -1;
        }
    return 0;
}

static int add_rows(struct chooser *c)
{
    const struct choose_question *q = c->question;
    const struct scheme *const *registry = q->how->registry;

    if (!q->quick && may_choose_paper(q) && add_row(c, (struct comm){.policy = COMM_PAPER}))
        return -1;
    for (int s = 0; registry[s] && !q->quick; s++)
        if (may_choose(q, registry[s]) &&
            add_row(c, (struct comm){.policy = COMM_SCHEME, .scheme = registry[s]}))
            return -1;
    return add_row(c, (struct comm){.policy = COMM_AUTO});
}

/* The number of the shortest row, the first of equal ones. */
static int find_shortest(const struct choose_answer *answer)
{
    int best = 0;

    for (int i = 1; i < answer->nrows; i++)
        if (is_less(answer->row[i].seconds, answer->row[best].seconds))
            best = i;
    return best;
}

/* Whether what lasts so long with the usual window may become the answer with a wider one; n: of
 * the first plans played, which are those of the usual window. */
static bool is_near(const struct chooser *c, int n, double seconds, double best)
{
    int before = 0;

    for (int i = 0; i < n; i++)
        before += !c->tried[i].again && is_less(c->tried[i].how.seconds, seconds);
    return before < SURELY_WIDENED || seconds <= best * (1 + NEAR);
}

static int widen_windows(struct chooser *c)
{
    double best = c->answer->row[find_shortest(c->answer)].seconds;
    int n = c->ntried;

    if (best <= layer_times_total(c->question->work) * (1 + ENOUGH))
        return 0;
    for (int i = 0; i < n; i++) {
        struct choose_row how = c->tried[i].how;
        bool widen = is_near(c, n, how.seconds, best);
        for (size_t times = 2; times <= WIDEST && widen; times *= 2) {
            how.window = times * c->window;
            if (try_row(c, c->tried[i].row, how))
                return -1;
        }
    }
    return 0;
}

/* ---- the answer ---- */

static int take(const struct chooser *c)
{
    struct choose_answer *out = c->answer;
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
    bool free_window = question->play.window == COST_SIZE_CHOSEN && !question->quick;
    struct chooser c = {.question = question, .answer = out};
    int status;

    *out =
        (struct choose_answer){.scheme = alloc_array((size_t)question->work->ngroups,
                                                     sizeof *out->scheme, "the choice of schemes")};
    find_sizes(&c);
    status = !out->scheme || find_mixes(&c) || add_rows(&c) ? -1 : 0;
    if (!status && free_window && question->how->nranks > 1)
        status = widen_windows(&c);
    if (!status)
        status = take(&c);
    free(c.mix);
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

    out[0] = '\0';
    for (int i = 0; i < answer->nrows && at < CHOOSE_WORDS; i++) {
        const struct choose_row *row = &answer->row[i];
        const char *name = row->comm.policy == COMM_AUTO ? "mixed" : comm_name(row->comm);
        at += (size_t)snprintf(out + at, CHOOSE_WORDS - at, "%s%s %s%s", i > 0 ? ", " : "", name,
                               units_seconds(row->seconds).text,
                               i == answer->taken ? " (taken)" : "");
    }
}

bool choose_is_asked(int nmachines, int nworkers, bool given_cluster)
{
    return nworkers > 1 && (nmachines > 1 || given_cluster);
}
