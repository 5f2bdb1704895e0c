/* Finds the rank that other ranks have waited for since the last display, and why.
 *
 * In synchronous training every rank takes the same time for an iteration. A late rank computes, or
 * waits for input, longer than the median rank, and hardly waits for other ranks. A rank with a
 * slow link waits like all others, but its messages take longer per byte than those between other
 * ranks. */
#include "watch/stragglers.h"

#include "util/median.h"
#include "util/units.h"

#include <assert.h>
#include <string.h>

/* Figures of a rank, summed over ranks: its own times, and time and bytes of its links as both ends
 * of each link measure them. */
struct seen {
    double compute, input, stall, link, bytes;
};

enum { VALUES = sizeof(struct seen) / sizeof(double) };

/* Least fraction of the time, and least seconds, of a late rank: ranks that share cores differ by
 * less. */
#define LATE_PART    0.25
#define LATE_SECONDS 0.1
#define SLOW_LINK                                                                                  \
    2 /* least ratio of a slow rank's time per byte to the median; with n ranks, the ratio is n -  \
         1 at most */

struct stragglers {
    const struct job *job;        /* borrowed */
    struct figures_late *of_rank; /* rank 0: per rank, how often it was late so far */
    int looks;                    /* number of judgements so far */
    int64_t iteration;            /* iteration of the last judgement */
    double seconds, stall, input; /* times of training until the last judgement */
    struct sync_link *links;      /* per rank: counters of the link at the last judgement */
    double *sorted;               /* scratch: one number per rank */
};

int stragglers_open(const struct job *job, int64_t first, struct stragglers **out)
{
    struct stragglers *late;
    size_t n = (size_t)job->nranks;

    if (job->nworkers < 2 || job->options->exchange.comm.policy == COMM_NONE)
        return 0;
    if (OWN(job->owner, late, 1, "late ranks"))
        return -1;
    *out = late;
    late->job = job;
    late->iteration = first;
    return error_status(OWN(job->owner, late->of_rank, n, "late ranks") ||
                        OWN(job->owner, late->links, n, "late ranks") ||
                        OWN(job->owner, late->sorted, n, "late ranks"));
}

size_t stragglers_values(const struct stragglers *late)
{
    return late ? (size_t)late->job->nranks * VALUES : 0;
}

void stragglers_put(struct stragglers *late, struct sync *sync, const struct net *net,
                    double seconds, double paused_stall, double *values)
{
    struct seen *seen = (struct seen *)values, *mine;
    double stall, input;
    uint64_t waits;

    if (!late)
        return;
    memset(values, 0, stragglers_values(late) * sizeof *values);
    mine = &seen[late->job->rank];
    stall = sync_stats(sync)->stall_seconds - paused_stall;
    net_input_waits(net, &waits, &input);
    mine->stall = stall - late->stall;
    mine->input = input - late->input;
    mine->compute = seconds - late->seconds - mine->stall - mine->input;
    for (int r = 0; r < late->job->nranks; r++) {
        struct sync_link now = sync_link(sync, r), *before = &late->links[r];
        double took = 1e-9 * (double)(now.ns - before->ns),
               bytes = (double)(now.bytes - before->bytes);
        assert(now.ns >= before->ns && now.bytes >= before->bytes); /* counters only rise */
        *before = now;
        seen[r].link += took;
        seen[r].bytes += bytes;
        mine->link += took;
        mine->bytes += bytes;
    }
    late->seconds = seconds;
    late->stall = stall;
    late->input = input;
}

/* ---- finding the late rank, on rank 0 ---- */

/* Returns the lower median over workers, so that of two ranks the slower is compared with the
 * faster. first: figure of rank 0. */
static double median_of(struct stragglers *late, const double *first)
{
    for (int r = 0; r < late->job->nworkers; r++)
        late->sorted[r] = first[(size_t)r * VALUES];
    return median_lower(late->sorted, late->job->nworkers);
}

/* Finds the worker that computes, or waits for input, longer than other workers; -1: none. */
static int find_slow(struct stragglers *late, const struct seen *seen, double seconds,
                     enum late_cause *cause, double *behind)
{
    double compute = median_of(late, &seen->compute), input = median_of(late, &seen->input),
           most = 0;
    int found = -1;

    for (int r = 0; r < late->job->nworkers; r++) {
        double computes = seen[r].compute - compute, reads = seen[r].input - input;
        if (computes + reads <= most)
            continue;
        found = r;
        most = computes + reads;
        *cause = reads > computes ? LATE_INPUT : LATE_COMPUTING;
    }
    *behind = most;
    return most > LATE_PART * seconds && most > LATE_SECONDS ? found : -1;
}

/* Finds the rank with the longest time per byte, if training waits for messages; -1: none. With
 * fewer than four ranks, one slow rank makes all ranks look slow. */
static int find_slow_link(struct stragglers *late, const struct seen *seen, double seconds,
                          double *behind)
{
    double stall = 0, usual, most = 0;
    int n = 0, found = -1;

    for (int r = 0; r < late->job->nworkers; r++)
        stall += seen[r].stall / late->job->nworkers;
    for (int r = 0; r < late->job->nranks; r++) {
        double score = seen[r].bytes > 0 ? seen[r].link / seen[r].bytes : 0;
        if (score <= 0)
            continue;
        late->sorted[n++] = score;
        if (score > most) {
            most = score;
            found = r;
        }
    }
    usual = median_lower(late->sorted, n);
    *behind = most > 0 ? stall * (1 - usual / most) : 0;
    return n > 3 && stall > LATE_PART * seconds && most > SLOW_LINK * usual &&
                   *behind > LATE_SECONDS
               ? found
               : -1;
}

void stragglers_judge(struct stragglers *late, int64_t iteration, const double *values)
{
    static const char *const words[] = {[LATE_COMPUTING] = "its computing",
                                        [LATE_INPUT] = "its input",
                                        [LATE_NETWORK] = "its network"};
    const struct seen *seen = (const struct seen *)values;
    enum late_cause cause = LATE_COMPUTING;
    double seconds, behind = 0;
    int rank;

    if (!late || late->job->rank != 0 || iteration <= late->iteration)
        return;
    seconds = seen->compute + seen->input + seen->stall; /* nearly equal on all ranks */
    rank = find_slow(late, seen, seconds, &cause, &behind);
    if (rank < 0) {
        cause = LATE_NETWORK;
        rank = find_slow_link(late, seen, seconds, &behind);
    }
    assert(rank < late->job->nranks);
    late->looks++;
    if (rank >= 0) {
        late->of_rank[rank].times++;
        late->of_rank[rank].seconds[cause] += behind;
        LOG_INFO(late->job->log,
                 "Rank %d on %s was late: in the last %s the others waited %s for %s", rank,
                 late->job->topology.host[rank], units_seconds(seconds).text,
                 units_seconds(behind).text, words[cause]);
    }
    late->iteration = iteration;
}

void stragglers_tell(const struct stragglers *late, struct figures *figures)
{
    if (!late || late->job->rank != 0)
        return;
    figures->looks = late->looks;
    for (int r = 0; r < figures->nranks; r++)
        figures->ranks[r].late = late->of_rank[r];
}
