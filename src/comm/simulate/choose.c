/* The choice of schemes by simulation. A group's time alone, and its link time, do not tell which
 * group the next pass waits for on a nearly full link. These times only suggest a few mixes beside
 * the schemes that a user could name; whole plans are played, and the shortest is taken. */
#include "simulate/choose.h"

#include "util/alloc.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EQUAL  1e-9 /* relative difference of seconds that is a tie */
#define ENOUGH 5e-4 /* fraction of compute time: a smaller gain is not looked for */
#define NEAR   0.05 /* fraction of an iteration that a wider window may gain */
#define WORTH  0.01 /* fraction of the best exact iteration that rounding must gain */

enum { MERGES = 2, MIXES = 10, BOTH = 2, MOST_TRIED = 512, SURELY_WIDENED = 3, WIDEST = 4 };

/* A plan that was played for a row. */
struct tried {
    int row;
    struct choose_row how;
    uint64_t digest; /* plan_digest of the plan */
    bool repeated;   /* the same plan and window had been played before */
};

struct chooser {
    const struct choose_question *question;
    struct plan_options how; /* the question's options, with usual sizes where none are given */
    struct choose_answer *answer;
    struct way *mix; /* nmixes rows of one way per group; scheme NULL: the group does not train */
    int nmixes;
    struct cost *table; /* costs of each group by each way */
    size_t merge[MERGES];
    int nmerges;
    struct tried tried[MOST_TRIED];
    int ntried;
};

static bool is_less(double a, double b)
{
    return a < b * (1 - EQUAL);
}

/* ---- candidates ---- */

static bool may_move(const struct choose_question *question, const struct scheme *scheme)
{
    return !question->whole_gradients || scheme_sums_gradients(scheme);
}

/* Lists the ways to choose from. Fails if a --lossy way can move no layer at any number of
 * ranks. */
static int find_ways(struct chooser *c)
{
    const struct choose_question *q = c->question;
    struct ways all, *out = &c->answer->ways;
    int exact = ways_list(q->how->registry, q->how->wire, q->lossy, &all);

    for (int w = 0; w < all.n; w++) {
        struct way way = all.way[w];
        bool of_use = !way.scheme->lossy;
        for (int g = 0; g < q->play.work->ngroups; g++)
            of_use = of_use || scheme_can_move(way.scheme, &q->groups[g], way.rank);
        if (!of_use)
            return error_set("no layer can travel by %s; leave it out", way_name(way).text);
        if (may_move(q, way.scheme)) {
            out->way[out->n++] = way;
            c->answer->nexact += w < exact;
        }
    }
    return 0;
}

static double passes_of(const struct cost *cost)
{
    return cost->compute_seconds + cost->stolen_seconds;
}

/* Returns link seconds + weight x compute seconds; weight < 0: seconds of the group alone. */
static double price_of(const struct cost *cost, double weight)
{
    return weight < 0 ? cost->seconds : cost->busy_seconds + weight * passes_of(cost);
}

/* Returns true if `a` has the lower price, or an equal price and fewer bytes. */
static bool is_cheaper(const struct cost *a, const struct cost *b, double weight)
{
    double pa = price_of(a, weight), pb = price_of(b, weight);

    return is_less(pa, pb) || (!is_less(pb, pa) && a->bytes < b->bytes);
}

/* Returns the cheapest of a group's first nways costs, by way; NULL: the group does not train. */
static const struct cost *find_cheapest(const struct cost *row, int nways, double weight)
{
    const struct cost *best = NULL;

    for (const struct cost *cost = row; cost < row + nways; cost++)
        if (cost->possible && (!best || is_cheaper(cost, best, weight)))
            best = cost;
    return best;
}

/* Returns the weight at which the way of least link time is as cheap as the way of least compute
 * time; < 0: one way has both. */
