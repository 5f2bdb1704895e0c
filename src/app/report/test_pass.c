/* Runs tests batch by batch, and computes their means. */
#include "report/test_pass.h"

#include "report/outputs.h"
#include "util/alloc.h"

#include <stdlib.h>
#include <string.h>

const char test_pass_twice[] = "The last batch of a test reaches over the end of the data and "
                               "counts records twice; the net cannot run a smaller batch";

int test_pass_open(struct test_pass *pass, struct net *net, int nranks)
{
    bool found = false, alike = true;

    *pass = (struct test_pass){.net = net, .batch = (uint64_t)net_batch(net)};
    for (int l = 0; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];
        struct layer_data_mark mark = {.known = false};
        uint64_t batch, records;

        if (!layer->i->mark)
            continue;
        if (layer->i->mark(layer, &mark))
            return error_context("layer '%s'", layer->def->name);
        batch = (uint64_t)layer->tops[0]->value.shape.dim[0];
        records = mark.known && !(mark.own && nranks > 1) ? mark.nrecords : 0;
        alike = alike && (!found || (batch == pass->batch && records == pass->records));
        if (!found) {
            pass->batch = batch;
            pass->records = records;
        }
        found = true;
    }
    return alike ? 0
                 : alloc_text(&pass->unable, "its data layers differ in their records or batches",
                              "a reason");
}

/* Returns how many samples of the last batch are beyond the end of the data. */
static uint64_t surplus(const struct test_pass *pass)
{
    uint64_t samples = pass->batch * (uint64_t)pass->batches;

    return pass->records && samples > pass->records && samples - pass->records < pass->batch
               ? samples - pass->records
               : 0;
}

static bool writes_file(const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++)
        if (!strcmp(net->layers[l].i->type, "HDF5Output"))
            return true;
    return false;
}

int test_pass_set(struct test_pass *pass, int batches, const struct layer_env *env,
                  const struct net *share)
{
    struct layer_env alone = *env;
    char *notices = NULL; /* dropped: the first net gave the same notices */
    int status = 0;

    pass->batches = batches;
    alone.rank = 0;
    alone.nranks = 1;
    alone.batch = (int)(pass->batch - surplus(pass));
    alone.notices = &notices;
    if (!surplus(pass)) {
        free(pass->unable);
        pass->unable = NULL;
    } else if (!pass->unable && writes_file(pass->net)) {
        status = alloc_text(&pass->unable, "its HDF5Output writes whole batches", "a reason");
    } else if (!pass->unable && net_create(pass->net->def, false, &alone, share, &pass->rest)) {
        pass->rest = NULL;
        status = alloc_text(&pass->unable, error_text(), "a reason");
    }
    if (pass->rest)
        net_share_sums(pass->rest, (double)pass->batch / alone.batch);
    free(notices);
    return status;
}

struct net *test_pass_net(const struct test_pass *pass, int b)
{
    return pass->rest && b == pass->batches - 1 ? pass->rest : pass->net;
}

uint64_t test_pass_samples(const struct test_pass *pass, int b)
{
    return pass->batch - (b == pass->batches - 1 ? surplus(pass) : 0);
}

uint64_t test_pass_length(const struct test_pass *pass)
{
    return pass->rest ? pass->records : pass->batch * (uint64_t)pass->batches;
}

/* Returns the elements of output o of the net that runs batch b. */
static size_t elems(const struct test_pass *pass, int b, int o)
{
    return shape_elems(&test_pass_net(pass, b)->outputs[o].blob->value.shape);
}

size_t test_pass_width(const struct test_pass *pass)
{
    return 2 * (outputs_count(pass->net) + 1 + (size_t)net_losses(pass->net));
}

/* Writes the losses after the outputs, then the weights of all numbers. */
static int weigh(const struct test_pass *pass, int b, struct net *net, double *row)
{
    size_t n = test_pass_width(pass) / 2, loss = outputs_count(pass->net) + 1;
    double *weight = row + n;

    for (size_t k = 0; k < n; k++)
        weight[k] =
            net == pass->rest ? (double)test_pass_samples(pass, b) / (double)pass->batch : 1;
    for (int o = 0; o < net->noutputs; weight += elems(pass, b, o++))
        if (pass->by_labels && net->outputs[o].labels &&
            net_count_scored(net, &net->outputs[o], weight))
            return -1;
    for (int i = 0; loss < n; i++, loss++)
        if (net_read_loss(net, i, &row[loss], pass->by_labels ? &row[n + loss] : NULL))
            return -1;
    return 0;
}

/* Moves the outputs of batch b's net to the places of the first net's outputs; other places: 0. */
static void spread(const struct test_pass *pass, int b, double *row)
{
    size_t to = outputs_count(pass->net), from = outputs_count(test_pass_net(pass, b));

    for (int o = pass->net->noutputs - 1; o >= 0 && from < to; o--) {
        size_t whole = elems(pass, 0, o), part = elems(pass, b, o);

        to -= whole;
        from -= part;
        memmove(row + to, row + from, part * sizeof *row);
        memset(row + to + part, 0, (whole - part) * sizeof *row);
    }
}

int test_pass_run(const struct test_pass *pass, int b, uint64_t first, const struct pass *keys,
                  double *row)
{
    struct net *net = test_pass_net(pass, b);

    if ((net == pass->rest && net_seek(net, first + (uint64_t)b * pass->batch)) ||
        net_forward(net, keys, NULL, NULL) || outputs_read(net, row) || weigh(pass, b, net, row))
        return error_context("test batch %d", b);
    spread(pass, b, row);
    spread(pass, b, row + test_pass_width(pass) / 2);
    return 0;
}

void test_pass_mean(const struct test_pass *pass, const double *table, double *mean)
{
    size_t width = test_pass_width(pass), loss = outputs_count(pass->net);

    for (size_t k = 0; k < width / 2; k++) {
        double sum = 0, weights = 0;

        for (const double *row = table; row < table + (size_t)pass->batches * width; row += width) {
            sum += row[width / 2 + k] * row[k];
            weights += row[width / 2 + k];
        }
        mean[k] = weights > 0 ? sum / weights : 0;
        if (k > loss)
            mean[loss] += mean[k];
    }
}

void test_pass_close(struct test_pass *pass)
{
    net_destroy(pass->rest);
    free(pass->unable);
    *pass = (struct test_pass){.net = NULL};
}
