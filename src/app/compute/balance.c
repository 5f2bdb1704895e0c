/* Divides a batch: evenly, as given, as in the resumed run, or by measured speed. */
#include "compute/balance.h"

#include "exchange/schemes.h"
#include "plan/deal.h"
#include "compute/fake_data.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/machine.h"
#include "util/median.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool gives_parts(const struct job *job)
{
    return job->options->balance && *job->options->balance;
}

/* Returns the smallest number of samples that can move between workers: a grain, or one. */
static int64_t grain_of(const struct job *job)
{
    return job->options->reproducible ? job->batch : 1;
}

/* Reads the option's parts, one per worker, into part[], and their sum. */
static int read_parts(const struct job *job, const char *text, int *part, int64_t *sum)
{
    enum { MOST = 1000000 };
    const char *at = text;
    int n = 0;

    *sum = 0;
    for (bool continues = true; continues; n++) {
        char *end;
        long value = strtol(at, &end, 10);

        if (end == at || value < 1 || value > MOST || (*end && *end != ','))
            return error_set("--balance=%s: expected 'once' or the workers' parts, numbers from 1 "
                             "to %d such as 3,3,1, found '%.*s'",
                             text, MOST, (int)strcspn(at, ","), at);
        if (n < job->nworkers)
            part[n] = (int)value;
        *sum += value;
        continues = *end == ',';
        at = end + 1;
    }
    return n == job->nworkers
               ? 0
               : error_set("--balance=%s gives %s for %s: expected one part for each worker", text,
                           units_count(n, "part").text, units_count(job->nworkers, "worker").text);
}

static int deal_by_parts(struct job *job, const char *text, int64_t turn)
{
    int64_t grains = turn / grain_of(job), sum;

    if (read_parts(job, text, job->samples, &sum))
        return -1;
    for (int w = 0; w < job->nworkers; w++) {
        int64_t part = job->samples[w];

        if (part * grains % sum)
            return error_set("--balance=%s: %" PRId64
                             " %s cannot be dealt in these parts: rank %d would have %.2f; "
                             "expected a multiple of %" PRId64 " by --global-batch=N%s",
                             text, grains,
                             job->options->reproducible ? "grains" : "samples of a pass", w,
                             (double)(part * grains) / (double)sum, sum,
                             job->options->reproducible ? " or --reproducible=GRAIN"
                             : job->iter_size > 1       ? " times iter_size"
                                                        : "");
        job->samples[w] = (int)(part * grains / sum * grain_of(job));
    }
    return 0;
}

/* Gives each worker an equal number of grains, or one more. */
static void deal_evenly(struct job *job, int64_t turn)
{
    int64_t grain = grain_of(job), grains = turn / grain;

    for (int w = 0; w < job->nworkers; w++)
        job->samples[w] = (int)((grains / job->nworkers + (w < grains % job->nworkers)) * grain);
}

/* ---- shares in a snapshot: "balance HOST:SAMPLES HOST:SAMPLES" ---- */

static const char SAVED[] = "balance ";

void balance_put_saved(const struct job *job, struct strbuf *out)
{
    if (!job->samples)
        return;
    strbuf_puts(out, SAVED);
    for (int w = 0; w < job->nworkers; w++)
        strbuf_printf(out, "%s%s:%d", w > 0 ? " " : "", job->topology.host[w], job->samples[w]);
    strbuf_puts(out, "\n");
}

const char *balance_skip_saved(const char *text)
{
    if (!text || strncmp(text, SAVED, strlen(SAVED)) != 0)
        return text;
    text += strcspn(text, "\n");
    return text + (*text == '\n');
}