static double find_balance(const struct cost *row, int nways)
{
    const double only_passes = 1e12;
    const struct cost *link = find_cheapest(row, nways, 0);
    const struct cost *passes = find_cheapest(row, nways, only_passes);

    if (!link || passes_of(link) <= passes_of(passes))
        return -1;
    return (passes->busy_seconds - link->busy_seconds) / (passes_of(link) - passes_of(passes));
}

/* Adds the mixes of the first nways ways. */
static void add_mixes(struct chooser *c, int nways)
{
    const struct ways *ways = &c->answer->ways;
    int groups = c->question->play.work->ngroups, n = 2;
    struct way *mix = c->mix + (size_t)c->nmixes * (size_t)groups;
    double weight[MIXES] = {-1, 0};

    for (int g = groups - 1; g >= 0 && n < MIXES; g--) {
        weight[n] = find_balance(c->table + g * ways->n, nways);
        n += weight[n] > 0;
    }
    for (int i = 0; i < n * groups; i++) {
        const struct cost *row = c->table + i % groups * ways->n;
        const struct cost *best = find_cheapest(row, nways, weight[i / groups]);
        mix[i] = best ? ways->way[best - row] : (struct way){.scheme = NULL};
    }
    c->nmixes += n;
}

static int find_costs(struct chooser *c)
{
    const struct choose_question *q = c->question;
    const struct ways *ways = &c->answer->ways;
    size_t groups = (size_t)q->play.work->ngroups;

    c->table = alloc_array(groups * (size_t)ways->n, sizeof *c->table, "the costs of all schemes");
    c->mix = alloc_array(BOTH * MIXES * groups, sizeof *c->mix, "the choice of schemes");
    if (!c->table || !c->mix ||
        cost_table(q->play.cluster, &c->how, ways, (int)groups, q->groups, c->table))
        return -1;
    return simulate_table(&q->play, &c->how, ways, (int)groups, q->groups, c->table);
}

static void find_sizes(struct chooser *c)
{
    const struct choose_question *q = c->question;
    const struct plan_sizes *given = &q->how->sizes;

    c->how = *q->how;
    c->how.sizes = cost_sizes_keep(cost_sizes_for(q->play.cluster), given);
    c->merge[c->nmerges++] = c->how.sizes.merge;
    if (given->merge == COST_SIZE_CHOSEN)
        c->merge[c->nmerges++] = 0;
}

/* ---- playing ---- */

static int make_plan(const struct chooser *c, const struct choose_row *row, struct plan **out)
{
    const struct choose_question *q = c->question;
    struct plan_options how = c->how;

    how.comm = row->comm;
    how.wire = row->wire;
    how.ways = c->mix + (size_t)row->mix * (size_t)q->play.work->ngroups;
    how.sizes = row->sizes;
    return plan_create(&how, q->play.work->ngroups, q->groups, out);
}

static int play(const struct choose_question *question, const struct plan *plan, double *seconds)
{
    struct simulate_options how = question->play;
    struct simulate_result result;

    how.plan = plan;
    how.iterations = 0;
    if (simulate_run(&how, &result, NULL))
        return -1;
    *seconds = result.seconds;
    return 0;
}

/* Plays a candidate plan unless it was played before; the row keeps the shortest. */
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
    for (int i = 0; i < c->ntried && !tried->repeated; i++)
        if (c->tried[i].digest == tried->digest &&
            c->tried[i].how.sizes.window == how.sizes.window) {
            tried->how.seconds = c->tried[i].how.seconds;
            tried->repeated = true;
        }
    if (!tried->repeated)
        status = play(c->question, plan, &tried->how.seconds);
    plan_destroy(plan);
    if (!status && (best->seconds < 0 || is_less(tried->how.seconds, best->seconds)))
        *best = tried->how;
    c->ntried++;
    return status;
}

