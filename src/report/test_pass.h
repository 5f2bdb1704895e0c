/* A test of a net: a number of batches, and the means of their outputs.
 *
 * Where the batches go through the data once and the last of them would reach over the end into
 * records that were seen already, the last batch is a smaller one, of a second net that has the
 * first one's parameters. So each record counts once, whatever the net computes of a batch; the
 * means are over records. Other tests are Caffe's: means over batches. By labels, a score or loss
 * that is divided by the labels that count is weighted by their number. Not collective. */
#ifndef POSEIDON_REPORT_TEST_PASS_H
#define POSEIDON_REPORT_TEST_PASS_H

#include "net/net.h"

struct test_pass {
    struct net *net;  /* of whole batches; borrowed */
    struct net *rest; /* of the last batch where it is smaller than the others; else NULL. Owned */
    char *unable; /* why `rest` cannot be made, though the last batch reaches over the end of the
                     data; else NULL. Owned */
    int batches;
    uint64_t batch;   /* samples of one */
    uint64_t records; /* of the data; 0: they have no end, or each rank its own */
    bool by_labels;   /* the means are over the labels that count, not over batches; set behind
                         test_pass_open */
};

/* What is to be said where there is a reason in `unable`, which stands behind it. */
extern const char test_pass_twice[];

/* What the net's data layers tell, before net_build; batches stays 0. nranks: that test together.
 */
int test_pass_open(struct test_pass *pass, struct net *net, int nranks);

/* Says of how many batches the test is, and creates the net for the rest, which stays to be built
 * where the last batch is run: by net_build after the nets that it shares with. env: the first
 * net's, but for ranks, batch and notices; share: who has the parameters. */
int test_pass_set(struct test_pass *pass, int batches, const struct layer_env *env,
                  const struct net *share);

/* The net that runs batch b; how many of its samples are not of a second pass; and how many samples
 * further the next test begins. */
struct net *test_pass_net(const struct test_pass *pass, int b);
uint64_t test_pass_samples(const struct test_pass *pass, int b);
uint64_t test_pass_length(const struct test_pass *pass);

/* Length of a row: the outputs (outputs_count of the first net; what the rest has no sample for is
 * 0), 0, the losses one by one; then the weight of each of these numbers. */
size_t test_pass_width(const struct test_pass *pass);

/* Batch b of a test that begins at sample `first`, to which net_seek has brought the first net. */
int test_pass_run(const struct test_pass *pass, int b, uint64_t first, const struct pass *keys,
                  double *row);

/* The means of such rows, one for each batch, in one more row: the outputs, then the loss. */
void test_pass_mean(const struct test_pass *pass, const double *table, double *mean);

void test_pass_close(struct test_pass *pass);

#endif