/* Reads the resumed run's shares; false if the run had other hosts or another batch size. */
static bool read_saved(struct job *job, int64_t turn)
{
    const char *at = job->shares.saved;
    int64_t sum = 0;

    if (balance_skip_saved(at) == at)
        return false;
    at += strlen(SAVED);
    for (int w = 0; w < job->nworkers; w++) {
        size_t length = strlen(job->topology.host[w]);
        long share;
        char *end;

        if (strncmp(at, job->topology.host[w], length) != 0 || at[length] != ':')
            return false;
        share = strtol(at + length + 1, &end, 10);
        if (share < 1 || share > turn || share % grain_of(job) ||
            *end != (w + 1 < job->nworkers ? ' ' : '\n'))
            return false;
        job->samples[w] = (int)share;
        sum += share;
        at = end + 1;
    }
    return sum == turn;
}

/* ---- dealing ---- */

/* Sets each worker's relative speed: measured if `workers` is given, else proportional to its
 * share. */
static void set_paces(struct job *job, const struct deal_worker *workers)
{
    struct simulate_pace *pace = job->shares.pace;
    double slowest = INFINITY;

    for (int w = 0; w < job->nworkers; w++) {
        pace[w].speed =
            job->samples[w] / (workers ? deal_seconds(&workers[w], job->samples[w]) : 1);
        slowest = fmin(slowest, pace[w].speed);
    }
    for (int w = 0; w < job->nworkers; w++)
        pace[w].speed /= slowest;
    exchange_set_shares(pace, job->samples, job->nworkers, job->samples[0]);
    job->shares.images_per_s = workers ? slowest : 0;
}

/* Sets this rank's batch to its share, or with --reproducible its number of passes. */
static void take_shares(struct job *job, const struct deal_worker *workers)
{
    if (job->options->reproducible)
        job->iter_size = job->samples[job->worker ? job->rank : 0] / job->batch;
    set_paces(job, workers);
}

int balance_deal(struct job *job, int64_t turn)
{
    int status =
        error_status(OWN(job->owner, job->samples, job->nworkers, "the shares of a batch") ||
                     OWN(job->owner, job->shares.pace, job->nworkers, "the shares of a batch") ||
                     OWN(job->owner, job->shares.room, job->nworkers, "the shares of a batch"));

    if (!status && gives_parts(job)) {
        status = deal_by_parts(job, job->options->balance, turn);
    } else if (!status && turn / grain_of(job) < job->nworkers) {
        status = error_set("%s cannot share %" PRId64
                           " %s: each worker needs one; expected a larger --global-batch=N",
                           units_count(job->nworkers, "worker").text, turn / grain_of(job),
                           job->options->reproducible ? "grains" : "samples of a pass");
    } else if (!status) {
        job->shares.kept = read_saved(job, turn);
        if (!job->shares.kept)
            deal_evenly(job, turn);
    }
    if (!status)
        take_shares(job, NULL);
    return status;
}

static void list_samples(const struct job *job, struct strbuf *out)
{
    for (int w = 0, next; w < job->nworkers; w = next) {
        for (next = w + 1; next < job->nworkers && job->samples[next] == job->samples[w];)
            next++;
        strbuf_puts(out, w > 0 ? " + " : "");
        if (next - w > 1)
            strbuf_printf(out, "%d x ", next - w);
        strbuf_printf(out, "%d", job->samples[w]);
    }
}

void balance_describe(const struct job *job, struct strbuf *out)
{
    if (!job->samples) {
        strbuf_printf(out, "%s x %d", units_count(job->nworkers, "worker").text, job->batch);
        return;
    }
    strbuf_puts(out, "workers of (");
    list_samples(job, out);
    strbuf_puts(out, ")");
}

/* ---- measuring ---- */

/* Least gain for which shares by speed replace equal ones; less is noise. */
#define WORTH_IT 0.03

