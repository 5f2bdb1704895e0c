/* How well a net knows each class: what poseidon test --classes and --confusion print. */
#ifndef POSEIDON_COMMANDS_TEST_CLASSES_H
#define POSEIDON_COMMANDS_TEST_CLASSES_H

#include "commands/model.h"

#include <mpi.h>
#include <stdio.h>

/* All zero: nothing is counted. */
struct test_classes {
    const struct net *net;             /* borrowed */
    const struct blob *scores, *label; /* N x classes [x 1 x 1], N; borrowed from the net */
    int classes, batch;
    struct layer_images images; /* of the first data layer: its names of classes */
    float *values, *labels;     /* of one batch; owned */
    int64_t *counts; /* classes x classes, row: label, column: the best score; then per class
                        those with the label among the five best. Owned */
};

/* Finds the scores and labels that a layer of the net compares, before the net is built. Errors:
 * none compares them; labels are not one a sample. */
int test_classes_open(struct test_classes *t, const struct model *model);

/* After the net is built. */
int test_classes_start(struct test_classes *t);

/* Counts the first `n` samples of the batch that passed. Labels that are no class are left out. */
int test_classes_add(struct test_classes *t, int n);

/* Collective: all ranks' counts on all of them. */
int test_classes_gather(struct test_classes *t, MPI_Comm comm);

/* A table: samples, accuracy, accuracy of five, per class. */
void test_classes_print(const struct test_classes *t, FILE *to);

/* Labels by rows, classes by columns. */
int test_classes_write(const struct test_classes *t, const char *path);

void test_classes_close(struct test_classes *t);

#endif
