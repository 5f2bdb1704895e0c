/* The nets that a solver names: one to train and any number to test, in Caffe's order
 * (docs/caffe.md 4). */
#ifndef POSEIDON_JOB_NETS_H
#define POSEIDON_JOB_NETS_H

#include "spec/netdef.h"

struct solver_nets {
    struct net_def *train;
    int ntests;
    struct net_def **tests;
    int *test_iter; /* batches per test, one per test net */
    int ndocs;
    struct text_doc **docs; /* documents that the definitions point into */
};

/* Reads and filters the net to train and, with `tests`, the test nets. Messages name the solver
 * file and field. Not collective. */
int solver_nets_load(const struct text_doc *solver_doc, const Caffe__SolverParameter *solver,
                     bool tests, struct solver_nets *out);

void solver_nets_free(struct solver_nets *nets);

#endif