/* Times a pass of `batch` made-up samples, and finds the bytes of memory per sample. */
static int time_passes(const struct job *job, struct compute *compute, int batch, double *seconds,
                       double *sample_bytes)
{
    const double least_seconds = 1;
    const struct pass pass = {.seed = job->seed};
    struct owner owner = {.last = NULL};
    struct fake_data *fake;
    struct net *net = NULL;
    double start = 0, now = 0, loss;
    int passes = -2; /* pass -2 warms up, and timing begins after pass -1 */
    int status = compute_create_trial(compute, job, batch, &net) ||
                 fake_data_create(&owner, net, job->seed, 0, &fake);

    /* reading the loss waits for all earlier work, on every engine */
    for (; !status && (passes < 2 || now - start < least_seconds); passes++) {
        status = (passes > -2 && net_backward(net, &pass, true, NULL)) || fake_data_write(fake) ||
                 net_forward(net, &pass, NULL, &loss);
        now = clock_seconds();
        if (passes == -1)
            start = now;
    }
    *seconds = (now - start) / (passes > 0 ? passes : 1);
    if (!status)
        *sample_bytes = (double)net_memory_plan(net)->bytes / batch;
    net_destroy(net);
    owner_free(&owner);
    return error_status(status);
}

/* Returns how many samples fit into `bytes`. apart: bytes that do not grow with samples. */
static int count_room(double bytes, double apart, double sample_bytes)
{
    double room = (bytes - apart) / sample_bytes;

    if (bytes <= 0 || sample_bytes <= 0 || room > INT32_MAX)
        return INT32_MAX;
    return room > 1 ? (int)room : 1;
}

/* Returns this rank's part of the free memory of host or device; 0: unknown. */
static double free_bytes(const struct job *job, const struct compute *compute)
{
    const struct engine *engine = &compute->engine;
    int sharers = job->topology.local_ranks;

    if (!engine->device.i->own_memory)
        return (double)machine_free_memory(sharers);
    return engine->device.i->room ? (double)engine->device.i->room(engine->context) /
                                        (job->options->share_gpu ? sharers : 1)
                                  : 0;
}

/* Measurements of a worker. */
struct trial {
    double seconds;      /* seconds of a pass of an equal share */
    double half_seconds; /* seconds of a pass of half the share; 0: no half */
    int most;            /* samples that fit into the worker's memory */
};

/* Times two batch sizes: part of a pass takes constant time, since small products also read all
 * weights. */
static int measure(const struct job *job, struct compute *compute, struct trial *out)
{
    bool grains = job->options->reproducible; /* a pass is one grain, whatever the share */
    int batch = grains ? job->batch : job->samples[0], half = grains ? 0 : batch / 2;
    double params = (double)compute->net->elems * sizeof(float) * (2 + job->rule.nhistory);
    double left = free_bytes(job, compute), bytes = 0;

    cores_enter_team(&job->cores, job->threads);
    if (time_passes(job, compute, batch, &out->seconds, &bytes))
        return -1;
    out->most = count_room(left, params, bytes);
    return half > 0 ? time_passes(job, compute, half, &out->half_seconds, &bytes) : 0;
}

/* Returns the fraction of a pass's time that does not grow with samples: the median over workers,
 * since it depends on the net more than on the worker. parts: scratch. */
static double find_fixed(const struct job *job, const struct trial *trials, double *parts)
{
    const double most = 0.8;
    double batch = job->samples[0], half = job->samples[0] / 2, part;

    for (int w = 0; w < job->nworkers; w++) /* seconds = fixed + samples x slope, for two batches */
        parts[w] =
            trials[w].half_seconds > 0
                ? (trials[w].half_seconds / trials[w].seconds * batch - half) / (batch - half)
                : 0;
    part = median_lower(parts, job->nworkers);
    return part < 0 ? 0 : part < most ? part : most;
}

static int judge_trials(const struct job *job, const struct trial *trials,
                        struct deal_worker *workers)
{
    double *parts = alloc_array((size_t)job->nworkers, sizeof *parts, "the speed of workers"),
           fixed;

    if (!parts)
        return -1;
    fixed = find_fixed(job, trials, parts);
    free(parts);
    for (int w = 0; w < job->nworkers; w++) {
        double samples = job->options->reproducible ? job->batch : job->samples[0];
        workers[w] =
            (struct deal_worker){.samples_per_s = samples / (trials[w].seconds * (1 - fixed)),
                                 .pass_s = trials[w].seconds * fixed,
                                 .most = trials[w].most};
    }
    return 0;
}