/* Adds a row: the best of the mixes from how.mix to before `last`, at all merge sizes. */
static int add_row(struct chooser *c, struct choose_row how, int last)
{
    int row = c->answer->nrows++;

    assert(row < CHOOSE_ROWS);
    c->answer->row[row].seconds = -1;
    how.sizes = c->how.sizes;
    for (; how.mix < last; how.mix++)
        for (int m = 0; m < c->nmerges; m++) {
            how.sizes.merge = c->merge[m];
            if (try_row(c, row, how))
                return -1;
        }
    return 0;
}

/* Adds the paper's rule, in the wire format of the parameter server `ps`. */
static int add_paper(struct chooser *c, struct way ps)
{
    const struct scheme *factors = scheme_of_factors(c->question->how->registry);
    struct choose_row row = {.comm = {.policy = COMM_PAPER}, .wire = ps.wire};

    if (!factors || !may_move(c->question, factors))
        return 0;
    snprintf(row.name.text, sizeof row.name.text, "paper%s", ps.wire == WIRE_BF16 ? "/bf16" : "");
    return add_row(c, row, 1);
}

/* Adds the candidates that a user could name with the ways from `first` to before `end`. */
static int add_named(struct chooser *c, int first, int end)
{
    const struct way *way = c->answer->ways.way;

    for (int w = first; w < end; w++)
        if (way[w].scheme == c->question->how->registry[0] && add_paper(c, way[w]))
            return -1;
    for (int w = first; w < end; w++) {
        const struct choose_row row = {
            .name = way_name(way[w]),
            .comm = {.policy = COMM_SCHEME, .scheme = way[w].scheme, .rank = way[w].rank},
            .wire = way[w].wire};
        if (add_row(c, row, 1))
            return -1;
    }
    return 0;
}

/* Returns the index of the shortest row, the first of equal ones. */
static int find_shortest(const struct choose_answer *answer)
{
    int best = 0;

    for (int i = 1; i < answer->nrows; i++)
        if (is_less(answer->row[i].seconds, answer->row[best].seconds))
            best = i;
    return best;
}

/* Returns true if a plan of `seconds` may become the answer with a wider window. Counts plans from
 * `first` to before `end`, played with the usual window, that are shorter. */
static bool is_near(const struct chooser *c, int first, int end, double seconds, double best)
{
    int before = 0;

    for (int i = first; i < end; i++)
        before += !c->tried[i].repeated && is_less(c->tried[i].how.seconds, seconds);
    return before < SURELY_WIDENED || seconds <= best * (1 + NEAR);
}

/* Returns true if compute time alone is as long as the best row. */
static bool is_enough(const struct chooser *c)
{
    const struct plan_options *how = &c->how;
    double passes = simulate_passes(&c->question->play, how->nranks - how->servers);

    return c->answer->row[find_shortest(c->answer)].seconds <= passes * (1 + ENOUGH);
}

