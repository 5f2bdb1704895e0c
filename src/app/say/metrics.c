/* Writes the points of --curves at displays and tests on rank 0, and shows the progress line. */
#include "say/output.h"

#include "report/curves.h"
#include "report/outputs.h"
#include "util/strbuf.h"

#include <math.h>

/* Appends "test/accuracy", or "test1/accuracy[2]" with several nets and elements. Characters that
 * would end a cell of CSV become '_'. */
static void name_score(const struct job *job, int test, const struct blob *blob, size_t element,
                       struct strbuf *out)
{
    strbuf_puts(out, out->length ? ",test" : "test");
    if (job->defs.ntests > 1)
        strbuf_printf(out, "%d", test);
    strbuf_putc(out, '/');
    for (const char *c = blob->name; *c; c++)
        strbuf_putc(out, *c == ',' || *c == '"' || (unsigned char)*c < ' ' ? '_' : *c);
    if (shape_elems(&blob->value.shape) > 1)
        strbuf_printf(out, "[%zu]", element);
}

size_t metrics_count(const struct compute *compute, int ntests)
{
    size_t count = 0;

    for (int i = 0; i < ntests && compute->tests; i++)
        count += outputs_count(compute->tests[i]);
    return count;
}

int metrics_open(struct output *output)
{
    const struct job *job = output->job;
    const struct compute *compute = output->compute;
    const struct trainer_options *o = job->options;
    struct strbuf names = {.data = NULL};
    int status;

    if (job->rank != 0 || job->blank || (!o->csv && !o->tensorboard))
        return 0;
    for (int i = 0; i < job->defs.ntests && compute->tests; i++)
        for (int n = 0; n < compute->tests[i]->noutputs; n++) {
            const struct blob *blob = compute->tests[i]->outputs[n].blob;
            for (size_t e = 0; e < shape_elems(&blob->value.shape); e++)
                name_score(job, i, blob, e, &names);
        }
    status = strbuf_status(&names);
    if (!status)
        status = curves_open(&(struct curves_options){.csv = o->csv,
                                                      .tensorboard = o->tensorboard,
                                                      .resumed = output->at->iteration > 0,
                                                      .first = output->at->iteration,
                                                      .scores = strbuf_text(&names),
                                                      .log = job->log},
                             &output->curves);
    strbuf_free(&names);
    return status;
}

void metrics_put(const struct output *output, struct curves_row row)
{
    double samples = (double)job_samples_before(output->job, output->at, row.iteration);

    row.epoch = output->job->records > 0 ? job_epochs(output->job, samples) : (double)NAN;
    if (output->curves)
        curves_put(output->curves, &row);
}

void metrics_show_progress(const struct output *output, int64_t iteration, double seconds,
                           double loss)
{
    const struct job *job = output->job;
    double rate = seconds > 0 ? (double)(iteration + 1 - output->at->iteration) / seconds : 0;
    double samples = (double)job_samples_before(job, output->at, iteration + 1),
           all = (double)job_samples_before(job, output->at, job->max_iter);
    const struct log_progress progress = {
        .iteration = iteration + 1,
        .max_iter = job->max_iter,
        .images_per_second = rate * (double)job_samples(job),
        .eta_seconds = rate > 0 ? (double)(job->max_iter - iteration - 1) / rate : -1,
        .loss = loss,
        .epochs = job_epochs(job, samples),
        .max_epochs = job_epochs(job, all)};

    log_progress(job->log, &progress);
}
