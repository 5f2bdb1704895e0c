/* A test of a net: a number of batches, and the means of their outputs.
 *
 * Where the batches go through the data once and the last of them would reach over the end into
 * records that were seen already, the last batch is a smaller one, of a second net that has the
 * first one's parameters. So each record counts once, whatever the net computes of a batch; the
 * means are over records. Other tests are Caffe's: means over batches. Not collective. */
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

/* Batch b of a test that begins at sample `first`, to which net_seek has brought the first net.
 * row: the outputs (outputs_count of the first net; what the rest has no sample for becomes 0),
 * then the loss. */
int test_pass_run(const struct test_pass *pass, int b, uint64_t first, const struct run *run,
                  double *row);

/* Whether batch b has output number k. */
bool test_pass_has(const struct test_pass *pass, int b, size_t k);

/* The means of such rows, one for each batch, in one more row. */
void test_pass_mean(const struct test_pass *pass, const double *table, double *mean);

void test_pass_close(struct test_pass *pass);

#endif
