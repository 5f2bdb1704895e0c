/* What the nets' data layers would read, and whether the layers that read their labels can: the
 * commonest mistake in a data set of one's own is a label that no output stands for. */
#include "train/dry_run.h"

#include "input/source.h"
#include "train/fake_data.h"
#include "util/error.h"

#include <inttypes.h>

#define LOOK_SECONDS 5.0 /* where records have to be read for their labels */

static void put_labels(struct dry_run *out, const struct net *net, const struct layer *data,
                       const struct source_survey *s)
{
    size_t classes;
    const struct layer *reader = data->ntops > 1 ? net_label_reader(net, data, 1, &classes) : NULL;
    bool judged = reader && !net_ignores_a_label(reader);

    strbuf_printf(&out->survey, "\n            labels %g to %g", (double)s->least, (double)s->most);
    if (s->nread < s->nrecords)
        strbuf_printf(&out->survey, " in %" PRIu64 " records spread over all", s->nread);
    strbuf_printf(&out->survey, "; the first is %g, the last %g", (double)s->first,
                  (double)s->last);
    if (judged && (s->least < 0 || s->most >= (float)classes || s->fraction))
        strbuf_printf(&out->unfit,
                      "%slabels of %s are %g to %g%s, but layer '%s' has %zu scores: expected "
                      "whole numbers from 0 to %zu (num_output, or the labels, are wrong)",
                      out->unfit.length ? "; " : "", s->path, (double)s->least, (double)s->most,
                      s->fraction ? ", not all of them whole" : "", reader->def->name, classes,
                      classes - 1);
    else if (judged && s->nread == s->nrecords && s->most + 1 < (float)classes)
        /* such a net trains, and is seldom meant */
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
    strbuf_printf(lines, "%-10s  layer '%s': %s, %" PRIu64 " record%s of ", phase, layer->def->name,
                  s.path, s.nrecords, s.nrecords == 1 ? "" : "s");
    strbuf_puts(lines, shape_product(&s.shape).text);
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
