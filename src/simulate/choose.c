/* The choice of schemes by simulation. The cost model adds averages up, so where the link is nearly
 * full it cannot tell which choice waits for it. Its answer is therefore simulated beside every
 * other that the user could have named. */
#include "simulate/simulate.h"

#define WORTH_CHANGING 0.01 /* of an iteration */
#define WORTH_WIDENING 0.02
#define HOPELESS       1.5 /* times the best as the cost model has it: not played */

enum { MOST_PLANS = 64 };
enum { PLAYED_ITERATIONS = 4 }; /* after those that are not measured */

struct judge {
    const struct cost_question *question;
    struct simulate_options options;
    uint64_t played[MOST_PLANS]; /* digests of plans: none is played twice */
    int nplayed;
    double seconds; /* of the best plan; < 0: there is none yet */
};

static bool is_new(struct judge *j, const struct plan *plan)
{
    uint64_t digest = plan_digest(plan, 0);

    for (int i = 0; i < j->nplayed; i++)
        if (j->played[i] == digest)
            return false;
    if (j->nplayed < MOST_PLANS)
        j->played[j->nplayed++] = digest;
    return true;
}

static int play(const struct cost_question *question, const struct simulate_options *options,
                const struct plan *plan, double *seconds)
{
    struct simulate_options how = *options;
    struct simulate_result result;
    int status;

    how.work = question->work;
    how.overlap = question->overlap;
    how.plan = plan;
    how.iterations = PLAYED_ITERATIONS;
    status = simulate_run(&how, &result, NULL);
    *seconds = status ? 0 : result.seconds;
    return status;
}

int simulate_predict(const struct cost_question *question, const struct simulate_options *options,
                     const struct plan_options *how, double *seconds)
{
    struct plan *plan;
    int status;

    if (plan_create(how, question->work->ngroups, question->groups, &plan))
        return -1;
    status = play(question, options, plan, seconds);
    plan_destroy(plan);
    return status;
}

/* The plan becomes the answer where it takes less. */
static int try_plan(struct judge *j, const struct plan_options *how, const struct plan *plan,
                    struct cost_answer *answer)
{
    const struct cost_question *q = j->question;
    struct cost_iteration iteration;
    double seconds;

    if (cost_predict(q->work, q->cluster, how, q->groups, q->overlap, &iteration))
        return -1;
    if (iteration.seconds > HOPELESS * answer->iteration.seconds)
        return 0;
    if (play(q, &j->options, plan, &seconds))
        return -1;
    if (j->seconds >= 0 && seconds >= (1 - WORTH_CHANGING) * j->seconds)
        return 0;
    j->seconds = seconds;
    for (int g = 0; g < q->work->ngroups; g++)
        answer->scheme[g] = plan->buckets[plan->bucket_of[g]].scheme;
    answer->merge_bytes = how->merge_bytes;
    answer->iteration = iteration;
    return 0;
}

/* Every group by `comm`. */
static int offer(struct judge *j, struct comm comm, size_t merge, struct cost_answer *answer)
{
    const struct cost_question *q = j->question;
    struct plan_options how = *q->how;
    struct plan *plan;
    int status;

    how.comm = comm;
    how.schemes = comm.policy == COMM_AUTO ? answer->scheme : NULL;
    how.merge_bytes = merge;
    if (plan_create(&how, q->work->ngroups, q->groups, &plan))
        return -1;
    status = is_new(j, plan) ? try_plan(j, &how, plan, answer) : 0;
    plan_destroy(plan);
    return status;
}

static bool is_allowed(const struct cost_question *q, const struct scheme *scheme)
{
    return scheme->lossless && scheme != q->except;
}

/* What the user could have named. */
static int offer_named(struct judge *j, size_t merge, struct cost_answer *answer)
{
    const struct cost_question *q = j->question;
    bool ps = false, sfb = false;

    for (int s = 0; q->registry[s]; s++) {
        const struct scheme *scheme = q->registry[s];
        if (!is_allowed(q, scheme))
            continue;
        ps |= scheme == &scheme_ps;
        sfb |= scheme == &scheme_sfb;
        if (offer(j, (struct comm){COMM_SCHEME, scheme}, merge, answer))
            return -1;
    }
    return ps && sfb ? offer(j, (struct comm){.policy = COMM_PAPER}, merge, answer) : 0;
}

static int offer_windows(struct judge *j, const struct cost_answer *answer, size_t *window)
{
    enum { WIDEST = 4 };
    struct plan_options how = *j->question->how;
    size_t usual = *window;
    double seconds;

    how.comm = (struct comm){.policy = COMM_AUTO};
    how.schemes = answer->scheme;
    how.merge_bytes = answer->merge_bytes;
    for (size_t times = 2; times <= WIDEST; times *= 2) {
        j->options.window = times * usual;
        if (simulate_predict(j->question, &j->options, &how, &seconds))
            return -1;
        if (seconds >= (1 - WORTH_WIDENING) * j->seconds)
            continue;
        j->seconds = seconds;
        *window = j->options.window;
    }
    return 0;
}

int simulate_choose(const struct cost_question *question, const struct simulate_options *options,
                    struct cost_answer *answer, struct simulate_choice *choice)
{
    bool free = options->window == COST_SIZE_CHOSEN;
    struct judge j = {.question = question, .options = *options, .seconds = -1};
    size_t usual = cost_sizes_for(question->cluster).merge, found;
    int status;

    if (cost_choose(question, answer))
        return -1;
    found = answer->merge_bytes;
    status = offer(&j, (struct comm){.policy = COMM_AUTO}, found, answer) ||
             offer_named(&j, found, answer) ||
             (question->how->merge_bytes == COST_SIZE_CHOSEN && found != usual &&
              offer_named(&j, usual, answer));
    choice->window = free ? cost_sizes_for(options->cluster).window : options->window;
    if (free && question->how->nranks > 1 && !status)
        status = offer_windows(&j, answer, &choice->window);
    choice->seconds = j.seconds;
    if (status)
        cost_answer_free(answer);
    return status ? -1 : 0;
}
