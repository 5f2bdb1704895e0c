/* train --dry-run: sets up everything as for training, with all messages of set-up, and writes
 * nothing. Reports what would be trained, and if it can. */
#include "say/dry_run.h"

#include "compute/balance.h"

#include "input/source.h"
#include "compute/fake_data.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/machine.h"
#include "util/units.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Bytes that a rank may still allocate in training: tables, MPI's messages, a snapshot. */
#define ROOM_TO_GROW_BYTES 32e6

/* Memory of one rank after set-up. Most of it is in use, because fillers have written it. */
struct rank_needs {
    double nets, communication, history; /* bytes; `history` is an upper bound */
    double resident, free; /* bytes of the process now; bytes that the machine has left */
    int threads;
    char cores[CORES_TEXT_BYTES];
};

static double tests_memory(const struct job *job, const struct test_pass *passes)
{
    double bytes = 0;

    for (int i = 0; i < job->defs.ntests; i++)
        bytes += (double)net_memory(passes[i].net) +
                 (double)(passes[i].rest ? net_memory(passes[i].rest) : 0);
    return bytes;
}

static void find_needs(const struct job *job, const struct compute *compute,
                       const struct exchange *exchange, struct rank_needs *out)
{
    int locals = job->topology.local_ranks;

    *out = (struct rank_needs){.communication = (double)plan_memory(exchange->plan, job->rank),
                               .history =
                                   (double)compute->net->elems * sizeof(float) * job->rule.nhistory,
                               .resident = (double)machine_resident(),
                               .free = (double)machine_free_memory(locals) * locals,
                               .threads = job->threads};
    if (job->worker)
        out->nets = (double)net_memory(compute->net) + (double)compute->grains.bytes;
    if (job->worker)
        out->nets += tests_memory(job, compute->passes);
    if (compute->average.net)
        out->nets +=
            (double)net_memory(compute->average.net) + tests_memory(job, compute->average.passes);
    cores_list(&job->cores, CORES_COMPUTE, out->cores);
}

int dry_run_limit_memory(const struct job *job, const struct compute *compute, size_t *limit)
{
    int locals = job->topology.local_ranks;
    uint64_t left =
        job->options->dry_run ? machine_free_memory(locals) : machine_limited_memory("", locals);
    double params = (double)compute->net->elems * sizeof(float), need;

    *limit = 0;
    if (!job->worker || compute->engine.device.i->own_memory || left == 0 || left == UINT64_MAX)
        return 0;
    /* values once, if ranks share them; per rank a gradient and a part of the history */
    need = params * (1 + locals + (double)job->rule.nhistory * locals / job->nranks);
    if (need > (double)left * locals)
        return error_set(
            "not ready to train: the net's %zu parameters, their gradients and the solver's "
            "history take at least %s on host %s with its %s, but only %s of memory is left",
            compute->net->nlearnable, units_bytes(need).text, job->topology.host[job->rank],
            units_count(locals, "rank").text, units_bytes((double)left * locals).text);
    *limit = (size_t)left;
    return 0;
}

/* Returns the text for another reason why the run cannot train. */
static struct strbuf *next_reason(struct dry_run *dry)
{
    if (dry->unfit.length)
        strbuf_puts(&dry->unfit, "; ");
    return &dry->unfit;
}

/* ---- data: what layers would read, and if labels fit the layers that read them. The most frequent
 * mistake with own data is a label without an output ---- */

#define LOOK_SECONDS 5.0 /* seconds for reading records, if only records have the labels */

static void put_labels(struct dry_run *out, const struct net *net, const struct layer *data,
                       const struct source_survey *s)
{
    size_t classes;
    const struct layer *reader = data->ntops > 1 ? net_label_reader(net, data, 1, &classes) : NULL;
    bool judged = reader && !net_ignores_a_label(reader);

    strbuf_printf(&out->survey, "\n            labels %g to %g", (double)s->least, (double)s->most);
    if (s->nread < s->nrecords)
        strbuf_printf(&out->survey, " in %s spread over the set",
                      units_count((long long)s->nread, "record").text);
    strbuf_printf(&out->survey, "; first %g, last %g", (double)s->first, (double)s->last);
    if (judged && (s->least < 0 || s->most >= (float)classes || s->fraction))
        strbuf_printf(next_reason(out),
                      "labels of %s are %g to %g%s, but layer '%s' has %zu scores: expected "
                      "whole numbers from 0 to %zu (num_output, or the labels, are wrong)",
                      s->path, (double)s->least, (double)s->most,
                      s->fraction ? ", not all of them whole" : "", reader->def->name, classes,
                      classes - 1);
    else if (judged && s->nread == s->nrecords && s->most + 1 < (float)classes)
        /* valid, but probably a mistake */
        strbuf_printf(&out->survey, "\n            layer '%s' has %zu scores for %g labels",
                      reader->def->name, classes, (double)s->most + 1);
}

