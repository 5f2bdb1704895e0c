/* The points of --csv and --tensorboard: rank 0 notes what a display and a test show. And the
 * progress line. */
#include "train/output.h"

#include "report/curves.h"
#include "report/outputs.h"
#include "util/alloc.h"

#include <math.h>
#include <stdlib.h>

/* "test/accuracy", with the net's number where there are several, and the element's likewise. */
static char *name_score(const struct job *job, int test, const struct blob *blob, size_t element)
{
    struct strbuf text = {.data = NULL};
    char *name;

    strbuf_puts(&text, "test");
    if (job->defs.ntests > 1)
        strbuf_printf(&text, "%d", test);
    strbuf_printf(&text, "/%s", blob->name);
    if (shape_elems(&blob->value.shape) > 1)
        strbuf_printf(&text, "[%zu]", element);
    name = strbuf_take(&text);
    for (char *c = name; name && *c; c++) /* what would end a cell */
        if (*c == ',' || *c == '"' || (unsigned char)*c < ' ')
            *c = '_';
    return name;
}

size_t metrics_count(const struct compute *compute, int ntests)
{
    size_t count = 0;

    for (int i = 0; i < ntests && compute->tests; i++)
        count += outputs_count(compute->tests[i]);
    return count;
}

static int name_scores(const struct job *job, const struct compute *compute, char **names)
{
    int n = 0;

    for (int i = 0; i < job->defs.ntests && compute->tests; i++)
        for (int o = 0; o < compute->tests[i]->noutputs; o++) {
            const struct blob *blob = compute->tests[i]->outputs[o].blob;
            for (size_t e = 0; e < shape_elems(&blob->value.shape); e++)
                if (!(names[n++] = name_score(job, i, blob, e)))
                    return -1;
        }
    return 0;
}

int metrics_open(const struct job *job, const struct compute *compute, const struct train_state *at,
                 struct curves **out)
{
    const struct trainer_options *o = job->options;
    size_t count = metrics_count(compute, job->defs.ntests);
    char **names;
    int status;

    if (job->rank != 0 || job->blank || (!o->csv && !o->tensorboard))
        return 0;
    names = alloc_array(count, sizeof *names, "names of scores");
    status = names ? name_scores(job, compute, names) : -1;
    if (!status)
        status = curves_open(&(struct curves_options){.csv = o->csv,
                                                      .tensorboard = o->tensorboard,
                                                      .resumed = at->iteration > 0,
                                                      .first = at->iteration,
                                                      .scores = (const char *const *)names,
                                                      .nscores = (int)count,
                                                      .log = job->log},
                             out);
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
    return status;
}

void metrics_put(struct curves *curves, const struct job *job, const struct train_state *at,
                 struct curves_row row)
{
    double samples = (double)job_samples_before(job, at, row.iteration);

    row.epoch = job->records > 0 ? job_epochs(job, samples) : (double)NAN;
    if (curves)
        curves_put(curves, &row);
}

void metrics_show_progress(const struct job *job, const struct train_state *at, int64_t iteration,
                           double seconds, double loss)
{
    double rate = seconds > 0 ? (double)(iteration + 1 - at->iteration) / seconds : 0;
    double samples = (double)job_samples_before(job, at, iteration + 1),
           all = (double)job_samples_before(job, at, job->max_iter);
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