static double slowest(const struct job *job, const struct deal_worker *workers, const int *share)
{
    double most = 0;

    for (int w = 0; w < job->nworkers; w++)
        most = fmax(most, deal_seconds(&workers[w], share[w]));
    return most;
}

static void say_dealt(const struct job *job, const struct deal_worker *workers, const int *share,
                      double equal, double dealt)
{
    struct strbuf text = {.data = NULL};

    for (int w = 0; w < job->nworkers; w++)
        strbuf_printf(&text, "%s%s (rank %d) %d at %.1f images/s", w > 0 ? ", " : "",
                      job->topology.host[w], w, share[w],
                      share[w] / deal_seconds(&workers[w], share[w]));
    LOG_INFO(job->log,
             "Balance: %" PRId64 " samples a pass: %s; compute time %s, with equal shares %s",
             job->turn, strbuf_text(&text), units_seconds(dealt).text, units_seconds(equal).text);
    strbuf_free(&text);
}

static bool have_room(const struct job *job, const struct deal_worker *workers)
{
    bool room = true;

    for (int w = 0; w < job->nworkers; w++)
        room = room && job->samples[w] <= workers[w].most;
    return room;
}

/* Finds shares by speed on rank 0. Keeps equal shares if these are as fast and fit into memory.
 * workers, share: one per worker. */
static int deal_by_speed(struct job *job, const struct trial *trials, struct deal_worker *workers,
                         int *share)
{
    double equal, dealt;

    if (judge_trials(job, trials, workers))
        return -1;
    if (deal_samples(workers, job->nworkers, job->turn, grain_of(job), share))
        return error_context("--balance");
    equal = slowest(job, workers, job->samples);
    dealt = slowest(job, workers, share);
    if (dealt > equal * (1 - WORTH_IT) && have_room(job, workers)) {
        memcpy(share, job->samples, (size_t)job->nworkers * sizeof *share);
        dealt = equal;
    }
    say_dealt(job, workers, share, equal, dealt);
    return 0;
}

int balance_measure_all(struct job *job, struct compute *compute, bool *dealt)
{
    MPI_Comm world = job->world;
    size_t n = (size_t)job->nworkers;
    struct deal_worker *workers = NULL;
    struct trial mine = {.most = 0};
    void *all = NULL;
    int *share = NULL, status;

    *dealt = job->options->balance && !gives_parts(job) && !job->shares.kept && job->nworkers > 1;
    if (job->shares.kept)
        LOG_INFO(job->log, "Balance: the shares of the resumed run are kept");
    if (!*dealt)
        return 0;
    if (balance_skip_saved(job->shares.saved) != job->shares.saved)
        LOG_INFO(job->log,
                 "Balance: the run had other hosts or another batch: shares are dealt again");
    watchdog_step("measuring the speed of workers");
    share = alloc_array(n, sizeof *share, "the shares of a batch");
    workers = alloc_array(n, sizeof *workers, "the speed of workers");
    status = error_agree(world, share && workers ? 0 : -1) ||
             error_agree(world, job->worker ? measure(job, compute, &mine) : 0) ||
             agree_gather(world, &mine, sizeof mine, "the speed of workers", &all) ||
             error_agree(world, job->rank == 0 ? deal_by_speed(job, all, workers, share) : 0) ||
             agree_share(world, share, n * sizeof *share) ||
             agree_share(world, workers, n * sizeof *workers);
    watchdog_step("building the nets");
    cores_enter(&job->cores, CORES_ALL);
    if (!status) {
        bool even = !memcmp(job->samples, share, n * sizeof *share); /* taken as equal speeds */
        memcpy(job->samples, share, n * sizeof *share);
        take_shares(job, even ? NULL : workers);
        for (size_t w = 0; w < n; w++)
            job->shares.room[w] = workers[w].most;
    }
    free(all);
    free(workers);
    free(share);
    return error_status(status);
}