static int look_at(struct dry_run *out, const char *phase, const struct net *net,
                   const struct layer *layer)
{
    struct strbuf *lines = &out->survey;
    struct source_survey s;

    if (layer->i->look(layer, LOOK_SECONDS, &s))
        return error_context("layer '%s'", layer->def->name);
    if (!s.path)
        return 0;
    strbuf_printf(lines, "%-10s  layer '%s': %s, %s of ", phase, layer->def->name, s.path,
                  units_count((long long)s.nrecords, "record").text);
    strbuf_puts(lines, s.shape.naxes ? shape_product(&s.shape).text : "single");
    strbuf_puts(lines, s.type == SOURCE_U8 ? " bytes" : " floats");
    if (s.labelled)
        put_labels(out, net, layer, &s);
    strbuf_putc(lines, '\n');
    return 0;
}

static int look_at_net(struct dry_run *out, const char *phase, const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].i->look && look_at(out, phase, net, &net->layers[l]))
            return -1;
    return 0;
}

int inspect_data(const struct job *job, const struct compute *compute, struct dry_run *out)
{
    if (job->blank)
        return 0;
    if (compute->fake)
        fake_data_describe(compute->fake, "train data", &out->survey);
    if (look_at_net(out, "train data", compute->net))
        return -1;
    for (int i = 0; i < job->defs.ntests; i++)
        if (compute->tests[i] && look_at_net(out, "test data", compute->tests[i]))
            return -1;
    return strbuf_status(&out->survey);
}

/* ---- the report ---- */

static void put_training(const struct job *job, const struct compute *compute,
                         const struct train_state *at, struct strbuf *out)
{
    int samples = (int)job_samples(job);

    strbuf_printf(out, "%-10s  %s: iterations %" PRId64 " to %d of %d samples (", "training",
                  job->options->solver, at->iteration, job->max_iter, samples);
    balance_describe(job, out);
    if (job->iter_size > 1)
        strbuf_printf(out, " x %s %d", job->options->reproducible ? "grains" : "iter_size",
                      job->iter_size);
    strbuf_puts(out, ")\n");
    if (job->records)
        strbuf_printf(out, "%-10s  %s of %d = %.4g epochs of %s\n", "",
                      units_count(job->max_iter, "iteration").text, samples,
                      job_epochs(job, (double)job->max_iter * samples),
                      units_count((long long)job->records, "record").text);
    strbuf_printf(out, "%-10s  %s: %s, %s\n", "net", compute->net->def->file,
                  units_count(compute->net->nlayers, "layer").text,
                  units_count((long long)compute->net->nlearnable, "parameter").text);
}

static void put_weights(const struct job *job, const struct training_run *run,
                        const struct train_state *at, bool resumed, struct strbuf *out)
{
    const char *given = job->options->weights;

    strbuf_printf(out, "%-10s  ", "weights");
    if (resumed)
        strbuf_printf(out, "of run '%s' after iteration %" PRId64 "\n", run->file.run,
                      at->iteration);
    else if (given || (job->solver->n_weights > 0 && !job_rehearses(job)))
        strbuf_printf(out, "%s\n", given ? given : job->solver->weights[0]);
    else
        strbuf_printf(out, "by the net's fillers, seed %" PRIu64 "\n", job->seed);
}

static void put_snapshots(struct dry_run *dry, const struct job *job, const struct compute *compute,
                          const struct training_run *run, const struct train_state *at,
                          struct strbuf *out)
{
    const Caffe__SolverParameter *s = job->solver;
    double each = (double)compute->net->nlearnable * sizeof(float) * (1 + job->rule.nhistory) +
                  run->residuals_bytes;
    int known;
    double free_bytes;
    int64_t count = s->snapshot > 0 ? (job->max_iter - at->iteration) / s->snapshot : 0;

    if (!run->keeps) {
        strbuf_printf(out, "%-10s  none are written\n", "snapshots");
        return;
    }
    count += s->snapshot_after_train && (s->snapshot <= 0 || job->max_iter % s->snapshot != 0);
    if (job->options->keep > 0 && count > job->options->keep)
        count = job->options->keep;
    free_bytes = (double)machine_free_disk(s->snapshot_prefix, &known);
    strbuf_printf(out, "%-10s  %s_iter_*: %" PRId64 " of %s each", "snapshots", s->snapshot_prefix,
                  count, units_bytes(each).text);
    if (run->residuals_bytes > 0)
        strbuf_printf(out, ", %s of it residuals", units_bytes(run->residuals_bytes).text);
    strbuf_printf(out, known ? "; %s free\n" : "\n", units_bytes(free_bytes).text);
    if (known && free_bytes < each * (double)count)
        strbuf_printf(next_reason(dry),
                      "the disk of snapshot_prefix has %s left, too little for %s of %s (--keep=N "
                      "keeps the newest)",
                      units_bytes(free_bytes).text, units_count(count, "snapshot").text,
                      units_bytes(each).text);
}

