/* The points of --csv and --tensorboard: rank 0 notes what a display and a test show. */
#include "solver/trainer_internal.h"

#include "report/curves.h"
#include "report/outputs.h"
#include "util/error.h"

#include <math.h>
#include <stdlib.h>

/* "test/accuracy", with the net's number where there are several, and the element's likewise. */
static char *name_score(const struct trainer *t, int test, const struct blob *blob, size_t element)
{
    struct strbuf text = {.data = NULL};
    char *name;

    strbuf_puts(&text, "test");
    if (t->defs.ntests > 1)
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

static int name_scores(const struct trainer *t, char **names)
{
    int n = 0;

    for (int i = 0; i < t->defs.ntests && t->tests; i++)
        for (int o = 0; o < t->tests[i]->noutputs; o++) {
            const struct blob *blob = t->tests[i]->outputs[o].blob;
            for (size_t e = 0; e < shape_elems(&blob->value.shape); e++)
                if (!(names[n++] = name_score(t, i, blob, e)))
                    return -1;
        }
    return 0;
}

int trainer_open_points(struct trainer *t)
{
    const struct trainer_options *o = t->options;
    size_t count = 0;
    char **names;
    int status;

    if (t->rank != 0 || t->blank || (!o->csv && !o->tensorboard))
        return 0;
    for (int i = 0; i < t->defs.ntests && t->tests; i++)
        count += outputs_count(t->tests[i]);
    names = calloc(count + 1, sizeof *names);
    status = names ? name_scores(t, names) : error_memory(count * sizeof *names, "names of scores");
    if (!status)
        status = curves_open(&(struct curves_options){.csv = o->csv,
                                                      .tensorboard = o->tensorboard,
                                                      .resumed = t->at.iteration > 0,
                                                      .first = t->at.iteration,
                                                      .scores = (const char *const *)names,
                                                      .nscores = (int)count,
                                                      .log = t->log},
                             &t->curves);
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
    return status;
}

static double epoch_of(const struct trainer *t, int64_t iteration)
{
    double samples = (double)t->at.cursor + (double)(iteration - t->at.iteration) *
                                                (double)t->iter_size * (double)t->nworkers *
                                                (double)t->batch;

    return t->records > 0 ? samples / (double)t->records : (double)NAN;
}

void trainer_note_display(struct trainer *t, int64_t iteration, double seconds, double loss)
{
    double lapse = seconds - t->display_seconds;
    int64_t done = iteration - t->display_iter;
    double samples = (double)t->iter_size * (double)t->nworkers * (double)t->batch;

    if (!t->curves)
        return;
    curves_put(t->curves,
               &(struct curves_row){.iteration = iteration,
                                    .epoch = epoch_of(t, iteration),
                                    .seconds = seconds,
                                    .images_per_second = done > 0 && lapse > 0
                                                             ? (double)done * samples / lapse
                                                             : (double)NAN,
                                    .loss = loss,
                                    .rate = (double)t->rates[iteration - t->at.iteration]});
}

void trainer_note_test(struct trainer *t, int test, int64_t iteration, const double *scores)
{
    struct curves_row row = {.iteration = iteration,
                             .epoch = epoch_of(t, iteration),
                             .seconds = t->trained_seconds,
                             .images_per_second = NAN,
                             .loss = NAN,
                             .rate = NAN,
                             .scores = scores};

    if (!t->curves)
        return;
    for (int i = 0; i < test; i++)
        row.first += (int)outputs_count(t->tests[i]);
    row.n = (int)outputs_count(t->tests[test]);
    curves_put(t->curves, &row);
}