/* Plays the promising plans from number `first` on with wider windows. */
static int widen_windows(struct chooser *c, int first)
{
    const struct choose_question *q = c->question;
    double best = c->answer->row[find_shortest(c->answer)].seconds;
    int end = c->ntried;

    if (q->how->sizes.window != COST_SIZE_CHOSEN || q->how->nranks == 1 || is_enough(c))
        return 0;
    for (int i = first; i < end; i++) {
        struct choose_row how = c->tried[i].how;
        bool widen = is_near(c, first, end, how.seconds, best);
        for (size_t times = 2; times <= WIDEST && widen; times *= 2) {
            how.sizes.window = times * c->how.sizes.window;
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
    const struct choose_row *best = &out->row[out->taken];
    struct plan *plan;

    if (make_plan(c, best, &plan))
        return -1;
    for (int g = 0; g < plan->ngroups; g++) {
        int way = ways_find(&out->ways, out->way[g] = plan_way(plan, g));
        out->compute_seconds += way < 0 ? 0 : c->table[g * out->ways.n + way].compute_seconds;
    }
    plan_destroy(plan);
    out->sizes = best->sizes;
    out->seconds = best->seconds;
    return 0;
}

/* Adds rows for the ways from `first` to before `end`, and for mixes of all ways before `end`. */
static int choose_among(struct chooser *c, int first, int end, const char *mixed)
{
    struct choose_row row = {.comm = {.policy = COMM_AUTO}, .mix = c->nmixes};
    int tried = c->ntried;

    snprintf(row.name.text, sizeof row.name.text, "%s", mixed);
    add_mixes(c, end);
    return error_status(add_named(c, first, end) || add_row(c, row, c->nmixes) ||
                        widen_windows(c, tried));
}

static int choose(struct chooser *c)
{
    struct choose_answer *out = c->answer;
    int best;

    if (choose_among(c, 0, out->nexact, "mixed"))
        return -1;
    out->nexact_rows = out->nrows;
    out->taken = find_shortest(out);
    out->exact_seconds = out->row[out->taken].seconds;
    if (out->ways.n == out->nexact || is_enough(c))
        return 0;
    if (choose_among(c, out->nexact, out->ways.n, "mixed lossy"))
        return -1;
    best = find_shortest(out);
    if (out->row[best].seconds < out->exact_seconds * (1 - WORTH))
        out->taken = best;
    return 0;
}

int choose_comm(const struct choose_question *question, struct choose_answer *out)
{
    struct chooser c = {.question = question, .answer = out};
    int status;

    *out = (struct choose_answer){.way = alloc_array((size_t)question->play.work->ngroups,
                                                     sizeof *out->way, "the choice of schemes")};
    find_sizes(&c);
    status = error_status(!out->way || find_ways(&c) || find_costs(&c) || choose(&c) || take(&c));
    free(c.table);
    free(c.mix);
    if (status)
        choose_answer_free(out);
    return status;
}

void choose_answer_free(struct choose_answer *answer)
{
    free(answer->way);
    memset(answer, 0, sizeof *answer);
}

void choose_print_rows(const struct choose_answer *answer, char out[CHOOSE_WORDS])
{
    out[0] = '\0';
    for (int i = 0; i < answer->nrows; i++)
        buffer_printf(out, CHOOSE_WORDS, "%s%s %s%s", i > 0 ? ", " : "", answer->row[i].name.text,
                      units_seconds(answer->row[i].seconds).text,
                      i == answer->taken ? " (taken)" : "");
}

static int count_groups(const struct choose_answer *answer, int ngroups, struct way way)
{
    int count = 0;

    for (int g = 0; g < ngroups; g++)
        count += way_is(answer->way[g], way);
    return count;
}

void choose_print_lossy(const struct choose_answer *answer, int ngroups, char out[CHOOSE_WORDS])
{
    const struct ways *ways = &answer->ways;
    int training = ngroups - count_groups(answer, ngroups, (struct way){.scheme = NULL});
    const char *lost = "";
    char of[64];

    if (answer->taken < answer->nexact_rows) {
        snprintf(out, CHOOSE_WORDS,
                 "nothing is rounded: the model finds no lossy plan more than %.0f %% faster than "
                 "the best exact plan",
                 100 * WORTH);
        return;
    }
    snprintf(out, CHOOSE_WORDS, "by the model %.2f times as fast as the best exact plan; ",
             answer->exact_seconds / answer->seconds);
    snprintf(of, sizeof of, " of %s travel", units_count(training, "layer").text);
    for (int w = answer->nexact; w < ways->n; w++) {
        int count = count_groups(answer, ngroups, ways->way[w]);
        if (count == 0)
            continue;
        buffer_printf(out, CHOOSE_WORDS, "%s%d%s as %s", *of ? "" : ", ", count, of,
                      way_label(ways->way[w]).text);
        *of = '\0';
        if (ways->way[w].scheme->factors)
            lost = ", but for factors it is lost";
    }
    buffer_printf(
        out, CHOOSE_WORDS,
        ": their gradients are rounded, and the rounding error is added to the next iteration's%s",
        lost);
}

bool choose_is_asked(int nmachines, int nworkers, bool given_cluster)
{
    return nworkers > 1 && (nmachines > 1 || given_cluster);
}
