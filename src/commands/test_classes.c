/* How well a net knows each class. */
#include "commands/test_classes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/agree.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/strbuf.h"

enum { FIVE = 5 };

int test_classes_open(struct test_classes *t, const struct model *model)
{
    const struct net *net = model->net;
    const struct shape *shape;

    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];

        if (!t->images.source && layer->i->images)
            layer->i->images(layer, &t->images);
        if (layer->i->reads_labels && layer->nbottoms > 1) {
            t->scores = layer->bottoms[0];
            t->label = layer->bottoms[1];
        }
    }
    if (!t->scores)
        return error_set("--classes and --confusion: the TEST phase has no layer that compares "
                         "scores with labels, such as Accuracy");
    shape = &t->scores->value.shape;
    if (shape->naxes < 2 || shape_elems(&t->label->value.shape) != (size_t)shape->dim[0])
        return error_set("--classes and --confusion: expected one label a sample, found scores "
                         "'%s' of shape %s and labels of shape %s",
                         t->scores->name, shape_text(shape).text,
                         shape_text(&t->label->value.shape).text);
    net_keep(model->net, t->scores);
    net_keep(model->net, t->label);
    t->net = net;
    t->batch = (int)shape->dim[0];
    t->classes = (int)(shape_elems(shape) / (size_t)t->batch);
    return 0;
}

int test_classes_start(struct test_classes *t)
{
    size_t cells = ((size_t)t->classes + 1) * (size_t)t->classes;

    return error_any(ALLOC(t->values, (size_t)t->batch * (size_t)t->classes, "counts of classes") ||
                     ALLOC(t->labels, t->batch, "counts of classes") ||
                     ALLOC(t->counts, cells, "counts of classes"));
}

int test_classes_add(struct test_classes *t, int n)
{
    if (net_read_blob(t->net, t->scores, t->values) || net_read_blob(t->net, t->label, t->labels))
        return -1;
    for (int i = 0; i < n; i++) {
        const float *row = t->values + (size_t)i * (size_t)t->classes;
        int label = (int)t->labels[i], best = 0, above = 0;

        if (label < 0 || label >= t->classes || t->labels[i] != (float)label)
            continue;
        for (int k = 0; k < t->classes; k++) {
            /* as Accuracy: a tie is no hit */
            best = row[k] > row[best] || (best == label && row[k] >= row[best]) ? k : best;
            above += k != label && !(row[k] < row[label]);
        }
        t->counts[(size_t)label * (size_t)t->classes + (size_t)best]++;
        t->counts[(size_t)t->classes * (size_t)t->classes + (size_t)label] += above < FIVE;
    }
    return 0;
}

int test_classes_gather(struct test_classes *t, MPI_Comm comm)
{
    for (int row = 0; row <= t->classes; row++)
        MPI_TRY(MPI_Allreduce(MPI_IN_PLACE, t->counts + (size_t)row * (size_t)t->classes,
                              t->classes, MPI_INT64_T, MPI_SUM, comm));
    return 0;
fail:
    return -1;
}

static int64_t support(const struct test_classes *t, int label)
{
    int64_t sum = 0;

    for (int k = 0; k < t->classes; k++)
        sum += t->counts[(size_t)label * (size_t)t->classes + (size_t)k];
    return sum;
}

static const char *name_of(const struct test_classes *t, int label, char *buffer, size_t size)
{
    if (label < t->images.nclasses)
        return t->images.classes[label];
    snprintf(buffer, size, "%d", label);
    return buffer;
}

static double percent(int64_t part, int64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : (double)NAN;
}

void test_classes_print(const struct test_classes *t, FILE *to)
{
    int64_t right = 0, among = 0, all = 0;
    char number[16];

    fprintf(to, "%-24s %8s %9s %9s\n", "class", "samples", "accuracy", "top-5");
    for (int k = 0; k < t->classes; k++) {
        int64_t n = support(t, k), hits = t->counts[(size_t)k * (size_t)t->classes + (size_t)k];
        int64_t five = t->counts[(size_t)t->classes * (size_t)t->classes + (size_t)k];

        if (n)
            fprintf(to, "%-24s %8lld %7.1f %% %7.1f %%\n", name_of(t, k, number, sizeof number),
                    (long long)n, percent(hits, n), percent(five, n));
        right += hits;
        among += five;
        all += n;
    }
    fprintf(to, "%-24s %8lld %7.1f %% %7.1f %%\n", "all", (long long)all, percent(right, all),
            percent(among, all));
}

/* A cell of CSV: quoted where it has to be. */
static void put_cell(struct strbuf *text, const char *cell)
{
    bool quoted = strpbrk(cell, ",\"\n") != NULL;

    if (quoted)
        strbuf_puts(text, "\"");
    for (; *cell; cell++)
        strbuf_printf(text, *cell == '"' ? "\"%c" : "%c", *cell);
    if (quoted)
        strbuf_puts(text, "\"");
}

int test_classes_write(const struct test_classes *t, const char *path)
{
    struct strbuf text = {.data = NULL};
    char number[16];

    strbuf_puts(&text, "label");
    for (int k = 0; k < t->classes; k++) {
        strbuf_puts(&text, ",");
        put_cell(&text, name_of(t, k, number, sizeof number));
    }
    strbuf_puts(&text, "\n");
    for (int label = 0; label < t->classes; label++) {
        put_cell(&text, name_of(t, label, number, sizeof number));
        for (int k = 0; k < t->classes; k++)
            strbuf_printf(&text, ",%lld",
                          (long long)t->counts[(size_t)label * (size_t)t->classes + (size_t)k]);
        strbuf_puts(&text, "\n");
    }
    return file_write_text(path, &text);
}

void test_classes_close(struct test_classes *t)
{
    free(t->values);
    free(t->labels);
    free(t->counts);
}