/* Returns the number of layers with bucket b's scheme; 0 if an earlier bucket has that scheme. */
static int count_alike(const struct plan *plan, int b)
{
    const struct bucket *buckets = plan->buckets;
    int layers = 0;

    for (int i = 0; i < plan->nbuckets && buckets[b].scheme; i++)
        if (buckets[i].trains && !strcmp(buckets[i].label.text, buckets[b].label.text)) {
            if (i < b)
                return 0;
            layers += buckets[i].ngroups;
        }
    return layers;
}

/* Writes the number of layers per scheme, and the bytes that rank 0 sends. */
static void put_plan(const struct job *job, const struct exchange *exchange, struct strbuf *out)
{
    const struct plan *plan = exchange->plan;
    uint64_t sent = 0;

    strbuf_printf(out, "%-10s  ", "plan");
    if (plan_is_alone(plan)) {
        strbuf_printf(out, "%s, nothing is sent\n",
                      plan->ncomputing == 1        ? "one worker"
                      : exchange->shape.nodes.team ? "workers add up gradients on their GPUs"
                                                   : "workers add up gradients in shared memory");
        return;
    }
    for (int b = 0; b < plan->nbuckets; b++)
        sent += plan_traffic(plan, b, job->rank).sent;
    for (int b = 0; b < plan->nbuckets; b++) {
        int layers = count_alike(plan, b);
        if (layers > 0)
            strbuf_printf(out, "%s by %s, ", units_count(layers, "layer").text,
                          plan->buckets[b].label.text);
    }
    strbuf_printf(out, "%s sent by rank 0 an iteration\n", units_bytes((double)sent).text);
}

static void put_memory(const struct rank_needs *needs, struct strbuf *out)
{
    strbuf_printf(out,
                  "%-10s  rank 0 holds %s: net %s, communication %s, solver's history at most %s, "
                  "batches, libraries\n",
                  "memory", units_bytes(needs->resident).text, units_bytes(needs->nets).text,
                  units_bytes(needs->communication).text, units_bytes(needs->history).text);
}

/* Writes the line of one machine: ranks, cores and memory. */
static void put_machine(struct dry_run *dry, const struct job *job, const struct rank_needs *ranks,
                        int machine, struct strbuf *out)
{
    const struct rank_needs *first = ranks; /* every machine has a rank */
    double held = 0;
    int count = 0, number = 0;

    for (int r = job->nranks - 1; r >= 0; r--) {
        if (job->topology.machine[r] != machine)
            continue;
        first = &ranks[r];
        number = r;
        count++;
        held += ranks[r].resident;
    }
    strbuf_printf(out, "%-10s  %s: %s from rank %d on, %s%s on cores ", "host",
                  job->topology.host[number], units_count(count, "rank").text, number,
                  units_count(first->threads, "compute thread").text, count == 1 ? "" : " each");
    cores_list_machine(ranks->cores, sizeof *ranks, &job->topology, machine, out);
    strbuf_printf(out, "; %s of memory held, %s left\n", units_bytes(held).text,
                  units_bytes(first->free).text);
    if (first->free > 0 && first->free < ROOM_TO_GROW_BYTES * count)
        strbuf_printf(next_reason(dry),
                      "host %s has %s of memory left beside the %s that its %s hold%s (start fewer "
                      "ranks there, or make the batch smaller)",
                      job->topology.host[number], units_bytes(first->free).text,
                      units_bytes(held).text, units_count(count, "rank").text,
                      count == 1 ? "s" : "");
}

static void put_all(struct dry_run *dry, const struct output *output, bool resumed,
                    const struct rank_needs *ranks, struct strbuf *out)
{
    const struct job *job = output->job;
    const struct compute *compute = output->compute;
    const struct train_state *at = output->at;

    if (!compute_trains(compute))
        strbuf_puts(next_reason(dry),
                    "nothing trains: every lr_mult of the net is 0, or its loss depends on no "
                    "parameters");
    if (at->iteration > 0 && at->iteration >= job->max_iter)
        strbuf_puts(next_reason(dry), "nothing is left to do: the snapshot has reached max_iter");
    put_training(job, compute, at, out);
    strbuf_puts(out, strbuf_text(&dry->survey));
    put_weights(job, output->monitor->run, at, resumed, out);
    put_snapshots(dry, job, compute, output->monitor->run, at, out);
    put_plan(job, output->exchange, out);
    put_memory(&ranks[0], out);
    for (int m = 0; m < job->topology.nmachines; m++)
        put_machine(dry, job, ranks, m, out);
}

int dry_run_report_all(struct dry_run *dry, const struct output *output, bool resumed,
                       struct strbuf *out)
{
    const struct job *job = output->job;
    struct rank_needs mine;
    void *ranks;
    int status = 0;

    find_needs(job, output->compute, output->exchange, &mine);
    if (agree_gather(job->world, &mine, sizeof mine, "what the ranks need", &ranks))
        return -1;
    if (job->rank == 0) {
        put_all(dry, output, resumed, ranks, out);
        status = strbuf_status(out) || strbuf_status(&dry->unfit);
        if (!status && dry->unfit.length)
            status = error_set("not ready to train: %s", strbuf_text(&dry->unfit));
    }
    free(ranks);
    return error_agree(job->world, status);
}
