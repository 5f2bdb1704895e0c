/* A test of a net: a number of batches, and the means of their outputs.
 *
 * If the batches go through the data once, the last batch may reach over the end into records seen
 * already. Then a second net with the first net's parameters runs a smaller last batch: each record
 * counts once, and the means are over records, whatever the net computes of a batch. Other tests
 * are Caffe's: means over batches. by_labels weights a score or loss that is divided by the number
 * of scored labels by this number. Not collective. */
#ifndef POSEIDON_REPORT_TEST_PASS_H
#define POSEIDON_REPORT_TEST_PASS_H

#include "net/net.h"

struct test_pass {
    struct net *net;  /* net for whole batches; borrowed */
    struct net *rest; /* net for a smaller last batch; NULL: all batches are whole. Owned */
    char *unable; /* reason why `rest` cannot be made, though the last batch reaches over the end of
                     the data; else NULL. Owned */
    int batches;
    uint64_t batch;   /* samples of one batch */
    uint64_t records; /* records of the data; 0: endless data, or each rank has its own */
    bool by_labels;   /* means are over scored labels, not batches; set after test_pass_open */
};

/* Warning to print before the reason in `unable`. */
extern const char test_pass_twice[];

/* Reads facts of the data layers, before net_build; batches stays 0. nranks: ranks that test. */
int test_pass_open(struct test_pass *pass, struct net *net, int nranks);

/* Sets the number of batches; creates the net `rest` if the last is smaller. The rank that runs it
 * builds `rest` (net_build) after the nets that `rest` shares parameters with. env: the first
 * net's; rank, batch and notices are replaced. share: net that owns the parameters. */
int test_pass_set(struct test_pass *pass, int batches, const struct layer_env *env,
                  const struct net *share);

/* Return the net that runs batch b; the samples of batch b without those of a second pass over the
 * data; and the distance in samples to the next test's begin. */
struct net *test_pass_net(const struct test_pass *pass, int b);
uint64_t test_pass_samples(const struct test_pass *pass, int b);
uint64_t test_pass_length(const struct test_pass *pass);

/* Returns the length of a row: all outputs (0 for an output without samples in `rest`), a 0, each
 * loss, then the weight of each of these numbers. */
size_t test_pass_width(const struct test_pass *pass);

/* Runs batch b of a test that begins at sample `first`; net_seek has moved the first net there. */
int test_pass_run(const struct test_pass *pass, int b, uint64_t first, const struct pass *keys,
                  double *row);

/* Computes the means of the batches' rows in one more row: the outputs, then the loss. */
void test_pass_mean(const struct test_pass *pass, const double *table, double *mean);

void test_pass_close(struct test_pass *pass);

#endif
